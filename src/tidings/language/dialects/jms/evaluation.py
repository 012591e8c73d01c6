"""What selectors mean, evaluated directly: for constants and for residuals.

A selector is a function of the values of the attributes (`formula`): true, false or (None) unknown,
by the tables of section 3.8.1.2. On an event (`truth`) attributes may have several values: that is
dealt with here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tidings.language import wildcard
from tidings.language.dialects.jms.syntax import ARITHMETIC, COMPARISONS
from tidings.language.dialects.sql_syntax import Node, walk
from tidings.language.dialects.sql_syntax import names as names_in
from tidings.language.event import Scalar, lookup

Truth = bool | None
Values = Mapping[str, Scalar | None]
Formula = Callable[[Values], Any]

_EXACT: Final = 2**53  # integers below it are doubles, and no others round to these
_FOREIGN: Final = ()  # what arithmetic on a text or boolean gives: like nothing, so never equal


def truth(node: Node) -> Callable[[Mapping[str, Any]], Truth]:
    """Whether a condition is true of an event, false, or (None) unknown."""
    match node.operator:
        case "and" | "or":
            parts = tuple(map(truth, node.parts))
            decisive = node.operator == "or"
            return lambda event: _joined((part(event) for part in parts), decisive)
        case "not":
            inner = truth(node.parts[0])
            return lambda event: _not(inner(event))
        case _:
            return _leaf_truth(formula(node), tuple(names_in(node)))


def _leaf_truth(test: Formula, names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Truth]:
    """A test on an event, of which attributes may have several values."""
    if len(names) != 1:

        def several(event: Mapping[str, Any]) -> Truth:
            found = {name: lookup(event, name) for name in names}
            values = {n: given[0] if len(given) == 1 else None for n, given in found.items()}
            return condition(test(values))

        return several
    name = names[0]

    def single(event: Mapping[str, Any]) -> Truth:
        values: Sequence[Scalar | None] = lookup(event, name) or (None,)
        return _of_elements(condition(test({name: value})) for value in values)

    return single


def _joined(truths: Iterable[Truth], decisive: bool) -> Truth:
    """OR of three values if true decides, AND if false does."""
    result: Truth = not decisive
    for answer in truths:
        if answer is decisive:
            return decisive
        if answer is None:
            result = None
    return result


def _of_elements(truths: Iterable[Truth]) -> Truth:
    """A test on a list: true for any, else false for any, else unknown."""
    result: Truth = None
    for answer in truths:
        if answer is True:
            return True
        if answer is False:
            result = False
    return result


def _not(answer: Truth) -> Truth:
    return None if answer is None else not answer


def condition(value: Any) -> Truth:
    """A value as a condition: one that is no boolean is false."""
    return None if value is None else value is True


def formula(node: Node) -> Formula:
    """A tree as a function of single values; None is NULL and unknown."""
    parts = tuple(map(formula, node.parts))
    match node.operator:
        case "literal":
            value = node.value
            return lambda _values: value
        case "name":
            name = str(node.value)
            return lambda values: values.get(name)
        case "and" | "or":
            decisive = node.operator == "or"
            return lambda values: _joined((condition(part(values)) for part in parts), decisive)
        case "not":
            return lambda values: _not(condition(parts[0](values)))
        case "is null":
            return lambda values: parts[0](values) is None
        case "in":
            members = frozenset(member.value for member in node.parts[1:])
            return lambda values: _among(parts[0](values), members.__contains__)
        case "like":
            fits = wildcard.matcher(str(node.value), ignore_case=False)
            return lambda values: _among(parts[0](values), fits)
        case "between" | "not between":
            signs, decisive = (
                (("<", ">"), True) if "not" in node.operator else ((">=", "<="), False)
            )
            return lambda values: _joined(
                (
                    _compare(sign, parts[0](values), bound(values))
                    for sign, bound in zip(signs, parts[1:], strict=True)
                ),
                decisive,
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
    """A comparison; of unlike types it is false."""
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
    if not _numeric(left):
        return False
    match operator:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


def _calculate(operator: str, left: Any, right: Any, negative: bool = False) -> Any:
    """Arithmetic as Java does it: on longs, which wrap around, or on doubles."""
    if left is None or right is None:
        return None
    if not (_numeric(left) and _numeric(right)):
        return _FOREIGN
    if negative and isinstance(right, float):
        return -right
    if isinstance(left, float) or isinstance(right, float):
        return _on_doubles(operator, _double(left), _double(right))
    match operator:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case _:
            if right == 0:
                return None
            result = abs(left) // abs(right)
            result = result if (left < 0) == (right < 0) else -result
    return (result + 2**63) % 2**64 - 2**63


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
    """Whether comparing with a number is exact: nothing is rounded on the way to a double."""
    return abs(value) < _EXACT if isinstance(value, float) else float(value) == value


def needs(node: Node) -> tuple[set[str], set[str]]:
    """The attributes that must be numbers if a test is true, and those that must be present for it
    to be true or false.
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
