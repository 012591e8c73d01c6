"""Kernels that turn the values of Arrow columns into entries.

What must live here: the functions that `columns` calls for every column, and those that put the
entries of all columns in the order of rows. Values in a column repeat, so each distinct one is
located among the constants once.

Numba caches a compiled function until the function's own file changes, even if a function it calls
has changed. After a change in `kernels`, change this file too or delete its cache; the tests delete
it by themselves.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from tidings.matching.kernels import (
    BEGIN,
    BOUND,
    BOUND_BEGIN,
    END,
    INTEGER,
    KIND,
    NUMBER,
    NUMBER_BEGIN,
    SLOT,
    TEXT,
    TEXT_FIRST,
    TEXT_NUMBER,
    TEXT_PLACE,
    TEXT_TABLE,
    WIDTH,
    eight_bytes,
    find_text,
    hash_bytes,
    item,
    locate_bound,
    locate_number,
    prefetch,
    reverse_text,
    same_bytes,
    split_integer,
    trailing_zeros,
)

FAR: Final = 4_096  # from this many constants on, a search among them waits for memory
REMEMBERED: Final = 1_024  # integers whose coordinates are remembered


@njit(cache=True, nogil=True)
def distinct_texts(offsets, data, places, first, codes, begins, ends):
    """Find the distinct texts of a column; returns how many there are.

    Writes the code of each text in `places` to `codes`, and where the bytes of each distinct text
    lie to `begins` and `ends`. The bytes of text n lie from `offsets[n]` to `offsets[n + 1]`,
    counted from `first`.
    """
    size = 16
    while size < 2 * places.size:
        size *= 2
    table = np.full(size, -1, np.int32)
    mask = size - 1
    count = 0
    for i in range(places.size):
        begin = np.int64(offsets[places[i]] - first)
        end = np.int64(offsets[places[i] + 1] - first)
        at = hash_bytes(data, begin, end, 0) & mask
        code = np.int64(table[at])
        while code >= 0 and not same_bytes(data, begins[code], ends[code], data, begin, end):
            at = (at + 1) & mask
            code = np.int64(table[at])
        if code < 0:
            code = np.int64(count)
            table[at] = count
            begins[count] = begin
            ends[count] = end
            count += 1
        codes[i] = code
    return count


@njit(cache=True, nogil=True)
def enter_texts(slot, whole, texts, data, codes, begins, ends, shift, entries):
    """Write the entries of texts; `codes` says which distinct text each one is."""
    numbers = np.empty(begins.size, np.int32)
    bounds = np.empty(begins.size, np.int32)
    locate_texts(slot, whole, texts, data, begins, ends, numbers, bounds)
    for i in range(codes.size):
        code = codes[i]
        entries[i, SLOT] = slot
        entries[i, KIND] = TEXT
        entries[i, NUMBER] = 0
        entries[i, TEXT_NUMBER] = numbers[code]
        entries[i, BOUND] = bounds[code]
        entries[i, BEGIN] = begins[code] + shift
        entries[i, END] = ends[code] + shift


@njit(cache=True, nogil=True)
def enter_reversed(slot, whole, texts, data, codes, begins, ends, entries):
    """Write the entries of the same texts reversed; only their place among bounds is ever used."""
    longest = 0
    for i in range(begins.size):
        longest = max(longest, ends[i] - begins[i])
    backwards = np.empty(longest, np.uint8)
    bounds = np.empty(begins.size, np.int32)
    for i in range(begins.size):
        reverse_text(data, begins[i], ends[i], backwards, 0)
        bounds[i] = locate_bound(slot, whole, texts, backwards, 0, ends[i] - begins[i])
    for i in range(codes.size):
        entries[i, :] = 0
        entries[i, SLOT] = slot
        entries[i, KIND] = TEXT
        entries[i, TEXT_NUMBER] = -1
        entries[i, BOUND] = bounds[codes[i]]


@njit(cache=True, nogil=True)
def locate_texts(slot, whole, texts, data, begins, ends, numbers, places):
    """Find the coordinates of many texts, whose bytes lie from `begins` to `ends`.

    It reads the hash table for all texts before it compares any, so the reads do not wait for each
    other.
    """
    count = numbers.size
    base = whole[2 * TEXT_TABLE]
    mask = whole[2 * TEXT_TABLE + 1] - base - 1
    offset = whole[2 * TEXT_PLACE]
    first = item(whole, TEXT_FIRST, slot)
    last = item(whole, TEXT_FIRST, slot + 1)
    guess = np.empty(count, np.int32)
    begin = np.empty(count, np.int32)
    if first < last:
        for i in range(count):
            guess[i] = hash_bytes(data, begins[i], ends[i], slot) & mask
        for i in range(count):
            guess[i] = whole[base + guess[i]]
        for i in range(count):
            begin[i] = whole[offset + 2 * guess[i]] if first <= guess[i] < last else -1
            if begin[i] >= 0:
                prefetch(texts, np.int64(begin[i]))
    bounds = item(whole, BOUND_BEGIN, slot + 1) - item(whole, BOUND_BEGIN, slot)
    for i in range(count):
        numbers[i] = -1
        places[i] = -1
        if first < last:
            number = guess[i]
            if begin[i] >= 0 and same_bytes(
                texts, begin[i], whole[offset + 2 * number + 2], data, begins[i], ends[i]
            ):
                numbers[i] = number
            elif number >= 0:
                numbers[i] = find_text(
                    TEXT_TABLE, TEXT_PLACE, 2, TEXT_FIRST, whole, texts, slot,
                    data, begins[i], ends[i],
                )  # fmt: skip
        if bounds:
            places[i] = locate_bound(slot, whole, texts, data, begins[i], ends[i])


@njit(cache=True, nogil=True)
def enter_integers(slot, whole, highs, values, entries):
    """Write the entries of integers; the coordinates of recent values are remembered."""
    known = np.zeros(REMEMBERED, np.int64)
    remembered = np.full(REMEMBERED, -1, np.int32)
    for i in range(values.size):
        value = values[i]
        at = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(54)
        if known[at] != value or remembered[at] < 0:
            high, low = split_integer(value)
            known[at] = value
            remembered[at] = locate_number(slot, whole, highs, high, low)
        entries[i, :] = 0
        entries[i, SLOT] = slot
        entries[i, KIND] = INTEGER
        entries[i, NUMBER] = remembered[at]


@njit(cache=True, nogil=True)
def locate_reals(slot, whole, highs, values, places):
    """Find the coordinates of many reals; among many constants in sorted order, for the cache."""
    constants = item(whole, NUMBER_BEGIN, slot + 1) - item(whole, NUMBER_BEGIN, slot)
    if constants < FAR or values.size < FAR:
        for i in range(values.size):
            places[i] = locate_number(slot, whole, highs, values[i], np.int64(0))
    else:
        for i in np.argsort(values):
            places[i] = locate_number(slot, whole, highs, values[i], np.int64(0))


@njit(cache=True, nogil=True)
def enter_numbers(slot, kind, places, entries):
    """Write the entries of numbers or booleans."""
    for i in range(places.size):
        entries[i, :] = 0
        entries[i, SLOT] = slot
        entries[i, KIND] = kind
        entries[i, NUMBER] = places[i]


@njit(cache=True, nogil=True)
def count_rows(rows, counts):
    """Add the number of entries of row n to `counts[n + 1]`."""
    for entry in range(rows.size):
        counts[rows[entry] + 1] += 1


@njit(cache=True, nogil=True)
def order_by_row(rows, at, entries, ordered):
    """Copy entries to where those of their row continue, and advance that place in `at`."""
    for entry in range(rows.size):
        place = at[rows[entry]]
        at[rows[entry]] += 1
        for i in range(WIDTH):
            ordered[place, i] = entries[entry, i]


@njit(cache=True, nogil=True)
def ones(bits, offset, length, found):
    """Write the places of the set bits, counted from an offset; returns how many there are."""
    count = 0
    at = 0
    while at < length:
        place = offset + at
        if place & 7 == 0 and at + 64 <= length:
            word = eight_bytes(bits, place >> 3)
            left = np.int64(word)
            while left != 0:
                found[count] = at + trailing_zeros(left)
                left &= left - 1
                count += 1
            at += 64
        else:
            if bits[place >> 3] >> (place & 7) & 1:
                found[count] = at
                count += 1
            at += 1
    return count
