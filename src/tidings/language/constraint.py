"""A constraint: one test on one attribute (F1).

A constraint denotes a set of scalars, given by type, operator and operand. It holds when the
attribute, itself a set of scalars, shares an element with that set; negated, when it shares none.
So if x is absent, `not x = 5` holds and `x != 5` does not. On a list, `x != 5` needs one element
that differs, and `not x = 5` needs that no element is equal.

What must live here: what each operator means on one value (`TESTS`), and how one constraint is
rewritten to simpler operators (`simplify`). This file does not know what several constraints mean
together. One operator tests the whole event and not an attribute: `holds`, a test of another
dialect that our operators cannot express (`dialects`). Only `check` looks inside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tidings.language import wildcard
from tidings.language.dialects import DIALECTS
from tidings.language.event import Event, lookup
from tidings.language.folding import caseless, fold
from tidings.language.values import SCALARS, Scalar, is_unicode

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1

Operand = Scalar | tuple[Scalar, ...] | None
Test = Callable[[Any], bool]
Check = Callable[[Mapping[str, Any]], bool]


class Constraint(NamedTuple):
    """One test on one attribute. Sorts by its fields; equal fields mean the same.

    An operand of type number may be integer or real. The operand of `in` is a sorted tuple without
    repetition, of `between` a pair, of `exists` None, of `like` a pattern with backslash escapes,
    and of `holds` the name of a dialect and a text in it; the attribute name of `holds` is "".
    """

    name: str
    operator: str
    type: str  # "number", "int", "real", "string", "bool", or "any" (exists, holds)
    negated: bool
    operand: Operand

    def negate(self) -> Constraint:
        """The constraint that holds exactly when this one does not."""
        return Constraint(self.name, self.operator, self.type, not self.negated, self.operand)


ACCEPTS: Final[dict[str, frozenset[type]]] = {
    "number": frozenset({int, float}),
    "int": frozenset({int}),
    "real": frozenset({float}),
    "string": frozenset({str}),
    "bool": frozenset({bool}),
    "any": SCALARS,
}


def _like(pattern: str) -> Test:
    return wildcard.matcher(pattern, ignore_case=False)


def _ilike(pattern: str) -> Test:
    return wildcard.matcher(pattern, ignore_case=True)


def _in(operand: tuple[Scalar, ...]) -> Test:
    return frozenset(operand).__contains__


def _iin(operand: tuple[str, ...]) -> Test:
    folded = frozenset(map(fold, operand))
    return lambda v: fold(v) in folded


def _folded(compare: Callable[[str, str], bool]) -> Callable[[str], Test]:
    """The operator on folded texts that corresponds to an operator on texts."""

    def build(operand: str) -> Test:
        folded = fold(operand)
        return lambda v: compare(fold(v), folded)

    return build


# What each operator means on one value of a type that the constraint accepts. `v == v` is false
# only for NaN, which satisfies no comparison.
TESTS: Final[dict[str, Callable[[Any], Test]]] = {
    "=": lambda c: lambda v: v == c,
    "!=": lambda c: lambda v: v != c and v == v,
    "<": lambda c: lambda v: v < c,
    "<=": lambda c: lambda v: v <= c,
    ">": lambda c: lambda v: v > c,
    ">=": lambda c: lambda v: v >= c,
    "between": lambda c: lambda v: c[0] <= v <= c[1],
    "in": _in,
    "prefix": lambda c: lambda v: v.startswith(c),
    "suffix": lambda c: lambda v: v.endswith(c),
    "contains": lambda c: lambda v: c in v,
    "like": _like,
    "matches": lambda c: wildcard.regex(c, ignore_case=False),
    "exists": lambda _: lambda _v: True,
    "i=": _folded(lambda v, c: v == c),
    "i!=": _folded(lambda v, c: v != c),
    "iin": _iin,
    "iprefix": _folded(lambda v, c: v.startswith(c)),
    "isuffix": _folded(lambda v, c: v.endswith(c)),
    "icontains": _folded(lambda v, c: c in v),
    "ilike": _ilike,
    "imatches": lambda c: wildcard.regex(c, ignore_case=True),
}

ORDERED: Final = frozenset({"<", "<=", ">", ">=", "between"})
TEXT_ONLY: Final = frozenset(
    operator
    for operator in TESTS
    if (operator.startswith("i") and operator != "in")
    or operator in {"prefix", "suffix", "contains", "like", "matches"}
)
# From each operator to the one that ignores case, and back.
IGNORING_CASE: Final = {o: "i" + o for o in TESTS if "i" + o in TESTS}
MINDING_CASE: Final = {i: o for o, i in IGNORING_CASE.items()}


def value_test(constraint: Constraint) -> Test:
    """The test on one scalar of any type; it ignores negation."""
    accepts = ACCEPTS[constraint.type]
    test = TESTS[constraint.operator](constraint.operand)
    return lambda value: type(value) in accepts and test(value)


def check(constraint: Constraint) -> Check:
    """The test on an event: a plain mapping or an `Event`."""
    if constraint.operator == "holds":
        return _whole_check(constraint)
    name = constraint.name
    accepts = ACCEPTS[constraint.type]
    test = TESTS[constraint.operator](constraint.operand)
    wanted = not constraint.negated
    # Under a plain name only the event's own key holds the attribute; else a record may hold it.
    head, dot, rest = name.partition(".")
    plain, one_record = not dot, "." not in rest

    def holds(event: Mapping[str, Any]) -> bool:
        value: Any = event.get(name)
        kind = type(value)
        if kind in accepts and (kind is not str or value.isascii() or is_unicode(value)):
            if test(value):
                return wanted
            if plain or (one_record and head not in event):
                return not wanted
        elif (value is None or kind in SCALARS) and (plain or (one_record and head not in event)):
            return not wanted
        for element in lookup(event, name):
            if type(element) in accepts and test(element):
                return wanted
        return not wanted

    return holds


def _whole_check(constraint: Constraint) -> Check:
    """The test of a dialect on the event as it was given."""
    dialect, text = residual(constraint)
    test = DIALECTS[dialect].test(text)
    wanted = not constraint.negated
    return lambda event: test(event.source if type(event) is Event else event) is wanted


def residual(constraint: Constraint) -> tuple[str, str]:
    """The dialect and the text of a constraint by `holds`."""
    assert isinstance(constraint.operand, tuple)
    dialect, text = constraint.operand
    return str(dialect), str(text)


def names_asked(constraint: Constraint) -> frozenset[str]:
    """The attributes that a constraint reads; the empty name means the whole event."""
    if constraint.operator != "holds":
        return frozenset({constraint.name})
    dialect, text = residual(constraint)
    names = DIALECTS[dialect].names(text)
    return frozenset({""}) if names is None else names


def simplify(constraint: Constraint) -> Constraint | None:
    """A constraint with the same set of values and the simplest operator; None if it is empty.

    >>> simplify(Constraint("name", "like", "string", False, "web-%"))
    Constraint(name='name', operator='prefix', type='string', negated=False, operand='web-')
    """
    rewrite = _REWRITES.get(constraint.operator)
    if constraint.type == "int":
        return _simplify_int(constraint)
    if constraint.type == "real" and not _some_real(constraint):
        return None
    return constraint if rewrite is None else rewrite(constraint)


def _simplify_like(constraint: Constraint) -> Constraint:
    ignoring = constraint.operator == "ilike"
    pattern = str(constraint.operand)
    parts = wildcard.tokens(fold(pattern) if ignoring else pattern)
    leading, trailing = parts[:1] == [wildcard.MANY], parts[-1:] == [wildcard.MANY]
    inner = parts[leading : len(parts) - trailing]
    if parts == [wildcard.MANY]:
        return constraint._replace(operator="exists", operand=None)
    if wildcard.ONE in inner or wildcard.MANY in inner:
        return constraint._replace(operand=wildcard.pattern_of(parts))
    operator = (
        ("contains" if trailing else "suffix") if leading else ("prefix" if trailing else "=")
    )
    simpler = constraint._replace(
        operator=IGNORING_CASE[operator] if ignoring else operator,
        operand="".join(map(str, inner)),
    )
    return _simplify_caseless(simpler) if ignoring else simpler


def _simplify_text(constraint: Constraint) -> Constraint:
    """`prefix ''`, `suffix ''` and `contains ''` hold for any text."""
    if constraint.operand == "":
        return constraint._replace(operator="exists", operand=None)
    return _simplify_caseless(constraint)


def _simplify_caseless(constraint: Constraint) -> Constraint:
    """If the operand has no case, use the plain operator; else fold the operand."""
    plain = MINDING_CASE.get(constraint.operator)
    if plain is None or not isinstance(constraint.operand, str):
        return constraint
    folded = fold(constraint.operand)
    if caseless(folded):
        return constraint._replace(operator=plain, operand=folded)
    return constraint._replace(operand=folded)


def _simplify_iin(constraint: Constraint) -> Constraint:
    assert isinstance(constraint.operand, tuple)
    folded = tuple(sorted({fold(str(text)) for text in constraint.operand}))
    if len(folded) == 1:
        return _simplify_caseless(constraint._replace(operator="i=", operand=folded[0]))
    if all(map(caseless, folded)):
        return constraint._replace(operator="in", operand=folded)
    return constraint._replace(operand=folded)


def _simplify_in(constraint: Constraint) -> Constraint:
    assert isinstance(constraint.operand, tuple)
    if len(constraint.operand) == 1:
        return constraint._replace(operator="=", operand=constraint.operand[0])
    if constraint.type == "bool":  # both booleans
        return constraint._replace(operator="exists", operand=None)
    return constraint


def _simplify_between(constraint: Constraint) -> Constraint | None:
    low: Any
    high: Any
    assert isinstance(constraint.operand, tuple)
    low, high = constraint.operand
    if low == high:
        return constraint._replace(operator="=", operand=low)
    if constraint.type == "real" and low < high:
        first, last = next_double(low, above=True), next_double(high, above=False)
        if first == last:  # one double, between two integers that are none
            return constraint._replace(operator="=", operand=first)
    return constraint if low < high else None


def _simplify_not_equal(constraint: Constraint) -> Constraint:
    if constraint.type == "bool":
        return constraint._replace(operator="=", operand=not constraint.operand)
    return constraint


def _simplify_text_bound(constraint: Constraint) -> Constraint | None:
    """Simplify a comparison with the empty text, which is the lowest."""
    if constraint.operator == "<" and constraint.operand == "\0":
        return constraint._replace(operator="=", operand="")
    if constraint.operand != "":
        return constraint
    if constraint.operator == "<":
        return None
    if constraint.operator == "<=":
        return constraint._replace(operator="=")
    return constraint._replace(operator="exists", operand=None)


def _simplify_int(constraint: Constraint) -> Constraint | None:
    """Turn bounds on integers into inclusive integers; those beyond 64 bits stay as written."""
    operator, operand = constraint.operator, constraint.operand
    simpler: Constraint | None
    if operator == "exists":
        return constraint
    if operator == "in":
        assert isinstance(operand, tuple)
        whole = tuple(_whole(c) for c in operand if c == math.floor(c))  # type: ignore[arg-type]
        return _simplify_in(constraint._replace(operand=whole)) if whole else None
    if operator == "between":
        assert isinstance(operand, tuple)
        low, high = operand
        bounds = (math.ceil(low), math.floor(high))  # type: ignore[arg-type]
        simpler = _simplify_between(constraint._replace(operand=bounds))
    else:
        assert isinstance(operand, int | float)
        whole_operand = math.floor(operand)
        if operator in ("=", "!=") and whole_operand != operand:
            return None if operator == "=" else constraint._replace(operator="exists", operand=None)
        if operator in ("=", "!="):
            simpler = constraint._replace(operand=whole_operand)
        elif operator in ("<", "<="):
            last = math.ceil(operand) - 1 if operator == "<" else whole_operand
            simpler = constraint._replace(operator="<=", operand=last)
        else:
            first = whole_operand + 1 if operator == ">" else math.ceil(operand)
            simpler = constraint._replace(operator=">=", operand=first)
    return constraint if simpler is not None and not _fits(simpler.operand) else simpler


def _whole(number: Any) -> int | float:
    """A whole number as an integer, if it fits 64 bits."""
    return int(number) if INT_MIN <= number <= INT_MAX else float(number)


def _some_real(constraint: Constraint) -> bool:
    """Whether some double lies in the set; an integer above 2^53 need not be a double."""
    operand: Any = constraint.operand
    match constraint.operator:
        case "=":
            return bool(next_double(operand, above=True) <= operand)
        case "in":
            return any(next_double(value, above=True) <= value for value in operand)
        case "between":
            return bool(next_double(operand[0], above=True) <= operand[1])
        case _:
            return True


def next_double(bound: int | float, above: bool) -> float:
    """The nearest double that is not below a number (`above`) or not above it."""
    near = float(bound)
    if above and near < bound:
        return math.nextafter(near, math.inf)
    if not above and near > bound:
        return math.nextafter(near, -math.inf)
    return near


def _fits(operand: Operand) -> bool:
    """Whether every integer of the operand fits 64 bits, so that the text form can write it."""
    values = operand if isinstance(operand, tuple) else (operand,)
    return all(not isinstance(v, int) or INT_MIN <= v <= INT_MAX for v in values)


_REWRITES: Final[dict[str, Callable[[Constraint], Constraint | None]]] = {
    "like": _simplify_like,
    "ilike": _simplify_like,
    "in": _simplify_in,
    "iin": _simplify_iin,
    "between": _simplify_between,
    "!=": _simplify_not_equal,
    "prefix": _simplify_text,
    "suffix": _simplify_text,
    "contains": _simplify_text,
    "iprefix": _simplify_text,
    "isuffix": _simplify_text,
    "icontains": _simplify_text,
    "i=": _simplify_caseless,
    "i!=": _simplify_caseless,
    "<": _simplify_text_bound,
    "<=": _simplify_text_bound,
    ">=": _simplify_text_bound,
}
