"""`Predicate` and `parse`: a test on the content of events, and the algebra on such tests.

A predicate keeps its expression as written, to match events and to print it. It computes its normal
form, a reduced disjunction of filters, when something first needs it. Equality, covering, overlap
and reduction use the normal form. If the normal form would pass the bound, the predicate still
matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from tidings.language import expression as ex
from tidings.language import text as tx
from tidings.language.constraint import Check, Constraint, simplify
from tidings.language.dialects import dialect_named
from tidings.language.errors import NormalFormError, PredicateError
from tidings.language.event import read
from tidings.language.filter import Filter, normalise
from tidings.language.reduction import Coverings, absorb, reduce_filters

if TYPE_CHECKING:
    from tidings.language.explanation import Explanation

MAX_FILTERS: Final = 4_096
_MANY: Final = 8  # from this many filters on, an index pays


class Predicate:
    """A test on the content of events.

    >>> p = parse("class = 'alert' and severity > 2")
    >>> p.matches({"class": "alert", "severity": 3})
    True
    >>> p.covers(parse("severity between 4 and 6 and class = 'alert' and site = 'Oslo'"))
    True
    """

    __slots__ = ("_check", "_filters", "_hash", "expression", "max_filters")

    def __init__(self, expression: ex.Expression, max_filters: int = MAX_FILTERS) -> None:
        self.expression = expression
        self.max_filters = max_filters
        self._check: Check | None = None
        self._filters: tuple[Filter, ...] | bool | None = None  # False: would pass the bound
        self._hash: int | None = None

    @classmethod
    def of(cls, filters: Iterable[Filter], max_filters: int = MAX_FILTERS) -> Predicate:
        """The predicate whose normal form is these filters, already reduced and sorted."""
        kept = tuple(filters)
        predicate = cls(
            ex.disjoin(ex.conjoin(filter) for filter in kept), max(max_filters, len(kept))
        )
        predicate._filters = kept
        return predicate

    # Meaning

    def matches(self, event: Mapping[str, Any] | bytes | bytearray | memoryview | str) -> bool:
        """Whether the event satisfies the predicate. JSON text or bytes are decoded first."""
        check = self._check
        if check is None:
            check = self._check = ex.compile_check(self.expression)
        return check(event if type(event) is dict else read(event))

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The normal form: sorted filters, none of which another covers.

        Raises `NormalFormError` if it would pass the bound.
        """
        filters = self._filters
        if filters is None:
            filters = self._filters = _normal_form(self.expression, self.max_filters)
        if isinstance(filters, bool):
            raise NormalFormError(self.max_filters)
        return filters

    @property
    def constraints(self) -> int:
        """The size of the predicate (paper U, 4.2): how many constraints its normal form has."""
        return sum(map(len, self.filters))

    def covers(self, other: Predicate, lists: bool = True) -> bool:
        """Whether every event that matches the other matches this one.

        Exact if both have one filter. If this one has several, it may say no when unsure, but never
        yes when that is wrong. `lists=False` says that every attribute holds at most one value;
        then `name prefix 'ab'` covers `name >= 'ab' and name < 'ac'`, while a list could satisfy
        the two bounds by two different values.
        """
        mine, theirs = self.filters, other.filters
        if len(mine) < _MANY or len(theirs) < _MANY:
            return all(
                any(f.covers(g, lists) for f in mine) or not g.possible(lists) for g in theirs
            )
        index = Coverings(mine, lists)
        return all(index.find(g) is not None or not g.possible(lists) for g in theirs)

    def intersects(self, other: Predicate, lists: bool = True) -> bool:
        """Whether some event may match both. May say yes when unsure, never no when that is wrong.

        `lists=False` says that every attribute holds at most one value: then no event matches both
        `x < 3` and `x > 5`, while with lists `{"x": [1, 9]}` matches both.
        """
        theirs = other.filters
        return any(f.intersects(g, lists) for f in self.filters for g in theirs)

    def reduce(self, merge: bool = True, lists: bool = True) -> Predicate:
        """An equal predicate with as few constraints as we can find.

        Drops redundant constraints and filters (paper U, section 4.2) and, with `merge`, joins
        filters that differ in one attribute only: ranges that touch, and values into `in` lists.

        >>> print(parse("x = 1 or x between 3 and 5 or x = 2 or x > 4").reduce())
        x in (1, 2) or x >= 3
        """
        return Predicate.of(reduce_filters(self.filters, merge, lists), self.max_filters)

    def explain(
        self, event: Mapping[str, Any] | bytes | bytearray | memoryview | str
    ) -> Explanation:
        """Why the event matches or not: for every constraint, whether it holds and why."""
        from tidings.language.explanation import explain  # here: it needs this file

        return explain(self, event)

    # Combination

    def __or__(self, other: Predicate) -> Predicate:
        """Events that match either, reduced."""
        return union((self, other))

    def __and__(self, other: Predicate) -> Predicate:
        """Events that match both."""
        return _combined(
            ex.conjoin((self.expression, other.expression)),
            max(self.max_filters, other.max_filters),
        )

    def __invert__(self) -> Predicate:
        """Events that do not match."""
        return _combined(ex.negate(self.expression), self.max_filters)

    # As a value

    def __eq__(self, other: object) -> bool:
        """Whether the normal forms are equal, or the expressions if there is no normal form."""
        if not isinstance(other, Predicate):
            return NotImplemented
        return self is other or self._identity() == other._identity()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._identity())
        return self._hash

    def _identity(self) -> Any:
        try:
            return self.filters
        except NormalFormError:
            return self.expression

    def __str__(self) -> str:
        """The expression in canonical text; `parse` reads an equal predicate from it."""
        return tx.write(self.expression)

    def __repr__(self) -> str:
        text = str(self)
        return f"parse({text if len(text) <= 200 else text[:199] + '…'!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as text."""
        return parse, (str(self), self.max_filters)


