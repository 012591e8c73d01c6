"""The data source `tidings`: the live network as tables and streams of Spark.

    register_source(spark)
    spark.readStream.format("tidings").option("url", …).option("subscription", "severity > 2")
    spark.read.format("tidings").options(url=…, seconds=10, subscription="severity > 2").load()
    spark.read.format("tidings").option("pushdown", "true").load("recording").where("severity > 2")
    frame.write.format("tidings").option("url", …).mode("append").save()

A batch read takes what a router has recorded, or what arrives within some seconds. With the option
pushdown its WHERE clause becomes the predicate, as far as that is exact (`pushdown`). Spark up to
4.3 keeps what one query has pushed for all later queries of the same DataFrame, which then miss
rows; so there the option is off unless the caller sets it, and reads each such frame once. Spark
offers pushdown to batch reads only, so a stream names its subscription; `subscribe` makes one of a
Column. docs/spark-network.md says what each promises.
"""

from __future__ import annotations

import json as jsonlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidings.language.predicate import Predicate, parse
from tidings.live.recorder import read_recording
from tidings.routing.packets import Publication
from tidings.routing.protocol import Publish, Received
from tidings.spark.feed import Feed, FeedError, unpacked
from tidings.spark.options import JOURNAL_BYTES, MAX_BATCH, Link, OptionError, Options
from tidings.spark.publishing import EventStreamWriter, EventWriter, Publishing
from tidings.spark.pushdown import pushed
from tidings.spark.rows import CORRUPT, Rows, inferred, json_schema
from tidings.wire.errors import WireError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NAME: Final = "tidings"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
PUSHES: Final = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 4)
SAMPLE: Final = 1_000  # events, from which a schema is inferred
SAMPLE_S: Final = 5.0
BATCH_ROWS: Final = 4_096  # events of a batch that a task makes at a time
_SAID: Final = re.compile(r"tidings says (\".*?\") here ends what tidings says")


class EventsUnfitError(ValueError):
    """Events that do not fit the schema of a batch read."""


def register_source(spark: SparkSession) -> None:
    """Make `format("tidings")` known to a session, and let WHERE clauses reach it."""
    spark.dataSource.register(TidingsSource)
    spark.conf.set(PUSHDOWN, "true")


class Subscribed(NamedTuple):
    """A stream of events, and the subscription that the network has of it."""

    events: DataFrame
    subscription: str


def subscribe(
    url: str | Sequence[str],
    wanted: str | Predicate | Column,
    *,
    schema: StructType | str | None = None,
    spark: SparkSession | None = None,
    **options: str,
) -> Subscribed:
    """A stream of the events that match a predicate, or that satisfy a condition on columns.

    What a Column says is said to the network as far as that is exactly the same; `subscription` of
    the result is that part. The whole condition is also a filter of the stream, so the rest of it
    holds as well. A Column needs a `schema`. Where nothing of it can be said, an `OptionError`
    asks for a predicate. The options are those of the data source: `journal`, `token`, ….

    >>> found = subscribe(url, "severity > 2 and device prefix 'web-'")
    >>> found = subscribe(url, F.col("n") > 2, schema="n long", journal="journal")
    """
    from pyspark.sql import SparkSession

    session = spark or SparkSession.active()
    register_source(session)
    condition = None
    if isinstance(wanted, str | Predicate):
        said = str(parse(wanted) if isinstance(wanted, str) else wanted)
    else:
        if schema is None:
            raise OptionError("subscribe: expected a schema with a Column, found none")
        condition = wanted
        said = _said(session, condition, schema)
    urls = url if isinstance(url, str) else ",".join(url)
    reader = session.readStream.format(NAME).options(url=urls, subscription=said, **options)
    if schema is not None:
        reader = reader.schema(schema)
    events = reader.load()
    return Subscribed(events if condition is None else events.where(condition), said)


def _said(spark: SparkSession, condition: Column, schema: StructType | str) -> str:
    """What of a condition can be said to the network.

    Spark plans a read with the condition and pushes what it can; the reader then raises what it
    got, which is how it comes back from the planner's process, on Spark Connect too.
    """
    frame = spark.read.format(NAME).schema(schema).option("say", "true").load()
    try:
        frame.where(condition).collect()
    except Exception as error:
        found = _SAID.search(str(error))
        if found is None:
            raise
        text = str(jsonlib.loads(found.group(1)))
    if not text:
        raise OptionError(
            "subscribe: nothing of this condition can be said to the network exactly; give the "
            "predicate as text ('true' takes every event), and filter the stream"
        )
    return text


