"""Tidings in plain SQL, after a call of `register(spark)`.

- `tidings_matches(predicate, event)`: whether an event matches a predicate. The event is JSON text,
  a struct, a map or a Variant. The result is null where either is null or cannot be read;
  `tidings_matches_strict` fails the query instead of the latter.
- `SELECT * FROM tidings_match(TABLE(events), '/path/to/store')`: a row for each match with the
  newest version of a store, with the columns of the table and `subscription`.
  `json => 'column'` names a column that holds the events as JSON text.

Spark compiles the store when it analyses the query, unless it was compiled before, into a folder of
the store that all executors must see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from tidings.language.errors import EventError, PredicateError
from tidings.language.predicate import Predicate, parse
from tidings.matching.arrow_values import as_values
from tidings.spark.compiled import compile_here
from tidings.spark.store import Store
from tidings.spark.worker import CHUNK, Shard, asked_of_events, find, flat, json_of, read_text

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

PARSED: Final = 1 << 16  # predicates that a worker process keeps parsed
COMPILED: Final = ".compiled"  # the folder within a store


def register(spark: SparkSession) -> None:
    """Add the functions for SQL to a session."""
    from pyspark.sql.functions import udtf

    for name, strict in (("tidings_matches", False), ("tidings_matches_strict", True)):
        spark.udf.register(name, _matches(strict))
    spark.udtf.register("tidings_match", udtf(MatchStore))  # type: ignore[arg-type]


# One predicate, one event


def _matches(strict: bool) -> Any:
    def matches(predicates: pa.Array, events: pa.Array) -> pa.Array:
        texts = predicates.to_pylist()
        answers = (_answer(*pair, strict) for pair in zip(texts, _events(events), strict=True))
        return pa.array(answers, pa.bool_())

    return arrow_udf(matches, T.BooleanType())  # type: ignore[call-overload]


def _answer(text: str | None, event: Any, strict: bool) -> bool | None:
    if text is None or event is None:
        return None
    try:
        return _parsed(text).matches(event)
    except (PredicateError, EventError):
        if strict:
            raise
        return None


@lru_cache(maxsize=PARSED)
def _parsed(text: str) -> Predicate:
    return parse(text)


def _events(column: pa.Array) -> Iterator[Any]:
    """Events as JSON text or as records, which predicates take."""
    if pa.types.is_struct(column.type):
        fields = {one.name: one for one in column.type}
        if any((one.metadata or {}).get(b"variant") == b"true" for one in fields.values()):
            from pyspark.sql.variant_utils import VariantUtils

            for held in column.to_pylist():
                yield (
                    None if held is None else VariantUtils.to_json(held["value"], held["metadata"])
                )
            return
    yield from as_values(column).to_pylist(maps_as_pydicts="lossy")


def plain(value: Any, kind: T.DataType) -> Any:
    """A value that Spark hands to Python, as the language reads it.

    Spark gives a timestamp as a time of this machine's zone without saying so.
    """
    if value is None:
        return None
    match kind:
        case T.StructType(fields=fields):
            return {f.name: plain(v, f.dataType) for f, v in zip(fields, value, strict=True)}
        case T.ArrayType(elementType=element):
            return [plain(inner, element) for inner in value]
        case T.MapType(valueType=item):
            return {key: plain(inner, item) for key, inner in value.items()}
        case T.TimestampType():
            return value.astimezone(UTC)
        case T.VariantType():
            return json_of(value.toJson())
        case _:
            return value


# A table and a store


@dataclass
class Plan(AnalyzeResult):
    """The result of analysing a call: the table of the store, and how to read events."""

    shards: tuple[Shard, ...] = ()
    kind: T.StructType = field(default_factory=T.StructType)  # of the rows
    json: str | None = None


class MatchStore:
    """The table function. It gathers rows, because matching many at once is much faster."""

    @staticmethod
    def analyze(
        table: AnalyzeArgument, store: AnalyzeArgument, json: AnalyzeArgument | None = None
    ) -> Plan:
        """Compile the store, and name the columns of the result."""
        if not table.isTable or not isinstance(table.dataType, T.StructType):
            raise ValueError(
                "expected a table as the first argument: tidings_match(TABLE(events), '/path')"
            )
        if not isinstance(store.value, str):
            raise ValueError("expected the path of a store as the second argument")
        held = Store(store.value)
        snapshot = held.snapshot()
        facts, shards = compile_here(snapshot, Path(store.value) / COMPILED)
        kind = T.LongType() if facts.integers else T.StringType()
        names = tuple(table.dataType.names)
        column = None if json is None else json.value
        if column is not None and column not in names:
            raise ValueError(f"json names {column!r}, which is not a column of the table")
        schema = T.StructType([*table.dataType.fields, T.StructField("subscription", kind)])
        return Plan(schema, shards=shards, kind=table.dataType, json=column)

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rows: list[Row] = []

    def eval(self, table: Row, store: str, json: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Gather a row, and match when there are enough."""
        self.rows.append(table)
        if len(self.rows) >= CHUNK:
            yield from self._found()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """Match the last rows."""
        yield from self._found()

    def _found(self) -> Iterator[tuple[Any, ...]]:
        rows, self.rows = self.rows, []
        if not rows:
            return
        plan = self.plan
        if plan.json is not None:
            events = [read_text(row[plan.json]) for row in rows]
        else:
            events = [flat(plain(row, plan.kind)) for row in rows]
        found = find(plan.shards, asked_of_events(events))
        for row, id in zip(found.rows.tolist(), found.ids.to_pylist(), strict=True):
            yield (*rows[row], id)
