"""Compiling filters to a plan: the flat arrays that the kernels read.

Constants are ranked attribute by attribute, so that every comparison becomes an interval of whole
numbers. Operators that ignore case or look at the end of a text become plain ones on a *derived*
attribute (folded, reversed), which is computed from the event. What the kernels cannot test
(regular expressions, inner wildcards where case is ignored or the pattern is long, tests of other
dialects, predicates without a normal form) becomes a question that Python answers after the index
has pruned.

Every filter is filed under its most selective constraint; the others stand beside it as tests.
Everything here is done on whole columns at once: a million filters take seconds.
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
from tidings.language.sets import after_prefix
from tidings.matching import kernels as k
from tidings.matching.constants import Bounds, Equalities, Numbers, Patterns
from tidings.matching.filing import (
    BY_GRAM,
    BY_NUMBER,
    BY_NUMBERS,
    BY_ORDER,
    BY_PREFIX,
    BY_PRESENCE,
    BY_TEXT,
    BY_TEXTS,
    BY_TRUTH,
    NO_WAY,
    Lists,
    Ranked,
    Tests,
    count_within,
)

if TYPE_CHECKING:
    from tidings.language.predicate import Predicate
    from tidings.matching.statistics import Statistics

Array = np.ndarray[Any, Any]
Whole = np.int32

# Derived attributes, and the mark that their names carry behind a NUL. Texts are folded in Python
# and turned round by the kernels.
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
_QUESTIONS: Final = frozenset({"ilike", "matches", "imatches", "holds"})
_BY_PRESENCE: Final = _PATTERNS | {"matches", "imatches", "!=", "i!="}


class Plan(NamedTuple):
    """A compiled table: `whole`, `highs` and `texts` for the kernels, and what Python needs."""

    whole: Array
    highs: Array
    texts: Array
    folded: dict[str, str]  # attribute: the name that its folded values go under
    names: dict[str, int]  # name, derived ones too: slot
    questions: list[Expression]
    filters: int
    constraints: int
    room: int  # what one event may put out at most, questions included
    cells: int  # places of filters held in cells
    scratch: int  # how many numbers a thread works with, besides the entries of its event

    @property
    def bytes(self) -> int:
        """The size of the arrays."""
        return int(self.whole.nbytes + self.highs.nbytes + self.texts.nbytes)


def derived_name(name: str, transform: int) -> str:
    """The name of a derived attribute."""
    return name if transform == PLAIN else f"{name}\0{transform}"


def compile_plan(
    filters: Sequence[Sequence[Constraint]],
    owners: Array,
    whole_questions: dict[int, Expression],
    subscriptions: int,
    absorb: bool = False,
    statistics: Statistics | None = None,
) -> Plan:
    """Compile filters, each owned by the subscription of that number.

    `whole_questions` gives, for a filter that is only a necessary condition, what to ask besides.
    With `absorb`, filters that another of one constraint of the same subscription covers are left
    out. What is selective is told by `statistics` of events, or else estimated from the filters.
    """
    owners = np.asarray(owners, np.int64)
    build = _Build.of(filters, statistics)
    all_filters, all_constraints = build.filters, build.count
    if absorb:
        build.constants()
        kept = np.flatnonzero(~build.absorbed(owners))
        number = {
            filter: at for at, filter in enumerate(kept.tolist()) if filter in whole_questions
        }
        whole_questions = {at: whole_questions[filter] for filter, at in number.items()}
        filters, owners = [filters[filter] for filter in kept.tolist()], owners[kept]
        build = _Build.of(filters, statistics)
    if any(operator in _PATTERNS for operator, _ in build.groups):
        # Nothing can be filed under a pattern, but under the literal in it.
        needed = [[c for c in map(_literal, filter) if c is not None] for filter in filters]
        more_filters = [(*f, *more) for f, more in zip(filters, needed, strict=True)]
        build = _Build.of(more_filters, statistics)
        sizes = np.fromiter(map(len, filters), np.int64, len(filters))
        build.added = count_within(build.tests.filter) >= sizes[build.tests.filter]
    build.constants()
    plan = build.plan(owners, whole_questions, subscriptions)
    return plan._replace(filters=all_filters, constraints=all_constraints)


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


class _Build:
    """One compilation: constraints to coordinates, then filters to lists."""

    @classmethod
    def of(
        cls, filters: Sequence[Sequence[Constraint]], statistics: Statistics | None = None
    ) -> _Build:
        """Begin with filters."""
        sizes = np.fromiter(map(len, filters), np.int64, len(filters))
        flat = chain.from_iterable(filters)
        build = cls(flat, np.repeat(np.arange(len(filters)), sizes), len(filters))
        if statistics is not None:
            shares = map(statistics.share, map(_filed_as, chain.from_iterable(filters)))
            build.shares = np.fromiter(shares, np.float64, build.count)
        return build

    def __init__(self, flat: Iterable[Constraint], filter_of: Array, filters: int) -> None:
        self.count = filter_of.size
        self.filters = filters
        self.tests = Tests(self.count)
        self.tests.filter[:] = filter_of
        self.texts = bytearray()
        self.slots: dict[str, int] = {}
        self.folded: dict[str, str] = {}
        self.turned: dict[int, int] = {}  # slot: that of the same texts turned round
        self.operands = np.empty(self.count, object)
        texts = []  # names, operators and types, in parts
        for begin, fields in _fields(flat, self.count):
            end = begin + len(fields)
            self.tests.negated[begin:end] = fields[:, 3]
            self.operands[begin:end] = fields[:, 4]
            texts.append(np.ascontiguousarray(fields[:, :3].T))
        (self.name_codes, self.names), (operator_codes, operators), (type_codes, types) = (
            _coded([part[column] for part in texts]) for column in range(3)
        )
        self.groups: dict[tuple[str, str], Array] = {}  # of an operator and a type: the tests
        for operator, kind in product(range(len(operators)), range(len(types))):
            at = np.flatnonzero((operator_codes == operator) & (type_codes == kind))
            if at.size:
                self.groups[operators[operator], types[kind]] = at
        self.shares: Array | None = None  # of events that satisfy each constraint, if known
        self.added = np.zeros(self.count, bool)  # those that follow from a pattern beside them
        self._name_slots()

    def _name_slots(self) -> None:
        """Give every attribute, derived ones too, its slot."""
        for (operator, kind), at in self.groups.items():
            transform = _DERIVED[operator][0] if operator in _DERIVED else PLAIN
            self.tests.types[at] = _TYPES[kind]
            codes = self.name_codes[at]
            slot_of = np.zeros(len(self.names), np.int64)
            for code in np.flatnonzero(np.bincount(codes, minlength=len(self.names))).tolist():
                slot_of[code] = self._slot(self.names[code], transform)
            self.tests.slot[at] = slot_of[codes]

    def _slot(self, name: str, transform: int) -> int:
        """The slot of an attribute, or of one derived from it."""
        own = derived_name(name, transform)
        if own not in self.slots:
            self.slots[own] = len(self.slots)
            if transform == FOLDED:
                self.folded[name] = own
            elif transform != PLAIN:
                straight = FOLDED if transform == FOLDED_REVERSED else PLAIN
                self.turned[self._slot(name, straight)] = self.slots[own]
        return self.slots[own]

    def constants(self) -> None:
        """Turn operands to coordinates, group by group."""
        numbers = Numbers(len(self.slots))
        equal = Equalities(len(self.slots))
        bounds = Bounds(len(self.slots))
        patterns = Patterns()
        members: list[int] = []
        later: list[Callable[[], None]] = []
        tests = self.tests
        for (operator, kind), at in self.groups.items():
            transform, plain = _DERIVED.get(operator, (PLAIN, operator))
            operands = self.operands[at]
            slots = tests.slot[at]
            if operator in _QUESTIONS:
                self._question(at, operator)
            elif operator == "like":
                self._fitting(at, operands.tolist(), patterns)
            elif plain == "exists":
                tests.kind[at] = k.EXISTS
                self._file(at, BY_PRESENCE, 0, exact=kind == "any")
            elif kind == "bool":
                tests.kind[at] = k.BOOLEAN_IS
                truth = np.fromiter(operands, np.int64, at.size)
                tests.low[at] = tests.high[at] = truth
                self._file(at, BY_TRUTH, truth, exact=True)
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
        numbers.rank()
        equal.rank()
        bounds.rank()
        for finish in later:
            finish()
        self._estimate(numbers, equal, bounds)
        self.numbers, self.equal, self.bounds, self.patterns = numbers, equal, bounds, patterns
        self.members = np.asarray(members, np.int64)

    def _file(self, at: Array, way: int, key: Any, exact: Any) -> None:
        self.tests.way[at] = way
        self.tests.key[at] = key
        self.tests.exact[at] = exact

    def _question(self, at: Array, operator: str) -> None:
        """What only Python can test, and every event with the attribute has to be asked about."""
        self.tests.kind[at] = k.ASK
        if operator != "holds":  # which is about no attribute
            self._file(at, BY_PRESENCE, 0, exact=False)

    def _numeric(
        self,
        at: Array,
        operator: str,
        operands: Array,
        slots: Array,
        numbers: Numbers,
        members: list[int],
        kind: str,
    ) -> Callable[[], None]:
        tests = self.tests
        typed = kind != "number"
        if operator == "in":
            sizes = np.fromiter(map(len, operands), np.int64, at.size)
            taken = numbers.take(np.repeat(slots, sizes), list(chain.from_iterable(operands)))

            def finish_in() -> None:
                tests.kind[at] = k.NUMBER_AMONG
                tests.low[at] = len(members) + np.concatenate(([0], np.cumsum(sizes)[:-1]))
                tests.high[at] = sizes
                members.extend((2 * numbers.place(taken) + 1).tolist())
                self._file(at, BY_NUMBERS, np.arange(at.size), exact=not typed)
                tests.key[at] = np.concatenate(([0], np.cumsum(sizes)[:-1])) + taken.start
                tests.share[at] = sizes

            return finish_in
        if operator == "between":
            lows = numbers.take(slots, [pair[0] for pair in operands])
            highs = numbers.take(slots, [pair[1] for pair in operands])
        else:
            lows = highs = numbers.take(slots, operands.tolist())

        def finish() -> None:
            low, high = 2 * numbers.place(lows) + 1, 2 * numbers.place(highs) + 1
            top = 2 * numbers.size(slots)
            tests.kind[at] = k.NUMBER_NOT if operator == "!=" else k.NUMBER_IN
            if operator in ("<", "<="):
                low, high = np.zeros_like(low), high - (operator == "<")
            elif operator in (">", ">="):
                low, high = low + (operator == ">"), top
            tests.low[at], tests.high[at] = low, high
            if operator == "=":
                self._file(at, BY_NUMBER, numbers.index(lows), exact=not typed)
            elif operator != "!=":
                self._ordered(at, low, high, top, k.NUMBER_LOW_LIST, typed)
            else:
                self._file(at, BY_PRESENCE, 0, exact=False)

        return finish

    def _ordered(
        self, at: Array, low: Array, high: Array, top: Array, first_list: int, typed: bool
    ) -> None:
        """File ranges by the end that fewer values are beyond."""
        from_low = high >= top
        by_low = from_low | ((low > 0) & (top - low < high))
        which = np.where(by_low, first_list, first_list + 1)
        self._file(at, BY_ORDER, which, exact=~np.asarray(typed) & (from_low | (low <= 0)))
        self.tests.share[at] = (high - low + 1) / (top + 1)

    def _textual(
        self,
        at: Array,
        operator: str,
        texts: list[Any],
        slots: Array,
        equal: Equalities,
        members: list[int],
    ) -> Callable[[], None]:
        tests = self.tests
        if operator == "in":
            sizes = np.fromiter(map(len, texts), np.int64, at.size)
            taken = equal.take(np.repeat(slots, sizes), list(chain.from_iterable(texts)))

            def finish_in() -> None:
                begins = np.concatenate(([0], np.cumsum(sizes)[:-1]))
                found = equal.number[taken]
                tests.kind[at] = k.TEXT_AMONG
                tests.low[at] = len(members) + begins
                tests.high[at] = sizes
                order = np.lexsort((found, np.repeat(np.arange(at.size), sizes)))
                members.extend(found[order].tolist())
                self._file(at, BY_TEXTS, begins + taken.start, exact=True)
                tests.share[at] = sizes

            return finish_in
        taken = equal.take(slots, texts)

        def finish() -> None:
            number = equal.number[taken]
            tests.kind[at] = k.TEXT_IS if operator == "=" else k.TEXT_NOT
            tests.low[at] = tests.high[at] = number
            if operator == "=":
                self._file(at, BY_TEXT, number, exact=True)
            else:
                self._file(at, BY_PRESENCE, 0, exact=False)

        return finish

    def _contained(self, at: Array, texts: list[str], patterns: Patterns) -> None:
        tests = self.tests
        tests.kind[at] = k.TEXT_CONTAINS
        numbers, grams = patterns.contained(texts)
        tests.low[at] = numbers
        self._file(at, BY_GRAM, grams, exact=False)
        # One byte or two alone are tests already; a run of three may still be only a part.
        short = np.fromiter((len(text.encode()) <= 3 for text in texts), bool, at.size)
        tests.exact[at] = short

    def _fitting(self, at: Array, texts: list[str], patterns: Patterns) -> None:
        numbers = patterns.like(texts)
        self._question(at[numbers < 0], "like")
        at, numbers = at[numbers >= 0], numbers[numbers >= 0]
        self.tests.kind[at] = k.TEXT_LIKE
        self.tests.low[at] = numbers
        self._file(at, BY_PRESENCE, 0, exact=False)

    def _bounded(
        self, at: Array, operator: str, texts: list[Any], slots: Array, bounds: Bounds
    ) -> Callable[[], None]:
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

        def finish() -> None:
            low, high = 2 * bounds.place(lows) + 1, 2 * bounds.place(highs) + 1
            top = 2 * bounds.size(slots)
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
                self._file(at, BY_PREFIX, bounds.base(slots) + low, exact=True)
            else:
                self._ordered(at, low, high, top, k.TEXT_LOW_LIST, typed=False)

        return finish

    def _estimate(self, numbers: Numbers, equal: Equalities, bounds: Bounds) -> None:
        """The share of events that satisfy each constraint, as far as the filters tell."""
        tests = self.tests
        mentioned = np.bincount(tests.slot, minlength=len(self.slots)) / max(self.filters, 1)
        weight = np.minimum(mentioned, 1.0)[tests.slot]
        distinct_texts = np.maximum(np.bincount(equal.slots, minlength=len(self.slots)), 1)
        distinct_numbers = np.maximum(numbers.counts, 1)
        share = np.ones(self.count)
        way = tests.way
        for which, values in (
            (BY_TEXT, 1.0 / distinct_texts[tests.slot]),
            (BY_NUMBER, 1.0 / distinct_numbers[tests.slot]),
            (BY_TEXTS, tests.share / distinct_texts[tests.slot]),
            (BY_NUMBERS, tests.share / distinct_numbers[tests.slot]),
            (BY_TRUTH, np.full(self.count, 0.5)),
            (BY_PREFIX, np.full(self.count, 0.05)),
            (BY_GRAM, np.full(self.count, 0.1)),
            (BY_ORDER, tests.share),
        ):
            chosen = way == which
            share[chosen] = values[chosen]
        tests.share = share * weight if self.shares is None else self.shares
        tests.share[tests.negated | (way == NO_WAY)] = np.inf

    # Filters to lists

    def plan(
        self,
        owners: Array,
        whole_questions: dict[int, Expression],
        subscriptions: int,
    ) -> Plan:
        filed = self._choose()
        questions, ask_of = self._questions(whole_questions)
        ranked = Ranked(
            self.tests, len(self.slots), self.filters, self.equal, self.numbers, self.bounds
        )
        lists = Lists(ranked, filed)
        several = (np.bincount(owners, minlength=subscriptions) > 1)[owners] | lists.linked
        kept, total = self._remaining(filed, ask_of, lists.dense.filters)
        lists.by_order((total == 0) & ~several)
        records, begins, places = self._records(owners, several, lists, ask_of, kept, total)
        marked = owners | np.where(several, k.SEVERAL, 0)
        ordered = self._ordered_tests(lists, marked, records, places, kept)
        sections = self._sections(lists, begins, records, places, owners, ordered)
        whole = _pack(sections)
        # Read only, as when they are mapped from a file: to Numba these are other types.
        whole.flags.writeable = False
        self.numbers.highs.flags.writeable = False
        return Plan(
            whole,
            self.numbers.highs,
            np.frombuffer(bytes(self.texts), np.uint8),
            self.folded,
            self.slots,
            questions,
            self.filters,
            self.count,
            subscriptions + 2 * len(ask_of) + 2,
            lists.dense.places.size,
            1 + 3 * len(self.slots) + lists.count + 2 + subscriptions,
        )

    def _choose(self) -> Array:
        """For each filter the test it is filed under, or -1."""
        tests = self.tests
        filed = np.full(self.filters, -1, np.int64)
        if self.count:
            starts = np.flatnonzero(np.diff(tests.filter, prepend=-1))
            sizes = np.diff(np.append(starts, self.count))
            least = np.repeat(np.minimum.reduceat(tests.share, starts), sizes)
            candidates = np.flatnonzero(tests.share == least)
            first = np.diff(tests.filter[candidates], prepend=-1) != 0
            best = candidates[first]
        else:
            best = np.zeros(0, np.int64)
        best = best[np.isfinite(tests.share[best])]
        filed[tests.filter[best]] = best
        return filed

    def absorbed(self, owners: Array) -> Array:
        """Filters with a constraint that implies the only one of another of the same owner.

        The same equality, or a range within one that is open to a side: what single constraints
        mostly are. (Whatever else is covered costs time, not truth.)
        """
        tests = self.tests
        size = np.bincount(tests.filter, minlength=self.filters)
        alone = (size[tests.filter] == 1) & ~tests.negated
        key = owners[tests.filter] * len(self.slots) + tests.slot
        implies = np.zeros(self.count, bool)
        both = k.INTEGER | k.REAL
        for kind, types in ((k.NUMBER_IN, both), (k.TEXT_BETWEEN, k.TEXT)):
            mine = (tests.kind == kind) & (tests.types == types) & ~tests.negated
            single = mine & alone
            keys, at = np.unique(key[single], return_inverse=True)
            if not keys.size:
                continue
            from_bottom = np.full(keys.size, -1)
            to_top = np.full(keys.size, np.iinfo(np.int64).max)
            sizes = self.numbers.counts if kind == k.NUMBER_IN else self.bounds.counts
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
        covered = np.zeros(self.filters, bool)
        covered[tests.filter[implies]] = True
        return covered

    def _questions(
        self, whole_questions: dict[int, Expression]
    ) -> tuple[list[Expression], dict[int, int]]:
        """The questions of filters, each distinct one once, and which filter has which."""
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
        for filter in {**parts, **whole_questions}:
            asked: Expression = (
                whole_questions[filter] if filter in whole_questions else conjoin(parts[filter])
            )
            ask_of[filter] = numbers.setdefault(asked, len(numbers))
        return list(numbers), ask_of

    def _remaining(self, filed: Array, ask_of: dict[int, int], dense: Array) -> tuple[Array, Array]:
        """Which tests are left after filing, and how many of each filter, a question counted."""
        tests = self.tests
        kept = np.ones(self.count, bool)
        kept[filed[filed >= 0]] = ~tests.exact[filed[filed >= 0]]
        kept[filed[dense]] = True  # a cell is wider than a range
        kept[tests.kind == k.ASK] = False
        asking = np.zeros(self.filters, bool)
        asking[list(ask_of)] = True
        kept[self.added & ~asking[tests.filter]] = False  # the others may spare a question
        total = np.bincount(tests.filter[kept], minlength=self.filters)
        total[list(ask_of)] += 1
        return kept, total

    def _records(
        self,
        owners: Array,
        several: Array,
        lists: Lists,
        ask_of: dict[int, int],
        kept: Array,
        total: Array,
    ) -> tuple[Array, Array, Array]:
        """Lay out the records list by list: first those without tests, others, then links."""
        tests = self.tests
        bare = (total == 0) & ~several
        length = 2 + 3 * total
        length[lists.settled] = 0  # these need no record
        alone = total <= 1  # in an ordered list the only test stands with the key
        alone[list(ask_of)] = False
        length[lists.in_order[alone[lists.in_order]]] = 0
        # Items: filters, then links to filters that are filed in several lists.
        item_list = np.concatenate((lists.of_filter, lists.link_list))
        rank = np.where(bare & ~lists.stored, 0, 1)
        item_rank = np.concatenate((rank, np.full(lists.link_list.size, 2)))
        item_size = np.concatenate((length, np.ones(lists.link_list.size, np.int64)))
        # Records of ordered lists lie in their order, so that a search runs through memory.
        item_key = np.zeros(item_list.size, np.int64)
        item_key[lists.in_order] = np.arange(lists.in_order.size)
        item_key[lists.dense.filters] = np.arange(lists.dense.filters.size)
        combined = (item_list * 3 + item_rank) * (self.filters + 1) + item_key
        order = np.argsort(combined, kind="stable")
        place = np.empty(order.size, np.int64)
        ends = np.cumsum(item_size[order])
        place[order] = ends - item_size[order]
        size = int(ends[-1]) if order.size else 0
        begins = np.searchsorted(item_list[order], np.arange(lists.count + 2))
        begins = np.concatenate((place[order], [size]))[begins]
        records = np.zeros(size, np.int64)
        places = place[: self.filters]
        full = length > 0
        records[places[full]] = (owners | np.where(several, k.SEVERAL, 0))[full]
        records[places[full] + 1] = total[full]
        frequency = np.bincount(tests.slot, minlength=len(self.slots))
        which = np.flatnonzero(kept & full[tests.filter])
        by_rarity = tests.filter[which] * (int(frequency.max(initial=0)) + 1)
        which = which[np.argsort(by_rarity + frequency[tests.slot[which]], kind="stable")]
        number = count_within(tests.filter[which])
        at = places[tests.filter[which]] + 2 + 3 * number
        records[at], records[at + 1], records[at + 2] = self._words(which)
        for filter, question in ask_of.items():
            at_ask = places[filter] + 2 + 3 * (total[filter] - 1)
            records[at_ask] = k.ASK << k.KIND_SHIFT
            records[at_ask + 1] = question
        records[place[self.filters :]] = -places[lists.link_filter] - 1
        places[~full] = -1
        return records, begins, places

    def _words(self, which: Array) -> tuple[Array, Array, Array]:
        """Tests as the kernels have them: a word, and two numbers."""
        tests = self.tests
        word = (
            tests.kind[which] << k.KIND_SHIFT
            | tests.types[which] << k.TYPE_SHIFT
            | np.where(tests.negated[which], k.NEGATED, 0)
            | tests.slot[which]
        )
        return word, tests.low[which], tests.high[which]

    def _ordered_tests(
        self, lists: Lists, owners: Array, records: Array, places: Array, kept: Array
    ) -> Array:
        """What is in ordered lists: keys with the only test that is left, or the first."""
        place = places[lists.in_order]
        alone = place < 0  # without a record
        found = np.zeros((place.size, k.ORDERED_WIDTH), np.int64)
        found[:, 0] = lists.order_keys
        found[:, 1] = np.where(alone, owners[lists.in_order], -1 - place)
        only = np.full(self.filters, -1, np.int64)
        which = np.flatnonzero(kept)
        only[self.tests.filter[which]] = which
        test = np.where(alone, only[lists.in_order], -1)
        found[test >= 0, 2:] = np.column_stack(self._words(test[test >= 0]))
        found[test < 0, 2] = k.NEGATED
        # Of the others the first word; where nothing has to be present, one that says so.
        place = place[~alone]
        has = records[place + 1] > 0
        word = np.where(has, records[np.where(has, place + 2, 0)], k.NEGATED)
        found[~alone, 2] = np.where(word >> k.KIND_SHIFT == k.ASK, k.NEGATED, word)
        return found.reshape(-1)

    def _sections(
        self,
        lists: Lists,
        begins: Array,
        records: Array,
        places: Array,
        owners: Array,
        ordered: Array,
    ) -> dict[int, Array]:
        """All sections of the plan's whole numbers."""
        slots = len(self.slots)
        names = list(self.slots)
        name_begins = self._put(name.encode() for name in names)
        name_table = k.table_for(slots)
        name_firsts = np.asarray([0, slots], Whole)
        text_begins = self._put_texts(self.equal.texts.take(pa.array(self.equal.first)))
        text_table = k.table_for(self.equal.slots.size)
        text_places = np.column_stack((text_begins, begins[lists.by_text])).reshape(-1)
        bound_begins = self._put(self.bounds.encoded())
        pattern_begins = self._put(self.patterns.encoded())
        blob = np.frombuffer(bytes(self.texts), np.uint8)
        text_firsts = np.searchsorted(self.equal.slots, np.arange(slots + 1)).astype(Whole)
        k.fill_table(name_table, name_begins, 1, name_firsts, blob)
        k.fill_table(text_table, text_begins, 1, text_firsts, blob)
        gram_slots, grams, gram_lists = lists.grams
        gram_table = k.table_for(grams.size)
        k.fill_grams(gram_table, gram_slots.astype(Whole), grams.astype(Whole))
        inner, prefix_list, prefix_parent = lists.prefixes
        turned = np.full(slots, -1, Whole)
        turned[list(self.turned)] = list(self.turned.values())
        sample_begins, samples = self._samples(bound_begins, blob)
        nothing = np.zeros(0, Whole)
        return {
            k.NAME_TABLE: name_table,
            k.NAME_BEGIN: name_begins,
            k.NAME_FIRST: name_firsts,
            k.TEXT_TABLE: text_table,
            k.TEXT_FIRST: text_firsts,
            k.TEXT_PLACE: text_places,
            k.NUMBER_BEGIN: self.numbers.begins,
            k.NUMBER_LOW: self.numbers.lows if self.numbers.lows.any() else nothing,
            k.NUMBER_PLACE: begins[lists.by_number] if lists.numbered else nothing,
            k.BOUND_BEGIN: self.bounds.begins,
            k.BOUND_TEXT: bound_begins,
            k.BOUND_INNER: inner,
            k.SAMPLE_BEGIN: sample_begins,
            k.SAMPLE_KEY: samples,
            k.SLOT_TURNED: turned,
            k.PREFIX_LIST: prefix_list,
            k.PREFIX_PARENT: prefix_parent,
            k.SLOT_PRESENT: lists.by_presence,
            k.SLOT_FALSE: lists.by_false,
            k.SLOT_TRUE: lists.by_true,
            k.SLOT_GRAMS: np.isin(np.arange(slots), gram_slots),
            k.ORDERED_BEGIN: lists.order_begins,
            k.ORDERED: ordered,
            k.SETTLED_BEGIN: lists.settled_begins,
            k.SETTLED_KEY: lists.settled_keys,
            k.SETTLED_OWNER: owners[lists.settled],
            k.GRAM_TABLE: gram_table,
            k.GRAM_SLOT: gram_slots,
            k.GRAM_BYTES: grams,
            k.GRAM_LIST: gram_lists,
            k.DENSE_SLOT: lists.dense.columns,
            k.DENSE_CELL: np.concatenate([*lists.dense.cells, np.zeros(0, np.int64)]),
            k.DENSE_GROUP: lists.dense.groups,
            k.DENSE_NEXT: lists.dense.following,
            k.DENSE_MASK: lists.dense.masks,
            k.DENSE_BITS: lists.dense.bits,
            k.DENSE_RECORD: np.where(lists.dense.places < 0, -1, places[lists.dense.places]),
            k.LIST_BEGIN: begins,
            k.RECORDS: records,
            k.MEMBERS: self.members,
            k.PATTERN_BEGIN: np.column_stack((pattern_begins[:-1], pattern_begins[1:])).reshape(-1),
            k.ALWAYS: np.asarray([lists.always]),
        }

    def _samples(self, begins: Array, texts: Array) -> tuple[Array, Array]:
        """Of every so many bounds of a slot the first bytes, as numbers in the order of texts."""
        counts = -(-self.bounds.counts // k.SAMPLED)
        firsts = np.concatenate(([0], np.cumsum(counts)))
        at = np.repeat(self.bounds.begins[:-1], counts) + k.SAMPLED * count_within(
            np.repeat(np.arange(counts.size), counts)
        )
        keys = np.zeros(at.size, np.int64)
        k.fill_samples(keys, begins.astype(np.int64)[at], begins.astype(np.int64)[at + 1], texts)
        return firsts, keys.view(Whole)

    def _put_texts(self, texts: pa.Array) -> Array:
        """The same for an Arrow array of texts."""
        _, offsets, data = texts.buffers()
        start = len(self.texts)
        begins = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        if data is not None and begins.size:
            self.texts += memoryview(data)[begins[0] : begins[-1]]
        begins = begins - begins[0] if begins.size else np.zeros(1, np.int64)
        return (begins + start).astype(Whole)

    def _put(self, encoded: Iterable[bytes]) -> Array:
        """Append texts to the plan's bytes; where each begins, and where the last ends."""
        begins = [len(self.texts)]
        for text in encoded:
            self.texts += text
            begins.append(len(self.texts))
        return np.asarray(begins, Whole)


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


def _pack(sections: dict[int, Array]) -> Array:
    """All sections in one array, behind a header that locates them."""
    lengths = np.array([sections[name].size for name in range(k.SECTIONS)])
    # Each begins at an even place: bits are read 64 at a time.
    begins = k.HEADER + np.concatenate(([0], np.cumsum(lengths + lengths % 2)))
    if begins[-1] > np.iinfo(Whole).max:
        raise MemoryError("the plan would pass 2^31 whole numbers; split the subscriptions")
    whole = np.zeros(int(begins[-1]), Whole)
    for name in range(k.SECTIONS):
        end = begins[name] + lengths[name]
        whole[2 * name], whole[2 * name + 1] = begins[name], end
        whole[begins[name] : end] = sections[name]
    whole[2 * k.ALWAYS] = sections[k.ALWAYS][0]
    return whole


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
