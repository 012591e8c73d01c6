"""Networks that learn by the reverse path, under a load of stock quotes: what tables cost.

All runs are undisturbed, and checked: every event must reach exactly the subscriptions that match
it. *Spam* is a packet over a link of the tree behind which nobody wants the event. *Stretch* is the
length of the paths of deliveries, as a multiple of the shortest ones, in links. The *busiest* node
is the one that gets the most packets of events; its share is that of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from tidings.lab.quotes import Event
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

STEP: Final = 20 * MILLISECOND  # between two things that users do


def binary(levels: int) -> Graph:
    """A balanced binary tree, whose root has the smallest name.

    >>> binary(2).links
    ((0, 1, 1), (0, 2, 1))
    """
    nodes = 2**levels - 1
    links = [((child - 1) // 2, child, 1) for child in range(1, nodes)]
    return Graph(nodes, links, [f"{node:04}" for node in range(nodes)])


class Counted:
    """What nodes send and deliver."""

    def __init__(self) -> None:
        self.control_bytes = self.control_packets = 0
        self.event_bytes = self.event_packets = 0
        self.delivered_to: Counter[tuple[str, int]] = Counter()
        self.through: Counter[str] = Counter()  # event packets by the node that gets them
        self.over: Counter[frozenset[str]] = Counter()  # event packets by link
        self.told_packets: Counter[str] = Counter()  # by their kind: what is not an event
        self.told_bytes: Counter[str] = Counter()
        self.duplicates = 0  # copies of events that were dropped
        self.in_force: set[str] = set()
        self.hops: dict[tuple[str, int], int] = {}  # by node and event: links taken up to it
        self.travelled: dict[tuple[str, int], int] = {}  # the same, when it was delivered there

    def clear(self) -> None:
        """Forget the events of before."""
        for counted in (self.delivered_to, self.through, self.hops, self.travelled):
            counted.clear()

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        """A node has put a packet on a link."""
        publication = publication_of(packet)
        if publication is not None:
            self.event_packets += 1
            self.event_bytes += size
            self.through[target] += 1
            self.over[frozenset((node.name, target))] += 1
            number = publication.event["n"]
            self.hops[target, number] = self.hops.get((node.name, number), 0) + 1
            return
        kind = type(packet).__name__
        self.told_packets[kind] += 1
        self.told_bytes[kind] += size
        if kind in ("Change", "Standing", "Reminder"):  # not links and routes
            self.control_packets += 1
            self.control_bytes += size

    def delivered(self, now: int, node: Node, action: Deliver) -> None:
        """A node has handed an event to subscriptions."""
        number = action.publication.event["n"]
        self.travelled[node.name, number] = self.hops.get((node.name, number), 0)
        for id in action.subscriptions:
            self.delivered_to[id, number] += 1

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
        near: dict[str, list[str]] = {name: [] for name in graph.names}
        for one, other, _ in graph.links:
            near[graph.names[one]].append(graph.names[other])
            near[graph.names[other]].append(graph.names[one])
        self._shortest = {name: _distances(near, name) for name in graph.names}
        for name in graph.names:
            self.network.add_node(name)
        for one, other, cost in graph.links:
            self.network.add_link(graph.names[one], graph.names[other], cost, MILLISECOND)
        for name in graph.names:
            self.network.start(name)
        self.wait(3 * SECOND)
        tree = {  # the one of all routers, if they have one
            name: list(router.spanning.branches) if hasattr(router, "spanning") else near[name]
            for name, router in zip(graph.names, self.nodes(), strict=True)
        }
        self._parents = {name: _parents(tree, name) for name in graph.names}

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
        """Publish events, check what was delivered, and count; what is held stays held."""
        watch = self.watch
        packets, size = watch.event_packets, watch.event_bytes
        watch.clear()
        expected: Counter[tuple[str, int]] = Counter()
        needed = 0
        sources: list[str] = []
        for number, (node, event) in enumerate(events):
            numbered = {**event, "n": number}
            wanting: set[str] = set()
            for id, (where, text) in self.held.items():
                if predicate_of(text).matches(numbered):
                    expected[id, number] += 1
                    wanting.add(where)
            needed += self._links_to(node, wanting)
            sources.append(node)
            self.network.tell(node, Publish(numbered))
            self.wait(step)
        self.wait(rest)
        if watch.delivered_to != expected:
            raise AssertionError("events were not delivered exactly to whom they match")
        packets, size = watch.event_packets - packets, watch.event_bytes - size
        shortest = travelled = 0
        for (name, number), links in watch.travelled.items():
            shortest += self._shortest[sources[number]][name]
            travelled += links
        return {
            "packets_an_event": packets / len(events),
            "spam": (packets - needed) / max(1, packets),
            "wasted_bytes": size * (packets - needed) / max(1, packets),
            "stretch": travelled / shortest if shortest else 1.0,
            "busiest": max(watch.through.values(), default=0) / max(1, packets),
        }

    def wanting(self, event: Event) -> set[str]:
        """The nodes at which someone wants an event."""
        return {node for node, text in self.held.values() if predicate_of(text).matches(event)}

    def _links_to(self, source: str, wanting: set[str]) -> int:
        """How many links of the tree lead from a node to others."""
        parents, found = self._parents[source], set[str]()
        for name in wanting:
            while name != source and name not in found:
                found.add(name)
                name = parents[name]
        return len(found)

    def tables(self) -> dict[str, float]:
        """How many filters nodes hold from their links, and tell."""
        held = [sum(len(r.wanted.by(name)) for name in r.tables.links) for r in self.nodes()]
        return {
            "held_mean": sum(held) / len(held),
            "held_most": float(max(held)),
        }


def _parents(links: dict[str, list[str]], start: str) -> dict[str, str]:
    """By node: the next one on the path to the start."""
    found = {start: start}
    for one in (order := [start]):  # grows while it is read
        for other in links[one]:
            if other not in found:
                found[other] = one
                order.append(other)
    return found


def _distances(links: dict[str, list[str]], start: str) -> dict[str, int]:
    """By node: how many links away it is."""
    found: dict[str, int] = {}
    for name, before in _parents(links, start).items():
        found[name] = 0 if name == start else found[before] + 1
    return found
