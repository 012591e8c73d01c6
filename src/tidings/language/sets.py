"""Sets of values: is there a value that some constraints accept and others refuse?

That one question, `surely_empty`, decides everything in the algebra. Each type is treated
separately. Integers, reals and texts are ordered, so a comparison is a list of half-open intervals
[low, high): reals by their order number, in which each double has a successor, and texts by code
point, where the next text after `s` is `s + '\\0'`. Texts have patterns as well; `strings` handles
those.

The answer yes is certain. No may mean "not found": with regular expressions, which are opaque here,
and with patterns that exhaust the search.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from tidings.language.constraint import (
    ACCEPTS,
    TESTS,
    TEXT_ONLY,
    Constraint,
    Operand,
    next_double,
)
from tidings.language.strings import no_text
from tidings.language.work import THOROUGH, Work


class _Top:
    """Above every text."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return self is not other

    def __le__(self, other: object) -> bool:
        return self is other

    def __ge__(self, other: object) -> bool:
        return True


TOP: Final = _Top()
INFINITY: Final = float("inf")
Interval = tuple[Any, Any]  # [low, high) in the order of one type


def surely_empty(
    accepted: Sequence[Constraint], refused: Sequence[Constraint] = (), work: Work = THOROUGH
) -> bool:
    """Whether surely no scalar lies in all of the accepted sets and in none of the refused.

    It ignores the names and negations of the constraints and looks only at their sets. Unless the
    work is thorough, it compares patterns only as far as that is cheap.

    Tests of other dialects (`holds`) are about the whole event and taken as independent: none
    follows from others, and any may hold together.
    """
    work.spend(4 * (len(accepted) + len(refused)) + _members(accepted) + _members(refused))
    if accepted and accepted[0].operator == "holds":  # then all are, as all have one name
        return any(yes.operand == no.operand for yes in accepted for no in refused)
    kinds = ACCEPTS["any"]
    for constraint in accepted:
        kinds &= ACCEPTS[constraint.type]
    return (
        (int not in kinds or _no_number(accepted, refused, int, work))
        and (float not in kinds or _no_real(accepted, refused, work))
        and (str not in kinds or _no_text(accepted, refused, work))
        and (bool not in kinds or _no_boolean(accepted, refused))
    )


def _members(constraints: Sequence[Constraint]) -> int:
    """How many values the lists of constraints have, counted as steps."""
    lists = (c.operand for c in constraints if c.operator in _LISTS)
    return sum(4 * len(operand) for operand in lists if isinstance(operand, tuple))


def subset(part: Constraint, whole: Constraint, work: Work = THOROUGH) -> bool:
    """Whether surely every scalar in the first set lies in the second; both are simplified.

    The same as `surely_empty([part], [whole])`, with a short cut for the usual operators, because
    the reduction of large disjunctions calls little else.
    """
    work.spend(2)
    if (
        part.operator == whole.operator
        and part.operand == whole.operand
        and part.type == whole.type
    ):
        return True
    if part.operator == "holds":
        return False
    if part.operator in _LISTS or whole.operator in _LISTS:  # large, so not kept in the cache
        if part.operator == "=" and whole.operator == "in" and part.type == whole.type:
            members: Any = whole.operand
            at = bisect_left(members, part.operand)
            return at < len(members) and members[at] == part.operand
        return surely_empty((part,), (whole,), work)
    if part.type == whole.type and part.type in ("number", "string"):
        answer = _shortcut(part.operator, part.operand, whole.operator, whole.operand, part.type)
        if answer is not None:
            return answer
    long = _is_long(part.operand) or _is_long(whole.operand)
    decide = _decide if long else _decide_once
    answer, steps = decide(part[1:3], part.operand, whole[1:3], whole.operand, work.thorough)
    work.spend(steps)  # also where the answer was known: the same steps in every run
    return answer


_LISTS: Final = ("in", "iin")
_COUNTED: Final = 1 << 40  # steps, more than any question between two takes
_OPEN_ENDED: Final = ("contains", "suffix")
_CASELESS: Final = ("i=", "iprefix", "isuffix", "icontains")


def _is_long(operand: Operand) -> bool:
    """Whether an operand is too large to keep it in a cache."""
    return isinstance(operand, str) and len(operand) > 256


def _decide(
    part: tuple[str, str],
    part_operand: Operand,
    whole: tuple[str, str],
    whole_operand: Operand,
    thorough: bool,
) -> tuple[bool, int]:
    """The answer, and how many steps it took."""
    work = Work(_COUNTED, thorough, within=True)
    answer = surely_empty(
        (Constraint("", *part, False, part_operand),),
        (Constraint("", *whole, False, whole_operand),),
        work,
    )
    return answer, int(_COUNTED - work.left)


