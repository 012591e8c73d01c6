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
    """The attributes and values of events, by which a table chooses what to index.

    `json` names the column that holds each event as JSON text; without it the columns are the
    attributes. One pass over the events draws `max_events` rows, all equally likely; the same seed
    and partitions give the same rows. Only the sample comes to the driver.

    >>> statistics(day).save("day.json")
    """
    from pyspark.sql import functions as F

    chosen = events if json is None else events.select(F.col(json).alias("json"))
    sample = chosen.orderBy(F.rand(seed)).limit(max_events).toArrow()
    return statistics_of(sample, json=None if json is None else "json", max_events=max_events)
