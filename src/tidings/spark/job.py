"""From files to files: match events with subscriptions, and sum up the result.

`tidings match` without the terminal. Only this file reads and writes files; the steps in between
take and return DataFrames.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidings.language.files.subscriptions import BadSubscription
from tidings.spark.attributes import unknown_names
from tidings.spark.compiled import (
    Compiled,
    SubscriptionsRejected,
    compile_for,
    quoted,
)
from tidings.spark.files import (
    EventFileError,
    Events,
    absolute,
    format_of,
    is_store,
    read_events,
    read_rows,
    store_rows,
    stream_events,
)
from tidings.spark.matches import (
    IDS,
    LISTS,
    EventsRejected,
    Output,
    counted,
    exploded,
    match,
    rejected_events,
)
from tidings.spark.reach import sees_our_files
from tidings.spark.sessions import session
from tidings.spark.shipping import ship
from tidings.spark.stream import StreamError, match_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

Phase = Callable[[str], AbstractContextManager[None]]
Written = Literal["parquet", "json"]
BUSIEST: Final = 10
SAMPLES: Final = 5
REJECTED: Final = "_rejected"
UNREADABLE: Final = "the line does not fit the columns of the file"


class Rejected(NamedTuple):
    """An event or a subscription that the job left out, and why."""

    what: str
    reason: str


class Summary(NamedTuple):
    """The result of a job in numbers and samples."""

    subscriptions: int
    events: int
    matches: int
    rejected_events: int
    rejected_subscriptions: int
    busiest: list[tuple[Any, int]]  # ids, each with the number of events that match it
    event_samples: list[Rejected]
    subscription_samples: list[Rejected]
    unknown: list[str]  # names that subscriptions ask about and no column has


class Sources(NamedTuple):
    """The events and the subscriptions of a job."""

    compiled: Compiled
    bad: list[BadSubscription]
    events: Events

    @property
    def frame(self) -> DataFrame:
        """The events, without the lines that could not be read."""
        if self.events.corrupt is None:
            return self.events.frame
        good = quoted(self.events.corrupt).isNull()
        return self.events.frame.filter(good).drop(self.events.corrupt)


def session_is_active() -> bool:
    """Whether a session is active already; then it is not ours to stop."""
    return SparkSession.getActiveSession() is not None


def start(master: str | None, options: dict[str, str]) -> SparkSession:
    """Start a session, and send Tidings to its executors if they run on other machines."""
    spark = session(master, **options)
    if not sees_our_files(spark):
        ship(spark)
    return spark


def open_sources(
    spark: SparkSession,
    events: Sequence[str],
    subscriptions: str,
    *,
    format: str | None,
    strict: bool,
    phase: Phase,
) -> Sources:
    """Read and compile the subscriptions, and open the files of the events.

    With `strict`, a bad subscription raises `SubscriptionsRejected`, a bad event `EventsRejected`.
    """
    bad: list[BadSubscription] = []
    with phase("read subscriptions"):
        if is_store(subscriptions):
            rows = store_rows(subscriptions)
        else:
            rows, bad = read_rows(subscriptions)
        if bad and strict:
            raise SubscriptionsRejected(
                f"{len(bad)} of {len(bad) + rows.num_rows} subscriptions are bad; the "
                f"first is at {bad[0].file}:{bad[0].line}: {bad[0].reason}"
            )
    with phase("compile"):
        compiled = compile_for(spark, rows, strict=strict)
    with phase("open events"):
        found = Sources(compiled, bad, read_events(spark, events, format))
        if strict:
            _refuse_bad(found)
    return found


def run(
    spark: SparkSession,
    sources: Sources,
    out: str,
    *,
    output: Output,
    written: Written,
    overwrite: bool,
    phase: Phase,
) -> Summary:
    """Match, write the matches to a folder, and sum up. Bad events go to `_rejected` below it."""
    compiled, events = sources.compiled, sources.events
    out = absolute(out)
    frame = sources.frame
    if events.corrupt is not None and output == "counts":
        frame = frame.cache()  # Spark refuses to read the column of bad lines alone from CSV
    with phase("match and write"):
        lists = match(frame, compiled, json=events.json, output="lists", unknown="ignore")
        observed, seen = counted(lists)
        if output != "lists":
            observed = exploded(observed, LISTS, IDS)
        if output == "counts":
            observed = observed.groupBy("subscription").agg(F.count(F.lit(1)).alias("events"))
        mode = "overwrite" if overwrite else "error"
        observed.write.mode(mode).format(written).save(out)
        counts = seen.get
    with phase("summarise"):
        bad = _bad_events(sources)
        samples: list[Rejected] = []
        rejected = 0
        if bad is not None and (counts["rejected"] or events.corrupt is not None):
            bad.write.mode("overwrite").format(written).save(os.path.join(out, REJECTED))
            kept_bad = spark.read.format(written).load(os.path.join(out, REJECTED))
            rejected = kept_bad.count()
            samples = [_sample(sources, row) for row in kept_bad.limit(SAMPLES).collect()]
        busiest = _busiest(spark, out, written, output, compiled)
    facts = compiled.facts
    corrupt = rejected if events.corrupt is not None else 0
    return Summary(
        compiled.stats().subscriptions,
        counts["events"] + corrupt,
        counts["matches"],
        rejected,
        facts.rejected + len(sources.bad),
        busiest,
        samples,
        _subscription_samples(sources),
        [] if events.json is not None else unknown_names(frame, compiled.names, None),
    )


def explain(sources: Sources, output: Output) -> str:
    """The plan of a job as text: the compiled subscriptions, and Spark's own plan."""
    json = sources.events.json
    matched = match(sources.frame, sources.compiled, json=json, output=output, unknown="ignore")
    with contextlib.redirect_stdout(io.StringIO()) as plan:
        matched.explain("formatted")
    parts = {"subscriptions": sources.compiled.explain(), "Spark's plan": plan.getvalue()}
    lines = []
    for title, text in parts.items():
        lines += [title, *(f"  {line}".rstrip() for line in text.strip().splitlines())]
    return "\n".join(lines)


