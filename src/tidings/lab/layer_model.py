"""The model of paper L, sections 2.1 and 4.1 (L5): formulas, and a law that holds in every run.

An event visits at most H nodes; a subscription has R replicas; there are N nodes. I_s and I_r are
the greatest load of a node by the mean, of storage and of routing. The paper states, without its
proof, that in the worst case H * R * I_s >= N and H * R * I_r >= N. The proof gives more:

- An event that matches a share f of the subscriptions meets them on at most H nodes, so one of
  these holds f / H of all. The mean of all nodes is R / N, hence H * R * I_s >= f * N.
- A subscription that a share g of the events matches has R replicas, and each of these events
  visits one of them, so one sees g / R of all. The mean is at most H / N, hence
  H * R * I_r >= g * N.

With the greatest f and g that were measured this must hold in every run of every scheme, not only
in the worst case f = g = 1. `law` computes both sides, and `assert_law` refuses a run that breaks
it: then something was counted wrongly. Where copies differ, storage takes their mean, and routing
each subscription's own.

Past the paper's idle nodes, a step waits as in a queue with Poisson arrivals and constant service
(M/D/1), and the rate is bound by the busiest node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final, NamedTuple

from tidings.routing.layers.placement import Regions

TOLERANCE: Final = 1e-9


class LawBroken(AssertionError):
    """A run that cannot be: fewer hops, copies or loads than its deliveries take."""


class Law(NamedTuple):
    """By how much a run keeps the two bounds: 1 is the bound itself, and nothing is below it."""

    storage: float  # H * R * I_s / (f * N)
    routing: float  # H * R * I_r / (g * N)


def imbalance(loads: Sequence[float]) -> float:
    """The greatest load by the mean; with no load at all it has no meaning.

    >>> imbalance([1, 1, 4])
    2.0
    """
    total = sum(loads)
    if total <= 0:
        raise ValueError("expected some load, found none: its imbalance has no meaning")
    return max(loads) * len(loads) / total


def law(
    stored: Sequence[float],
    visited: Sequence[float],
    hops: int,
    subscriptions: int,
    events: int,
    most_met: int,
    matches: Iterable[tuple[int, int]],
) -> Law:
    """Both bounds, from what was counted.

    `stored` are the copies and `visited` the visits of each node, `hops` the most nodes that an
    event visited, `most_met` the most subscriptions that one event matched, and `matches` tells of
    each subscription how many events it matched and how many replicas it has.
    """
    nodes = len(stored)
    copies = sum(stored) / subscriptions
    storage = routing = inf
    if most_met:
        share = most_met / subscriptions
        storage = hops * copies * imbalance(stored) / (share * nodes)
    greatest = max((matched / replicas for matched, replicas in matches if matched), default=0.0)
    if greatest:
        routing = hops * imbalance(visited) / (greatest / events * nodes)
    return Law(storage, routing)


def assert_law(found: Law) -> Law:
    """The law itself, in every run."""
    if min(found) < 1 - TOLERANCE:
        raise LawBroken(f"expected both sides at least 1, found {found}")
    return found


# What a node stores and sees, by region


def stores(subscriptions: Sequence[float], shape: Regions) -> list[float]:
    """What a node of each region stores, if so many subscriptions have each key: S / H, summed.

    The window smooths: one hot key is shared by H regions.

    >>> stores([6, 0, 0, 0], Regions(regions=4, hops=2))
    [3.0, 0.0, 0.0, 3.0]
    """
    return [load / len(shape.window()) for load in visits(subscriptions, shape)]


def visits(events: Sequence[float], shape: Regions) -> list[float]:
    """How many events visit each region, if so many have each key."""
    if len(events) != shape.regions:
        raise ValueError(f"expected {shape.regions} keys, found {len(events)}")
    window = shape.window()
    return [
        float(sum(events[(region - offset) % shape.regions] for offset in window))
        for region in range(shape.regions)
    ]


def hot_key_imbalance(share: float, shape: Regions) -> float:
    """I_s and I_r if one key has this share of the load and the others are even.

    With all the load at one key it is X / H = N / (H * R), the paper's equality; without it, 1.
    """
    return share * shape.regions / min(shape.hops, shape.regions) + (1 - share)


# Latency and throughput


def latency(hop: float, matching: Sequence[float]) -> float:
    """Of an idle walk: k1 * H and the sum of the matching times (paper L, 4.1)."""
    return hop * len(matching) + sum(matching)


def scatter_latency(hop: float, matching: Sequence[float]) -> float:
    """Of an idle event that asks all regions at once, and waits for the slowest."""
    return hop + max(matching)


def throughput(matching: Sequence[float]) -> float:
    """Of a string of idle nodes: that of the slowest (paper L, 4.1)."""
    return min(1 / one for one in matching)


def waiting(utilisation: float, service: float) -> float:
    """How long a visit waits in a queue with Poisson arrivals and constant service (M/D/1)."""
    if utilisation >= 1:
        return inf
    return utilisation / (2 * (1 - utilisation)) * service


def utilisation(rate: float, nodes: int, hops: int, unevenness: float, service: float) -> float:
    """The share of time that the busiest node works, at so many events a second."""
    return rate * hops * unevenness / nodes * service


def greatest_rate(nodes: int, hops: int, unevenness: float, service: float) -> float:
    """The events a second at which the busiest node never rests."""
    return nodes / (hops * unevenness * service)


def best_hops(subscriptions: int, memory: int) -> int:
    """H that optimises latency where memory is short: as many nodes as hold a window's worth.

    The paper sums over "subscriptions"; those of one window are meant, not those of the system.
    """
    return subscriptions // memory + 1
