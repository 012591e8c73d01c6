"""The normal form of an expression: a sorted disjunction of filters.

It is a function of the expression alone, so a text has the normal form of the predicate that wrote
it. There are two cases:

- An expression that is written as a disjunction of conjunctions, as every union is, has a normal
  form, however large: as many filters as alternatives, less those that others cover. Where finding
  those takes too many steps, all alternatives stay.
- Any other expression has to be multiplied out, and a short text can mean astronomically many
  filters. Where they or the steps pass a bound, there is no normal form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidings.language.constraint import Constraint, simplify
from tidings.language.expression import And, Expression, Not, Or
from tidings.language.filter import Filter, normalise
from tidings.language.reduction import absorb
from tidings.language.work import OutOfSteps, Work

STEPS_PER_FILTER: Final = 24  # of the bound on filters, to multiply out
CONSTRAINTS_PER_FILTER: Final = 2  # of that bound, in all filters together
_FEW_CONSTRAINTS: Final = 1_024  # are always allowed


def normal_form(expression: Expression, max_filters: int) -> tuple[Filter, ...] | None:
    """The reduced disjunction of filters; None if it would pass a bound."""
    alternatives = _alternatives(expression)
    if alternatives is not None:
        return tuple(_reduced(alternatives))
    try:
        return tuple(_Expansion(max_filters).of(expression, negated=False))
    except OutOfSteps:
        return None


def too_large(expression: Expression, max_filters: int) -> Expression | None:
    """The part that multiplies out past a bound, the innermost; None if none does."""
    if _alternatives(expression) is not None:
        return None
    expansion = _Expansion(max_filters)
    try:
        expansion.of(expression, negated=False)
    except OutOfSteps:
        return expansion.stuck
    return None


def is_reduced(expression: Expression) -> bool:
    """Whether the alternatives of a disjunction are few enough to find those that others cover."""
    alternatives = _alternatives(expression)
    if alternatives is None or len(alternatives) < 2:
        return True
    plain = _plain(alternatives)
    try:
        _absorbed(plain, Work.on(sum(map(len, plain)), thorough=False))
    except OutOfSteps:
        return False
    return True


def _alternatives(expression: Expression) -> list[Filter] | None:
    """The alternatives of a disjunction of conjunctions, simplified; None for anything else."""
    parts = expression.parts if isinstance(expression, Or) else (expression,)
    found: list[Filter] = []
    for part in parts:
        conjuncts = part.parts if isinstance(part, And) else (part,)
        simple: list[Constraint] = []
        impossible = False
        for constraint in conjuncts:
            if not isinstance(constraint, Constraint):
                return None
            simpler = simplify(constraint)
            if simpler is not None:
                simple.append(simpler)
            elif not constraint.negated:  # no value satisfies it
                impossible = True
        if not impossible:
            found.append(Filter(simple))
    return found


def _reduced(alternatives: list[Filter]) -> list[Filter]:
    if len(alternatives) == 1 and len({c.name for c in alternatives[0]}) == len(alternatives[0]):
        return [Filter(sorted(alternatives[0]))]  # nearly all predicates
    plain = _plain(alternatives)
    work = Work.on(sum(map(len, plain)), thorough=False)
    try:
        return _absorbed(plain, work)
    except OutOfSteps:
        return plain


def _plain(alternatives: list[Filter]) -> list[Filter]:
    """The alternatives in their order, each once and with each constraint once."""
    return sorted({f if len(f) < 2 else Filter(sorted(set(f))) for f in alternatives})


def _absorbed(conjunctions: Iterable[Iterable[Constraint]], work: Work) -> list[Filter]:
    """Conjunctions as filters: each reduced, none covered by another; sorted."""
    filters = (normalise(conjunction, work=work) for conjunction in conjunctions)
    return absorb((filter for filter in filters if filter is not None), work=work)


class _Expansion:
    """One expression multiplied out, with its bound and its work.

    It reduces after each step, so what is absorbed does not count.
    """

    def __init__(self, max_filters: int) -> None:
        self.max_filters = max_filters
        self.work = Work(STEPS_PER_FILTER * max(max_filters, 256), thorough=False)
        self.stuck: Expression | None = None  # the part that passed a bound

    def of(self, expression: Expression, negated: bool) -> list[Filter]:
        if isinstance(expression, Constraint):
            self.work.spend(1)
            simple = simplify(expression)
            refuses = expression.negated is not negated
            if simple is None:  # no value satisfies it
                return [Filter()] if refuses else []
            return [Filter((simple._replace(negated=refuses),))]
        if isinstance(expression, Not):
            return self.of(expression.part, not negated)
        parts = [self.of(part, negated) for part in dict.fromkeys(expression.parts)]
        try:
            if isinstance(expression, And) is not negated:
                return self._product(parts)
            return self._reduced({filter for part in parts for filter in part})
        except OutOfSteps:
            self.stuck = expression
            raise

    def _product(self, parts: list[list[Filter]]) -> list[Filter]:
        # The smallest first; single filters are joined once instead of into every product.
        parts.sort(key=lambda part: (len(part), part))
        if parts and not parts[0]:
            return []
        singles = [part[0] for part in parts if len(part) == 1]
        together = normalise({c for single in singles for c in single}, work=self.work)
        if together is None:
            return []
        result = [together]
        names = {c.name for c in together}
        for part in parts[len(singles) :]:
            if not result:
                return []
            if len(result) * len(part) > 4 * self.max_filters:
                raise OutOfSteps
            longest = len(max(result, key=len)) + len(max(part, key=len))
            self.work.spend(len(result) * len(part) * (2 + longest // 8))
            here = {c.name for filter in part for c in filter}
            if names.isdisjoint(here):  # then no product covers another
                result = [Filter(sorted(left + right)) for left in result for right in part]
                self._bound(result)
            else:
                result = self._reduced({Filter(sorted({*f, *g})) for f in result for g in part})
            names |= here
        return sorted(result)

    def _reduced(self, filters: set[Filter]) -> list[Filter]:
        if len(filters) < 2:
            return list(filters)
        self.work.spend(2 * len(filters) + sum(map(len, filters)))
        return self._bound(_absorbed(sorted(filters), self.work))

    def _bound(self, filters: list[Filter]) -> list[Filter]:
        if len(filters) < 2:
            return filters
        constraints = max(CONSTRAINTS_PER_FILTER * self.max_filters, _FEW_CONSTRAINTS)
        if len(filters) > self.max_filters or sum(map(len, filters)) > constraints:
            raise OutOfSteps
        return filters
