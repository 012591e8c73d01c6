"""Ids are texts or integers: what is neither is refused where it comes in, by every table."""

from collections.abc import Callable
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from tidings import ForwardingTable, Predicate, Table, parse
from tidings.matching.matchers import MATCHERS

X = parse("x = 1")
BATCH = pa.table({"x": [1, 2]})


class Word(StrEnum):
    A = "a"


class Number(IntEnum):
    ONE = 1


NO_IDS: list[Any] = [
    ("a", 1),
    None,
    1.5,
    True,
    UUID(int=7),
    b"a",
    np.int64(3),
    np.str_("a"),
    Word.A,
]
NO_IDS += [Number.ONE, ["a"], object]


def added(make: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda id: make().add(id, X)


def given(make: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda id: make([("first", X), (id, X)])


DOORS: dict[str, Callable[[Any], Any]] = {
    "ForwardingTable": given(ForwardingTable),
    **{name: given(make) for name, make in MATCHERS.items()},
    **{f"{name}.add": added(make) for name, make in MATCHERS.items()},
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
@pytest.mark.parametrize("id", NO_IDS, ids=lambda id: type(id).__name__)
def test_an_id_that_is_neither_text_nor_an_integer_is_refused(
    door: Callable[[Any], Any], id: Any
) -> None:
    with pytest.raises(TypeError) as refusal:
        door(id)
    kind = type(id).__name__
    expected = f"expected an id that is text or an integer, found {id!r} ({kind})"
    assert str(refusal.value) == expected


def test_a_mapping_is_looked_at_too() -> None:
    for make in (Table, ForwardingTable):
        with pytest.raises(TypeError, match=r"found None \(NoneType\)"):
            make({None: "x = 1"})
    table = Table({"a": "x = 1"})
    with pytest.raises(TypeError, match=r"found 2\.5 \(float\)"):
        table.add(2.5, "x = 1")  # type: ignore[arg-type]
    assert len(table) == 1


@pytest.mark.parametrize("name", MATCHERS)
def test_a_batch_refuses_an_integer_and_a_text_that_would_be_one_text(name: str) -> None:
    matcher: Any = MATCHERS[name]([(1, X), ("1", X), ("a", X)])
    assert sorted(map(repr, matcher.match({"x": 1}))) == ["'1'", "'a'", "1"]
    for _ in range(2):
        with pytest.raises(ValueError, match="the ids 1 and '1' are the same text"):
            matcher.match_batch(BATCH)
    matcher.remove("1")
    assert sorted(matcher.match_batch(BATCH).column("subscription").to_pylist()) == ["1", "a"]
    matcher.add("1", X)
    with pytest.raises(ValueError, match="the ids 1 and '1' are the same text"):
        matcher.match_batch(BATCH)
    matcher.remove(1)
    assert sorted(matcher.match_batch(BATCH).column("subscription").to_pylist()) == ["1", "a"]
    matcher.add("-3", X)
    matcher.add(3, X)
    assert matcher.match_batch(BATCH).num_rows == 4


def test_forwarding_a_batch_refuses_them_too() -> None:
    predicates: dict[Any, Predicate] = {1: X, "1": X}
    table = ForwardingTable(predicates)
    assert sorted(map(repr, table.forward({"x": 1}))) == ["'1'", "1"]
    with pytest.raises(ValueError, match="the ids 1 and '1' are the same text"):
        table.forward_batch(BATCH)


def test_a_saved_table_keeps_them_apart(tmp_path: Path) -> None:
    Table({1: "x = 1", "1": "x = 1 or y = 1"}).save(tmp_path / "table")
    table = Table.load(tmp_path / "table")
    assert sorted(map(repr, table.match({"x": 1}))) == ["'1'", "1"]
    assert table.match({"y": 1}) == ["1"]
    with pytest.raises(ValueError, match="the ids 1 and '1' are the same text"):
        table.match_batch(BATCH)


def test_a_table_that_compiles_again_is_still_looked_at() -> None:
    table = Table(dict.fromkeys(range(10), "x = 1"))
    table.add("a", "x = 1")
    assert table.match_batch(BATCH).num_rows == 11
    table.add("5", "x = 1")
    with pytest.raises(ValueError, match="the ids 5 and '5' are the same text"):
        table.match_batch(BATCH)
    table.compact()
    with pytest.raises(ValueError, match="the ids 5 and '5' are the same text"):
        table.match_batch(BATCH)
    table.remove(5)
    assert table.match_batch(BATCH).num_rows == 11
