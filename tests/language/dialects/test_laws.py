"""The laws that every dialect must keep, over the dialects of `SUBJECTS`."""

import json
import pickle
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.dialects.cesql.subject import CESQL
from tests.language.dialects.eventbridge.subject import EVENTBRIDGE
from tests.language.dialects.harness import Record, Subject, Tree, pairs_of, seen_by, without_nulls
from tests.language.dialects.jms.subject import JMS
from tidings import (
    Event,
    NormalFormError,
    Predicate,
    PredicateError,
    Table,
    TranslationError,
    parse,
)

SUBJECTS = [EVENTBRIDGE, JMS, CESQL]

every_dialect = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)


def every_case(names: str, table: Callable[[Subject], Iterable[Any]]) -> pytest.MarkDecorator:
    """A test of every row of every dialect's table."""
    return pytest.mark.parametrize(
        f"subject, {names}",
        [
            pytest.param(subject, *row, id=f"{subject.name}: {spelled(subject, row[0]):.60}")
            for subject in SUBJECTS
            for row in table(subject)
        ],
    )


def spelled(subject: Subject, given: Tree | str) -> str:
    return given if isinstance(given, str) else subject.spell(given)


# By chance, against the oracles


@every_dialect
@given(data=st.data())
def test_a_predicate_means_what_the_oracle_says(subject: Subject, data: st.DataObject) -> None:
    (tree,), events = data.draw(subject.worlds(1, 1))
    text = subject.spell(tree)
    predicate = subject.parse(text)
    again = parse(str(predicate))
    assert again == predicate
    assert str(again) == str(predicate)
    test = subject.dialect.test(text)
    for event in events:
        expected = subject.matches(tree, event)
        assert predicate.matches(event) is expected
        assert predicate.matches(Event(event)) is expected
        assert again.matches(event) is expected
        assert test(event) is expected


@every_dialect
@given(data=st.data())
def test_a_table_finds_what_the_oracle_says(subject: Subject, data: st.DataObject) -> None:
    trees, events = data.draw(subject.worlds(0, 4))
    table = filled(subject, trees, one_by_one=data.draw(st.booleans()))
    for event in events:
        expected = [id for id, tree in enumerate(trees) if subject.matches(tree, event)]
        assert sorted(table.match(event)) == expected
        assert sorted(table.match(Event(event))) == expected
    known = [event for event in events if all(map(subject.storable, event.values()))]
    batch = pa.table({"event": pa.array(map(json.dumps, known), pa.string())})
    found = pairs_of(table.match_batch(batch, json="event"))
    assert found == expected_pairs(subject, trees, known)


@every_dialect
@given(data=st.data())
def test_typed_columns_find_what_the_oracle_says(subject: Subject, data: st.DataObject) -> None:
    trees = data.draw(st.lists(subject.trees, max_size=4))
    rows = data.draw(st.lists(subject.rows, min_size=1, max_size=5))
    batch = pa.table(
        {
            name: pa.array([row[name] for row in rows], kind)
            for name, kind in subject.columns.items()
        }
    )
    table = filled(subject, trees, one_by_one=data.draw(st.booleans()))
    present = [without_nulls(row) for row in rows]
    assert pairs_of(table.match_batch(batch)) == expected_pairs(subject, trees, present)


def filled(subject: Subject, trees: list[Tree], one_by_one: bool) -> Table:
    """A table of trees: compiled at once, or of recent ones alone."""
    predicates = subject.predicates(trees)
    if not one_by_one:
        return Table(enumerate(predicates))
    table = Table()
    for id, predicate in enumerate(predicates):
        table.add(id, predicate)
    return table


def expected_pairs(
    subject: Subject, trees: list[Tree], events: list[Record]
) -> list[tuple[int, int]]:
    """The rows and subscriptions that a batch must find."""
    return [
        (row, id)
        for row, event in enumerate(events)
        for id, tree in enumerate(trees)
        if subject.matches(tree, event)
    ]


@every_dialect
@given(data=st.data())
def test_covering_and_overlap_are_sound(subject: Subject, data: st.DataObject) -> None:
    trees, events = data.draw(subject.worlds(2, 2))
    for (one, left), (other, right) in permutations(
        zip(trees, subject.predicates(trees), strict=True)
    ):
        covers, overlaps = False, True
        with suppress(NormalFormError):
            covers, overlaps = left.covers(right), left.intersects(right)
        both, either = left & right, left | right
        for event in events:
            first, second = subject.matches(one, event), subject.matches(other, event)
            assert first or not (second and covers)
            assert overlaps or not (first and second)
            assert both.matches(event) is (first and second)
            assert either.matches(event) is (first or second)


