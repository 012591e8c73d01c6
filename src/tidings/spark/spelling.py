"""Names of columns and fields in the spelling that subscriptions use.

In most sessions Spark ignores the case of names (`spark.sql.caseSensitive`), and the language does
not. There a column `Severity` is the attribute `severity` of a subscription that asks about that.
Keys of maps, of JSON and of Variants are data: their case always counts. This file knows Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidings.matching.arrow_values import is_listed
from tidings.matching.contract import below
from tidings.spark.variants import is_variant


def asked_below(name: str, asked: Iterable[str], any_case: bool) -> frozenset[str]:
    """The rest of each name that goes through a field; empty for the field itself."""
    if not any_case:
        return below(name, asked)
    return frozenset(rest for names in _spellings(name, asked).values() for rest in names)


def spelled(array: pa.Array, asked: frozenset[str]) -> pa.Array:
    """A column of records with each field under all spellings that the names in `asked` use.

    Drops fields that nobody asks about, unless the empty name asks for all. Where several fields
    differ in case only, the one with the exact spelling counts.

    >>> spelled(pa.array([{"Host": {"Name": "a"}}]), frozenset({"host.name"})).to_pylist()
    [{'host': {'name': 'a'}}]
    """
    if array.offset and _differs(array.type, asked):
        array = pa.concat_arrays([array, array.slice(0, 0)])  # lists are rebuilt from their start
    return _renamed(array, asked)


def _spellings(name: str, asked: Iterable[str]) -> dict[str, set[str]]:
    """The ways in which names spell a field that they go through, each with the rests."""
    size, lower = len(name), name.lower()
    found: dict[str, set[str]] = {}
    for other in asked:
        if other[size : size + 1] in ("", ".") and other[:size].lower() == lower:
            found.setdefault(other[:size], set()).add(other[size + 1 :])
    return found


def _differs(kind: pa.DataType, asked: frozenset[str]) -> bool:
    """Whether a name spells a field in another way than the type does."""
    if is_variant(kind):
        return False
    if pa.types.is_struct(kind):
        for field in kind:
            for spelling, rests in _spellings(field.name, asked).items():
                if spelling != field.name or _differs(field.type, frozenset(rests)):
                    return True
        return False
    if pa.types.is_map(kind):
        return _differs(kind.item_type, below_keys(asked))
    return is_listed(kind) and _differs(kind.value_type, asked)


def _renamed(array: pa.Array, asked: frozenset[str]) -> pa.Array:
    kind = array.type
    if not _differs(kind, asked):
        return array
    if pa.types.is_struct(kind):
        columns: dict[str, pa.Array] = {}
        fields = [field.name for field in kind]
        for at, name in enumerate(fields):
            spellings = _spellings(name, asked)
            if "" in asked:
                spellings.setdefault(name, {""})
            for spelling, rests in spellings.items():
                if spelling == name or (spelling not in fields and spelling not in columns):
                    columns[spelling] = _renamed(array.field(at), frozenset(rests))
        return pa.StructArray.from_arrays(list(columns.values()), list(columns), mask=_nulls(array))
    if pa.types.is_map(kind):
        items = _renamed(array.items, below_keys(asked))
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, mask=_nulls(array))
    return _list(array, _renamed(array.values, asked))


def _list(array: Any, values: pa.Array) -> pa.Array:
    """A list column with other elements at the same places; Spark sends no other kind of lists."""
    make = pa.LargeListArray if pa.types.is_large_list(array.type) else pa.ListArray
    return make.from_arrays(array.offsets, values, mask=_nulls(array))


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def below_keys(asked: frozenset[str]) -> frozenset[str]:
    """The names below the keys of a map. A key may hold dots, so it may end at any of them."""
    return frozenset(
        {name[dot + 1 :] for name in asked for dot, c in enumerate(name) if c == "."} | {""}
    )
