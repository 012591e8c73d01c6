"""Events on their walk through nodes that take time: a simulation without protocol (L5 to L7).

It follows `tidings.routing.layers.placement`, so it stores subscriptions where the protocol does
and visits the regions that the protocol visits; it leaves out everything else, so that a thousand
nodes and a hundred thousand events take seconds. Every hop takes the same time, and nodes serve in
the order of arrival (`tidings.sim.service`). All chance is a hash of numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.lab.layer_model import Law, assert_law, law
from tidings.routing.layers.placement import Placement, Regions
from tidings.sim.service import Service


def drawn(*of: str | int) -> int:
    """A number that depends on these alone, as good as chance."""
    return int.from_bytes(blake2b(repr(of).encode(), digest_size=8).digest())


class Trip(NamedTuple):
    """A walk of an event: when it begins, and the nodes with the time that each takes for it.

    Where `others` has as many stops, an event takes whichever of the two nodes is free first.
    """

    event: int
    start_ns: int
    stops: tuple[tuple[str, int], ...]
    others: tuple[tuple[str, int], ...] = ()


def travel(trips: Sequence[Trip], hop_ns: int, service: Service) -> dict[int, int]:
    """Let events walk; how long each took, until the last of its trips was through."""
    took: dict[int, int] = {}
    queue = [(trip.start_ns + hop_ns, number, 0) for number, trip in enumerate(trips)]
    heapify(queue)
    while queue:
        now, number, step = heappop(queue)
        trip = trips[number]
        node, cost = trip.stops[step]
        if trip.others:
            other, other_cost = trip.others[step]
            if service.free_at.get(other, 0) < service.free_at.get(node, 0):
                node, cost = other, other_cost
        done = service.work(now, node, cost)
        if step + 1 < len(trip.stops):
            heappush(queue, (done + hop_ns, number, step + 1))
        else:
            took[trip.event] = max(took.get(trip.event, 0), done - trip.start_ns)
    return took


class Layer:
    """The subscriptions of an application on nodes, and where its events go.

    `weight` subscriptions are counted for each that is put, so that a sample can stand for all.
    """

    def __init__(
        self,
        name: str,
        nodes: Iterable[str],
        shape: Regions,
        division: str = "rank",
        weight: float = 1.0,
        choices: Mapping[str, float] | None = None,
    ) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        self.placement = Placement.of(name, self.nodes, shape, division)
        self.weight = weight
        self.capacity = choices  # of nodes, if events choose replicas by it
        self.homes: Counter[tuple[int, int]] = Counter()  # subscriptions by key and home
        self.stored: Counter[str] = Counter()  # copies by node
        self.visited: Counter[str] = Counter()  # events by node
        self.hops = 0  # the most that an event made

    def put(self, number: int, key: int) -> int:
        """Store a subscription; its home, whose nodes have it now."""
        (home,) = self.placement.shape.homes(key, drawn("put", number, key))
        self.store(key, home)
        return home

    def store(self, key: int, home: int) -> None:
        """Store a subscription at a home."""
        self.homes[key, home] += 1
        for node in self.placement.members(home):
            self.stored[node] += 1

    def load(self, node: str) -> float:
        """How many subscriptions a node stores."""
        return self.stored[node] * self.weight

    def route(self, number: int, keys: Iterable[int]) -> list[tuple[str, ...]]:
        """The nodes that an event visits: a walk for each key, in order."""
        walks = []
        for key in sorted(keys):
            walk = tuple(
                self._one_of(nodes, number, key, step)
                for step, (nodes, _) in enumerate(self.placement.stops(key))
            )
            self.visited.update(walk)
            walks.append(walk)
        self.hops = max(self.hops, sum(map(len, walks)))
        return walks

    def _one_of(self, nodes: Sequence[str], number: int, key: int, step: int) -> str:
        draw = drawn("step", number, key, step)
        if self.capacity is None:
            return nodes[draw % len(nodes)]
        left = draw / 2**64 * sum(self.capacity[node] for node in nodes)
        for node in nodes:
            left -= self.capacity[node]
            if left < 0:
                return node
        return nodes[-1]

    def met(self, key: int) -> int:
        """How many subscriptions of a key an event with this key meets."""
        homes = [home for _, homes in self.placement.stops(key) for home in homes]
        return sum(self.homes[key, home] for home in homes)

    def checked_law(
        self,
        subscriptions: int,
        events: int,
        most_met: int,
        matched: Iterable[tuple[Collection[int], int]],
    ) -> Law:
        """The law of the model, asserted.

        `matched` tells of each subscription its homes, and how many events it matched; of those
        with equal homes, the one that matched the most is enough.
        """
        return assert_law(
            law(
                [self.stored[node] for node in self.nodes],
                [self.visited[node] for node in self.nodes],
                self.hops,
                subscriptions,
                events,
                most_met,
                ((count, self._replicas(homes)) for homes, count in matched),
            )
        )

    def _replicas(self, homes: Collection[int]) -> int:
        """The nodes that have a subscription with these homes."""
        return len({node for home in homes for node in self.placement.members(home)})


def popularity(keys: int, skew: str, order: NDArray[np.int64]) -> NDArray[np.float64]:
    """How likely each key is: by Zipf's law with an exponent, or `one` for one hot key."""
    ranks = np.arange(1, keys + 1)
    weights = ranks == 1 if skew == "one" else ranks ** -float(skew)
    return np.asarray((weights / weights.sum())[order], np.float64)
