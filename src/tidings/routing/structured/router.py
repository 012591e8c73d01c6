"""A node of a network whose protocol stands on a structured overlay.

Below are the link-state plane and the carrier, which reach every node of the network; above them a
substrate, which keeps its place among them; and on top a `Service`, which routes by content. This
file joins them. It tells the substrate and the service which nodes have come, gone, or begun a new
life, and takes nothing from a life that the plane does not know.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tidings.matching.contract import Matcher
from tidings.matching.scan import Scan
from tidings.routing.packets import (
    Answer,
    Find,
    Found,
    Hello,
    Leaves,
    Notify,
    Parcel,
    Parting,
    Publication,
    Records,
    Returned,
    RingQuery,
    RingReply,
    Summary,
)
from tidings.routing.planes.board import Board
from tidings.routing.planes.carrier import Carried
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.local import Local
from tidings.routing.planes.once import Once
from tidings.routing.planes.replies import Replies
from tidings.routing.planes.steady import Steady
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    USUAL,
    Action,
    Advertise,
    Cause,
    Decline,
    Drop,
    Feedback,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Subscribe,
    Timing,
    Unadvertise,
    Unsubscribe,
    Woken,
    earliest,
)
from tidings.routing.structured.chord import Chord
from tidings.routing.structured.pastry import Pastry
from tidings.routing.structured.substrate import Substrate
from tidings.routing.structured.substrates import SubstrateOptions

MOST_EARLY = 1_024  # events of unknown sources that wait
RING_PACKETS = (RingQuery, RingReply, Notify, Find, Found, Parting, Leaves)


class Service(Protocol):
    """What routes by content on a substrate."""

    def subscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been taken, or has another predicate."""

    def unsubscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been given up."""

    def advertised(self, id: str, now: int, out: list[Action]) -> None:
        """An advertisement has been taken, or has another predicate."""

    def unadvertised(self, id: str, now: int, out: list[Action]) -> None:
        """An advertisement has been given up."""

    def publish(self, publication: Publication, now: int, out: list[Action]) -> None:
        """Someone here publishes."""

    def received(self, source: str, packet: Any, now: int, out: list[Action]) -> None:
        """A packet has come from another node."""

    def members_changed(self, lost: list[str]) -> None:
        """Nodes have come or gone; those lost are gone, or have begun a new life."""

    def update(self, now: int, out: list[Action]) -> None:
        """After anything has happened: do what follows, and what is due."""

    def timer(self) -> int | None:
        """When to wake."""

    def is_settled(self) -> bool:
        """Whether all that must be told has been."""

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""

    def explain(self, source: str, event: dict[str, Any]) -> dict[str, str]:
        """The nodes to which an event of this source would be sent from here, and why each."""


class StructuredRouter(ABC):
    """A node whose protocol stands on a structured overlay; each protocol gives its `service`."""

    plane_of: type[LinkState] = LinkState
    chord_of: type[Chord] = Chord
    pastry_of: type[Pastry] = Pastry
    once_of: type[Once] = Once
    is_switching = False

    def __init__(
        self,
        node: str,
        life: int = 1,
        timing: Timing = USUAL,
        topologies: Topologies | None = None,
        matcher: Callable[[], Matcher] = Scan,
        board: Board | None = None,
        options: Any = None,
    ) -> None:
        self.node = node
        self.life = life
        self.timing = timing
        self.plane = self.plane_of(node, life, timing, topologies or Topologies())
        self.carrier = Carried(node, self.plane)
        self.local = Local(node, life, None if board is not None else matcher)
        self.replies = Replies(node, life, self.hop_to)
        self.once = self.once_of()
        self.lives: dict[str, int] = {node: life}  # of the nodes in reach
        self.substrate: Substrate = self.make_substrate(options)
        self.service: Service = self.make_service(options)
        self._early: list[tuple[int, Publication]] = []  # until when, and what
        self._has_news = False  # records that have come since this node last looked around
        self._clock = Steady()

    def make_substrate(self, options: Any) -> Substrate:
        """The overlay on which the protocol stands."""
        place = self.node, self.carrier, self.timing
        if isinstance(options, SubstrateOptions) and options.substrate == "pastry":
            return self.pastry_of(*place, sees=True, leaves=options.leaves)
        return self.chord_of(*place, sees=True)

    @abstractmethod
    def make_service(self, options: Any) -> Service:
        """What routes by content."""

    def hop_to(self, node: str) -> str | None:
        """The neighbour that leads to a node, if the link to it is up."""
        hop = self.plane.routes.hop.get(node)
        return hop if hop is not None and self.plane.neighbours.is_up(hop) else None

    @property
    def hops(self) -> dict[str, str]:
        """The neighbour that leads to each node."""
        return self.plane.routes.hop

    def life_of(self, node: str) -> int:
        """The life by which those in reach know a node, itself included; 0 if it is in no reach."""
        return self.plane.life_of(node)

    @property
    def table(self) -> dict[str, str]:
        """Nothing: no predicate belongs to an interface."""
        return {}

    # The contract

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        now = self._clock.read(now)
        match cause:
            case Received(neighbour, packet):
                self._received(neighbour, packet, now, out)
            case Publish(event):
                publication = self.local.publish(event)
                self.deliver(publication, now, out)
                self.service.publish(publication, now, out)
            case Subscribe(id, predicate):
                self.local.subscribe(id, predicate)
                self.service.subscribed(id, now, out)
            case Unsubscribe():
                id = self.local.meant(cause)
                if self.local.unsubscribe(id) is not None:
                    self.service.unsubscribed(id, now, out)
            case Woken():
                self._woken(now, out)
            case LinkUp(neighbour, cost):
                self.plane.link_up(neighbour, cost, now, out)
            case LinkDown(neighbour):
                self.plane.link_down(neighbour, now)
            case Advertise(id, predicate):
                self.local.advertise(id, predicate)
                self.service.advertised(id, now, out)
            case Unadvertise(id):
                self.local.unadvertise(id)
                self.service.unadvertised(id, now, out)
            case Feedback():
                self.replies.reply(cause, out)
            case Decline():
                self.replies.decline(cause, out)
            case Leave():
                self.substrate.leave(out)
                self.plane.leave(now, out)
                return out
            case _:
                raise TypeError(f"no cause: {cause!r}")
        self.service.update(now, out)
        return out

    def deliver(self, publication: Publication, now: int, out: list[Action]) -> None:
        """Hand an event to the subscriptions here, the first time it comes.

        An event of a node of which the plane has yet to tell waits a moment: before that nobody
        here could reply to it.
        """
        if not self.once.first(publication):
            return
        known = self.lives.get(publication.source) == publication.life
        if known or len(self._early) >= MOST_EARLY:
            self.local.deliver(publication, out)
        else:
            self._early.append((now + 2 * self.timing.hold_most, publication))

    def _deliver_early(self, now: int, out: list[Action]) -> None:
        """Hand over the events that have waited, if their source is known or they are late."""
        early, self._early = self._early, []
        for until, publication in early:
            if now >= until or self.lives.get(publication.source) == publication.life:
                self.local.deliver(publication, out)
            else:
                self._early.append((until, publication))

    def timer(self) -> int | None:
        """When to wake."""
        when = earliest(self.plane.timer(), self.substrate.timer())
        if self._early:
            when = earliest(when, min(until for until, _ in self._early))
        return self._clock.shown(earliest(when, self.service.timer()))

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            **self.plane.snapshot(),
            **self.substrate.snapshot(),
            **self.service.snapshot(),
            "subscriptions": dict(sorted(self.local.subscriptions.items())),
            "settled": self.is_settled(),
        }

    def figures(self) -> dict[str, int]:
        """Counts for metrics: of the overlay, and of the protocol on it if it has any."""
        count = getattr(self.service, "figures", dict)
        return {
            "overlay_neighbours": len(self.substrate.neighbours()),
            "overlay_changes": self.substrate.epoch,
            "overlay_settled": int(self.substrate.is_settled()),
            **count(),
        }

    def is_settled(self) -> bool:
        """Whether this node is at rest."""
        parts = (self.plane, self.substrate, self.service)
        return all(part.is_settled() for part in parts)

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        """The places of the events that somebody may want: all of them."""
        return range(len(events))

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        why = f"perhaps: copies that other nodes send for {source} may pass here"
        found = dict.fromkeys(self.plane.neighbours.known, (True, why))
        for name, why in self.service.explain(source, event).items():
            hop = self.plane.routes.hop.get(name)
            if hop is not None:
                found[hop] = (True, f"on the path to {name}: {why}")
        return found

    # Packets

    def _received(self, neighbour: str, packet: Any, now: int, out: list[Action]) -> None:
        match packet:
            case Parcel():
                inner = self.carrier.received(neighbour, packet, out)
                if inner is None:
                    return
                if self.lives.get(packet.source) != packet.life:
                    out.append(Drop("of a life that is not there", packet))
                elif isinstance(inner, RING_PACKETS):
                    self.substrate.received(packet.source, inner, now, out)
                else:
                    self.service.received(packet.source, inner, now, out)
            case Hello():
                self.plane.hello(neighbour, packet, now, out)
            case Records():
                self.plane.news(neighbour, packet, now, out)
                self._has_news = True
                self._look_if_settled(now, out)
            case Summary():
                self.plane.summary(neighbour, packet, now, out)
            case Answer():
                self.replies.answer(neighbour, packet, out)
            case Returned():
                self.replies.returned(neighbour, packet, out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def _woken(self, now: int, out: list[Action]) -> None:
        if self.plane.wake(now, out):
            self._look_around(now, out)
        self._look_if_settled(now, out)
        if self.plane.is_settled():
            self.carrier.rerouted(out)
        self.substrate.wake(now, out)
        if self._early:
            self._deliver_early(now, out)

    def _look_if_settled(self, now: int, out: list[Action]) -> None:
        """Records have come: a node may have begun a new life without a change of links."""
        if self._has_news and self.plane.is_settled():
            self._has_news = False
            self._look_around(now, out)

    def _look_around(self, now: int, out: list[Action]) -> None:
        """See who is there, and tell the parts of this node what has changed."""
        lives = {self.node: self.life}
        for name in self.plane.routes.hop:
            record = self.plane.records.get(name)
            if record is not None:
                lives[name] = record.life
        if lives == self.lives:
            return
        lost = [name for name, life in self.lives.items() if lives.get(name) != life]
        self.lives = lives
        self.substrate.lost(lost, now, out)
        self.service.members_changed(lost)
        self.substrate.heard(now, out)
        self._deliver_early(now, out)
