"""Ranks constants, so that every comparison becomes an interval of whole numbers.

Constants are ranked attribute by attribute. Operators that ignore case or look at the end of a text
become plain ones on a *derived* attribute (folded, reversed), which is computed from the event.
What the kernels cannot test (regular expressions, inner wildcards where case is ignored or the
pattern is long, tests of other dialects, predicates without a normal form) becomes a residual that
Python evaluates after the index has pruned.

Everything here works on whole columns at once: a million filters take seconds.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.language import wildcard
from tidings.language.constraint import Constraint, simplify
from tidings.language.errors import NormalFormError
from tidings.language.expression import And, Expression, conjoin
from tidings.language.folding import fold
from tidings.language.predicate import Predicate, normal_forms
from tidings.language.sets import after_prefix
from tidings.matching import kernels as k
from tidings.matching.constants import (
    Constants,
    Patterns,
    TakenBounds,
    TakenNumbers,
    TakenTexts,
    like_bytes,
)

if TYPE_CHECKING:
    from tidings.matching.statistics import Statistics

Array = np.ndarray[Any, Any]

# Access paths: how an event finds a filter in the index.
NO_PATH, BY_TEXT, BY_NUMBER, BY_TRUTH, BY_PREFIX, BY_GRAM, BY_PRESENCE = range(7)
BY_ORDER, BY_TEXTS, BY_NUMBERS, IN_CELLS = range(7, 11)
PATHS: Final = 11

# Derived attributes, and the mark that their names carry behind a NUL. Texts are folded in Python
# and reversed by the kernels.
PLAIN, FOLDED, REVERSED, FOLDED_REVERSED = range(4)
_DERIVE: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: text,
    fold,
    lambda text: text[::-1],
    lambda text: fold(text)[::-1],
)
# An operator on texts as a plain one on a derived attribute.
_DERIVED: Final = {
    "suffix": (REVERSED, "prefix"),
    "i=": (FOLDED, "="),
    "i!=": (FOLDED, "!="),
    "iin": (FOLDED, "in"),
    "iprefix": (FOLDED, "prefix"),
    "isuffix": (FOLDED_REVERSED, "prefix"),
    "icontains": (FOLDED, "contains"),
}
_TYPES: Final = {
    "number": k.INTEGER | k.REAL,
    "int": k.INTEGER,
    "real": k.REAL,
    "string": k.TEXT,
    "bool": k.BOOLEAN,
    "any": 15,
}
PART: Final = 1 << 14  # constraints that are taken at a time
MOMENT: Final = 50e-6  # seconds
_NEVER: Final = threading.Event()
_PATTERNS: Final = frozenset({"like", "ilike"})
_RESIDUALS: Final = frozenset({"ilike", "matches", "imatches", "holds"})
_BY_PRESENCE: Final = _PATTERNS | {"matches", "imatches", "!=", "i!="}


def derived_name(name: str, transform: int) -> str:
    """The name of a derived attribute."""
    return name if transform == PLAIN else f"{name}\0{transform}"


_Finish = Callable[[Constants], None]  # what is left to do when constants are ranked


class Slots:
    """Attributes, derived ones too, each with a number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.folded: dict[str, str] = {}  # attribute: the name that its folded values go under
        self.reversed: dict[int, int] = {}  # slot: that of the same texts reversed

    def __len__(self) -> int:
        return len(self.numbers)

    def of(self, name: str, transform: int) -> int:
        """The slot of an attribute, or of one derived from it."""
        own = derived_name(name, transform)
        if own not in self.numbers:
            self.numbers[own] = len(self.numbers)
            if transform == FOLDED:
                self.folded[name] = own
            elif transform != PLAIN:
                straight = FOLDED if transform == FOLDED_REVERSED else PLAIN
                self.reversed[self.of(name, straight)] = self.numbers[own]
        return self.numbers[own]

    def copy(self) -> Slots:
        """The same, to which others can be added."""
        other = Slots()
        other.numbers, other.folded = dict(self.numbers), dict(self.folded)
        other.reversed = dict(self.reversed)
        return other


