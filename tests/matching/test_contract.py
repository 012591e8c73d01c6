"""How batches of Arrow become events, where that is a mistake, and how pairs become Arrow."""

from decimal import Decimal

import pyarrow as pa
import pytest

from tidings import EventError
from tidings.matching.contract import bytes_of, events_of, pairs_table


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
