"""A tree per publisher over Chord (S16): as many packets as needed, no ghosts, bounded depth."""

from functools import partial
from math import ceil, log2
from typing import Any

import pytest

from tests.routing.running import network_of, router_of
from tidings.overlay.topologies import topology
from tidings.routing.packets import Cast, Parcel
from tidings.routing.planes.interests import wants
from tidings.routing.protocol import SECOND, Publish, Subscribe, Unsubscribe
from tidings.routing.structured.arcs import MOST_TEXTS, united
from tidings.routing.structured.chord_trees import ChordTreesRouter
from tidings.routing.structured.judging import links_of_trees
from tidings.routing.structured.substrates import SubstrateOptions


def casts(log: Any) -> list[tuple[str, str]]:
    """The packets of the overlay: who has sent an event to whom."""
    return [
        (packet.source, packet.target)
        for node, _, packet in log.sends
        if isinstance(packet, Parcel) and isinstance(packet.packet, Cast) and packet.hops == 0
    ]


OVER_PASTRY = partial(ChordTreesRouter, options=SubstrateOptions(substrate="pastry", leaves=2))


@pytest.mark.parametrize("make", [ChordTreesRouter, OVER_PASTRY], ids=["chord", "pastry"])
@pytest.mark.parametrize("text", ["ba:14", "line:5", "line:2"])
def test_an_event_that_all_want_takes_one_packet_fewer_than_there_are_nodes(
    text: str, make: Any
) -> None:
    graph = topology(text, 2)
    network, log = network_of(graph, "chord-trees", make)
    for name in graph.names:
        network.tell(name, Subscribe(f"s{name}", "x > 0"))
    network.run(network.now + 3 * SECOND)
    assert len(log.settled) == graph.nodes
    for source in graph.names[:2]:
        log.sends.clear()
        log.deliveries.clear()
        network.tell(source, Publish({"x": 1}))
        network.run(network.now + SECOND)
        sent = casts(log)
        assert len(sent) == graph.nodes - 1
        assert {target for _, target in sent} == set(graph.names) - {source}
        assert sorted(node for node, *_ in log.deliveries) == sorted(graph.names)
        depth = {source: 0}
        while len(depth) < graph.nodes:
            depth |= {b: depth[a] + 1 for a, b in sent if a in depth}
        assert max(depth.values()) <= ceil(log2(graph.nodes)) + 2


def test_nothing_is_left_of_a_subscription_that_was_given_up() -> None:
    graph = topology("ba:16", 5)
    network, log = network_of(graph, "chord-trees")
    for name in graph.names[::3]:
        network.tell(name, Subscribe(f"s{name}", "x > 0"))
    network.run(network.now + 3 * SECOND)
    for name in graph.names[::3]:
        network.tell(name, Unsubscribe(f"s{name}"))
    network.run(network.now + 3 * SECOND)
    for name in graph.names:
        arcs = router_of(network, name).service.arcs
        assert {held.texts for held in arcs.held.values()} <= {()}
        assert {arc.texts for arc in arcs.arcs.values()} == {()}
    log.sends.clear()
    network.tell("0", Publish({"x": 1}))
    network.run(network.now + SECOND)
    assert casts(log) == []


def test_the_tables_of_a_node_grow_with_the_square_of_the_logarithm() -> None:
    graph = topology("ba:24", 5)
    network, _ = network_of(graph, "chord-trees")
    network.run(network.now + 5 * SECOND)
    most = max(len(router_of(network, name).service.arcs.held) for name in graph.names)
    assert most <= log2(graph.nodes) ** 2


@pytest.mark.parametrize("make", [ChordTreesRouter, OVER_PASTRY], ids=["chord", "pastry"])
def test_an_event_takes_the_links_of_the_ideal_tree(make: Any) -> None:
    graph = topology("ba:12", 5)
    network, log = network_of(graph, "chord-trees", make)
    for name in ("1", "5", "8"):
        network.tell(name, Subscribe(f"s{name}", "x > 0"))
    network.run(network.now + 3 * SECOND)
    hops = {name: dict(router_of(network, name).hops) for name in graph.names}
    for source in graph.names:
        log.links_taken()
        network.tell(source, Publish({"x": 1}))
        network.run(network.now + SECOND)
        ideal = router_of(network, source).substrate.ideal(graph.names)
        expected = links_of_trees(ideal, hops, source, {"1", "5", "8"})
        assert log.links_taken() == set(expected)


def test_many_predicates_become_one_and_none_is_lost() -> None:
    texts = [f"x = {number}" for number in range(MOST_TEXTS + 1)]
    assert len(united(texts[1:])) == MOST_TEXTS
    (one,) = united(texts)
    assert all(wants(one, {"x": number}) for number in range(MOST_TEXTS + 1))


@pytest.mark.parametrize("make", [ChordTreesRouter, OVER_PASTRY], ids=["chord", "pastry"])
def test_figures_count_tables_and_the_nodes_that_the_overlay_keeps(make: Any) -> None:
    network, _ = network_of(topology("line:4", 5), "chord-trees", make)
    network.tell("2", Subscribe("s", "x > 0"))
    network.run(network.now + 3 * SECOND)
    found = [router_of(network, name).figures() for name in network.nodes]
    assert sum(one["tables_held"] for one in found) == sum(one["arcs_told"] for one in found) > 0
    assert sum(one["predicates_held"] for one in found) > 0
    assert all(one["overlay_neighbours"] == 3 and one["overlay_settled"] for one in found)


def test_explain_says_what_an_arc_wants() -> None:
    graph = topology("line:3", 5)
    network, _ = network_of(graph, "chord-trees")
    network.tell("2", Subscribe("s", "x > 0"))
    network.run(network.now + 3 * SECOND)
    (why,) = [
        why
        for link, (_, why) in router_of(network, "0").explain_links("0", {"x": 1}).items()
        if "arc" in why
    ]
    assert "want x > 0" in why
