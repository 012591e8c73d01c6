"""An application at a router (L4): its subscriptions, its publishers, and its figures.

Clients belong to one application each, by default to the one without a name. What happens to one
application here happens to no other: each has its own announcements, its own numbers of events, and
its own share of the links (`flow.Shares`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidings.live.edge import Edge, Growing
from tidings.routing.protocol import Cause, Publish, Subscribe, Unsubscribe, Within

if TYPE_CHECKING:
    from tidings.live.session import Session

REMEMBERED: Final = 65_536  # publications and replies whose client the router remembers


@dataclass
class Use:
    """Counters of an application at a router."""

    published: int = 0
    delivered: int = 0
    dropped: int = 0  # packets that the protocol has dropped here
    held: int = 0  # times that a publisher here had to wait for room


class Hosted:
    """One application at one router."""

    def __init__(
        self, name: str, keeps_order: bool, tell: Callable[[str, str, str | None], None]
    ) -> None:
        self.name = name
        self.keeps_order = keeps_order  # by dropping what a later event overtook
        self.table = Growing()
        self.edge = Edge(lambda id, text: tell(name, id, text), self.table)
        self.newest: dict[str, tuple[int, int]] = {}  # by source: life, newest number delivered
        self.published = 0  # as the protocol counts them
        self.use = Use()
        # Of the newest publications: number, session, the session's number for it.
        self._publishers: dict[int, tuple[int, Session, int]] = {}

    def cause(self, cause: Subscribe | Unsubscribe | Publish) -> Cause:
        """A cause of this application."""
        return Within(self.name, cause) if self.name else cause

    def remember(self, session: Session, number: int) -> None:
        """A client publishes the next event, which has this number in its session."""
        newest = self.published + 1
        self._publishers[newest % REMEMBERED] = newest, session, number

    def publisher(self, number: int) -> tuple[Session, int] | None:
        """Who published an event here, if that is known and the session is not over."""
        found = self._publishers.get(number % REMEMBERED)
        if found is None or found[0] != number or found[1].over:
            return None
        return found[1], found[2]


def figures(hosted: Hosted, layers: Any, sent: dict[str, int]) -> dict[str, Any]:
    """What `status` says about an application: its configuration, its load, and its losses.

    `layers` are its two layers here, and `sent` the bytes that all links have sent, by application.
    """
    matching, use = layers.matching, hosted.use
    settings, epochs = matching.settings, matching.epochs
    placement = epochs.used.placement
    return {
        "matching": settings.matching,
        "delivery": settings.delivery,
        "replicas": settings.replicas,
        "hops": settings.hops,
        "regions": 0 if placement is None else placement.shape.regions,
        "seal": settings.seal,
        "serving": 0 if placement is None else sum(map(len, placement.nodes_of)),
        "adapted": 0 if epochs.used.adapted is None else epochs.used.adapted.number,
        "changes": layers.changes,
        "epoch": f"{epochs.used.digest:016x}",
        "settled": matching.is_settled(),
        "subscriptions": len(hosted.edge),
        "stored": len(matching.store),
        "published": use.published,
        "visits": matching.counts["visits"],
        "matched": matching.counts["matched"],
        "misplaced": matching.counts["misplaced"],
        "failures": getattr(settings.function(), "failures", 0),
        "delivered": use.delivered,
        "dropped": use.dropped,
        "held": use.held,
        "bytes": sent.get(hosted.name, 0),
    }
