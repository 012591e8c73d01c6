"""Kernels that match events against a plan, and the layout of a plan.

What must live here: the layout that `plan` fills and these functions read, and no Python objects. A
plan is three arrays: whole numbers in sections that a header locates (so a call passes three arrays
and not thirty), the numeric constants, and the bytes of all texts.

An event becomes *entries*: one for each value of each attribute that some subscription mentions,
with its type and its coordinates: the place of a number among the attribute's numeric constants,
the number of a text among its equality constants, the place of a text among its bounds. A
constraint is then an interval of coordinates and needs its constants no more.

Each filter is filed in one list, under its most selective constraint. `probe` visits the lists to
which the entries lead and checks the remaining constraints of the filters there.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import carray, extending, njit, types  # type: ignore[attr-defined]

Array = np.ndarray[Any, Any]
intrinsic: Any = extending.intrinsic

# Sections of the whole numbers. The header holds begin and end of each.
(
    NAME_TABLE, NAME_BEGIN, NAME_FIRST,
    TEXT_TABLE, TEXT_FIRST, TEXT_PLACE,
    NUMBER_BEGIN, NUMBER_LOW, NUMBER_PLACE,
    BOUND_BEGIN, BOUND_TEXT, BOUND_INNER, SAMPLE_BEGIN, SAMPLE_KEY, PREFIX_LIST, PREFIX_PARENT,
    SLOT_REVERSED, SLOT_PRESENT, SLOT_FALSE, SLOT_TRUE, SLOT_GRAMS,
    ORDERED_BEGIN, ORDERED,
    EXACT_BEGIN, EXACT_KEY, EXACT_OWNER,
    GRAM_TABLE, GRAM_SLOT, GRAM_BYTES, GRAM_LIST,
    LIST_BEGIN, RECORDS, MEMBERS, PATTERN_BEGIN,
    DENSE_SLOT, DENSE_CELL, DENSE_GROUP, DENSE_NEXT, DENSE_MASK, DENSE_BITS, DENSE_RECORD,
    ALWAYS, SECTIONS,
) = range(43)  # fmt: skip
HEADER: Final = 2 * SECTIONS

# Types of values, as bits.
INTEGER, REAL, TEXT, BOOLEAN = 1, 2, 4, 8

# Kinds of a test, in the upper bits of its first word; then type bits, negation, and the slot.
NUMBER_IN, NUMBER_NOT, NUMBER_AMONG, TEXT_IS, TEXT_NOT, TEXT_AMONG, TEXT_BETWEEN, TEXT_CONTAINS = (
    range(8)
)
BOOLEAN_IS, EXISTS, ASK = range(8, 11)
TEXT_LIKE: Final = 13  # 11 and 12 are kinds of tests in the recent index
KIND_SHIFT: Final = 26
TYPE_SHIFT: Final = 22
NEGATED: Final = 1 << 21
SLOT_MASK: Final = (1 << 21) - 1

# Ordered lists of a slot: numbers from below, from above; texts from below, from above. What is
# in one: its key; the subscription, or below zero where its record is (-1 - place); and the test
# that is left, of a record the first. So most are decided without another look at memory. `NEGATED`
# alone is a test that all pass.
NUMBER_LOW_LIST, NUMBER_HIGH_LIST, TEXT_LOW_LIST, TEXT_HIGH_LIST = range(4)
ORDERED_WIDTH: Final = 5

# Wildcards in the bytes of a pattern: no byte of UTF-8 is one of these.
ANY_CHARACTER, ANY_TEXT = 0xFE, 0xFF
# Bytes of a pattern of `like` that is tested here, by which the work on a text may grow; longer
# ones are left to RE2, which is linear in the text alone.
LONGEST_LIKE: Final = 64

NOT_FLAT: Final = -(1 << 62)
SAMPLED: Final = 8  # bounds of which one has its first bytes in the index
HASHED_AHEAD: Final = 64  # texts whose places in a hash table are computed together
STEPS: Final = 3  # in which that is done
FEW: Final = 1_024  # subscriptions, for which it is not: they are soon found, or need little memory
AHEAD: Final = 8  # rows whose lists are prefetched while one is matched
LAST_EVENT: Final = 2_000_000_000  # then their numbers begin again

CELLS: Final = 16  # into which the numbers of a dense slot are sorted
DENSE_SLOTS: Final = 31  # as many as a mask has bits
SEVERAL: Final = 1 << 30  # on a record's subscription: it may be met again, so mark it
LONG: Final = 16  # subscriptions in a span that is worth being told of as one


# An entry: so many numbers, one behind the other. `NUMBER` is the place of a number among numeric
# constants, or a boolean's value; `TEXT_NUMBER` a text's among equality constants, `BOUND` its
# place among bounds; `BEGIN` and `END` where its bytes are, of a number where it is written.
SLOT, KIND, NUMBER, TEXT_NUMBER, BOUND, BEGIN, END, WIDTH = range(8)

# What a thread writes on: the number of the event, and stamps that are compared with it: for each
# slot a stamp and the begin and end of its entries; for each list, visited; for each subscription,
# put out. `Plan.scratch` is its size. One array, because a call that passes a dozen costs more than
# what it does.


@intrinsic
def trailing_zeros(typing_context: Any, value: Any) -> Any:
    """How many zeros stand below the lowest one of a number that is not zero."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def pointer_to(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@intrinsic
def prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Prefetch a number of an array."""

    def generate(context, builder, signature, arguments):
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        at = builder.gep(held.data, [arguments[1]])
        pointer = builder.bitcast(at, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()] + [ir.IntType(32)] * 3)
        function = builder.module.globals.get("llvm.prefetch.p0i8") or ir.Function(
            builder.module, kind, "llvm.prefetch.p0i8"
        )
        hints = [ir.Constant(ir.IntType(32), hint) for hint in (0, 3, 1)]  # read, keep, data
        builder.call(function, [pointer, *hints])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


# What a call gets of a plan and of a thread's arrays: addresses and sizes, in one array. Numba
# looks at every argument of a call, at arrays for longest.
(
    WHOLE, WHOLE_SIZE, HIGHS, HIGHS_SIZE, TEXTS, TEXTS_SIZE, WORK, WORK_SIZE, OUT, OUT_SIZE,
    SPANS, SPANS_SIZE, REMOVED, REMOVED_SIZE, CHANGED, CHANGED_SIZE, MADE, MADE_SIZE,
    SCRATCH, LIMIT, FOUND, ASKED, SPAN_COUNT, VERSION, READ, CONTEXT,
) = range(26)  # fmt: skip


@njit(cache=True, nogil=True, inline="always")
def numbers_at(context, name):
    """The whole numbers that a context locates."""
    return carray(pointer_to(context[name]), (context[name + 1],), np.int32)


@njit(cache=True, nogil=True, inline="always")
def section(whole, name):
    """One section of the plan's whole numbers."""
    return whole[whole[2 * name] : whole[2 * name + 1]]


@njit(cache=True, nogil=True, inline="always")
def item(whole, name, at):
    """One number of a section, without making a view of it: views are counted, and that costs."""
    return whole[whole[2 * name] + at]


