"""Rows published as events, by the tasks that have them.

A task publishes its rows over a connection of its own and waits until they are acknowledged. The
network has no memory of what a task that died has published, so a task that runs again publishes
again (at least once). Two things narrow that down. With a `journal`, a folder that all executors
see, a task notes how many rows are acknowledged; when it or its batch runs again, it begins after
them, and a batch that was done publishes nothing. With `id`, each event gets an attribute that
names its batch, partition and row, the same whenever the batch runs again, so that receivers can
drop what comes twice. Both need that a batch that runs again has the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from tidings.language.errors import EventError
from tidings.language.event import read
from tidings.live.connect import BlockingClient
from tidings.live.errors import NetworkError, RefusedError
from tidings.spark.folders import folder
from tidings.spark.options import Link, OptionError, Options

# Spark tells tasks of a stream by these which batch they belong to.
QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"
STEP: Final = 10_000  # rows between two notes in the journal


class PublishError(Exception):
    """Rows that could not be published: the batch and partition, and what the network said."""


class Publishing(NamedTuple):
    """How rows become events."""

    link: Link
    level: str
    json: str | None  # the column that holds each event as JSON text
    id: str | None  # the attribute that names each event
    journal: str | None
    run: str  # names a batch write

    @classmethod
    def of(cls, options: Options, schema: StructType) -> Publishing:
        """The settings of a writer."""
        json, id = options.text("json"), options.text("id")
        names = schema.fieldNames()
        if json is not None:
            if json not in names:
                raise OptionError(f"option json: expected a column, found {json!r}")
            if not isinstance(schema[json].dataType, StringType | BinaryType):
                kind = schema[json].dataType.simpleString()
                raise OptionError(f"option json: expected a column of text, found {kind}")
        if id is not None and json is None and id in names:
            raise OptionError(f"option id: the rows have a column {id!r} already")
        journal = options.text("journal")
        if journal is not None:
            folder(journal)
        return cls(options.link(), options.level(), json, id, journal, uuid4().hex)


@dataclass
class Written(WriterCommitMessage):
    """What a task has published, and for which job: a batch of a stream, or a batch write."""

    events: int
    job: str


class EventWriter(DataSourceArrowWriter):
    """`df.write.format("tidings")`."""

    def __init__(self, settings: Publishing) -> None:
        self.settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish the rows of a task."""
        return published(self.settings, self.settings.run, iterator)

    def commit(self, messages: list[Any]) -> None:
        """All tasks are done: forget what they noted."""
        forget(self.settings, self.settings.run)

    def abort(self, messages: list[Any]) -> None:
        """A task has failed: what was published stays published."""


class EventStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("tidings")`."""

    def __init__(self, settings: Publishing) -> None:
        self.settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish the rows of a task."""
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
        if query is None or batch is None:
            raise PublishError("expected a task of a stream, which knows its query and batch")
        return published(self.settings, f"{query}/{batch}", iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        """The batch is done, so the one before it never runs again: forget its notes."""
        for job in {message.job for message in messages if message is not None}:
            forget(self.settings, f"{job.rpartition('/')[0]}/{batchId - 1}")

    def abort(self, messages: list[Any], batchId: int) -> None:
        """A task has failed: what was published stays published."""


def published(settings: Publishing, job: str, batches: Iterator[pa.RecordBatch]) -> Written:
    """Publish the rows of this task, without those that the journal has as acknowledged."""
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    notes = None if settings.journal is None else folder(settings.journal)
    note = f"{job}/{partition:06}"
    done = 0
    if notes is not None:
        with suppress(FileNotFoundError):
            done = int(notes.read(note))
    row = sent = 0
    net: BlockingClient | None = None
    try:
        for batch in batches:
            for part in (batch.slice(n, STEP) for n in range(0, batch.num_rows, STEP)):
                skipped = min(part.num_rows, max(0, done - row))
                events = _events(part.slice(skipped), settings, f"{job}/{partition}", row + skipped)
                row += part.num_rows
                if skipped == part.num_rows:
                    continue
                if net is None:
                    net = settings.link.connect().__enter__()
                sent += net.publish_all(events, settings.level)
                if notes is not None:
                    notes.put(note, str(row).encode())
    except (NetworkError, EventError) as error:
        raise PublishError(f"partition {partition}, up to row {row}: {error}") from None
    finally:
        if net is not None:
            net.close()
    return Written(sent, job)


def forget(settings: Publishing, job: str) -> None:
    """Remove the notes of a job."""
    if settings.journal is not None:
        notes = folder(settings.journal)
        for name in notes.names(job):
            notes.remove(f"{job}/{name}")


def _events(
    batch: pa.RecordBatch, settings: Publishing, name: str, first: int
) -> Iterator[dict[str, Any]]:
    """The rows as events; a null is an absent attribute."""
    if settings.json is None:
        rows = batch.to_pylist(maps_as_pydicts="strict")
        events = ({k: v for k, v in row.items() if v is not None} for row in rows)
    else:
        texts = batch.column(settings.json).to_pylist()
        events = (_read(text, number) for number, text in enumerate(texts, first))
    for number, event in enumerate(events, first):
        if settings.id is not None:
            event[settings.id] = f"{name}/{number}"
        yield event


def _read(text: str | bytes | None, number: int) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        return dict(read(text))
    except EventError as error:
        raise RefusedError(f"row {number} is not an event: {error}") from None
