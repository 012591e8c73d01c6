"""Subscription forwarding, held to the definition of PIF; scenarios: `tests/routing/cases`."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.overlay.graphs import trees
from tests.routing.networks import EVENTS, networks, pif_by_definition
from tests.routing.running import network_of
from tidings.routing import network as whole
from tidings.routing.planes.interests import NOTHING
from tidings.routing.protocol import SECOND, Publish, Subscribe, Unsubscribe


@settings(max_examples=examples(20))
@given(networks(trees(7)), st.data())
def test_subscription_forwarding_takes_just_the_links_that_lead_to_someone(
    global_view: whole.Network, data: st.DataObject
) -> None:
    """On a tree, where there is one path to everyone, that is PIF; also after unsubscribing."""
    network, log = network_of(global_view.graph, "subscriptions")
    texts = [str(interest) for interest in global_view.interests]
    for node, text in enumerate(texts):
        network.tell(str(node), Subscribe(f"s{node}", text))
        if data.draw(st.booleans()):
            network.tell(str(node), Unsubscribe(f"s{node}"))
            texts[node] = NOTHING
    network.run(network.now + SECOND)
    left = whole.Network(global_view.graph, texts)
    for source in range(left.graph.nodes):
        for event in EVENTS[::2]:
            log.sends.clear()
            network.tell(str(source), Publish(dict(event)))
            network.run(network.now + SECOND // 4)
            assert {(int(a), int(b)) for a, b in log.links_taken()} == pif_by_definition(
                left, source, event
            )
