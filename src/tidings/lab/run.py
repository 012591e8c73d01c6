"""Runs an experiment on Spark: rows of parameters in, rows of results out.

Every row of parameters is a task of its own. All rows run in one job, the largest first, so that no
machine waits for a straggler at the end; sweeps list their rows by size. Each task stores its
results itself, so an interruption or a machine that dies loses only the rows that it was at. That
needs a folder that all machines see. Without one, rows run in jobs that begin small and grow until
each takes about `JOB_S`, and the driver stores the results of a job before the next begins.

An experiment that measures time runs one row at a time: all rows in one task, one after another, so
that rows may share what is expensive to make. `run_timed` runs several such experiments in one task
and orders their rows by what they share. Without a common folder each row is a job.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
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
Sweeps = Sequence[tuple[Experiment, list[Parameters]]]
Batches = Iterator[pa.RecordBatch]


class Outcome(NamedTuple):
    """The outcome of a run, in rows of parameters."""

    rows: int
    known: int  # how many of these were measured before
    failed: int
    seconds: float


def run_all(
    spark: SparkSession,
    chosen: Sweeps,
    folder: Path,
    step: Callable[[str, int, int], None] = lambda what, done, whole: None,
    shared: bool | None = None,
) -> Iterator[tuple[Experiment, Outcome]]:
    """Run experiments; those that measure time together, if all machines see the folder."""
    from tidings.spark.reach import sees_our_files

    together = sees_our_files(spark) if shared is None else shared
    for timed, group in groupby(chosen, lambda one: one[0].timed and together):
        some = list(group)
        if timed:
            found = run_timed(spark, some, folder, partial(step, "measuring time"))
            yield from zip((experiment for experiment, _ in some), found, strict=True)
            continue
        for experiment, sweep in some:
            told = partial(step, experiment.name)
            yield experiment, run(spark, experiment, sweep, folder, told, together)


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


def run_timed(
    spark: SparkSession,
    chosen: Sweeps,
    folder: Path,
    step: Step = lambda done, whole: None,
) -> list[Outcome]:
    """Measure the rows of experiments that measure time, those together that share something.

    All machines must see the folder.
    """
    known = {experiment.name: results.finished(folder, experiment) for experiment, _ in chosen}
    pending = [
        (experiment, row)
        for experiment, sweep in chosen
        for row in sweep
        if results.key_of(row) not in known[experiment.name]
    ]
    pending.sort(key=lambda one: one[0].shares(one[1]))
    whole = sum(len(sweep) for _, sweep in chosen)
    found: list[Row] = []
    step(whole - len(pending), whole)
    if pending:
        send_networks(spark, [row for _, row in pending])
        counts = [_stored_in(folder, experiment) for experiment, _ in chosen]
        tell = partial(_tell, step, whole - len(pending), whole)
        with _watching(lambda: sum(count() for count in counts), tell):
            found = _measured_together(spark, pending, folder.absolute()).toArrow().to_pylist()
    step(whole, whole)

    def outcome(experiment: Experiment, sweep: list[Parameters]) -> Outcome:
        own = [row for row in found if row["experiment"] == experiment.name]
        failed = sum(row["failed"] for row in own)
        return Outcome(
            len(sweep), len(sweep) - len(own), failed, sum(row["seconds"] for row in own)
        )

    return [outcome(experiment, sweep) for experiment, sweep in chosen]


def _measured_together(
    spark: SparkSession, pending: list[tuple[Experiment, Parameters]], folder: Path
) -> DataFrame:
    """Rows of several experiments, measured in one task, which stores their results."""
    about = {"commit": commit()}
    of_names = {
        experiment.name: (
            experiment.measure,
            results.schema_of(experiment),
            version_of(experiment.measure),
        )
        for experiment, _ in pending
    }

    def measure_all(batches: Batches) -> Batches:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                one = json.loads(text)
                name = one["experiment"]
                measure, schema, version = of_names[name]
                rows = measure_row(measure, one["parameters"], about)
                results.append(folder, name, version, pa.Table.from_pylist(rows, schema))
                told = {"experiment": name, "failed": int("error" in rows[0])}
                yield pa.RecordBatch.from_pylist([told | {"seconds": rows[0]["seconds"]}])

    rows: list[Parameters] = [
        {"experiment": experiment.name, "parameters": identity(row)} for experiment, row in pending
    ]
    schema = "experiment string, failed long, seconds double"
    return parameter_rows(spark, rows, 1).mapInArrow(measure_all, schema)


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
