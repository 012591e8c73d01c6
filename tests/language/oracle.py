"""The slow twins: what the language means, written as plainly as possible and nothing else.

`holds` evaluates an expression on an event by the letter of docs/language.md. `attributes` makes
the small worlds over which covering, overlap and reduction are decided by trying everything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations
from typing import Any

from tests.language import odd
from tidings.language.constraint import Constraint
from tidings.language.expression import And, Expression, Not, Or
from tidings.language.folding import fold
from tidings.language.values import Scalar

KINDS = {
    "number": (int, float),
    "int": (int,),
    "real": (float,),
    "string": (str,),
    "bool": (bool,),
    "any": (int, float, str, bool),
}


def holds(
    expression: Expression, event: Mapping[str, Any], source: Mapping[str, Any] | None = None
) -> bool:
    """Whether an event, flat and with a list for each attribute, satisfies an expression.

    `source` is the event as it came, where that is another.
    """
    if source is None:
        source = event
    match expression:
        case Constraint(operator="holds", operand=("odd", str(text))):
            return odd.odd(text, source) is not expression.negated
        case Constraint():
            values = event.get(expression.name, [])
            return any(satisfies(expression, v) for v in values) is not expression.negated
        case Not(part):
            return not holds(part, event, source)
        case And(parts):
            return all(holds(part, event, source) for part in parts)
        case Or(parts):
            return any(holds(part, event, source) for part in parts)


def satisfies(constraint: Constraint, value: Scalar) -> bool:
    """Whether one value lies in a constraint's set."""
    operand: Any = constraint.operand
    operator = constraint.operator
    v: Any = value
    if type(value) not in KINDS[constraint.type]:
        return False
    if operator == "exists":
        return True
    if value != value:  # NaN
        return False
    if operator.startswith("i") and operator not in ("in", "imatches"):
        operator = operator[1:]
        v = fold(v)
        operand = tuple(map(fold, operand)) if isinstance(operand, tuple) else fold(operand)
    match operator:
        case "=":
            return bool(v == operand)
        case "!=":
            return bool(v != operand)
        case "<":
            return bool(v < operand)
        case "<=":
            return bool(v <= operand)
        case ">":
            return bool(v > operand)
        case ">=":
            return bool(v >= operand)
        case "between":
            return bool(operand[0] <= v <= operand[1])
        case "in":
            return any(v == member for member in operand)
        case "prefix":
            return bool(v[: len(operand)] == operand)
        case "suffix":
            return bool(v[len(v) - len(operand) :] == operand) and len(v) >= len(operand)
        case "contains":
            return any(v[i : i + len(operand)] == operand for i in range(len(v) + 1))
        case "like":
            return like(operand, v)
        case "matches":
            return re.search(operand, v) is not None
        case "imatches":
            return re.search(operand, v, re.IGNORECASE) is not None
        case _:
            raise AssertionError(operator)


def like(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern, by trying every length for every `%`."""
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(like(rest, text[i:]) for i in range(len(text) + 1))
    if not text:
        return False
    if head == "_":
        return like(rest, text[1:])
    if head == "\\":
        head, rest = rest[0], rest[1:]
    return head == text[0] and like(rest, text[1:])


def attributes(values: Iterable[Scalar], most: int) -> Iterator[list[Scalar]]:
    """Every attribute with at most so many of the values: absent, one, lists of two, …"""
    pool = list(values)
    return map(list, chain.from_iterable(combinations(pool, n) for n in range(most + 1)))
