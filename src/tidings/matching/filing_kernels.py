"""The kernels of filing: whole tables at a time, and without the GIL for as long."""

from __future__ import annotations

import numpy as np
from numba import njit

from tidings.matching.kernels import (
    NUMBER_IN,
    NUMBER_LOW_LIST,
    TEXT_IS,
    TEXT_LOW_LIST,
)
from tidings.matching.ranking import (
    BY_GRAM,
    BY_NUMBER,
    BY_NUMBERS,
    BY_ORDER,
    BY_PREFIX,
    BY_TEXT,
    BY_TEXTS,
    BY_TRUTH,
    NO_WAY,
)


@njit(cache=True, nogil=True)
def take_ways(filed, ways, slots, lows, number_begins, grams, way, key, slot, counts):
    """Of filters the way they are filed, the key there and the slot; how many go each way."""
    for filter in range(filed.size):
        test = filed[filter]
        if test < 0:
            way[filter] = NO_WAY
        else:
            way[filter] = ways[test]
            slot[filter] = slots[test]
            key[filter] = lows[test]
            if ways[test] == BY_NUMBER:
                key[filter] = number_begins[slots[test]] + (lows[test] >> 1)
            elif ways[test] == BY_GRAM:
                key[filter] = grams[lows[test]]
        counts[way[filter]] += 1


@njit(cache=True, nogil=True)
def choose_wide(filters, kinds, negated, way, share, least, celled, chosen):
    """Mark filters of several tests that cells can hold, and of no narrow one; how many.

    And mark these tests.
    """
    count = 0
    test = 0
    for filter in range(way.size):
        held = 0
        begin = test
        while test < filters.size and filters[test] == filter:
            celled[test] = (kinds[test] == NUMBER_IN or kinds[test] == TEXT_IS) and not negated[
                test
            ]
            held += celled[test]
            test += 1
        suited = way[filter] in (BY_ORDER, BY_TEXT, BY_NUMBER)
        chosen[filter] = suited and held > 1 and share[filter] >= least
        if chosen[filter]:
            count += 1
        else:
            celled[begin:test] = False
    return count


@njit(cache=True, nogil=True)
def link(way, filed, slots, lows, highs, members, number_begins, wanted, keys, filters):
    """Of filters that are filed under a list of values each value, and the filter."""
    count = 0
    for filter in range(way.size):
        if way[filter] == wanted:
            test = filed[filter]
            for at in range(lows[test], lows[test] + highs[test]):
                value = members[at]
                if wanted == BY_NUMBERS:
                    value = number_begins[slots[test]] + (value >> 1)
                keys[count] = value
                filters[count] = filter
                count += 1


@njit(cache=True, nogil=True)
def count_links(way, filed, highs, wanted):
    """How many values such filters are filed under."""
    count = np.int64(0)
    for filter in range(way.size):
        if way[filter] == wanted:
            count += highs[filed[filter]]
    return count


@njit(cache=True, nogil=True)
def list_keys(way, key, wanted, link_keys, first, of_key, of_filter, link_list):
    """A list for each key that occurs; how many lists there are then.

    For each possible key its list, or that of the next key which has one: between successive ones
    lie the records of the first, so an event goes there without a look at the list.
    """
    used = np.zeros(of_key.size, np.bool_)
    for filter in range(way.size):
        if way[filter] == wanted:
            used[key[filter]] = True
    for at in range(link_keys.size):
        used[link_keys[at]] = True
    count = first
    for at in range(of_key.size):
        of_key[at] = count
        count += used[at]
    for filter in range(way.size):
        if way[filter] == wanted:
            of_filter[filter] = of_key[key[filter]]
    for at in range(link_keys.size):
        link_list[at] = of_key[link_keys[at]]
    return count


