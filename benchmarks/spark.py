"""Matching on Spark: ours beside a join, a Python UDF, and the bare engine in one process.

`python -m benchmarks.spark [--case rules|forwarding] [--json]` measures; sizes are options.

`rules`: events of six typed columns, four reals and two texts, against three sets of rules, of
which an event satisfies about ten. In `rules of any sort` a rule is one conjunction or two of two
to four constraints on any of the six columns; in `rules by region` every rule asks for one of
twenty regions and two ranges, so an event has hundreds of candidates; in `rules by device` nine in
ten watch one of a thousand devices for a threshold, and the others a region for two ranges. The
join is a broadcast nested-loop join with the conjunctions as columns of bounds, as many columns as
the set needs, in the order that decides soonest; the UDF is a Python function over compiled
expressions; both see fewer events, since they take far longer.

`forwarding`: paper F's workload, a million subscriptions by default, events as JSON text because
they have a few of a thousand attributes each. There are thousands of matches an event, so what
leaves the workers is how often each subscription matched. Compiling starts from text with an empty
cache; `again` is a job on the same subscriptions until the first event is matched. The bare engine
is `Table.match_batch` in one thread over the same events as Arrow columns.

Answers are compared before anything is timed. Everything runs in one command, one after another.
"""

from __future__ import annotations

import argparse
import json
import operator
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from benchmarks.measure import command_line
from tidings import Table
from tidings.matching.workload import WORKLOADS
from tidings.spark import compile, match, session
from tidings.spark.matches import Output

Line = dict[str, Any]

MASTERS: Final = ("local[1]", "local[2]")
DEVICES: Final = 1_000
REGIONS: Final = 20
ANY_SORT: Final = "rules of any sort"
# For the others: how many of all rules watch one device, and the widths of the others' ranges.
WATCHING: Final = {"rules by region": (0.0, 0.14), "rules by device": (0.9, 0.3)}
TWICE: Final = 0.31  # of the rules of any sort have a second conjunction
WIDTH: Final = 0.055  # of their ranges
BLOCK: Final = 16_384  # events generated together
BATCH: Final = 65_536  # events that the bare engine takes at a time
FEW: Final = (20_000, 400)  # events that the join and the Python UDF see
SAMPLE: Final = 2_000  # events whose answers are compared


def main() -> None:
    """Measure what was asked for, and print it."""
    parser, command = command_line("benchmarks.spark", str(__doc__).splitlines()[0])
    parser.set_defaults(repeats=3)
    parser.add_argument("--case", choices=["rules", "forwarding"], help="one case; without, both")
    parser.add_argument("--rules", type=int, default=10_000)
    parser.add_argument("--rule-events", type=int, default=1_000_000)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--memory", default="4g", help="of the driver's JVM")
    options = parser.parse_args()
    lines: list[Line] = []

    def said(line: Line) -> None:
        line = {**line, "seconds": round(line["seconds"], 3)}
        if "events" in line:
            line["events_per_s"] = round(line["events"] / line["seconds"], 1)
        lines.append({**line, "seed": options.seed, "command": command})
        print(json.dumps(lines[-1]) if options.json else shown(line), flush=True)

    folder = Path(tempfile.mkdtemp(prefix="tidings-benchmark-"))
    try:
        if options.case in (None, "rules"):
            for case in (ANY_SORT, *WATCHING):
                measure_rules(case, options, folder, said)
        if options.case in (None, "forwarding"):
            measure_forwarding(options, folder, said)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def shown(line: Line) -> str:
    rate = f"{line['events_per_s']:12,.0f} events/s" if "events_per_s" in line else " " * 21
    rest = "  ".join(f"{k} {v}" for k, v in line.items() if k not in ("case", "way", "seconds"))
    return f"{line['case']:15} {line['way']:14} {line['seconds']:9.2f} s {rate}  {rest}"


def started(master: str, options: argparse.Namespace) -> SparkSession:
    """A session on a master, warm: JVM, workers and kernels have done something."""
    spark = session(master, **{"spark.driver.memory": options.memory})
    held = spark.createDataFrame([(1, "x = 1")], "subscription long, predicate string")
    small = spark.range(100).withColumnRenamed("id", "x")
    for output in get_args(Output):
        match(small, held, output=output).collect()
    return spark


