"""Kernel that files each filter under its most selective constraint.

That is a value, a prefix, a run of bytes, the mere presence of an attribute, or a bound in an
ordered list. Filters whose constraints are all satisfied by many events are held as bits in cells.

One kernel does all the work for whole tables: a thread that returns from a kernel waits for the GIL
while others match, so it should return seldom.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from tidings.matching.kernels import (
    CELLS,
    DENSE_SLOTS,
    NUMBER_IN,
    NUMBER_LOW_LIST,
    TEXT_IS,
    TEXT_LOW_LIST,
    copy,
)
from tidings.matching.ranking import (
    BY_GRAM,
    BY_NUMBER,
    BY_NUMBERS,
    BY_ORDER,
    BY_PREFIX,
    BY_PRESENCE,
    BY_TEXT,
    BY_TEXTS,
    BY_TRUTH,
    IN_CELLS,
    NO_PATH,
)

Array = np.ndarray[Any, Any]

WIDE: Final = 0.01  # share of events that is many


class Cells(NamedTuple):
    """Filters of ranges and equalities held as bits in cells: see `kernels.scan_dense`.

    A column is an attribute's numbers or its texts; equalities are ranges of one value.
    """

    filters: Array
    columns: Array
    cuts: Array  # where the cells of a column meet
    groups: Array
    places: Array  # of each bit its filter
    following: Array  # the column that is asked next, and the cells
    masks: Array  # the columns that are asked
    bits: Array


class Lists(NamedTuple):
    """Which list each filter is filed in, and how events find the lists.

    What is found through links or ordered keys lies in a last list that nobody visits, which is
    none of those counted.
    """

    size: int  # how many lists there are
    filed: Array  # for each filter the test it is filed under, or -1
    of_filter: Array  # and its list, or -1
    linked: Array  # whether it is found through links
    link_filter: Array
    link_list: Array
    by_text: Array
    by_number: Array
    by_false: Array
    by_true: Array
    by_presence: Array
    gram_slots: Array
    grams: Array
    gram_first: int  # the list of the first of these
    inner: Array  # for each place among bounds the innermost prefix
    prefix_parents: Array
    prefix_first: int
    always: Any  # the list that every event visits, or -1
    ordered: Array  # filters in ordered lists
    dense: Cells


class Ordered(NamedTuple):
    """Filters in ordered lists, by slot, list and key."""

    filters: Array
    begins: Array  # of each list of a slot, and where the last ends
    keys: Array


@njit(cache=True, nogil=True)
def file_filters(
    tests, filters, slot_count, numbers, equal, bounds, grams, members, given, shares, many_ranges
):
    """File filters with these tests and constants; shares of events for each test, if given.

    From `many_ranges` filters on that many events satisfy, these are held in cells.
    """
    filed, share = most_selective(tests, filters, slot_count, numbers, equal, bounds, given, shares)
    path, key, slot = take_paths(tests, filed, numbers, grams)
    linked = np.empty(filters, np.bool_)
    for filter in range(filters):
        linked[filter] = path[filter] in (BY_TEXTS, BY_NUMBERS)
    dense = fill_dense(tests, slot_count, path, share, many_ranges)
    for filter in dense.filters:
        path[filter] = IN_CELLS
    count = np.int64(0)
    of_filter = np.full(filters, -1, np.int64)
    text_keys, text_filters = link(tests, path, filed, members, numbers, np.int64(BY_TEXTS))
    number_keys, number_filters = link(tests, path, filed, members, numbers, np.int64(BY_NUMBERS))
    by_text, text_lists, count = list_keys(
        path, key, np.int64(BY_TEXT), text_keys, count, equal.places.size, of_filter
    )
    by_number, number_lists, count = list_keys(
        path, key, np.int64(BY_NUMBER), number_keys, count, numbers.highs.size + 1, of_filter
    )
    if by_number[0] == by_number[-1]:  # so an event need not look there
        by_number = by_number[:0].copy()
    truth, presence = np.int64(BY_TRUTH), np.int64(BY_PRESENCE)
    yes, any_key = np.int64(1), np.int64(-1)
    by_false, count = list_slots(path, key, slot, truth, yes - 1, count, slot_count, of_filter)
    by_true, count = list_slots(path, key, slot, truth, yes, count, slot_count, of_filter)
    by_presence, count = list_slots(
        path, key, slot, presence, any_key, count, slot_count, of_filter
    )
    gram_first = count
    gram_slots, gram_bytes = list_grams(path, key, slot, count, of_filter)
    count += gram_slots.size
    prefix_first = count
    inner, parents = nest_prefixes(tests, path, filed, bounds, slot_count, count, of_filter)
    count += parents.size
    always = np.int64(-1)
    for filter in range(filters):
        if path[filter] == NO_PATH:
            of_filter[filter] = always = count
    count += always >= 0
    return Lists(
        count, filed, of_filter, linked,
        joined(text_filters, number_filters), joined(text_lists, number_lists),
        by_text, by_number, by_false, by_true, by_presence,
        gram_slots, gram_bytes, gram_first, inner, parents, prefix_first, always,
        going(path, np.int64(BY_ORDER)), dense,
    )  # fmt: skip


# Where NumPy's functions are longer to compile than what they stand for.


@njit(cache=True, nogil=True)
def going(path, wanted):
    """The filters with this access path."""
    count = 0
    for filter in range(path.size):
        count += path[filter] == wanted
    filters = np.empty(count, np.int64)
    put = 0
    for filter in range(path.size):
        if path[filter] == wanted:
            filters[put] = filter
            put += 1
    return filters


@njit(cache=True, nogil=True)
def joined(ones, others):
    """Numbers and others behind them."""
    both = np.empty(ones.size + others.size, np.int64)
    copy(ones, 0, ones.size, both, 0)
    copy(others, 0, others.size, both, ones.size)
    return both


@njit(cache=True, nogil=True)
def most_selective(tests, filters, slot_count, numbers, equal, bounds, given, shares):
    """For each filter its most selective test, or -1, and the share of events that satisfy it.

    By the shares given, or as far as filters tell.
    """
    filed = np.full(filters, -1, np.int64)
    least = np.full(filters, np.inf)
    weight = np.zeros(slot_count)
    for slot in tests.slot:
        weight[slot] += 1
    for slot in range(slot_count):
        weight[slot] = min(weight[slot] / max(filters, 1), 1.0)
    for test in range(tests.filter.size):
        if tests.negated[test] or tests.path[test] == NO_PATH:
            continue
        if given:
            share = shares[test]
        else:
            slot = tests.slot[test]
            share = weight[slot] * estimate(
                tests.path[test], tests.kind[test], tests.low[test], tests.high[test],
                size_of(numbers, slot), size_of(equal, slot), size_of(bounds, slot),
            )  # fmt: skip
        if share < least[tests.filter[test]]:
            least[tests.filter[test]] = share
            filed[tests.filter[test]] = test
    return filed, least


@njit(cache=True, nogil=True, inline="always")
def size_of(constants, slot):
    """How many constants a slot has."""
    return constants.begins[slot + 1] - constants.begins[slot]


@njit(cache=True, nogil=True)
def estimate(path, kind, low, high, numbers, equal, bounds):
    """The share of values that satisfy a test, where there are so many constants."""
    if path == BY_TEXT:
        return 1.0 / max(equal, 1)
    if path == BY_NUMBER:
        return 1.0 / max(numbers, 1)
    if path == BY_TEXTS:
        return high / max(equal, 1)
    if path == BY_NUMBERS:
        return high / max(numbers, 1)
    if path == BY_TRUTH:
        return 0.5
    if path == BY_PREFIX:
        return 0.05
    if path == BY_GRAM:
        return 0.1
    if path == BY_ORDER:
        top = 2 * (numbers if kind == NUMBER_IN else bounds)
        return (np.int64(high) - low + 1) / (top + 1)
    return 1.0


@njit(cache=True, nogil=True)
def take_paths(tests, filed, numbers, grams):
    """For each filter its access path, its key there and its slot."""
    path = np.empty(filed.size, np.int8)
    key, slot = np.zeros(filed.size, np.int64), np.zeros(filed.size, np.int64)
    for filter in range(filed.size):
        test = filed[filter]
        if test < 0:
            path[filter] = NO_PATH
            continue
        path[filter] = tests.path[test]
        slot[filter] = tests.slot[test]
        key[filter] = tests.low[test]
        if path[filter] == BY_NUMBER:
            key[filter] = numbers.begins[tests.slot[test]] + (tests.low[test] >> 1)
        elif path[filter] == BY_GRAM:
            key[filter] = grams[tests.low[test]]
    return path, key, slot


@njit(cache=True, nogil=True)
def link(tests, path, filed, members, numbers, wanted):
    """Of filters that are filed under a list of values each value, and the filter."""
    count = np.int64(0)
    for filter in range(path.size):
        if path[filter] == wanted:
            count += tests.high[filed[filter]]
    keys, filters = np.empty(count, np.int64), np.empty(count, np.int64)
    put = 0
    for filter in range(path.size):
        if path[filter] == wanted:
            test = filed[filter]
            for at in range(tests.low[test], tests.low[test] + tests.high[test]):
                value = np.int64(members[at])
                if wanted == BY_NUMBERS:
                    value = numbers.begins[tests.slot[test]] + (value >> 1)
                keys[put] = value
                filters[put] = filter
                put += 1
    return keys, filters


@njit(cache=True, nogil=True)
def list_keys(path, key, wanted, link_keys, first, size, of_filter):
    """A list for each key that occurs: these by key and by link, and how many there are then.

    For each possible key its list, or that of the next key which has one: between successive ones
    lie the records of the first, so an event goes there without a look at the list.
    """
    used = np.zeros(size, np.bool_)
    for filter in range(path.size):
        if path[filter] == wanted:
            used[key[filter]] = True
    for at in range(link_keys.size):
        used[link_keys[at]] = True
    of_key = np.empty(size, np.int64)
    count = first
    for at in range(size):
        of_key[at] = count
        count += used[at]
    for filter in range(path.size):
        if path[filter] == wanted:
            of_filter[filter] = of_key[key[filter]]
    link_list = np.empty(link_keys.size, np.int64)
    for at in range(link_keys.size):
        link_list[at] = of_key[link_keys[at]]
    return of_key, link_list, count


@njit(cache=True, nogil=True)
def list_slots(path, key, slot, wanted, wanted_key, first, size, of_filter):
    """A list for each slot of filters with a path and a key, or any if that is below zero.

    These, -1 of a slot that has none, and how many there are then.
    """
    of_slot = np.full(size, -1, np.int64)
    for filter in range(path.size):
        if path[filter] == wanted and (wanted_key < 0 or key[filter] == wanted_key):
            of_slot[slot[filter]] = 0
    count = first
    for at in range(of_slot.size):
        if of_slot[at] == 0:
            of_slot[at] = count
            count += 1
    for filter in range(path.size):
        if path[filter] == wanted and (wanted_key < 0 or key[filter] == wanted_key):
            of_filter[filter] = of_slot[slot[filter]]
    return of_slot, count


@njit(cache=True, nogil=True)
def list_grams(path, key, slot, first, of_filter):
    """A list for each run of bytes in a slot: the slots and the runs."""
    chosen = going(path, np.int64(BY_GRAM))
    both = np.empty(chosen.size, np.int64)
    for at in range(chosen.size):
        both[at] = slot[chosen[at]] << 32 | key[chosen[at]]
    slots, grams = np.empty(chosen.size, np.int64), np.empty(chosen.size, np.int64)
    count = 0
    for at in np.argsort(both, kind="mergesort"):
        gram = both[at] & 0xFFFFFFFF
        if count == 0 or slots[count - 1] != both[at] >> 32 or grams[count - 1] != gram:
            slots[count], grams[count] = both[at] >> 32, gram
            count += 1
        of_filter[chosen[at]] = first + count - 1
    return slots[:count].copy(), grams[:count].copy()


@njit(cache=True, nogil=True)
def nest_prefixes(tests, path, filed, bounds, slot_count, first, of_filter):
    """A list for each prefix, numbered in their order.

    For each place among the bounds the innermost prefix, and for each prefix its parent, or -1: the
    nested intervals are walked by where they begin, with the open ones on a stack.
    """
    chosen = going(path, np.int64(BY_PREFIX))
    inner = np.full(2 * bounds.begins[-1] + slot_count, -1, np.int64)
    ends = np.full(inner.size, -1, np.int64)  # of prefixes by where they begin
    for at in range(chosen.size):
        test = filed[chosen[at]]
        base = 2 * bounds.begins[tests.slot[test]] + tests.slot[test]
        ends[base + tests.low[test]] = base + tests.high[test]
    parents = np.empty(chosen.size, np.int64)
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
        place = 2 * bounds.begins[tests.slot[test]] + tests.slot[test] + tests.low[test]
        of_filter[chosen[at]] = first + number[place]
    return inner, parents[:count].copy()


@njit(cache=True, nogil=True)
def put_in_order(tests, chosen, filed, numbers, bounds, slot_count):
    """Filters in ordered lists: by slot, list and value of the end that is filed under.

    It is the end that fewer values are beyond.
    """
    both = np.empty(chosen.size, np.int64)
    for at in range(chosen.size):
        test = filed[chosen[at]]
        slot = tests.slot[test]
        low, high = np.int64(tests.low[test]), np.int64(tests.high[test])
        numeric = tests.kind[test] == NUMBER_IN
        top = 2 * (size_of(numbers, slot) if numeric else size_of(bounds, slot))
        group = 4 * np.int64(slot) + (NUMBER_LOW_LIST if numeric else TEXT_LOW_LIST)
        if high >= top or (low > 0 and top - low < high):
            both[at] = group << 32 | low
        else:
            both[at] = (group + 1) << 32 | (np.int64(0x7FFFFFFF) - high)
    order = np.argsort(both, kind="mergesort")
    filters, keys = np.empty(chosen.size, np.int64), np.empty(chosen.size, np.int64)
    begins = np.empty(4 * slot_count + 1, np.int64)
    last = 0
    begins[0] = 0
    for at in range(order.size):
        key = both[order[at]]
        filters[at] = chosen[order[at]]
        while last < key >> 32:
            last += 1
            begins[last] = at
        low = key & 0xFFFFFFFF
        keys[at] = low if last & 1 == 0 else low - 0x7FFFFFFF
    begins[last + 1 :] = order.size
    return Ordered(filters, begins, keys)


# Filters held in cells


@njit(cache=True, nogil=True)
def fill_dense(tests, slot_count, path, share, many_ranges):
    """Put filters in cells: of several ranges and equalities that many events satisfy, if many.

    Expected visits in lists are weighed against looking at a word for 64 filters.
    """
    celled, chosen = choose_wide(tests, path, share, many_ranges)
    one = np.int64(1)
    test, filters = going(celled, one), going(chosen, one)
    frequency = np.zeros(2 * slot_count, np.int64)
    held = count_columns(tests, test, frequency)
    columns, position = most_frequent(frequency)
    cuts = np.zeros((columns.size, CELLS - 1), np.int64)
    cut_cells(tests, test, held, position, cuts)
    first = np.full((filters.size, columns.size), -1, np.int8)
    last = np.full((filters.size, columns.size), -1, np.int8)
    group, order = np.empty(filters.size, np.int64), np.empty(filters.size, np.int64)
    reach = np.zeros(columns.size * CELLS + 1, np.int64)
    sizes = np.zeros(columns.size * CELLS + 1, np.int64)
    words = find_cells(
        tests, filters, test, held, position, cuts, first, last, group, order, reach, sizes
    )
    in_order = np.argsort(order, kind="mergesort")
    # Every group begins with a word of its own.
    groups = np.empty(2 * sizes.size + 1, np.int64)
    places = np.full(64 * words, -1, np.int64)
    following = np.empty(words, np.int64)
    masks = np.empty(words, np.int32)
    bits = np.empty(columns.size * (CELLS + 1) * words, np.uint64)
    fill_cells(
        filters, in_order, first, last, group, reach, sizes, groups, places, following, masks, bits
    )
    return Cells(filters[in_order], columns, cuts, groups, places, following, masks, bits)


@njit(cache=True, nogil=True)
def most_frequent(frequency):
    """The columns that are asked most often, in their order, and the place of each there, or -1."""
    for at in range(frequency.size):
        frequency[at] = -frequency[at]
    position = np.full(frequency.size, -1, np.int64)
    for column in np.argsort(frequency, kind="mergesort")[:DENSE_SLOTS]:
        if frequency[column] < 0:
            position[column] = 0
    columns = going(position, np.int64(0))
    for at in range(columns.size):
        position[columns[at]] = at
    return columns, position


@njit(cache=True, nogil=True)
def choose_wide(tests, path, share, many_ranges):
    """Mark tests that cells can hold of filters with several such, and these; none if they are few.

    They are filters of which nothing is narrow.
    """
    celled, chosen = np.empty(tests.filter.size, np.int8), np.empty(path.size, np.int8)
    count = 0
    test = 0
    for filter in range(path.size):
        held = 0
        begin = test
        while test < tests.filter.size and tests.filter[test] == filter:
            kind = tests.kind[test]
            celled[test] = kind in (NUMBER_IN, TEXT_IS) and not tests.negated[test]
            held += celled[test]
            test += 1
        suited = path[filter] in (BY_ORDER, BY_TEXT, BY_NUMBER)
        chosen[filter] = suited and held > 1 and share[filter] >= WIDE
        if chosen[filter]:
            count += 1
        else:
            celled[begin:test] = 0
    if count < many_ranges:
        celled[:] = 0
        chosen[:] = 0
    return celled, chosen


@njit(cache=True, nogil=True, inline="always")
def column_of(tests, test):
    """The column of a test: an attribute's numbers or its texts."""
    return 2 * np.int64(tests.slot[test]) + (tests.kind[test] == TEXT_IS)


