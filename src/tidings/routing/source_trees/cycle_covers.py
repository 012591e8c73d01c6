"""Covering where links form cycles (S17): which part of an advertisement need not be passed on.

Let Below(B, c) be the nodes whose path to B comes from neighbour c to this node. Each of them has a
predicate g of issuer B at the interface that leads here, once B's advertisement has passed to c and
been confirmed. An issuer A wants f, which g covers. The part f need not go to c if Below(A, c) lies
within Below(B, c). For a node x of Below(A, c), the path from x to this node is the same for A and
B, because shortest paths are unique. So an event that matches f matches g all along it, and comes
here; from here on f is in the tables. Across a *bridge* all nodes behind c are in both sets, and
nothing has to be computed.

A cover must not be stale: B may have given g up. A node of Below(B, c) forgets g only by a reply to
its own pull, and this node sends that reply to c. So a cover ends, here and at once, when a reply
to such a node goes to c that does not cover it. That holds also for what is still being confirmed.
No packet is needed (`docs/decisions/0023-covering-on-cycles.md`).

All of it is true of one topology: with new routes everything is forgotten. `Below.by_definition` is
the slow twin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from tidings.routing.planes.interests import NOTHING, Effort, shortened, wants
from tidings.routing.planes.topology import Routes

MOST_COVERS: Final = 1_024  # predicates of one link
MOST_HIDDEN: Final = 64  # predicates of one link that an explanation may name

Where = Literal["none", "bridges", "paths"]


class Below:
    """The nodes whose path to an issuer comes from a neighbour to this node."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._found: dict[tuple[str, str], frozenset[str]] = {}
        self._bridges: dict[str, bool] = {}

    def of(self, issuer: str, neighbour: str) -> frozenset[str]:
        """Below(issuer, neighbour), from the distances of all nodes."""
        key = issuer, neighbour
        found = self._found.get(key)
        if found is None:
            routes = self._routes
            distances = routes.topology.distances
            to_issuer, to_neighbour = distances(issuer), distances(neighbour)
            mine = routes.topology.adjacency[routes.node][neighbour] + to_issuer[routes.node]
            found = self._found[key] = frozenset(
                node for node, far in to_neighbour.items() if far + mine == to_issuer[node]
            )
        return found

    def is_bridge(self, neighbour: str) -> bool:
        """Whether the link to a neighbour is the only connection to it."""
        found = self._bridges.get(neighbour)
        if found is None:
            node, links = self._routes.node, self._routes.topology.adjacency
            reached = {neighbour: None}
            pending = [neighbour]
            for one in pending:  # grows while it is read
                for other in links[one]:
                    if other not in reached and (one, other) != (neighbour, node):
                        reached[other] = None
                        pending.append(other)
            found = self._bridges[neighbour] = node not in reached
        return found

    @staticmethod
    def by_definition(
        hops: Mapping[str, Mapping[str, str]], issuer: str, neighbour: str, node: str
    ) -> frozenset[str]:
        """Below(issuer, neighbour) at a node, by walking from every node to the issuer."""
        found = set()
        for start in hops:
            one = start
            while one != issuer and issuer in hops[one]:
                one, before = hops[one][issuer], one
                if (before, one) == (neighbour, node):
                    found.add(start)
        return frozenset(found)


class CycleCovers:
    """What nodes behind each link are known to send here, by the issuer that wants it."""

    def __init__(self, where: Where, routes: Routes, effort: Effort) -> None:
        self._where = where
        self._effort = effort
        self.below = Below(routes)
        self.known: dict[str, dict[str, dict[str, None]]] = {}  # neighbour, issuer: predicates
        # By neighbour and issuer: the number and predicate of what is being confirmed, until a
        # reply forgets it.
        self._unconfirmed: dict[tuple[str, str], tuple[int, str]] = {}
        self._hidden: dict[str, dict[str, str]] = {}  # by neighbour: what was not told, and why
        self.saved = 0  # advertisements that were not passed on to a neighbour

    def adopt(self, routes: Routes) -> None:
        """There are new routes: forget everything."""
        self.below = Below(routes)
        self.known.clear()
        self._unconfirmed.clear()
        self._hidden.clear()

    def rest(self, issuer: str, neighbour: str, predicate: str) -> str:
        """The part of what an issuer wants that a neighbour must hear."""
        if self._where == "none" or predicate == NOTHING:
            return predicate
        covers = self.usable(issuer, neighbour)
        rest = self._effort.beyond_all(predicate, covers) if covers else predicate
        if rest == NOTHING:
            self.saved += 1
            self._hide(neighbour, predicate, covers)
        return rest

    def usable(self, issuer: str, neighbour: str) -> list[str]:
        """The predicates that may stand for what an issuer wants, towards a neighbour."""
        return [
            text
            for other, texts in self.known.get(neighbour, {}).items()
            if self.serves(other, issuer, neighbour)
            for text in texts
        ]

    def serves(self, other: str, issuer: str, neighbour: str) -> bool:
        """Whether what one issuer wants may cover what another wants, towards a neighbour."""
        if self._where == "bridges":
            return self.below.is_bridge(neighbour)
        return self.below.of(issuer, neighbour) <= self.below.of(other, neighbour)

    def sent(self, issuer: str, number: int, neighbour: str, predicate: str) -> None:
        """An advertisement goes to a neighbour."""
        if self._where == "paths" or (self._where != "none" and self.below.is_bridge(neighbour)):
            self._unconfirmed[neighbour, issuer] = number, predicate

    def confirmed(self, issuer: str, number: int, neighbour: str) -> None:
        """Every node behind a neighbour has what an issuer advertised."""
        told, predicate = self._unconfirmed.pop((neighbour, issuer), (0, NOTHING))
        if told == number and predicate != NOTHING:
            known = self.known.setdefault(neighbour, {}).setdefault(issuer, {})
            known[predicate] = None
            if len(known) > MOST_COVERS:
                del known[next(iter(known))]

    def replied(self, asker: str, neighbour: str, reply: str) -> None:
        """A reply goes to a neighbour: the node that asked forgets what it does not cover."""
        for issuer, texts in self.known.get(neighbour, {}).items():
            if self.forgets(asker, issuer, neighbour):
                for text in [t for t in texts if self._effort.beyond(t, reply) != NOTHING]:
                    del texts[text]
        for (name, issuer), (_, text) in list(self._unconfirmed.items()):
            is_concerned = name == neighbour and self.forgets(asker, issuer, neighbour)
            if is_concerned and self._effort.beyond(text, reply) != NOTHING:
                del self._unconfirmed[name, issuer]

    def forgets(self, asker: str, issuer: str, neighbour: str) -> bool:
        """Whether the asker has what the issuer wants at the interface that the reply replaces."""
        return self._where == "bridges" or asker in self.below.of(issuer, neighbour)

    # For people

    def _hide(self, neighbour: str, predicate: str, covers: list[str]) -> None:
        hidden = self._hidden.setdefault(neighbour, {})
        alone = (text for text in covers if self._effort.beyond(predicate, text) == NOTHING)
        hidden[predicate] = next(alone, "several predicates together")
        if len(hidden) > MOST_HIDDEN:
            del hidden[next(iter(hidden))]

    def explain(self, neighbour: str, event: dict[str, object]) -> Iterator[str]:
        """What a neighbour was not told of what an event matches, and why."""
        for predicate, cover in self._hidden.get(neighbour, {}).items():
            if wants(predicate, event):
                yield f"{shortened(predicate)} was not told there: covered by {shortened(cover)}"
