"""Workloads made on executors are those of the local generators, however they are partitioned."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tidings.matching.workload import WORKLOADS, Names
from tidings.matching.workloads.draws import BLOCK
from tidings.spark.workloads import workload

FEW_NAMES = {"attribute_names": Names(count=40), "constraint_names": Names(count=40)}


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_rows_are_those_of_the_local_generator(name: str, spark: SparkSession, seed: int) -> None:
    parameters: dict[str, Any] = FEW_NAMES if name == "forwarding" else {}
    local = WORKLOADS[name](seed=seed, **parameters)
    rules, events = workload(
        spark, name, subscriptions=300, events=200, seed=seed, partitions=1, **parameters
    )
    assert rules.toArrow().to_pylist() == [
        {"subscription": id, "predicate": str(predicate)}
        for id, predicate in local.subscriptions(0, 300)
    ]
    table = events.toArrow()
    assert table.column("event").to_pylist() == list(range(200))
    assert table.drop_columns("event").to_pylist() == local.event_table(0, 200).to_pylist()


def test_partitions_do_not_change_rows(spark: SparkSession) -> None:
    count = 2 * BLOCK + 100
    found = []
    for partitions in (1, 2, 7):
        both = workload(
            spark, "ranges", subscriptions=count, events=count, seed=5, partitions=partitions
        )
        assert all(frame.rdd.getNumPartitions() == partitions for frame in both)
        found.append([Counter(map(str, frame.toArrow().to_pylist())) for frame in both])
    assert found[0] == found[1] == found[2]
    assert all(sum(counter.values()) == count for counter in found[0])


def test_events_as_text_are_the_same_events(spark: SparkSession) -> None:
    _, events = workload(spark, "mixed", subscriptions=0, events=100, seed=3, form="json")
    texts = events.toArrow().column("content").to_pylist()
    assert [msgspec.json.decode(text) for text in texts] == WORKLOADS["mixed"](seed=3).events(
        0, 100
    )


def test_mistakes_are_named(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=r"expected a workload .forwarding, .*, found .forward."):
        workload(spark, "forward", subscriptions=1, events=1)
    with pytest.raises(ValueError, match="expected a number of rows, found -1"):
        workload(spark, "ranges", subscriptions=-1, events=1)
    with pytest.raises(ValueError, match="expected the form columns or json, found 'xml'"):
        workload(spark, "ranges", subscriptions=1, events=1, form="xml")  # type: ignore[arg-type]
