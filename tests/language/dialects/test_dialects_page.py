"""docs/dialects.md is true: every example line in it is run."""

import json
import re

import pytest

from tests.places import ROOT
from tidings import Table, parse

PAGE = ROOT / "docs" / "dialects.md"


def lines() -> list[tuple[int, list[str]]]:
    """The lines of the blocks `examples`: dialect, predicate, event, answer."""
    found = []
    within = False
    for number, text in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), start=1):
        if text.startswith("```"):
            within = text == "```examples"
        elif within and text.strip():
            found.append((number, re.split(r"\s{2,}", text.strip())))
    return found


def test_the_page_has_examples() -> None:
    assert len(lines()) > 20


@pytest.mark.parametrize(("number", "columns"), lines(), ids=lambda value: str(value)[:40])
def test_the_example_is_true(number: int, columns: list[str]) -> None:
    dialect, text, event, answer = columns
    assert answer in ("yes", "no")
    predicate = parse(text, dialect=dialect)
    assert predicate.matches(json.loads(event)) is (answer == "yes"), f"line {number}"
    assert (~predicate).matches(event) is (answer == "no")
    assert Table({"it": predicate}).match(event) == (["it"] if answer == "yes" else [])
