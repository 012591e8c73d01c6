"""The kernels that lay out a plan: whole tables at a time, and without the GIL for as long."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from tidings.matching.kernels import (
    ASK,
    KIND_SHIFT,
    NEGATED,
    ORDERED_WIDTH,
    SEVERAL,
    TYPE_SHIFT,
)

FEW: Final = 32  # that are sorted by moving each to its place


@njit(cache=True, nogil=True)
def mark_owners(owners, linked, subscriptions, marked):
    """Mark the owners of several filters, and of filters that are in several lists."""
    count = np.zeros(subscriptions, np.int64)
    for filter in range(owners.size):
        count[owners[filter]] += 1
    for filter in range(owners.size):
        several = linked[filter] or count[owners[filter]] > 1
        marked[filter] = owners[filter] | (SEVERAL if several else 0)


@njit(cache=True, nogil=True)
def keep_tests(filters, kinds, exact, added, filed, dense, asking, kept, total):
    """Mark the tests that are left after filing; how many of each filter, a question counted."""
    inside = np.zeros(total.size, np.bool_)
    for at in range(dense.size):
        inside[dense[at]] = True
    asks = np.zeros(total.size, np.bool_)
    for at in range(asking.size):
        asks[asking[at]] = True
    total[:] = asks
    for test in range(filters.size):
        filter = filters[test]
        done = filed[filter] == test and exact[test] and not inside[filter]  # cells are wider
        spared = added[test] and not asks[filter]  # else these may spare a question
        kept[test] = not (done or spared or kinds[test] == ASK)
        total[filter] += kept[test]


@njit(cache=True, nogil=True)
def place_records(
    total, marked, of_filter, lists, settled, in_order, dense, asking, link_list,
    begins, places, link_places,
):  # fmt: skip
    """Where records and links lie, list by list: first those without tests, others, then links.

    What is found otherwise is in the last list; there ordered ones lie in their order, so that a
    search runs through memory. Gives the place of each record, -1 if a filter needs none, and the
    size of all.
    """
    SETTLED, ORDERED, DENSE = 1, 2, 3
    special = np.zeros(total.size, np.int8)
    for at in range(settled.size):
        special[settled[at]] = SETTLED
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
        if special[filter] == SETTLED:
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
    size = at_rank[-1]
    begins[lists + 1] = size
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
    return size


@njit(cache=True, nogil=True, inline="always")
def rank_of(filter, total, marked, of_filter, lists):
    """The place of a filter's list, and of where in it."""
    if of_filter[filter] < 0:
        return 3 * lists + 1
    bare = total[filter] == 0 and marked[filter] & SEVERAL == 0
    return 3 * of_filter[filter] + (0 if bare else 1)


@njit(cache=True, nogil=True, inline="always")
def put_record(filter, rank, at_rank, places):
    """Give a record its place."""
    length = places[filter]
    places[filter] = at_rank[rank] if length else -1
    at_rank[rank] += length


@njit(cache=True, nogil=True, inline="always")
def word_of(test, slots, kinds, types, negated):
    """The first number of a test."""
    word = np.int64(kinds[test]) << KIND_SHIFT | np.int64(types[test]) << TYPE_SHIFT
    return word | (NEGATED if negated[test] else 0) | slots[test]


@njit(cache=True, nogil=True)
def write_records(
    filters, slots, kinds, types, negated, lows, highs, kept, total, marked, places, frequency,
    asking, asked, link_filter, link_places, records,
):  # fmt: skip
    """Write the records: the owner, how many tests, these from the rarest slot on, a question."""
    count = 0
    which = np.empty(filters.size, np.int64)
    for test in range(filters.size):
        which[count] = test
        count += kept[test]
        last = test + 1 == filters.size or filters[test + 1] != filters[test]
        if last:
            place = places[filters[test]]
            if place >= 0:
                sort_by_rarity(which[:count], slots, frequency)
                for at in range(count):
                    one = which[at]
                    to = place + 2 + 3 * at
                    records[to] = word_of(one, slots, kinds, types, negated)
                    records[to + 1] = lows[one]
                    records[to + 2] = highs[one]
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
def write_ordered(
    filters, slots, kinds, types, negated, lows, highs, kept, marked, places, records,
    in_order, keys, ordered,
):  # fmt: skip
    """Write what is in ordered lists: keys with the only test that is left, or the first."""
    only = np.full(places.size, -1, np.int64)
    for test in range(filters.size):
        if kept[test]:
            only[filters[test]] = test
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
                ordered[to + 2] = word_of(test, slots, kinds, types, negated)
                ordered[to + 3] = lows[test]
                ordered[to + 4] = highs[test]
        else:
            # The first word; where nothing has to be present, one that says so.
            ordered[to + 1] = -1 - place
            if records[place + 1] > 0 and records[place + 2] >> KIND_SHIFT != ASK:
                ordered[to + 2] = records[place + 2]
