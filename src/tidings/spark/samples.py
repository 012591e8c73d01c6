"""Statistics of a DataFrame of events, from a sample drawn on the executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.matching.statistics import MAX_EVENTS, Statistics, statistics_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def statistics(
    events: DataFrame,
    *,
    json: str | None = None,
    max_events: int = MAX_EVENTS,
    seed: int = 0,
) -> Statistics:
    """Which attributes events have and which values, for a table to choose what to index on.

    `json` names the column that holds each event as JSON text; without it the columns are the
    attributes. `max_events` rows are drawn, all equally likely, in one pass over the events; the
    same ones for the same seed and the same partitions. Only the sample comes to the driver.

    >>> statistics(day).save("day.json")
    """
    from pyspark.sql import functions as F

    chosen = events if json is None else events.select(F.col(json).alias("json"))
    sample = chosen.orderBy(F.rand(seed)).limit(max_events).toArrow()
    return statistics_of(sample, json=None if json is None else "json", max_events=max_events)
