"""Shortest-path trees: SciPy's, plain Python's and the definition agree, ties and all."""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.graphs import graphs, graphs_without_ties
from tidings.overlay.graph import Graph
from tidings.overlay.paths import SOURCES_AT_ONCE, Tree, tree, tree_of, trees, unique_paths
from tidings.overlay.topologies import topology


def all_distances(graph: Graph) -> list[list[float]]:
    """Floyd and Warshall's distances: the obvious way."""
    far = float("inf")
    found = [[0.0 if a == b else far for b in range(graph.nodes)] for a in range(graph.nodes)]
    for one, other, weight in graph.links:
        found[one][other] = found[other][one] = weight
    for middle, a, b in product(range(graph.nodes), repeat=3):
        found[a][b] = min(found[a][b], found[a][middle] + found[middle][b])
    return found


def tree_by_definition(graph: Graph, distance: list[float], source: int) -> Tree:
    """The parent is the smallest neighbour on a shortest path."""
    parents = []
    for node in range(graph.nodes):
        near = (
            other
            for other in graph.neighbours(node)
            if distance[other] + graph.weight(other, node) == distance[node] < float("inf")
        )
        parents.append(min(near, default=-1))
    reached = [-1 if d == float("inf") else int(d) for d in distance]
    return Tree(source, parents, reached)


@given(graphs(connected=False))
def test_trees_are_those_of_the_definition(graph: Graph) -> None:
    distances = all_distances(graph)
    for found in trees(graph):
        expected = tree_by_definition(graph, distances[found.source], found.source)
        assert (found.parent, found.distance) == (expected.parent, expected.distance)


@given(graphs(connected=False), st.randoms(use_true_random=False))
def test_plain_python_finds_the_same_trees_in_any_order_of_links(
    graph: Graph, chance: Random
) -> None:
    names = [f"node {node}" for node in range(graph.nodes)]  # sorted like the numbers
    rows = list(graph.adjacency.items())
    chance.shuffle(rows)
    adjacency = {}
    for node, row in rows:
        links = list(row.items())
        chance.shuffle(links)
        adjacency[names[node]] = {names[other]: weight for other, weight in links}
    for found in trees(graph):
        mapped = tree_of(adjacency, names[found.source])
        reached = {n: found.parent[n] for n in found.order if n != found.source}
        assert mapped.parent == {names[n]: names[p] for n, p in reached.items()}
        assert mapped.distance == {names[n]: found.distance[n] for n in found.order}
        assert list(mapped.distance) == [names[n] for n in found.order]
        assert mapped.children() == {
            names[n]: [names[child] for child in found.children(n)] for n in found.order
        }


@given(graphs())
def test_trees_agree_with_each_other_on_what_is_below(graph: Graph) -> None:
    by_source = list(trees(graph))
    for found, node in product(by_source, range(graph.nodes)):
        for below in found.below(node):
            way = found.path(below)
            assert way[way.index(node) :] == by_source[node].path(below)


@given(graphs(connected=False))
def test_children_descendants_and_order_follow_from_parents(graph: Graph) -> None:
    for found in trees(graph):
        for node in range(graph.nodes):
            assert found.children(node) == tuple(
                other for other in range(graph.nodes) if found.parent[other] == node
            )
            for other in range(graph.nodes):
                expected = {
                    n for n in found.order if found.parent[other] == node and other in found.path(n)
                }
                assert found.descendants(node, other) == expected
        places = {node: place for place, node in enumerate(found.order)}
        assert all(places[found.parent[n]] < places[n] for n in found.order if n != found.source)


@given(graphs())
def test_paths_are_unique_when_every_node_has_one_way_back(graph: Graph) -> None:
    distances = all_distances(graph)
    ways = [
        sum(
            distances[source][other] + graph.weight(other, node) == distances[source][node]
            for other in graph.neighbours(node)
        )
        for source, node in product(range(graph.nodes), repeat=2)
        if source != node
    ]
    assert unique_paths(graph) == all(count == 1 for count in ways)


@given(graphs_without_ties())
def test_graphs_drawn_without_ties_have_none(graph: Graph) -> None:
    assert unique_paths(graph)


def test_more_sources_than_fit_one_matrix() -> None:
    graph = topology(f"tree:{SOURCES_AT_ONCE + 5}", seed=3)
    found = list(trees(graph))
    assert [one.source for one in found] == list(range(graph.nodes))
    assert found[-1].distance == tree(graph, graph.nodes - 1).distance


def test_nodes_out_of_reach_have_no_path() -> None:
    alone = tree(Graph(3, [(0, 1, 1)]), 0)
    assert (alone.parent, alone.distance, alone.order) == ((-1, 0, -1), (0, 1, -1), (0, 1))
    with pytest.raises(ValueError, match="node 2 is out of reach of 0"):
        alone.path(2)
