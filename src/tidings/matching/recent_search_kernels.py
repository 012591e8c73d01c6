"""Kernels that match one event against the filters that `recent_kernels` holds.

What must live here: how they read an event, and how they search lists, blocks and chains. All of
them keep the GIL.

Numba caches a compiled function until the function's own file changes, even if a function it calls
has changed. After a change in a file that this one calls into, change this file too or delete its
cache; the tests delete it by themselves.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from tidings.matching.kernels import (
    BEGIN,
    BOOLEAN,
    BOOLEAN_IS,
    CONTEXT,
    DENSE_RECORD,
    END,
    EXISTS,
    FOUND,
    INTEGER,
    KIND,
    LIMIT,
    NAME_BEGIN,
    NAME_FIRST,
    NAME_TABLE,
    NUMBER,
    NUMBER_IN,
    NUMBER_NOT,
    OUT,
    READ,
    REAL,
    SCRATCH,
    SLOT,
    SPAN_COUNT,
    TEXT,
    TEXT_AMONG,
    TEXT_CONTAINS,
    TEXT_IS,
    TEXT_LIKE,
    TEXT_NOT,
    TEXTS,
    TEXTS_SIZE,
    WHOLE,
    WIDTH,
    WORK,
    compare_bytes,
    contains,
    double_of,
    find_text,
    first_bytes,
    fits,
    hash_bytes,
    head,
    match_encoded,
    numbers_at,
    pointer_to,
    prefetch,
    same_bytes,
    trailing_zeros,
)
from tidings.matching.recent_kernels import (
    ABSENT_CELL,
    ANY_CELL,
    ASKS,
    BLOCK_HEAD,
    BLOCK_LIVE,
    BLOCK_NEXT,
    BLOCK_RECORD,
    BLOCK_SLOTS,
    BLOCK_STEP,
    BLOCK_WORDS,
    BY_GRAM,
    BY_KEY,
    BY_LIST,
    BY_QUARTER,
    BY_SINGLE,
    GRAM_FIRST,
    GRAM_LAST,
    HELD_BLOCKS,
    HELD_CONTEXT,
    HELD_CUTS,
    HELD_IDS,
    HELD_KEYS,
    HELD_LISTS,
    HELD_NAMES,
    HELD_NODES,
    HELD_OWNERS,
    HELD_PRESENT,
    HELD_RECORDS,
    HELD_SLOTS,
    HELD_TEXTS,
    HELD_USED,
    IN_CELLS,
    ITEM_OWNER,
    ITEM_RECORD,
    ITEM_SLOT,
    ITEM_TEST,
    ITEM_WIDTH,
    KEY_BITS,
    MOST_GRAM,
    MOST_KEY,
    NODE_HASH,
    NODE_KEY,
    NODE_NEXT,
    NODE_PLACE,
    NODE_RECORD,
    NODE_SLOT,
    OTHER_CELL,
    OWNER_RECORD,
    OWNER_STAMP,
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
    RECORD_OWNER,
    RECORD_RESIDUAL,
    RECORD_STAMP,
    RECORD_TESTS,
    SINGLE_DOWN,
    SINGLE_KEY,
    SINGLE_OWNER,
    SINGLE_TEXT,
    SINGLE_WIDTH,
    SLOT_BLOCK,
    SLOT_CELL,
    SLOT_ENTRY,
    SLOT_ENTRY_END,
    SLOT_GRAM_BYTES,
    SLOT_GRAMS,
    SLOT_LIST,
    SLOT_LISTED,
    SLOT_NAME,
    SLOT_NAME_SIZE,
    SLOT_PATHS,
    SLOT_QUARTER,
    SLOT_SINGLE,
    SLOT_SINGLES,
    SLOT_WIDTH,
    TEST_WIDTH,
    TEXT_PREFIX,
    TEXT_SUFFIX,
    TWICE,
    USED_ASKED,
    USED_EPOCH,
    USED_LEFT,
    USED_NAMED,
    USED_OWNERS,
    USED_SLOTS,
    after_value,
    bits_of,
    block_rows,
    bytes_at,
    chain_of,
    find_slot,
    gram_at,
    hash_gram,
    hash_number,
    hash_truth,
    longs_at,
    number_cell,
    number_key,
    quarter_of,
    raw_number,
    text_cell,
)

# Of an entry: slot, type, a number's double and the rest, or a text's place (the last two), and the
# hash by which equalities are looked up.
RAW_KEY: Final = 5
RAW_WIDTH: Final = 6
# What is noted of a field before its values are entries: two numbers a byte are enough, as a name
# and a value take two bytes at least.
FIELD_NAME, FIELD_NAME_END, FIELD_PLACE, FIELD_VALUE, FIELD_WIDTH = range(5)
# Chains that are to be visited: how many, and of each what is looked for, where its first node is,
# and whether what is found may be met again.
PENDING, PENDING_WIDTH = 64, 3
PENDING_ROOM: Final = 1 + PENDING * PENDING_WIDTH
LINE: Final = 8  # numbers
AT_ONCE: Final = 16  # lines that are prefetched
NO_ROOM_OUT: Final = -2
# What a call gets: where the context of the recent index is, room for entries, room for what is
# found; for each slot of the first plan the slot of the same name here, for how many slots this is
# known, and how many have none there; how many were found and how many residuals are left; room
# for all ids found, if those of the plans are integers, and how many these are, or -1; and for each
# plan where its context is, and where its ids are by number, or 0 if the numbers are the ids.
(
    COMBINED_RECENT, COMBINED_ENTRIES, COMBINED_ENTRIES_SIZE, COMBINED_OUT, COMBINED_OUT_SIZE,
    COMBINED_SLOTS, COMBINED_SLOTS_SIZE, COMBINED_KNOWN, COMBINED_OTHERS, COMBINED_FOUND,
    COMBINED_ASKS, COMBINED_IDS, COMBINED_IDS_SIZE, COMBINED_GATHERED, COMBINED_PLANS,
    COMBINED_PLAN,
) = range(16)  # fmt: skip
COMBINED_STEP: Final = 2


@njit(cache=True, inline="always")
def above_low(high, low, records, test):
    """Whether a number is not below the first bound of a test."""
    bound = double_of(np.uint64(records[test + 1]))
    return high > bound or (high == bound and low >= records[test + 2])


@njit(cache=True, inline="always")
def below_high(high, low, records, test):
    """Whether a number is not above the second bound of a test."""
    bound = double_of(np.uint64(records[test + 3]))
    return high < bound or (high == bound and low <= records[test + 4])


@njit(cache=True, inline="always")
def is_present(present, slot):
    """Whether the event has a value of a slot."""
    return present[slot >> 6] >> (slot & 63) & 1


@njit(cache=True)
def text_holds(kind, word, test, record, records, texts, data, begin, end):
    """Whether a text satisfies a test of texts."""
    if kind == TEXT_AMONG:
        first = record + records[test + 1]
        for place in range(first, first + 2 * records[test + 2], 2):
            if same_bytes(texts, records[place], records[place + 1], data, begin, end):
                return True
        return False
    first, last = records[test + 1], records[test + 2]
    size = last - first
    if kind == TEXT_IS:
        return same_bytes(texts, first, last, data, begin, end)
    if kind == TEXT_NOT:
        return not same_bytes(texts, first, last, data, begin, end)
    if kind == TEXT_PREFIX:
        return size <= end - begin and same_bytes(texts, first, last, data, begin, begin + size)
    if kind == TEXT_SUFFIX:
        return size <= end - begin and same_bytes(texts, first, last, data, end - size, end)
    if kind == TEXT_CONTAINS:
        return contains(data, begin, end, texts, first, last)
    if kind == TEXT_LIKE:
        return fits(texts, first, last, data, begin, end)
    if word & RAW_OPEN_LOW == 0:
        order = compare_bytes(data, begin, end, texts, first, last)
        if order < 0 or (order == 0 and word & RAW_PAST_LOW):
            return False
    if word & RAW_OPEN_HIGH == 0:
        order = compare_bytes(data, begin, end, texts, records[test + 3], records[test + 4])
        if order > 0 or (order == 0 and word & RAW_PAST_HIGH):
            return False
    return True


@njit(cache=True)
def number_among(test, record, records, high, low):
    """Whether a number is one of those that a test names."""
    first = record + records[test + 1]
    for place in range(first, first + 2 * records[test + 2], 2):
        if double_of(np.uint64(records[place])) == high and records[place + 1] == low:
            return True
    return False


@njit(cache=True)
def raw_passes(test, record, present, slots, records, texts, entries, data):
    """Whether the event passes one test of a recent filter."""
    word = records[test]
    base = SLOT_WIDTH * (word & RAW_SLOT)
    result = word & RAW_NEGATED != 0
    if not is_present(present, word & RAW_SLOT):
        return result
    kind = word >> RAW_KIND
    types = word >> RAW_TYPES & 15
    at = slots[base + SLOT_ENTRY]
    end = slots[base + SLOT_ENTRY_END]
    while at < end:
        if entries[at + 1] & types:
            holds = False
            if kind == EXISTS:
                holds = True
            elif kind == BOOLEAN_IS:
                holds = entries[at + 3] == records[test + 1]
            elif entries[at + 1] == TEXT:
                holds = text_holds(
                    kind, word, test, record, records, texts, data,
                    entries[at + 3], entries[at + 4],
                )  # fmt: skip
            else:
                high = double_of(np.uint64(entries[at + 2]))
                low = entries[at + 3]
                if kind == NUMBER_IN:
                    holds = above_low(high, low, records, test) and below_high(
                        high, low, records, test
                    )
                elif kind == NUMBER_NOT:
                    holds = high == high and not (
                        double_of(np.uint64(records[test + 1])) == high and records[test + 2] == low
                    )
                else:
                    holds = number_among(test, record, records, high, low)
            if holds:
                return not result
        at += RAW_WIDTH
    return result


@njit(cache=True, inline="always")
def check_recent(
    record, twice, present, slots, records, owners, texts, entries, data, epoch, out, found, asks
):
    """Check the filter of a record, and put out its subscription; at the end with its residual.

    With `twice` it may be met again in any case. One number within bounds is compared here, since
    most tests are that and a call costs more.
    """
    owner = records[record + RECORD_OWNER]
    holds = owner >= 0
    test = record + RECORD_HEAD
    end = test + TEST_WIDTH * records[record + RECORD_TESTS]
    while holds and test < end:
        word = records[test]
        base = SLOT_WIDTH * (word & RAW_SLOT)
        holds = word & RAW_NEGATED != 0
        if is_present(present, word & RAW_SLOT):
            at = slots[base + SLOT_ENTRY]
            if (
                word >> RAW_KIND == NUMBER_IN
                and slots[base + SLOT_ENTRY_END] == at + RAW_WIDTH
                and entries[at + 1] & (word >> RAW_TYPES) & (INTEGER | REAL)
            ):
                high = double_of(np.uint64(entries[at + 2]))
                low = entries[at + 3]
                inside = above_low(high, low, records, test) and below_high(
                    high, low, records, test
                )
                holds = inside != holds
            else:
                holds = raw_passes(test, record, present, slots, records, texts, entries, data)
        test += TEST_WIDTH
    if holds:
        flags = records[record + RECORD_FLAGS]
        if flags & ASKS:
            if records[record + RECORD_STAMP] != epoch:
                records[record + RECORD_STAMP] = epoch
                out[out.size - 1 - 2 * asks] = owner
                out[out.size - 2 - 2 * asks] = records[record + RECORD_RESIDUAL]
                asks += 1
        else:
            if twice or flags & TWICE:
                stamp = OWNER_WIDTH * owner + OWNER_STAMP
                holds = owners[stamp] != epoch
                owners[stamp] = epoch
            if holds:
                out[found] = owner
                found += 1
    return found, asks


@njit(cache=True)
def raw_value(at, slot, data, entries, put):
    """One scalar of the event, put down as an entry if the slot is one; the next places of both."""
    kind, value, at = head(data, at)
    after = at + value if kind == 3 else at + 16 if kind == 8 else at
    if slot < 0 or kind == 0:
        return after, put
    entries[put] = slot
    if kind == 3:
        entries[put + 1] = TEXT
        entries[put + 3] = at
        entries[put + 4] = after
    elif kind == 4:
        entries[put + 1] = BOOLEAN
        entries[put + 3] = value
    else:
        entries[put + 1] = REAL if kind == 2 else INTEGER
        high, low = raw_number(data, at, kind, value)
        entries[put + 2] = bits_of(high)
        entries[put + 3] = low
    return after, put + RAW_WIDTH


@njit(cache=True)
def raw_fields(context, data, fields):
    """Where the names and values of an event are, and each name's place in the hash table.

    Puts that down for each; how many there are, or -1 where the event is not flat. Step by
    step for all: each step prefetches what the next one reads.
    """
    slots = longs_at(context, HELD_SLOTS)
    names = longs_at(context, HELD_NAMES)
    _, count, at = head(data, 0)
    for i in range(0, FIELD_WIDTH * count, FIELD_WIDTH):
        kind, size, at = head(data, at)
        if kind != 3:
            return np.int64(-1)
        place = hash_bytes(data, at, at + size, 0) & (names.size - 1)
        prefetch(names, place)
        fields[i + FIELD_NAME] = at
        fields[i + FIELD_NAME_END] = at + size
        fields[i + FIELD_PLACE] = place
        at += size
        fields[i + FIELD_VALUE] = at
        kind, _, _ = head(data, at)
        if kind == 6 or kind == 9:
            return np.int64(-1)
        at = after_value(data, at)
    for i in range(0, FIELD_WIDTH * count, FIELD_WIDTH):
        place = SLOT_WIDTH * names[fields[i + FIELD_PLACE]]
        prefetch(slots, place)
        prefetch(slots, place + 8)
    return count


@njit(cache=True)
def raw_event(context, data, entries):
    """A flat event as entries with values as they are; where they end, or -1 if it is not."""
    slots = longs_at(context, HELD_SLOTS)
    names = longs_at(context, HELD_NAMES)
    texts = bytes_at(context, HELD_TEXTS)
    fields = entries[RAW_WIDTH * len(data) :]
    count = raw_fields(context, data, fields)
    put = np.int64(0)
    for i in range(0, FIELD_WIDTH * count, FIELD_WIDTH):
        begin, end = fields[i + FIELD_NAME], fields[i + FIELD_NAME_END]
        slot, _ = find_slot(slots, names, texts, data, begin, end, fields[i + FIELD_PLACE])
        if slot < 0:
            continue
        first = put
        at = fields[i + FIELD_VALUE]
        kind, size, after = head(data, at)
        if kind == 5:
            at = after
            for _ in range(size):
                at, put = raw_value(at, slot, data, entries, put)
        else:
            at, put = raw_value(at, slot, data, entries, put)
        note_slot(context, slot, first, put, entries, data)
    return put if count >= 0 else np.int64(-1)


@njit(cache=True)
def note_slot(context, slot, first, last, entries, data):
    """Tell a slot where its entries are, if there are any, and in which cell."""
    if first == last:
        return
    slots = longs_at(context, HELD_SLOTS)
    cuts = longs_at(context, HELD_CUTS)
    base = SLOT_WIDTH * slot
    longs_at(context, HELD_PRESENT)[slot >> 6] |= np.int64(1) << (slot & 63)
    slots[base + SLOT_ENTRY] = first
    slots[base + SLOT_ENTRY_END] = last
    cell = OTHER_CELL
    if last > first + RAW_WIDTH:
        cell = ANY_CELL
    elif slots[base + SLOT_PATHS] & IN_CELLS == 0:
        cell = OTHER_CELL
    elif entries[first + 1] == TEXT:
        key = first_bytes(data, entries[first + 3], entries[first + 4])
        cell = text_cell(cuts, slot, key)
    elif entries[first + 1] != BOOLEAN:
        high = double_of(np.uint64(entries[first + 2]))
        if high == high:
            cell = number_cell(cuts, slot, high)
    slots[base + SLOT_CELL] = cell


@njit(cache=True)
def know_slots(combined, context, plan):
    """Find out which slots of a plan have the names of those that came since the last call."""
    slots = longs_at(context, HELD_SLOTS)
    texts = bytes_at(context, HELD_TEXTS)
    of_plan = longs_at(combined, COMBINED_SLOTS)
    whole = numbers_at(plan, WHOLE)
    plan_texts = carray(pointer_to(plan[TEXTS]), (plan[TEXTS_SIZE],), np.uint8)
    count = longs_at(context, HELD_USED)[USED_SLOTS]
    for slot in range(combined[COMBINED_KNOWN], count):
        begin = slots[SLOT_WIDTH * slot + SLOT_NAME]
        end = begin + slots[SLOT_WIDTH * slot + SLOT_NAME_SIZE]
        found = find_text(
            NAME_TABLE, NAME_BEGIN, 1, NAME_FIRST, whole, plan_texts, 0, texts, begin, end
        )
        if found >= 0:
            of_plan[found] = slot
        else:
            combined[COMBINED_OTHERS] += 1
    combined[COMBINED_KNOWN] = count


@njit(cache=True)
def read_again(combined, context, plan, data, entries):
    """The event as entries from what was read for a plan that has all names; where they end."""
    slots = longs_at(context, HELD_SLOTS)
    of_plan = longs_at(combined, COMBINED_SLOTS)
    work = numbers_at(plan, WORK)
    whole = numbers_at(plan, WHOLE)
    cells = whole[2 * DENSE_RECORD + 1] - whole[2 * DENSE_RECORD]
    read = work[plan[SCRATCH] + cells + 64 :]
    end = plan[READ]
    for at in range(0, end, WIDTH):
        place = SLOT_WIDTH * of_plan[read[at + SLOT]]
        prefetch(slots, place)
        prefetch(slots, place + 8)
    put = np.int64(0)
    at = 0
    while at < end:
        plan_slot = read[at + SLOT]
        slot = of_plan[plan_slot]
        first = put
        while at < end and read[at + SLOT] == plan_slot:
            kind = read[at + KIND]
            if slot > 0:
                entries[put] = slot
                entries[put + 1] = kind
                if kind == TEXT:
                    entries[put + 3] = read[at + BEGIN]
                    entries[put + 4] = read[at + END]
                    put += RAW_WIDTH
                elif kind == BOOLEAN:
                    entries[put + 3] = read[at + NUMBER]
                    put += RAW_WIDTH
                else:
                    _, put = raw_value(np.int64(read[at + BEGIN]), slot, data, entries, put)
            at += WIDTH
        note_slot(context, slot, first, put, entries, data)
    return put


@njit(cache=True)
def raw_keys(context, data, entries, last):
    """The hash of each value that may be an equality's, or -1, for entries from the first on.

    Prefetches what the search will read of lists.
    """
    slots = longs_at(context, HELD_SLOTS)
    lists = longs_at(context, HELD_LISTS)
    keys = longs_at(context, HELD_KEYS)
    for at in range(0, last, RAW_WIDTH):
        slot = entries[at]
        base = SLOT_WIDTH * slot
        paths = slots[base + SLOT_PATHS]
        if paths & BY_LIST:
            place = slots[base + SLOT_LIST]
            behind = place + ITEM_WIDTH * min(slots[base + SLOT_LISTED], AT_ONCE)
            for item in range(place, behind, ITEM_WIDTH):
                prefetch(lists, item)
        if paths & BY_SINGLE:
            place = slots[base + SLOT_SINGLE]
            behind = place + min(SINGLE_WIDTH * slots[base + SLOT_SINGLES], LINE * AT_ONCE)
            for line in range(place, behind, LINE):
                prefetch(lists, line)
        hashed = np.int64(-1)
        if paths & BY_KEY:
            if entries[at + 1] == TEXT:
                hashed = hash_bytes(data, entries[at + 3], entries[at + 4], slot)
            elif entries[at + 1] == BOOLEAN:
                hashed = hash_truth(slot, entries[at + 3])
            else:
                high = double_of(np.uint64(entries[at + 2]))
                hashed = hash_number(slot, high, entries[at + 3])
            if keys[(hashed & (KEY_BITS - 1)) >> 6] >> (hashed & 63) & 1 == 0:
                hashed = np.int64(-1)
        entries[at + RAW_KEY] = hashed


@njit(cache=True)
def visit_blocks(block, context, entries, data, epoch, out, found, asks):
    """Go through a block and those behind it."""
    used = longs_at(context, HELD_USED)
    slots = longs_at(context, HELD_SLOTS)
    blocks = longs_at(context, HELD_BLOCKS)
    while block >= 0:
        following = blocks[block + BLOCK_NEXT]
        if following >= 0:
            prefetch_rows(following, slots, blocks)
        if block_left(block, slots, blocks, used):
            for part in range(BLOCK_WORDS):
                word = used[USED_LEFT + part]
                if word != 0:
                    found, asks = visit_word(
                        block + BLOCK_RECORD + 64 * part, word,
                        context, entries, data, epoch, out, found, asks,
                    )  # fmt: skip
        block = following
    return found, asks


@njit(cache=True, inline="always")
def blocks_met(slots, slot):
    """The first block that may be visited for a slot, or -1."""
    base = SLOT_WIDTH * slot
    quarter = quarter_of(slots[base + SLOT_CELL])
    if slots[base + SLOT_PATHS] & BY_QUARTER and quarter >= 0:
        return slots[base + SLOT_QUARTER + quarter]
    return slots[base + SLOT_BLOCK]


@njit(cache=True)
def prefetch_rows(block, slots, blocks):
    """Prefetch the rows of a block that the cells of the event choose."""
    rows = block_rows(blocks, block)
    for at in range(block + BLOCK_HEAD, block + BLOCK_HEAD + blocks[block + BLOCK_SLOTS]):
        cell = slots[SLOT_WIDTH * blocks[at] + SLOT_CELL]
        prefetch(blocks, rows + BLOCK_WORDS * cell)
        rows += BLOCK_STEP


@njit(cache=True)
def block_left(block, slots, blocks, used):
    """Whether the cells of the event leave filters of a block; which, stands in `used`.

    Words as variables are quicker than in an array, and places without a sign than with one.
    """
    live = block + BLOCK_LIVE
    a, b, c, d = blocks[live], blocks[live + 1], blocks[live + 2], blocks[live + 3]
    e, f, g, h = blocks[live + 4], blocks[live + 5], blocks[live + 6], blocks[live + 7]
    at = np.uint64(block + BLOCK_HEAD)
    end = at + np.uint64(blocks[block + BLOCK_SLOTS])
    rows = np.uint64(block_rows(blocks, block))
    while at < end and a | b | c | d | e | f | g | h != 0:
        place = np.uint64(SLOT_WIDTH) * np.uint64(blocks[at]) + np.uint64(SLOT_CELL)
        row = rows + np.uint64(BLOCK_WORDS) * np.uint64(slots[place])
        a &= blocks[row]
        b &= blocks[row + np.uint64(1)]
        c &= blocks[row + np.uint64(2)]
        d &= blocks[row + np.uint64(3)]
        e &= blocks[row + np.uint64(4)]
        f &= blocks[row + np.uint64(5)]
        g &= blocks[row + np.uint64(6)]
        h &= blocks[row + np.uint64(7)]
        rows += np.uint64(BLOCK_STEP)
        at += np.uint64(1)
    left = USED_LEFT
    used[left], used[left + 1], used[left + 2], used[left + 3] = a, b, c, d
    used[left + 4], used[left + 5], used[left + 6], used[left + 7] = e, f, g, h
    return a | b | c | d | e | f | g | h != 0


@njit(cache=True)
def visit_word(first, word, context, entries, data, epoch, out, found, asks):
    """Check the filters whose bits are set, after prefetching their records."""
    blocks = longs_at(context, HELD_BLOCKS)
    slots = longs_at(context, HELD_SLOTS)
    records = longs_at(context, HELD_RECORDS)
    present = longs_at(context, HELD_PRESENT)
    owners = longs_at(context, HELD_OWNERS)
    texts = bytes_at(context, HELD_TEXTS)
    left = word
    while left != 0:
        record = blocks[first + trailing_zeros(left)]
        prefetch(records, record)
        prefetch(records, record + 8)
        left &= left - 1
    while word != 0:
        record = blocks[first + trailing_zeros(word)]
        word &= word - 1
        found, asks = check_recent(
            record,
            False,
            present,
            slots,
            records,
            owners,
            texts,
            entries,
            data,
            epoch,
            out,
            found,
            asks,
        )
    return found, asks


@njit(cache=True)
def visit_list(slot, context, entries, data, epoch, out, found, asks):
    """Go through the list of a slot: what the test beside each leaves is checked."""
    slots = longs_at(context, HELD_SLOTS)
    lists = longs_at(context, HELD_LISTS)
    records = longs_at(context, HELD_RECORDS)
    present = longs_at(context, HELD_PRESENT)
    owners = longs_at(context, HELD_OWNERS)
    texts = bytes_at(context, HELD_TEXTS)
    base = SLOT_WIDTH * slot
    entry = slots[base + SLOT_ENTRY]
    kinds = np.int64(0)  # of the only value, if that is a number
    if slots[base + SLOT_ENTRY_END] == entry + RAW_WIDTH:
        kinds = entries[entry + 1] & (INTEGER | REAL)
    high = double_of(np.uint64(entries[entry + 2]))
    low = entries[entry + 3]
    is_text = entries[entry + 1] == TEXT and slots[base + SLOT_ENTRY_END] == entry + RAW_WIDTH
    key = first_bytes(data, low, entries[entry + 4]) if is_text else np.int64(0)
    begin = slots[base + SLOT_LIST]
    for item in range(begin, begin + ITEM_WIDTH * slots[base + SLOT_LISTED], ITEM_WIDTH):
        owner = lists[item + ITEM_OWNER]
        test = item + ITEM_TEST
        word = lists[test]
        if owner < 0:
            continue
        if kinds and word >> RAW_KIND == NUMBER_IN:
            holds = (
                kinds & (word >> RAW_TYPES) != 0
                and above_low(high, low, lists, test)
                and below_high(high, low, lists, test)
            )
        elif is_text and word & RAW_OPEN_LOW and key != lists[test + 1]:
            holds = key < lists[test + 1]
        elif is_text and word & RAW_OPEN_HIGH and key != lists[test + 3]:
            holds = key > lists[test + 3]
        else:
            holds = raw_passes(test, 0, present, slots, lists, texts, entries, data)
        if not holds or not is_present(present, lists[item + ITEM_SLOT]):
            continue
        record = lists[item + ITEM_RECORD]
        found, asks = check_recent(
            record,
            False,
            present,
            slots,
            records,
            owners,
            texts,
            entries,
            data,
            epoch,
            out,
            found,
            asks,
        )
    return found, asks


@njit(cache=True)
def visit_single_filters(slot, context, entries, data, epoch, out, found, asks):
    """Go through the single filters of a slot: the key of the value tells nearly always."""
    slots = longs_at(context, HELD_SLOTS)
    lists = longs_at(context, HELD_LISTS)
    records = longs_at(context, HELD_RECORDS)
    present = longs_at(context, HELD_PRESENT)
    owners = longs_at(context, HELD_OWNERS)
    texts = bytes_at(context, HELD_TEXTS)
    base = SLOT_WIDTH * slot
    entry = slots[base + SLOT_ENTRY]
    kind = entries[entry + 1]
    is_one = slots[base + SLOT_ENTRY_END] == entry + RAW_WIDTH
    begin = slots[base + SLOT_SINGLE]
    end = begin + SINGLE_WIDTH * slots[base + SLOT_SINGLES]
    if is_one and kind & (INTEGER | REAL) and entries[entry + 3] == 0:
        value = double_of(np.uint64(entries[entry + 2]))
        if value != value:
            return found, asks
        key = number_key(value)
        for item in range(np.uint64(begin), np.uint64(end), np.uint64(SINGLE_WIDTH)):
            owner = lists[item + np.uint64(SINGLE_OWNER)]
            out[found] = owner >> 2  # which counts only if it holds: that needs no guess
            beside = key ^ -(owner & SINGLE_DOWN)
            found += (beside >= lists[item + np.uint64(SINGLE_KEY)]) & (owner & SINGLE_TEXT == 0)
        return found, asks
    if is_one and kind == BOOLEAN:
        return found, asks
    key = first_bytes(data, entries[entry + 3], entries[entry + 4]) if kind == TEXT else np.int64(0)
    for item in range(begin, end, SINGLE_WIDTH):
        owner = lists[item + SINGLE_OWNER]
        if is_one and kind == TEXT:
            beside = key ^ -(owner & SINGLE_DOWN)
            if owner & SINGLE_TEXT == 0 or beside < lists[item + SINGLE_KEY]:
                continue
            if beside > lists[item + SINGLE_KEY]:
                out[found] = owner >> 2
                found += 1
                continue
        if lists[item + SINGLE_KEY] < MOST_KEY:
            record = owners[OWNER_WIDTH * (owner >> 2) + OWNER_RECORD]
            found, asks = check_recent(
                record,
                False,
                present,
                slots,
                records,
                owners,
                texts,
                entries,
                data,
                epoch,
                out,
                found,
                asks,
            )
    return found, asks


@njit(cache=True)
def note_grams(slot, begin, end, context, data, entries, pending, found, asks, epoch, out):
    """Note the chains of the bytes with which a text begins, ends, and of all that it contains."""
    slots = longs_at(context, HELD_SLOTS)
    wanted = slots[SLOT_WIDTH * slot + SLOT_GRAMS]
    begins = slots[SLOT_WIDTH * slot + SLOT_GRAM_BYTES]
    keys = longs_at(context, HELD_KEYS)
    for bit in range(MOST_GRAM * 3):
        if wanted >> bit & 1 == 0:
            continue
        sort = bit // MOST_GRAM
        length = 1 + bit % MOST_GRAM
        if end - begin < length:
            continue
        first = end - length if sort == GRAM_LAST else begin
        last = begin if sort == GRAM_FIRST else end - length
        for at in range(first, last + 1):
            if begins >> (np.int64(data[at]) & 63) & 1 == 0:
                continue
            hashed = hash_gram(slot, sort, gram_at(data, at, length), length)
            known = keys[(hashed & (KEY_BITS - 1)) >> 6] >> (hashed & 63) & 1
            if known and note_chain(context, slot, hashed, True, pending):
                found, asks = visit_pending(
                    pending, context, entries, data, epoch, out, found, asks
                )
    return found, asks


@njit(cache=True, inline="always")
def note_chain(context, slot, hashed, twice, pending):
    """Note a chain to be visited, and prefetch it; returns whether there is no room for more."""
    place = chain_of(longs_at(context, HELD_USED), hashed)
    prefetch(longs_at(context, HELD_NODES), place)
    at = 1 + PENDING_WIDTH * pending[0]
    pending[at] = hashed << NODE_HASH | slot
    pending[at + 1] = place
    pending[at + 2] = twice
    pending[0] += 1
    return pending[0] == PENDING


@njit(cache=True, inline="always")
def is_met(nodes, node, key, present):
    """Whether a node is filed under a key; most such ask for an attribute that is absent."""
    return nodes[node + NODE_KEY] == key and is_present(present, nodes[node + NODE_SLOT])


@njit(cache=True)
def visit_pending(pending, context, entries, data, epoch, out, found, asks):
    """Visit the chains noted, in two steps for all: one reads what the other has prefetched."""
    slots = longs_at(context, HELD_SLOTS)
    nodes = longs_at(context, HELD_NODES)
    records = longs_at(context, HELD_RECORDS)
    present = longs_at(context, HELD_PRESENT)
    owners = longs_at(context, HELD_OWNERS)
    texts = bytes_at(context, HELD_TEXTS)
    end = 1 + PENDING_WIDTH * pending[0]
    for at in range(1, end, PENDING_WIDTH):
        node = pending[at + 1]
        following = nodes[node + NODE_NEXT] & NODE_PLACE
        if following:
            prefetch(nodes, following)
        if is_met(nodes, node, pending[at], present):
            prefetch(records, nodes[node + NODE_RECORD])
            prefetch(records, nodes[node + NODE_RECORD] + 8)
        elif following == 0:
            pending[at + 1] = -1
    for at in range(1, end, PENDING_WIDTH):
        node = pending[at + 1]
        while node >= 0:
            following = nodes[node + NODE_NEXT] & NODE_PLACE
            if is_met(nodes, node, pending[at], present):
                found, asks = check_recent(
                    nodes[node + NODE_RECORD], pending[at + 2] != 0,
                    present, slots, records, owners, texts, entries, data, epoch, out, found, asks,
                )  # fmt: skip
            node = following if following else np.int64(-1)
    pending[0] = 0
    return found, asks


@njit(cache=True)
def match_recent(combined, data):
    """Match one event against the recent index: how many are found, and how many residuals left.

    The first stand at the beginning of `COMBINED_OUT`, the others with their residuals, backwards,
    at its end. Both are -1 where the event is not flat.
    """
    context = carray(pointer_to(combined[COMBINED_RECENT]), (HELD_CONTEXT,), np.int64)
    entries = longs_at(combined, COMBINED_ENTRIES)
    pending = entries[entries.size - PENDING_ROOM :]
    pending[0] = 0
    out = longs_at(combined, COMBINED_OUT)
    used = longs_at(context, HELD_USED)
    slots = longs_at(context, HELD_SLOTS)
    blocks = longs_at(context, HELD_BLOCKS)
    used[USED_EPOCH] += 1
    epoch = used[USED_EPOCH]
    present = longs_at(context, HELD_PRESENT)
    present[0] |= 1
    slots[SLOT_CELL] = ANY_CELL
    if combined[COMBINED_PLANS] > 0:
        plan = carray(pointer_to(combined[COMBINED_PLAN]), (CONTEXT,), np.int64)
        if combined[COMBINED_KNOWN] < used[USED_SLOTS]:
            know_slots(combined, context, plan)
        if combined[COMBINED_OTHERS] == 0:
            last = read_again(combined, context, plan, data, entries)
        else:
            last = raw_event(context, data, entries)
    else:
        last = raw_event(context, data, entries)
    found = asks = np.int64(0)
    if last < 0:
        return np.int64(-1), np.int64(-1)
    raw_keys(context, data, entries, last)
    found, asks = visit_blocks(slots[SLOT_BLOCK], context, entries, data, epoch, out, found, asks)
    at = np.int64(0)
    while at < last:
        slot = entries[at]
        base = SLOT_WIDTH * slot
        paths = slots[base + SLOT_PATHS]
        if at + RAW_WIDTH < last:
            following = blocks_met(slots, entries[at + RAW_WIDTH])
            if following >= 0:
                prefetch_rows(following, slots, blocks)
        if paths & BY_SINGLE and at == slots[base + SLOT_ENTRY]:
            found, asks = visit_single_filters(
                slot, context, entries, data, epoch, out, found, asks
            )
        if paths & BY_QUARTER and at == slots[base + SLOT_ENTRY]:
            met = quarter_of(slots[base + SLOT_CELL])
            for quarter in range(4):
                if met == quarter or slots[base + SLOT_CELL] == ANY_CELL:
                    found, asks = visit_blocks(
                        slots[base + SLOT_QUARTER + quarter],
                        context, entries, data, epoch, out, found, asks,
                    )  # fmt: skip
        if paths & BY_LIST and at == slots[base + SLOT_ENTRY]:
            found, asks = visit_list(slot, context, entries, data, epoch, out, found, asks)
            found, asks = visit_blocks(
                slots[base + SLOT_BLOCK], context, entries, data, epoch, out, found, asks
            )
        if paths & BY_KEY and entries[at + RAW_KEY] >= 0:
            twice = slots[base + SLOT_CELL] == ANY_CELL
            if note_chain(context, slot, entries[at + RAW_KEY], twice, pending):
                found, asks = visit_pending(
                    pending, context, entries, data, epoch, out, found, asks
                )
        if paths & BY_GRAM and entries[at + 1] == TEXT:
            found, asks = note_grams(
                slot, entries[at + 3], entries[at + 4],
                context, data, entries, pending, found, asks, epoch, out,
            )  # fmt: skip
        at += RAW_WIDTH
    found, asks = visit_pending(pending, context, entries, data, epoch, out, found, asks)
    forget_cells(present, slots, entries, last)
    return found, asks


@njit(cache=True)
def forget_cells(present, slots, entries, last):
    """Between events all slots are absent."""
    for at in range(0, last, RAW_WIDTH):
        slots[SLOT_WIDTH * entries[at] + SLOT_CELL] = ABSENT_CELL
        present[entries[at] >> 6] = 0


@njit(cache=True)
def gather(combined, context, recent):
    """Put together the ids that plans have found, except spans, and those of recent ones."""
    ids = longs_at(combined, COMBINED_IDS)
    put = np.int64(0)
    for i in range(combined[COMBINED_PLANS]):
        at = COMBINED_PLAN + COMBINED_STEP * i
        plan = carray(pointer_to(combined[at]), (CONTEXT,), np.int64)
        found = plan[FOUND]
        numbers = numbers_at(plan, OUT)
        if combined[at + 1] == 0:
            for j in range(found):
                ids[put + j] = numbers[j]
        else:
            named = carray(pointer_to(combined[at + 1]), (plan[LIMIT],), np.int64)
            for j in range(min(found, AT_ONCE)):
                prefetch(named, numbers[j])
            for j in range(found):
                prefetch(named, numbers[min(j + AT_ONCE, found - 1)])
                ids[put + j] = named[numbers[j]]
        put += found
    named = longs_at(context, HELD_IDS)
    numbers_found = longs_at(combined, COMBINED_OUT)
    for j in range(recent):
        prefetch(named, numbers_found[j])
    for j in range(recent):
        ids[put + j] = named[numbers_found[j]]
    return put + recent


@njit(cache=True)
def match_combined(combined, data):
    """Match one event against plans and the recent index: how many are found and left to evaluate.

    The context of each plan holds its count, `combined` that of the recent index. Returns -1 if the
    event is not flat, `NO_ROOM_OUT` if there is no room for what may be found. The plans must have
    no residuals.
    """
    context = carray(pointer_to(combined[COMBINED_RECENT]), (HELD_CONTEXT,), np.int64)
    used = longs_at(context, HELD_USED)
    if combined[COMBINED_OUT_SIZE] < used[USED_OWNERS] + 2 * used[USED_ASKED]:
        return np.int64(NO_ROOM_OUT)
    total = np.int64(0)
    for i in range(combined[COMBINED_PLANS]):
        plan = carray(pointer_to(combined[COMBINED_PLAN + COMBINED_STEP * i]), (CONTEXT,), np.int64)
        found = match_encoded(plan, data)
        if found < 0:
            return np.int64(-1)
        plan[FOUND] = found
        total += found + plan[SPAN_COUNT]
    found, asks = match_recent(combined, data)
    combined[COMBINED_FOUND] = found
    combined[COMBINED_ASKS] = asks
    combined[COMBINED_GATHERED] = -1
    if asks == 0 and combined[COMBINED_IDS_SIZE] and not used[USED_NAMED]:
        combined[COMBINED_GATHERED] = gather(combined, context, found)
    return total + found + asks if found >= 0 else np.int64(-1)
