"""The compiled part of the table: events in, numbers of subscriptions out.

What must live here: the layout that `plan` fills and these functions read, and nothing of Python's
objects. A plan is three arrays: whole numbers in sections that a header locates (so that a call
passes three arrays and not thirty), the numeric constants, and the bytes of all texts.

An event becomes *entries*: one for each value of each attribute that some subscription mentions,
with its type and its coordinates: the place of a number among the attribute's numeric constants,
the number of a text among its equality constants, the place of a text among its bounds. A
constraint is then an interval of coordinates, and needs no constant any more.

Each filter is filed in one list, under its most selective constraint. `probe` visits the lists that
the entries lead to and checks the remaining constraints of the filters there, which stand beside.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

# Sections of the whole numbers. The header holds begin and end of each.
(
    NAME_TABLE, NAME_BEGIN, NAME_FIRST,
    TEXT_TABLE, TEXT_FIRST, TEXT_BEGIN, TEXT_LIST,
    NUMBER_BEGIN, NUMBER_LOW, NUMBER_LIST,
    BOUND_BEGIN, BOUND_TEXT, BOUND_INNER, PREFIX_LIST, PREFIX_PARENT,
    SLOT_PRESENT, SLOT_FALSE, SLOT_TRUE, SLOT_GRAMS,
    ORDERED_BEGIN, ORDERED_KEY, ORDERED_RECORD,
    GRAM_TABLE, GRAM_SLOT, GRAM_BYTES, GRAM_LIST,
    LIST_BEGIN, RECORDS, MEMBERS, PATTERN_BEGIN,
    ALWAYS, SECTIONS,
) = range(32)  # fmt: skip
HEADER: Final = 2 * SECTIONS

# Types of values, as bits.
INTEGER, REAL, TEXT, BOOLEAN = 1, 2, 4, 8

# Kinds of a test, in the upper bits of its first word; then type bits, negation, and the slot.
NUMBER_IN, NUMBER_NOT, NUMBER_AMONG, TEXT_IS, TEXT_NOT, TEXT_AMONG, TEXT_BETWEEN, TEXT_CONTAINS = (
    range(8)
)
BOOLEAN_IS, EXISTS, ASK = range(8, 11)
KIND_SHIFT: Final = 26
TYPE_SHIFT: Final = 22
NEGATED: Final = 1 << 21
SLOT_MASK: Final = (1 << 21) - 1

# Ordered lists of a slot: numbers from below, from above; texts from below, from above.
NUMBER_LOW_LIST, NUMBER_HIGH_LIST, TEXT_LOW_LIST, TEXT_HIGH_LIST = range(4)

ABSENT: Final = -1
SEVERAL: Final = 1 << 30  # on a record's subscription: it may be met again, so mark it


class Scratch(NamedTuple):
    """What one thread writes on while it works; stamps are compared with the event's number."""

    slot_stamp: Array  # of slots: the event that set the two below
    slot_begin: Array  # first of the slot's entries
    slot_end: Array
    list_stamp: Array  # of lists: visited
    seen_stamp: Array  # of subscriptions: put out
    epoch: Array  # the number of the event, one element


class Entries(NamedTuple):
    """The values of one event or of many, those of one slot together."""

    slot: Array
    kind: Array  # a type bit
    number: Array  # place among numeric constants; a boolean's value
    text: Array  # number among equality constants
    bound: Array  # place among bounds
    begin: Array  # bytes of a text in the data
    end: Array


@njit(cache=True, nogil=True, inline="always")
def section(whole, name):
    """One section of the plan's whole numbers."""
    return whole[whole[2 * name] : whole[2 * name + 1]]


@njit(cache=True, nogil=True)
def hash_bytes(data, begin, end, seed):
    """A hash of some bytes and a number."""
    value = np.uint64(14695981039346656037) ^ np.uint64(seed)
    for i in range(begin, end):
        value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64(value >> np.uint64(33))


