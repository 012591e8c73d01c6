"""The hull of filters: one filter that covers several, for imprecise merging (S13).

It has the attributes that all of them have. On each it keeps what the filters have in common: equal
constraints, those of one that the other implies, and the hull of two, an `in` list of a few values,
the range between the outer bounds, or how both texts begin. What is not proven to hold for all of
them is left out, so the hull always covers what it stands for. Attributes may hold lists: a hull
comes from one constraint of each filter, never from an intersection of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from tidings.language.constraint import Constraint, simplify
from tidings.language.filter import Filter, by_name, implied, normalise
from tidings.language.reduction import listed

MOST_LISTED: Final = 16  # values in a list, before it becomes a range or a prefix
_LOWER: Final = frozenset({">", ">=", "between", "=", "in"})
_UPPER: Final = frozenset({"<", "<=", "between", "=", "in"})


def hull(one: Filter, other: Filter) -> Filter:
    """A filter that covers both.

    >>> from tidings.language.predicate import parse
    >>> (a,), (b,) = parse("x = 1 and y > 3").filters, parse("x = 4 and y > 5 and z = 1").filters
    >>> print(hull(a, b))
    x in (1, 4) and y > 3
    """
    kept: list[Constraint] = []
    theirs = by_name(other)
    for name, mine in by_name(one).items():
        if name in theirs:
            kept.extend(_common(mine, theirs[name]))
    found = normalise(dict.fromkeys(kept))
    return found if found is not None and found.covers(one) and found.covers(other) else Filter()


def _common(mine: Sequence[Constraint], theirs: Sequence[Constraint]) -> list[Constraint]:
    """What the constraints of both filters on one attribute imply."""
    found = [constraint for constraint in mine if implied(constraint, theirs)]
    found += [constraint for constraint in theirs if implied(constraint, mine)]
    for one, other in product(mine, theirs):
        joined = None if one.negated or other.negated else _joined(one, other)
        if joined is not None and implied(joined, mine) and implied(joined, theirs):
            found.append(joined)
    return found


def _joined(one: Constraint, other: Constraint) -> Constraint | None:
    """A constraint that either of two implies."""
    if one == other:
        return one
    exists = Constraint(one.name, "exists", "any", False, None)
    if one.type != other.type or one.type == "bool" or not one.name:
        return exists if one.name else None
    values = {"=", "in"}
    if {one.operator, other.operator} <= values:
        together = listed(one.name, one.type, (one, other))
        if len(together.operand) <= MOST_LISTED:  # type: ignore[arg-type]
            return together
    found = _texts(one, other) if one.type == "string" else _range(one, other)
    return (found and simplify(found)) or exists


def _texts(one: Constraint, other: Constraint) -> Constraint | None:
    """How the texts of both begin; or the range between their bounds."""
    starts = [_start(one), _start(other)]
    if None not in starts:
        shared = _shared(str(starts[0]), str(starts[1]))
        if shared:
            return one._replace(operator="prefix", operand=shared)
    return _range(one, other)


def _start(constraint: Constraint) -> str | None:
    """How every text that a constraint accepts begins; None if that is not known."""
    operand: Any = constraint.operand
    if constraint.operator in ("=", "prefix"):
        return str(operand)
    if constraint.operator in ("in", "between"):
        return _shared(operand[0], operand[-1])
    return None


def _shared(one: str, other: str) -> str:
    """How both texts begin, and so every text between them."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return one[:length]


def _range(one: Constraint, other: Constraint) -> Constraint | None:
    """The range from the lower of both lower bounds to the higher of both upper bounds."""
    lows, highs = [_low(one), _low(other)], [_high(one), _high(other)]
    low = None if None in lows else min(lows, key=lambda end: (end[0], end[1]))  # type: ignore[index]
    high = None if None in highs else max(highs, key=lambda end: (end[0], not end[1]))  # type: ignore[index]
    if low is not None and high is not None:
        return one._replace(operator="between", operand=(low[0], high[0]))
    if low is not None:
        return one._replace(operator=">" if low[1] else ">=", operand=low[0])
    if high is not None:
        return one._replace(operator="<" if high[1] else "<=", operand=high[0])
    return None


def _low(constraint: Constraint) -> tuple[Any, bool] | None:
    """The lower bound of a constraint, and whether it is itself left out; None if there is none."""
    if constraint.operator not in _LOWER:
        return None
    operand: Any = constraint.operand
    value = operand[0] if constraint.operator in ("between", "in") else operand
    return value, constraint.operator == ">"


def _high(constraint: Constraint) -> tuple[Any, bool] | None:
    """The upper bound of a constraint, and whether it is itself left out; None if there is none."""
    if constraint.operator not in _UPPER:
        return None
    operand: Any = constraint.operand
    value = operand[-1] if constraint.operator in ("between", "in") else operand
    return value, constraint.operator == "<"
