"""The code that runs in Spark's Python workers: it opens tables and matches batches.

A table is a saved directory, memory-mapped, so that the processes of a machine share one copy. A
worker process keeps the tables that it used last, for all its tasks and jobs. If the driver runs on
another machine, Spark ships the table as an archive, and the first worker unpacks it beside that.

This file knows Arrow and the matching room; of Spark it knows only the folder of shipped files.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.language.errors import EventError
from tidings.language.event import MAX_EVENT_BYTES, Event, read
from tidings.language.values import SCALARS
from tidings.matching.arrow_values import raw_texts, without_months
from tidings.matching.batches import match_columns, match_documents, tally
from tidings.matching.contract import Id, is_text_or_binary
from tidings.matching.native.engine import Index
from tidings.matching.storage import read_table
from tidings.spark.spelling import spelled
from tidings.spark.variants import holds_variant, is_variant, python_values

Array = np.ndarray[Any, Any]

KEPT: Final = 4  # tables that a worker process keeps open
CHUNK: Final = 32_768  # rows that are matched together, because each batch has a cost of its own
SHARED_CHUNK: Final = 8_192  # the same where several shards are searched in turn
VALUES: Final = 1 << 20  # ids in one batch that goes back to the JVM
PLAIN: Final = SCALARS | {type(None)}
NOTHING: Final = np.zeros(0, np.int64)

json_of: Final = msgspec.json.Decoder().decode


class Shard(NamedTuple):
    """A saved table: what tasks must know to open it."""

    key: str  # a digest of its content
    path: str  # the directory where the driver saved it
    shipped: bool = False  # whether Spark sent an archive, because executors may not see the path
    removed: tuple[Id, ...] = ()  # ids in it that are removed (tombstones)
    data: bytes = b""  # the table itself, packed, if it is small and executors may not see the path


class Opened(NamedTuple):
    """A mapped table: an index that finds subscription numbers, and the id of each number."""

    table: Index
    ids: pa.Array


class Reading(NamedTuple):
    """How to read a column of events. A record is a row of attributes; texts are JSON."""

    names: frozenset[str] | None = None  # that subscriptions ask about, if case does not count
    nulls: bool = False  # whether a null is an event without attributes, and not no event


# Tables

_opened: OrderedDict[tuple[str, tuple[Id, ...]], Opened] = OrderedDict()
_lock = threading.Lock()


def open_shard(shard: Shard, keep: bool = True) -> Opened:
    """Map the table of a shard; `keep` it open for the next caller."""
    name = (shard.key, shard.removed)
    with _lock:
        found = _opened.get(name)
        if found is None:
            found = _open(shard)
            if keep:
                _opened[name] = found
                while len(_opened) > KEPT:
                    _opened.popitem(last=False)
        else:
            _opened.move_to_end(name)
    return found


def _open(shard: Shard) -> Opened:
    if shard.data and not Path(shard.path).exists():
        with tempfile.TemporaryDirectory(prefix="tidings-") as folder:
            with tarfile.open(fileobj=io.BytesIO(zlib.decompress(shard.data))) as packed:
                _extract(packed, folder)
            index, predicates = read_table(folder)  # which maps the files: they may go
    else:
        index, predicates = read_table(_place(shard))
    ids = predicates.id_array()
    if shard.removed:
        marks = pc.is_in(ids, pa.array(shard.removed, ids.type))
        index.remove_all(np.flatnonzero(marks.to_numpy(zero_copy_only=False)).tolist())
    return Opened(index, ids)


def _place(shard: Shard) -> Path:
    if not shard.shipped or Path(shard.path).exists():
        return Path(shard.path)
    from pyspark import SparkFiles

    archive = Path(SparkFiles.get(f"{shard.key}.tar"))
    folder = archive.with_suffix(".table")
    if not folder.exists():
        unpack(archive, folder)
    return folder


def _extract(packed: tarfile.TarFile, folder: str | Path) -> None:
    """Unpack an archive by Python's filter for data, which Python has from 3.11.4 on."""
    packed.extraction_filter = getattr(tarfile, "data_filter", None)
    packed.extractall(folder)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder that appears as a whole; several processes may do so."""
    making = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        with tarfile.open(archive) as packed:
            _extract(packed, making)
        try:
            os.rename(making, folder)
        except OSError:
            if not folder.exists():  # else another process unpacked the same archive first
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)


# Events

Ask = Callable[[Index], Iterator[tuple[Array, Array]]]  # rows and numbers, in order of rows


class Asked(NamedTuple):
    """A batch: how many rows, which are not valid events, and how to match the others."""

    events: int
    bad: Array  # rows that are not valid events
    ask: Ask


class Found(NamedTuple):
    """The matches of a batch, and the rows that are not valid events."""

    events: int
    rows: Array  # the row of each match, in order
    ids: pa.Array  # the subscription of each match
    bad: Array  # rows that are not valid events


def find(shards: Sequence[Shard], asked: Asked) -> Found:
    """All matches. Opens several shards in turn, so that only one is mapped at a time."""
    rows: list[Array] = [NOTHING]
    ids: list[pa.Array] = []
    # Except a base and its delta: together they are small, and the next batch needs both again.
    keep = len(shards) == 1 or any(shard.removed for shard in shards)
    for shard in shards:
        opened = open_shard(shard, keep=keep)
        ids.append(opened.ids.slice(0, 0))
        for found, numbers in asked.ask(opened.table):
            rows.append(found)
            ids.append(opened.ids.take(pa.array(numbers)))
    joined, values = np.concatenate(rows), pa.concat_arrays(ids)
    if len(shards) > 1:
        order = np.argsort(joined, kind="stable")
        joined, values = joined[order], values.take(pa.array(order))
    return Found(asked.events, joined, values, asked.bad)


def asked_of_column(events: pa.Array, reading: Reading) -> Asked:
    """The events of a column: records, maps, Variants or JSON texts."""
    events = without_months(events)
    kind = events.type
    if pa.types.is_struct(kind) and not holds_variant(kind):
        if reading.names is not None:
            events = spelled(events, reading.names)
        batch = pa.RecordBatch.from_arrays(events.flatten(), [f.name for f in events.type])
        bad = np.flatnonzero(events.is_null()) if events.null_count else NOTHING
        return Asked(len(events), bad, _without(bad, lambda index: match_columns(index, batch)))
    found = list(events_of(events, reading))
    bad = np.flatnonzero([not isinstance(event, dict) for event in found])
    for row in bad.tolist():
        found[row] = {}
    documents: list[Any] = found
    ask = _without(bad, lambda index: match_documents(index, documents))
    return Asked(len(found), bad, ask)


def _without(bad: Array, ask: Ask) -> Ask:
    """The matches without those of bad rows."""
    if not bad.size:
        return ask

    def good(index: Index) -> Iterator[tuple[Array, Array]]:
        for rows, numbers in ask(index):
            kept = ~np.isin(rows, bad)
            yield rows[kept], numbers[kept]

    return good


def events_of(events: pa.Array, reading: Reading) -> Iterator[dict[str, Any] | EventError | None]:
    """The events of a column one by one, flattened; an error for a row that is not valid."""
    events = without_months(events)
    kind = events.type
    missing: dict[str, Any] | None = {} if reading.nulls else None
    if is_text_or_binary(kind):
        for text in raw_texts(events):
            yield missing if text is None else read_text(text)
        return
    is_record = pa.types.is_struct(kind) and not is_variant(kind)
    if is_record and reading.names is not None:
        events = spelled(events, reading.names)
    for value in python_values(events):
        if value is None:
            yield missing
        elif isinstance(value, dict):
            yield flat(value)
        else:
            yield EventError(f"expected a JSON object, found {type(value).__name__}")


def read_text(text: str | bytes) -> dict[str, Any] | EventError:
    """The event in a JSON text."""
    try:
        event = json_of(text) if len(text) <= MAX_EVENT_BYTES else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        event = None
    if type(event) is dict:
        return flat(event)
    try:  # read it again, to find out what is wrong
        return flat(dict(read(text)))
    except EventError as error:
        return error


def flat(event: dict[str, Any]) -> dict[str, Any] | EventError:
    """A record as an event, flattened where it is nested."""
    if set(map(type, event.values())) <= PLAIN:
        return event
    try:
        return Event(event)
    except EventError as error:
        return error


def faults(events: pa.Array, reading: Reading) -> pa.Array:
    """For each row null, or why it is not a valid event and at which character."""
    found: list[dict[str, Any] | None] = []
    for event in events_of(events, reading):
        fault = None
        if isinstance(event, EventError):
            fault = {"reason": str(event), "position": event.position}
        found.append(fault)
    return pa.array(found, pa.struct({"reason": pa.string(), "position": pa.int64()}))


# Results


def lists(
    shards: Sequence[Shard], columns: Iterable[pa.Array], reading: Reading
) -> Iterator[pa.Array]:
    """The list of ids of each row, null for one that is not valid, in arrays of bounded size."""
    if len(shards) > 1:  # the matches of all shards must be in memory together
        for events in together(columns, SHARED_CHUNK):
            yield from _lists(find(shards, asked_of_column(events, reading)))
        return
    (opened,) = map(open_shard, shards)
    for events in together(columns, CHUNK):
        asked = asked_of_column(events, reading)
        first = 0
        for rows, numbers in asked.ask(opened.table):  # a part has all matches of its rows
            if rows.size:
                last = int(rows[-1]) + 1
                yield from _lists(
                    _part(asked, first, last, rows, opened.ids.take(pa.array(numbers)))
                )
                first = last
        yield from _lists(_part(asked, first, asked.events, NOTHING, opened.ids.slice(0, 0)))


def _part(asked: Asked, first: int, last: int, rows: Array, ids: pa.Array) -> Found:
    """The matches of some rows of a batch."""
    bad = asked.bad[(asked.bad >= first) & (asked.bad < last)]
    return Found(last - first, rows - first, ids, bad - first)


def _lists(found: Found) -> Iterator[pa.Array]:
    counts = np.bincount(found.rows, minlength=found.events)
    ends = np.cumsum(counts)
    offsets = np.concatenate(([0], ends))
    first = 0
    while first < found.events:
        last = int(np.searchsorted(ends, offsets[first] + VALUES, side="right"))
        last = min(max(last, first + 1), found.events)
        begin, end = int(offsets[first]), int(offsets[last])
        at = pa.array((offsets[first : last + 1] - begin).astype(np.int32))
        mask = None
        if found.bad.size:
            mask = pa.array(np.isin(np.arange(first, last), found.bad))
        yield pa.ListArray.from_arrays(at, found.ids.slice(begin, end - begin), mask=mask)
        first = last


def count(
    shard: Shard, columns: Iterable[pa.Array], reading: Reading
) -> Iterator[tuple[pa.Array, Array]]:
    """Ids and the number of events that match each, without zeros, part by part."""
    opened = open_shard(shard)
    totals = np.zeros(len(opened.ids), np.int64)
    for events in together(columns, CHUNK):
        tally(asked_of_column(events, reading).ask(opened.table), totals)
    some = np.flatnonzero(totals)
    for start in range(0, some.size, VALUES):
        part = some[start : start + VALUES]
        yield opened.ids.take(pa.array(part)), totals[part]


def together(columns: Iterable[pa.Array], rows: int) -> Iterator[pa.Array]:
    """The same rows in larger columns."""
    held: list[pa.Array] = []
    size = 0
    for column in columns:
        held.append(column)
        size += len(column)
        if size >= rows:
            yield pa.concat_arrays(held)
            held, size = [], 0
    if held:
        yield pa.concat_arrays(held)
