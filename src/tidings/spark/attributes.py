"""The columns of a DataFrame as attributes of events.

Spark sends only the attributes that subscriptions name to Python, as Arrow columns, and
`tidings.matching.arrow_values` says what their values are: dates, timestamps and decimals mean what
they mean everywhere, and `variants` reads Variants. Columns of types that stand for no value
(binary, intervals, maps whose keys are not text) stay in the JVM. Names are compared as the session
compares them (`spark.sql.caseSensitive`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.spark.compiled import quoted
from tidings.spark.naming import column_named, ignores_case
from tidings.spark.spelling import asked_below, below_keys
from tidings.spark.worker import Reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NOTHING = "nothing"  # the only field of the struct where subscriptions name no column


def attributes(
    events: DataFrame, names: Iterable[str], columns: Sequence[str] | None, json: str | None
) -> tuple[Column, Reading]:
    """One column of the events that subscriptions need, and how to read it.

    It is a struct of the attributes that subscriptions name, or the column that holds whole events.
    """
    kinds = check_columns(events)
    if json is not None:
        return _json(column_named(json, events), kinds)
    asked = frozenset(names)
    any_case = ignores_case(events)
    named = kinds if columns is None else (column_named(name, events) for name in columns)
    chosen = list(dict.fromkeys(named))
    missing = [name for name in chosen if name not in kinds]
    if missing:
        raise ValueError(f"`columns` names {missing[0]!r}, which is not a column of the events")
    fields: list[Column] = []
    for name in chosen:
        wanted = None if "" in asked else asked_below(name, asked, any_case)
        if wanted is not None and not wanted:
            continue
        value = _value(quoted(name), kinds[name], wanted, any_case)
        if value is not None:
            fields.append(value.alias(name))
    if not fields:
        fields.append(F.lit(None).cast("boolean").alias(NOTHING))
    return F.struct(*fields), Reading(asked if any_case else None)


def unknown_names(
    events: DataFrame, names: Iterable[str], columns: Sequence[str] | None
) -> list[str]:
    """The names that subscriptions ask about and no column can have."""
    any_case = ignores_case(events)
    chosen = None if columns is None else {column_named(name, events) for name in columns}
    fields = [f for f in events.schema.fields if chosen is None or f.name in chosen]
    return sorted(
        name for name in names if name and not _is_known(T.StructType(fields), name, any_case)
    )


def _is_known(kind: T.DataType, name: str, any_case: bool) -> bool:
    """Whether a name leads to a value of a type, or into a map or a Variant: any key may be."""
    match kind:
        case T.StructType(fields=fields):
            return any(
                rest == "" or _is_known(field.dataType, rest, any_case)
                for field in fields
                for rest in asked_below(field.name, (name,), any_case)
            )
        case T.ArrayType(elementType=element):
            return _is_known(element, name, any_case)
        case T.MapType() | T.VariantType():
            return True
        case _:
            return False


def check_columns(events: DataFrame) -> dict[str, T.DataType]:
    """The types of the columns. Raises `ValueError` where Spark takes two for one."""
    fold = str.lower if ignores_case(events) else str
    first: dict[str, str] = {}
    for name in events.columns:
        held = first.setdefault(fold(name), name)
        if held != name:
            raise ValueError(
                f"the events have columns {held!r} and {name!r}, which are one to Spark; rename "
                "one, or set spark.sql.caseSensitive"
            )
    if len(first) < len(events.columns):
        name = next(name for name in events.columns if events.columns.count(name) > 1)
        raise ValueError(f"the events have two columns named {name!r}; rename one")
    return {field.name: field.dataType for field in events.schema.fields}


def refuse_taken(events: DataFrame, *names: str) -> None:
    """Raise `ValueError` where the events have a column that the output adds."""
    fold = str.lower if ignores_case(events) else str
    held = {fold(name): name for name in events.columns}
    for name in names:
        if fold(name) in held:
            raise ValueError(
                f"the events have a column {held[fold(name)]!r} already; rename it, or choose "
                f"another name for the output: names={{{name!r}: …}}"
            )


def _json(name: str, kinds: dict[str, T.DataType]) -> tuple[Column, Reading]:
    kind = kinds.get(name)
    if kind is None:
        raise ValueError(f"expected a column {name!r} of JSON text, found {', '.join(kinds)}")
    if not isinstance(kind, T.StringType | T.BinaryType | T.VariantType):
        raise ValueError(
            f"column {name!r}: expected JSON text or a Variant, found {kind.simpleString()}"
        )
    return quoted(name), Reading(nulls=True)


def _value(
    column: Column, kind: T.DataType, wanted: frozenset[str] | None, any_case: bool
) -> Column | None:
    """A column as an attribute; None for a type without counterpart.

    `wanted` are the names below it that subscriptions use; None means all of them.
    """
    match kind:
        case T.StructType():
            return _struct(column, kind, wanted, any_case)
        case T.ArrayType(elementType=element):
            return _unless_same(column, element, wanted, any_case, F.transform)
        case T.MapType(keyType=key, valueType=item):
            if not isinstance(key, T.StringType):
                return None
            inner = None if wanted is None else below_keys(wanted)
            return _unless_same(
                column, item, inner, any_case, lambda c, f: F.transform_values(c, lambda _, v: f(v))
            )
        case (
            T.StringType() | T.BooleanType() | T.NumericType() | T.NullType() | T.DateType()
            | T.TimestampType() | T.TimestampNTZType() | T.TimeType() | T.VariantType()
        ):  # fmt: skip
            return column
        case _:
            return None


def _struct(
    column: Column, kind: T.StructType, wanted: frozenset[str] | None, any_case: bool
) -> Column | None:
    if any_case and len({name.lower() for name in kind.names}) < len(kind.names):
        raise ValueError(
            f"a record has fields that are one to Spark ({', '.join(kind.names)}); rename them, "
            "or set spark.sql.caseSensitive"
        )
    fields: list[Column] = []
    for field in kind.fields:
        inner = None if wanted is None else asked_below(field.name, wanted, any_case)
        if inner is None or inner:
            value = _value(column.getField(field.name), field.dataType, inner, any_case)
            if value is not None:
                fields.append(value.alias(field.name))
    if not fields:
        return None
    # The fields of a null struct are null, which means the same in an event.
    return F.struct(*fields)


def _unless_same(
    column: Column, inner: T.DataType, wanted: frozenset[str] | None, any_case: bool, over: Any
) -> Column | None:
    """A list or a map, with its elements changed only where they are records or lists."""
    if isinstance(inner, T.AtomicType):
        return column if _value(column, inner, None, any_case) is not None else None
    probe = _value(F.lit(None), inner, wanted, any_case)
    if probe is None:
        return None
    changed: Column = over(column, lambda element: _value(element, inner, wanted, any_case))
    return changed
