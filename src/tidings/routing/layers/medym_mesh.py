"""MEDYM as we know the original: the tree is over the destinations only (S4).

Servers form a full mesh and know their distances. A packet with a list goes along the minimum
spanning tree over the node it is at and the nodes of the list; each next node gets the list of the
nodes below it in that tree, and computes its own tree over these. So no node relays what it does
not want, every node gets an event once, and paths are longer than the shortest.

That the tree is a minimum spanning tree is our recollection of the paper, not the survey's word.
"""

from __future__ import annotations

from typing import NamedTuple

from tidings.overlay.graph import Graph
from tidings.routing.layers import medym
from tidings.routing.layers.medym import Part
from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network, Nodes, members

Distances = tuple[tuple[int, ...], ...]

header_bits = medym.header_bits


class State(NamedTuple):
    """What a node keeps: the distances between all nodes, and all interests."""

    node: int
    distances: Distances  # shared by all states
    interests: Nodes


def graph(network: Network) -> Graph:
    """Every node is a neighbour of every other in reach."""
    trees = network.trees
    nodes = range(network.graph.nodes)
    return network.overlay(
        (a, b) for a in nodes for b in nodes if a < b and trees[a].distance[b] > 0
    )


def build(network: Network) -> list[State]:
    """The state of every node."""
    distances = tuple(tree.distance for tree in network.trees)
    return [State(node, distances, network.receivers) for node in range(network.graph.nodes)]


def init(node: State, event: Content) -> list[Part]:
    """The receivers of an event that is published here, as far as they are in reach."""
    near = node.distances[node.node]
    found = [n for n in members(event.receivers(node.interests)) if near[n] > 0]
    return [Part(sum(1 << n for n in found), len(near))]


def send(node: State, arrived: Part, event: Content) -> list[tuple[int, Part]]:
    """To each child in the minimum spanning tree the list of those below it."""
    parents = spanning_tree(node.distances, node.node, arrived.receivers & ~(1 << node.node))
    below: dict[int, Nodes] = {}
    for child in parents:
        top = child
        while parents[top] != node.node:
            top = parents[top]
        below[top] = below.get(top, 0) | 1 << child
    return [(child, Part(nodes, arrived.nodes)) for child, nodes in sorted(below.items())]


def spanning_tree(
    distances: tuple[tuple[int, ...], ...], root: int, receivers: Nodes
) -> dict[int, int]:
    """The parent of each receiver in the minimum spanning tree, by Prim's algorithm.

    Of equally long links the one between the smaller numbers is taken.
    """
    parents: dict[int, int] = {}
    nearest = {n: (distances[root][n], root) for n in members(receivers)}
    while nearest:
        chosen = min(nearest, key=lambda n: (*nearest[n], n))
        parents[chosen] = nearest.pop(chosen)[1]
        for other, (known, _) in nearest.items():
            if distances[chosen][other] < known:
                nearest[other] = (distances[chosen][other], chosen)
    return parents


def size(node: State) -> Size:
    """What the state holds: the distance between any two nodes, and all interests."""
    nodes = len(node.distances)
    pairs = nodes * (nodes - 1) // 2
    return Size(pairs, 0, [1 << receiver for receiver in members(node.interests)])


def formula(shape: Shape, advantage: float) -> float | None:
    """None: the survey has none for it."""
    return None
