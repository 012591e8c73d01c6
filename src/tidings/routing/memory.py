"""The size of state, in bits: measured, and by the paper's formulas (U6).

The id of a node takes log2 of the number of nodes, rounded up. A predicate takes the UTF-8 text of
its filters, and a byte to end each. Without reduction a disjunction is as large as its parts
together, which is also the upper bound (section 2.4). The disjunction advantage is its size without
the filters that others cover, as in section 4.2, divided by that bound.

A network has very many disjunctions, all of the same interests. So `Scale` compares all filters
with each other once, and notes which nodes hold a filter and which hold one that covers it. A
filter stays in the disjunction of some nodes if one of them holds it and none holds one that covers
it; the size of a disjunction is then a matter of counting. The tests really reduce, and find the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from tidings.language.errors import NormalFormError
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.language.reduction import Coverings
from tidings.routing.network import Network, Nodes, members

MAX_FILTERS: Final = 20_000  # to compare with each other; with more, nothing is reduced


class Size(NamedTuple):
    """What the state of a node holds: ids of nodes, single bits, and predicates."""

    ids: int
    flags: int
    predicates: Sequence[Nodes]


class Shape(NamedTuple):
    """What the paper's formulas depend on."""

    nodes: int  # n
    senders: int  # s: the nodes that publish
    receivers: int  # r: the nodes that want something
    degree: int  # Δ: the largest of a node
    id_bits: int  # log n
    interest_bits: float  # M_p: the mean over the receivers
    total_hops: int  # the sum of the distances of receivers from senders, in links
    is_tree: bool


class Footprint(NamedTuple):
    """The state of a whole network under one scheme, in bits by node.

    Unreduced: as if nodes stored every disjunction as the interests that it joins.
    """

    by_node: list[int] | None  # None where there are too many filters to reduce
    by_node_unreduced: list[int]
    predicates: int
    advantage: float | None  # reduced size by unreduced size, over all predicates


def predicate_bits(predicate: Predicate) -> int:
    """The size of a predicate; without a normal form, of its text as it was written."""
    try:
        return sum(_bits(str(filter)) for filter in predicate.filters)
    except NormalFormError:
        return _bits(str(predicate))


def _bits(text: str) -> int:
    return 8 * (len(text.encode()) + 1)


def shape_of(network: Network) -> Shape:
    """The numbers that the formulas need."""
    graph = network.graph
    receivers = list(members(network.receivers))
    bits = [predicate_bits(network.interests[node]) for node in receivers]
    hops = 0
    for tree in network.sent:
        depth = [0] * graph.nodes
        for node in tree.order[1:]:
            depth[node] = depth[tree.parent[node]] + 1
        hops += sum(depth[node] for node in receivers)
    return Shape(
        nodes=graph.nodes,
        senders=network.senders.bit_count(),
        receivers=len(receivers),
        degree=max(len(graph.neighbours(node)) for node in range(graph.nodes)),
        id_bits=id_bits(graph.nodes),
        interest_bits=sum(bits) / max(len(bits), 1),
        total_hops=hops,
        is_tree=len(graph.links) == graph.nodes - len(graph.components),
    )


def id_bits(nodes: int) -> int:
    """The bits of an id, for this number of nodes."""
    return max(1, (nodes - 1).bit_length())


class _Held(NamedTuple):
    """A filter that a node holds: all that hold it, all that hold one that covers it, its size."""

    holders: Nodes
    coverers: Nodes
    bits: int


class Scale:
    """Measures the state of schemes on one network."""

    def __init__(
        self,
        network: Network,
        step: Callable[[int, int], None] = lambda done, whole: None,
        max_filters: int = MAX_FILTERS,
    ) -> None:
        self.network = network
        self.interest_bits = [predicate_bits(interest) for interest in network.interests]
        self._held = _compare(network, step, max_filters)
        self._unreduced: dict[Nodes, int] = {}
        self._reduced: dict[Nodes, int] = {}

    def weigh(self, sizes: Iterable[Size]) -> Footprint:
        """The state of all nodes, given what each holds."""
        held = list(sizes)
        ids = id_bits(self.network.graph.nodes)
        plain = [size.ids * ids + size.flags for size in held]

        def by_node(weight: Callable[[Nodes], int]) -> list[int]:
            predicates = (sum(map(weight, size.predicates)) for size in held)
            return [one + other for one, other in zip(plain, predicates, strict=True)]

        unreduced = by_node(self.unreduced)
        reduced: list[int] | None = None
        if self._held is not None:
            reduced = by_node(self.reduced)
        elif all(nodes.bit_count() == 1 for size in held for nodes in size.predicates):
            reduced = unreduced  # nothing is combined
        advantage = None
        if reduced is not None:
            whole = sum(unreduced) - sum(plain)
            advantage = (sum(reduced) - sum(plain)) / whole if whole else 1.0
        return Footprint(
            by_node=reduced,
            by_node_unreduced=unreduced,
            predicates=sum(len(size.predicates) for size in held),
            advantage=advantage,
        )

    def unreduced(self, nodes: Nodes) -> int:
        """The size of the interests of some nodes, added up."""
        found = self._unreduced.get(nodes)
        if found is None:
            found = self._unreduced[nodes] = sum(self.interest_bits[n] for n in members(nodes))
        return found

    def reduced(self, nodes: Nodes) -> int:
        """The size of the disjunction of the interests of some nodes, without covered filters."""
        assert self._held is not None
        found = self._reduced.get(nodes)
        if found is None:
            found = 0
            for node in members(nodes):
                for holders, coverers, bits in self._held[node]:
                    shared = holders & nodes
                    # The first of the nodes that hold it counts it.
                    if not coverers & nodes and shared & -shared == 1 << node:
                        found += bits
            self._reduced[nodes] = found
        return found


def _compare(
    network: Network, step: Callable[[int, int], None], max_filters: int
) -> list[list[_Held]] | None:
    """For each node the filters it holds, compared with all; None where there are too many."""
    holders: dict[Filter, Nodes] = {}
    bits: list[dict[Filter, int]] = []  # by node: equal filters may be written as 0 and as 0.0
    held: list[list[_Held]] = []
    for node, interest in enumerate(network.interests):
        held.append([])
        bits.append({})
        try:
            filters = interest.filters
        except NormalFormError:  # as far as we know, it covers nothing and nothing covers it
            held[node].append(_Held(1 << node, 0, predicate_bits(interest)))
            continue
        for filter in filters:
            holders[filter] = holders.get(filter, 0) | 1 << node
            bits[node][filter] = _bits(str(filter))
        if len(holders) > max_filters:
            return None
    # Where filters cover each other, the simplest stays: the last in this order, as in `absorb`.
    ordered = sorted(sorted(holders), key=len, reverse=True)
    index = Coverings(ordered)
    for number, filter in enumerate(ordered):
        if number % 256 == 0:
            step(number, len(ordered))
        coverers = 0
        for other in index.every(filter, but=number):
            if other > number or not filter.covers(ordered[other]):
                coverers |= holders[ordered[other]]
        for node in members(holders[filter]):
            held[node].append(_Held(holders[filter], coverers, bits[node][filter]))
    return held
