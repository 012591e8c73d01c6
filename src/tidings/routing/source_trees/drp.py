"""Dynamic receiver partitioning, DRP: the source lists the receivers, each hop divides them (U5).

A source matches an event against the interests of all nodes, and writes the receivers into the
header, divided by the neighbour that leads to each. Every node on the path reads its own part and
divides it again by its unicast table. Only the source matches; headers grow with the receivers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network, Nodes, Row, members

Partition = dict[int, Nodes]  # H_W: for each neighbour, the receivers that it leads to


class State(NamedTuple):
    """What a node keeps: a unicast table by neighbour, and the nodes whose interests it holds.

    Only senders hold interests.
    """

    node: int
    unicast: Row
    interests: Nodes


def build(network: Network, unicast: Sequence[Row] | None = None) -> list[State]:
    """The state of every node.

    The unicast tables may come from elsewhere; by default they are those of the node's own tree.
    """
    if unicast is None:
        unicast = [network.row(node, node) for node in range(network.graph.nodes)]
    senders, receivers = network.senders, network.receivers
    return [
        State(node, row, receivers if senders >> node & 1 else 0)
        for node, row in enumerate(unicast)
    ]


def init(node: State, event: Content) -> list[Partition]:
    """The header of an event that is published here: its receivers, divided."""
    return [_divide(node, event.receivers(node.interests))]


def header(node: State, header: Partition) -> Partition:
    """The header of the packets sent on: this node's part, divided; the source is not named."""
    return _divide(node, header[node.node]) if node.node in header else header


def forward(node: State, arrived: Partition, event: Content) -> list[int]:
    """Where a packet goes from here: to all neighbours whom the divided part names."""
    return list(header(node, arrived))


def _divide(node: State, receivers: Nodes) -> Partition:
    others = receivers & ~(1 << node.node)
    parts = ((neighbour, others & nodes) for neighbour, nodes in node.unicast)
    return {neighbour: part for neighbour, part in parts if part}


def header_bits(header: Partition, id_bits: int) -> int:
    """The size of what a packet carries beside the event: neighbours, and the receivers of each."""
    return id_bits * sum(1 + nodes.bit_count() for nodes in header.values())


def size(node: State) -> Size:
    """What the state holds: for each node the next hop, for each receiver its interest."""
    reached = sum(nodes.bit_count() for _, nodes in node.unicast)
    return Size(reached, 0, [1 << receiver for receiver in members(node.interests)])


def formula(shape: Shape, advantage: float) -> float:
    """Section 3.4: n r log n + s r M_p; predicates are not combined, so there is no advantage."""
    unicast = shape.nodes * shape.receivers * shape.id_bits
    return unicast + shape.senders * shape.receivers * shape.interest_bits
