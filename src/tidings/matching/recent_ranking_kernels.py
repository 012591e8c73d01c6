"""Kernels that rank recent filters from their records, without reading predicates.

They read the records that `recent_kernels` has written, without the GIL: later records lie behind
those that they read, and they do not look at tombstones.

First every test collects its constants, slot by slot; then these are sorted, and each test gets the
ranks of its own. A number is sorted by a key and a rest, a text by its first bytes as a key and
then by its bytes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from tidings.matching.constants import Numbers, Texts
from tidings.matching.kernels import (
    ANY_CHARACTER,
    BOOLEAN_IS,
    EXISTS,
    INTEGER,
    NUMBER_AMONG,
    NUMBER_IN,
    NUMBER_NOT,
    REAL,
    TEXT,
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
    reverse_text,
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
from tidings.matching.recent_kernels import (
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

Array = np.ndarray[Any, Any]

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


class Collected(NamedTuple):
    """What tests have collected so far: constants, patterns and the bytes of texts."""

    numbers: Array
    equal: Array
    bounds: Array
    contained: Array  # where each begins and ends, in which test, and whether it is a pattern
    data: Array
    used: Array  # how much of each thing


class InOrder(NamedTuple):
    """Collected constants: the number of each, slot by slot, and the first of each number."""

    number: Array
    begins: Array  # of each slot, and where the last ends
    firsts: Array


@njit(cache=True, nogil=True)
def look_through(context, owners, special, straight, backwards):
    """Mark who is special, of others the slots that they need; how much there is of each thing.

    Special is who asks Python, or is marked as that already.
    """
    records = longs_at(context, HELD_RECORDS)
    texts = bytes_at(context, HELD_TEXTS)
    held = longs_at(context, HELD_OWNERS)
    sizes = np.zeros(SIZES, np.int64)
    for i in range(owners.size):
        first = held[OWNER_WIDTH * owners[i] + OWNER_RECORD]
        count = held[OWNER_WIDTH * owners[i] + OWNER_RECORDS]
        record = first
        for _ in range(count):
            if records[record + RECORD_FLAGS] & ASKS:
                special[i] = True
            record += records[record + RECORD_LENGTH]
        if special[i]:
            continue
        sizes[FILTERS] += count
        record = first
        for _ in range(count):
            for j in range(records[record + RECORD_TESTS]):
                test = record + RECORD_HEAD + TEST_WIDTH * j
                slot = records[test] & RAW_SLOT
                kind = records[test] >> RAW_KIND
                needed, _, _ = literal_of(records, texts, test)
                measure(records, record, test, kind, sizes)
                if needed:
                    measure(records, record, test, needed, sizes)
                if kind == TEXT_SUFFIX or needed == TEXT_SUFFIX:
                    backwards[slot] = True
                if kind != TEXT_SUFFIX:
                    straight[slot] = True
            record += records[record + RECORD_LENGTH]
    return sizes


@njit(cache=True, nogil=True)
def literal_of(records, texts, test):
    """What a test with a pattern needs at least: the kind of another test, and from where to where.

    The kind is 0 if there is none. Nothing can be filed under a pattern, but under a literal in it:
    what it begins or ends with if that is not short, or else the longest.
    """
    kind, first, last = np.int64(0), np.int64(0), np.int64(0)
    if records[test] >> RAW_KIND != TEXT_LIKE or records[test] & RAW_NEGATED:
        return kind, first, last
    begin, end = records[test + 1], records[test + 2]
    at = begin
    while at < end:
        start = at
        while at < end and texts[at] < ANY_CHARACTER:
            at += 1
        if at - start > last - first:
            kind, first, last = np.int64(TEXT_CONTAINS), start, at
        if at == start:
            at += 1
    ahead = begin
    while ahead < end and texts[ahead] < ANY_CHARACTER:
        ahead += 1
    behind = end
    while behind > begin and texts[behind - 1] < ANY_CHARACTER:
        behind -= 1
    if kind and ahead - begin >= min(last - first, SHORT):
        return np.int64(TEXT_PREFIX), begin, ahead
    if kind and end - behind >= min(last - first, SHORT):
        return np.int64(TEXT_SUFFIX), behind, end
    return kind, first, last


@njit(cache=True, nogil=True)
def measure(records, record, test, kind, sizes):
    """Count what a test of a kind takes."""
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
    elif kind == TEXT_CONTAINS or kind == TEXT_LIKE:  # noqa: SIM109
        sizes[CONTAINED] += 1
    elif kind != EXISTS and kind != BOOLEAN_IS:
        sizes[BOUNDS] += 2
    first, last = texts_of_test(records, record, test)
    for place in range(first, last, 2):
        # And once more for what comes after a prefix.
        sizes[BYTES] += 2 * (records[place + 1] - records[place]) + LONGEST_CHARACTER


@njit(cache=True, nogil=True)
def rank_held(context, owners, straight, backwards, slot_count, sizes):
    """The tests of owners, none of them special, and their constants.

    `straight` and `backwards` give the slots of texts as they are and reversed. Owners are told by
    their places. At last what is to be contained or to be fitted.
    """
    packed = Packed(
        np.empty(sizes[FILTERS], np.int32),
        np.empty(sizes[FILTERS], np.int32),
        np.empty(sizes[TESTS], np.uint16),
        np.empty(sizes[TESTS], np.int32),
        np.zeros(sizes[TESTS], np.int32),
        np.zeros(sizes[TESTS], np.int32),
        np.empty(sizes[MEMBERS], np.int32),
    )
    taken = Collected(
        np.empty((sizes[NUMBERS], TAKEN_WIDTH), np.int64),
        np.empty((sizes[EQUAL], TAKEN_WIDTH), np.int64),
        np.empty((sizes[BOUNDS], TAKEN_WIDTH), np.int64),
        np.empty((sizes[CONTAINED], 4), np.int64),
        np.empty(sizes[BYTES], np.uint8),
        np.zeros(SIZES, np.int64),
    )
    records = longs_at(context, HELD_RECORDS)
    texts = bytes_at(context, HELD_TEXTS)
    held = longs_at(context, HELD_OWNERS)
    used = taken.used
    for i in range(owners.size):
        record = held[OWNER_WIDTH * owners[i] + OWNER_RECORD]
        for _ in range(held[OWNER_WIDTH * owners[i] + OWNER_RECORDS]):
            packed.owners[used[FILTERS]] = i
            packed.sizes[used[FILTERS]] = records[record + RECORD_TESTS]
            used[FILTERS] += 1
            for j in range(records[record + RECORD_TESTS]):
                test = record + RECORD_HEAD + TEST_WIDTH * j
                kind = records[test] >> RAW_KIND
                slot = (backwards if kind == TEXT_SUFFIX else straight)[records[test] & RAW_SLOT]
                take_test(records, texts, record, test, slot, packed, taken)
                needed, first, last = literal_of(records, texts, test)
                if needed:
                    packed.sizes[used[FILTERS] - 1] += 1
                    slot = (backwards if needed == TEXT_SUFFIX else straight)[
                        records[test] & RAW_SLOT
                    ]
                    take_literal(texts, first, last, needed, slot, packed, taken)
            record += records[record + RECORD_LENGTH]
    numbers = in_order(taken.numbers[: used[NUMBERS]], taken.data, slot_count, True)
    equal = in_order(taken.equal[: used[EQUAL]], taken.data, slot_count, False)
    bounds = in_order(taken.bounds[: used[BOUNDS]], taken.data, slot_count, False)
    locate(packed, numbers, equal, bounds)
    return (
        packed,
        distinct_numbers(taken.numbers, numbers),
        distinct_texts(taken.equal, equal, taken.data),
        distinct_texts(taken.bounds, bounds, taken.data),
        taken.contained,
        taken.data,
    )


@njit(cache=True, nogil=True)
def take_test(records, texts, record, test, slot, packed, taken):
    """Take the constants of a test, and put down its shape and for now which they are."""
    word = records[test]
    kind = word >> RAW_KIND
    types = word >> RAW_TYPES & 15
    used, low, high = taken.used, packed.low, packed.high
    at = used[TESTS]
    numeric = types == INTEGER | REAL  # and not one of them
    if kind == EXISTS:
        path, exact = BY_PRESENCE, types == 15
    elif kind == BOOLEAN_IS:
        path, exact = BY_TRUTH, True
        low[at] = high[at] = records[test + 1]
    elif kind == TEXT_CONTAINS:
        path, exact = BY_GRAM, take_pattern(texts, records[test + 1], records[test + 2], 0, taken)
    elif kind == TEXT_LIKE:
        take_pattern(texts, records[test + 1], records[test + 2], 1, taken)
        path, exact = BY_PRESENCE, False
    elif kind == NUMBER_AMONG or kind == TEXT_AMONG:  # noqa: SIM109
        path, exact = (BY_NUMBERS, numeric) if kind == NUMBER_AMONG else (BY_TEXTS, True)
        low[at], high[at] = used[MEMBERS], records[test + 2]
        first = record + records[test + 1]
        for place in range(first, first + 2 * records[test + 2], 2):
            if kind == NUMBER_AMONG:
                number = take_number(records, place, 0, slot, taken)
            else:
                number = take_equal(texts, records, place, slot, taken)
            packed.members[used[MEMBERS]] = number
            used[MEMBERS] += 1
    elif kind == TEXT_IS or kind == TEXT_NOT:  # noqa: SIM109
        path, exact = (BY_TEXT, True) if kind == TEXT_IS else (BY_PRESENCE, False)
        low[at] = take_equal(texts, records, test + 1, slot, taken)
    elif kind == NUMBER_IN or kind == NUMBER_NOT:  # noqa: SIM109
        path, low[at], high[at] = take_range(records, test, slot, taken)
        exact = numeric and (path == BY_NUMBER or low[at] == OPEN or high[at] == OPEN)
        if kind == NUMBER_NOT:
            path, exact = BY_PRESENCE, False
    elif kind == TEXT_BETWEEN:
        low[at], high[at] = take_bounds(texts, records, test, slot, taken)
        path, exact = BY_ORDER, low[at] == OPEN or high[at] == OPEN
    else:  # a prefix or a suffix
        low[at], high[at] = take_prefix(
            texts, records[test + 1], records[test + 2], kind, slot, taken
        )
        path, exact = BY_PREFIX, True
        kind = np.int64(TEXT_BETWEEN)
    negated = word & RAW_NEGATED != 0
    packed.shapes[at] = fold_shape(kind, types, path, negated, exact, False)
    packed.slot[at] = slot
    used[TESTS] = at + 1


@njit(cache=True, nogil=True)
def take_literal(texts, first, last, kind, slot, packed, taken):
    """Take what a pattern needs at least as a test that is added to its own."""
    at = taken.used[TESTS]
    if kind == TEXT_CONTAINS:
        exact = take_pattern(texts, first, last, 0, taken)
        packed.shapes[at] = fold_shape(TEXT_CONTAINS, TEXT, BY_GRAM, False, exact, True)
    else:
        packed.low[at], packed.high[at] = take_prefix(texts, first, last, kind, slot, taken)
        packed.shapes[at] = fold_shape(TEXT_BETWEEN, TEXT, BY_PREFIX, False, True, True)
    packed.slot[at] = slot
    taken.used[TESTS] = at + 1


@njit(cache=True, nogil=True)
def take_pattern(texts, first, last, whole, taken):
    """Take what the test at hand has to contain or, if `whole`, to fit; whether that is short."""
    used = taken.used
    begin = used[BYTES]
    copy(texts, first, last - first, taken.data, begin)
    used[BYTES] = begin + last - first
    taken.contained[used[CONTAINED]] = begin, used[BYTES], used[TESTS], whole
    used[CONTAINED] += 1
    return last - first <= SHORT


@njit(cache=True, nogil=True)
def put_text(texts, records, place, taken):
    """Copy the text that a place tells of; where it begins."""
    begin = taken.used[BYTES]
    size = records[place + 1] - records[place]
    copy(texts, records[place], size, taken.data, begin)
    taken.used[BYTES] = begin + size
    return begin


@njit(cache=True, nogil=True)
def take_number(records, place, more, slot, taken):
    """Take a number, with something added to its rest; its own number."""
    number = taken.used[NUMBERS]
    taken.used[NUMBERS] = number + 1
    constant = taken.numbers[number]
    constant[TAKEN_SLOT] = slot
    constant[TAKEN_KEY] = number_key(double_of(np.uint64(records[place])))
    constant[TAKEN_FIRST] = records[place + 1] + more
    constant[TAKEN_LAST] = records[place]  # the double itself
    return number


@njit(cache=True, nogil=True)
def take_range(records, test, slot, taken):
    """Take the ends of a range of numbers: how to file it, and its ends.

    Rests are whole, so what is behind a number begins with the next rest; here it is said of the
    number itself, which has no rest then, as most have none.
    """
    if records[test + 1] == records[test + 3] and records[test + 2] == records[test + 4]:
        end = 2 * take_number(records, test + 1, 0, slot, taken)
        return BY_NUMBER, end, end
    low = high = OPEN
    if records[test + 2] != -OPEN_REST:
        past = np.int64(records[test + 2] > 0)
        low = 2 * take_number(records, test + 1, -past, slot, taken) + past
    if records[test + 4] != OPEN_REST:
        past = np.int64(records[test + 4] < 0)
        high = 2 * take_number(records, test + 3, past, slot, taken) + past
    return BY_ORDER, low, high


@njit(cache=True, nogil=True)
def take_text(begin, slot, taken, constant):
    """Take a text, the last one in the data."""
    end = taken.used[BYTES]
    constant[TAKEN_SLOT] = slot
    constant[TAKEN_KEY] = first_bytes(taken.data, begin, end)
    constant[TAKEN_FIRST] = begin
    constant[TAKEN_LAST] = end


@njit(cache=True, nogil=True)
def take_equal(texts, records, place, slot, taken):
    """Take a text for equality; its number."""
    number = taken.used[EQUAL]
    taken.used[EQUAL] = number + 1
    take_text(put_text(texts, records, place, taken), slot, taken, taken.equal[number])
    return number


@njit(cache=True, nogil=True)
def take_bound(begin, slot, taken):
    """Take a text in order, the last one in the data; its number."""
    number = taken.used[BOUNDS]
    taken.used[BOUNDS] = number + 1
    take_text(begin, slot, taken, taken.bounds[number])
    return number


@njit(cache=True, nogil=True)
def take_bounds(texts, records, test, slot, taken):
    """Take the ends of a range of texts."""
    word = records[test]
    low = high = OPEN
    if word & RAW_OPEN_LOW == 0:
        begin = put_text(texts, records, test + 1, taken)
        low = 2 * take_bound(begin, slot, taken) + (word & RAW_PAST_LOW != 0)
    if word & RAW_OPEN_HIGH == 0:
        begin = put_text(texts, records, test + 3, taken)
        high = 2 * take_bound(begin, slot, taken) + (word & RAW_PAST_HIGH != 0)
    return low, high


@njit(cache=True, nogil=True)
def take_prefix(texts, first, last, kind, slot, taken):
    """Take a prefix, or a suffix reversed, as the range of texts that begin with it."""
    used = taken.used
    begin = used[BYTES]
    if kind == TEXT_SUFFIX:
        reverse_text(texts, first, last, taken.data, begin)
    else:
        copy(texts, first, last - first, taken.data, begin)
    used[BYTES] = begin + last - first
    end = used[BYTES]
    low = 2 * take_bound(begin, slot, taken)
    used[BYTES] = put_following(taken.data, begin, end)
    if used[BYTES] == end:
        return low, OPEN
    return low, 2 * take_bound(end, slot, taken) + 1


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
    """Constants in order, slot by slot, none twice."""
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
    return InOrder(number, begins, firsts[:count].copy())


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
def locate(packed, numbers, equal, bounds):
    """Give the tests the places of their constants."""
    lows, highs, members = packed.low, packed.high, packed.members
    for i in range(packed.shapes.size):
        kind = packed.shapes[i] & 15
        slot = packed.slot[i]
        if kind == NUMBER_IN or kind == NUMBER_NOT:  # noqa: SIM109
            lows[i], highs[i] = located(lows[i], highs[i], slot, numbers)
        elif kind == TEXT_BETWEEN:
            lows[i], highs[i] = located(lows[i], highs[i], slot, bounds)
        elif kind == TEXT_IS or kind == TEXT_NOT:  # noqa: SIM109
            lows[i] = highs[i] = equal.number[lows[i]]
        elif kind == TEXT_AMONG:
            for at in range(lows[i], lows[i] + highs[i]):
                members[at] = equal.number[members[at]]
        elif kind == NUMBER_AMONG:
            for at in range(lows[i], lows[i] + highs[i]):
                members[at] = 2 * (numbers.number[members[at]] - numbers.begins[slot]) + 1


@njit(cache=True, nogil=True)
def located(low, high, slot, constants):
    """The ends of a range by the places of its constants."""
    begin = constants.begins[slot]
    first, last = np.int64(0), 2 * (constants.begins[slot + 1] - begin)
    if low != OPEN:
        first = 2 * (constants.number[low >> 1] - begin) + 1 + (low & 1)
    if high != OPEN:
        last = 2 * (constants.number[high >> 1] - begin) + 1 - (high & 1)
    return first, last


@njit(cache=True, nogil=True)
def distinct_numbers(taken, ordered):
    """The numbers in their order: the doubles that are next to them, and what is left."""
    firsts = ordered.firsts
    highs, lows = np.empty(firsts.size), np.empty(firsts.size, np.int64)
    for i in range(firsts.size):
        highs[i] = double_of(np.uint64(taken[firsts[i], TAKEN_LAST]))
        lows[i] = taken[firsts[i], TAKEN_FIRST]
    return Numbers(highs, lows, ordered.begins)


@njit(cache=True, nogil=True)
def distinct_texts(taken, ordered, data):
    """The texts in their order."""
    firsts = ordered.firsts
    places = np.empty(firsts.size + 1, np.int64)
    size = np.int64(0)
    for i in range(firsts.size):
        places[i] = size
        size += taken[firsts[i], TAKEN_LAST] - taken[firsts[i], TAKEN_FIRST]
    places[firsts.size] = size
    out = np.empty(size, np.uint8)
    for i in range(firsts.size):
        copy(data, taken[firsts[i], TAKEN_FIRST], places[i + 1] - places[i], out, places[i])
    return Texts(places, out, ordered.begins)
