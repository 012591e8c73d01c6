"""The one place that starts Spark: local unless told otherwise, quiet, with a Java that works.

Nothing else here needs it: every function takes DataFrames of whatever session they have.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidings.spark.failures import naming_extra
from tidings.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Errors only; without a file of its own Spark talks at length before it can be told.
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
DEFAULTS: Final = {
    "spark.app.name": "tidings",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
}
# A local session talks to itself only.
LOOPBACK: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(master: str | None = None, **options: str) -> SparkSession:
    """A Spark session on this machine, or on the cluster that `master` names.

    Options are Spark's own, by their names: `session(**{"spark.driver.memory": "4g"})`. The session
    that is active already is used as it is, with the options that can still be set. Workers run
    this Python unless PYSPARK_PYTHON names another. `JavaNotFoundError` says that there is no Java.
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
    return builder.getOrCreate()
