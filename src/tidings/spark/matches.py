"""`match`: which events match which subscriptions, as a DataFrame.

Spark sends the columns that subscriptions name to Python as Arrow, and gets lists of ids back; the
other columns stay in the JVM. The steps are functions from DataFrames to a DataFrame. `match`
compiles the subscriptions at once; everything else runs when the caller asks for rows.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from tidings.spark import worker
from tidings.spark.attributes import attributes, check_columns, refuse_taken, unknown_names
from tidings.spark.compiled import BUDGET, Compiled, Subscriptions, compile_for, quoted
from tidings.spark.naming import column_named
from tidings.spark.worker import Reading, Shard

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Output = Literal["pairs", "lists", "counts"]
Unknown = Literal["warn", "refuse", "ignore"]
IDS: Final = "subscription"
LISTS: Final = "subscriptions"
COUNTS: Final = "events"
FAULT: Final = ("reason", "position")
COLUMNS_OF: Final = {"pairs": (IDS,), "lists": (LISTS,), "counts": (IDS, COUNTS)}
SHOWN: Final = 5  # bad events, or unknown names, that a message names
_FOUND: Final = "tidings found"  # the column of lists, until they are opened
_FAULT: Final = "tidings fault"


class EventsRejected(ValueError):
    """Some rows are not valid events, and the caller asked for `strict`."""


class UnknownNames(UserWarning):
    """Subscriptions ask about names that no column has."""


def match(
    events: DataFrame,
    subscriptions: Subscriptions | Compiled,
    *,
    columns: Sequence[str] | None = None,
    json: str | None = None,
    output: Output = "pairs",
    names: Mapping[str, str] | None = None,
    carry: Sequence[str] = (),
    unknown: Unknown = "warn",
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
    `events`. `names` renames these columns: `names={"subscription": "rule"}`. `carry` names columns
    of the subscriptions that pairs get as well; where an id has several equal rows, it takes those
    of any.

    Events are rows. Their columns are attributes (those in `columns`, by default all), or `json`
    names the column that holds each event as JSON text or as a Variant. A row that is not a valid
    event matches nothing; its list is null, and `rejected_events` gives the reason. With `strict`
    such a row raises `EventsRejected` before any matching, and a bad subscription
    `SubscriptionsRejected`.

    A name that subscriptions ask about and no column has is probably a mistake. `unknown` says what
    to do about it: "warn" (`UnknownNames`), "refuse" (`ValueError`) or "ignore".

    Subscriptions are what `compile` takes, with the arguments from `subscription` on as there; or
    they are compiled already, and these arguments are ignored.
    """
    check_columns(events)
    called = _output_names(output, names, carry)
    compiled = subscriptions
    if not isinstance(compiled, Compiled):
        compiled = compile_for(
            events.sparkSession,
            compiled,
            (subscription, predicate, dialect),
            strict,
            budget,
            directory,
        )
    event, reading = attributes(events, compiled.names, columns, json)
    if json is None:
        _report_unknown(unknown_names(events, compiled.names, columns), events, unknown)
    if strict:
        _refuse_bad(events, json)
    if output == "counts":
        return _counts(events, event, compiled, reading, called)
    refuse_taken(events, *called.values())
    if output == "lists":
        return _lists(events, event, compiled, reading, called[LISTS])
    pairs = _pairs(events, event, compiled, reading, called[IDS])
    return _with_carried(pairs, compiled, carry, called) if carry else pairs


def matching(
    subscriptions: Subscriptions | Compiled, **options: Any
) -> Callable[[DataFrame], DataFrame]:
    """`match` as a step: `events.transform(matching(subscriptions, output="lists"))`."""
    return lambda events: match(events, subscriptions, **options)


def rejected_events(
    events: DataFrame, json: str, *, names: Mapping[str, str] | None = None
) -> DataFrame:
    """The rows whose JSON text is not a valid event: their columns, `reason` and `position`.

    The position counts characters from 0; it is null where the mistake has no place in the text.
    `names` renames the two columns.
    """
    called = chosen_names(FAULT, names)
    refuse_taken(events, *called.values())
    event, reading = attributes(events, (), None, json)
    faults = _alone(events.select("*", _faults(reading)(event).alias(_FOUND)), events, _FAULT)
    return faults.filter(F.col(_FAULT).isNotNull()).select(
        *_all(events), *(F.col(f"`{_FAULT}`.{part}").alias(called[part]) for part in FAULT)
    )


