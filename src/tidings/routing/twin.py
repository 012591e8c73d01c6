"""The twin of a protocol: the scheme from above that takes the same links, once all is at rest."""

from __future__ import annotations

from collections import Counter

from tidings.language.predicate import union
from tidings.overlay.graph import Graph
from tidings.overlay.paths import NONE, Tree
from tidings.routing.delivery import deliver
from tidings.routing.network import Matched, Network, nodes_of
from tidings.routing.planes.interests import predicate_of
from tidings.routing.scheme import Scheme
from tidings.routing.truth import Hops, Situation, Truth

Links = Counter[tuple[str, str]]  # from and to, and how many packets took it


class Twin:
    """A scheme from above, on the true network and the paths of its nodes."""

    def __init__(self, scheme: Scheme, situation: Situation, hops: Hops) -> None:
        truth = situation.truth
        self.scheme = scheme
        self._names = truth.running
        self._number = {name: number for number, name in enumerate(self._names)}
        links = [
            (self._number[one], self._number[other], cost)
            for one, row in truth.costs.items()
            for other, cost in row.items()
            if one < other
        ]
        interests = [
            union(predicate_of(text) for text in situation.subscriptions.get(name, {}).values())
            for name in self._names
        ]
        graph = Graph(len(self._names), links, self._names)
        trees = [self._tree(name, truth, hops) for name in self._names]
        network = Network(graph, interests, trees)
        self._graph = scheme.graph(network)
        self._states = scheme.build(network)

    def _tree(self, source: str, truth: Truth, hops: Hops) -> Tree:
        reach = truth.reaches(source)
        parents = [
            self._number[hops[name][source]] if name in reach and name != source else NONE
            for name in self._names
        ]
        distances = [reach.get(name, NONE) for name in self._names]
        return Tree(self._number[source], parents, distances)

    def links(self, source: str, wanting: set[str]) -> Links:
        """The links that an event takes from a source, if these nodes want it."""
        interested = Matched(nodes_of(self._number[name] for name in wanting))
        number = self._number[source]
        delivery = deliver(self.scheme, self._states, self._graph, number, interested)
        names = self._names
        ends = zip(delivery.senders, delivery.receivers, strict=True)
        return Counter((names[one], names[other]) for one, other in ends)

    def objection(self, taken: Links, source: str, wanting: set[str], exact: bool) -> str | None:
        """What is wrong with the links that an event has taken; None if nothing is.

        Where copies meet and are dropped, the order of arrival decides which end of a link sends
        to the other. Then every link must be used, and as many packets sent as from above; nobody
        tells such nodes which neighbours have gone, so packets to these do not count.
        """
        expected = self.links(source, wanting)
        if self.scheme.suppresses:
            there = self._number.keys()
            taken = Counter({ends: n for ends, n in taken.items() if ends[1] in there})
            right = taken.total() == expected.total() and _undirected(taken) == _undirected(
                expected
            )
        else:
            right = taken == expected if exact else expected <= taken
        return None if right else f"took {sorted(taken)}, not {sorted(expected)}"


def _undirected(links: Links) -> set[tuple[str, ...]]:
    return {tuple(sorted(ends)) for ends in links}
