"""Kernels that hold and file recent filters, with their constants unranked.

What must live here: the layout of the growing arrays that `recent` makes, and what writes them.
Filters are filed by their equalities and by bytes that texts begin with, end with or contain. A
filter without these lies in a list of one of its attributes, with a test beside it; or else in
blocks of 512 filters, with a bit for each in every cell of an attribute, like the cells of
`kernels`.

Numba caches a compiled function until the function's own file changes, even if a function it calls
has changed. After a change in `kernels`, change this file too or delete its cache; the tests delete
it by themselves.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from tidings.matching.kernels import (
    ANY_CHARACTER,
    ANY_TEXT,
    BOOLEAN,
    BOOLEAN_IS,
    EXISTS,
    INTEGER,
    LONGEST_LIKE,
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
    big_endian,
    copy,
    double_of,
    eight_bytes,
    fill,
    first_bytes,
    hash_bytes,
    head,
    pointer_to,
    same_bytes,
    some_bytes,
    split_integer,
)

# Recent subscriptions: what `recent` holds, constants as they are, in arrays that are written on.
# All that changes it keeps the GIL, so that nobody sees a change half done, and works on one set of
# stamps. What is made anew, from what is held, nobody sees until it is done.
#
# A filter is filed under an equality or some bytes of a text, in a chain of a hash table; under one
# attribute, in a list of single filters or of others; or in blocks of 512, where for each cell of
# the values of some attributes eight words tell which of these an event with such a value may
# satisfy. A block is for all events, for those that have an attribute, or have it in a quarter of
# its cells. What is left is tested. Slot 0 is always present.
(
    HELD_USED, HELD_NAMES, HELD_SLOTS, HELD_CUTS, HELD_RECORDS, HELD_NODES, HELD_KEYS,
    HELD_LISTS, HELD_BLOCKS, HELD_OWNERS, HELD_TEXTS, HELD_IDS, HELD_PRESENT, HELD_CONTEXT,
) = range(0, 28, 2)  # fmt: skip
# How much of each is used, the number of the event, how many filters leave a residual, how long the
# longest list of single filters is, whether some id is not an integer of 64 bit, how many chains
# there are, a power of two; how many filters went to blocks of quarters or of all, or are expected
# to, and how many slots have quarters.
(
    USED_SLOTS, USED_TEXTS, USED_RECORDS, USED_NODES, USED_LISTS, USED_BLOCKS, USED_OWNERS,
    USED_EPOCH, USED_ASKED, USED_LONGEST, USED_NAMED, USED_CHAINS, USED_RANGED, USED_EXPECTED,
    USED_QUARTERED, USED_LEFT,
) = range(16)  # fmt: skip
USED: Final = USED_LEFT + 8  # the last are the words of a block that is looked at
# Of a slot, what is looked at first in one line of the memory: of the event at hand in which cell
# its value is, and where its entries are; the first bytes of its name and how long that is; by
# which access paths filters are filed under it; where its list of single filters is, and how long
# that is.
# Then the other list, how long that is and its room; its blocks; a bit for each sort of grams, and
# one for each byte, but for its two highest bits, with which a gram begins; how many filters lists
# and blocks hold, and how many ask for it besides; where its name is. At last the blocks of each
# quarter of its cells.
(
    SLOT_CELL, SLOT_ENTRY, SLOT_ENTRY_END, SLOT_NAME_BYTES,
    SLOT_NAME_SIZE, SLOT_PATHS, SLOT_SINGLE, SLOT_SINGLES,
    SLOT_LIST, SLOT_LISTED, SLOT_ROOM, SLOT_BLOCK,
    SLOT_LAST_BLOCK, SLOT_GRAMS, SLOT_GRAM_BYTES, SLOT_FILED,
    SLOT_ASKED, SLOT_NAME,
) = range(18)  # fmt: skip
SLOT_QUARTER, LAST_OF_QUARTER, SLOT_WIDTH = 24, 4, 32  # whole lines; how far to the last block
BY_LIST, BY_KEY, BY_GRAM, IN_CELLS, BY_SINGLE, BY_QUARTER = 1, 2, 4, 8, 16, 32
# A record: its subscription, below zero when removed; whether Python is asked, and whether the
# subscription may be met twice; its place in a block, or -1, or below that its place in a list
# (-2 - 2 * place, and one less if it is single); how many tests; its whole length; the residual,
# and the last event that asked it. A test: a word, and two bounds of two numbers.
(
    RECORD_OWNER, RECORD_FLAGS, RECORD_FILED, RECORD_TESTS, RECORD_LENGTH, RECORD_RESIDUAL,
    RECORD_STAMP, RECORD_HEAD,
) = range(8)  # fmt: skip
ASKS, TWICE = 1, 2
TEST_WIDTH: Final = 5
OWNER_RECORD, OWNER_RECORDS, OWNER_STAMP, OWNER_WIDTH = range(4)
KEY_BITS: Final = 1 << 18  # by which most keys are told to be none without a look at their chain
# A node: the hash and the slot of what it is filed under (chains are shared), its record, another
# slot that has to be present, which may be 0, and the place of the next, or 0. The first of each
# chain comes before all others, and the count of its chain is beside the place of the next.
NODE_KEY, NODE_RECORD, NODE_SLOT, NODE_NEXT, NODE_WIDTH = range(5)
NODE_HASH: Final = 32
NODE_COUNT: Final = 40
NODE_PLACE: Final = (1 << NODE_COUNT) - 1
# What is in a list: the subscription, below zero when removed; the record; another slot that has to
# be present; a test.
ITEM_OWNER, ITEM_RECORD, ITEM_SLOT, ITEM_TEST = range(4)
ITEM_WIDTH: Final = ITEM_TEST + TEST_WIDTH
LEAST_LISTED, MOST_LISTED = 4, 64  # that there is room for at first, and after which blocks begin
# A single filter is a comparison with one number or text and nothing else: the key from which on
# values satisfy it, and four times the subscription with two bits: whether keys are turned, so that
# they fall, and whether it is about texts. Removed, it has a key that no value has. There is room
# for the next power of two.
SINGLE_KEY, SINGLE_OWNER, SINGLE_WIDTH = range(3)
SINGLE_DOWN, SINGLE_TEXT = 1, 2
MOST_KEY: Final = (1 << 63) - 1
# A gram: up to four bytes with which a text begins, ends, or which it contains.
GRAM_FIRST, GRAM_LAST, GRAM_WITHIN = range(3)
MOST_GRAM: Final = 4
# A block: the next; how many records; how many slots, and for how many there is room; eight words
# that tell which records are not removed. Then the records, the slots, and for each of these rows.
# All of them begin with a line of the memory.
BLOCK_NEXT, BLOCK_COUNT, BLOCK_SLOTS, BLOCK_CAPACITY = range(4)
BLOCK_WORDS: Final = 8
BLOCK_LIVE: Final = 8
BLOCK_RECORD: Final = BLOCK_LIVE + BLOCK_WORDS
BLOCK_HELD: Final = 64 * BLOCK_WORDS
BLOCK_HEAD: Final = BLOCK_RECORD + BLOCK_HELD
FEW_SLOTS, MANY_SLOTS = 8, 24  # of the first block of a slot where there are many, and of others
SOME_SLOTS: Final = 64  # that are not many
SOME_QUARTERED: Final = 10  # slots that have quarters, where there are not very many filters
NUMBER_CUTS, TEXT_CUTS = 15, 7  # between the cells of a slot's numbers and texts
CUTS: Final = NUMBER_CUTS + TEXT_CUTS
FIRST_TEXT_CELL: Final = NUMBER_CUTS + 1
OTHER_CELL: Final = FIRST_TEXT_CELL + TEXT_CUTS + 1
ABSENT_CELL: Final = OTHER_CELL + 1
ANY_CELL: Final = ABSENT_CELL + 1  # of several values
BLOCK_STEP: Final = BLOCK_WORDS * (ANY_CELL + 1)  # from the rows of a slot to those of the next
SAMPLES: Final = 64  # constants that the cuts are chosen by
MOST_KEYS: Final = 16  # values of one `in` under which a filter is filed
LONG_CHAIN: Final = 64  # filters under one equality, after which others are filed by something else
BOOLEAN_CHAIN: Final = 64  # equalities on a boolean count as if so many were there already
TEXT_PREFIX, TEXT_SUFFIX = 11, 12  # further kinds of tests
RAW_SLOT: Final = (1 << 32) - 1
RAW_NEGATED: Final = 1 << 32
RAW_TYPES: Final = 33
RAW_OPEN_LOW, RAW_OPEN_HIGH, RAW_PAST_LOW, RAW_PAST_HIGH = 1 << 37, 1 << 38, 1 << 39, 1 << 40
RAW_KIND: Final = 41
NO_ROOM, SPECIAL = -1, -2


@njit(cache=True, inline="always")
def longs_at(context, name):
    """The whole numbers of 64 bit that a context locates."""
    return carray(pointer_to(context[name]), (context[name + 1],), np.int64)


@njit(cache=True, inline="always")
def bytes_at(context, name):
    """The bytes that a context locates."""
    return carray(pointer_to(context[name]), (context[name + 1],), np.uint8)


@njit(cache=True)
def bits_of(value):
    """The bits of a double."""
    return np.float64(value).view(np.int64)


@njit(cache=True)
def raw_number(data, at, kind, value):
    """A number whose head was read: the double next to it and what is missing."""
    if kind == 2:
        return double_of(np.uint64(value)) + 0.0, np.int64(0)  # one zero
    if kind == 1:
        return split_integer(value)
    if kind == 7:
        high = np.float64(np.uint64(value))
        if high >= 18446744073709551616.0:
            return high, np.int64(np.uint64(value) - np.uint64(18446744073709551615)) - 1
        return high, np.int64(np.uint64(value) - np.uint64(high))
    return double_of(big_endian(data, at, 8)), np.int64(big_endian(data, at + 8, 8))


@njit(cache=True)
def hash_number(slot, high, low):
    """A hash of a number, or of a boolean with a rest that no number has."""
    value = np.uint64(bits_of(high)) * np.uint64(0x9E3779B97F4A7C15)
    value ^= np.uint64(low) * np.uint64(0xC2B2AE3D27D4EB4F)
    value ^= value >> np.uint64(29)
    value = (value ^ np.uint64(slot)) * np.uint64(0xBF58476D1CE4E5B9)
    return np.int64(value >> np.uint64(33))


@njit(cache=True)
def hash_truth(slot, truth):
    """A hash of a boolean."""
    return hash_number(slot, np.float64(truth), np.int64(1) << 60)


@njit(cache=True)
def number_cell(cuts, slot, high):
    """The cell of a number; numbers in their order have cells in their order."""
    cell = 0
    at = np.uint64(CUTS * slot)
    for i in range(np.uint64(NUMBER_CUTS)):  # all of them, since that needs no guess
        cell += high >= double_of(np.uint64(cuts[at + i]))
    return cell


@njit(cache=True)
def text_cell(cuts, slot, key):
    """The cell of a text, by its first bytes."""
    cell = 0
    at = CUTS * slot + NUMBER_CUTS
    while cell < TEXT_CUTS and key >= cuts[at + cell]:
        cell += 1
    return FIRST_TEXT_CELL + cell


@njit(cache=True, inline="always")
def name_bytes(data, begin, end):
    """The first bytes of a name as a number."""
    return np.int64(
        eight_bytes(data, np.int64(begin))
        if end - begin >= 8
        else some_bytes(data, begin, end - begin)
    )


@njit(cache=True)
def find_slot(slots, names, texts, data, begin, end, at):
    """The slot of a name, or -1, and the place in the hash table where it is or would be.

    It is looked for from the place on that the hash of the name gives.
    """
    mask = names.size - 1
    size = end - begin
    first = name_bytes(data, begin, end)
    while True:
        slot = names[at]
        if slot == 0:
            return -1, at
        base = SLOT_WIDTH * slot
        if slots[base + SLOT_NAME_BYTES] == first and slots[base + SLOT_NAME_SIZE] == size:
            name = slots[base + SLOT_NAME]
            if size <= 8 or same_bytes(texts, name, name + size, data, begin, end):
                return slot, at
        at = (at + 1) & mask


@njit(cache=True)
def slot_named(context, data, begin, end, folded):
    """The slot of a name, made if there is none; of folded values it has a mark behind it."""
    used = longs_at(context, HELD_USED)
    names = longs_at(context, HELD_NAMES)
    slots = longs_at(context, HELD_SLOTS)
    texts = bytes_at(context, HELD_TEXTS)
    first = used[USED_TEXTS]
    last = first + end - begin
    copy(data, begin, end - begin, texts, first)
    if folded:
        texts[last] = 0
        texts[last + 1] = 49  # "1"
        last += 2
    at = hash_bytes(texts, first, last, 0) & (names.size - 1)
    slot, at = find_slot(slots, names, texts, texts, first, last, at)
    if slot < 0:
        slot = used[USED_SLOTS]
        used[USED_SLOTS] = slot + 1
        used[USED_TEXTS] = last
        names[at] = slot
        base = SLOT_WIDTH * slot
        slots[base + SLOT_NAME] = first
        slots[base + SLOT_NAME_SIZE] = last - first
        slots[base + SLOT_NAME_BYTES] = name_bytes(texts, first, last)
        slots[base + SLOT_BLOCK] = -1
        slots[base + SLOT_LAST_BLOCK] = -1
        fill(slots, base + SLOT_QUARTER, SLOT_WIDTH - SLOT_QUARTER, -1)
        slots[base + SLOT_CELL] = ABSENT_CELL
    return slot


@njit(cache=True)
def has_room(context, size, filters):
    """Whether there is room for so many filters, whose encoding has so many bytes."""
    used = longs_at(context, HELD_USED)
    names = context[HELD_NAMES + 1]
    slots = used[USED_SLOTS] + size // 8 + 1
    block = block_length(MANY_SLOTS)
    return (
        SLOT_WIDTH * slots <= context[HELD_SLOTS + 1]
        and 2 * slots <= names
        and used[USED_TEXTS] + 2 * size + 64 <= context[HELD_TEXTS + 1]
        and used[USED_RECORDS] + 4 * size + 64 <= context[HELD_RECORDS + 1]
        and NODE_WIDTH * (used[USED_CHAINS] + used[USED_NODES] + size) <= context[HELD_NODES + 1]
        and used[USED_LISTS]
        + max(ITEM_WIDTH * MOST_LISTED * filters, 2 * SINGLE_WIDTH * used[USED_LONGEST])
        <= context[HELD_LISTS + 1]
        and used[USED_BLOCKS] + 2 * block * filters <= context[HELD_BLOCKS + 1]
        and OWNER_WIDTH * (used[USED_OWNERS] + 1) <= context[HELD_OWNERS + 1]
    )


@njit(cache=True)
def hold_text(context, data, begin, end):
    """Put a text down; where it begins and ends."""
    used = longs_at(context, HELD_USED)
    texts = bytes_at(context, HELD_TEXTS)
    first = used[USED_TEXTS]
    copy(data, begin, end - begin, texts, first)
    used[USED_TEXTS] = first + end - begin
    return first, used[USED_TEXTS]


@njit(cache=True)
def operator_of(data, begin, end):
    """An operator by its first letter, <= and >= with 256 more; and whether it ignores case."""
    ignoring = data[begin] == 105 and not (end - begin == 2 and data[begin + 1] == 110)  # i, in
    if ignoring:
        begin += 1
    letter = np.int64(data[begin])
    if end - begin == 2 and (letter == 60 or letter == 62):
        letter += 256  # <=, >=
    return letter, ignoring


@njit(cache=True)
def types_of(letter):
    """The types that a name of one stands for, by its first letter."""
    if letter == 110:
        return INTEGER | REAL
    if letter == 105:
        return INTEGER
    if letter == 114:
        return REAL
    if letter == 115:
        return TEXT
    if letter == 98:
        return BOOLEAN
    return 15


@njit(cache=True)
def hold_members(context, data, at, numeric, members):
    """Put the values of an `in` down at a place; how many they are and the place behind."""
    records = longs_at(context, HELD_RECORDS)
    _, count, at = head(data, at)
    for i in range(count):
        kind, value, at = head(data, at)
        if numeric:
            high, low = raw_number(data, at, kind, value)
            records[members + 2 * i] = bits_of(high)
            records[members + 2 * i + 1] = low
        else:
            begin, end = hold_text(context, data, at, at + value)
            records[members + 2 * i] = begin
            records[members + 2 * i + 1] = end
            at += value
    return count, at


@njit(cache=True)
def hold_numbers(records, put, letter, data, at):
    """The bounds of a comparison of numbers as a closed interval: remainders are whole."""
    kind, value, at = head(data, at)
    records[put + 1] = bits_of(-np.inf)
    records[put + 2] = -(np.int64(1) << 62)
    records[put + 3] = bits_of(np.inf)
    records[put + 4] = np.int64(1) << 62
    if letter == 98:  # between
        kind, value, at = head(data, at)
    high, low = raw_number(data, at, kind, value)
    if letter == 98 or letter == 61 or letter == 33 or letter == 62 or letter == 318:
        records[put + 1] = bits_of(high)
        records[put + 2] = low + (letter == 62)
    if letter == 98:
        kind, value, at = head(data, at)
        high, low = raw_number(data, at, kind, value)
    if letter == 98 or letter == 61 or letter == 33 or letter == 60 or letter == 316:
        records[put + 3] = bits_of(high)
        records[put + 4] = low - (letter == 60)


@njit(cache=True)
def hold_texts(context, put, letter, data, at):
    """The bounds of a comparison of texts; what is to be said of them in the word."""
    records = longs_at(context, HELD_RECORDS)
    _, value, at = head(data, at)
    if letter == 98:
        _, value, at = head(data, at)
    begin, end = hold_text(context, data, at, at + value)
    at += value
    records[put + 1] = records[put + 3] = begin
    records[put + 2] = records[put + 4] = end
    if letter == 98:
        _, value, at = head(data, at)
        begin, end = hold_text(context, data, at, at + value)
        records[put + 3] = begin
        records[put + 4] = end
        return 0
    if letter == 60 or letter == 316:
        return RAW_OPEN_LOW | (RAW_PAST_HIGH if letter == 60 else 0)
    if letter == 62 or letter == 318:
        return RAW_OPEN_HIGH | (RAW_PAST_LOW if letter == 62 else 0)
    return 0


@njit(cache=True)
def text_kind(letter):
    """The kind of a test of texts."""
    if letter == 61:
        return TEXT_IS
    if letter == 33:
        return TEXT_NOT
    if letter == 112:
        return TEXT_PREFIX
    if letter == 115:
        return TEXT_SUFFIX
    if letter == 99:
        return TEXT_CONTAINS
    if letter == 105:
        return TEXT_AMONG
    if letter == 108:
        return TEXT_LIKE
    return TEXT_BETWEEN


@njit(cache=True)
def hold_pattern(context, put):
    """Bring the pattern of a test, which was put down last, to the bytes that `fits` reads."""
    used = longs_at(context, HELD_USED)
    records = longs_at(context, HELD_RECORDS)
    texts = bytes_at(context, HELD_TEXTS)
    at, end = records[put + 1], records[put + 2]
    last = at
    while at < end:
        byte = texts[at]
        if byte == 37:  # %
            byte = ANY_TEXT
        elif byte == 95:  # _
            byte = ANY_CHARACTER
        elif byte == 92 and at + 1 < end:  # a backslash
            at += 1
            byte = texts[at]
        texts[last] = byte
        last += 1
        at += 1
    records[put + 2] = records[put + 4] = used[USED_TEXTS] = last


@njit(cache=True)
def after_value(data, at):
    """The place behind a value, which may be a list of scalars."""
    kind, value, at = head(data, at)
    count = 1
    if kind == 5:
        count = value
    for i in range(count):
        if kind == 5 or i:
            inner, value, at = head(data, at)
        else:
            inner = kind
        if inner == 3:
            at += value
        elif inner == 8:
            at += 16
    return at


@njit(cache=True)
def hold_filter(context, data, at, owner, residual, twice):
    """Put down the record of a filter, without filing it; the place behind the filter.

    The residual is below zero where none is left.
    """
    used = longs_at(context, HELD_USED)
    records = longs_at(context, HELD_RECORDS)
    record = used[USED_RECORDS]
    _, count, at = head(data, at)
    members = record + RECORD_HEAD + TEST_WIDTH * count
    put = record + RECORD_HEAD
    for _ in range(count):
        _, _, at = head(data, at)  # of five
        _, size, name = head(data, at)
        _, width, operator = head(data, name + size)
        letter, ignoring = operator_of(data, operator, operator + width)
        _, length, type_at = head(data, operator + width)
        types = types_of(data[type_at])
        _, negated, at = head(data, type_at + length)
        after = after_value(data, at)
        if letter == 101:
            kind = EXISTS
        elif types == BOOLEAN:
            kind = BOOLEAN_IS
        elif types == TEXT:
            kind = text_kind(letter)
        elif letter == 105:
            kind = NUMBER_AMONG
        else:
            kind = NUMBER_NOT if letter == 33 else NUMBER_IN
        slot = slot_named(context, data, name, name + size, ignoring)
        word = kind << RAW_KIND | types << RAW_TYPES | slot
        if negated:
            word |= RAW_NEGATED
        if kind == BOOLEAN_IS:
            _, truth, _ = head(data, at)
            records[put + 1] = truth ^ (letter == 33)
        elif kind == NUMBER_AMONG or kind == TEXT_AMONG:  # noqa: SIM109
            # The place of the values from here, so that a record can be copied.
            records[put + 1] = members - record
            number, _ = hold_members(context, data, at, kind == NUMBER_AMONG, members)
            records[put + 2] = number
            members += 2 * number
        elif types & TEXT and kind != EXISTS:
            word |= hold_texts(context, put, letter, data, at)
            if kind == TEXT_LIKE:
                hold_pattern(context, put)
        elif kind != EXISTS:
            hold_numbers(records, put, letter, data, at)
        records[put] = word
        put += TEST_WIDTH
        at = after
    records[record + RECORD_OWNER] = owner
    records[record + RECORD_FLAGS] = (ASKS if residual >= 0 else 0) | (TWICE if twice else 0)
    records[record + RECORD_FILED] = -1
    records[record + RECORD_RESIDUAL] = residual
    records[record + RECORD_STAMP] = 0
    records[record + RECORD_TESTS] = (put - record - RECORD_HEAD) // TEST_WIDTH
    records[record + RECORD_LENGTH] = members - record
    used[USED_RECORDS] = members
    return at


@njit(cache=True)
def key_of(records, texts, test, place):
    """The hash of the value of an equality, or of a value of an `in` whose place is given."""
    word = records[test]
    slot = word & RAW_SLOT
    kind = word >> RAW_KIND
    if kind == TEXT_IS or kind == TEXT_AMONG:  # noqa: SIM109
        return hash_bytes(texts, records[place], records[place + 1], slot)
    if kind == BOOLEAN_IS:
        return hash_truth(slot, records[place])
    return hash_number(slot, double_of(np.uint64(records[place])), records[place + 1])


@njit(cache=True)
def is_equality(records, test):
    """Whether a test is an equality under which a filter may be filed."""
    word = records[test]
    kind = word >> RAW_KIND
    if word & RAW_NEGATED:
        return False
    if kind == NUMBER_IN:
        return records[test + 1] == records[test + 3] and records[test + 2] == records[test + 4]
    if kind == TEXT_IS:
        return True
    return kind == BOOLEAN_IS


@njit(cache=True)
def file_key(context, hashed, record, key, slot):
    """Put a record to a chain, with its slot and another that has to be present."""
    used = longs_at(context, HELD_USED)
    nodes = longs_at(context, HELD_NODES)
    keys = longs_at(context, HELD_KEYS)
    keys[(hashed & (KEY_BITS - 1)) >> 6] |= np.int64(1) << (hashed & 63)
    first = chain_of(used, hashed)
    node = first
    if nodes[first + NODE_NEXT]:
        node = NODE_WIDTH * (used[USED_CHAINS] + used[USED_NODES])
        used[USED_NODES] += 1
        nodes[node + NODE_NEXT] = nodes[first + NODE_NEXT] & NODE_PLACE
        nodes[first + NODE_NEXT] += node - nodes[node + NODE_NEXT]
    nodes[first + NODE_NEXT] += np.int64(1) << NODE_COUNT
    nodes[node + NODE_KEY] = hashed << NODE_HASH | key
    nodes[node + NODE_RECORD] = record
    nodes[node + NODE_SLOT] = slot


@njit(cache=True, inline="always")
def chain_of(used, hashed):
    """The place of the first node of a chain."""
    return NODE_WIDTH * (hashed & (used[USED_CHAINS] - 1))


@njit(cache=True)
def chain_length(used, nodes, hashed):
    """How many nodes a chain has."""
    return nodes[chain_of(used, hashed) + NODE_NEXT] >> NODE_COUNT


@njit(cache=True)
def file_record(context, record):
    """File a filter under the rarest of its equalities or grams so far, or else by an attribute."""
    used = longs_at(context, HELD_USED)
    slots = longs_at(context, HELD_SLOTS)
    records = longs_at(context, HELD_RECORDS)
    nodes = longs_at(context, HELD_NODES)
    texts = bytes_at(context, HELD_TEXTS)
    best = listed = primary = -1
    best_hash = fewest = gram_bit = gram_begins = np.int64(0)
    first = record + RECORD_HEAD
    for i in range(records[record + RECORD_TESTS]):
        test = first + TEST_WIDTH * i
        word = records[test]
        kind = word >> RAW_KIND
        if is_equality(records, test):
            hashed = key_of(records, texts, test, test + 1)
            count = chain_length(used, nodes, hashed)
            if kind == BOOLEAN_IS:
                count += BOOLEAN_CHAIN
            if best < 0 or gram_bit or count < fewest:
                best, best_hash, fewest, gram_bit = test, hashed, count, np.int64(0)
        elif word & RAW_NEGATED == 0:
            if (kind == TEXT_AMONG or kind == NUMBER_AMONG) and records[test + 2] <= MOST_KEYS:  # noqa: SIM109
                listed = test
            elif is_grammed(kind):
                hashed, bit, begins = rarest_gram(records, texts, used, nodes, test)
                count = chain_length(used, nodes, hashed)
                if bit and (best < 0 or (gram_bit and count < fewest)):
                    best, best_hash, fewest, gram_bit = test, hashed, count, bit
                    gram_begins = begins
            filed = slots[SLOT_WIDTH * (word & RAW_SLOT) + SLOT_FILED]
            if (
                primary < 0
                or filed < slots[SLOT_WIDTH * (records[primary] & RAW_SLOT) + SLOT_FILED]
            ):
                primary = test
    crowded = gram_bit == 0 and fewest >= LONG_CHAIN and primary >= 0
    if best >= 0 and not crowded and not (gram_bit and listed >= 0):
        key = records[best] & RAW_SLOT
        slots[SLOT_WIDTH * key + SLOT_PATHS] |= BY_GRAM if gram_bit else BY_KEY
        if gram_bit:
            slots[SLOT_WIDTH * key + SLOT_GRAMS] |= gram_bit
            slots[SLOT_WIDTH * key + SLOT_GRAM_BYTES] |= np.int64(1) << (gram_begins & 63)
        file_key(context, best_hash, record, key, rare_slot(records, slots, record, best))
    elif listed >= 0:
        key = records[listed] & RAW_SLOT
        slots[SLOT_WIDTH * key + SLOT_PATHS] |= BY_KEY
        slot = rare_slot(records, slots, record, listed)
        records[record + RECORD_FLAGS] |= TWICE
        for i in range(records[listed + 2]):
            place = record + records[listed + 1] + 2 * i
            file_key(context, key_of(records, texts, listed, place), record, key, slot)
    elif primary >= 0:
        if file_single(context, primary, record):
            pass
        elif used[USED_SLOTS] <= MANY_SLOTS + 1:
            file_in_quarter(context, record)
        else:
            file_in_list(context, primary, record)
    else:
        file_in_block(context, SLOT_BLOCK, 0, record)
    used[USED_ASKED] += records[record + RECORD_FLAGS] & ASKS


@njit(cache=True)
def hash_gram(slot, sort, gram, length):
    """A hash of some bytes that a text of a slot begins with, ends with or contains."""
    value = np.uint64(gram | length << 32 | (sort + 1) << 36) * np.uint64(0x9E3779B97F4A7C15)
    value ^= np.uint64(slot) * np.uint64(0xC2B2AE3D27D4EB4F)
    value ^= value >> np.uint64(29)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64(value >> np.uint64(33))


@njit(cache=True)
def gram_at(data, at, length):
    """Up to four bytes as a number."""
    gram = np.int64(data[at])
    if length > 1:
        gram = gram << 8 | np.int64(data[at + 1])
    if length > 2:
        gram = gram << 8 | np.int64(data[at + 2])
    if length > 3:
        gram = gram << 8 | np.int64(data[at + 3])
    return gram


@njit(cache=True)
def is_grammed(kind):
    """Whether a filter may be filed under bytes of the text of a test."""
    if kind == TEXT_LIKE:
        return True
    return TEXT_PREFIX <= kind <= TEXT_SUFFIX or kind == TEXT_CONTAINS


@njit(cache=True)
def literal_run(texts, at, end):
    """How many bytes follow that are no wildcards, up to the length of a gram."""
    count = 0
    while count < MOST_GRAM and at + count < end and texts[at + count] < ANY_CHARACTER:
        count += 1
    return count


@njit(cache=True)
def rarest_gram(records, texts, used, nodes, test):
    """Of the grams of a test the hash of the rarest, the bit of its sort, and its first byte.

    The bit is 0 if there is none.
    """
    word = records[test]
    kind = word >> RAW_KIND
    begin, end = records[test + 1], records[test + 2]
    length = 0
    for at in range(begin, end):
        length = max(length, literal_run(texts, at, end))
    best, fewest, bit, begins = np.int64(-1), np.int64(0), np.int64(0), np.int64(0)
    for at in range(begin, end - length + 1 if length else begin):
        if literal_run(texts, at, end) < length:
            continue
        sort = GRAM_WITHIN
        if at == begin and (kind == TEXT_PREFIX or kind == TEXT_LIKE):  # noqa: SIM109
            sort = GRAM_FIRST
        elif at == end - length and (kind == TEXT_SUFFIX or kind == TEXT_LIKE):  # noqa: SIM109
            sort = GRAM_LAST
        elif kind == TEXT_PREFIX or kind == TEXT_SUFFIX:  # noqa: SIM109
            continue
        hashed = hash_gram(word & RAW_SLOT, sort, gram_at(texts, at, length), length)
        count = chain_length(used, nodes, hashed)
        if best < 0 or count < fewest:
            best, fewest, begins = hashed, count, np.int64(texts[at])
            bit = np.int64(1) << (MOST_GRAM * sort + length - 1)
    return best, bit, begins


@njit(cache=True)
def number_key(high):
    """A double as a whole number in the order of doubles."""
    bits = bits_of(high + 0.0)
    return bits if bits >= 0 else bits ^ np.int64(MOST_KEY)


@njit(cache=True)
def single_key(records, texts, test):
    """The bits of a single filter with one test, or -1 if it is none, and its key.

    That tells about all values but numbers with a remainder and texts with the same key.
    """
    word = records[test]
    kind = word >> RAW_KIND
    low, high = double_of(np.uint64(records[test + 1])), double_of(np.uint64(records[test + 3]))
    if kind == NUMBER_IN and word >> RAW_TYPES & 15 == INTEGER | REAL:
        if high == np.inf and low == low and low < np.inf:
            return 0, number_key(low) + (records[test + 2] > 0)
        if low == -np.inf and high == high and high > -np.inf:
            return SINGLE_DOWN, ~(number_key(high) - (records[test + 4] < 0))
    elif kind == TEXT_BETWEEN:
        if word & RAW_OPEN_HIGH:
            return SINGLE_TEXT, first_bytes(texts, records[test + 1], records[test + 2])
        if word & RAW_OPEN_LOW:
            return SINGLE_TEXT | SINGLE_DOWN, ~first_bytes(
                texts, records[test + 3], records[test + 4]
            )
    return -1, np.int64(0)


@njit(cache=True)
def file_single(context, test, record):
    """Put a record to the single filters of the slot of a test, if it is one."""
    used = longs_at(context, HELD_USED)
    slots = longs_at(context, HELD_SLOTS)
    records = longs_at(context, HELD_RECORDS)
    lists = longs_at(context, HELD_LISTS)
    owners = longs_at(context, HELD_OWNERS)
    if records[record + RECORD_TESTS] != 1 or records[record + RECORD_FLAGS] != 0:
        return False
    bits, key = single_key(records, bytes_at(context, HELD_TEXTS), test)
    if bits < 0 or key == MOST_KEY:
        return False
    base = SLOT_WIDTH * (records[test] & RAW_SLOT)
    count = slots[base + SLOT_SINGLES]
    if count & (count - 1) == 0 and (count >= LEAST_LISTED or count == 0):
        place = slots[base + SLOT_SINGLE]
        made = used[USED_LISTS]
        used[USED_LISTS] += SINGLE_WIDTH * max(2 * count, LEAST_LISTED)
        for item in range(0, SINGLE_WIDTH * count, SINGLE_WIDTH):
            copy(lists, place + item, SINGLE_WIDTH, lists, made + item)
            owner = lists[made + item + SINGLE_OWNER] >> 2
            moved = owners[OWNER_WIDTH * owner + OWNER_RECORD]
            records[moved + RECORD_FILED] = -3 - 2 * (made + item)
        slots[base + SLOT_SINGLE] = made
    item = slots[base + SLOT_SINGLE] + SINGLE_WIDTH * count
    lists[item + SINGLE_KEY] = key
    lists[item + SINGLE_OWNER] = records[record + RECORD_OWNER] << 2 | bits
    records[record + RECORD_FILED] = -3 - 2 * item
    slots[base + SLOT_SINGLES] = count + 1
    slots[base + SLOT_FILED] += 1
    slots[base + SLOT_PATHS] |= BY_SINGLE
    used[USED_LONGEST] = max(used[USED_LONGEST], count + 1)
    return True


@njit(cache=True)
def file_in_list(context, test, record):
    """Put a record to the list of the slot of a test, or where that grows long all to blocks."""
    used = longs_at(context, HELD_USED)
    slots = longs_at(context, HELD_SLOTS)
    records = longs_at(context, HELD_RECORDS)
    lists = longs_at(context, HELD_LISTS)
    slot = records[test] & RAW_SLOT
    base = SLOT_WIDTH * slot
    count = slots[base + SLOT_LISTED]
    place = slots[base + SLOT_LIST]
    if slots[base + SLOT_BLOCK] >= 0:
        file_in_block(context, base + SLOT_BLOCK, slot, record)
        return
    if count == MOST_LISTED:
        slots[base + SLOT_LISTED] = 0
        slots[base + SLOT_FILED] = 0
        for item in range(place, place + ITEM_WIDTH * count, ITEM_WIDTH):
            if lists[item + ITEM_OWNER] >= 0:
                file_in_block(context, base + SLOT_BLOCK, slot, lists[item + ITEM_RECORD])
        file_in_block(context, base + SLOT_BLOCK, slot, record)
        return
    if count == slots[base + SLOT_ROOM]:
        room = max(2 * count, LEAST_LISTED)
        made = used[USED_LISTS]
        used[USED_LISTS] += ITEM_WIDTH * room
        copy(lists, place, ITEM_WIDTH * count, lists, made)
        for item in range(made, made + ITEM_WIDTH * count, ITEM_WIDTH):
            if lists[item + ITEM_OWNER] >= 0:
                records[lists[item + ITEM_RECORD] + RECORD_FILED] = -2 - 2 * item
        slots[base + SLOT_LIST] = place = made
        slots[base + SLOT_ROOM] = room
    item = place + ITEM_WIDTH * count
    kind = records[test] >> RAW_KIND
    lists[item + ITEM_OWNER] = records[record + RECORD_OWNER]
    lists[item + ITEM_RECORD] = record
    lists[item + ITEM_SLOT] = rare_slot(records, slots, record, test)
    copy(records, test, TEST_WIDTH, lists, item + ITEM_TEST)
    if kind == TEXT_AMONG or kind == NUMBER_AMONG:  # noqa: SIM109
        # The values are with the record; here it is only asked whether there is one.
        lists[item + ITEM_TEST] = EXISTS << RAW_KIND | 15 << RAW_TYPES | slot
    elif kind == TEXT_BETWEEN:  # the bound that is none says how the other one begins
        texts = bytes_at(context, HELD_TEXTS)
        if records[test] & RAW_OPEN_LOW:
            lists[item + ITEM_TEST + 1] = first_bytes(texts, records[test + 3], records[test + 4])
        elif records[test] & RAW_OPEN_HIGH:
            lists[item + ITEM_TEST + 3] = first_bytes(texts, records[test + 1], records[test + 2])
    records[record + RECORD_FILED] = -2 - 2 * item
    slots[base + SLOT_LISTED] = count + 1
    slots[base + SLOT_FILED] += 1
    slots[base + SLOT_PATHS] |= BY_LIST


@njit(cache=True)
def rare_slot(records, slots, record, filed):
    """Of the other attributes that have to be present the one asked about least, or 0."""
    rare = np.int64(0)
    for i in range(records[record + RECORD_TESTS]):
        test = record + RECORD_HEAD + TEST_WIDTH * i
        word = records[test]
        if test != filed and word & RAW_NEGATED == 0:
            slot = word & RAW_SLOT
            slots[SLOT_WIDTH * slot + SLOT_ASKED] += 1
            if rare == 0 or (
                slots[SLOT_WIDTH * slot + SLOT_ASKED] < slots[SLOT_WIDTH * rare + SLOT_ASKED]
            ):
                rare = slot
    return rare


@njit(cache=True)
def cells_of(records, cuts, texts, test):
    """From which cell to which the values lie that may satisfy a test that is not negated."""
    word = records[test]
    slot = word & RAW_SLOT
    kind = word >> RAW_KIND
    last_text = FIRST_TEXT_CELL + TEXT_CUTS
    if kind == EXISTS:
        return 0, OTHER_CELL
    if kind == BOOLEAN_IS:
        return OTHER_CELL, OTHER_CELL
    if kind == NUMBER_IN:
        low = number_cell(cuts, slot, double_of(np.uint64(records[test + 1])))
        return low, number_cell(cuts, slot, double_of(np.uint64(records[test + 3])))
    if kind == NUMBER_NOT or kind == NUMBER_AMONG:  # noqa: SIM109
        return 0, NUMBER_CUTS
    if kind == TEXT_IS or kind == TEXT_PREFIX or kind == TEXT_BETWEEN:  # noqa: SIM109
        low, high = FIRST_TEXT_CELL, last_text
        if word & RAW_OPEN_LOW == 0:
            low = text_cell(cuts, slot, first_bytes(texts, records[test + 1], records[test + 2]))
        if word & RAW_OPEN_HIGH == 0:
            size = records[test + 4] - records[test + 3]
            key = first_bytes(texts, records[test + 3], records[test + 4])
            if kind == TEXT_PREFIX and size < 8:
                key |= (np.int64(1) << (8 * (8 - size))) - 1
            high = text_cell(cuts, slot, key)
        return low, high
    return FIRST_TEXT_CELL, last_text


@njit(cache=True)
def block_length(capacity):
    """The length of a block with room for so many slots."""
    return BLOCK_HEAD + (capacity + 7) // 8 * 8 + capacity * BLOCK_STEP


@njit(cache=True, inline="always")
def block_rows(blocks, block):
    """Where the rows of a block begin."""
    return block + BLOCK_HEAD + (blocks[block + BLOCK_CAPACITY] + 7) // 8 * 8


@njit(cache=True)
def block_slot(blocks, block, slot):
    """The place of a slot among those of a block, added if there is room, or -1."""
    count = blocks[block + BLOCK_SLOTS]
    base = block + BLOCK_HEAD
    for i in range(count):
        if blocks[base + i] == slot:
            return i
    if count == blocks[block + BLOCK_CAPACITY]:
        return -1
    blocks[base + count] = slot
    fill(blocks, block_rows(blocks, block) + BLOCK_STEP * count, BLOCK_STEP, -1)
    blocks[block + BLOCK_SLOTS] = count + 1
    return count


@njit(cache=True, inline="always")
def quarter_of(cell):
    """The quarter of the numbers or of the texts in which a cell is, or -1."""
    if cell < FIRST_TEXT_CELL:
        return 4 * cell // (NUMBER_CUTS + 1)
    return 4 * (cell - FIRST_TEXT_CELL) // (TEXT_CUTS + 1) if cell < OTHER_CELL else -1


@njit(cache=True)
def file_in_quarter(context, record):
    """Put a record to the blocks of a quarter of a slot within which its values are, or of all.

    There are few slots, so that a block has room for all. It is worth the more the fuller it is:
    quarters are made only of some slots, the more filters there are the more.
    """
    used = longs_at(context, HELD_USED)
    slots = longs_at(context, HELD_SLOTS)
    cuts = longs_at(context, HELD_CUTS)
    records = longs_at(context, HELD_RECORDS)
    blocks = longs_at(context, HELD_BLOCKS)
    texts = bytes_at(context, HELD_TEXTS)
    used[USED_RANGED] += 1
    count = max(used[USED_RANGED], used[USED_EXPECTED])
    is_more = used[USED_QUARTERED] < min(count // BLOCK_HELD, max(SOME_QUARTERED, count >> 11))
    best, slot, fullest = np.int64(SLOT_BLOCK), np.int64(0), np.int64(-2)
    for i in range(records[record + RECORD_TESTS]):
        test = record + RECORD_HEAD + TEST_WIDTH * i
        if records[test] & RAW_NEGATED:
            continue
        low, high = cells_of(records, cuts, texts, test)
        quarter = quarter_of(low)
        if quarter < 0 or quarter != quarter_of(high):
            continue
        other = records[test] & RAW_SLOT
        place = SLOT_WIDTH * other + SLOT_QUARTER + quarter
        filled = np.int64(-1)
        if slots[SLOT_WIDTH * other + SLOT_PATHS] & BY_QUARTER:
            last = slots[place + LAST_OF_QUARTER]
            filled = blocks[last + BLOCK_COUNT] % BLOCK_HELD if last >= 0 else np.int64(0)
        elif not is_more:
            continue
        if filled > fullest:
            best, slot, fullest = place, other, filled
    if fullest == -1:
        used[USED_QUARTERED] += 1
    if fullest > -2:
        slots[SLOT_WIDTH * slot + SLOT_PATHS] |= BY_QUARTER
    file_in_block(context, best, slot, record)


@njit(cache=True)
def file_in_block(context, chain, slot, record):
    """Put a record to the last block of those of a slot, and set its bits.

    The place of the first of these blocks is known by `chain`, that of the last one behind it.
    """
    used = longs_at(context, HELD_USED)
    slots = longs_at(context, HELD_SLOTS)
    cuts = longs_at(context, HELD_CUTS)
    records = longs_at(context, HELD_RECORDS)
    blocks = longs_at(context, HELD_BLOCKS)
    texts = bytes_at(context, HELD_TEXTS)
    base = SLOT_WIDTH * slot
    last = chain + (1 if chain == base + SLOT_BLOCK else LAST_OF_QUARTER)
    if last == base + SLOT_LAST_BLOCK:
        slots[base + SLOT_PATHS] |= BY_LIST
    block = slots[last]
    if block < 0 or blocks[block + BLOCK_COUNT] == BLOCK_HELD:
        few = block < 0 and used[USED_SLOTS] > SOME_SLOTS
        capacity = FEW_SLOTS if few else MANY_SLOTS
        made = used[USED_BLOCKS]
        used[USED_BLOCKS] += block_length(capacity)
        blocks[made + BLOCK_NEXT] = -1
        fill(blocks, made + BLOCK_LIVE, BLOCK_WORDS, 0)
        blocks[made + BLOCK_COUNT] = 0
        blocks[made + BLOCK_SLOTS] = 0
        blocks[made + BLOCK_CAPACITY] = capacity
        if block < 0:
            slots[chain] = made
        else:
            blocks[block + BLOCK_NEXT] = made
        slots[last] = made
        block = made
        if slot:
            block_slot(blocks, block, slot)  # which is looked at first
    slots[base + SLOT_FILED] += 1
    number = blocks[block + BLOCK_COUNT]
    bit = np.int64(1) << (number & 63)
    part = number >> 6
    for i in range(records[record + RECORD_TESTS]):
        test = record + RECORD_HEAD + TEST_WIDTH * i
        word = records[test]
        if word & RAW_NEGATED:
            continue
        low, high = cells_of(records, cuts, texts, test)
        at = block_slot(blocks, block, word & RAW_SLOT)
        if at >= 0:
            slots[SLOT_WIDTH * (word & RAW_SLOT) + SLOT_PATHS] |= IN_CELLS
            rows = block_rows(blocks, block) + BLOCK_STEP * at
            for cell in range(ANY_CELL):
                if cell < low or cell > high:
                    blocks[rows + BLOCK_WORDS * cell + part] &= ~bit
    blocks[block + BLOCK_RECORD + number] = record
    blocks[block + BLOCK_LIVE + part] |= bit
    blocks[block + BLOCK_COUNT] = number + 1
    records[record + RECORD_FILED] = BLOCK_HELD * block + number


@njit(cache=True)
def put_down(context, data, at, residuals):
    """Hold the filters of a subscription that begin at a place, for which there is room."""
    _, filters, at = head(data, at)
    used = longs_at(context, HELD_USED)
    owners = longs_at(context, HELD_OWNERS)
    owner = used[USED_OWNERS]
    used[USED_OWNERS] = owner + 1
    base = OWNER_WIDTH * owner
    owners[base + OWNER_RECORD] = used[USED_RECORDS]
    owners[base + OWNER_RECORDS] = filters
    owners[base + OWNER_STAMP] = 0
    for i in range(filters):
        record = used[USED_RECORDS]
        residual = residuals[i] if residuals.size else np.int64(-1)
        at = hold_filter(context, data, at, owner, residual, filters > 1)
        file_record(context, record)


@njit(cache=True)
def hold(context, data, residuals, instead, removed):
    """Add a subscription by its filters in MessagePack; whether there was room.

    Each filter has a residual that is left to Python, or -1. The subscriptions that this one
    replaces are removed at the same moment: the one here with the number `instead`, unless that is
    below zero, and the one in a segment whose tombstone lies at the addresses `removed` (see
    `Segment.tombstone_addresses`).
    """
    _, filters, _ = head(data, 0)
    if not has_room(context, len(data), filters):
        return False
    put_down(context, data, 0, residuals)
    if instead >= 0:
        let_go(context, instead)
    if removed.size:
        for i in range(0, 6, 2):
            carray(pointer_to(removed[i]), (1,), np.uint8)[0] |= removed[i + 1]
        for i in range(6, 8):
            carray(pointer_to(removed[i]), (1,), np.int64)[0] += 1
    return True


@njit(cache=True)
def hold_all(context, data, at):
    """Add subscriptions that follow each other, from a place on; where it ends, and why.

    That is `NO_ROOM`, or `SPECIAL` where filters ignore case, ask Python or have a pattern that may
    be long, or 0 at the end.
    """
    nothing = np.empty(0, np.int64)
    while at < len(data):
        special, end = look_over(data, at)
        _, filters, _ = head(data, at)
        if special:
            return at, SPECIAL
        if not has_room(context, end - at, filters):
            return at, NO_ROOM
        put_down(context, data, at, nothing)
        at = end
    return at, 0


@njit(cache=True)
def look_over(data, at):
    """Whether the filters that begin at a place are special, and where they end."""
    special = False
    _, filters, at = head(data, at)
    for _ in range(filters):
        _, count, at = head(data, at)
        for _ in range(count):
            _, _, at = head(data, at)
            _, size, name = head(data, at)
            _, width, operator = head(data, name + size)
            letter, ignoring = operator_of(data, operator, operator + width)
            _, length, type_at = head(data, operator + width)
            _, _, at = head(data, type_at + length)
            after = after_value(data, at)
            asks = letter == 109 or letter == 104  # matches, holds
            if ignoring or asks or (letter == 108 and after - at > LONGEST_LIKE):  # like
                special = True
            at = after
    return special, at


@njit(cache=True)
def let_go(context, owner):
    """Remove a subscription."""
    owners = longs_at(context, HELD_OWNERS)
    records = longs_at(context, HELD_RECORDS)
    blocks = longs_at(context, HELD_BLOCKS)
    used = longs_at(context, HELD_USED)
    record = owners[OWNER_WIDTH * owner + OWNER_RECORD]
    for _ in range(owners[OWNER_WIDTH * owner + OWNER_RECORDS]):
        records[record + RECORD_OWNER] = -1
        used[USED_ASKED] -= records[record + RECORD_FLAGS] & ASKS
        filed = records[record + RECORD_FILED]
        if filed < -1:
            lists = longs_at(context, HELD_LISTS)
            item = (-2 - filed) >> 1
            if filed & 1:
                lists[item + SINGLE_KEY] = MOST_KEY
            else:
                lists[item + ITEM_OWNER] = -1
        elif filed >= 0:
            number = filed % BLOCK_HELD
            live = filed // BLOCK_HELD + BLOCK_LIVE + (number >> 6)
            blocks[live] &= ~(np.int64(1) << (number & 63))
        record += records[record + RECORD_LENGTH]


@njit(cache=True, nogil=True)
def measure_held(context, dropped, sizes):
    """How much of each thing those take at most that are not dropped, and how many filters."""
    used = longs_at(context, HELD_USED)
    records = longs_at(context, HELD_RECORDS)
    slots = longs_at(context, HELD_SLOTS)
    owners = longs_at(context, HELD_OWNERS)
    sizes[:] = 0
    met_slots = np.zeros(used[USED_SLOTS], np.bool_)
    for owner in range(used[USED_OWNERS]):
        if dropped[owner]:
            continue
        sizes[USED_OWNERS] += 1
        record = owners[OWNER_WIDTH * owner + OWNER_RECORD]
        for _ in range(owners[OWNER_WIDTH * owner + OWNER_RECORDS]):
            length = records[record + RECORD_LENGTH]
            sizes[USED_BLOCKS] += 1
            sizes[USED_NODES] += 1 + length - RECORD_HEAD
            sizes[USED_RECORDS] += length
            for i in range(records[record + RECORD_TESTS]):
                test = record + RECORD_HEAD + TEST_WIDTH * i
                slot = records[test] & RAW_SLOT
                if not met_slots[slot]:
                    met_slots[slot] = True
                    sizes[USED_SLOTS] += 1
                    sizes[USED_TEXTS] += slots[SLOT_WIDTH * slot + SLOT_NAME_SIZE]
                first, last = texts_of_test(records, record, test)
                for place in range(first, last, 2):
                    sizes[USED_TEXTS] += records[place + 1] - records[place]
            record += length


@njit(cache=True)
def texts_of_test(records, record, test):
    """From where to where a record tells of the texts of a test."""
    kind = records[test] >> RAW_KIND
    if kind == TEXT_AMONG:
        first = record + records[test + 1]
        return first, first + 2 * records[test + 2]
    if TEXT_IS <= kind <= TEXT_CONTAINS or is_grammed(kind):
        return test + 1, test + (5 if kind == TEXT_BETWEEN else 3)
    return test, test


@njit(cache=True, nogil=True)
def hold_others(context, old, dropped, residuals):
    """Take over what another context holds, but for the subscriptions that are dropped.

    The cells are cut anew, by the constants that there are. Numbers are given in order, those of
    residuals too: of each that was, -1 at first, the new one is put down if it is kept.
    """
    asked = np.int64(0)
    used = longs_at(context, HELD_USED)
    records = longs_at(context, HELD_RECORDS)
    owners = longs_at(context, HELD_OWNERS)
    old_slots = longs_at(old, HELD_SLOTS)
    old_records = longs_at(old, HELD_RECORDS)
    old_owners = longs_at(old, HELD_OWNERS)
    old_texts = bytes_at(old, HELD_TEXTS)
    count = longs_at(old, HELD_USED)[USED_OWNERS]
    slot_count = longs_at(old, HELD_USED)[USED_SLOTS]
    cuts = cut_cells(old, slot_count)
    new_cuts = longs_at(context, HELD_CUTS)
    slot_of = np.full(slot_count, -1, np.int64)
    used[USED_EXPECTED] = longs_at(old, HELD_USED)[USED_RANGED]
    for owner in range(count):
        if dropped[owner]:
            continue
        new = used[USED_OWNERS]
        used[USED_OWNERS] = new + 1
        record = old_owners[OWNER_WIDTH * owner + OWNER_RECORD]
        number = old_owners[OWNER_WIDTH * owner + OWNER_RECORDS]
        owners[OWNER_WIDTH * new + OWNER_RECORD] = used[USED_RECORDS]
        owners[OWNER_WIDTH * new + OWNER_RECORDS] = number
        owners[OWNER_WIDTH * new + OWNER_STAMP] = 0
        for _ in range(number):
            length = old_records[record + RECORD_LENGTH]
            place = used[USED_RECORDS]
            used[USED_RECORDS] = place + length
            copy(old_records, record, length, records, place)
            records[place + RECORD_OWNER] = new
            records[place + RECORD_FILED] = -1
            records[place + RECORD_STAMP] = 0
            residual = records[place + RECORD_RESIDUAL]
            if residual >= 0:
                if residuals[residual] < 0:
                    residuals[residual] = asked
                    asked += 1
                records[place + RECORD_RESIDUAL] = residuals[residual]
            for i in range(records[place + RECORD_TESTS]):
                test = place + RECORD_HEAD + TEST_WIDTH * i
                word = records[test]
                slot = word & RAW_SLOT
                if slot_of[slot] < 0:
                    name = old_slots[SLOT_WIDTH * slot + SLOT_NAME]
                    size = old_slots[SLOT_WIDTH * slot + SLOT_NAME_SIZE]
                    made = slot_named(context, old_texts, name, name + size, False)
                    slot_of[slot] = made
                    copy(cuts, CUTS * slot, CUTS, new_cuts, CUTS * made)
                records[test] = (word & ~np.int64(RAW_SLOT)) | slot_of[slot]
                hold_test_texts(context, old_texts, place, test)
            file_record(context, place)
            record += length


@njit(cache=True)
def hold_test_texts(context, old_texts, record, test):
    """Take over the texts that a copied test tells of."""
    records = longs_at(context, HELD_RECORDS)
    first, last = texts_of_test(records, record, test)
    for place in range(first, last, 2):
        begin, end = hold_text(context, old_texts, records[place], records[place + 1])
        records[place] = begin
        records[place + 1] = end
    if last == test + 3:  # the same twice
        records[test + 3] = records[test + 1]
        records[test + 4] = records[test + 2]


@njit(cache=True)
def cut_cells(context, slot_count):
    """Cuts between the cells of each slot, by a sample of its constants."""
    used = longs_at(context, HELD_USED)
    records = longs_at(context, HELD_RECORDS)
    texts = bytes_at(context, HELD_TEXTS)
    numbers = np.empty((slot_count, SAMPLES), np.float64)
    keys = np.empty((slot_count, SAMPLES), np.int64)
    counts = np.zeros((slot_count, 2), np.int64)
    record = np.int64(0)
    while record < used[USED_RECORDS]:
        for i in range(records[record + RECORD_TESTS]):
            test = record + RECORD_HEAD + TEST_WIDTH * i
            word = records[test]
            kind = word >> RAW_KIND
            slot = word & RAW_SLOT
            for bound in range(test + 1, test + 5, 2):
                if kind == NUMBER_IN:
                    value = double_of(np.uint64(records[bound]))
                    if np.isfinite(value):
                        place = sampled(counts[slot, 0])
                        counts[slot, 0] += 1
                        numbers[slot, place] = value
                elif kind == TEXT_IS or kind == TEXT_PREFIX or kind == TEXT_BETWEEN:  # noqa: SIM109
                    place = sampled(counts[slot, 1])
                    counts[slot, 1] += 1
                    keys[slot, place] = first_bytes(texts, records[bound], records[bound + 1])
        record += records[record + RECORD_LENGTH]
    cuts = np.zeros(CUTS * slot_count, np.int64)
    for slot in range(slot_count):
        size = min(counts[slot, 0], SAMPLES)
        if size:
            ordered = np.sort(numbers[slot, :size])
            for i in range(NUMBER_CUTS):
                cuts[CUTS * slot + i] = bits_of(ordered[size * (i + 1) // (NUMBER_CUTS + 1)])
        size = min(counts[slot, 1], SAMPLES)
        if size:
            ordered_keys = np.sort(keys[slot, :size])
            for i in range(TEXT_CUTS):
                cuts[CUTS * slot + NUMBER_CUTS + i] = ordered_keys[
                    size * (i + 1) // (TEXT_CUTS + 1)
                ]
    return cuts


@njit(cache=True)
def sampled(count):
    """The place that the next of many takes in a sample: later ones instead of earlier ones."""
    if count < SAMPLES:
        return count
    return np.int64((np.uint64(count) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58))