def counted(lists: DataFrame, column: str = LISTS) -> tuple[DataFrame, Observation]:
    """The output `lists`, counted as it is written: `events`, `matches` and `rejected`.

    The counts are in `get` of the observation once a query over the frame has run.
    """
    counts = Observation()
    frame = lists.observe(
        counts,
        F.count(F.lit(1)).alias("events"),
        F.coalesce(F.sum(F.size(quoted(column))), F.lit(0)).alias("matches"),
        F.count_if(quoted(column).isNull()).alias("rejected"),
    )
    return frame, counts


# Steps


def _pairs(
    events: DataFrame, event: Column, compiled: Compiled, reading: Reading, name: str
) -> DataFrame:
    """A row for each match. Each shard reads the events once."""
    parts = [
        exploded(
            events.select("*", _find((shard,), reading, compiled.id_type)(event).alias(_FOUND)),
            _FOUND,
            name,
        )
        for shard in compiled.shards
    ]
    return reduce(lambda one, other: one.unionByName(other), parts)


def exploded(lists: DataFrame, column: str, name: str) -> DataFrame:
    """A row for each element of the lists in a column, which is replaced by the element.

    Not by plain `explode`: for that Spark asks of the lists whether they are empty before it opens
    them, and would run the function that makes them a second time to find out.
    """
    kept = [quoted(other) for other in lists.columns if other != column]
    outer = lists.select(*kept, F.explode_outer(quoted(column)).alias(name))
    return outer.filter(quoted(name).isNotNull())


def _lists(
    events: DataFrame, event: Column, compiled: Compiled, reading: Reading, name: str
) -> DataFrame:
    """A row for each event. One task searches all shards in turn, to collect all ids of a row."""
    found = _find(compiled.shards, reading, compiled.id_type)(event)
    return _alone(events.select("*", found.alias(_FOUND)), events, name)


def _alone(found: DataFrame, events: DataFrame, name: str) -> DataFrame:
    """The column that a function has made, so that the function runs once.

    A condition on the column must not be moved below the function, which would then run for the
    condition and again for the column. A condition on columns of the events must be, so that it
    reaches the scan. Both hold for what a generator makes: a list of one value, opened.
    """
    return found.select(*_all(events), F.explode_outer(F.array(quoted(_FOUND))).alias(name))


def _counts(
    events: DataFrame,
    event: Column,
    compiled: Compiled,
    reading: Reading,
    called: Mapping[str, str],
) -> DataFrame:
    """A row for each subscription. Each task counts its own events before Spark adds them up."""
    schema = T.StructType(
        [T.StructField(IDS, compiled.id_type), T.StructField(COUNTS, T.LongType())]
    )
    asked = events.select(event.alias("event"))  # one column: names of others may hold dots
    parts = [asked.mapInArrow(_counting(shard, reading), schema) for shard in compiled.shards]
    return (
        reduce(lambda one, other: one.union(other), parts)
        .groupBy(IDS)
        .agg(F.sum(COUNTS).alias(COUNTS))
        .select(F.col(IDS).alias(called[IDS]), F.col(COUNTS).alias(called[COUNTS]))
    )


def _with_carried(
    pairs: DataFrame, compiled: Compiled, carry: Sequence[str], called: Mapping[str, str]
) -> DataFrame:
    """Pairs with columns of the subscriptions, which Spark joins by id."""
    if compiled.source is None:
        raise ValueError(
            "`carry` needs subscriptions that come from a DataFrame or a Parquet file; others "
            "have no columns of their own"
        )
    frame, id = compiled.source
    missing = [name for name in carry if column_named(name, frame) not in frame.columns]
    if missing:
        found = ", ".join(frame.columns)
        raise ValueError(f"expected a column {missing[0]!r} of subscriptions, found {found}")
    chosen = [quoted(name).alias(called[name]) for name in carry]
    carried = frame.select(quoted(id).cast(compiled.id_type).alias(_FOUND), *chosen)
    same = quoted(called[IDS]) == quoted(_FOUND)
    return pairs.join(carried.dropDuplicates([_FOUND]), same, how="left").drop(_FOUND)


