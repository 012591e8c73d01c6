"""The kernels of ranking what is fresh: its tests become coordinates without a look at predicates.

They read what `fresh_kernels` has put down and keep no GIL: what comes or goes meanwhile is behind
what they read, or a mark on it that they do not look at.

First every test takes its constants, slot by slot; these are put in order, and then each test gets
the places of its own. A number in order is known by a key and a rest, a text by the key that its
first bytes are and by where it lies.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from tidings.matching.constants import Numbers, Texts
from tidings.matching.fresh_kernels import (
    ASKS,
    HELD_OWNERS,
    HELD_RECORDS,
    HELD_TEXTS,
    OWNER_RECORD,
    OWNER_RECORDS,
    OWNER_WIDTH,
    RAW_KIND,
    RAW_NEGATED,
    RAW_OPEN_HIGH,
    RAW_OPEN_LOW,
    RAW_PAST_HIGH,
    RAW_PAST_LOW,
    RAW_SLOT,
    RAW_TYPES,
    RECORD_FLAGS,
    RECORD_HEAD,
    RECORD_LENGTH,
    RECORD_TESTS,
    TEST_WIDTH,
    TEXT_PREFIX,
    TEXT_SUFFIX,
    bytes_at,
    longs_at,
    number_key,
    texts_of_test,
)
from tidings.matching.kernels import (
    BOOLEAN_IS,
    EXISTS,
    INTEGER,
    NUMBER_AMONG,
    NUMBER_IN,
    NUMBER_NOT,
    REAL,
    TEXT_AMONG,
    TEXT_BETWEEN,
    TEXT_CONTAINS,
    TEXT_IS,
    TEXT_LIKE,
    TEXT_NOT,
    compare_bytes,
    copy,
    double_of,
    first_bytes,
    turn_round,
)
from tidings.matching.merging_kernels import Packed, fold_shape
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
)

# How much there is of each thing.
(
    FILTERS, TESTS, NUMBERS, EQUAL, BOUNDS, MEMBERS, CONTAINED, BYTES, SIZES,
) = range(9)  # fmt: skip
# What is taken of a constant: its slot, its key, its rest or where it begins, and where it ends.
TAKEN_SLOT, TAKEN_KEY, TAKEN_FIRST, TAKEN_LAST, TAKEN_WIDTH = range(5)
# An end of a range at rest: twice the number of the constant, and one more if that is left out.
OPEN: Final = -1
LONGEST_CHARACTER: Final = 4  # bytes
HIGHEST_CHARACTER, LAST_LOW, FIRST_HIGH = 0x10FFFF, 0xD7FF, 0xE000  # surrogates lie between
OPEN_REST: Final = 1 << 62
SHORT: Final = 3  # bytes that a run to file under has


@njit(cache=True, nogil=True)
def look_through(context, owners, special, straight, turned):
    """Mark who is special, of others the slots that they need; how much there is of each thing.

    Special is who asks Python or has a pattern, or is marked as that already.
    """
    records = longs_at(context, HELD_RECORDS)
    held = longs_at(context, HELD_OWNERS)
    sizes = np.zeros(SIZES, np.int64)
    for i in range(owners.size):
        first = held[OWNER_WIDTH * owners[i] + OWNER_RECORD]
        count = held[OWNER_WIDTH * owners[i] + OWNER_RECORDS]
        record = first
        for _ in range(count):
            if records[record + RECORD_FLAGS] & ASKS:
                special[i] = True
            for j in range(records[record + RECORD_TESTS]):
                test = record + RECORD_HEAD + TEST_WIDTH * j
                if records[test] >> RAW_KIND == TEXT_LIKE:
                    special[i] = True
            record += records[record + RECORD_LENGTH]
        if special[i]:
            continue
        sizes[FILTERS] += count
        record = first
        for _ in range(count):
            for j in range(records[record + RECORD_TESTS]):
                test = record + RECORD_HEAD + TEST_WIDTH * j
                measure(records, record, test, sizes)
                slots = turned if records[test] >> RAW_KIND == TEXT_SUFFIX else straight
                slots[records[test] & RAW_SLOT] = True
            record += records[record + RECORD_LENGTH]
    return sizes


@njit(cache=True, nogil=True)
def measure(records, record, test, sizes):
    """Count what a test takes."""
    kind = records[test] >> RAW_KIND
    sizes[TESTS] += 1
    if kind == NUMBER_IN or kind == NUMBER_NOT:  # noqa: SIM109
        sizes[NUMBERS] += 2
    elif kind == NUMBER_AMONG:
        sizes[NUMBERS] += records[test + 2]
        sizes[MEMBERS] += records[test + 2]
    elif kind == TEXT_IS or kind == TEXT_NOT:  # noqa: SIM109
        sizes[EQUAL] += 1
    elif kind == TEXT_AMONG:
        sizes[EQUAL] += records[test + 2]
        sizes[MEMBERS] += records[test + 2]
    elif kind == TEXT_CONTAINS:
        sizes[CONTAINED] += 1
    elif kind != EXISTS and kind != BOOLEAN_IS:
        sizes[BOUNDS] += 2
    first, last = texts_of_test(records, record, test)
    for place in range(first, last, 2):
        # And once more for what comes after a prefix.
        sizes[BYTES] += 2 * (records[place + 1] - records[place]) + LONGEST_CHARACTER


@njit(cache=True, nogil=True)
def rank_held(context, owners, straight, turned, slot_count, sizes):
    """The tests of owners, none of them special, and their constants.

    `straight` and `turned` give the slots of texts as they are and turned round. Owners are told by
    their places. At last what is to be contained, and in which tests: where it begins and ends.
    """
    filter_owner = np.empty(sizes[FILTERS], np.int32)
    filter_size = np.empty(sizes[FILTERS], np.int32)
    shapes = np.empty(sizes[TESTS], np.uint16)
    test_slot = np.empty(sizes[TESTS], np.int32)
    low, high = np.empty(sizes[TESTS], np.int32), np.empty(sizes[TESTS], np.int32)
    members = np.empty(sizes[MEMBERS], np.int32)
    taken_numbers = np.empty((sizes[NUMBERS], TAKEN_WIDTH), np.int64)
    taken_equal = np.empty((sizes[EQUAL], TAKEN_WIDTH), np.int64)
    taken_bounds = np.empty((sizes[BOUNDS], TAKEN_WIDTH), np.int64)
    contained = np.empty((sizes[CONTAINED], 3), np.int64)
    data = np.empty(sizes[BYTES], np.uint8)
    records = longs_at(context, HELD_RECORDS)
    texts = bytes_at(context, HELD_TEXTS)
    held = longs_at(context, HELD_OWNERS)
    used = np.zeros(SIZES, np.int64)
    for i in range(owners.size):
        record = held[OWNER_WIDTH * owners[i] + OWNER_RECORD]
        for _ in range(held[OWNER_WIDTH * owners[i] + OWNER_RECORDS]):
            filter_owner[used[FILTERS]] = i
            filter_size[used[FILTERS]] = records[record + RECORD_TESTS]
            used[FILTERS] += 1
            for j in range(records[record + RECORD_TESTS]):
                test = record + RECORD_HEAD + TEST_WIDTH * j
                word = records[test]
                kind = word >> RAW_KIND
                at = used[TESTS]
                used[TESTS] = at + 1
                slot = (turned if kind == TEXT_SUFFIX else straight)[word & RAW_SLOT]
                test_slot[at] = slot
                low[at] = high[at] = 0
                if kind == EXISTS:
                    way, exact = BY_PRESENCE, word >> RAW_TYPES & 15 == 15
                elif kind == BOOLEAN_IS:
                    way, exact = BY_TRUTH, True
                    low[at] = high[at] = records[test + 1]
                elif kind == TEXT_CONTAINS:
                    begin = put_text(texts, records, test + 1, used, data)
                    contained[used[CONTAINED]] = begin, used[BYTES], at
                    used[CONTAINED] += 1
                    way, exact = BY_GRAM, used[BYTES] - begin <= SHORT
                elif kind == NUMBER_AMONG or kind == TEXT_AMONG:  # noqa: SIM109
                    low[at], high[at] = used[MEMBERS], records[test + 2]
                    first = record + records[test + 1]
                    for place in range(first, first + 2 * records[test + 2], 2):
                        if kind == NUMBER_AMONG:
                            number = take_number(records, place, 0, slot, used, taken_numbers)
                        else:
                            number = take_equal(
                                texts, records, place, slot, used, data, taken_equal
                            )
                        members[used[MEMBERS]] = number
                        used[MEMBERS] += 1
                    way, exact = BY_TEXTS, True
                    if kind == NUMBER_AMONG:
                        way, exact = BY_NUMBERS, word >> RAW_TYPES & 15 == INTEGER | REAL
                elif kind == TEXT_IS or kind == TEXT_NOT:  # noqa: SIM109
                    low[at] = take_equal(texts, records, test + 1, slot, used, data, taken_equal)
                    way, exact = BY_TEXT, True
                    if kind == TEXT_NOT:
                        way, exact = BY_PRESENCE, False
                elif kind == NUMBER_IN or kind == NUMBER_NOT:  # noqa: SIM109
                    way, low[at], high[at] = take_range(records, test, slot, used, taken_numbers)
                    exact = word >> RAW_TYPES & 15 == INTEGER | REAL
                    if way == BY_ORDER:
                        exact = exact and (low[at] == OPEN or high[at] == OPEN)
                    if kind == NUMBER_NOT:
                        way, exact = BY_PRESENCE, False
                elif kind == TEXT_BETWEEN:
                    low[at], high[at] = take_bounds(
                        texts, records, test, slot, used, data, taken_bounds
                    )
                    way, exact = BY_ORDER, low[at] == OPEN or high[at] == OPEN
                else:
                    low[at], high[at] = take_prefix(
                        texts, records, test, slot, used, data, taken_bounds
                    )
                    way, exact = BY_PREFIX, True
                if kind == TEXT_PREFIX or kind == TEXT_SUFFIX:  # noqa: SIM109
                    kind = np.int64(TEXT_BETWEEN)
                shapes[at] = fold_shape(
                    kind, word >> RAW_TYPES & 15, way, word & RAW_NEGATED != 0, exact, False
                )
            record += records[record + RECORD_LENGTH]
    numbers = in_order(taken_numbers[: used[NUMBERS]], data, slot_count, True)
    equal = in_order(taken_equal[: used[EQUAL]], data, slot_count, False)
    bounds = in_order(taken_bounds[: used[BOUNDS]], data, slot_count, False)
    locate(shapes, test_slot, low, high, members, numbers, equal, bounds)
    highs, lows = distinct_numbers(taken_numbers, numbers)
    equal_places, equal_data = distinct_texts(taken_equal, equal, data)
    bound_places, bound_data = distinct_texts(taken_bounds, bounds, data)
    return (
        Packed(filter_owner, filter_size, shapes, test_slot, low, high, members),
        Numbers(highs, lows, numbers[1]),
        Texts(equal_places, equal_data, equal[1]),
        Texts(bound_places, bound_data, bounds[1]),
        contained,
        data,
    )


@njit(cache=True, nogil=True)
def put_text(texts, records, place, used, data):
    """Copy the text that a place tells of; where it begins."""
    begin = used[BYTES]
    size = records[place + 1] - records[place]
    copy(texts, records[place], size, data, begin)
    used[BYTES] = begin + size
    return begin


@njit(cache=True, nogil=True)
def take_number(records, place, more, slot, used, taken):
    """Take a number, with something added to its rest; its own number."""
    number = used[NUMBERS]
    used[NUMBERS] = number + 1
    taken[number, TAKEN_SLOT] = slot
    taken[number, TAKEN_KEY] = number_key(double_of(np.uint64(records[place])))
    taken[number, TAKEN_FIRST] = records[place + 1] + more
    taken[number, TAKEN_LAST] = records[place]  # the double itself
    return number


@njit(cache=True, nogil=True)
def take_range(records, test, slot, used, taken):
    """Take the ends of a range of numbers: how to file it, and its ends.

    Rests are whole, so what is behind a number begins with the next rest; here it is said of the
    number itself, which has no rest then, as most have none.
    """
    if records[test + 1] == records[test + 3] and records[test + 2] == records[test + 4]:
        end = 2 * take_number(records, test + 1, 0, slot, used, taken)
        return BY_NUMBER, end, end
    low = high = OPEN
    if records[test + 2] != -OPEN_REST:
        past = np.int64(records[test + 2] > 0)
        low = 2 * take_number(records, test + 1, -past, slot, used, taken) + past
    if records[test + 4] != OPEN_REST:
        past = np.int64(records[test + 4] < 0)
        high = 2 * take_number(records, test + 3, past, slot, used, taken) + past
    return BY_ORDER, low, high


@njit(cache=True, nogil=True)
def take_text(begin, end, slot, data, number, taken):
    """Take a text that lies in the data."""
    taken[number, TAKEN_SLOT] = slot
    taken[number, TAKEN_KEY] = first_bytes(data, begin, end)
    taken[number, TAKEN_FIRST] = begin
    taken[number, TAKEN_LAST] = end


@njit(cache=True, nogil=True)
def take_equal(texts, records, place, slot, used, data, taken):
    """Take a text for equality; its number."""
    begin = put_text(texts, records, place, used, data)
    number = used[EQUAL]
    used[EQUAL] = number + 1
    take_text(begin, used[BYTES], slot, data, number, taken)
    return number


@njit(cache=True, nogil=True)
def take_bound(begin, slot, used, data, taken):
    """Take a text in order, the last one in the data; its number."""
    number = used[BOUNDS]
    used[BOUNDS] = number + 1
    take_text(begin, used[BYTES], slot, data, number, taken)
    return number


@njit(cache=True, nogil=True)
def take_bounds(texts, records, test, slot, used, data, taken):
    """Take the ends of a range of texts."""
    word = records[test]
    low = high = OPEN
    if word & RAW_OPEN_LOW == 0:
        begin = put_text(texts, records, test + 1, used, data)
        low = 2 * take_bound(begin, slot, used, data, taken) + (word & RAW_PAST_LOW != 0)
    if word & RAW_OPEN_HIGH == 0:
        begin = put_text(texts, records, test + 3, used, data)
        high = 2 * take_bound(begin, slot, used, data, taken) + (word & RAW_PAST_HIGH != 0)
    return low, high


@njit(cache=True, nogil=True)
def take_prefix(texts, records, test, slot, used, data, taken):
    """Take a prefix, or a suffix turned round, as the range of texts that begin with it."""
    if records[test] >> RAW_KIND == TEXT_SUFFIX:
        begin = used[BYTES]
        turn_round(texts, records[test + 1], records[test + 2], data, begin)
        used[BYTES] += records[test + 2] - records[test + 1]
    else:
        begin = put_text(texts, records, test + 1, used, data)
    end = used[BYTES]
    low = 2 * take_bound(begin, slot, used, data, taken)
    used[BYTES] = put_following(data, begin, end)
    if used[BYTES] == end:
        return low, OPEN
    return low, 2 * take_bound(end, slot, used, data, taken) + 1


@njit(cache=True, nogil=True)
def put_following(data, begin, end):
    """Put the first text above all that begin with one behind it; where it ends.

    That is where it begins if there is none.
    """
    last = end
    while last > begin:
        start = last - 1
        while data[start] & 0xC0 == 0x80:
            start -= 1
        code = np.int64(data[start])
        if code >= 0xC0:
            code &= 0x1F if code < 0xE0 else 0x0F if code < 0xF0 else 0x07
        for at in range(start + 1, last):
            code = code << 6 | np.int64(data[at]) & 0x3F
        if code < HIGHEST_CHARACTER:
            copy(data, begin, start - begin, data, end)
            return put_character(
                data, end + start - begin, FIRST_HIGH if code == LAST_LOW else code + 1
            )
        last = start
    return end


@njit(cache=True, nogil=True)
def put_character(data, at, code):
    """Put a character down; where it ends."""
    size = 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)
    for i in range(size - 1, 0, -1):
        data[at + i] = 0x80 | code & 0x3F
        code >>= 6
    mark = 0 if size == 1 else 0xC0 if size == 2 else 0xE0 if size == 3 else 0xF0
    data[at] = mark | code
    return at + size


@njit(cache=True, nogil=True)
def in_order(taken, data, slot_count, numeric):
    """The numbers of constants across all slots, where those of each begin, and one of each.

    In order within a slot, none twice.
    """
    begins = np.zeros(slot_count + 1, np.int64)
    for i in range(len(taken)):
        begins[taken[i, TAKEN_SLOT] + 1] += 1
    for slot in range(slot_count):
        begins[slot + 1] += begins[slot]
    nexts = begins.copy()
    order = np.empty(len(taken), np.int64)
    for i in range(len(taken)):
        slot = taken[i, TAKEN_SLOT]
        order[nexts[slot]] = i
        nexts[slot] += 1
    spare = np.empty(len(taken), np.int64)
    number = np.empty(len(taken), np.int64)
    firsts = np.empty(len(taken), np.int64)
    count = 0
    for slot in range(slot_count):
        first, last = begins[slot], begins[slot + 1]
        sort_constants(order[first:last], spare[first:last], taken, data, numeric)
        begins[slot] = count
        for at in range(first, last):
            if at == first or compare(taken, data, numeric, order[at - 1], order[at]) != 0:
                firsts[count] = order[at]
                count += 1
            number[order[at]] = count - 1
    begins[slot_count] = count
    return number, begins, firsts[:count]


@njit(cache=True, nogil=True)
def compare(taken, data, numeric, one, two):
    """Below zero, zero or above it as a constant is below another, equal to it or above it."""
    key, other = taken[one, TAKEN_KEY], taken[two, TAKEN_KEY]
    if key != other:
        return np.int64(-1 if key < other else 1)
    first, second = taken[one, TAKEN_FIRST], taken[two, TAKEN_FIRST]
    if numeric:
        return np.int64((first > second) - (first < second))
    return compare_bytes(data, first, taken[one, TAKEN_LAST], data, second, taken[two, TAKEN_LAST])


@njit(cache=True, nogil=True)
def sort_constants(order, spare, taken, data, numeric):
    """Put the numbers of constants in their order, by merging ever longer runs."""
    width = 1
    while width < order.size:
        for begin in range(0, order.size, 2 * width):
            middle = min(begin + width, order.size)
            end = min(begin + 2 * width, order.size)
            one, two = begin, middle
            for at in range(begin, end):
                if two == end or (
                    one < middle and compare(taken, data, numeric, order[one], order[two]) <= 0
                ):
                    spare[at] = order[one]
                    one += 1
                else:
                    spare[at] = order[two]
                    two += 1
        order[:] = spare
        width *= 2


@njit(cache=True, nogil=True)
def locate(shapes, slots, lows, highs, members, numbers, equal, bounds):
    """Give the tests the places of their constants."""
    for i in range(shapes.size):
        kind = shapes[i] & 15
        if kind == NUMBER_IN or kind == NUMBER_NOT:  # noqa: SIM109
            lows[i], highs[i] = located(lows[i], highs[i], slots[i], numbers[0], numbers[1])
        elif kind == TEXT_BETWEEN:
            lows[i], highs[i] = located(lows[i], highs[i], slots[i], bounds[0], bounds[1])
        elif kind == TEXT_IS or kind == TEXT_NOT:  # noqa: SIM109
            lows[i] = highs[i] = equal[0][lows[i]]
        elif kind == TEXT_AMONG:
            for at in range(lows[i], lows[i] + highs[i]):
                members[at] = equal[0][members[at]]
        elif kind == NUMBER_AMONG:
            for at in range(lows[i], lows[i] + highs[i]):
                members[at] = 2 * (numbers[0][members[at]] - numbers[1][slots[i]]) + 1


@njit(cache=True, nogil=True)
def located(low, high, slot, number, begins):
    """The ends of a range by the places of its constants."""
    first, last = np.int64(0), 2 * (begins[slot + 1] - begins[slot])
    if low != OPEN:
        first = 2 * (number[low >> 1] - begins[slot]) + 1 + (low & 1)
    if high != OPEN:
        last = 2 * (number[high >> 1] - begins[slot]) + 1 - (high & 1)
    return first, last


@njit(cache=True, nogil=True)
def distinct_numbers(taken, ordered):
    """The numbers in their order: the doubles that are next to them, and what is left."""
    firsts = ordered[2]
    highs, lows = np.empty(firsts.size), np.empty(firsts.size, np.int64)
    for i in range(firsts.size):
        highs[i] = double_of(np.uint64(taken[firsts[i], TAKEN_LAST]))
        lows[i] = taken[firsts[i], TAKEN_FIRST]
    return highs, lows


@njit(cache=True, nogil=True)
def distinct_texts(taken, ordered, data):
    """The texts in their order: where each begins and the last ends, and their bytes."""
    firsts = ordered[2]
    places = np.empty(firsts.size + 1, np.int64)
    size = np.int64(0)
    for i in range(firsts.size):
        places[i] = size
        size += taken[firsts[i], TAKEN_LAST] - taken[firsts[i], TAKEN_FIRST]
    places[firsts.size] = size
    out = np.empty(size, np.uint8)
    for i in range(firsts.size):
        copy(data, taken[firsts[i], TAKEN_FIRST], places[i + 1] - places[i], out, places[i])
    return places, out
