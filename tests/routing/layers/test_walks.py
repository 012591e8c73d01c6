"""Walks that are not answered, places that do not exist, and functions that lie (L2, L3)."""

import re
from collections.abc import Mapping
from typing import Any

from tests.routing.layers.network import layered, published, subscribed
from tests.routing.running import router_of
from tidings.language.predicate import Predicate
from tidings.overlay.topologies import topology
from tidings.routing.layers.rendezvous import Keys
from tidings.routing.layers.router import LayeredRouter
from tidings.routing.layers.settings import Layering
from tidings.routing.layers.walks import Choice, Walks
from tidings.routing.packets import Consignment, Listed, Publication, Put, Walk, Walked
from tidings.routing.protocol import SECOND, USUAL, Configure, Drop, Received, Refused, Subscribe

CHOICES = [Choice(("a", "b", "c"), ((0, 0),)), Choice(("d", "e"), ((1, 0),)), Choice(("f",), ())]


def begun() -> tuple[Walks, Walk]:
    walks = Walks("p", USUAL)
    stops = tuple(walks.stop(choice, "draw") for choice in CHOICES)
    walk = Walk("", "p", 1, 7, 0, 3, stops, Publication("p", 1, 7, {}), b"", ())
    walks.begin(walk, CHOICES, 0)
    return walks, walk


def test_a_walk_goes_on_where_it_was_lost_past_another_node_of_the_region() -> None:
    walks, walk = begun()
    walks.walked(Walked("", 1, 7, 0, 2, ("x",)), 10)
    assert walks.late(20) == []
    ((again, given_up),) = walks.late(10**10)
    assert not given_up
    assert [asked for _, asked in again.stops] == [((1, 0),), ()]  # not from the beginning
    assert again.stops[0][0] != walk.stops[1][0]
    assert {again.stops[0][0], walk.stops[1][0]} == {"d", "e"}
    assert again.found == ("x",)


def test_a_region_in_which_nobody_answers_is_given_up_and_the_next_one_visited() -> None:
    walks, _ = begun()
    walks.walked(Walked("", 1, 7, 0, 2, ()), 10)
    now = 10
    seen: list[tuple[str, bool]] = []
    while (when := walks.timer()) is not None and len(seen) < 20:
        now = when
        seen += [(walk.stops[0][0] if walk.stops else "", lost) for walk, lost in walks.late(now)]
    assert seen[-1] == ("", True)
    assert [lost for _, lost in seen].count(True) == 2
    assert "f" in {node for node, _ in seen}
    assert walks.snapshot() == {"walks": 0}


def test_answers_that_are_late_repeated_or_of_another_life_change_nothing() -> None:
    walks, _ = begun()
    walks.walked(Walked("", 2, 7, 0, 0, ()), 10)
    walks.walked(Walked("", 1, 8, 0, 0, ()), 10)
    walks.walked(Walked("", 1, 7, 0, -3, ()), 10)  # fewer stops than none are left
    assert walks.snapshot() == {"walks": 1}
    walks.walked(Walked("", 1, 7, 0, 1, ()), 10)
    walks.walked(Walked("", 1, 7, 0, 2, ()), 11)  # overtaken
    ((again, _),) = walks.late(10**10)
    assert len(again.stops) == 1
    walks.walked(Walked("", 1, 7, 0, 0, ()), 12)
    walks.walked(Walked("", 1, 7, 0, 0, ()), 13)
    assert walks.snapshot() == {"walks": 0}


def test_what_comes_in_the_name_of_the_node_itself_is_a_counted_drop() -> None:
    """Else it would count as newer than all that the node puts there, which would try for ever."""
    network, log = layered(topology("ring:3"), Layering())
    node = router_of(network, "0")
    forged = Put("", "0", node.plane.life, 2**62, True, (), (), 0)
    out = node.handle(Received("1", Listed(("0",), 0, 0, forged)), network.now)
    assert [action.reason for action in out if isinstance(action, Drop)] == [
        "in the name of this node"
    ]
    subscribed(network, {"0": ["a = 1"]})
    assert published(network, log, "1", {"a": 1}) == ["0/0"]


def test_replicas_are_spares_when_a_node_dies_without_a_word() -> None:
    graph = topology("star:7")
    hub = max(graph.names, key=lambda name: len(graph.neighbours(graph.names.index(name))))
    others = [name for name in graph.names if name != hub]
    chosen = Layering(matching="regions", replicas=3, hops=1, nodes=tuple(others[:3]))
    network, log = layered(graph, chosen)
    subscribed(network, {others[4]: ["a = 1"]})
    network.stop(others[0], forget=True)  # nobody has noticed yet
    for number in range(6):
        assert published(network, log, others[5], {"a": 1, "n": number}) == [f"{others[4]}/0"]


