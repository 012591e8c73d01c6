"""Arrow columns as values of the language, by the rule of `tidings.language.values`.

Dates, times and timestamps become texts, decimals become numbers, UUIDs become texts. A column
whose type stands for no value becomes a column of nulls, and so does a text that is not UTF-8,
which Arrow does not rule out. Law: an element of the result is what
`scalar` makes of the Python object that Arrow gives for it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.language.values import UTC_MARK

FIRST_DAY: Final = -719_162  # 1 January of the year 1, counted from 1970
LAST_DAY: Final = 2_932_896  # 31 December 9999
PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
MONTHS: Final = pa.lib.Type_INTERVAL_MONTHS
TYPES: Final = 256  # whose answers are remembered: a batch may have a thousand columns of few types
LONG_DIGITS: Final = 18  # any integer of so many digits fits 64 bits


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of text."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_listed(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of the lists that `flatten` opens."""
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


@lru_cache(maxsize=TYPES)
def is_known(kind: pa.DataType) -> bool:
    """Whether the values of a column of this type are values of the language as they are."""
    types = pa.types
    if types.is_struct(kind):
        return all(is_known(field.type) for field in kind)
    if types.is_map(kind):
        return is_text(kind.key_type) and is_known(kind.item_type)
    if is_listed(kind) or types.is_dictionary(kind):
        return is_known(kind.value_type)
    return bool(
        (is_text(kind) and not types.is_string_view(kind))  # Arrow cannot `take` from views
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )


def as_values(array: pa.Array) -> pa.Array:
    """The same column with values of the language, also in records and lists within it.

    >>> as_values(pa.array([0, None], pa.timestamp("ms", "Europe/Oslo"))).to_pylist()
    ['1970-01-01T00:00:00+00:00', None]
    """
    kind = array.type
    if is_known(kind) and is_sound(array):
        return array
    if isinstance(array, pa.ExtensionArray):
        return as_values(_stored(array))
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(array.run_ends.to_numpy(), rows, side="right")
        return as_values(array.values).take(pa.array(runs))
    if pa.types.is_dictionary(kind):
        # The children of a null record may have any index, also one into an empty dictionary.
        index, size = array.indices, len(array.dictionary)
        named = pc.and_(pc.greater_equal(index, 0), pc.less(index, size))
        return as_values(array.dictionary).take(pc.if_else(named, index, None))
    if pa.types.is_struct(kind):
        fields = [as_values(array.field(f)) for f in range(kind.num_fields)]
        return pa.StructArray.from_arrays(
            fields, [field.name for field in kind], mask=array.is_null()
        )
    if pa.types.is_map(kind):
        if not is_text(kind.key_type):
            return pa.nulls(len(array))
        offsets, begin, end = _offsets(array)
        keys, items = (
            as_values(part.slice(begin, end - begin)) for part in (array.keys, array.items)
        )
        if keys.null_count:  # a key that is not UTF-8 names nothing
            named = keys.is_valid()
            before = np.concatenate(([0], np.cumsum(named.to_numpy(zero_copy_only=False))))
            offsets = pa.array(before[offsets.to_numpy()].astype(np.int32))
            keys, items = keys.filter(named), items.filter(named)
        return pa.MapArray.from_arrays(offsets, keys, items, mask=array.is_null())
    if is_listed(kind):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))
        return pa.LargeListArray.from_arrays(
            offsets, as_values(array.flatten()), mask=array.is_null()
        )
    return _scalars(array)


def _scalars(array: pa.Array) -> pa.Array:
    """A column of scalars of a type that the language does not have."""
    kind, types = array.type, pa.types
    if is_text(kind):
        if types.is_string_view(kind):
            array = array.cast(pa.large_string())
        if is_sound(array):
            return array
        texts = (text if type(text) is str else None for text in raw_texts(array))
        return pa.array(texts, pa.large_string())
    if is_known(kind):
        return array
    if types.is_date(kind):
        days = array.cast(pa.date32(), safe=False) if types.is_date64(kind) else array
        return _within(days.cast(pa.int32()), days, FIRST_DAY, LAST_DAY).cast(pa.string())
    if types.is_timestamp(kind):
        per_day = PER_DAY[kind.unit]
        first, last = FIRST_DAY * per_day, (LAST_DAY + 1) * per_day - 1
        known = _within(array.cast(pa.int64()), array, first, last)
        text = known.cast(pa.timestamp(kind.unit)).cast(pa.string())
        text = _short(pc.replace_substring(text, " ", "T"), kind.unit)
        return text if kind.tz is None else pc.binary_join_element_wise(text, UTC_MARK, "")
    if types.is_time(kind):
        return _short(array.cast(pa.string()), kind.unit)
    if types.is_decimal(kind):
        if kind.scale > 0:
            return array.cast(pa.string()).cast(pa.float64())  # by way of text: correctly rounded
        if kind.precision - kind.scale <= LONG_DIGITS:
            return array.cast(pa.int64())
        return _integers(array)
    return pa.nulls(len(array))


