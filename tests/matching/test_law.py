"""The law of matching: every matcher finds the ids that asking each predicate would find.

One set of tests over `MATCHERS` and over counting with a map of counters. What a predicate means is
decided by the slow twin of the language, so `scan` is held to the law as well.
"""

import gzip
import io
import json
import lzma
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.json
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.language import oracle, strategies
from tests.places import DATA
from tidings import Event, EventError, Predicate, parse
from tidings.language.expression import Expression
from tidings.matching.contract import Id, Matcher
from tidings.matching.matchers import MATCHERS
from tidings.matching.rivals.counting import Counting

STOCKS = DATA / "padres-stockquotes"
LAWFUL: dict[str, Callable[..., Matcher]] = {
    **MATCHERS,
    "counting-map": partial(Counting, rounds=2, counters="map"),
}
# Those that can count the 214 million matches of the whole file.
FAST = MATCHERS.keys() & {"table"}

every_matcher = pytest.mark.parametrize("name", LAWFUL)


def holds(expression: Expression, event: Mapping[str, Any]) -> bool:
    """Whether an event satisfies an expression, by the slow twin."""
    flat = {n: [*v] if isinstance(v, tuple) else [v] for n, v in Event(event).items()}
    return oracle.holds(expression, flat, event)


def filled(name: str, expressions: list[Expression], bound: int = 4096) -> Matcher:
    """A matcher with the expressions, each under its place."""
    matcher = LAWFUL[name]()
    for id, expression in enumerate(expressions):
        matcher.add(id, Predicate(expression, bound))
    return matcher


def pairs_of(found: pa.Table) -> list[tuple[int, Id]]:
    """The pairs that `match_batch` gives, sorted."""
    assert found.schema.names == ["event", "subscription"]
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


# A bound of two filters leaves many predicates without a normal form.
bounds = st.sampled_from([4096, 4096, 2])
many_expressions = st.lists(strategies.expressions(), max_size=8)


@every_matcher
@given(many_expressions, st.lists(strategies.flat_events, min_size=1, max_size=4), bounds)
def test_flat_events_find_what_asking_each_predicate_finds(
    name: str, expressions: list[Expression], events: list[dict[str, Any]], bound: int
) -> None:
    matcher = filled(name, expressions, bound)
    for event in events:
        expected = [id for id, expression in enumerate(expressions) if holds(expression, event)]
        assert sorted(matcher.match(event)) == expected
        assert sorted(matcher.match(Event(event))) == expected


ALIKE = [1, 1.0, True, "1", 0, -0.0, False, "", 2**53, 2**53 + 1, float(2**53), 2**63, math.nan]


@every_matcher
def test_values_that_python_takes_for_equal_are_told_apart(name: str) -> None:
    tests = ["= 1", "= true", "= false", "= '1'", "= ''", "= 0", "= -0.0", "!= 1", "< 1", ">= 1"]
    tests += ["= 9007199254740993", "= 9007199254740992.0", "in (1, 9007199254740993)", "!= '1'"]
    texts = [f"{kind}x {test}" for kind in ("", "int ", "real ") for test in tests]
    readable = [t for t in texts if t[0] == "x" or not ("'" in t or "e" in t.partition("x ")[2])]
    expressions = [parse(no + t).expression for t in readable for no in ("", "not ")]
    matcher = filled(name, expressions)
    values: list[Any] = [None, [], *ALIKE, *([a, b] for a in ALIKE for b in ALIKE)]
    for event in ({"x": value} for value in values):
        expected = [id for id, expression in enumerate(expressions) if holds(expression, event)]
        assert sorted(matcher.match(event)) == expected


NESTED_NAMES = ["x", "r.x", "r.s.x", "r"]
nested_expressions = strategies.expressions(strategies.constraints(NESTED_NAMES))
nested_values = st.recursive(
    st.one_of(strategies.small_numbers, strategies.small_texts, st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["x", "s", "s.x"]), inner, max_size=3),
    ),
    max_leaves=8,
)
nested_events = st.dictionaries(
    st.sampled_from(["x", "r", "r.s", "r.x", "r.s.x"]), nested_values, max_size=4
)


