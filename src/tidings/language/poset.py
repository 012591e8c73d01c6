"""The covering order of filters (a poset), as it grows and shrinks (S12).

Filter g stands *above* filter f if g covers f, so that whoever gets what matches g gets what
matches f as well. Filters that say the same in different words cover each other: then the one with
the shorter text stands above, so that never both hide each other. Regular expressions and patterns
may leave `covers` unsure. It then says no, perhaps in one direction only, and a chain of equal
meanings could close to a ring in which each hides the next. So where a filter has such a
constraint, the text alone decides who may stand above.

Upwards, the order is searched by the tree of `reduction.Coverings`, which here grows and shrinks.
Filters with a lower and an upper bound on an attribute are in it by the cell of that span, as if
the cell were an attribute, too (`spans`); else a search would follow half of all lower bounds.
Downwards, it is searched by attributes, equalities and spans: who is below g has all its
attributes, and lies within its spans.
`above_by_definition` compares all pairs: the slow twin.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tidings.language.constraint import TEXT_ONLY, Constraint
from tidings.language.filter import Filter, by_name
from tidings.language.reduction import Coverings
from tidings.language.spans import after, cell_of, cells_around, span_of, stem_of

UNSURE: Final = TEXT_ONLY - {"prefix"} | {"holds"}  # operators about which `covers` may be unsure


class Known:
    """A filter in the order, its text, and where it lies on each attribute."""

    __slots__ = ("cells", "filed", "filter", "key", "possible", "same", "spans", "text", "unsure")

    def __init__(self, filter: Filter, text: str) -> None:
        self.filter = filter
        self.text = text
        self.key = len(text), text
        self.unsure = any(constraint.operator in UNSURE for constraint in filter)
        self.possible = filter.possible()
        self.same = by_name(filter)
        self.spans = {name: span_of(same) for name, same in self.same.items()}
        self.cells = list(_cells(self))
        cells = [_in_cell(name, cell) for name, cell in self.cells]
        self.filed = Filter((*filter, *cells)) if cells else filter  # as it is in the tree

    def covers(self, other: Known) -> bool:
        """Whether every event that satisfies the other filter satisfies this one."""
        return self.filter.follows(other.same) or not other.possible

    def may_cover(self, other: Known) -> bool:
        """Whether the spans of this filter contain those of another, as far as both have any."""
        for name, span in self.spans.items():
            inner = other.spans.get(name)
            if span is None or inner is None:
                continue
            if inner[0] < span[0] or inner[1] > span[1]:
                return False
        return True


def stands_above(one: Known, other: Known) -> bool:
    """Whether one filter stands above another.

    >>> wide, narrow = (Known(Filter(), "true"), Known(Filter(), "not false"))
    >>> stands_above(wide, narrow), stands_above(narrow, wide)
    (True, False)
    """
    return one.covers(other) and _comes_first(one, other)


def _comes_first(one: Known, other: Known) -> bool:
    """Whether a filter that covers another stands above it."""
    if one.key < other.key:
        return True
    return not (one.unsure or other.unsure or other.covers(one))


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
        self._cells: dict[str, Counter[tuple[int, int]]] = {}  # by attribute: those in use
        self._widths: dict[str, Counter[int]] = {}  # by attribute: exponents of their widths

    def add(self, known: Known) -> None:
        """Add a filter."""
        for name, cell in known.cells:
            self._cells.setdefault(name, Counter())[cell] += 1
            self._widths.setdefault(name, Counter())[cell[0]] += 1
        for constraint in known.filed:  # names keep the order in which they were first seen
            self.rank.setdefault(constraint.name, len(self.rank))
        if self._free:
            number = self._free.pop()
            self._known[number] = known
        else:
            number = len(self._known)
            self._known.append(known)
            self.dropped.append(0)
        self._numbers[known.text] = number
        self.file(number, known.filed)

    def remove(self, known: Known) -> None:
        """Take a filter away."""
        number = self._numbers.pop(known.text)
        self.unfile(number, known.filed)
        self._known[number] = None
        self._free.append(number)
        for name, cell in known.cells:
            _take(self._cells, name, cell)
            _take(self._widths, name, cell[0])

    def above(self, known: Known) -> Iterator[Known]:
        """The filters above one, whether or not it is in the tree itself."""
        asked = known.filter
        if not self._cells.keys().isdisjoint(known.spans):
            asked = Filter((*asked, *self._asked(known)))
        for number in self.every(asked, self._numbers.get(known.text, -1)):
            other = self._known[number]
            assert other is not None
            if self._over(other, known):
                yield other

    def _asked(self, known: Known) -> Iterator[Constraint]:
        """The cells in which those that cover a filter may be."""
        for name, span in known.spans.items():
            used = self._cells.get(name)
            if used is None:
                continue
            if span is None:  # it does not show: all of them
                yield from (_in_cell(name, cell) for cell in used)
            elif cell_of(span) is not None:
                for cell in cells_around(span, self._widths[name]):
                    if cell in used:
                        yield _in_cell(name, cell)

    def _over(self, other: Known, known: Known) -> bool:
        return _comes_first(other, known)


def _cells(known: Known) -> Iterator[tuple[str, tuple[int, int]]]:
    """The attributes of a filter on which its span is in a cell, with that cell."""
    for name, span in known.spans.items():
        same = known.same[name]
        if span is not None and (len(same) > 1 or same[0].operator == "between"):
            cell = cell_of(span)
            if cell is not None:
                yield name, cell


def _in_cell(name: str, cell: tuple[int, int]) -> Constraint:
    """As a constraint: an attribute, which no event can have, that says in which cell it is."""
    return Constraint(f"\0{name}", "=", "string", False, f"{cell[0]} {cell[1]}")


def _take(counts: dict[str, Counter[Any]], name: str, what: Any) -> None:
    counts[name][what] -= 1
    if not counts[name][what]:
        del counts[name][what]
    if not counts[name]:
        del counts[name]


class Row:
    """The filters on one attribute: by where their spans begin, by their stems, and the others."""

    __slots__ = ("others", "spans", "stems")

    def __init__(self) -> None:
        self.spans: list[tuple[float, str, float]] = []  # low, text, high
        self.stems: list[tuple[str, str]] = []
        self.others: dict[str, None] = {}

    def change(self, same: list[Constraint], text: str, comes: bool) -> None:
        """A filter with these constraints on the attribute comes or goes."""
        span, stem = span_of(same), stem_of(same)
        if span is not None:
            _change(self.spans, (span[0], text, span[1]), comes)
        elif stem is not None:
            _change(self.stems, (stem, text), comes)
        elif comes:
            self.others[text] = None
        else:
            del self.others[text]

    def below(self, same: list[Constraint], fewer: int) -> tuple[int, list[str]] | None:
        """Those that these constraints may cover, and how many were looked at to find them.

        None if these are not fewer than so many.
        """
        span, stem = span_of(same), stem_of(same)
        if span is not None:
            begin = bisect_left(self.spans, span[0], key=_first)
            end = bisect_right(self.spans, span[1], key=_first)
        elif stem is not None:
            begin, beyond = bisect_left(self.stems, stem, key=_first), after(stem)
            end = len(self.stems)
            if beyond is not None:
                end = bisect_left(self.stems, beyond, key=_first)
        else:
            return None
        count = max(0, end - begin) + len(self.others)
        if count >= fewer:
            return None
        if span is not None:
            found = [text for _, text, high in self.spans[begin:end] if high <= span[1]]
        else:
            found = [text for _, text in self.stems[begin:end]]
        return count, [*found, *self.others]


def _first(entry: tuple[Any, ...]) -> Any:
    return entry[0]


def _change(entries: list[Any], entry: tuple[Any, ...], comes: bool) -> None:
    if comes:
        insort(entries, entry)
    else:
        del entries[bisect_left(entries, entry)]


class Downwards:
    """Filters by their attributes, equalities and spans, to find those that a filter covers."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self._by_name: dict[str, dict[str, Known]] = {}
        self._by_value: dict[tuple[str, Any], dict[str, Known]] = {}
        self._odd: dict[str, dict[str, Known]] = {}  # by name: whose equalities do not show
        self._rows: dict[str, Row] = {}  # by name

    def add(self, known: Known) -> None:
        """Add a filter."""
        self.known[known.text] = known
        for table, key in self._places(known):
            table.setdefault(key, {})[known.text] = known
        for name, same in known.same.items():
            row = self._rows.get(name)
            if row is None:
                row = self._rows[name] = Row()
            row.change(same, known.text, True)

    def remove(self, known: Known) -> None:
        """Take a filter away."""
        del self.known[known.text]
        for table, key in self._places(known):
            held = table.get(key, {})  # none: `x = false and x = 0` has one place twice
            held.pop(known.text, None)
            if not held:
                table.pop(key, None)
        for name, same in known.same.items():
            self._rows[name].change(same, known.text, False)
            if name not in self._by_name:
                del self._rows[name]

    def _places(self, known: Known) -> Iterator[tuple[dict[Any, dict[str, Known]], Any]]:
        for name, same in known.same.items():
            yield self._by_name, name
            if len(same) > 1:
                yield self._odd, name
            for constraint in same:
                if _is_equality(constraint):
                    yield self._by_value, (name, constraint.operand)

    def below(self, known: Known) -> Iterator[Known]:
        """The filters below one."""
        for other in self._candidates(known):
            if other is not known and known.may_cover(other) and stands_above(known, other):
                yield other

    def _candidates(self, known: Known) -> list[Known]:
        best: list[dict[str, Known]] = [self.known]
        fewest = len(self.known)
        for constraint in known.filter:
            name = constraint.name
            tables = [self._by_name.get(name, {})]
            if _is_equality(constraint):
                tables = [
                    self._by_value.get((name, constraint.operand), {}),
                    self._odd.get(name, {}),
                ]
            if sum(map(len, tables)) < fewest:
                best, fewest = tables, sum(map(len, tables))
        for name, same in known.same.items():
            row = self._rows.get(name)
            found = None if row is None else row.below(same, fewest)
            if found is not None:
                fewest, texts = found
                best = [{text: self.known[text] for text in texts}]
        return list({text: other for table in best for text, other in table.items()}.values())


def _is_equality(constraint: Constraint) -> bool:
    return constraint.operator == "=" and not constraint.negated
