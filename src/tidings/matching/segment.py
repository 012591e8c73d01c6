"""A segment: subscriptions compiled once and matched against single events or batches.

After it is made, only tombstones (the flags of removed subscriptions) change. For lists of exact
filters, which need no further test, it keeps ready-made Python lists of ids; a match takes a slice
of such a list, and a removal takes its id out. Single events go to the kernels as MessagePack, the
quickest encoding of a Python dictionary; batches go as Arrow columns. This module evaluates the
residuals that the kernels leave to Python.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from tidings.language.event import Event
from tidings.language.folding import fold
from tidings.language.predicate import Predicate
from tidings.matching import kernels as k
from tidings.matching.columns import Rows, entries_of_batch, without_views
from tidings.matching.contract import Batch, Id, all_integers, events_of, known_columns, names_of
from tidings.matching.merging import Coordinates, merge
from tidings.matching.plan import Plan, compile_plan, lay_out
from tidings.matching.ranking import FlatFilters, rank
from tidings.matching.residuals import Check, Residuals

if TYPE_CHECKING:
    from tidings.matching.statistics import Statistics

Array = np.ndarray[Any, Any]
Pairs = tuple[Array, Array]  # rows, numbers of subscriptions
NO_TOTALS: Final = np.zeros(0, np.int64)
EventsOf = Callable[[Array, set[str]], Iterable[Mapping[str, Any]]]  # of rows, for names
OUTPUT: Final = 1 << 20  # pairs a thread collects before it hands them over
PART: Final = 4_096  # rows a thread takes at a time
EXACT_HELD: Final = 1 << 18  # ids of exact filters kept as Python objects, at most
FEW_IDS: Final = 120  # an array of this many takes less than a kilobyte
SPARSE: Final = 4  # ids below this many times the table's size may be numbers themselves
LEAST_SPARSE: Final = 1_024
FLAGS: Final = 1 << 22  # held at a time, to skip residuals of subscriptions already found
MANY_ROWS: Final = (
    2_048  # from this many rows on, filters in cells are tested for a block of events
)


class Exact(NamedTuple):
    """A list of exact filters: the ids that are not removed, and the places of those removed."""

    ids: list[Id]
    removed: list[int]


class Segment:
    """Compiled subscriptions, each with an id and a number."""

    def __init__(self, ids: Sequence[Id], plan: Plan) -> None:
        self.ids = ids
        self.plan = plan
        # Whether each id is its own number.
        self.counted = bool(ids) and (
            isinstance(ids, range)
            or (isinstance(ids, list) and ids[-1] == len(ids) - 1 and ids == list(range(len(ids))))
        )
        self.coordinates: Coordinates | None = None  # kept only by segments that can grow
        self.removed = np.zeros(len(ids), bool)
        self._removed = self.removed.data
        self.removed_bits = np.zeros(
            len(ids) // 8 + 2, np.uint8
        )  # the same as bits; the last byte: whether any is set
        self._bits = self.removed_bits.data  # a memoryview, which gives Python integers at once
        self.removals = 0
        self._objects: Array | None = None  # the ids, made by the first match that needs them
        self._numbers: dict[Id, int] | None = None
        self.residuals = Residuals(plan.residuals)
        self._local = _LocalArrays()
        self._match = k.match_long_event if plan.cells else k.match_event
        # Lists of exact filters, if these are not too many: how often each list changed, how often
        # all together did (the last), and at which change each list was made. The first match
        # makes a list. One more counter is for subscriptions in no list.
        self.keeps_spans = 0 < k.section(plan.whole, k.EXACT_OWNER).size <= EXACT_HELD
        self._exact_begins = k.section(plan.whole, k.EXACT_BEGIN)
        lists = self._exact_begins.size - 1 if self.keeps_spans else 0
        self.changed = np.zeros(lists + 2, np.int64)
        self._changes = self.changed.data
        self.made = np.full(lists, -1, np.int64)
        self._made = self.made.data
        self._exact = [Exact([], [])] * lists
        self._list_lock = threading.Lock()
        # For each subscription its list and its place there; made by the first removal.
        self._exact_places: tuple[memoryview, memoryview] | None = None
        self._id_arrays: dict[bool, pa.Array] = {}
        self._asked_runs: Array | None = None  # made by the first large batch
        self._integers: tuple[int, bool] | None = (
            None  # the answer, and after how many removals it was found
        )

    @classmethod
    def of(
        cls,
        subscriptions: Mapping[Id, Predicate],
        absorb: bool = False,
        statistics: Statistics | None = None,
    ) -> Segment:
        """Compile subscriptions; `absorb` drops filters that others evidently cover."""
        flat = FlatFilters.of(list(subscriptions.values()))
        plan = compile_plan(*flat, len(subscriptions), absorb, statistics)
        return cls(list(subscriptions), plan)

    @classmethod
    def growing(
        cls, subscriptions: Mapping[Id, Predicate], statistics: Statistics | None = None
    ) -> Segment:
        """Compile subscriptions and keep the coordinates, so that more can be merged in later."""
        none = np.zeros(0, np.int64)
        nothing = Coordinates.of(rank([], {}), none)
        # Have Numba compile the kernels of merging now, not when others wait for the GIL.
        merge(nothing, none.astype(bool), nothing)
        flat = FlatFilters.of(list(subscriptions.values()))
        ranked = rank(flat.filters, flat.residuals, statistics)
        ids, taken, left = cls([], lay_out(rank([], {}), none, 0))._numbered(
            none.astype(bool), list(subscriptions)
        )
        owners = taken[flat.owners]
        made = cls(ids, lay_out(ranked, owners, len(ids)))
        made.coordinates = Coordinates.of(ranked, owners)
        made._leave(left)
        return made

    def grown(
        self, removed: Array, more: Mapping[Id, Predicate], statistics: Statistics | None = None
    ) -> Segment:
        """A new segment without the removed subscriptions and with more in their places."""
        assert self.coordinates is not None
        slots = self.coordinates.slots.copy()
        newer = Coordinates.of_predicates(list(more.values()), slots, statistics)
        return self.joined(removed, list(more), newer)

    def joined(self, removed: Array, more: list[Id], newer: Coordinates) -> Segment:
        """The same with filters already ranked; the owner of each is a place in `more`.

        Their slots continue the slots here. Both segments share the numbers of all ids; each checks
        its own ids to see which of these numbers it holds.
        """
        assert self.coordinates is not None
        ids, taken, left = self._numbered(removed, more)
        merged = merge(self.coordinates, removed, newer.owned_by(taken))
        other = Segment(ids, lay_out(merged.ranked, merged.owners, len(ids)))
        if not merged.wasteful:
            other.coordinates = merged.coordinates
        if not other.counted:
            other._numbers = self._numbers
            held = self.id_objects()
            if held.dtype != object and all_integers(more):
                objects = np.append(held, np.zeros(len(ids) - held.size, np.int64))
                objects[taken] = np.fromiter(more, np.int64, len(more))
                other._objects = objects
        other._leave(left)
        other.residuals.take_over(self.residuals)
        return other

    def _numbered(self, removed: Array, more: list[Id]) -> tuple[Sequence[Id], Array, Array]:
        """All ids by number, the numbers that the ids in `more` take, and the numbers left free.

        If all ids are integers below about four times the table's size, an id is its own
        subscription number and needs no lookup. Otherwise new ids take the numbers of removed ones
        first.
        """
        live = removed.size - int(np.count_nonzero(removed)) + len(more)
        if (self.counted or not len(self.ids)) and all_integers(more):
            taken = np.fromiter(more, np.int64, len(more))
            size = max(len(self.ids), int(taken.max(initial=-1)) + 1)
            if taken.min(initial=0) >= 0 and size <= SPARSE * live + LEAST_SPARSE:
                left = np.ones(size, bool)
                left[: removed.size] = removed
                left[taken] = False
                return range(size), taken, np.flatnonzero(left)
        free = np.flatnonzero(removed)
        appended = max(len(more) - free.size, 0)
        taken = np.append(free[: len(more)], len(self.ids) + np.arange(appended))
        ids = [*self.ids, *more[len(more) - appended :]]
        numbers = self._all_numbers()
        for number, id in zip(taken.tolist(), more, strict=True):
            if numbers.get(ids[number]) == number:
                del numbers[ids[number]]
            ids[number] = id
            numbers[id] = number
        return ids, taken, free[len(more) :]

    def __len__(self) -> int:
        return len(self.ids) - self.removals

    @property
    def bytes(self) -> int:
        """The size of the plan, and of the coordinates if they are kept."""
        kept = 0 if self.coordinates is None else self.coordinates.bytes
        return self.plan.bytes + kept

    def held(self) -> list[Id]:
        """The ids that are not removed."""
        is_removed = self.removed.tolist()
        return [id for id, no_more in zip(self.ids, is_removed, strict=True) if not no_more]

    def number_of(self, id: Id) -> int | None:
        """The number of a subscription; None if it is not here or is removed."""
        number: int | None
        if self.counted and type(id) is int:
            number = id if 0 <= id < len(self.ids) else None
        else:
            number = self._all_numbers().get(id)
            if number is not None and (number >= len(self.ids) or self.ids[number] != id):
                return None
        if number is None or self._bits[number >> 3] >> (number & 7) & 1:
            return None
        return number

    def _all_numbers(self) -> dict[Id, int]:
        """The number of each id; may hold ids of the segments before and after this one too."""
        if self._numbers is None:
            self._numbers = {id: number for number, id in enumerate(self.ids)}
        return self._numbers

    def prepare(self) -> None:
        """Make ahead what the first match and the first removal would make."""
        if self.ids:
            self.number_of(self.ids[0])
            self._exact_at(0)
            if not self.counted:
                self.id_objects()

    def remove(self, id: Id) -> bool:
        """Set the tombstone of a subscription; returns whether it was here and not yet removed."""
        number = self.number_of(id)
        if number is None:
            return False
        self._removed[number] = True
        bits, changes = self._bits, self._changes
        bits[number >> 3] |= 1 << (number & 7)
        bits[-1] = 1
        which, place = self._exact_at(number)
        changes[which] += 1
        changes[-1] += 1
        self.removals += 1
        if place >= 0:
            self._take_from_list(which, place)
        return True

    def remove_all(self, removed: Array) -> None:
        """Set the tombstones of all subscriptions whose flag in `removed` is set."""
        self._leave(removed)
        self.removed_bits[-1] = self.removals > 0
        self.changed += 1  # so lists are rebuilt

    def _leave(self, removed: Array) -> None:
        """Set the tombstones of numbers that no match can find."""
        self.removed[removed] = True
        self.removals = int(self.removed.sum())
        bits = np.packbits(self.removed, bitorder="little")
        self.removed_bits[: bits.size] = bits

    def tombstone_addresses(self, number: int) -> Array:
        """What a kernel writes to set a tombstone: addresses with bits to set, and two counters.

        The caller must call `count_removal` afterwards.
        """
        bits, changed = self.removed_bits, self.changed
        of_list = changed.ctypes.data + 8 * self._exact_at(number)[0]
        last = changed.ctypes.data + 8 * (changed.size - 1)
        return np.array(
            [
                *(self.removed.ctypes.data + number, 1),
                *(bits.ctypes.data + (number >> 3), 1 << (number & 7)),
                *(bits.ctypes.data + bits.size - 1, 1),
                *(of_list, last),
            ]
        )

    def count_removal(self, number: int) -> None:
        """Count a removal whose tombstone is set, and take the subscription from its list."""
        self.removals += 1
        which, place = self._exact_at(number)
        if place >= 0:
            self._take_from_list(which, place)

    def _take_from_list(self, which: int, place: int) -> None:
        """Take the id at a place from a list, unless the list must be rebuilt anyway."""
        with self._list_lock:
            if self._made[which] == self._changes[which] - 1:
                ids, removed = self._exact[which]
                before = bisect_left(removed, place)
                if removed[before : before + 1] != [
                    place
                ]:  # unless the list was made after the removal
                    del ids[place - before]
                    removed.insert(before, place)
                self._made[which] += 1

    def _exact_at(self, number: int) -> tuple[int, int]:
        """The list of exact filters that holds a subscription, and its place there.

        For a subscription in no list: the number of lists, and -1.
        """
        if self._exact_places is None:
            lists = np.full(len(self.ids), len(self._exact), np.int32)
            places = np.full(len(self.ids), -1, np.int32)
            if self.keeps_spans:
                owners = k.section(self.plan.whole, k.EXACT_OWNER)
                sizes = np.diff(self._exact_begins)
                lists[owners] = np.repeat(np.arange(sizes.size), sizes)
                places[owners] = np.arange(owners.size) - self._exact_begins[lists[owners]]
            self._exact_places = lists.data, places.data
        of_list, in_list = self._exact_places
        return of_list[number], in_list[number]

    @property
    def integers(self) -> bool:
        """Whether all ids that are not removed are integers."""
        if self.counted:
            return True
        if self._integers is None or self._integers[0] != self.removals:
            self._integers = (self.removals, all_integers(self.held()))
        return self._integers[1]

    def id_array(self, integers: bool) -> pa.Array:
        """The ids as an Arrow array of integers or, if not `integers`, of texts."""
        array = self._id_arrays.get(integers)
        if array is None:
            if integers:
                array = pa.array(self.ids, pa.int64())
            else:
                array = pa.array([str(id) for id in self.ids], pa.string())
            self._id_arrays[integers] = array
        return array

    def any_id_array(self) -> pa.Array:
        """The ids as Arrow in the type that is there already, such as that of a saved table."""
        for array in self._id_arrays.values():
            return array
        return self.id_array(self.integers)

    def id_column(self, numbers: Array, integers: bool) -> pa.Array:
        """The ids with these numbers as an Arrow array."""
        if integers and self.counted:
            return pa.array(numbers)
        return self.id_array(integers).take(pa.array(numbers))

    # One event

    def match(
        self,
        event: dict[str, Any],
        excluded: Collection[int] = (),
        known: dict[Check, bool] | None = None,
    ) -> list[Id]:
        """The ids that a flat event satisfies, except those with the numbers in `excluded`.

        It reads the answers to residuals from `known` and adds new ones to it.
        """
        plan = self.plan
        data = encode(event, plan.folded)
        held = self.arrays(len(data))
        if excluded:  # stamp them as already found
            held.work[plan.scratch - len(self.ids) + np.fromiter(excluded, np.int64)] = (
                held.work[0] + 1
            )
        found = self._match(held.context, data)
        if found >= 0:
            if not excluded:
                return self.found(held, found)
            numbers = held.out[:found]
            if held.view[k.SPAN_COUNT]:
                numbers = np.concatenate((numbers, *self._unrolled(held)))
        elif found == k.NOT_FLAT:
            return self.match(Event(event), excluded, known)
        else:
            asks = held.context[k.ASKED]
            asked = held.out[: -2 * asks - 1 : -1]
            found_numbers = held.out[: -1 - found]
            numbers = self.residuals.answered(event, len(self.ids), found_numbers, asked, known)
        if self.removed_bits[-1]:
            numbers = numbers[~self.removed[numbers]]
        if excluded:
            numbers = numbers[~np.isin(numbers, list(excluded))]
        return self.ids_of(numbers)

    def found(self, held: Arrays, count: int) -> list[Id]:
        """The ids of what the kernel found, perhaps without those removed since."""
        ids = self.ids_of(held.out[:count])
        self.span(held, ids)
        return ids

    def span(self, held: Arrays, ids: list[Id]) -> None:
        """Append the ids of the spans that the kernel found in lists of exact filters."""
        span_count = held.view[k.SPAN_COUNT]
        if span_count:
            exact = self._exact
            spans = iter(held.spans[: 2 * span_count].tolist())
            for number, count in zip(spans, spans, strict=True):
                kept, removed = exact[number] if number >= 0 else self._make_list(-1 - number)
                if removed:
                    count -= bisect_left(removed, count)
                ids += kept[:count]

    def is_as_found(self, held: Arrays) -> bool:
        """Whether nothing was removed since the kernel began."""
        return bool(self._changes[-1] == held.view[k.VERSION])

    def _make_list(self, number: int) -> Exact:
        """Build a list of exact filters from the current tombstones."""
        with self._list_lock:
            version = self.changed[number]
            begin, end = self._exact_begins[number : number + 2]
            owners = k.section(self.plan.whole, k.EXACT_OWNER)[begin:end]
            removed = self.removed[owners]
            exact = Exact(self.ids_of(owners[~removed]), np.flatnonzero(removed).tolist())
            self._exact[number] = exact
            self.made[number] = version
        return exact

    def _unrolled(self, held: Arrays) -> Iterator[Array]:
        """The numbers of the subscriptions in spans."""
        begins = self._exact_begins
        owners = k.section(self.plan.whole, k.EXACT_OWNER)
        spans = held.spans[: 2 * held.view[k.SPAN_COUNT]].reshape(-1, 2)
        for number, count in spans.tolist():
            begin = begins[number if number >= 0 else -1 - number]
            yield owners[begin : begin + count]

    def ids_of(self, numbers: Array) -> list[Id]:
        """The ids with these numbers."""
        if self.counted:
            return numbers.tolist()  # type: ignore[no-any-return]
        return ids_at(self.id_objects(), numbers)

    def id_objects(self) -> Array:
        """The ids by number, as 64-bit integers if all are such, else as Python objects."""
        held = self._objects
        if held is None:
            kind = np.int64 if all_integers(self.ids) else object
            held = self._objects = np.fromiter(self.ids, kind, len(self.ids))
        return held

    def arrays(self, size: int) -> Arrays:
        """This thread's arrays, with room for an event of `size` bytes."""
        held = self._local.arrays
        if held is None or size > held.size:
            held = self._local.arrays = Arrays(self, size)
        return held

    # Many events

    def match_batch(self, batch: Batch, threads: int = 1) -> Iterator[Pairs]:
        """The matches of a batch whose columns are attributes, as `match_entries` gives them."""

        def events(rows: Array, names: set[str]) -> Iterable[Mapping[str, Any]]:
            if not rows.size:
                return ()
            first = int(rows[0])
            part = known_columns(batch.slice(first, int(rows[-1]) + 1 - first), names)
            if not part.num_columns:
                return [{}] * rows.size
            return events_of(without_views(part).take(pa.array(rows - first)), names)

        return self.match_entries(
            entries_of_batch(batch, self.plan), batch.num_rows, events, threads
        )

    def match_entries(
        self, rows: Rows, count: int, events: EventsOf, threads: int = 1, nulls: bool = False
    ) -> Iterator[Pairs]:
        """The matches as pairs of row and subscription number, in the order of rows.

        They come in bounded parts, because there may be a thousand matches an event; a part holds
        all matches of its rows. `events` gives the rows whose residuals Python must evaluate;
        `nulls` says that these rows distinguish null from absent, which columns do not.
        """
        runs = self._runs(count)

        def part(first: int) -> list[Pairs]:
            pairs, asked = self._match_rows(rows, runs, first, min(first + PART, count))
            if asked.size:
                pairs = [self._answered_rows(pairs, asked.reshape(-1, 3), events, nulls)]
            if self.removed_bits[-1]:
                kept = ((pair, ~self.removed[pair[1]]) for pair in pairs)
                pairs = [(pair[0][mask], pair[1][mask]) for pair, mask in kept]
            return pairs

        starts = range(0, count, PART)
        if threads > 1 and len(starts) > 1:
            with ThreadPoolExecutor(threads) as pool:
                yield from chain.from_iterable(pool.map(part, starts))
        else:
            yield from chain.from_iterable(map(part, starts))

    def tally_batch(self, batch: Batch, totals: Array) -> None:
        """Add to `totals[n]` how many rows match subscription number n."""
        if self.plan.residuals:
            tally(self.match_batch(batch), totals)
        else:
            self.tally_entries(entries_of_batch(batch, self.plan), batch.num_rows, totals)

    def tally_entries(self, rows: Rows, count: int, totals: Array) -> None:
        """The same for the entries of `count` rows; the plan must have no residuals.

        It is quicker than `match_entries`, because it only notes spans of exact filters.
        """
        owners = k.section(self.plan.whole, k.EXACT_OWNER)
        found = np.zeros(len(self.ids) + owners.size + 1, np.int64)
        nothing = np.zeros(self.plan.room, np.int64)
        asked = np.zeros(2 * self.plan.room, np.int32)
        held = self.arrays(0)
        k.match_rows(
            held.context, 0, count, *rows, self._runs(count), nothing, nothing, asked, found
        )
        totals += found[: len(self.ids)]
        totals[owners] += np.cumsum(found[len(self.ids) : -1])
        if self.removed_bits[-1]:
            totals[self.removed] = 0

    def _runs(self, rows: int) -> Array:
        """The runs of cells that filters in cells ask for; empty if there are too few rows."""
        plan = self.plan
        if not plan.cells or rows < MANY_ROWS:
            return np.zeros((0, 0), np.int16)
        if self._asked_runs is None:
            runs = np.empty((plan.cells, k.RUNS_ASKED), np.int16)
            k.dense_runs(plan.whole, runs)
            self._asked_runs = runs
        return self._asked_runs

    def _match_rows(
        self, rows: Rows, runs: Array, first: int, last: int
    ) -> tuple[list[Pairs], Array]:
        """The matches of some rows, and the residuals left to evaluate."""
        plan = self.plan
        held = self.arrays(0)
        asked = np.empty(2 * plan.room + (OUTPUT if plan.residuals else 0), np.int32)
        pairs: list[Pairs] = []
        residuals: list[Array] = [np.zeros(0, np.int32)]
        while first < last:
            # The kernel writes directly to memory that the answer keeps, since writing may be most
            # of the work. Arrow reuses memory that was freed; memory new to a process costs most.
            out, at = (
                np.frombuffer(pa.allocate_buffer(8 * (OUTPUT + plan.room)), np.int64) for _ in "12"
            )
            first, found, asks = k.match_rows(
                held.context, first, last, *rows, runs, out, at, asked, NO_TOTALS
            )
            if found < OUTPUT // 2:
                pairs.append((at[:found].copy(), out[:found].copy()))
            else:
                pairs.append((at[:found], out[:found]))
            residuals.append(asked[: 3 * asks].copy())
        return pairs, np.concatenate(residuals)

    def _answered_rows(
        self, pairs: list[Pairs], asked: Array, events: EventsOf, nulls: bool
    ) -> Pairs:
        """The matches found, and those whose residuals hold in Python."""
        nothing = np.zeros(0, np.int64)
        rows, numbers = (np.concatenate([nothing, *(p[at] for p in pairs)]) for at in (0, 1))
        asked = asked[~_among(asked, rows, numbers, len(self.ids))].astype(np.int64)
        row, subscription, residual = asked.T
        residuals = {q: self.residuals[q] for q in np.unique(residual).tolist()}
        # Unless nulls count, a residual that reads no column has one answer for all rows: row -1.
        fixed = [q for q, asks in residuals.items() if not nulls and not names_of((asks,))]
        about = np.where(np.isin(residual, fixed), -1, row)
        wanted = np.unique(about[about >= 0])
        given = events(wanted, names_of(residuals.values()))
        event_of = {-1: {}, **dict(zip(wanted.tolist(), given, strict=True))}
        distinct, which = np.unique(about * len(self.residuals) + residual, return_inverse=True)
        pairs_asked = (part.tolist() for part in np.divmod(distinct, len(self.residuals)))
        answers = np.fromiter(
            (self.residuals.check(q)(event_of[r]) for r, q in zip(*pairs_asked, strict=True)),
            bool,
            distinct.size,
        )
        yes = answers[which]
        more = np.unique(row[yes] * len(self.ids) + subscription[yes])
        more_rows, more_numbers = np.divmod(more, len(self.ids))
        at = np.searchsorted(rows, more_rows, side="right")
        return np.insert(rows, at, more_rows), np.insert(numbers, at, more_numbers)


