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
    Ranked,
    Tests,
    count_within,
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
        counts = np.zeros(NO_WAY + 1, np.int64)
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
        test = self.filed[chosen]
        low = bounds.base(tests.slot[test]) + tests.low[test]
        high = bounds.base(tests.slot[test]) + tests.high[test]
        nodes, first, inverse = np.unique(low, return_index=True, return_inverse=True)
        self.of_filter[chosen] = self.count + inverse
        lists = self.count + np.arange(nodes.size)
        self.count += nodes.size
        ends = high[first]
        inner = np.full(int(2 * bounds.begins[-1]) + len(self.ranked.slots), -1, np.int64)
        parent = np.full(nodes.size, -1, np.int64)
        fk.nest_prefixes(nodes, ends, inner, parent)
        return inner, lists, parent

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
        filters = ranked.filters if chosen.size else 0
        looked_at = slice(tests.filter.size if chosen.size else 0)
        of_test = 2 * tests.slot[looked_at] + (tests.kind[looked_at] == k.TEXT_IS)
        columns = 2 * len(ranked.slots)
        # Of several constraints of a filter on a column the first: a list may satisfy them apart.
        key = tests.filter[test] * columns + of_test[test]
        test = test[np.unique(key, return_index=True)[1]]
        frequency = np.bincount(of_test[test], minlength=columns)
        self.columns = np.argsort(-frequency, kind="stable")[: k.DENSE_SLOTS]
        self.columns = np.sort(self.columns[frequency[self.columns] > 0])
        position = np.full(columns, -1)
        position[self.columns] = np.arange(self.columns.size)
        position = position[of_test]  # of each test that of its column
        test = test[position[test] >= 0]
        mask = np.zeros(filters, np.int64)
        np.bitwise_or.at(mask, tests.filter[test], 1 << position[test])
        self.cells = [
            self._cuts(tests, test[position[test] == column]) for column in range(self.columns.size)
        ]
        group, order, reach, following = self._groups(tests, test, position, filters)
        self.filters = chosen[order[chosen].argsort(kind="stable")]
        # Every group begins with a word of its own.
        groups = self.columns.size * k.CELLS + 1
        sizes = np.bincount(group[self.filters], minlength=groups)
        ends = np.cumsum(-(-sizes // 64))
        words = int(ends[-1])
        starts = np.concatenate(([0], ends[:-1]))
        self.groups = np.append(np.column_stack((starts, reach)).reshape(-1), words)
        place = 64 * starts[group[self.filters]] + count_within(group[self.filters])
        self.places = np.full(64 * words, -1)  # of each bit its filter
        self.places[place] = self.filters
        self.following = self._following(following, words)
        padded = np.zeros(64 * words, np.int64)
        padded[place] = mask[self.filters]
        self.masks = np.bitwise_or.reduce(padded.reshape(words, 64), axis=1).astype(np.int32)
        number = np.full(filters, -1)
        number[self.filters] = place
        rows: list[Array] = []
        for column, cuts in enumerate(self.cells):
            here = test[position[test] == column]
            low, high, at = tests.low[here], tests.high[here], number[tests.filter[here]]
            first = np.searchsorted(cuts, low, side="right")
            last = np.searchsorted(cuts, high, side="right")
            asks = np.zeros(64 * words, bool)
            asks[at] = True
            begin = np.zeros(64 * words, np.int8)
            end = np.full(64 * words, k.CELLS, np.int8)
            end[self.places < 0] = -1
            begin[at], end[at] = first, last
            rows += [_packed((begin <= cell) & (cell <= end)) for cell in range(k.CELLS)]
            rows.append(_packed(~asks & (self.places >= 0)))
        self.bits = np.concatenate([*rows, np.zeros(0, np.int32)])

    @staticmethod
    def _cuts(tests: Tests, here: Array) -> Array:
        """Where the cells of a slot meet: as many bounds of constraints in each."""
        ends = np.concatenate((tests.low[here], tests.high[here] + 1))
        cuts: Array = np.quantile(ends, np.arange(1, k.CELLS) / k.CELLS, method="nearest")
        return cuts

    def _groups(
        self, tests: Tests, test: Array, position: Array, filters: int
    ) -> tuple[Array, Array, Array, Array]:
        """For each filter its group and where it belongs; for each group the last cell it reaches.

        And for each filter what it asks next: column, first and last cell; -1 if nothing.

        A group is a column and the cell where the range begins that is asked of it first; within it
        the order is by the next. So the filters of a word ask for much the same, and for most
        events a look or two at the word leaves nothing of it.
        """
        test = test[np.lexsort((position[test], tests.filter[test]))]
        column = position[test]
        first = np.zeros(test.size, np.int64)
        last = np.zeros(test.size, np.int64)
        for number, cuts in enumerate(self.cells):
            here = column == number
            first[here] = np.searchsorted(cuts, tests.low[test[here]], side="right")
            last[here] = np.searchsorted(cuts, tests.high[test[here]], side="right")
        key = k.CELLS * column + first
        nth = count_within(tests.filter[test])
        none = k.CELLS * self.columns.size
        group = np.full(filters, none, np.int64)
        group[tests.filter[test[nth == 0]]] = key[nth == 0]
        reach = np.zeros(none + 1, np.int64)
        np.maximum.at(reach, key[nth == 0], last[nth == 0])
        order = group << 20
        order[tests.filter[test[nth == 1]]] += key[nth == 1]
        following = np.full((filters, 3), -1, np.int64)
        following[tests.filter[test[nth == 1]]] = np.column_stack((column, first, last))[nth == 1]
        return group, order, reach, following

    def _following(self, following: Array, words: int) -> Array:
        """For each word the column that all its filters ask next, and for which cells."""
        held = self.places.reshape(words, 64)
        slot, first, last = (
            np.where(held < 0, nothing, following[held, column])
            for column, nothing in ((0, -2), (1, k.CELLS), (2, 0))
        )
        # An empty place agrees with any slot.
        most = slot.max(axis=1)
        same = ((slot == most[:, None]) | (held < 0)).all(axis=1) & (most >= 0)
        found: Array = np.where(
            same,
            np.maximum(most, 0) | first.min(axis=1) << 8 | last.max(axis=1) << 16,
            k.CELLS << 16,
        )
        return found


def _packed(bits: Array) -> Array:
    """Bits as whole numbers, the first lowest; so many that each 64 fill two."""
    return np.packbits(bits, bitorder="little").view(np.int32)


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