def parse(
    text: str | Mapping[str, Any], max_filters: int = MAX_FILTERS, dialect: str = "tidings"
) -> Predicate:
    """Parse a predicate; `PredicateError` says where a mistake is.

    `max_filters` bounds the normal form; beyond it, the predicate can only match. `dialect` names
    the dialect of the text, a row of `DIALECTS`; EventBridge patterns may also be mappings.

    >>> parse({"severity": [{"numeric": [">=", 2, "<=", 5]}]}, dialect="eventbridge")
    parse('severity between 2 and 5')
    """
    if dialect == "tidings":
        return Predicate(tx.read(text), max_filters)  # type: ignore[arg-type]
    return Predicate(dialect_named(dialect).read(text), max_filters)


def normal_forms(predicates: Sequence[Predicate]) -> list[tuple[Filter, ...]]:
    """The normal forms of very many predicates; quick if they are already known."""
    known = list(map(attrgetter("_filters"), predicates))
    if set(map(type, known)) <= {tuple}:
        return known
    return [predicate.filters for predicate in predicates]


def union(predicates: Iterable[Predicate]) -> Predicate:
    """The predicate of events that match any of the predicates, reduced; `false` for none.

    This makes an interest from subscriptions. The bound of the normal form does not apply, because
    a union is no larger than its parts. If a part has no normal form, the union is not reduced.
    """
    parts = list(predicates)
    bound = max((p.max_filters for p in parts), default=MAX_FILTERS)
    try:
        filters = [filter for p in parts for filter in p.filters]
    except NormalFormError:
        return _combined(ex.disjoin(p.expression for p in parts), bound)
    return Predicate.of(reduce_filters(filters), bound)


def _combined(expression: ex.Expression, max_filters: int) -> Predicate:
    """A predicate of a combined expression; its depth is bounded, as in a text."""
    if ex.depth(expression) > 3 * ex.MAX_DEPTH:
        raise PredicateError("", 0, f"at most {3 * ex.MAX_DEPTH} levels of nesting", "more")
    return Predicate(expression, max_filters)


def _normal_form(expression: ex.Expression, max_filters: int) -> tuple[Filter, ...] | bool:
    """The reduced disjunction of conjunctions; False if it would pass the bound."""
    plain = _plain_conjunction(expression)
    if plain is not None:
        return plain
    try:
        expanded = ex.expand(expression, max_filters, partial(_absorbed))
    except ex.TooManyFilters:
        return False
    return tuple(_filters(expanded))


def _plain_conjunction(expression: ex.Expression) -> tuple[Filter, ...] | None:
    """The normal form of one constraint or a conjunction of constraints, as most predicates are."""
    parts = (expression,) if isinstance(expression, Constraint) else ()
    if isinstance(expression, ex.And):
        parts = expression.parts  # type: ignore[assignment]
    elif not parts:
        return None
    simple = []
    for part in parts:
        if type(part) is not Constraint:
            return None
        simpler = simplify(part)
        if simpler is not None:
            simple.append(simpler)
        elif not part.negated:
            return ()
    filter = normalise(simple)
    return () if filter is None else (filter,)


def _absorbed(conjunctions: list[ex.Conjunction]) -> list[ex.Conjunction]:
    return [frozenset(filter) for filter in _filters(conjunctions)]


def _filters(conjunctions: list[ex.Conjunction]) -> list[Filter]:
    """Conjunctions as filters: each reduced, none covered by another."""
    filters = (normalise(conjunction) for conjunction in conjunctions)
    return absorb((filter for filter in filters if filter is not None), thorough=False)
