"""Costs of Spark jobs that do not grow with the events: compiling, changes of a store, a first job.

Cases of `python -m benchmarks.spark`:

- `compile`: a million rules of five ranges each, from Parquet to a saved table, with an empty
  cache. Executors parse and the driver assembles. `driver_s` and `others_s` are processor time of
  the driver's Python, and of the JVM and the workers; `driver_mib` is the most memory that the
  driver's Python held.
- `changes`: a stream on a cluster of a master and two workers, with 100,000 rules that executors
  get as a file. Every other batch follows a change of the store. What a batch costs with a change
  beside one without, in seconds of the clock and of the processor, is what a change costs.
- `first`: the first job of a fresh process with empty caches, also of Python's own bytecode:
  starting Spark, a `mapInArrow` that returns what it gets, and then `match` of 100,000 events and
  3,000 rules, the first time and again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession

from benchmarks.processors import processes, used_since
from tidings import Table
from tidings.spark import Store, compile, match, match_stream, session, ship
from tidings.spark.java import java_home

Line = dict[str, Any]
Said = Callable[[Line], None]

BLOCK: Final = 16_384  # rules that are made together
ATTRIBUTES: Final = 20
ASKED: Final = 5  # attributes that a rule asks about
WIDTH: Final = 0.1  # of its ranges
CHANGES: Final = 12  # batches that follow a change
BASE: Final = 100_000  # rules of the store that changes
BATCH_EVENTS: Final = 1_000
FIRST_EVENTS: Final = 100_000
FIRST_RULES: Final = 3_000
PATIENCE_S: Final = 120.0


def range_rules(first: int, last: int, seed: int) -> list[str]:
    """The rules with these numbers."""
    source = np.random.default_rng((seed, 5, first))
    names = np.argsort(source.random((last - first, ATTRIBUTES)), axis=1)[:, :ASKED].tolist()
    lows = (source.random((last - first, ASKED)) * (1 - WIDTH)).tolist()
    return [
        " and ".join(f"a{n} between {x!r} and {x + WIDTH!r}" for n, x in zip(*rule, strict=True))
        for rule in zip(names, lows, strict=True)
    ]


def range_events(count: int, seed: int) -> pa.Table:
    """Events with a value for each attribute."""
    source = np.random.default_rng((seed, 6))
    return pa.table({f"a{n}": source.random(count) for n in range(ATTRIBUTES)})


# A million rules


def measure_compile(options: argparse.Namespace, folder: Path, said: Said) -> None:
    """Compile very many rules inside Spark."""
    spark = session(options.master, **{"spark.driver.memory": options.memory})
    count, seed, path = options.subscriptions, options.seed, str(folder / "rules")

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first in batch.column(0).to_pylist():
                last = min(first + BLOCK, count)
                texts = pa.array(range_rules(first, last, seed))
                ids = pa.array(range(first, last), pa.int64())
                yield pa.RecordBatch.from_arrays([ids, texts], ["subscription", "predicate"])

    starts = spark.range(0, count, BLOCK, 8)
    starts.mapInArrow(make, "subscription long, predicate string").write.parquet(path)
    _forget_peak()
    before, own, start = processes(), time.process_time(), time.perf_counter()
    compiled = compile(spark.read.parquet(path), directory=folder / "tables")
    line: Line = {"case": "compile", "way": "ours", "rules": count, "master": options.master}
    line |= {"seconds": time.perf_counter() - start}
    line |= {"driver_s": round(time.process_time() - own, 1)}
    line |= {"others_s": round(used_since(before).all, 1), "driver_mib": _peak_mib()}
    table = Table.load(compiled.shards[0].path)
    first = dict(enumerate(range_rules(0, min(BLOCK, count), seed)))
    events = range_events(2_000, seed)
    found = table.match_batch(events).to_pydict()
    pairs = zip(found["event"], found["subscription"], strict=True)
    held = sorted((event, id) for event, id in pairs if id < len(first))
    right = Table(first).match_batch(events).to_pydict()
    assert held == sorted(zip(right["event"], right["subscription"], strict=True))
    said({**line, "table_bytes": compiled.stats().bytes})
    spark.stop()


def _forget_peak() -> None:
    """Begin to measure the most memory of this process anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_mib() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


# Changes of a store


