"""Turns Arrow batches into entries, the form in which the kernels read events.

Only columns that some subscription mentions are read. Structs and maps are records, lists hold
several values, and dictionary columns stay encoded. Each distinct text is located among the
constants once. At the end the entries of all columns are put in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.language.constraint import INT_MAX, INT_MIN
from tidings.language.errors import EventError
from tidings.language.folding import fold
from tidings.matching import column_kernels as ck
from tidings.matching import kernels as k
from tidings.matching.arrow_values import as_values, is_listed, is_text
from tidings.matching.contract import Batch
from tidings.matching.plan import Plan

Array = np.ndarray[Any, Any]
Part = tuple[Array, Array]  # the row of each entry, and the entries
NOTHING: Final = np.zeros(0, np.uint8)


class Leaf(NamedTuple):
    """Scalars of one attribute."""

    name: str
    values: pa.Array
    places: Array  # of the values that are not null
    rows: Array  # for each of these places, the row of the batch


class Rows(NamedTuple):
    """The entries of a batch, in the order of its rows."""

    begins: Array  # where the entries of each row begin, and where the last row ends
    entries: Array
    data: Array  # the bytes of the texts


def entries_of_batch(batch: Batch, plan: Plan) -> Rows:
    """The entries of a batch, for the attributes that the subscriptions of a plan mention."""
    return entries_of_leaves(leaves_of(batch, names_in(plan)), plan, batch.num_rows)


def names_in(plan: Plan) -> set[str]:
    """The attributes that the subscriptions of a plan mention."""
    return {name for name in plan.names if name and "\0" not in name} | set(plan.folded)


def entries_of_leaves(found_leaves: Iterable[Leaf], plan: Plan, count: int) -> Rows:
    """The entries of `count` rows, whose values come attribute by attribute."""
    leaves: dict[str, list[Leaf]] = {}
    for leaf in found_leaves:
        leaves.setdefault(leaf.name, []).append(leaf)
    columns = _Columns(plan, count)
    for name, found in leaves.items():
        if name in plan.names:
            columns.take(found, plan.names[name])
        if name in plan.folded:
            columns.take(
                [folded for leaf in found for folded in _folded(leaf)],
                plan.names[plan.folded[name]],
            )
    return columns.rows()


def leaves_of(batch: Batch, wanted: set[str]) -> Iterator[Leaf]:
    """The scalars of a batch that have the wanted names."""
    prefixes = {name[:dot] for name in wanted for dot in _dots(name)}
    rows = np.arange(batch.num_rows)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in wanted or name in prefixes:
            yield from _leaves(_whole(column, name), name, rows, wanted, prefixes)


def without_views(batch: Batch) -> Batch:
    """The batch with string views as large strings, because Arrow cannot `take` from views."""
    kinds = [_without_views(field.type) for field in batch.schema]
    if kinds == batch.schema.types:
        return batch
    fields = [field.with_type(kind) for field, kind in zip(batch.schema, kinds, strict=True)]
    # Cast only these columns: Arrow cannot cast a sliced struct of nulls, even to its own type.
    columns = [
        column if column.type == kind else column.cast(kind)
        for column, kind in zip(batch.columns, kinds, strict=True)
    ]
    return type(batch).from_arrays(columns, schema=pa.schema(fields))


def _without_views(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = _without_views(kind.key_type), _without_views(kind.item_type)
        same = key == kind.key_type and item == kind.item_type
        return kind if same else pa.map_(key, item, kind.keys_sorted)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        inner = kind.value_field.with_type(_without_views(kind.value_type))
        return pa.list_(inner, kind.list_size)
    return kind


def _whole(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """A column as one array; copied only if it has several chunks or string views."""
    kind = _without_views(column.type)
    if kind != column.type:
        column = column.cast(kind)
    if not isinstance(column, pa.ChunkedArray):
        return column
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # too long for one array
        raise EventError(f"column {name!r}: more than 2 GiB of text; use smaller batches")
    return array


def _dots(name: str) -> Iterator[int]:
    return (at for at, character in enumerate(name) if character == ".")


def _leaves(
    array: pa.Array, name: str, rows: Array, wanted: set[str], prefixes: set[str]
) -> Iterator[Leaf]:
    kind = array.type
    if not (pa.types.is_struct(kind) or pa.types.is_map(kind) or is_listed(kind)):
        array = as_values(array)
    if pa.types.is_dictionary(array.type) and not is_text(array.type.value_type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_null(kind):
        return
    # Many columns are mostly null, so visit only the values that are present.
    places = np.arange(len(array)) if array.null_count == 0 else _valid(array)
    if places.size == 0:
        return
    if array.null_count:
        rows = rows[places]
        if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            try:
                array = array.take(pa.array(places))
            except pa.ArrowNotImplementedError:  # it holds views or runs
                array = as_values(array).take(pa.array(places))
                kind = array.type
                if pa.types.is_null(kind):
                    return
            places = np.arange(places.size)
    if pa.types.is_struct(kind):
        for field, inner in zip(kind, array.flatten(), strict=True):
            own = f"{name}.{field.name}"
            if own in wanted or own in prefixes:
                yield from _leaves(inner, own, rows, wanted, prefixes)
    elif pa.types.is_map(kind):
        if not is_text(kind.key_type):
            return
        lengths = np.diff(array.offsets.to_numpy())
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        keys = array.keys.slice(begin, end - begin)
        items = as_values(array.items.slice(begin, end - begin))
        owners = np.repeat(np.arange(lengths.size), lengths)  # the map that each entry lies in
        for key in pc.unique(keys).to_pylist():
            own = f"{name}.{key}"
            if own in wanted or own in prefixes:
                at = np.flatnonzero(pc.equal(keys, key).to_numpy(zero_copy_only=False))
                at = at[np.diff(owners[at], append=-1) != 0]  # of a repeated key, the last counts
                chosen = items.take(pa.array(at))
                yield from _leaves(chosen, own, rows[owners[at]], wanted, prefixes)
    elif is_listed(kind):
        lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
        yield from _leaves(array.flatten(), name, np.repeat(rows, lengths), wanted, prefixes)
    elif name in wanted:
        yield Leaf(name, array, places, rows)


class _Columns:
    """Collects entries column by column, then puts them in the order of rows.

    Within a row, the entries of one slot stay together, and cheap ones come first. Where there are
    few subscriptions to find, the search has often found all of them before it comes to the rest.
    """

    def __init__(self, plan: Plan, count: int) -> None:
        self.plan = plan
        self.count = count
        self.reversed_slots = k.section(plan.whole, k.SLOT_REVERSED)
        self.scalars: list[Part] = []  # of slots without texts
        self.texts: list[Part] = []
        self.reversed: list[Part] = []
        self.data: list[Array] = []
        self.size = 0

    def take(self, leaves: list[Leaf], slot: int) -> None:
        """Make the entries of a slot from leaves, and those of its reversed slot if it has one."""
        scalars: list[Part] = []
        texts: list[Part] = []
        for leaf in leaves:
            kind = leaf.values.type
            if is_text(kind) or pa.types.is_dictionary(kind):
                texts.append(self._entered(leaf, slot))
            else:
                scalars.append(self._scalars(leaf, slot))
        if texts:
            self.texts += texts + scalars
        else:
            self.scalars += scalars

    def _scalars(self, leaf: Leaf, slot: int) -> Part:
        """The entries of numbers or booleans."""
        plan, values, kind = self.plan, leaf.values, leaf.values.type
        entries = np.empty((leaf.rows.size, k.WIDTH), np.int32)
        if pa.types.is_boolean(kind):
            truths = values.to_numpy(zero_copy_only=False).astype(np.int32)
            ck.enter_numbers(slot, k.BOOLEAN, truths, entries)
        elif pa.types.is_integer(kind):
            integers = _numbers_of(values)[leaf.places]
            ck.enter_integers(
                slot, plan.whole, plan.highs, integers.astype(np.int64, copy=False), entries
            )
            if integers.dtype == np.uint64:
                for at in np.flatnonzero(integers > np.uint64(2**63 - 1)).tolist():
                    entries[at, k.NUMBER] = self._place(int(integers[at]), slot)
        elif pa.types.is_floating(kind):
            reals = _numbers_of(values)[leaf.places].astype(np.float64, copy=False)
            places = np.empty(reals.size, np.int32)
            ck.locate_reals(slot, plan.whole, plan.highs, reals, places)
            ck.enter_numbers(slot, k.REAL, places, entries)
        elif pa.types.is_decimal(kind):  # of integers, some of more than 64 bits
            numbers = [int(number) for number in values.take(pa.array(leaf.places)).to_pylist()]
            fits = [INT_MIN <= number <= INT_MAX for number in numbers]
            short = np.array([n if fit else 0 for n, fit in zip(numbers, fits, strict=True)])
            ck.enter_integers(slot, plan.whole, plan.highs, short.astype(np.int64), entries)
            for at in np.flatnonzero(~np.array(fits)).tolist():
                entries[at, k.NUMBER] = self._place(numbers[at], slot)
        else:
            raise AssertionError(f"{leaf.name!r}: {kind} is no type of values")
        return leaf.rows, entries

    def _place(self, value: int, slot: int) -> int:
        """The coordinate of an integer of any size."""
        nearest = float(value)
        rest = min(max(value - int(nearest), INT_MIN), INT_MAX)  # only its sign matters if so large
        return int(k.locate_number(slot, self.plan.whole, self.plan.highs, nearest, rest))

    def _entered(self, leaf: Leaf, slot: int) -> Part:
        """The entries of texts; also notes those of the reversed texts if the slot needs them."""
        rows, plan, reversed_slot = leaf.rows, self.plan, int(self.reversed_slots[slot])
        if pa.types.is_dictionary(leaf.values.type):
            rows, codes, dictionary = _coded(leaf)
            offsets, first, data = _bytes_of(dictionary)
            begins, ends = offsets[:-1] - np.int64(first), offsets[1:] - np.int64(first)
        else:
            offsets, first, data = _bytes_of(leaf.values)
            codes, begins, ends = np.empty((3, rows.size), np.int64)
            count = ck.distinct_texts(offsets, data, leaf.places, first, codes, begins, ends)
            begins, ends = begins[:count], ends[:count]
        entries = np.empty((rows.size, k.WIDTH), np.int32)
        ck.enter_texts(slot, plan.whole, plan.texts, data, codes, begins, ends, self.size, entries)
        self.data.append(data)
        self.size += data.size
        if self.size > np.iinfo(np.int32).max:
            raise EventError("more than 2 GiB of text; use smaller batches")
        if reversed_slot >= 0:
            others = np.empty((rows.size, k.WIDTH), np.int32)
            ck.enter_reversed(
                reversed_slot, plan.whole, plan.texts, data, codes, begins, ends, others
            )
            self.reversed.append((rows, others))
        return rows, entries

    def rows(self) -> Rows:
        """All entries in the order of rows."""
        parts = [*self.scalars, *self.texts, *self.reversed]
        begins = np.zeros(self.count + 1, np.int64)
        for rows, _ in parts:
            ck.count_rows(rows, begins)
        np.cumsum(begins, out=begins)
        ordered = np.empty((int(begins[-1]), k.WIDTH), np.int32)
        at = begins[:-1].copy()
        for rows, entries in parts:
            ck.order_by_row(rows, at, entries, ordered)
        data = np.concatenate([*self.data, NOTHING])
        return Rows(begins * k.WIDTH, ordered.reshape(-1), data)


def _folded(leaf: Leaf) -> Iterator[Leaf]:
    """A leaf of texts with its texts folded; nothing for a leaf of another type."""
    kind = leaf.values.type
    if pa.types.is_dictionary(kind):
        texts = leaf.values.dictionary.to_pylist()
        folded = pa.array([None if text is None else fold(text) for text in texts], pa.string())
        yield leaf._replace(values=pa.DictionaryArray.from_arrays(leaf.values.indices, folded))
    elif is_text(kind):
        texts = leaf.values.take(pa.array(leaf.places)).to_pylist()
        places = np.arange(len(texts))
        yield leaf._replace(values=pa.array(map(fold, texts), pa.string()), places=places)


def _valid(array: pa.Array) -> Array:
    """The places of an array's values that are not null."""
    bitmap = array.buffers()[0]
    if bitmap is None:  # a union, or a dictionary that keeps its nulls elsewhere
        return np.flatnonzero(pc.is_valid(array).to_numpy(zero_copy_only=False))
    found = np.empty(len(array), np.int64)
    bits = np.frombuffer(bitmap, np.uint8)
    return found[: ck.ones(bits, array.offset, len(array), found)]


