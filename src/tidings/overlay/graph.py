"""Graphs: nodes, the links between them, and what a link costs.

Nodes are numbers from 0; their names are for people. A link joins two different nodes in both
directions, and each pair has at most one. Its weight is an integer from 1 up: so distances are
exact, and a parent is always strictly nearer than its children. A graph is a value and never
changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final

MAX_WEIGHT: Final = 2**31  # the longest path of the largest graph then fits a double exactly

Link = tuple[int, int, int]


class Graph:
    """A weighted undirected graph.

    >>> square = Graph(4, [(0, 1, 3), (1, 2, 1), (2, 3, 1), (3, 0, 2)])
    >>> square.neighbours(0), square.weight(3, 0)
    ((1, 3), 2)
    >>> square.links
    ((0, 1, 3), (0, 3, 2), (1, 2, 1), (2, 3, 1))
    """

    def __init__(
        self, nodes: int, links: Iterable[Link], names: Iterable[str] | None = None
    ) -> None:
        self.nodes = nodes
        self.names = tuple(map(str, range(nodes)) if names is None else names)
        if len(self.names) != nodes or len(set(self.names)) != nodes:
            raise ValueError(f"expected {nodes} different names, found {len(set(self.names))}")
        adjacency: list[dict[int, int]] = [{} for _ in range(nodes)]
        for one, other, weight in links:
            if not (0 <= one < nodes and 0 <= other < nodes) or one == other:
                raise ValueError(f"link {one}-{other}: expected two different nodes below {nodes}")
            if type(weight) is not int or not 1 <= weight <= MAX_WEIGHT:
                raise ValueError(
                    f"link {one}-{other}: expected a whole weight from 1 to {MAX_WEIGHT}, "
                    f"found {weight!r}"
                )
            if other in adjacency[one]:
                raise ValueError(f"link {one}-{other}: given twice")
            adjacency[one][other] = adjacency[other][one] = weight
        self._adjacency = tuple(dict(sorted(row.items())) for row in adjacency)
        self._neighbours = tuple(tuple(row) for row in self._adjacency)

    def neighbours(self, node: int) -> tuple[int, ...]:
        """The nodes that a node has links to, in order."""
        return self._neighbours[node]

    def weight(self, one: int, other: int) -> int:
        """The weight of the link between two neighbours."""
        try:
            return self._adjacency[one][other]
        except KeyError:
            raise KeyError(f"there is no link {one}-{other}") from None

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Every link once, the smaller end first, in order."""
        return tuple(
            (one, other, weight)
            for one, row in enumerate(self._adjacency)
            for other, weight in row.items()
            if one < other
        )

    @cached_property
    def adjacency(self) -> Mapping[int, Mapping[int, int]]:
        """For each node its neighbours, with the weights of the links to them."""
        return MappingProxyType(
            {node: MappingProxyType(row) for node, row in enumerate(self._adjacency)}
        )

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The sets of nodes that reach each other, the largest first."""
        found: list[tuple[int, ...]] = []
        seen = bytearray(self.nodes)
        for start in range(self.nodes):
            if seen[start]:
                continue
            seen[start] = 1
            reached = [start]
            for node in reached:  # grows while it is read
                for other in self._neighbours[node]:
                    if not seen[other]:
                        seen[other] = 1
                        reached.append(other)
            found.append(tuple(sorted(reached)))
        return tuple(sorted(found, key=lambda part: (-len(part), part)))

    def bridges(self) -> tuple[Link, ...]:
        """The links that hold a component together: without one, it falls apart. In order."""
        order = [-1] * self.nodes  # when the search came to a node
        lowest = [0] * self.nodes  # the earliest node reached from a node or from below it
        found = []
        clock = 0
        for root in range(self.nodes):
            if order[root] >= 0:
                continue
            order[root] = lowest[root] = clock
            clock += 1
            path = [(root, -1, iter(self._neighbours[root]))]
            while path:
                node, parent, rest = path[-1]
                for other in rest:
                    if order[other] < 0:
                        order[other] = lowest[other] = clock
                        clock += 1
                        path.append((other, node, iter(self._neighbours[other])))
                        break
                    if other != parent:
                        lowest[node] = min(lowest[node], order[other])
                else:
                    path.pop()
                    if parent >= 0:
                        lowest[parent] = min(lowest[parent], lowest[node])
                        if lowest[node] > order[parent]:
                            ends = min(node, parent), max(node, parent)
                            found.append((*ends, self._adjacency[node][parent]))
        return tuple(sorted(found))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self.names == other.names and self.links == other.links

    def __hash__(self) -> int:
        return hash((self.names, self.links))

    def __repr__(self) -> str:
        return f"<Graph of {self.nodes} nodes, {len(self.links)} links>"
