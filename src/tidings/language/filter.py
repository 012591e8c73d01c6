"""Filters: conjunctions of constraints, and what follows from one.

Attributes are independent, so a filter is looked at one attribute at a time. There an event has a
set A of scalars, a constraint with set S asks that A meets S, a negated one that it does not. For
the constraints on one attribute, accepting S1 … Sk and refusing T (all the negated ones together):

- no event satisfies them iff some Si lies within T;
- they imply "meets S" iff some Si lies within T and S together (else take a value of each Si
  outside both: it satisfies them and does not meet S);
- they imply "does not meet S" iff S lies within T (else add a value of S outside T).

That is exact for attributes that may hold lists. With `lists=False`, when every attribute is known
to hold one value at most, k values must be one, and the intersection of S1 … Sk takes the place of
each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidings.language.constraint import Check, Constraint
from tidings.language.expression import And, compile_check
from tidings.language.sets import subset, surely_empty
from tidings.language.text import write
from tidings.language.work import CHEAP, THOROUGH, Work

MAX_COMPARED: Final = 64  # constraints of one filter on one attribute compared with each other


class Filter(tuple[Constraint, ...]):
    """A conjunction in normal form: constraints simplified, sorted, none evidently redundant.

    Evidently impossible ones do not come up; `possible` looks closer. With no constraint it holds
    for every event.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Filter({self})"

    def __str__(self) -> str:
        return write(And(tuple(self)))

    def check(self) -> Check:
        """A function that tells whether an event satisfies the filter."""
        return compile_check(And(tuple(self)))

    def covers(self, other: Filter, lists: bool = True, work: Work = THOROUGH) -> bool:
        """Whether every event that satisfies the other satisfies this one. Exact (see `sets`)."""
        work.spend(2 + len(self) + len(other))
        return self.follows(by_name(other), lists, work) or not other.possible(lists, work)

    def follows(
        self, given: Mapping[str, Sequence[Constraint]], lists: bool = True, work: Work = THOROUGH
    ) -> bool:
        """Whether satisfiable constraints, given by attribute, surely imply all of this filter."""
        for constraint in self:
            same = given.get(constraint.name)
            if same is None or not implied(constraint, same, lists, work):
                return False
        return True

    def possible(self, lists: bool = True, work: Work = THOROUGH) -> bool:
        """Whether some event may satisfy the filter. No is certain."""
        return not any(
            len(same) > 1 and unsatisfiable(same, lists, work) for same in by_name(self).values()
        )

    def intersects(self, other: Filter, lists: bool = True, work: Work = THOROUGH) -> bool:
        """Whether some event may satisfy both. No is certain."""
        together = by_name((*self, *other))
        work.spend(2 + len(self) + len(other))
        return not any(
            len(same) > 1 and unsatisfiable(same, lists, work) for same in together.values()
        )


def by_name(constraints: Sequence[Constraint]) -> dict[str, list[Constraint]]:
    """The constraints of a filter by attribute."""
    grouped: dict[str, list[Constraint]] = {}
    for constraint in constraints:
        if constraint.name in grouped:
            grouped[constraint.name].append(constraint)
        else:
            grouped[constraint.name] = [constraint]
    return grouped


def unsatisfiable(
    constraints: Sequence[Constraint], lists: bool = True, work: Work = THOROUGH
) -> bool:
    """Whether surely no attribute satisfies these constraints on it."""
    accepting = [c for c in constraints if not c.negated]
    refusing = [c for c in constraints if c.negated]
    if not accepting:
        return False
    if not lists:
        return surely_empty(accepting, refusing, work)
    return bool(refusing) and any(surely_empty((c,), refusing, work) for c in accepting)


def implied(
    constraint: Constraint, given: Sequence[Constraint], lists: bool = True, work: Work = THOROUGH
) -> bool:
    """Whether satisfiable constraints on one attribute surely imply another on it."""
    if len(given) == 1 and (lists or not constraint.negated):  # the usual case, made quick
        (only,) = given
        if constraint.negated:
            return only.negated and subset(constraint, only, work)
        return not only.negated and subset(only, constraint, work)
    work.spend(1 + len(given) // 8)
    if constraint in given:
        return True
    refusing = [c for c in given if c.negated]
    if len(refusing) == len(given) or (lists and constraint.negated):
        # Nothing is accepted, or what is says nothing about further values.
        return constraint.negated and surely_empty((constraint,), refusing, work)
    accepting = [c for c in given if not c.negated]
    if not lists:
        if constraint.negated:
            return surely_empty((*accepting, constraint), refusing, work)
        return surely_empty(accepting, (*refusing, constraint), work)
    if not refusing:
        return any(subset(c, constraint, work) for c in accepting)
    return any(surely_empty((c,), (*refusing, constraint), work) for c in accepting)


def normalise(
    constraints: Iterable[Constraint], lists: bool = True, work: Work = CHEAP
) -> Filter | None:
    """The filter of simplified constraints; None where no event satisfies them."""
    ordered = sorted(constraints)
    names = {c.name for c in ordered}
    if len(names) == len(ordered):
        return Filter(ordered)
    kept: list[Constraint] = []
    for name, same in by_name(list(dict.fromkeys(ordered))).items():
        if not name:  # tests of other dialects: one contradicts only its own negation
            if len({c.operand for c in same}) < len(same):
                return None
        elif 1 < len(same) <= MAX_COMPARED:
            if unsatisfiable(same, lists, work):
                return None
            same = _irredundant(same, lists, work)
        kept.extend(same)
    return Filter(kept)


def _irredundant(same: list[Constraint], lists: bool, work: Work) -> list[Constraint]:
    """The constraints on one attribute without those that the others imply."""
    for constraint in list(same):
        others = [c for c in same if c is not constraint]
        if others and implied(constraint, others, lists, work):
            same = others
    return same
