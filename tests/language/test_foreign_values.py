"""What objects stand for; and one that stands for no value never matters, whoever reads it."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tidings import Event, ForwardingTable, Table, parse
from tidings.language.values import scalar
from tidings.matching.matchers import MATCHERS

TEXT = "a > 2 or a.b = 1 or a like 'x%' or exists a or a.b.c icontains 'y'"
PREDICATE = parse(TEXT)
BESIDE = parse("z = 1")


class Unreadable(list[Any]):
    """A list that fails when it is read."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("gone")


class UnreadableRecord(Mapping[str, Any]):
    """A mapping that fails when it is read."""

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("gone")

    def __iter__(self) -> Iterator[str]:
        return iter(["b"])

    def __len__(self) -> int:
        return 1


class Elusive:
    """An object that fails when it is asked for an attribute."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("gone")


class Scalarlike:
    """An object that looks like a scalar of NumPy and is none."""

    dtype = "int64"
    shape = ()

    def item(self) -> Any:
        raise RuntimeError("gone")


class Colour(Enum):
    RED = "xred"
    PAIR = ("x1", 3)
    NONE = None


class Level(IntEnum):
    HIGH = 3


class Site(StrEnum):
    OSLO = "oslo"


class Rights(Flag):
    READ = 4


def _self_holding() -> dict[str, Any]:
    record: dict[str, Any] = {}
    record["b"] = record["c"] = record
    return record


def _deep(levels: int) -> Any:
    value: Any = 5
    for _ in range(levels):
        value = [value, value] if levels < 5 else [value]
    return value


_list: list[Any] = []
_list += [_list, _list]
FOREIGN = {
    "DataFrame": pd.DataFrame({"b": [1]}),
    "NaT": pd.NaT,
    "NA": pd.NA,
    "NaT of NumPy": np.datetime64("NaT"),
    "timedelta": timedelta(days=1),
    "timedelta64": np.timedelta64(5, "s"),
    "timedelta64 in nanoseconds": np.timedelta64(5, "ns"),
    "time with a zone": time(1, 2, tzinfo=UTC),
    "moment before the year 1": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
    "moment after the year 9999": datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5))),
    "datetime64 of the year 10000": np.datetime64("10000-01-01"),
    "void": np.void(b"a"),
    "array of bytes": np.array([b"a"]),
    "array of complex": np.array([1j]),
    "bytes": b"x",
    "bytearray": bytearray(b"x"),
    "memoryview": memoryview(b"x"),
    "bytes of NumPy": np.bytes_(b"x"),
    "class": np.float64,
    "deque": deque([1]),
    "complex": 5j,
    "fraction": Fraction(7, 2),
    "path": Path("x"),
    "range": range(3),
    "object": object(),
    "unreadable": Unreadable([1]),
    "unreadable record": UnreadableRecord(),
    "elusive": Elusive(),
    "scalarlike": Scalarlike(),
    "lone surrogate": "x\ud800",
    "lone surrogate in a record": {"b": {"c": "y\udfff"}},
    "record with other names": {1: 2, None: 3, "\ud800": 4},
    "record that holds itself": _self_holding(),
    "list that holds itself": _list,
    "deep list": _deep(101),
}
READERS: dict[str, Callable[[Any], Any]] = {
    "matches": lambda event: [i for i, p in (("x", PREDICATE), ("z", BESIDE)) if p.matches(event)],
    "matches on an Event": lambda event: [
        i for i, p in (("x", PREDICATE), ("z", BESIDE)) if p.matches(Event(event))
    ],
    "explain": lambda event: [
        i for i, p in (("x", PREDICATE), ("z", BESIDE)) if p.explain(event).matches
    ],
    "ForwardingTable": ForwardingTable({"x": PREDICATE, "z": BESIDE}).forward,
    "Table": Table({"x": PREDICATE, "z": BESIDE}).match,
    "dialects": Table(
        {
            "x": parse('{"a": [{"exists": true}]}', dialect="eventbridge"),
            "y": parse("a > 2 or a + 1 > 3 or a LIKE 'x%'", dialect="jms"),
            "v": parse("EXISTS a", dialect="cesql"),
            "z": parse("z = 1", dialect="jms"),
        }
    ).match,
    **{name: make([("x", PREDICATE), ("z", BESIDE)]).match for name, make in MATCHERS.items()},
}
recent = Table({"y": "y = 1"})
recent.add("x", PREDICATE)
recent.add("z", BESIDE)
READERS["recent subscriptions"] = recent.match


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
@pytest.mark.parametrize("value", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_stands_for_no_value_is_absent_and_spoils_nothing(
    reader: Callable[[Any], Any], value: Any
) -> None:
    assert reader({"a": value}) == []
    assert reader({"a": value, "z": 1}) == ["z"]
    assert reader({"a": [[], [value]], "z": 1, 7: 8}) == ["z"]
    assert reader({"unasked": value, "un.asked": {"x": [value]}, "z": 1}) == ["z"]
    if reader is not READERS["dialects"]:
        assert sorted(reader({"a": [5, value], "z": 1})) == ["x", "z"]


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_names_that_are_no_unicode_text_are_absent(reader: Callable[[Any], Any]) -> None:
    assert reader({"a\ud800": 5, 5: 5, None: 1, ("a",): 2, "z": 1}) == ["z"]


class Odd(float):
    """A real whose own conversion fails; it is a real all the same."""

    def __float__(self) -> float:
        raise RuntimeError("gone")


OSLO = timezone(timedelta(hours=2))
STANDS_FOR: list[tuple[Any, Any]] = [
    (np.float32(1.5), 1.5),
    (np.longdouble(1.5), 1.5),
    (np.int64(3), 3),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    (np.array(3), 3),
    (Odd(1.5), 1.5),
    (Colour.RED, "xred"),
    (Colour.NONE, None),
    (np.ma.masked, None),
    (MappingProxyType({"b": 1}), None),
    (Level.HIGH, 3),
    (Site.OSLO, "oslo"),
    (Rights.READ, 4),
    (date(2024, 2, 29), "2024-02-29"),
    (date(5, 1, 2), "0005-01-02"),
    (datetime(2024, 2, 29, 10), "2024-02-29T10:00:00"),
    (datetime(2024, 2, 29, 10, 0, 0, 500_000), "2024-02-29T10:00:00.5"),
    (datetime(2024, 2, 29, 10, tzinfo=UTC), "2024-02-29T10:00:00+00:00"),
    (datetime(2024, 3, 1, 1, tzinfo=OSLO), "2024-02-29T23:00:00+00:00"),
    (datetime(2024, 2, 29, 10, 0, 0, 10, UTC), "2024-02-29T10:00:00.00001+00:00"),
    (pd.Timestamp("2024-02-29 10:00:00.123456789"), "2024-02-29T10:00:00.123456789"),
    (pd.Timestamp("2024-02-29 10:00", tz="Europe/Oslo"), "2024-02-29T09:00:00+00:00"),
    (np.datetime64("2024-02-29"), "2024-02-29"),
    (np.datetime64("2024-02"), "2024-02-01"),
    (np.datetime64("2024-02-29T10"), "2024-02-29T10:00:00"),
    (np.datetime64("2024-02-29T10:00:00.500000000"), "2024-02-29T10:00:00.5"),
    (np.datetime64("2024-02-29T10:00:00", "ns"), "2024-02-29T10:00:00"),
    (time(1, 2), "01:02:00"),
    (time(1, 2, 3, 450_000), "01:02:03.45"),
    (Decimal("1.50"), 1.5),
    (Decimal("0.1"), 0.1),
    (Decimal("100.00"), 100.0),
    (Decimal(100), 100),
    (Decimal("1E+2"), 100),
    (Decimal(10**30), 10**30),
    (Decimal("1E+400"), float("inf")),
    (Decimal("1E+999999"), float("inf")),
    (Decimal("-Infinity"), -float("inf")),
    (UUID(int=0xAB), "00000000-0000-0000-0000-0000000000ab"),
    (np.array([1, 2]), (1, 2)),
    (np.array([]), None),
    (np.array([[1], [2]]), (1, 2)),
    (np.array([1.5]), 1.5),
    (np.array(["2024-02-29"], "M8[ns]"), "2024-02-29T00:00:00"),
    (np.array([{"b": 1}], dtype=object), None),
    (np.ma.array([1, 2], mask=[False, True]), 1),
    (pd.Series([pd.Timestamp("2024-02-29")]), "2024-02-29T00:00:00"),
    (pd.Index([1, 2]), (1, 2)),
    (pd.array([1, None], dtype="Int64"), 1),
    (Colour.PAIR, ("x1", 3)),
    ({1}, 1),
    (frozenset({"a"}), "a"),
    ((1, (2, [3])), (1, 2, 3)),
]


@pytest.mark.parametrize(("value", "plain"), STANDS_FOR, ids=lambda value: f"{value!r:.40}")
def test_an_object_stands_for_one_value_with_every_reader(value: Any, plain: Any) -> None:
    held = Event({"a": value}).get("a")
    assert (held, type(held)) == (plain, type(plain))
    for name, reader in READERS.items():
        given, same = {"a": value, "z": 1}, {"a": plain, "z": 1}
        if plain is None and not is_empty(value):
            same["a"] = {"b": 1}
        if name != "dialects" or plain is not None:
            assert sorted(reader(given)) == sorted(reader(same)), name


def is_empty(value: Any) -> bool:
    """Whether there is nothing in a value that stands for no scalar, not even a record."""
    return value is Colour.NONE or value is np.ma.masked or getattr(value, "size", 1) == 0


def test_nan_of_a_decimal_is_nan() -> None:
    for text in ("NaN", "sNaN", "-NaN"):
        assert scalar(Decimal(text)) != scalar(Decimal(text))


moments = st.datetimes(timezones=st.sampled_from([UTC, OSLO]) | st.none())


@given(moments, moments)
@settings(max_examples=examples(200))
def test_texts_of_moments_sort_as_time_does(one: datetime, other: datetime) -> None:
    if (one.tzinfo is None) == (other.tzinfo is None):
        texts = scalar(one), scalar(other)
        if None not in texts:
            assert (texts[0] < texts[1]) == (one < other)  # type: ignore[operator]
            assert (texts[0] == texts[1]) == (one == other)
