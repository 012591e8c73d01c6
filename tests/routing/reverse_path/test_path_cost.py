"""Trees built by path cost on networks with cycles (S17), and the duplicates without them."""

from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.overlay.graphs import graphs
from tests.routing.networks import EVENTS, interested, networks
from tests.routing.running import Log, network_of, router_of, subscribed
from tidings.overlay.graph import Graph
from tidings.overlay.topologies import topology
from tidings.routing import network as whole
from tidings.routing.delivery import deliver, judge
from tidings.routing.network import Matched, Network, nodes_of
from tidings.routing.packets import Change, publication_of
from tidings.routing.protocol import MILLISECOND, SECOND, LinkDown, Publish, Subscribe, Unsubscribe
from tidings.routing.reverse_path.path_judging import objection_to_entries
from tidings.routing.reverse_path.path_routes import (
    LINK,
    Offer,
    PathRoutes,
    read_offer,
    read_want,
    want_text,
)
from tidings.routing.schemes import scheme
from tidings.routing.truth import Situation, Truth
from tidings.sim import network as sim


def wait(network: sim.Network, time: int = SECOND) -> None:
    network.run(network.now + time)


def packets(log: Log) -> int:
    """The packets of events since the last time of asking."""
    found = sum(publication_of(packet) is not None for _, _, packet in log.sends)
    log.sends.clear()
    return found


def two_cut(network: sim.Network, one: str, other: str) -> None:
    """A link is gone, and both ends hear of it."""
    network.links[one, other].cut = network.links[other, one].cut = 1
    network.tell(one, LinkDown(other))
    network.tell(other, LinkDown(one))


@settings(max_examples=examples(10))
@given(networks(graphs(max_nodes=7)), st.data())
def test_events_keep_to_the_tree_of_their_source_where_someone_wants_them(
    global_view: whole.Network, data: st.DataObject
) -> None:
    """By subscription trees and notification trees nobody gets a second copy."""
    network, log = network_of(global_view.graph, "path-cost")
    subscribed(network, log, global_view)
    event = data.draw(st.sampled_from(EVENTS))
    source = data.draw(st.integers(0, global_view.graph.nodes - 1))
    log.links_taken()
    log.deliveries.clear()
    network.tell(str(source), Publish(dict(event)))
    wait(network)
    got = [int(node) for node, _, _ in log.deliveries]
    assert sorted(got) == sorted(interested(global_view, event))
    assert "a duplicate" not in log.drops
    assert "off the tree" not in log.drops


@settings(max_examples=examples(10))
@given(networks(graphs(max_nodes=7)), st.data())
def test_by_entries_alone_everyone_gets_it_and_copies_are_dropped(
    global_view: whole.Network, data: st.DataObject
) -> None:
    network, log = network_of(global_view.graph, "path-entries")
    subscribed(network, log, global_view)
    event = data.draw(st.sampled_from(EVENTS))
    source = data.draw(st.integers(0, global_view.graph.nodes - 1))
    log.deliveries.clear()
    network.tell(str(source), Publish(dict(event)))
    wait(network)
    got = [int(node) for node, _, _ in log.deliveries]
    assert sorted(got) == sorted(interested(global_view, event))


@pytest.mark.parametrize("text", ["ring:6", "grid:3x3", "ba:12", "waxman:12"])
def test_if_all_want_an_event_the_duplicates_are_those_that_cycles_predict(text: str) -> None:
    """With m links that are shortest paths, and n nodes: 2 (m - n + 1), as in flooding."""
    graph = topology(text, seed=3)
    network, log = network_of(graph, "path-entries")
    for name in graph.names:
        network.tell(name, Subscribe(name, "price > 5"))
    wait(network, 2 * SECOND)
    used = {
        frozenset((name, hop))
        for name in graph.names
        for hop in set(router_of(network, name).paths.hop.values())
    }
    expected = 2 * (len(used) - graph.nodes + 1)
    packets(log)
    for source in graph.names:
        before = len(log.drops)
        network.tell(source, Publish({"price": 6}))
        wait(network)
        assert packets(log) == graph.nodes - 1 + expected
        assert len(log.drops) - before == expected
    seen_from_above = Network(graph, ["price > 5"] * graph.nodes)
    row = scheme("entries")
    found = deliver(
        row, row.build(seen_from_above), graph, 0, Matched(nodes_of(range(graph.nodes)))
    )
    outcome = judge(seen_from_above, found, nodes_of(range(graph.nodes)))
    assert outcome.duplicates == expected
    assert outcome.latency_minimal


def test_for_one_receiver_there_are_no_duplicates() -> None:
    graph = topology("grid:3x3")
    network, log = network_of(graph, "path-entries")
    network.tell("0", Subscribe("s", "price > 5"))
    wait(network)
    for source in graph.names:
        network.tell(source, Publish({"price": 6}))
        wait(network)
    assert not log.drops
    assert len(log.deliveries) == 9


def test_a_subscription_is_established_when_the_last_node_has_it() -> None:
    network, log = network_of(topology("line:4"), "path-cost")
    log.settled.clear()
    begin = network.now
    network.tell("0", Subscribe("s", "price > 5"))
    wait(network)
    ((when, node, ids),) = log.settled
    assert (node, ids) == ("0", ("s",))
    assert when - begin == 6 * MILLISECOND
    network.tell("0", Subscribe("same", "price > 5"))  # all have it already
    assert log.settled[-1][0] == network.now


