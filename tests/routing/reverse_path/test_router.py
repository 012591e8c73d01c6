"""Routers that learn by the reverse path: every row, every policy, mixed; scenarios: `cases/`."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.overlay.graphs import graphs, trees
from tests.routing.networks import EVENTS, interested, networks, pif_by_definition
from tests.routing.running import Log, network_of, router_of
from tidings.overlay.graph import Graph
from tidings.overlay.topologies import topology
from tidings.routing import network as whole
from tidings.routing.delivery import deliver
from tidings.routing.network import Matched, nodes_of
from tidings.routing.packets import Change, Climb
from tidings.routing.planes.interests import NOTHING
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Action,
    Cause,
    Established,
    LinkUp,
    Publish,
    Subscribe,
    Unsubscribe,
)
from tidings.routing.protocols import PROTOCOLS
from tidings.routing.reverse_path.knobs import Covering, Knobs, Merging, Rooted
from tidings.routing.reverse_path.router import ReversePathRouter
from tidings.routing.schemes import scheme
from tidings.sim.network import Network


def line(count: int) -> Graph:
    return topology(f"line:{count}")


def wait(network: Network, time: int = SECOND) -> None:
    network.run(network.now + time)


def changes(log: Log) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """The changes told since the last time of asking: from, to, added, removed."""
    found = [
        (one, other, packet.added, packet.removed)
        for one, other, packet in log.sends
        if isinstance(packet, Change)
    ]
    log.sends.clear()
    return found


def held(network: Network, node: str, link: str) -> list[str]:
    return sorted(router_of(network, node).wanted.by(link))


@pytest.mark.parametrize("row", ["subscriptions", "covering", "advertisements"])
@settings(max_examples=examples(8))
@given(data=st.data())
def test_events_take_just_the_links_that_lead_to_someone(row: str, data: st.DataObject) -> None:
    """On a tree, where there is one path to everyone, that is PIF; also after unsubscribing."""
    global_view = data.draw(networks(trees(7)))
    network, log = network_of(global_view.graph, row)
    texts = [str(interest) for interest in global_view.interests]
    for node, text in enumerate(texts):
        network.tell(str(node), Subscribe(f"s{node}", text))
        if data.draw(st.booleans()):
            network.tell(str(node), Unsubscribe(f"s{node}"))
            texts[node] = NOTHING
    wait(network)
    left = whole.Network(global_view.graph, texts)
    for source in range(left.graph.nodes):
        for event in EVENTS[::3]:
            log.sends.clear()
            network.tell(str(source), Publish(dict(event)))
            wait(network, SECOND // 4)
            assert {(int(a), int(b)) for a, b in log.links_taken()} == pif_by_definition(
                left, source, event
            )


@pytest.mark.parametrize(
    ("row", "twin"),
    [
        ("covering", "shared-tree"),
        ("rooted", "rooted"),
        ("rooted:direction=down", "rooted:direction=down"),
    ],
)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_with_cycles_events_take_the_links_of_the_twin(
    row: str, twin: str, data: st.DataObject
) -> None:
    global_view = data.draw(networks(graphs(6)))
    chosen = PROTOCOLS[row.partition(":")[0]]
    options = Rooted(direction="down") if ":" in row else chosen.options()
    network, log = network_of(global_view.graph, row.partition(":")[0], chosen.configured(options))
    for node, interest in enumerate(global_view.interests):
        network.tell(str(node), Subscribe(f"s{node}", str(interest)))
    wait(network, 2 * SECOND)
    above = scheme(twin)
    states, graph = above.build(global_view), above.graph(global_view)
    for event in EVENTS[::4]:
        who = interested(global_view, event)
        for source in range(global_view.graph.nodes):
            log.sends.clear()
            log.deliveries.clear()
            network.tell(str(source), Publish(dict(event)))
            wait(network, SECOND // 4)
            found = deliver(above, states, graph, source, Matched(nodes_of(who)))
            expected = set(zip(found.senders, found.receivers, strict=True))
            assert {(int(a), int(b)) for a, b in log.links_taken()} == expected
            assert {int(node) for node, _, _ in log.deliveries} == who


POLICIES: list[Knobs] = [
    Knobs(),
    Covering(),
    Covering(uncover="lazy"),
    Merging(most_filters=1, waste=10**9),
    Knobs(policy="everything"),
    Covering(policy="adaptive", trial=1),
]


@settings(max_examples=examples(8))
@given(networks(graphs(6)), st.integers(0, 1000))
def test_nodes_with_different_policies_work_together(global_view: whole.Network, seed: int) -> None:
    """What a node tells is opaque to its neighbour, so policies may differ."""
    chance = Random(seed)

    def make(node: str, life: int, topologies: Topologies) -> ReversePathRouter:
        knobs = chance.choice(POLICIES)
        return ReversePathRouter(node, life, topologies=topologies, options=knobs)

    network, log = network_of(global_view.graph, "covering", make)
    for node, interest in enumerate(global_view.interests):
        network.tell(str(node), Subscribe(f"s{node}", str(interest)))
        network.tell(str(node), Subscribe(f"t{node}", "a > 1 and b = 'x'"))
        network.tell(str(node), Unsubscribe(f"t{node}"))
    wait(network, 4 * SECOND)
    for event in EVENTS[::4]:
        log.deliveries.clear()
        network.tell("0", Publish(dict(event)))
        wait(network, SECOND // 4)
        got = sorted(int(node) for node, _, _ in log.deliveries)
        assert got == sorted(interested(global_view, event))


# Covering (S12)


def test_uncovering_is_one_change() -> None:
    network, log = network_of(line(3), "covering")
    for id, text in (("g", "x > 0"), ("f", "x > 5"), ("h", "x > 7"), ("k", "y = 1")):
        network.tell("0", Subscribe(id, text))
    wait(network)
    assert held(network, "1", "0") == ["x > 0", "y = 1"]
    log.sends.clear()
    network.tell("0", Unsubscribe("g"))
    wait(network)
    assert changes(log) == [
        ("0", "1", ("x > 5",), ("x > 0",)),
        ("1", "2", ("x > 5",), ("x > 0",)),
    ]
    assert held(network, "2", "1") == ["x > 5", "y = 1"]


def test_a_replaced_predicate_is_one_change_too() -> None:
    network, log = network_of(line(2), "covering")
    network.tell("0", Subscribe("s", "x > 5"))
    wait(network)
    log.sends.clear()
    network.tell("0", Subscribe("s", "x > 3"))
    wait(network)
    assert changes(log) == [("0", "1", ("x > 3",), ("x > 5",))]


def test_what_is_uncovered_is_told_to_some_links_and_not_to_others() -> None:
    """1 is in the middle: 0 and 2 at its ends, 3 below."""
    graph = Graph(4, [(0, 1, 1), (1, 2, 1), (1, 3, 1)])
    network, log = network_of(graph, "covering")
    network.tell("0", Subscribe("g0", "x > 0"))
    network.tell("2", Subscribe("g2", "x > 0"))
    network.tell("2", Subscribe("f2", "x > 5"))
    wait(network)
    log.sends.clear()
    network.tell("0", Unsubscribe("g0"))  # 2 wants it still: told to nobody but 2, taken back
    wait(network)
    assert changes(log) == [("0", "1", (), ("x > 0",)), ("1", "2", (), ("x > 0",))]
    network.tell("3", Subscribe("h", "x > 2"))
    wait(network)
    assert held(network, "0", "1") == ["x > 0"]
    log.sends.clear()
    network.tell("2", Unsubscribe("g2"))  # a third filter covers what it uncovers
    wait(network)
    assert held(network, "0", "1") == ["x > 2"]
    assert held(network, "2", "1") == ["x > 2"]
    assert held(network, "3", "1") == ["x > 5"]  # not hidden by what 3 itself has told


def test_a_lost_link_uncovers() -> None:
    network, _ = network_of(line(3), "covering")
    network.tell("0", Subscribe("g", "x > 0"))
    network.tell("1", Subscribe("f", "x > 5"))
    wait(network)
    assert held(network, "2", "1") == ["x > 0"]
    network.unlink("0", "1")
    wait(network, 3 * SECOND)
    assert held(network, "2", "1") == ["x > 5"]


class CoveredIsEstablished(ReversePathRouter):
    """A planted bug: what tells nobody anything is established at once."""

    def handle(self, cause: Cause, now: int) -> list[Action]:
        before = self.tables.changes
        out = super().handle(cause, now)
        if isinstance(cause, Subscribe) and self.tables.changes == before:
            out.insert(0, Established((cause.id,)))
        return out


def test_the_bug_that_covered_is_established_is_caught() -> None:
    with pytest.raises(AssertionError):
        covered_waits(CoveredIsEstablished)


def test_what_is_covered_is_not_established_before_what_covers_it() -> None:
    covered_waits(ReversePathRouter)


def covered_waits(router: type[ReversePathRouter]) -> None:
    network, log = network_of(line(5), "covering", partial(router, options=Covering()))
    network.tell("0", Subscribe("wide", "x > 0"))
    network.tell("0", Subscribe("narrow", "x > 5"))  # tells nobody anything
    assert [settled for settled in log.settled if "narrow" in settled[2]] == []
    wait(network)
    times = {id: now for now, _, ids in log.settled for id in ids}
    assert times["narrow"] >= times["wide"] > 0
    assert held(network, "4", "3") == ["x > 0"]


def test_lazy_withdrawal_gathers_what_comes_meanwhile() -> None:
    make = partial(ReversePathRouter, options=Covering(uncover="lazy"))
    network, log = network_of(line(2), "covering", make)
    for turn in range(5):
        network.tell("0", Subscribe(f"s{turn}", f"x = {turn}"))
    wait(network)
    log.sends.clear()
    for turn in range(5):
        network.tell("0", Unsubscribe(f"s{turn}"))
        wait(network, 20 * MILLISECOND)
    network.tell("0", Subscribe("again", "x = 3"))
    assert changes(log) == []
    wait(network, 2 * SECOND)
    assert held(network, "1", "0") == ["x = 3"]
    assert [len(removed) for _, _, _, removed in changes(log)] == [4]


def test_a_predicate_that_cannot_be_split_stays_one_atom() -> None:
    alternatives = [f"(a{n} = 1 or b{n} = 2)" for n in range(20)]  # 2**20 filters
    network, log = network_of(line(2), "covering")
    network.tell("0", Subscribe("s", " and ".join(alternatives)))
    network.tell("0", Subscribe("t", "a1 = 1 and a2 = 1"))
    wait(network)
    assert len(held(network, "1", "0")) == 2
    network.tell("1", Publish({f"a{n}": 1 for n in range(20)}))
    wait(network)
    assert [(node, ids) for node, ids, _ in log.deliveries] == [("0", ("s", "t"))]


def test_a_text_that_cannot_be_read_stands_for_everything() -> None:
    network, _ = network_of(line(3), "covering")
    router = router_of(network, "1")
    router.want("x >> 5", "0")
    router.want("x > 5", "0")
    assert router.wanting({"y": 1}) == {"0": None}
    network.tell("1", Unsubscribe("nobody"))  # tells what was heard
    wait(network)
    assert held(network, "2", "1") == ["x > 5", "x >> 5"]


# The tree


def test_a_new_link_changes_the_tree_and_no_event_is_lost() -> None:
    graph = topology("ring:6")
    weights = Graph(6, [(a, b, 9 if {a, b} == {0, 5} else 1) for a, b, _ in graph.links])
    network, log = network_of(weights, "covering")
    network.tell("3", Subscribe("s", "exists n"))
    wait(network)
    for number in range(400):
        network.tell("0", Publish({"n": number}))
        if number == 100:
            network.add_link("0", "3", 1, MILLISECOND)
            for one, other in (("0", "3"), ("3", "0")):
                network.tell(one, LinkUp(other, 1))
        wait(network, 10 * MILLISECOND)
    wait(network)
    assert sorted(p.event["n"] for _, _, p in log.deliveries) == list(range(400))
    log.sends.clear()
    network.tell("0", Publish({"n": 400}))
    wait(network)
    assert log.links_taken() == {("0", "3")}


class WithdrawsAtOnce(ReversePathRouter):
    def keeps(self, text: str, name: str, now: int) -> bool:
        return False


@pytest.mark.parametrize("row", ["subscriptions", "covering", "advertisements"])
def test_what_is_wanted_briefly_does_not_travel_round_while_the_tree_changes(row: str) -> None:
    """A link is told and taken back each filter about once, though links make cycles."""
    assert changes_of_brief_wishes(row, PROTOCOLS[row].make) <= 4


def test_the_bug_that_everything_is_withdrawn_at_once_is_caught() -> None:
    assert changes_of_brief_wishes("subscriptions", WithdrawsAtOnce) > 10


def changes_of_brief_wishes(row: str, make: Any) -> float:
    """The changes a link of the network is told for a filter that is soon given up again.

    Meanwhile a node comes that takes over as the root, far away from the former one.
    """
    wishes, links = 60, 25
    network, log = network_of(topology("grid:4x4,weights=10-40", 1), row, make)
    network.add_node("!")
    network.add_link("!", "15", 1, MILLISECOND)
    network.start("!")
    network.tell("15", LinkUp("!", 1))
    log.sends.clear()
    for number in range(wishes):
        node = f"{number % 16}"
        network.tell(node, Subscribe("brief", f"x = {number}"))
        wait(network, 5 * MILLISECOND)
        network.tell(node, Unsubscribe("brief"))
        wait(network, 15 * MILLISECOND)
    wait(network, 4 * SECOND)
    for name in network.nodes:
        assert router_of(network, name).spanning.root == "!"
        assert not router_of(network, name).wanted.who
    return len(changes(log)) / wishes / links


def test_another_link_takes_over_when_one_fails() -> None:
    network, log = network_of(topology("ring:5"), "covering")
    network.tell("2", Subscribe("s", "exists n"))
    wait(network)
    network.unlink("0", "1")
    wait(network, 3 * SECOND)
    network.tell("0", Publish({"n": 1}))
    wait(network)
    assert log.links_taken() >= {("0", "4"), ("4", "3"), ("3", "2")}
    assert len(log.deliveries) == 1


# Rooted trees (S14)


def test_entries_are_kept_for_links_downwards_only() -> None:
    network, _ = network_of(topology("line:4"), "rooted")
    for node in range(4):
        network.tell(str(node), Subscribe(f"s{node}", f"x = {node}"))
    wait(network)
    kept = {node: held(network, str(node), str(node + 1)) for node in range(3)}
    assert kept == {0: ["x = 1", "x = 2", "x = 3"], 1: ["x = 2", "x = 3"], 2: ["x = 3"]}
    assert all(held(network, str(node), str(node - 1)) == [] for node in range(1, 4))


@pytest.mark.parametrize("direction", ["both", "down"])
def test_a_root_that_dies_is_replaced(direction: Any) -> None:
    make = partial(ReversePathRouter, options=Rooted(direction=direction))
    network, log = network_of(topology("grid:3x3"), "rooted", make)
    network.tell("8", Subscribe("s", "exists n"))
    wait(network)
    assert {router_of(network, str(n)).spanning.root for n in range(9)} == {"0"}
    network.stop("0", forget=True)
    wait(network, 5 * SECOND)
    assert {router_of(network, str(n)).spanning.root for n in range(1, 9)} == {"1"}
    log.sends.clear()
    network.tell("6", Publish({"n": 1}))
    wait(network)
    climbs = sum(isinstance(packet, Climb) for _, _, packet in log.sends)
    assert bool(climbs) == (direction == "down")
    assert [node for node, _, _ in log.deliveries] == ["8"]


def test_a_root_that_is_replaced_by_a_new_node_still_serves_its_tree_for_a_while() -> None:
    """The new one is the root at once; what tells it what the others want may get lost."""
    make = partial(ReversePathRouter, options=Rooted(direction="down"))
    graph = Graph(3, [(0, 1, 1), (0, 2, 1)], ["1", "2", "3"])
    network, log = network_of(graph, "rooted", make)
    network.tell("2", Subscribe("s", "exists x"))
    wait(network, 3 * SECOND)
    network.add_node("0")
    network.add_link("0", "1", 20, 20 * MILLISECOND)
    network.start("0")
    network.tell("1", LinkUp("0", 20))
    while router_of(network, "1").spanning.parent is None:
        wait(network, MILLISECOND)
    log.sends.clear()
    log.deliveries.clear()
    network.tell("3", Publish({"x": 1}))
    wait(network, 10 * MILLISECOND)  # not enough to come back from the new root
    assert [(node, to) for node, to, packet in log.sends if type(packet) is Climb] == [
        ("3", "1"),
        ("1", "0"),
    ]
    assert [node for node, *_ in log.deliveries] == ["2"]
    wait(network, 3 * SECOND)
    assert len(log.deliveries) == 1
    network.tell("3", Publish({"x": 2}))
    wait(network, 10 * MILLISECOND)
    assert len(log.deliveries) == 1  # now it comes from the new root only
    wait(network)
    assert len(log.deliveries) == 2


def test_a_node_that_was_alone_still_serves_its_own_users_while_it_joins_a_tree() -> None:
    """Its neighbour may not use the link yet, and drop what climbs."""
    make = partial(ReversePathRouter, options=Rooted(direction="down"))
    network, log = network_of(Graph(2, [(0, 1, 1)], ["0", "1"]), "rooted", make)
    wait(network, 3 * SECOND)
    network.add_node("2")
    network.add_link("1", "2", 1, 20 * MILLISECOND)
    network.start("2")
    network.tell("2", Subscribe("s", "exists x"))  # established at once: it is alone
    network.tell("1", LinkUp("2", 1))
    while router_of(network, "2").spanning.parent is None:
        wait(network, MILLISECOND)
    network.tell("2", Publish({"x": 1}))
    wait(network, 10 * MILLISECOND)  # not enough to come back from the root
    assert [node for node, *_ in log.deliveries] == ["2"]
    wait(network, 3 * SECOND)
    assert len(log.deliveries) == 1


def test_the_root_may_be_named() -> None:
    make = partial(ReversePathRouter, options=Rooted(root="4"))
    network, _ = network_of(topology("grid:3x3"), "rooted", make)
    assert {router_of(network, str(n)).spanning.root for n in range(9)} == {"4"}
    network.stop("4", forget=True)
    wait(network, 5 * SECOND)
    assert {router_of(network, str(n)).spanning.root for n in range(9) if n != 4} == {"0"}


def test_one_node_alone_establishes_at_once() -> None:
    router = ReversePathRouter("a", options=Covering())
    assert router.handle(Subscribe("s", "x = 1"), 0) == [Established(("s",))]
    assert router.handle(Subscribe("t", NOTHING), 0) == [Established(("t",))]
