"""A rooted tree from above (S14): interests go up only, events climb to the root.

A node keeps what the nodes below each of its children want, and nothing of the others. `both`: an
event climbs hop by hop, and at each node also goes down to all other children behind which someone
wants it. `down`: it climbs to the root and goes down from there. Half of the nodes are leaves and
keep nothing; the root keeps what all want and sees every event.
"""

from __future__ import annotations

from typing import Final, Literal

from tidings.routing.memory import Size
from tidings.routing.network import Content, Network, Nodes, Row
from tidings.routing.reverse_path import shared_tree

CLIMBS: Final = -2  # a header: the event is on its path to the root
FALLS: Final = -3  # a header: it is on its path down

formula = shared_tree.formula
header_bits = shared_tree.header_bits


class RootedOptions(shared_tree.SharedOptions, frozen=True):
    """Where the root is, and how events travel."""

    direction: Literal["both", "down"] = "both"


class State:
    """What a node keeps: its parent, and the nodes below each child."""

    __slots__ = ("both", "children", "node", "parent")

    def __init__(self, node: int, parent: int | None, children: Row, both: bool) -> None:
        self.node = node
        self.parent = parent
        self.children = children
        self.both = both


def build(network: Network, options: RootedOptions | None = None) -> list[State]:
    """The state of every node."""
    nodes = network.graph.nodes
    options = options or RootedOptions()
    links = shared_tree.tree_links(network.graph, options.root)
    under = shared_tree.below(links, nodes)
    parents: dict[int, int] = {child: parent for parent, child, _ in links}
    rows: list[list[tuple[int, Nodes]]] = [[] for _ in range(nodes)]
    for parent, child, _ in links:
        rows[parent].append((child, under[child]))
    both = options.direction == "both"
    return [
        State(node, parents.get(node), tuple(sorted(row)), both) for node, row in enumerate(rows)
    ]


def init(node: State, event: Content) -> list[int]:
    """The header of an event that is published here."""
    return [shared_tree.NOBODY if node.both else CLIMBS]


def send(node: State, header: int, event: Content) -> list[tuple[int, int]]:
    """Where a packet goes from here."""
    if header == CLIMBS and node.parent is not None:
        return [(node.parent, CLIMBS)]
    onward = node.node if node.both else FALLS
    links = [(link, onward) for link in event.links(node.children) if link != header]
    if node.both and node.parent is not None and header != node.parent:
        links.append((node.parent, onward))
    return links


def accepts(node: State, header: int, event: Content) -> bool:
    """Whether the node is a receiver: not of an event that only climbs, except at the root."""
    return header != CLIMBS or node.parent is None


def size(node: State) -> Size:
    """What the state holds: its id, its parent, and a predicate for each child."""
    return Size(2 + len(node.children), 0, [nodes for _, nodes in node.children])
