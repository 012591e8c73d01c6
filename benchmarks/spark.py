"""Matching on Spark: ours beside joins, a pandas UDF, the bare boundary to Python and the engine.

`python -m benchmarks.spark [--case NAME] [--json]` measures; sizes are options.

`rules`: events of six typed columns, four reals and two texts, against three kinds of rules in each
of several sizes. In `texts` a rule asks for a device and a region, in `ranges` for three ranges of
a tenth each, and in `mixtures` it is one conjunction or two of two to four constraints on any of
the six columns. What stands beside ours:

- `nested-loop join`: a broadcast join with the conjunctions as columns of bounds, as many columns
  as the set needs, in the order that decides soonest;
- `hash join`: the same with the equalities apart, where every rule has one, so that Spark hashes
  them;
- `pandas UDF`: for each conjunction, comparisons of whole columns in NumPy;
- `boundary`: `mapInArrow` that returns what it gets, all columns of the events: what it costs to
  show them to Python and to take as many back. `share` is how much of that speed a way reaches.

Every way runs once before it is timed, or twice if it is quick. A way that takes longer sees fewer
events, but enough that the fixed cost of a job is small. Times are those of the clock and of the
processor, the latter of the JVM and all Python processes together, and of the Python processes
alone: on a machine that others use too, only these say much. The last line of a set compares `ours
pairs` with the best of the others, and with the boundary. `--outputs` measures other forms of the
output as well.

`growth`: the engine as a worker calls it, without Spark: processor time an event with ever more
rules, on ranges (three of 15 % each), texts (a part of a text, a region and a range) and mixtures.

`forwarding`: paper F's workload, a million subscriptions by default, events as JSON text because
they have a few of a thousand attributes each. There are thousands of matches an event, so what
leaves the workers is how often each subscription matched. Compiling starts from text with an empty
cache; `again` is a job on the same subscriptions until the first event is matched. The bare engine
is `Table.match_batch` in one thread over the same events as Arrow columns.

`compile`, `changes` and `first` measure fixed costs: see `benchmarks.fixed_costs`.

Answers are compared before anything is timed. Everything runs in one command, one after another.
"""

from __future__ import annotations

import argparse
import json
import operator
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

from benchmarks.fixed_costs import Line, measure_changes, measure_compile, measure_first
from benchmarks.measure import command_line
from benchmarks.processors import Used, processes, used_since
from tidings import Table, parse
from tidings.matching.workload import WORKLOADS
from tidings.spark import Compiled, compile, match, session
from tidings.spark.matches import Output

MASTERS: Final = ("local[1]", "local[2]")
SIZES: Final = (100, 1_000, 10_000)
GROWTH: Final = (10, 100, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000)
DEVICES: Final = 1_000
REGIONS: Final = 20
TEXTS, RANGES, MIXTURES = "texts", "ranges", "mixtures"
RANGE: Final = 0.1  # the width of each of three ranges
TWICE: Final = 0.31  # of the mixtures have a second conjunction
WIDTH: Final = 0.055  # of their ranges
BLOCK: Final = 16_384  # events generated together
BATCH: Final = 65_536  # events that the bare engine takes at a time
SLOW: Final = 5.0  # seconds of the processor after which a way is warm
SAMPLE: Final = 1_000  # events whose answers are compared
GROWTH_EVENTS: Final = 16_384


def main() -> None:
    """Measure what was asked for, and print it."""
    parser, command = command_line("benchmarks.spark", str(__doc__).splitlines()[0])
    parser.set_defaults(repeats=1)
    parser.add_argument("--case", choices=CASES, help="one case; without, all")
    parser.add_argument("--rules", type=int, nargs="+", default=SIZES, help="sizes of sets")
    parser.add_argument("--master", default="local[2]", help="of the case rules")
    forms = get_args(Output)
    parser.add_argument("--outputs", choices=forms, nargs="+", default=["pairs"])
    parser.add_argument("--rule-events", type=int, default=200_000)
    parser.add_argument("--most", type=int, default=1_000_000, help="rules of the case growth")
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--memory", default="4g", help="of the driver's JVM")
    options = parser.parse_args()
    lines: list[Line] = []

    def said(line: Line) -> None:
        if "seconds" in line:
            line = {**line, "seconds": round(line["seconds"], 3)}
        if "events" in line:
            line["events_per_s"] = round(line["events"] / line["seconds"], 1)
        lines.append({**line, "seed": options.seed, "command": command})
        print(json.dumps(lines[-1]) if options.json else shown(line), flush=True)

    folder = Path(tempfile.mkdtemp(prefix="tidings-benchmark-"))
    try:
        for case in CASES if options.case is None else (options.case,):
            (folder / case).mkdir()
            CASES[case](options, folder / case, said)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"again with: {command}")


