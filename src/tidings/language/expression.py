"""Expressions: constraints combined by and, or and not, as they were written.

`compile_check` makes a function that tests an event, and `expand` computes the normal form.
Everything except plain matching works on the normal form. Its size is bounded, because a short text
can mean a disjunction of astronomically many filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidings.language.constraint import Check, Constraint, check, simplify

MAX_DEPTH: Final = 64


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
    """How deep the expression nests; a constraint has depth 1."""
    if isinstance(expression, Constraint):
        return 1
    if isinstance(expression, Not):
        return 1 + depth(expression.part)
    return 1 + max(map(depth, expression.parts), default=0)


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


class TooManyFilters(Exception):
    """The normal form would pass the bound."""


Conjunction = frozenset[Constraint]
Reduce = Callable[[list[Conjunction]], list[Conjunction]]


def expand(expression: Expression, max_filters: int, reduce: Reduce) -> list[Conjunction]:
    """The equivalent disjunction of conjunctions, of simplified constraints.

    It applies `reduce` after each step, so what is absorbed does not count. Raises `TooManyFilters`
    if a step passes the bound, or if the work of all steps passes a fixed multiple of it: hostile
    text may need much work that is absorbed again.
    """
    return _Expansion(max_filters, reduce).of(expression, negated=False)


class _Expansion:
    """One expansion, with its bound and the rest of its budget, in constraints handled."""

    def __init__(self, max_filters: int, reduce: Reduce) -> None:
        self.max_filters = max_filters
        self.reduce = reduce
        self.budget = max(64 * max_filters, 4096)

    def of(self, expression: Expression, negated: bool) -> list[Conjunction]:
        if isinstance(expression, Constraint):
            simple = simplify(expression)
            refuses = expression.negated is not negated
            if simple is None:  # no value satisfies it
                return [frozenset()] if refuses else []
            return [frozenset({simple._replace(negated=refuses)})]
        if isinstance(expression, Not):
            return self.of(expression.part, not negated)
        parts = [self.of(part, negated) for part in dict.fromkeys(expression.parts)]
        if isinstance(expression, And) is not negated:
            return self._product(parts)
        return self._reduced([conjunction for part in parts for conjunction in part])

    def _product(self, parts: list[list[Conjunction]]) -> list[Conjunction]:
        # Single conjunctions first: they are merged once instead of into every product.
        parts.sort(key=len)
        if parts and not parts[0]:
            return []
        singles = [part[0] for part in parts if len(part) == 1]
        result: list[Conjunction] = [frozenset[Constraint]().union(*singles)]
        for part in parts[len(singles) :]:
            if len(result) * len(part) > 4 * self.max_filters:
                raise TooManyFilters
            result = self._reduced([left | right for left in result for right in part])
        return result

    def _reduced(self, conjunctions: list[Conjunction]) -> list[Conjunction]:
        if len(conjunctions) > 1:
            # Long conjunctions cost more than their length: constraints are compared in pairs.
            self.budget -= sum(n + n * n // 32 for n in map(len, conjunctions))
            if self.budget < 0:
                raise TooManyFilters
            conjunctions = self.reduce(list(dict.fromkeys(conjunctions)))
            if len(conjunctions) > self.max_filters:
                raise TooManyFilters
        return conjunctions