_decide_once: Final = lru_cache(maxsize=1 << 16)(_decide)


def _shortcut(
    operator: str, operand: Operand, whole: str, whole_operand: Operand, kind: str
) -> bool | None:
    """Whether one set of numbers or texts lies within another; None if that is not obvious."""
    if operator == "=":
        return TESTS[whole](whole_operand)(operand)
    if whole == "!=":
        return not TESTS[operator](operand)(whole_operand)
    inner, outer = box(operator, kind, operand), box(whole, kind, whole_operand)
    if inner is not None and outer is not None:
        for (low, high), (outer_low, outer_high) in zip(inner, outer, strict=True):
            if low < high and not (outer_low <= low and high <= outer_high):
                return False
        return True
    if (operator in _OPEN_ENDED and whole in _OPEN_ENDED) or (
        operator in _CASELESS and whole in _CASELESS
    ):
        return _has_text(operator, str(operand), whole, str(whole_operand))
    if outer is not None:
        if kind == "number":  # only `!=` and `exists` are left, with values at both ends
            return False
        if operator in _OPEN_ENDED or (operator == "!=" and operand != ""):
            # The inner set has texts arbitrarily high and low, so an outer interval with an upper
            # end, or with a lower end other than NULs, cannot hold it.
            low, high = outer[0]
            return False if high is not TOP or low.strip("\0") else None
    if inner is not None and whole in _OPEN_ENDED and not TESTS[whole](whole_operand)(inner[0][0]):
        return False
    return None


def _has_text(operator: str, inside: str, whole: str, text: str) -> bool:
    """Whether a text has another at the right place; both are folded if case is ignored."""
    operator, whole = operator.removeprefix("i"), whole.removeprefix("i")
    match whole:
        case "contains":
            return text in inside
        case "suffix":
            return operator in ("suffix", "=") and inside.endswith(text)
        case "prefix":
            return operator in ("prefix", "=") and inside.startswith(text)
        case _:
            return operator == "=" and inside == text


@lru_cache(maxsize=1 << 14)
def box(operator: str, kind: str, operand: Operand) -> tuple[Interval, ...] | None:
    """The set of a comparison as one interval for each Python type; None for other operators.

    An interval may be empty; its bounds still have their place in the order of its type.
    """
    domains = _DOMAINS.get(kind)
    if domains is None or operator not in _COMPARISONS:
        return None
    return tuple(_span(operator, operand, domain) for domain in domains)


_DOMAINS: Final = {"number": (int, float), "int": (int,), "real": (float,), "string": (str,)}
_COMPARISONS: Final = frozenset({"=", "<", "<=", ">", ">=", "between", "prefix"})


