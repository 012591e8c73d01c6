"""Our expressions written as event patterns of EventBridge, where these can say the same.

A filter becomes an object of fields, several filters become the objects of an `$or`. An event
pattern tests the values of a list one by one. So it cannot say that no value satisfies a test, nor
that two values satisfy two tests: `write` refuses negations, and two constraints on one attribute,
with the reason. If several attributes lie in one array of records, EventBridge wants one record
that satisfies them all.
"""

from __future__ import annotations

import json
from itertools import product
from math import prod
from typing import Any, Final

from tidings.language.constraint import Constraint, residual
from tidings.language.dialects.eventbridge.addresses import read_address
from tidings.language.dialects.eventbridge.syntax import (
    EXACT,
    OR,
    RESERVED,
    comparable,
    read_event_pattern,
)
from tidings.language.errors import NormalFormError, TranslationError
from tidings.language.expression import Expression
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.language.text import write as write_text
from tidings.language.text import write_constraint
from tidings.language.wildcard import MANY, ONE, tokens

MAX_SPELLINGS: Final = 64  # of the texts of one constraint that ignores case
_SPELLED: Final = {"s": ("s", "ſ"), "k": ("k", "\u212a")}  # folded letters with a third case
LEAST: Final = -1.7976931348623157e308  # the lowest finite double


def write(expression: Expression) -> str:
    """The event pattern that means the same, as JSON; `TranslationError` says why there is none."""
    try:
        filters = Predicate(expression).filters
    except NormalFormError as error:
        raise _unsaid(expression, str(error)) from None
    if not filters:
        raise _unsaid(expression, "no event can match it, and a pattern must have fields")
    fields = [_fields(filter) for filter in filters]
    if len(fields) == 1:
        return _json(fields[0])
    for found, filter in zip(fields, filters, strict=True):
        if reserved := sorted(RESERVED & found.keys()):
            raise _unsaid(filter, f"{reserved[0]!r} cannot be the name of a field within {OR}")
    return _json({OR: fields})


def _fields(filter: Filter) -> dict[str, Any]:
    """A filter as fields with dotted names."""
    if not filter:
        raise _unsaid(filter, "every event matches it, and a pattern must have fields")
    fields: dict[str, Any] = {}
    for constraint in filter:
        if constraint.operator == "holds":
            raise _unsaid(constraint, _opaque(constraint))
        if constraint.negated:
            reason = (
                "it also holds where the attribute is absent, and on a list it tests every value"
            )
            raise _unsaid(constraint, reason)
        if constraint.name in fields:
            reason = "two values of a list may satisfy the two constraints on one attribute"
            raise _unsaid(filter, reason)
        if constraint.name == OR:
            raise _unsaid(constraint, f"{OR} cannot be the name of a field")
        fields[constraint.name] = _values(constraint)
    return fields


def _opaque(constraint: Constraint) -> str:
    dialect, _ = residual(constraint)
    return f"it is a test of {dialect}" if dialect != "eventbridge" else "it is itself a pattern"


def _values(constraint: Constraint) -> list[Any]:
    """A constraint as the array of tests of a field."""
    operator, kind, operand = constraint.operator, constraint.type, constraint.operand
    if operator == "exists":
        return _present(constraint)
    if kind in ("int", "real"):
        raise _unsaid(constraint, "event patterns do not tell integers from reals")
    if operator in ("=", "in"):
        values = operand if isinstance(operand, tuple) else (operand,)
        return [_value(constraint, value) for value in values]
    match operator:
        case "prefix" | "suffix":
            return [{operator: operand}]
        case "contains" | "like":
            return [{"wildcard": _wildcard(constraint)}]
        case "i=" | "iprefix" | "isuffix" | "iin":
            return _caseless(constraint)
        case "<" | "<=" | ">" | ">=" if kind == "number":
            return [{"numeric": [operator, _bound(constraint, operand)]}]
        case "between" if kind == "number":
            assert isinstance(operand, tuple)
            low, high = (_bound(constraint, bound) for bound in operand)
            return [{"numeric": [">=", low, "<=", high]}]
    raise _unsaid(constraint, f"event patterns have no operator {operator} on {_WHAT[kind]}")


_WHAT: Final = {"string": "texts", "number": "numbers", "bool": "booleans"}


def _present(constraint: Constraint) -> list[Any]:
    """Tests that any value of a type satisfies; `exists` would also hold on null."""
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
    raise _unsaid(constraint, "event patterns do not tell integers from reals")


def _value(constraint: Constraint, value: Any) -> Any:
    if isinstance(value, str):
        return {"exactly": value} if read_address(value) is not None else value
    return value if isinstance(value, bool) else _bound(constraint, value)


def _bound(constraint: Constraint, bound: Any) -> Any:
    if not comparable(bound) or not -EXACT <= bound <= EXACT:
        raise _unsaid(
            constraint, f"event-ruler compares numbers past 2^53, such as {bound!r}, as doubles"
        )
    return bound


def _caseless(constraint: Constraint) -> list[Any]:
    """Tests that ignore case.

    For event-ruler `ſ` and `s`, and the Kelvin sign and `k`, are different letters, each with its
    own upper or lower case. So a text with such letters becomes several.
    """
    operand = constraint.operand
    texts = list(map(str, operand)) if isinstance(operand, tuple) else [str(operand)]
    if not all(text.isascii() for text in texts):
        raise _unsaid(
            constraint, "event-ruler folds the case of letters outside ASCII in another way"
        )
    spelled = [[_SPELLED.get(letter, (letter,)) for letter in text] for text in texts]
    if sum(prod(map(len, letters)) for letters in spelled) > MAX_SPELLINGS:
        raise _unsaid(
            constraint,
            "event-ruler does not take ſ for s and the Kelvin sign for k, and the constraint has "
            "too many of these letters to write it with each of them",
        )
    tests = [
        {"equals-ignore-case": "".join(letters)}
        for choices in spelled
        for letters in product(*choices)
    ]
    if constraint.operator in ("i=", "iin"):
        return list(tests)
    return [{constraint.operator[1:]: test} for test in tests]


def _wildcard(constraint: Constraint) -> str:
    text = str(constraint.operand)
    parts = [MANY, *text, MANY] if constraint.operator == "contains" else tokens(text)
    if ONE in parts:
        raise _unsaid(constraint, "event patterns have no wildcard for a single character")
    return "".join(
        "*" if part == MANY else str(part).replace("\\", "\\\\").replace("*", "\\*")
        for part in parts
    )


def _unsaid(what: Expression | Filter | Constraint, reason: str) -> TranslationError:
    if isinstance(what, Constraint):
        text = write_constraint(what)
    else:
        text = str(what) if isinstance(what, Filter) else write_text(what)
    return TranslationError("eventbridge", text, reason)


def _json(pattern: dict[str, Any]) -> str:
    text = json.dumps(pattern, ensure_ascii=False)
    read_event_pattern(text)  # if this fails, the mistake is ours
    return text
