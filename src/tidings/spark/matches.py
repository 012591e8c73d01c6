"""`match`: which events satisfy which subscriptions, as a DataFrame.

Events go to Python as Arrow, only the columns that subscriptions ask about, and come back as lists
of ids; everything else of them stays in the JVM. The steps are functions from DataFrames to a
DataFrame, and nothing runs before the caller asks for rows, but compiling the subscriptions.
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
_FOUND: Final = "tidings found"  # the column of lists, until they are opened


class EventsRejected(ValueError):
    """Some rows are no events, and the caller wanted all of them to be."""


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
    """The subscriptions that each event satisfies.

    `output` says in which form: `pairs`, the columns of the events and `subscription`, one row a
    match; `lists`, the same with `subscriptions`, one row an event; `counts`, `subscription` and
    `events`, how many match it, for those that any does.

    Events are rows: columns are attributes (those in `columns`, by default all), or `json` names
    the column that holds each as JSON text or as a Variant. Rows that are no events match nothing;
    their list is null, and `rejected_events` tells why. With `strict` they raise `EventsRejected`
    before any matching, and subscriptions that cannot be taken `SubscriptionsRejected`.

    Subscriptions are a DataFrame, and the arguments from `subscription` on are those of `compile`;
    or they are compiled already, and these arguments mean nothing.
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
    """The rows whose JSON text is no event: all their columns, `reason` and `position`.

    The position counts characters from 0; it is null where the mistake has no place.
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
    """A row a match. Each shard goes over the events by itself."""
    parts = [
        events.select("*", _find((shard,), reading, compiled.id_type)(event).alias(_FOUND)).select(
            *_all(events), F.explode(quoted(_FOUND)).alias("subscription")
        )
        for shard in compiled.shards
    ]
    return reduce(lambda one, other: one.unionByName(other), parts)


def _lists(events: DataFrame, event: Column, compiled: Compiled, reading: Reading) -> DataFrame:
    """A row an event. All its ids meet in it, so one task asks every shard, one after another."""
    return events.select(
        *_all(events),
        _find(compiled.shards, reading, compiled.id_type)(event).alias("subscriptions"),
    )


def _counts(events: DataFrame, event: Column, compiled: Compiled, reading: Reading) -> DataFrame:
    """A row a subscription, counted within each task before anything leaves it."""
    schema = T.StructType(
        [T.StructField("subscription", compiled.id_type), T.StructField("events", T.LongType())]
    )
    asked = events.select(event.alias("event"))  # one column: those of it may have dots in them
    parts = [asked.mapInArrow(_counting(shard, reading), schema) for shard in compiled.shards]
    return (
        reduce(lambda one, other: one.union(other), parts)
        .groupBy("subscription")
        .agg(F.sum("events").alias("events"))
        .select("subscription", "events")
    )


def _all(events: DataFrame) -> list[Column]:
    return [quoted(name) for name in events.columns]


# What runs in the workers


def _find(shards: tuple[Shard, ...], reading: Reading, id_type: T.DataType) -> Any:
    """From events, as structs, to lists of ids."""

    def find(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        records = map(pa.RecordBatch.from_struct_array, batches)
        yield from worker.lists(shards, records, reading)

    # Not repeatable, as far as the optimiser is to know: it would run the function once for the
    # column and once more for a condition on it.
    return arrow_udf(find, T.ArrayType(id_type)).asNondeterministic()  # type: ignore[call-overload]


def _counting(shard: Shard, reading: Reading) -> Any:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        records = (pa.RecordBatch.from_struct_array(batch.column(0)) for batch in batches)
        for ids, totals in worker.count(shard, records, reading):
            yield pa.RecordBatch.from_arrays([ids, pa.array(totals)], ["subscription", "events"])

    return count


def _faults(reading: Reading) -> Any:
    """From events to what is wrong with them, null for most."""
    kind = T.StructType(
        [T.StructField("reason", T.StringType()), T.StructField("position", T.LongType())]
    )

    def faults(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in batches:
            yield worker.faults(pa.RecordBatch.from_struct_array(batch), reading)

    return arrow_udf(faults, kind).asNondeterministic()  # type: ignore[call-overload]


# Mistakes


def _refuse_bad(events: DataFrame, json: str | None) -> None:
    """Raise where rows are no events: with typed columns all of them are."""
    if json is None:
        return
    first = rejected_events(events, json).select("reason").limit(SHOWN).collect()
    if first:
        reasons = "\n".join(f"  {row['reason']}" for row in first)
        raise EventsRejected(f"column {json!r} holds what is no event, such as:\n{reasons}")