def measure_changes(options: argparse.Namespace, folder: Path, said: Said) -> None:
    """A stream on a cluster whose store changes before every other batch."""
    os.environ["TIDINGS_CACHE"] = str(folder / "cache")
    with cluster(folder) as master:
        spark = session(master, **{"spark.driver.host": "127.0.0.1"})
        ship(spark)
        store = Store(folder / "store")
        store.add(dict(enumerate(range_rules(0, BASE, options.seed))))
        events = folder / "events"
        events.mkdir()
        table = range_events(BATCH_EVENTS, options.seed)
        pq.write_table(table, events / "0.parquet")
        query = match_stream(
            spark.readStream.schema(spark.read.parquet(str(events)).schema).parquet(str(events)),
            store,
            out=folder / "out",
            checkpoint=folder / "checkpoint",
        )
        costs: dict[str, list[tuple[float, float]]] = {"changed": [], "unchanged": []}
        for number in range(1, 2 * (CHANGES + 2)):
            query.processAllAvailable()
            if number % 2:
                store.replace({number: f"a0 >= 0 and a1 between 0 and {number / 100}"})
            before, own = processes(), time.process_time()
            making = events / f".{number}"
            pq.write_table(table, making)
            making.rename(events / f"{number}.parquet")
            query.processAllAvailable()
            used = used_since(before).all + time.process_time() - own
            done = query.lastProgress
            assert done is not None
            costs["changed" if number % 2 else "unchanged"].append(
                (done.durationMs["triggerExecution"] / 1000, used)
            )
        query.stop()
        _check_changes(spark, store, table, folder)
        spark.stop()
    for way, found in costs.items():
        clock, used = (statistics.median(part) for part in zip(*found[2:], strict=True))
        line: Line = {"case": "changes", "way": way, "rules": BASE, "seconds": clock}
        said({**line, "processor_s": round(used, 3), "batches": len(found) - 2})


def _check_changes(spark: SparkSession, store: Store, table: pa.Table, folder: Path) -> None:
    """Assert that the last batch has the matches of the last version."""
    out = spark.read.parquet(str(folder / "out"))
    last = out.filter(out["version"] == store.version()).select("batch", "subscription").collect()
    newest = max(row["batch"] for row in last)
    rows = store.snapshot().to_pylist()
    expected = Table({row["subscription"]: row["predicate"] for row in rows}).match_batch(table)
    found = sorted(row["subscription"] for row in last if row["batch"] == newest)
    assert found == sorted(expected.column("subscription").to_pylist())


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of a master with two workers of a core each, which are processes of this one."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    url = f"spark://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "TIDINGS_CACHE": str(folder / "cache of executors"),
    }
    command = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    package = "org.apache.spark.deploy"
    commands = [[command, f"{package}.master.Master", *here, "--port", str(port)]]
    for number in range(2):
        own = ["-c", "1", "-m", "1g", "-d", str(folder / f"worker {number}"), url]
        commands.append([command, f"{package}.worker.Worker", *here, *own])
    log = folder / "cluster.log"
    started = []
    with log.open("wb") as output:
        try:
            for one in commands:
                process = subprocess.Popen(
                    one, env=environment, stdout=output, stderr=output, start_new_session=True
                )
                started.append(process)
            end = time.monotonic() + PATIENCE_S
            while log.read_text().count("Successfully registered") < 2:
                if time.monotonic() > end:
                    raise TimeoutError(f"the workers have not come: see {log}")
                time.sleep(0.1)
            yield url
        finally:
            for process in started:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()


# The first job


def measure_first(options: argparse.Namespace, folder: Path, said: Said) -> None:
    """The first job of a machine, in a process of its own."""
    empty = {name: str(folder / name) for name in ("TIDINGS_CACHE", "PYTHONPYCACHEPREFIX")}
    command = [sys.executable, "-m", "benchmarks.fixed_costs", options.master, str(options.seed)]
    printed = subprocess.run(command, env=os.environ | empty, check=True, capture_output=True)
    for line in json.loads(printed.stdout):
        said({"case": "first", "master": options.master, **line})


def first_job(master: str, seed: int) -> None:
    """Run a first job, and print what its parts took."""
    found: list[Line] = []

    def note(way: str, run: Callable[[], Any]) -> Any:
        before, own, start = processes(), time.process_time(), time.perf_counter()
        result = run()
        used = used_since(before).all + time.process_time() - own
        seconds = time.perf_counter() - start
        found.append({"way": way, "seconds": seconds, "processor_s": round(used, 2)})
        return result

    spark = note("start Spark", lambda: session(master))
    events = spark.createDataFrame(range_events(FIRST_EVENTS, seed)).repartition(2).cache()
    note("events", events.count)
    note("boundary", events.mapInArrow(lambda batches: batches, events.schema).count)
    rules = dict(enumerate(range_rules(0, FIRST_RULES, seed)))
    for way in ("first match", "second match"):
        count = note(way, lambda: match(events, rules).count())
        assert count == Table(rules).match_batch(range_events(FIRST_EVENTS, seed)).num_rows
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    first_job(sys.argv[1], int(sys.argv[2]))
