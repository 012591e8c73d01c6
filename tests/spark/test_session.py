"""The session is local, quiet and ready; what goes wrong in Spark is said in a line."""

import subprocess
import sys
from typing import Any

import pytest
from pyspark import SparkContext, java_gateway
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidings.spark import explained, session
from tidings.spark.java import JavaNotFoundError
from tidings.spark.sessions import java_ends_with_failure


def test_the_session_is_local_and_talks_to_itself_only(spark: SparkSession) -> None:
    assert spark.conf.get("spark.master") == "local[2,4]"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"


def test_the_session_that_is_there_is_used(spark: SparkSession) -> None:
    again = session("local[2,4]", **{"spark.sql.shuffle.partitions": "2"})
    assert again.sparkContext is spark.sparkContext


def test_an_interrupt_while_java_starts_leaves_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    launching: Any = java_gateway
    started = []

    def interrupted() -> None:
        with java_ends_with_failure():
            started.append(
                launching.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
            )
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (java,) = started
    assert java.returncode is not None
    assert launching.Popen is subprocess.Popen


def test_workers_run_the_python_of_the_driver(spark: SparkSession) -> None:
    def where(batches):  # type: ignore[no-untyped-def]
        import pyarrow

        for batch in batches:
            yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

    found = spark.range(1).mapInArrow(where, "python string").collect()
    assert found[0]["python"] == sys.executable


def test_an_error_of_a_worker_is_one_line(spark: SparkSession) -> None:
    def fail(batches):  # type: ignore[no-untyped-def]
        raise ValueError("the cause itself")

    with pytest.raises(PySparkException) as caught:
        spark.range(1).mapInArrow(fail, "x long").collect()
    assert explained(caught.value) == "ValueError: the cause itself"


def test_an_error_of_the_analyser_is_one_line_with_a_hint(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.range(1).select(F.col("y")).collect()
    line = explained(caught.value)
    assert "`y` cannot be resolved" in line
    assert line.endswith("[`id`]. (check the names of the columns)")
    assert "\n" not in line
    with pytest.raises(PySparkException) as caught:
        spark.read.parquet("/no/such/file").collect()
    assert explained(caught.value).endswith(
        "(check the path; the executors must be able to read it too)"
    )


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (JavaNotFoundError("found no Java"), "found no Java"),
        (RuntimeError("ImportError: No module named 'pyarrow'"), "the executors' Python lacks"),
        (
            RuntimeError("No module named 'tidings.matching.native.engine'"),
            "is not the driver's: install Tidings there",
        ),
        (RuntimeError("x" * 1_000), "…"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_other_errors_are_one_line_too(error: Exception, line: str) -> None:
    said = explained(error)
    assert line in said
    assert "\n" not in said
    assert len(said) < 600
