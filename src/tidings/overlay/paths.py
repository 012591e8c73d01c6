"""Shortest-path trees: who is below whom, seen from a source.

The rule for ties, everywhere: **among the neighbours on a shortest path from the source, the
smallest is the parent.** So whoever knows the links finds the same tree, whatever the order in
which they came. The rule also makes trees agree with each other: where u is above x in the tree of
v, the path from u to x is the one in the tree of u. (Any neighbour that is on a shortest path from
u to x is on one from v as well, and the one chosen for v is on one from u.)

`tree` and `trees` find distances with SciPy. `tree_of` does the same in plain Python for nodes with
any names that can be sorted, as protocols have them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidings.overlay.graph import Graph

N = TypeVar("N")

NONE: Final = -1  # no parent: the source, and nodes out of reach
SOURCES_AT_ONCE: Final = 256  # whose distances are held as one matrix


class Tree:
    """A shortest-path tree (T_v of paper U): `parent` and `distance` by node, -1 for none.

    >>> square = Graph(4, [(0, 1, 3), (1, 2, 1), (2, 3, 1), (3, 0, 2)])
    >>> t = tree(square, 0)
    >>> t.parent, t.distance
    ((-1, 0, 3, 0), (0, 3, 3, 2))
    >>> t.children(0), sorted(t.descendants(0, 3)), t.path(2)
    ((1, 3), [2, 3], (0, 3, 2))
    """

    def __init__(self, source: int, parent: Sequence[int], distance: Sequence[int]) -> None:
        self.source = source
        self.parent = tuple(parent)
        self.distance = tuple(distance)

    def children(self, node: int) -> tuple[int, ...]:
        """The children of a node, in order."""
        return self._children.get(node, ())

    def below(self, node: int) -> frozenset[int]:
        """A node and all nodes below it (T_v/w)."""
        found = [node]
        for one in found:  # grows while it is read
            found.extend(self._children.get(one, ()))
        return frozenset(found)

    def descendants(self, node: int, child: int) -> frozenset[int]:
        """The nodes reached by the link to a child (T_v/(u, w)); none if it is no child."""
        return self.below(child) if self.parent[child] == node else frozenset()

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the source to this one."""
        if self.distance[node] < 0:
            raise ValueError(f"node {node} is out of reach of {self.source}")
        steps = [node]
        while steps[-1] != self.source:
            steps.append(self.parent[steps[-1]])
        return tuple(reversed(steps))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The nodes in reach, the nearest first: a parent comes before its children."""
        reached = [node for node, distance in enumerate(self.distance) if distance >= 0]
        return tuple(sorted(reached, key=lambda node: (self.distance[node], node)))

    @cached_property
    def _children(self) -> dict[int, tuple[int, ...]]:
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parent):
            if parent >= 0:
                children.setdefault(parent, []).append(node)
        return {node: tuple(found) for node, found in children.items()}

    def __repr__(self) -> str:
        return f"<Tree from {self.source}, {len(self.order)} of {len(self.parent)} nodes>"


def tree(graph: Graph, source: int) -> Tree:
    """The shortest-path tree from a source."""
    return next(trees(graph, (source,)))


def trees(graph: Graph, sources: Iterable[int] | None = None) -> Iterator[Tree]:
    """The shortest-path trees from these sources, or from every node."""
    wanted = list(range(graph.nodes) if sources is None else sources)
    edges = _edges(graph)
    for start in range(0, len(wanted), SOURCES_AT_ONCE):
        part = wanted[start : start + SOURCES_AT_ONCE]
        distances = _distances(graph.nodes, edges, part)
        parents = _parents(edges, distances, part)
        for source, parent, distance in zip(
            part, parents.tolist(), distances.tolist(), strict=True
        ):
            yield Tree(source, parent, distance)


def unique_paths(graph: Graph) -> bool:
    """Whether between any two nodes there is one shortest path."""
    edges = _edges(graph)
    for start in range(0, graph.nodes, SOURCES_AT_ONCE):
        sources = range(start, min(start + SOURCES_AT_ONCE, graph.nodes))
        on_shortest = _on_shortest(edges, _distances(graph.nodes, edges, sources))
        if np.add.reduceat(on_shortest, edges.starts, axis=1, dtype=np.int64).max(initial=0) > 1:
            return False
    return True


class MappedTree(NamedTuple, Generic[N]):
    """A shortest-path tree over nodes with any names.

    `distance` holds the nodes in reach, the nearest first; so does `parent`, without the source.
    """

    source: N
    parent: dict[N, N]
    distance: dict[N, int]

    def children(self) -> dict[N, list[N]]:
        """For each node in reach its children, in order."""
        children: dict[N, list[N]] = {node: [] for node in self.distance}
        for node, parent in self.parent.items():
            children[parent].append(node)
        for found in children.values():
            found.sort()
        return children


def tree_of(adjacency: Mapping[N, Mapping[N, int]], source: N) -> MappedTree[N]:
    """The shortest-path tree over the links in a mapping, by Dijkstra's algorithm.

    A link leads from the node that names it; for both directions both nodes name it.

    >>> tree_of({"a": {"b": 1, "c": 1}, "b": {"d": 1}, "c": {"d": 1}}, "a").parent
    {'b': 'a', 'c': 'a', 'd': 'b'}
    """
    parent: dict[N, N] = {}
    distance: dict[N, int] = {}
    nearest: dict[N, tuple[int, Any]] = {}
    waiting: list[tuple[int, Any]] = [(0, source)]
    while waiting:
        reached, node = heapq.heappop(waiting)
        if node in distance:
            continue
        distance[node] = reached
        if node in nearest:
            parent[node] = nearest[node][1]
        for other, weight in adjacency.get(node, {}).items():
            if other in distance:
                continue
            # Weights are 1 or more, so every possible parent is reached before its child.
            offer = (reached + weight, node)
            if other not in nearest or offer < nearest[other]:
                if other not in nearest or offer[0] < nearest[other][0]:
                    heapq.heappush(waiting, (offer[0], other))
                nearest[other] = offer
    return MappedTree(source, parent, distance)


# Arrays


class _Edges(NamedTuple):
    """Every link in both directions, sorted by where it leads and then by where it comes from."""

    tails: NDArray[np.int64]
    heads: NDArray[np.int64]
    weights: NDArray[np.int64]
    starts: NDArray[np.int64]  # where the edges to each of `ends` begin
    ends: NDArray[np.int64]  # the heads that have edges


def _edges(graph: Graph) -> _Edges:
    both = [(other, one, w) for one, other, w in graph.links]
    both += [(one, other, w) for one, other, w in graph.links]
    rows = np.array(sorted(both), np.int64).reshape(-1, 3)
    ends, starts = np.unique(rows[:, 0], return_index=True)
    return _Edges(rows[:, 1], rows[:, 0], rows[:, 2], starts, ends)


def _distances(nodes: int, edges: _Edges, sources: Sequence[int]) -> NDArray[np.int64]:
    """The distance of every node from each source, -1 where it is out of reach."""
    from scipy.sparse import csr_array  # type: ignore[import-untyped]
    from scipy.sparse.csgraph import dijkstra  # type: ignore[import-untyped]

    matrix = csr_array((edges.weights, (edges.tails, edges.heads)), shape=(nodes, nodes))
    found = dijkstra(matrix, indices=np.asarray(sources, np.int64))
    found[np.isinf(found)] = NONE
    return np.asarray(found, np.int64)


def _on_shortest(edges: _Edges, distances: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each source, which edges lie on a shortest path from it."""
    tails, heads = distances[:, edges.tails], distances[:, edges.heads]
    return np.asarray((tails >= 0) & (tails + edges.weights == heads))


def _parents(
    edges: _Edges, distances: NDArray[np.int64], sources: Sequence[int]
) -> NDArray[np.int64]:
    """For each source the parent of every node: the smallest tail of an edge on a shortest path."""
    nodes = distances.shape[1]
    parents = np.full(distances.shape, NONE, np.int64)
    if edges.heads.size:
        tails = np.where(_on_shortest(edges, distances), edges.tails, nodes)
        nearest = np.minimum.reduceat(tails, edges.starts, axis=1)
        parents[:, edges.ends] = np.where(nearest < nodes, nearest, NONE)
    parents[np.arange(len(sources)), np.asarray(sources, np.int64)] = NONE
    return parents
