"""Events by the entries of subscription trees alone (S17, the survey's VI-E).

A node keeps, for each neighbour, the disjunction of the interests of all nodes that it reaches
through that neighbour, as in PIF. An event goes to every neighbour whose predicate it matches,
except the one it came from, whatever its source. So links are used more evenly than by one shared
tree, but copies of an event meet where links form cycles, and all but the first are dropped.

If all nodes of a connected network want an event, it takes every link whose ends are nearest by
that link in both directions, but for those by which first copies came: with m such links and n
nodes 2 (m - n + 1) packets are duplicates, as in flooding. For one receiver there are none.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidings.routing.flooding.scheme import Header, header_bits
from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network, Row

__all__: Final = ["build", "formula", "forward", "header", "header_bits", "init", "size"]


class State(NamedTuple):
    """What a node keeps: for each neighbour, the nodes that it reaches by it."""

    node: int
    links: Row


def build(network: Network) -> list[State]:
    """The state of every node."""
    return [
        State(node, tuple((link, below) for link, below in network.row(node, node) if below))
        for node in range(network.graph.nodes)
    ]


def init(node: State, event: Content) -> list[Header]:
    """The header of an event that is published here."""
    return [Header(node.node, node.node)]


def header(node: State, header: Header) -> Header:
    """The header of the copies sent on."""
    return Header(header.source, node.node)


def forward(node: State, header: Header, event: Content) -> list[int]:
    """Where a packet goes from here."""
    return [link for link in event.links(node.links) if link != header.sender]


def size(node: State) -> Size:
    """What the state holds: its id; a predicate for each neighbour."""
    return Size(1 + len(node.links), 0, [nodes for _, nodes in node.links])


def formula(shape: Shape, advantage: float) -> None:
    """The survey has none."""
