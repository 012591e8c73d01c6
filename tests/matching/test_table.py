"""The table is exact for the whole language, through every change, in batches and from threads."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.language import oracle, strategies
from tidings import Event, Predicate, parse
from tidings.language.constraint import Constraint
from tidings.language.expression import Expression, conjoin
from tidings.matching.contract import Id
from tidings.matching.forwarding import ForwardingTable
from tidings.matching.scan import Scan
from tidings.matching.statistics import statistics_of
from tidings.matching.table import Table

subscription_sets = st.lists(strategies.expressions(size=4), min_size=1, max_size=12)


def laid_out(event: dict[str, Any]) -> dict[str, list[Any]]:
    """An event as the slow twin takes it."""
    flat = Event(event)
    return {n: list(v) if isinstance(v, tuple) else [v] for n, v in flat.items()}


@settings(max_examples=examples(50))
@given(subscription_sets, st.lists(strategies.flat_events, max_size=6))
def test_many_events_find_what_each_of_them_finds(
    expressions: list[Expression], events: list[dict[str, Any]]
) -> None:
    pairs = [(f"s{n}" if n % 2 else n, Predicate(e)) for n, e in enumerate(expressions)]
    expected = {
        place: found for place, one in enumerate(events) if (found := Scan(pairs).match(one))
    }
    for matcher in (Table(pairs), Scan(pairs)):
        each = matcher.match_each(events)
        assert list(each) == list(expected)
        assert {place: sorted(ids, key=str) for place, ids in each.items()} == {
            place: sorted(ids, key=str) for place, ids in expected.items()
        }


@given(subscription_sets, st.lists(strategies.flat_events, min_size=1, max_size=4))
def test_the_table_equals_the_slow_twin(
    expressions: list[Expression], events: list[dict[str, Any]]
) -> None:
    table = Table((number, Predicate(e)) for number, e in enumerate(expressions))
    for event in events:
        expected = [n for n, e in enumerate(expressions) if oracle.holds(e, laid_out(event))]
        assert sorted(table.match(event)) == expected


@given(
    subscription_sets,
    st.lists(strategies.flat_events, min_size=1, max_size=4),
    st.lists(strategies.flat_events, max_size=8),
)
def test_statistics_change_the_index_and_never_the_answer(
    expressions: list[Expression], events: list[dict[str, Any]], sample: list[dict[str, Any]]
) -> None:
    pairs = [(number, Predicate(e)) for number, e in enumerate(expressions)]
    table, told = Table(pairs), Table(pairs, statistics=statistics_of(sample))
    for event in events:
        assert sorted(told.match(event)) == sorted(table.match(event))


column_events = st.lists(
    st.fixed_dictionaries(
        {
            "x": st.one_of(st.none(), strategies.numbers.map(float)),
            "y": st.one_of(st.none(), strategies.texts),
            "z": st.one_of(st.none(), st.booleans()),
        }
    ),
    min_size=1,
    max_size=6,
)


@given(subscription_sets, column_events)
def test_a_batch_equals_its_events(
    expressions: list[Expression], events: list[dict[str, Any]]
) -> None:
    table = Table((number, Predicate(e)) for number, e in enumerate(expressions))
    schema = pa.schema({"x": pa.float64(), "y": pa.string(), "z": pa.bool_()})
    found = table.match_batch(pa.Table.from_pylist(events, schema))
    pairs = sorted(zip(*(found.column(i).to_pylist() for i in range(2)), strict=True))
    expected = sorted((row, id) for row, event in enumerate(events) for id in table.match(event))
    assert pairs == expected


@settings(max_examples=examples(50))
@given(st.data())
def test_changes_take_effect_at_once(data: st.DataObject) -> None:
    """Adds, removals and replacements in any order, with compilation between them or not."""
    table = Table()
    held: dict[int, Expression] = {}
    expressions = strategies.expressions(size=3)
    for _ in range(data.draw(st.integers(1, 12))):
        id = data.draw(st.integers(0, 5))
        if id not in held:
            held[id] = data.draw(expressions)
            table.add(id, Predicate(held[id]))
        elif data.draw(st.booleans()):
            del held[id]
            table.remove(id)
        else:
            held[id] = data.draw(expressions)
            table.replace(id, Predicate(held[id]))
        if data.draw(st.integers(0, 3)) == 0:
            table.compact()
        event = data.draw(strategies.flat_events)
        expected = sorted(n for n, e in held.items() if oracle.holds(e, laid_out(event)))
        assert sorted(table.match(event)) == expected
    assert len(table) == len(held)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "remove", "replace", "compile"]), strategies.expressions()
        ),
        max_size=30,
    ),
    st.sampled_from([lambda n: n, lambda n: 7 * n, lambda n: 10**12 - n, str, lambda n: -n]),
    strategies.flat_events,
)
def test_a_changing_table_finds_what_asking_each_predicate_finds(
    changes: list[tuple[str, Expression]], named: Callable[[int], Id], event: dict[str, Any]
) -> None:
    """For ids of any kind; small integers are their own numbers."""
    held: dict[Id, Expression] = {}
    table = Table({named(0): "x = 1"})
    held[named(0)] = parse("x = 1").expression
    for number, (change, expression) in enumerate(changes, 1):
        some = next(iter(held), None)
        if change == "add":
            table.add(named(number), Predicate(expression))
            held[named(number)] = expression
        elif change == "compile":
            table.compact()
            assert table._index.is_compact()
        elif some is not None and change == "remove":
            table.remove(some)
            del held[some]
        elif some is not None:
            table.replace(some, Predicate(expression))
            held[some] = expression
        expected = {id for id, asked in held.items() if oracle.holds(asked, laid_out(event), event)}
        found = table.match(event)
        assert len(found) == len(expected)
        assert set(found) == expected
    row = {"none of these": 1}
    found = table.match_batch(pa.table({"none of these": [1]})).column("subscription").to_pylist()
    asked_for = (id for id, asked in held.items() if oracle.holds(asked, laid_out(row), row))
    assert sorted(map(str, found)) == sorted(map(str, asked_for))


def test_threads_share_a_table() -> None:
    table = Table((n, f"x = {n % 100} and name prefix 'n{n % 7}'") for n in range(2_000))
    wrong: list[Any] = []

    def ask(start: int) -> None:
        for i in range(start, start + 300):
            event = {"x": i % 100, "name": f"n{i % 7}-"}
            expected = {n for n in range(2_000) if n % 100 == i % 100 and n % 7 == i % 7}
            if set(table.match(event)) != expected:
                wrong.append(event)

    threads = [threading.Thread(target=ask, args=(n * 1000,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_ids_are_kept_as_they_are() -> None:
    table = Table({"a": "x = 1", 7: "x = 1"})
    assert set(table.match({"x": 1})) == {"a", 7}
    table.add("7", "x = 1")
    assert set(table.match({"x": 1})) == {"a", 7, "7"}
    with pytest.raises(KeyError, match="in the table already"):
        table.add(7, "x = 2")
    with pytest.raises(KeyError, match="is not in the table"):
        table.remove("b")
    with pytest.raises(KeyError, match="is not in the table"):
        table.explain({"x": 1}, "b")
    assert table.explain({"x": 2}, "a").matches is False


@pytest.mark.slow
def test_predicates_past_the_bound_are_matched() -> None:
    hard = " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(20))
    table = Table({"hard": hard, "needs": f"kind = 'k' and {hard}", "easy": "kind = 'k'"})
    event: dict[str, Any] = {f"a{i}": 1 for i in range(20)}
    assert table.match(event) == ["hard"]
    assert set(table.match({**event, "kind": "k"})) == {"hard", "needs", "easy"}
    assert table.match({"kind": "k"}) == ["easy"]


def test_stats_count_what_is_there() -> None:
    stats = Table({1: "x = 1 and y = 2 or z = 3", 2: "x = 1"}).stats()
    assert (stats.subscriptions, stats.filters, stats.constraints) == (2, 3, 4)
    assert stats.bytes_per_constraint > 0
    assert Table().stats().subscriptions == 0
    assert Table().match({"x": 1}) == []


def test_nested_columns_are_attributes() -> None:
    table = Table(
        {
            "struct": "host.name prefix 'web'",
            "list": "tags = 'b' and tags = 'c'",
            "map": "labels.env = 'prod'",
            "records": "parts.id = 3",
            "code": "colour = 'red'",
            "negated": "not tags = 'a'",
        }
    )
    batch = pa.table(
        {
            "host": pa.array([{"name": "web-1"}, None, {"name": None}]),
            "tags": pa.array([["b", "c"], ["b"], ["a", None]]),
            "labels": pa.array([[("env", "prod")], [], None], pa.map_(pa.string(), pa.string())),
            "parts": pa.array([[{"id": 3}, {"id": 4}], None, []]),
            "colour": pa.array(["red", None, "blue"]).dictionary_encode(),
            "unused": pa.array([b"x", b"y", b"z"]),
        }
    )
    found = table.match_batch(batch).to_pylist()
    by_row: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
    for pair in found:
        by_row[pair["event"]].add(pair["subscription"])
    assert by_row[0] == {"struct", "list", "map", "records", "code", "negated"}
    assert by_row[1] == {"negated"}
    assert by_row[2] == set()


def test_nulls_within_a_dictionary_are_absent() -> None:
    table = Table({"one": "x = 1", "text": "t = 'a'", "neither": "not exists x and not exists t"})
    batch = pa.table(
        {
            "x": pa.DictionaryArray.from_arrays([0, 1, None], pa.array([1, None])),
            "t": pa.DictionaryArray.from_arrays([1, 0, 0], pa.array([None, "a"])),
        }
    )
    found = table.match_batch(batch).to_pydict()
    assert found["event"] == [0, 0, 1, 2]
    assert sorted(found["subscription"][:2]) == ["one", "text"]
    assert found["subscription"][2:] == ["neither", "neither"]


def test_several_types_of_one_attribute_in_a_batch() -> None:
    table = Table({"both": "x = 1 and x = 'a'", "y": "y > 1", "z": "z suffix 'b' and x < 2"})
    events = ['{"x": [1, "a", true], "y": 2, "z": "ab"}', '{"x": "a", "y": "b", "z": 3}']
    found = table.match_batch(pa.table({"event": events}), json="event").to_pydict()
    assert found["event"] == [0, 0, 0]
    assert sorted(found["subscription"]) == ["both", "y", "z"]


def test_large_unsigned_integers_are_exact() -> None:
    table = Table({"above": "x > 9223372036854775807", "equal": "x = 9223372036854775807"})
    batch = pa.table({"x": pa.array([2**63, 2**63 - 1, 2**64 - 1], pa.uint64())})
    found = table.match_batch(batch).to_pydict()
    assert found == {"event": [0, 1, 2], "subscription": ["above", "equal", "above"]}
    for value in (2**63, 2**64 - 1, 2**70):
        assert table.match({"x": value}) == ["above"]


def test_parse_is_what_adding_text_does() -> None:
    assert Table({1: "x = 1"}).match({"x": 1}) == Table({1: parse("x = 1")}).match({"x": 1})


ranges = st.lists(
    st.builds(
        Constraint,
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from(["<", ">=", "between"]),
        st.just("number"),
        st.just(False),
        st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda p: (min(p), max(p))),
    ).map(lambda c: c if c.operator == "between" else c._replace(operand=c.operand[0])),  # type: ignore[index]
    min_size=1,
    max_size=4,
)


@given(
    st.lists(ranges, min_size=1, max_size=150),
    st.lists(
        st.dictionaries(
            st.sampled_from(["x", "y", "z"]),
            st.one_of(st.integers(-2, 32), st.floats(0, 30), st.lists(st.integers(0, 30))),
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_ranges_held_in_blocks_are_exact(
    filters: list[list[Constraint]], events: list[dict[str, Any]]
) -> None:
    table = Table((n, Predicate(conjoin(f))) for n, f in enumerate(filters))
    for event in events:
        expected = [n for n, f in enumerate(filters) if oracle.holds(conjoin(f), laid_out(event))]
        assert sorted(table.match(event)) == expected


small_values = st.one_of(st.integers(0, 9), st.integers(0, 9).map("t{}".format))
numbers_or_lists = st.one_of(st.none(), small_values, st.lists(small_values, max_size=3))


@given(
    st.lists(
        st.lists(
            st.builds(
                lambda name, low, high, text: (
                    Constraint(name, "=", "string", False, f"t{low}")
                    if text
                    else Constraint(
                        name, "between", "number", False, (min(low, high), max(low, high))
                    )
                ),
                st.sampled_from("abcdefg"),
                st.integers(0, 9),
                st.integers(0, 9),
                st.booleans(),
            ),
            min_size=2,
            max_size=7,
        ),
        min_size=1,
        max_size=80,
    ),
    st.lists(st.fixed_dictionaries(dict.fromkeys("abcdefg", numbers_or_lists)), max_size=70),
)
@settings(max_examples=examples(50))
def test_many_events_at_once_find_in_blocks_what_each_finds(
    filters: list[list[Constraint]], events: list[dict[str, Any]]
) -> None:
    table = Table((n, Predicate(conjoin(f))) for n, f in enumerate(filters))
    texts = pa.table({"event": pa.array(map(json.dumps, events), pa.string())})
    found = table.match_batch(texts, json="event")
    pairs = sorted(zip(*(found.column(i).to_pylist() for i in range(2)), strict=True))
    expected = [
        (row, n)
        for row, event in enumerate(events)
        for n, f in enumerate(filters)
        if oracle.holds(conjoin(f), laid_out(event))
    ]
    assert pairs == expected
    assert expected == sorted((row, id) for row, e in enumerate(events) for id in table.match(e))


def test_long_spans_of_exact_filters_are_found_by_every_call() -> None:
    bounds = [f"x {sign} {n}" for n in range(60) for sign in ("<", ">")]
    texts = [f"name >= 'n{n:02}'" for n in range(60)]
    more = ["x > 3 and name prefix 'n'", "x > 5 and name like '%1_'", "not x > 30", "x in (7, 31)"]
    pairs = [(f"s{n}", parse(text)) for n, text in enumerate(bounds + texts + more)]
    events: list[dict[str, Any]] = [
        {}, {"x": 31}, {"x": 7, "name": "n10"}, {"x": [2, 50], "name": "n59x"},
        {"name": ["n00", "n33"]}, {"x": None}, {"x": 59.5, "name": "zz"},
    ]  # fmt: skip

    def expected(event: dict[str, Any], held: list[tuple[str, Predicate]]) -> list[str]:
        return sorted(id for id, predicate in held if predicate.matches(event))

    def check(table: Table, held: list[tuple[str, Predicate]]) -> None:
        rows = [sorted(table.match(event)) for event in events]
        assert rows == [expected(event, held) for event in events]
        column = pa.table({"event": [json.dumps(event) for event in events]})
        found = table.match_batch(column, json="event").to_pylist()
        assert sorted((pair["event"], pair["subscription"]) for pair in found) == [
            (row, id) for row, ids in enumerate(rows) for id in ids
        ]

    table = Table(pairs)
    check(table, pairs)
    numbered = Table((number, predicate) for number, (_, predicate) in enumerate(pairs))
    assert [sorted(f"s{n}" for n in numbered.match(e)) for e in events] == [
        expected(e, pairs) for e in events
    ]
    table.remove("s7")
    held = [pair for pair in pairs if pair[0] != "s7"]
    check(table, held)
    table.add("late", "x > 0 and name prefix 'n1'")
    held.append(("late", parse("x > 0 and name prefix 'n1'")))
    check(table, held)
    forwarding = ForwardingTable(pairs)
    for event in events:
        allowed = {id for id, _ in pairs[::3]}
        assert sorted(forwarding.forward(event, allowed)) == [
            id for id in expected(event, pairs) if id in allowed
        ]
