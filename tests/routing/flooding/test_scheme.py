"""Flooding as a scheme."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.routing.delivering import publish
from tests.routing.networks import events, networks
from tidings.routing.delivery import judge
from tidings.routing.network import Event, Network


@given(networks(), events, st.integers(0, 8))
@settings(max_examples=examples(50))
def test_flooding_goes_both_ways_over_links_but_where_it_came_from(
    network: Network, event: Event, source: int
) -> None:
    graph = network.graph
    delivery = publish("flooding", network, source % graph.nodes, event)
    assert len(delivery.receivers) == 2 * len(graph.links) - (graph.nodes - 1)
    found = judge(network, delivery, 0)
    assert found.spam == graph.nodes - 1
    assert found.spam + found.duplicates == found.packets
