"""Tidings in plain SQL, after a call of `register(spark)`.

- `tidings_matches(predicate, event)`: whether an event matches a predicate. The result is null
  where either is null or cannot be read; `tidings_matches_strict` fails the query instead of the
  latter.
- `register(spark, alerts=store)` adds a function `alerts(event)`: the ids of the subscriptions that
  an event matches, as `match` finds them. The result is null where the event is null or cannot be
  read. `SELECT *, explode(alerts(struct(*))) AS subscription FROM events` has a row for each match.

The event is JSON text, a struct, a map or a Variant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from tidings.language.errors import PredicateError
from tidings.language.predicate import Predicate, parse
from tidings.matching.arrow_values import raw_texts
from tidings.matching.contract import names_of
from tidings.spark import worker
from tidings.spark.compiled import Compiled, Subscriptions, compile_for
from tidings.spark.intake import NOT_UTF8
from tidings.spark.worker import Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARSED: Final = 1 << 16  # predicates that a worker process keeps parsed
NAME: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)


def register(spark: SparkSession, **subscriptions: Subscriptions | Compiled) -> None:
    """Add functions for SQL to a session; each keyword is the name of one for its subscriptions.

    The functions match with the subscriptions as they are now. Register a store again to match with
    a newer version.

    >>> register(spark, alerts="/data/alerts")
    """
    for name, strict in (("tidings_matches", False), ("tidings_matches_strict", True)):
        spark.udf.register(name, _matches(strict))
    for name, given in subscriptions.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"expected the name of a function for SQL, found {name!r}")
        compiled = given if isinstance(given, Compiled) else compile_for(spark, given)
        spark.udf.register(name, _found(compiled))


def _any_case() -> bool:
    """Whether the session of this task ignores the case of names."""
    from pyspark import TaskContext

    context = TaskContext.get()
    said = None if context is None else context.getLocalProperty("spark.sql.caseSensitive")
    return (said or "false").lower() != "true"


# One event, many subscriptions


def _found(compiled: Compiled) -> Any:
    shards, names = compiled.shards, compiled.names

    def found(columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from worker.lists(shards, columns, Reading(names if _any_case() else None))

    return arrow_udf(found, T.ArrayType(compiled.id_type))  # type: ignore[call-overload]


# One event, one predicate


def _matches(strict: bool) -> Any:
    def matches(predicates: pa.Array, events: pa.Array) -> pa.Array:
        wanted = [_parsed(text) for text in raw_texts(predicates)]
        names = None
        if _any_case():
            readable = {id(one): one for one in wanted if isinstance(one, Predicate)}
            names = frozenset(names_of(one.expression for one in readable.values()))
        found = worker.events_of(events, Reading(names))
        answers = (_answer(*pair, strict) for pair in zip(wanted, found, strict=True))
        return pa.array(answers, pa.bool_())

    return arrow_udf(matches, T.BooleanType())  # type: ignore[call-overload]


def _answer(predicate: Any, event: Any, strict: bool) -> bool | None:
    for given in (predicate, event):
        if isinstance(given, Exception) and strict:
            raise given
        if given is None or isinstance(given, Exception):
            return None
    answer: bool = predicate.matches(event)
    return answer


@lru_cache(maxsize=PARSED)
def _parsed(text: str | bytes | None) -> Predicate | PredicateError | ValueError | None:
    """The predicate in a text, or why there is none."""
    if text is None:
        return None
    if isinstance(text, bytes):
        return ValueError(NOT_UTF8)
    try:
        return parse(text)
    except PredicateError as error:
        return error
