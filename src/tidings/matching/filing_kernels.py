"""The kernels of filing."""

from __future__ import annotations

import numpy as np
from numba import njit

from tidings.matching.kernels import NUMBER_IN
from tidings.matching.ranking import (
    BY_GRAM,
    BY_NUMBER,
    BY_NUMBERS,
    BY_ORDER,
    BY_PREFIX,
    BY_TEXT,
    BY_TEXTS,
    BY_TRUTH,
    NO_WAY,
)


@njit(cache=True, nogil=True)
def nest_prefixes(nodes, ends, inner, parent):
    """Walk the nested intervals in order of their beginning, keeping the open ones on a stack."""
    stack = np.empty(nodes.size + 1, np.int64)
    depth = 0
    for node in range(nodes.size):
        while depth and ends[stack[depth - 1]] < nodes[node]:
            depth -= 1
        parent[node] = stack[depth - 1] if depth else -1
        stack[depth] = node
        depth += 1
        for place in range(nodes[node], ends[node] + 1):
            inner[place] = node


@njit(cache=True, nogil=True)
def choose(
    filter, slot, kind, low, high, way, negated, weight, numbers, equal, bounds, given, shares,
    filed, least,
):  # fmt: skip
    """Find the most selective test of each filter, by shares given or as far as filters tell."""
    for test in range(filter.size):
        if negated[test] or way[test] == NO_WAY:
            continue
        if given:
            share = shares[test]
        else:
            at = slot[test]
            share = weight[at] * estimate(
                way[test], kind[test], low[test], high[test], numbers[at], equal[at], bounds[at]
            )
        if share < least[filter[test]]:
            least[filter[test]] = share
            filed[filter[test]] = test


@njit(cache=True, nogil=True)
def estimate(way, kind, low, high, numbers, equal, bounds):
    """The share of values that satisfy a test, where there are so many constants."""
    if way == BY_TEXT:
        return 1.0 / max(equal, 1)
    if way == BY_NUMBER:
        return 1.0 / max(numbers, 1)
    if way == BY_TEXTS:
        return high / max(equal, 1)
    if way == BY_NUMBERS:
        return high / max(numbers, 1)
    if way == BY_TRUTH:
        return 0.5
    if way == BY_PREFIX:
        return 0.05
    if way == BY_GRAM:
        return 0.1
    if way == BY_ORDER:
        top = 2 * (numbers if kind == NUMBER_IN else bounds)
        return (np.int64(high) - low + 1) / (top + 1)
    return 1.0