def _no_number(
    accepted: Sequence[Constraint], refused: Sequence[Constraint], kind: type, work: Work
) -> bool:
    """The same for the integers, or for the reals that are numbers."""
    remaining: list[Interval] = [_EVERY[kind]]
    for constraint in accepted:
        work.spend(len(remaining) // 2)
        remaining = intersect(remaining, intervals(constraint, kind))
        if not remaining:
            return True
    for constraint in refused:
        if kind in ACCEPTS[constraint.type]:
            work.spend(len(remaining) // 2)
            remaining = subtract(remaining, intervals(constraint, kind))
            if not remaining:
                return True
    return False


def _no_real(accepted: Sequence[Constraint], refused: Sequence[Constraint], work: Work) -> bool:
    """The same for the reals and NaN, which only `exists` accepts."""
    nan = all(c.operator == "exists" for c in accepted) and not any(
        c.operator == "exists" and float in ACCEPTS[c.type] for c in refused
    )
    return not nan and _no_number(accepted, refused, float, work)


def _no_boolean(accepted: Sequence[Constraint], refused: Sequence[Constraint]) -> bool:
    """The same for the two booleans."""
    refused = [c for c in refused if bool in ACCEPTS[c.type]]
    return not any(
        all(_has_boolean(c, value) for c in accepted)
        and not any(_has_boolean(c, value) for c in refused)
        for value in (False, True)
    )


def _has_boolean(constraint: Constraint, value: bool) -> bool:
    match constraint.operator:
        case "=":
            return value is constraint.operand
        case "!=":
            return value is not constraint.operand
        case "in":
            return value in constraint.operand  # type: ignore[operator]
        case "exists":
            return True
        case operator:
            raise AssertionError(f"{operator!r} is not defined on booleans")


def _no_text(accepted: Sequence[Constraint], refused: Sequence[Constraint], work: Work) -> bool:
    """The same for texts: first the intervals, then the patterns within them."""
    remaining: list[Interval] = [_EVERY[str]]
    fits: list[Constraint] = []
    fails: list[Constraint] = []
    for constraint in accepted:
        if _is_pattern(constraint):
            fits.append(constraint)
        else:
            work.spend(len(remaining) // 2)
            remaining = intersect(remaining, intervals(constraint, str))
    for constraint in refused:
        if str not in ACCEPTS[constraint.type]:
            continue
        if _is_pattern(constraint):
            fails.append(constraint)
        else:
            work.spend(len(remaining) // 2)
            remaining = subtract(remaining, intervals(constraint, str))
    if not remaining:
        return True
    if not fits and not fails:
        return False
    spans = [(low, None if high is TOP else high) for low, high in remaining]
    return no_text(spans, fits, fails, work)


def _is_pattern(constraint: Constraint) -> bool:
    return constraint.operator in TEXT_ONLY and constraint.operator != "prefix"


# Intervals


def intersect(left: Sequence[Interval], right: Sequence[Interval]) -> list[Interval]:
    """The intersection of two lists of ascending, disjoint intervals."""
    result: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        low = max(left[i][0], right[j][0])
        high = min(left[i][1], right[j][1])
        if low < high:
            result.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return result


def subtract(left: Sequence[Interval], right: Sequence[Interval]) -> list[Interval]:
    """The difference of two lists of ascending, disjoint intervals."""
    result: list[Interval] = []
    j = 0
    for low, high in left:
        while j < len(right) and not right[j][1] > low:
            j += 1
        k = j
        while k < len(right) and right[k][0] < high:
            if low < right[k][0]:
                result.append((low, right[k][0]))
            low = right[k][1]
            k += 1
            if not low < high:
                break
        if low < high:
            result.append((low, high))
    return result


def intervals(constraint: Constraint, kind: type) -> list[Interval]:
    """The values of one type in a constraint's set, as ascending disjoint intervals."""
    return _intervals(constraint.operator, constraint.operand, kind)


def _intervals(operator: str, operand: Any, kind: type) -> list[Interval]:
    match operator:
        case "exists":
            return [_EVERY[kind]]
        case "in":
            spans = [_span("=", value, kind) for value in operand]
        case "!=":
            return subtract([_EVERY[kind]], _intervals("=", operand, kind))
        case _:
            spans = [_span(operator, operand, kind)]
    return [(low, high) for low, high in spans if low < high]


def _span(operator: str, operand: Any, kind: type) -> Interval:
    """The values of one type in a comparison."""
    bottom, top = _EVERY[kind]
    match operator:
        case "=":
            return _first(operand, kind), _after(operand, kind)
        case "<":
            return bottom, _first(operand, kind)
        case "<=":
            return bottom, _after(operand, kind)
        case ">":
            return _after(operand, kind), top
        case ">=":
            return _first(operand, kind), top
        case "between":
            return _first(operand[0], kind), _after(operand[1], kind)
        case "prefix":
            return operand, after_prefix(operand)
        case _:
            raise AssertionError(f"{operator!r} is not a comparison")


def _first(bound: Any, kind: type) -> Any:
    """The first value of the type that is not below the bound."""
    if kind is str:
        return bound
    if kind is int:
        return math.ceil(bound)
    return _order(next_double(bound, above=True))


def _after(bound: Any, kind: type) -> Any:
    """The first value of the type that is above the bound."""
    if kind is str:
        return bound + "\0"
    if kind is int:
        return math.floor(bound) + 1
    return _order(next_double(bound, above=False)) + 1


def _order(real: float) -> int:
    """The place of a double in the order of all doubles; both zeros share one place."""
    bits: int
    (bits,) = struct.unpack("<q", struct.pack("<d", real + 0.0))
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF)


def after_prefix(prefix: str) -> Any:
    """The first text above all that begin with the prefix."""
    for index in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[index])
        if code < 0x10FFFF:
            following = 0xE000 if code == 0xD7FF else code + 1  # surrogates are not characters
            return prefix[:index] + chr(following)
    return TOP


_EVERY: Final[dict[type, Interval]] = {
    int: (-INFINITY, INFINITY),
    float: (_order(-INFINITY), _order(INFINITY) + 1),
    str: ("", TOP),
}
