"""The contract that every matcher keeps, and how a matcher reads an Arrow batch.

A matcher holds subscriptions and finds those that an event satisfies. Law: it finds the same ids as
`scan`, in any order, each once. Matchers share this file and nothing else.

A batch is Arrow. Each column is an attribute: structs and maps are records, lists are lists, and a
null means that the attribute is absent. Alternatively one column holds every event as JSON text.
If a map repeats a key, the last value counts, as in JSON. `as_values` says what dates, decimals and
their like stand for. A column of a type that stands for no value is absent.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, repeat
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from tidings.language.constraint import names_asked
from tidings.language.errors import EventError, NormalFormError
from tidings.language.event import read
from tidings.language.expression import Expression, constraints
from tidings.language.predicate import Predicate
from tidings.language.values import SCALARS
from tidings.matching.arrow_values import (
    as_values,
    is_known,
    is_sound,
    is_text,
    raw_texts,
    readable,
)

Id = str | int
ID_TYPES = (str, int)
EventLike = Mapping[str, Any] | bytes | bytearray | memoryview | str
Batch: TypeAlias = "pa.Table | pa.RecordBatch"


class Stats(NamedTuple):
    """The size of a table of subscriptions."""

    subscriptions: int
    filters: int
    constraints: int
    bytes: int  # of the index

    @property
    def bytes_per_constraint(self) -> float:
        """Bytes of the index for each constraint."""
        return self.bytes / max(self.constraints, 1)


class Matcher(Protocol):
    """What the rows of `MATCHERS` make.

    `add` of an id that is held and `remove` of one that is not raise `KeyError`.
    """

    def add(self, id: Id, predicate: Predicate) -> None:
        """Add a subscription."""

    def remove(self, id: Id) -> None:
        """Remove a subscription."""

    def match(self, event: EventLike) -> list[Id]:
        """The ids of the subscriptions that the event satisfies, each once."""

    def match_batch(self, batch: Batch, json: str | None = None) -> pa.Table:
        """The matches as pairs: columns `event` (the row number) and `subscription` (the id).

        `json` names the column that holds the events as JSON text; without it the columns are the
        attributes.
        """

    def stats(self) -> Stats:
        """How large the table is."""


def check_id(id: object) -> None:
    """Raise `TypeError` unless an id is text or an integer. A boolean is neither."""
    if type(id) not in ID_TYPES:
        kind = type(id).__name__
        raise TypeError(f"expected an id that is text or an integer, found {id!r:.80} ({kind})")


def check_ids(ids: Collection[object]) -> None:
    """The same for very many ids."""
    if not set(map(type, ids)) <= set(ID_TYPES):
        for id in ids:
            check_id(id)


def duplicate(id: Id) -> KeyError:
    """The error for adding an id that the table already holds."""
    return KeyError(f"the id {id!r} is in the table already; replace it, or remove it first")


def unknown(id: Id) -> KeyError:
    """The error for removing or looking up an id that the table does not hold."""
    return KeyError(f"the id {id!r} is not in the table")


# Batches


def match_rows(
    match: Callable[[Mapping[str, Any]], Sequence[Id]],
    subscriptions: Mapping[Id, Predicate],
    batch: Batch,
    json: str | None,
) -> pa.Table:
    """The pairs of a batch, found by matching one row after the other."""
    rows: list[int] = []
    ids: list[Id] = []
    names = None if json is not None else names_of(p.expression for p in subscriptions.values())
    for row, event in enumerate(events_of(batch, names, json)):
        found = match(event)
        rows.extend(repeat(row, len(found)))
        ids.extend(found)
    return pairs_table(rows, ids, subscriptions)


def pairs_table(rows: Any, ids: Iterable[Id], held: Iterable[Id] | None = None) -> pa.Table:
    """Pairs of row number and id as an Arrow table.

    The ids are int64 if all ids in `held` are integers, else text, so every batch of one matcher
    gives the same type. Without `held`, the ids of the pairs decide.
    """
    listed = list(ids)
    known = listed if held is None else list(held)
    if all_integers(known):
        column = pa.array(listed, pa.int64())
    else:
        check_texts(set(known))
        column = pa.array(map(str, listed), pa.string())
    return pa.table({"event": pa.array(rows, pa.int64()), "subscription": column})


def check_texts(ids: Collection[Id]) -> None:
    """Raise `ValueError` where an integer and a text among ids are the same text in a batch."""
    twice = next((id for id in ids if type(id) is int and str(id) in ids), None)
    if twice is not None:
        raise ValueError(
            f"the ids {twice} and {str(twice)!r} are the same text in the answer to a batch, "
            "in which ids are all integers or all texts; rename one of them"
        )


def is_integer(id: Id) -> bool:
    """Whether an id is a 64-bit integer."""
    return type(id) is int and -(2**63) <= id < 2**63


def other_ids(ids: Collection[Id]) -> int:
    """How many of the ids are no 64-bit integers; quick if all are integers."""
    if set(map(type, ids)) == {int} and is_integer(min(ids)) and is_integer(max(ids)):
        return 0
    return sum(not is_integer(id) for id in ids)


def all_integers(ids: Collection[Id]) -> bool:
    """Whether there are ids and all of them are 64-bit integers."""
    return len(ids) > 0 and other_ids(ids) == 0


def names_of(expressions: Iterable[Expression]) -> set[str]:
    """The attributes that expressions mention; the empty name stands for all attributes."""
    return {name for e in expressions for c in constraints(e) for name in names_asked(c)}


def events_of(
    batch: Batch, names: Collection[str] | None = None, json: str | None = None
) -> Iterator[Mapping[str, Any]]:
    """The rows of a batch as events, one by one.

    `names` are the attributes that subscriptions mention. Only the columns that hold them are read
    (all columns, if the empty name is among them or there are no `names`). A null is left out: a
    column has a value in every row, so a null can only mean that the attribute is absent. With
    `json`, the events are read from the text in that column, with their nulls; a row without text
    is an event without attributes.
    """
    if json is not None:
        yield from _json_events(batch, json)
        return
    schema = batch.schema
    repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if repeated:
        raise EventError(f"two columns are named {repeated[0]!r}")
    if names is not None:
        kept = columns_of(batch, names)
        if not kept:
            yield from repeat({}, batch.num_rows)
            return
        batch = batch.select(kept)
    batch = readable(batch)
    for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
        columns = part.columns
        if names is not None and "" not in names:
            named = zip(part.schema.names, columns, strict=True)
            columns = [_pruned(column, below(name, names)) for name, column in named]
        part = pa.RecordBatch.from_arrays(list(map(as_values, columns)), part.schema.names)
        yield from map(_without_nulls, part.to_pylist(maps_as_pydicts="lossy"))


def known_columns(batch: Batch, names: Collection[str]) -> pa.RecordBatch:
    """The columns that hold attributes of these names, with values of the language."""
    kept = columns_of(batch, names)
    if not kept:
        return batch.select([])  # which still has rows
    chosen = readable(batch.select(kept))
    if isinstance(chosen, pa.RecordBatch) and _is_as_it_should_be(chosen):
        return chosen
    columns = [
        as_values(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
        for column in chosen.columns
    ]
    return pa.RecordBatch.from_arrays(columns, kept)


def _is_as_it_should_be(batch: pa.RecordBatch) -> bool:
    """Whether `as_values` changes nothing; quicker than to ask it of a thousand columns."""
    return all(map(is_known, batch.schema.types)) and is_sound(batch)


def columns_of(batch: Batch, names: Collection[str]) -> list[str]:
    """The columns that hold attributes of these names, or records with such fields."""
    if "" in names:
        return list(batch.schema.names)
    asked = {beginning for name in names for beginning in accumulate(name.split("."), _dotted)}
    return [name for name in batch.schema.names if name in asked]


def _dotted(name: str, field: str) -> str:
    return f"{name}.{field}"


def _pruned(column: pa.Array, asked: Collection[str]) -> pa.Array:
    """A column whose records keep only the fields that subscriptions mention."""
    kind = column.type
    if not pa.types.is_struct(kind) or "" in asked:
        return column
    kept = [(f, rest) for f, field in enumerate(kind) if (rest := below(field.name, asked))]
    if not kept:
        return pa.nulls(len(column))
    return pa.StructArray.from_arrays(
        [_pruned(column.field(f), rest) for f, rest in kept],
        [kind.field(f).name for f, _ in kept],
        mask=column.is_null() if column.null_count else None,
    )


def _without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    """A record without nulls, also in the records and lists within it."""
    kept = {name: value for name, value in record.items() if value is not None}
    for name, value in kept.items():
        if type(value) is dict:
            kept[name] = _without_nulls(value)
        elif type(value) is list:
            kept[name] = _without_null_elements(value)
    return kept


def _without_null_elements(values: list[Any]) -> list[Any]:
    if values and type(values[0]) in SCALARS and None not in values:  # of one type, as in Arrow
        return values
    return [
        _without_nulls(value)
        if type(value) is dict
        else _without_null_elements(value)
        if type(value) is list
        else value
        for value in values
        if value is not None
    ]


def _json_events(batch: Batch, name: str) -> Iterator[Mapping[str, Any]]:
    """The events of a column of JSON text."""
    column = batch.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not is_text_or_binary(kind):
        raise EventError(f"column {name!r}: expected JSON text, found the type {kind}")
    row = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
        for text in raw_texts(chunk):
            try:
                yield {} if text is None else read(text)
            except EventError as error:
                message = f"column {name!r}, row {row}: {error}"
                raise EventError(message, error.position) from None
            row += 1


def is_text_or_binary(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of text or of bytes."""
    types = pa.types
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return is_text(kind) or bool(binary)


