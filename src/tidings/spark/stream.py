"""Matching on a stream: every micro-batch against one version of a store of subscriptions.

A batch takes the newest version there is when it begins, so a change is seen by the next batch. The
version is written to a journal before it is used, and what a batch writes replaces what the same
batch wrote before: a stream that is killed at any point and started again from its checkpoint gives
every match once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from pyspark.sql import functions as F

from tidings.spark.attributes import refuse_taken
from tidings.spark.compiled import BUDGET, quoted
from tidings.spark.files import absolute
from tidings.spark.journal import Batch, Journal
from tidings.spark.matches import counted, match, rejected_events
from tidings.spark.store import Store
from tidings.spark.versions import Versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

Write = Callable[["DataFrame", "DataFrame | None", int], None]
SUBSCRIPTIONS: Final = "subscriptions"
SUBSCRIPTION: Final = "subscription"
VERSION: Final = "version"
BATCH: Final = "batch"
REJECTED: Final = "_rejected"  # Spark passes over folders of such names
JOURNAL: Final = "tidings"


class StreamError(ValueError):
    """A stream that cannot be run as it is asked for."""


def match_stream(
    events: DataFrame,
    store: Store | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    trigger: Mapping[str, Any] | None = None,
    format: Literal["parquet", "json"] = "parquet",
    journal: str | os.PathLike[str] | None = None,
    name: str | None = None,
    columns: Sequence[str] | None = None,
    json: str | None = None,
    budget: int = BUDGET,
    directory: str | os.PathLike[str] | None = None,
) -> StreamingQuery:
    """Start to match a stream of events against a store, and write the matches to files.

    `out` gets the events' columns, `subscription` and `version`, the version of the store that was
    used, in a folder `batch=N` for each batch: `spark.read.parquet(out)` has `batch` as a column
    too. With `json`, rows that are no events go to `out/_rejected` in the same way, with `reason`
    and `position`, and the stream goes on. `trigger` is Spark's: `{"availableNow": True}`, or
    `{"processingTime": "10 seconds"}`. `batches(checkpoint)` tells what the last batches did.

    `checkpoint` is where the stream goes on from when it is started again. The journal lies in it;
    where it is no folder that the driver sees, `journal` must name one that is kept with it. An
    output belongs to one checkpoint: where another has written there, the stream fails. The
    arguments from `columns` on are those of `match`.

    >>> query = match_stream(events, "alerts", out="matches", checkpoint="checkpoint")
    """
    target, memory = absolute(out), absolute(checkpoint)
    if not events.isStreaming:
        raise StreamError("expected a stream of events (spark.readStream); match takes a DataFrame")
    if format not in ("parquet", "json"):
        raise StreamError(f"expected the format parquet or json, found {format!r}")
    refuse_taken(events, SUBSCRIPTIONS, SUBSCRIPTION, VERSION, BATCH)
    decisions = Journal(_journal_folder(memory, journal))
    matching = _Matching(_open(store), decisions, columns, json, budget, directory)

    def run(batch: DataFrame, number: int) -> None:
        if decisions.find(number) is None:
            _refuse_foreign(target, number)
        entry, lists = matching.begin(batch, number)
        observed, seen = counted(lists)
        _save(matching.pairs(observed, entry), format, f"{target}/{BATCH}={number}")
        counts = seen.get
        if counts["rejected"] and json is not None:
            _save(rejected_events(batch, json), format, f"{target}/{REJECTED}/{BATCH}={number}")
        matching.end(entry, counts)

    writer = events.writeStream.foreachBatch(run)
    writer = writer.option("checkpointLocation", memory)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    return writer.start()


def for_each_batch(
    store: Store | str | os.PathLike[str],
    journal: str | os.PathLike[str],
    write: Write,
    *,
    columns: Sequence[str] | None = None,
    json: str | None = None,
    budget: int = BUDGET,
    directory: str | os.PathLike[str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch`, for those who write matches to a place of their own.

    `write(matches, rejected, batch)` is called with the matches of a batch, the rows that are no
    events (None without `json`) and the batch's number. A batch may come a second time after a
    crash, with the same matches: `write` must then replace what it wrote. `journal` is a folder
    that lives and dies with the checkpoint. The arguments from `columns` on are those of `match`.

    >>> matching = for_each_batch("alerts", "journal", write)
    >>> query = events.writeStream.foreachBatch(matching).start()
    """
    matching = _Matching(_open(store), Journal(journal), columns, json, budget, directory)

    def run(batch: DataFrame, number: int) -> None:
        refuse_taken(batch, SUBSCRIPTIONS, SUBSCRIPTION, VERSION)
        entry, lists = matching.begin(batch, number)
        rejected = None if json is None else rejected_events(batch, json)
        write(matching.pairs(lists, entry), rejected, number)
        matching.end(entry, {})

    return run


