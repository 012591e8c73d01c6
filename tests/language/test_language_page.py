"""docs/language.md is normative: every example line in it is run."""

import json
import re
from typing import NamedTuple

import pytest

from tests.places import ROOT
from tidings import Event, parse

PAGE = ROOT / "docs" / "language.md"


class Line(NamedTuple):
    """An example: where it stands, its kind, and its columns."""

    number: int
    kind: str
    columns: list[str]


def lines() -> list[Line]:
    """The lines of the blocks `examples`, `covering` and `spelling`, split at runs of spaces."""
    found = []
    kind = ""
    for number, text in enumerate(PAGE.read_text().splitlines(), start=1):
        if text.startswith("```"):
            kind = text[3:].strip() if not kind else ""
        elif kind in ("examples", "covering", "spelling") and text.strip():
            found.append(Line(number, kind, re.split(r"\s{2,}", text.strip())))
    return found


def test_the_page_has_examples() -> None:
    assert len(lines()) > 80


@pytest.mark.parametrize("line", lines(), ids=lambda line: f"{line.kind}:{line.number}")
def test_the_example_is_true(line: Line) -> None:
    match line.kind:
        case "examples":
            predicate, event, answer = line.columns
            assert answer in ("yes", "no")
            for form in (json.loads(event), Event(json.loads(event))):
                assert parse(predicate).matches(form) is (answer == "yes")
            assert (~parse(predicate)).matches(json.loads(event)) is (answer == "no")
        case "covering":
            covering, covered, answer = line.columns
            assert parse(covering).covers(parse(covered)) is (answer == "yes")
        case _:
            text, canonical = line.columns
            assert str(parse(text)) == canonical
