"""Hermes (S15): trees of types, the directory, and events that never leave their node."""

from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.routing.networks import EVENTS, TEXTS
from tests.routing.running import Log, network_of, router_of
from tidings.language.predicate import parse
from tidings.overlay.ideal import IdealRing
from tidings.overlay.topologies import topology
from tidings.routing.packets import Branch, Parcel, Typed
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    USUAL,
    Advertise,
    LinkUp,
    Publish,
    Subscribe,
    Unsubscribe,
)
from tidings.routing.structured.hermes import HermesRouter, Tree, Twig, linger
from tidings.routing.structured.types import DIRECTORY, HermesOptions, placed_in, types_of
from tidings.sim.network import Network

BY_A = HermesOptions(type="a", trees=3)


@settings(max_examples=examples(200))
@given(st.sampled_from([text for text in TEXTS if text]), st.sampled_from(EVENTS))
def test_an_event_finds_a_predicate_in_one_of_its_trees_or_the_directory(
    text: str, event: dict[str, Any]
) -> None:
    """Also where an attribute has several values, by which different constraints are met."""
    for one in (event, {"a": [0, 1, 2], **{k: v for k, v in event.items() if k != "a"}}):
        trees = [*types_of(BY_A, one), DIRECTORY]
        parts = placed_in(BY_A, text)
        found = any(parse(parts[tree]).matches(one) for tree in trees if tree in parts)
        assert found == parse(text).matches(one)


def test_two_types_in_one_filter_lie_in_one_tree() -> None:
    text = "a = 1 and a = 2"
    assert len(placed_in(HermesOptions(type="a"), text)) == 1
    assert parse(text).matches({"a": [1, 2]})


def number_of(type: str) -> int:
    """The number of the tree of a type."""
    (number,) = placed_in(HermesOptions(), f"class = '{type}'")
    return number


def climbs(log: Log) -> list[tuple[str, str]]:
    """Who has sent an event to whom in some tree."""
    found = [
        (packet.source, packet.target)
        for _, _, packet in log.sends
        if isinstance(packet, Parcel) and isinstance(packet.packet, Typed) and packet.hops == 0
    ]
    log.sends.clear()
    return found


def at_rest(text: str = "ba:12") -> tuple[Network, Log, Any]:
    graph = topology(text, 4)
    network, log = network_of(graph, "hermes")
    network.run(network.now + 3 * SECOND)
    log.sends.clear()
    return network, log, graph


def say(network: Network, node: str, cause: Any) -> None:
    network.tell(node, cause)
    network.run(network.now + 400 * MILLISECOND)


def test_the_root_of_a_type_is_the_node_in_charge_of_it() -> None:
    network, _, graph = at_rest()
    say(network, "3", Subscribe("s", "class = 'alert'"))
    (number,) = placed_in(HermesOptions(), "class = 'alert'")
    roots = [
        name
        for name in graph.names
        if (tree := router_of(network, name).service.trees.get(number)) and tree.parent is None
    ]
    key = router_of(network, "3").service.key_of(number)
    assert roots == [IdealRing(graph.names).owner(key)]


def test_what_nobody_wants_stays_where_it_is_published() -> None:
    network, log, _ = at_rest()
    say(network, "3", Subscribe("s", "class = 'alert' and severity > 5"))
    say(network, "7", Advertise("v", "class = 'alert'"))
    say(network, "7", Publish({"class": "alert", "severity": 9}))
    assert [node for node, *_ in log.deliveries] == ["3"]
    log.sends.clear()
    say(network, "7", Publish({"class": "alert", "severity": 1}))
    assert climbs(log) == []
    say(network, "5", Subscribe("t", "class = 'alert'"))
    log.sends.clear()
    say(network, "7", Publish({"class": "alert", "severity": 1}))
    assert climbs(log) != []
    assert log.deliveries[-1][0] == "5"


@pytest.mark.parametrize(
    "text", ["severity > 2", "class prefix 'com.example.'", "not class = 'metric'", "true"]
)
def test_predicates_without_a_type_get_the_first_event_of_a_new_type(text: str) -> None:
    network, log, graph = at_rest("ba:8")
    say(network, "1", Subscribe("s", text))
    assert log.settled[-1][1:] == ("1", ("s",))
    for number, name in enumerate(graph.names):
        event = {"class": f"com.example.{number}", "severity": 3}
        for _ in range(2):  # the first event of a type, and one that the directory knows
            log.deliveries.clear()
            say(network, name, Publish(dict(event)))
            assert [ids for _, ids, _ in log.deliveries] == [("s",)]