def load_bytes(builder, context, signature, arguments, bits):
    """The code that reads a number of so many bits, wherever it begins."""
    held = context.make_array(signature.args[0])(context, builder, arguments[0])
    at = builder.gep(held.data, [arguments[1]])
    return builder.load(builder.bitcast(at, ir.IntType(bits).as_pointer()), align=1)


@intrinsic
def eight_bytes(typing_context: Any, array: Any, place: Any) -> Any:
    """Eight bytes of an array as one number, wherever they begin."""

    def generate(context, builder, signature, arguments):
        return load_bytes(builder, context, signature, arguments, 64)

    return types.uint64(array, types.int64), generate


@intrinsic
def four_bytes(typing_context: Any, array: Any, place: Any) -> Any:
    """Four bytes of an array as one number, wherever they begin."""

    def generate(context, builder, signature, arguments):
        found = load_bytes(builder, context, signature, arguments, 32)
        return builder.zext(found, ir.IntType(64))

    return types.uint64(array, types.int64), generate


@njit(cache=True, nogil=True, inline="always")
def some_bytes(data, at, count):
    """Fewer than eight bytes as a number, as if zeros came behind: by reads that may overlap."""
    at = np.int64(at)
    if count >= 4:
        high = four_bytes(data, at + count - 4)
        value = four_bytes(data, at) | high << np.uint64(8 * (count - 4))
    elif count > 0:
        value = np.uint64(data[at])
        value |= np.uint64(data[at + (count >> 1)]) << np.uint64(8 * (count >> 1))
        value |= np.uint64(data[at + count - 1]) << np.uint64(8 * (count - 1))
    else:
        value = np.uint64(0)
    return value


@intrinsic
def swap_bytes(typing_context: Any, value: Any) -> Any:
    """A number with its eight bytes in the other order."""

    def generate(context, builder, signature, arguments):
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


@njit(cache=True, nogil=True)
def copy(source, begin, count, target, at):
    """Copy numbers from an array to another. Unsigned places let several be taken at once."""
    begin, at = np.uint64(begin), np.uint64(at)
    for i in range(np.uint64(count)):
        target[at + i] = source[begin + i]


@njit(cache=True, nogil=True)
def fill(target, at, count, value):
    """Write a number to successive places."""
    at = np.uint64(at)
    for i in range(np.uint64(count)):
        target[at + i] = value


@njit(cache=True, nogil=True)
def hash_bytes(data, begin, end, seed):
    """A hash of some bytes and a number."""
    value = (
        np.uint64(14695981039346656037)
        ^ np.uint64(seed)
        ^ (np.uint64(end - begin) << np.uint64(32))
    )
    at = np.int64(begin)
    while at + 8 <= end:
        value = (value ^ eight_bytes(data, at)) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(32)
        at += 8
    value = (value ^ some_bytes(data, at, end - at)) * np.uint64(0x9E3779B97F4A7C15)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64(value >> np.uint64(33))


@njit(cache=True, nogil=True)
def same_bytes(data, begin, end, other, other_begin, other_end):
    """Whether two runs of bytes are equal."""
    length = np.int64(end - begin)
    if length != other_end - other_begin:
        return False
    one = np.int64(begin)
    two = np.int64(other_begin)
    while length >= 8:
        if eight_bytes(data, one) != eight_bytes(other, two):
            return False
        one += 8
        two += 8
        length -= 8
    return some_bytes(data, one, length) == some_bytes(other, two, length)


@njit(cache=True, nogil=True)
def compare_bytes(data, begin, end, other, other_begin, other_end):
    """Below zero, zero or above it as the first bytes are below, equal or above the second."""
    left = np.int64(min(end - begin, other_end - other_begin))
    one = np.int64(begin)
    two = np.int64(other_begin)
    while left > 0:
        if left >= 8:
            a, b = eight_bytes(data, one), eight_bytes(other, two)
        else:
            a, b = some_bytes(data, one, left), some_bytes(other, two, left)
        if a != b:
            return np.int64(1) if swap_bytes(a) > swap_bytes(b) else np.int64(-1)
        one += 8
        two += 8
        left -= 8
    return np.int64((end - begin) - (other_end - other_begin))


@njit(cache=True, nogil=True)
def fill_table(table, begins, step, firsts, data):
    """Put texts, numbered slot by slot, into a hash table (a power of two long, all -1).

    The bytes of text n lie from `begins[step * n]` to `begins[step * (n + 1)]`.
    """
    mask = table.size - 1
    for slot in range(firsts.size - 1):
        for number in range(firsts[slot], firsts[slot + 1]):
            at = hash_bytes(data, begins[step * number], begins[step * number + step], slot) & mask
            while table[at] >= 0:
                at = (at + 1) & mask
            table[at] = number


@njit(cache=True, nogil=True)
def table_for(entries):
    """An empty hash table for so many entries: a power of two, at most two thirds full."""
    size = 8
    while size * 2 < entries * 3:
        size *= 2
    return np.full(size, -1, np.int32)


@njit(cache=True, nogil=True)
def number_texts(slots, begins, data, table, number, first):
    """Number texts, each with its slot, by when they occur first; how many differ.

    Gives for each its number, and for each number the place where it occurs first. The places in
    the hash table are computed some ahead, so that these reads do not wait for each other.
    """
    mask = table.size - 1
    count = 0
    hashed = np.empty(HASHED_AHEAD, np.int64)
    for start in range(0, slots.size, HASHED_AHEAD):
        end = min(start + HASHED_AHEAD, slots.size)
        for i in range(start, end):
            hashed[i - start] = hash_bytes(data, begins[i], begins[i + 1], slots[i]) & mask
            prefetch(table, hashed[i - start])
        for i in range(start, end):
            at = hashed[i - start]
            known = np.int64(table[at])
            while known >= 0 and not (
                slots[first[known]] == slots[i]
                and same_bytes(
                    data, begins[first[known]], begins[first[known] + 1],
                    data, begins[i], begins[i + 1],
                )
            ):  # fmt: skip
                at = (at + 1) & mask
                known = np.int64(table[at])
            if known < 0:
                table[at] = count
                first[count] = i
                count += 1
            number[i] = table[at]
    return count


@njit(cache=True, nogil=True)
def find_text(table, begins, step, firsts, whole, texts, slot, data, begin, end):
    """The number of a text among those of a slot, or -1; the first four name sections."""
    first = item(whole, firsts, slot)
    last = item(whole, firsts, slot + 1)
    if first == last:
        return -1
    base = whole[2 * table]
    mask = whole[2 * table + 1] - base - 1
    offsets = whole[2 * begins]
    at = hash_bytes(data, begin, end, slot) & mask
    while True:
        number = whole[base + at]
        if number < 0:
            return -1
        if first <= number < last and same_bytes(
            texts, whole[offsets + step * number], whole[offsets + step * number + step],
            data, begin, end,
        ):  # fmt: skip
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
        if highs[middle] < high or (
            highs[middle] == high and (lows[middle] if lows.size else 0) < low
        ):
            first = middle + 1
        else:
            last = middle
    place = 2 * (first - begin)
    if first < end and highs[first] == high and (lows[first] if lows.size else 0) == low:
        place += 1
    return place


