"""One meaning of values on every path: predicates, events, tables, JSON, Arrow, messages."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tidings import Event, ForwardingTable, Table, parse
from tidings.language.values import scalar
from tidings.matching.arrow_values import as_values
from tidings.matching.contract import events_of
from tidings.matching.matchers import MATCHERS

ZONES = [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))]
whole = st.integers(-(10**38) + 1, 10**38 - 1)

# What Arrow has a type for: the type, and Python's objects of it.
TYPED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.sampled_from(ZONES))),
    (pa.timestamp("s", "Asia/Tokyo"), st.datetimes(timezones=st.just(UTC)).map(
        lambda moment: moment.replace(microsecond=0))),
    (pa.time64("us"), st.times()),
    (pa.time32("s"), st.times().map(lambda moment: moment.replace(microsecond=0))),
    (pa.decimal128(20, 4), st.decimals(-(10**16) + 1, 10**16 - 1, places=4)),
    (pa.decimal128(12, 0), st.integers(-(10**12) + 1, 10**12 - 1).map(Decimal)),
    (pa.decimal128(38, 0), whole.map(Decimal)),
    (pa.decimal256(76, 0), st.integers(-(10**76) + 1, 10**76 - 1).map(Decimal)),
    (pa.decimal256(76, 30), st.decimals(-(10**46) + 1, 10**46 - 1, places=30)),
    (pa.uuid(), st.uuids()),
    (pa.binary(), st.binary(max_size=4)),
    (pa.duration("us"), st.timedeltas(timedelta(-99), timedelta(99))),
    (pa.dictionary(pa.int8(), pa.date32()), st.dates()),
    (pa.run_end_encoded(pa.int32(), pa.int64()), st.just(3)),
    (pa.string(), st.text(max_size=4)),
    (pa.float32(), st.floats(width=32)),
    (pa.float16(), st.floats(width=16)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.bool_(), st.booleans()),
]  # fmt: skip


def wrapped(kind: pa.DataType, shape: str) -> pa.DataType:
    """The type of a column that holds values of a type in some shape."""
    match shape:
        case "list":
            return pa.list_(kind)
        case "record":
            return pa.struct([("b", kind), ("unasked", pa.binary())])
        case "map":
            return pa.map_(pa.string(), kind)
        case _:
            return kind


def held(value: Any, shape: str) -> Any:
    """The same for one value."""
    match shape:
        case "list":
            return [value, None, value]
        case "record":
            return {"b": value, "unasked": b"x"}
        case "map":
            return [("b", value)]
        case _:
            return value


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, pa.Array, list[Any]]:
    """The attribute's name, a column, and the values in its rows as Python objects."""
    kind, strategy = draw(st.sampled_from(TYPED))
    values = draw(st.lists(st.none() | strategy, min_size=1, max_size=5))
    odd = isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType | pa.UuidType)
    shape = draw(st.sampled_from(["plain"] if odd else ["plain", "list", "record", "map"]))
    rows = [None if value is None else held(value, shape) for value in values]
    if isinstance(kind, pa.RunEndEncodedType):
        array = pa.compute.run_end_encode(pa.array(rows, kind.value_type), kind.run_end_type)
    elif pa.types.is_dictionary(kind):
        array = pa.array(rows, kind.value_type).dictionary_encode()
    elif isinstance(kind, pa.UuidType):
        raw = [None if value is None else value.bytes for value in values]
        rows = [None if value is None else held(value, shape) for value in raw]
        array = pa.array(rows, wrapped(kind, shape))
    else:
        array = pa.array(rows, wrapped(kind, shape))
    begin = draw(st.integers(0, len(values) - 1))
    return ("a" if shape in ("plain", "list") else "a.b"), array.slice(begin), values[begin:]


def _written(value: Any) -> str:
    if type(value) is str:
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if type(value) is bool else repr(value)


def telling(name: str, values: list[Any]) -> list[str]:
    """Predicates that tell the values of an attribute apart, as far as they can."""
    texts = [f"exists {name}", f"not exists {name}", f"exists {name} and z = 1"]
    texts += [f"exists {kind} {name}" for kind in ("int", "real", "string", "bool")]
    texts += [f"{name} like '%0%' or {name} matches '^2'", f"{name} icontains 'A'"]
    for value in map(scalar, values):
        fits = type(value) is not int or -(2**63) <= value < 2**63
        finite = type(value) is not float or abs(value) < float("inf")
        if value is not None and fits and finite:
            texts += [f"{name} = {_written(value)}", f"{name} != {_written(value)}"]
            if type(value) is not bool:
                texts += [f"{name} < {_written(value)}", f"{name} >= {_written(value)}"]
    return texts


