"""What CloudEvents SQL expressions mean, evaluated directly: for constants and for residuals.

An expression is a function of the values of the attributes (`formula`), which raises
`EvaluationError` at the first error. On an event it is true, false or (None) an error (`truth`):
this is where attributes with several values are dealt with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidings.language import wildcard
from tidings.language.dialects.cesql.values import (
    CASTS,
    EvaluationError,
    Value,
    boolean,
    calculate,
    fitting,
    function_for,
    integer,
    kind_of,
    native,
    text,
)
from tidings.language.dialects.sql_syntax import Node, names
from tidings.language.event import lookup

Values = Mapping[str, Value | None]  # None for an attribute with several values
Formula = Callable[[Values], Value]
Truth = bool | None

REQUIRED: Final = frozenset({"id", "source", "specversion", "type"})  # every CloudEvent has them


def passes(node: Node) -> Callable[[Mapping[str, Any]], bool]:
    """Whether an event passes a filter: the expression is the boolean true, and nothing failed."""
    if node.operator == "name":
        name = str(node.value)
        return lambda event: any(value is True for value in lookup(event, name))
    answer = truth(node)
    return lambda event: answer(event) is True


def truth(node: Node) -> Callable[[Mapping[str, Any]], Truth]:
    """Whether an expression, cast to a boolean, is true of an event, false, or (None) an error."""
    parts = tuple(map(truth, node.parts)) if node.operator in _JOINED else ()
    match node.operator:
        case "and" | "or":
            decisive = node.operator == "or"

            def joined(event: Mapping[str, Any]) -> Truth:
                for part in parts:
                    answer = part(event)
                    if answer is None or answer is decisive:
                        return answer
                return not decisive

            return joined
        case "xor":
            return lambda event: _xor(parts[0](event), parts[1](event))
        case "not":
            return lambda event: _not(parts[0](event))
        case _:
            return _leaf_truth(formula(node), tuple(names(node)))


_JOINED: Final = frozenset({"and", "or", "xor", "not"})


def _xor(left: Truth, right: Truth) -> Truth:
    return None if left is None or right is None else left is not right


def _not(answer: Truth) -> Truth:
    return None if answer is None else not answer


def _leaf_truth(test: Formula, names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Truth]:
    """A test on an event, of which attributes may have several values."""

    def on_values(values: Values) -> Truth:
        try:
            return boolean(test(values))
        except EvaluationError:
            return None

    def single(event: Mapping[str, Any]) -> Truth:
        found = lookup(event, names[0])
        if not found:
            return on_values({})
        result: Truth = None
        for value in found:
            answer = on_values({names[0]: native(value)})
            if answer is True:
                return True
            if answer is False:
                result = False
        return result

    def several(event: Mapping[str, Any]) -> Truth:
        values: dict[str, Value | None] = {}
        for name in names:
            found = lookup(event, name)
            if found:
                values[name] = native(found[0]) if len(found) == 1 else None
        return on_values(values)

    return single if len(names) == 1 else several


def formula(node: Node) -> Formula:
    """A tree as a function of the values of its attributes."""
    parts = tuple(map(formula, node.parts))
    match node.operator:
        case "literal":
            constant = node.value
            assert isinstance(constant, str | int)
            return lambda _values: constant
        case "name":
            name = str(node.value)
            return lambda values: _read(values, name)
        case "exists":
            wanted = str(node.value)
            return lambda values: wanted in REQUIRED or wanted in values
        case "and" | "or":
            decisive = node.operator == "or"
            return lambda values: (
                decisive is any(boolean(part(values)) is decisive for part in parts)
            )
        case "xor":
            return lambda values: boolean(parts[0](values)) is not boolean(parts[1](values))
        case "not":
            return lambda values: not boolean(parts[0](values))
        case "=":
            return lambda values: _equal(parts[0](values), parts[1](values))
        case "<" | "<=" | ">" | ">=":
            compare = _ORDERS[node.operator]
            return lambda values: compare(integer(parts[0](values)), integer(parts[1](values)))
        case "like":
            fits = wildcard.matcher(str(node.value), ignore_case=False)
            return lambda values: fits(text(parts[0](values)))
        case "in":
            return lambda values: _among(*(part(values) for part in parts))
        case "negative":
            return lambda values: fitting(-integer(parts[0](values)))
        case "+" | "-" | "*" | "/" | "%":
            operator = node.operator
            return lambda values: calculate(
                operator, integer(parts[0](values)), integer(parts[1](values))
            )
        case "call":
            return _call(str(node.value), parts)
        case _:
            raise AssertionError(node.operator)


_ORDERS: Final[dict[str, Callable[[int, int], bool]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _read(values: Values, name: str) -> Value:
    if name not in values:
        raise EvaluationError("missing attribute")
    value = values[name]
    if value is None:
        raise EvaluationError("cast")
    return value


def _equal(left: Value, right: Value) -> bool:
    """Equality, after a cast to the type of the right side (section 3.7)."""
    return CASTS[kind_of(right)](left) == right


def _among(left: Value, *members: Value) -> bool:
    """Whether a value is among others, all cast to its type."""
    cast = CASTS[kind_of(left)]
    return left in [cast(member) for member in members]


def _call(name: str, arguments: tuple[Formula, ...]) -> Formula:
    function = function_for(name, len(arguments))
    assert function is not None  # the reader has seen to it
    variadic = (function.variadic or "",) * (len(arguments) - len(function.parameters))
    casts = [CASTS[kind] for kind in (*function.parameters, *variadic)]
    call = function.call
    return lambda values: call(
        *(cast(argument(values)) for cast, argument in zip(casts, arguments, strict=True))
    )
