"""`match`: which events match which subscriptions, as a DataFrame.

Spark sends the columns that subscriptions name to Python as Arrow, and gets lists of ids back; the
other columns stay in the JVM. The steps are functions from DataFrames to a DataFrame. `match`
compiles the subscriptions at once; everything else runs when the caller asks for rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from tidings.spark import worker
from tidings.spark.attributes import attributes, check_columns, refuse_taken
from tidings.spark.compiled import BUDGET, Compiled, compile, quoted
from tidings.spark.worker import Reading, Shard

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Output = Literal["pairs", "lists", "counts"]
SHOWN: Final = 5  # bad events that an error names
_FOUND: Final = "tidings found"  # the column of lists, until they are exploded


class EventsRejected(ValueError):
    """Some rows are not valid events, and the caller asked for `strict`."""


def match(
    events: DataFrame,
    subscriptions: DataFrame | Compiled,
    *,
    columns: Sequence[str] | None = None,
    json: str | None = None,
    output: Output = "pairs",
    subscription: str = "subscription",
    predicate: str = "predicate",
    dialect: str = "dialect",
    strict: bool = False,
    budget: int = BUDGET,
    directory: str | os.PathLike[str] | None = None,
) -> DataFrame:
    """The subscriptions that each event matches.

    `output` chooses the form. `pairs`: a row for each match, with the columns of the event and
    `subscription`. `lists`: a row for each event, with its columns and `subscriptions`. `counts`: a
    row for each subscription that any event matches, with `subscription` and the number of
    `events`.

    Events are rows. Their columns are attributes (those in `columns`, by default all), or `json`
    names the column that holds each event as JSON text or as a Variant. A row that is not a valid
    event matches nothing; its list is null, and `rejected_events` gives the reason. With `strict`
    such a row raises `EventsRejected` before any matching, and a bad subscription
    `SubscriptionsRejected`.

    Subscriptions are a DataFrame, with the arguments from `subscription` on as in `compile`; or
    they are compiled already, and these arguments are ignored.
    """
    check_columns(events)
    compiled = subscriptions
    if not isinstance(compiled, Compiled):
        compiled = compile(
            compiled,
            subscription=subscription,
            predicate=predicate,
            dialect=dialect,
            strict=strict,
            budget=budget,
            directory=directory,
        )
    if strict:
        _refuse_bad(events, json)
    event, reading = attributes(events, compiled.names, columns, json)
    match output:
        case "pairs":
            refuse_taken(events, "subscription")
            return _pairs(events, event, compiled, reading)
        case "lists":
            refuse_taken(events, "subscriptions")
            return _lists(events, event, compiled, reading)
        case "counts":
            return _counts(events, event, compiled, reading)
        case _:
            raise ValueError(f"expected output pairs, lists or counts, found {output!r}")


def matching(
    subscriptions: DataFrame | Compiled, **options: Any
) -> Callable[[DataFrame], DataFrame]:
    """`match` as a step: `events.transform(matching(subscriptions, output="lists"))`."""
    return lambda events: match(events, subscriptions, **options)


def rejected_events(events: DataFrame, json: str) -> DataFrame:
    """The rows whose JSON text is not a valid event: their columns, `reason` and `position`.

    The position counts characters from 0; it is null where the mistake has no place in the text.
    """
    event, reading = attributes(events, (), None, json)
    faults = _faults(reading)(event)
    return (
        events.withColumn(_FOUND, faults)
        .filter(F.col(_FOUND).isNotNull())
        .select(*_all(events), F.col(f"`{_FOUND}`.reason"), F.col(f"`{_FOUND}`.position"))
    )


def counted(lists: DataFrame) -> tuple[DataFrame, Observation]:
    """The output `lists`, counted as it is written: `events`, `matches` and `rejected`.

    The counts are in `get` of the observation once a query over the frame has run.
    """
    counts = Observation()
    frame = lists.observe(
        counts,
        F.count(F.lit(1)).alias("events"),
        F.coalesce(F.sum(F.size("subscriptions")), F.lit(0)).alias("matches"),
        F.count_if(F.col("subscriptions").isNull()).alias("rejected"),
    )
    return frame, counts


# Steps


def _pairs(events: DataFrame, event: Column, compiled: Compiled, reading: Reading) -> DataFrame:
    """A row for each match. Each shard reads the events once."""
    parts = [
        events.select("*", _find((shard,), reading, compiled.id_type)(event).alias(_FOUND)).select(
            *_all(events), F.explode(quoted(_FOUND)).alias("subscription")
        )
        for shard in compiled.shards
    ]
    return reduce(lambda one, other: one.unionByName(other), parts)


def _lists(events: DataFrame, event: Column, compiled: Compiled, reading: Reading) -> DataFrame:
    """A row for each event. One task searches all shards in turn, to collect all ids of a row."""
    return events.select(
        *_all(events),
        _find(compiled.shards, reading, compiled.id_type)(event).alias("subscriptions"),
    )


def _counts(events: DataFrame, event: Column, compiled: Compiled, reading: Reading) -> DataFrame:
    """A row for each subscription. Each task counts its own events before Spark adds them up."""
    schema = T.StructType(
        [T.StructField("subscription", compiled.id_type), T.StructField("events", T.LongType())]
    )
    asked = events.select(event.alias("event"))  # one struct: names of columns may hold dots
    parts = [asked.mapInArrow(_counting(shard, reading), schema) for shard in compiled.shards]
    return (
        reduce(lambda one, other: one.union(other), parts)
        .groupBy("subscription")
        .agg(F.sum("events").alias("events"))
        .select("subscription", "events")
    )


def _all(events: DataFrame) -> list[Column]:
    return [quoted(name) for name in events.columns]


# Functions that run in the workers


def _find(shards: tuple[Shard, ...], reading: Reading, id_type: T.DataType) -> Any:
    """A function from events, as structs, to lists of ids."""

    def find(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        records = map(pa.RecordBatch.from_struct_array, batches)
        yield from worker.lists(shards, records, reading)

    # Declared as nondeterministic, or the optimiser would run the function twice: once for the
    # column, once for a condition on it.
    return arrow_udf(find, T.ArrayType(id_type)).asNondeterministic()  # type: ignore[call-overload]


def _counting(shard: Shard, reading: Reading) -> Any:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        records = (pa.RecordBatch.from_struct_array(batch.column(0)) for batch in batches)
        for ids, totals in worker.count(shard, records, reading):
            yield pa.RecordBatch.from_arrays([ids, pa.array(totals)], ["subscription", "events"])

    return count


def _faults(reading: Reading) -> Any:
    """A function from events to what is wrong with each; null for valid ones."""
    kind = T.StructType(
        [T.StructField("reason", T.StringType()), T.StructField("position", T.LongType())]
    )

    def faults(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in batches:
            yield worker.faults(pa.RecordBatch.from_struct_array(batch), reading)

    return arrow_udf(faults, kind).asNondeterministic()  # type: ignore[call-overload]


# Mistakes


def _refuse_bad(events: DataFrame, json: str | None) -> None:
    """Raise where rows are not valid events; rows of typed columns always are."""
    if json is None:
        return
    first = rejected_events(events, json).select("reason").limit(SHOWN).collect()
    if first:
        reasons = "\n".join(f"  {row['reason']}" for row in first)
        raise EventsRejected(
            f"some rows of column {json!r} are not valid events, for example:\n{reasons}"
        )
