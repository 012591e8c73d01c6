"""Runs an experiment on Spark: rows of parameters in, rows of results out.

Every row of parameters is a task of its own. Rows run in jobs, and the results of a job are stored
before the next begins, so an interruption loses one job. Jobs begin small and grow until each takes
about `JOB_S`. An experiment that measures time runs one row, hence one task, at a time.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from tidings.lab import results
from tidings.lab.code import commit
from tidings.lab.experiment import Experiment, Parameters, Row, identity
from tidings.lab.machine import load, machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB_S: Final = 20.0  # that a job should take
FIRST_JOB: Final = 8  # rows
MAX_JOB: Final = 512
PULSE_S: Final = 0.3
MAX_ERROR: Final = 2_000  # characters

Step = Callable[[int, int], None]  # rows done, of how many
Batches = Iterator[pa.RecordBatch]


class Outcome(NamedTuple):
    """The outcome of a run, in rows of parameters."""

    rows: int
    known: int  # how many of these were measured before
    failed: int
    seconds: float


def run(
    spark: SparkSession,
    experiment: Experiment,
    sweep: list[Parameters],
    folder: Path,
    step: Step = lambda done, whole: None,
) -> Outcome:
    """Measure the rows that have no result yet, and store the results in a folder."""
    begun = time.monotonic()
    known = results.finished(folder, experiment)
    pending = [row for row in sweep if results.key_of(row) not in known]
    already = done = len(sweep) - len(pending)
    failed = 0
    size = 1 if experiment.timed else FIRST_JOB
    while pending:
        part, pending = pending[:size], pending[size:]
        step(done, len(sweep))
        started = time.monotonic()
        with _watching(spark, partial(_tell, step, done, len(sweep))):
            table = measured(experiment, parameter_rows(spark, part)).toArrow()
        results.append(folder, experiment, table)
        failed += len(table) - table.column("error").null_count
        done += len(part)
        if not experiment.timed:
            wanted = size * JOB_S / max(time.monotonic() - started, 0.1)
            size = max(1, min(int(wanted), 2 * size, MAX_JOB))
    step(done, len(sweep))
    return Outcome(len(sweep), already, failed, time.monotonic() - begun)


def parameter_rows(spark: SparkSession, sweep: list[Parameters]) -> DataFrame:
    """Parameters as rows, each in a partition of its own: `parameters`, JSON."""
    from pyspark.sql import functions as f

    texts = f.from_json(f.lit(json.dumps(list(map(identity, sweep)))), "array<string>")
    numbers = spark.range(0, len(sweep), 1, len(sweep))
    return numbers.select(f.get(texts, f.col("id").cast("int")).alias("parameters"))


def measured(experiment: Experiment, parameters: DataFrame) -> DataFrame:
    """The results of rows of parameters, each by its own task; a failed row gives its error."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = results.schema_of(experiment)
    measure, about = experiment.measure, {"commit": commit()}

    def rows(batches: Batches) -> Batches:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                found = measure_row(measure, text, about)
                yield pa.RecordBatch.from_pylist(found, schema)

    return parameters.select("parameters").mapInArrow(rows, from_arrow_schema(schema))


def measure_row(measure: Callable[[Parameters], Iterable[Row]], text: str, about: Row) -> list[Row]:
    """Measure one row of parameters; its results, or one row with its error."""
    parameters = json.loads(text)
    about = about | {
        "key": results.key_of(parameters),
        "parameters": text,
        "load": load(),
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "machine": machine(),
    }
    begun = time.monotonic()
    try:
        found = [dict(row) for row in measure(parameters)]
        if not found:
            raise ValueError("`measure` gave no results")
    except Exception as error:  # any error; the other rows go on
        found = [{"error": f"{type(error).__name__}: {error}"[:MAX_ERROR]}]
    seconds = time.monotonic() - begun
    return [about | {"seconds": seconds} | row for row in found]


def _tell(step: Step, done: int, whole: int, more: int) -> None:
    step(done + more, whole)


@contextmanager
def _watching(spark: SparkSession, tell: Callable[[int], None]) -> Iterator[None]:
    """Report how many tasks of the running stages are done, while they run."""
    from tidings.spark.progress import running_stages

    ending = threading.Event()

    def watch() -> None:
        while not ending.wait(PULSE_S):
            tell(sum(stage.done for stage in running_stages(spark)))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ending.set()
        watcher.join()
