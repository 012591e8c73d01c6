"""What runs in Spark's Python workers: tables found and kept, batches matched.

Tables are saved directories, mapped: the processes of a node share one copy. A worker process keeps
the few it used last, for all tasks and jobs that it serves. On another machine than the driver's, a
table comes as one archive by Spark's own file shipping and is unpacked once beside it.

This file knows Arrow and the matching room; of Spark only where it puts shipped files.
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
from tidings.language.event import MAX_EVENT_BYTES, SCALARS, Event, read
from tidings.matching.contract import Id
from tidings.matching.documents import match_documents, tally_documents
from tidings.matching.segment import Segment, tally
from tidings.matching.storage import read_table

Array = np.ndarray[Any, Any]

KEPT: Final = 4  # tables that a worker process keeps open
CHUNK: Final = 32_768  # rows taken together where a batch costs more than its rows
SHARED_CHUNK: Final = 8_192  # the same where several shards are asked about them in turn
VALUES: Final = 1 << 20  # ids in one batch on its way back to the JVM
PLAIN: Final = SCALARS | {type(None)}
NOTHING: Final = np.zeros(0, np.int64)

_decode: Final = msgspec.json.Decoder().decode


class Shard(NamedTuple):
    """A saved table, as tasks must know it."""

    key: str  # digest of what is in it: tables of one key are the same
    path: str  # of the directory, where the driver saved it
    shipped: bool  # whether the path means nothing elsewhere and an archive was sent
    removed: tuple[Id, ...] = ()  # ids in it that do not count any more (tombstones)


class Opened(NamedTuple):
    """A table that is mapped: a segment that answers with numbers, and the ids these stand for."""

    segment: Segment
    ids: pa.Array


class Reading(NamedTuple):
    """How events are read from a batch: one column of JSON text, or columns as attributes.

    Of the latter, those in `nested` hold JSON text below their own name.
    """

    json: str | None = None
    nested: tuple[str, ...] = ()


# Tables

_opened: OrderedDict[tuple[str, tuple[Id, ...]], Opened] = OrderedDict()
_lock = threading.Lock()


def open_shard(shard: Shard, keep: bool = True) -> Opened:
    """The table of a shard, mapped; with `keep`, for whoever asks next."""
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
    """Unpack an archive to a folder that appears whole; several processes may do so at once."""
    making = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(making, filter="data")
        try:
            os.rename(making, folder)
        except OSError:
            if not folder.exists():  # else another process was quicker, with the same
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)


# Events


class Asked(NamedTuple):
    """So many events, which of them are none, and how a table is asked about the others."""

    events: int
    bad: Array  # rows
    ask: Callable[[Segment], Iterator[tuple[Array, Array]]]  # rows and numbers, in order of rows
    tally: Callable[[Segment, Array], None]  # adds to how many match each subscription


class Found(NamedTuple):
    """What events match, and which of them are none."""

    events: int
    rows: Array  # of each match, in order
    ids: pa.Array
    bad: Array  # rows


def find(shards: Sequence[Shard], asked: Asked) -> Found:
    """All matches. Several shards are opened in turn, so that one is held at a time."""
    rows: list[Array] = [NOTHING]
    ids: list[pa.Array] = []
    # But a table and what changed since are small together, and wanted again for the next batch.
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
    """Events as `read_text` and `flat` give them."""
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
    """The events of a batch one by one, flat where they are nested; or why one is none."""
    if reading.json is not None:
        yield from map(read_text, batch.column(reading.json).to_pylist())
        return
    for record in batch.to_pylist(maps_as_pydicts="lossy"):
        for name in reading.nested:
            if record[name] is not None:
                record[name] = _decode(record[name])
        yield flat(record)


def read_text(text: str | bytes | None) -> dict[str, Any] | EventError:
    """The event that a JSON text is; a null is one without attributes."""
    if text is None:
        return {}
    try:
        event = _decode(text) if len(text) <= MAX_EVENT_BYTES else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        event = None
    if type(event) is dict:
        return flat(event)
    try:  # once more, to be told what is wrong
        return flat(dict(read(text)))
    except EventError as error:
        return error


def flat(event: dict[str, Any]) -> dict[str, Any] | EventError:
    """A record as an event, laid flat where it is nested."""
    if set(map(type, event.values())) <= PLAIN:
        return event
    try:
        return Event(event)
    except EventError as error:
        return error


def faults(batch: pa.RecordBatch, reading: Reading) -> pa.Array:
    """For each event null, or where it is none why not, and at which character."""
    found: list[dict[str, Any] | None] = []
    for event in events_of(batch, reading):
        fault = None
        if isinstance(event, EventError):
            fault = {"reason": str(event), "position": event.position}
        found.append(fault)
    return pa.array(found, pa.struct({"reason": pa.string(), "position": pa.int64()}))


# Answers


def lists(
    shards: Sequence[Shard], batches: Iterable[pa.RecordBatch], reading: Reading
) -> Iterator[pa.Array]:
    """For each event the list of its ids, null where it is none, in arrays of a bounded size."""
    if len(shards) > 1:  # all that they find of some events has to be held at once
        for batch in together(batches, SHARED_CHUNK):
            yield from _lists(find(shards, asked_of_batch(batch, reading)))
        return
    (opened,) = map(open_shard, shards)
    for batch in together(batches, CHUNK):
        asked = asked_of_batch(batch, reading)
        first = 0
        for rows, numbers in asked.ask(opened.segment):  # a part holds all of each row in it
            if rows.size:
                last = int(rows[-1]) + 1
                yield from _lists(
                    _part(asked, first, last, rows, opened.ids.take(pa.array(numbers)))
                )
                first = last
        yield from _lists(_part(asked, first, asked.events, NOTHING, opened.ids.slice(0, 0)))


def _part(asked: Asked, first: int, last: int, rows: Array, ids: pa.Array) -> Found:
    """What some of the events match."""
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
    """Ids and how many of all events match each, of those that match any, part by part."""
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
