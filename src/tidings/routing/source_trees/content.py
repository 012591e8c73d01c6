"""The content plane of paper F, CBCB: who wants what, behind which interface (F2, F3).

A node keeps one predicate for each interface: what the nodes want to which its way begins there.
It learns them in two ways.

*Pushed*: a new interest travels as a receiver advertisement down the issuer's tree; each node
adds it to the interface by which it came, the reverse path. Advertisements only widen. Receipts
come back up the tree once everyone below has it, so the issuer knows when a subscription is
established, and sends again what got lost.

*Pulled*: a sender request travels down the issuer's tree, and update replies come back up, each
the union of a node's own interest and what was replied from below. A reply replaces the predicate
of its interface. So what is no longer wanted disappears, and what was missed is made up for.

Four things are mended, so that no receiver is ever hidden (`docs/decisions/0004-content-plane.md`):
an advertisement is pruned only where the node itself has long asked for as much; advertisements
that meet a request under way are added to its replies; a request is answered only by nodes that see
the same topology as its issuer; and where the first hop to a node changes, the new interface is
widened by the old one's predicate until a pull has shrunk it.

An event goes where both planes say: to the children in the tree of its source whose interface's
predicate it matches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidings.language.errors import PredicateError
from tidings.matching.contract import Matcher
from tidings.matching.scan import Scan
from tidings.routing.packets import (
    Advertisement,
    Hello,
    Publication,
    Receipt,
    Records,
    Reply,
    Request,
    Summary,
)
from tidings.routing.planes.interests import (
    NOTHING,
    beyond,
    beyond_all,
    join,
    predicate_of,
    shortened,
    wants,
)
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.local import Local
from tidings.routing.planes.once import Once
from tidings.routing.planes.topology import Routes, Topologies, digest_of
from tidings.routing.protocol import (
    USUAL,
    Action,
    Cause,
    Drop,
    Established,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Send,
    Subscribe,
    Timing,
    Unsubscribe,
    Woken,
    earliest,
)

MOST_PATIENCE: Final = 4  # times the usual wait


class Passing:
    """An advertisement on its way through this node: from whom, and who below is to confirm it."""

    __slots__ = ("number", "parent", "waiting")

    def __init__(self, number: int, parent: str, waiting: tuple[str, ...]) -> None:
        self.number = number
        self.parent = parent
        self.waiting = dict.fromkeys(waiting)


class Pull:
    """A request on its way through this node, or its own: who below is to reply, and replies."""

    __slots__ = ("children", "found", "number", "parent", "waiting")

    def __init__(self, number: int, parent: str, children: tuple[str, ...]) -> None:
        self.number = number
        self.parent = parent
        self.children = children
        self.waiting = dict.fromkeys(children)
        # What has been replied and advertised since, by the neighbour it came from.
        self.found: dict[str, list[str]] = {child: [] for child in children}


class Patience:
    """How long to wait for an answer from everyone: twice as long as it took the last time.

    A network whose ways are longer than expected would otherwise be asked for ever.
    """

    __slots__ = ("_first", "_since", "_wait")

    def __init__(self, first: int) -> None:
        self._first = first
        self._wait = first
        self._since: int | None = None

    def ask(self, now: int) -> int:
        """A question is asked; when to ask again. Asking again takes more patience."""
        if self._since is not None:
            self._wait = min(2 * self._wait, MOST_PATIENCE * self._first)
        self._since = now
        return now + self._wait

    def answered(self, now: int) -> None:
        """Everyone has answered."""
        if self._since is not None:
            took = now - self._since
            self._wait = min(max(2 * took, self._first), MOST_PATIENCE * self._first)
        self._since = None

    def begin(self) -> None:
        """Everything may be different now."""
        self._wait = self._first
        self._since = None


class ContentRouter:
    """A node of a content-based network: broadcast plane and content plane together.

    >>> node = ContentRouter("a")
    >>> node.handle(Subscribe("ada", "severity > 2"), 0)
    [Established(subscriptions=('ada',))]
    >>> [action.subscriptions for action in node.handle(Publish({"severity": 3}), 0)]
    [('ada',)]
    """

    plane_of: type[LinkState] = LinkState
    once_of: type[Once] = Once

    def __init__(
        self,
        node: str,
        life: int = 1,
        timing: Timing = USUAL,
        topologies: Topologies | None = None,
        matcher: Callable[[], Matcher] = Scan,
    ) -> None:
        self.node = node
        self.life = life
        self.timing = timing
        self.plane = self.plane_of(node, life, timing, topologies or Topologies())
        self.local = Local(node, life, matcher)
        self.table: dict[str, str] = {}  # what is wanted behind each interface
        self._once = self.once_of()
        # Own advertisements: at most one is under way; what comes meanwhile waits for the next.
        self._confirmed: dict[str, str] = {}  # subscriptions that everyone knows
        self._advertised = 0
        self._advertising: dict[str, str] = {}  # those in the one under way
        self._unconfirmed: dict[str, None] = {}  # children that have not confirmed it
        self._waiting: dict[str, str] = {}  # those for the next
        self._advertise_at: int | None = None
        self._advertise_patience = Patience(timing.retry)
        # Own requests.
        self._requested = 0
        self._pull: Pull | None = None
        self._pull_at: int | None = None
        self._pull_patience = Patience(timing.retry)
        self._behind = False  # routes are newer than the last pull
        # Those of others, by issuer.
        self._advertisements: dict[str, tuple[int, int]] = {}  # newest seen: life, number
        self._requests: dict[str, tuple[int, int]] = {}
        self._passing: dict[str, Passing] = {}
        self._pulls: dict[str, Pull] = {}

    # The contract

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        if type(cause) is Received:  # nearly always
            self._received(cause.neighbour, cause.packet, now, out)
            return out
        match cause:
            case Woken():
                self._woken(now, out)
            case LinkUp(neighbour, cost):
                self.plane.link_up(neighbour, cost, now, out)
                if self._pull_at is None:
                    # Nodes that start together do not pull together.
                    self._pull_at = now + digest_of(self.node) % self.timing.pull
            case LinkDown(neighbour):
                self.plane.link_down(neighbour, now)
            case Subscribe(id, predicate):
                self._subscribe(id, predicate, now, out)
            case Unsubscribe(id):
                self._unsubscribe(id)
            case Publish(event):
                self.forward(self.local.publish(event), out)
            case Leave():
                self.plane.leave(now, out)
                self._advertise_at = self._pull_at = None
            case _:
                raise TypeError(f"no cause: {cause!r}")
        return out

    def timer(self) -> int | None:
        """When to wake."""
        return earliest(self.plane.timer(), earliest(self._advertise_at, self._pull_at))

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            **self.plane.snapshot(),
            "table": dict(sorted(self.table.items())),
            "subscriptions": dict(sorted(self.local.subscriptions.items())),
            "established": sorted(self._confirmed),
            "settled": self.is_settled(),
        }

    def is_settled(self) -> bool:
        """Whether nothing is open: routes are up to date, everyone has answered since they are,
        and everyone knows what is wanted here."""
        busy = self._advertising or self._waiting or self._behind
        return not busy and self.plane.is_settled()

    # Packets

    def _received(self, neighbour: str, packet: Any, now: int, out: list[Action]) -> None:
        kind = type(packet)
        if kind is Hello:
            self.plane.hello(neighbour, packet, now, out)
        elif kind is Publication:
            self._publication(neighbour, packet, out)
        elif kind is Records:
            self.plane.news(neighbour, packet, now, out)
        elif kind is Request:
            self._request(neighbour, packet, out)
        elif kind is Reply:
            self._reply(neighbour, packet, now, out)
        elif kind is Advertisement:
            self._advertisement(neighbour, packet, out)
        elif kind is Receipt:
            self._receipt(neighbour, packet, now, out)
        elif kind is Summary:
            self.plane.summary(neighbour, packet, now, out)
        else:
            out.append(Drop("not of this protocol", packet))

    def _woken(self, now: int, out: list[Action]) -> None:
        before = self.plane.routes
        if self.plane.wake(now, out):
            self._rerouted(before, now, out)
        if self._advertise_at is not None and now >= self._advertise_at:
            self._advertise(now, out)
        if self._pull_at is not None and now >= self._pull_at:
            self._start_pull(now, out)

    # Events

    def _publication(self, neighbour: str, publication: Publication, out: list[Action]) -> None:
        if not self.on_reverse_path(neighbour, publication.source):
            out.append(Drop("off the tree", publication))
        elif not self._once.first(publication):
            out.append(Drop("a duplicate", publication))
        else:
            self.forward(publication, out)

    def on_reverse_path(self, neighbour: str, source: str) -> bool:
        """Whether what a source sends is to come from this neighbour."""
        return self.plane.routes.hop.get(source) == neighbour

    def forward(self, publication: Publication, out: list[Action]) -> None:
        """Deliver here, and send on to the children in the source's tree that want it (F3)."""
        self.local.deliver(publication, out)
        for child in self.plane.routes.children(publication.source):
            if self.is_wanted(child, publication.event):
                if self.plane.neighbours.is_up(child):
                    out.append(Send(child, publication))
                else:
                    out.append(Drop("the link is down", publication))

    def is_wanted(self, interface: str, event: dict[str, Any]) -> bool:
        """Whether anyone behind an interface wants an event."""
        return wants(self.table.get(interface, NOTHING), event)

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        found: dict[str, tuple[bool, str]] = {}
        routes = self.plane.routes
        for name in self.plane.neighbours.known:
            wanted = self.table.get(name, NOTHING)
            if not self.plane.neighbours.is_up(name):
                found[name] = False, "the link is down"
            elif self.on_reverse_path(name, source):
                found[name] = False, f"the events of {source} come from there"
            elif name not in routes.children(source):
                found[name] = False, f"the path from {source} to {name} does not pass through here"
            elif self.is_wanted(name, event):
                found[name] = True, f"nodes behind it want: {shortened(wanted)}"
            elif wanted == NOTHING:
                found[name] = False, "no node behind it wants anything"
            else:
                found[name] = False, f"nodes behind it want only: {shortened(wanted)}"
        return found

    # Subscriptions

    def _subscribe(self, id: str, predicate: str, now: int, out: list[Action]) -> None:
        self.local.subscribe(id, predicate)
        self._forget(id)
        self._waiting[id] = predicate
        if not self._advertising:
            self._advertise(now, out)

    def _unsubscribe(self, id: str) -> None:
        """Give up a subscription. Others hear of it when they pull; until then they send more."""
        if self.local.unsubscribe(id) is not None:
            self._forget(id)

    def _forget(self, id: str) -> None:
        """Forget how far the advertising of a subscription has come."""
        for kept in (self._confirmed, self._advertising, self._waiting):
            kept.pop(id, None)

    def interest(self) -> str:
        """What is wanted here."""
        return join(self.local.subscriptions.values())

    # Receiver advertisements

    def _advertise(self, now: int, out: list[Action]) -> None:
        """Advertise what not everyone knows yet, if it adds anything."""
        self._advertising |= self._waiting
        self._waiting.clear()
        self._advertise_at = None
        children = self.plane.routes.children(self.node)
        # Alone, or with nobody below, there is no need to work out what is new.
        added = self.added(join(self._advertising.values())) if children else NOTHING
        if added == NOTHING:
            self.confirm(now, out)
            return
        self._advertised += 1
        self._unconfirmed = dict.fromkeys(children)
        self._advertise_at = self._advertise_patience.ask(now)
        routes = self.plane.routes
        packet = Advertisement(self.node, self.life, self._advertised, routes.digest, added)
        out.extend(Send(child, packet) for child in children)

    def confirm(self, now: int, out: list[Action]) -> None:
        """Everyone knows what was advertised."""
        if self._advertising:
            out.append(Established(tuple(self._advertising)))
        self._confirmed |= self._advertising
        self._advertising = {}
        self._unconfirmed = {}
        self._advertise_at = None
        self._advertise_patience.answered(now)

    def added(self, predicate: str) -> str:
        """The part of a predicate that nodes below do not yet send here: what is worth saying.

        Everyone sends here what this node has asked for and knows to be established. Whoever is
        below this node in the issuer's tree has its way to the issuer by here, so that what is
        covered by this node's own interest arrives here, and goes on from here by the table. What
        another node behind the same interface has asked for is no reason to prune: it may be that
        from below the ways to the two nodes part.
        """
        return beyond_all(predicate, self._confirmed.values())

    def _advertisement(self, neighbour: str, packet: Advertisement, out: list[Action]) -> None:
        issuer = packet.issuer
        if not self.on_reverse_path(neighbour, issuer):
            out.append(Drop("off the tree", packet))
            return
        try:
            predicate_of(packet.predicate)
        except PredicateError:
            out.append(Drop("a bad predicate", packet))
            return
        if not self.is_news(packet, self._advertisements):
            out.append(Drop("old", packet))
            return
        self.widen(neighbour, packet.predicate)
        routes = self.plane.routes
        rest = self.added(packet.predicate)
        children = routes.children(issuer) if rest != NOTHING else ()
        if packet.topology == routes.digest:
            self._passing[issuer] = Passing(packet.number, neighbour, children)
        on = Advertisement(issuer, packet.life, packet.number, packet.topology, rest)
        out.extend(Send(child, on) for child in children)
        self._confirm_passing(issuer, out)

    def widen(self, neighbour: str, predicate: str) -> None:
        """Add a predicate to an interface, and to the replies it may just have been too late for.

        A request that is under way may already have passed the issuer without this predicate; its
        reply must not take away what the advertisement has brought.
        """
        known = self.table.get(neighbour, NOTHING)
        if beyond(predicate, known) != NOTHING:
            self.table[neighbour] = join((known, predicate))
        for pull in self._pulls.values():
            if neighbour in pull.found:
                pull.found[neighbour].append(predicate)
        if self._pull is not None and neighbour in self._pull.found:
            self._pull.found[neighbour].append(predicate)

    def is_news(self, packet: Advertisement | Request, seen: dict[str, tuple[int, int]]) -> bool:
        """Whether this is of the issuer's present life and newer than what has come from it."""
        record = self.plane.records.get(packet.issuer)
        if record is None or record.life != packet.life:
            return False
        life, number = seen.get(packet.issuer, (0, 0))
        if life == packet.life and packet.number <= number:
            return False
        seen[packet.issuer] = packet.life, packet.number
        return True

    def _receipt(self, neighbour: str, receipt: Receipt, now: int, out: list[Action]) -> None:
        if receipt.issuer == self.node:
            if receipt.number == self._advertised and neighbour in self._unconfirmed:
                del self._unconfirmed[neighbour]
                if not self._unconfirmed:
                    self.confirm(now, out)
                    if self._waiting:
                        self._advertise(now, out)
            return
        passing = self._passing.get(receipt.issuer)
        if passing is not None and passing.number == receipt.number:
            passing.waiting.pop(neighbour, None)
            self._confirm_passing(receipt.issuer, out)

    def _confirm_passing(self, issuer: str, out: list[Action]) -> None:
        """Tell the one above, if everyone below knows."""
        passing = self._passing.get(issuer)
        if passing is not None and not passing.waiting:
            out.append(Send(passing.parent, Receipt(issuer, passing.number)))
            del self._passing[issuer]

    # Sender requests and update replies

    def _start_pull(self, now: int, out: list[Action]) -> None:
        """Ask everyone what they want."""
        routes = self.plane.routes
        children = routes.children(self.node)
        for neighbour in [n for n in self.table if n not in children]:
            del self.table[neighbour]
        if not children:
            self._end_pull(now)
            return
        self._requested += 1
        self._pull = Pull(self._requested, self.node, children)
        self._pull_at = self._pull_patience.ask(now)
        packet = Request(self.node, self.life, self._requested, routes.digest)
        out.extend(Send(child, packet) for child in children)

    def _request(self, neighbour: str, packet: Request, out: list[Action]) -> None:
        routes = self.plane.routes
        if not self.on_reverse_path(neighbour, packet.issuer):
            out.append(Drop("off the tree", packet))
        elif not self.same_view(packet):
            out.append(Drop("another topology", packet))
        elif not self.is_news(packet, self._requests):
            out.append(Drop("old", packet))
        else:
            children = routes.children(packet.issuer)
            self._pulls[packet.issuer] = Pull(packet.number, neighbour, children)
            out.extend(Send(child, packet) for child in children)
            self._answer(packet.issuer, out)

    def same_view(self, packet: Request) -> bool:
        """Whether the issuer of a request sees the same links, so that its tree is the same."""
        return packet.topology == self.plane.routes.digest

    def _answer(self, issuer: str, out: list[Action]) -> None:
        """Reply to a request, if everyone below has."""
        pull = self._pulls[issuer]
        if not pull.waiting:
            found = [text for child in pull.children for text in pull.found[child]]
            out.append(Send(pull.parent, Reply(issuer, pull.number, self.reply(found))))
            del self._pulls[issuer]

    def reply(self, found: list[str]) -> str:
        """What a reply says: what is wanted here and below."""
        return join((self.interest(), *found))

    def _reply(self, neighbour: str, reply: Reply, now: int, out: list[Action]) -> None:
        own = reply.issuer == self.node
        pull = self._pull if own else self._pulls.get(reply.issuer)
        if pull is None or pull.number != reply.number or neighbour not in pull.waiting:
            out.append(Drop("an answer to no request", reply))
            return
        try:
            predicate_of(reply.predicate)
        except PredicateError:
            out.append(Drop("a bad predicate", reply))
            return
        del pull.waiting[neighbour]
        pull.found[neighbour].append(reply.predicate)
        if not own:
            self._answer(reply.issuer, out)
            return
        self.replace(neighbour, pull.found[neighbour])
        if not pull.waiting:
            self._end_pull(now)

    def _end_pull(self, now: int) -> None:
        self._pull = None
        self._pull_at = now + self.timing.pull
        self._pull_patience.answered(now)
        self._behind = False

    def replace(self, neighbour: str, found: list[str]) -> None:
        """Give an interface what was replied from there and advertised meanwhile."""
        self.table[neighbour] = join(found)

    # Topology

    def _rerouted(self, before: Routes, now: int, out: list[Action]) -> None:
        """There are new routes: keep every receiver in reach, then ask anew."""
        self.carry_over(before, self.plane.routes)
        self._passing.clear()
        self._pulls.clear()
        for seen in (self._advertisements, self._requests):
            for issuer in [name for name in seen if name not in self.plane.records]:
                del seen[issuer]
        self._behind = True
        self._pull_patience.begin()
        self._advertise_patience.begin()
        self._start_pull(now, out)
        if self._advertising:
            self._advertise(now, out)

    def carry_over(self, before: Routes, after: Routes) -> None:
        """Where the first hop to a node has changed, widen the new by the old interface."""
        moved = {
            (before.hop[node], hop): None
            for node, hop in after.hop.items()
            if before.hop.get(node, hop) != hop
        }
        old = dict(self.table)
        for source, target in moved:
            if source in old:
                self.table[target] = join((self.table.get(target, NOTHING), old[source]))