@njit(cache=True, nogil=True)
def first_bytes(data, begin, end):
    """The first eight bytes of a text as a number; numbers are in the order of texts, or equal."""
    if end - begin >= 8:
        value = swap_bytes(eight_bytes(data, np.int64(begin)))
    else:
        value = swap_bytes(some_bytes(data, begin, end - begin))
    return np.int64(value ^ np.uint64(1 << 63))


@njit(cache=True, nogil=True)
def fill_samples(keys, begins, ends, texts):
    """The first bytes of some texts."""
    for i in range(keys.size):
        keys[i] = first_bytes(texts, begins[i], ends[i])


@njit(cache=True, nogil=True)
def locate_bound(slot, whole, texts, data, begin, end):
    """Twice the rank of a text among the bounds of its slot, and one more where it equals one.

    The first bytes of some of the bounds lie together; they tell between which of them to look.
    """
    wide = whole.view(np.int64)
    key = first_bytes(data, begin, end)
    keys = whole[2 * SAMPLE_KEY] >> 1
    sample = np.int64(item(whole, SAMPLE_BEGIN, slot))
    last_sample = np.int64(item(whole, SAMPLE_BEGIN, slot + 1))
    first_bound = np.int64(item(whole, BOUND_BEGIN, slot))
    low, high = sample, last_sample
    while low < high:
        middle = (low + high) >> 1
        if wide[keys + middle] < key:
            low = middle + 1
        else:
            high = middle
    while high < last_sample and wide[keys + high] == key:
        high += 1
    first = first_bound + SAMPLED * (low - 1 - sample) if low > sample else first_bound
    last = min(first_bound + SAMPLED * (high - sample), item(whole, BOUND_BEGIN, slot + 1))
    begins = whole[2 * BOUND_TEXT]
    while first < last:
        middle = (first + last) >> 1
        order = compare_bytes(
            texts, whole[begins + middle], whole[begins + middle + 1], data, begin, end
        )
        if order == 0:
            return 2 * (middle - first_bound) + 1
        if order < 0:
            first = middle + 1
        else:
            last = middle
    return 2 * (first - first_bound)


@njit(cache=True, nogil=True)
def reverse_text(data, begin, end, out, at):
    """Write a text behind another place with its characters in the other order."""
    while end > begin:
        start = end - 1
        while data[start] & 0xC0 == 0x80:  # bytes that continue a character
            start -= 1
        for i in range(start, end):
            out[at + i - start] = data[i]
        at += end - start
        end = start


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


@njit(cache=True, nogil=True, inline="always")
def next_character(data, at, end):
    """Where the character behind the one that begins here does."""
    at += 1
    while at < end and data[at] & 0xC0 == 0x80:
        at += 1
    return at


@njit(cache=True, nogil=True)
def fits(texts, first, last, data, begin, end):
    """Whether a whole text fits a pattern with wildcards, `texts[first:last]`.

    What stands before the first `ANY_TEXT` and behind the last is looked for at the ends of the
    text, each part between two at the first place where it is: another never leaves more room. So
    it takes at most the length of the text times that of the pattern.
    """
    first, last = np.int64(first), np.int64(last)
    begin, end = np.int64(begin), np.int64(end)
    while first < last and texts[first] != ANY_TEXT:
        if begin == end:
            return False
        if texts[first] == ANY_CHARACTER:
            begin = next_character(data, begin, end)
        elif texts[first] == data[begin]:
            begin += 1
        else:
            return False
        first += 1
    if first == last:
        return begin == end
    while texts[last - 1] != ANY_TEXT:
        if begin == end:
            return False
        last -= 1
        end -= 1
        if texts[last] == ANY_CHARACTER:
            while end > begin and data[end] & 0xC0 == 0x80:  # bytes that continue a character
                end -= 1
        elif texts[last] != data[end]:
            return False
    first += 1
    place, at = first, begin
    while first < last:
        if texts[place] == ANY_TEXT:  # a part is found, and the next begins
            first, begin = place + 1, at
            place = first
        elif at == end:
            return False  # from later on the part would reach further
        elif texts[place] == ANY_CHARACTER:
            at = next_character(data, at, end)
            place += 1
        elif texts[place] == data[at]:
            at += 1
            place += 1
        else:
            begin = next_character(data, begin, end)
            place, at = first, begin
    return True


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


@njit(cache=True, nogil=True, inline="always")
def passes(word, low, high, whole, texts, entries, data, work, epoch):
    """Whether the event passes one test."""
    slot = 1 + 3 * (word & SLOT_MASK)
    result = (word & NEGATED) != 0
    if work[slot] == epoch:
        kind = word >> KIND_SHIFT
        types = (word >> TYPE_SHIFT) & 15
        at = work[slot + 1]
        end = work[slot + 2]
        while at < end:
            if entries[at + KIND] & types:
                holds = False
                if kind == NUMBER_IN or kind == BOOLEAN_IS:  # noqa: SIM109 (Numba is slower with `in`)
                    holds = low <= entries[at + NUMBER] <= high
                elif kind == TEXT_IS:
                    holds = entries[at + TEXT_NUMBER] == low
                elif kind == TEXT_BETWEEN:
                    holds = low <= entries[at + BOUND] <= high
                elif kind == EXISTS:
                    holds = True
                elif kind == NUMBER_NOT:
                    holds = entries[at + NUMBER] >= 0 and entries[at + NUMBER] != low
                elif kind == TEXT_NOT:
                    holds = entries[at + TEXT_NUMBER] != low
                else:
                    holds = passes_rarely(kind, low, high, whole, texts, entries, at, data)
                if holds:
                    result = not result
                    break
            at += WIDTH
    return result


@njit(cache=True, nogil=True)
def passes_rarely(kind, low, high, whole, texts, entries, at, data):
    """The tests that take longer than a call."""
    if kind == TEXT_CONTAINS or kind == TEXT_LIKE:  # noqa: SIM109 (Numba is slower with `in`)
        first = item(whole, PATTERN_BEGIN, 2 * low)
        last = item(whole, PATTERN_BEGIN, 2 * low + 1)
        if kind == TEXT_LIKE:
            return fits(texts, first, last, data, entries[at + BEGIN], entries[at + END])
        return contains(data, entries[at + BEGIN], entries[at + END], texts, first, last)
    value = entries[at + NUMBER] if kind == NUMBER_AMONG else entries[at + TEXT_NUMBER]
    return among(whole, whole[2 * MEMBERS] + low, high, value)


@njit(cache=True, nogil=True, inline="always")
def list_place(whole):
    """Where the stamps of lists begin in a thread's array."""
    return 1 + 3 * (whole[2 * SLOT_PRESENT + 1] - whole[2 * SLOT_PRESENT])


@njit(cache=True, nogil=True, inline="always")
def seen_place(whole):
    """Where the stamps of subscriptions begin."""
    return list_place(whole) + whole[2 * LIST_BEGIN + 1] - whole[2 * LIST_BEGIN]


