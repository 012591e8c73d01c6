"""What structured overlays must look like at rest, from the set of their nodes alone.

The slow twins of the state machines in `routing/structured`: who is in charge of a key, and which
neighbours a node of Chord has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from tidings.overlay.keys import Circle

SUCCESSORS: Final = 4  # that a node of a ring keeps: all but one of them may crash at once


class IdealRing:
    """Nodes on a circle, each in charge of the keys behind its predecessor, itself included.

    >>> ring = IdealRing(["a", "b", "c", "d"])
    >>> ring.nodes
    ('a', 'b', 'c', 'd')
    >>> ring.successor("d"), ring.owner(ring.circle.key("b")), ring.owner(ring.circle.key("b") + 1)
    ('a', 'b', 'c')
    """

    def __init__(self, names: Iterable[str], circle: Circle | None = None) -> None:
        self.circle = circle or Circle()
        self.nodes = tuple(sorted(names, key=lambda name: (self.circle.key(name), name)))
        self._keys = [self.circle.key(name) for name in self.nodes]
        self._places = {name: place for place, name in enumerate(self.nodes)}
        self._fingers: dict[str, tuple[str, ...]] = {}

    def owner(self, key: int) -> str:
        """The node in charge of a key: the first at the key or behind it."""
        return self.nodes[bisect_left(self._keys, key) % len(self.nodes)]

    def successor(self, node: str) -> str:
        """The next node."""
        return self.nodes[(self._places[node] + 1) % len(self.nodes)]

    def successors(self, node: str) -> list[str]:
        """The next few nodes, as many as a node keeps."""
        place, count = self._places[node], len(self.nodes)
        return [self.nodes[(place + i) % count] for i in range(1, min(count, SUCCESSORS + 1))]

    def predecessor(self, node: str) -> str:
        """The node before."""
        return self.nodes[self._places[node] - 1]

    def fingers(self, node: str) -> tuple[str, ...]:
        """The nodes in charge of the keys 1, 2, 4, 8, … behind a node, the nearest first."""
        if node not in self._fingers:
            circle = self.circle
            start = circle.key(node)
            found = {self.owner((start + (1 << bit)) % circle.size) for bit in range(circle.bits)}
            found.discard(node)
            self._fingers[node] = tuple(
                sorted(found, key=lambda name: circle.distance(start, circle.key(name)))
            )
        return self._fingers[node]

    def split(self, node: str, end: int) -> tuple[tuple[str, int], ...]:
        """The arc from a node to an end, divided among its fingers: each with its own end.

        The law: the nodes at the heads of the parts, and those within, are all nodes of the arc but
        the first, each in one part; and every part is shorter than the arc.
        """
        circle = self.circle
        start = circle.key(node)
        heads = [f for f in self.fingers(node) if circle.inside(start, circle.key(f), end)]
        ends = [circle.key(head) for head in heads[1:]] + [end]
        return tuple(zip(heads, ends, strict=False))

    def members(self, node: str, end: int) -> Iterator[str]:
        """The nodes of an arc, the one at its start first."""
        start = self.circle.key(node)
        length = self.circle.length(start, end)
        yield node
        for name in self.nodes:
            if name != node and self.circle.distance(start, self.circle.key(name)) < length:
                yield name

    def hop(self, node: str, key: int) -> str | None:
        """The next hop towards a key; None if the node is in charge of it."""
        circle = self.circle
        if self.owner(key) == node:
            return None
        start = circle.key(node)
        if self.owner(key) == self.successor(node):
            return self.successor(node)
        known = {*self.fingers(node), *self.successors(node)}
        before = [name for name in known if circle.inside(start, circle.key(name), key)]
        return max(before, key=lambda name: circle.distance(start, circle.key(name)))
