"""The claims of paper U about PSF (U2), on graphs and interests of every shape."""

from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.graphs import graphs_without_ties
from tests.routing.delivering import outcome, publish
from tests.routing.networks import (
    events,
    interested,
    networks,
    packets,
    psf_by_definition,
    smallest_delivery,
)
from tidings.overlay.graph import Graph
from tidings.routing.network import Event, Network


@given(networks(), events, st.integers(0, 8))
def test_psf_is_ideal_on_every_graph(network: Network, event: Event, source: int) -> None:
    assert outcome("psf", network, source % network.graph.nodes, event).ideal


@given(networks(graphs_without_ties(max_nodes=7)), events, st.integers(0, 6))
def test_an_ideal_delivery_is_the_smallest_where_shortest_paths_are_unique(
    network: Network, event: Event, source: int
) -> None:
    source %= network.graph.nodes
    receivers = interested(network, event) - {source}
    expected = smallest_delivery(network.graph, source, receivers)
    assert outcome("psf", network, source, event).packets == expected
    flooded = outcome("flooding", network, source, event)
    assert not flooded.ideal or flooded.packets == expected


def test_psf_is_not_the_smallest_where_another_shortest_path_is_shared() -> None:
    # Both 3 and 4 could be served through 2; the tree of 0 has 3 below 1.
    graph = Graph(5, [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1), (2, 4, 1)])
    network = Network(graph, ["", "", "", "a = 1", "a = 1"])
    found = outcome("psf", network, 0, {"a": 1})
    assert found.ideal
    assert (found.packets, smallest_delivery(graph, 0, {3, 4})) == (4, 3)


@given(networks(), events, st.integers(0, 8))
def test_psf_sends_what_the_paper_defines(network: Network, event: Event, source: int) -> None:
    source %= network.graph.nodes
    expected = psf_by_definition(network, source, event)
    assert packets(publish("psf", network, source, event)) == expected