def test_an_event_of_several_types_is_delivered_once() -> None:
    network, log, _ = at_rest("ba:8")
    say(network, "1", Subscribe("s", "class = 'a'"))
    say(network, "1", Subscribe("t", "class = 'b'"))
    say(network, "6", Publish({"class": ["a", "b", "c"]}))
    assert [ids for _, ids, _ in log.deliveries] == [("s", "t")]


def test_the_subscribers_of_a_root_that_crashed_are_served_again() -> None:
    network, log, graph = at_rest()
    say(network, "3", Subscribe("s", "class = 'alert'"))
    (number,) = placed_in(HermesOptions(), "class = 'alert'")
    key = router_of(network, "3").service.key_of(number)
    root = IdealRing(graph.names).owner(key)
    assert root != "3"
    network.stop(root, forget=True)
    network.run(network.now + 5 * SECOND)
    source = next(name for name in graph.names if name not in ("3", root))
    say(network, source, Publish({"class": "alert"}))
    assert [node for node, *_ in log.deliveries] == ["3"]


def root_of(network: Network, names: Iterable[str], type: str) -> str:
    """The node in charge of a type."""
    key = router_of(network, "0").service.key_of(number_of(type))
    return IdealRing(names).owner(key)


def join(network: Network, name: str, others: Iterable[str]) -> None:
    """A node comes to a network, with links to others."""
    network.add_node(name)
    for other in others:
        network.add_link(name, other, 1, MILLISECOND)
    network.start(name)
    for other in others:
        network.tell(other, LinkUp(name, 1))


def test_nothing_is_lost_while_a_new_node_becomes_the_root() -> None:
    network, log, graph = at_rest()
    new = next(
        n for n in map("new{}".format, count()) if root_of(network, [*graph.names, n], "x") == n
    )
    for name in ("3", "5", "8"):
        say(network, name, Subscribe(name, "class = 'x'"))
    log.deliveries.clear()
    for turn in range(1_000):
        if turn == 50:
            join(network, new, ["1", "4"])
        network.tell("7", Publish({"class": "x", "turn": turn}))
        network.run(network.now + 10 * MILLISECOND)
    network.run(network.now + SECOND)
    assert router_of(network, new).service.trees[number_of("x")].parent is None
    came = Counter(publication.event["turn"] for _, _, publication in log.deliveries)
    assert came == dict.fromkeys(range(1_000), 3)


def test_a_new_root_reaches_the_subscribers_of_the_former_one() -> None:
    network, log, graph = at_rest()
    new = next(
        n for n in map("new{}".format, count()) if root_of(network, [*graph.names, n], "x") == n
    )
    say(network, "3", Subscribe("s", "class = 'x'"))
    join(network, new, ["1", "4"])
    while not router_of(network, new).substrate.successors:
        network.run(network.now + MILLISECOND)
    say(network, new, Publish({"class": "x"}))
    assert [node for node, *_ in log.deliveries] == ["3"]


def test_a_subscription_is_established_once_all_nodes_know_a_new_one() -> None:
    """Others may still use the tree of the former root."""
    network, log, _ = at_rest()
    join(network, "new", ["1", "4"])
    network.run(network.now + 400 * MILLISECOND)
    say(network, "1", Subscribe("s", "class = 'x'"))
    assert log.settled == []
    assert "new" not in router_of(network, "1").hops
    network.run(network.now + linger(USUAL))
    assert [ids for _, _, ids in log.settled] == [("s",)]
    assert "new" in router_of(network, "1").hops


def test_a_node_that_has_forgotten_what_is_wanted_is_told_again() -> None:
    network, log, graph = at_rest("line:2")
    root = root_of(network, graph.names, "x")
    (leaf,) = set(graph.names) - {root}
    say(network, root, Subscribe("s", "class = 'x' and n > 5"))
    say(network, leaf, Publish({"class": "x", "n": 9}))
    log.sends.clear()
    router_of(network, leaf).service.members_changed([root])
    network.run(network.now + 30 * SECOND)
    log.sends.clear()
    say(network, leaf, Publish({"class": "x", "n": 1}))
    assert climbs(log) == []