def ids_at(ids: Array, numbers: Array) -> list[Id]:
    """The ids at these numbers in an array.

    It takes few at a time: for more, NumPy releases the GIL to allocate memory, and a thread that
    releases it briefly with every event keeps others from ever getting it.
    """
    if numbers.size <= FEW_IDS:
        return ids[numbers].tolist()  # type: ignore[no-any-return]
    found: list[Id] = []
    for begin in range(0, numbers.size, FEW_IDS):
        found += ids[numbers[begin : begin + FEW_IDS]].tolist()
    return found


def _among(asked: Array, rows: Array, numbers: Array, count: int) -> Array:
    """Which of the pairs in `asked` are among the pairs found.

    Both are in the order of rows; several rows are checked together. There are `count`
    subscriptions.
    """
    together = max(FLAGS // count, 1)
    flags = np.zeros(together * count, bool)
    known = np.zeros(len(asked), bool)
    starts = np.arange(int(asked[0, 0]), int(asked[-1, 0]) + together + 1, together)
    ends = zip(np.searchsorted(asked[:, 0], starts), np.searchsorted(rows, starts), strict=True)
    for start, ((a, f), (b, g)) in zip(starts[:-1], pairwise(ends), strict=True):
        if a < b and f < g:
            found = (rows[f:g] - start) * count + numbers[f:g]
            flags[found] = True
            known[a:b] = flags[(asked[a:b, 0] - start) * count + asked[a:b, 1]]
            flags[found] = False
    return known


def tally(pairs: Iterable[Pairs], totals: Array) -> None:
    """Add to `totals` how many rows match each subscription."""
    for _, numbers in pairs:
        totals += np.bincount(numbers, minlength=totals.size)


class _LocalArrays(threading.local):
    """The arrays of each thread."""

    def __init__(self) -> None:
        self.arrays: Arrays | None = None


class Arrays:
    """The working arrays of one thread, and the context that tells the kernels where they are."""

    def __init__(self, segment: Segment, size: int) -> None:
        """Make arrays with room for an event of `size` bytes."""
        plan = segment.plan
        self.size = max(size, 1024)
        self.work = np.zeros(plan.scratch + plan.cells + 64 + k.WIDTH * self.size, np.int32)
        self.out = np.zeros(plan.room, np.int32)
        # Each value may give two spans, each of two numbers.
        self.spans = np.zeros(4 * self.size if segment.keeps_spans else 0, np.int32)
        context = np.zeros(k.CONTEXT, np.int64)
        arrays = (
            plan.whole, plan.highs, plan.texts, self.work, self.out, self.spans,
            segment.removed_bits, segment.changed, segment.made,
        )  # fmt: skip
        context[: k.SCRATCH : 2] = [array.ctypes.data for array in arrays]
        context[1 : k.SCRATCH : 2] = [array.size for array in arrays]
        context[k.SCRATCH] = plan.scratch
        context[k.LIMIT] = len(segment.ids)
        self.context = context
        self.view = context.data  # a memoryview, which gives Python integers at once


def encode(event: dict[str, Any], folded: dict[str, str]) -> bytes:
    """A flat event as MessagePack; also holds folded texts, under their derived names."""
    try:
        return _encode(event, folded)
    except (UnicodeEncodeError, TypeError):  # a text or a name that is no Unicode text
        return _encode(Event(dict(event)), folded)


def _encode(event: dict[str, Any], folded: dict[str, str]) -> bytes:
    if folded:
        event = dict(event)
        for name in folded.keys() & event.keys():
            value = event[name]
            if type(value) is str:
                event[folded[name]] = fold(value)
            elif type(value) is tuple:
                event[folded[name]] = tuple(fold(v) for v in value if type(v) is str)
    try:
        return _ENCODER.encode(event)
    except OverflowError:
        return _ENCODER.encode({name: _writable(value) for name, value in event.items()})


_ENCODER: Final = msgspec.msgpack.Encoder()


def _writable(value: Any) -> Any:
    """An integer of more than 64 bits as the nearest double and the side on which it lies."""
    if isinstance(value, tuple):
        return tuple(map(_writable, value))
    if type(value) is int and not -(2**63) <= value < 2**64:
        try:
            near = float(value)
        except OverflowError:
            near = float("inf") if value > 0 else float("-inf")
            side = -1 if value > 0 else 1
        else:
            side = (value > near) - (value < near)
        return msgspec.msgpack.Ext(
            1, np.array([near], ">f8").tobytes() + side.to_bytes(8, "big", signed=True)
        )
    return value