@njit(cache=True, nogil=True)
def same_bytes(data, begin, end, other, other_begin, other_end):
    """Whether two runs of bytes are equal."""
    if end - begin != other_end - other_begin:
        return False
    for i in range(end - begin):
        if data[begin + i] != other[other_begin + i]:
            return False
    return True


@njit(cache=True, nogil=True)
def compare_bytes(data, begin, end, other, other_begin, other_end):
    """Below zero, zero or above it as the first bytes are below, equal or above the second."""
    shared = min(end - begin, other_end - other_begin)
    for i in range(shared):
        if data[begin + i] != other[other_begin + i]:
            return np.int64(data[begin + i]) - np.int64(other[other_begin + i])
    return (end - begin) - (other_end - other_begin)


@njit(cache=True, nogil=True)
def fill_table(table, begins, firsts, data):
    """Put texts, numbered slot by slot, into a hash table (a power of two long, all -1)."""
    mask = table.size - 1
    for slot in range(firsts.size - 1):
        for number in range(firsts[slot], firsts[slot + 1]):
            at = hash_bytes(data, begins[number], begins[number + 1], slot) & mask
            while table[at] >= 0:
                at = (at + 1) & mask
            table[at] = number


@njit(cache=True, nogil=True)
def find_text(table, begins, firsts, texts, slot, data, begin, end):
    """The number of a text among those of a slot, or -1."""
    first = firsts[slot]
    last = firsts[slot + 1]
    if first == last:
        return -1
    mask = table.size - 1
    at = hash_bytes(data, begin, end, slot) & mask
    while True:
        number = table[at]
        if number < 0:
            return -1
        if first <= number < last and same_bytes(
            texts, begins[number], begins[number + 1], data, begin, end
        ):
            return number
        at = (at + 1) & mask


@njit(cache=True, nogil=True)
def place_number(highs, lows, begin, end, high, low):
    """Twice the rank of a number among constants, and one more where it equals one; NaN is -1."""
    if high != high:
        return -1
    first, last = begin, end
    while first < last:
        middle = (first + last) >> 1
        if highs[middle] < high or (highs[middle] == high and lows[middle] < low):
            first = middle + 1
        else:
            last = middle
    place = 2 * (first - begin)
    if first < end and highs[first] == high and lows[first] == low:
        place += 1
    return place


@njit(cache=True, nogil=True)
def place_text(begins, texts, begin, end, data, data_begin, data_end):
    """The same for a text among the bounds of its slot."""
    first, last = begin, end
    while first < last:
        middle = (first + last) >> 1
        order = compare_bytes(texts, begins[middle], begins[middle + 1], data, data_begin, data_end)
        if order == 0:
            return 2 * (middle - begin) + 1
        if order < 0:
            first = middle + 1
        else:
            last = middle
    return 2 * (first - begin)


@njit(cache=True, nogil=True)
def split_integer(value):
    """An integer as the double next to it and what is missing."""
    high = np.float64(value)
    if high >= 9223372036854775808.0:
        return high, np.int64((value - np.int64(9223372036854775807)) - 1)
    return high, np.int64(value - np.int64(high))


@njit(cache=True, nogil=True)
def contains(data, begin, end, texts, first, last):
    """Whether the bytes of a text occur within others (Horspool is not worth it for words)."""
    length = last - first
    for start in range(begin, end - length + 1):
        i = 0
        while i < length and data[start + i] == texts[first + i]:
            i += 1
        if i == length:
            return True
    return False


