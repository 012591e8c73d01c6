"""Kernel that lays out the arrays of a plan; one call for a whole table."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from tidings.matching import kernels as k
from tidings.matching.filing_kernels import put_in_order
from tidings.matching.kernels import (
    ASK,
    KIND_SHIFT,
    NEGATED,
    ORDERED_WIDTH,
    SEVERAL,
    TYPE_SHIFT,
    copy,
    fill_grams,
    fill_table,
    first_bytes,
    table_for,
)

Array = np.ndarray[Any, Any]

MOST: Final = (1 << 31) - 1  # places in a plan
FEW: Final = 32  # that are sorted by moving each to its place


class Laid(NamedTuple):
    """A plan for the kernels, and what there is to know of it."""

    whole: Array  # empty if it would be too large
    texts: Array
    lists: int
    cells: int
    constraints: int


@njit(cache=True, nogil=True)
def lay_out(
    tests, lists, owners, subscriptions, names, reversed_slots, numbers, equal, bounds, patterns,
    members, asking, asked,
):  # fmt: skip
    """Lay out the plan of filters in their lists, each owned by the subscription of that number.

    `names` holds the names of the slots; `reversed_slots` gives for each slot the slot of the same
    texts reversed.
    """
    slots = reversed_slots.size
    marked = mark_owners(owners, lists.linked, subscriptions)
    kept, total = keep_tests(tests, lists.filed, lists.dense.filters, asking)
    chosen, done = split(lists.ordered, total, marked)
    ordered = put_in_order(tests, chosen, lists.filed, numbers, bounds, slots)
    exact_lists = put_in_order(tests, done, lists.filed, numbers, bounds, slots)
    begins, places, link_places = place_records(
        total, marked, lists, exact_lists.filters, ordered.filters, asking
    )
    records = write_records(
        tests, slots, kept, total, marked, places, asking, asked, lists.link_filter, link_places,
        begins[-1],
    )  # fmt: skip
    texts = np.empty(
        names.data.size + equal.data.size + bounds.data.size + patterns.data.size, np.uint8
    )
    size = np.int64(0)
    name_begins, size = put_texts(names, texts, size)
    text_begins, size = put_texts(equal, texts, size)
    bound_begins, size = put_texts(bounds, texts, size)
    pattern_begins, size = put_texts(patterns, texts, size)
    name_firsts = np.array([0, slots], np.int32)
    text_firsts = equal.begins.astype(np.int32)
    nothing = np.empty(0, np.int32)
    sections = [nothing] * k.SECTIONS
    sections[k.NAME_TABLE] = filled_table(name_begins, name_firsts, texts)
    sections[k.NAME_BEGIN] = name_begins
    sections[k.NAME_FIRST] = name_firsts
    sections[k.TEXT_TABLE] = filled_table(text_begins, text_firsts, texts)
    sections[k.TEXT_FIRST] = text_firsts
    sections[k.TEXT_PLACE] = in_turn(text_begins, begins[lists.by_text])
    sections[k.NUMBER_BEGIN] = numbers.begins.astype(np.int32)
    if numbers.lows.any():
        sections[k.NUMBER_LOW] = numbers.lows.astype(np.int32)
    sections[k.NUMBER_PLACE] = begins[lists.by_number].astype(np.int32)
    sections[k.BOUND_BEGIN] = bounds.begins.astype(np.int32)
    sections[k.BOUND_TEXT] = bound_begins
    sections[k.BOUND_INNER] = lists.inner.astype(np.int32)
    sample_begins, samples = sampled(bounds, slots)
    sections[k.SAMPLE_BEGIN] = sample_begins
    sections[k.SAMPLE_KEY] = samples.view(np.int32)
    sections[k.SLOT_REVERSED] = reversed_slots
    sections[k.PREFIX_LIST] = successive(lists.prefix_first, lists.prefix_parents.size)
    sections[k.PREFIX_PARENT] = lists.prefix_parents.astype(np.int32)
    sections[k.SLOT_PRESENT] = lists.by_presence.astype(np.int32)
    sections[k.SLOT_FALSE] = lists.by_false.astype(np.int32)
    sections[k.SLOT_TRUE] = lists.by_true.astype(np.int32)
    gram_table = table_for(lists.grams.size)
    fill_grams(gram_table, lists.gram_slots.astype(np.int32), lists.grams.astype(np.int32))
    slot_grams = np.zeros(slots, np.int32)
    for slot in lists.gram_slots:
        slot_grams[slot] = 1
    sections[k.SLOT_GRAMS] = slot_grams
    sections[k.ORDERED_BEGIN] = ordered.begins.astype(np.int32)
    sections[k.ORDERED] = write_ordered(tests, kept, marked, places, records, ordered)
    sections[k.EXACT_BEGIN] = exact_lists.begins.astype(np.int32)
    sections[k.EXACT_KEY] = exact_lists.keys.astype(np.int32)
    sections[k.EXACT_OWNER] = owners[exact_lists.filters].astype(np.int32)
    sections[k.GRAM_TABLE] = gram_table
    sections[k.GRAM_SLOT] = lists.gram_slots.astype(np.int32)
    sections[k.GRAM_BYTES] = lists.grams.astype(np.int32)
    sections[k.GRAM_LIST] = successive(lists.gram_first, lists.grams.size)
    sections[k.DENSE_SLOT] = lists.dense.columns.astype(np.int32)
    sections[k.DENSE_CELL] = lists.dense.cuts.reshape(-1).astype(np.int32)
    sections[k.DENSE_GROUP] = lists.dense.groups.astype(np.int32)
    sections[k.DENSE_NEXT] = lists.dense.following.astype(np.int32)
    sections[k.DENSE_MASK] = lists.dense.masks
    sections[k.DENSE_BITS] = lists.dense.bits.view(np.int32)
    dense_records = np.full(lists.dense.places.size, -1, np.int32)
    for at in range(dense_records.size):
        if lists.dense.places[at] >= 0:
            dense_records[at] = places[lists.dense.places[at]]
    sections[k.DENSE_RECORD] = dense_records
    sections[k.LIST_BEGIN] = begins.astype(np.int32)
    sections[k.RECORDS] = records
    sections[k.MEMBERS] = members.astype(np.int32)
    sections[k.PATTERN_BEGIN] = in_turn(pattern_begins[:-1], pattern_begins[1:])
    sections[k.ALWAYS] = np.array([lists.always], np.int32)
    whole = nothing
    if texts.size <= MOST:
        whole = packed(sections)
    constraints = tests.added.size - np.count_nonzero(tests.added)
    return Laid(whole, texts, lists.size, lists.dense.places.size, constraints)


@njit(cache=True, nogil=True)
def split(filters, total, marked):
    """Filters with something left to be tested or asked, and those that are done with that."""
    chosen, done = np.empty(filters.size, np.int64), np.empty(filters.size, np.int64)
    some, others = 0, 0
    for filter in filters:
        if total[filter] == 0 and marked[filter] < SEVERAL:
            done[others] = filter
            others += 1
        else:
            chosen[some] = filter
            some += 1
    return chosen[:some].copy(), done[:others].copy()


@njit(cache=True, nogil=True)
def packed(sections):
    """All sections in one array, behind a header that locates them; empty if it is too large."""
    size = np.int64(k.HEADER)
    for section in sections:
        size += section.size + section.size % 2  # each begins at an even place: bits are read by 64
    if size > MOST:
        return np.empty(0, np.int32)
    whole = np.zeros(size, np.int32)
    at = np.int64(k.HEADER)
    for name in range(k.SECTIONS):
        section = sections[name]
        whole[2 * name], whole[2 * name + 1] = at, at + section.size
        copy(section, 0, section.size, whole, at)
        at += section.size + section.size % 2
    whole[2 * k.ALWAYS] = sections[k.ALWAYS][0]
    return whole


@njit(cache=True, nogil=True)
def put_texts(held, texts, size):
    """Append texts to others; where each begins and the last ends, and the size of all then."""
    copy(held.data, 0, held.data.size, texts, size)
    return (held.places + size).astype(np.int32), size + held.data.size


@njit(cache=True, nogil=True)
def filled_table(begins, firsts, texts):
    """A hash table of texts."""
    table = table_for(begins.size - 1)
    fill_table(table, begins, 1, firsts, texts)
    return table


@njit(cache=True, nogil=True)
def in_turn(ones, others):
    """One and another in turn."""
    both = np.empty(2 * ones.size, np.int32)
    for at in range(ones.size):
        both[2 * at], both[2 * at + 1] = ones[at], others[at]
    return both


@njit(cache=True, nogil=True)
def successive(first, count):
    """Successive numbers."""
    return np.arange(first, first + count).astype(np.int32)


@njit(cache=True, nogil=True)
def sampled(bounds, slots):
    """Of every so many bounds of a slot the first bytes, as numbers in the order of texts."""
    begins = np.zeros(slots + 1, np.int32)
    for slot in range(slots):
        count = bounds.begins[slot + 1] - bounds.begins[slot]
        begins[slot + 1] = begins[slot] + (count + k.SAMPLED - 1) // k.SAMPLED
    keys = np.empty(begins[slots], np.int64)
    for slot in range(slots):
        for at in range(begins[slot], begins[slot + 1]):
            bound = bounds.begins[slot] + k.SAMPLED * (at - begins[slot])
            keys[at] = first_bytes(bounds.data, bounds.places[bound], bounds.places[bound + 1])
    return begins, keys


@njit(cache=True, nogil=True)
def mark_owners(owners, linked, subscriptions):
    """Mark the owners of several filters, and of filters that are in several lists."""
    marked = np.empty(owners.size, np.int64)
    count = np.zeros(subscriptions, np.int64)
    for filter in range(owners.size):
        count[owners[filter]] += 1
    for filter in range(owners.size):
        several = linked[filter] or count[owners[filter]] > 1
        marked[filter] = owners[filter] | (SEVERAL if several else 0)
    return marked


@njit(cache=True, nogil=True)
def keep_tests(tests, filed, dense, asking):
    """Mark the tests that are left after filing; how many of each filter, a residual counted."""
    kept, total = np.empty(tests.filter.size, np.bool_), np.zeros(filed.size, np.int64)
    inside = np.zeros(total.size, np.bool_)
    for at in range(dense.size):
        inside[dense[at]] = True
    asks = np.zeros(total.size, np.bool_)
    for at in range(asking.size):
        asks[asking[at]] = True
        total[asking[at]] = 1
    for test in range(tests.filter.size):
        filter = tests.filter[test]
        done = filed[filter] == test and tests.exact[test] and not inside[filter]  # cells are wider
        spared = tests.added[test] and not asks[filter]  # else these may spare a residual
        kept[test] = not (done or spared or tests.kind[test] == ASK)
        total[filter] += kept[test]
    return kept, total


@njit(cache=True, nogil=True)
def place_records(total, marked, held, exact_lists, in_order, asking):
    """Where records and links lie, list by list: first those without tests, others, then links.

    What is found otherwise is in the last list; there ordered ones lie in their order, so that a
    search runs through memory. Gives where lists begin and all ends, the place of each record, -1
    if a filter needs none, and that of each link.
    """
    of_filter, lists, dense, link_list = (
        held.of_filter, held.size, held.dense.filters, held.link_list
    )  # fmt: skip
    begins = np.empty(lists + 2, np.int64)
    places = np.empty(total.size, np.int64)
    link_places = np.empty(link_list.size, np.int64)
    EXACT, ORDERED, DENSE = 1, 2, 3
    special = np.zeros(total.size, np.int8)
    for at in range(exact_lists.size):
        special[exact_lists[at]] = EXACT
    for at in range(in_order.size):
        special[in_order[at]] = ORDERED
    for at in range(dense.size):
        special[dense[at]] = DENSE
    asks = np.zeros(total.size, np.bool_)
    for at in range(asking.size):
        asks[asking[at]] = True
    at_rank = np.zeros(3 * (lists + 1) + 1, np.int64)
    for filter in range(total.size):
        places[filter] = 2 + 3 * total[filter]  # for now how long it is
        if special[filter] == EXACT:
            places[filter] = 0
        elif special[filter] == ORDERED and total[filter] <= 1 and not asks[filter]:
            places[filter] = 0  # the only test stands with the key
        at_rank[rank_of(filter, total, marked, of_filter, lists) + 1] += places[filter]
    for at in range(link_list.size):
        at_rank[3 * link_list[at] + 3] += 1
    for at in range(1, at_rank.size):
        at_rank[at] += at_rank[at - 1]
    for at in range(lists + 1):
        begins[at] = at_rank[3 * at]
    begins[lists + 1] = at_rank[-1]
    for filter in range(total.size):
        if special[filter] < ORDERED:
            put_record(filter, rank_of(filter, total, marked, of_filter, lists), at_rank, places)
    for at in range(in_order.size):
        put_record(in_order[at], 3 * lists + 1, at_rank, places)
    for at in range(dense.size):
        put_record(dense[at], 3 * lists + 1, at_rank, places)
    for at in range(link_list.size):
        link_places[at] = at_rank[3 * link_list[at] + 2]
        at_rank[3 * link_list[at] + 2] += 1
    return begins, places, link_places


@njit(cache=True, nogil=True, inline="always")
def rank_of(filter, total, marked, of_filter, lists):
    """The place of a filter's list, and of where in it."""
    if of_filter[filter] < 0:
        return 3 * lists + 1
    single = total[filter] == 0 and marked[filter] & SEVERAL == 0
    return 3 * of_filter[filter] + (0 if single else 1)


