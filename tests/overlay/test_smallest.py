"""The smallest tree of shortest paths is held to trying all of them."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.graphs import graphs
from tidings.overlay.graph import Graph
from tidings.overlay.paths import tree
from tidings.overlay.smallest import next_hops, smallest_tree, thrifty_tree


def by_trying_all(graph: Graph, source: int, receivers: set[int]) -> int:
    """The fewest links over every choice of a parent for each node."""
    order, onward = next_hops(graph, source)
    parents = {node: [one for one in order if node in onward[one]] for node in order[1:]}
    fewest = len(graph.links) + 1
    for chosen in product(*parents.values()):
        parent = dict(zip(parents, chosen, strict=True))
        used: set[int] = set()
        for node in receivers:
            while node != source:
                used.add(node)
                node = parent[node]
        fewest = min(fewest, len(used))
    return fewest


@given(graphs(7), st.data())
def test_the_smallest_tree_is_the_smallest_of_all(graph: Graph, data: st.DataObject) -> None:
    source = data.draw(st.integers(0, graph.nodes - 1))
    reached = tree(graph, source).order[1:]
    receivers = data.draw(st.sets(st.sampled_from(reached))) if reached else set()
    fewest = smallest_tree(graph, source, receivers)
    assert fewest == by_trying_all(graph, source, receivers)
    assert fewest <= thrifty_tree(graph, source, receivers) <= len(reached)


def test_receivers_out_of_reach_and_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="out of reach of 0: \\[2\\]"):
        smallest_tree(Graph(3, [(0, 1, 1)]), 0, [1, 2])
    star = Graph(20, [(0, node, 1) for node in range(1, 20)])
    with pytest.raises(ValueError, match="at most 12 receivers, found 19"):
        smallest_tree(star, 0, range(1, 20))
