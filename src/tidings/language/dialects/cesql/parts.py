"""Parts of a translation from CloudEvents SQL: expressions of ours that know how large they are.

Joining parts past a bound raises `TooLarge`. The translation then makes that part of the filter a
`residual`: one opaque constraint beside the attributes that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tidings.language.constraint import Constraint, Operand
from tidings.language.dialects.cesql.syntax import kind, write_expression
from tidings.language.dialects.sql_syntax import Node
from tidings.language.expression import ALWAYS, NEVER, Expression, conjoin, disjoin

MAX_SIZE: Final = 1_024  # constraints; a long one counts more than once
MAX_FILTERS: Final = 64  # in the normal form
MAX_PART_HEIGHT: Final = 24
MAX_NEEDED: Final = 16  # attributes whose presence stands beside a residual


class Part(NamedTuple):
    """An expression, with upper bounds of its size, its filters and its height."""

    expression: Expression
    size: int = 1
    filters: int = 1  # in the normal form
    height: int = 1


class TooLarge(Exception):
    """The translation would exceed a bound."""


ALWAYS_PART: Final = Part(ALWAYS, 0)
NEVER_PART: Final = Part(NEVER, 0, 0)


def all_of(parts: Iterable[Part]) -> Part:
    """The conjunction."""
    kept = [part for part in dict.fromkeys(parts) if part.expression != ALWAYS]
    if any(part.expression == NEVER for part in kept):
        return NEVER_PART
    kept = [part for part in kept if not _implied(part, kept)]
    filters = 1
    for part in kept:
        filters *= part.filters
    return _joined(kept, filters, conjoin)


def _implied(part: Part, others: list[Part]) -> bool:
    """Whether a part asks only for the presence of an attribute that another part tests."""
    match part.expression:
        case Constraint(name=name, operator="exists", type="any", negated=False):
            return any(
                isinstance(other.expression, Constraint)
                and other.expression.name == name
                and not other.expression.negated
                for other in others
                if other is not part
            )
        case _:
            return False


def any_of(parts: Iterable[Part]) -> Part:
    """The disjunction."""
    kept = [part for part in parts if part.expression != NEVER]
    if any(part.expression == ALWAYS for part in kept):
        return ALWAYS_PART
    return _joined(kept, sum(part.filters for part in kept), disjoin)


def _joined(
    parts: list[Part], filters: int, join: Callable[[Iterable[Expression]], Expression]
) -> Part:
    if len(parts) == 1:
        return parts[0]
    size = sum(part.size for part in parts)
    height = 1 + max((part.height for part in parts), default=0)
    if size > MAX_SIZE or filters > MAX_FILTERS or height > MAX_PART_HEIGHT:
        raise TooLarge
    return Part(join(part.expression for part in parts), size, filters, height)


def constrained(name: str, operator: str, kind: str, operand: Operand = None) -> Part:
    """One constraint."""
    return Part(Constraint(name, operator, kind, False, operand), _weight(operand))


def _weight(operand: Operand) -> int:
    """The size of a constraint: more than one if it holds long lists or texts."""
    values = operand if isinstance(operand, tuple) else (operand,)
    length = sum(len(value) for value in values if isinstance(value, str))
    return 1 + len(values) // 64 + length // 256


def exists(name: str, kind: str = "any") -> Part:
    """The attribute is present, with a value of this type."""
    return constrained(name, "exists", kind)


def negated(part: Part) -> Part:
    """The negation of a single constraint."""
    assert isinstance(part.expression, Constraint)
    return part._replace(expression=part.expression.negate())


def holds(node: Node) -> Part:
    """The residual of a node, with nothing beside it."""
    return constrained("", "holds", "any", ("cesql", write_expression(node)))


def residual(node: Node, wanted: bool) -> Part:
    """A residual for what our constraints cannot say in short, beside the attributes it needs."""
    test = as_boolean(node) if wanted else Node("not", (as_boolean(node),))
    needed = sorted(_needed(node, wanted))[:MAX_NEEDED]
    return all_of([*map(exists, needed), holds(test)])


def _needed(node: Node, wanted: bool | None = None) -> frozenset[str]:
    """The attributes without which a node is an error, or not as wanted."""
    match node.operator:
        case "name":
            return frozenset({str(node.value)})
        case "not" if wanted is not None:
            return _needed(node.parts[0], not wanted)
        case "and" | "or" if wanted is (node.operator == "and"):
            return frozenset[str]().union(*(_needed(part, wanted) for part in node.parts))
        case "and" | "or":
            return _needed(node.parts[0])  # evaluation may not reach the other parts
        case _:
            return frozenset[str]().union(*map(_needed, node.parts))


def as_boolean(node: Node) -> Node:
    """A node, cast to a boolean if it is not one."""
    return node if kind(node) == "boolean" else Node("call", (node,), "BOOL")