@njit(cache=True, nogil=True, inline="always")
def put_record(filter, rank, at_rank, places):
    """Give a record its place."""
    length = places[filter]
    places[filter] = at_rank[rank] if length else -1
    at_rank[rank] += length


@njit(cache=True, nogil=True, inline="always")
def word_of(tests, test):
    """The first number of a test."""
    word = np.int64(tests.kind[test]) << KIND_SHIFT | np.int64(tests.types[test]) << TYPE_SHIFT
    return word | (NEGATED if tests.negated[test] else 0) | tests.slot[test]


@njit(cache=True, nogil=True)
def write_records(
    tests, slots, kept, total, marked, places, asking, asked, link_filter, link_places, size
):  # fmt: skip
    """The records: the owner, how many tests, these from the rarest slot on, a residual."""
    records = np.zeros(size, np.int32)
    frequency = np.zeros(slots, np.int64)
    for slot in tests.slot:
        frequency[slot] += 1
    filters = tests.filter
    count = 0
    which = np.empty(filters.size, np.int64)
    for test in range(filters.size):
        which[count] = test
        count += kept[test]
        last = test + 1 == filters.size or filters[test + 1] != filters[test]
        if last:
            place = places[filters[test]]
            if place >= 0:
                sort_by_rarity(which[:count], tests.slot, frequency)
                for at in range(count):
                    one = which[at]
                    to = place + 2 + 3 * at
                    records[to] = word_of(tests, one)
                    records[to + 1] = tests.low[one]
                    records[to + 2] = tests.high[one]
            count = 0
    for filter in range(places.size):
        if places[filter] >= 0:
            records[places[filter]] = marked[filter]
            records[places[filter] + 1] = total[filter]
    for at in range(asking.size):
        to = places[asking[at]] + 2 + 3 * (total[asking[at]] - 1)
        records[to] = ASK << KIND_SHIFT
        records[to + 1] = asked[at]
    for at in range(link_filter.size):
        records[link_places[at]] = -1 - places[link_filter[at]]
    return records


