"""Improved per-source forwarding, iPS: sources that look the same from here are one (U3).

Two sources are indistinguishable for a node when it has the same children in both their trees, with
the same nodes below each. The node keeps one row for all such sources, under the name of one, and
stores a predicate that several rows share once. Where no node further on can tell the source from
the node itself, the node writes its own name into the header; nodes further on then know fewer
sources.
"""

from __future__ import annotations

from typing import NamedTuple

from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network, Row


class State(NamedTuple):
    """What a node keeps: I_u where it is not the identity, F_u, and where R_u is 1."""

    node: int
    representatives: dict[int, int]
    rows: dict[int, Row]
    rewrites: set[int]


def build(network: Network) -> list[State]:
    """The state of every node.

    Walks every tree as a packet would, so states cover just the headers that can arrive.
    """
    states = [State(node, {}, {}, set()) for node in range(network.graph.nodes)]
    classes: list[dict[Row, int]] = [{} for _ in states]  # by node and row: who stands for it
    for tree in network.sent:
        headers = {tree.source: tree.source}
        for node in tree.order:
            row = network.row(tree.source, node)
            if not row:
                continue
            header, state = headers.pop(node), states[node]
            representative = classes[node].setdefault(row, header)
            if representative != header:
                state.representatives[header] = representative
            elif header not in state.rows:
                state.rows[header] = row
                if _told_apart_no_more(network, node, row):
                    state.rewrites.add(header)
            sent = node if representative in state.rewrites else header
            headers |= {child: sent for child, _ in row}
    return states


def _told_apart_no_more(network: Network, node: int, row: Row) -> bool:
    """Whether the same nodes are below the children as in the node's own tree.

    If so, every node below finds the same rows for this node as for the source: trees agree with
    each other (see `overlay.paths`), so equal sets of nodes are linked in the same way.
    """
    return all(network.below[node][child] == nodes for child, nodes in row)


def init(node: State, event: Content) -> list[int]:
    """The header of an event that is published here: the source."""
    return [node.node]


def header(node: State, header: int) -> int:
    """The header of the packets sent on: as it came, or rewritten."""
    representative = node.representatives.get(header, header)
    return node.node if representative in node.rewrites else header


def forward(node: State, header: int, event: Content) -> list[int]:
    """Where a packet goes from here."""
    representative = node.representatives.get(header, header)
    return event.links(node.rows.get(representative, ()))


def header_bits(header: int, id_bits: int) -> int:
    """The size of what a packet carries beside the event."""
    return id_bits


def size(node: State, shared: bool = True) -> Size:
    """What the state holds.

    Its own id. For each source that another stands for, the ids of both. For each row the source it
    is for, a bit whether to rewrite the header, and where its predicates are. For each different
    predicate, its neighbour. Not shared: each row stores its own predicates.
    """
    entries = [entry for row in node.rows.values() for entry in row]
    stored = sorted(set(entries)) if shared else entries
    places = len(entries) if shared else 0
    ids = 1 + 2 * len(node.representatives) + len(node.rows) + places + len(stored)
    return Size(ids, len(node.rows), [nodes for _, nodes in stored])


def formula(shape: Shape, advantage: float) -> float | None:
    """Section 3.2: n r M_p on a tree; the paper has none for other graphs."""
    if not shape.is_tree:
        return None
    return shape.nodes * shape.receivers * shape.interest_bits * advantage
