"""Our predicates as event patterns of EventBridge, where those can say the same.

A filter becomes an object of fields, several filters the objects of an `$or`. An event pattern
tests values one by one, so it cannot say that none of a list is something, nor two things of which
different values of a list may satisfy each: negations, and two constraints on one attribute, are
refused with the reason. Where several attributes lie within one array of records, EventBridge asks
for one record that has them all.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tidings.language.constraint import Constraint, residual
from tidings.language.dialects.eventbridge.addresses import read_address
from tidings.language.dialects.eventbridge.syntax import OR, RESERVED, comparable, read_rule
from tidings.language.errors import NormalFormError, TranslationError
from tidings.language.expression import Expression
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.language.text import write as write_text
from tidings.language.text import write_constraint
from tidings.language.wildcard import MANY, ONE, tokens

NAME: Final = "eventbridge"
LEAST: Final = -1.7976931348623157e308  # no double is below
EXACT: Final = 2**53


def write(expression: Expression) -> str:
    """The event pattern that means the same, as JSON; `TranslationError` says why there is none."""
    try:
        filters = Predicate(expression).filters
    except NormalFormError as error:
        raise _refusal(expression, str(error)) from None
    if not filters:
        raise _refusal(expression, "no event can match it, and every pattern has fields")
    fields = [_fields(filter) for filter in filters]
    if len(fields) == 1:
        return _json(fields[0])
    for found, filter in zip(fields, filters, strict=True):
        if reserved := sorted(RESERVED & found.keys()):
            raise _refusal(filter, f"{reserved[0]!r} cannot be the name of a field within {OR}")
    return _json({OR: fields})


def _fields(filter: Filter) -> dict[str, Any]:
    """A filter as fields with dotted names."""
    if not filter:
        raise _refusal(filter, "every pattern has fields, and this holds on every event")
    fields: dict[str, Any] = {}
    for constraint in filter:
        if constraint.operator == "holds":
            raise _refusal(constraint, _opaque(constraint))
        if constraint.negated:
            reason = "it also holds where the attribute is absent, and of a list asks every value"
            raise _refusal(constraint, reason)
        if constraint.name in fields:
            reason = "a list may satisfy two constraints on one attribute by two of its values"
            raise _refusal(filter, reason)
        if constraint.name == OR:
            raise _refusal(constraint, f"{OR} is no name of a field")
        fields[constraint.name] = _values(constraint)
    return fields


def _opaque(constraint: Constraint) -> str:
    dialect, _ = residual(constraint)
    return f"it is a test of {dialect}" if dialect != NAME else "it is a pattern within a predicate"


def _values(constraint: Constraint) -> list[Any]:
    """The values of a field that a constraint asks for."""
    operator, kind, operand = constraint.operator, constraint.type, constraint.operand
    if operator == "exists":
        return _present(constraint)
    if kind in ("int", "real"):
        raise _refusal(constraint, "there all numbers are of one type")
    if operator in ("=", "in"):
        values = operand if isinstance(operand, tuple) else (operand,)
        return [_value(constraint, value) for value in values]
    match operator:
        case "prefix" | "suffix":
            return [{operator: operand}]
        case "contains" | "like":
            return [{"wildcard": _wildcard(constraint)}]
        case "i=" | "iprefix" | "isuffix":
            return [_caseless(constraint)]
        case "iin":
            assert isinstance(operand, tuple)
            each = (constraint._replace(operator="i=", operand=text) for text in operand)
            return [_caseless(one) for one in each]
        case "<" | "<=" | ">" | ">=" if kind == "number":
            return [{"numeric": [operator, _bound(constraint, operand)]}]
        case "between" if kind == "number":
            assert isinstance(operand, tuple)
            low, high = (_bound(constraint, bound) for bound in operand)
            return [{"numeric": [">=", low, "<=", high]}]
    raise _refusal(constraint, f"it has no operator like {operator} on {_WHAT[kind]}")


_WHAT: Final = {"string": "texts", "number": "numbers", "bool": "booleans"}


def _present(constraint: Constraint) -> list[Any]:
    """Any value of a type; `exists` would also take null."""
    number = {"numeric": [">=", LEAST]}
    match constraint.type:
        case "any":
            return [{"prefix": ""}, number, True, False]
        case "string":
            return [{"prefix": ""}]
        case "number":
            return [number]
        case "bool":
            return [True, False]
    raise _refusal(constraint, "there all numbers are of one type")


def _value(constraint: Constraint, value: Any) -> Any:
    if isinstance(value, str):
        return {"exactly": value} if read_address(value) is not None else value
    return value if isinstance(value, bool) else _bound(constraint, value)


def _bound(constraint: Constraint, bound: Any) -> Any:
    if not comparable(bound) or not -EXACT <= bound <= EXACT:
        raise _refusal(constraint, f"numbers past 2^53 are compared as doubles, and {bound!r} is")
    return bound


def _caseless(constraint: Constraint) -> dict[str, Any]:
    text = str(constraint.operand)
    if not text.isascii():
        raise _refusal(constraint, "it ignores the case of other letters in another way")
    if constraint.operator == "i=":
        return {"equals-ignore-case": text}
    return {constraint.operator[1:]: {"equals-ignore-case": text}}


def _wildcard(constraint: Constraint) -> str:
    text = str(constraint.operand)
    parts = [MANY, *text, MANY] if constraint.operator == "contains" else tokens(text)
    if ONE in parts:
        raise _refusal(constraint, "its wildcard * has no brother for a single character")
    return "".join(
        "*" if part == MANY else str(part).replace("\\", "\\\\").replace("*", "\\*")
        for part in parts
    )


def _refusal(what: Expression | Filter | Constraint, reason: str) -> TranslationError:
    if isinstance(what, Constraint):
        text = write_constraint(what)
    else:
        text = str(what) if isinstance(what, Filter) else write_text(what)
    return TranslationError(NAME, text, reason)


def _json(pattern: dict[str, Any]) -> str:
    text = json.dumps(pattern, ensure_ascii=False)
    read_rule(text)  # what we write is a pattern, or it is our mistake
    return text