class TidingsSource(DataSource):
    """`format("tidings")`."""

    @classmethod
    def name(cls) -> str:
        """Its name in Spark."""
        return NAME

    def schema(self) -> StructType:
        """The schema, from a sample of events."""
        options = Options(self.options)
        json = options.text("json")
        if json is not None:
            return json_schema(json)
        seconds = options.number("sampleSeconds", SAMPLE_S) or SAMPLE_S
        path = options.text("path")
        if path is not None:
            wanted = options.subscription()
            events = list(_some(recorded([path], wanted), SAMPLE))
        else:
            wanted = options.needed_subscription()
            events = list(arriving(options.link(), str(wanted), seconds, SAMPLE))
        if not events:
            raise OptionError(
                f"no event to infer a schema from ({path or f'within {seconds:g} s'}): give one by "
                "`schema`, or take events as JSON text with the option json"
            )
        return inferred(events)

    def reader(self, schema: StructType) -> EventReader:
        """For `spark.read`."""
        options = Options(self.options)
        pushes = options.flag("pushdown", PUSHES) or options.text("say") is not None
        return (PushingReader if pushes else EventReader)(schema, options)

    def streamReader(self, schema: StructType) -> EventStreamReader:
        """For `spark.readStream`."""
        return EventStreamReader(schema, Options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> EventWriter:
        """For `write`."""
        _refuse_overwriting(overwrite)
        return EventWriter(Publishing.of(Options(self.options), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> EventStreamWriter:
        """For `writeStream`."""
        _refuse_overwriting(overwrite)
        return EventStreamWriter(Publishing.of(Options(self.options), schema))


def _refuse_overwriting(overwrite: bool) -> None:
    if overwrite:
        raise OptionError("published events cannot be overwritten: use mode append")


# Batches


@dataclass
class Recording(InputPartition):
    """A file that a router has recorded."""

    path: str


@dataclass
class Listening(InputPartition):
    """A while in which to take what arrives."""

    seconds: float
    events: int


class EventReader(DataSourceReader):
    """Reads what routers have recorded, or what arrives within some seconds."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self.schema = schema
        self.say = options.text("say") is not None
        if self.say:
            self.predicate: Predicate | None = None
            return
        self.json = options.text("json")
        Rows(schema, self.json)  # raises now, not in a task
        self.predicate = options.subscription()
        path = options.text("path")
        self.paths = [] if path is None else [path]
        self.seconds = options.number("seconds")
        self.most = options.number("events")
        self.link: Link | None = None
        if path is None:
            self.link = options.link()
            if self.seconds is None:
                raise OptionError(
                    "a batch read of the network needs the option seconds (how long to listen), "
                    "or load(PATH) for what a router has recorded"
                )

    def partitions(self) -> Sequence[InputPartition]:
        """One task for each recording, or one that listens."""
        if self.say:
            text = jsonlib.dumps("" if self.predicate is None else str(self.predicate))
            raise OptionError(f"tidings says {text} here ends what tidings says")
        if self.link is None:
            return [Recording(str(file)) for path in self.paths for file in _files(path)]
        if self.predicate is None:
            Options({}).needed_subscription()
        return [Listening(self.seconds or 0.0, int(self.most or 0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        rows = Rows(self.schema, self.json)
        if isinstance(partition, Recording):
            events = recorded([partition.path], self.predicate)
        else:
            assert isinstance(partition, Listening)
            assert self.link is not None
            most = partition.events or None
            events = arriving(self.link, str(self.predicate), partition.seconds, most)
        while held := list(_some(events, BATCH_ROWS)):
            batch, unfit = rows.batch(held)
            if unfit:
                raise EventsUnfitError(
                    f"{unfit[0].reason}; give another schema, or add a column `{CORRUPT} string`, "
                    "which gets such events as JSON text"
                )
            yield batch


class PushingReader(EventReader):
    """A reader that takes over what a WHERE clause says."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take over what can be said exactly; Spark applies the rest to the rows."""
        if CORRUPT in self.schema.fieldNames() or (not self.say and self.json is not None):
            return filters  # rows of events that do not fit have nulls
        said, rest = pushed(filters, self.schema)
        if said is not None:
            self.predicate = said if self.predicate is None else self.predicate & said
        return rest


def recorded(paths: Sequence[str], wanted: Predicate | None) -> Iterator[Mapping[str, Any]]:
    """The events of recordings that match, each once."""
    seen: set[tuple[str, int, int]] = set()
    for path in paths:
        for file in _files(path):
            try:
                _, entries = read_recording(file)
                for entry in entries:
                    event = _event_of(entry.cause, seen)
                    if event is not None and (wanted is None or wanted.matches(event)):
                        yield event
            except StopIteration:
                raise OptionError(
                    f"{file}: expected the recording of a router, found no entry; a router writes "
                    "the last of it when it ends"
                ) from None
            except (WireError, ValueError) as error:
                raise OptionError(f"{file}: expected the recording of a router: {error}") from None


def _event_of(cause: Any, seen: set[tuple[str, int, int]]) -> Mapping[str, Any] | None:
    if isinstance(cause, Publish):
        return None if any(name.startswith("tidings:") for name in cause.event) else cause.event
    packet = cause.packet if isinstance(cause, Received) else None
    if not isinstance(packet, Publication):
        return None
    whose = packet.source, packet.life, packet.number
    if whose in seen or any(name.startswith("tidings:") for name in packet.event):
        return None
    seen.add(whose)
    return packet.event


def _files(path: str) -> list[Path]:
    place = Path(path.removeprefix("file://").removeprefix("file:"))
    if not place.exists():
        raise OptionError(f"{place}: expected the recording of a router, or a folder of them")
    return sorted(f for f in place.iterdir() if f.is_file()) if place.is_dir() else [place]


def arriving(
    link: Link, subscription: str, seconds: float, most: int | None
) -> Iterator[Mapping[str, Any]]:
    """The events that arrive within some seconds, at most so many."""
    with link.connect() as net, net.subscribe(subscription) as events:
        end = time.monotonic() + seconds
        count = 0
        while (left := end - time.monotonic()) > 0 and (most is None or count < most):
            event = events.get(left)
            if event is not None:
                count += 1
                yield event


def _some(events: Iterator[Mapping[str, Any]], most: int) -> Iterator[Mapping[str, Any]]:
    for _, event in zip(range(most), events, strict=False):
        yield event


# Streams


@dataclass
class Slice(InputPartition):
    """Some events of a batch, as an Arrow stream."""

    data: bytes


class EventStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a live subscription, batch by batch. An offset is a number of events of a journal."""

    def __init__(self, schema: StructType, options: Options) -> None:
        # Spark hides what is raised here, so the options are read with the first use.
        self.schema = schema
        self.options = options
        self.journal = options.text("journal")
        self._feed: Feed | None = None
        self._until: int | None = None

    @property
    def feed(self) -> Feed:
        """The subscription; it begins with the first use, which is beside the driver."""
        if self._feed is None:
            options = self.options
            link, wanted = options.link(), str(options.needed_subscription())
            rows = Rows(self.schema, options.text("json"))
            most_bytes = options.count("maxJournalBytes", JOURNAL_BYTES)
            self._feed = Feed(link, wanted, rows, self.journal, most_bytes)
            self._feed.start()
        self._feed.check()
        return self._feed

    def initialOffset(self) -> dict[str, Any]:
        """The first event that the journal has or will have."""
        return {"journal": self.feed.key, "event": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The events that have arrived, as far as the limit goes."""
        feed = self.feed
        begin = self._number(start)
        end = feed.newest if self._until is None else self._until
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        return start if end <= begin else {"journal": feed.key, "event": end}

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most so many events a batch."""
        return ReadMaxRows(self.options.count("maxEventsPerBatch", MAX_BATCH))

    def reportLatestOffset(self) -> dict[str, Any]:
        """How far the feed is, for the progress of the query, with its counts."""
        feed = self.feed
        counts = feed.counts
        return {
            "journal": feed.key,
            "event": feed.newest,
            "unfit": counts.unfit,
            "interruptions": counts.interruptions,
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The events between two offsets, from the journal."""
        feed = self.feed
        if end["journal"] != feed.key:
            self._refuse_other(end)
            return []  # without a journal the events of that run are lost
        return [Slice(data) for data in feed.between(self._number(start), int(end["event"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        assert isinstance(partition, Slice)
        for batch in unpacked(partition.data):
            yield batch.replace_schema_metadata(None)

    def commit(self, end: dict[str, Any]) -> None:
        """These events are processed."""
        if end["journal"] == self.feed.key:
            self.feed.forget(int(end["event"]))

    def stop(self) -> None:
        """The query ends."""
        if self._feed is not None:
            self._feed.stop()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what the journal has and what waits at the router, and no more."""
        self.feed.settle()
        self._until = self.feed.newest

    def _number(self, offset: dict[str, Any]) -> int:
        if offset["journal"] == self.feed.key:
            return int(offset["event"])
        self._refuse_other(offset)
        return 0

    def _refuse_other(self, offset: dict[str, Any]) -> None:
        if self.journal is not None:
            raise FeedError(
                f"{self.journal}: the checkpoint belongs to another journal; keep a journal and "
                "its checkpoint together, or begin anew with both"
            )

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get no feed."""
        return self.__dict__ | {"_feed": None}
