"""Improved per-source forwarding, iPS: sources that look the same from here are one (U3).

Two sources are indistinguishable for a node when it has the same children in both their trees, with
the same nodes below each; it keeps one row for all of them, under the name of one, and a predicate
that several rows hold only once. Where all that follows cannot tell the source from the node
itself, the node writes its own name into the header, so that those further on know fewer sources.
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

    Walks every tree as a packet would, so that only headers that can come are provided for.
    """
    states = [State(node, {}, {}, set()) for node in range(network.graph.nodes)]
    classes: list[dict[Row, int]] = [{} for _ in states]  # of each node, rows and who stands for it
    for tree in network.trees:
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
    """Whether what is below the children is what is below them in the node's own tree.

    If so, whoever is below finds the same rows for the node as for the source. Trees agree with
    each other (see `overlay.paths`), so that equal sets of nodes hang together in the same way.
    """
    return all(network.below[node][child] == nodes for child, nodes in row)


def init(node: State, event: Content) -> int:
    """The header of an event that is published here: the source."""
    return node.node


def header(node: State, header: int) -> int:
    """The header of the packets sent on: as it came, or rewritten."""
    representative = node.representatives.get(header, header)
    return node.node if representative in node.rewrites else header


def forward(node: State, header: int, event: Content) -> list[int]:
    """Where a packet goes from here."""
    representative = node.representatives.get(header, header)
    return event.links(node.rows.get(representative, ()))


def header_bits(header: int, id_bits: int) -> int:
    """How much a packet carries beside the event."""
    return id_bits


def size(node: State) -> Size:
    """What the state holds.

    Its own id; of each source that another stands for, both; of each row who it stands for, a bit
    whether to rewrite, and where its predicates are; of each different predicate, its neighbour.
    """
    entries = [entry for row in node.rows.values() for entry in row]
    different = set(entries)
    ids = 1 + 2 * len(node.representatives) + len(node.rows) + len(entries) + len(different)
    return Size(ids, len(node.rows), [nodes for _, nodes in sorted(different)])


def formula(shape: Shape, advantage: float) -> float | None:
    """Section 3.2: n r M_p on a tree; the paper has none for other graphs."""
    if not shape.is_tree:
        return None
    return shape.nodes * shape.receivers * shape.interest_bits * advantage
