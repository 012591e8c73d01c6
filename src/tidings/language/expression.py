"""Expressions: constraints combined by and, or and not, as they were written.

`compile_check` makes a function that tests an event. Everything except plain matching works on the
normal form (`normal_form`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidings.language.constraint import Check, Constraint, check

MAX_DEPTH: Final = 64  # parentheses within each other in the text


@dataclass(frozen=True, slots=True)
class And:
    """All of the parts hold; with no part, always true."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the parts holds; with no part, never true."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold. A negated constraint is a `Constraint`, not a `Not`."""

    part: And | Or


Expression = Constraint | And | Or | Not

ALWAYS: Final = And(())
NEVER: Final = Or(())


def negate(expression: Expression) -> Expression:
    """The expression that holds exactly when this one does not."""
    if isinstance(expression, Constraint):
        return expression.negate()
    if isinstance(expression, Not):
        return expression.part
    if not expression.parts:
        return NEVER if isinstance(expression, And) else ALWAYS
    return Not(expression)


def conjoin(parts: Iterable[Expression]) -> Expression:
    """The conjunction of the parts; nested conjunctions are flattened."""
    flat: list[Expression] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, And) else (part,))
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjoin(parts: Iterable[Expression]) -> Expression:
    """The disjunction of the parts; nested disjunctions are flattened."""
    flat: list[Expression] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Or) else (part,))
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def depth(expression: Expression) -> int:
    """How many parentheses stand within each other in the text of the expression."""
    if isinstance(expression, Constraint):
        return 0
    if isinstance(expression, Not):
        return 1 + depth(expression.part)
    within = isinstance(expression, And)  # there a disjunction stands in parentheses
    return max(
        (
            depth(part) + (within and isinstance(part, Or) and bool(part.parts))
            for part in expression.parts
        ),
        default=0,
    )


def constraints(expression: Expression) -> Iterable[Constraint]:
    """Every constraint, in the order written."""
    if isinstance(expression, Constraint):
        yield expression
    elif isinstance(expression, Not):
        yield from constraints(expression.part)
    else:
        for part in expression.parts:
            yield from constraints(part)


def compile_check(expression: Expression) -> Check:
    """A function that tells whether an event satisfies the expression."""
    if isinstance(expression, Constraint):
        return check(expression)
    if isinstance(expression, Not):
        inner = compile_check(expression.part)
        return lambda event: not inner(event)
    parts = tuple(map(compile_check, expression.parts))
    decisive = isinstance(expression, Or)
    if len(parts) == 2:  # most predicates: no loop
        first, second = parts
        if decisive:
            return lambda event: first(event) or second(event)
        return lambda event: first(event) and second(event)

    def holds(event: Mapping[str, Any]) -> bool:
        for part in parts:
            if part(event) is decisive:
                return decisive
        return not decisive

    return holds
