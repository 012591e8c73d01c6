"""What a WHERE clause says, as a predicate of Tidings, as far as that is exactly the same.

Spark offers the data source a list of simple filters on columns; all of them must hold. A filter is
taken over if it holds for a row exactly when its predicate matches the event that the row is made
of, else Spark applies it to the rows. What makes the difference:

- A comparison with null is neither true nor false in SQL, and its negation is not true either; here
  the negation of a constraint holds where the attribute is absent. So a negated filter also asks
  that the attribute exists.
- Spark's NaN is equal to itself and greater than all numbers; here NaN satisfies no comparison. So
  `x > 2` on reals becomes `exists x and not x <= 2`.
- An attribute may be a list, of which any element will do. A row of a single-valued column is made
  of one value only (`rows`), and an event with more does not fit.
- Numbers are the same numbers, as `rows` never rounds; texts are compared by code point by both,
  unless a column has a collation. Columns of other types, and parts of columns, are Spark's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import datasource as d
from pyspark.sql import types as T

from tidings.language.errors import PredicateError
from tidings.language.predicate import Predicate, parse

MAX_TEXT: Final = 32_768  # characters of the predicate, half of what routers take

_COMPARISONS: Final = {
    d.EqualTo: "=",
    d.EqualNullSafe: "=",
    d.GreaterThan: ">",
    d.GreaterThanOrEqual: ">=",
    d.LessThan: "<",
    d.LessThanOrEqual: "<=",
    d.StringStartsWith: "prefix",
    d.StringEndsWith: "suffix",
    d.StringContains: "contains",
}
_ABOVE: Final = {">": "<=", ">=": "<"}  # NaN is above all, says Spark


def pushed(
    filters: Sequence[d.Filter], schema: T.StructType
) -> tuple[Predicate | None, list[d.Filter]]:
    """The predicate that some of the filters say together, and the rest of the filters.

    The predicate is None where no filter can be said.
    """
    said: list[str] = []
    rest: list[d.Filter] = []
    kinds = {field.name: field.dataType for field in schema.fields}
    length = 0
    for one in filters:
        text = said_of(one, kinds)
        if text is None or length + len(text) > MAX_TEXT:
            rest.append(one)
        else:
            said.append(f"({text})")
            length += len(text) + len("() and ")
    return (parse(" and ".join(said)) if said else None), rest


def said_of(one: d.Filter, kinds: dict[str, T.DataType]) -> str | None:
    """The text of a predicate that says the same as a filter; None if there is none."""
    text = _negated(one.child, kinds) if isinstance(one, d.Not) else _plain(one, kinds)
    if text is None:
        return None
    try:
        parse(text)
    except PredicateError:
        return None
    return text


def _plain(one: d.Filter, kinds: dict[str, T.DataType]) -> str | None:
    column = _column(one, kinds)
    if column is None:
        return None
    name, kind = column
    match one:
        case d.IsNull():
            return f"not exists {name}"
        case d.IsNotNull():
            return f"exists {name}"
        case d.EqualNullSafe(value=None):
            return f"not exists {name}"
        case d.In(value=values):
            held = [_literal(value, kind) for value in values if value is not None]
            if not held or None in held:
                return None
            return f"{name} in ({', '.join(map(str, held))})"
    operator = _COMPARISONS.get(type(one))
    value = _literal(getattr(one, "value", None), kind)
    if operator is None or value is None:
        return None
    if kind == "bool" and operator != "=":
        return None
    if kind == "real" and operator in _ABOVE:
        return f"exists {name} and not {name} {_ABOVE[operator]} {value}"
    return f"{name} {operator} {value}"


def _negated(child: d.Filter, kinds: dict[str, T.DataType]) -> str | None:
    """Holds where the child is false: not where it is neither true nor false."""
    text = _plain(child, kinds)
    column = _column(child, kinds)
    if text is None or column is None:
        return None
    if isinstance(child, d.IsNull | d.IsNotNull | d.EqualNullSafe):
        return f"not ({text})"  # these are always true or false
    if isinstance(child, d.In) and None in child.value:
        return None
    return f"exists {column[0]} and not ({text})"


def _column(one: d.Filter, kinds: dict[str, T.DataType]) -> tuple[str, str] | None:
    """The name of the attribute as predicates write it, and the kind of its values."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or "." in path[0]:  # dotted names find values on other paths too
        return None
    kind = _kind(kinds.get(path[0]))
    if kind is None:
        return None
    doubled = path[0].replace('"', '""')
    return f'"{doubled}"', kind


def _kind(kind: T.DataType | None) -> str | None:
    match kind:
        case T.StringType():
            return "text" if kind == T.StringType() else None  # else it has a collation
        case T.BooleanType():
            return "bool"
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return "integer"
        case T.DoubleType():
            return "real"
        case _:
            return None


def _literal(value: Any, kind: str) -> str | None:
    """A value as predicates write it; None if it cannot be written, or is of another kind."""
    match kind, value:
        case "text", str():
            doubled = value.replace("'", "''")
            return f"'{doubled}'"
        case "bool", bool():
            return "true" if value else "false"
        case "integer", int() if not isinstance(value, bool):
            return str(value)
        case "real", float() if math.isfinite(value):
            return repr(value)
        case _:
            return None