def branches(log: Log, source: str) -> list[Branch]:
    """What a node has told others in trees."""
    return [
        packet.packet
        for _, _, packet in log.sends
        if isinstance(packet, Parcel)
        and isinstance(packet.packet, Branch)
        and packet.source == source
    ]


def test_a_table_is_told_once_and_again_to_whoever_has_forgotten_it() -> None:
    network, log, graph = at_rest("line:2")
    root = root_of(network, graph.names, "x")
    (leaf,) = set(graph.names) - {root}
    say(network, leaf, Subscribe("s", "class = 'x'"))
    log.sends.clear()
    network.run(network.now + 2 * USUAL.refresh)
    assert {branch.predicates for branch in branches(log, leaf)} == {()}
    router_of(network, root).service.trees.clear()
    network.run(network.now + 2 * USUAL.refresh)
    (twig,) = router_of(network, root).service.trees[number_of("x")].twigs.values()
    assert twig.theirs == ("class = 'x'",)


def test_an_answer_that_got_lost_is_given_again() -> None:
    network, _, graph = at_rest("line:2")
    leaf = ({*graph.names} - {root_of(network, graph.names, "x")}).pop()
    say(network, leaf, Subscribe("s", "class = 'x'"))
    (twig,) = router_of(network, leaf).service.trees[number_of("x")].twigs.values()
    twig.their_settled = 0
    network.run(network.now + 30 * SECOND)
    assert twig.is_quiet()


def test_a_node_that_nobody_needs_leaves_the_tree() -> None:
    network, _, graph = at_rest()
    say(network, "3", Subscribe("s", "class = 'x'"))
    assert any(number_of("x") in router_of(network, n).service.trees for n in graph.names)
    say(network, "3", Unsubscribe("s"))
    assert not any(number_of("x") in router_of(network, n).service.trees for n in graph.names)


def test_figures_count_trees_and_what_stays_at_its_node() -> None:
    network, _, graph = at_rest("line:2")
    root = root_of(network, graph.names, "x")
    (leaf,) = set(graph.names) - {root}
    say(network, leaf, Subscribe("s", "class = 'x' and n > 5"))
    found = router_of(network, root).figures()
    assert (found["overlay_neighbours"], found["overlay_settled"]) == (1, 1)
    assert (found["trees"], found["trees_rooted"]) == (1, 1)
    assert (found["branches_below"], found["predicates_held"]) == (1, 1)
    for _ in range(2):
        say(network, leaf, Publish({"class": "x", "n": 1}))
    assert router_of(network, leaf).figures()["events_kept"] > 0


def test_explain_says_why_an_event_climbs_or_descends() -> None:
    network, _, graph = at_rest("line:4")
    say(network, "3", Subscribe("s", "class = 'alert' and severity > 5"))
    event = {"class": "alert", "severity": 9}
    before = [router_of(network, n).explain_links(n, event) for n in graph.names[:3]]
    whys = [why for links in before for _, why in links.values()]
    assert any("climbs to the root" in why for why in whys)
    for name in graph.names[:3]:
        say(network, name, Publish(dict(event)))
    network.run(network.now + SECOND)
    after = [router_of(network, n).explain_links(n, event) for n in graph.names[:3]]
    whys = [why for links in after for _, why in links.values()]
    assert any("severity > 5 is wanted" in why for why in whys)


def test_every_node_of_a_tree_says_where_an_event_of_others_goes() -> None:
    network, _, graph = at_rest("line:4")
    root = root_of(network, graph.names, "alert")
    one, other = [name for name in graph.names if name != root][:2]
    say(network, one, Subscribe("s", "class = 'alert' and severity > 5"))
    event = {"class": "alert", "severity": 9}
    whys = [why for _, why in router_of(network, root).explain_links(other, event).values()]
    assert any("below, " in why and "severity > 5 is wanted" in why for why in whys)


def test_what_a_former_parent_wants_is_told_on_once_it_is_below() -> None:
    """Else the new parent would hear of it only when the former one is given up."""
    tree = Tree("new")
    tree.former["former"] = SECOND
    tree.twigs["former"] = Twig()
    tree.twigs["former"].is_child = True
    tree.twigs["former"].theirs = ("x = 1",)
    hermes = HermesRouter("a").service
    assert ("x = 1",) in hermes.below(tree, "new")
    assert ("x = 1",) not in hermes.below(tree, "former")
