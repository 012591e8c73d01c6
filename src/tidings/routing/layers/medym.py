"""MEDYM as the survey reads it: match early, dynamic multicast (S4).

Each publisher has a copy of all subscriptions. It matches an event once and writes the receivers
into the packet. At every hop the list is divided: each neighbour gets "the list of receivers for
which the neighbor is the start of a shortest path", until each list is empty. So packets are those
of DRP; a packet carries only its own part of the list, and only publishers hold interests.

A list is written as ids, as a bit for each node, or as the ids of those not in it, whichever is the
shortest; two bits say which. As a protocol it is the pair of layers `everywhere-list`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network, Nodes, Row, members


class MedymOptions(Struct, frozen=True):
    """Who publishes: only they hold interests."""

    publishers: Annotated[int, Meta(ge=0)] = 0  # the first so many nodes; 0: every node


class State(NamedTuple):
    """What a node keeps: a unicast table by neighbour, and the nodes whose interests it holds."""

    node: int
    nodes: int  # of the network
    unicast: Row
    interests: Nodes | None  # None where the node does not publish


class Part(NamedTuple):
    """The receivers that a packet is for, of so many nodes."""

    receivers: Nodes
    nodes: int


def build(network: Network, options: MedymOptions | None = None) -> list[State]:
    """The state of every node."""
    nodes = network.graph.nodes
    publishers = (options.publishers if options else 0) or nodes
    return [
        State(
            node, nodes, network.row(node, node), network.receivers if node < publishers else None
        )
        for node in range(nodes)
    ]


def init(node: State, event: Content) -> list[Part]:
    """The receivers of an event that is published here; who holds no interests sends to all."""
    everyone = (1 << node.nodes) - 1
    found = everyone if node.interests is None else event.receivers(node.interests)
    return [Part(found, node.nodes)]


def send(node: State, arrived: Part, event: Content) -> list[tuple[int, Part]]:
    """To each neighbour its part of the list, without this node."""
    others = arrived.receivers & ~(1 << node.node)
    parts = ((neighbour, others & behind) for neighbour, behind in node.unicast)
    return [(neighbour, Part(part, node.nodes)) for neighbour, part in parts if part]


def accepts(node: State, header: Part, event: Content) -> bool:
    """Whether the list names this node."""
    return bool(header.receivers >> node.node & 1)


def header_bits(header: Part, id_bits: int) -> int:
    """The size of the list, in the shortest of three forms."""
    listed = header.receivers.bit_count()
    return 2 + min(listed * id_bits, header.nodes, (header.nodes - listed) * id_bits)


def size(node: State) -> Size:
    """What the state holds: for each node the next hop; at a publisher all interests."""
    reached = sum(nodes.bit_count() for _, nodes in node.unicast)
    return Size(reached, 0, [1 << receiver for receiver in members(node.interests or 0)])


def formula(shape: Shape, advantage: float) -> float:
    """Unicast tables everywhere, and the interests of all receivers at each publisher."""
    unicast = shape.nodes * (shape.nodes - 1) * shape.id_bits
    return unicast + shape.senders * shape.receivers * shape.interest_bits
