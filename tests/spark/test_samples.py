"""Statistics of a DataFrame are those of its rows, sampled where there are many."""

import pytest
from pyspark.sql import SparkSession

from tidings.language.constraint import Constraint
from tidings.matching.statistics import statistics_of
from tidings.matching.workload import WORKLOADS
from tidings.spark.samples import statistics
from tidings.spark.workloads import workload


@pytest.mark.parametrize("form", ["columns", "json"])
def test_statistics_of_a_frame_are_those_of_its_rows(form: str, spark: SparkSession) -> None:
    _, events = workload(spark, "mixed", subscriptions=0, events=300, seed=2, form=form)  # type: ignore[arg-type]
    if form == "columns":
        events = events.drop("event")
    found = statistics(events, json="content" if form == "json" else None)
    assert found == statistics_of(WORKLOADS["mixed"](seed=2).events(0, 300))


def test_many_rows_are_sampled_by_the_seed(spark: SparkSession) -> None:
    numbers = spark.range(0, 20_000, 1, 3)
    first = statistics(numbers, max_events=400, seed=1)
    assert first.events == 400
    assert first == statistics(numbers, max_events=400, seed=1)
    assert first != statistics(numbers, max_events=400, seed=2)
    half = Constraint("id", "<", "number", False, 10_000)
    assert first.share(half) == pytest.approx(0.5, abs=0.15)
