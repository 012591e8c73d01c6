"""Spans: where the constraints on one attribute lie among numbers, or among texts.

The *span* of some constraints goes from their greatest lower bound to their least upper bound. If a
filter covers another, then on each attribute its span contains that of the other. So among very
many filters those that cover a given one, or that it covers, are found by their spans: few others
have to be compared.

Spans that contain another are found by *cells*. A span that is shorter than 2^n is in a cell of a
sixteenth of this width, by its lower bound. One that contains another begins at most 2^n before the
other's end, and not after its beginning; so it is in one of few cells.

Not all constraints have spans. A negated one has none, nor one on whole numbers only, where `> 4`
means `>= 5`; nor have bounds that cross, which two elements of a list may satisfy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from tidings.language.constraint import Constraint

Span = tuple[float, float]

CELLS: Final = 16  # in the width of the longest spans that are in them
LARGEST: Final = 2.0**53  # whole numbers up to this are exact as floats
NARROWEST: Final = -20  # the exponent of the smallest width of a cell


def span_of(same: Iterable[Constraint]) -> Span | None:
    """The span of the constraints on one attribute; None if they have none.

    >>> [span_of([Constraint("x", ">", "number", False, 5)])]
    [(5, inf)]
    """
    low, high = -math.inf, math.inf
    for constraint in same:
        if constraint.negated or constraint.type not in ("number", "real"):
            return None
        operand: Any = constraint.operand
        match constraint.operator:
            case ">" | ">=":
                bounds = operand, math.inf
            case "<" | "<=":
                bounds = -math.inf, operand
            case "=":
                bounds = operand, operand
            case "between" | "in":
                bounds = operand[0], operand[-1]
            case _:
                return None
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return (low, high) if low <= high else None  # a NaN is never less


def cell_of(span: Span | None) -> tuple[int, int] | None:
    """The cell of a span: the exponent of its width, and its place; None without two bounds.

    >>> cell_of((5, 15)), cell_of((5, math.inf))
    ((4, 5), None)
    """
    if span is None or not -LARGEST < span[0] <= span[1] < LARGEST:
        return None
    exponent = max(NARROWEST, math.frexp(span[1] - span[0])[1])
    return exponent, _place(span[0], exponent)


def cells_around(span: Span, exponents: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The cells of all spans that contain this one and have these exponents."""
    low, high = span
    for exponent in exponents:
        first, last = _place(high, exponent) - CELLS, _place(low, exponent)
        for place in range(last, first - 1, -1):
            yield exponent, place


def _place(number: float, exponent: int) -> int:
    return math.floor(math.ldexp(number, -exponent) * CELLS)


def stem_of(same: Sequence[Constraint]) -> str | None:
    """The text with which an attribute begins by one constraint on it; None if it does not say."""
    if len(same) != 1 or same[0].negated or same[0].type != "string":
        return None
    return str(same[0].operand) if same[0].operator in ("=", "prefix") else None


def after(stem: str) -> str | None:
    """The least text that is greater than all that begin with a text; None if there is none.

    >>> after("ab")
    'ac'
    """
    for end in range(len(stem), 0, -1):
        if stem[end - 1] != "\U0010ffff":
            return stem[: end - 1] + chr(ord(stem[end - 1]) + 1)
    return None
