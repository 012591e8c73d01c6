"""Runs an experiment on Spark: rows of parameters in, rows of results out.

Every row of parameters is a task of its own. All rows run in one job, the largest first, so that no
machine waits for a straggler at the end; sweeps list their rows by size. Each task stores its
results itself, so an interruption or a machine that dies loses only the rows that it was at. That
needs a folder that all machines see. Without one, rows run in jobs that begin small and grow until
each takes about `JOB_S`, and the driver stores the results of a job before the next begins.

An experiment that measures time runs one row at a time: all rows in one task, one after another, so
that rows may share what is expensive to make. Without a common folder each row is a job.
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
from tidings.lab.code import commit, version_of
from tidings.lab.experiment import Experiment, Parameters, Row, identity
from tidings.lab.machine import load, machine
from tidings.lab.zoo import send_networks

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
    shared: bool | None = None,
) -> Outcome:
    """Measure the rows that have no result yet, and store the results in a folder.

    `shared` says whether all machines see that folder; by default only those of a local session do.
    """
    from tidings.spark.reach import sees_our_files

    begun = time.monotonic()
    known = results.finished(folder, experiment)
    pending = [row for row in sweep if results.key_of(row) not in known]
    already = done = len(sweep) - len(pending)
    failed = 0
    size = 1 if experiment.timed else FIRST_JOB
    by_tasks = sees_our_files(spark) if shared is None else shared
    if by_tasks:
        size = max(1, len(pending))
        if not experiment.timed:
            pending.reverse()
    if pending:
        send_networks(spark, pending)
    while pending:
        part, pending = pending[:size], pending[size:]
        step(done, len(sweep))
        started = time.monotonic()
        stored = folder.absolute() if by_tasks else None
        rows = parameter_rows(spark, part, 1 if experiment.timed else len(part))
        count = _stored_in(folder, experiment) if experiment.timed else partial(_tasks, spark)
        with _watching(count, partial(_tell, step, done, len(sweep))):
            table = measured(experiment, rows, stored).toArrow()
        if stored is None:
            results.append(folder, experiment.name, version_of(experiment.measure), table)
        failed += len(table) - table.column("error").null_count
        done += len(part)
        if not experiment.timed:
            wanted = size * JOB_S / max(time.monotonic() - started, 0.1)
            size = max(1, min(int(wanted), 2 * size, MAX_JOB))
    step(done, len(sweep))
    return Outcome(len(sweep), already, failed, time.monotonic() - begun)


def parameter_rows(
    spark: SparkSession, sweep: list[Parameters], tasks: int | None = None
) -> DataFrame:
    """Parameters as rows: `parameters`, JSON; for so many tasks, by default one for each row."""
    from pyspark.sql import functions as f

    texts = f.from_json(f.lit(json.dumps(list(map(identity, sweep)))), "array<string>")
    numbers = spark.range(0, len(sweep), 1, tasks or len(sweep))
    return numbers.select(f.get(texts, f.col("id").cast("int")).alias("parameters"))


def measured(
    experiment: Experiment, parameters: DataFrame, folder: Path | None = None
) -> DataFrame:
    """The results of rows of parameters; a failed row gives its error.

    With a folder, the tasks store them there too.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = results.schema_of(experiment)
    measure, about = experiment.measure, {"commit": commit()}
    name, version = experiment.name, version_of(experiment.measure)

    def rows(batches: Batches) -> Batches:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                found = pa.Table.from_pylist(measure_row(measure, text, about), schema)
                if folder is not None:
                    results.append(folder, name, version, found)
                yield from found.to_batches()

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


def _tasks(spark: SparkSession) -> int:
    """How many tasks of the running stages are done."""
    from tidings.spark.progress import running_stages

    return sum(stage.done for stage in running_stages(spark))


def _stored_in(folder: Path, experiment: Experiment) -> Callable[[], int]:
    """How many rows a task has stored from now on."""
    place = folder / experiment.name / version_of(experiment.measure)

    def count() -> int:
        return sum(1 for _ in place.glob("*.parquet"))

    before = count()
    return lambda: count() - before


@contextmanager
def _watching(count: Callable[[], int], tell: Callable[[int], None]) -> Iterator[None]:
    """Report how many rows are done, while they run."""
    ending = threading.Event()

    def watch() -> None:
        while not ending.wait(PULSE_S):
            tell(count())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ending.set()
        watcher.join()
