"""Workloads as DataFrames, which the executors make from a seed.

The rows are those of the generator of the same name in `tidings.matching.workload`. A row depends
on the seed and its number alone, so any number of partitions makes the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from tidings.matching.workload import WORKLOADS
from tidings.matching.workloads.draws import BLOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidings.matching.workload import Workload

Batches = Iterator[pa.RecordBatch]
EVENT: Final = "event"
CONTENT: Final = "content"


def workload(
    spark: SparkSession,
    name: str,
    *,
    subscriptions: int,
    events: int,
    seed: int = 0,
    partitions: int | None = None,
    form: Literal["columns", "json"] = "columns",
    **parameters: Any,
) -> tuple[DataFrame, DataFrame]:
    """The subscriptions and the events of a workload.

    Subscriptions have `subscription` (their row number) and `predicate`. Events have `event`, their
    row number, and the attributes as typed columns, null where one is absent; in the form `json`
    they have one column `content` instead, with each event as JSON text, because a column cannot
    hold an attribute of two types. `parameters` are those of the generator (F7 and others), such as
    `constraints=(1, 10)`; `partitions` is by default the session's own number.

    >>> rules, day = workload(spark, "ranges", subscriptions=100, events=1_000, seed=7)
    """
    if name not in WORKLOADS:
        raise ValueError(f"expected a workload ({', '.join(WORKLOADS)}), found {name!r}")
    if form not in ("columns", "json"):
        raise ValueError(f"expected the form columns or json, found {form!r}")
    made = WORKLOADS[name](seed=seed, **parameters)
    rules = pa.schema({"subscription": pa.int64(), "predicate": pa.string()})
    if form == "columns":
        attributes = made.event_table(0, 0).schema
        if EVENT in attributes.names:
            raise ValueError(f"an attribute has the name {EVENT!r} of the column of row numbers")
        day = pa.schema([pa.field(EVENT, pa.int64()), *attributes])
    else:
        day = pa.schema({EVENT: pa.int64(), CONTENT: pa.string()})
    make_events = _event_columns if form == "columns" else _event_texts
    return (
        _rows(spark, made, subscriptions, partitions, rules, _subscription_rows),
        _rows(spark, made, events, partitions, day, make_events),
    )


def _rows(
    spark: SparkSession,
    made: Workload,
    count: int,
    partitions: int | None,
    schema: pa.Schema,
    make: Callable[[Workload, int, int], pa.Table],
) -> DataFrame:
    """`count` rows; each task makes the blocks whose numbers it gets."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if count < 0:
        raise ValueError(f"expected a number of rows, found {count}")

    def blocks(batches: Batches) -> Batches:
        for batch in batches:
            for block in batch.column(0).to_pylist():
                start = block * BLOCK
                table = make(made, start, min(start + BLOCK, count))
                yield from table.cast(schema).combine_chunks().to_batches()

    numbers = spark.range(0, -(-count // BLOCK), 1, partitions)
    return numbers.mapInArrow(blocks, from_arrow_schema(schema))


def _subscription_rows(made: Workload, start: int, stop: int) -> pa.Table:
    rows = list(made.subscriptions(start, stop))
    texts = [str(predicate) for _, predicate in rows]
    return pa.table({"subscription": [id for id, _ in rows], "predicate": texts})


def _event_columns(made: Workload, start: int, stop: int) -> pa.Table:
    return made.event_table(start, stop).add_column(0, EVENT, _numbers(start, stop))


def _event_texts(made: Workload, start: int, stop: int) -> pa.Table:
    import msgspec

    texts = [msgspec.json.encode(event).decode() for event in made.events(start, stop)]
    return pa.table({EVENT: _numbers(start, stop), CONTENT: texts})


def _numbers(start: int, stop: int) -> pa.Array:
    return pa.array(range(start, stop), pa.int64())