@njit(cache=True, nogil=True, inline="always")
def hopeless(whole, at, work, epoch):
    """Whether the first test of a record asks for an attribute that is absent, as most do."""
    word = whole[at + 2] if whole[at + 1] else 0
    return (
        whole[at + 1] > 0
        and word & NEGATED == 0
        and word >> KIND_SHIFT != ASK
        and work[1 + 3 * (word & SLOT_MASK)] != epoch
    )


@njit(cache=True, nogil=True, inline="always")
def done(whole, at, work, epoch):
    """Whether the subscription of a record has been put out already, or is not wanted."""
    owner = whole[at]
    return owner & SEVERAL != 0 and work[seen_place(whole) + (owner & ~SEVERAL)] == epoch


@njit(cache=True, nogil=True)
def check_record(at, whole, texts, entries, data, work, epoch, out, found, asks):
    """Check the filter whose record begins here, and put out its subscription if it holds.

    Residuals are put out from the end: subscription and residual, backwards.
    """
    subscription = whole[at]
    tests = whole[at + 1]
    several = subscription & SEVERAL != 0
    subscription &= ~SEVERAL
    seen = seen_place(whole) + subscription
    if several and work[seen] == epoch:
        return found, asks
    place = at + 2
    end = place + 3 * tests
    while place < end:
        word = whole[place]
        if word >> KIND_SHIFT == ASK:
            out[out.size - 1 - 2 * asks] = subscription
            out[out.size - 2 - 2 * asks] = whole[place + 1]
            return found, asks + 1
        if not passes(
            word, whole[place + 1], whole[place + 2], whole, texts, entries, data, work, epoch
        ):
            return found, asks
        place += 3
    if several:
        work[seen] = epoch
    out[found] = subscription
    return found + 1, asks