def test_what_is_wanted_goes_down_the_tree_only() -> None:
    """A ring of 6: five links carry it, once each, and nobody gets it from two sides."""
    network, log = network_of(topology("ring:6"), "path-cost")
    log.sends.clear()
    network.tell("0", Subscribe("s", "price > 5"))
    wait(network)
    told = [(a, b) for a, b, packet in log.sends if isinstance(packet, Change) and packet.added]
    assert len(told) == 5
    assert len({b for _, b in told}) == 5
    network.tell("0", Unsubscribe("s"))
    wait(network)
    assert not any(router_of(network, name).wanting({"price": 6}) for name in network.nodes)


def test_a_path_that_fails_is_replaced_and_a_node_that_dies_is_forgotten() -> None:
    """No counting to infinity: what leads through the lost node ends."""
    network, log = network_of(topology("ring:6"), "path-cost")
    network.tell("0", Subscribe("s", "price > 5"))
    wait(network)
    two_cut(network, "0", "1")
    wait(network)
    assert router_of(network, "1").hops["0"] == "2"
    network.tell("1", Publish({"price": 6}))
    wait(network)
    assert [node for node, _, _ in log.deliveries] == ["0"]
    two_cut(network, "0", "5")
    wait(network)
    assert all("0" not in router_of(network, str(name)).hops for name in range(1, 6))


def test_an_explanation_says_why_a_link_is_taken() -> None:
    network, _ = network_of(topology("ring:5"), "path-cost")
    network.tell("2", Subscribe("s", "price > 5"))
    wait(network)
    router = router_of(network, "1")
    assert router.explain_links("0", {"price": 6}) == {
        "0": (False, "the events of 0 come from there"),
        "2": (True, "nodes behind it want: price > 5"),
    }
    assert router.explain_links("0", {"price": 1})["2"][1] == "no node behind it wants this event"
    assert router.explain_links("3", {"price": 6})["0"][1].startswith("the path from 3 to 0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        '["a",1,"zz",0,0,["a"]]',
        '["a",1,"-1",0,0,["a"]]',
        '["a",1,"1",-1,0,["a"]]',
        '["a",1,"1",0,0,[]]',
        '["a",1,"1",0,0,["b"]]',
        '["",1,"1",0,0,["b"]]',
    ],
)
def test_what_is_no_offer_is_passed_over(text: str) -> None:
    assert read_offer(text) is None
    assert read_want(text) is None


def test_texts_of_link_tables_come_back_as_they_were() -> None:
    offer = Offer("a", 3, 1 << 81, 2, 1, ("b", "a"))
    assert read_offer(offer.text()) == offer
    assert read_want(want_text("a", "price > 5")) == ("a", "price > 5")


def test_both_ends_take_the_larger_cost_of_a_link() -> None:
    weights = []
    for node, other, mine, theirs in (("a", "b", 3, 5), ("b", "a", 5, 3)):
        paths = PathRoutes(node, 1)
        paths.open(other, mine)
        assert paths.weight(other) is None
        paths.offer(other, Offer(LINK, 1, theirs, 0, 0, ()))
        weights.append(paths.weight(other))
    assert weights[0] == weights[1]


def test_an_offer_in_the_name_of_another_neighbour_is_passed_over() -> None:
    paths = PathRoutes("a", 1)
    paths.open("b", 1)
    paths.offer("b", Offer("c", 1, 1, 0, 0, ("c",)))
    assert not paths.offers["b"]


def test_links_may_come_and_go_in_any_order() -> None:
    """Each time the paths are those of the links that are left."""
    graph = Graph(4, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 0, 1), (0, 2, 5)])
    make: Any = partial(network_of, graph, "path-cost")
    network, _ = make()
    for one, other in (("0", "1"), ("2", "3")):
        two_cut(network, one, other)
        wait(network)
    hops = {name: dict(router_of(network, name).hops) for name in graph.names}
    assert hops["1"] == {"0": "2", "2": "2", "3": "2"}
    assert hops["3"] == {"0": "0", "1": "0", "2": "0"}


def test_the_judge_lets_the_first_copy_come_from_any_node_that_has_the_event() -> None:
    """Node 29 got its first copy from 1, which had the event and did not mean to send it there."""
    hops = {
        "new": {"a": "29", "b": "5"},
        "29": {"a": "1", "b": "1"},
        "5": {"a": "6", "b": "b"},
        "6": {"a": "1", "b": "5"},
        "1": {"a": "a", "b": "6"},
        "a": {"b": "1"},
        "b": {"a": "5"},
    }
    wanted = {"a": {"x": "kind = 1"}, "b": {"x": "kind = 1"}}
    situation = Situation(Truth({}), hops, wanted, {}, tuple, True)
    went = [("new", "29"), ("new", "5"), ("5", "6"), ("5", "b"), ("6", "1"), ("1", "a"), ("1", "6")]
    event = {"kind": 1}
    assert objection_to_entries(None, situation, hops, "new", event, Counter(went)) is None
    fewer = Counter(ends for ends in went if "b" not in ends)
    found = objection_to_entries(None, situation, hops, "new", event, fewer)
    assert found == "did not go from 5 to ['b']"