def _all(events: DataFrame) -> list[Column]:
    return [quoted(name) for name in events.columns]


# Functions that run in the workers


def _find(shards: tuple[Shard, ...], reading: Reading, id_type: T.DataType) -> Any:
    """A function from events to lists of ids."""

    def find(columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from worker.lists(shards, columns, reading)

    # Spark's plan shows the name, so it says which table is asked.
    find.__name__ = "_".join(["tidings_match", *(shard.key[8:16] for shard in shards[:2])])
    return arrow_udf(find, T.ArrayType(id_type))  # type: ignore[call-overload]


def _counting(shard: Shard, reading: Reading) -> Any:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = (batch.column(0) for batch in batches)
        for ids, totals in worker.count(shard, columns, reading):
            yield pa.RecordBatch.from_arrays([ids, pa.array(totals)], [IDS, COUNTS])

    return count


def _faults(reading: Reading) -> Any:
    """A function from events to what is wrong with each; null for valid ones."""
    kind = T.StructType(
        [T.StructField("reason", T.StringType()), T.StructField("position", T.LongType())]
    )

    def faults(columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for column in columns:
            yield worker.faults(column, reading)

    return arrow_udf(faults, kind)  # type: ignore[call-overload]


# Names of the output


def _output_names(
    output: Output, names: Mapping[str, str] | None, carry: Sequence[str]
) -> dict[str, str]:
    """The names of the columns that the output adds."""
    if output not in COLUMNS_OF:
        raise ValueError(f"expected output pairs, lists or counts, found {output!r}")
    if carry and output != "pairs":
        raise ValueError(f"`carry` adds columns to pairs, and not to {output}")
    return chosen_names((*COLUMNS_OF[output], *carry), names)


def chosen_names(own: Sequence[str], names: Mapping[str, str] | None) -> dict[str, str]:
    """The names that a caller gives to columns; those that are not renamed keep theirs."""
    other = [name for name in names or () if name not in own]
    if other:
        raise ValueError(
            f"`names` renames {', '.join(own)}, which the output adds; found {other[0]!r}"
        )
    called = {name: (names or {}).get(name, name) for name in own}
    if len(set(called.values())) < len(called):
        raise ValueError(f"`names` gives two columns of the output one name: {dict(called)}")
    return called


# Mistakes


def _report_unknown(names: list[str], events: DataFrame, unknown: Unknown) -> None:
    """Warn of, or refuse, names that no column has."""
    if unknown not in ("warn", "refuse", "ignore"):
        raise ValueError(f"expected unknown warn, refuse or ignore, found {unknown!r}")
    if not names or unknown == "ignore":
        return
    more = "" if len(names) <= SHOWN else f" and {len(names) - SHOWN:,} more"
    columns = ", ".join(events.columns[:20])
    message = (
        f"subscriptions ask about {', '.join(map(repr, names[:SHOWN]))}{more}; no column has such "
        f"a name (the columns are {columns})"
    )
    if unknown == "refuse":
        raise ValueError(message)
    warnings.warn(message, UnknownNames, stacklevel=_callers_depth())


def _callers_depth() -> int:
    """How many frames up the first is that does not belong to Tidings."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("tidings."):
        frame, depth = frame.f_back, depth + 1
    return depth


def _refuse_bad(events: DataFrame, json: str | None) -> None:
    """Raise where rows are not valid events; rows of typed columns always are."""
    if json is None:
        return
    texts = events.select(quoted(column_named(json, events)).alias("event"))
    first = rejected_events(texts, "event").select("reason").limit(SHOWN).collect()
    if first:
        reasons = "\n".join(f"  {row['reason']}" for row in first)
        raise EventsRejected(
            f"some rows of column {json!r} are not valid events, for example:\n{reasons}"
        )
