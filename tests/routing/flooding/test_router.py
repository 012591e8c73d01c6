"""Flooding as a protocol."""

from hypothesis import given, settings

from tests.effort import examples
from tests.overlay.graphs import graphs
from tests.routing.networks import EVENTS, interested, networks
from tests.routing.running import network_of, subscribed
from tidings.routing import network as whole
from tidings.routing.protocol import SECOND, Publish


@settings(max_examples=examples(10))
@given(networks(graphs(6)))
def test_flooding_reaches_everyone_once(global_view: whole.Network) -> None:
    network, log = network_of(global_view.graph, "flood")
    subscribed(network, log, global_view)
    for event in EVENTS:
        log.deliveries.clear()
        network.tell("0", Publish(dict(event)))
        network.run(network.now + SECOND // 4)
        assert sorted(int(node) for node, _, _ in log.deliveries) == sorted(
            interested(global_view, event)
        )
