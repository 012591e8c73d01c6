"""Networks that learn by the reverse path, under a load of stock quotes: what tables cost.

Subscribers want quotes of a symbol, often in a range of prices. With *locality* p, a subscriber
takes a symbol that is popular at its own node with probability p, else any symbol. All runs are
undisturbed, and checked: every event must reach exactly the subscriptions that match it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from tidings.overlay.graph import Graph
from tidings.routing.packets import Packet, publication_of
from tidings.routing.planes.interests import predicate_of
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Advertise,
    Deliver,
    Drop,
    Established,
    Publish,
    Subscribe,
    Unsubscribe,
)
from tidings.routing.protocols import protocol
from tidings.sim.network import Network, Node, UserAction

SYMBOLS: Final = 40
POPULAR: Final = 4  # symbols at one node
STEP: Final = 20 * MILLISECOND  # between two things that users do

Event = dict[str, Any]


def binary(levels: int) -> Graph:
    """A balanced binary tree, whose root has the smallest name.

    >>> binary(2).links
    ((0, 1, 1), (0, 2, 1))
    """
    nodes = 2**levels - 1
    links = [((child - 1) // 2, child, 1) for child in range(1, nodes)]
    return Graph(nodes, links, [f"{node:04}" for node in range(nodes)])


def draw_symbol(chance: Random, node: int, locality: float) -> int:
    """A symbol that someone at a node is interested in."""
    if chance.random() < locality:
        return (node * POPULAR + chance.randrange(POPULAR)) % SYMBOLS
    return chance.randrange(SYMBOLS)


def draw_filter(chance: Random, node: int, locality: float) -> str:
    """A subscription: one symbol, and in three of four cases a range of prices."""
    text = f"symbol = 'S{draw_symbol(chance, node, locality)}'"
    if chance.random() < 0.25:
        return text
    low = chance.randrange(0, 90, 10)
    return f"{text} and price between {low} and {low + chance.choice((10, 20, 50))}"


def draw_quote(chance: Random, symbol: int) -> Event:
    """A quote of a symbol."""
    return {"symbol": f"S{symbol}", "price": chance.randrange(100)}


class Counted:
    """What nodes send and deliver."""

    def __init__(self) -> None:
        self.control_bytes = self.control_packets = self.event_packets = 0
        self.delivered_to: Counter[tuple[str, int]] = Counter()
        self.through: Counter[str] = Counter()  # event packets by the node that gets them
        self.over: Counter[frozenset[str]] = Counter()  # event packets by link
        self.told_packets: Counter[str] = Counter()  # by their kind: what is not an event
        self.told_bytes: Counter[str] = Counter()
        self.duplicates = 0  # copies of events that were dropped
        self.in_force: set[str] = set()

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        """A node has put a packet on a link."""
        if publication_of(packet) is not None:
            self.event_packets += 1
            self.through[target] += 1
            self.over[frozenset((node.name, target))] += 1
            return
        kind = type(packet).__name__
        self.told_packets[kind] += 1
        self.told_bytes[kind] += size
        if kind in ("Change", "Standing", "Reminder"):  # not links and routes
            self.control_packets += 1
            self.control_bytes += size

    def delivered(self, now: int, node: Node, action: Deliver) -> None:
        """A node has handed an event to subscriptions."""
        for id in action.subscriptions:
            self.delivered_to[id, action.publication.event["n"]] += 1

    def established(self, now: int, node: Node, action: Established) -> None:
        """A node says that subscriptions are established."""

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        """A node has dropped a packet."""
        self.duplicates += action.reason == "a duplicate"

    def told(self, now: int, node: Node, action: UserAction) -> None:
        """A node tells its users something."""


class QuoteNetwork:
    """A network at work."""

    def __init__(self, graph: Graph, text: str) -> None:
        chosen = protocol(text)
        make = chosen.row.configured(chosen.options)
        topologies = Topologies()
        self.watch = Counted()
        self.graph = graph
        self.network = Network(
            lambda name, life: make(name, life, topologies=topologies),
            self.watch,
            Random(1),
            chosen.row.needs,
        )
        self.held: dict[str, tuple[str, str]] = {}  # by id: node and predicate
        self._numbers = 0
        for name in graph.names:
            self.network.add_node(name)
        for one, other, cost in graph.links:
            self.network.add_link(graph.names[one], graph.names[other], cost, MILLISECOND)
        for name in graph.names:
            self.network.start(name)
        self.wait(3 * SECOND)

    def wait(self, time: int) -> None:
        """Let time go by."""
        self.network.run(self.network.now + time)

    def nodes(self) -> list[Any]:
        """The routers."""
        return [node.router for node in self.network.nodes.values()]

    def subscribe(self, node: str, text: str) -> str:
        """Someone subscribes; returns the id."""
        self._numbers += 1
        id = f"s{self._numbers}"
        self.held[id] = node, text
        self.network.tell(node, Subscribe(id, text))
        return id

    def unsubscribe(self, id: str) -> None:
        """Someone unsubscribes."""
        node, _ = self.held.pop(id)
        self.network.tell(node, Unsubscribe(id))

    def advertise(self, node: str, id: str, text: str) -> None:
        """Someone advertises."""
        self.network.tell(node, Advertise(id, text))

    def publish(
        self, events: Sequence[tuple[str, Event]], step: int = STEP, rest: int = 2 * SECOND
    ) -> dict[str, float]:
        """Publish events, check what was delivered, and count packets; held is held meanwhile."""
        watch = self.watch
        before = watch.event_packets
        watch.through.clear()
        watch.delivered_to.clear()
        expected: Counter[tuple[str, int]] = Counter()
        for number, (node, event) in enumerate(events):
            numbered = {**event, "n": number}
            for id, (_, text) in self.held.items():
                if predicate_of(text).matches(numbered):
                    expected[id, number] += 1
            self.network.tell(node, Publish(numbered))
            self.wait(step)
        self.wait(rest)
        if watch.delivered_to != expected:
            raise AssertionError("events were not delivered exactly to whom they match")
        busiest = max(watch.through.values(), default=0)
        packets = watch.event_packets - before
        return {
            "packets_an_event": packets / len(events),
            "busiest": busiest / max(1, packets),
            "deliveries": float(sum(expected.values())),
        }

    def wanting(self, event: Event) -> set[str]:
        """The nodes at which someone wants an event."""
        return {node for node, text in self.held.values() if predicate_of(text).matches(event)}

    def tables(self) -> dict[str, float]:
        """How many filters nodes hold from their links, and tell."""
        held = [sum(len(r.wanted.by(name)) for name in r.tables.links) for r in self.nodes()]
        return {
            "held_mean": sum(held) / len(held),
            "held_most": float(max(held)),
        }