def timed(rows: DataFrame, repeats: int) -> float:
    """The least time to make all rows and throw them away; once before, to warm up."""
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        rows.write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


# Rules


def measure_rules(
    case: str, options: argparse.Namespace, folder: Path, said: Callable[[Line], None]
) -> None:
    """Ours beside what people do today."""
    rules = rules_table(case, options.rules, options.seed)
    path = str(folder / case)
    Path(path).mkdir()
    step = 125_000
    for number, start in enumerate(range(0, options.rule_events, step)):
        table = rule_events(start, min(start + step, options.rule_events), options.seed)
        pq.write_table(table, f"{path}/{number:04}.parquet")
    texts = rule_texts(rules, "{name} = '{value}'", "{name} between {low!r} and {high!r}")
    for master in MASTERS:
        spark = started(master, options)
        held = spark.createDataFrame(texts, "subscription long, predicate string")
        frame = spark.createDataFrame(rules)
        events = spark.read.parquet(path)
        found = compare_rules(spark, rules, texts, held, frame, options.seed)
        compiled = compile(held)
        facts = {"case": case, "rules": options.rules, "matches_per_event": found}
        ways: list[tuple[str, int, DataFrame]] = [
            (f"ours {output}", options.rule_events, match(events, compiled, output=output))
            for output in get_args(Output)
        ]
        few = [spark.createDataFrame(rule_events(0, n, options.seed)).repartition(2) for n in FEW]
        ways.append(("join", FEW[0], joined(few[0].cache(), frame)))
        ways.append(("python udf", FEW[1], asked(few[1].cache(), rules)))
        for way, count, rows in ways:
            line = {**facts, "way": way, "master": master, "events": count}
            said({**line, "seconds": timed(rows, options.repeats)})
        spark.stop()
    table = Table(dict(texts))
    batch = rule_events(0, min(options.rule_events, 500_000), options.seed)
    bare(table, batch.slice(0, 1_000))
    line = {**facts, "way": "engine", "master": None, "events": batch.num_rows}
    said({**line, "seconds": min(bare(table, batch) for _ in range(options.repeats))})


def rules_table(case: str, count: int, seed: int) -> pa.Table:
    """The conjunctions of rules as columns of bounds, null where one does not ask."""
    source = np.random.default_rng((seed, 1))
    if case == ANY_SORT:
        return rules_of_any_sort(count, source)
    share, width = WATCHING[case]
    watching = source.random(count) < share
    devices = source.integers(0, DEVICES, count)
    regions = source.integers(0, REGIONS, count)
    low = source.random((2, count)) * (1 - width)
    high = low + width
    high[0][watching] = 1.0
    return pa.table(
        {
            "id": np.arange(count),
            "device_eq": pa.array([f"device-{n}" for n in devices], mask=~watching),
            "region_eq": pa.array([f"region-{n}" for n in regions], mask=watching),
            "a_lo": low[0],
            "a_hi": high[0],
            "b_lo": pa.array(low[1], mask=watching),
            "b_hi": pa.array(high[1], mask=watching),
        }
    )


def rules_of_any_sort(count: int, source: np.random.Generator) -> pa.Table:
    """Rules of one conjunction or two, each of two to four constraints on any columns."""
    ids = np.repeat(np.arange(count), 1 + (source.random(count) < TWICE))
    sizes = source.integers(2, 5, ids.size)
    order = np.argsort(source.random((ids.size, 6)), axis=1)
    asks = order < sizes[:, np.newaxis]  # as many of the six as there are constraints
    low = source.random((4, ids.size)) * (1 - WIDTH)
    columns: dict[str, Any] = {"id": ids}
    for at, (name, values) in enumerate((("device", DEVICES), ("region", REGIONS))):
        texts = [f"{name}-{n}" for n in source.integers(0, values, ids.size)]
        columns[f"{name}_eq"] = pa.array(texts, mask=~asks[:, at])
    for at, name in enumerate("abcd"):
        mask = ~asks[:, at + 2]
        columns[f"{name}_lo"] = pa.array(low[at], mask=mask)
        columns[f"{name}_hi"] = pa.array(low[at] + WIDTH, mask=mask)
    return pa.table(columns)


