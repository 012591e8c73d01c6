"""A node with two layers (L1): one finds who wants an event, the other gets it there.

`LayeredRouter` holds the broadcast plane that both stand on, and the applications that share the
node (L4): one without a name, and perhaps others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tidings.matching.contract import Matcher
from tidings.matching.scan import Scan
from tidings.routing.layers.application import ApplicationError, Layers, settings_of
from tidings.routing.layers.delivery import Spreading
from tidings.routing.layers.lists import Lists
from tidings.routing.layers.sealing import Keyring
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import (
    Answer,
    Hello,
    LayerPacket,
    Listed,
    Records,
    Returned,
    Spread,
    Summary,
)
from tidings.routing.planes.board import Board
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.local import Local
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
    Host,
    InForce,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Subscribe,
    Timing,
    Unadvertise,
    Unhost,
    Unsubscribe,
    Within,
    Woken,
    all_wanted,
    earliest,
)

ONLY: Final = ""  # the application of a router that has one
NUMBERS: Final = 1 << 40  # that an application may use, until it is taken away and comes again


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
        keys: Keyring | Mapping[str, Keyring | Sequence[Keyring]] | None = None,
        applications: Mapping[str, Layering] | None = None,
    ) -> None:
        self.plane = self.plane_of(node, life, timing, topologies or Topologies())
        self.lists = self.lists_of(self.plane)
        self.spreading = Spreading(self.lists)
        self.replies = self.replies_of(node, life, self.hop_to)
        self._clock = Steady()
        self._matcher, self._board = matcher, board
        self._hosted: Counter[str] = Counter()  # how often each application has come
        self.applications: dict[str, Layers] = {}
        for name, settings in {ONLY: options or Layering(), **(applications or {})}.items():
            mine = keys.get(name, ()) if isinstance(keys, Mapping) else keys or ()
            self._add(name, settings, mine)
        self.layers = self.applications[ONLY]
        self.keys: dict[str, Sequence[Keyring]] = {}  # of applications that are yet to come

    def _add(self, name: str, settings: Layering, keys: Keyring | Sequence[Keyring]) -> Layers:
        """Carry an application; its numbers go on where none before in this life has been."""
        first = self._hosted[name] * NUMBERS
        self._hosted[name] += 1
        shared = self.lists, self.spreading, self._matcher, self._board
        self.applications[name] = self.layers_of(name, settings, *shared, keys, first)
        return self.applications[name]

    replies_of: type[Replies] = Replies
    is_switching = False

    @property
    def hops(self) -> dict[str, str]:
        """The neighbour that leads to each node."""
        return self.plane.routes.hop

    def life_of(self, node: str) -> int:
        """The life by which those in reach know a node, itself included; 0 if it is in no reach."""
        return self.plane.life_of(node)

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
            case Host(application, settings):
                if application in self.applications:
                    raise ApplicationError(f"application: {application!r} is here already")
                mine = self.keys.pop(application, ())
                self._add(application, settings_of(settings), mine).matching.join(now, out)
            case Unhost(application):
                if application == ONLY:
                    raise ApplicationError("application: expected one with a name")
                self._named(application).matching.leave()
                del self.applications[application]
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
        matchings = [layers.matching.timer() for layers in self.applications.values()]
        return self._clock.shown(earliest(self.plane.timer(), self.lists.timer(), *matchings))

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

    look_ahead = staticmethod(all_wanted)

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        return self.layers.explain_links(source, event)

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
