"""Filing: which list each filter is in, and how an event finds the lists.

A filter is filed under its most selective constraint: a value, a prefix, a run of bytes, the mere
presence of an attribute, or a bound in an ordered list. Filters that have nothing better than
ranges which many events satisfy are held as bits in cells.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tidings.matching import filing_kernels as fk
from tidings.matching import kernels as k
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
    NO_WAY,
    WAYS,
    Ranked,
)

Array = np.ndarray[Any, Any]

MANY_RANGES: Final = 2_048  # filters that many events come near, from which they are in cells
WIDE: Final = 0.01  # share of events that is many


class Lists:
    """Which list each filter is filed in, and how events find the lists."""

    def __init__(self, ranked: Ranked) -> None:
        tests, constants = ranked.tests, ranked.constants
        numbers, slots = constants.numbers, len(ranked.slots)
        self.ranked = ranked
        # For each filter the test it is filed under, or -1; the way, and how many go each way.
        self.filed, share = _most_selective(ranked)
        way = np.empty(ranked.filters, np.int8)
        key, slot = np.zeros(way.size, np.int64), np.zeros(way.size, np.int64)
        counts = np.zeros(WAYS, np.int64)
        fk.take_ways(
            self.filed, tests.way, tests.slot, tests.low, numbers.begins,
            np.array([*ranked.patterns.grams, 0], np.int64), way, key, slot, counts,
        )  # fmt: skip
        self.linked = (way == BY_TEXTS) | (way == BY_NUMBERS)
        self.dense = self._dense(way, share)
        way[self.dense.filters] = IN_CELLS
        self.count = 0
        self.of_filter = np.full(way.size, -1, np.int64)
        text_keys, text_filters = self._links(way, BY_TEXTS)
        number_keys, number_filters = self._links(way, BY_NUMBERS)
        self.link_filter = np.concatenate((text_filters, number_filters))
        self.link_list = np.empty(self.link_filter.size, np.int64)
        self.by_text = self._by_key(
            way, key, BY_TEXT, constants.equal.places.size, text_keys,
            self.link_list[: text_keys.size],
        )  # fmt: skip
        self.by_number = self._by_key(
            way, key, BY_NUMBER, numbers.highs.size + 1, number_keys,
            self.link_list[text_keys.size :],
        )  # fmt: skip
        self.numbered = bool(counts[BY_NUMBER] or number_keys.size)
        self.by_false, self.by_true, self.by_presence = (
            self._by_slot(way, key, slot, wanted, wanted_key, slots)
            for wanted, wanted_key in ((BY_TRUTH, 0), (BY_TRUTH, 1), (BY_PRESENCE, -1))
        )
        self.grams = self._by_gram(np.flatnonzero(way == BY_GRAM), slot, key)
        self.prefixes = self._by_prefix(np.flatnonzero(way == BY_PREFIX))
        self.always = -1
        if counts[NO_WAY]:
            self.always = self.count
            self.of_filter[way == NO_WAY] = self.count
            self.count += 1
        # What is found through links or ordered keys lies in a last list that nobody visits, which
        # is none of those counted.
        self.ordered_ones = np.flatnonzero(way == BY_ORDER)

    def _dense(self, way: Array, share: Array) -> Cells:
        """Filters of several ranges and equalities, each of which many events satisfy, if many do.

        Expected visits in lists are weighed against looking at a word for 64 filters.
        """
        tests = self.ranked.tests
        celled, chosen = np.empty(tests.filter.size, bool), np.empty(way.size, bool)
        count = fk.choose_wide(
            tests.filter, tests.kind, tests.negated, way, share, WIDE, celled, chosen
        )
        if count < MANY_RANGES:
            return Cells(self.ranked, np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Cells(self.ranked, np.flatnonzero(chosen), np.flatnonzero(celled))

    def _links(self, way: Array, wanted: int) -> tuple[Array, Array]:
        """For filters filed under a list of values: each value, and the filter."""
        tests, begins = self.ranked.tests, self.ranked.constants.numbers.begins
        keys = np.empty(fk.count_links(way, self.filed, tests.high, wanted), np.int64)
        filters = np.empty_like(keys)
        fk.link(
            way, self.filed, tests.slot, tests.low, tests.high, self.ranked.members, begins,
            wanted, keys, filters,
        )  # fmt: skip
        return keys, filters

    def _by_key(
        self, way: Array, key: Array, wanted: int, size: int, link_keys: Array, link_list: Array
    ) -> Array:
        of_key = np.empty(size, np.int64)
        self.count = fk.list_keys(
            way, key, wanted, link_keys, self.count, of_key, self.of_filter, link_list
        )
        return of_key

    def _by_slot(
        self, way: Array, key: Array, slot: Array, wanted: int, wanted_key: int, slots: int
    ) -> Array:
        of_slot = np.empty(slots, np.int64)
        self.count = fk.list_slots(
            way, key, slot, wanted, wanted_key, self.count, of_slot, self.of_filter
        )
        return of_slot

    def _by_gram(self, chosen: Array, slot: Array, key: Array) -> tuple[Array, Array, Array]:
        both = slot[chosen] << 32 | key[chosen]
        used, inverse = np.unique(both, return_inverse=True)
        self.of_filter[chosen] = self.count + inverse
        lists = self.count + np.arange(used.size)
        self.count += used.size
        return used >> 32, used & 0xFFFFFFFF, lists

    def _by_prefix(self, chosen: Array) -> tuple[Array, Array, Array]:
        """Prefixes nest, so each has a parent, and each place among the bounds an innermost one."""
        tests, bounds = self.ranked.tests, self.ranked.constants.bounds
        inner = np.empty(int(2 * bounds.begins[-1]) + len(self.ranked.slots), np.int64)
        parents = np.empty(chosen.size, np.int64)
        count = fk.nest_prefixes(
            chosen, self.filed, tests.slot, tests.low, tests.high, bounds.begins, self.count,
            self.of_filter, inner, parents,
        )  # fmt: skip
        lists = self.count + np.arange(count)
        self.count += count
        return inner, lists, parents[:count]

    def by_order(self, done: Array) -> None:
        """Filters in ordered lists, by slot, list and key; apart those that are done with that."""
        settled = done[self.ordered_ones]
        self.in_order, self.order_begins, self.order_keys = self._sorted(
            self.ordered_ones[~settled]
        )
        self.settled, self.settled_begins, self.settled_keys = self._sorted(
            self.ordered_ones[settled]
        )

    def _sorted(self, chosen: Array) -> tuple[Array, Array, Array]:
        """Filters by slot, list and key."""
        tests, (numbers, _, bounds) = self.ranked.tests, self.ranked.constants
        keys = np.empty(chosen.size, np.int64)
        fk.order_keys(
            chosen, self.filed, tests.kind, tests.slot, tests.low, tests.high,
            numbers.counts, bounds.counts, keys,
        )  # fmt: skip
        in_order, values = np.empty_like(chosen), np.empty_like(keys)
        begins = np.empty(4 * len(self.ranked.slots) + 1, np.int64)
        order = np.argsort(keys, kind="stable")
        fk.take_order(chosen, keys, order, in_order, begins, values)
        return in_order, begins, values


class Cells:
    """Filters of ranges and equalities held as bits in cells: see `kernels.scan_dense`.

    A column is an attribute's numbers or its texts; equalities are ranges of one value.
    """

    def __init__(self, ranked: Ranked, chosen: Array, test: Array) -> None:
        """With the filters chosen, and their tests that cells can hold."""
        tests = ranked.tests
        held = np.empty(test.size, bool)
        frequency = np.zeros(2 * len(ranked.slots), np.int64)
        fk.count_columns(test, tests.filter, tests.slot, tests.kind, held, frequency)
        columns = np.argsort(-frequency, kind="stable")[: k.DENSE_SLOTS]
        self.columns = np.sort(columns[frequency[columns] > 0])
        position = np.full(frequency.size, -1)
        position[self.columns] = np.arange(self.columns.size)
        self.cells = np.zeros((self.columns.size, k.CELLS - 1), np.int64)  # where they meet
        fk.cut_cells(
            test, held, tests.slot, tests.kind, tests.low, tests.high, position, self.cells
        )
        first, last = (np.full((chosen.size, self.columns.size), -1, np.int8) for _ in "12")
        group, order = np.empty(chosen.size, np.int64), np.empty(chosen.size, np.int64)
        reach, sizes = (np.zeros(self.columns.size * k.CELLS + 1, np.int64) for _ in "12")
        words = fk.find_cells(
            chosen, test, held, tests.filter, tests.slot, tests.kind, tests.low, tests.high,
            position, self.cells, first, last, group, order, reach, sizes,
        )  # fmt: skip
        in_order = np.argsort(order, kind="stable")
        self.filters = chosen[in_order]
        # Every group begins with a word of its own.
        self.groups = np.empty(2 * sizes.size + 1, np.int64)
        self.places = np.full(64 * words, -1)  # of each bit its filter
        self.following = np.empty(words, np.int64)  # the column that is asked next, and the cells
        self.masks = np.empty(words, np.int32)  # the columns that are asked
        bits = np.empty(self.columns.size * (k.CELLS + 1) * words, np.uint64)
        fk.fill_cells(
            chosen, in_order, first, last, group, reach, sizes,
            self.groups, self.places, self.following, self.masks, bits,
        )  # fmt: skip
        self.bits = bits.view(np.int32)


def _most_selective(ranked: Ranked) -> tuple[Array, Array]:
    """For each filter its most selective test, or -1, and the share of events that satisfy it."""
    tests, constants = ranked.tests, ranked.constants
    filed = np.full(ranked.filters, -1, np.int64)
    least = np.full(ranked.filters, np.inf)
    given = ranked.shares is not None
    shares = ranked.shares if ranked.shares is not None else np.zeros(0)
    mentioned = np.bincount(tests.slot, minlength=len(ranked.slots)) / max(ranked.filters, 1)
    fk.choose(
        tests.filter, tests.slot, tests.kind, tests.low, tests.high, tests.way, tests.negated,
        np.minimum(mentioned, 1.0), constants.numbers.counts, constants.equal.counts,
        constants.bounds.counts, given, shares,
        filed, least,
    )  # fmt: skip
    return filed, least