def shown(line: Line) -> str:
    rate = f"{line['events_per_s']:12,.0f} events/s" if "events_per_s" in line else " " * 21
    rest = "  ".join(f"{k} {v}" for k, v in line.items() if k not in ("case", "way", "seconds"))
    seconds = f"{line['seconds']:9.2f} s" if "seconds" in line else " " * 11
    return f"{line['case']:16} {line['way']:16} {seconds} {rate}  {rest}"


def started(master: str, options: argparse.Namespace) -> SparkSession:
    """A session on a master, warm: JVM, workers and kernels have done something."""
    spark = session(master, **{"spark.driver.memory": options.memory})
    held = spark.createDataFrame([(1, "x = 1")], "subscription long, predicate string")
    small = spark.range(100).withColumnRenamed("id", "x")
    for output in get_args(Output):
        match(small, held, output=output).collect()
    return spark


def timed(rows: DataFrame, repeats: int) -> tuple[float, Used]:
    """The least time to make all rows and throw them away, of the clock and of the processor."""

    def run() -> tuple[float, Used]:
        start, before = time.perf_counter(), processes()
        rows.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start, used_since(before)

    if run()[1].all < SLOW:
        run()
    clocks, used = zip(*(run() for _ in range(repeats)), strict=True)
    return min(clocks), min(used)


# Rules


def measure_rules(options: argparse.Namespace, folder: Path, said: Callable[[Line], None]) -> None:
    """Ours beside what people do today."""
    path = str(folder / "events")
    Path(path).mkdir()
    step = 50_000
    for number, start in enumerate(range(0, options.rule_events, step)):
        table = rule_events(start, min(start + step, options.rule_events), options.seed)
        pq.write_table(table, f"{path}/{number:04}.parquet")
    spark = started(options.master, options)
    for case in (TEXTS, RANGES, MIXTURES):
        for size in options.rules:
            measure_set(spark, case, size, path, options, said)
    spark.stop()


