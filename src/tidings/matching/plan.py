"""Compiling filters to a plan: the flat arrays that the kernels read.

Every filter is filed under its most selective constraint; the others stand beside it as tests. Like
ranking, laying out is done on whole columns at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.matching import kernels as k
from tidings.matching import plan_kernels as pk
from tidings.matching.constants import Texts
from tidings.matching.filing import Lists
from tidings.matching.ranking import Ranked, absorbed, count_within, rank

if TYPE_CHECKING:
    from tidings.language.constraint import Constraint
    from tidings.language.expression import Expression
    from tidings.matching.statistics import Statistics

Array = np.ndarray[Any, Any]
Whole = np.int32


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
    ranked = rank(filters, whole_questions, statistics)
    if not absorb:
        return lay_out(ranked, owners, subscriptions)
    all_filters, all_constraints = ranked.filters, int((~ranked.tests.added).sum())
    kept = np.flatnonzero(~absorbed(ranked, owners))
    number = {filter: at for at, filter in enumerate(kept.tolist()) if filter in whole_questions}
    whole_questions = {at: whole_questions[filter] for filter, at in number.items()}
    ranked = rank([filters[filter] for filter in kept.tolist()], whole_questions, statistics)
    plan = lay_out(ranked, owners[kept], subscriptions)
    return plan._replace(filters=all_filters, constraints=all_constraints)


def lay_out(ranked: Ranked, owners: Array, subscriptions: int) -> Plan:
    """The plan of ranked filters, each owned by the subscription of that number."""
    return _Layout(ranked).plan(owners, subscriptions)


class _Layout:
    """Ranked filters on their way to a plan."""

    def __init__(self, ranked: Ranked) -> None:
        self.ranked = ranked
        self.tests = ranked.tests
        self.filters = ranked.filters
        self.texts = bytearray()

    def plan(self, owners: Array, subscriptions: int) -> Plan:
        ranked = self.ranked
        numbers, slots = ranked.constants.numbers, ranked.slots
        lists = Lists(ranked)
        marked = np.empty(owners.size, np.int64)
        pk.mark_owners(owners, lists.linked, subscriptions, marked)
        kept, total = self._remaining(lists)
        lists.by_order((total == 0) & (marked < k.SEVERAL))
        records, begins, places = self._records(marked, lists, kept, total)
        ordered = self._ordered_tests(lists, marked, records, places, kept)
        sections = self._sections(lists, begins, records, places, owners, ordered)
        whole = _pack(sections)
        # Read only, as when they are mapped from a file: to Numba these are other types.
        whole.flags.writeable = False
        numbers.highs.flags.writeable = False
        return Plan(
            whole,
            numbers.highs,
            np.frombuffer(bytes(self.texts), np.uint8),
            slots.folded,
            slots.numbers,
            list(ranked.questions),
            self.filters,
            int((~self.tests.added).sum()),
            subscriptions + 2 * ranked.asking.size + 2,
            lists.dense.places.size,
            1 + 3 * len(slots) + lists.count + 2 + subscriptions,
        )

    def _remaining(self, lists: Lists) -> tuple[Array, Array]:
        """Which tests are left after filing, and how many of each filter, a question counted."""
        tests = self.tests
        kept, total = np.empty(tests.filter.size, bool), np.empty(self.filters, np.int64)
        pk.keep_tests(
            tests.filter, tests.kind, tests.exact, tests.added, lists.filed, lists.dense.filters,
            self.ranked.asking, kept, total,
        )  # fmt: skip
        return kept, total

    def _records(
        self, marked: Array, lists: Lists, kept: Array, total: Array
    ) -> tuple[Array, Array, Array]:
        """The records, where each list of them begins, and where that of each filter is, or -1."""
        tests, ranked = self.tests, self.ranked
        begins = np.empty(lists.count + 2, np.int64)
        places = np.empty(self.filters, np.int64)
        link_places = np.empty(lists.link_list.size, np.int64)
        size = pk.place_records(
            total, marked, lists.of_filter, lists.count, lists.settled, lists.in_order,
            lists.dense.filters, ranked.asking, lists.link_list, begins, places, link_places,
        )  # fmt: skip
        records = np.zeros(size, Whole)
        frequency = np.bincount(tests.slot, minlength=len(ranked.slots))
        pk.write_records(
            tests.filter, tests.slot, tests.kind, tests.types, tests.negated, tests.low, tests.high,
            kept, total, marked, places, frequency, ranked.asking, ranked.asked,
            lists.link_filter, link_places, records,
        )  # fmt: skip
        return records, begins, places

    def _ordered_tests(
        self, lists: Lists, marked: Array, records: Array, places: Array, kept: Array
    ) -> Array:
        """What is in ordered lists: keys with the only test that is left, or the first."""
        tests = self.tests
        ordered = np.zeros(k.ORDERED_WIDTH * lists.in_order.size, Whole)
        pk.write_ordered(
            tests.filter, tests.slot, tests.kind, tests.types, tests.negated, tests.low, tests.high,
            kept, marked, places, records, lists.in_order, lists.order_keys, ordered,
        )  # fmt: skip
        return ordered

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
        held, (numbers, equal, bounds) = self.ranked.slots, self.ranked.constants
        slots = len(held)
        names = pa.array(list(held.numbers), pa.large_string())
        name_begins = self._put(Texts.of(names, np.zeros(slots), 1))
        name_table = k.table_for(slots)
        name_firsts = np.asarray([0, slots], Whole)
        text_begins = self._put(equal)
        text_table = k.table_for(text_begins.size - 1)
        text_places = np.column_stack((text_begins, begins[lists.by_text])).reshape(-1)
        bound_begins = self._put(bounds)
        pattern_begins = self._put(self.ranked.patterns.texts())
        blob = np.frombuffer(bytes(self.texts), np.uint8)
        text_firsts = equal.begins.astype(Whole)
        k.fill_table(name_table, name_begins, 1, name_firsts, blob)
        k.fill_table(text_table, text_begins, 1, text_firsts, blob)
        gram_slots, grams, gram_lists = lists.grams
        gram_table = k.table_for(grams.size)
        k.fill_grams(gram_table, gram_slots.astype(Whole), grams.astype(Whole))
        inner, prefix_list, prefix_parent = lists.prefixes
        turned = np.full(slots, -1, Whole)
        turned[list(held.turned)] = list(held.turned.values())
        sample_begins, samples = self._samples(bound_begins, blob)
        nothing = np.zeros(0, Whole)
        return {
            k.NAME_TABLE: name_table,
            k.NAME_BEGIN: name_begins,
            k.NAME_FIRST: name_firsts,
            k.TEXT_TABLE: text_table,
            k.TEXT_FIRST: text_firsts,
            k.TEXT_PLACE: text_places,
            k.NUMBER_BEGIN: numbers.begins,
            k.NUMBER_LOW: numbers.lows if numbers.lows.any() else nothing,
            k.NUMBER_PLACE: begins[lists.by_number] if lists.numbered else nothing,
            k.BOUND_BEGIN: bounds.begins,
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
            k.DENSE_CELL: lists.dense.cells.reshape(-1),
            k.DENSE_GROUP: lists.dense.groups,
            k.DENSE_NEXT: lists.dense.following,
            k.DENSE_MASK: lists.dense.masks,
            k.DENSE_BITS: lists.dense.bits,
            k.DENSE_RECORD: np.where(lists.dense.places < 0, -1, places[lists.dense.places]),
            k.LIST_BEGIN: begins,
            k.RECORDS: records,
            k.MEMBERS: self.ranked.members,
            k.PATTERN_BEGIN: np.column_stack((pattern_begins[:-1], pattern_begins[1:])).reshape(-1),
            k.ALWAYS: np.asarray([lists.always]),
        }

    def _samples(self, begins: Array, texts: Array) -> tuple[Array, Array]:
        """Of every so many bounds of a slot the first bytes, as numbers in the order of texts."""
        bounds = self.ranked.constants.bounds
        counts = -(-bounds.counts // k.SAMPLED)
        firsts = np.concatenate(([0], np.cumsum(counts)))
        at = np.repeat(bounds.begins[:-1], counts) + k.SAMPLED * count_within(
            np.repeat(np.arange(counts.size), counts)
        )
        keys = np.zeros(at.size, np.int64)
        k.fill_samples(keys, begins.astype(np.int64)[at], begins.astype(np.int64)[at + 1], texts)
        return firsts, keys.view(Whole)

    def _put(self, texts: Texts) -> Array:
        """Append texts to the plan's bytes; where each begins, and where the last ends."""
        start = len(self.texts)
        self.texts += texts.data.tobytes()
        return (texts.places + start).astype(Whole)


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
