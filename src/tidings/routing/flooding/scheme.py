"""Flooding: every event goes everywhere (S1).

A node passes an event on by all links except the one it came by. Where links form cycles, copies
meet, so a node must recognise an event that it has seen before, and drop it (deduplication). It
needs no state except that memory, which lasts as long as copies are on their way; it is not
counted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network

SEQUENCE_BITS: Final = 64  # by which, with its source, nodes recognise an event


class State(NamedTuple):
    """What a node keeps."""

    node: int
    links: tuple[int, ...]


class Header(NamedTuple):
    """The node that published the event, and the node that sends this copy."""

    source: int
    sender: int


def build(network: Network) -> list[State]:
    """The state of every node."""
    graph = network.graph
    return [State(node, graph.neighbours(node)) for node in range(graph.nodes)]


def init(node: State, event: Content) -> list[Header]:
    """The header of an event that is published here."""
    return [Header(node.node, node.node)]


def header(node: State, header: Header) -> Header:
    """The header of the copies sent on."""
    return Header(header.source, node.node)


def forward(node: State, header: Header, event: Content) -> list[int]:
    """Where a packet goes from here."""
    return [link for link in node.links if link != header.sender]


def header_bits(header: Header, id_bits: int) -> int:
    """The size of what a packet carries beside the event."""
    return 2 * id_bits + SEQUENCE_BITS


def size(node: State) -> Size:
    """What the state holds: nothing beside the links."""
    return Size(0, 0, [])


def formula(shape: Shape, advantage: float) -> float:
    """Nothing to keep."""
    return 0