def batches(checkpoint: str | os.PathLike[str]) -> list[Batch]:
    """The last batches of a stream: of each the version, and how many events, matches, rejected."""
    return Journal(_journal_folder(os.fspath(checkpoint), None)).batches()


@dataclass
class _Matching:
    """A stream's way from a batch to its matches."""

    store: Store
    journal: Journal
    columns: Sequence[str] | None
    json: str | None
    budget: int
    directory: str | os.PathLike[str] | None

    def __post_init__(self) -> None:
        self.versions = Versions(self.store, budget=self.budget, directory=self.directory)

    def begin(self, events: DataFrame, number: int) -> tuple[Batch, DataFrame]:
        """Decide the version of a batch, durably; the events with the lists of their ids.

        All parts of the table are asked in one pass over the events.
        """
        entry = self.journal.find(number) or self._decide(number)
        self.journal.put(entry)
        compiled = self.versions.at(events.sparkSession, entry.version, entry.base)
        lists = match(events, compiled, columns=self.columns, json=self.json, output="lists")
        return entry, lists

    def _decide(self, number: int) -> Batch:
        version = self.store.version()
        base = self.versions.base
        if base is None:  # the stream starts: what it had before is compiled already
            earlier = self.journal.batches()
            base = earlier[-1].base if earlier else version
        return Batch(number, version, min(base, version))

    def pairs(self, lists: DataFrame, entry: Batch) -> DataFrame:
        """A row a match, with the version."""
        kept = [quoted(name) for name in lists.columns if name != SUBSCRIPTIONS]
        return lists.select(
            *kept,
            F.explode(SUBSCRIPTIONS).alias(SUBSCRIPTION),
            F.lit(entry.version).cast("long").alias(VERSION),
        )

    def end(self, entry: Batch, counts: dict[str, Any]) -> None:
        """Note that a batch is done, and what was compiled as a whole by then."""
        base = self.versions.base
        assert base is not None
        kept = min(base, entry.version)
        self.journal.put(msgspec.structs.replace(entry, base=kept, done=True, **counts))


def _open(store: Store | str | os.PathLike[str]) -> Store:
    """The store; `StoreError` now and not in the first batch where there is none."""
    held = store if isinstance(store, Store) else Store(store)
    held.snapshot(0)
    return held


def _save(rows: DataFrame, format: str, path: str) -> None:
    rows.write.mode("overwrite").format(format).save(path)


def _journal_folder(checkpoint: str, journal: str | os.PathLike[str] | None) -> Path:
    folder = _local(checkpoint) if journal is None else Path(journal)
    if folder is None:
        raise StreamError(
            f"{checkpoint}: expected a folder of this machine, or `journal` to name one"
        )
    return folder / JOURNAL if journal is None else folder


def _local(path: str) -> Path | None:
    """The path, where it is one of this machine's file system."""
    plain = path.removeprefix("file://").removeprefix("file:")
    return None if ":" in plain.partition("/")[0] else Path(plain)


def _refuse_foreign(out: str, number: int) -> None:
    """Raise where a batch that was never begun has an output."""
    folder = _local(out)
    if folder is not None and (folder / f"{BATCH}={number}").exists():
        raise StreamError(
            f"{out} has a batch {number} that this checkpoint knows nothing of; "
            "choose another output, or the checkpoint that wrote it"
        )
