"""The filters by which a table finds a predicate, and what is left to evaluate."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.language.constraint import Constraint, simplify
from tidings.language.errors import NormalFormError
from tidings.language.expression import And, Expression
from tidings.language.predicate import Predicate


def filters_of(
    predicate: Predicate,
) -> tuple[Sequence[Sequence[Constraint]], Expression | None]:
    """The filters of a predicate, and its expression if they do not say all.

    Without a normal form there is one filter, of what every event that satisfies the predicate must
    satisfy; the expression decides.
    """
    try:
        return predicate.filters, None
    except NormalFormError:
        expression = predicate.expression
        parts = expression.parts if isinstance(expression, And) else (expression,)
        simple = (simplify(part) for part in parts if isinstance(part, Constraint))
        return [tuple(c for c in simple if c is not None)], expression
