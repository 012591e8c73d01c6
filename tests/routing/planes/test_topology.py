"""Routes that every node computes for itself, held to plain shortest paths."""

from hypothesis import given

from tests.overlay.graphs import graphs
from tidings.overlay.graph import Graph
from tidings.overlay.paths import tree_of
from tidings.routing.planes.topology import UNIT, Routes, Topology, weight_of


@given(graphs(8, connected=False))
def test_paths_are_shortest_unique_and_the_same_in_both_directions(graph: Graph) -> None:
    names = graph.names
    adjacency: dict[str, dict[str, int]] = {name: {} for name in names}
    for one, other, cost in graph.links:
        low, high = sorted((names[one], names[other]))
        adjacency[low][high] = adjacency[high][low] = weight_of(low, high, cost)
    topology = Topology(0, adjacency)
    routes = {name: Routes(name, topology) for name in names}
    for source in names:
        plain = tree_of(graph.adjacency, int(source)).distance
        found = {int(n): d // UNIT for n, d in topology.distances(source).items()}
        assert found == plain
        for node in names:
            below = tuple(w for w in sorted(adjacency[node]) if routes[w].hop.get(source) == node)
            assert routes[node].children(source) == (below if int(node) in plain else ())
