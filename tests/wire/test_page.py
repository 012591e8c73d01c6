"""`docs/protocol.md` lists every message, number and code."""

from __future__ import annotations

import re
from typing import get_args

from tests.places import ROOT
from tidings.wire import messages as m
from tidings.wire.errors import CODES

PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")


def test_every_message_is_on_the_page_with_its_number() -> None:
    listed = {name: int(number) for name, number in re.findall(r"\| `(\w+)` \| (\d+) \|", PAGE)}
    there = {kind.__name__: kind.__struct_config__.tag for kind in get_args(m.Message)}
    assert listed == there


def test_every_code_is_on_the_page_with_its_meaning() -> None:
    section = PAGE.partition("## Codes of")[2]
    assert dict(re.findall(r"\| `([\w-]+)` \| (.+) \|", section)) == CODES