class Tests(NamedTuple):
    """The constraints of all filters, column by column."""

    filter: Array
    slot: Array
    kind: Array
    types: Array
    negated: Array
    low: Array
    high: Array
    path: Array
    exact: Array  # filed under it, it need not be tested again
    added: Array  # it follows from a pattern beside it

    @classmethod
    def of(cls, filter: Array) -> Tests:
        """Of these filters, in columns yet to be filled."""
        kinds = (np.int32, np.int8, np.int8, bool, np.int32, np.int32, np.int8, bool, bool)
        return cls(filter, *(np.zeros(filter.size, kind) for kind in kinds))


class Ranked(NamedTuple):
    """All filters in coordinates: what filing starts from."""

    tests: Tests
    filters: int
    slots: Slots
    constants: Constants
    patterns: Patterns
    members: Array  # of lists of values, one list after another
    residuals: dict[Expression, int]
    asking: Array  # the filters that have a residual,
    asked: Array  # and which
    shares: Array | None  # of events that satisfy each constraint, if known


def rank(
    filters: Sequence[Sequence[Constraint]],
    whole_residuals: dict[int, Expression],
    statistics: Statistics | None = None,
    slots: Slots | None = None,
) -> Ranked:
    """Filters in coordinates; `slots` are known already, and others are added to them.

    `whole_residuals` gives, for a filter that is only a necessary condition, what to ask besides.
    """
    read = _Read(filters, slots or Slots(), statistics)
    if any(operator in _PATTERNS for operator, _ in read.groups):
        # Nothing can be filed under a pattern, but under the literal in it.
        needed = [[c for c in map(_literal, filter) if c is not None] for filter in filters]
        more_filters = [(*f, *more) for f, more in zip(filters, needed, strict=True)]
        read = _Read(more_filters, slots or Slots(), statistics)
        sizes = np.fromiter(map(len, filters), np.int64, len(filters))
        read.tests.added[:] = count_within(read.tests.filter) >= sizes[read.tests.filter]
    return read.ranked(whole_residuals)


def _literal(constraint: Constraint) -> Constraint | None:
    """What a pattern with inner wildcards needs at least, by an operator that can be filed."""
    if constraint.operator not in _PATTERNS or constraint.negated:
        return None
    parts = wildcard.tokens(str(constraint.operand))
    pieces = "".join(p if isinstance(p, str) else "\0" for p in parts).split("\0")
    if "\0" in str(constraint.operand):
        return None
    longest = max(pieces, key=len)
    if not longest:
        return None
    if len(pieces[0]) >= 3 or pieces[0] == longest:
        operator, operand = "prefix", pieces[0]
    elif len(pieces[-1]) >= 3 or pieces[-1] == longest:
        operator, operand = "suffix", pieces[-1]
    else:
        operator, operand = "contains", longest
    ignoring = "i" if constraint.operator == "ilike" else ""
    return simplify(constraint._replace(operator=ignoring + operator, operand=operand))


def _filed_as(constraint: Constraint) -> Constraint:
    """What leads events to filters that are filed under this, if only that there is a value."""
    if constraint.operator not in _BY_PRESENCE:
        return constraint
    return constraint._replace(operator="exists", type="any", operand=None)


