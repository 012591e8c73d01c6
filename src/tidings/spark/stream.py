"""Matching on a stream: each micro-batch with one version of a store of subscriptions.

A batch uses the version that is newest when it begins, so the next batch sees a change. The stream
writes the version to a journal before it uses it, and the output of a batch replaces the output of
the same batch before. So a stream that is killed at any point and started again from its checkpoint
gives every match exactly once.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from pyspark.sql import functions as F

from tidings.spark.attributes import refuse_taken
from tidings.spark.compiled import BUDGET
from tidings.spark.counts import counting
from tidings.spark.files import absolute
from tidings.spark.folders import CONDITIONAL
from tidings.spark.intake import StoreError
from tidings.spark.journal import Batch, Journal
from tidings.spark.matches import (
    FAULT,
    IDS,
    LISTS,
    Unknown,
    chosen_names,
    counted,
    exploded,
    match,
    rejected_events,
)
from tidings.spark.store import Store
from tidings.spark.versions import Versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

Write = Callable[["DataFrame", "DataFrame | None", int], None]
FOUND: Final = "tidings lists"  # the column of lists, until they are opened
VERSION: Final = "version"
BATCH: Final = "batch"
REJECTED: Final = "_rejected"  # Spark ignores folders whose names begin with _
JOURNAL: Final = "tidings"
FOLDER_NAME: Final = re.compile(r"[\w .-]+")

log = logging.getLogger("tidings.spark")


class StreamError(ValueError):
    """A stream that cannot run as the caller asked."""


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
    names: Mapping[str, str] | None = None,
    unknown: Unknown = "warn",
    budget: int = BUDGET,
    directory: str | os.PathLike[str] | None = None,
) -> StreamingQuery:
    """Start to match a stream of events with a store, and write the matches to files.

    `out` gets the columns of the events, `subscription` and `version`, the version of the store
    that was used, in a folder `batch=N` for each batch; so `spark.read.parquet(out)` has a column
    `batch` too. With `json`, rows that are not valid events go to `out/_rejected` in the same form,
    with `reason` and `position`, and the stream continues. `trigger` is Spark's:
    `{"availableNow": True}`, or `{"processingTime": "10 seconds"}`. `batches(checkpoint)` returns
    the last batches; `lastProgress` of the query has the counts of its batch too.

    When the stream is started again, it continues from `checkpoint`. The journal lies in it; if it
    is neither a folder that the driver sees nor in object storage, `journal` must name a place, and
    the two must be kept together. An output belongs to one checkpoint: the stream fails where
    another has written. The arguments from `columns` on are those of `match`; `names` renames
    `subscription`, `version` and `batch`, and with `json` also `reason` and `position`. With Spark
    Connect the batches run on the server: the store, the output and the checkpoint are paths there.

    >>> query = match_stream(events, "alerts", out="matches", checkpoint="checkpoint")
    """
    target, memory = absolute(out), absolute(checkpoint)
    if not events.isStreaming:
        raise StreamError("expected a stream of events (spark.readStream); match takes a DataFrame")
    if format not in ("parquet", "json"):
        raise StreamError(f"expected the format parquet or json, found {format!r}")
    called = chosen_names((IDS, VERSION, BATCH, *_rejected_names(json)), names)
    refuse_taken(events, *called.values())
    _check_folder_name(called[BATCH])
    decisions = Journal(_journal_folder(memory, journal))
    matching = _Matching(_open(store), decisions, columns, json, called, unknown, budget, directory)
    folder = called[BATCH]

    def run(batch: DataFrame, number: int) -> None:
        if decisions.find(number) is None:
            _refuse_foreign(target, f"{folder}={number}")
        entry, lists = matching.begin(batch, number)
        observed, seen = counted(lists, FOUND)
        _save(matching.pairs(observed, entry), format, f"{target}/{folder}={number}")
        counts = seen.get
        if counts["rejected"] and json is not None:
            _save(matching.rejected(batch), format, f"{target}/{REJECTED}/{folder}={number}")
        matching.end(entry, counts)

    writer = events.writeStream.foreachBatch(run)
    writer = writer.option("checkpointLocation", memory)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    return counting(writer.start(), decisions)


def for_each_batch(
    store: Store | str | os.PathLike[str],
    journal: str | os.PathLike[str],
    write: Write,
    *,
    columns: Sequence[str] | None = None,
    json: str | None = None,
    names: Mapping[str, str] | None = None,
    unknown: Unknown = "warn",
    budget: int = BUDGET,
    directory: str | os.PathLike[str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`, for callers that write the matches themselves.

    It calls `write(matches, rejected, batch)` with the matches of a batch, the rows that are not
    valid events (None without `json`) and the batch's number. After a crash a batch may come a
    second time, with the same matches: `write` must then replace its output. `journal` is a folder
    to keep, and to delete, together with the checkpoint. The arguments from `columns` on are those
    of `match`; `names` renames `subscription` and `version`, and with `json` also `reason` and
    `position`.

    >>> matching = for_each_batch("alerts", "journal", write)
    >>> query = events.writeStream.foreachBatch(matching).start()
    """
    called = chosen_names((IDS, VERSION, *_rejected_names(json)), names)
    decisions = Journal(absolute(journal))
    matching = _Matching(_open(store), decisions, columns, json, called, unknown, budget, directory)

    def run(batch: DataFrame, number: int) -> None:
        refuse_taken(batch, *called.values())
        entry, lists = matching.begin(batch, number)
        rejected = None if json is None else matching.rejected(batch)
        write(matching.pairs(lists, entry), rejected, number)
        matching.end(entry, {})

    return run


