"""The only place that starts Spark: by default on this machine, quiet, with a Java that works.

Nothing else in this room needs it: every function uses the session of the DataFrames it gets.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidings.spark.failures import naming_extra
from tidings.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Errors only. Without this file Spark logs at length before the session can change its level.
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
DEFAULTS: Final = {
    "spark.app.name": "tidings",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
}
# A local session accepts no connections from other machines.
LOOPBACK: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(master: str | None = None, **options: str) -> SparkSession:
    """A Spark session on this machine, or on the cluster that `master` names.

    Options are Spark's own, by their names: `session(**{"spark.driver.memory": "4g"})`. A session
    that is active already is returned as it is, with those options that can still change. Workers
    run this Python unless PYSPARK_PYTHON names another. Raises `JavaNotFoundError` without a Java.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise naming_extra(error) from None
    builder = SparkSession.builder
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(java_home())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        where = master or os.environ.get("SPARK_MASTER") or "local[*]"
        builder = builder.master(where)
        settings = dict(DEFAULTS)
        if where.startswith("local"):
            settings |= LOOPBACK
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # no warning about the host's name
        options = settings | options
    for name, value in options.items():
        builder = builder.config(name, value)
    with java_ends_with_failure():
        return builder.getOrCreate()


@contextmanager
def java_ends_with_failure() -> Iterator[None]:
    """End the Java that PySpark starts meanwhile if PySpark does not come to know its address.

    Else Java stays for ever: on Ctrl-C, PySpark removes the folder in which it waits for the
    address, and Java fails to write it and does not end. One that is known ends with Python.
    """
    from pyspark import SparkContext, java_gateway

    launching: Any = java_gateway  # it does not declare its `Popen`
    started: list[subprocess.Popen[Any]] = []

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[Any]:
        started.append(subprocess.Popen(*arguments, **options))
        return started[-1]

    before, launching.Popen = launching.Popen, start
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in started:
                process.kill()
                process.wait()
        raise
    finally:
        launching.Popen = before