class _Read:
    """Constraints read, to be ranked."""

    def __init__(
        self,
        filters: Sequence[Sequence[Constraint]],
        slots: Slots,
        statistics: Statistics | None = None,
    ) -> None:
        self.filters = len(filters)
        self.slots = slots
        sizes = np.fromiter(map(len, filters), np.int64, len(filters))
        self.tests = Tests.of(np.repeat(np.arange(len(filters)), sizes))
        self.count = self.tests.filter.size
        self.operands = np.empty(self.count, object)
        texts = []  # names, operators and types, in parts
        for begin, fields in _fields(chain.from_iterable(filters), self.count):
            end = begin + len(fields)
            self.tests.negated[begin:end] = fields[:, 3]
            self.operands[begin:end] = fields[:, 4]
            texts.append(np.ascontiguousarray(fields[:, :3].T))
        (self.name_codes, self.names), (operator_codes, operators), (type_codes, types) = (
            _coded([part[column] for part in texts]) for column in range(3)
        )
        both = operator_codes * len(types) + type_codes
        order = np.argsort(both, kind="stable")
        ends = np.cumsum(np.bincount(both, minlength=len(operators) * len(types)))[:-1]
        self.groups: dict[tuple[str, str], Array] = {  # of an operator and a type: the tests
            group: at
            for group, at in zip(product(operators, types), np.split(order, ends), strict=False)
            if at.size
        }
        self.tests.types[:] = np.array([_TYPES[kind] for kind in types], np.int8)[type_codes]
        self._name_slots(operator_codes, operators)
        self.shares: Array | None = None
        if statistics is not None:
            shares = map(statistics.share, map(_filed_as, chain.from_iterable(filters)))
            self.shares = np.fromiter(shares, np.float64, self.count)

    def _name_slots(self, operator_codes: Array, operators: list[str]) -> None:
        """Give every attribute, derived ones too, its slot."""
        transforms = [_DERIVED.get(operator, (PLAIN, operator))[0] for operator in operators]
        codes = np.array(transforms, np.int64)[operator_codes] * len(self.names) + self.name_codes
        slot_of = np.zeros(FOLDED_REVERSED * len(self.names) + len(self.names), np.int32)
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            transform, name = divmod(code, len(self.names))
            slot_of[code] = self.slots.of(self.names[name], transform)
        self.tests.slot[:] = slot_of[codes]

    def ranked(self, whole_residuals: dict[int, Expression]) -> Ranked:
        """Turn operands to coordinates, group by group."""
        numbers = TakenNumbers(len(self.slots))
        equal = TakenTexts(len(self.slots))
        bounds = TakenBounds(len(self.slots))
        patterns = Patterns()
        members: list[int] = []
        later: list[_Finish] = []
        tests = self.tests
        for (operator, kind), at in self.groups.items():
            transform, plain = _DERIVED.get(operator, (PLAIN, operator))
            operands = self.operands[at]
            slots = tests.slot[at]
            if operator in _RESIDUALS:
                self._residual(at, operator)
            elif operator == "like":
                self._fitting(at, operands.tolist(), patterns)
            elif plain == "exists":
                tests.kind[at] = k.EXISTS
                self._file(at, BY_PRESENCE, exact=kind == "any")
            elif kind == "bool":
                tests.kind[at] = k.BOOLEAN_IS
                truth = np.fromiter(operands, np.int64, at.size)
                tests.low[at] = tests.high[at] = truth
                self._file(at, BY_TRUTH, exact=True)
            elif kind in ("number", "int", "real"):
                later.append(self._numeric(at, operator, operands, slots, numbers, members, kind))
            elif plain in ("=", "!=", "in"):
                texts = _derive(operands, transform, plain == "in")
                later.append(self._textual(at, plain, texts, slots, equal, members))
            elif plain == "contains":
                self._contained(at, _derive(operands, transform, False), patterns)
            else:
                texts = _derive(operands, transform, plain == "between")
                later.append(self._bounded(at, plain, texts, slots, bounds))
        constants = Constants(numbers.rank(), equal.rank(), bounds.rank())
        for finish in later:
            finish(constants)
        residuals, ask_of = self._residuals(whole_residuals)
        return Ranked(
            tests, self.filters, self.slots, constants, patterns, np.asarray(members, np.int32),
            residuals, np.array(list(ask_of), np.int64), np.array(list(ask_of.values()), np.int64),
            self.shares,
        )  # fmt: skip

    def _file(self, at: Array, path: int, exact: Any) -> None:
        self.tests.path[at] = path
        self.tests.exact[at] = exact

    def _residual(self, at: Array, operator: str) -> None:
        """What only Python can test, and every event with the attribute has to be asked about."""
        self.tests.kind[at] = k.ASK
        if operator != "holds":  # which is about no attribute
            self._file(at, BY_PRESENCE, exact=False)

    def _numeric(
        self,
        at: Array,
        operator: str,
        operands: Array,
        slots: Array,
        numbers: TakenNumbers,
        members: list[int],
        kind: str,
    ) -> _Finish:
        tests = self.tests
        typed = kind != "number"
        if operator == "in":
            sizes = np.fromiter(map(len, operands), np.int64, at.size)
            taken = numbers.take(np.repeat(slots, sizes), list(chain.from_iterable(operands)))

            def finish_in(constants: Constants) -> None:
                tests.kind[at] = k.NUMBER_AMONG
                tests.low[at] = len(members) + np.concatenate(([0], np.cumsum(sizes)[:-1]))
                tests.high[at] = sizes
                members.extend((2 * numbers.places[taken] + 1).tolist())
                self._file(at, BY_NUMBERS, exact=not typed)

            return finish_in
        if operator == "between":
            lows = numbers.take(slots, [pair[0] for pair in operands])
            highs = numbers.take(slots, [pair[1] for pair in operands])
        else:
            lows = highs = numbers.take(slots, operands.tolist())

        def finish(constants: Constants) -> None:
            low, high = 2 * numbers.places[lows] + 1, 2 * numbers.places[highs] + 1
            top = 2 * constants.numbers.counts[slots]
            tests.kind[at] = k.NUMBER_NOT if operator == "!=" else k.NUMBER_IN
            if operator in ("<", "<="):
                low, high = np.zeros_like(low), high - (operator == "<")
            elif operator in (">", ">="):
                low, high = low + (operator == ">"), top
            tests.low[at], tests.high[at] = low, high
            if operator == "=":
                self._file(at, BY_NUMBER, exact=not typed)
            elif operator != "!=":
                self._file(at, BY_ORDER, exact=(not typed) & ((low <= 0) | (high >= top)))
            else:
                self._file(at, BY_PRESENCE, exact=False)

        return finish

    def _textual(
        self,
        at: Array,
        operator: str,
        texts: list[Any],
        slots: Array,
        equal: TakenTexts,
        members: list[int],
    ) -> _Finish:
        tests = self.tests
        if operator == "in":
            sizes = np.fromiter(map(len, texts), np.int64, at.size)
            taken = equal.take(np.repeat(slots, sizes), list(chain.from_iterable(texts)))

            def finish_in(constants: Constants) -> None:
                found = equal.numbers[taken]
                tests.kind[at] = k.TEXT_AMONG
                tests.low[at] = len(members) + np.concatenate(([0], np.cumsum(sizes)[:-1]))
                tests.high[at] = sizes
                order = np.lexsort((found, np.repeat(np.arange(at.size), sizes)))
                members.extend(found[order].tolist())
                self._file(at, BY_TEXTS, exact=True)

            return finish_in
        taken = equal.take(slots, texts)

        def finish(constants: Constants) -> None:
            tests.kind[at] = k.TEXT_IS if operator == "=" else k.TEXT_NOT
            tests.low[at] = tests.high[at] = equal.numbers[taken]
            if operator == "=":
                self._file(at, BY_TEXT, exact=True)
            else:
                self._file(at, BY_PRESENCE, exact=False)

        return finish

    def _contained(self, at: Array, texts: list[str], patterns: Patterns) -> None:
        tests = self.tests
        tests.kind[at] = k.TEXT_CONTAINS
        encoded = [text.encode() for text in texts]
        tests.low[at] = patterns.contained(encoded)
        # A run of up to three bytes is a test already; of more it is only a part.
        sizes = np.fromiter(map(len, encoded), np.int64, at.size)
        self._file(at, BY_GRAM, exact=sizes <= 3)

    def _fitting(self, at: Array, texts: list[str], patterns: Patterns) -> None:
        made = {text: like_bytes(text) for text in set(texts)}
        numbers = patterns.fitted([made[text] for text in texts])
        self._residual(at[numbers < 0], "like")
        at, numbers = at[numbers >= 0], numbers[numbers >= 0]
        self.tests.kind[at] = k.TEXT_LIKE
        self.tests.low[at] = numbers
        self._file(at, BY_PRESENCE, exact=False)

    def _bounded(
        self, at: Array, operator: str, texts: list[Any], slots: Array, bounds: TakenBounds
    ) -> _Finish:
        tests = self.tests
        tests.kind[at] = k.TEXT_BETWEEN
        if operator == "between":
            lows = bounds.take(slots, [pair[0] for pair in texts])
            highs = bounds.take(slots, [pair[1] for pair in texts])
        elif operator == "prefix":
            after = {text: after_prefix(text) for text in set(texts)}
            lows = bounds.take(slots, texts)
            highs = bounds.take(slots, [after[text] for text in texts])
        else:
            lows = highs = bounds.take(slots, texts)

        def finish(constants: Constants) -> None:
            low, high = 2 * bounds.places[lows] + 1, 2 * bounds.places[highs] + 1
            top = 2 * constants.bounds.counts[slots]
            match operator:
                case "<" | "<=":
                    low, high = np.zeros_like(low), high - (operator == "<")
                case ">" | ">=":
                    low, high = low + (operator == ">"), top
                case "prefix":
                    high = np.minimum(high - 1, top)
                case "between":
                    pass
                case _:
                    raise AssertionError(operator)
            tests.low[at], tests.high[at] = low, high
            if operator == "prefix":
                self._file(at, BY_PREFIX, exact=True)
            else:
                self._file(at, BY_ORDER, exact=(low <= 0) | (high >= top))

        return finish

    def _residuals(
        self, whole_residuals: dict[int, Expression]
    ) -> tuple[dict[Expression, int], dict[int, int]]:
        """The residuals of filters, each distinct one with a number, and which filter has which."""
        parts: dict[int, list[Constraint]] = {}
        names = self.names
        for (operator, kind), at in self.groups.items():
            for test in at[self.tests.kind[at] == k.ASK].tolist():
                constraint = Constraint(
                    names[self.name_codes[test]],
                    operator,
                    kind,
                    bool(self.tests.negated[test]),
                    self.operands[test],
                )
                parts.setdefault(int(self.tests.filter[test]), []).append(constraint)
        numbers: dict[Expression, int] = {}
        ask_of: dict[int, int] = {}
        for filter in {**parts, **whole_residuals}:
            asked: Expression = (
                whole_residuals[filter] if filter in whole_residuals else conjoin(parts[filter])
            )
            ask_of[filter] = numbers.setdefault(asked, len(numbers))
        return numbers, ask_of


