"""What CloudEvents SQL expressions mean, evaluated directly: for constants and for residuals.

`formula` turns a tree into a function of the attributes' values, which raises `EvaluationError` at
the first error. `truth` turns it into a function of an event, whose attributes may have several
values; it gives true, false or (None) an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidings.language import wildcard
from tidings.language.constraint import Check
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
from tidings.language.dialects.sql_evaluation import (
    ORDERINGS,
    Condition,
    Truth,
    Values,
    negation,
    on_event,
)
from tidings.language.dialects.sql_syntax import Node, names
from tidings.language.event import lookup

Formula = Callable[[Values], Value]

REQUIRED: Final = frozenset({"id", "source", "specversion", "type"})  # every CloudEvent has them


def passes(node: Node) -> Check:
    """Whether an event passes a filter: the expression is the boolean true, without an error."""
    if node.operator == "name":
        name = str(node.value)
        return lambda event: any(value is True for value in lookup(event, name))
    answer = truth(node)
    return lambda event: answer(event) is True


def truth(node: Node) -> Condition:
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
            return lambda event: negation(parts[0](event))
        case _:
            return on_event(_without_errors(formula(node)), tuple(names(node)))


_JOINED: Final = frozenset({"and", "or", "xor", "not"})


def _xor(left: Truth, right: Truth) -> Truth:
    return None if left is None or right is None else left is not right


def _without_errors(test: Formula) -> Callable[[Values], Truth]:
    """A formula, cast to a boolean, that gives None where it would raise an error."""

    def answer(values: Values) -> Truth:
        try:
            return boolean(test(values))
        except EvaluationError:
            return None

    return answer


def formula(node: Node) -> Formula:
    """A tree as a function of its attributes' values."""
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
            compare = ORDERINGS[node.operator]
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


def _read(values: Values, name: str) -> Value:
    if name not in values:
        raise EvaluationError("missing attribute")
    value = values[name]
    if value is None:
        raise EvaluationError("cast")
    return native(value)


def _equal(left: Value, right: Value) -> bool:
    """Equality, after a cast of the left side to the type of the right one (section 3.7)."""
    return CASTS[kind_of(right)](left) == right


def _among(left: Value, *members: Value) -> bool:
    """Whether a value is among the members, each cast to the type of the value."""
    cast = CASTS[kind_of(left)]
    return left in [cast(member) for member in members]


def _call(name: str, arguments: tuple[Formula, ...]) -> Formula:
    function = function_for(name, len(arguments))
    assert function is not None  # the reader checks it
    variadic = (function.variadic or "",) * (len(arguments) - len(function.parameters))
    casts = [CASTS[kind] for kind in (*function.parameters, *variadic)]
    call = function.call
    return lambda values: call(
        *(cast(argument(values)) for cast, argument in zip(casts, arguments, strict=True))
    )
