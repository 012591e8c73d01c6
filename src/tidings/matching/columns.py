"""Arrow batches as entries: what the kernels read of many events at once.

Only columns that some subscription mentions are looked at. Structs and maps are records, lists hold
several values, dictionaries are used as they are; each distinct text is located once. The entries
of all columns are then put in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.language.errors import EventError
from tidings.matching import kernels as k
from tidings.matching.contract import Batch
from tidings.matching.plan import DERIVE, PLAIN, Plan

Array = np.ndarray[Any, Any]


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
    wanted = {name for name in plan.names if "\0" not in name} | set(plan.derived)
    leaves: dict[str, list[Leaf]] = {}
    for leaf in leaves_of(batch, wanted):
        leaves.setdefault(leaf.name, []).append(leaf)
    columns = _Columns(plan)
    for name, found in leaves.items():
        if name in plan.names:
            for leaf in found:
                columns.take(leaf, plan.names[name], PLAIN)
        for transform, own in plan.derived.get(name, ()):
            for leaf in found:
                columns.take(leaf, plan.names[own], transform)
    return columns.rows(batch.num_rows)


def leaves_of(batch: Batch, wanted: set[str]) -> Iterator[Leaf]:
    """The scalars of a batch under the names that are wanted."""
    prefixes = {name[:dot] for name in wanted for dot in _dots(name)}
    rows = np.arange(batch.num_rows)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in wanted or name in prefixes:
            array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            if isinstance(array, pa.ChunkedArray):  # too long for one array
                raise EventError(f"column {name!r}: more than 2 GiB of text; use smaller batches")
            yield from _leaves(array, name, rows, wanted, prefixes)


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
        valid = np.flatnonzero(_validity(array))
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

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.parts: list[tuple[Any, ...]] = []
        self.data: list[Array] = []
        self.size = 0

    def take(self, leaf: Leaf, slot: int, transform: int) -> None:
        """Locate the values of a leaf for a slot."""
        values, kind = leaf.values, leaf.values.type
        if pa.types.is_dictionary(kind) and not _is_text(kind.value_type):
            values = values.dictionary_decode()
            kind = values.type
        if _is_text(kind) or (pa.types.is_dictionary(kind) and _is_text(kind.value_type)):
            self._texts(leaf.rows, values, slot, transform)
        elif transform != PLAIN:
            return
        elif pa.types.is_boolean(kind):
            truth = values.to_numpy(zero_copy_only=False).astype(np.int32)
            self._put(slot, leaf.rows, k.BOOLEAN, truth)
        elif pa.types.is_integer(kind):
            self._integers(leaf.rows, values, slot)
        elif pa.types.is_floating(kind):
            reals = values.to_numpy(zero_copy_only=False).astype(np.float64)
            places = np.empty(reals.size, np.int32)
            k.locate_reals(slot, self.plan.whole, self.plan.highs, reals, places)
            self._put(slot, leaf.rows, k.REAL, places)
        else:
            raise EventError(
                f"attribute {leaf.name!r}: expected text, numbers, booleans, lists or records, "
                f"found Arrow's {kind} (cast it to text or to a number)"
            )

    def _integers(self, rows: Array, values: pa.Array, slot: int) -> None:
        plan = self.plan
        whole = values.to_numpy(zero_copy_only=False)
        places = np.empty(whole.size, np.int32)
        k.locate_integers(slot, plan.whole, plan.highs, whole.astype(np.int64), places)
        if whole.dtype == np.uint64:
            for at in np.flatnonzero(whole > np.uint64(2**63 - 1)).tolist():
                value = int(whole[at])
                near = float(value)
                places[at] = k.locate_number(slot, plan.whole, plan.highs, near, value - int(near))
        self._put(slot, rows, k.INTEGER, places)

    def _texts(self, rows: Array, values: pa.Array, slot: int, transform: int) -> None:
        plan = self.plan
        coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        dictionary = coded.dictionary
        if dictionary.null_count:  # an index may mean null
            valid = pc.is_valid(dictionary).to_numpy(zero_copy_only=False)[codes]
            rows, codes = rows[valid], codes[valid]
            dictionary = dictionary.fill_null("")
        if transform != PLAIN:
            dictionary = pa.array([DERIVE[transform](text) for text in dictionary.to_pylist()])
        offsets, data = _bytes_of(dictionary)
        numbers = np.empty(len(dictionary), np.int32)
        places = np.empty(len(dictionary), np.int32)
        k.locate_texts(slot, plan.whole, plan.texts, data, offsets, numbers, places)
        begins = (offsets[:-1] + self.size)[codes]
        ends = (offsets[1:] + self.size)[codes]
        self.data.append(data)
        self.size += data.size
        if self.size > np.iinfo(np.int32).max:
            raise EventError("more than 2 GiB of distinct text; use smaller batches")
        self.parts.append(
            (slot, rows, np.full(rows.size, k.TEXT, np.int32), np.zeros(rows.size, np.int32),
             numbers[codes], places[codes], begins, ends)
        )  # fmt: skip

    def _put(self, slot: int, rows: Array, kind: int, places: Array) -> None:
        nothing = np.zeros(rows.size, np.int32)
        kinds = np.full(rows.size, kind, np.int32)
        self.parts.append((slot, rows, kinds, places, nothing, nothing, nothing, nothing))

    def rows(self, count: int) -> Rows:
        """All entries in the order of rows."""
        rows = _join([part[1] for part in self.parts], np.int64)
        slots = _join([np.full(part[1].size, part[0]) for part in self.parts], np.int32)
        begins = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=count), out=begins[1:])
        order = np.empty(rows.size, np.int64)
        k.order_by_row(rows, begins, order)
        entries = np.empty((rows.size, k.WIDTH), np.int32)
        entries[:, k.SLOT] = slots[order]
        for at in range(1, k.WIDTH):
            column = _join([part[at + 1] for part in self.parts], np.int32)
            entries[:, at] = column[order]
        return Rows(begins * k.WIDTH, entries.reshape(-1), _join(self.data, np.uint8))


def _join(parts: list[Array], kind: Any) -> Array:
    return np.concatenate([*parts, np.zeros(0, kind)]).astype(kind, copy=False)


def _validity(array: pa.Array) -> Array:
    """Which values of an array with nulls are none, as booleans."""
    bitmap = array.buffers()[0]
    if bitmap is None:  # a union or a dictionary that keeps its nulls elsewhere
        found: Array = pc.is_valid(array).to_numpy(zero_copy_only=False)
        return found
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)]


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
