"""The frame of dialects: residuals in text and algebra, dialects in files, the event as it came.

That every matcher takes residuals as `scan` does is part of the law of matching: the generators of
`strategies` draw them.
"""

import io
import json
import pickle
from typing import Any

import pytest

from tests.language import odd
from tidings import (
    BadSubscription,
    Event,
    PredicateError,
    Subscription,
    Table,
    TranslationError,
    parse,
    read_subscriptions,
)
from tidings.language.constraint import names_asked
from tidings.language.dialects import DIALECTS
from tidings.language.text import write


def test_every_dialect_reads_and_says_what_it_is() -> None:
    assert next(iter(DIALECTS)) == "tidings"
    for name, row in DIALECTS.items():
        assert row.about, name
    assert DIALECTS["tidings"].read("x = 1") == parse("x = 1").expression
    assert DIALECTS["tidings"].write(parse("X=1").expression) == "X = 1"


def test_an_unknown_dialect_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"expected a dialect \(tidings, .*\), found 'sql'"):
        parse("x = 1", dialect="sql")


def test_residuals_have_a_text_of_their_own() -> None:
    predicate = parse("x or it's", dialect="odd")
    assert str(predicate) == "odd('x') or odd('it''s')"
    assert parse(str(predicate)) == predicate
    assert str(parse("NOT odd ( 'x' ) and y=1")) == "not odd('x') and y = 1"
    assert parse("odd = 1 and odd in (1, 2)").matches({"odd": 1})  # no name is taken away


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("other('x')", "column 1: expected an operator"),
        ("tidings('x = 1')", "or a dialect with tests (eventbridge"),
        ("y = 1 and odd('x?')", "column 15: expected a test of odd, found an error in it (line"),
        ("odd('x'", "column 8: expected ), found the end of the text"),
        ("odd(x)", "column 5: expected a text"),
    ],
)
def test_mistakes_in_the_text_of_residuals_have_their_place(text: str, reason: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert reason in caught.value.summary


@pytest.mark.parametrize("lists", [True, False])
def test_a_residual_is_a_fact_of_its_own(lists: bool) -> None:
    x, y, both = parse("odd('x')"), parse("odd('y')"), parse("odd('x') and odd('y') and z = 1")
    assert x.covers(both, lists)
    assert not both.covers(x, lists)
    assert not x.covers(y, lists)
    assert not x.covers(~y, lists)
    assert x.intersects(y, lists)
    assert x.intersects(~y, lists)
    assert not x.intersects(~x, lists)
    assert parse("odd('x') and not odd('x')").filters == ()
    assert str(parse("odd('x') and z = 1 or odd('x')").reduce()) == "odd('x')"


def test_residuals_are_asked_about_the_event_as_it_came() -> None:
    nested = {"x": {"a": [1, 2], "b": None}, "y": 1}
    for text, expected in (("odd('x')", False), ("odd('')", True), ("odd('y') and y = 1", True)):
        predicate = parse(text)
        assert predicate.matches(nested) is expected
        assert predicate.matches(Event(nested)) is expected
        assert predicate.matches(json.dumps(nested)) is expected
        assert pickle.loads(pickle.dumps(predicate)).matches(nested) is expected
        assert bool(Table({"a": predicate}).match(nested)) is expected


def test_an_event_knows_what_it_was_made_from() -> None:
    nested: dict[str, Any] = {"x": [{"a": 1}, {"a": None}]}
    event = Event(nested)
    assert event.source is nested
    assert Event(event).source is nested
    assert Event(json.dumps(nested)).source == nested
    assert pickle.loads(pickle.dumps(event)).source == nested


def test_a_residual_names_what_it_looks_at() -> None:
    assert names_asked(odd.residual("x")) == {"x"}
    assert names_asked(odd.residual("")) == {""}  # all there is
    assert names_asked(parse("x = 1").expression) == {"x"}  # type: ignore[arg-type]


def test_an_explanation_says_what_a_residual_says() -> None:
    found = parse("odd('x') and not odd('y')").explain({"x": 1, "y": 2})
    assert [(f.holds, f.why) for f in found.findings] == [
        (True, "the test of odd holds"),
        (False, "the test of odd holds"),
    ]


def test_a_refusal_to_translate_survives_the_way_between_processes() -> None:
    error = TranslationError("jms", "x = 1", "no reason")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "jms cannot say x = 1: no reason"


# Files of subscriptions

CSV = b"""id,dialect,predicate
a,,x = 1
b,odd,x or y
c,tidings,x = 2
d,sql,x = 1
e,odd,x?
"""
JSONL = b"""{"id": "a", "predicate": "x = 1"}
{"id": "b", "predicate": "x or y", "dialect": "odd"}
{"id": "c", "predicate": "x = 2", "dialect": "tidings"}
{"id": "d", "predicate": "x = 1", "dialect": "sql"}
{"id": "e", "predicate": "x?", "dialect": "odd"}
"""


@pytest.mark.parametrize(("data", "format", "column"), [(CSV, "csv", 8), (JSONL, "jsonl", 28)])
def test_a_file_names_the_dialects_of_its_predicates(data: bytes, format: str, column: int) -> None:
    a, b, c, d, e = read_subscriptions(io.BytesIO(data), format)
    assert [str(one.predicate) for one in (a, b, c) if isinstance(one, Subscription)] == [
        "x = 1",
        "odd('x') or odd('y')",
        "x = 2",
    ]
    assert isinstance(d, BadSubscription)
    assert d.reason.startswith("expected a dialect (tidings, ")
    assert d.reason.endswith("found 'sql'")
    assert isinstance(e, BadSubscription)
    assert (e.column, e.reason) == (column, "expected a name, found '?'")


def test_the_dialect_of_a_file_is_that_of_predicates_which_name_none() -> None:
    (one,) = read_subscriptions(io.BytesIO(b"a  x or y\n"), "text", dialect="odd")
    assert isinstance(one, Subscription)
    assert write(one.predicate.expression) == "odd('x') or odd('y')"
    first, *_ = read_subscriptions(io.BytesIO(CSV), "csv", dialect="odd")
    assert isinstance(first, Subscription)
    assert str(first.predicate) == "odd('x = 1')"
    with pytest.raises(ValueError, match="expected a dialect"):
        list(read_subscriptions(io.BytesIO(b""), "text", dialect="sql"))


def test_a_predicate_that_is_json_may_stand_as_an_object() -> None:
    rows = (
        b'{"id": 1, "dialect": "eventbridge", "predicate": {"x": ["a", "a"], "y": [1]}}\n'
        b'{"id": 2, "dialect": "eventbridge", "predicate": {"x": ["a"], "y": 1}}\n'
        b'{"id": 3, "dialect": 7, "predicate": "x = 1"}\n'
        b'{"id": 4, "dialect": "eventbridge", "predicate": ["x"]}\n'
    )
    good, misplaced, no_dialect, no_object = read_subscriptions(io.BytesIO(rows), "jsonl")
    assert isinstance(good, Subscription)
    assert good.predicate == parse("x = 'a' and y = 1")
    assert isinstance(misplaced, BadSubscription)
    assert misplaced.column == rows.splitlines()[1].index(b"1}}") + 1
    assert misplaced.reason == "expected an object or an array of values, found a number"
    assert isinstance(no_dialect, BadSubscription)
    assert no_dialect.reason == 'expected text as "dialect", found an integer'
    assert isinstance(no_object, BadSubscription)
    assert no_object.reason == 'expected text as "predicate", found a list'