def _fields(flat: Iterable[Constraint], count: int) -> Iterator[tuple[int, Array]]:
    """The fields of constraints as columns of objects, in parts, each with where it begins.

    One call for all would keep the GIL. And where it is let go only for moments, as NumPy does, who
    waits for it does not get it; so after each part it is let go for longer.
    """
    left = iter(flat)
    for begin in range(0, max(count, 1), PART):
        size = 5 * min(PART, count - begin)
        fields = np.fromiter(chain.from_iterable(islice(left, PART)), object, size)
        yield begin, fields.reshape(-1, 5)
        _NEVER.wait(MOMENT)


def _coded(parts: list[Array]) -> tuple[Array, list[str]]:
    """Which of the distinct texts each is, and these.

    Where the objects are tells them apart quickly: equal texts are mostly one object.
    """
    # The numbers that an array of objects is made of.
    objects = np.concatenate(
        [np.array((ctypes.c_int64 * part.size).from_address(part.ctypes.data)) for part in parts]
    )
    found = pa.array(objects).dictionary_encode()
    codes = found.indices.to_numpy(zero_copy_only=False)
    place = np.zeros(len(found.dictionary), np.int64)
    place[codes] = np.arange(objects.size)
    distinct: dict[str, int] = {}
    numbers = []
    for at in place.tolist():
        text = parts[at // PART][at % PART]
        numbers.append(distinct.setdefault(text, len(distinct)))
    return np.array(numbers, np.int64)[codes], list(distinct)


def _derive(operands: Array, transform: int, tuples: bool) -> list[Any]:
    """Operands as the derived attribute has them."""
    if transform == PLAIN:
        return list(operands)
    derive = _DERIVE[transform]
    if tuples:
        return [tuple(derive(text) for text in operand) for operand in operands]
    made = {text: derive(text) for text in set(operands)}
    return [made[text] for text in operands]


class FlatFilters(NamedTuple):
    """The filters of predicates; without a normal form, a necessary filter and a residual."""

    filters: list[Sequence[Any]]
    owners: Array  # for each filter, the number of its predicate
    residuals: dict[int, Expression]

    @classmethod
    def of(cls, predicates: list[Predicate]) -> FlatFilters:
        """The filters of these predicates, in their order."""
        residuals: dict[int, Expression] = {}
        filters: list[Sequence[Any]]
        try:
            filters = list(normal_forms(predicates))
        except NormalFormError:
            filters = []
            count = 0
            for predicate in predicates:
                found, complete = filters_of(predicate)
                if not complete:
                    residuals[count] = predicate.expression
                filters.append(found)
                count += len(found)
        sizes = np.fromiter(map(len, filters), np.int64, len(filters))
        owners = np.repeat(np.arange(len(predicates)), sizes)
        return cls(list(chain.from_iterable(filters)), owners, residuals)


def filters_of(predicate: Predicate) -> tuple[Sequence[Sequence[Constraint]], bool]:
    """The filters of a predicate, and whether they say all.

    Without a normal form it is one of what every event must satisfy that satisfies the predicate.
    """
    try:
        return predicate.filters, True
    except NormalFormError:
        expression = predicate.expression
        parts = expression.parts if isinstance(expression, And) else (expression,)
        simple = (simplify(part) for part in parts if isinstance(part, Constraint))
        return [tuple(constraint for constraint in simple if constraint is not None)], False


def absorbed(ranked: Ranked, owners: Array) -> Array:
    """Filters with a constraint that implies the only one of another of the same owner.

    The same equality, or a range within one that is open to a side: what single constraints
    mostly are. (Whatever else is covered costs time, not truth.)
    """
    tests = ranked.tests
    size = np.bincount(tests.filter, minlength=ranked.filters)
    alone = (size[tests.filter] == 1) & ~tests.negated
    key = owners[tests.filter] * len(ranked.slots) + tests.slot
    implies = np.zeros(tests.filter.size, bool)
    both = k.INTEGER | k.REAL
    for kind, types in ((k.NUMBER_IN, both), (k.TEXT_BETWEEN, k.TEXT)):
        mine = (tests.kind == kind) & (tests.types == types) & ~tests.negated
        single = mine & alone
        keys, at = np.unique(key[single], return_inverse=True)
        if not keys.size:
            continue
        from_bottom = np.full(keys.size, -1)
        to_top = np.full(keys.size, np.iinfo(np.int64).max)
        sizes = (
            ranked.constants.numbers.counts
            if kind == k.NUMBER_IN
            else ranked.constants.bounds.counts
        )
        top = 2 * sizes[tests.slot]
        open_below, open_above = tests.low[single] <= 0, tests.high[single] >= top[single]
        np.maximum.at(from_bottom, at[open_below], tests.high[single][open_below])
        np.minimum.at(to_top, at[open_above], tests.low[single][open_above])
        place = np.minimum(np.searchsorted(keys, key), keys.size - 1)
        known = mine & (keys[place] == key)
        # A single constraint is left out only for a wider one.
        narrow = np.where(alone, 1, 0)
        implies |= known & (
            (tests.high + narrow <= from_bottom[place]) | (tests.low - narrow >= to_top[place])
        )
    wide = int(tests.low.max(initial=0)) + 1
    for kind in (k.TEXT_IS, k.NUMBER_IN):
        mine = (tests.kind == kind) & ~tests.negated
        if kind == k.NUMBER_IN:
            mine &= (tests.low == tests.high) & (tests.types == both)
        pair = key * wide + tests.low
        single = np.flatnonzero(mine & alone)
        kept = np.unique(pair[single], return_index=True)
        implies |= mine & ~alone & np.isin(pair, kept[0])
        again = np.ones(single.size, bool)
        again[kept[1]] = False
        implies[single[again]] = True
    covered = np.zeros(ranked.filters, bool)
    covered[tests.filter[implies]] = True
    return covered


def count_within(groups: Array) -> Array:
    """0, 1, 2, … within each run of equal numbers."""
    if not groups.size:
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    return np.arange(groups.size) - np.repeat(starts, np.diff(np.append(starts, groups.size)))
