"""The content plane as paper F prints it (F2), word by word: `cbcb-2003`, for comparison only.

It loses events (`docs/decisions/0004-content-plane.md` says when), so no router runs it: it is no
row of `PROTOCOLS`. The lab runs it beside `cbcb`, to measure what the repairs cost and what they
save. It differs from `cbcb` in this:

- an advertisement stops where it adds nothing to the interface by which it came;
- advertisements are not confirmed and not repeated, so no subscription is ever *established*;
- a reply replaces the predicate of its interface, whatever was advertised while it was collected;
- nodes answer requests by the tree that they see, whatever the issuer sees;
- when links change, tables stay as they are until the next pull.

The broadcast plane is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidings.matching.contract import Matcher
from tidings.matching.scan import Scan
from tidings.routing.packets import (
    Advertisement,
    Hello,
    Publication,
    Records,
    Reply,
    Request,
    Summary,
)
from tidings.routing.planes.board import Board
from tidings.routing.planes.interests import NOTHING, beyond, join, wants
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.local import Local
from tidings.routing.planes.topology import Topologies, digest_of
from tidings.routing.protocol import (
    USUAL,
    Action,
    Advertise,
    Cause,
    Drop,
    InForce,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Send,
    Subscribe,
    Timing,
    Unadvertise,
    Unsubscribe,
    Woken,
    earliest,
)


class Collecting:
    """The replies to a request, as far as they have come: by the child that sent each."""

    __slots__ = ("found", "number", "parent", "waiting")

    def __init__(self, number: int, parent: str, children: tuple[str, ...]) -> None:
        self.number = number
        self.parent = parent
        self.waiting = dict.fromkeys(children)
        self.found: list[str] = []


class LetterRouter:
    """A node that does what section 2.1 of paper F says, and no more.

    >>> node = LetterRouter("a")
    >>> node.handle(Subscribe("ada", "severity > 2"), 0)
    []
    >>> [action.subscriptions for action in node.handle(Publish({"severity": 3}), 0)]
    [('ada',)]
    """

    is_switching = False

    def __init__(
        self,
        node: str,
        life: int = 1,
        timing: Timing = USUAL,
        topologies: Topologies | None = None,
        matcher: Callable[[], Matcher] = Scan,
        board: Board | None = None,
        options: object = None,
    ) -> None:
        self.node = node
        self.life = life
        self.timing = timing
        self.board = board  # not asked: this node finds links by its table
        self.plane = LinkState(node, life, timing, topologies or Topologies())
        self.local = Local(node, life, matcher)
        self.table: dict[str, str] = {}
        self._advertised = 0
        self._requested = 0
        self._pull_at: int | None = None
        self._advertisements: dict[str, tuple[int, int]] = {}  # newest seen: life, number
        self._requests: dict[str, tuple[int, int]] = {}
        self._collecting: dict[str, Collecting] = {}

    @property
    def hops(self) -> Mapping[str, str]:
        """The neighbour that leads to each node that it knows of."""
        return self.plane.routes.hop

    def life_of(self, node: str) -> int:
        """The life by which those in reach know a node, itself included; 0 if it is in no reach."""
        return self.plane.life_of(node)

    # The contract

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        match cause:
            case Publish(event):
                self._forward(self.local.publish(event), out)
            case Received(neighbour, packet):
                self._received(neighbour, packet, now, out)
            case Woken():
                self.plane.wake(now, out)
                if self._pull_at is not None and now >= self._pull_at:
                    self._pull(now, out)
            case LinkUp(neighbour, cost):
                self.plane.link_up(neighbour, cost, now, out)
                if self._pull_at is None:
                    self._pull_at = now + digest_of(self.node) % self.timing.pull
            case LinkDown(neighbour):
                self.plane.link_down(neighbour, now)
            case Subscribe(id, predicate):
                before = self.interest()
                self.local.subscribe(id, predicate)
                if beyond(predicate, before) != NOTHING:  # a new content-based address
                    self._advertise(out)
            case Unsubscribe():
                self.local.unsubscribe(self.local.meant(cause))
            case Advertise(id, predicate):
                self.local.advertise(id, predicate)
                out.append(InForce((id,)))
            case Unadvertise(id):
                self.local.unadvertise(id)
            case Leave():
                self.plane.leave(now, out)
                self._pull_at = None
            case _:
                raise TypeError(f"no cause: {cause!r}")
        return out

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        """It knows nothing before: all of them."""
        return range(len(events))

    def timer(self) -> int | None:
        """When to wake."""
        return earliest(self.plane.timer(), self._pull_at)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            **self.plane.snapshot(),
            "table": dict(sorted(self.table.items())),
            "subscriptions": dict(sorted(self.local.subscriptions.items())),
        }

    def is_settled(self) -> bool:
        """Whether its routes are up to date."""
        return self.plane.is_settled()

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        children = self.plane.routes.children(source)
        return {
            name: (name in children and wants(self.table.get(name, NOTHING), event), "by the table")
            for name in self.plane.neighbours.known
        }

    # Packets

    def _received(self, neighbour: str, packet: Any, now: int, out: list[Action]) -> None:
        match packet:
            case Hello():
                self.plane.hello(neighbour, packet, now, out)
            case Records():
                self.plane.news(neighbour, packet, now, out)
            case Summary():
                self.plane.summary(neighbour, packet, now, out)
            case Publication(source):
                if self.hops.get(source) == neighbour:
                    self._forward(packet, out)
                else:
                    out.append(Drop("off the tree", packet))
            case Advertisement():
                self._advertisement(neighbour, packet, out)
            case Request():
                self._request(neighbour, packet, out)
            case Reply():
                self._reply(neighbour, packet, out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def _forward(self, publication: Publication, out: list[Action]) -> None:
        """Deliver here, and send on to the children in the source's tree that want it (F3)."""
        self.local.deliver(publication, out)
        out.extend(
            Send(child, publication)
            for child in self.plane.routes.children(publication.source)
            if wants(self.table.get(child, NOTHING), publication.event)
        )

    def _is_news(self, packet: Advertisement | Request, seen: dict[str, tuple[int, int]]) -> bool:
        newest = packet.life, packet.number
        if newest <= seen.get(packet.issuer, (0, 0)):
            return False
        seen[packet.issuer] = newest
        return True

    # Receiver advertisements

    def interest(self) -> str:
        """What the subscribers here want: the node's content-based address."""
        return join(self.local.subscriptions.values())

    def _advertise(self, out: list[Action]) -> None:
        self._advertised += 1
        packet = Advertisement(self.node, self.life, self._advertised, 0, self.interest())
        children = self.plane.routes.children(self.node)
        out.extend(Send(child, packet) for child in children)

    def _advertisement(self, neighbour: str, packet: Advertisement, out: list[Action]) -> None:
        on_path = self.hops.get(packet.issuer) == neighbour
        if not on_path or not self._is_news(packet, self._advertisements):
            out.append(Drop("off the tree, or old", packet))
            return
        known = self.table.get(neighbour, NOTHING)
        if beyond(packet.predicate, known) == NOTHING:
            return  # the paper's rule: it adds nothing, so it stops
        self.table[neighbour] = join((known, packet.predicate))
        children = self.plane.routes.children(packet.issuer)
        out.extend(Send(child, packet) for child in children)

    # Sender requests and update replies

    def _pull(self, now: int, out: list[Action]) -> None:
        self._pull_at = now + self.timing.pull
        self._requested += 1
        packet = Request(self.node, self.life, self._requested, 0)
        children = self.plane.routes.children(self.node)
        self._collecting[self.node] = Collecting(self._requested, self.node, children)
        out.extend(Send(child, packet) for child in children)

    def _request(self, neighbour: str, packet: Request, out: list[Action]) -> None:
        issuer = packet.issuer
        if self.hops.get(issuer) != neighbour or not self._is_news(packet, self._requests):
            out.append(Drop("off the tree, or old", packet))
            return
        children = self.plane.routes.children(issuer)
        self._collecting[issuer] = Collecting(packet.number, neighbour, children)
        out.extend(Send(child, packet) for child in children)
        self._answer(issuer, out)

    def _reply(self, neighbour: str, reply: Reply, out: list[Action]) -> None:
        pull = self._collecting.get(reply.issuer)
        if pull is None or pull.number != reply.number or neighbour not in pull.waiting:
            out.append(Drop("an answer to no request", reply))
            return
        del pull.waiting[neighbour]
        if reply.issuer == self.node:
            self.table[neighbour] = reply.predicate
        else:
            pull.found.append(reply.predicate)
            self._answer(reply.issuer, out)

    def _answer(self, issuer: str, out: list[Action]) -> None:
        """Reply to a request, once all nodes below have."""
        pull = self._collecting[issuer]
        if not pull.waiting:
            text = join((self.interest(), *pull.found))
            out.append(Send(pull.parent, Reply(issuer, pull.number, text)))
            del self._collecting[issuer]
