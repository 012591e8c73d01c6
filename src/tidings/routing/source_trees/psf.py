"""Per-source forwarding, PSF: a tree of predicates for every source (U2).

For each source v a node keeps the links by which it passes v's events on, each with the disjunction
of the interests below it in the shortest-path tree of v. The header names the source. Events travel
on shortest paths and never as spam; the price is state that grows with the number of sources.
"""

from __future__ import annotations

from typing import NamedTuple

from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network, Row


class State(NamedTuple):
    """What a node keeps: F_u, for each source whose events it passes on."""

    node: int
    rows: dict[int, Row]


def build(network: Network) -> list[State]:
    """The state of every node."""
    states = [State(node, {}) for node in range(network.graph.nodes)]
    known: dict[Row, Row] = {}  # sources often share a row
    for tree in network.sent:
        for node in tree.order:
            row = network.row(tree.source, node)
            if row:
                states[node].rows[tree.source] = known.setdefault(row, row)
    return states


def init(node: State, event: Content) -> list[int]:
    """The header of an event that is published here: the source."""
    return [node.node]


def header(node: State, header: int) -> int:
    """The header of the packets sent on: as it came."""
    return header


def forward(node: State, header: int, event: Content) -> list[int]:
    """Where a packet goes from here."""
    return event.links(node.rows.get(header, ()))


def header_bits(header: int, id_bits: int) -> int:
    """The size of what a packet carries beside the event."""
    return id_bits


def size(node: State, shared: bool = False) -> Size:
    """What the state holds: its id; for each row the source; for each predicate its neighbour.

    Shared: a predicate that several rows have is stored once, and rows say where. The paper does
    not do so; it shows how much of what iPS saves comes from sharing alone.
    """
    entries = [entry for row in node.rows.values() for entry in row]
    stored = sorted(set(entries)) if shared else entries
    places = len(entries) if shared else 0
    ids = 1 + len(node.rows) + places + len(stored)
    return Size(ids, 0, [nodes for _, nodes in stored])


def formula(shape: Shape, advantage: float) -> float:
    """Section 3.1: s log n + M_p · sum of the distances of receivers from senders."""
    predicates = shape.interest_bits * shape.total_hops * advantage
    return shape.senders * shape.id_bits + predicates
