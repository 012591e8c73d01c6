"""Protocols: what their state machines do, held to the definitions of the schemes and to scenarios.

`tests/sim` breaks networks of them; here they run undisturbed, or one thing at a time.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.overlay.graphs import graphs, graphs_without_ties
from tests.routing.networks import EVENTS, TEXTS, interested, networks, pif_by_definition
from tidings.language.predicate import parse
from tidings.matching.forwarding import ForwardingTable
from tidings.overlay.graph import Graph
from tidings.overlay.paths import tree_of
from tidings.routing import network as whole
from tidings.routing.packets import (
    Advertisement,
    Hello,
    Packet,
    Publication,
    Receipt,
    Record,
    Records,
    Reply,
    Request,
    Summary,
)
from tidings.routing.planes.interests import NOTHING, beyond, join
from tidings.routing.planes.once import LIVES, NUMBERS, Once
from tidings.routing.planes.topology import UNIT, Routes, Topologies, Topology, weight_of
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Action,
    Cause,
    Deliver,
    Drop,
    Established,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Send,
    Subscribe,
    Unsubscribe,
    Woken,
)
from tidings.routing.protocols import PROTOCOLS
from tidings.routing.source_trees.content import ContentRouter
from tidings.sim.network import Network, Node
from tidings.sim.plants import PruneByInterface


class Log:
    """A watcher that writes everything down."""

    def __init__(self) -> None:
        self.sends: list[tuple[str, str, Packet]] = []
        self.deliveries: list[tuple[str, tuple[str, ...], Publication]] = []
        self.settled: list[tuple[int, str, tuple[str, ...]]] = []
        self.drops: list[str] = []

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        self.sends.append((node.name, target, packet))

    def delivered(self, now: int, node: Node, action: Deliver) -> None:
        self.deliveries.append((node.name, action.subscriptions, action.publication))

    def established(self, now: int, node: Node, action: Established) -> None:
        self.settled.append((now, node.name, action.subscriptions))

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        self.drops.append(action.reason)

    def links_taken(self) -> set[tuple[str, str]]:
        """The links that publications have taken since the last time of asking."""
        taken = {(a, b) for a, b, packet in self.sends if isinstance(packet, Publication)}
        self.sends.clear()
        return taken


def network_of(
    graph: Graph, protocol: str = "cbcb", make: Callable[..., Any] | None = None
) -> tuple[Network, Log]:
    """A network that has just been started; links delay by their cost."""
    log = Log()
    topologies = Topologies()
    made = make or PROTOCOLS[protocol].make
    network = Network(
        lambda name, life: made(name, life, topologies=topologies), log, Random(f"{graph.links}")
    )
    for name in graph.names:
        network.add_node(name)
    for one, other, weight in graph.links:
        delay = MILLISECOND * min(weight, 40)
        network.add_link(graph.names[one], graph.names[other], weight, delay)
    for name in graph.names:
        network.start(name)
    network.run(network.now + 3 * SECOND)
    return network, log


def subscribed(network: Network, log: Log, whole_network: whole.Network) -> None:
    """Let every node want what the global view says it wants, and wait until all know."""
    for node, interest in enumerate(whole_network.interests):
        network.tell(str(node), Subscribe(f"s{node}", str(interest)))
    network.run(network.now + 2 * SECOND)
    assert sorted(id for _, _, ids in log.settled for id in ids) == sorted(
        f"s{node}" for node in range(whole_network.graph.nodes)
    )


def router_of(network: Network, name: str) -> Any:
    return network.nodes[name].router


# Against the definitions


@settings(max_examples=25)
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


@settings(max_examples=25)
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


@settings(max_examples=15)
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


@settings(max_examples=20)
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


@settings(max_examples=10)
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


@st.composite
def trees_drawn(draw: st.DrawFn) -> Graph:
    nodes = draw(st.integers(1, 7))
    return Graph(nodes, [(draw(st.integers(0, n - 1)), n, 1) for n in range(1, nodes)])


@settings(max_examples=20)
@given(networks(trees_drawn()), st.data())
def test_subscription_forwarding_takes_just_the_links_that_lead_to_someone(
    global_view: whole.Network, data: st.DataObject
) -> None:
    """On a tree without ways to choose, that is PIF; also after some have unsubscribed."""
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


# The topology


@given(graphs(8, connected=False))
def test_ways_are_shortest_unique_and_the_same_in_both_directions(graph: Graph) -> None:
    names = graph.names
    adjacency: dict[str, dict[str, int]] = {name: {} for name in names}
    for one, other, cost in graph.links:
        low, high = sorted((names[one], names[other]))
        adjacency[low][high] = adjacency[high][low] = weight_of(low, high, cost)
    topology = Topology(0, adjacency)
    routes = {name: Routes(name, topology) for name in names}
    for source in names:
        plain = tree_of(graph.adjacency, int(source)).distance
        found = {int(n): d // UNIT for n, d in topology.distances(source).items()}
        assert found == plain
        for node in names:
            below = tuple(w for w in sorted(adjacency[node]) if routes[w].hop.get(source) == node)
            assert routes[node].children(source) == (below if int(node) in plain else ())


# The link state


def test_a_restarted_node_surpasses_the_number_it_had_before_it_lost_its_memory() -> None:
    network, _ = network_of(Graph(3, [(0, 1, 1), (1, 2, 1)]))
    network.run(network.now + 60 * SECOND)  # numbers grow
    before = router_of(network, "2").plane.records["0"]
    network.stop("0", forget=True)
    network.start("0")
    network.run(network.now + 3 * SECOND)
    after = router_of(network, "2").plane.records["0"]
    assert after.number > before.number > 5
    assert after.life != before.life
    assert router_of(network, "2").plane.routes.hop == {"0": "1", "1": "1"}


def test_a_record_dies_everywhere_at_about_one_time() -> None:
    network, _ = network_of(Graph(4, [(0, 1, 1), (1, 2, 1), (2, 3, 1)]))
    network.stop("0", forget=True)
    network.run(network.now + 30 * SECOND)
    assert "0" in router_of(network, "3").plane.records
    # A record that is told to a newcomer does not grow young again.
    network.stop("3", forget=True)
    network.start("3")
    network.run(network.now + 8 * SECOND)
    for name in ("1", "2", "3"):
        assert "0" not in router_of(network, name).plane.records


def test_a_node_that_leaves_is_forgotten_at_once() -> None:
    network, _ = network_of(Graph(3, [(0, 1, 1), (1, 2, 1)]))
    network.tell("0", Leave())
    network.stop("0", forget=True)
    network.run(network.now + SECOND // 2)
    assert router_of(network, "2").plane.routes.hop == {"1": "1"}


def test_a_link_that_carries_packets_one_way_only_is_not_used() -> None:
    network, _ = network_of(Graph(3, [(0, 1, 1), (1, 2, 1), (0, 2, 5)]))
    network.links["0", "1"].cut = 1
    network.run(network.now + 3 * SECOND)
    assert router_of(network, "0").plane.routes.hop == {"1": "2", "2": "2"}
    network.links["0", "1"].cut = 0
    network.run(network.now + 3 * SECOND)
    assert router_of(network, "0").plane.routes.hop == {"1": "1", "2": "1"}


def test_records_that_got_lost_are_made_up_for() -> None:
    network, _ = network_of(Graph(4, [(0, 1, 1), (1, 2, 1), (2, 3, 1)]))
    network.links["1", "2"].loss = 1.0
    network.links["1", "2"].disturbed()
    network.unlink("0", "1")  # told to 2 in vain
    network.run(network.now + SECOND // 2)
    network.links["1", "2"].calm()
    network.run(network.now + 2 * SECOND)
    assert router_of(network, "3").plane.routes.hop == {"1": "2", "2": "2"}


# The content plane


def hidden_receiver() -> Graph:
    """A ring of five: 0 and 1 want, 3 publishes; from 2 both are by 1, from 3 they part."""
    return Graph(5, [(0, 1, 1), (1, 2, 2), (2, 3, 2), (3, 4, 2), (4, 0, 3)])


def deliveries_around_a_pruned_advertisement(make: Callable[..., Any]) -> list[str]:
    network, log = network_of(hidden_receiver(), make=make)
    network.tell("0", Subscribe("wide", "price > 0"))
    network.run(network.now + SECOND // 2)
    network.tell("1", Subscribe("narrow", "price > 5"))
    network.run(network.now + SECOND // 2)
    assert {id for _, _, ids in log.settled for id in ids} == {"wide", "narrow"}
    for source in ("2", "3", "4"):
        network.tell(source, Publish({"price": 6}))
    network.run(network.now + SECOND // 2)
    return sorted(f"{node} {p.source}" for node, _, p in log.deliveries)


def test_a_pruned_advertisement_hides_no_receiver() -> None:
    """As the paper has it, 2 stops the narrower advertisement of 1: its interface to 1 already has
    the wider one of 0. But 3, whose way to 0 is by 4, would never hear that 1 is there."""
    everything = ["0 2", "0 3", "0 4", "1 2", "1 3", "1 4"]
    assert deliveries_around_a_pruned_advertisement(ContentRouter) == everything
    literal = deliveries_around_a_pruned_advertisement(PruneByInterface)
    assert "1 3" not in literal


def test_an_advertisement_goes_no_further_than_where_as_much_is_wanted() -> None:
    network, log = network_of(Graph(6, [(n, n + 1, 1) for n in range(5)]))
    network.tell("2", Subscribe("wide", "price > 0"))
    network.run(network.now + SECOND)
    log.sends.clear()
    network.tell("0", Subscribe("narrow", "price > 5 or kind = 1"))
    network.run(network.now + SECOND // 2)
    said = {(a, b): p.predicate for a, b, p in log.sends if isinstance(p, Advertisement)}
    wholly = "kind = 1 or price > 5"
    assert said == {
        ("0", "1"): wholly,
        ("1", "2"): wholly,
        ("2", "3"): "kind = 1",  # reduced by what 2 wants itself
        ("3", "4"): "kind = 1",
        ("4", "5"): "kind = 1",
    }


def test_a_second_subscription_that_adds_nothing_is_established_without_a_packet() -> None:
    router = ContentRouter("a")
    router.handle(LinkUp("b", 1), 0)
    router.handle(Subscribe("wide", "price > 0"), 0)
    assert router.handle(Subscribe("narrow", "price > 5"), 0) == [Established(("narrow",))]


def test_established_waits_for_the_farthest_and_for_what_was_lost() -> None:
    network, log = network_of(Graph(3, [(0, 1, 1), (1, 2, 1)]))
    network.links["1", "2"].loss = 1.0
    network.links["1", "2"].disturbed()
    network.tell("0", Subscribe("s", "price > 0"))
    network.run(network.now + 300 * MILLISECOND)
    assert not log.settled
    network.links["1", "2"].calm()
    network.run(network.now + 2 * SECOND)
    assert [ids for _, _, ids in log.settled] == [("s",)]
    assert router_of(network, "2").table == {"1": "price > 0"}


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


def test_one_link_cut_in_a_ring_and_events_take_the_other_way() -> None:
    network, log = network_of(Graph(5, [(n, (n + 1) % 5, 1) for n in range(5)]))
    network.tell("0", Subscribe("s", "price > 0"))
    network.run(network.now + SECOND)
    network.links["0", "1"].cut = network.links["1", "0"].cut = 1
    network.run(network.now + 3 * SECOND)
    log.sends.clear()
    network.tell("1", Publish({"price": 1}))
    network.run(network.now + SECOND)
    assert log.links_taken() == {("1", "2"), ("2", "3"), ("3", "4"), ("4", "0")}
    assert [node for node, _, _ in log.deliveries] == ["0"]


def test_packets_from_nowhere_are_dropped_and_counted() -> None:
    router = ContentRouter("a")
    router.handle(LinkUp("b", 1), 0)
    strangers: list[Packet] = [
        Publication("x", 1, 1, {}),
        Advertisement("x", 1, 1, 0, "price > 0"),
        Request("x", 1, 1, 0),
        Reply("x", 1, "price > 0"),
    ]
    for packet in strangers:
        (action,) = router.handle(Received("b", packet), 0)
        assert isinstance(action, Drop)
    assert router.handle(Received("b", Receipt("x", 1)), 0) == []
    assert router.table == {}


def test_a_neighbour_that_sends_a_bad_predicate_does_no_harm() -> None:
    network, _log = network_of(Graph(2, [(0, 1, 1)]))
    router = router_of(network, "0")
    life, view = network.nodes["1"].life, router.plane.routes.digest
    bad = Advertisement("1", life, 99, view, "price >> 5")
    (action,) = router.handle(Received("1", bad), network.now)
    assert isinstance(action, Drop)
    assert action.reason == "a bad predicate"
    network.tell("1", Subscribe("s", "price > 5"))
    network.run(network.now + 12 * SECOND)
    assert router.table == {"1": "price > 5"}


# Subscription forwarding


def test_equal_subscriptions_on_both_sides_hide_nobody() -> None:
    """By the letter of the survey the second announcement stops where the first is known."""
    network, log = network_of(Graph(3, [(0, 1, 1), (1, 2, 1)]), "subscriptions")
    for name in ("0", "2"):
        network.tell(name, Subscribe(f"s{name}", "price > 0"))
        network.run(network.now + SECOND)
    for name in ("0", "1", "2"):
        network.tell(name, Publish({"price": 1}))
    network.run(network.now + SECOND)
    assert len(log.deliveries) == 6


def test_a_lost_link_is_forgotten_and_told_anew_when_it_is_back() -> None:
    network, _log = network_of(Graph(3, [(0, 1, 1), (1, 2, 1)]), "subscriptions")
    network.tell("0", Subscribe("s", "price > 0"))
    network.run(network.now + SECOND)
    assert router_of(network, "2").wanted == {"price > 0": {"1": None}}
    network.unlink("0", "1")
    network.run(network.now + SECOND)
    assert router_of(network, "2").wanted == {}
    network.relink("0", "1")
    network.run(network.now + 2 * SECOND)
    assert router_of(network, "2").wanted == {"price > 0": {"1": None}}
    network.tell("0", Unsubscribe("s"))
    network.run(network.now + SECOND)
    assert router_of(network, "2").wanted == {}


# All of them


class Recorder:
    """A router that remembers what happened to it and what it did."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.history: list[tuple[bytes, int, list[Action]]] = []

    def handle(self, cause: Cause, now: int) -> list[Action]:
        actions: list[Action] = self.made.handle(cause, now)
        self.history.append((msgspec.msgpack.encode(cause), now, actions))
        return actions

    def timer(self) -> int | None:
        return self.made.timer()  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, Any]:
        return self.made.snapshot()  # type: ignore[no-any-return]

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        return self.made.explain_links(source, event)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_recorded_run_replayed_gives_the_same_actions_and_state(name: str) -> None:
    row = PROTOCOLS[name]
    links = [(0, 1, 1), (1, 2, 1), (2, 3, 2)]
    graph = Graph(4, links if not row.any_graph else [*links, (3, 0, 1)])

    def make(node: str, life: int, topologies: Topologies) -> Recorder:
        return Recorder(row.make(node, life, topologies=topologies))

    network, _ = network_of(graph, name, make)
    chance = Random(7)
    for turn in range(60):
        node = str(chance.randrange(4))
        causes: list[Cause] = [
            Publish({"a": chance.randrange(3), "b": "x"}),
            Subscribe(f"s{turn % 9}", chance.choice(TEXTS) or NOTHING),
            Unsubscribe(f"s{chance.randrange(9)}"),
        ]
        network.tell(node, chance.choice(causes))
        if turn == 30:
            network.unlink("0", "1")
        if turn == 45:
            network.relink("0", "1")
        network.run(network.now + 100 * MILLISECOND)
    for place in network.nodes.values():
        recorder: Any = place.router
        again = row.make(place.name, place.life)
        for cause, now, actions in recorder.history:
            assert again.handle(msgspec.msgpack.decode(cause, type=Cause), now) == actions
        assert again.snapshot() == recorder.snapshot()
        assert again.timer() == recorder.timer()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_is_no_cause_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="no cause"):
        PROTOCOLS[name].make("a").handle("hello", 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_waking_for_nothing_and_giving_up_nothing_do_nothing(name: str) -> None:
    router = PROTOCOLS[name].make("a")
    assert router.timer() is None
    assert router.handle(Woken(), 0) == []
    assert router.handle(Unsubscribe("nobody"), 0) == []
    assert router.handle(LinkDown("nobody"), 0) == []


def test_packets_travel_as_short_arrays() -> None:
    record = Record("a", 1, 2, 3, (("b", 4),))
    packets: list[Packet] = [
        Hello(1, 2, 3),
        Records((record,)),
        Summary((("a", 2, 1),)),
        Publication("a", 1, 1, {"price": 3, "tags": ["x", None, {"deep": 1.5}]}),
    ]
    for packet in packets:
        data = msgspec.msgpack.encode(packet)
        assert msgspec.msgpack.decode(data, type=Packet) == packet
    assert len(msgspec.msgpack.encode(Hello(1, 1, 1))) == 5


# Small parts


@given(st.lists(st.tuples(st.integers(0, LIVES - 1), st.integers(0, 3 * NUMBERS)), max_size=60))
def test_nothing_is_the_first_of_its_kind_twice(seen: list[tuple[int, int]]) -> None:
    once, before = Once(), set[tuple[int, int]]()
    newest: dict[int, int] = {}
    for life, number in seen:
        first = once.first(Publication("a", life, number, {}))
        too_old = newest.get(life, number) - number >= NUMBERS
        assert first == ((life, number) not in before and not too_old)
        before.add((life, number))
        newest[life] = max(newest.get(life, number), number)


@given(st.sampled_from(TEXTS[2:]), st.sampled_from(TEXTS[2:]), st.sampled_from(EVENTS))
def test_what_a_predicate_adds_is_what_the_other_lacks(
    text: str, known: str, event: dict[str, Any]
) -> None:
    rest = beyond(text, known)
    both = parse(known).matches(event) or parse(rest).matches(event)
    assert both == (parse(known).matches(event) or parse(text).matches(event))
    assert parse(text).covers(parse(rest))
    assert (rest == NOTHING) == parse(known).covers(parse(text))
    assert parse(join((text, known))).matches(event) == both