@njit(cache=True, nogil=True)
def visit(number, whole, texts, entries, data, work, epoch, out, found, asks):
    """Go through the records of one list."""
    if number < 0:
        return found, asks
    stamp = list_place(whole) + number
    if work[stamp] == epoch:
        return found, asks
    work[stamp] = epoch
    return visit_records(
        item(whole, LIST_BEGIN, number), item(whole, LIST_BEGIN, number + 1),
        whole, texts, entries, data, work, epoch, out, found, asks,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def visit_records(begin, last, whole, texts, entries, data, work, epoch, out, found, asks):
    """Go through records that lie one behind the other."""
    base = whole[2 * RECORDS]
    at = base + begin
    end = base + last
    while at < end and whole[at] >= 0 and whole[at + 1] == 0 and whole[at] & SEVERAL == 0:
        out[found] = whole[at]  # nothing left to check
        found += 1
        at += 2
    while at < end:
        place = at if whole[at] >= 0 else base - whole[at] - 1
        if not done(whole, place, work, epoch) and not hopeless(whole, place, work, epoch):
            found, asks = check_record(
                place, whole, texts, entries, data, work, epoch, out, found, asks
            )
        at += 1 if whole[at] < 0 else 2 + 3 * whole[at + 1]
    return found, asks


@njit(cache=True, nogil=True)
def visit_exact(slot, which, query, whole, spans, span_count, out, found):
    """Put out the exact filters of a list up to a key, or note them as a span if they are many."""
    begin = item(whole, EXACT_BEGIN, 4 * slot + which)
    first, last = begin, item(whole, EXACT_BEGIN, 4 * slot + which + 1)
    keys = whole[2 * EXACT_KEY]
    while first < last:
        middle = (first + last) >> 1
        if whole[keys + middle] <= query:
            first = middle + 1
        else:
            last = middle
    if first - begin < LONG or spans.size == 0:
        copy(whole, whole[2 * EXACT_OWNER] + begin, first - begin, out, found)
        return found + first - begin, span_count
    spans[2 * span_count] = 4 * slot + which
    spans[2 * span_count + 1] = first - begin
    return found, span_count + 1


@njit(cache=True, nogil=True)
def visit_ordered(
    slot, which, query, whole, texts, entries, data, work, epoch, out, found, asks, limit
):
    """Go through an ordered list up to a key. Most ask next for an attribute that is absent."""
    base = whole[2 * ORDERED]
    at = base + ORDERED_WIDTH * item(whole, ORDERED_BEGIN, 4 * slot + which)
    end = base + ORDERED_WIDTH * item(whole, ORDERED_BEGIN, 4 * slot + which + 1)
    seen = seen_place(whole)
    while at < end and whole[at] <= query and found < limit:
        word = whole[at + 2]
        if word & NEGATED != 0 or work[1 + 3 * (word & SLOT_MASK)] == epoch:
            owner = whole[at + 1]
            if owner < 0:
                place = whole[2 * RECORDS] - owner - 1
                if not done(whole, place, work, epoch):
                    found, asks = check_record(
                        place, whole, texts, entries, data, work, epoch, out, found, asks
                    )
            else:
                several = owner & SEVERAL != 0
                owner &= ~SEVERAL
                if not (several and work[seen + owner] == epoch) and passes(
                    word, whole[at + 3], whole[at + 4], whole, texts, entries, data, work, epoch
                ):
                    if several:
                        work[seen + owner] = epoch
                    out[found] = owner
                    found += 1
        at += ORDERED_WIDTH
    return found, asks


@njit(cache=True, nogil=True)
def visit_grams(slot, begin, end, whole, texts, entries, data, work, epoch, out, found, asks):
    """Look up every run of one to three bytes of a text."""
    table = whole[2 * GRAM_TABLE]
    mask = whole[2 * GRAM_TABLE + 1] - table - 1
    for start in range(begin, end):
        gram = 0
        for length in range(1, 4):
            if start + length > end:
                break
            gram = gram << 8 | data[start + length - 1]
            at = hash_gram(slot, gram, length) & mask
            while whole[table + at] >= 0:
                number = whole[table + at]
                if (
                    item(whole, GRAM_SLOT, number) == slot
                    and item(whole, GRAM_BYTES, number) == gram | length << 24
                ):
                    found, asks = visit(
                        item(whole, GRAM_LIST, number), whole, texts, entries, data, work, epoch,
                        out, found, asks,
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
def dense_rows(first, last, whole, entries, cells, rows):
    """For each dense column the cell of an event and its row of bits; those with several values.

    A column is twice a slot, for its numbers, and one more for its texts.

    The row of a cell has the bits of filters that some number in it may satisfy, and of those that
    ask nothing of the slot; a row more is for an attribute that is absent. A slot with several
    values is left to the check.
    """
    slots = whole[2 * DENSE_SLOT + 1] - whole[2 * DENSE_SLOT]
    words = whole[2 * DENSE_MASK + 1] - whole[2 * DENSE_MASK]
    bits = whole[2 * DENSE_BITS] >> 1
    several = 0
    for i in range(slots):
        slot = item(whole, DENSE_SLOT, i) >> 1
        is_text = item(whole, DENSE_SLOT, i) & 1
        cell = CELLS
        met_before = False
        at = first
        while at < last:
            if entries[at + SLOT] == slot:
                if met_before:
                    several |= 1 << i
                met_before = True
                place = -1
                if is_text:
                    if entries[at + KIND] == TEXT:
                        place = entries[at + TEXT_NUMBER]
                elif entries[at + KIND] & (INTEGER | REAL):
                    place = entries[at + NUMBER]
                if place >= 0:
                    cell = cell_of(whole, i, place)
            at += WIDTH
        cells[i] = cell
        rows[i] = bits + ((CELLS + 1) * i + cell) * words
    return several


@njit(cache=True, nogil=True)
def scan_dense(whole, cells, rows, several, candidates):
    """Filters of many ranges: a bit for each in every cell of every slot, 64 filters at a time.

    Filters lie in groups by the slot that they ask about first and the cell where that range
    begins; an event can only satisfy those of groups that begin before its own cell and reach it.
    Within a group they lie in the order of what they ask next, so that most words are passed over
    for that. Of the others the rows of the slots that they ask about leave next to nothing: the
    candidates; returns how many.
    """
    groups = whole[2 * DENSE_GROUP]
    slots = whole[2 * DENSE_SLOT + 1] - whole[2 * DENSE_SLOT]
    count = 0
    for i in range(slots):
        cell = cells[i]
        if several >> i & 1:
            count = scan_words(
                whole[groups + 2 * CELLS * i], whole[groups + 2 * CELLS * (i + 1)],
                whole, cells, rows, several, candidates, count,
            )  # fmt: skip
        elif cell < CELLS:
            for first in range(cell + 1):
                at = groups + 2 * (CELLS * i + first)
                if whole[at + 1] >= cell:
                    count = scan_words(
                        whole[at], whole[at + 2], whole, cells, rows, several, candidates, count
                    )
    at = groups + 2 * CELLS * slots  # those that ask about none of these slots
    return scan_words(whole[at], whole[at + 2], whole, cells, rows, several, candidates, count)


@njit(cache=True, nogil=True)
def scan_words(word, last, whole, cells, rows, several, candidates, count):
    """Go through words of a group."""
    masks = whole[2 * DENSE_MASK]
    nexts = whole[2 * DENSE_NEXT]
    wide = whole.view(np.int64)
    while word < last:
        # What all filters of the word ask next: a slot, and the cells from where to where.
        asked = whole[nexts + word]
        cell = cells[asked & 255]
        if several == 0 and (cell < asked >> 8 & 255 or cell > asked >> 16):
            word += 1
            continue
        mask = np.int64(whole[masks + word] & ~several)
        left = np.int64(-1)
        while mask != 0 and left != 0:
            left &= wide[rows[trailing_zeros(mask)] + word]
            mask &= mask - 1
        while left != 0:
            number = 64 * word + trailing_zeros(left)
            left &= left - 1
            candidates[count] = number
            count += 1
        word += 1
    return count


# Many events go through the cells the other way round: a bit for each event of a block, and a row
# of bits for each run of cells of each slot; what a filter asks are some of these rows.
RUNS: Final = CELLS * (CELLS + 1) // 2
RUNS_ASKED: Final = 5  # of a filter, at most
BLOCK: Final = 2_048  # events
BLOCK_ROOM: Final = 1 << 20  # candidates that they may have


@njit(cache=True, nogil=True, inline="always")
def run_of(slot, first, last):
    """The number of a run of cells."""
    return slot * RUNS + last * (last + 1) // 2 + first


@njit(cache=True, nogil=True)
def dense_runs(whole, runs):
    """For each filter in cells the runs that it asks for.

    If these are few, the row of ones besides; runs beyond those that there is room for are left
    out. For a place without a filter it is the row of none.
    """
    slots = whole[2 * DENSE_SLOT + 1] - whole[2 * DENSE_SLOT]
    base = whole[2 * RECORDS]
    for place in range(runs.shape[0]):
        runs[place, :] = slots * RUNS
        record = item(whole, DENSE_RECORD, place)
        if record < 0:
            runs[place, 0] = slots * RUNS + 1
            continue
        count = 0
        met_slots = 0
        at = base + record + 2
        for _ in range(whole[base + record + 1]):
            word = whole[at]
            kind = word >> KIND_SHIFT
            if kind in (NUMBER_IN, TEXT_IS) and word & NEGATED == 0:
                column = 2 * (word & SLOT_MASK) + (kind == TEXT_IS)
                i = 0
                while i < slots and item(whole, DENSE_SLOT, i) != column:
                    i += 1
                # Of two on one slot the first: a list may satisfy them by different values.
                if i < slots and met_slots >> i & 1 == 0 and count < runs.shape[1]:
                    met_slots |= 1 << i
                    first = cell_of(whole, i, whole[at + 1])
                    last = cell_of(whole, i, whole[at + 2])
                    runs[place, count] = run_of(i, first, last)
                    count += 1
            at += 3


@njit(cache=True, nogil=True, inline="always")
def cell_of(whole, slot, place):
    """The cell that a number of a dense slot is in."""
    cell = 0
    while cell < CELLS - 1 and place >= item(whole, DENSE_CELL, (CELLS - 1) * slot + cell):
        cell += 1
    return cell


@njit(cache=True, nogil=True)
def mark_block(first, last, begins, whole, entries, bits):
    """Set the bits of events: a row for each run of cells, one of ones, one of none."""
    slots = whole[2 * DENSE_SLOT + 1] - whole[2 * DENSE_SLOT]
    cells = np.empty(DENSE_SLOTS, np.int64)
    rows = np.empty(DENSE_SLOTS, np.int64)
    bits[:, :] = 0
    bits[slots * RUNS, :] = -1
    for event in range(last - first):
        several = dense_rows(
            begins[first + event], begins[first + event + 1], whole, entries, cells, rows
        )
        word, bit = event >> 6, np.int64(1) << (event & 63)
        for i in range(slots):
            if several >> i & 1:
                for cell in range(CELLS):
                    bits[run_of(i, cell, cell), word] |= bit
            elif cells[i] < CELLS:
                bits[run_of(i, cells[i], cells[i]), word] |= bit
    for i in range(slots):
        for final in range(CELLS):
            for begin in range(final - 1, -1, -1):
                shorter, alone = run_of(i, begin + 1, final), run_of(i, begin, begin)
                longer = run_of(i, begin, final)
                for word in range(bits.shape[1]):
                    bits[longer, word] = bits[shorter, word] | bits[alone, word]


@njit(cache=True, nogil=True)
def scan_block(bits, runs, size, events, numbers):
    """Which events of a block may satisfy which filters; how many pairs, -1 if too many.

    Unsigned places let the compiler take several words at once.
    """
    count = 0
    words = np.uint64(bits.shape[1])
    flat = bits.reshape(-1)
    held = np.empty(bits.shape[1], np.int64)
    for place in range(runs.shape[0]):
        a = np.uint64(runs[place, 0]) * words
        b = np.uint64(runs[place, 1]) * words
        c = np.uint64(runs[place, 2]) * words
        d = np.uint64(runs[place, 3]) * words
        e = np.uint64(runs[place, 4]) * words
        some = np.int64(0)
        for word in range(words):
            left = flat[a + word] & flat[b + word] & flat[c + word] & flat[d + word]
            left &= flat[e + word]
            held[word] = left
            some |= left
        for word in range(held.size if some != 0 else 0):
            left = held[word]
            while left != 0:
                event = 64 * word + trailing_zeros(left)
                left &= left - 1
                if event < size:
                    if count == events.size:
                        return -1
                    events[count] = event
                    numbers[count] = place
                    count += 1
    return count


@njit(cache=True, nogil=True)
def prefetch_lists(at, end, whole, entries, step):
    """Prefetch what `probe` will read, in three steps; each uses what the one before loaded."""
    records = whole[2 * RECORDS]
    numbered = whole[2 * NUMBER_PLACE] < whole[2 * NUMBER_PLACE + 1]
    while at < end:
        slot = entries[at + SLOT]
        which = NUMBER_LOW_LIST
        if entries[at + KIND] == TEXT:
            which = TEXT_LOW_LIST
            number = entries[at + TEXT_NUMBER]
            if number >= 0:
                prefetch_place(whole, whole[2 * TEXT_PLACE] + 2 * number + 1, records, step)
            bound = entries[at + BOUND]
            if bound >= 0:
                inner = whole[2 * BOUND_INNER] + 2 * item(whole, BOUND_BEGIN, slot) + slot + bound
                if step == 0:
                    prefetch(whole, np.int64(inner))
                elif whole[inner] >= 0:
                    place = whole[2 * PREFIX_LIST] + whole[inner]
                    if step == 1:
                        prefetch(whole, np.int64(place))
                        prefetch(whole, np.int64(whole[2 * PREFIX_PARENT] + whole[inner]))
                    else:
                        prefetch(whole, np.int64(whole[2 * LIST_BEGIN] + whole[place]))
        elif entries[at + KIND] != BOOLEAN and entries[at + NUMBER] & 1 and numbered:
            constant = item(whole, NUMBER_BEGIN, slot) + (entries[at + NUMBER] >> 1)
            prefetch_place(whole, whole[2 * NUMBER_PLACE] + constant, records, step)
        ordered = whole[2 * ORDERED_BEGIN] + 4 * slot + which
        exact = whole[2 * EXACT_BEGIN] + 4 * slot + which
        if step == 0:
            prefetch(whole, np.int64(ordered))
            prefetch(whole, np.int64(exact))
        elif step == 1:
            for i in range(2):
                begin = whole[ordered + i]
                if begin < whole[ordered + i + 1]:
                    prefetch(whole, np.int64(whole[2 * ORDERED] + ORDERED_WIDTH * begin))
                first, last = whole[exact + i], whole[exact + i + 1]
                if first < last:
                    prefetch(whole, np.int64(whole[2 * EXACT_KEY] + ((first + last) >> 1)))
        at += WIDTH


@njit(cache=True, nogil=True, inline="always")
def prefetch_place(whole, place, records, step):
    """Prefetch a place of records, or in the next step the records."""
    if step == 0:
        prefetch(whole, np.int64(place))
    elif step == 1:
        prefetch(whole, np.int64(records + whole[place]))


@njit(cache=True, nogil=True, inline="always")
def met(entries, begin, at, field):
    """Whether an earlier value of the same list, of the same sort, has the same coordinate."""
    found = False
    kind = entries[at + KIND]
    numeric = kind & (INTEGER | REAL) != 0
    while begin < at:
        other = entries[begin + KIND]
        if entries[begin + field] == entries[at + field] and (
            other == kind or (numeric and other & (INTEGER | REAL) != 0)
        ):
            found = True
        begin += WIDTH
    return found


@njit(cache=True, nogil=True)
def probe(first, last, whole, texts, entries, data, work, out, spans, limit, candidates):
    """All subscriptions that the entries of one event satisfy.

    Puts their numbers to the beginning of `out`, but for long spans of exact ones, of which
    list and length go to `spans` if that has room; and to the end of `out`, backwards, the
    subscriptions and residuals that only Python can answer. Returns how many of each. Ends as soon
    as so many are found as there can be. `candidates` are filters held in cells that are left to
    check.
    """
    work[0] += 1
    epoch = work[0]
    at = first
    while at < last:
        slot = entries[at + SLOT]
        place = 1 + 3 * slot
        work[place] = epoch
        work[place + 1] = at
        while at < last and entries[at + SLOT] == slot:
            at += WIDTH
        work[place + 2] = at
    found = 0
    asks = 0
    span_count = 0
    found, asks = visit(
        whole[2 * ALWAYS], whole, texts, entries, data, work, epoch, out, found, asks
    )
    ordered = whole[2 * ORDERED_BEGIN]
    exact = whole[2 * EXACT_BEGIN]
    numbered = whole[2 * NUMBER_PLACE] < whole[2 * NUMBER_PLACE + 1]
    at = first
    while at < last and found < limit:
        slot = entries[at + SLOT]
        end = work[1 + 3 * slot + 2]
        found, asks = visit(
            item(whole, SLOT_PRESENT, slot), whole, texts, entries, data, work, epoch,
            out, found, asks,
        )  # fmt: skip
        least_number = least_text = np.int64(1) << 40
        most_number = most_text = np.int64(-1)
        while at < end:
            kind = entries[at + KIND]
            if kind == TEXT:
                number = entries[at + TEXT_NUMBER]
                if number >= 0 and not met(entries, work[1 + 3 * slot + 1], at, TEXT_NUMBER):
                    found, asks = visit_records(
                        item(whole, TEXT_PLACE, 2 * number + 1),
                        item(whole, TEXT_PLACE, 2 * number + 3),
                        whole, texts, entries, data, work, epoch, out, found, asks,
                    )  # fmt: skip
                bound = entries[at + BOUND]
                if bound >= 0:
                    least_text = min(least_text, bound)
                    most_text = max(most_text, bound)
                    base = 2 * item(whole, BOUND_BEGIN, slot) + slot
                    node = item(whole, BOUND_INNER, base + bound)
                    while node >= 0:
                        found, asks = visit(
                            item(whole, PREFIX_LIST, node), whole, texts, entries, data, work,
                            epoch, out, found, asks,
                        )  # fmt: skip
                        node = item(whole, PREFIX_PARENT, node)
                if item(whole, SLOT_GRAMS, slot):
                    found, asks = visit_grams(
                        slot, entries[at + BEGIN], entries[at + END], whole, texts, entries, data,
                        work, epoch, out, found, asks,
                    )  # fmt: skip
            elif kind == BOOLEAN:
                truth = SLOT_TRUE if entries[at + NUMBER] else SLOT_FALSE
                found, asks = visit(
                    item(whole, truth, slot), whole, texts, entries, data, work, epoch,
                    out, found, asks,
                )  # fmt: skip
            else:
                place = entries[at + NUMBER]
                if place >= 0:
                    least_number = min(least_number, place)
                    most_number = max(most_number, place)
                    if (
                        place & 1
                        and numbered
                        and not met(entries, work[1 + 3 * slot + 1], at, NUMBER)
                    ):
                        constant = item(whole, NUMBER_BEGIN, slot) + (place >> 1)
                        found, asks = visit_records(
                            item(whole, NUMBER_PLACE, constant),
                            item(whole, NUMBER_PLACE, constant + 1),
                            whole, texts, entries, data, work, epoch, out, found, asks,
                        )  # fmt: skip
            at += WIDTH
        for which in range(4):
            present = most_number if which < TEXT_LOW_LIST else most_text
            if present < 0:
                continue
            if which & 1:
                query = -(least_number if which < TEXT_LOW_LIST else least_text)
            else:
                query = present
            place = 4 * slot + which
            if whole[exact + place] < whole[exact + place + 1]:
                found, span_count = visit_exact(
                    slot, which, query, whole, spans, span_count, out, found
                )
            if whole[ordered + place] < whole[ordered + place + 1]:
                found, asks = visit_ordered(
                    slot, which, query, whole, texts, entries, data, work, epoch, out, found, asks,
                    limit,
                )  # fmt: skip
    base = whole[2 * RECORDS]
    for i in range(candidates.size if found < limit else 0):
        record = item(whole, DENSE_RECORD, candidates[i])
        if record >= 0:  # a group may end in the middle of a word
            found, asks = check_record(
                base + record, whole, texts, entries, data, work, epoch, out, found, asks
            )
    return found, asks, span_count


@njit(cache=True, nogil=True)
def unroll(whole, spans, span_count, out, found):
    """Put out the subscriptions of spans one by one."""
    owners = whole[2 * EXACT_OWNER]
    for i in range(span_count):
        begin = item(whole, EXACT_BEGIN, spans[2 * i])
        count = spans[2 * i + 1]
        copy(whole, owners + begin, count, out, found)
        found += count
    return found


@njit(cache=True, nogil=True)
def locate_number(slot, whole, highs, high, low):
    """The coordinate of a number."""
    begins = section(whole, NUMBER_BEGIN)
    lows = section(whole, NUMBER_LOW)
    return place_number(highs, lows, begins[slot], begins[slot + 1], high, low)


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
        return 2, np.int64(swap_bytes(eight_bytes(data, at + 1))), at + 9
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
def read_value(at, slot, whole, highs, texts, data, entries, put):
    """One scalar, put down as an entry if the slot is one; the next places of both."""
    begin = at
    kind, value, at = head(data, at)
    after = at + value if kind == 3 else at + 16 if kind == 8 else at
    if slot < 0 or kind == 0:
        return after, put
    entries[put + SLOT] = slot
    entries[put + BEGIN] = begin
    if kind == 3:
        entries[put + KIND] = TEXT
        entries[put + BEGIN] = at
        entries[put + END] = after
        entries[put + TEXT_NUMBER] = -1
        if item(whole, TEXT_FIRST, slot) < item(whole, TEXT_FIRST, slot + 1):
            table = whole[2 * TEXT_TABLE]
            place = hash_bytes(data, at, after, slot) & (whole[2 * TEXT_TABLE + 1] - table - 1)
            entries[put + TEXT_NUMBER] = place
            prefetch(whole, table + place)
    elif kind == 4:
        entries[put + KIND] = BOOLEAN
        entries[put + NUMBER] = value
    elif kind == 2:
        entries[put + KIND] = REAL
        entries[put + NUMBER] = locate_number(
            slot, whole, highs, double_of(np.uint64(value)), np.int64(0)
        )
    else:
        entries[put + KIND] = INTEGER
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
        entries[put + NUMBER] = locate_number(slot, whole, highs, high, low)
    return after, put + WIDTH


@njit(cache=True, nogil=True)
def read_event(whole, highs, texts, data, entries):
    """A flat event in MessagePack as entries; where they end, or -1 where it is not flat."""
    kind, fields, at = head(data, 0)
    put = 0
    for _ in range(fields):
        kind, size, at = head(data, at)
        if kind != 3:
            return -1
        slot = find_text(
            NAME_TABLE, NAME_BEGIN, 1, NAME_FIRST, whole, texts, 0, data, at, at + size
        )
        at += size
        kind, size, after = head(data, at)
        if kind == 5:
            at = after
            for _ in range(size):
                at, put = read_value(at, slot, whole, highs, texts, data, entries, put)
        elif kind == 6 or kind == 9:
            return -1
        else:
            at, put = read_value(at, slot, whole, highs, texts, data, entries, put)
    locate_all(whole, texts, data, entries, put)
    for at in range(0, put, WIDTH):
        slot = item(whole, SLOT_REVERSED, entries[at + SLOT])
        if slot >= 0 and entries[at + KIND] == TEXT:
            begin = entries[at + BEGIN]
            end = entries[at + END]
            backwards = np.empty(end - begin, np.uint8)
            reverse_text(data, begin, end, backwards, 0)
            entries[put + SLOT] = slot
            entries[put + KIND] = TEXT
            entries[put + TEXT_NUMBER] = -1
            entries[put + BOUND] = locate_bound(slot, whole, texts, backwards, 0, backwards.size)
            put += WIDTH
    return put


@njit(cache=True, nogil=True)
def locate_all(whole, texts, data, entries, end):
    """The coordinates of all texts of an event, of which the places in the hash table are known.

    Step by step for all: each step prefetches what the next one reads, so the event waits once for
    memory and not once for each text.
    """
    table = whole[2 * TEXT_TABLE]
    places = whole[2 * TEXT_PLACE]
    records = whole[2 * RECORDS]
    for at in range(0, end, WIDTH):
        if entries[at + KIND] == TEXT and entries[at + TEXT_NUMBER] >= 0:
            number = whole[table + entries[at + TEXT_NUMBER]]
            entries[at + TEXT_NUMBER] = number
            if number >= 0:
                prefetch(whole, places + 2 * number)
    for at in range(0, end, WIDTH):
        if entries[at + KIND] == TEXT and entries[at + TEXT_NUMBER] >= 0:
            number = entries[at + TEXT_NUMBER]
            prefetch(texts, np.int64(whole[places + 2 * number]))
            prefetch(whole, records + whole[places + 2 * number + 1])
    for at in range(0, end, WIDTH):
        if entries[at + KIND] == TEXT:
            slot = entries[at + SLOT]
            number = entries[at + TEXT_NUMBER]
            begin = entries[at + BEGIN]
            last = entries[at + END]
            if number >= 0 and not (
                item(whole, TEXT_FIRST, slot) <= number < item(whole, TEXT_FIRST, slot + 1)
                and same_bytes(
                    texts, whole[places + 2 * number], whole[places + 2 * number + 2],
                    data, begin, last,
                )
            ):  # fmt: skip
                number = find_text(
                    TEXT_TABLE, TEXT_PLACE, 2, TEXT_FIRST, whole, texts, slot, data, begin, last
                )
            entries[at + TEXT_NUMBER] = number
            entries[at + BOUND] = -1
            if item(whole, BOUND_BEGIN, slot) < item(whole, BOUND_BEGIN, slot + 1):
                entries[at + BOUND] = locate_bound(slot, whole, texts, data, begin, last)


@njit(cache=True)
def match_event(context, data):
    """One event in MessagePack: how many subscriptions, or `NOT_FLAT`.

    Where some are left to ask about, it is that number below -1, and how many stands in the
    context. So does the number of spans to be put behind what is found. The work array holds
    the scratch, then room for the candidates of cells, and behind it room for an entry for each
    byte of the event. Keeps the GIL: it is over before another thread could have used it.
    """
    return match_encoded(context, data)


@njit(cache=True, nogil=True)
def match_long_event(context, data):
    """The same without the GIL, for plans that take long."""
    return match_encoded(context, data)


@njit(cache=True, nogil=True)
def match_encoded(context, data):
    """What `match_event` does.

    The list of a span is given below zero (-1 - list) where it changed since it was made. The
    context tells how many changes there were when this began.
    """
    changed = carray(pointer_to(context[CHANGED]), (context[CHANGED_SIZE],), np.int64)
    context[VERSION] = changed[changed.size - 1]
    whole = numbers_at(context, WHOLE)
    work = numbers_at(context, WORK)
    out = numbers_at(context, OUT)
    highs = carray(pointer_to(context[HIGHS]), (context[HIGHS_SIZE],), np.float64)
    texts = carray(pointer_to(context[TEXTS]), (context[TEXTS_SIZE],), np.uint8)
    scratch = context[SCRATCH]
    cells = whole[2 * DENSE_RECORD + 1] - whole[2 * DENSE_RECORD]
    candidates = work[scratch : scratch + cells + 64]
    entries = work[scratch + cells + 64 :]
    end = read_event(whole, highs, texts, data, entries)
    context[READ] = end
    if end < 0:
        return NOT_FLAT
    count = 0
    if cells:
        dense = np.empty((2, DENSE_SLOTS), np.int64)
        several = dense_rows(0, end, whole, entries, dense[0], dense[1])
        count = scan_dense(whole, dense[0], dense[1], several, candidates)
    if work[0] == LAST_EVENT:
        work[:scratch] = 0
    spans = numbers_at(context, SPANS)
    found, asks, span_count = probe(
        0, end, whole, texts, entries, data, work, out, spans, context[LIMIT],
        candidates[:count],
    )  # fmt: skip
    removed = carray(pointer_to(context[REMOVED]), (context[REMOVED_SIZE],), np.uint8)
    some_removed = removed[removed.size - 1] != 0
    if asks:
        found = unroll(whole, spans, span_count, out, found)
        span_count = 0
    if span_count:
        made = carray(pointer_to(context[MADE]), (context[MADE_SIZE],), np.int64)
        for i in range(span_count):
            number = spans[2 * i]
            if changed[number] != made[number]:
                spans[2 * i] = -1 - number
    context[SPAN_COUNT] = span_count
    if some_removed:
        kept = 0
        for i in range(found):
            number = out[i]
            out[kept] = number
            kept += (removed[number >> 3] >> (number & 7) & 1) == 0
        found = kept
    if asks == 0:
        return found
    context[ASKED] = asks
    return -1 - found


@njit(cache=True, nogil=True)
def order_by_event(events, numbers, ordered, starts):
    """Put candidates so that those of an event are together, and where those of each begin."""
    starts[:] = 0
    for i in range(events.size):
        starts[events[i] + 1] += 1
    for i in range(1, starts.size):
        starts[i] += starts[i - 1]
    at = starts[:-1].copy()
    for i in range(events.size):
        ordered[at[events[i]]] = numbers[i]
        at[events[i]] += 1


@njit(cache=True, nogil=True)
def longest(begins):
    """The length of the longest of successive parts."""
    most = 0
    for i in range(begins.size - 1):
        most = max(most, begins[i + 1] - begins[i])
    return most


@njit(cache=True, nogil=True)
def match_rows(context, row, last, begins, entries, data, runs, out, rows, asked, totals):
    """Rows of a batch until the last or until there may be no room for another.

    Puts pairs of row and subscription into `rows` and `out`, triples of row, subscription and
    residual into `asked`. Returns the next row and how many of each. With `runs`, filters in cells
    are looked at for a block of events at a time. With `totals`, pairs are only counted: there is
    one for each subscription, and behind them, for the exact ones in their order, where spans
    begin (one more) and where they have ended (one less).
    """
    whole = numbers_at(context, WHOLE)
    work = numbers_at(context, WORK)
    one = numbers_at(context, OUT)  # has the room that a single event needs
    spans = np.empty(4 * longest(begins) // WIDTH, np.int32)
    subscriptions = totals.size - 1 - (whole[2 * EXACT_OWNER + 1] - whole[2 * EXACT_OWNER])
    texts = carray(pointer_to(context[TEXTS]), (context[TEXTS_SIZE],), np.uint8)
    limit = context[LIMIT]
    scratch = context[SCRATCH]
    found = 0
    asks = 0
    cells = whole[2 * DENSE_RECORD + 1] - whole[2 * DENSE_RECORD]
    own = work[scratch : scratch + cells + 64]
    dense = np.empty((2, DENSE_SLOTS), np.int64)
    events, numbers, ordered = np.empty((3, BLOCK_ROOM if runs.size else 0), np.int32)
    slot_count = whole[2 * DENSE_SLOT + 1] - whole[2 * DENSE_SLOT]
    bits = np.empty((RUNS * slot_count + 2 if runs.size else 0, BLOCK // 64), np.int64)
    starts = np.zeros(BLOCK + 1, np.int64)
    block = row  # where the next begins
    begun = row  # where this one began
    in_block = False
    while row < last and found + one.size <= out.size and 3 * asks + 2 * one.size <= asked.size:
        candidates = own[:0]
        if runs.size and row == block:
            begun, block = row, min(row + BLOCK, last)
            mark_block(row, block, begins, whole, entries, bits)
            count = scan_block(bits, runs, block - row, events, numbers)
            in_block = count >= 0
            if in_block:
                order_by_event(events[:count], numbers, ordered, starts)
        if in_block:
            candidates = ordered[starts[row - begun] : starts[row - begun + 1]]
        elif cells:
            several = dense_rows(begins[row], begins[row + 1], whole, entries, dense[0], dense[1])
            candidates = own[: scan_dense(whole, dense[0], dense[1], several, own)]
        for step in range(STEPS if limit > FEW else 0):
            later = row + AHEAD * (STEPS - step)
            if later < last:
                prefetch_lists(begins[later], begins[later + 1], whole, entries, step)
        if work[0] == LAST_EVENT:
            work[:scratch] = 0
        here, more, span_count = probe(
            begins[row], begins[row + 1], whole, texts, entries, data, work, one, spans, limit,
            candidates,
        )  # fmt: skip
        end = found
        if totals.size:
            for i in range(here):
                totals[one[i]] += 1
            for i in range(span_count):
                begin = subscriptions + item(whole, EXACT_BEGIN, spans[2 * i])
                totals[begin] += 1
                totals[begin + spans[2 * i + 1]] -= 1
        else:
            copy(one, 0, here, out, found)
            end = unroll(whole, spans, span_count, out, found + here)
            fill(rows, found, end - found, row)
        for i in range(more):
            asked[3 * asks] = row
            asked[3 * asks + 1] = one[one.size - 1 - 2 * i]
            asked[3 * asks + 2] = one[one.size - 2 - 2 * i]
            asks += 1
        found = end
        row += 1
    return row, found, asks
