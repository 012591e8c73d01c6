"""The smallest tree of shortest paths to some nodes: what paper U calls ideal (U1, section 2.3).

Where shortest paths are unique there is one tree, and nothing to choose. Where they are not, trees
on other shortest paths may have fewer links. `smallest_tree` finds how few, exactly: its work grows
as 3 to the power of the receivers. `thrifty_tree` adds the receivers one after another, the nearest
first, each by as few new links as it can; a router that knows all links could do the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from tidings.overlay.graph import Graph
from tidings.overlay.paths import tree

MAX_RECEIVERS: Final = 12


def next_hops(graph: Graph, source: int) -> tuple[tuple[int, ...], dict[int, list[int]]]:
    """The nodes in reach, the nearest first, and for each its neighbours on shortest paths onward.

    >>> next_hops(Graph(4, [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1)]), 0)
    ((0, 1, 2, 3), {0: [1, 2], 1: [3], 2: [3], 3: []})
    """
    found = tree(graph, source)
    distance = found.distance
    onward = {
        node: [
            other
            for other, weight in sorted(graph.adjacency[node].items())
            if distance[node] + weight == distance[other]
        ]
        for node in found.order
    }
    return found.order, onward


def smallest_tree(graph: Graph, source: int, receivers: Collection[int]) -> int:
    """The fewest links by which shortest paths from a source reach all these nodes.

    >>> square = Graph(4, [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1)])
    >>> smallest_tree(square, 0, [2, 3])
    2
    """
    order, onward = next_hops(graph, source)
    wanted = sorted(set(receivers) - {source})
    if len(wanted) > MAX_RECEIVERS:
        raise ValueError(f"expected at most {MAX_RECEIVERS} receivers, found {len(wanted)}")
    if not set(wanted) <= set(order):
        raise ValueError(f"out of reach of {source}: {sorted(set(wanted) - set(order))}")
    bit = {node: 1 << number for number, node in enumerate(wanted)}
    never = len(graph.links) + 1
    # By node and by set of receivers: the fewest links below the node that reach the whole set.
    fewest: dict[int, list[int]] = {}
    for node in reversed(order):
        own = bit.get(node, 0)
        links = [0] + [never] * ((1 << len(wanted)) - 1)
        for group in range(1, len(links)):
            least = links[group & ~own] if group & own else never
            for other in onward[node]:
                least = min(least, fewest[other][group] + 1)
            part = (group - 1) & group
            while part:
                least = min(least, links[part] + links[group ^ part])
                part = (part - 1) & group
            links[group] = least
        fewest[node] = links
    return fewest[source][-1]


def thrifty_tree(graph: Graph, source: int, receivers: Iterable[int]) -> int:
    """The links of a tree that is grown receiver by receiver, each by as few new links as it can.

    >>> thrifty_tree(Graph(4, [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1)]), 0, [2, 3])
    2
    """
    order, onward = next_hops(graph, source)
    before: dict[int, list[int]] = {node: [] for node in order}
    for node, others in onward.items():
        for other in others:
            before[other].append(node)
    reached = {source}
    place = {node: number for number, node in enumerate(order)}
    links = 0
    for receiver in sorted(receivers, key=place.__getitem__):
        # Backwards from the receiver: the first node of the tree that is met is the nearest.
        paths: list[tuple[int, ...]] = [(receiver,)]
        for path in paths:  # grows while it is read
            if path[-1] in reached:
                links += len(path) - 1
                reached.update(path)
                break
            known = {one[-1] for one in paths}
            paths.extend((*path, node) for node in before[path[-1]] if node not in known)
    return links
