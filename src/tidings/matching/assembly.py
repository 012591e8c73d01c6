"""Predicates as Arrow columns, so that many processes parse and one compiles.

Parsing and normalising take most of the time of compiling, and each predicate is independent, so
many processes can share that work. `flatten` writes the normal forms of some predicates as Arrow
columns; `to_bytes` and `from_bytes` carry them between processes; `assemble` compiles all of them
into one index without making predicates again. It parses only the texts of predicates without a
normal form.

Law: `assemble(texts, flatten(predicates))` finds what a `Table` of the predicates finds.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.language.constraint import Constraint
from tidings.language.predicate import Predicate, parse
from tidings.matching.contract import names_of
from tidings.matching.filters import filters_of
from tidings.matching.native.engine import Index

Array = np.ndarray[Any, Any]

BLOCK: Final = 16_384  # predicates that become Python objects at a time, to be compiled
_TEXT, _INTEGER, _REAL, _TRUTH = range(4)
_KINDS: Final = {str: _TEXT, int: _INTEGER, float: _REAL, bool: _TRUTH}
_NO_OPERAND, _ONE_OPERAND = -2, -1  # 0 and more: a tuple of this length
_CODED: Final = pa.dictionary(pa.int32(), pa.string())

_PREDICATES: Final = pa.schema({"filters": pa.int32(), "whole": pa.bool_()})
_FILTERS: Final = pa.schema({"constraints": pa.int32()})
_CONSTRAINTS: Final = pa.schema(
    {
        "name": _CODED,
        "operator": _CODED,
        "type": _CODED,
        "negated": pa.bool_(),
        "operands": pa.int32(),
    }
)
_OPERANDS: Final = pa.schema(
    {"kind": pa.int8(), "text": pa.large_string(), "integer": pa.int64(), "real": pa.float64()}
)
_OWNED: Final = ("filters", "constraints", "operands")  # columns that count rows of the next table
_NAMES: Final = pa.schema({"name": pa.string()})


class Flat(NamedTuple):
    """Predicates as tables; each row of a table owns a run of rows of the next table."""

    predicates: pa.Table  # how many filters, and whether these are only a necessary condition
    filters: pa.Table
    constraints: pa.Table
    operands: pa.Table
    names: pa.Table  # the attributes mentioned; the empty name stands for all

    def slice(self, first: int, last: int) -> Flat:
        """The predicates with the numbers from `first` to before `last`."""
        return self._slice(self._begins(), first, last)

    def blocks(self, size: int) -> Iterator[Flat]:
        """The predicates, so many at a time."""
        begins = self._begins()
        count = self.predicates.num_rows
        for first in range(0, count, size):
            yield self._slice(begins, first, min(first + size, count))

    def _begins(self) -> list[Array]:
        """Where the rows that each row owns begin, for the first three tables."""
        owned = zip(self[:3], _OWNED, strict=True)
        return [_begins(_lengths(table.column(column))) for table, column in owned]

    def _slice(self, begins: list[Array], first: int, last: int) -> Flat:
        parts = [self.predicates.slice(first, last - first)]
        for table, begin in zip(self[1:4], begins, strict=True):
            first, last = int(begin[first]), int(begin[last])
            parts.append(table.slice(first, last - first))
        return Flat._make([*parts, self.names])

    def take(self, numbers: Array) -> Flat:
        """The predicates with these numbers, in ascending order."""
        tables = []
        for table, column in zip(self[:4], (*_OWNED, None), strict=True):
            tables.append(table.take(pa.array(numbers)))
            if column is not None:
                lengths = _lengths(table.column(column))
                kept = np.zeros(lengths.size, bool)
                kept[numbers] = True
                numbers = np.flatnonzero(np.repeat(kept, lengths))
        return Flat._make([*tables, self.names])


def flatten(predicates: Iterable[Predicate]) -> Flat:
    """The normal forms of predicates as columns."""
    filters: list[int] = []
    whole: list[bool] = []
    lengths: list[int] = []
    flat: list[Constraint] = []
    names: set[str] = set()
    for predicate in predicates:
        found, expression = filters_of(predicate)
        filters.append(len(found))
        whole.append(expression is not None)
        names |= names_of((predicate.expression,))
        for filter in found:
            lengths.append(len(filter))
            flat.extend(filter)
    operands: list[int] = []
    scalars: list[Any] = []
    for constraint in flat:
        operand = constraint.operand
        if type(operand) is tuple:
            operands.append(len(operand))
            scalars.extend(operand)
        elif operand is None:
            operands.append(_NO_OPERAND)
        else:
            operands.append(_ONE_OPERAND)
            scalars.append(operand)
    kinds = np.fromiter((_KINDS[type(value)] for value in scalars), np.int8, len(scalars))
    columns: list[tuple[Any, ...]] = list(zip(*flat, strict=True)) or [()] * 5
    coded = [pa.array(columns[at], pa.string()).dictionary_encode() for at in range(3)]
    return Flat(
        pa.table([filters, whole], schema=_PREDICATES),
        pa.table([lengths], schema=_FILTERS),
        pa.table([*coded, columns[3], operands], schema=_CONSTRAINTS),
        pa.table(
            [
                kinds,
                [value if type(value) is str else None for value in scalars],
                [int(value) if type(value) in (int, bool) else None for value in scalars],
                [value if type(value) is float else None for value in scalars],
            ],
            schema=_OPERANDS,
        ),
        pa.table([sorted(names)], schema=_NAMES),
    )


# Between processes


def to_bytes(table: pa.Table) -> bytes:
    """A table as a compressed Arrow stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def from_bytes(parts: Iterable[Any]) -> pa.Table:
    """The rows of all parts, bytes or buffers of one schema; there must be at least one part."""
    tables = [pa.ipc.open_stream(part).read_all() for part in parts]
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


