"""The whole network seen from above: who is connected to whom, and who wants what.

Schemes build their state from this view (U1). A predicate in a node's state is always a disjunction
of the interests of some nodes. So the state holds that set of nodes instead, a `Nodes`: an integer
whose bit x says whether node x is in the set. Sets stand for their predicates when these are
compared, joined and counted; `Network.predicate` gives the predicate itself.

There are two kinds of event, and both must take the same links. A `Matched` event has been matched
once against the interests of all nodes, so a predicate is tested by an `and` of two integers. An
`Unmatched` event is what a router sees: at every node it builds that node's predicates and searches
them with a `ForwardingTable`. The first is fast; the second shows that the first is right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

from tidings.language.predicate import Predicate, parse, union
from tidings.matching.forwarding import ForwardingTable
from tidings.overlay.graph import Graph
from tidings.overlay.paths import Tree, trees

Nodes = int
Row = tuple[tuple[int, Nodes], ...]  # neighbours, each with the nodes reached through it
Event = Mapping[str, Any]

NOBODY: Final[Predicate] = union(())


def members(nodes: Nodes) -> Iterator[int]:
    """The nodes of a set, in order.

    >>> list(members(0b1011))
    [0, 1, 3]
    """
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def nodes_of(numbers: Iterable[int]) -> Nodes:
    """The set of these nodes."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


class Content(Protocol):
    """An event, as far as schemes ask about it."""

    def links(self, row: Row, among: Collection[int] | None = None) -> list[int]:
        """The neighbours in a row whose predicate the event matches, perhaps only `among` some."""

    def receivers(self, known: Nodes) -> Nodes:
        """The nodes whose interest the event matches, among those that are known."""


class Matched:
    """An event that has been matched: only the set of nodes interested in it is left."""

    __slots__ = ("interested",)

    def __init__(self, interested: Nodes) -> None:
        self.interested = interested

    def links(self, row: Row, among: Collection[int] | None = None) -> list[int]:
        interested = self.interested
        if among is None:
            return [neighbour for neighbour, nodes in row if nodes & interested]
        return [n for n, nodes in row if nodes & interested and n in among]

    def receivers(self, known: Nodes) -> Nodes:
        return self.interested & known


class Unmatched:
    """An event as a router gets it: every node that it passes matches it against its own table."""

    def __init__(self, network: Network, event: Event) -> None:
        self.network = network
        self.event = event

    def links(self, row: Row, among: Collection[int] | None = None) -> list[int]:
        found = self.network.table(row).forward(self.event, among)
        return sorted(map(int, found))

    def receivers(self, known: Nodes) -> Nodes:
        row = tuple((node, 1 << node) for node in members(known))
        return nodes_of(self.links(row))


class Network:
    """A graph and the interest of each of its nodes; nodes may want nothing.

    All nodes publish, unless `senders` says which.

    >>> from tidings.overlay.topologies import topology
    >>> network = Network(topology("line:3"), ["", "severity > 2", "site = 'Oslo'"])
    >>> list(members(network.interested({"severity": 3, "site": "Oslo"})))
    [1, 2]
    """

    def __init__(
        self,
        graph: Graph,
        interests: Sequence[Predicate | str],
        trees: Sequence[Tree] | None = None,
        senders: Nodes | None = None,
    ) -> None:
        if len(interests) != graph.nodes:
            raise ValueError(f"expected {graph.nodes} interests, found {len(interests)}")
        self.graph = graph
        self.interests = tuple(
            one if isinstance(one, Predicate) else parse(one) if one else NOBODY
            for one in interests
        )
        self.senders = (1 << graph.nodes) - 1 if senders is None else senders  # S
        self._tables: dict[Row, ForwardingTable] = {}
        self._trees = trees  # other shortest-path trees than those of the rule for ties

    @classmethod
    def of(
        cls,
        graph: Graph,
        subscriptions: Iterable[tuple[int, Predicate]],
        senders: Nodes | None = None,
    ) -> Network:
        """A network whose nodes hold these subscriptions, each given with its node."""
        held: list[list[Predicate]] = [[] for _ in range(graph.nodes)]
        for node, predicate in subscriptions:
            held[node].append(predicate)
        return cls(graph, [union(predicates) for predicates in held], senders=senders)

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """The shortest-path tree of every node (T_v)."""
        return tuple(trees(self.graph) if self._trees is None else self._trees)

    @property
    def sent(self) -> list[Tree]:
        """The trees of the nodes that publish."""
        return [self.trees[node] for node in members(self.senders)]

    def overlay(self, links: Iterable[tuple[int, int]]) -> Graph:
        """A logical graph over the nodes: a link weighs the distance of its ends below.

        >>> from tidings.overlay.topologies import topology
        >>> Network(topology("line:4"), [""] * 4).overlay([(0, 3), (3, 1)]).links
        ((0, 3, 3), (1, 3, 2))
        """
        pairs = {(min(pair), max(pair)) for pair in links}
        weighed = [(one, other, self.trees[one].distance[other]) for one, other in sorted(pairs)]
        return Graph(self.graph.nodes, weighed, self.graph.names)

    @cached_property
    def below(self) -> tuple[tuple[Nodes, ...], ...]:
        """For each source v and each node w, w and all nodes below it in the tree of v (T_v/w)."""
        known: dict[Nodes, Nodes] = {}  # equal sets share one object: there are few different ones
        found = []
        for tree in self.trees:
            sets = [1 << node for node in range(self.graph.nodes)]
            for node in reversed(tree.order):
                sets[node] = known.setdefault(sets[node], sets[node])
                if tree.parent[node] >= 0:
                    sets[tree.parent[node]] |= sets[node]
            found.append(tuple(sets))
        return tuple(found)

    def row(self, source: int, node: int) -> Row:
        """The children of a node in the tree of a source, with the nodes behind each."""
        below = self.below[source]
        return tuple((child, below[child]) for child in self.trees[source].children(node))

    @cached_property
    def receivers(self) -> Nodes:
        """The nodes that want something (R)."""
        return nodes_of(node for node, interest in enumerate(self.interests) if interest != NOBODY)

    def predicate(self, nodes: Nodes) -> Predicate:
        """The predicate of a set of nodes: the disjunction of their interests, reduced."""
        return union(self.interests[node] for node in members(nodes))

    def table(self, row: Row) -> ForwardingTable:
        """A row as a router would hold it: neighbours with predicates, compiled."""
        if row not in self._tables:
            self._tables[row] = ForwardingTable(
                {neighbour: self.predicate(nodes) for neighbour, nodes in row}
            )
        return self._tables[row]

    def interested(self, event: Event) -> Nodes:
        """The nodes whose interest the event matches."""
        return nodes_of(self._everyone.forward(event))  # type: ignore[arg-type]

    @cached_property
    def _everyone(self) -> ForwardingTable:
        return ForwardingTable(dict(enumerate(self.interests)))