def measure_set(
    spark: SparkSession,
    case: str,
    size: int,
    path: str,
    options: argparse.Namespace,
    said: Callable[[Line], None],
) -> None:
    """One set of rules, in every way."""
    rules = rules_table(case, size, options.seed)
    texts = rule_texts(rules, "{name} = '{value}'", "{name} between {low!r} and {high!r}")
    compiled = compile(dict(texts))
    found = compare_rules(spark, rules, texts, compiled, options.seed)
    count = options.rule_events
    all_events = spark.read.parquet(path)
    ways = {"boundary": (count, all_events.mapInArrow(unchanged, all_events.schema))}
    for output in options.outputs:
        ways[f"ours {output}"] = count, match(all_events, compiled, output=output)
    for way, (make, pairs) in OTHERS.items():
        fewer = min(count, pairs // size)
        rows = make(all_events if fewer == count else some_of(all_events, fewer), rules)
        if rows is not None:
            ways[way] = fewer, rows
    facts: Line = {"case": case, "rules": size, "matches_per_event": found}
    cost: dict[str, float] = {}
    for way, (seen, rows) in ways.items():
        clock, used = timed(rows, options.repeats)
        cost[way] = used.all / seen * 1e6
        line = {**facts, "way": way, "master": options.master, "events": seen, "seconds": clock}
        line |= {
            "processor_us": round(cost[way], 2),
            "python_us": round(used.python / seen * 1e6, 2),
        }
        said({**line, "share": round(cost["boundary"] / cost[way], 3)})
    ours = f"ours {options.outputs[0]}"
    best = min(cost.keys() & OTHERS.keys(), key=cost.__getitem__)
    line = {**facts, "way": ours, "beside": best}
    line |= {"times_as_fast": round(cost[best] / cost[ours], 2)}
    said({**line, "share": round(cost["boundary"] / cost[ours], 3)})


def some_of(events: DataFrame, count: int) -> DataFrame:
    """The first events, in two partitions."""
    rows = events.filter(F.col("n") < count).toArrow()
    return events.sparkSession.createDataFrame(rows).repartition(2)


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the boundary alone costs."""
    yield from batches


def rules_table(case: str, count: int, seed: int) -> pa.Table:
    """The conjunctions of rules as columns of bounds, null where one does not ask."""
    source = np.random.default_rng((seed, 1))
    if case == MIXTURES:
        return mixtures(count, source)
    columns: dict[str, Any] = {"id": np.arange(count)}
    if case == TEXTS:
        for name, values in (("device", DEVICES), ("region", REGIONS)):
            columns[f"{name}_eq"] = [f"{name}-{n}" for n in source.integers(0, values, count)]
    else:
        for name in "abc":
            columns[f"{name}_lo"] = source.random(count) * (1 - RANGE)
            columns[f"{name}_hi"] = columns[f"{name}_lo"] + RANGE
    return pa.table(columns)


def mixtures(count: int, source: np.random.Generator) -> pa.Table:
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


def joined(events: DataFrame, rules: pa.Table) -> DataFrame:
    """The nested-loop join: no part of the condition is an equality that Spark could hash."""
    r = F.broadcast(events.sparkSession.createDataFrame(rules))
    return _joined(events, r, _conditions(events, r))


def hashed(events: DataFrame, rules: pa.Table) -> DataFrame | None:
    """A hash join for each set of columns that rules ask to be equal; None if one asks for none."""
    asked = [name for name in ("device", "region") if f"{name}_eq" in rules.column_names]
    has = {name: rules.column(f"{name}_eq").is_valid().to_numpy() for name in asked}
    if not asked or not np.logical_or.reduce(list(has.values())).all():
        return None
    parts = []
    for chosen in ({"device", "region"}, {"device"}, {"region"}):
        if chosen <= has.keys():
            own = np.logical_and.reduce([has[name] == (name in chosen) for name in asked])
            if own.any():
                r = F.broadcast(events.sparkSession.createDataFrame(rules.filter(own)))
                equal = [events[name] == r[f"{name}_eq"] for name in sorted(chosen)]
                parts.append(_joined(events, r, [*equal, *_conditions(events, r)]))
    return reduce(lambda one, other: one.union(other), parts)


def _joined(events: DataFrame, rules: DataFrame, conditions: list[Column]) -> DataFrame:
    pairs = events.join(rules, reduce(operator.and_, conditions), how="inner")
    return pairs.select(events["*"], rules["id"].alias("subscription"))


def _conditions(events: DataFrame, rules: DataFrame) -> list[Column]:
    conditions = []
    for column in rules.columns:
        name, _, sort = column.partition("_")
        if sort == "eq":
            conditions.append(rules[column].isNull() | (events[name] == rules[column]))
        elif sort == "lo":
            within = events[name].between(rules[column], rules[f"{name}_hi"])
            conditions.append(rules[column].isNull() | within)
    return conditions


def vectorised(events: DataFrame, rules: pa.Table) -> DataFrame:
    """A pandas UDF that compares whole columns with the bounds of each conjunction."""
    names = ("device", "region", *"abcd")
    tests = []
    for row in rules.to_pylist():
        parts: list[tuple[str, Any, Any]] = []
        for column, value in row.items():
            name, _, sort = column.partition("_")
            if value is not None and sort in ("eq", "lo"):
                parts.append((name, value, row.get(f"{name}_hi") if sort == "lo" else None))
        tests.append((row["id"], parts))

    def find(*columns):  # type: ignore[no-untyped-def]
        import numpy
        import pandas

        held = {name: column.to_numpy() for name, column in zip(names, columns, strict=True)}
        found = [[] for _ in range(len(columns[0]))]  # type: ignore[var-annotated]
        for id, parts in tests:
            true = numpy.ones(len(found), bool)
            for name, low, high in parts:
                values = held[name]
                true &= values == low if high is None else (values >= low) & (values <= high)
            for row in numpy.flatnonzero(true).tolist():
                found[row].append(id)
        return pandas.Series(found)

    udf = pandas_udf(find, T.ArrayType(T.LongType()), PandasUDFType.SCALAR)
    lists = events.select("*", udf(*names).alias("found"))
    pairs = lists.select(*events.columns, F.explode_outer("found").alias("subscription"))
    return pairs.filter("subscription is not null")


# With how many pairs of events and rules each is measured, about.
OTHERS: Final[dict[str, tuple[Callable[[DataFrame, pa.Table], DataFrame | None], int]]] = {
    "nested-loop join": (joined, 100_000_000),
    "hash join": (hashed, sys.maxsize),
    "pandas UDF": (vectorised, 400_000_000),
}


def compare_rules(
    spark: SparkSession,
    rules: pa.Table,
    texts: list[tuple[int, str]],
    compiled: Compiled,
    seed: int,
) -> float:
    """Assert that all ways find the same; how many matches an event has."""
    sample = rule_events(0, SAMPLE, seed)
    found = Table(dict(texts)).match_batch(sample)
    expected = sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
    events = spark.createDataFrame(sample)
    ways = {"ours": match(events, compiled)}
    for way, (make, _) in OTHERS.items():
        rows = make(events, rules)
        if rows is not None:
            ways[way] = rows
    for way, rows in ways.items():
        # Others have a pair twice where both conjunctions of a rule hold.
        found_pairs = rows.select("n", "subscription").distinct().collect()
        assert sorted((row["n"], row["subscription"]) for row in found_pairs) == expected, way
    return round(len(expected) / SAMPLE, 3)


# Growth


def measure_growth(options: argparse.Namespace, folder: Path, said: Callable[[Line], None]) -> None:
    """The engine with ever more rules, as a worker calls it."""
    for case, make in GROWING.items():
        for size in (size for size in GROWTH if size <= options.most):
            events, texts = make(size, options.seed)
            start = time.process_time()
            table = Table(texts)
            built = time.process_time() - start
            rows = events.slice(0, max(256, min(GROWTH_EVENTS, 200_000_000 // size)))
            found = table.match_batch(rows.slice(0, 256), threads=1)
            check_growth(rows.slice(0, 4), texts, found)
            seconds = []
            for _ in range(options.repeats + 1):
                start = time.process_time()
                pairs = table.match_batch(rows, threads=1).num_rows
                seconds.append(time.process_time() - start)
            least = min(seconds[1:])
            line: Line = {"case": f"growth, {case}", "way": "engine", "rules": size}
            line |= {"events": rows.num_rows, "seconds": least}
            line |= {"processor_us": round(least / rows.num_rows * 1e6, 2)}
            line |= {"matches_per_event": round(pairs / rows.num_rows, 2)}
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            said({**line, "build_s": round(built, 2), "most_mib": most})


def check_growth(rows: pa.Table, texts: dict[int, str], found: pa.Table) -> None:
    """Assert that the first events match what their predicates say, one by one."""
    for row, event in enumerate(rows.to_pylist()):
        pairs = found.filter(pa.compute.equal(found.column("event"), row))
        first = list(texts.items())[:2_000]
        expected = [id for id, text in first if parse(text).matches(event)]
        held = [id for id in pairs.column("subscription").to_pylist() if id < len(first)]
        assert sorted(held) == expected, row


def growing_ranges(size: int, seed: int) -> tuple[pa.Table, dict[int, str]]:
    """Three ranges of 15 % each."""
    source = np.random.default_rng((seed, 3))
    low = source.random((size, 3)) * 0.85
    texts = {
        id: " and ".join(
            f"{n} between {x!r} and {x + 0.15!r}" for n, x in zip("abc", row, strict=True)
        )
        for id, row in enumerate(low.tolist())
    }
    return rule_events(0, GROWTH_EVENTS, seed), texts


def growing_texts(size: int, seed: int) -> tuple[pa.Table, dict[int, str]]:
    """A part of a text, a region and a range."""
    source = np.random.default_rng((seed, 4))
    parts = source.integers(0, 1_000, size).tolist()
    regions = source.integers(0, REGIONS, size).tolist()
    low = (source.random(size) * 0.7).tolist()
    texts = {
        id: f"device contains '-{part % 100}' and region = 'region-{region}' "
        f"and a between {x!r} and {x + 0.3!r}"
        for id, (part, region, x) in enumerate(zip(parts, regions, low, strict=True))
    }
    return rule_events(0, GROWTH_EVENTS, seed), texts


def growing_mixtures(size: int, seed: int) -> tuple[pa.Table, dict[int, str]]:
    """One conjunction or two on any columns."""
    rules = rules_table(MIXTURES, size, seed)
    texts = rule_texts(rules, "{name} = '{value}'", "{name} between {low!r} and {high!r}")
    return rule_events(0, GROWTH_EVENTS, seed), dict(texts)


GROWING: Final = {"ranges": growing_ranges, "texts": growing_texts, "mixtures": growing_mixtures}


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


CASES: Final[dict[str, Callable[[argparse.Namespace, Path, Callable[[Line], None]], None]]] = {
    "growth": measure_growth,
    "rules": measure_rules,
    "forwarding": measure_forwarding,
    "compile": measure_compile,
    "changes": measure_changes,
    "first": measure_first,
}

if __name__ == "__main__":
    main()
