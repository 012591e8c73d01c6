"""A tree per publisher over Chord (S16; Terpstra et al.): the ring, divided again and again.

Whoever publishes sends the event to those of its fingers in whose arc somebody wants it, each with
the end of that arc; a finger does the same within the arc. So every publisher has a tree of its
own, no deeper than the digits of the number of nodes, and the load of forwarding spreads over all
nodes. An event that all want takes one packet of the overlay fewer than there are nodes.
"""

from __future__ import annotations

from typing import Any

from tidings.routing.packets import Arc, Cast, Claim, Publication
from tidings.routing.planes.interests import shortened
from tidings.routing.protocol import Action, Drop, Established, InForce
from tidings.routing.structured.arcs import Arcs
from tidings.routing.structured.router import Service, StructuredRouter


class Trees:
    """One node's part in the trees of all publishers."""

    arcs_of: type[Arcs] = Arcs

    def __init__(self, router: StructuredRouter) -> None:
        self.router = router
        self.local = router.local
        self.arcs = self.arcs_of(
            router.substrate, router.carrier, router.timing, lambda: router.lives
        )
        self._waiting: dict[str, dict[int, int] | None] = {}  # subscriptions, and for which tables

    def subscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been taken, or has another predicate."""
        self._waiting[id] = None
        self.arcs.want(self.local.subscriptions.values())

    def unsubscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been given up."""
        self._waiting.pop(id, None)
        self.arcs.want(self.local.subscriptions.values())

    def advertised(self, id: str, now: int, out: list[Action]) -> None:
        """An advertisement has been taken: what is published needs none."""
        out.append(InForce((id,)))

    def unadvertised(self, id: str, now: int, out: list[Action]) -> None:
        """An advertisement has been given up."""

    def publish(self, publication: Publication, now: int, out: list[Action]) -> None:
        """Someone here publishes: the arc is the whole ring."""
        self.arcs.cast(self.router.substrate.key, publication, out)

    def received(self, source: str, packet: Any, now: int, out: list[Action]) -> None:
        """A packet has come from another node."""
        match packet:
            case Claim():
                self.arcs.claimed(source, packet, now, out)
            case Arc():
                self.arcs.told(source, packet, now, out)
            case Cast(end, publication):
                self.router.deliver(publication, now, out)
                self.arcs.cast(end, publication, out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def members_changed(self, lost: list[str]) -> None:
        """Nodes have come or gone."""
        self.arcs.lost(lost)
        self.arcs.members_changed()

    def update(self, now: int, out: list[Action]) -> None:
        """After anything has happened: do what follows, and what is due."""
        if not self.arcs.update(now, out):
            return
        done = []
        for id, numbers in self._waiting.items():
            if numbers is None:
                numbers = self._waiting[id] = self.arcs.numbers()
            if self.arcs.established(numbers):
                done.append(id)
        for id in done:
            del self._waiting[id]
        if done:
            out.append(Established(tuple(done)))

    def timer(self) -> int | None:
        """When to wake."""
        return self.arcs.timer()

    def is_settled(self) -> bool:
        """Whether all that must be told has been."""
        return not self._waiting and self.arcs.is_settled()

    def figures(self) -> dict[str, int]:
        """Counts for metrics."""
        return self.arcs.figures()

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return self.arcs.snapshot()

    def explain(self, source: str, event: dict[str, Any]) -> dict[str, str]:
        """The nodes to which an event of this source would be sent from here, and why each."""
        found: dict[str, str] = {}
        if source != self.router.node:  # in which part of its tree this node is, it does not know
            return found
        key = self.router.substrate.key
        for portion, wanted in self.arcs.choose(key, event):
            held = self.arcs.held.get(portion)
            if wanted and held is not None:
                text = shortened(" or ".join(held.texts))
                found[portion.head] = f"the {held.covers.nodes} nodes of its arc want {text}"
            elif wanted:
                found[portion.head] = "what its arc wants is not known yet"
        return found


class ChordTreesRouter(StructuredRouter):
    """A node of a network with a tree per publisher over Chord.

    >>> from tidings.routing.protocol import Publish, Subscribe
    >>> node = ChordTreesRouter("a")
    >>> node.handle(Subscribe("ada", "severity > 2"), 0)
    [Established(subscriptions=('ada',))]
    >>> [action.subscriptions for action in node.handle(Publish({"severity": 3}), 0)]
    [('ada',)]
    """

    trees_of: type[Trees] = Trees

    def make_service(self, options: Any) -> Service:
        """What routes by content."""
        return self.trees_of(self)