def follow(
    spark: SparkSession,
    events: str,
    store: str,
    out: str,
    *,
    checkpoint: str,
    format: str | None,
    written: Written,
    once: bool,
    files_a_batch: int,
) -> StreamingQuery:
    """Start to match the files that others move into a folder with a store that may change."""
    if not is_store(store):
        raise StreamError(f"{store}: expected a store; tidings store add makes one")
    known = format or format_of([events])
    if known == "csv":
        raise EventFileError("a stream reads JSON lines or Parquet, but not CSV")
    found = stream_events(spark, events, known, files_a_batch)
    return match_stream(
        found.frame,
        store,
        out=out,
        checkpoint=checkpoint,
        json=found.json,
        format=written,
        trigger={"availableNow": True} if once else None,
    )


def _bad_events(sources: Sources) -> DataFrame | None:
    """The rows that are not valid events, with the reason; None for formats without such rows."""
    events = sources.events
    if events.json is not None:
        return rejected_events(events.frame, events.json)
    if events.corrupt is not None:
        bad = events.frame.filter(quoted(events.corrupt).isNotNull())
        return bad.withColumn("reason", F.lit(UNREADABLE))
    return None


def _refuse_bad(sources: Sources) -> None:
    bad = _bad_events(sources)
    first = None if bad is None else bad.first()
    if first is not None:
        sample = _sample(sources, first)
        raise EventsRejected(
            f"some rows are not valid events, for example {sample.what!r:.200}: {sample.reason}"
        )


def _sample(sources: Sources, row: Any) -> Rejected:
    text = row[sources.events.corrupt or sources.events.json]
    return Rejected(str(text), row["reason"])


def _subscription_samples(sources: Sources) -> list[Rejected]:
    found = [
        Rejected(f"{bad.file}:{bad.line}" + (f":{bad.column}" if bad.column else ""), bad.reason)
        for bad in sources.bad[:SAMPLES]
    ]
    if sources.compiled.facts.rejected and len(found) < SAMPLES:
        rows = sources.compiled.rejected.limit(SAMPLES - len(found)).collect()
        found += [Rejected(str(row["subscription"]), row["reason"]) for row in rows]
    return found


def _busiest(
    spark: SparkSession, out: str, written: Written, output: Output, compiled: Compiled
) -> list[tuple[Any, int]]:
    """The subscriptions that most events match, read from the output."""
    kind = compiled.id_type.simpleString()
    match output:
        case "pairs":
            rows = spark.read.schema(f"subscription {kind}").format(written).load(out)
        case "lists":
            lists = spark.read.schema(f"subscriptions array<{kind}>").format(written).load(out)
            rows = lists.select(F.explode("subscriptions").alias("subscription"))
        case "counts":
            rows = spark.read.schema(f"subscription {kind}, events long").format(written).load(out)
        case _:
            raise ValueError(f"expected output pairs, lists or counts, found {output!r}")
    if output != "counts":
        rows = rows.groupBy("subscription").agg(F.count(F.lit(1)).alias("events"))
    first = rows.orderBy(F.desc("events"), "subscription").limit(BUSIEST)
    return [(row["subscription"], row["events"]) for row in first.collect()]