@given(columns(), st.integers(0, 2))
@settings(max_examples=examples(150))
def test_arrow_means_what_pythons_objects_mean(
    column: tuple[str, pa.Array, list[Any]], engine: int
) -> None:
    name, array, values = column
    predicates = {n: parse(text) for n, text in enumerate(telling(name, values))}
    batch = pa.table({"a": array, "z": pa.array([1] * len(values))})
    events = [{name: value, "z": 1} for value in values]
    expected = sorted(
        (row, id)
        for row, event in enumerate(events)
        for id, predicate in predicates.items()
        if predicate.matches(event)
    )
    matcher = [Table(predicates), MATCHERS["scan"](predicates.items()), None][engine]
    if matcher is None:
        table = Table({-1: "true"})
        for id, predicate in predicates.items():
            table.add(id, predicate)
        table.remove(-1)
        matcher = table
    found = matcher.match_batch(batch)
    pairs = zip(*(found.column(c).to_pylist() for c in ("event", "subscription")), strict=True)
    assert sorted(pairs) == expected
    one_by_one = [(row, id) for row, event in enumerate(events) for id in matcher.match(event)]
    assert sorted(one_by_one) == expected
    laid = [(row, id) for row, event in enumerate(events) for id in matcher.match(Event(event))]
    assert sorted(laid) == expected
    rows = [(row, id) for row, e in enumerate(events_of(batch)) for id in matcher.match(e)]
    assert sorted(rows) == expected


@given(st.sampled_from(TYPED), st.data())
@settings(max_examples=examples(100))
def test_columns_and_objects_follow_one_rule(
    typed: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    kind, strategy = typed
    if isinstance(kind, pa.UuidType | pa.RunEndEncodedType) or pa.types.is_dictionary(kind):
        return
    values = data.draw(st.lists(st.none() | strategy, max_size=4))
    array = as_values(pa.array(values, kind))
    array.validate(full=True)
    wanted = [
        None if value is None else scalar(value) for value in pa.array(values, kind).to_pylist()
    ]
    found = [None if value is None else scalar(value) for value in array.to_pylist()]
    assert list(map(repr, found)) == list(map(repr, wanted))
    assert list(map(type, found)) == list(map(type, wanted))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_moments_beyond_pythons_years_are_absent(unit: str, zone: str | None) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    edges = [-62_135_596_800, 253_402_300_799]
    beyond = [edges[0] - 1, edges[1] + 1]
    numbers = [second * per_second for second in (*edges, *beyond)]
    if unit == "ns":  # 64 bits do not reach so far
        numbers = [-(2**63) + 1, 2**63 - 1]
    array = as_values(pa.array(numbers, pa.timestamp(unit, zone)))
    texts = array.to_pylist()
    assert [text is None for text in texts] == [False, False, True, True][: len(numbers)]
    assert texts[0].startswith("0001-01-01T00:00:00" if unit != "ns" else "1677-09-21T00:12:43.")
    batch = pa.table({"at": pa.array(numbers, pa.timestamp(unit, zone))})
    found = Table({1: "exists at"}).match_batch(batch).column("event").to_pylist()
    assert found == [0, 1]


def test_a_column_that_nobody_asks_about_never_matters() -> None:
    odd = {
        "raw": pa.array([b"x"]),
        "span": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        "by number": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())),
        "far": pa.array([2**62], pa.timestamp("s")),
        "either": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    }  # fmt: skip
    batch = pa.table({"x": [1], **odd})
    for asked in ("", *odd):
        more = f' and not exists "{asked}" and not exists "{asked}"."1"' if asked else ""
        for name, make in MATCHERS.items():
            found = make([("a", parse("x = 1" + more))]).match_batch(batch)
            assert found.num_rows == 1, (asked, name)
        forwarding = ForwardingTable({"a": "x = 1" + more})
        assert forwarding.forward_batch(batch).num_rows == 1


def test_dates_in_json_are_the_texts_that_dates_stand_for() -> None:
    """A predicate written for JSON events serves events of Python and of Arrow."""
    day, moment = date(2024, 2, 29), datetime(2024, 2, 29, 10, tzinfo=UTC)
    table = Table({1: "day >= '2024-02' and at < '2024-02-29T10:00:01' and clock < '12'"})
    event = {"day": day, "at": moment, "clock": time(9, 30), "id": UUID(int=1)}
    assert table.match(event) == [1]
    assert table.match_batch(pa.Table.from_pylist([event])).num_rows == 1
    text = '{"day": "2024-02-29", "at": "2024-02-29T10:00:00Z", "clock": "09:30"}'
    assert table.match(text) == [1]


def runs(values: list[Any], ends: list[int], kind: pa.DataType) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values, kind))


