"""What structured overlays must look like at rest, from the set of their nodes alone.

The slow twins of the state machines in `routing/structured`: who is in charge of a key, and which
neighbours a node of Chord or of Pastry has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from tidings.overlay.keys import DIGIT_BITS, Circle

SUCCESSORS: Final = 4  # that a node of a ring keeps: all but one of them may crash at once
LEAVES: Final = 8  # that a node of Pastry keeps on either side


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

    def snapshot(self, node: str) -> dict[str, Any]:
        """The state of a node as plain values."""
        alone = len(self.nodes) == 1
        return {
            "predecessor": None if alone else self.predecessor(node),
            "successors": self.successors(node),
            "fingers": list(self.fingers(node)[1:]),
        }

    def members(self, node: str, end: int) -> tuple[str, ...]:
        """The nodes of an arc, in the order of the ring."""
        place, last = self._places[node], bisect_left(self._keys, end)
        if self.circle.key(node) < end:
            return self.nodes[place:last]
        return self.nodes[place:] + self.nodes[:last]

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


class IdealPastry(IdealRing):
    """Nodes on a circle, each in charge of the keys to which it is the nearest, on either side.

    A node keeps its *leaves*, the next few nodes on both sides, and a *table*: for each number of
    digits that a key may share with its own, and each digit that may follow, one node (an entry).
    Of all nodes with these digits it is the nearest to the *mark*: the own key with that one digit
    replaced. So nodes choose different entries, and a set of nodes has only one right table.

    >>> ring = IdealPastry(["a", "b", "c", "d"])
    >>> ring.owner(ring.circle.key("b") + 1), ring.leaves("a", -1), sorted(ring.table("a").items())
    ('b', ['d', 'c', 'b'], [((0, 3), 'b'), ((0, 6), 'c'), ((0, 14), 'd')])
    """

    def __init__(
        self, names: Iterable[str], circle: Circle | None = None, leaves: int = LEAVES
    ) -> None:
        super().__init__(names, circle)
        self._most = leaves
        self._tables: dict[str, dict[tuple[int, int], str]] = {}

    def owner(self, key: int) -> str:
        """The node in charge of a key: the nearest; of two, the one behind the key."""
        place = bisect_left(self._keys, key)
        beside = (self.nodes[place % len(self.nodes)], self.nodes[place - 1])
        return min(beside, key=lambda name: self.circle.rank(key, self.circle.key(name)))

    def leaves(self, node: str, side: int) -> list[str]:
        """The next few nodes behind a node (`side` is 1) or before it (-1), the nearest first."""
        place, count = self._places[node], len(self.nodes)
        return [
            self.nodes[(place + side * i) % count] for i in range(1, min(count, self._most + 1))
        ]

    def table(self, node: str) -> dict[tuple[int, int], str]:
        """The entries of a node, by digits shared and the digit that follows."""
        if node not in self._tables:
            self._tables[node] = {
                (row, digit): entry
                for row in range(self.circle.digits)
                if len(self._within(*self.circle.cell(self.circle.key(node), row))) > 1
                for digit in range(1 << DIGIT_BITS)
                if (entry := self._entry(node, row, digit)) is not None
            }
        return self._tables[node]

    def _entry(self, node: str, row: int, digit: int) -> str | None:
        circle = self.circle
        key = circle.key(node)
        if digit == circle.digit(key, row):
            return None
        mark = circle.mark(key, row, digit)
        low, high = circle.cell(mark, row + 1)
        place = bisect_left(self._keys, mark)
        beside = self.nodes[max(0, place - 1) : place + 1]
        names = [name for name in beside if low <= circle.key(name) < high]
        return min(names, key=lambda name: circle.rank(mark, circle.key(name)), default=None)

    def _within(self, low: int, high: int) -> tuple[str, ...]:
        return self.nodes[bisect_left(self._keys, low) : bisect_left(self._keys, high)]

    def fingers(self, node: str) -> tuple[str, ...]:
        """The next node and the entries of a node, the nearest first: clockwise, as on a ring."""
        if node not in self._fingers:
            circle, start = self.circle, self.circle.key(node)
            found = {*self.leaves(node, 1)[:1], *self.table(node).values()}
            self._fingers[node] = tuple(
                sorted(found, key=lambda name: circle.distance(start, circle.key(name)))
            )
        return self._fingers[node]

    def snapshot(self, node: str) -> dict[str, Any]:
        """The state of a node as plain values."""
        return {
            "before": self.leaves(node, -1),
            "behind": self.leaves(node, 1),
            "table": {f"{row} {digit:x}": name for (row, digit), name in self.table(node).items()},
        }

    def hop(self, node: str, key: int) -> str | None:
        """The next hop towards a key; None if the node is in charge of it."""
        circle, start = self.circle, self.circle.key(node)
        owner = self.owner(key)
        if owner == node:
            return None
        before, behind = self.leaves(node, -1), self.leaves(node, 1)
        first, last = circle.key(before[-1]), circle.key(behind[-1])
        if circle.distance(first, key) <= circle.distance(first, start) + circle.distance(
            start, last
        ):
            return owner  # it is a leaf
        row = circle.shared(start, key)
        table = self.table(node)
        entry = table.get((row, circle.digit(key, row)))
        if entry is not None:
            return entry
        known = {*before, *behind, *table.values()}
        nearer = [name for name in known if circle.shared(circle.key(name), key) >= row]
        return min(nearer, key=lambda name: circle.rank(key, circle.key(name)))


@lru_cache(16)
def ideal_ring(names: frozenset[str], circle: Circle) -> IdealRing:
    """The ring of these nodes; it is kept for a while, for whoever asks again and again."""
    return IdealRing(names, circle)


@lru_cache(16)
def ideal_pastry(names: frozenset[str], circle: Circle, leaves: int) -> IdealPastry:
    """The same for Pastry."""
    return IdealPastry(names, circle, leaves)
