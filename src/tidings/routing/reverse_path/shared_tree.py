"""One tree for all publishers, from above: subscription forwarding on a spanning tree (S10–S13).

The tree is the shortest-path tree of a root: a node that is named, or else the one with the
smallest name (`planes/spanning`). A node
keeps for each link of it what the nodes behind want, and sends events by the links behind which
someone wants them. Nothing is spam and no copy is made; paths are longer than the shortest ones.
"""

from __future__ import annotations

from msgspec import Struct

from tidings.overlay.graph import Graph
from tidings.overlay.paths import tree_of
from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network, Nodes, Row, nodes_of
from tidings.routing.planes.spanning import ELECT
from tidings.routing.planes.topology import weight_of

NOBODY = -1


class State:
    """What a node keeps: for each link of the tree, the nodes behind it."""

    __slots__ = ("links", "node")

    def __init__(self, node: int, links: Row) -> None:
        self.node = node
        self.links = links


class SharedOptions(Struct, frozen=True):
    """Where the tree has its root."""

    root: str = ELECT


def tree_links(graph: Graph, root: str = ELECT) -> list[tuple[int, int, int]]:
    """The links of the tree, parent first, parents before children; in each part of the network."""
    names = graph.names
    number = {name: node for node, name in enumerate(names)}
    adjacency: dict[str, dict[str, int]] = {name: {} for name in names}
    for one, other, cost in graph.links:
        low, high = sorted((names[one], names[other]))
        adjacency[low][high] = adjacency[high][low] = weight_of(low, high, cost)
    found = []
    left = set(names)
    while left:
        tree = tree_of(adjacency, root if root in left else min(left))
        for name in tree.distance:
            left.discard(name)
            parent = tree.parent.get(name)
            if parent is not None:
                one, other = number[parent], number[name]
                found.append((one, other, graph.weight(one, other)))
    return found


def below(links: list[tuple[int, int, int]], nodes: int) -> list[Nodes]:
    """For each node, it and the nodes below it in the tree."""
    found = [1 << node for node in range(nodes)]
    for parent, child, _ in reversed(links):
        found[parent] |= found[child]
    return found


def build(network: Network, options: SharedOptions | None = None) -> list[State]:
    """The state of every node."""
    nodes = network.graph.nodes
    links = tree_links(network.graph, ELECT if options is None else options.root)
    under = below(links, nodes)
    parts = [nodes_of(part) for part in network.graph.components]
    rows: list[list[tuple[int, Nodes]]] = [[] for _ in range(nodes)]
    for parent, child, _ in links:
        rows[parent].append((child, under[child]))
        whole = next(part for part in parts if part >> parent & 1)
        rows[child].append((parent, whole & ~under[child]))
    return [State(node, tuple(sorted(row))) for node, row in enumerate(rows)]


def init(node: State, event: Content) -> list[int]:
    """The header of an event that is published here: it comes from no link."""
    return [NOBODY]


def send(node: State, header: int, event: Content) -> list[tuple[int, int]]:
    """Where a packet goes from here: the header says by which link it came."""
    return [(link, node.node) for link in event.links(node.links) if link != header]


def header_bits(header: int, id_bits: int) -> int:
    """The size of what a packet carries beside the event: nothing, a link tells where it ends."""
    return 0


def size(node: State) -> Size:
    """What the state holds: its id, and a predicate for each neighbour in the tree."""
    return Size(1 + len(node.links), 0, [nodes for _, nodes in node.links])


def formula(shape: Shape, advantage: float) -> float | None:
    """The survey gives no formula in bits."""
    return None
