"""The links of a network as one node knows them, and the paths through it.

A link counts when both its ends name it. Costs are unique: each has a tiny addition derived from
the names of the link's ends, far below one unit of cost. So between two nodes there is one shortest
path, all nodes find the same one, and it is the same in both directions. That makes receiver
advertisements correct (all-pairs path symmetry, S17), and it lets a node find its place in every
tree from the distances of its neighbours alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from tidings.overlay.paths import tree_of

UNIT: Final = 1 << 80  # one unit of cost
TIE_BITS: Final = 62  # of the addition that breaks ties: 2**18 of them stay below one unit
TOPOLOGIES: Final = 64  # held at a time
NOWHERE: Final[tuple[str, ...]] = ()

Adjacency = Mapping[str, Mapping[str, int]]


@lru_cache(1 << 17)
def digest_of(text: str) -> int:
    """63 bits that stand for a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


@lru_cache(1 << 17)
def digest_of_link(one: str, other: str, cost: int) -> int:
    """63 bits that stand for a link, named by its ends in order."""
    return digest_of(f"{len(one)} {one} {other} {cost}")


def weight_of(one: str, other: str, cost: int) -> int:
    """The cost of a link, made unique."""
    return cost * UNIT + (digest_of_link(one, other, 0) >> (63 - TIE_BITS))


class Topology:
    """A network at one moment: unique weights by node and neighbour. It never changes."""

    def __init__(self, digest: int, adjacency: Adjacency) -> None:
        self.digest = digest
        self.adjacency = {node: dict(links) for node, links in adjacency.items() if links}
        self._distances: dict[str, dict[str, int]] = {}

    def distances(self, node: str) -> dict[str, int]:
        """The distance of every node in reach from this one, the nearest first."""
        found = self._distances.get(node)
        if found is None:
            found = self._distances[node] = tree_of(self.adjacency, node).distance
        return found


class Topologies:
    """Topologies by digest, so that nodes in one process compute each only once."""

    def __init__(self) -> None:
        self._known: dict[int, Topology] = {}

    def of(self, digest: int, adjacency: Adjacency) -> Topology:
        """The topology with this digest, copied from the links if it is new."""
        known = self._known.get(digest)
        if known is None:
            if len(self._known) >= TOPOLOGIES:
                del self._known[next(iter(self._known))]
            known = self._known[digest] = Topology(digest, adjacency)
        return known


class Routes:
    """One node's place in a topology: the first hop to everyone, and in every tree its children.

    >>> line = {"a": {"b": UNIT}, "b": {"a": UNIT, "c": UNIT}, "c": {"b": UNIT}}
    >>> routes = Routes("b", Topology(1, line))
    >>> routes.hop
    {'a': 'a', 'c': 'c'}
    >>> routes.children("a"), routes.children("b")
    (('c',), ('a', 'c'))
    """

    def __init__(self, node: str, topology: Topology) -> None:
        self.node = node
        self.topology = topology
        self.digest = topology.digest
        self._links = dict(sorted(topology.adjacency.get(node, {}).items()))
        self._mine = topology.distances(node)
        self._children: dict[str, tuple[str, ...]] = {}
        self.hop: dict[str, str] = {}
        for neighbour, weight in self._links.items():
            for other, distance in topology.distances(neighbour).items():
                if self._mine[other] == weight + distance:
                    self.hop[other] = neighbour

    def children(self, source: str) -> tuple[str, ...]:
        """The neighbours below this node in a source's tree: their path to it passes here."""
        found = self._children.get(source)
        if found is None:
            found = self._children[source] = self._find(source)
        return found

    def _find(self, source: str) -> tuple[str, ...]:
        mine = self._mine.get(source)
        if mine is None:
            return NOWHERE
        distances = self.topology.distances
        return tuple(
            neighbour
            for neighbour, weight in self._links.items()
            if distances(neighbour)[source] == mine + weight
        )