@every_dialect
@given(data=st.data())
def test_a_test_reads_only_the_attributes_that_it_names(
    subject: Subject, data: st.DataObject
) -> None:
    (tree,), events = data.draw(subject.worlds(1, 1))
    text = subject.spell(tree)
    test, names = subject.dialect.test(text), subject.dialect.names(text)
    assert names is not None
    for event in map(without_nulls, events):
        assert test(seen_by(names, event)) is test(event)


@every_dialect
@given(data=st.data())
def test_what_is_written_means_the_same(subject: Subject, data: st.DataObject) -> None:
    expression = data.draw(subject.expressions)
    events = data.draw(st.lists(subject.written_events, min_size=1, max_size=5))
    try:
        text = subject.dialect.write(expression)
    except TranslationError:
        return
    back = subject.parse(text)
    for event in events:
        assert back.matches(event) is Predicate(expression).matches(event)


@every_dialect
@given(data=st.data())
def test_any_text_is_read_or_refused(subject: Subject, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(subject.cases.WORDS), max_size=12))
    try:
        predicate = subject.parse(data.draw(st.sampled_from(["", " "])).join(words))
    except PredicateError:
        return
    assert parse(str(predicate)) == predicate


# By hand


@every_case("text, event, expected", lambda subject: subject.cases.EXAMPLES)
def test_examples(subject: Subject, text: str, event: Record, expected: bool) -> None:
    assert subject.parse(text).matches(event) is expected


@every_case("tree", lambda subject: ((tree,) for tree in subject.cases.PLAIN))
def test_plain_tests_on_every_kind_of_value(subject: Subject, tree: Tree) -> None:
    for asked in (tree,) if subject.negate is None else (tree, subject.negate(tree)):
        predicate = subject.parse(subject.spell(asked))
        for event in subject.plain_events:
            assert predicate.matches(event) is subject.matches(asked, event.source), event.source


@pytest.mark.slow
@every_case("text, event, expected", lambda subject: subject.cases.HOSTILE)
def test_hostile_predicates_take_linear_time(
    subject: Subject, text: str, event: Record, expected: bool
) -> None:
    assert subject.parse(text).matches(event) is expected


@every_case("text, event, expected", lambda subject: subject.cases.DEEP)
def test_deep_nesting_survives_the_way_to_another_process(
    subject: Subject, text: str, event: Record, expected: bool
) -> None:
    predicate = subject.parse(text)
    again = pickle.loads(pickle.dumps(predicate))
    assert again.matches(event) is predicate.matches(event) is expected


@every_case("text, line, column, expected", lambda subject: subject.cases.REFUSED)
def test_what_is_forbidden_is_refused_at_its_place(
    subject: Subject, text: str, line: int, column: int, expected: str
) -> None:
    with pytest.raises(PredicateError) as caught:
        subject.parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert expected in caught.value.summary


@every_case("text, ours", lambda subject: subject.cases.TRANSLATED)
def test_what_our_constraints_can_say_is_no_residual(
    subject: Subject, text: str, ours: str
) -> None:
    assert str(subject.parse(text)) == ours


@every_case("wide, narrow, covers", lambda subject: subject.cases.COVERING)
def test_covering_works_on_what_is_translated(
    subject: Subject, wide: str, narrow: str, covers: bool
) -> None:
    assert subject.parse(wide).covers(subject.parse(narrow)) is covers


@every_case("ours, text", lambda subject: subject.cases.WRITTEN)
def test_writing(subject: Subject, ours: str, text: str) -> None:
    assert subject.dialect.write(parse(ours).expression) == text


@every_case("ours, reason", lambda subject: subject.cases.UNSAYABLE)
def test_what_a_dialect_cannot_say_is_refused_with_the_reason(
    subject: Subject, ours: str, reason: str
) -> None:
    with pytest.raises(TranslationError) as caught:
        subject.dialect.write(parse(ours).expression)
    assert caught.value.dialect == subject.name
    assert reason in str(caught.value)
