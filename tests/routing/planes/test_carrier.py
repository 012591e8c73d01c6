"""Packets from any node to any other: hop by hop, or straight to whomever one has heard of."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from tests.routing.running import Log
from tidings.overlay.graph import Graph
from tidings.overlay.paths import tree
from tidings.overlay.topologies import topology
from tidings.routing.packets import (
    Hello,
    Packet,
    Parcel,
    Publication,
    Records,
    Reminder,
    Returned,
    Summary,
    publication_of,
)
from tidings.routing.planes.carrier import MOST_HOPS, Carried, Carrier, Copies, Meshed
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    USUAL,
    Action,
    Cause,
    Drop,
    LinkUp,
    Publish,
    Received,
    Woken,
)
from tidings.routing.protocols import ANYONE, NEIGHBOURS, UNICAST
from tidings.sim.network import Network, Undeclared


class Postman:
    """A node that sends an `Returned` to the node that an event names."""

    is_switching, table = False, {}  # type: ignore[var-annotated]

    def __init__(self, node: str, life: int, topologies: Topologies, meshed: bool) -> None:
        self.plane = LinkState(node, life, USUAL, topologies)
        self.mesh = Meshed(node, life)
        self.carrier: Carrier = self.mesh if meshed else Carried(node, self.plane)
        self.got: list[tuple[str, str]] = []

    def handle(self, cause: Cause, now: int) -> list[Action]:
        out: list[Action] = []
        match cause:
            case LinkUp(neighbour, cost):
                self.plane.link_up(neighbour, cost, now, out)
            case Publish(event):
                self.carrier.send(event["to"], Returned("", 0, 0, event["text"]), out)
            case Received(neighbour, Hello() as packet):
                self.plane.hello(neighbour, packet, now, out)
            case Received(neighbour, Records() as packet):
                self.plane.news(neighbour, packet, now, out)
            case Received(neighbour, Summary() as packet):
                self.plane.summary(neighbour, packet, now, out)
            case Received(neighbour, Parcel() as packet):
                found = self.carrier.received(neighbour, packet, out)
                if isinstance(found, Returned):
                    self.got.append((packet.source, found.reason))
            case Woken():
                self.plane.wake(now, out)
        return out

    def timer(self) -> int | None:
        return self.plane.timer()

    def snapshot(self) -> dict[str, Any]:
        return {}

    def is_settled(self) -> bool:
        return True

    @property
    def hops(self) -> dict[str, str]:
        return self.plane.routes.hop

    def life_of(self, node: str) -> int:
        """The life by which those in reach know a node, itself included; 0 if it is in no reach."""
        return self.plane.life_of(node)

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        return range(len(events))

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        return {}


def post(
    graph: Graph, needs: frozenset[str], meshed: bool = False
) -> tuple[Network, Log, dict[str, Postman]]:
    log, topologies = Log(), Topologies()
    nodes: dict[str, Postman] = {}

    def make(name: str, life: int) -> Postman:
        nodes[name] = Postman(name, life, topologies, meshed)
        return nodes[name]

    network = Network(make, log, Random(1), needs)
    for name in graph.names:
        network.add_node(name)
    for one, other, weight in graph.links:
        network.add_link(graph.names[one], graph.names[other], weight, weight * MILLISECOND)
    for name in graph.names:
        network.start(name)
    network.run(2 * SECOND)
    log.sends.clear()
    return network, log, nodes


def parcels(log: Log) -> list[tuple[str, str]]:
    found = [(a, b) for a, b, packet in log.sends if isinstance(packet, Parcel)]
    log.sends.clear()
    return found


@pytest.mark.parametrize("text", ["line:6", "ring:7", "grid:3x4,weights=1-5", "ba:12"])
def test_a_parcel_takes_as_many_packets_as_there_are_hops_and_arrives_once(text: str) -> None:
    graph = topology(text, 1)
    network, log, nodes = post(graph, frozenset({NEIGHBOURS, UNICAST}))
    for source in (0, graph.nodes // 2):
        for target in range(graph.nodes):
            if target != source:
                network.tell(str(source), Publish({"to": str(target), "text": "hello"}))
                network.run(network.now + 100 * MILLISECOND)
                assert nodes[str(target)].got.pop() == (str(source), "hello")
                hops = parcels(log)
                assert len(hops) == len({a for a, _ in hops})
                cost = sum(graph.weight(int(a), int(b)) for a, b in hops)
                assert cost == tree(graph, source).distance[target]
    assert not any(node.got for node in nodes.values())


def test_a_parcel_for_nobody_or_in_a_circle_is_dropped_and_told() -> None:
    network, log, nodes = post(topology("line:3"), frozenset({NEIGHBOURS, UNICAST}))
    network.tell("0", Publish({"to": "9", "text": "hello"}))
    out: list[Action] = []
    tired = Parcel("0", 1, 1, "2", MOST_HOPS, Reminder(1, 1))
    assert nodes["1"].carrier.received("0", tired, out) is None
    assert [action.reason for action in out if isinstance(action, Drop)] == ["too many hops"]
    assert log.drops == ["no path"]


def test_who_has_been_heard_of_is_reached_straight_and_the_network_below_takes_its_time() -> None:
    graph = topology("grid:3x4,weights=1-5", 1)
    network, log, nodes = post(graph, frozenset({NEIGHBOURS, ANYONE}), meshed=True)
    network.tell("0", Publish({"to": "11", "text": "hello"}))
    assert log.drops == ["not heard of"]
    nodes["0"].mesh.meet("11")
    distance = tree(graph, 0).distance[11] * MILLISECOND
    network.tell("0", Publish({"to": "11", "text": "hello"}))
    network.run(network.now + distance - 1)
    assert nodes["11"].got == []
    network.run(network.now + 1)
    assert nodes["11"].got == [("0", "hello")]
    assert parcels(log) == [("0", "11")]
    network.tell("11", Publish({"to": "0", "text": "and you?"}))  # it has heard of the sender
    network.run(network.now + distance)
    assert nodes["0"].got == [("11", "and you?")]


def test_what_a_protocol_has_not_declared_it_may_not_send() -> None:
    network, _, nodes = post(topology("line:3"), frozenset({NEIGHBOURS}))
    with pytest.raises(Undeclared, match="0 sends a Parcel: the protocol has not declared unicast"):
        network.tell("0", Publish({"to": "2", "text": "hello"}))
    network, _, nodes = post(topology("line:3"), frozenset({NEIGHBOURS, UNICAST}), meshed=True)
    nodes["0"].mesh.meet("2")
    with pytest.raises(Undeclared, match="0 sends a Parcel: the protocol has not declared anyone"):
        network.tell("0", Publish({"to": "2", "text": "hello"}))


def test_the_event_in_an_envelope_is_found_and_no_parcel_holds_a_parcel() -> None:
    event = Publication("a", 1, 1, {"x": 1})
    parcel = Parcel("a", 1, 1, "b", 0, event)
    assert publication_of(event) is event
    assert publication_of(parcel) is event
    assert publication_of(Parcel("a", 1, 1, "b", 0, Reminder(1, 1))) is None
    assert publication_of(Reminder(1, 1)) is None
    data = msgspec.msgpack.encode(parcel)
    assert msgspec.msgpack.decode(data, type=Packet) == parcel
    nested = msgspec.msgpack.encode(Parcel("a", 1, 1, "b", 0, parcel))  # type: ignore[arg-type]
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(nested, type=Packet)


def test_a_copy_is_dropped_and_what_comes_back_by_a_detour_is_not() -> None:
    copies = Copies()
    assert copies.first(Parcel("a", 1, 1, "b", 2, Reminder(1, 1)))
    assert not copies.first(Parcel("a", 1, 1, "b", 2, Reminder(1, 1)))
    assert copies.first(Parcel("a", 1, 1, "b", 4, Reminder(1, 1)))
    assert not copies.first(Parcel("a", 1, 1, "b", 2, Reminder(1, 1)))
    assert copies.first(Parcel("a", 2, 1, "b", 2, Reminder(1, 1)))  # of another life


def test_a_node_that_has_yet_to_compute_its_routes_holds_a_parcel() -> None:
    plane = LinkState("b", 1, USUAL, Topologies())
    carried = Carried("b", plane)
    out: list[Action] = []
    parcel = Parcel("a", 1, 1, "c", 0, Reminder(1, 1))
    plane.link_up("c", 1, 0, out)  # there is news, so routes will be computed
    out.clear()
    assert carried.received("a", parcel, out) is None
    assert out == []
    while not plane.is_settled():
        when = plane.timer()
        assert when is not None
        plane.wake(when, [])
    carried.rerouted(out)  # c has not answered, so there is no path
    assert [type(action) for action in out] == [Drop]
    carried.rerouted(out)
    assert len(out) == 1
