"""Per-interface forwarding, PIF: one predicate for each link, within the tree of the source (U4).

A node keeps, for each neighbour, the disjunction of the interests of all nodes that it reaches
through that neighbour, whatever the source; and for each source its own children in that source's
tree. Events go to the children whose predicate they match. It is the scheme of the protocol CBCB
(F2): correct and on shortest paths, but a predicate may hold interests of nodes that get the event
by another path, which makes spam.
"""

from __future__ import annotations

from typing import NamedTuple

from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network, Nodes, Row


class State(NamedTuple):
    """What a node keeps: F*_u and child_u."""

    node: int
    links: Row
    children: dict[int, tuple[int, ...]]


def build(network: Network) -> list[State]:
    """The state of every node."""
    nodes = network.graph.nodes
    reached: list[dict[int, Nodes]] = [{} for _ in range(nodes)]
    children: list[dict[int, tuple[int, ...]]] = [{} for _ in range(nodes)]
    for tree in network.sent:
        for node in tree.order:
            row = network.row(tree.source, node)
            if row:
                children[node][tree.source] = tree.children(node)
            for child, below in row:
                reached[node][child] = reached[node].get(child, 0) | below
    return [
        State(node, tuple(sorted(reached[node].items())), children[node]) for node in range(nodes)
    ]


def init(node: State, event: Content) -> list[int]:
    """The header of an event that is published here: the source."""
    return [node.node]


def header(node: State, header: int) -> int:
    """The header of the packets sent on: as it came."""
    return header


def forward(node: State, header: int, event: Content) -> list[int]:
    """Where a packet goes from here."""
    children = node.children.get(header)
    return event.links(node.links, children) if children else []


def header_bits(header: int, id_bits: int) -> int:
    """The size of what a packet carries beside the event."""
    return id_bits


def size(node: State) -> Size:
    """What the state holds: its id; a predicate for each neighbour; sources and their children."""
    children = sum(1 + len(found) for found in node.children.values())
    return Size(1 + len(node.links) + children, 0, [nodes for _, nodes in node.links])


def formula(shape: Shape, advantage: float) -> float:
    """Section 3.3: n · (s D log n + r M_p), D the largest degree.

    The paper's total has a second factor n before r M_p. That does not follow from what the section
    says of one node, O(r M_p) for F*_u, so the formula here is without it.
    """
    children = shape.senders * shape.degree * shape.id_bits
    return shape.nodes * (children + shape.receivers * shape.interest_bits * advantage)
