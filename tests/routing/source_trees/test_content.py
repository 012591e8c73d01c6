"""The content plane, held to the definition of PIF; scenarios: `tests/routing/cases`."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.overlay.graphs import graphs, graphs_without_ties
from tests.routing.networks import EVENTS, interested, networks, pif_by_definition
from tests.routing.running import network_of, router_of, subscribed
from tidings.language.predicate import parse
from tidings.matching.forwarding import ForwardingTable
from tidings.overlay.graph import Graph
from tidings.routing import network as whole
from tidings.routing.packets import Publication
from tidings.routing.planes.interests import NOTHING
from tidings.routing.protocol import MILLISECOND, SECOND, Publish, Send, Subscribe, Unsubscribe


@settings(max_examples=examples(25))
@given(networks(graphs_without_ties(7)))
def test_where_shortest_paths_are_unique_events_take_the_links_of_pif(
    global_view: whole.Network,
) -> None:
    network, log = network_of(global_view.graph)
    subscribed(network, log, global_view)
    for source in range(global_view.graph.nodes):
        for event in EVENTS[:: 1 + source]:
            log.sends.clear()
            network.tell(str(source), Publish(dict(event)))
            network.run(network.now + SECOND // 4)
            expected = pif_by_definition(global_view, source, event)
            taken = {(int(a), int(b)) for a, b, p in log.sends if isinstance(p, Publication)}
            assert taken == expected, (source, event)


@settings(max_examples=examples(25))
@given(networks(graphs(7)), st.integers(0, 6))
def test_with_ties_everyone_who_wants_an_event_gets_it_once_by_a_shortest_path(
    global_view: whole.Network, start: int
) -> None:
    network, log = network_of(global_view.graph)
    subscribed(network, log, global_view)
    source = start % global_view.graph.nodes
    for event in EVENTS:
        log.deliveries.clear()
        network.tell(str(source), Publish(dict(event)))
        network.run(network.now + SECOND // 4)
        got = sorted(int(node) for node, _, _ in log.deliveries)
        assert got == sorted(interested(global_view, event)), event


@settings(max_examples=examples(15))
@given(networks(graphs_without_ties(6)))
def test_after_a_pull_tables_have_forgotten_what_is_no_longer_wanted(
    global_view: whole.Network,
) -> None:
    network, log = network_of(global_view.graph)
    subscribed(network, log, global_view)
    for node in range(0, global_view.graph.nodes, 2):
        network.tell(str(node), Unsubscribe(f"s{node}"))
    texts = [
        NOTHING if node % 2 == 0 else str(interest)
        for node, interest in enumerate(global_view.interests)
    ]
    network.run(network.now + 12 * SECOND)
    left = whole.Network(global_view.graph, texts)
    for source in range(left.graph.nodes):
        for event in EVENTS[::3]:
            log.sends.clear()
            network.tell(str(source), Publish(dict(event)))
            network.run(network.now + SECOND // 4)
            assert {(int(a), int(b)) for a, b in log.links_taken()} == pif_by_definition(
                left, source, event
            )


@settings(max_examples=examples(20))
@given(networks(graphs(7)))
def test_forwarding_is_the_broadcast_tree_among_matching_interfaces(
    global_view: whole.Network,
) -> None:
    """CBF(m, B, T) of F3, by the compiled table."""
    network, log = network_of(global_view.graph)
    subscribed(network, log, global_view)
    for name in network.nodes:
        router = router_of(network, name)
        table = ForwardingTable({i: parse(text) for i, text in router.table.items()})
        for event in EVENTS:
            expected = table.forward(dict(event), router.plane.routes.children(name))
            sends = router.handle(Publish(dict(event)), network.now)
            assert sorted(map(str, expected)) == sorted(
                action.neighbour for action in sends if isinstance(action, Send)
            )


def test_a_replaced_subscription_never_misses_what_both_predicates_match() -> None:
    network, log = network_of(Graph(4, [(0, 1, 1), (1, 2, 1), (2, 3, 1)]))
    network.tell("0", Subscribe("s", "price > 5"))
    network.run(network.now + SECOND)
    for number in range(400):
        network.tell("3", Publish({"price": 7, "number": number}))
        if number == 20:
            network.tell("0", Subscribe("s", "price < 9"))
        network.run(network.now + 40 * MILLISECOND)
    network.run(network.now + SECOND)
    assert [p.event["number"] for _, _, p in log.deliveries] == list(range(400))
    assert router_of(network, "3").table == {"2": "price < 9"}


def test_answers_count_that_come_after_the_node_has_asked_again() -> None:
    """On links so slow that no answer comes in time, subscriptions are established all the same."""
    network, log = network_of(Graph(4, [(0, 1, 1), (1, 2, 1), (2, 3, 1)]))
    for link in network.links.values():
        link.delay = 2_500 * MILLISECOND
    network.tell("0", Subscribe("s", "price > 5"))
    network.run(network.now + 25 * SECOND)
    assert [(name, ids) for _, name, ids in log.settled] == [("0", ("s",))]
    network.tell("0", Unsubscribe("s"))
    network.run(network.now + 60 * SECOND)
    assert router_of(network, "3").table == {"2": NOTHING}