@every_matcher
@given(
    st.lists(nested_expressions, max_size=6),
    st.lists(nested_events, min_size=1, max_size=4),
    bounds,
)
def test_nested_events_find_what_asking_each_predicate_finds(
    name: str, expressions: list[Expression], events: list[dict[str, Any]], bound: int
) -> None:
    matcher = filled(name, expressions, bound)
    expected = [
        [id for id, expression in enumerate(expressions) if holds(expression, event)]
        for event in events
    ]
    texts = [json.dumps(event) for event in events]
    for event, text, ids in zip(events, texts, expected, strict=True):
        assert sorted(matcher.match(event)) == ids
        assert sorted(matcher.match(text)) == ids
        assert sorted(matcher.match(text.encode())) == ids
    pairs = [(row, id) for row, ids in enumerate(expected) for id in ids]
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), "string")):
        batch = pa.table({"row": range(len(texts)), "event": pa.array(texts, kind)})
        assert pairs_of(matcher.match_batch(batch, json="event")) == pairs


# Subscriptions that come and go

ids = st.sampled_from([0, 1, 2, 3, "0", "a", "b", "c"])
json_events = st.dictionaries(
    st.sampled_from(strategies.NAMES),
    st.one_of(strategies.small_numbers, strategies.small_texts, st.booleans(), st.none()),
    max_size=3,
)


class Churn(RuleBasedStateMachine):
    """A matcher beside a dict of expressions."""

    name: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.matcher: Any = LAWFUL[self.name]()
        self.model: dict[Id, Expression] = {}

    def expected(self, event: dict[str, Any]) -> list[str]:
        return sorted(repr(id) for id, e in self.model.items() if holds(e, event))

    @rule(id=ids, expression=strategies.expressions(), bound=bounds)
    def add(self, id: Id, expression: Expression, bound: int) -> None:
        if id in self.model:
            with pytest.raises(KeyError, match="already"):
                self.matcher.add(id, Predicate(expression, bound))
        else:
            self.matcher.add(id, Predicate(expression, bound))
            self.model[id] = expression

    @rule(id=ids)
    def remove(self, id: Id) -> None:
        if id not in self.model:
            with pytest.raises(KeyError, match="not in the table"):
                self.matcher.remove(id)
        else:
            self.matcher.remove(id)
            del self.model[id]

    @precondition(lambda self: hasattr(self.matcher, "replace"))
    @rule(id=ids, expression=strategies.expressions(), bound=bounds)
    def replace(self, id: Id, expression: Expression, bound: int) -> None:
        if id in self.model:
            self.matcher.replace(id, Predicate(expression, bound))
            self.model[id] = expression

    @rule(event=strategies.flat_events)
    def match(self, event: dict[str, Any]) -> None:
        assert sorted(map(repr, self.matcher.match(event))) == self.expected(event)

    @rule(events=st.lists(json_events, max_size=3))
    def match_batch(self, events: list[dict[str, Any]]) -> None:
        batch = pa.table({"event": pa.array(map(json.dumps, events), pa.string())})
        if {0, "0"} <= self.model.keys():
            with pytest.raises(ValueError, match="the ids 0 and '0' are the same text"):
                self.matcher.match_batch(batch, json="event")
            return
        found = self.matcher.match_batch(batch, json="event")
        whole = bool(self.model) and all(type(id) is int for id in self.model)
        assert found.schema.field("subscription").type == (pa.int64() if whole else pa.string())
        expected = [
            (row, id if whole else str(id))
            for row, event in enumerate(events)
            for id, expression in self.model.items()
            if holds(expression, event)
        ]
        assert pairs_of(found) == sorted(expected)

    def teardown(self) -> None:
        assert self.matcher.stats().subscriptions == len(self.model)
        for id in self.model:
            self.matcher.remove(id)
        assert self.matcher.match({"x": 1}) == []
        assert self.matcher.stats()[:3] == (0, 0, 0)


@every_matcher
def test_subscriptions_that_come_and_go_leave_no_trace(name: str) -> None:
    machine = type("Churn", (Churn,), {"name": name})
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=25))


