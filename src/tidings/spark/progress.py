"""Spark's progress: the stages that run now, their tasks and the rows that they have read.

The numbers come from the driver of a classic session, which counts rows as tasks end. Spark Connect
has no such driver, so its progress is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Stage(NamedTuple):
    """A running stage."""

    number: int
    tasks: int
    done: int
    rows: int  # read so far, from files or from an earlier stage


def running_stages(spark: SparkSession) -> list[Stage]:
    """The stages that run now; an empty list where Spark does not say."""
    context = getattr(spark, "_sc", None)
    if context is None or context._jsc is None:
        return []
    active = context._jsc.sc().statusStore().activeStages()
    stages = (active.apply(at) for at in range(active.size()))
    return [
        Stage(
            stage.stageId(),
            stage.numTasks(),
            stage.numCompleteTasks(),
            stage.inputRecords() + stage.shuffleReadRecords(),
        )
        for stage in stages
    ]