def below(name: str, asked: Iterable[str]) -> frozenset[str]:
    """The rest of each name that goes through a field; empty for the field itself.

    >>> sorted(below("host", {"host", "host.name", "port"}))
    ['', 'name']
    """
    start = len(name) + 1
    return frozenset(
        other[start:] for other in asked if other == name or other.startswith(name + ".")
    )


# Sizes


def stats_of(predicates: Iterable[Predicate], index_bytes: int) -> Stats:
    """The sizes of predicates, with the size of their index.

    A predicate without a normal form counts as one filter with all constraints as written.
    """
    subscriptions = filters = total = 0
    for predicate in predicates:
        subscriptions += 1
        try:
            filters += len(predicate.filters)
            total += predicate.constraints
        except NormalFormError:
            filters += 1
            total += sum(1 for _ in constraints(predicate.expression))
    return Stats(subscriptions, filters, total, index_bytes)


def bytes_of(*roots: Any) -> int:
    """The bytes of Python objects and of everything they refer to, each counted once.

    It leaves out code, classes and modules, and what a library holds outside of Python (RE2's
    programs).
    """
    seen: set[int] = set()
    total = 0
    pending: list[Any] = list(roots)
    while pending:
        thing = pending.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | CodeType):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        if isinstance(thing, FunctionType):
            pending.extend(thing.__closure__ or ())
        else:
            pending.extend(gc.get_referents(thing))
    return total
