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
def nest_prefixes(chosen, filed, slots, lows, highs, begins, first, of_filter, inner, parents):
    """A list for each prefix, numbered in their order; how many.

    For each its parent, or -1, and for each place among the bounds the innermost prefix: the nested
    intervals are walked by where they begin, with the open ones on a stack.
    """
    ends = np.full(inner.size, -1, np.int64)  # of prefixes by where they begin
    for at in range(chosen.size):
        test = filed[chosen[at]]
        base = 2 * begins[slots[test]] + slots[test]
        ends[base + lows[test]] = base + highs[test]
    inner[:] = -1
    count = 0
    stack = np.empty(chosen.size + 1, np.int64)  # their ends
    open_ones = np.empty(chosen.size + 1, np.int64)
    depth = 0
    number = np.empty(inner.size, np.int64)
    for place in range(inner.size):
        while depth and stack[depth - 1] < place:
            depth -= 1
        if ends[place] >= 0:
            parents[count] = open_ones[depth - 1] if depth else -1
            stack[depth], open_ones[depth] = ends[place], count
            depth += 1
            number[place] = count
            count += 1
        if depth:
            inner[place] = open_ones[depth - 1]
    for at in range(chosen.size):
        test = filed[chosen[at]]
        place = 2 * begins[slots[test]] + slots[test] + lows[test]
        of_filter[chosen[at]] = first + number[place]
    return count


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


# Filters held in cells


@njit(cache=True, nogil=True, inline="always")
def column_of(test, slots, kinds):
    """The column of a test: an attribute's numbers or its texts."""
    return 2 * np.int64(slots[test]) + (kinds[test] == TEXT_IS)


@njit(cache=True, nogil=True)
def count_columns(tests, filters, slots, kinds, held, frequency):
    """How often each column is asked, and for each test whether it is held.

    Of several tests of a filter on a column only the first is: a list may satisfy them apart.
    """
    last = np.full(frequency.size, -1, np.int64)
    for at in range(tests.size):
        column = column_of(tests[at], slots, kinds)
        held[at] = last[column] != filters[tests[at]]
        last[column] = filters[tests[at]]
        frequency[column] += held[at]


@njit(cache=True, nogil=True)
def cut_cells(tests, held, slots, kinds, lows, highs, position, cuts):
    """Where the cells of each column meet: as many bounds of tests in each."""
    columns = cuts.shape[0]
    most = np.zeros(columns, np.int64)
    counts = np.zeros(columns + 1, np.int64)
    for at in range(tests.size):
        column = position[column_of(tests[at], slots, kinds)]
        if held[at] and column >= 0:
            counts[column + 1] += 1
            most[column] = max(most[column], lows[tests[at]], highs[tests[at]] + 1)
    begins = np.cumsum(counts)
    by_column = np.empty(begins[-1], np.int64)
    for at in range(tests.size):
        column = position[column_of(tests[at], slots, kinds)]
        if held[at] and column >= 0:
            by_column[begins[column]] = tests[at]
            begins[column] += 1
    for column in range(columns):
        bounds = np.zeros(most[column] + 1, np.int64)
        for test in by_column[begins[column] - counts[column + 1] : begins[column]]:
            bounds[lows[test]] += 1
            bounds[highs[test] + 1] += 1
        count = 2 * counts[column + 1]
        value, passed = 0, bounds[0]
        for cell in range(1, cuts.shape[1] + 1):
            nearest = np.rint((count - 1) * (cell / (cuts.shape[1] + 1)))
            while passed <= nearest:
                value += 1
                passed += bounds[value]
            cuts[column, cell - 1] = value


@njit(cache=True, nogil=True)
def find_cells(
    chosen, tests, held, filters, slots, kinds, lows, highs, position, cuts,
    first, last, group, order, reach, sizes,
):  # fmt: skip
    """For each filter chosen the cells it asks for in each column, or -1; how many words it takes.

    A group is a column and the cell where the range begins that is asked of it first; within it the
    order is by the next. So the filters of a word ask for much the same, and for most events a look
    or two at the word leaves nothing of it. For each group the last cell that is reached, and how
    many are in it.
    """
    columns, cells = cuts.shape[0], cuts.shape[1] + 1
    at = 0
    for number in range(chosen.size):
        while at < tests.size and filters[tests[at]] == chosen[number]:
            test = tests[at]
            column = position[column_of(test, slots, kinds)]
            if held[at] and column >= 0:
                first[number, column] = cell_of(cuts, column, lows[test])
                last[number, column] = cell_of(cuts, column, highs[test])
            at += 1
        group[number] = columns * cells
        asked = 0
        second = 0
        for column in range(columns):
            if first[number, column] >= 0:
                key = cells * column + first[number, column]
                if asked == 0:
                    group[number] = key
                    reach[key] = max(reach[key], last[number, column])
                elif asked == 1:
                    second = key
                asked += 1
        order[number] = (group[number] << 20) + second
        sizes[group[number]] += 1
    words = 0
    for size in sizes:
        words += (size + 63) >> 6
    return words


@njit(cache=True, nogil=True)
def cell_of(cuts, column, value):
    """The cell of a value in a column."""
    cell = 0
    for at in range(cuts.shape[1]):
        cell += cuts[column, at] <= value
    return cell


@njit(cache=True, nogil=True)
def fill_cells(
    chosen, order, first, last, group, reach, sizes, groups, places, following, masks, bits
):
    """Write the words: of each bit its filter, what is asked next, and for each cell the bits."""
    columns = first.shape[1]
    cells = (sizes.size - 1) // max(columns, 1)
    words = masks.size
    at = 0
    word = 0
    turns = np.zeros((columns, cells + 2), np.uint64)  # where bits begin and end, by cell
    for number in range(sizes.size):
        groups[2 * number] = word
        groups[2 * number + 1] = reach[number]
        left = sizes[number]
        while left > 0:
            count = min(left, 64)
            turns[:] = 0
            mask = 0
            next_column, next_first, next_last = -3, cells, 0  # -3: none so far
            for bit in range(count):
                one = order[at + bit]
                places[64 * word + bit] = chosen[one]
                here = np.uint64(1) << np.uint64(bit)
                asked = 0
                second = -1
                for column in range(columns):
                    begin, end = first[one, column], last[one, column]
                    if begin >= 0:
                        mask |= 1 << column
                        if asked == 1:
                            second = column
                        asked += 1
                        if begin <= end:
                            turns[column, begin] ^= here
                            turns[column, end + 1] ^= here
                    else:
                        turns[column, 0] ^= here
                if next_column == -3:
                    next_column = second
                elif next_column != second:
                    next_column = -1
                if second >= 0:
                    next_first = min(next_first, first[one, second])
                    next_last = max(next_last, last[one, second])
            masks[word] = mask
            following[word] = cells << 16
            if next_column >= 0:
                following[word] = next_column | next_first << 8 | next_last << 16
            for column in range(columns):
                held = np.uint64(0)
                for cell in range(cells + 1):
                    held ^= turns[column, cell]
                    if cell == cells:  # of those who do not ask, whatever the value
                        held = absent(order[at : at + count], first, column)
                    bits[(column * (cells + 1) + cell) * words + word] = held
            word += 1
            at += count
            left -= count
    groups[2 * sizes.size] = word


@njit(cache=True, nogil=True)
def absent(ones, first, column):
    """The bits of filters that do not ask for a column."""
    found = np.uint64(0)
    for bit in range(ones.size):
        if first[ones[bit], column] < 0:
            found |= np.uint64(1) << np.uint64(bit)
    return found