ODDLY_STORED = {
    "runs in records that may be null": (
        pa.StructArray.from_arrays(
            [runs([date(2024, 1, 1), None], [2, 3], pa.date32())],
            ["b"],
            mask=pa.array([False, True, False]),
        ),
        [{"b": "2024-01-01"}, None, {}],
    ),
    "runs of views": (
        pa.StructArray.from_arrays([runs(["x", "y"], [1, 3], pa.string_view())], ["b"]),
        [{"b": "x"}, {"b": "y"}, {"b": "y"}],
    ),
    "a dictionary of views": (
        pa.DictionaryArray.from_arrays([0, None, 1], pa.array(["x", "y"], pa.string_view())),
        ["x", None, "y"],
    ),
    "maps of views of bytes": (
        pa.array([[("b", b"x")], None, []], pa.map_(pa.string(), pa.binary_view())),
        [None, None, None],
    ),
    "maps that repeat a key, in lists": (
        pa.array(
            [[[("b", 1), ("b", 5)], [("b", 2)]], [[("b", 5), ("b", None)]], None],
            pa.list_(pa.map_(pa.string(), pa.int64())),
        ),
        [[{"b": 5}, {"b": 2}], None, None],
    ),
    "views of lists": (
        pa.array([["x"], None, ["y", None]], pa.list_view(pa.string())),
        ["x", None, "y"],
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Encountered key")  # by Arrow, where a map repeats a key
@pytest.mark.parametrize(("array", "plain"), ODDLY_STORED.values(), ids=ODDLY_STORED.keys())
@pytest.mark.parametrize("matcher", MATCHERS)
def test_the_way_in_which_arrow_stores_values_never_matters(
    array: pa.Array, plain: list[Any], matcher: str
) -> None:
    texts = ["a = 'x'", "a.b = 'x' or a.b > '2'", "a.b = 5", "a.b = 1", "a.b = 2", "a.b is null"]
    texts += ["a matches 'y' or a.b matches 'y'", "exists a", "not exists a and z = 1"]
    held = [(n, parse(text)) for n, text in enumerate(texts)]
    for begin in range(3):
        batch = pa.table({"a": array.slice(begin), "z": [1, 1, 1][begin:]})
        events = [{"a": value, "z": 1} for value in plain[begin:]]
        expected = [(row, n) for row, e in enumerate(events) for n, p in held if p.matches(e)]
        found = MATCHERS[matcher](held).match_batch(batch)
        pairs = zip(*(found.column(c).to_pylist() for c in ("event", "subscription")), strict=True)
        assert sorted(pairs) == expected


def with_months(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with each column of 32-bit integers, at any depth, as one of months.

    PyArrow cannot make such columns, but gets them from others, as from Spark.
    """
    from pyarrow.cffi import ffi

    schema, array = ffi.new("struct ArrowSchema*"), ffi.new("struct ArrowArray*")
    places = [int(ffi.cast("uintptr_t", pointer)) for pointer in (array, schema)]
    batch._export_to_c(*places)
    months = ffi.new("char[]", b"tiM")
    fields = [schema]
    while fields:
        field = fields.pop()
        if ffi.string(field.format) == b"i":
            field.format = months
        fields += [field.children[at] for at in range(field.n_children)]
        if field.dictionary:
            fields.append(field.dictionary)
    return pa.RecordBatch._import_from_c(*places)


def test_intervals_of_months_are_absent_at_any_depth() -> None:
    month = pa.int32()
    record = pa.struct({"m": month, "x": pa.int64()})
    rows: dict[str, tuple[list[Any], pa.DataType]] = {
        "n": ([1, 2, 3], pa.int64()),
        "top": ([1, None, 2], month),
        "r": ([{"m": 1, "x": 1}, None, {"m": None, "x": 3}], record),
        "l": ([[1], None, []], pa.list_(month)),
        "f": ([[1, 2], None, [3, None]], pa.list_(month, 2)),
        "lr": ([[{"m": 1, "x": 1}], None, [None, {"m": 1, "x": 3}]], pa.large_list(record)),
        "fr": ([[{"m": 1, "x": 1}], None, [{"m": 1, "x": 3}]], pa.list_(record, 1)),
        "m": ([[("k", 1)], None, [("k", None)]], pa.map_(pa.string(), month)),
        "mr": ([[("k", {"m": 1, "x": 1})], None, []], pa.map_(pa.string(), record)),
        "keys": ([[(1, 1)], None, []], pa.map_(month, pa.int64())),
    }
    batch = pa.record_batch({name: pa.array(*column) for name, column in rows.items()})
    coded = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None], pa.int8()), pa.array([1, 2], month)
    )
    batch = batch.append_column("coded", coded)
    held = {
        1: "n >= 1",
        2: "r.x = 1 or lr.x = 3",
        3: "fr.x = 1 and mr.k.x = 1",
        4: "exists top or exists r.m or exists l or exists f or exists lr.m or exists m.k",
        5: "exists keys or exists coded or exists mr.k.m or exists fr.m",
        6: "not exists top and n = 2",
        7: "jms('n = 3')",  # a residual, which Python evaluates
    }
    table = Table(held)
    found = [(0, 1), (0, 2), (0, 3), (1, 1), (1, 6), (2, 1), (2, 2), (2, 7)]
    for months in (with_months(batch), pa.Table.from_batches([with_months(batch)] * 2)[:3]):
        columns = table.match_batch(months).to_pydict()
        assert sorted(zip(columns["event"], columns["subscription"], strict=True)) == found
    columns = table.match_batch(with_months(batch)[1:]).to_pydict()
    pairs = sorted(zip(columns["event"], columns["subscription"], strict=True))
    assert pairs == [(event - 1, id) for event, id in found if event]