@njit(cache=True, nogil=True)
def list_slots(way, key, slot, wanted, wanted_key, first, of_slot, of_filter):
    """A list for each slot of filters with a way and a key, or any if that is below zero.

    How many lists there are then; of a slot that has none it is -1.
    """
    of_slot[:] = -1
    for filter in range(way.size):
        if way[filter] == wanted and (wanted_key < 0 or key[filter] == wanted_key):
            of_slot[slot[filter]] = 0
    count = first
    for at in range(of_slot.size):
        if of_slot[at] == 0:
            of_slot[at] = count
            count += 1
    for filter in range(way.size):
        if way[filter] == wanted and (wanted_key < 0 or key[filter] == wanted_key):
            of_filter[filter] = of_slot[slot[filter]]
    return count


@njit(cache=True, nogil=True)
def order_keys(filters, filed, kinds, slots, lows, highs, numbers, bounds, keys):
    """Keys by which ranges are ordered: slot, list and value of the end that is filed under.

    It is the end that fewer values are beyond.
    """
    for at in range(filters.size):
        test = filed[filters[at]]
        slot = slots[test]
        low, high = np.int64(lows[test]), np.int64(highs[test])
        numeric = kinds[test] == NUMBER_IN
        top = 2 * (numbers[slot] if numeric else bounds[slot])
        group = 4 * np.int64(slot) + (NUMBER_LOW_LIST if numeric else TEXT_LOW_LIST)
        if high >= top or (low > 0 and top - low < high):
            keys[at] = group << 32 | low
        else:
            keys[at] = (group + 1) << 32 | (np.int64(0x7FFFFFFF) - high)


@njit(cache=True, nogil=True)
def take_order(filters, keys, order, in_order, begins, values):
    """Filters in their order, where each list of a slot begins, and their keys there."""
    group = 0
    begins[0] = 0
    for at in range(order.size):
        key = keys[order[at]]
        in_order[at] = filters[order[at]]
        while group < key >> 32:
            group += 1
            begins[group] = at
        low = key & 0xFFFFFFFF
        values[at] = low if group & 1 == 0 else low - 0x7FFFFFFF
    begins[group + 1 :] = order.size


@njit(cache=True, nogil=True)
def nest_prefixes(nodes, ends, inner, parent):
    """Walk the nested intervals in order of their beginning, keeping the open ones on a stack."""
    stack = np.empty(nodes.size + 1, np.int64)
    depth = 0
    for node in range(nodes.size):
        while depth and ends[stack[depth - 1]] < nodes[node]:
            depth -= 1
        parent[node] = stack[depth - 1] if depth else -1
        stack[depth] = node
        depth += 1
        for place in range(nodes[node], ends[node] + 1):
            inner[place] = node


@njit(cache=True, nogil=True)
def choose(
    filter, slot, kind, low, high, way, negated, weight, numbers, equal, bounds, given, shares,
    filed, least,
):  # fmt: skip
    """Find the most selective test of each filter, by shares given or as far as filters tell."""
    for test in range(filter.size):
        if negated[test] or way[test] == NO_WAY:
            continue
        if given:
            share = shares[test]
        else:
            at = slot[test]
            share = weight[at] * estimate(
                way[test], kind[test], low[test], high[test], numbers[at], equal[at], bounds[at]
            )
        if share < least[filter[test]]:
            least[filter[test]] = share
            filed[filter[test]] = test


@njit(cache=True, nogil=True)
def estimate(way, kind, low, high, numbers, equal, bounds):
    """The share of values that satisfy a test, where there are so many constants."""
    if way == BY_TEXT:
        return 1.0 / max(equal, 1)
    if way == BY_NUMBER:
        return 1.0 / max(numbers, 1)
    if way == BY_TEXTS:
        return high / max(equal, 1)
    if way == BY_NUMBERS:
        return high / max(numbers, 1)
    if way == BY_TRUTH:
        return 0.5
    if way == BY_PREFIX:
        return 0.05
    if way == BY_GRAM:
        return 0.1
    if way == BY_ORDER:
        top = 2 * (numbers if kind == NUMBER_IN else bounds)
        return (np.int64(high) - low + 1) / (top + 1)
    return 1.0
