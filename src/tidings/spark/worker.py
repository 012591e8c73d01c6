"""The code that runs in Spark's Python workers: it opens tables and matches batches.

A table is a saved directory, memory-mapped, so that the processes of a machine share one copy. A
worker process keeps the tables that it used last, for all its tasks and jobs. If the driver runs on
another machine, Spark ships the table as an archive, and the first worker unpacks it beside that.

This file knows Arrow and the matching room; of Spark it knows only the folder of shipped files.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import threading
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
from tidings.matching.arrow_values import as_values
from tidings.matching.contract import Id
from tidings.matching.documents import match_documents, tally_documents
from tidings.matching.segment import Segment, tally
from tidings.matching.storage import read_table

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
    shipped: bool  # whether Spark sent an archive, because executors may not see the path
    removed: tuple[Id, ...] = ()  # ids in it that are removed (tombstones)


class Opened(NamedTuple):
    """A mapped table: a segment that finds subscription numbers, and the id of each number."""

    segment: Segment
    ids: pa.Array


class Reading(NamedTuple):
    """How to read events from a batch: from one column of JSON text, or with columns as attributes.

    Columns in `nested` hold a record as JSON text.
    """

    json: str | None = None
    nested: tuple[str, ...] = ()


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
    loaded, _ = read_table(_place(shard))
    ids = loaded.any_id_array()
    segment = Segment(range(len(ids)), loaded.plan)
    if shard.removed:
        marks = pc.is_in(ids, pa.array(shard.removed, ids.type))
        segment.remove_all(marks.to_numpy(zero_copy_only=False))
    return Opened(segment, ids)


def _place(shard: Shard) -> Path:
    if not shard.shipped or Path(shard.path).exists():
        return Path(shard.path)
    from pyspark import SparkFiles

    archive = Path(SparkFiles.get(f"{shard.key}.tar"))
    folder = archive.with_suffix(".table")
    if not folder.exists():
        unpack(archive, folder)
    return folder


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder that appears as a whole; several processes may do so."""
    making = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(making, filter="data")
        try:
            os.rename(making, folder)
        except OSError:
            if not folder.exists():  # else another process unpacked the same archive first
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)


# Events


class Asked(NamedTuple):
    """A batch: how many rows, which are not valid events, and how to match the others."""

    events: int
    bad: Array  # rows that are not valid events
    ask: Callable[[Segment], Iterator[tuple[Array, Array]]]  # rows and numbers, in order of rows
    tally: Callable[[Segment, Array], None]  # adds the number of matches of each subscription


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
        for found, numbers in asked.ask(opened.segment):
            rows.append(found)
            ids.append(opened.ids.take(pa.array(numbers)))
    joined, values = np.concatenate(rows), pa.concat_arrays(ids)
    if len(shards) > 1:
        order = np.argsort(joined, kind="stable")
        joined, values = joined[order], values.take(pa.array(order))
    return Found(asked.events, joined, values, asked.bad)


def asked_of_batch(batch: pa.RecordBatch, reading: Reading) -> Asked:
    """The events of a batch."""
    if reading.json is None and not reading.nested:
        return Asked(
            batch.num_rows,
            NOTHING,
            lambda segment: segment.match_batch(batch),
            lambda segment, totals: segment.tally_batch(batch, totals),
        )
    return asked_of_events(list(events_of(batch, reading)))


def asked_of_events(events: list[Any]) -> Asked:
    """Events that `read_text` or `flat` returned."""
    bad = np.flatnonzero([isinstance(event, EventError) for event in events])
    for row in bad.tolist():
        events[row] = {}

    def ask(segment: Segment) -> Iterator[tuple[Array, Array]]:
        for rows, numbers in match_documents(segment, events):
            if bad.size:
                kept = ~np.isin(rows, bad)
                rows, numbers = rows[kept], numbers[kept]
            yield rows, numbers

    def count_all(segment: Segment, totals: Array) -> None:
        if bad.size:
            tally(ask(segment), totals)
        else:
            tally_documents(segment, events, totals)

    return Asked(len(events), bad, ask, count_all)


def events_of(batch: pa.RecordBatch, reading: Reading) -> Iterator[dict[str, Any] | EventError]:
    """The events of a batch one by one, flattened; an error for a row that is not valid."""
    if reading.json is not None:
        yield from map(read_text, batch.column(reading.json).to_pylist())
        return
    columns = [as_values(column) for column in batch.columns]
    read_batch = pa.RecordBatch.from_arrays(columns, batch.schema.names)
    for record in read_batch.to_pylist(maps_as_pydicts="lossy"):
        for name in reading.nested:
            if record[name] is not None:
                record[name] = json_of(record[name])
        yield flat(record)


def read_text(text: str | bytes | None) -> dict[str, Any] | EventError:
    """The event in a JSON text; a null is an event without attributes."""
    if text is None:
        return {}
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


def faults(batch: pa.RecordBatch, reading: Reading) -> pa.Array:
    """For each row null, or why it is not a valid event and at which character."""
    found: list[dict[str, Any] | None] = []
    for event in events_of(batch, reading):
        fault = None
        if isinstance(event, EventError):
            fault = {"reason": str(event), "position": event.position}
        found.append(fault)
    return pa.array(found, pa.struct({"reason": pa.string(), "position": pa.int64()}))


# Results


def lists(
    shards: Sequence[Shard], batches: Iterable[pa.RecordBatch], reading: Reading
) -> Iterator[pa.Array]:
    """The list of ids of each row, null for one that is not valid, in arrays of bounded size."""
    if len(shards) > 1:  # the matches of all shards must be in memory together
        for batch in together(batches, SHARED_CHUNK):
            yield from _lists(find(shards, asked_of_batch(batch, reading)))
        return
    (opened,) = map(open_shard, shards)
    for batch in together(batches, CHUNK):
        asked = asked_of_batch(batch, reading)
        first = 0
        for rows, numbers in asked.ask(opened.segment):  # a part has all matches of its rows
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
    shard: Shard, batches: Iterable[pa.RecordBatch], reading: Reading
) -> Iterator[tuple[pa.Array, Array]]:
    """Ids and the number of events that match each, without zeros, part by part."""
    opened = open_shard(shard)
    totals = np.zeros(len(opened.ids), np.int64)
    for batch in together(batches, CHUNK):
        asked_of_batch(batch, reading).tally(opened.segment, totals)
    some = np.flatnonzero(totals)
    for start in range(0, some.size, VALUES):
        part = some[start : start + VALUES]
        yield opened.ids.take(pa.array(part)), totals[part]


def together(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.num_rows
        if size >= rows:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, size = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()
