"""What selectors mean, evaluated directly: for constants and for residuals.

`formula` turns a tree into a function of the attributes' values, which gives true, false or (None)
unknown by the tables of section 3.8.1.2. `truth` turns it into a function of an event, whose
attributes may have several values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tidings.language import wildcard
from tidings.language.constraint import Check
from tidings.language.dialects.jms.syntax import ARITHMETIC, COMPARISONS
from tidings.language.dialects.sql_evaluation import (
    AND,
    OR,
    ORDERINGS,
    Condition,
    Truth,
    Values,
    calculate_exactly,
    negation,
    on_event,
    strongest,
)
from tidings.language.dialects.sql_syntax import Node, walk
from tidings.language.dialects.sql_syntax import names as names_in

Formula = Callable[[Values], Any]

_EXACT: Final = 2**53  # an integer below it is a double, and no other integer rounds to it
_FOREIGN: Final = ()  # the result of arithmetic on a text or boolean; it equals no value


def selects(node: Node) -> Check:
    """Whether a selector selects an event: it is true of the event."""
    answer = truth(node)
    return lambda event: answer(event) is True


def truth(node: Node) -> Condition:
    """Whether a condition is true of an event, false, or (None) unknown."""
    match node.operator:
        case "and" | "or":
            parts = tuple(map(truth, node.parts))
            order = OR if node.operator == "or" else AND
            return lambda event: strongest(order, (part(event) for part in parts))
        case "not":
            inner = truth(node.parts[0])
            return lambda event: negation(inner(event))
        case _:
            test = formula(node)
            return on_event(lambda values: condition(test(values)), tuple(names_in(node)))


def condition(value: Any) -> Truth:
    """A value as a condition: one that is not a boolean is false, and NULL is unknown."""
    return None if value is None else value is True


def formula(node: Node) -> Formula:
    """A tree as a function of single values; None stands for NULL and for unknown."""
    parts = tuple(map(formula, node.parts))
    match node.operator:
        case "literal":
            value = node.value
            return lambda _values: value
        case "name":
            name = str(node.value)
            return lambda values: values.get(name)
        case "and" | "or":
            order = OR if node.operator == "or" else AND
            return lambda values: strongest(order, (condition(part(values)) for part in parts))
        case "not":
            return lambda values: negation(condition(parts[0](values)))
        case "is null":
            return lambda values: parts[0](values) is None
        case "in":
            members = frozenset(member.value for member in node.parts[1:])
            return lambda values: _among(parts[0](values), members.__contains__)
        case "like":
            fits = wildcard.matcher(str(node.value), ignore_case=False)
            return lambda values: _among(parts[0](values), fits)
        case "between" | "not between":
            signs, order = ((">=", "<="), AND) if node.operator == "between" else (("<", ">"), OR)
            return lambda values: strongest(
                order,
                (
                    _compare(sign, parts[0](values), bound(values))
                    for sign, bound in zip(signs, parts[1:], strict=True)
                ),
            )
        case "negative":
            return lambda values: _calculate("-", 0, parts[0](values), negative=True)
        case "+" | "-" | "*" | "/":
            return lambda values: _calculate(node.operator, parts[0](values), parts[1](values))
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            return lambda values: _compare(node.operator, parts[0](values), parts[1](values))
        case _:
            raise AssertionError(node.operator)


def _among(value: Any, fits: Callable[[str], bool]) -> Truth:
    if value is None:
        return None
    return fits(value) if isinstance(value, str) else False


def _compare(operator: str, left: Any, right: Any) -> Truth:
    """A comparison; it is false for values of unlike types."""
    if left is None or right is None:
        return None
    if type(left) is not type(right):
        if not (_numeric(left) and _numeric(right)):
            return False
        left, right = _double(left), _double(right)
    if left != left or right != right or isinstance(left, tuple):
        return False
    match operator:
        case "=":
            return bool(left == right)
        case "<>":
            return bool(left != right)
    return ORDERINGS[operator](left, right) if _numeric(left) else False


def _calculate(operator: str, left: Any, right: Any, negative: bool = False) -> Any:
    """Java's arithmetic: on longs, which wrap around, or on doubles; division by 0L gives NULL."""
    if left is None or right is None:
        return None
    if not (_numeric(left) and _numeric(right)):
        return _FOREIGN
    if negative and isinstance(right, float):
        return -right
    if isinstance(left, float) or isinstance(right, float):
        return _on_doubles(operator, _double(left), _double(right))
    result = calculate_exactly(operator, left, right)
    return None if result is None else (result + 2**63) % 2**64 - 2**63


def _on_doubles(operator: str, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _double(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def exactly_compared(value: int | float) -> bool:
    """Whether a comparison with a number is exact: Java rounds nothing to a double."""
    return abs(value) < _EXACT if isinstance(value, float) else float(value) == value


def needs(node: Node) -> tuple[set[str], set[str]]:
    """What a test needs: the attributes that must be numbers for it to be true, and those that
    must be present for it to be true or false.
    """
    numbers: set[str] = set()
    present: set[str] = set()
    if node.operator not in (*COMPARISONS, "between", "not between"):
        return numbers, present
    ordered = node.operator not in ("=", "<>")
    operands = node.parts[:1] if node.operator in ("between", "not between") else node.parts
    for operand in operands:
        for part in walk(operand) if operand.operator in ARITHMETIC else (operand,):
            if part.operator == "name":
                present.add(str(part.value))
                if ordered or operand.operator in ARITHMETIC:
                    numbers.add(str(part.value))
    return numbers, present
