"""A live subscription as a sequence of numbered events, kept until a query has processed them.

A feed runs beside the driver. A thread of its own takes events from the network, writes them to a
journal, and only then acknowledges them (a write-ahead log). So the events of a batch can be read
again after a crash, and the position in the network's session, which lies with them, lets a new
process go on exactly there, if the router still has the session: it keeps it for 30 seconds.

The journal is a folder. `events/N.arrow` are segments, immutable and in order: rows, with the
number of the first one, the position after them, and the counts so far. `unfit/N.jsonl` has the
events that do not fit the schema, with the reasons. A segment can be made by one writer only, so
a second query that writes to the same journal is found out. The session's key is a secret: a local
journal is readable by its user only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
import pyarrow as pa

from tidings.live.client import Client
from tidings.live.client_core import Position
from tidings.live.inbox import Tiding
from tidings.live.subscription import Subscription
from tidings.spark.folders import Folder, LocalFolder, folder
from tidings.spark.options import JOURNAL_BYTES, Link
from tidings.spark.rows import Rows, as_json

SEGMENT: Final = 8_192  # events
WINDOW: Final = 8_192  # deliveries that the router sends ahead
PAUSE_S: Final = 0.05  # between two segments, so that they do not become many and small
QUIET_S: Final = 0.5  # without an event, until what was waiting counts as read
START_S: Final = 60.0  # for a subscription to be established
UNFIT_FILES: Final = 1_000  # that are kept
SLICE_BYTES: Final = 8 << 20  # of events that one task gets
EVENTS: Final = "events"
UNFIT: Final = "unfit"
FACTS: Final = b"tidings"

log = logging.getLogger("tidings.spark")


class FeedError(ValueError):
    """A journal that cannot be used, or not by this query."""


class Counts(msgspec.Struct, frozen=True):
    """What a feed has seen since its journal began."""

    received: int = 0
    unfit: int = 0  # of these, events that do not fit the schema
    interruptions: int = 0  # times when events may have been missed


class SegmentFacts(msgspec.Struct, frozen=True):
    """What a segment says beside its rows."""

    first: int  # the number of its first row
    rows: int
    position: Position
    counts: Counts


class Segment(NamedTuple):
    """A file of events."""

    number: int
    first: int
    rows: int
    size: int  # bytes


class Feed:
    """The events of a subscription, numbered from 0.

    `start` returns when the subscription is established. Without a journal the feed uses a folder
    that ends with it.
    """

    def __init__(
        self,
        link: Link,
        subscription: str,
        rows: Rows,
        journal: str | None = None,
        most_bytes: int = JOURNAL_BYTES,
    ) -> None:
        self.link = link
        self.subscription = subscription
        self.rows = rows
        self.durable = journal is not None
        self.counts = Counts()
        self.newest = 0  # how many events there are, from number 0 on
        self._temporary = None if journal else tempfile.mkdtemp(prefix="tidings-feed-")
        self.files: Folder = folder(journal or self._temporary or "")
        if isinstance(self.files, LocalFolder):
            self.files.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._most_bytes = most_bytes
        self._segments: deque[Segment] = deque()
        self._position: Position | None = None
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._idle = threading.Event()  # nothing waits
        self._failure: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._work, daemon=True, name="tidings-feed")
        self.key = self._open()

    # The journal

    def _open(self) -> str:
        """Read what the journal holds; return its key, which tells it from other journals."""
        key = uuid4().hex
        if not self.files.put_new("feed.json", msgspec.json.encode({"feed": key})):
            try:
                facts = msgspec.json.decode(self.files.read("feed.json"), type=dict[str, str])
                key = facts["feed"]
            except (msgspec.MsgspecError, KeyError):
                raise FeedError(f"{self.files.location}: expected the journal of a feed") from None
        names = [name for name in self.files.names(EVENTS) if name.endswith(".arrow")]
        for name in names:
            data = self.files.read(f"{EVENTS}/{name}")
            schema = pa.ipc.open_stream(data).schema
            facts_of = msgspec.json.decode(schema.metadata[FACTS], type=SegmentFacts)
            if facts_of.rows and not schema.equals(self.rows.arrow):
                raise FeedError(
                    f"{self.files.location}: its events have another schema "
                    f"({', '.join(schema.names)}); finish with that one, or name another journal"
                )
            number = int(name.partition(".")[0])
            self._segments.append(Segment(number, facts_of.first, facts_of.rows, len(data)))
            self.newest = facts_of.first + facts_of.rows
            self._position, self.counts = facts_of.position, facts_of.counts
        return key

    def _store(self, events: list[Tiding], position: Position, interruptions: int) -> None:
        """Write a segment. When this returns, the events are safe."""
        batch, unfit = self.rows.batch(events)
        number = self._segments[-1].number + 1 if self._segments else 0
        if unfit:
            lines = (as_json({"reason": one.reason, "event": one.event}) for one in unfit)
            self.files.put(f"{UNFIT}/{number:020}.jsonl", ("\n".join(lines) + "\n").encode())
            self._forget_unfit()
        counts = Counts(
            self.counts.received + len(events),
            self.counts.unfit + len(unfit),
            interruptions,
        )
        facts = SegmentFacts(self.newest, batch.num_rows, position, counts)
        data = _packed(batch, facts)
        if not self.files.put_new(f"{EVENTS}/{number:020}.arrow", data):
            raise FeedError(f"{self.files.location}: another query writes to this journal")
        with self._lock:
            self._segments.append(Segment(number, self.newest, batch.num_rows, len(data)))
            self.newest += batch.num_rows
            self.counts = counts

    def _forget_unfit(self) -> None:
        for name in self.files.names(UNFIT)[:-UNFIT_FILES]:
            self.files.remove(f"{UNFIT}/{name}")

    def between(self, first: int, end: int) -> list[bytes]:
        """The events from one number to before another, as Arrow streams, each for a task."""
        slices: list[bytes] = []
        with self._lock:
            held = [s for s in self._segments if s.rows and s.first < end]
        held = [s for s in held if s.first + s.rows > first]
        if first < end and (not held or held[0].first > first):
            raise FeedError(
                f"{self.files.location}: the events from number {first} on are not in the journal"
            )
        for segment in held:
            data = self.files.read(f"{EVENTS}/{segment.number:020}.arrow")
            batch = pa.ipc.open_stream(data).read_all().combine_chunks().to_batches()[0]
            begin = max(first - segment.first, 0)
            batch = batch.slice(begin, min(end - segment.first, segment.rows) - begin)
            parts = -(-batch.nbytes // SLICE_BYTES) or 1
            step = -(-batch.num_rows // parts)
            slices += [_packed(batch.slice(n, step)) for n in range(0, batch.num_rows, step)]
        return slices

    def forget(self, end: int) -> None:
        """The events before a number are processed. The last segment stays: it has the position."""
        while True:
            with self._lock:
                if len(self._segments) < 2 or self._segments[1].first > end:
                    return
                oldest = self._segments.popleft()
            self.files.remove(f"{EVENTS}/{oldest.number:020}.arrow")

    # The network

    def start(self) -> None:
        """Subscribe, or go on where the journal ends; return when the subscription stands."""
        self._thread.start()
        self._ready.wait()
        self.check()

    def check(self) -> None:
        """Raise why the feed does not go on, if it does not."""
        if self._failure is not None:
            raise self._failure

    def settle(self) -> None:
        """Wait until what waits at the router has arrived, as far as that can be known."""
        seen = -1
        while seen != self.counts.received:
            self.check()
            seen = self.counts.received
            self._idle.clear()
            self._idle.wait(QUIET_S * 20)

    def stop(self) -> None:
        """End. With a journal the session stays at the router for a while, to be resumed."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(10.0)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _work(self) -> None:
        try:
            asyncio.run(self._receive())
        except Exception as error:
            self._failure = error
        finally:
            self._ready.set()
            self._idle.set()

    async def _receive(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        link = self.link
        authority = None if link.authority is None else Path(link.authority)
        client = Client(
            link.addresses, link.token, "block", WINDOW, authority, link.timeout_s,
            position=self._position,
        )  # fmt: skip
        await client.start()
        try:
            subscription = await self._subscribed(client)
            await self._take(client, subscription)
        finally:
            await (client.leave() if self.durable else client.close())

    async def _subscribed(self, client: Client) -> Subscription:
        subscription = client.resumed
        if subscription is None:
            return await client.subscribe(self.subscription, timeout_s=START_S)
        if client.interruptions:
            log.warning("the router has lost the session of %s: events may be missed", self)
        if subscription.predicate != self.subscription:
            await subscription.replace(self.subscription, START_S)
        else:
            await subscription.established(START_S)
        return subscription

    async def _take(self, client: Client, subscription: Subscription) -> None:
        before = self.counts.interruptions
        begun = client.position(subscription, 0)
        if self._position is None or self._position.session != begun.session:
            await asyncio.to_thread(self._store, [], begun, before + subscription.interruptions)
        self._ready.set()
        stopping = self._stopping
        assert stopping is not None
        over = asyncio.ensure_future(stopping.wait())
        while not over.done():
            arrival = asyncio.ensure_future(subscription.arrival())
            await asyncio.wait(
                (arrival, over), timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED
            )
            arrival.cancel()
            events = [] if self._is_full() else subscription.peek(SEGMENT)
            if events:
                position = client.position(subscription, events[-1][1])
                held = [event for event, _ in events]
                interruptions = before + subscription.interruptions
                await asyncio.to_thread(self._store, held, position, interruptions)
                subscription.take(len(events))
                await asyncio.wait((over,), timeout=PAUSE_S)
            elif isinstance(subscription.over, Exception):
                raise subscription.over
            elif subscription.waiting:
                await asyncio.wait((over,), timeout=PAUSE_S)  # the journal is full
            else:
                self._idle.set()

    def _is_full(self) -> bool:
        with self._lock:
            return sum(segment.size for segment in self._segments) > self._most_bytes

    def __repr__(self) -> str:
        return f"Feed({self.subscription!r}, {self.files.location!r})"


def received(journal: str | os.PathLike[str]) -> Counts:
    """The counts of the journal of a stream, as far as it has got."""
    files = folder(journal)
    names = [name for name in files.names(EVENTS) if name.endswith(".arrow")]
    if not names:
        return Counts()
    schema = pa.ipc.open_stream(files.read(f"{EVENTS}/{names[-1]}")).schema
    return msgspec.json.decode(schema.metadata[FACTS], type=SegmentFacts).counts


def _packed(batch: pa.RecordBatch, facts: SegmentFacts | None = None) -> bytes:
    """A batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    metadata = None if facts is None else {FACTS: msgspec.json.encode(facts)}
    with pa.ipc.new_stream(sink, batch.schema.with_metadata(metadata)) as stream:
        stream.write_batch(batch.replace_schema_metadata(metadata))
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> list[pa.RecordBatch]:
    """The batches of an Arrow stream."""
    return list(pa.ipc.open_stream(data))
