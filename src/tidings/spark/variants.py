"""Variants as values of the language: what Spark's open type holds, read from its bytes.

A Variant arrives in Arrow as a record of two byte strings: `value`, a tree of tagged values, and
`metadata`, the names of all fields in it. PySpark's own reader rounds long decimals, fails on dates
that Python does not have and on deep trees; Spark's `to_json` writes moments in the session's time
zone, and a real that is no number as a text. So Tidings reads the bytes itself. What it cannot read
stands for nothing, and so does what lies deeper than events may be.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from tidings.language.values import MAX_EVENT_DEPTH
from tidings.matching.arrow_values import as_values, is_listed, is_text

MARK: Final = {b"variant": b"true"}  # the metadata by which Arrow tells a Variant from a record
TOO_DEEP: Final = MAX_EVENT_DEPTH + 2  # events cut off what they do not take; this bounds the work
KNOWN_NAMES: Final = 1_024  # lists of names that a worker process keeps: rows often share one
UNREADABLE: Final = (IndexError, OverflowError, ValueError, struct.error)

_EPOCH: Final = datetime(1970, 1, 1)
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_DECIMAL_BYTES: Final = {8: 4, 9: 8, 10: 16}


def is_variant(kind: pa.DataType) -> bool:
    """Whether an Arrow type is that of a Variant."""
    return pa.types.is_struct(kind) and any(
        field.metadata and field.metadata.items() >= MARK.items() for field in kind
    )


def holds_variant(kind: pa.DataType) -> bool:
    """Whether there is a Variant in a type."""
    if pa.types.is_struct(kind):
        return is_variant(kind) or any(holds_variant(field.type) for field in kind)
    if pa.types.is_map(kind):
        return holds_variant(kind.item_type)
    return is_listed(kind) and holds_variant(kind.value_type)


def python_values(array: pa.Array) -> list[Any]:
    """The elements of a column as Python's objects, with the Variants in it decoded."""
    kind = array.type
    if not holds_variant(kind):
        return as_values(array).to_pylist(maps_as_pydicts="lossy")  # type: ignore[no-any-return]
    valid = array.is_valid().to_pylist()
    if is_variant(kind):
        values, metadata = (array.field(name).to_pylist() for name in ("value", "metadata"))
        rows = zip(valid, values, metadata, strict=True)
        return [decoded(value, names) if there else None for there, value, names in rows]
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        columns = [python_values(array.field(at)) for at in range(kind.num_fields)]
        records = zip(valid, zip(*columns, strict=True), strict=True)
        return [dict(zip(names, row, strict=True)) if there else None for there, row in records]
    offsets = array.offsets.to_pylist()
    first, count = offsets[0], offsets[-1] - offsets[0]
    inner: list[Any]
    make: Callable[[list[Any]], Any] = list
    if pa.types.is_map(kind):
        if not is_text(kind.key_type):
            return [None] * len(array)
        keys = as_values(array.keys.slice(first, count)).to_pylist()
        inner = list(zip(keys, python_values(array.items.slice(first, count)), strict=True))
        make = _record
    else:
        inner = python_values(array.values.slice(first, count))
    ends = zip(valid, offsets, offsets[1:], strict=False)
    return [make(inner[a - first : b - first]) if there else None for there, a, b in ends]


def _record(entries: list[Any]) -> dict[str, Any]:
    return {name: value for name, value in entries if name is not None}


def decoded(value: bytes, metadata: bytes) -> Any:
    """A Variant as Python's objects; None where it cannot be read."""
    try:
        return _read(value, 0, _names(metadata), TOO_DEEP)
    except UNREADABLE:
        return None


@lru_cache(maxsize=KNOWN_NAMES)
def _names(metadata: bytes) -> tuple[str | None, ...]:
    """The names of fields by number; None for one that is not UTF-8."""
    size = (metadata[0] >> 6) + 1
    count = _unsigned(metadata, 1, size)
    ends = [_unsigned(metadata, 1 + size * at, size) for at in range(1, count + 2)]
    start = 1 + size * (count + 2)
    return tuple(_text(metadata[start + a : start + b]) for a, b in pairwise(ends))


def _read(data: bytes, at: int, names: tuple[str | None, ...], depth: int) -> Any:
    """The value at an offset, which may be `depth` deep."""
    tag = data[at]
    sort, more = tag & 3, tag >> 2
    if sort == 1:
        return _text(data[at + 1 : at + 1 + more])
    if sort == 0:
        return _scalar(data, at + 1, more)
    if depth == 0:
        return None
    # An object is a count, numbers of names, offsets and values; a list has no names.
    is_object = sort == 2
    count_size = 4 if more >> (4 if is_object else 2) & 1 else 1
    count = _unsigned(data, at + 1, count_size)
    name_size = (more >> 2 & 3) + 1 if is_object else 0
    offset_size = (more & 3) + 1
    ids = at + 1 + count_size
    offsets = ids + count * name_size
    start = offsets + (count + 1) * offset_size
    if start > len(data):
        raise IndexError
    found = [
        _read(
            data, start + _unsigned(data, offsets + n * offset_size, offset_size), names, depth - 1
        )
        for n in range(count)
    ]
    if not is_object:
        return found
    keys = [names[_unsigned(data, ids + n * name_size, name_size)] for n in range(count)]
    return {key: held for key, held in zip(keys, found, strict=True) if key is not None}


def _scalar(data: bytes, at: int, sort: int) -> Any:
    """The scalar of a type whose content begins at an offset; None for null and unknown types."""
    match sort:
        case 1 | 2:
            return sort == 1
        case 3 | 4 | 5 | 6:
            return int.from_bytes(data[at : at + (1 << sort - 3)], "little", signed=True)
        case 7:
            return struct.unpack_from("<d", data, at)[0]
        case 14:
            return struct.unpack_from("<f", data, at)[0]
        case 8 | 9 | 10:
            digits = data[at + 1 : at + 1 + _DECIMAL_BYTES[sort]]
            return Decimal(f"{int.from_bytes(digits, 'little', signed=True)}E-{data[at]}")
        case 11:
            return _moment(
                lambda: date.fromordinal(_FIRST_DAY + struct.unpack_from("<i", data, at)[0])
            )
        case 12 | 13:
            micros = struct.unpack_from("<q", data, at)[0]
            moment = _moment(lambda: _EPOCH + timedelta(microseconds=micros))
            return moment.replace(tzinfo=UTC) if moment is not None and sort == 12 else moment
        case 16:
            size = _unsigned(data, at, 4)
            return _text(data[at + 4 : at + 4 + size])
        case 20:
            return UUID(bytes=data[at : at + 16])
        case _:
            return None


def _moment(make: Callable[[], Any]) -> Any:
    """A date or a moment; None outside the years that Python has."""
    try:
        return make()
    except (OverflowError, ValueError):
        return None


def _unsigned(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + size], "little")


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
