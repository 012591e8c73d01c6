"""An application at a node (L4): its two layers, the subscriptions there, and other settings.

The matching layer finds who wants an event, the delivery layer gets it there. Neither knows the
other, and this file joins them: what the matching layer hands over, the delivery layer sends; what
arrives, the subscriptions here get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidings.matching.contract import Matcher
from tidings.routing.layers.delivery import DELIVERY, Spreading
from tidings.routing.layers.lists import Lists
from tidings.routing.layers.matching import Matching, UnplacedError
from tidings.routing.layers.rendezvous import RendezvousError
from tidings.routing.layers.sealing import Keyring, Seal, SealError, seal_of
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import (
    Adapted,
    Configured,
    Consignment,
    LayerPacket,
    Loads,
    Payload,
    Put,
    Report,
    Sealed,
    Spread,
    Stored,
    Walk,
    Walked,
)
from tidings.routing.planes.board import Board
from tidings.routing.planes.local import Local
from tidings.routing.planes.once import Once
from tidings.routing.protocol import Action, Drop, Publish, Refused, Subscribe, Unsubscribe


class ApplicationError(ValueError):
    """An application that does not exist, or settings that it cannot have."""


class Layers:
    """The two layers of one application at one node, and the subscriptions there."""

    matching_of: type[Matching] = Matching
    once_of: type[Once] = Once

    def __init__(
        self,
        application: str,
        settings: Layering,
        lists: Lists,
        spreading: Spreading,
        matcher: Callable[[], Matcher],
        board: Board | None,
        keys: Keyring | Sequence[Keyring],
        first: int = 0,  # the number before those of events, changes and reports
    ) -> None:
        self.application = application
        plane = lists.plane
        self.seal = seal_of(settings.seal, application, keys, plane.node)
        self.node = plane.node
        self.lists = lists
        self._spreading = spreading
        self._configured: Configured | None = None  # the newest change of settings
        here = None if board is not None else matcher
        self.local = Local(plane.node, plane.life, here, application, first)
        self.matching = self.matching_of(
            application, settings, lists, matcher, self.hand, self.seal, first
        )
        self.delivery = DELIVERY[settings.delivery].make(application, lists, spreading)
        self._once = self.once_of()

    def hand(
        self, payload: Payload, destinations: tuple[str, ...], now: int, out: list[Action]
    ) -> None:
        """From the matching layer to the delivery layer: an event, and where it must go."""
        others = tuple(node for node in destinations if node != self.node)
        if len(others) < len(destinations):
            self.arrived(payload, out)
        self.delivery.send(payload, others, now, out)

    def arrived(self, payload: Payload, out: list[Action]) -> None:
        """From the delivery layer to the subscriptions here."""
        publication = self.seal.open_event(payload)
        if publication is None:
            if self.seal.is_for_us(payload):
                self.matching.counts["unreadable"] += 1
                out.append(Drop("sealed with another key", Consignment(self.application, payload)))
        elif self._once.first(publication):
            self.local.deliver(publication, out)

    def used(self, cause: Subscribe | Unsubscribe | Publish, now: int, out: list[Action]) -> None:
        """A user of the application wants something."""
        if not self.seal.may_use and not isinstance(cause, Unsubscribe):
            raise SealError(
                f"application {self.application!r} is sealed: expected its key to publish and "
                "subscribe, found none"
            )
        match cause:
            case Publish(event):
                self.matching.publish(self.local.publish(event), now, out)
            case Subscribe(id, predicate):
                self.local.subscribe(id, predicate)
                try:
                    self.matching.subscribe(id, predicate, now, out)
                except UnplacedError as error:
                    self.local.unsubscribe(id)
                    self.matching.unsubscribe(id, now, out)
                    out.append(Refused((id,), str(error), self.application))
            case Unsubscribe():
                id = self.local.meant(cause)
                self.local.unsubscribe(id)
                self.matching.unsubscribe(id, now, out)

    def received(self, packet: LayerPacket | Spread, now: int, out: list[Action]) -> None:
        """A packet of the application, for this node."""
        match packet:
            case Consignment() | Spread():
                self.arrived(packet.payload, out)
            case Put() | Walk() if not self.seal.takes_open:
                self.matching.counts["unreadable"] += 1
                out.append(Drop("not sealed", packet))
            case Put():
                self.matching.received_put(packet, now, out)
            case Stored():
                self.matching.received_kept(packet, now, out)
            case Report():
                self.matching.received_report(packet, now, out)
                if packet.asks:
                    for newest in (self._configured, self.matching.adapted):
                        if newest is not None:
                            self.lists.send((packet.node,), newest, now, out)
            case Walk():
                self.matching.received_walk(packet, now, out)
            case Sealed():
                self.matching.received_box(packet, now, out)
            case Walked():
                self.matching.received_walked(packet, now, out)
            case Configured():
                self._adopt(packet, now, out)
            case Loads():
                self.matching.following.received(packet, out)
            case Adapted():
                self.matching.received_adapted(packet, now, out)

    # Other settings, while it runs

    @property
    def changes(self) -> int:
        """How often its settings have changed since the network began."""
        return 0 if self._configured is None else self._configured.number

    @property
    def may_use(self) -> bool:
        """Whether users here may publish and subscribe: a sealed application takes a key."""
        return self.seal.may_use

    def rekey(self, keys: Sequence[Keyring], now: int, out: list[Action]) -> None:
        """Seal with the first of these keys from now on, and open with any of them."""
        if isinstance(self.seal, Seal):
            self.seal.change(keys)
            self.matching.rekey(now, out)

    def configure(self, changes: dict[str, Any], now: int, out: list[Action]) -> None:
        """Change settings at all nodes: nothing is lost or doubled meanwhile (`epochs`)."""
        number = 1 if self._configured is None else self._configured.number + 1
        before = msgspec.to_builtins(self.matching.settings)
        settings = {**before, **changes}
        settings_of(settings, self.matching.settings)
        packet = Configured(self.application, number, self.node, settings)
        self._adopt(packet, now, out)
        others = tuple(self.matching.epochs.others())
        self.lists.send(others, packet, now, out)

    def _adopt(self, packet: Configured, now: int, out: list[Action]) -> None:
        known = self._configured
        if known is not None and (known.number, packet.node) >= (packet.number, known.node):
            return
        try:
            settings = settings_of(packet.settings, self.matching.settings)
        except ApplicationError as error:
            out.append(Drop(f"settings that cannot be used: {error}", packet))
            return
        self._configured = packet
        self.delivery = DELIVERY[settings.delivery].make(
            self.application, self.lists, self._spreading
        )
        self.matching.configure(settings, (packet.number, packet.node), now, out)

    # For people

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        found: dict[str, tuple[bool, str]] = {}
        settings = self.matching.settings
        known = self.lists.plane.neighbours.known
        if settings.matching == "regions":
            return dict.fromkeys(known, (True, "perhaps: that depends on the walk it takes"))
        behind = self._behind(source, self.matching.asking.wanting(event))
        children = self.lists.plane.routes.children(source)
        for name in known:
            wanting = behind.get(name, ())
            if settings.delivery == "tree" and name in children and behind:
                found[name] = (True, f"it goes to all nodes, on the tree of {source}")
            elif wanting:
                found[name] = (True, f"on the path to {', '.join(wanting)}")
            else:
                found[name] = (False, "no node that wants it is on a path by this link")
        return found

    def _behind(self, source: str, owners: set[str]) -> dict[str, list[str]]:
        """Of the nodes that want an event, those that it reaches by each link from here.

        With the delivery layer `tree` they matter wherever they are: if there is any.
        """
        routes = self.lists.plane.routes
        distances = routes.topology.distances(source)
        mine = routes.topology.distances(routes.node)
        found: dict[str, list[str]] = {}
        for owner in sorted(owners - {source}):
            hop = routes.hop.get(owner, "")
            if self.matching.settings.delivery == "tree" or (
                hop and distances[owner] == distances[routes.node] + mine[owner]
            ):
                found.setdefault(hop, []).append(owner)
        return found


def settings_of(given: dict[str, Any], before: Layering | None = None) -> Layering:
    """Settings from plain values: of a new application, or to which one with others may change."""
    try:
        found = msgspec.convert(given, Layering)
    except msgspec.ValidationError as error:
        raise ApplicationError(f"settings: {error}") from None
    if before is not None:
        _check_change(found, before)
    try:
        found.function()
    except RendezvousError as error:
        raise ApplicationError(f"settings: {error}") from None
    return found


def _check_change(after: Layering, before: Layering) -> None:
    if after.seal != before.seal:
        raise ApplicationError(f"settings: seal: expected {before.seal!r}, found {after.seal!r}")
    if after.rendezvous.startswith("call:") and after.rendezvous != before.rendezvous:
        # Else any router could make the others import any module.
        raise ApplicationError(
            f"settings: rendezvous: expected {before.rendezvous!r} or one that is no code, "
            f"found {after.rendezvous!r}"
        )
