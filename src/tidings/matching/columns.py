"""Arrow batches as entries: what the kernels read of many events at once.

Only columns that some subscription mentions are looked at. Structs and maps are records, lists hold
several values, dictionaries are used as they are; each distinct text is located once. The entries
of all columns are then put in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.language.errors import EventError
from tidings.language.folding import fold
from tidings.matching import kernels as k
from tidings.matching.contract import Batch
from tidings.matching.plan import Plan

Array = np.ndarray[Any, Any]

# Values that so few rows have are located one by one, others once for each that differs.
FEW: Final = 1 / 8


class Leaf(NamedTuple):
    """Scalars of one attribute: without nulls, and the row of each."""

    name: str
    values: pa.Array
    rows: Array


class Rows(NamedTuple):
    """The entries of a batch, in the order of its rows."""

    begins: Array  # of each row, and the end
    entries: Array
    data: Array  # bytes of the texts


def entries_of_batch(batch: Batch, plan: Plan) -> Rows:
    """All that the subscriptions of a plan mention, as entries."""
    return entries_of_leaves(leaves_of(batch, names_in(plan)), plan, batch.num_rows)


def names_in(plan: Plan) -> set[str]:
    """The attributes that the subscriptions of a plan mention."""
    return {name for name in plan.names if name and "\0" not in name} | set(plan.folded)


def entries_of_leaves(found_leaves: Iterable[Leaf], plan: Plan, count: int) -> Rows:
    """The entries of so many rows, whose values are given attribute by attribute."""
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
    """The scalars of a batch under the names that are wanted."""
    prefixes = {name[:dot] for name in wanted for dot in _dots(name)}
    rows = np.arange(batch.num_rows)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in wanted or name in prefixes:
            yield from _leaves(_whole(column, name), name, rows, wanted, prefixes)


def _whole(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """A column as one array, which is no copy where it is one already."""
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
    if pa.types.is_null(kind):
        return
    if array.null_count:
        if array.null_count == len(array):
            return
        # Many columns are mostly null: take what is there, rather than go over what is not.
        valid = _valid(array)
        rows = rows[valid]
        array = array.take(pa.array(valid))
    if pa.types.is_struct(kind):
        for field, inner in zip(kind, array.flatten(), strict=True):
            own = f"{name}.{field.name}"
            if own in wanted or own in prefixes:
                yield from _leaves(inner, own, rows, wanted, prefixes)
    elif pa.types.is_map(kind):
        lengths = np.diff(array.offsets.to_numpy())
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        keys = array.keys.slice(begin, end - begin)
        items = array.items.slice(begin, end - begin)
        inner_rows = np.repeat(rows, lengths)
        for key in pc.unique(keys).to_pylist():
            own = f"{name}.{key}"
            if own in wanted or own in prefixes:
                chosen = pc.equal(keys, key)
                at = chosen.to_numpy(zero_copy_only=False)
                yield from _leaves(items.filter(chosen), own, inner_rows[at], wanted, prefixes)
    elif (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
        yield from _leaves(array.flatten(), name, np.repeat(rows, lengths), wanted, prefixes)
    elif name in wanted:
        yield Leaf(name, array, rows)


class _Columns:
    """Entries, column after column, until they are put in the order of rows."""

    def __init__(self, plan: Plan, count: int) -> None:
        self.plan = plan
        self.count = count
        self.turned = k.section(plan.whole, k.SLOT_TURNED)
        self.parts: list[tuple[Array, Array]] = []  # the row of each entry, and the entries
        self.data: list[Array] = []
        self.size = 0

    def take(self, leaves: list[Leaf], slot: int) -> None:
        """Make entries of a slot from the values of leaves, and of them turned round if asked."""
        texts = []
        for leaf in leaves:
            kind = leaf.values.type
            if _is_text(kind) or (pa.types.is_dictionary(kind) and _is_text(kind.value_type)):
                texts.append(self._texts(leaf, slot))
            else:
                self._scalars(leaf, slot)
        if self.turned[slot] >= 0:
            for rows, codes, offsets, data in texts:
                self._turned(rows, codes, offsets, data, int(self.turned[slot]))

    def _scalars(self, leaf: Leaf, slot: int) -> None:
        """Numbers and booleans."""
        plan, values, kind = self.plan, leaf.values, leaf.values.type
        if pa.types.is_dictionary(kind):
            values = values.dictionary_decode()
            kind = values.type
        if pa.types.is_boolean(kind):
            places = values.to_numpy(zero_copy_only=False).astype(np.int32)
            code = k.BOOLEAN
        elif pa.types.is_integer(kind):
            places = self._integers(values.to_numpy(zero_copy_only=False), slot)
            code = k.INTEGER
        elif pa.types.is_floating(kind):
            reals = values.to_numpy(zero_copy_only=False).astype(np.float64)
            places = np.empty(reals.size, np.int32)
            k.locate_reals(slot, plan.whole, plan.highs, reals, places)
            code = k.REAL
        else:
            raise EventError(
                f"attribute {leaf.name!r}: expected text, numbers, booleans, lists or records, "
                f"found Arrow's {kind} (cast it to text or to a number)"
            )
        entries = np.empty((places.size, k.WIDTH), np.int32)
        k.enter_numbers(slot, code, places, entries)
        self.parts.append((leaf.rows, entries))

    def _integers(self, values: Array, slot: int) -> Array:
        plan = self.plan
        places = np.empty(values.size, np.int32)
        k.locate_integers(slot, plan.whole, plan.highs, values.astype(np.int64), places)
        if values.dtype == np.uint64:
            for at in np.flatnonzero(values > np.uint64(2**63 - 1)).tolist():
                value = int(values[at])
                near = float(value)
                places[at] = k.locate_number(slot, plan.whole, plan.highs, near, value - int(near))
        return places

    def _texts(self, leaf: Leaf, slot: int) -> tuple[Array, Array, Array, Array]:
        """Texts; their rows, which of the distinct ones each is, and the bytes of those."""
        rows, codes, dictionary = self._distinct(leaf)
        offsets, data = _bytes_of(dictionary)
        plan = self.plan
        numbers = np.empty(offsets.size - 1, np.int32)
        bounds = np.empty(offsets.size - 1, np.int32)
        k.locate_texts(slot, plan.whole, plan.texts, data, offsets, numbers, bounds)
        entries = np.empty((codes.size, k.WIDTH), np.int32)
        k.enter_texts(slot, codes, numbers, bounds, offsets, self.size, entries)
        self.parts.append((rows, entries))
        self.data.append(data)
        self.size += data.size
        if self.size > np.iinfo(np.int32).max:
            raise EventError("more than 2 GiB of distinct text; use smaller batches")
        return rows, codes, offsets, data

    def _distinct(self, leaf: Leaf) -> tuple[Array, Array, pa.Array]:
        """The rows of a leaf of texts, which text each has, and the texts."""
        rows, values = leaf.rows, leaf.values
        if not pa.types.is_dictionary(values.type):
            if rows.size < FEW * self.count:
                return rows, np.arange(rows.size), values
            values = values.dictionary_encode()
        codes = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        dictionary = values.dictionary
        if dictionary.null_count:  # an index may mean null
            valid = pc.is_valid(dictionary).to_numpy(zero_copy_only=False)[codes]
            rows, codes = rows[valid], codes[valid]
            dictionary = dictionary.fill_null("")
        return rows, codes, dictionary

    def _turned(self, rows: Array, codes: Array, offsets: Array, data: Array, slot: int) -> None:
        """The same texts turned round: only their place among bounds is ever asked for."""
        plan = self.plan
        bounds = np.empty(offsets.size - 1, np.int32)
        k.locate_turned(slot, plan.whole, plan.texts, data, offsets, bounds)
        entries = np.empty((codes.size, k.WIDTH), np.int32)
        k.enter_texts(slot, codes, np.full(bounds.size, -1, np.int32), bounds, offsets, 0, entries)
        self.parts.append((rows, entries))

    def rows(self) -> Rows:
        """All entries in the order of rows."""
        begins = np.zeros(self.count + 1, np.int64)
        for rows, _ in self.parts:
            k.count_rows(rows, begins)
        np.cumsum(begins, out=begins)
        ordered = np.empty((int(begins[-1]), k.WIDTH), np.int32)
        at = begins[:-1].copy()
        for rows, entries in self.parts:
            k.order_by_row(rows, at, entries, ordered)
        data = np.concatenate([*self.data, np.zeros(0, np.uint8)])
        return Rows(begins * k.WIDTH, ordered.reshape(-1), data)


def _folded(leaf: Leaf) -> Iterator[Leaf]:
    """A leaf of texts with these folded; nothing of another leaf."""
    kind = leaf.values.type
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        texts = leaf.values.dictionary.to_pylist()
        folded = pa.array([None if text is None else fold(text) for text in texts], pa.string())
        yield leaf._replace(values=pa.DictionaryArray.from_arrays(leaf.values.indices, folded))
    elif _is_text(kind):
        yield leaf._replace(values=pa.array(map(fold, leaf.values.to_pylist()), pa.string()))


def _valid(array: pa.Array) -> Array:
    """Where the values of an array with nulls are none."""
    bitmap = array.buffers()[0]
    if bitmap is None:  # a union or a dictionary that keeps its nulls elsewhere
        return np.flatnonzero(pc.is_valid(array).to_numpy(zero_copy_only=False))
    found = np.empty(len(array), np.int64)
    bits = np.frombuffer(bitmap, np.uint8)
    return found[: k.ones(bits, array.offset, len(array), found)]


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _bytes_of(texts: pa.Array) -> tuple[Array, Array]:
    """Offsets and bytes of an array of texts, from its own beginning."""
    large = texts.cast(pa.large_string())
    _, offsets, data = large.buffers()
    begins = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
    if data is None or begins.size == 0:
        return np.zeros(len(texts) + 1, np.int64), np.zeros(0, np.uint8)
    held = np.frombuffer(data, np.uint8)[begins[0] : begins[-1]]
    return begins - begins[0], held