def test_a_predicate_without_a_single_place_is_refused_where_that_is_asked_for() -> None:
    chosen = Layering(
        matching="regions", replicas=1, rendezvous="hash:topic", unkeyed="strict", regions=4
    )
    network, _ = layered(topology("ring:6"), chosen)
    node = router_of(network, "0")
    for text, count in (("x > 3", "any"), ("topic in ('a', 'b', 'c', 'd', 'e')", r"\d")):
        refused = node.handle(Subscribe("s", text), network.now)[-1]
        assert isinstance(refused, Refused)
        assert refused.subscriptions == ("s",)
        assert re.search(f"one key of hash:topic, found {count} of 5", refused.reason)
    node.handle(Subscribe("s", "topic = 'a' and x > 3"), network.now)
    assert node.snapshot()["subscriptions"] == {"s": "topic = 'a' and x > 3"}


class Lying:
    """A user's function that gives events a key where their subscriptions do not lie."""

    def event(self, event: Mapping[str, Any], regions: int) -> Keys:
        return frozenset((event.get("a", 0) % regions,))

    def places(self, predicate: Predicate, regions: int) -> Keys | None:
        return frozenset((0,))


def test_a_function_of_a_user_that_lies_is_found_out_by_audits() -> None:
    chosen = Layering(
        matching="regions",
        replicas=1,
        regions=6,
        rendezvous=f"call:{__name__}:Lying",
        audit=1,
    )
    network, log = layered(topology("ring:6"), chosen)
    subscribed(network, {"2": ["a = 3"]})
    assert published(network, log, "4", {"a": 3}) == ["2/0"]  # an audited event is delivered
    assert any("the rendezvous function is wrong" in reason for reason in log.drops)
    assert sum(router_of(network, n).snapshot()["misplaced"] for n in network.nodes) == 1


def test_without_a_matching_node_in_reach_nothing_is_established_and_drops_are_counted() -> None:
    network, log = layered(topology("line:3"), Layering(matching="regions", nodes=("elsewhere",)))
    subscribed(network, {"0": ["a = 1"]})
    assert not log.settled
    assert published(network, log, "2", {"a": 1}) == []
    assert "no node of the matching layer is in reach" in log.drops


def test_a_packet_for_a_node_that_is_gone_is_a_counted_drop() -> None:
    node = LayeredRouter("a")
    gone = Listed(("z",), 99, 0, Consignment("", b"sealed"))
    (dropped,) = node.handle(Received("b", gone), 0)
    assert isinstance(dropped, Drop)
    assert dropped.reason == "no path"


def test_what_was_accepted_is_found_also_where_it_would_be_refused_now() -> None:
    """Others ask only under keys from now on; before, it lay where every event asked."""
    chosen = Layering(matching="regions", replicas=1, rendezvous="hash:topic", places=2)
    network, log = layered(topology("ring:8"), chosen)
    subscribed(network, {"2": ["x > 3"], "3": ["topic in ('a', 'b', 'c', 'd', 'e')"]})
    event = {"x": 4, "topic": "a"}
    assert published(network, log, "5", event) == ["2/0", "3/0"]
    network.tell("0", Configure("", {"unkeyed": "strict"}))
    network.run(network.now + 6 * SECOND)
    assert published(network, log, "5", event) == ["2/0", "3/0"]
    network.tell("4", Subscribe("late", "x > 3"))
    network.run(network.now + SECOND)
    (told,) = [action for _, action in log.notices if isinstance(action, Refused)]
    assert told.subscriptions == ("late",)


def test_a_predicate_with_one_key_is_found_when_more_regions_give_it_several() -> None:
    topics = ", ".join(f"'t{n}'" for n in range(20))
    chosen = Layering(
        matching="regions", replicas=4, rendezvous="hash:topic", unkeyed="strict", places=2
    )
    network, log = layered(topology("ring:4"), chosen)
    subscribed(network, {"2": [f"topic in ({topics})"]})  # there is one region, so one key
    network.tell("0", Configure("", {"replicas": 1}))
    network.run(network.now + 6 * SECOND)
    for number in range(20):
        assert published(network, log, "1", {"topic": f"t{number}"}) == ["2/0"]


def test_a_walk_past_regions_that_cannot_be_is_a_counted_drop() -> None:
    """Audits compute keys from their number."""
    node = LayeredRouter("a", options=Layering(matching="regions", rendezvous="hash:k", audit=1))
    for regions in (0, -1, -(2**63), 2**62):
        publication = Publication("b", 1, 1, {"k": 1})
        walk = Walk("", "b", 1, 1, 0, regions, (("a", ((0, 0),)),), publication, b"", ())
        (dropped,) = node.handle(Received("b", Listed(("a",), 0, 0, walk)), 0)
        assert isinstance(dropped, Drop)
        assert dropped.reason == "regions that cannot be"