# Typed columns


class Column(NamedTuple):
    """A type of Arrow and the Python values of events that fit it."""

    type: pa.DataType
    values: st.SearchStrategy[Any]


integers = st.one_of(st.integers(-1, 4), st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63)]))
reals = st.one_of(
    st.sampled_from([-0.0, 0.5, 1.0, 1.5, 2.0, float(2**53), 1e300, 5e-324]),
    st.floats(),  # NaN and the infinities among them
)
SCALAR_COLUMNS = [
    Column(pa.int64(), integers),
    Column(pa.int8(), st.integers(-1, 4)),
    Column(pa.uint64(), st.one_of(st.integers(0, 4), st.sampled_from([2**63, 2**64 - 1]))),
    Column(pa.float64(), reals),
    Column(pa.float32(), st.one_of(st.sampled_from([0.5, 1.0, 2.0]), st.floats(width=32))),
    Column(pa.bool_(), st.booleans()),
    Column(pa.string(), strategies.texts),
    Column(pa.large_string(), strategies.texts),
    Column(pa.string_view(), strategies.texts),
    Column(pa.dictionary(pa.int32(), pa.string()), strategies.texts),
    Column(pa.dictionary(pa.int8(), pa.int64()), integers),
    Column(pa.null(), st.none()),
]


def _list_of(column: Column) -> Column:
    values = st.lists(st.one_of(column.values, st.none()), max_size=3)
    return Column(pa.list_(column.type), values)


def _struct_of(columns: dict[str, Column]) -> Column:
    fields = {name: st.one_of(st.none(), column.values) for name, column in columns.items()}
    kind = pa.struct([(name, column.type) for name, column in columns.items()])
    return Column(kind, st.fixed_dictionaries(fields))


def _map_of(column: Column) -> Column:
    keys = st.sampled_from(["x", "y", "s.x"])
    values = st.dictionaries(keys, st.one_of(st.none(), column.values), max_size=2)
    return Column(pa.map_(pa.string(), column.type), values)


scalar_columns = st.sampled_from(SCALAR_COLUMNS)
columns = st.recursive(
    scalar_columns,
    lambda inner: st.one_of(
        inner.map(_list_of),
        inner.map(_map_of),
        st.dictionaries(st.sampled_from(["x", "y", "s"]), inner, min_size=1, max_size=2).map(
            _struct_of
        ),
    ),
    max_leaves=3,
)
COLUMN_NAMES = ["x", "y", "r", "r.x"]
TYPED_NAMES = ["x", "y", "r", "r.x", "r.y", "r.s.x", "x.x"]
typed_expressions = strategies.expressions(strategies.constraints(TYPED_NAMES))


