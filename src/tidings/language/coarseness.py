"""Coarser predicates: what a router announces where the exact predicate is too large.

`coarser` bounds a predicate by size. It coarsens in steps: shorter texts and lists, then fewer
constraints in each filter, then only which attributes are present, then `true`. After each step
equal and covered filters fall together, so each step has fewer of them. Every step covers the one
before, so an event that matches the predicate matches the coarser one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from tidings.language import expression as ex
from tidings.language import wildcard
from tidings.language.constraint import Constraint, simplify
from tidings.language.errors import NormalFormError
from tidings.language.filter import Filter
from tidings.language.predicate import MAX_FILTERS, Predicate
from tidings.language.reduction import listed
from tidings.language.sets import TOP, after_prefix
from tidings.language.text import MAX_CONSTANTS, MAX_TEXT

EVERYTHING: Final = Predicate(ex.ALWAYS)


class _Grain(NamedTuple):
    """How much of a predicate one step keeps."""

    characters: int  # of a text
    members: int  # of a list
    constraints: int  # of a filter


_GRAINS: Final = (
    _Grain(256, 65_536, 8),
    _Grain(64, 4_096, 2),
    _Grain(64, 4_096, 1),
    _Grain(16, 256, 1),
    _Grain(8, 32, 1),
    _Grain(4, 8, 1),
    _Grain(2, 4, 1),
    _Grain(1, 1, 1),
    _Grain(0, 0, 1),
)
_MULTIPLIED: Final = 64  # filters that factors of a predicate without a normal form may come to
_HOPELESS: Final = 4  # times a bound: what is that large is not reduced, but made coarser at once

# The operators that select best come first.
_SELECTIVE: Final = (
    ("=", "i="),
    ("in", "iin"),
    ("prefix", "iprefix"),
    ("suffix", "isuffix", "contains", "icontains", "like", "ilike"),
    ("between",),
    ("<", "<=", ">", ">=", "matches", "imatches", "holds"),
    ("!=", "i!=", "exists"),
)
_RANK: Final = {operator: rank for rank, row in enumerate(_SELECTIVE) for operator in row}


def coarser(
    predicate: Predicate,
    characters: int = MAX_TEXT,
    constants: int = MAX_CONSTANTS,
    filters: int = MAX_FILTERS,
) -> Predicate:
    """The predicate if it is within the bounds, else one that covers it and is.

    The bounds are on its text, on the constants in it, and on the filters of its normal form, so
    what it returns always has a normal form. At the worst it is `true`.

    >>> from tidings.language.predicate import parse
    >>> one = parse("class = 'alert' and severity > 2 or class = 'alarm' and severity > 7")
    >>> print(coarser(one, characters=50))
    class in ('alarm', 'alert')
    >>> print(coarser(one, characters=20))
    class prefix 'al'
    """
    bounds = Size(characters, constants, filters)
    if _fits(predicate, bounds):
        return predicate
    kept: Collection[Filter]
    try:
        kept = predicate.filters
    except NormalFormError:
        kept = _outline(predicate.expression, min(_MULTIPLIED, filters))
        if (found := _within(kept, bounds)) is not None:
            return found
        kept = _outline(predicate.expression, 1)
    coarsest = {f for filter in kept for f in _coarser_filters(filter, _GRAINS[-1])}
    if len(coarsest) > filters or () in coarsest:
        return EVERYTHING
    kept = _gathered(kept)
    if (found := _within(kept, bounds)) is not None:
        return found
    for grain in _GRAINS:
        if _is_within(kept, grain):
            continue
        kept = _gathered({f for filter in kept for f in _coarser_filters(filter, grain)})
        if (found := _within(kept, bounds)) is not None:
            return found
    return EVERYTHING


def _is_within(filters: Collection[Filter], grain: _Grain) -> bool:
    """Whether a grain keeps all of these filters as they are."""
    return grain.characters > 8 and all(
        len(filter) <= grain.constraints and all(_is_kept(c, grain) for c in filter)
        for filter in filters
    )


def _is_kept(constraint: Constraint, grain: _Grain) -> bool:
    """Whether a constraint has neither a longer text nor a longer list than a grain keeps."""
    operand = constraint.operand
    if isinstance(operand, tuple):
        return len(operand) <= grain.members and max(map(_length, operand)) <= grain.characters
    return _length(operand) <= grain.characters


class Size(NamedTuple):
    """How large a predicate is; `filters` is None if it has no normal form."""

    characters: int
    constants: int
    filters: int | None


def size(predicate: Predicate) -> Size:
    """How large a predicate is."""
    constants = sum(map(_constants, ex.constraints(predicate.expression)))
    try:
        filters = len(predicate.filters)
    except NormalFormError:
        return Size(len(str(predicate)), constants, None)
    return Size(len(str(predicate)), constants, filters)


def _fits(predicate: Predicate, bounds: Size) -> bool:
    return all(
        found is not None and bound is not None and found <= bound
        for found, bound in zip(size(predicate), bounds, strict=True)
    )


def _within(filters: Collection[Filter], bounds: Size) -> Predicate | None:
    """The predicate of these filters, reduced, if it is within the bounds."""
    assert bounds.filters is not None
    constraints = [c for filter in filters for c in filter]
    if (
        len(filters) > _HOPELESS * bounds.filters
        or sum(map(_constants, constraints)) > _HOPELESS * (1 + bounds.constants)
        or sum(map(_characters, constraints)) > _HOPELESS * bounds.characters
    ):
        return None
    found = Predicate(ex.disjoin(map(ex.conjoin, sorted(filters)))).reduce()
    return found if _fits(found, bounds) else None


def _gathered(filters: Collection[Filter]) -> set[Filter]:
    """The filters, where those that ask only for one value of an attribute become one list."""
    values: dict[tuple[str, str], list[Constraint]] = {}
    others: set[Filter] = set()
    for filter in filters:
        first = filter[0] if len(filter) == 1 else None
        if first and first.operator in ("=", "in") and not first.negated and first.type != "bool":
            values.setdefault((first.name, first.type), []).append(first)
        else:
            others.add(filter)
    for (name, kind), same in values.items():
        others.add(Filter((listed(name, kind, same) if len(same) > 1 else same[0],)))
    return others


def _characters(constraint: Constraint) -> int:
    """About how many characters the text of a constraint has."""
    operand = constraint.operand
    values = operand if isinstance(operand, tuple) else (operand,)
    return len(constraint.name) + 8 + sum(len(v) + 2 if isinstance(v, str) else 3 for v in values)


def _constants(constraint: Constraint) -> int:
    """How many constants the text of a constraint has."""
    match constraint.operator:
        case "exists":
            return 0
        case "like" | "ilike":
            return 2  # it may need an escape character
        case "holds":
            return 1
        case _:
            return len(constraint.operand) if isinstance(constraint.operand, tuple) else 1


def _coarser_filters(filter: Filter, grain: _Grain) -> list[Filter]:
    """Filters that together cover this one."""
    if grain.constraints == 1 and grain.characters:
        best = min(filter, key=_rank)
        if best.operator in ("in", "iin") and best.type == "string" and not best.negated:
            return [Filter((start,)) for start in _starts(best, grain)]
    coarse = (_coarser_constraint(constraint, grain) for constraint in filter)
    kept = sorted({c for c in coarse if c is not None}, key=_rank)
    return [Filter(sorted(kept[: grain.constraints]))]


def _starts(constraint: Constraint, grain: _Grain) -> list[Constraint]:
    """How the texts of a list begin, in as much detail as the grain allows; or the list itself."""
    assert isinstance(constraint.operand, tuple)
    texts = list(map(str, constraint.operand))
    if len(texts) <= grain.members and max(map(len, texts)) <= grain.characters:
        return [constraint]
    prefix = "iprefix" if constraint.operator == "iin" else "prefix"
    length = grain.characters
    while length:
        starts = {text[:length] for text in texts}
        if len(starts) <= grain.members:
            simple = (simplify(constraint._replace(operator=prefix, operand=s)) for s in starts)
            return [c for c in simple if c is not None]
        length //= 2
    return [_present(constraint)]


def _rank(constraint: Constraint) -> tuple[Any, ...]:
    return constraint.negated, _RANK[constraint.operator], constraint


def _coarser_constraint(constraint: Constraint, grain: _Grain) -> Constraint | None:
    """A constraint that this one implies; None for none that is worth keeping."""
    if constraint.operator == "holds":
        fits = grain.characters > 0 and len(str(constraint.operand)) <= 8 * grain.characters
        return constraint if fits else None
    if constraint.negated:
        return _coarser_negation(constraint, grain)
    if not grain.characters:
        return _present(constraint._replace(type="any"))
    simple = _coarser_positive(constraint, grain)
    return simplify(simple) or _present(constraint)


def _coarser_negation(constraint: Constraint, grain: _Grain) -> Constraint | None:
    """What is refused can be listed more briefly, but not by shorter texts."""
    if grain.characters <= 8:
        return None
    operand = constraint.operand
    if isinstance(operand, tuple) and constraint.operator != "between":
        short = tuple(v for v in operand if _length(v) <= grain.characters)[: grain.members]
        return constraint._replace(operand=short) if len(short) > 1 else None
    values = operand if isinstance(operand, tuple) else (operand,)
    return constraint if all(_length(value) <= grain.characters for value in values) else None


def _coarser_positive(constraint: Constraint, grain: _Grain) -> Constraint:
    operator, operand = constraint.operator, constraint.operand
    if operator in ("in", "iin"):
        assert isinstance(operand, tuple)
        if len(operand) <= grain.members and max(map(_length, operand)) <= grain.characters:
            return constraint
        return _coarser_list(constraint, operand, grain)
    if constraint.type != "string" or operator == "exists":
        return constraint
    if operator == "between":
        assert isinstance(operand, tuple)
        low, high = map(str, operand)
        if max(len(low), len(high)) <= grain.characters:
            return constraint
        shared = _shared_start(low, high)
        if shared:
            return constraint._replace(operator="prefix", operand=shared[: grain.characters])
        return constraint._replace(operator=">=", operand=low[: grain.characters])
    text = str(operand)
    if len(text) <= grain.characters:
        return constraint
    return _shorter(constraint, text, grain.characters)


def _shorter(constraint: Constraint, text: str, length: int) -> Constraint:
    """A constraint with a shorter text, which a constraint with a text implies."""
    match constraint.operator:
        case "=" | "prefix":
            return constraint._replace(operator="prefix", operand=text[:length])
        case "i=" | "iprefix":
            return constraint._replace(operator="iprefix", operand=text[:length])
        case "suffix" | "isuffix":
            return constraint._replace(operand=text[-length:])
        case "contains" | "icontains":
            return constraint._replace(operand=text[:length])
        case ">" | ">=":
            return constraint._replace(operator=">=", operand=text[:length])
        case "<" | "<=":
            end = after_prefix(text[:length])
            return (
                _present(constraint)
                if end is TOP
                else constraint._replace(operator="<", operand=end)
            )
        case "like" | "ilike":
            return _shorter_pattern(constraint, text, length)
        case "!=" | "i!=" | "matches" | "imatches":
            return _present(constraint)
        case operator:
            raise AssertionError(f"{operator!r} has no text")


def _shorter_pattern(constraint: Constraint, pattern: str, length: int) -> Constraint:
    """The beginning of a pattern if it is plain text, else its longest plain piece."""
    pieces = wildcard.pieces(pattern)
    ignoring = "i" if constraint.operator == "ilike" else ""
    longest = max(pieces, key=len)
    if pieces[0] and 2 * len(pieces[0]) >= min(len(longest), length):
        return constraint._replace(operator=ignoring + "prefix", operand=pieces[0][:length])
    return constraint._replace(operator=ignoring + "contains", operand=longest[:length])


def _coarser_list(constraint: Constraint, members: tuple[Any, ...], grain: _Grain) -> Constraint:
    """How all values of a list begin, or between which they lie."""
    if constraint.type != "string":
        if constraint.type == "bool":
            return _present(constraint)
        return constraint._replace(operator="between", operand=(members[0], members[-1]))
    prefix = "iprefix" if constraint.operator == "iin" else "prefix"
    shared = _shared_start(members[0], members[-1])[: grain.characters]
    return constraint._replace(operator=prefix, operand=shared)


def _shared_start(first: str, last: str) -> str:
    """How both texts begin, and so every text between them."""
    length = 0
    for one, other in zip(first, last, strict=False):
        if one != other:
            break
        length += 1
    return first[:length]


def _present(constraint: Constraint) -> Constraint:
    return constraint._replace(operator="exists", operand=None)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 1


# Predicates without a normal form


def _outline(expression: ex.Expression, product: int, negated: bool = False) -> set[Filter]:
    """Filters that together cover an expression: of a conjunction they keep the smallest factors.

    It keeps one factor, and others while their filters multiply to at most `product`.
    """
    if isinstance(expression, Constraint):
        simple = simplify(expression)
        refuses = expression.negated is not negated
        if simple is None:  # no value satisfies it
            return {Filter()} if refuses else set()
        return {Filter((simple._replace(negated=refuses),))}
    if isinstance(expression, ex.Not):
        return _outline(expression.part, product, not negated)
    parts = [_outline(part, product, negated) for part in expression.parts]
    if isinstance(expression, ex.And) is negated:
        return {filter for part in parts for filter in part}
    if not all(parts):
        return set()
    parts.sort(key=len)
    singles = [part for part in parts if len(part) == 1]
    kept = {Filter(sorted({c for (filter,) in singles for c in filter}))}
    for part in parts[len(singles) :]:
        if kept != {Filter()} and len(kept) * len(part) > product:
            break
        kept = {Filter(sorted({*f, *g})) for f in kept for g in part}
    return kept
