"""How batches of Arrow become events, where that is a mistake, and how pairs become Arrow."""

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidings import EventError
from tidings.matching.contract import bytes_of, events_of, pairs_table

FOREIGN = [pa.date32(), pa.timestamp("us"), pa.decimal128(10, 2), pa.binary(), pa.duration("s")]


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
@pytest.mark.parametrize(
    ("wrap", "asked", "not_asked"),
    [
        (lambda t: t, "c", ["b", "c.x", "cc"]),
        (lambda t: pa.list_(t), "c", ["c.x"]),
        (lambda t: pa.dictionary(pa.int8(), t), "c", ["c.x"]),
        (lambda t: pa.struct([("x", t), ("y", pa.int64())]), "c.x", ["c", "c.y", "c.x.z"]),
        (lambda t: pa.list_(pa.struct([("x.y", t)])), "c.x.y", ["c", "c.x"]),
        (lambda t: pa.map_(pa.string(), t), "c.any.key", ["c", "b.any"]),
        (lambda t: pa.map_(pa.string(), pa.struct([("x", t)])), "c.any.x", ["c", "c.any", "c.x"]),
    ],
)
def test_a_foreign_type_is_named_where_it_is_asked_about(
    foreign: pa.DataType, wrap: Any, asked: str, not_asked: list[str]
) -> None:
    batch = pa.table({"c": pa.nulls(2, wrap(foreign))})
    assert len(list(events_of(batch, not_asked))) == 2
    message = f"column 'c': expected .* found the type {re.escape(str(foreign))}; cast it"
    with pytest.raises(EventError, match=message):
        list(events_of(batch, [*not_asked, asked]))


def test_a_map_whose_keys_are_no_names_is_a_mistake_where_it_is_asked_about() -> None:
    batch = pa.table({"c": pa.nulls(1, pa.map_(pa.int64(), pa.int64()))})
    assert list(events_of(batch, ["c"])) == [{}]
    with pytest.raises(EventError, match="found the type map<int64, int64"):
        list(events_of(batch, ["c.1"]))


def test_only_columns_asked_about_are_read() -> None:
    batch = pa.table({"a": [1, 2], "b": [{"x": 1}, None], "c": [Decimal(1), None]})
    assert list(events_of(batch, {"b.x"})) == [{"b": {"x": 1}}, {}]
    assert list(events_of(batch, {"d"})) == [{}, {}]
    assert list(events_of(batch, ())) == [{}, {}]
    assert list(events_of(batch))[1] == {"a": 2}


def test_two_columns_of_one_name_are_a_mistake() -> None:
    batch = pa.table([[1], [2]], names=["a", "a"])
    with pytest.raises(EventError, match="two columns are named 'a'"):
        list(events_of(batch))


def test_ids_become_one_type_for_all_that_are_held() -> None:
    assert pairs_table([0], [5], [5, 6]).column("subscription").to_pylist() == [5]
    assert pairs_table([0], [5], [5, "a"]).column("subscription").to_pylist() == ["5"]
    assert pairs_table([0], [2**63], [2**63]).column("subscription").to_pylist() == [str(2**63)]
    assert pairs_table([], [], [5]).schema == pairs_table([0], [5], [5]).schema
    assert pairs_table([], [], ["a"]).schema == pairs_table([0], ["a"], ["a"]).schema


def test_bytes_are_counted_once_and_through_everything() -> None:
    text = "x" * 1000
    assert 1000 < bytes_of([text]) < bytes_of([[text, text]]) < 1300
    assert bytes_of(lambda: text) > 1000
