"""Merging: what came lately is compiled into what is compiled, without a look at its predicates.

Beside a plan the coordinates of its filters can be kept, fourteen bytes a constraint. To add and to
leave out filters then means to merge the constants of two tables, to move each test to the places
that its constants have now, and to lay out a plan. It is a fraction of the work of ranking millions
of constraints anew, and little of it holds the GIL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tidings.matching import kernels as k
from tidings.matching import merging_kernels as mk
from tidings.matching.constants import Constants, Numbers, Patterns, Texts, read_only
from tidings.matching.ranking import Flat, Ranked, Slots, Tests, rank

if TYPE_CHECKING:
    from tidings.language.expression import Expression
    from tidings.language.predicate import Predicate
    from tidings.matching.statistics import Statistics

Array = np.ndarray[Any, Any]

SPARE: Final = 1_000  # attributes, patterns and questions that nobody mentions any more


class Coordinates(NamedTuple):
    """Ranked filters at rest, each owned by the subscription of a number."""

    owners: Array
    sizes: Array  # how many tests each filter has
    shapes: Array  # of each test all that does not depend on constants
    slot: Array
    low: Array
    high: Array
    members: Array
    slots: Slots
    constants: Constants
    patterns: Patterns
    questions: dict[Expression, int]
    asking: Array
    asked: Array
    shares: Array | None

    @property
    def bytes(self) -> int:
        """The size of the arrays."""
        numbers, *texts = self.constants
        arrays = [*self[:7], self.asking, self.asked, *numbers, *texts[0], *texts[1]]
        return sum(array.nbytes for array in arrays)

    @classmethod
    def of_predicates(
        cls, predicates: list[Predicate], slots: Slots, statistics: Statistics | None = None
    ) -> Coordinates:
        """The filters of predicates, each owned by its place; slots that are new are added."""
        flat = Flat.of(predicates)
        return cls.of(rank(flat.filters, flat.questions, statistics, slots), flat.owners)

    @classmethod
    def of(cls, ranked: Ranked, owners: Array) -> Coordinates:
        """Filters as they are ranked."""
        tests = ranked.tests
        shapes = np.empty(tests.filter.size, np.uint16)
        mk.fold(
            tests.kind, tests.types, tests.way, tests.negated, tests.exact, tests.added, shapes
        )  # fmt: skip
        return cls(
            owners.astype(np.int32),
            np.bincount(tests.filter, minlength=ranked.filters).astype(np.int32),
            shapes,
            tests.slot.astype(np.uint16) if len(ranked.slots) <= 1 << 16 else tests.slot,
            tests.low,
            tests.high,
            ranked.members.astype(np.int32),
            ranked.slots,
            Constants(
                Numbers(*map(read_only, ranked.constants.numbers)),
                Texts(*map(read_only, ranked.constants.equal)),
                Texts(*map(read_only, ranked.constants.bounds)),
            ),
            ranked.patterns,
            ranked.questions,
            ranked.asking,
            ranked.asked,
            ranked.shares,
        )


class _Part:
    """One of the two that are merged: what of it is kept, and what of its constants is used."""

    def __init__(self, held: Coordinates, kept: Array, slots: int) -> None:
        numbers, equal, bounds = held.constants
        self.held = held
        self.kept = kept
        self.filters = int(np.count_nonzero(kept))
        self.number_begins, self.text_begins, self.bound_begins = (
            np.append(part.begins, np.full(slots + 1 - part.begins.size, part.begins[-1]))
            for part in held.constants
        )
        self.number_used = np.zeros(numbers.highs.size, bool)
        self.text_used = np.zeros(equal.places.size - 1, bool)
        self.bound_used = np.zeros(bounds.places.size - 1, bool)
        self.pattern_used = np.zeros(len(held.patterns.numbers), bool)
        self.slot_used = np.zeros(slots, bool)
        self.columns = (
            kept, held.sizes, held.shapes, held.slot, held.low, held.high, held.members,
            self.number_begins, self.bound_begins,
        )  # fmt: skip
        self.tests, self.members = mk.mark(
            *self.columns, self.number_used, self.text_used, self.bound_used, self.pattern_used,
            self.slot_used,
        )  # fmt: skip
        # Where each constant will be.
        self.number_place = np.zeros(self.number_used.size, np.int64)
        self.text_number = np.zeros(self.text_used.size, np.int64)
        self.bound_place = np.zeros(self.bound_used.size, np.int64)
        self.pattern_number = np.arange(self.pattern_used.size)

    def moved(self) -> tuple[Array, Array, Array, Array]:
        """Where the constants are, for a kernel."""
        return self.number_place, self.text_number, self.bound_place, self.pattern_number

    def asking(self) -> tuple[Array, Array]:
        """The filters that have a question, as numbered among those kept, and which."""
        held = self.held
        kept = self.kept[held.asking]
        number = np.cumsum(self.kept) - 1
        return number[held.asking[kept]], held.asked[kept]

    def shares(self) -> Array | None:
        """The shares of events that satisfy the tests kept, if known."""
        shares = self.held.shares
        return None if shares is None else shares[np.repeat(self.kept, self.held.sizes)]


class Merged(NamedTuple):
    """Two tables as one."""

    ranked: Ranked
    owners: Array
    wasteful: bool  # much is in it that nobody mentions any more


def merge(old: Coordinates, kept: Array, new: Coordinates) -> Merged:
    """The filters of a table that are kept, and those of another, whose slots go on from its own.

    Subscriptions have the same numbers in both.
    """
    slots = len(new.slots)
    one = _Part(old, kept, slots)
    two = _Part(new, np.ones(new.owners.size, bool), slots)
    constants = Constants(_numbers(one, two), _equal(one, two), _bounds(one, two))
    patterns, two.pattern_number = old.patterns.joined(new.patterns)
    tests = Tests(np.empty(one.tests + two.tests, np.int64), np.empty)
    shapes = np.empty(tests.filter.size, np.uint16)
    members = np.empty(one.members + two.members, np.int64)
    columns = tests.filter, shapes, tests.slot, tests.low, tests.high, members
    begins = constants.numbers.begins, constants.bounds.begins
    mk.move(*one.columns, *one.moved(), *begins, 0, 0, 0, *columns)
    already = one.filters, one.tests, one.members
    mk.move(*two.columns, *two.moved(), *begins, *already, *columns)
    mk.unfold(
        shapes, tests.kind, tests.types, tests.way, tests.negated, tests.exact, tests.added
    )  # fmt: skip
    questions = dict(old.questions)
    number_of = [questions.setdefault(asked, len(questions)) for asked in new.questions]
    (asking, asked), (more_asking, more_asked) = one.asking(), two.asking()
    more_asked = np.array(number_of, np.int64)[more_asked]
    all_asked = np.concatenate((asked, more_asked))
    shares, more_shares = one.shares(), two.shares()
    known = shares is not None and more_shares is not None
    ranked = Ranked(
        tests,
        one.filters + two.filters,
        new.slots,
        constants,
        patterns,
        members,
        questions,
        np.concatenate((asking, one.filters + more_asking)),
        all_asked,
        np.concatenate((shares, more_shares)) if known else None,  # type: ignore[arg-type]
    )
    mentioned = (
        (slots, np.count_nonzero(one.slot_used | two.slot_used)),
        (len(patterns.numbers), np.count_nonzero(one.pattern_used) + two.pattern_used.size),
        (len(questions), np.unique(all_asked).size),
    )
    wasteful = any(there > SPARE + 2 * used for there, used in mentioned)
    owners = np.concatenate((old.owners[kept], new.owners), dtype=np.int64)
    return Merged(ranked, owners, wasteful)


def _numbers(one: _Part, two: _Part) -> Numbers:
    """The numbers of both."""
    most = np.count_nonzero(one.number_used) + np.count_nonzero(two.number_used)
    highs, lows, begins = np.empty(most), np.empty(most, np.int64), np.empty_like(one.number_begins)
    old, new = one.held.constants.numbers, two.held.constants.numbers
    count = mk.merge_numbers(
        one.number_begins, old.highs, old.lows, one.number_used,
        two.number_begins, new.highs, new.lows, two.number_used,
        begins, highs, lows, one.number_place, two.number_place,
    )  # fmt: skip
    return Numbers(highs[:count].copy(), lows[:count].copy(), begins)


def _bounds(one: _Part, two: _Part) -> Texts:
    """The texts of both that are compared in order."""
    most = np.count_nonzero(one.bound_used) + np.count_nonzero(two.bound_used)
    old, new = one.held.constants.bounds, two.held.constants.bounds
    places, begins = np.empty(most + 1, np.int64), np.empty_like(one.bound_begins)
    data = np.empty(old.data.size + new.data.size, np.uint8)
    count = mk.merge_texts(
        one.bound_begins, old.places, old.data, one.bound_used,
        two.bound_begins, new.places, new.data, two.bound_used,
        begins, places, data, one.bound_place, two.bound_place,
    )  # fmt: skip
    return Texts(places[: count + 1].copy(), data[: places[count]].copy(), begins)


def _equal(one: _Part, two: _Part) -> Texts:
    """The texts of both that are compared for equality, numbered slot by slot."""
    most = np.count_nonzero(one.text_used) + np.count_nonzero(two.text_used)
    old, new = one.held.constants.equal, two.held.constants.equal
    places, begins = np.empty(most + 1, np.int64), np.empty_like(one.text_begins)
    data = np.empty(old.data.size + new.data.size, np.uint8)
    count = mk.join_texts(
        one.text_begins, old.places, old.data, one.text_used,
        two.text_begins, new.places, new.data, two.text_used, k.table_for(two.text_used.size),
        begins, places, data, one.text_number, two.text_number,
    )  # fmt: skip
    return Texts(places[: count + 1].copy(), data[: places[count]].copy(), begins)
