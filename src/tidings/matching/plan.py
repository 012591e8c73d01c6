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
        several = (np.bincount(owners, minlength=subscriptions) > 1)[owners] | lists.linked
        kept, total = self._remaining(lists.filed, lists.dense.filters)
        lists.by_order((total == 0) & ~several)
        records, begins, places = self._records(owners, several, lists, kept, total)
        marked = owners | np.where(several, k.SEVERAL, 0)
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

    def _remaining(self, filed: Array, dense: Array) -> tuple[Array, Array]:
        """Which tests are left after filing, and how many of each filter, a question counted."""
        tests = self.tests
        kept = np.ones(tests.filter.size, bool)
        kept[filed[filed >= 0]] = ~tests.exact[filed[filed >= 0]]
        kept[filed[dense]] = True  # a cell is wider than a range
        kept[tests.kind == k.ASK] = False
        asking = np.zeros(self.filters, bool)
        asking[self.ranked.asking] = True
        kept[tests.added & ~asking[tests.filter]] = False  # the others may spare a question
        total = np.bincount(tests.filter[kept], minlength=self.filters)
        total[self.ranked.asking] += 1
        return kept, total

    def _records(
        self,
        owners: Array,
        several: Array,
        lists: Lists,
        kept: Array,
        total: Array,
    ) -> tuple[Array, Array, Array]:
        """Lay out the records list by list: first those without tests, others, then links."""
        tests = self.tests
        bare = (total == 0) & ~several
        length = 2 + 3 * total
        length[lists.settled] = 0  # these need no record
        alone = total <= 1  # in an ordered list the only test stands with the key
        alone[self.ranked.asking] = False
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
        frequency = np.bincount(tests.slot, minlength=len(self.ranked.slots))
        which = np.flatnonzero(kept & full[tests.filter])
        by_rarity = tests.filter[which] * (int(frequency.max(initial=0)) + 1)
        which = which[np.argsort(by_rarity + frequency[tests.slot[which]], kind="stable")]
        number = count_within(tests.filter[which])
        at = places[tests.filter[which]] + 2 + 3 * number
        records[at], records[at + 1], records[at + 2] = self._words(which)
        asking = self.ranked.asking
        at_ask = places[asking] + 2 + 3 * (total[asking] - 1)
        records[at_ask] = k.ASK << k.KIND_SHIFT
        records[at_ask + 1] = self.ranked.asked
        records[place[self.filters :]] = -places[lists.link_filter] - 1
        places[~full] = -1
        return records, begins, places

    def _words(self, which: Array) -> tuple[Array, Array, Array]:
        """Tests as the kernels have them: a word, and two numbers."""
        tests = self.tests
        word = (
            tests.kind[which].astype(np.int64) << k.KIND_SHIFT
            | tests.types[which].astype(np.int64) << k.TYPE_SHIFT
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
            k.DENSE_CELL: np.concatenate([*lists.dense.cells, np.zeros(0, np.int64)]),
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