def is_sound(column: pa.Array | pa.RecordBatch) -> bool:
    """Whether every text in a column, or in all columns of a batch, is UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def raw_texts(column: Any) -> list[Any]:
    """The elements of a column; a text that is not UTF-8 as bytes."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return [_decoded(raw) for raw in column.cast(pa.large_binary()).to_pylist()]


def _decoded(raw: bytes | None) -> str | bytes | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return raw


# Intervals of months stand for no value, and PyArrow cannot open a column of them: it does not know
# the type. So they become nulls before anything looks at them.


def readable(batch: Any) -> Any:
    """A batch or a table with nulls for the intervals of months in it, at any depth."""
    if not any(map(_holds_months, batch.schema.types)):
        return batch
    if isinstance(batch, pa.Table):
        return pa.Table.from_batches(map(readable, batch.to_batches()))
    rows = without_months(batch.to_struct_array())
    return pa.RecordBatch.from_struct_array(rows)


def without_months(array: pa.Array) -> pa.Array:
    """A column with nulls for the intervals of months in it, at any depth."""
    kind: Any = array.type
    if not _holds_months(kind):
        return array
    size, mask = len(array), array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        fields = [
            pa.nulls(size) if field.type.id == MONTHS else without_months(array.field(at))
            for at, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(fields, names, mask=mask)
    if pa.types.is_map(kind) and not _holds_months(kind.key_type):
        offsets, begin, end = _offsets(array)
        keys = array.keys.slice(begin, end - begin)
        if kind.item_type.id == MONTHS:
            items = pa.nulls(len(keys))
        else:
            items = without_months(array.items.slice(begin, end - begin))
        return pa.MapArray.from_arrays(offsets, keys, items, mask=mask)
    if is_listed(kind):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        months = kind.value_type.id == MONTHS
        values = pa.nulls(int(ends[-1])) if months else without_months(array.flatten())
        return pa.LargeListArray.from_arrays(pa.array(ends), values, mask=mask)
    return pa.nulls(size)  # months themselves, as keys, or in a dictionary


@lru_cache(maxsize=TYPES)
def _holds_months(kind: Any) -> bool:
    types = pa.types
    if types.is_struct(kind):
        return any(_holds_months(field.type) for field in kind)
    if types.is_map(kind):
        return _holds_months(kind.key_type) or _holds_months(kind.item_type)
    if is_listed(kind) or types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _holds_months(kind.value_type)
    return bool(kind.id == MONTHS)


def _short(texts: pa.Array, unit: str) -> pa.Array:
    """Texts of moments in a unit, without the zeros that end a fraction."""
    return texts if unit == "s" else pc.replace_substring_regex(texts, r"\.?0*$", "")


def _within(numbers: pa.Array, array: pa.Array, first: int, last: int) -> pa.Array:
    """An array without the elements whose number is out of bounds."""
    limits = pc.min_max(numbers).as_py()
    if limits["min"] is None or (limits["min"] >= first and limits["max"] <= last):
        return array
    kept = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return pc.if_else(kept, array, pa.scalar(None, array.type))


def _integers(array: pa.Array) -> pa.Array:
    """Long decimals without a fraction as integers; as they are if some have more than 64 bits."""
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid:
        return array


def _stored(array: pa.Array) -> pa.Array:
    """A column of an extension type as it is stored; one of UUIDs as their texts."""
    if array.type.extension_name != "arrow.uuid":
        return array.storage
    held = array.storage.to_pylist()
    return pa.array([None if raw is None else str(UUID(bytes=raw)) for raw in held], pa.string())


def _offsets(array: Any) -> tuple[pa.Array, int, int]:
    """The offsets of a map from zero, and where its elements begin and end."""
    offsets = array.offsets.to_numpy()
    begin, end = int(offsets[0]), int(offsets[-1])
    return pa.array(offsets - offsets[0]), begin, end