def rule_texts(rules: pa.Table, equal: str, within: str) -> list[tuple[int, str]]:
    """Each rule in a language, from how that writes an equality and a range."""
    found: dict[int, list[str]] = {}
    for row in rules.to_pylist():
        parts = []
        for column, value in row.items():
            name, _, sort = column.partition("_")
            if value is not None and sort == "eq":
                parts.append(equal.format(name=name, value=value))
            elif value is not None and sort == "lo":
                parts.append(within.format(name=name, low=value, high=row[f"{name}_hi"]))
        found.setdefault(row["id"], []).append(" and ".join(parts))
    return [(id, " or ".join(f"({part})" for part in parts)) for id, parts in found.items()]


def rule_events(start: int, stop: int, seed: int) -> pa.Table:
    """Events by number: four reals, two texts."""
    source = np.random.default_rng((seed, 2, start))
    count = stop - start
    columns: dict[str, Any] = {name: source.random(count) for name in "abcd"}
    columns["device"] = [f"device-{n}" for n in source.integers(0, DEVICES, count)]
    columns["region"] = [f"region-{n}" for n in source.integers(0, REGIONS, count)]
    return pa.table({"n": np.arange(start, stop), **columns})


def joined(events: DataFrame, rules: DataFrame) -> DataFrame:
    """The nested-loop join: no part of the condition is an equality that Spark could hash."""
    r = F.broadcast(rules)
    conditions = []
    for column in rules.columns:
        name, _, sort = column.partition("_")
        if sort == "eq":
            conditions.append(r[column].isNull() | (events[name] == r[column]))
        elif sort == "lo":
            within = events[name].between(r[column], r[f"{name}_hi"])
            conditions.append(r[column].isNull() | within)
    condition = reduce(operator.and_, conditions)
    return events.join(r, condition, how="inner").select(events["*"], r["id"].alias("subscription"))


def asked(events: DataFrame, rules: pa.Table) -> DataFrame:
    """A Python UDF that goes through expressions compiled once a worker."""
    texts = rule_texts(rules, "{name} == {value!r}", "{low!r} <= {name} <= {high!r}")
    sources = [source for _, source in texts]
    names = ("device", "region", *"abcd")

    @F.udf(T.ArrayType(T.LongType()))
    def evaluate(*values):  # type: ignore[no-untyped-def]
        import builtins

        held: Any = builtins.__dict__.setdefault("_tidings_rules", {})
        if not held:
            held["codes"] = [builtins.compile(source, "rule", "eval") for source in sources]
        known = dict(zip(names, values, strict=True))
        return [n for n, code in enumerate(held["codes"]) if eval(code, {}, known)]

    return events.select("*", F.explode(evaluate(*names)).alias("subscription"))


def compare_rules(
    spark: SparkSession,
    rules: pa.Table,
    texts: list[tuple[int, str]],
    held: DataFrame,
    frame: DataFrame,
    seed: int,
) -> float:
    """Assert that all ways find the same; how many matches an event has."""
    sample = rule_events(0, SAMPLE, seed)
    found = Table(dict(texts)).match_batch(sample)
    expected = sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
    events = spark.createDataFrame(sample)
    few = events.filter(F.col("n") < 50)
    for way, rows, limit in (
        ("ours", match(events, held), SAMPLE),
        ("join", joined(events, frame), SAMPLE),
        ("udf", asked(few, rules), 50),
    ):
        # The join has a pair twice where both conjunctions of a rule hold.
        found_pairs = rows.select("n", "subscription").distinct().collect()
        pairs = sorted((row["n"], row["subscription"]) for row in found_pairs)
        assert pairs == [pair for pair in expected if pair[0] < limit], way
    return round(len(expected) / SAMPLE, 2)


# Forwarding


