"""Values of CloudEvents SQL 1.0: its three types, the casts between them, and the functions.

Texts are `str`, integers are `int` within 32 bits, booleans are `bool`. A cast, an operator or a
function that fails raises `EvaluationError`. An event passes a filter only if no error occurs
(section 1.2), so the first error ends the evaluation, and nothing needs the value that the
specification gives beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tidings.language.dialects.sql_evaluation import calculate_exactly
from tidings.language.values import Scalar

INTEGER_MIN: Final = -(2**31)
INTEGER_MAX: Final = 2**31 - 1
MAX_CHARACTERS: Final = 2**24  # of a concatenated text

Value = str | int | bool


class EvaluationError(Exception):
    """An error of section 3.3: its kind is math, cast, missing attribute or function evaluation."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(kind)


def native(value: Scalar) -> Value:
    """A scalar of an event as a value: any scalar of another type becomes a text (section 3.2)."""
    if isinstance(value, bool | str) or (
        isinstance(value, int) and INTEGER_MIN <= value <= INTEGER_MAX
    ):
        return value
    try:
        return repr(value)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        return "inf" if value > 0 else "-inf"


def kind_of(value: Value) -> str:
    """The type of a value: boolean, integer or text."""
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "text"


def integer(value: Value) -> int:
    """The cast to an integer."""
    if isinstance(value, str):
        if _INTEGER.fullmatch(value) is None:
            raise EvaluationError("cast")
        sign, digits = (value[0], value[1:]) if value[0] in "+-" else ("", value)
        digits = digits.lstrip("0") or "0"
        if len(digits) > 10:
            raise EvaluationError("cast")
        value = int(sign + digits)
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise EvaluationError("cast")
    return int(value)


def text(value: Value) -> str:
    """The cast to a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def boolean(value: Value) -> bool:
    """The cast to a boolean."""
    if isinstance(value, str):
        lower = value.lower()
        if lower not in ("true", "false"):
            raise EvaluationError("cast")
        return lower == "true"
    return bool(value)


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")

CASTS: Final[dict[str, Callable[[Any], Value]]] = {
    "any": lambda value: value,
    "boolean": boolean,
    "integer": integer,
    "text": text,
}


def calculate(operator: str, left: int, right: int) -> int:
    """Arithmetic on integers: division truncates; division by zero and overflow are errors."""
    result = calculate_exactly(operator, left, right)
    if result is None:
        raise EvaluationError("math")
    return fitting(result)


def fitting(result: int) -> int:
    """The result of arithmetic; an error if it does not fit 32 bits."""
    if not INTEGER_MIN <= result <= INTEGER_MAX:
        raise EvaluationError("math")
    return result


# Functions


class Function(NamedTuple):
    """A function: the types of its parameters, of any further arguments, and of its result."""

    call: Callable[..., Value]
    parameters: tuple[str, ...]
    result: str
    variadic: str | None = None


def _castable(cast: Callable[[Value], Value]) -> Callable[[Value], bool]:
    def castable(value: Value) -> bool:
        try:
            cast(value)
        except EvaluationError:
            return False
        return True

    return castable


def _left(given: str, length: int) -> str:
    if length < 0:
        raise EvaluationError("function evaluation")
    return given[:length]


def _right(given: str, length: int) -> str:
    if length < 0:
        raise EvaluationError("function evaluation")
    return given[max(0, len(given) - length) :]


def _substring(given: str, position: int, length: int = INTEGER_MAX) -> str:
    if abs(position) > len(given) or length < 0:
        raise EvaluationError("function evaluation")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(given) + position
    return given[start : start + length]


def _concatenated(delimiter: str, *parts: str) -> str:
    if sum(map(len, parts)) + len(delimiter) * len(parts) > MAX_CHARACTERS:
        raise EvaluationError("function evaluation")
    return delimiter.join(parts)


# Unicode's White_Space property; Python's own `strip` removes more.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

# Section 3.5, and the casts by name, which the specification's own test kit uses.
FUNCTIONS: Final[dict[str, tuple[Function, ...]]] = {
    "LENGTH": (Function(lambda x: fitting(len(x)), ("text",), "integer"),),
    "CONCAT": (Function(lambda *parts: _concatenated("", *parts), (), "text", "text"),),
    "CONCAT_WS": (Function(_concatenated, ("text",), "text", "text"),),
    "LOWER": (Function(lambda x: x.lower(), ("text",), "text"),),
    "UPPER": (Function(lambda x: x.upper(), ("text",), "text"),),
    "TRIM": (Function(lambda x: x.strip(_SPACES), ("text",), "text"),),
    "LEFT": (Function(_left, ("text", "integer"), "text"),),
    "RIGHT": (Function(_right, ("text", "integer"), "text"),),
    "SUBSTRING": (
        Function(_substring, ("text", "integer"), "text"),
        Function(_substring, ("text", "integer", "integer"), "text"),
    ),
    "ABS": (Function(lambda x: fitting(abs(x)), ("integer",), "integer"),),
    "INT": (Function(lambda x: x, ("integer",), "integer"),),
    "STRING": (Function(lambda x: x, ("text",), "text"),),
    "BOOL": (Function(lambda x: x, ("boolean",), "boolean"),),
    "IS_INT": (Function(_castable(integer), ("any",), "boolean"),),
    "IS_BOOL": (Function(_castable(boolean), ("any",), "boolean"),),
}


def function_for(name: str, arity: int) -> Function | None:
    """The function of this name that takes this number of arguments."""
    for function in FUNCTIONS.get(name, ()):
        fixed = len(function.parameters)
        if arity == fixed or (function.variadic is not None and arity > fixed):
            return function
    return None
