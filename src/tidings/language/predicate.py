"""`Predicate` and `parse`: a test on the content of events, and the algebra on such tests.

A predicate keeps its expression as written, to match events and to print it. It computes its normal
form, a reduced disjunction of filters, when something first needs it. Equality, covering, overlap
and reduction use the normal form. If the normal form would pass the bound, the predicate still
matches.

The normal form is a function of the expression, and `str` writes the expression. So a predicate
made by the algebra and the one read from its text are equal and give the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from tidings.language import expression as ex
from tidings.language import text as tx
from tidings.language.constraint import Check
from tidings.language.dialects import dialect_named
from tidings.language.errors import NormalFormError, PredicateError
from tidings.language.event import read
from tidings.language.filter import Filter
from tidings.language.normal_form import normal_form
from tidings.language.reduction import Coverings, reduce_filters
from tidings.language.work import OutOfSteps, Work

if TYPE_CHECKING:
    from tidings.language.explanation import Explanation

MAX_FILTERS: Final = 4_096
_MANY: Final = 64  # from this many pairs of filters on, an index pays


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
        predicate = cls(ex.disjoin(map(ex.conjoin, kept)), max_filters)
        predicate._filters = kept
        return predicate

    # Meaning

    def matches(self, event: Mapping[str, Any] | bytes | bytearray | memoryview | str) -> bool:
        """Whether the event satisfies the predicate. JSON text or bytes are decoded first."""
        check = self._check or self.check()
        return check(event if type(event) is dict else read(event))

    def check(self) -> Check:
        """A function that tells whether an event, as a mapping, satisfies the predicate."""
        if self._check is None:
            self._check = ex.compile_check(self.expression)
        return self._check

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The normal form: sorted filters, none of which another covers.

        Raises `NormalFormError` if it would pass the bound.
        """
        filters = self._filters
        if filters is None:
            found = normal_form(self.expression, self.max_filters)
            filters = self._filters = False if found is None else found
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
        work = Work.on(max(self.constraints, other.constraints))
        try:
            if len(mine) * len(theirs) < _MANY:
                return all(
                    any(f.covers(g, lists, work) for f in mine) or not g.possible(lists, work)
                    for g in theirs
                )
            index = Coverings(mine, lists, work)
            return all(index.find(g) is not None or not g.possible(lists, work) for g in theirs)
        except OutOfSteps:
            return False

    def uncovered(self, filters: Sequence[Filter]) -> list[Filter]:
        """Those of some filters that this predicate does not cover; all take the steps of one
        operation. May keep one when unsure, but never leaves one out when that is wrong.

        >>> [str(f) for f in parse("x > 2").uncovered(parse("x > 3 or y = 1").filters)]
        ['y = 1']
        """
        mine, left, kept = self.filters, list(reversed(filters)), list[Filter]()
        work = Work.on(max(self.constraints, sum(map(len, filters))))
        try:
            many = len(mine) * len(filters) >= _MANY
            index = Coverings(mine, work=work) if many else None
            while left:
                one = left[-1]
                if index is None:
                    covered = any(f.covers(one, work=work) for f in mine)
                else:
                    covered = index.find(one) is not None
                if not covered and one.possible(work=work):
                    kept.append(one)
                left.pop()
        except OutOfSteps:
            kept.extend(reversed(left))
        return kept

    def intersects(self, other: Predicate, lists: bool = True) -> bool:
        """Whether some event may match both. May say yes when unsure, never no when that is wrong.

        `lists=False` says that every attribute holds at most one value: then no event matches both
        `x < 3` and `x > 5`, while with lists `{"x": [1, 9]}` matches both.
        """
        work = Work.on(max(self.constraints, other.constraints))
        try:
            mine = [f for f in self.filters if f.possible(lists, work)]
            theirs = [g for g in other.filters if g.possible(lists, work)]
            return any(f.intersects(g, lists, work) for f in mine for g in theirs)
        except OutOfSteps:
            return True

    def reduce(self, merge: bool = True, lists: bool = True) -> Predicate:
        """An equal predicate with as few constraints as we can find.

        Drops redundant constraints and filters (paper U, section 4.2) and, with `merge`, joins
        filters that differ in one attribute only: ranges that touch, and values into `in` lists.

        >>> print(parse("x = 1 or x between 3 and 5 or x = 2 or x > 4").reduce())
        x >= 3 or x in (1, 2)
        """
        return _reduced(self.filters, self.max_filters, merge, lists)

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
        """The normal form within the usual bound, or the expression: the same for any bound."""
        if self.max_filters == MAX_FILTERS:
            try:
                return self.filters
            except NormalFormError:
                return self.expression
        found = normal_form(self.expression, MAX_FILTERS)
        return self.expression if found is None else found

    def __str__(self) -> str:
        """The expression in canonical text; `parse` reads an equal predicate from it."""
        return tx.write(self.expression)

    def __repr__(self) -> str:
        text = str(self)
        return f"parse({text if len(text) <= 200 else text[:199] + '…'!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as text."""
        return parse, (str(self), self.max_filters, "tidings", None)


