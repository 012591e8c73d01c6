"""The kernels of merging: constants of two tables become one order, and tests move to it.

A rank is twice the place of a constant and one more, or lies between two of these: the low end of a
range belongs to the constant that it is at or behind, the high end to the one that it is at or
before. So a test moves with its constant, whatever comes between.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tidings.matching.kernels import (
    NUMBER_AMONG,
    NUMBER_IN,
    NUMBER_NOT,
    TEXT_AMONG,
    TEXT_BETWEEN,
    TEXT_CONTAINS,
    TEXT_IS,
    TEXT_LIKE,
    TEXT_NOT,
    compare_bytes,
    copy,
    hash_bytes,
    same_bytes,
)


@njit(cache=True, nogil=True, inline="always")
def kind_of(shape):
    """The kind of a test."""
    return shape & 15


@njit(cache=True, nogil=True)
def mark(
    kept, sizes, shapes, slots, lows, highs, members, number_begins, bound_begins,
    number_used, text_used, bound_used, pattern_used, slot_used,
):  # fmt: skip
    """Mark what filters that are kept mention; how many tests and members of lists they have."""
    test = 0
    tests = 0
    listed = np.int64(0)
    for filter in range(sizes.size):
        end = test + sizes[filter]
        if kept[filter]:
            tests += end - test
            for t in range(test, end):
                kind = kind_of(shapes[t])
                slot = slots[t]
                low, high = np.int64(lows[t]), np.int64(highs[t])
                slot_used[slot] = True
                if kind in (NUMBER_IN, NUMBER_NOT):
                    mark_range(number_begins, slot, low, high, number_used)
                elif kind == TEXT_BETWEEN:
                    mark_range(bound_begins, slot, low, high, bound_used)
                elif kind in (TEXT_IS, TEXT_NOT):
                    text_used[low] = True
                elif kind in (TEXT_CONTAINS, TEXT_LIKE):
                    pattern_used[low] = True
                elif kind == NUMBER_AMONG:
                    listed += high
                    for member in members[low : low + high]:
                        number_used[number_begins[slot] + (member >> 1)] = True
                elif kind == TEXT_AMONG:
                    listed += high
                    for member in members[low : low + high]:
                        text_used[member] = True
        test = end
    return tests, listed


@njit(cache=True, nogil=True)
def mark_range(begins, slot, low, high, used):
    """Mark the constants that the ends of a range belong to."""
    first, last = begins[slot], begins[slot + 1]
    if low > 0:
        used[first + ((low - 1) >> 1)] = True
    if first + (high >> 1) < last:
        used[first + (high >> 1)] = True


@njit(cache=True, nogil=True)
def merge_numbers(
    begins, highs, lows, used, other_begins, other_highs, other_lows, other_used,
    out_begins, out_highs, out_lows, place, other_place,
):  # fmt: skip
    """Merge numbers that are used; for each of both its place within its slot."""
    count = 0
    for slot in range(out_begins.size - 1):
        out_begins[slot] = start = count
        one, two = begins[slot], other_begins[slot]
        end, other_end = begins[slot + 1], other_begins[slot + 1]
        while True:
            while one < end and not used[one]:
                one += 1
            while two < other_end and not other_used[two]:
                two += 1
            if one == end and two == other_end:
                break
            if one == end:
                order = 1
            elif two == other_end:
                order = -1
            else:
                order = compare_numbers(highs[one], lows[one], other_highs[two], other_lows[two])
            if order <= 0:
                out_highs[count], out_lows[count] = highs[one], lows[one]
                place[one] = count - start
                one += 1
            if order >= 0:
                out_highs[count], out_lows[count] = other_highs[two], other_lows[two]
                other_place[two] = count - start
                two += 1
            count += 1
    out_begins[-1] = count
    return count


@njit(cache=True, nogil=True, inline="always")
def compare_numbers(high, low, other_high, other_low):
    """Below zero, zero or above it, as a number is below another, equal to it or above it."""
    if high != other_high:
        return -1 if high < other_high else 1
    if low != other_low:
        return -1 if low < other_low else 1
    return 0


@njit(cache=True, nogil=True)
def merge_texts(
    begins, places, data, used, other_begins, other_places, other_data, other_used,
    out_begins, out_places, out_data, place, other_place,
):  # fmt: skip
    """The same for texts that are in order."""
    count = 0
    size = 0
    for slot in range(out_begins.size - 1):
        out_begins[slot] = start = count
        one, two = begins[slot], other_begins[slot]
        end, other_end = begins[slot + 1], other_begins[slot + 1]
        while True:
            while one < end and not used[one]:
                one += 1
            while two < other_end and not other_used[two]:
                two += 1
            if one == end and two == other_end:
                break
            if one == end:
                order = np.int64(1)
            elif two == other_end:
                order = np.int64(-1)
            else:
                order = compare_bytes(
                    data, places[one], places[one + 1],
                    other_data, other_places[two], other_places[two + 1],
                )  # fmt: skip
            out_places[count] = size
            if order <= 0:
                length = places[one + 1] - places[one]
                copy(data, places[one], length, out_data, size)
                place[one] = count - start
                one += 1
            if order >= 0:
                length = other_places[two + 1] - other_places[two]
                copy(other_data, other_places[two], length, out_data, size)
                other_place[two] = count - start
                two += 1
            size += length
            count += 1
    out_begins[-1] = count
    out_places[count] = size
    return count


@njit(cache=True, nogil=True)
def join_texts(
    begins, places, data, used, other_begins, other_places, other_data, other_used, table,
    out_begins, out_places, out_data, number, other_number,
):  # fmt: skip
    """The same for texts in no order: of each slot the first ones, then what is new of the others.

    For each of both its number across all slots. The table, all -1, is for the others.
    """
    mask = table.size - 1
    for slot in range(out_begins.size - 1):
        for two in range(other_begins[slot], other_begins[slot + 1]):
            other_number[two] = -1
            if other_used[two]:
                at = hash_bytes(other_data, other_places[two], other_places[two + 1], slot) & mask
                while table[at] >= 0:
                    at = (at + 1) & mask
                table[at] = two
    count = 0
    size = 0
    for slot in range(out_begins.size - 1):
        out_begins[slot] = count
        two, other_end = other_begins[slot], other_begins[slot + 1]
        for one in range(begins[slot], begins[slot + 1]):
            if not used[one]:
                continue
            begin, end = places[one], places[one + 1]
            if two < other_end:
                at = hash_bytes(data, begin, end, slot) & mask
                while table[at] >= 0:
                    same = table[at]
                    if two <= same < other_end and same_bytes(
                        data, begin, end, other_data, other_places[same], other_places[same + 1]
                    ):
                        other_number[same] = count
                        break
                    at = (at + 1) & mask
            number[one] = count
            out_places[count] = size
            copy(data, begin, end - begin, out_data, size)
            size += end - begin
            count += 1
        for two in range(other_begins[slot], other_end):
            if other_used[two] and other_number[two] < 0:
                begin, end = other_places[two], other_places[two + 1]
                other_number[two] = count
                out_places[count] = size
                copy(other_data, begin, end - begin, out_data, size)
                size += end - begin
                count += 1
    out_begins[-1] = count
    out_places[count] = size
    return count


@njit(cache=True, nogil=True)
def move(
    kept, sizes, shapes, slots, lows, highs, members, number_begins, bound_begins,
    number_place, text_number, bound_place, pattern_number, new_numbers, new_bounds,
    filters, tests, listed,
    out_filter, out_shape, out_slot, out_low, out_high, out_members,
):  # fmt: skip
    """Write the tests of filters that are kept, with the constants of both tables.

    Behind as many filters, tests and members of lists as are there already.
    """
    test = 0
    for filter in range(sizes.size):
        end = test + sizes[filter]
        if kept[filter]:
            for t in range(test, end):
                kind = kind_of(shapes[t])
                slot = slots[t]
                low, high = np.int64(lows[t]), np.int64(highs[t])
                if kind in (NUMBER_IN, NUMBER_NOT):
                    low, high = moved(low, high, slot, number_begins, number_place, new_numbers)
                elif kind == TEXT_BETWEEN:
                    low, high = moved(low, high, slot, bound_begins, bound_place, new_bounds)
                elif kind in (TEXT_IS, TEXT_NOT):
                    low = high = text_number[low]
                elif kind in (TEXT_CONTAINS, TEXT_LIKE):
                    low = pattern_number[low]
                elif kind in (NUMBER_AMONG, TEXT_AMONG):
                    for i in range(high):
                        member = members[low + i]
                        if kind == TEXT_AMONG:
                            out_members[listed + i] = text_number[member]
                        else:
                            place = number_place[number_begins[slot] + (member >> 1)]
                            out_members[listed + i] = 2 * place + 1
                    out_members[listed : listed + high].sort()
                    low = np.int64(listed)
                    listed += high
                out_filter[tests] = filters
                out_shape[tests] = shapes[t]
                out_slot[tests] = slot
                out_low[tests] = low
                out_high[tests] = high
                tests += 1
            filters += 1
        test = end


@njit(cache=True, nogil=True)
def moved(low, high, slot, begins, place, new_begins):
    """A range with its constants at other places."""
    first, last = begins[slot], begins[slot + 1]
    if low > 0:
        constant = (low - 1) >> 1
        low += 2 * (place[first + constant] - constant)
    constant = high >> 1
    if first + constant < last:
        high += 2 * (place[first + constant] - constant)
    else:
        high = 2 * (new_begins[slot + 1] - new_begins[slot])
    return low, high


@njit(cache=True, nogil=True)
def unfold(shapes, kind, types, way, negated, exact, added):
    """The columns that a shape stands for."""
    for i in range(shapes.size):
        shape = shapes[i]
        kind[i] = shape & 15
        types[i] = shape >> 4 & 15
        way[i] = shape >> 8 & 15
        negated[i] = shape >> 12 & 1
        exact[i] = shape >> 13 & 1
        added[i] = shape >> 14 & 1


@njit(cache=True, nogil=True)
def fold(kind, types, way, negated, exact, added, shapes):
    """Shapes that stand for these columns."""
    for i in range(shapes.size):
        shapes[i] = fold_shape(kind[i], types[i], way[i], negated[i], exact[i], added[i])


@njit(cache=True, nogil=True, inline="always")
def fold_shape(kind, types, way, negated, exact, added):
    """What `unfold` reads: all of a test that does not depend on constants."""
    flags = np.int64(negated) << 12 | np.int64(exact) << 13 | np.int64(added) << 14
    return np.int64(kind) | np.int64(types) << 4 | np.int64(way) << 8 | flags
