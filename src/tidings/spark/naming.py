"""Which column of a DataFrame a name means: Spark's session says whether case counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def ignores_case(frame: DataFrame) -> bool:
    """Whether the session of a frame ignores the case of names, as it does by default."""
    return str(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() != "true"


def column_named(name: str, frame: DataFrame) -> str:
    """The column that a name means in the session; the name itself if there is none."""
    if name in frame.columns or not ignores_case(frame):
        return name
    return next((known for known in frame.columns if known.lower() == name.lower()), name)