def batches(checkpoint: str | os.PathLike[str]) -> list[Batch]:
    """The last batches of a stream, with version and numbers of events, matches and rejected."""
    return Journal(_journal_folder(os.fspath(checkpoint), None)).batches()


@dataclass
class _Matching:
    """The steps of a stream from a batch to its matches."""

    store: Store
    journal: Journal
    columns: Sequence[str] | None
    json: str | None
    called: Mapping[str, str]  # the names of the columns that the output adds
    unknown: Unknown
    budget: int
    directory: str | os.PathLike[str] | None

    def __post_init__(self) -> None:
        self.versions = Versions(self.store, budget=self.budget, directory=self.directory)

    def begin(self, events: DataFrame, number: int) -> tuple[Batch, DataFrame]:
        """Decide the version of a batch, write it to disk, and match the batch, as lists of ids.

        One pass over the events searches all parts of the table.
        """
        entry = self.journal.find(number) or self._decide(number)
        self.journal.put(entry)
        compiled = self.versions.at(events.sparkSession, entry.version, entry.base)
        lists = match(
            events,
            compiled,
            columns=self.columns,
            json=self.json,
            output="lists",
            names={LISTS: FOUND},
            unknown=self.unknown,
        )
        return entry, lists

    def _decide(self, number: int) -> Batch:
        version = self._expired()
        base = self.versions.base
        if base is None:  # the stream starts: the base it had before is in the cache
            earlier = self.journal.batches()
            base = earlier[-1].base if earlier else version
        return Batch(number, version, min(base, version))

    def _expired(self) -> int:
        """The newest version, without subscriptions whose end has come."""
        try:
            return self.store.expire().version
        except (OSError, StoreError) as error:  # the driver may only read the store
            log.warning("%s: subscriptions that have ended stay: %s", self.store, error)
            return self.store.version()

    def pairs(self, lists: DataFrame, entry: Batch) -> DataFrame:
        """A row for each match, with the version."""
        version = F.lit(entry.version).cast("long").alias(self.called[VERSION])
        return exploded(lists, FOUND, self.called[IDS]).select("*", version)

    def rejected(self, events: DataFrame) -> DataFrame:
        """The rows that are not valid events."""
        assert self.json is not None
        names = {name: self.called[name] for name in FAULT}
        return rejected_events(events, self.json, names=names)

    def end(self, entry: Batch, counts: dict[str, Any]) -> None:
        """Write down that a batch is done, and the base that is compiled by now."""
        base = self.versions.base
        assert base is not None
        kept = min(base, entry.version)
        self.journal.put(msgspec.structs.replace(entry, base=kept, done=True, **counts))


def _open(store: Store | str | os.PathLike[str]) -> Store:
    """The store. Raises `StoreError` now, rather than in the first batch, if there is none."""
    held = store if isinstance(store, Store) else Store(absolute(store))
    held.snapshot(0)
    return held


def _rejected_names(json: str | None) -> tuple[str, ...]:
    """The columns that rejected events get; typed rows are always events."""
    return () if json is None else FAULT


def _check_folder_name(column: str) -> None:
    """Raise unless Spark reads the folders `column=N` back as a column of that name."""
    if column.startswith(".") or not FOLDER_NAME.fullmatch(column):
        raise ValueError(
            "expected a name of the column `batch` that can name a folder (letters, digits, "
            f"spaces, _ . - and does not begin with a dot), found {column!r}"
        )


def _save(rows: DataFrame, format: str, path: str) -> None:
    rows.write.mode("overwrite").format(format).save(path)


def _journal_folder(checkpoint: str, journal: str | os.PathLike[str] | None) -> str:
    """Where the journal is: where the caller says, or in the checkpoint."""
    if journal is not None:
        return os.fspath(journal)
    if checkpoint.partition("://")[0] in CONDITIONAL:
        return f"{checkpoint.rstrip('/')}/{JOURNAL}"
    local = _local(checkpoint)
    if local is None:
        raise StreamError(
            f"{checkpoint}: expected a folder of this machine or object storage, or `journal` to "
            "name one"
        )
    return str(local / JOURNAL)


def _local(path: str) -> Path | None:
    """The path, if it is one of this machine's file system."""
    plain = path.removeprefix("file://").removeprefix("file:")
    return None if ":" in plain.partition("/")[0] else Path(plain)


def _refuse_foreign(out: str, batch: str) -> None:
    """Raise if there is an output for a batch that this checkpoint has not begun."""
    folder = _local(out)
    if folder is not None and (folder / batch).exists():
        raise StreamError(
            f"{out} has an output {batch} that this checkpoint did not write; "
            "name another output, or the checkpoint that wrote it"
        )
