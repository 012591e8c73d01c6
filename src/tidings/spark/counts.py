"""The counts of a stream's batches in Spark's own progress, as the observed metric `tidings`.

A stream matches inside `foreachBatch`, because the version of the store differs from batch to
batch, and Spark collects observed metrics from the plan before that. So the counts come from the
journal of the stream, where a batch has them before Spark reports its progress.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from tidings.spark.journal import Batch, Journal

if TYPE_CHECKING:
    from collections.abc import Iterable

METRIC: Final = "tidings"
COUNTED: Final = ("version", "events", "matches", "rejected")

_journals: dict[str, Journal] = {}  # of the streams that this process has started, by query id


class MatchQuery(StreamingQuery):
    """The query of a stream of matches: Spark's, with the counts of batches in its progress."""

    def __init__(self, query: StreamingQuery, journal: Journal) -> None:
        super().__init__(query._jsq)
        _journals[self.id] = journal

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """The last updates of progress, oldest first."""
        entries = _journals[self.id].batches()
        return [_with(progress, entries) for progress in super().recentProgress]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """The last update of progress, if there is one."""
        found = super().lastProgress
        return None if found is None else with_counts(found)


def counting(query: Any, journal: Journal) -> StreamingQuery:
    """A query with counts, where this process can read its journal.

    With Spark Connect the journal is on the server, and the query is of another class.
    """
    return MatchQuery(query, journal) if isinstance(query, StreamingQuery) else query


def with_counts(progress: StreamingQueryProgress) -> StreamingQueryProgress:
    """The progress of a stream that this process has started, with the counts of its batch.

    For listeners, which get the progress from Spark. `observedMetrics["tidings"]` of the result has
    `version`, `events`, `matches` and `rejected`. The progress of any other query, or of a batch
    that had no events, comes back as it is.

    >>> class Watch(StreamingQueryListener):
    ...     def onQueryProgress(self, event):
    ...         print(with_counts(event.progress).observedMetrics)
    """
    journal = _journals.get(str(progress.id))
    return progress if journal is None else _with(progress, journal.batches())


def _with(progress: StreamingQueryProgress, entries: Iterable[Batch]) -> StreamingQueryProgress:
    entry = next((one for one in entries if one.batch == progress.batchId and one.done), None)
    if entry is None or progress.numInputRows == 0:
        return progress
    counts = {name: getattr(entry, name) for name in COUNTED}
    told: dict[str, Any] = json.loads(progress.json)
    told["observedMetrics"] = {**told.get("observedMetrics", {}), METRIC: counts}
    return StreamingQueryProgress.fromJson(told)
