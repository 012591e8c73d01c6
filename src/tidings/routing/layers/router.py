"""A node with two layers (L1): one finds who wants an event, the other gets it there.

`Layers` are the two for one application; neither knows the other, and this file joins them: what
the matching layer hands over, the delivery layer sends; what arrives, the subscriptions here get.
`LayeredRouter` holds the broadcast plane that both stand on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tidings.matching.contract import Matcher
from tidings.matching.scan import Scan
from tidings.routing.layers.delivery import DELIVERY, Spreading
from tidings.routing.layers.lists import Lists
from tidings.routing.layers.matching import Matching, UnplacedError
from tidings.routing.layers.rendezvous import RendezvousError
from tidings.routing.layers.sealing import Keyring, Open, Seal, SealError
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import (
    Answer,
    Configured,
    Consignment,
    Hello,
    LayerPacket,
    Listed,
    Payload,
    Put,
    Records,
    Report,
    Returned,
    Sealed,
    Spread,
    Stored,
    Summary,
    Walk,
    Walked,
)
from tidings.routing.planes.board import Board
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
    Configure,
    Decline,
    Drop,
    Feedback,
    InForce,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Refused,
    Subscribe,
    Timing,
    Unadvertise,
    Unsubscribe,
    Within,
    Woken,
    earliest,
)

ONLY = ""  # the application of a router that has one


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
        keys: Keyring | None,
    ) -> None:
        self.application = application
        self.seal: Seal | Open = Open()
        if settings.seal != "none":
            self.seal = Seal(application, keys or Keyring())
        plane = lists.plane
        self.node = plane.node
        self.lists = lists
        self._spreading = spreading
        self._configured: Configured | None = None  # the newest change of settings
        self.local = Local(plane.node, plane.life, None if board is not None else matcher)
        self.matching = self.matching_of(
            application, settings, lists, matcher, self.hand, self.seal
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
        if publication is not None and self._once.first(publication):
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
                    out.append(Refused((id,), str(error)))
            case Unsubscribe():
                id = self.local.meant(cause)
                self.local.unsubscribe(id)
                self.matching.unsubscribe(id, now, out)

    def received(self, packet: LayerPacket | Spread, now: int, out: list[Action]) -> None:
        """A packet of the application, for this node."""
        match packet:
            case Consignment() | Spread():
                self.arrived(packet.payload, out)
            case Put():
                self.matching.received_put(packet, now, out)
            case Stored():
                self.matching.received_kept(packet, now, out)
            case Report():
                self.matching.received_report(packet, now, out)
                if packet.asks and self._configured is not None:
                    self.lists.send((packet.node,), self._configured, now, out)
            case Walk():
                self.matching.received_walk(packet, now, out)
            case Sealed():
                self.matching.received_box(packet, now, out)
            case Walked():
                self.matching.walks.walked(packet, now)
            case Configured():
                self._adopt(packet, now, out)

    # Other settings, while it runs

    def configure(self, changes: dict[str, Any], now: int, out: list[Action]) -> None:
        """Change settings at all nodes: nothing is lost or doubled meanwhile (`epochs`)."""
        number = 1 if self._configured is None else self._configured.number + 1
        before = msgspec.to_builtins(self.matching.settings)
        settings = {**before, **changes}
        _checked(settings, self.matching.settings)
        packet = Configured(self.application, number, self.node, settings)
        self._adopt(packet, now, out)
        others = tuple(self.matching.epochs.others())
        self.lists.send(others, packet, now, out)

    def _adopt(self, packet: Configured, now: int, out: list[Action]) -> None:
        known = self._configured
        if known is not None and (known.number, packet.node) >= (packet.number, known.node):
            return
        try:
            settings = _checked(packet.settings, self.matching.settings)
        except ApplicationError as error:
            out.append(Drop(f"settings that cannot be used: {error}", packet))
            return
        self._configured = packet
        self.delivery = DELIVERY[settings.delivery].make(
            self.application, self.lists, self._spreading
        )
        self.matching.configure(settings, now, out)


def _checked(settings: dict[str, Any], before: Layering) -> Layering:
    """Settings that an application may change to, given those that it has."""
    try:
        found = msgspec.convert(settings, Layering)
        found.function()
    except (msgspec.ValidationError, RendezvousError) as error:
        raise ApplicationError(f"settings: {error}") from None
    if found.seal != before.seal:
        raise ApplicationError(f"settings: seal: expected {before.seal!r}, found {found.seal!r}")
    return found


class LayeredRouter:
    """A node whose protocol is a matching layer and a delivery layer.

    >>> node = LayeredRouter("a")
    >>> node.handle(Subscribe("ada", "severity > 2"), 0)
    [Established(subscriptions=('ada',))]
    >>> [action.subscriptions for action in node.handle(Publish({"severity": 3}), 0)]
    [('ada',)]
    """

    plane_of: type[LinkState] = LinkState
    layers_of: type[Layers] = Layers
    lists_of: type[Lists] = Lists

    def __init__(
        self,
        node: str,
        life: int = 1,
        timing: Timing = USUAL,
        topologies: Topologies | None = None,
        matcher: Callable[[], Matcher] = Scan,
        board: Board | None = None,
        options: Layering | None = None,
        keys: Keyring | Mapping[str, Keyring] | None = None,
        applications: Mapping[str, Layering] | None = None,
    ) -> None:
        self.plane = self.plane_of(node, life, timing, topologies or Topologies())
        self.lists = self.lists_of(self.plane)
        self.spreading = Spreading(self.lists)
        self.replies = self.replies_of(node, life, self.hop_to)
        self._clock = Steady()
        self.applications: dict[str, Layers] = {}
        for name, settings in {ONLY: options or Layering(), **(applications or {})}.items():
            mine = keys.get(name) if isinstance(keys, Mapping) else keys
            self.applications[name] = self.layers_of(
                name, settings, self.lists, self.spreading, matcher, board, mine
            )
        self.layers = self.applications[ONLY]

    replies_of: type[Replies] = Replies
    is_switching = False

    @property
    def hops(self) -> dict[str, str]:
        """The neighbour that leads to each node."""
        return self.plane.routes.hop

    def hop_to(self, node: str, life: int = 0, number: int = 0) -> str | None:
        """The neighbour that leads to a node, if the link to it is up."""
        hop = self.plane.routes.hop.get(node)
        return hop if hop is not None and self.plane.neighbours.is_up(hop) else None

    @property
    def table(self) -> dict[str, str]:
        """Nothing: no predicate belongs to an interface."""
        return {}

    @property
    def local(self) -> Local:
        return self.layers.local

    # The contract

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        now = self._clock.read(now)
        match cause:
            case Received(neighbour, packet):
                self._received(neighbour, packet, now, out)
            case Publish() | Subscribe() | Unsubscribe():
                self.layers.used(cause, now, out)
            case Within(application, inner):
                self._named(application).used(inner, now, out)
            case Woken():
                self._woken(now, out)
            case LinkUp(neighbour, cost):
                self.plane.link_up(neighbour, cost, now, out)
                for layers in self.applications.values():
                    layers.matching.start(now)
            case LinkDown(neighbour):
                self.plane.link_down(neighbour, now)
            case Configure(application, settings):
                self._named(application).configure(settings, now, out)
            case Advertise(id, predicate):  # what is published needs no advertisement
                self.local.advertise(id, predicate)
                out.append(InForce((id,)))
            case Unadvertise(id):
                self.local.unadvertise(id)
            case Feedback():
                self.replies.reply(cause, out)
            case Decline():
                self.replies.decline(cause, out)
            case Leave():
                self.plane.leave(now, out)
                for layers in self.applications.values():
                    layers.matching.leave()
            case _:
                raise TypeError(f"no cause: {cause!r}")
        return out

    def _named(self, application: str) -> Layers:
        found = self.applications.get(application)
        if found is None:
            known = ", ".join(map(repr, self.applications))
            raise ApplicationError(f"application: expected one of {known}, found {application!r}")
        return found

    def timer(self) -> int | None:
        """When to wake."""
        when = earliest(self.plane.timer(), self.lists.timer())
        for layers in self.applications.values():
            when = earliest(when, layers.matching.timer())
        return self._clock.shown(when)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            **self.plane.snapshot(),
            **self.layers.matching.snapshot(),
            "subscriptions": dict(sorted(self.local.subscriptions.items())),
            "settled": self.is_settled(),
            "applications": {
                name: layers.matching.snapshot()
                for name, layers in self.applications.items()
                if name != ONLY
            },
        }

    def is_settled(self) -> bool:
        """Whether this node is at rest."""
        settled = [layers.matching.is_settled() for layers in self.applications.values()]
        return self.plane.is_settled() and all(settled)

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        """The places of the events that somebody may want: all of them."""
        return range(len(events))

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        found: dict[str, tuple[bool, str]] = {}
        settings = self.layers.matching.settings
        known = self.plane.neighbours.known
        if settings.matching == "regions":
            return dict.fromkeys(known, (True, "perhaps: that depends on the walk it takes"))
        behind = self._behind(source, self.layers.matching.wanting(event))
        children = self.plane.routes.children(source)
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
        routes = self.plane.routes
        distances = routes.topology.distances(source)
        mine = routes.topology.distances(routes.node)
        found: dict[str, list[str]] = {}
        for owner in sorted(owners - {source}):
            hop = routes.hop.get(owner, "")
            if self.layers.matching.settings.delivery == "tree" or (
                hop and distances[owner] == distances[routes.node] + mine[owner]
            ):
                found.setdefault(hop, []).append(owner)
        return found

    # Packets

    def _received(self, neighbour: str, packet: Any, now: int, out: list[Action]) -> None:
        match packet:
            case Hello():
                self.plane.hello(neighbour, packet, now, out)
            case Records():
                self.plane.news(neighbour, packet, now, out)
                self._noticed(now, out)
            case Summary():
                self.plane.summary(neighbour, packet, now, out)
            case Listed():
                inner = self.lists.received(packet, now, out)
                if inner is not None:
                    self._arrived(inner, now, out)
            case Spread():
                if self.spreading.received(neighbour, packet, out):
                    self._arrived(packet, now, out)
            case Answer():
                self.replies.answer(neighbour, packet, out)
            case Returned():
                self.replies.returned(neighbour, packet, out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def _arrived(self, packet: LayerPacket | Spread, now: int, out: list[Action]) -> None:
        """A packet for this node, whoever sent it."""
        layers = self.applications.get(packet.application)
        if layers is None:
            out.append(Drop("no such application", packet))
        else:
            layers.received(packet, now, out)

    def _woken(self, now: int, out: list[Action]) -> None:
        if self.plane.wake(now, out):
            self.lists.rerouted(now, out)
            for layers in self.applications.values():
                layers.matching.members_changed(now, out)
        self.lists.wake(now, out)
        for layers in self.applications.values():
            layers.matching.wake(now, out)

    def _noticed(self, now: int, out: list[Action]) -> None:
        """Records have come: a node may have begun a new life without a change of links."""
        if self.plane.is_settled():
            for layers in self.applications.values():
                layers.matching.members_changed(now, out)