@njit(cache=True, nogil=True)
def count_columns(tests, chosen, frequency):
    """For each test chosen whether it is held, and how often each column is asked.

    Of several tests of a filter on a column only the first is: a list may satisfy them apart.
    """
    held = np.empty(chosen.size, np.bool_)
    last = np.full(frequency.size, -1, np.int64)
    for at in range(chosen.size):
        column = column_of(tests, chosen[at])
        held[at] = last[column] != tests.filter[chosen[at]]
        last[column] = tests.filter[chosen[at]]
        frequency[column] += held[at]
    return held


@njit(cache=True, nogil=True)
def cut_cells(tests, chosen, held, position, cuts):
    """Where the cells of each column meet: as many bounds of tests in each."""
    columns = cuts.shape[0]
    most = np.zeros(columns, np.int64)
    counts = np.zeros(columns + 1, np.int64)
    for at in range(chosen.size):
        column = position[column_of(tests, chosen[at])]
        if held[at] and column >= 0:
            counts[column + 1] += 1
            most[column] = max(
                most[column], np.int64(tests.low[chosen[at]]), np.int64(tests.high[chosen[at]]) + 1
            )
    begins = np.cumsum(counts)
    by_column = np.empty(begins[-1], np.int64)
    for at in range(chosen.size):
        column = position[column_of(tests, chosen[at])]
        if held[at] and column >= 0:
            by_column[begins[column]] = chosen[at]
            begins[column] += 1
    for column in range(columns):
        bounds = np.zeros(most[column] + 1, np.int64)
        for test in by_column[begins[column] - counts[column + 1] : begins[column]]:
            bounds[tests.low[test]] += 1
            bounds[tests.high[test] + 1] += 1
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
    tests, filters, chosen, held, position, cuts, first, last, group, order, reach, sizes
):  # fmt: skip
    """For each filter the cells it asks for in each column, or -1; how many words it takes.

    A group is a column and the cell where the range begins that is asked of it first; within it the
    order is by the next. So the filters of a word ask for much the same, and for most events a look
    or two at the word leaves nothing of it. For each group the last cell that is reached, and how
    many are in it.
    """
    columns, cells = cuts.shape[0], cuts.shape[1] + 1
    at = 0
    for number in range(filters.size):
        while at < chosen.size and tests.filter[chosen[at]] == filters[number]:
            test = chosen[at]
            column = position[column_of(tests, test)]
            if held[at] and column >= 0:
                first[number, column] = cell_of(cuts, column, tests.low[test])
                last[number, column] = cell_of(cuts, column, tests.high[test])
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
