"""The columns of a DataFrame as attributes of events.

Spark sends only the attributes that subscriptions name to Python, as Arrow columns, and
`tidings.matching.arrow_values` says what their values are: dates, timestamps and decimals mean what
they mean everywhere. A Variant column becomes JSON text and is read as a record. Columns of types
that stand for no value (binary, intervals, maps whose keys are not text) stay in the JVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.matching.contract import below
from tidings.spark.compiled import quoted
from tidings.spark.worker import Reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NOTHING = "nothing"  # the only field of the struct where subscriptions name no column


def attributes(
    events: DataFrame, names: Iterable[str], columns: Sequence[str] | None, json: str | None
) -> tuple[Column, Reading]:
    """One struct of the attributes that subscriptions name, and how to read it."""
    kinds = check_columns(events)
    if json is not None:
        return _json(json, kinds)
    asked = frozenset(names)
    chosen = list(kinds) if columns is None else list(columns)
    missing = [name for name in chosen if name not in kinds]
    if missing:
        raise ValueError(f"`columns` names {missing[0]!r}, which is not a column of the events")
    fields: list[Column] = []
    nested: list[str] = []
    for name in chosen:
        wanted = None if "" in asked else below(name, asked)
        if wanted is not None and not wanted:
            continue
        if isinstance(kinds[name], T.VariantType):
            fields.append(F.to_json(quoted(name)).alias(name))
            nested.append(name)
            continue
        value = _value(quoted(name), kinds[name], wanted)
        if value is not None:
            fields.append(value.alias(name))
    if not fields:
        fields.append(F.lit(None).cast("boolean").alias(NOTHING))
    return F.struct(*fields), Reading(None, tuple(nested))


def check_columns(events: DataFrame) -> dict[str, T.DataType]:
    """The types of the columns. Raises `ValueError` where two have the same name."""
    kinds: dict[str, T.DataType] = {}
    for field in events.schema.fields:
        if field.name in kinds:
            raise ValueError(f"the events have two columns named {field.name!r}; rename one")
        kinds[field.name] = field.dataType
    return kinds


def refuse_taken(events: DataFrame, *names: str) -> None:
    """Raise `ValueError` where the events have a column that the output adds."""
    for name in names:
        if name in events.columns:
            raise ValueError(f"the events have a column {name!r} already; rename it")


def _json(name: str, kinds: dict[str, T.DataType]) -> tuple[Column, Reading]:
    kind = kinds.get(name)
    if kind is None:
        raise ValueError(f"expected a column {name!r} of JSON text, found {', '.join(kinds)}")
    if isinstance(kind, T.VariantType):
        text = F.to_json(quoted(name))
    elif isinstance(kind, T.StringType | T.BinaryType):
        text = quoted(name)
    else:
        raise ValueError(
            f"column {name!r}: expected JSON text or a Variant, found {kind.simpleString()}"
        )
    return F.struct(text.alias(name)), Reading(name)


def _value(column: Column, kind: T.DataType, wanted: frozenset[str] | None) -> Column | None:
    """A column as an attribute; None for a type without counterpart.

    `wanted` are the names below it that subscriptions use; None means all of them.
    """
    match kind:
        case T.StructType():
            return _struct(column, kind, wanted)
        case T.ArrayType(elementType=element):
            return _unless_same(column, element, wanted, F.transform)
        case T.MapType(keyType=key, valueType=item):
            if not isinstance(key, T.StringType):
                return None
            inner = None if wanted is None else _below_keys(wanted)
            return _unless_same(
                column, item, inner, lambda c, f: F.transform_values(c, lambda _, v: f(v))
            )
        case (
            T.StringType() | T.BooleanType() | T.NumericType() | T.NullType() | T.DateType()
            | T.TimestampType() | T.TimestampNTZType() | T.TimeType()
        ):  # fmt: skip
            return column
        case _:
            return None


def _struct(column: Column, kind: T.StructType, wanted: frozenset[str] | None) -> Column | None:
    fields: list[Column] = []
    for field in kind.fields:
        inner = None if wanted is None else below(field.name, wanted)
        if inner is None or inner:
            value = _value(column.getField(field.name), field.dataType, inner)
            if value is not None:
                fields.append(value.alias(field.name))
    if not fields:
        return None
    # The fields of a null struct are null, which means the same in an event.
    return F.struct(*fields)


def _unless_same(
    column: Column, inner: T.DataType, wanted: frozenset[str] | None, over: Any
) -> Column | None:
    """A list or a map, with its elements changed only where they are records or lists."""
    if isinstance(inner, T.AtomicType):
        return column if _value(column, inner, None) is not None else None
    probe = _value(F.lit(None), inner, wanted)
    if probe is None:
        return None
    changed: Column = over(column, lambda element: _value(element, inner, wanted))
    return changed


def _below_keys(asked: frozenset[str]) -> frozenset[str]:
    """The names below the keys of a map. A key may hold dots, so it may end at any of them."""
    return frozenset(
        {name[dot + 1 :] for name in asked for dot, c in enumerate(name) if c == "."} | {""}
    )
