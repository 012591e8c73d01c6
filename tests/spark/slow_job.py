"""A job that takes a while and leaves marks, for tests that kill parts of it meanwhile.

`python slow_job.py MASTER OUT MARKS` runs it as a program, with Tidings sent to the executors.
While the folder of marks holds a file named `ANOTHER`, tasks wait until more executors have left a
mark than the number in that file.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.effort import BRIEF

EVENTS = 2_000
PARTITIONS = 16
SLOW_S = 0.25  # what a task takes at least
PATIENCE_S = 120.0  # for another executor, at most
ANOTHER = "another"
OPTIONS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": BRIEF,
    "spark.driver.host": "127.0.0.1",
}
HELD = {n: f"x between {n} and {2 * n} or x = {n * n}" for n in range(1, 60)}


def executors(marks: str | Path) -> set[int]:
    """The process ids of the executors that have left a mark."""
    names = [path.name for path in Path(marks).iterdir()]
    return {int(name.split("-")[0]) for name in names if name != ANOTHER}


def slow_matches(spark: SparkSession, marks: str) -> DataFrame:
    """The matches of some events, slowly; every task leaves its process ids in a folder."""
    from tidings.spark import match

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        daemon = os.getppid()
        executor = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
        name = f"{executor}-{daemon}-{os.getpid()}-{time.monotonic_ns()}"
        Path(marks, name).touch()
        time.sleep(SLOW_S)
        begun = time.monotonic()
        another = Path(marks, ANOTHER)
        while another.exists() and len(executors(marks)) <= int(another.read_text()):
            time.sleep(SLOW_S)
            if time.monotonic() - begun > PATIENCE_S:
                raise TimeoutError("no other executor has come")
        yield from batches

    rows = list(HELD.items())
    held = spark.createDataFrame(rows, "subscription long, predicate string")
    events = spark.range(0, EVENTS, 1, PARTITIONS).withColumnRenamed("id", "x")
    return match(events.mapInArrow(slow, "x long"), held)


def expected() -> list[tuple[int, int]]:
    """The matches, without Spark."""
    from tidings import Table

    table = Table(HELD)
    found: list[Any] = [(x, id) for x in range(EVENTS) for id in table.match({"x": x})]
    return sorted(found)


def main() -> None:
    from tidings.spark import session, ship

    master, out, marks = sys.argv[1:]
    spark = session(master, **OPTIONS)
    ship(spark)
    slow_matches(spark, marks).write.parquet(out)
    spark.stop()


if __name__ == "__main__":
    main()
