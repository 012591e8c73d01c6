"""What only `jms` has: the collection of cases from elsewhere, and selectors written again."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.dialects.harness import Record
from tests.language.dialects.jms.oracle import spelled
from tests.language.dialects.jms.subject import JMS, events
from tests.language.dialects.sql_oracle import Tree
from tests.places import DATA
from tidings import PredicateError, TranslationError, parse
from tidings.language.dialects import jms

CASES = DATA / "jms-selectors" / "cases.jsonl"
# Cases of the collection that cannot pass, each with its reason: there are none.
EXCUSED: dict[str, str] = {}


@pytest.mark.skipif(not CASES.exists(), reason="../shared is absent")
def test_every_case_of_the_collection_passes_or_is_excused() -> None:
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    failed = {case["id"] for case in cases if outcome(case) != case["expected"]}
    assert failed == set(EXCUSED)
    assert len(cases) == 112


def outcome(case: dict[str, Any]) -> bool | str:
    """What the dialect makes of a case: a header field is an attribute beside the properties."""
    message = case["message"]
    try:
        predicate = parse(case["selector"], dialect="jms")
    except PredicateError:
        return "invalid"
    return predicate.matches(message["headers"] | message["properties"])


@given(JMS.trees, st.lists(events, min_size=1, max_size=4))
def test_a_selector_can_be_written_again(tree: Tree, events: list[Record]) -> None:
    predicate = parse(spelled(tree), dialect="jms")
    try:
        text = jms.write(predicate.expression)
    except TranslationError:  # integers past 2^53 are split by type, which cannot be said
        return
    for event in events:
        assert parse(text, dialect="jms").matches(event) is predicate.matches(event)