def parse(
    text: str | Mapping[str, Any],
    max_filters: int = MAX_FILTERS,
    dialect: str = "tidings",
    max_characters: int | None = tx.MAX_TEXT,
) -> Predicate:
    """Parse a predicate; `PredicateError` says where a mistake is.

    `max_filters` bounds the normal form; beyond it, the predicate can only match. `dialect` names
    the dialect of the text, a row of `DIALECTS`; EventBridge patterns may also be mappings.
    `max_characters` bounds the text, and the bounds on constants and regular expressions go with
    it. None reads a text of any size: what `str` wrote, such as the union of many predicates.

    >>> parse({"severity": [{"numeric": [">=", 2, "<=", 5]}]}, dialect="eventbridge")
    parse('severity between 2 and 5')
    """
    if dialect == "tidings":
        return Predicate(tx.read(text, max_characters), max_filters)  # type: ignore[arg-type]
    return _combined(dialect_named(dialect).read(text), max_filters)


def normal_forms(predicates: Sequence[Predicate]) -> list[tuple[Filter, ...]]:
    """The normal forms of very many predicates; quick if they are already known."""
    known = list(map(attrgetter("_filters"), predicates))
    if set(map(type, known)) <= {tuple}:
        return known
    return [predicate.filters for predicate in predicates]


def union(predicates: Iterable[Predicate]) -> Predicate:
    """The predicate of events that match any of the predicates, reduced; `false` for none.

    This makes an interest from subscriptions. The bound of the normal form does not apply, because
    a union is no larger than its parts. If a part has no normal form, the union is not reduced;
    where the reduction takes too many steps, it is reduced in part.
    """
    parts = list(predicates)
    bound = max((p.max_filters for p in parts), default=MAX_FILTERS)
    try:
        filters = {filter for p in parts for filter in p.filters}
    except NormalFormError:
        return _combined(ex.disjoin(p.expression for p in parts), bound)
    return _reduced(sorted(filters), bound)


def _reduced(
    filters: Sequence[Filter], max_filters: int, merge: bool = True, lists: bool = True
) -> Predicate:
    """The predicate of some filters, reduced as far as the steps allow."""
    work = Work.on(sum(map(len, filters)))
    try:
        return Predicate.of(reduce_filters(filters, merge, lists, work), max_filters)
    except OutOfSteps as error:
        # Perhaps more can be reduced, so this is not known to be the normal form.
        return Predicate(ex.disjoin(map(ex.conjoin, error.reached or ())), max_filters)


def _combined(expression: ex.Expression, max_filters: int) -> Predicate:
    """A predicate of a combined expression; its depth is bounded as that of a text is."""
    if ex.depth(expression) > ex.MAX_DEPTH:
        raise PredicateError("", 0, f"at most {ex.MAX_DEPTH} levels of parentheses", "more")
    return Predicate(expression, max_filters)
