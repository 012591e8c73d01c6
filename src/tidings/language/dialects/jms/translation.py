"""Message selectors of Jakarta Messaging 3.1, section 3.8.1, translated to expressions of ours.

A condition is true, false or unknown, so it becomes two expressions: `_true` holds where it is
true, and `_false` where it is false. AND, OR and NOT only swap and join them. A test of one
attribute against a constant becomes a constraint of ours. It is false where the attribute is
present and the constraint does not hold: a comparison of unlike types is false, and only an absent
attribute (NULL) makes it unknown. Arithmetic and comparisons between attributes become residuals.

Selectors know no lists. A test that reads one attribute is true on a list if it is true for any
element, else false if it is false for any. A test that reads several attributes takes a list of two
or more values as NULL. NaN satisfies no comparison, not even `<>`. An integer divided by zero is
NULL.
"""

from __future__ import annotations

import math
from typing import Any

from tidings.language.constraint import Check, Constraint
from tidings.language.dialects.jms.evaluation import (
    condition,
    exactly_compared,
    formula,
    needs,
    selects,
)
from tidings.language.dialects.jms.syntax import COMPARISONS, read_selector, write_selector
from tidings.language.dialects.sql_syntax import FLIPPED, Node
from tidings.language.dialects.sql_syntax import names as names_in
from tidings.language.expression import ALWAYS, NEVER, Expression, conjoin, disjoin, negate
from tidings.language.values import Scalar


def read(text: str) -> Expression:
    """The expression that holds where a selector is true."""
    node = read_selector(text)
    return ALWAYS if node is None else _true(node)


def names(text: str) -> frozenset[str]:
    """The attributes that a selector reads."""
    node = read_selector(text)
    return frozenset() if node is None else names_in(node)


def test(text: str) -> Check:
    """A selector as a function: whether it is true of an event."""
    node = read_selector(text)
    return (lambda _event: True) if node is None else selects(node)


# Translation


def _true(node: Node) -> Expression:
    """Holds exactly where the condition is true."""
    match node.operator:
        case "and":
            return conjoin(map(_true, node.parts))
        case "or":
            return disjoin(map(_true, node.parts))
        case "not":
            return _false(node.parts[0])
        case _:
            return _leaf(node)[0]


def _false(node: Node) -> Expression:
    """Holds exactly where the condition is false."""
    match node.operator:
        case "and":
            return disjoin(map(_false, node.parts))
        case "or":
            return conjoin(map(_false, node.parts))
        case "not":
            return _true(node.parts[0])
        case _:
            return _leaf(node)[1]


def _leaf(node: Node) -> tuple[Expression, Expression]:
    """Where a test is true, and where it is false."""
    read = names_in(node)
    if not read:
        constant = condition(formula(node)({}))
        return (ALWAYS if constant is True else NEVER, ALWAYS if constant is False else NEVER)
    if node.operator == "is null":
        present = _exists(str(node.parts[0].value))
        return negate(present), present
    plain = _plain(node)
    if plain is None:
        return _residual(node)
    name, true = plain
    return true, conjoin((_exists(name), negate(true)))


def _plain(node: Node) -> tuple[str, Expression] | None:
    """A test of one attribute against constants: the attribute, and where the test is true.

    None if the test is of another kind, or if our constraints cannot say it.
    """
    if node.operator == "name":
        return str(node.value), Constraint(str(node.value), "=", "bool", False, True)
    if not node.parts or node.parts[0].operator != "name":
        if node.operator not in COMPARISONS or node.parts[1].operator != "name":
            return None
        node = Node(FLIPPED[node.operator], node.parts[::-1])
    name = str(node.parts[0].value)
    match node.operator:
        case "in":
            members = tuple(sorted({str(member.value) for member in node.parts[1:]}))
            return name, Constraint(name, "in", "string", False, members)
        case "like":
            return name, Constraint(name, "like", "string", False, node.value)
        case _:
            constants = [_constant(part) for part in node.parts[1:]]
            true = None if None in constants else _compared(node.operator, name, constants)
            return None if true is None else (name, true)


def _constant(node: Node) -> Scalar | None:
    """The value of a tree without names; None if it has names or is not a constant of ours."""
    if names_in(node):
        return None
    value = formula(node)({})
    return value if isinstance(value, str | int) or _finite(value) else None


def _finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _compared(operator: str, name: str, constants: list[Any]) -> Expression | None:
    """The constraint that compares an attribute with constants."""
    if operator == "not between":
        low, high = constants
        parts = (_compared("<", name, [low]), _compared(">", name, [high]))
        return None if None in parts else disjoin(part for part in parts if part is not None)
    ours = "!=" if operator == "<>" else operator
    operand = tuple(constants) if operator == "between" else constants[0]
    if isinstance(constants[0], str | bool):
        kind = "bool" if isinstance(constants[0], bool) else "string"
        return Constraint(name, ours, kind, False, operand)
    if all(map(exactly_compared, constants)):
        return Constraint(name, ours, "number", False, operand)
    if any(isinstance(value, float) for value in constants):
        return None  # Java rounds integers past 2^53 to doubles before it compares them
    doubles = tuple(map(float, constants)) if operator == "between" else float(constants[0])
    return disjoin(
        (
            Constraint(name, ours, "int", False, operand),
            Constraint(name, ours, "real", False, doubles),
        )
    )


def _residual(node: Node) -> tuple[Expression, Expression]:
    """A test that our constraints cannot say, beside what it needs of its attributes."""
    numbers, present = needs(node)
    text = write_selector(node)
    true = conjoin(
        [
            *(Constraint(name, "exists", "number", False, None) for name in sorted(numbers)),
            *(_exists(name) for name in sorted(present - numbers)),
            _holds(text),
        ]
    )
    negated = write_selector(Node("not", (node,)))
    return true, conjoin([*(_exists(name) for name in sorted(present)), _holds(negated)])


def _exists(name: str) -> Constraint:
    return Constraint(name, "exists", "any", False, None)


def _holds(text: str) -> Constraint:
    return Constraint("", "holds", "any", False, ("jms", text))
