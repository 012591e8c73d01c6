"""Tidings in plain SQL, once `register(spark)` was called.

- `tidings_matches(predicate, event)`: whether an event satisfies a predicate. The event is JSON
  text, a struct, a map or a Variant. Null where either is null, or is no predicate or no event;
  `tidings_matches_strict` fails the query instead.
- `SELECT * FROM tidings_match(TABLE(events), '/path/to/store')`: the rows of a table with
  `subscription`, one for each match with the newest version of a store. `json => 'column'` says
  that events are JSON text.

The store is compiled when the query is analysed, unless it was before, into a folder of its own
that all executors must see.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from tidings.language.errors import EventError, PredicateError
from tidings.language.predicate import Predicate, parse
from tidings.spark.compiled import compile_here
from tidings.spark.store import Store
from tidings.spark.worker import CHUNK, Shard, asked_of_events, find, flat, read_text

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

PARSED: Final = 1 << 16  # predicates that a worker process keeps parsed
COMPILED: Final = ".compiled"  # the folder in a store


def register(spark: SparkSession) -> None:
    """Give a session the functions for SQL."""
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
    """Events as predicates take them: text, or records."""
    if pa.types.is_struct(column.type):
        fields = {one.name: one for one in column.type}
        if any((one.metadata or {}).get(b"variant") == b"true" for one in fields.values()):
            from pyspark.sql.variant_utils import VariantUtils

            for held in column.to_pylist():
                yield (
                    None if held is None else VariantUtils.to_json(held["value"], held["metadata"])
                )
            return
    for value in column.to_pylist(maps_as_pydicts="lossy"):
        yield value if value is None or isinstance(value, str) else plain(value)


def plain(value: Any) -> Any:
    """A value of Spark's as an attribute has it: as `attributes` makes it of a column."""
    match value:
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case datetime.datetime():
            text = value.replace(tzinfo=None).isoformat(" ")
            return text.rstrip("0") if "." in text else text
        case datetime.date() | datetime.time():
            return value.isoformat()
        case Decimal():
            return int(value) if value.as_tuple().exponent == 0 else float(value)
        case T.VariantVal():
            return value.toPython()
        case bytes() | bytearray():
            return None
        case _:
            return value


# A table and a store


@dataclass
class Plan(AnalyzeResult):
    """What analysing a call has found: the table of the store, and how events are read."""

    shards: tuple[Shard, ...] = ()
    fields: tuple[str, ...] = field(default_factory=tuple)
    json: str | None = None


class MatchStore:
    """The table function. Rows are gathered, since matching many at once is far quicker."""

    @staticmethod
    def analyze(
        table: AnalyzeArgument, store: AnalyzeArgument, json: AnalyzeArgument | None = None
    ) -> Plan:
        """Compile the store, and say which columns come out."""
        if not table.isTable or not isinstance(table.dataType, T.StructType):
            raise ValueError("expected a table first: tidings_match(TABLE(events), '/path')")
        if not isinstance(store.value, str):
            raise ValueError("expected the path of a store as a text")
        held = Store(store.value)
        snapshot = held.snapshot()
        facts, shards = compile_here(snapshot, Path(store.value) / COMPILED)
        kind = T.LongType() if facts.integers else T.StringType()
        names = tuple(table.dataType.names)
        column = None if json is None else json.value
        if column is not None and column not in names:
            raise ValueError(f"expected a column of the table as json, found {column!r}")
        schema = T.StructType([*table.dataType.fields, T.StructField("subscription", kind)])
        return Plan(schema, shards=shards, fields=names, json=column)

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rows: list[Row] = []

    def eval(self, table: Row, store: str, json: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Take a row."""
        self.rows.append(table)
        if len(self.rows) >= CHUNK:
            yield from self._found()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """The last rows."""
        yield from self._found()

    def _found(self) -> Iterator[tuple[Any, ...]]:
        rows, self.rows = self.rows, []
        if not rows:
            return
        plan = self.plan
        if plan.json is not None:
            events = [read_text(row[plan.json]) for row in rows]
        else:
            events = [flat(plain(row.asDict(recursive=True))) for row in rows]
        found = find(plan.shards, asked_of_events(events))
        for row, id in zip(found.rows.tolist(), found.ids.to_pylist(), strict=True):
            yield (*rows[row], id)
