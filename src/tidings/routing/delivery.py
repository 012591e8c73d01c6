"""What becomes of one event: the packets that a scheme sends for it, and how good that is (U1).

`deliver` lets the scheme decide at every node that a packet reaches, in the order in which packets
arrive when links delay by their weight. `judge`, which knows who is interested, says how good the
delivery is:

- *correct*: every interested node in reach gets the event;
- *latency-minimal*: correct, and every interested node first gets it by a shortest path;
- *spam*: a packet to a node that is not interested and leads to none that is;
- *duplicate*: a packet with an event that its node already had, and not only relayed;
- *ideal*: latency-minimal without spam and duplicates, so that every packet is needed.

The paper calls a delivery ideal when it is the smallest of the latency-minimal ones. Where shortest
paths are unique, the two agree. Where they are not, a tree on other shortest paths may be smaller
still. To find it is the Steiner tree problem, and no scheme of the paper tries. See
`docs/routing.md`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

from tidings.overlay.graph import Graph
from tidings.routing.memory import id_bits
from tidings.routing.network import Content, Network, Nodes, members
from tidings.routing.scheme import Scheme


class Delivery(NamedTuple):
    """The delivery tree of an event: its packets, in the order in which they arrive.

    `causes` has the place of the packet whose arrival made a node send this one, -1 at the source.
    """

    source: int
    senders: list[int]
    receivers: list[int]
    times: list[int]  # when a packet arrives, in weights of links
    causes: list[int]
    header_bits: list[int]
    accepted: list[bool]  # whether the node is a receiver of the packet, and not only a relay


class Outcome(NamedTuple):
    """How good a delivery is: counts of packets, except `expected` and `delivered`: of nodes."""

    expected: int  # interested nodes in reach, without the source
    delivered: int  # those of them that got the event
    packets: int
    duplicates: int
    spam: int
    relayed: int  # to a node that is not interested, on the path to one that is
    stretches: list[float]  # for each node that got it, the path it took by the shortest path
    header_bits: int

    @property
    def correct(self) -> bool:
        return self.delivered == self.expected

    @property
    def latency_minimal(self) -> bool:
        return self.correct and all(stretch == 1 for stretch in self.stretches)

    @property
    def ideal(self) -> bool:
        return self.latency_minimal and not self.spam and not self.duplicates


class EndlessDelivery(RuntimeError):
    """A scheme sends packets in circles."""


def deliver(
    scheme: Scheme, states: Sequence[Any], graph: Graph, source: int, event: Content
) -> Delivery:
    """What a scheme sends when an event is published at a source.

    `graph` is the scheme's own (`scheme.graph`): the links that its packets take.
    """
    bits = id_bits(graph.nodes)
    header_bits, send, accepts = scheme.header_bits, scheme.send, scheme.accepts
    adjacency = graph.adjacency
    found = Delivery(source, [], [], [], [], [], [])
    bound = 64 * (graph.nodes + len(graph.links))
    # On their path: time, number of the packet, receiver, sender, header, cause, stream. Numbers
    # differ. A stream is what became of one packet of the source: only its copies are the same.
    waiting: list[tuple[int, int, int, int, Any, int, int]] = []
    seen: set[tuple[int, int]] = set()
    sent = 0
    for stream, first in enumerate(scheme.init(states[source], event)):
        seen.add((stream, source))
        for link, header in send(states[source], first, event):
            time = adjacency[source][link]
            heapq.heappush(waiting, (time, sent, link, source, header, -1, stream))
            sent += 1
    while waiting:
        time, _, node, sender, header, cause, stream = heapq.heappop(waiting)
        place = len(found.receivers)
        state = states[node]
        found.receivers.append(node)
        found.senders.append(sender)
        found.times.append(time)
        found.causes.append(cause)
        found.header_bits.append(header_bits(header, bits))
        found.accepted.append(accepts(state, header, event))
        if scheme.suppresses:
            if (stream, node) in seen:
                continue
            seen.add((stream, node))
        row = adjacency[node]
        for link, onward in send(state, header, event):
            heapq.heappush(waiting, (time + row[link], sent, link, node, onward, place, stream))
            sent += 1
        if sent > bound:
            raise EndlessDelivery(f"{scheme.name}: {sent} packets for an event from {source}")
    return found


def judge(network: Network, delivery: Delivery, interested: Nodes) -> Outcome:
    """How good a delivery is, given who is interested in the event."""
    source, receivers, accepted = delivery.source, delivery.receivers, delivery.accepted
    distance = network.trees[source].distance
    wanted = {n for n in members(interested) if distance[n] > 0}
    useful = bytearray(len(receivers))
    copies = bytearray(len(receivers))
    got = {source}
    stretches: list[float] = []
    for place, node in enumerate(receivers):
        if not accepted[place]:
            continue
        if node in got:
            copies[place] = 1
            continue
        got.add(node)
        if node in wanted:
            useful[place] = 1
            stretches.append(delivery.times[place] / distance[node])
    for place in range(len(receivers) - 1, -1, -1):
        if useful[place] and delivery.causes[place] >= 0:
            useful[delivery.causes[place]] = 1
    spam = relayed = 0
    for place, node in enumerate(receivers):
        if not copies[place]:
            spam += not useful[place]
            relayed += useful[place] and not (accepted[place] and node in wanted)
    return Outcome(
        expected=len(wanted),
        delivered=len(stretches),
        packets=len(receivers),
        duplicates=sum(copies),
        spam=spam,
        relayed=relayed,
        stretches=stretches,
        header_bits=sum(delivery.header_bits),
    )
