"""Graphs: what they refuse, and bridges and components against leaving out link after link."""

import pytest
from hypothesis import given

from tests.overlay.graphs import graphs
from tidings.overlay.graph import Graph, Link


@pytest.mark.parametrize(
    ("links", "found"),
    [
        ([(0, 0, 1)], "two different nodes"),
        ([(0, 3, 1)], "two different nodes below 3"),
        ([(-1, 2, 1)], "two different nodes"),
        ([(0, 1, 0)], "found 0"),
        ([(0, 1, 1.5)], "found 1.5"),
        ([(0, 1, 1), (1, 0, 2)], "given twice"),
    ],
)
def test_wrong_links_are_refused(links: list[Link], found: str) -> None:
    with pytest.raises(ValueError, match=found):
        Graph(3, links)


def test_names_must_differ() -> None:
    with pytest.raises(ValueError, match="2 different names"):
        Graph(2, [], ["a", "a"])


def test_a_missing_link_has_no_weight() -> None:
    with pytest.raises(KeyError, match="no link 0-2"):
        Graph(3, [(0, 1, 1)]).weight(0, 2)


def test_neighbours_are_sorted_whatever_the_order_of_links() -> None:
    links = [(3, 0, 1), (0, 2, 5), (1, 0, 2)]
    graph = Graph(4, links)
    assert graph.neighbours(0) == (1, 2, 3)
    assert graph == Graph(4, list(reversed(links)))
    assert {node: dict(row) for node, row in graph.adjacency.items()}[0] == {1: 2, 2: 5, 3: 1}


@given(graphs(connected=False))
def test_bridges_are_the_links_that_hold_components_together(graph: Graph) -> None:
    parts = len(graph.components)
    expected = [
        link
        for link in graph.links
        if len(Graph(graph.nodes, [one for one in graph.links if one != link]).components) > parts
    ]
    assert list(graph.bridges()) == expected


@given(graphs(connected=False))
def test_components_are_what_nodes_reach(graph: Graph) -> None:
    reach = [{node} for node in range(graph.nodes)]
    for _ in range(graph.nodes):
        for one, other, _ in graph.links:
            reach[one] |= reach[other]
            reach[other] |= reach[one]
    assert {frozenset(part) for part in graph.components} == set(map(frozenset, reach))
    assert sorted(map(len, graph.components), reverse=True) == list(map(len, graph.components))