@njit(cache=True, nogil=True)
def among(members, begin, count, value):
    """Whether a value is among sorted members."""
    first, last = begin, begin + count
    while first < last:
        middle = (first + last) >> 1
        if members[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first < begin + count and members[first] == value


@njit(cache=True, nogil=True)
def passes(word, low, high, whole, texts, entries, data, scratch, epoch):
    """Whether the event passes one test."""
    slot = word & SLOT_MASK
    wanted = (word & NEGATED) == 0
    if scratch.slot_stamp[slot] != epoch:
        return not wanted
    kind = word >> KIND_SHIFT
    types = (word >> TYPE_SHIFT) & 15
    for i in range(scratch.slot_begin[slot], scratch.slot_end[slot]):
        if entries.kind[i] & types == 0:
            continue
        holds = False
        if kind == NUMBER_IN or kind == BOOLEAN_IS:
            holds = low <= entries.number[i] <= high
        elif kind == TEXT_IS:
            holds = entries.text[i] == low
        elif kind == TEXT_BETWEEN:
            holds = low <= entries.bound[i] <= high
        elif kind == TEXT_CONTAINS:
            begins = section(whole, PATTERN_BEGIN)
            holds = contains(
                data, entries.begin[i], entries.end[i], texts, begins[2 * low], begins[2 * low + 1]
            )
        elif kind == EXISTS:
            holds = True
        elif kind == NUMBER_NOT:
            holds = entries.number[i] >= 0 and entries.number[i] != low
        elif kind == TEXT_NOT:
            holds = entries.text[i] != low
        elif kind == NUMBER_AMONG:
            holds = among(section(whole, MEMBERS), low, high, entries.number[i])
        elif kind == TEXT_AMONG:
            holds = among(section(whole, MEMBERS), low, high, entries.text[i])
        if holds:
            return wanted
    return not wanted


@njit(cache=True, nogil=True)
def check_record(at, whole, texts, entries, data, scratch, epoch, out, found, asked, asks):
    """Check the filter whose record begins here, and put out its subscription if it holds."""
    records = section(whole, RECORDS)
    if records[at] < 0:
        at = -records[at] - 1
    subscription = records[at]
    tests = records[at + 1]
    if subscription & SEVERAL and scratch.seen_stamp[subscription & ~SEVERAL] == epoch:
        return found, asks
    for test in range(tests):
        place = at + 2 + 3 * test
        word = records[place]
        if word >> KIND_SHIFT == ASK:
            asked[2 * asks] = subscription & ~SEVERAL
            asked[2 * asks + 1] = records[place + 1]
            return found, asks + 1
        if not passes(
            word,
            records[place + 1],
            records[place + 2],
            whole,
            texts,
            entries,
            data,
            scratch,
            epoch,
        ):
            return found, asks
    if subscription & SEVERAL:
        subscription &= ~SEVERAL
        scratch.seen_stamp[subscription] = epoch
    out[found] = subscription
    return found + 1, asks


@njit(cache=True, nogil=True)
def visit(number, whole, texts, entries, data, scratch, epoch, out, found, asked, asks):
    """Go through the records of one list."""
    if number < 0 or scratch.list_stamp[number] == epoch:
        return found, asks
    scratch.list_stamp[number] = epoch
    begins = section(whole, LIST_BEGIN)
    records = section(whole, RECORDS)
    at = begins[number]
    end = begins[number + 1]
    while at < end and records[at] >= 0 and records[at + 1] == 0 and records[at] & SEVERAL == 0:
        out[found] = records[at]  # nothing left to check
        found += 1
        at += 2
    while at < end:
        found, asks = check_record(
            at, whole, texts, entries, data, scratch, epoch, out, found, asked, asks
        )
        at += 1 if records[at] < 0 else 2 + 3 * records[at + 1]
    return found, asks


@njit(cache=True, nogil=True)
def visit_ordered(
    slot, which, query, whole, texts, entries, data, scratch, epoch, out, found, asked, asks
):
    """Go through the records of an ordered list up to a key."""
    begins = section(whole, ORDERED_BEGIN)
    keys = section(whole, ORDERED_KEY)
    places = section(whole, ORDERED_RECORD)
    at = begins[4 * slot + which]
    end = begins[4 * slot + which + 1]
    while at < end and keys[at] <= query:
        found, asks = check_record(
            places[at], whole, texts, entries, data, scratch, epoch, out, found, asked, asks
        )
        at += 1
    return found, asks


@njit(cache=True, nogil=True)
def visit_grams(
    slot, begin, end, whole, texts, entries, data, scratch, epoch, out, found, asked, asks
):
    """Look up every run of one to three bytes of a text."""
    table = section(whole, GRAM_TABLE)
    gram_slots = section(whole, GRAM_SLOT)
    grams = section(whole, GRAM_BYTES)
    lists = section(whole, GRAM_LIST)
    mask = table.size - 1
    for start in range(begin, end):
        gram = 0
        for length in range(1, 4):
            if start + length > end:
                break
            gram = gram << 8 | data[start + length - 1]
            at = hash_gram(slot, gram, length) & mask
            while table[at] >= 0:
                number = table[at]
                if gram_slots[number] == slot and grams[number] == gram | length << 24:
                    found, asks = visit(
                        lists[number], whole, texts, entries, data, scratch, epoch,
                        out, found, asked, asks,
                    )  # fmt: skip
                    break
                at = (at + 1) & mask
    return found, asks


@njit(cache=True, nogil=True)
def hash_gram(slot, gram, length):
    """A hash of a run of bytes in a slot."""
    value = np.uint64(gram | length << 24) * np.uint64(0x9E3779B97F4A7C15)
    value ^= np.uint64(slot) * np.uint64(0xC2B2AE3D27D4EB4F)
    value ^= value >> np.uint64(29)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64(value >> np.uint64(33))


@njit(cache=True, nogil=True)
def fill_grams(table, slots, grams):
    """Put grams into their hash table."""
    mask = table.size - 1
    for number in range(slots.size):
        gram = grams[number] & 0xFFFFFF
        at = hash_gram(slots[number], gram, grams[number] >> 24) & mask
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = number


@njit(cache=True, nogil=True)
def probe(first, last, whole, texts, entries, data, scratch, out, asked):
    """All subscriptions that the entries of one event satisfy.

    Puts their numbers into `out`, and into `asked` the pairs of subscription and question that only
    Python can answer. Returns how many of each.
    """
    scratch.epoch[0] += 1
    epoch = scratch.epoch[0]
    at = first
    while at < last:
        slot = entries.slot[at]
        scratch.slot_stamp[slot] = epoch
        scratch.slot_begin[slot] = at
        while at < last and entries.slot[at] == slot:
            at += 1
        scratch.slot_end[slot] = at
    found = 0
    asks = 0
    always = whole[2 * ALWAYS]
    found, asks = visit(
        always, whole, texts, entries, data, scratch, epoch, out, found, asked, asks
    )
    present = section(whole, SLOT_PRESENT)
    ordered = section(whole, ORDERED_BEGIN)
    at = first
    while at < last:
        slot = entries.slot[at]
        end = scratch.slot_end[slot]
        found, asks = visit(
            present[slot], whole, texts, entries, data, scratch, epoch, out, found, asked, asks
        )
        least_number = least_text = np.int64(1) << 40
        most_number = most_text = np.int64(-1)
        while at < end:
            kind = entries.kind[at]
            if kind == TEXT:
                if entries.text[at] >= 0:
                    found, asks = visit(
                        section(whole, TEXT_LIST)[entries.text[at]], whole, texts, entries, data,
                        scratch, epoch, out, found, asked, asks,
                    )  # fmt: skip
                bound = entries.bound[at]
                if bound >= 0:
                    least_text = min(least_text, bound)
                    most_text = max(most_text, bound)
                    begins = section(whole, BOUND_BEGIN)
                    node = section(whole, BOUND_INNER)[2 * begins[slot] + slot + bound]
                    while node >= 0:
                        found, asks = visit(
                            section(whole, PREFIX_LIST)[node], whole, texts, entries, data,
                            scratch, epoch, out, found, asked, asks,
                        )  # fmt: skip
                        node = section(whole, PREFIX_PARENT)[node]
                if section(whole, SLOT_GRAMS)[slot]:
                    found, asks = visit_grams(
                        slot, entries.begin[at], entries.end[at], whole, texts, entries, data,
                        scratch, epoch, out, found, asked, asks,
                    )  # fmt: skip
            elif kind == BOOLEAN:
                lists = section(whole, SLOT_TRUE if entries.number[at] else SLOT_FALSE)
                found, asks = visit(
                    lists[slot], whole, texts, entries, data, scratch, epoch, out, found,
                    asked, asks,
                )  # fmt: skip
            else:
                place = entries.number[at]
                if place >= 0:
                    least_number = min(least_number, place)
                    most_number = max(most_number, place)
                    if place & 1:
                        constant = section(whole, NUMBER_BEGIN)[slot] + (place >> 1)
                        found, asks = visit(
                            section(whole, NUMBER_LIST)[constant], whole, texts, entries, data,
                            scratch, epoch, out, found, asked, asks,
                        )  # fmt: skip
            at += 1
        if ordered[4 * slot] < ordered[4 * slot + 4]:
            if most_number >= 0:
                found, asks = visit_ordered(
                    slot, NUMBER_LOW_LIST, most_number, whole, texts, entries, data, scratch,
                    epoch, out, found, asked, asks,
                )  # fmt: skip
                found, asks = visit_ordered(
                    slot, NUMBER_HIGH_LIST, -least_number, whole, texts, entries, data, scratch,
                    epoch, out, found, asked, asks,
                )  # fmt: skip
            if most_text >= 0:
                found, asks = visit_ordered(
                    slot, TEXT_LOW_LIST, most_text, whole, texts, entries, data, scratch,
                    epoch, out, found, asked, asks,
                )  # fmt: skip
                found, asks = visit_ordered(
                    slot, TEXT_HIGH_LIST, -least_text, whole, texts, entries, data, scratch,
                    epoch, out, found, asked, asks,
                )  # fmt: skip
    return found, asks


@njit(cache=True, nogil=True)
def locate_text(slot, whole, texts, data, begin, end):
    """The coordinates of a text: number among equality constants, place among bounds."""
    number = find_text(
        section(whole, TEXT_TABLE), section(whole, TEXT_BEGIN), section(whole, TEXT_FIRST), texts,
        slot, data, begin, end,
    )  # fmt: skip
    bounds = section(whole, BOUND_BEGIN)
    place = -1
    if bounds[slot] < bounds[slot + 1]:
        place = place_text(
            section(whole, BOUND_TEXT), texts, bounds[slot], bounds[slot + 1], data, begin, end
        )
    return number, place


@njit(cache=True, nogil=True)
def locate_number(slot, whole, highs, high, low):
    """The coordinate of a number."""
    begins = section(whole, NUMBER_BEGIN)
    lows = section(whole, NUMBER_LOW)
    return place_number(highs, lows, begins[slot], begins[slot + 1], high, low)


@njit(cache=True, nogil=True)
def locate_texts(slot, whole, texts, data, offsets, numbers, places):
    """The coordinates of many texts, whose bytes lie between successive offsets."""
    for i in range(numbers.size):
        numbers[i], places[i] = locate_text(slot, whole, texts, data, offsets[i], offsets[i + 1])


@njit(cache=True, nogil=True)
def locate_integers(slot, whole, highs, values, places):
    """The coordinates of many integers."""
    for i in range(values.size):
        high, low = split_integer(values[i])
        places[i] = locate_number(slot, whole, highs, high, low)


@njit(cache=True, nogil=True)
def locate_reals(slot, whole, highs, values, places):
    """The coordinates of many reals."""
    for i in range(values.size):
        places[i] = locate_number(slot, whole, highs, values[i], np.int64(0))


@njit(cache=True, nogil=True)
def big_endian(data, at, size):
    """An unsigned number of so many bytes."""
    value = np.uint64(0)
    for i in range(size):
        value = value << np.uint64(8) | np.uint64(data[at + i])
    return value


@njit(cache=True, nogil=True)
def double_of(bits):
    """The double with these bits."""
    return np.uint64(bits).view(np.float64)


@njit(cache=True, nogil=True)
def head(data, at):
    """What begins here in MessagePack: (class, value or length, place after the head).

    Classes: 0 nothing, 1 integer, 2 real, 3 text, 4 boolean, 5 list, 6 map, 7 large unsigned,
    8 a pair of double and remainder (our extension), 9 anything else.
    """
    first = np.int64(data[at])
    if first < 0x80:
        return 1, first, at + 1
    if first >= 0xE0:
        return 1, first - 256, at + 1
    if first < 0x90:
        return 6, first & 15, at + 1
    if first < 0xA0:
        return 5, first & 15, at + 1
    if first < 0xC0:
        return 3, first & 31, at + 1
    if first == 0xC0:
        return 0, np.int64(0), at + 1
    if first == 0xC2 or first == 0xC3:
        return 4, first & 1, at + 1
    if 0xCC <= first <= 0xCF:
        size = 1 << (first - 0xCC)
        value = big_endian(data, at + 1, size)
        if value > np.uint64(9223372036854775807):
            return 7, np.int64(value), at + 9
        return 1, np.int64(value), at + 1 + size
    if 0xD0 <= first <= 0xD3:
        size = 1 << (first - 0xD0)
        value = np.int64(big_endian(data, at + 1, size))
        if size < 8 and value >= np.int64(1) << (8 * size - 1):
            value -= np.int64(1) << (8 * size)
        return 1, value, at + 1 + size
    if first == 0xCB:
        return 2, np.int64(big_endian(data, at + 1, 8)), at + 9
    if 0xD9 <= first <= 0xDB:
        size = 1 << (first - 0xD9)
        return 3, np.int64(big_endian(data, at + 1, size)), at + 1 + size
    if first == 0xDC or first == 0xDD:
        size = 2 << (first - 0xDC)
        return 5, np.int64(big_endian(data, at + 1, size)), at + 1 + size
    if first == 0xDE or first == 0xDF:
        size = 2 << (first - 0xDE)
        return 6, np.int64(big_endian(data, at + 1, size)), at + 1 + size
    if first == 0xD8 and data[at + 1] == 1:  # sixteen bytes of our own kind
        return 8, np.int64(0), at + 2
    return 9, np.int64(0), at + 1


@njit(cache=True, nogil=True)
def read_value(at, slot, whole, highs, texts, data, entries, count):
    """One scalar, put down as an entry if the slot is one; the place after it and the count."""
    kind, value, at = head(data, at)
    after = at + value if kind == 3 else at + 16 if kind == 8 else at
    if slot < 0 or kind == 0:
        return after, count
    entries.slot[count] = slot
    if kind == 3:
        entries.kind[count] = TEXT
        entries.begin[count] = at
        entries.end[count] = after
        entries.text[count], entries.bound[count] = locate_text(slot, whole, texts, data, at, after)
    elif kind == 4:
        entries.kind[count] = BOOLEAN
        entries.number[count] = value
    elif kind == 2:
        entries.kind[count] = REAL
        entries.number[count] = locate_number(
            slot, whole, highs, double_of(np.uint64(value)), np.int64(0)
        )
    else:
        entries.kind[count] = INTEGER
        if kind == 1:
            high, low = split_integer(value)
        elif kind == 7:
            high = np.float64(np.uint64(value))
            if high >= 18446744073709551616.0:
                low = np.int64(np.uint64(value) - np.uint64(18446744073709551615)) - 1
            else:
                low = np.int64(np.uint64(value) - np.uint64(high))
        else:
            high = double_of(big_endian(data, at, 8))
            low = np.int64(big_endian(data, at + 8, 8))
        entries.number[count] = locate_number(slot, whole, highs, high, low)
    return after, count + 1


@njit(cache=True, nogil=True)
def read_event(whole, highs, texts, data, entries):
    """A flat event in MessagePack as entries; how many, or -1 where it is not flat."""
    names = section(whole, NAME_TABLE)
    begins = section(whole, NAME_BEGIN)
    firsts = section(whole, NAME_FIRST)
    kind, fields, at = head(data, 0)
    count = 0
    for _ in range(fields):
        kind, size, at = head(data, at)
        if kind != 3:
            return -1
        slot = find_text(names, begins, firsts, texts, 0, data, at, at + size)
        at += size
        kind, size, after = head(data, at)
        if kind == 5:
            at = after
            for _ in range(size):
                at, count = read_value(at, slot, whole, highs, texts, data, entries, count)
        elif kind == 6 or kind == 9:
            return -1
        else:
            at, count = read_value(at, slot, whole, highs, texts, data, entries, count)
    return count


@njit(cache=True, nogil=True)
def scratch_of(work, slots, lists, subscriptions):
    """The scratch at the beginning of a thread's working array; the array has `scratch_size`."""
    return Scratch(
        work[1 : 1 + slots],
        work[1 + slots : 1 + 2 * slots],
        work[1 + 2 * slots : 1 + 3 * slots],
        work[1 + 3 * slots : 1 + 3 * slots + lists],
        work[1 + 3 * slots + lists : 1 + 3 * slots + lists + subscriptions],
        work[0:1],
    )


@njit(cache=True, nogil=True)
def entries_of(work, begin, capacity):
    """Room for so many entries within a working array."""
    return Entries(
        work[begin : begin + capacity],
        work[begin + capacity : begin + 2 * capacity],
        work[begin + 2 * capacity : begin + 3 * capacity],
        work[begin + 3 * capacity : begin + 4 * capacity],
        work[begin + 4 * capacity : begin + 5 * capacity],
        work[begin + 5 * capacity : begin + 6 * capacity],
        work[begin + 6 * capacity : begin + 7 * capacity],
    )


@njit(cache=True, nogil=True)
def match_event(whole, highs, texts, data, work, out, room):
    """One event in MessagePack: how many subscriptions, and how many to ask about; -1 if not flat.

    `work` holds the scratch and then seven numbers for each byte of the event; `out` has twice the
    room more behind the room for subscriptions.
    """
    slots = section(whole, SLOT_PRESENT).size
    lists = section(whole, LIST_BEGIN).size
    scratch = scratch_of(work, slots, lists, room)
    begin = 1 + 3 * slots + lists + room
    entries = entries_of(work, begin, (work.size - begin) // 7)
    count = read_event(whole, highs, texts, data, entries)
    if count < 0:
        return -1, 0
    return probe(0, count, whole, texts, entries, data, scratch, out, out[room:])


@njit(cache=True, nogil=True)
def match_rows(row, last, begins, whole, texts, entries, data, work, out, rows, asked, room):
    """Rows of a batch until the last or until the room is used up.

    Puts pairs of row and subscription into `rows` and `out`, triples of row, subscription and
    question into `asked`. Returns the next row and how many of each. `room` is what one row may
    need at most.
    """
    scratch = scratch_of(
        work, section(whole, SLOT_PRESENT).size, section(whole, LIST_BEGIN).size, room
    )
    found = 0
    asks = 0
    one = np.empty(room, np.int32)
    questions = np.empty(2 * room, np.int32)
    while row < last and found + room <= out.size and 3 * (asks + room) <= asked.size:
        here, more = probe(
            begins[row], begins[row + 1], whole, texts, entries, data, scratch, one, questions
        )
        for i in range(here):
            out[found + i] = one[i]
            rows[found + i] = row
        for i in range(more):
            asked[3 * (asks + i)] = row
            asked[3 * (asks + i) + 1] = questions[2 * i]
            asked[3 * (asks + i) + 2] = questions[2 * i + 1]
        found += here
        asks += more
        row += 1
    return row, found, asks


@njit(cache=True, nogil=True)
def order_by_row(rows, begins, order):
    """Where each entry goes so that rows are together and the order within them stays."""
    at = begins[:-1].copy()
    for entry in range(rows.size):
        row = rows[entry]
        order[at[row]] = entry
        at[row] += 1