def arrow(value: Any, kind: pa.DataType) -> Any:
    """A value of an event as Arrow wants it: maps as pairs."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [arrow(element, kind.value_type) for element in value]
    if pa.types.is_map(kind):
        return [(key, arrow(element, kind.item_type)) for key, element in value.items()]
    if pa.types.is_struct(kind):
        return {name: arrow(element, kind.field(name).type) for name, element in value.items()}
    return value


@st.composite
def typed_batches(draw: st.DrawFn) -> tuple[list[dict[str, Any]], pa.Table]:
    """Events, and the same as a table with typed columns."""
    typed = draw(st.dictionaries(st.sampled_from(COLUMN_NAMES), columns, min_size=1, max_size=3))
    row = st.fixed_dictionaries({n: st.one_of(st.none(), c.values) for n, c in typed.items()})
    events = draw(st.lists(row, min_size=1, max_size=5))
    table = pa.table(
        {
            name: pa.array([arrow(event[name], column.type) for event in events], column.type)
            for name, column in typed.items()
        }
    )
    skipped = draw(st.integers(0, len(events) - 1))  # arrays may begin within others
    return events[skipped:], table.slice(skipped)


@every_matcher
def test_a_slice_with_views_and_structs_of_nulls_is_matched(name: str) -> None:
    matcher = LAWFUL[name]()
    matcher.add(1, parse("y matches 'a+'"))
    columns = {
        "y": pa.array(["b", "aa", None, "a"], pa.string_view()),
        "r": pa.array([None] * 4, pa.struct([("x", pa.null())])),
    }
    table = pa.table(columns).slice(1)
    assert pairs_of(matcher.match_batch(table)) == [(0, 1), (2, 1)]
    assert pairs_of(matcher.match_batch(table.to_batches()[0])) == [(0, 1), (2, 1)]


@every_matcher
@pytest.mark.parametrize("words", [[], ["a"]])
def test_an_index_below_a_null_record_names_nothing(name: str, words: list[str]) -> None:
    matcher = LAWFUL[name]()
    matcher.add(1, parse("exists r.x"))
    matcher.add(2, parse("not exists r.x"))
    coded = pa.DictionaryArray.from_arrays(
        pa.array([7, -1], pa.int32()), pa.array(words, pa.string()), safe=False
    )
    table = pa.table({"r": pa.StructArray.from_arrays([coded], ["x"], mask=pa.array([True] * 2))})
    assert pairs_of(matcher.match_batch(table)) == [(0, 2), (1, 2)]


@every_matcher
@given(typed_batches(), st.lists(typed_expressions, max_size=6), bounds)
def test_a_batch_finds_what_its_rows_find(
    name: str,
    batch: tuple[list[dict[str, Any]], pa.Table],
    expressions: list[Expression],
    bound: int,
) -> None:
    events, table = batch
    matcher = filled(name, expressions, bound)
    expected = [
        (row, id)
        for row, event in enumerate(events)
        for id, expression in enumerate(expressions)
        if holds(expression, event)
    ]
    assert sorted((row, id) for row, e in enumerate(events) for id in matcher.match(e)) == expected
    assert pairs_of(matcher.match_batch(table)) == expected
    (part,) = table.combine_chunks().to_batches()
    assert pairs_of(matcher.match_batch(part)) == expected
    in_pieces = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert pairs_of(matcher.match_batch(in_pieces)) == expected
    without_the_first = [(row - 1, id) for row, id in expected if row]
    assert pairs_of(matcher.match_batch(table.slice(1))) == without_the_first
    assert pairs_of(matcher.match_batch(part.slice(1))) == without_the_first
    assert pairs_of(matcher.match_batch(table.slice(0, 0))) == []


@every_matcher
def test_bad_json_in_a_column_is_placed(name: str) -> None:
    matcher = LAWFUL[name]()
    matcher.add("a", parse("x = 1"))
    batch = pa.table({"event": ['{"x": 1}', None, '{"x": ']})
    with pytest.raises(EventError, match="column 'event', row 2: not JSON"):
        matcher.match_batch(batch, json="event")
    assert pairs_of(matcher.match_batch(batch.slice(0, 2), json="event")) == [(0, "a")]
    with pytest.raises(EventError, match="column 'n': expected JSON text, found the type int64"):
        matcher.match_batch(pa.table({"n": [1]}), json="n")


# Ids and errors


@every_matcher
def test_ids_of_both_kinds_are_kept_as_they_are(name: str) -> None:
    matcher = LAWFUL[name]()
    wanted: list[Id] = [7, "7", 0, "", -1, 2**63 - 1, "ß"]
    for id in wanted:
        matcher.add(id, parse("x > 0 or y > 0"))
    found = matcher.match({"x": 1, "y": 1})
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    matcher.remove("7")
    assert 7 in matcher.match({"x": 1})
    assert "7" not in matcher.match({"x": 1})


@every_matcher
def test_ids_of_a_batch_have_one_type_whatever_is_found(name: str) -> None:
    matcher = LAWFUL[name]()
    batch = pa.table({"x": [1]})
    matcher.add(3, parse("x = 1"))
    assert matcher.match_batch(batch).schema.field("subscription").type == pa.int64()
    matcher.add("a", parse("x = 2"))
    assert matcher.match_batch(batch).column("subscription") == pa.chunked_array([["3"]])
    matcher.remove(3)
    assert matcher.match_batch(batch).schema.field("subscription").type == pa.string()


@every_matcher
def test_a_known_id_is_not_added_and_an_unknown_one_not_removed(name: str) -> None:
    matcher = LAWFUL[name]()
    matcher.add("a", parse("x = 1"))
    with pytest.raises(KeyError, match="the id 'a' is in the table already"):
        matcher.add("a", parse("x = 2"))
    with pytest.raises(KeyError, match="the id 'b' is not in the table"):
        matcher.remove("b")
    assert matcher.match({"x": 1}) == ["a"]
    assert matcher.match({"x": 2}) == []
    matcher.remove("a")
    with pytest.raises(KeyError, match="the id 'a' is not in the table"):
        matcher.remove("a")
    assert matcher.match({"x": 1}) == []


@every_matcher
def test_the_sizes_are_those_of_the_normal_forms(name: str) -> None:
    matcher = LAWFUL[name]()
    empty = matcher.stats()
    assert empty[:3] == (0, 0, 0)
    matcher.add("a", parse("x = 1 and y > 2 or z = 3"))
    matcher.add("b", parse("x = 1 and x = 1"))
    matcher.add("c", parse("x > 2 and not exists x"))
    stats = matcher.stats()
    assert stats[:3] == (3, 2 + 1 + 0, 3 + 1 + 0)
    assert stats.bytes > empty.bytes
    assert stats.bytes_per_constraint == stats.bytes / 4


# Stock quotes


class Stocks(NamedTuple):
    """The subscriptions of PADRES, its quotes, and how often each subscription matches them."""

    asked: list[list[tuple[str, str, Any]]]
    predicates: list[Predicate]
    quotes: pa.Table
    counts: list[int]


@pytest.fixture(scope="module")
def stocks() -> Stocks:
    if not STOCKS.exists():
        pytest.skip("the stock quotes are not beside the repository (shared/data)")
    operators = {"eq": "=", ">": ">", "<": "<"}
    asked = []
    with gzip.open(STOCKS / "subscriptions_10000.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            tests = json.loads(line)["predicates"]
            asked.append([(name, operators[operator], value) for name, operator, value in tests])
    predicates = [
        parse(" and ".join(f"{name} {operator} {value!r}" for name, operator, value in tests))
        for tests in asked
    ]
    raw = lzma.decompress((STOCKS / "stockquotes.jsonl.xz").read_bytes())
    quotes = pa.json.read_json(io.BytesIO(raw))
    counts = json.loads((STOCKS / "expected_counts.json").read_text(encoding="utf-8"))
    return Stocks(asked, predicates, quotes, counts["counts"])


def count_matches(name: str, stocks: Stocks, quotes: pa.Table) -> "np.ndarray[Any, Any]":
    """How many of the quotes each subscription matches."""
    matcher = LAWFUL[name]()
    for id, predicate in enumerate(stocks.predicates):
        matcher.add(id, predicate)
    counts = np.zeros(len(stocks.predicates), np.int64)
    for start in range(0, quotes.num_rows, 4096):
        found = matcher.match_batch(quotes.slice(start, 4096)).column("subscription")
        counts += np.bincount(found.to_numpy(), minlength=len(counts))
    return counts


@pytest.mark.slow
@every_matcher
def test_a_sample_of_the_stock_quotes_is_counted_right(name: str, stocks: Stocks) -> None:
    sample = stocks.quotes.take(np.arange(0, stocks.quotes.num_rows, 2500))
    values = {column: sample.column(column).to_numpy() for column in sample.column_names}
    compare: dict[str, Any] = {"=": np.equal, ">": np.greater, "<": np.less}
    expected = [
        np.all([compare[op](values[column], value) for column, op, value in tests], axis=0).sum()
        for tests in stocks.asked
    ]
    assert sum(expected) > 50_000
    assert count_matches(name, stocks, sample).tolist() == expected


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(FAST))
def test_all_stock_quotes_are_counted_right(name: str, stocks: Stocks) -> None:
    assert count_matches(name, stocks, stocks.quotes).tolist() == stocks.counts
