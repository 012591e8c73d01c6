"""Networks that Hypothesis draws, and the paper's definitions of the schemes, word by word.

The definitions use sets, real predicates and `matches`, and nothing of what the room builds.
"""

from collections.abc import Iterator
from itertools import product

from hypothesis import strategies as st

from tests.overlay.graphs import graphs
from tidings.language.predicate import Predicate, parse, union
from tidings.overlay.graph import Graph
from tidings.overlay.paths import Tree, trees
from tidings.routing.delivery import Delivery
from tidings.routing.network import Event, Network

TEXTS = [
    *("", "", "a = 1", "a = 2", "a > 1", "a >= 1", "b = 'x'", "b prefix 'x'", "a = 1 and b = 'x'"),
    *("a > 0 and b prefix 'x'", "a = 2 or b = 'y'", "not a = 1", "exists a", "a < 2 and a > 0"),
]
EVENTS: list[Event] = [
    {**({} if a is None else {"a": a}), **({} if b is None else {"b": b})}
    for a, b in product([None, 0, 1, 2], [None, "x", "xy", "y"])
]
events = st.sampled_from(EVENTS)


@st.composite
def networks(draw: st.DrawFn, drawn: st.SearchStrategy[Graph] | None = None) -> Network:
    """A network whose nodes want little, and only what some of `EVENTS` has."""
    graph = draw(graphs() if drawn is None else drawn)
    texts = st.lists(st.sampled_from(TEXTS), min_size=graph.nodes, max_size=graph.nodes)
    return Network(graph, draw(texts))


def packets(delivery: Delivery) -> set[tuple[int, int]]:
    """Who has sent to whom."""
    return set(zip(delivery.senders, delivery.receivers, strict=True))


def interested(network: Network, event: Event) -> set[int]:
    """The nodes whose interest the event matches."""
    return {node for node, one in enumerate(network.interests) if one.matches(event)}


def psf_predicate(network: Network, tree: Tree, node: int, neighbour: int) -> Predicate:
    """F_u(v, w), section 3.1: the interests of the descendants by the link in the tree of v."""
    return union(network.interests[x] for x in tree.descendants(node, neighbour))


def psf_by_definition(network: Network, source: int, event: Event) -> set[tuple[int, int]]:
    """The packets of PSF."""
    tree = list(trees(network.graph))[source]
    return set(_walk(network, source, lambda u, w: psf_predicate(network, tree, u, w), event))


def pif_by_definition(network: Network, source: int, event: Event) -> set[tuple[int, int]]:
    """The packets of PIF, section 3.3: F*_u(w) is the disjunction of F_u(v, w) over all v."""
    every = list(trees(network.graph))

    def predicate(node: int, neighbour: int) -> Predicate:
        if neighbour not in every[source].children(node):
            return parse("false")
        return union(psf_predicate(network, tree, node, neighbour) for tree in every)

    return set(_walk(network, source, predicate, event))


def _walk(network, source, predicate, event) -> Iterator[tuple[int, int]]:  # type: ignore[no-untyped-def]
    pending = [source]
    for node in pending:  # grows while it is read
        for neighbour in network.graph.neighbours(node):
            if predicate(node, neighbour).matches(event):
                yield node, neighbour
                pending.append(neighbour)


def smallest_delivery(graph: Graph, source: int, receivers: set[int]) -> int:
    """The links of the smallest tree on which all receivers are served by shortest paths.

    Tries every choice of parents on shortest paths.
    """
    distance = list(trees(graph))[source].distance
    choices = [
        [
            other
            for other in graph.neighbours(node)
            if distance[other] + graph.weight(other, node) == distance[node]
        ]
        or [-1]
        for node in range(graph.nodes)
    ]
    return min(
        len({link for receiver in receivers for link in _links_to(parents, source, receiver)})
        for parents in product(*choices)
    )


def _links_to(parents: tuple[int, ...], source: int, node: int) -> Iterator[tuple[int, int]]:
    while node != source:
        yield parents[node], node
        node = parents[node]
