"""The content plane of paper F, CBCB: who wants what, behind which interface (F2, F3).

A node keeps one predicate for each interface: what the nodes want whose path from here begins
there. It learns these predicates by push and by pull.

*Push*: a new interest travels down the issuer's tree as a receiver advertisement. Each node adds it
to the interface by which it came, the reverse path. Advertisements only widen. Receipts come back
up the tree once every node below has the advertisement; so the issuer knows when a subscription is
established, and repeats what got lost.

*Pull*: a sender request travels down the issuer's tree, and update replies come back up. A reply is
the union of a node's own interest and the replies from below; it replaces the predicate of its
interface. So tables forget what nobody wants any more, and catch up on what they missed.

Four repairs make sure that no receiver is ever hidden (`docs/decisions/0004-content-plane.md`). A
node prunes an advertisement only by what it has itself asked for and knows to be established. While
a node collects replies, it adds the advertisements that pass to them. Only nodes that see the same
topology as the issuer answer a request. Where the first hop to a node changes, the new interface
also gets the predicate of the old one, until a pull has shrunk it.

An event goes where both planes say: to the children in its source's tree whose interface has a
predicate that it matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from tidings.matching.contract import Matcher
from tidings.matching.scan import Scan
from tidings.routing.packets import (
    Advertisement,
    Answer,
    Hello,
    Publication,
    Receipt,
    Records,
    Reply,
    Request,
    Returned,
    Summary,
    Switch,
    Switched,
)
from tidings.routing.planes.board import Board
from tidings.routing.planes.interests import (
    NOTHING,
    USUAL_BOUNDS,
    Bounds,
    Effort,
    readable,
    shortened,
    wants,
)
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.local import Local
from tidings.routing.planes.once import Once
from tidings.routing.planes.patience import Patience
from tidings.routing.planes.replies import Replies
from tidings.routing.planes.steady import Steady
from tidings.routing.planes.topology import Topologies, digest_of
from tidings.routing.protocol import (
    SECOND,
    USUAL,
    Action,
    Advertise,
    Cause,
    Decline,
    Drop,
    Established,
    Feedback,
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
    Unwanted,
    Woken,
    earliest,
)
from tidings.routing.source_trees.cycle_covers import CycleCovers, Where
from tidings.routing.source_trees.views import View, Views

LONGEST_SWITCH: Final = 30 * SECOND  # after new routes: then a node publishes by them in any case


def converges_within(timing: Timing, crossing: int) -> int:
    """How long a network takes to be right after its last change, if no packet gets lost then.

    `crossing` is how long a packet takes from one end of the network to the other. The silence of a
    link is noticed (`dead`, at the next hello), or a lost record (at every second hello whose
    digest differs). Then a record is told and crosses the network, perhaps after its origin has
    heard of its number before a restart. Nodes compute routes after a rest. A request and its
    replies cross the network, then a switch and its answers. An advertisement that met other
    routes is repeated.
    """
    noticed = timing.dead + 3 * timing.hello
    told = 2 * timing.gather + crossing
    pulled = timing.hold + 2 * crossing
    switched = timing.retry + 3 * crossing
    return noticed + told + pulled + switched


class ContentOptions(Struct, frozen=True):
    """The size of a predicate that a node tells its neighbours, at most; past it, it is coarser.

    And `covering`: where a node passes on no advertisement that another issuer's covers: across
    bridges, on all paths for which that is safe (`CycleCovers`), or nowhere.
    """

    characters: Annotated[int, Meta(ge=8)] = USUAL_BOUNDS.characters
    constants: Annotated[int, Meta(ge=0)] = USUAL_BOUNDS.constants
    filters: Annotated[int, Meta(ge=1)] = USUAL_BOUNDS.filters
    covering: Where = "none"


USUAL_OPTIONS: Final = ContentOptions()


def is_exact(options: ContentOptions) -> bool:
    """Whether nodes need never tell anything coarser than it is."""
    return (options.characters, options.constants, options.filters) == USUAL_BOUNDS


class Passing:
    """An advertisement or a switch sent or passed on: the neighbour above, what each one below was
    told, and those that have yet to confirm it.

    If the same is told again, by the same routes, confirmations of what was told before count: on
    a slow line those of the newest may never come in time.
    """

    __slots__ = ("first", "number", "parent", "told", "topology", "waiting")

    def __init__(self, number: int, parent: str, topology: int, told: Mapping[str, str]) -> None:
        self.first = self.number = number
        self.parent = parent
        self.topology = topology
        self.told = told
        self.waiting = dict.fromkeys(told)

    def goes_on(self, number: int, parent: str, topology: int, told: Mapping[str, str]) -> bool:
        """Whether this is told again; if so, under the new number."""
        same = (self.parent, self.topology, self.told) == (parent, topology, told)
        if same:
            self.number = number
        return same

    def confirmed(self, neighbour: str, number: int) -> bool:
        """A neighbour confirms a number; whether that had yet to come."""
        counts = self.first <= number <= self.number and neighbour in self.waiting
        if counts:
            del self.waiting[neighbour]
        return counts


class Pull:
    """A request sent or passed on: the neighbours that have yet to reply, and the replies.

    If it is sent again, late replies to the former ones count. They lack nothing: what has been
    advertised since the first is added to them.
    """

    __slots__ = ("children", "first", "found", "number", "parent", "switched", "waiting")

    def __init__(self, number: int, parent: str, children: tuple[str, ...]) -> None:
        self.first = self.number = number
        self.parent = parent
        self.children = children
        self.waiting = dict.fromkeys(children)
        # Replies, and advertisements that have come since, by the neighbour that sent them.
        self.found: dict[str, list[str]] = {child: [] for child in children}
        self.switched = True  # whether all that have replied publish by this topology

    def asked(self, neighbour: str, number: int) -> bool:
        """Whether a neighbour was asked under this number, and has yet to reply."""
        return self.first <= number <= self.number and neighbour in self.waiting


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
    replies_of: type[Replies] = Replies
    covers_of: type[CycleCovers] = CycleCovers

    def __init__(
        self,
        node: str,
        life: int = 1,
        timing: Timing = USUAL,
        topologies: Topologies | None = None,
        matcher: Callable[[], Matcher] = Scan,
        board: Board | None = None,
        options: ContentOptions = USUAL_OPTIONS,
    ) -> None:
        self.node = node
        self.life = life
        self.timing = timing
        self.board = board
        self.effort = Effort(Bounds(options.characters, options.constants, options.filters))
        self.plane = self.plane_of(node, life, timing, topologies or Topologies())
        self.local = Local(node, life, None if board is not None else matcher)
        self.replies = self.replies_of(node, life, self.hop_to)
        self.views = Views(self.plane.routes, self.join, self.effort.beyond)
        self.covers = self.covers_of(options.covering, self.plane.routes, self.effort)
        self._clock = Steady()
        self._once = self.once_of()
        # Own advertisements: one at a time; subscriptions made meanwhile wait for the next.
        self._confirmed: dict[str, str] = {}  # subscriptions that every node has
        self._advertised = 0
        self._advertising: dict[str, str] = {}  # those in the advertisement on its way
        self._telling: Passing | None = None  # what children were told of it
        self._waiting: dict[str, str] = {}  # those for the next advertisement
        self._advertise_at: int | None = None
        self._advertise_patience = Patience(timing.retry)
        # Own requests.
        self._requested = 0
        self._pull: Pull | None = None
        self._pull_at: int | None = None
        self._pull_patience = Patience(timing.retry)
        self._behind = False  # whether routes are newer than the last pull
        # Advertisements and requests of others, by issuer.
        self._advertisements: dict[str, tuple[int, int]] = {}  # newest seen: life, number
        self._requests: dict[str, tuple[int, int]] = {}
        self._passing: dict[str, Passing] = {}
        self._pulls: dict[str, Pull] = {}
        self._early: dict[str, tuple[str, Request]] = {}  # requests that wait for our routes
        # The change from a former view to the newest: own, and those of others by source.
        self._switches = 0
        self._unswitched: dict[str, None] | None = None  # children that have yet to answer
        self._switch_at: int | None = None
        self._switch_by: int | None = None  # when this node stops waiting
        self._switch_patience = Patience(timing.retry)
        self._switching: dict[str, Passing] = {}
        self._switches_seen: dict[str, tuple[int, int]] = {}
        self._all_switched = False  # whether all nodes publish by the newest view, as far as known

    @property
    def table(self) -> dict[str, str]:
        """What the nodes behind each interface want, in the newest view."""
        return self.views.newest.table

    @property
    def hops(self) -> Mapping[str, str]:
        """The neighbour that leads to each node that it knows of."""
        return self.plane.routes.hop

    def life_of(self, node: str) -> int:
        """The life by which those in reach know a node, itself included; 0 if it is in no reach."""
        return self.plane.life_of(node)

    def hop_to(self, node: str) -> str | None:
        """The neighbour that leads to a node, if the link to it is up."""
        hop = self.plane.routes.hop.get(node)
        return hop if hop is not None and self.plane.neighbours.is_up(hop) else None

    # The contract

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        if type(cause) is Publish:  # events first: they are nearly all causes
            view = self.views.used
            self.forward(self.local.publish(cause.event, view.routes.digest), view, out)
            return out
        if type(cause) is Received and type(cause.packet) is Publication:
            self._publication(cause.neighbour, cause.packet, out)
            return out
        if type(cause) is Unwanted:
            self.local.pass_over(cause.count)
            return out
        now = self._clock.read(now)
        self.effort.begin()
        match cause:
            case Received(neighbour, packet):
                self._received(neighbour, packet, now, out)
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
            case Unsubscribe():
                self._unsubscribe(self.local.meant(cause))
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
                self._advertise_at = self._pull_at = self._switch_at = self._switch_by = None
            case _:
                raise TypeError(f"no cause: {cause!r}")
        return out

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        """The places of the events that somebody may want, if they are published here now."""
        view = self.views.used
        if self.board is None or not self.local.by_board or view is not self.views.newest:
            return range(len(events))
        return self.board.look_ahead(events, view.table)

    def timer(self) -> int | None:
        """When to wake."""
        own = earliest(self._advertise_at, self._pull_at)
        switch = earliest(self._switch_at, self._switch_by)
        return self._clock.shown(earliest(self.plane.timer(), earliest(own, switch)))

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
        """Whether this node is at rest: its routes are up to date, every node has answered a pull
        on these routes, it publishes by them, and every node has its subscriptions."""
        busy = self._advertising or self._waiting or self._behind or self.views.is_behind()
        return not busy and self.plane.is_settled()

    @property
    def is_switching(self) -> bool:
        """Whether this node waits until its events have passed, to publish by its newest view.

        An event that is published meanwhile may be overtaken by later ones: hold it back.
        """
        return self._unswitched is not None

    # Packets

    def _received(self, neighbour: str, packet: Any, now: int, out: list[Action]) -> None:
        kind = type(packet)
        if kind is Hello:
            self.plane.hello(neighbour, packet, now, out)
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
        elif kind is Switch:
            self._switch(neighbour, packet, out)
        elif kind is Switched:
            self._answer_to_switch(neighbour, packet, now, out)
        elif kind is Answer:
            self.replies.answer(neighbour, packet, out)
        elif kind is Returned:
            self.replies.returned(neighbour, packet, out)
        else:
            out.append(Drop("not of this protocol", packet))

    def _woken(self, now: int, out: list[Action]) -> None:
        if self.plane.wake(now, out):
            self._rerouted(now, out)
        if self._advertise_at is not None and now >= self._advertise_at:
            self._advertise(now, out)
        if self._pull_at is not None and now >= self._pull_at:
            if self._pull is None:
                self._start_pull(now, out)
            else:
                self._ask(self._pull, now, out)
        if self._switch_by is not None and now >= self._switch_by:
            self._end_switch(now, out)
        elif self._switch_at is not None and now >= self._switch_at:
            self._start_switch(now, out)

    # Events

    def _publication(self, neighbour: str, publication: Publication, out: list[Action]) -> None:
        view = self.view_of(publication)
        if not self.on_reverse_path(neighbour, publication.source, view):
            out.append(Drop("off the tree", publication))
        elif not self._once.first(publication):
            out.append(Drop("a duplicate", publication))
        else:
            self.forward(publication, view, out)

    def view_of(self, publication: Publication) -> View:
        """The view by which an event is forwarded: its source's, or the newest if that is lost."""
        return self.views.find(publication.topology) or self.views.newest

    def on_reverse_path(self, neighbour: str, source: str, view: View) -> bool:
        """Whether packets of a source must come from this neighbour: its parent in that tree."""
        return view.routes.hop.get(source) == neighbour

    def forward(self, publication: Publication, view: View, out: list[Action]) -> None:
        """Deliver here, and send on to the children in the source's tree that want it (F3)."""
        self.local.deliver(publication, out)
        children = view.routes.children(publication.source)
        for child in self.wanting(children, publication.event, view):
            if self.plane.neighbours.is_up(child):
                out.append(Send(child, publication))
            else:
                out.append(Drop("the link is down", publication))

    def wanting(
        self, interfaces: tuple[str, ...], event: dict[str, Any], view: View
    ) -> list[str] | tuple[str, ...]:
        """The interfaces behind which some node wants an event."""
        if not interfaces:
            return interfaces
        if self.board is not None and view is self.views.newest:
            wanting = self.board.links(event, view.table)
            return [name for name in interfaces if name in wanting] if wanting else ()
        return [name for name in interfaces if wants(view.table.get(name, NOTHING), event)]

    def is_wanted(self, interface: str, event: dict[str, Any], view: View) -> bool:
        """Whether any node behind an interface wants an event."""
        return bool(self.wanting((interface,), event, view))

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        found: dict[str, tuple[bool, str]] = {}
        view = self.views.used
        for name in self.plane.neighbours.known:
            wanted = view.table.get(name, NOTHING)
            if not self.plane.neighbours.is_up(name):
                found[name] = False, "the link is down"
            elif self.on_reverse_path(name, source, view):
                found[name] = False, f"the events of {source} come from there"
            elif name not in view.routes.children(source):
                found[name] = False, f"the path from {source} to {name} does not pass through here"
            elif self.is_wanted(name, event, view):
                found[name] = True, f"nodes behind it want: {shortened(wanted)}"
            elif wanted == NOTHING:
                found[name] = False, "no node behind it wants anything"
            else:
                found[name] = False, f"nodes behind it want only: {shortened(wanted)}"
            takes, why = found[name]
            found[name] = takes, "; ".join((why, *self.covers.explain(name, event)))
        return found

    # Subscriptions

    def _subscribe(self, id: str, predicate: str, now: int, out: list[Action]) -> None:
        self.local.subscribe(id, predicate)
        self._forget(id)
        self._waiting[id] = predicate
        if not self._advertising:
            self._advertise(now, out)

    def _unsubscribe(self, id: str) -> None:
        """Give up a subscription. Others notice when they pull, and send too much until then."""
        if self.local.unsubscribe(id) is not None:
            self._forget(id)

    def _forget(self, id: str) -> None:
        """Forget how far the advertising of a subscription has come."""
        for kept in (self._confirmed, self._advertising, self._waiting):
            kept.pop(id, None)

    def interest(self) -> str:
        """What the subscribers here want."""
        return self.join(self.local.subscriptions.values())

    def join(self, predicates: Iterable[str]) -> str:
        """The disjunction of predicates, within the bounds of what a node tells and keeps."""
        return self.effort.join(predicates)

    # Receiver advertisements

    def _advertise(self, now: int, out: list[Action]) -> None:
        """Advertise the subscriptions that not every node has, if they add anything."""
        self._advertising |= self._waiting
        self._waiting.clear()
        self._advertise_at = None
        children = self.plane.routes.children(self.node)
        # Without children there is no need to work out what is new.
        added = self.added(self.join(self._advertising.values())) if children else NOTHING
        parts = self.parts(self.node, children, added)
        if not parts:
            self.confirm(now, out)
            return
        self._advertised += 1
        self._advertise_at = self._advertise_patience.ask(now)
        number, topology = self._advertised, self.plane.routes.digest
        telling = self._telling
        if telling is None or not telling.goes_on(number, self.node, topology, parts):
            telling = self._telling = Passing(number, self.node, topology, parts)
        self.tell(Advertisement(self.node, self.life, number, topology, ""), telling, out)

    def tell(self, packet: Advertisement, passing: Passing, out: list[Action]) -> None:
        """Send an advertisement to the children that have not confirmed it, to each its part."""
        for child in passing.waiting:
            part = passing.told[child]
            self.covers.sent(packet.issuer, packet.number, child, part)
            out.append(Send(child, replace(packet, predicate=part)))

    def confirm(self, now: int, out: list[Action]) -> None:
        """Every node has what was advertised."""
        if self._advertising:
            out.append(Established(tuple(self._advertising)))
        self._confirmed |= self._advertising
        self._advertising = {}
        self._telling = None
        self._advertise_at = None
        self._advertise_patience.answered(now)

    def added(self, predicate: str) -> str:
        """The part of a predicate that nodes below do not yet send here: what is worth telling.

        Every node sends here what this node has asked for and knows to be established. The path to
        the issuer from any node below this one, in the issuer's tree, passes through here. So an
        event that matches this node's own interest arrives here, and the table sends it on. What
        another node behind the same interface has asked for is no reason to prune: from a node
        below, the paths to the two nodes may part. In a former view the path may not pass through
        here, so while any node publishes by one, nothing is pruned.
        """
        if not self._all_switched:
            return predicate
        return self.effort.beyond_all(predicate, self._confirmed.values())

    def parts(self, issuer: str, children: Iterable[str], rest: str) -> dict[str, str]:
        """By child: what it must hear of an advertisement; without those that need not hear it.

        What other issuers want covers some of it for some children, if the options say so. While
        any node publishes by a former view, it does not.
        """
        if rest == NOTHING:
            return {}
        if not self._all_switched:
            return dict.fromkeys(children, rest)
        parts = {child: self.covers.rest(issuer, child, rest) for child in children}
        return {child: part for child, part in parts.items() if part != NOTHING}

    def _advertisement(self, neighbour: str, packet: Advertisement, out: list[Action]) -> None:
        issuer = packet.issuer
        if not self.on_reverse_path(neighbour, issuer, self.views.newest):
            out.append(Drop("off the tree", packet))
            return
        if not self.is_news(issuer, packet.life, packet.number, self._advertisements):
            out.append(Drop("old", packet))
            return
        predicate = readable(packet.predicate)
        self.widen(issuer, neighbour, predicate)
        routes = self.plane.routes
        parts = self.parts(issuer, routes.children(issuer), self.added(predicate))
        passing = self._passing.get(issuer)
        number, topology = packet.number, packet.topology
        if passing is None or not passing.goes_on(number, neighbour, topology, parts):
            passing = Passing(number, neighbour, topology, parts)
        if topology == routes.digest:
            self._passing[issuer] = passing
        self.tell(packet, passing, out)
        self._confirm_passing(issuer, out)

    def widen(self, issuer: str, neighbour: str, predicate: str) -> None:
        """Add a predicate to all views, and to the replies that may come without it.

        The issuer may have answered a request before it wanted this; when that reply arrives, it
        must not remove what the advertisement has added.
        """
        self.views.widen(issuer, predicate)
        for pull in self._pulls.values():
            if neighbour in pull.found:
                pull.found[neighbour].append(predicate)
        if self._pull is not None and neighbour in self._pull.found:
            self._pull.found[neighbour].append(predicate)

    def is_news(
        self, issuer: str, life: int, number: int, seen: dict[str, tuple[int, int]]
    ) -> bool:
        """Whether this is of the issuer's present life, and newer than all that came from it."""
        record = self.plane.records.get(issuer)
        if record is None or record.life != life:
            return False
        seen_life, newest = seen.get(issuer, (0, 0))
        if seen_life == life and number <= newest:
            return False
        seen[issuer] = life, number
        return True

    def _receipt(self, neighbour: str, receipt: Receipt, now: int, out: list[Action]) -> None:
        if receipt.issuer == self.node:
            telling = self._telling
            if telling is not None and telling.confirmed(neighbour, receipt.number):
                self.covers.confirmed(self.node, receipt.number, neighbour)
                if not telling.waiting:
                    self.confirm(now, out)
                    if self._waiting:
                        self._advertise(now, out)
            return
        passing = self._passing.get(receipt.issuer)
        if passing is not None and passing.confirmed(neighbour, receipt.number):
            self.covers.confirmed(receipt.issuer, receipt.number, neighbour)
            self._confirm_passing(receipt.issuer, out)

    def _confirm_passing(self, issuer: str, out: list[Action]) -> None:
        """Confirm an advertisement to the neighbour above, once every node below has it.

        A node that publishes by a view without the issuer does not send it anything yet: it
        confirms when it has switched.
        """
        passing = self._passing.get(issuer)
        if passing is not None and not passing.waiting and self.publishes_to(issuer):
            out.append(Send(passing.parent, Receipt(issuer, passing.number)))
            del self._passing[issuer]

    def publishes_to(self, issuer: str) -> bool:
        """Whether the view by which this node publishes reaches a node."""
        return issuer in self.views.used.routes.hop

    # Sender requests and update replies

    def _start_pull(self, now: int, out: list[Action]) -> None:
        """Ask all nodes what they want."""
        routes = self.plane.routes
        children = routes.children(self.node)
        for neighbour in [n for n in self.table if n not in children]:
            del self.table[neighbour]
        if not children:
            self._pull = None
            self._end_pull(now, out)
            return
        self._pull = Pull(self._requested + 1, self.node, children)
        self._ask(self._pull, now, out)

    def _ask(self, pull: Pull, now: int, out: list[Action]) -> None:
        """Ask the children that have yet to reply, for the first time or again."""
        self._requested += 1
        pull.number = self._requested
        self._pull_at = self._pull_patience.ask(now)
        packet = Request(self.node, self.life, pull.number, self.plane.routes.digest)
        out.extend(Send(child, packet) for child in pull.waiting)

    def _request(self, neighbour: str, packet: Request, out: list[Action]) -> None:
        issuer = packet.issuer
        if not self.same_view(packet):
            self._too_early(neighbour, packet, out)
        elif not self.on_reverse_path(neighbour, issuer, self.views.newest):
            out.append(Drop("off the tree", packet))
        elif not self.is_news(issuer, packet.life, packet.number, self._requests):
            out.append(Drop("old", packet))
        else:
            pull = self._pulls.get(issuer)
            if pull is None or (pull.number + 1, pull.parent) != (packet.number, neighbour):
                children = self.plane.routes.children(issuer)
                pull = self._pulls[issuer] = Pull(packet.number, neighbour, children)
            pull.number = packet.number
            out.extend(Send(child, packet) for child in pull.waiting)
            self._answer(issuer, out)

    def _too_early(self, neighbour: str, packet: Request, out: list[Action]) -> None:
        """Keep a request until this node sees the issuer's topology; only the newest of each."""
        if packet.issuer in self.plane.records:
            self._early[packet.issuer] = neighbour, packet
        else:
            out.append(Drop("another topology", packet))

    def same_view(self, packet: Request) -> bool:
        """Whether the issuer of a request sees the same links, so that its tree is the same."""
        return packet.topology == self.plane.routes.digest

    def _answer(self, issuer: str, out: list[Action]) -> None:
        """Reply to a request, once all nodes below have."""
        pull = self._pulls[issuer]
        if not pull.waiting:
            found = [text for child in pull.children for text in pull.found[child]]
            switched = pull.switched and not self.views.is_behind()
            reply = self.reply(found)
            self.covers.replied(issuer, pull.parent, reply)
            out.append(Send(pull.parent, Reply(issuer, pull.number, reply, switched)))
            del self._pulls[issuer]

    def reply(self, found: list[str]) -> str:
        """What a reply says: what this node wants, and those below it."""
        return self.join((self.interest(), *found))

    def _reply(self, neighbour: str, reply: Reply, now: int, out: list[Action]) -> None:
        own = reply.issuer == self.node
        pull = self._pull if own else self._pulls.get(reply.issuer)
        if pull is None or not pull.asked(neighbour, reply.number):
            out.append(Drop("an answer to no request", reply))
            return
        predicate = readable(reply.predicate)
        del pull.waiting[neighbour]
        pull.found[neighbour].append(predicate)
        pull.switched &= reply.switched
        if not own:
            self._answer(reply.issuer, out)  # before `learn`: if the steps do not last, it matters
            self.learn(neighbour, predicate)
            return
        self.replace(neighbour, pull.found[neighbour])
        if not pull.waiting:
            self._end_pull(now, out)

    def learn(self, neighbour: str, predicate: str) -> None:
        """Learn from a reply to another node, until this node's own pull is complete.

        Once its pull is complete, that node publishes by this view, and relies on every node.
        """
        if self._behind:
            self.views.newest.widen(neighbour, predicate)

    def _end_pull(self, now: int, out: list[Action]) -> None:
        self._all_switched = self._pull is None or self._pull.switched
        self._pull = None
        self._pull_at = now + self.timing.pull
        self._pull_patience.answered(now)
        self._behind = False
        if self.views.is_behind():
            self._start_switch(now, out)

    def replace(self, neighbour: str, found: list[str]) -> None:
        """Set an interface to what was replied from there, and what was advertised meanwhile."""
        self.table[neighbour] = self.join(found)

    # From a former view to the newest

    def _start_switch(self, now: int, out: list[Action]) -> None:
        """Every node has the newest view: see that all events published before have passed."""
        routes = self.views.used.routes
        children = [c for c in routes.children(self.node) if self.plane.neighbours.is_up(c)]
        if not children:
            self._end_switch(now, out)
            return
        self._switches += 1
        self._unswitched = dict.fromkeys(children)
        self._switch_at = self._switch_patience.ask(now)
        packet = Switch(self.node, self.life, self._switches, routes.digest)
        out.extend(Send(child, packet) for child in children)

    def _end_switch(self, now: int, out: list[Action]) -> None:
        """Publish by the newest view."""
        self._stop_switch(now)
        self._switch_by = None
        self.views.use_newest()
        for issuer in list(self._passing):
            self._confirm_passing(issuer, out)

    def _stop_switch(self, now: int) -> None:
        self._unswitched = self._switch_at = None
        self._switch_patience.answered(now)

    def _switch(self, neighbour: str, packet: Switch, out: list[Action]) -> None:
        source = packet.source
        view = self.views.find(packet.topology)
        if view is None:  # this node forwards nothing by it, and nobody is below
            out.append(Send(neighbour, Switched(source, packet.number)))
        elif not self.on_reverse_path(neighbour, source, view):
            out.append(Drop("off the tree", packet))
        elif not self.is_news(source, packet.life, packet.number, self._switches_seen):
            out.append(Drop("old", packet))
        else:
            children = view.routes.children(source)
            told = dict.fromkeys(children, "")
            self._switching[source] = Passing(packet.number, neighbour, packet.topology, told)
            out.extend(Send(child, packet) for child in children)
            self._confirm_switch(source, out)

    def _answer_to_switch(
        self, neighbour: str, answer: Switched, now: int, out: list[Action]
    ) -> None:
        if answer.source == self.node:
            if answer.number == self._switches and self._unswitched is not None:
                self._unswitched.pop(neighbour, None)
                if not self._unswitched:
                    self._end_switch(now, out)
            return
        passing = self._switching.get(answer.source)
        if passing is not None and passing.number == answer.number:
            passing.waiting.pop(neighbour, None)
            self._confirm_switch(answer.source, out)

    def _confirm_switch(self, source: str, out: list[Action]) -> None:
        passing = self._switching[source]
        if not passing.waiting:
            out.append(Send(passing.parent, Switched(source, passing.number)))
            del self._switching[source]

    # Topology

    def _rerouted(self, now: int, out: list[Action]) -> None:
        """There are new routes: hide no receiver, then ask all nodes anew."""
        self.views.adopt(self.plane.routes, now)
        self.covers.adopt(self.plane.routes)
        self._telling = None
        self._passing.clear()
        self._pulls.clear()
        for seen in (self._advertisements, self._requests, self._switches_seen):
            for issuer in [name for name in seen if name not in self.plane.records]:
                del seen[issuer]
        self._behind = True
        self._all_switched = False
        self._pull_patience.begin()
        self._advertise_patience.begin()
        self._stop_switch(now)
        if not self.views.is_behind() or self.views.has_lost_links():
            self._end_switch(now, out)
        else:
            self._switch_by = self._switch_by or now + LONGEST_SWITCH
        self._start_pull(now, out)
        if self._advertising:
            self._advertise(now, out)
        early, self._early = self._early, {}
        for neighbour, packet in early.values():
            self._request(neighbour, packet, out)
