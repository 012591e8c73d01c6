"""Kernels that merge the constants of two tables and move the tests to the new ranks.

A rank is twice the place of a constant plus one, or lies between two constants. The low end of a
range belongs to the constant at or below it, the high end to the constant at or above it. So a test
moves with its constants, whatever comes between.

One kernel does all the work: a thread that returns from a kernel waits for the GIL while others
match, so it should return seldom.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tidings.matching.constants import Numbers, Texts
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
    table_for,
)
from tidings.matching.ranking import Tests

Array = np.ndarray[Any, Any]


class Packed(NamedTuple):
    """Ranked filters at rest, each owned by the subscription of a number."""

    owners: Array
    sizes: Array  # how many tests each filter has
    shapes: Array  # of each test all that does not depend on constants
    slot: Array
    low: Array
    high: Array
    members: Array


class Used(NamedTuple):
    """Which constants, patterns and slots are mentioned."""

    numbers: Array
    equal: Array
    bounds: Array
    patterns: Array
    slots: Array


class Moved(NamedTuple):
    """Where the constants of one table are in another."""

    numbers: Array
    equal: Array
    bounds: Array
    patterns: Array


class Joined(NamedTuple):
    """Two tables as one, at rest and ready to be filed."""

    packed: Packed
    tests: Tests
    owners: Array
    numbers: Numbers
    equal: Texts
    bounds: Texts
    kept: Array  # of the filters of the first table
    slots: Any  # how many are mentioned
    patterns: Any


@njit(cache=True, nogil=True)
def join(
    old, old_numbers, old_equal, old_bounds, removed,
    new, new_numbers, new_equal, new_bounds, new_patterns, old_patterns, slot_count,
):  # fmt: skip
    """Two tables as one, without the filters of the first whose owners are removed.

    `new_patterns` are the numbers of the second's patterns behind so many of the first.
    """
    kept = ~removed[old.owners]
    every = np.ones(new.owners.size, np.bool_)
    one_numbers = Numbers(old_numbers.highs, old_numbers.lows, for_slots(old_numbers, slot_count))
    two_numbers = Numbers(new_numbers.highs, new_numbers.lows, for_slots(new_numbers, slot_count))
    one_equal = Texts(old_equal.places, old_equal.data, for_slots(old_equal, slot_count))
    two_equal = Texts(new_equal.places, new_equal.data, for_slots(new_equal, slot_count))
    one_bounds = Texts(old_bounds.places, old_bounds.data, for_slots(old_bounds, slot_count))
    two_bounds = Texts(new_bounds.places, new_bounds.data, for_slots(new_bounds, slot_count))
    one, tests, listed = mark(old, kept, one_numbers, one_equal, one_bounds, old_patterns)
    two, more_tests, more_listed = mark(
        new, every, two_numbers, two_equal, two_bounds, new_patterns.size
    )
    numbers, number_place, new_number_place = merge_numbers(
        one_numbers, one.numbers, two_numbers, two.numbers
    )
    equal, text_number, new_text_number = join_texts(one_equal, one.equal, two_equal, two.equal)
    bounds, bound_place, new_bound_place = merge_texts(
        one_bounds, one.bounds, two_bounds, two.bounds
    )
    filters = np.count_nonzero(kept)
    packed = Packed(
        np.empty(filters + new.owners.size, np.int32),
        np.empty(filters + new.owners.size, np.int32),
        np.empty(tests + more_tests, np.uint16),
        np.empty(tests + more_tests, new.slot.dtype),
        np.empty(tests + more_tests, np.int32),
        np.empty(tests + more_tests, np.int32),
        np.empty(listed + more_listed, np.int32),
    )
    filter = np.empty(tests + more_tests, np.int64)
    moved = Moved(number_place, text_number, bound_place, np.arange(old_patterns))
    new_moved = Moved(new_number_place, new_text_number, new_bound_place, new_patterns)
    none = np.int64(0)  # which is no constant: of these Numba would compile another version
    move(
        old, kept, one_numbers, one_bounds, moved, numbers, bounds, none, none, none,
        packed, filter,
    )  # fmt: skip
    move(
        new, every, two_numbers, two_bounds, new_moved, numbers, bounds, filters, tests, listed,
        packed, filter,
    )  # fmt: skip
    return Joined(
        packed, unpacked(packed, filter), packed.owners.astype(np.int64), numbers, equal, bounds,
        kept, np.count_nonzero(one.slots | two.slots),
        np.count_nonzero(one.patterns) + np.count_nonzero(two.patterns),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def for_slots(constants, slot_count):
    """Where the constants of each of so many slots begin; the last ones may have none."""
    begins = np.full(slot_count + 1, constants.begins[-1], np.int64)
    copy(constants.begins, 0, constants.begins.size, begins, 0)
    return begins


@njit(cache=True, nogil=True, inline="always")
def kind_of(shape):
    """The kind of a test."""
    return shape & 15


@njit(cache=True, nogil=True)
def mark(held, kept, numbers, equal, bounds, patterns):
    """Mark what filters that are kept mention; how many tests and members of lists they have."""
    used = Used(
        np.zeros(numbers.highs.size, np.bool_),
        np.zeros(equal.places.size - 1, np.bool_),
        np.zeros(bounds.places.size - 1, np.bool_),
        np.zeros(patterns, np.bool_),
        np.zeros(numbers.begins.size - 1, np.bool_),
    )
    test = 0
    tests = 0
    listed = np.int64(0)
    for filter in range(held.sizes.size):
        end = test + held.sizes[filter]
        if kept[filter]:
            tests += end - test
            for t in range(test, end):
                kind = kind_of(held.shapes[t])
                slot = held.slot[t]
                low, high = np.int64(held.low[t]), np.int64(held.high[t])
                used.slots[slot] = True
                if kind in (NUMBER_IN, NUMBER_NOT):
                    mark_range(numbers.begins, slot, low, high, used.numbers)
                elif kind == TEXT_BETWEEN:
                    mark_range(bounds.begins, slot, low, high, used.bounds)
                elif kind in (TEXT_IS, TEXT_NOT):
                    used.equal[low] = True
                elif kind in (TEXT_CONTAINS, TEXT_LIKE):
                    used.patterns[low] = True
                elif kind == NUMBER_AMONG:
                    listed += high
                    for member in held.members[low : low + high]:
                        used.numbers[numbers.begins[slot] + (member >> 1)] = True
                elif kind == TEXT_AMONG:
                    listed += high
                    for member in held.members[low : low + high]:
                        used.equal[member] = True
        test = end
    return used, tests, listed


@njit(cache=True, nogil=True)
def mark_range(begins, slot, low, high, used):
    """Mark the constants that the ends of a range belong to."""
    first, last = begins[slot], begins[slot + 1]
    if low > 0:
        used[first + ((low - 1) >> 1)] = True
    if first + (high >> 1) < last:
        used[first + (high >> 1)] = True


@njit(cache=True, nogil=True)
def merge_numbers(ones, used, others, other_used):
    """Merge numbers that are used; for each of both its place within its slot."""
    most = np.count_nonzero(used) + np.count_nonzero(other_used)
    highs, lows = np.empty(most), np.empty(most, np.int64)
    begins = np.empty_like(ones.begins)
    place, other_place = np.zeros(used.size, np.int64), np.zeros(other_used.size, np.int64)
    count = 0
    for slot in range(begins.size - 1):
        begins[slot] = start = count
        one, two = ones.begins[slot], others.begins[slot]
        end, other_end = ones.begins[slot + 1], others.begins[slot + 1]
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
                order = compare_numbers(
                    ones.highs[one], ones.lows[one], others.highs[two], others.lows[two]
                )
            if order <= 0:
                highs[count], lows[count] = ones.highs[one], ones.lows[one]
                place[one] = count - start
                one += 1
            if order >= 0:
                highs[count], lows[count] = others.highs[two], others.lows[two]
                other_place[two] = count - start
                two += 1
            count += 1
    begins[-1] = count
    return Numbers(highs[:count].copy(), lows[:count].copy(), begins), place, other_place


@njit(cache=True, nogil=True, inline="always")
def compare_numbers(high, low, other_high, other_low):
    """Below zero, zero or above it, as a number is below another, equal to it or above it."""
    if high != other_high:
        return -1 if high < other_high else 1
    if low != other_low:
        return -1 if low < other_low else 1
    return 0


@njit(cache=True, nogil=True)
def merge_texts(ones, used, others, other_used):
    """The same for texts that are in order."""
    most = np.count_nonzero(used) + np.count_nonzero(other_used)
    places = np.empty(most + 1, np.int64)
    data = np.empty(ones.data.size + others.data.size, np.uint8)
    begins = np.empty_like(ones.begins)
    place, other_place = np.zeros(used.size, np.int64), np.zeros(other_used.size, np.int64)
    count = 0
    size = 0
    for slot in range(begins.size - 1):
        begins[slot] = start = count
        one, two = ones.begins[slot], others.begins[slot]
        end, other_end = ones.begins[slot + 1], others.begins[slot + 1]
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
                    ones.data, ones.places[one], ones.places[one + 1],
                    others.data, others.places[two], others.places[two + 1],
                )  # fmt: skip
            places[count] = size
            if order <= 0:
                length = ones.places[one + 1] - ones.places[one]
                copy(ones.data, ones.places[one], length, data, size)
                place[one] = count - start
                one += 1
            if order >= 0:
                length = others.places[two + 1] - others.places[two]
                copy(others.data, others.places[two], length, data, size)
                other_place[two] = count - start
                two += 1
            size += length
            count += 1
    begins[-1] = count
    places[count] = size
    return Texts(places[: count + 1].copy(), data[:size].copy(), begins), place, other_place


@njit(cache=True, nogil=True)
def join_texts(ones, used, others, other_used):
    """The same for texts in no order: of each slot the first ones, then what is new of the others.

    For each of both its number across all slots.
    """
    most = np.count_nonzero(used) + np.count_nonzero(other_used)
    places = np.empty(most + 1, np.int64)
    data = np.empty(ones.data.size + others.data.size, np.uint8)
    begins = np.empty_like(ones.begins)
    number, other_number = np.zeros(used.size, np.int64), np.zeros(other_used.size, np.int64)
    table = table_for(other_used.size)
    mask = table.size - 1
    for slot in range(begins.size - 1):
        for two in range(others.begins[slot], others.begins[slot + 1]):
            other_number[two] = -1
            if other_used[two]:
                begin, end = others.places[two], others.places[two + 1]
                at = hash_bytes(others.data, begin, end, slot) & mask
                while table[at] >= 0:
                    at = (at + 1) & mask
                table[at] = two
    count = 0
    size = 0
    for slot in range(begins.size - 1):
        begins[slot] = count
        two, other_end = others.begins[slot], others.begins[slot + 1]
        for one in range(ones.begins[slot], ones.begins[slot + 1]):
            if not used[one]:
                continue
            begin, end = ones.places[one], ones.places[one + 1]
            if two < other_end:
                at = hash_bytes(ones.data, begin, end, slot) & mask
                while table[at] >= 0:
                    same = np.int64(table[at])
                    if two <= same < other_end and same_bytes(
                        ones.data, begin, end,
                        others.data, others.places[same], others.places[same + 1],
                    ):  # fmt: skip
                        other_number[same] = count
                        break
                    at = (at + 1) & mask
            number[one] = count
            places[count] = size
            copy(ones.data, begin, end - begin, data, size)
            size += end - begin
            count += 1
        for two in range(others.begins[slot], other_end):
            if other_used[two] and other_number[two] < 0:
                begin, end = others.places[two], others.places[two + 1]
                other_number[two] = count
                places[count] = size
                copy(others.data, begin, end - begin, data, size)
                size += end - begin
                count += 1
    begins[-1] = count
    places[count] = size
    return Texts(places[: count + 1].copy(), data[:size].copy(), begins), number, other_number


@njit(cache=True, nogil=True)
def move(
    held, kept, numbers, bounds, moved, new_numbers, new_bounds, filters, tests, listed, out, filter
):
    """Write the tests of filters that are kept, with the constants of both tables.

    Behind as many filters, tests and members of lists as are there already.
    """
    test = 0
    for one in range(held.sizes.size):
        end = test + held.sizes[one]
        if kept[one]:
            out.owners[filters] = held.owners[one]
            out.sizes[filters] = held.sizes[one]
            for t in range(test, end):
                kind = kind_of(held.shapes[t])
                slot = held.slot[t]
                low, high = np.int64(held.low[t]), np.int64(held.high[t])
                if kind in (NUMBER_IN, NUMBER_NOT):
                    low, high = move_range(low, high, slot, numbers, moved.numbers, new_numbers)
                elif kind == TEXT_BETWEEN:
                    low, high = move_range(low, high, slot, bounds, moved.bounds, new_bounds)
                elif kind in (TEXT_IS, TEXT_NOT):
                    low = high = moved.equal[low]
                elif kind in (TEXT_CONTAINS, TEXT_LIKE):
                    low = moved.patterns[low]
                elif kind in (NUMBER_AMONG, TEXT_AMONG):
                    for i in range(high):
                        member = held.members[low + i]
                        if kind == TEXT_AMONG:
                            out.members[listed + i] = moved.equal[member]
                        else:
                            place = moved.numbers[numbers.begins[slot] + (member >> 1)]
                            out.members[listed + i] = 2 * place + 1
                    out.members[listed : listed + high].sort()
                    low = np.int64(listed)
                    listed += high
                filter[tests] = filters
                out.shapes[tests] = held.shapes[t]
                out.slot[tests] = slot
                out.low[tests] = low
                out.high[tests] = high
                tests += 1
            filters += 1
        test = end


@njit(cache=True, nogil=True)
def move_range(low, high, slot, constants, place, new):
    """A range with its constants at other places."""
    first, last = constants.begins[slot], constants.begins[slot + 1]
    if low > 0:
        constant = (low - 1) >> 1
        low += 2 * (place[first + constant] - constant)
    constant = high >> 1
    if first + constant < last:
        high += 2 * (place[first + constant] - constant)
    else:
        high = 2 * (new.begins[slot + 1] - new.begins[slot])
    return low, high


@njit(cache=True, nogil=True)
def unpacked(packed, filter):
    """The tests of filters at rest."""
    count = packed.shapes.size
    tests = Tests(
        filter,
        packed.slot.astype(np.int32),
        np.empty(count, np.int8),
        np.empty(count, np.int8),
        np.empty(count, np.bool_),
        packed.low,
        packed.high,
        np.empty(count, np.int8),
        np.empty(count, np.bool_),
        np.empty(count, np.bool_),
    )
    for i in range(count):
        shape = packed.shapes[i]
        tests.kind[i] = kind_of(shape)
        tests.types[i] = shape >> 4 & 15
        tests.path[i] = shape >> 8 & 15
        tests.negated[i] = shape >> 12 & 1
        tests.exact[i] = shape >> 13 & 1
        tests.added[i] = shape >> 14 & 1
    return tests


@njit(cache=True, nogil=True)
def pack(tests, filters, owners, members):
    """Filters as they are at rest."""
    sizes = np.zeros(filters, np.int32)
    for filter in tests.filter:
        sizes[filter] += 1
    shapes = np.empty(tests.filter.size, np.uint16)
    for i in range(shapes.size):
        shapes[i] = fold_shape(
            tests.kind[i], tests.types[i], tests.path[i],
            tests.negated[i], tests.exact[i], tests.added[i],
        )  # fmt: skip
    return Packed(
        owners.astype(np.int32), sizes, shapes, tests.slot, tests.low, tests.high, members
    )


@njit(cache=True, nogil=True, inline="always")
def fold_shape(kind, types, path, negated, exact, added):
    """What `unpacked` reads: all of a test that does not depend on constants."""
    flags = np.int64(negated) << 12 | np.int64(exact) << 13 | np.int64(added) << 14
    return np.int64(kind) | np.int64(types) << 4 | np.int64(path) << 8 | flags