def measure_forwarding(
    options: argparse.Namespace, folder: Path, said: Callable[[Line], None]
) -> None:
    """Ours beside the bare engine, on very many subscriptions."""
    facts = {"case": "forwarding", "rules": options.subscriptions}
    held_path, events_path = str(folder / "subscriptions"), str(folder / "events")
    counts: dict[str, Any] = {}
    table: Table | None = None
    for master in reversed(MASTERS):
        spark = started(master, options)
        if not Path(held_path).exists():
            write_workload(spark, options, held_path, events_path)
        events = spark.read.parquet(events_path)
        held = spark.read.parquet(held_path)
        cache = folder / f"tables {master}"
        start = time.perf_counter()
        compiled = compile(held, directory=cache)
        sizes = compiled.stats()._asdict()
        said(
            {
                **facts,
                "way": "compile",
                "master": master,
                "seconds": time.perf_counter() - start,
                **sizes,
            }
        )
        start = time.perf_counter()
        match(
            events.limit(1), compile(held, directory=cache), json="event", output="counts"
        ).collect()
        said({**facts, "way": "again", "master": master, "seconds": time.perf_counter() - start})
        table = table or Table.load(compiled.shards[0].path)
        check_forwarding(spark, table, compiled, options)
        start = time.perf_counter()
        rows = match(events, compiled, json="event", output="counts").toArrow()
        seconds = time.perf_counter() - start
        total = int(sum(rows.column("events").to_pylist()))
        counts[master] = dict(zip(*(c.to_pylist() for c in rows.columns), strict=True))
        line = {**facts, "way": "ours counts", "master": master, "events": options.events}
        said({**line, "seconds": seconds, "matches_per_event": round(total / options.events, 1)})
        spark.stop()
    assert len({tuple(sorted(found.items())) for found in counts.values()}) == 1
    assert table is not None
    workload = WORKLOADS["forwarding"](seed=options.seed)
    some = min(options.events, 4 * BATCH)
    bare(table, workload.event_table(0, 1_000))
    seconds = 0.0
    for start_row in range(0, some, BATCH):
        batch = workload.event_table(start_row, min(start_row + BATCH, some))
        seconds += min(bare(table, batch) for _ in range(options.repeats))
    said({**facts, "way": "engine", "master": None, "events": some, "seconds": seconds})


def bare(table: Table, batch: pa.Table) -> float:
    """The time that the bare engine takes on one core."""
    start = time.perf_counter()
    table.match_batch(batch, threads=1)
    return time.perf_counter() - start


def check_forwarding(
    spark: SparkSession, table: Table, compiled: Any, options: argparse.Namespace
) -> None:
    """Assert that Spark counts on a sample what the engine finds."""
    workload = WORKLOADS["forwarding"](seed=options.seed)
    rows = [(json.dumps(event),) for event in workload.events(0, 200)]
    sample = spark.createDataFrame(rows, "event string")
    found = match(sample, compiled, json="event", output="counts").agg(F.sum("events")).collect()
    assert found[0][0] == table.match_batch(workload.event_table(0, 200)).num_rows


def write_workload(
    spark: SparkSession, options: argparse.Namespace, held_path: str, events_path: str
) -> None:
    """Make subscriptions and events on the executors."""
    seed, subscriptions, events = options.seed, options.subscriptions, options.events

    def make_held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        workload = WORKLOADS["forwarding"](seed=seed)
        for batch in batches:
            for block in batch.column(0).to_pylist():
                last = min((block + 1) * BLOCK, subscriptions)
                rows = list(workload.subscriptions(block * BLOCK, last))
                texts = [str(predicate) for _, predicate in rows]
                yield pa.RecordBatch.from_arrays(
                    [pa.array([id for id, _ in rows]), pa.array(texts)],
                    ["subscription", "predicate"],
                )

    def make_events(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        workload = WORKLOADS["forwarding"](seed=seed)
        for batch in batches:
            for block in batch.column(0).to_pylist():
                rows = workload.events(block * BLOCK, min((block + 1) * BLOCK, events))
                texts = pa.array(json.dumps(event) for event in rows)
                yield pa.RecordBatch.from_arrays([texts], ["event"])

    for path, count, make, schema in (
        (held_path, subscriptions, make_held, "subscription long, predicate string"),
        (events_path, events, make_events, "event string"),
    ):
        blocks = spark.range(0, -(-count // BLOCK), 1, 8)
        blocks.mapInArrow(make, schema).write.parquet(path)


if __name__ == "__main__":
    main()
