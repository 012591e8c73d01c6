"""The covering order of filters (a poset), as it grows and shrinks (S12).

Filter g stands *above* filter f if g covers f, so that whoever gets what matches g gets what
matches f as well. Filters that say the same in different words cover each other: then the one with
the shorter text stands above, so that never both hide each other. Regular expressions and patterns
may leave `covers` unsure. It then says no, perhaps in one direction only, and a chain of equal
meanings could close to a ring in which each hides the next. So where a filter has such a
constraint, the text alone decides who may stand above.

Upwards, the order is searched by the tree of `reduction.Coverings`, which here grows and shrinks.
Downwards, it is searched by attributes and equalities: who is below g has all its attributes.
`above_by_definition` compares all pairs: the slow twin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from tidings.language.constraint import TEXT_ONLY, Constraint
from tidings.language.filter import Filter, by_name
from tidings.language.reduction import Coverings

UNSURE: Final = TEXT_ONLY - {"prefix"} | {"holds"}  # operators about which `covers` may be unsure


class Known:
    """A filter in the order, and its text."""

    __slots__ = ("filter", "key", "text", "unsure")

    def __init__(self, filter: Filter, text: str) -> None:
        self.filter = filter
        self.text = text
        self.key = len(text), text
        self.unsure = any(constraint.operator in UNSURE for constraint in filter)


def stands_above(one: Known, other: Known) -> bool:
    """Whether one filter stands above another.

    >>> wide, narrow = (Known(Filter(), "true"), Known(Filter(), "not false"))
    >>> stands_above(wide, narrow), stands_above(narrow, wide)
    (True, False)
    """
    if not one.filter.covers(other.filter):
        return False
    if one.key < other.key:
        return True
    return not (one.unsure or other.unsure or other.filter.covers(one.filter))


def above_by_definition(filters: Iterable[Known], one: Known) -> list[Known]:
    """The filters above one, found by comparing it with each."""
    return [other for other in filters if other is not one and stands_above(other, one)]


class Upwards(Coverings):
    """The tree of filters, to which filters are added and from which they are taken."""

    def __init__(self) -> None:
        super().__init__(())
        self._known: list[Known | None] = []
        self._numbers: dict[str, int] = {}  # in the tree, by text
        self._free: list[int] = []

    def add(self, known: Known) -> None:
        """Add a filter."""
        for constraint in known.filter:  # names keep the order in which they were first seen
            self.rank.setdefault(constraint.name, len(self.rank))
        if self._free:
            number = self._free.pop()
            self._known[number] = known
        else:
            number = len(self._known)
            self._known.append(known)
            self.dropped.append(0)
        self._numbers[known.text] = number
        self.file(number, known.filter)

    def remove(self, known: Known) -> None:
        """Take a filter away."""
        number = self._numbers.pop(known.text)
        self.unfile(number, known.filter)
        self._known[number] = None
        self._free.append(number)

    def above(self, known: Known) -> Iterator[Known]:
        """The filters above one, whether or not it is in the tree itself."""
        for number in self.every(known.filter, self._numbers.get(known.text, -1)):
            other = self._known[number]
            assert other is not None
            if self._over(other, known):
                yield other

    def _over(self, other: Known, known: Known) -> bool:
        """Whether a filter that covers another stands above it."""
        if other.key < known.key:
            return True
        return not (other.unsure or known.unsure or known.filter.covers(other.filter))


class Downwards:
    """Filters by their attributes and equalities, to find those that a filter covers."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self._by_name: dict[str, dict[str, Known]] = {}
        self._by_value: dict[tuple[str, Any], dict[str, Known]] = {}
        self._odd: dict[str, dict[str, Known]] = {}  # by name: whose equalities do not show

    def add(self, known: Known) -> None:
        """Add a filter."""
        self.known[known.text] = known
        for table, key in self._places(known):
            table.setdefault(key, {})[known.text] = known

    def remove(self, known: Known) -> None:
        """Take a filter away."""
        del self.known[known.text]
        for table, key in self._places(known):
            held = table.get(key, {})  # none: `x = false and x = 0` has one place twice
            held.pop(known.text, None)
            if not held:
                table.pop(key, None)

    def _places(self, known: Known) -> Iterator[tuple[dict[Any, dict[str, Known]], Any]]:
        for name, same in by_name(known.filter).items():
            yield self._by_name, name
            if len(same) > 1:
                yield self._odd, name
            for constraint in same:
                if _is_equality(constraint):
                    yield self._by_value, (name, constraint.operand)

    def below(self, known: Known) -> Iterator[Known]:
        """The filters below one."""
        for other in self._candidates(known.filter):
            if other is not known and stands_above(known, other):
                yield other

    def _candidates(self, filter: Filter) -> list[Known]:
        best: list[dict[str, Known]] = [self.known]
        for constraint in filter:
            name = constraint.name
            tables = [self._by_name.get(name, {})]
            if _is_equality(constraint):
                tables = [
                    self._by_value.get((name, constraint.operand), {}),
                    self._odd.get(name, {}),
                ]
            if sum(map(len, tables)) < sum(map(len, best)):
                best = tables
        return list({text: known for table in best for text, known in table.items()}.values())


def _is_equality(constraint: Constraint) -> bool:
    return constraint.operator == "=" and not constraint.negated