# Compiling


def assemble(texts: pa.Array, flat: Flat) -> Index:
    """Compile flat predicates, whose numbers are their places.

    The texts are parsed only for those without a normal form.
    """
    with collector_off():
        whole = np.flatnonzero(flat.predicates.column("whole").to_numpy()).tolist()
        wholes = {
            place: parse(texts[place].as_py(), max_characters=None).expression for place in whole
        }
        index = Index()
        index.load(range(len(texts)), _filters(flat), wholes)
        return index


def _filters(flat: Flat) -> Iterator[list[list[Constraint]]]:
    """The filters of each predicate, made some at a time, because all would take much memory."""
    for part in flat.blocks(BLOCK):
        filters = _runs(_constraints(part), _lengths(part.filters.column("constraints")))
        yield from _runs(filters, _lengths(part.predicates.column("filters")))


def _runs(items: list[Any], lengths: Array) -> list[list[Any]]:
    """The items in runs of these lengths."""
    begins = _begins(lengths).tolist()
    return [items[a:b] for a, b in pairwise(begins)]


def _constraints(flat: Flat) -> list[Constraint]:
    """The constraints of all filters, one after another."""
    table = flat.constraints
    columns = (_decoded(table.column(name)) for name in ("name", "operator", "type"))
    negated = table.column("negated").to_pylist()
    return list(map(Constraint, *columns, negated, _operands(flat)))


def _operands(flat: Flat) -> list[Any]:
    """The operand of each constraint as a Python value."""
    table = flat.operands
    kinds = table.column("kind").to_numpy()
    values = np.empty(kinds.size, object)
    for kind, column in ((_TEXT, "text"), (_INTEGER, "integer"), (_REAL, "real")):
        chosen = kinds == kind
        taken = table.column(column).filter(pa.array(chosen)).to_pylist()
        values[chosen] = np.fromiter(taken, object, len(taken))
    truths = kinds == _TRUTH
    taken = table.column("integer").filter(pa.array(truths)).to_pylist()
    values[truths] = np.fromiter(map(bool, taken), object, len(taken))
    counts = flat.constraints.column("operands").to_numpy()
    lengths = _lengths(flat.constraints.column("operands"))
    begins = _begins(lengths)
    operands = np.full(counts.size, None, object)
    single = counts == _ONE_OPERAND
    operands[single] = values[begins[:-1][single]]
    for at in np.flatnonzero(counts >= 0).tolist():
        operands[at] = tuple(values[begins[at] : begins[at + 1]])
    return operands.tolist()  # type: ignore[no-any-return]


def _decoded(column: pa.ChunkedArray) -> list[str]:
    """The texts of a dictionary column, equal ones as one object."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], _CODED)
    words = np.array([*array.dictionary.to_pylist(), None], object)
    return words[array.indices.to_numpy(zero_copy_only=False)].tolist()  # type: ignore[no-any-return]


def _lengths(column: pa.ChunkedArray) -> Array:
    """How many rows of the next table each row owns."""
    counts: Array = column.to_numpy().astype(np.int64)
    counts[counts == _NO_OPERAND] = 0
    counts[counts == _ONE_OPERAND] = 1
    return counts


def _begins(lengths: Array) -> Array:
    return np.concatenate(([0], np.cumsum(lengths)))


@contextmanager
def collector_off() -> Iterator[None]:
    """Pause garbage collection: it would scan millions of new tuples, none of them garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