def _coded(leaf: Leaf) -> tuple[Array, Array, pa.Array]:
    """A dictionary-encoded leaf as its rows, the code of the text in each, and the texts."""
    rows, values = leaf.rows, leaf.values
    codes = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    dictionary = values.dictionary
    if dictionary.null_count:  # a code may mean null
        valid = pc.is_valid(dictionary).to_numpy(zero_copy_only=False)[codes]
        rows, codes = rows[valid], codes[valid]
        dictionary = dictionary.fill_null("")
    return rows, codes, dictionary


def _numbers_of(array: pa.Array) -> Array:
    """The values of an array of numbers; undefined at its nulls."""
    dtype = array.type.to_pandas_dtype()
    size = np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array), size * array.offset)


def _bytes_of(texts: pa.Array) -> tuple[Array, int, Array]:
    """The offsets of an array of texts, the offset at which its bytes begin, and the bytes."""
    if pa.types.is_string_view(texts.type):
        texts = texts.cast(pa.large_string())
    dtype = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, data = texts.buffers()
    if data is None or len(texts) == 0:
        return np.zeros(len(texts) + 1, dtype), 0, NOTHING
    size = np.dtype(dtype).itemsize
    begins = np.frombuffer(offsets, dtype, len(texts) + 1, size * texts.offset)
    first = int(begins[0])
    return begins, first, np.frombuffer(data, np.uint8)[first : int(begins[-1])]
