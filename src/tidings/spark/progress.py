"""How far Spark has got: the stages that run now, their tasks and the rows they have read.

Asks the driver of a classic session, which counts rows as tasks end. Where there is none to ask
(Spark Connect), nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Stage(NamedTuple):
    """A stage that runs."""

    number: int
    tasks: int
    done: int
    rows: int  # read so far, from files or from the stage before


def running_stages(spark: SparkSession) -> list[Stage]:
    """The stages that run now; none where it cannot be known."""
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
