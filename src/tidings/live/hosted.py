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
from tidings.live.flow import Shares
from tidings.live.limits import Limits
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
        self.sessions = 0
        self.held_bytes = 0  # of the predicates of its subscriptions
        self.waiting_bytes = 0  # of deliveries that wait in its sessions
        self._sizes: dict[int, int] = {}  # by number of a subscription: its predicate's bytes
        # Of the newest publications: number, session, the session's number for it.
        self._publishers: dict[int, tuple[int, Session, int]] = {}

    def refusal(self, number: int | None, size: int, limits: Limits, shares: Shares) -> str:
        """Why there is no room for a predicate, a new one or in place of another; or nothing."""
        before = 0 if number is None else self._sizes.get(number, 0)
        for found, whole, what in (
            (len(self.edge) + (number is None), limits.held, "subscriptions"),
            (self.held_bytes + size - before, limits.held_bytes, "bytes of predicates"),
        ):
            most = shares.of(self.name, whole)
            if found > most and (number is None or size > before):
                return f"{self.title} holds at most {most:,} {what} at a router"
        return ""

    @property
    def title(self) -> str:
        """What errors call it."""
        return f"the application {self.name}" if self.name else "the application without a name"

    def hold(self, number: int, size: int) -> None:
        """A subscription has a predicate of so many bytes."""
        self.release(number)
        self._sizes[number] = size
        self.held_bytes += size

    def release(self, number: int) -> None:
        """A subscription is over."""
        self.held_bytes -= self._sizes.pop(number, 0)

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
        "sessions": hosted.sessions,
        "subscriptions": len(hosted.edge),
        "held_bytes": hosted.held_bytes,
        "waiting_bytes": hosted.waiting_bytes,
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