@njit(cache=True, nogil=True)
def sort_by_rarity(which, slots, frequency):
    """Sort tests by how many there are of their slot."""
    if which.size > FEW:
        keys = np.empty(which.size, np.int64)
        for at in range(which.size):
            keys[at] = frequency[slots[which[at]]]
        which[:] = which[np.argsort(keys, kind="mergesort")]
        return
    for at in range(1, which.size):
        test = which[at]
        rarity = frequency[slots[test]]
        to = at
        while to > 0 and frequency[slots[which[to - 1]]] > rarity:
            which[to] = which[to - 1]
            to -= 1
        which[to] = test


@njit(cache=True, nogil=True)
def write_ordered(tests, kept, marked, places, records, held):
    """What is in ordered lists: keys with the only test that is left, or the first."""
    in_order, keys = held.filters, held.keys
    ordered = np.zeros(ORDERED_WIDTH * in_order.size, np.int32)
    only = np.full(places.size, -1, np.int64)
    for test in range(tests.filter.size):
        if kept[test]:
            only[tests.filter[test]] = test
    for at in range(in_order.size):
        filter = in_order[at]
        place = places[filter]
        to = ORDERED_WIDTH * at
        ordered[to] = keys[at]
        ordered[to + 2] = NEGATED
        if place < 0:  # without a record
            ordered[to + 1] = marked[filter]
            test = only[filter]
            if test >= 0:
                ordered[to + 2] = word_of(tests, test)
                ordered[to + 3] = tests.low[test]
                ordered[to + 4] = tests.high[test]
        else:
            # The first word; where nothing has to be present, one that says so.
            ordered[to + 1] = -1 - place
            if records[place + 1] > 0 and records[place + 2] >> KIND_SHIFT != ASK:
                ordered[to + 2] = records[place + 2]
    return ordered
