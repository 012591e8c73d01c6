"""Subscriptions for a store as rows, each with the reason why it is bad, if it is.

Callers give a pair, a mapping, an iterable, an Arrow table or a Spark DataFrame. The result is one
Arrow table with the columns `subscription` (text or int64), `predicate`, `dialect` and `reason`,
which is null for a good subscription. Input that cannot be read as subscriptions raises
`StoreError`. This file knows neither files nor what a store holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidings.language.constraint import INT_MAX, INT_MIN
from tidings.language.dialects import dialect_named
from tidings.language.errors import PredicateError
from tidings.language.files.subscriptions import MAX_ID, Subscription
from tidings.language.predicate import Predicate
from tidings.matching.arrow_values import is_text, raw_texts
from tidings.matching.contract import Id, check_id
from tidings.spark.naming import column_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OWN_DIALECT: Final = "tidings"  # stored as null
NOT_UTF8: Final = "expected text in UTF-8, found other bytes"
MAX_SHOWN: Final = 200  # characters of a text in an error

Given: TypeAlias = (
    "Subscription | tuple[Any, ...] | Mapping[Any, Any] | Iterable[Any] | pa.Table"
    " | pa.RecordBatch | DataFrame"
)
GivenIds: TypeAlias = "Id | Iterable[Id] | pa.Table | pa.RecordBatch | DataFrame"


class StoreError(ValueError):
    """A store that cannot be read, or that does not take a change."""


class ChangeRefused(StoreError):
    """A store does not take a change: a subscription is bad, or an id has the wrong type."""


def judged_subscriptions(given: Given) -> pa.Table:
    """Subscriptions as rows, with the reason why each bad one is refused."""
    frame = frame_of(given)
    if frame is not None:
        judged = _judged_on_executors(frame)
    else:
        table = subscriptions_table(given)
        judged = table.append_column("reason", _reasons(table))
    dialects = judged.column("dialect")
    named = pc.if_else(pc.equal(dialects, OWN_DIALECT), None, dialects)
    return _with_id_faults(judged.set_column(2, "dialect", named))


def judged_ids(given: GivenIds) -> pa.Table:
    """Ids as rows without predicates, with the reason why each bad one is refused."""
    frame = frame_of(given)
    table: Any = given
    if frame is not None:
        table = frame.selectExpr(f"{_quoted(frame, 'subscription')} as subscription").toArrow()
    if isinstance(table, pa.Table | pa.RecordBatch):
        ids = _id_column(table)
    elif isinstance(table, str) or not isinstance(table, Iterable):
        ids = _id_array([table])
    else:
        ids = _id_array(list(table))
    nothing = pa.nulls(len(ids), pa.string())
    columns = {"subscription": ids, "predicate": nothing, "dialect": nothing, "reason": nothing}
    return _with_id_faults(pa.table(columns))


def frame_of(given: Any) -> DataFrame | None:
    """The argument if it is a Spark DataFrame, without loading Spark to find out."""
    is_frame = type(given).__module__.startswith("pyspark.") and hasattr(given, "mapInArrow")
    return given if is_frame else None


def subscriptions_table(given: Any) -> pa.Table:
    """Subscriptions in any form but a DataFrame as rows."""
    if isinstance(given, pa.Table | pa.RecordBatch):
        return _cast(given)
    if isinstance(given, Mapping):
        given = given.items()
    elif isinstance(given, tuple) and given and isinstance(given[0], str | int):
        given = (given,)
    ids, texts, dialects = [], [], []
    for one in given:
        if not isinstance(one, tuple | list) or not 2 <= len(one) <= 3:
            raise StoreError(
                f"expected an id, a predicate and perhaps a dialect, found {one!r:.{MAX_SHOWN}}"
            )
        predicate = one[1]
        ids.append(one[0])
        texts.append(str(predicate) if isinstance(predicate, Predicate) else predicate)
        dialects.append(one[2] if len(one) == 3 and not isinstance(one, Subscription) else None)
    return pa.table(
        {
            "subscription": _id_array(ids),
            "predicate": _text_array("predicates", texts),
            "dialect": _text_array("dialects", dialects),
        }
    )


def _cast(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """The three columns of an Arrow table, cast to their types."""
    nothing = pa.nulls(table.num_rows, pa.string())
    named = table.schema.names
    return pa.table(
        {
            "subscription": _id_column(table),
            "predicate": _column(table, "predicate").cast(pa.string()),
            "dialect": table.column("dialect").cast(pa.string()) if "dialect" in named else nothing,
        }
    )


def _column(table: Any, name: str) -> Any:
    _check_named(name, table.schema.names)
    return table.column(name)


def _check_named(name: str, names: list[str]) -> None:
    if name not in names:
        raise StoreError(f"expected a column {name!r} of subscriptions, found {', '.join(names)}")


def _id_column(table: pa.Table | pa.RecordBatch) -> Any:
    ids = _column(table, "subscription")
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    if pa.types.is_integer(kind):
        return ids.cast(pa.int64())
    if is_text(kind):
        return ids.cast(pa.string())
    raise ChangeRefused(f"expected ids that are texts or integers, found the type {kind}")


def _id_array(ids: list[Any]) -> pa.Array:
    """Ids as Arrow. Raises `ChangeRefused` unless all are text or all are integers."""
    try:
        for id in ids:
            check_id(id)
    except TypeError as error:
        raise ChangeRefused(str(error)) from None
    integers = [id for id in ids if type(id) is int]
    if not integers:
        return pa.array(ids, pa.string())
    text = next((id for id in ids if type(id) is str), None)
    if text is not None:
        raise ChangeRefused(
            f"expected ids that are all texts or all integers, found {text!r:.80} "
            f"and {integers[0]!r:.80}"
        )
    large = next((id for id in integers if not INT_MIN <= id <= INT_MAX), None)
    if large is not None:
        raise ChangeRefused(f"expected ids of at most 64 bit, found {large!r:.80}")
    return pa.array(ids, pa.int64())


def _text_array(what: str, values: list[Any]) -> pa.Array:
    kinds = set(map(type, values)) - {str, type(None)}
    if kinds:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise StoreError(f"expected {what} that are text, found {found}")
    return pa.array(values, pa.string())


def _judged_on_executors(frame: DataFrame) -> pa.Table:
    """The subscriptions of a DataFrame; the executors parse the predicates."""
    id, predicate = _quoted(frame, "subscription"), _quoted(frame, "predicate")
    dialect = column_named("dialect", frame)
    found = frame.schema[column_named("subscription", frame)].dataType.simpleString()
    if found not in ("tinyint", "smallint", "int", "bigint", "string"):
        raise ChangeRefused(f"expected ids that are texts or integers, found the type {found}")
    kind = "string" if found == "string" else "bigint"
    chosen = frame.selectExpr(
        f"cast({id} as {kind}) as subscription",
        f"cast({predicate} as string) as predicate",
        f"cast({dialect if dialect in frame.columns else 'null'} as string) as dialect",
    )
    schema = f"subscription {kind}, predicate string, dialect string, reason string"
    rows = chosen.mapInArrow(_judge_batches, schema).toArrow()
    texts = pa.int64() if kind == "bigint" else pa.string()
    types = {"subscription": texts, **dict.fromkeys(rows.schema.names[1:], pa.string())}
    return rows.cast(pa.schema(types))


def _quoted(frame: DataFrame, name: str) -> str:
    """A column of subscriptions as SQL has it. Raises `StoreError` if there is none."""
    known = column_named(name, frame)
    _check_named(known, frame.columns)
    return f"`{known}`"


def _judge_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        texts = {name: raw_texts(batch.column(name)) for name in batch.schema.names}
        rows = list(zip(*texts.values(), strict=True))
        reasons: list[str | None] = [
            NOT_UTF8 if bytes in map(type, row) else _predicate_fault(*row[1:]) for row in rows
        ]
        columns = [
            pa.array([replaced(text) for text in column], batch.column(name).type)
            for name, column in texts.items()
        ]
        columns.append(pa.array(reasons, pa.string()))
        yield pa.RecordBatch.from_arrays(columns, [*texts, "reason"])


def replaced(value: Any) -> Any:
    """A value with bytes as text, for the reader of a refusal."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _reasons(table: pa.Table | pa.RecordBatch) -> pa.Array:
    """The reason why each predicate is bad; null for a good one."""
    texts, dialects = (table.column(name).to_pylist() for name in ("predicate", "dialect"))
    return pa.array(map(_predicate_fault, texts, dialects), pa.string())


def _predicate_fault(text: str | None, dialect: str | None) -> str | None:
    if text is None:
        return "expected a predicate, found null"
    try:
        dialect_named(dialect or OWN_DIALECT).read(text)
    except PredicateError as error:
        return error.summary
    except ValueError as error:
        return str(error)
    return None


def _with_id_faults(table: pa.Table) -> pa.Table:
    """The table with the reasons why ids are bad added."""
    ids = table.column("subscription")
    first: dict[Any, int] = {}
    faults = []
    for row, id in enumerate(ids.to_pylist()):
        fault = None
        if id is None:
            fault = "expected an id, found null"
        elif first.setdefault(id, row) != row:
            fault = "the id is given a second time"
        elif isinstance(id, str) and (not id or id.isspace()):
            fault = "expected an id, found an empty one"
        elif isinstance(id, str) and (len(id) > MAX_ID or "\0" in id):
            fault = f"expected an id of at most {MAX_ID} characters without NUL"
        faults.append(fault)
    reasons = pc.coalesce(pa.array(faults, pa.string()), table.column("reason"))
    return table.set_column(table.schema.get_field_index("reason"), "reason", reasons)
