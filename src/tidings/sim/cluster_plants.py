"""Bugs planted in routers and clients (mutants), one row of `CLUSTER_PLANTS` each.

Most are mistakes that the live network once had. A plant changes one thing of the live room for as
long as it lasts: a method, a function or a bound. The seeds that it runs on draw small networks
with tiny bounds, as ever; a plant may ask for a topology or for faults that bring it to light. The
tests run each until the judge complains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import structs

from tidings.language.filter import Filter
from tidings.language.normal_form import _Expansion
from tidings.language.predicate import Predicate
from tidings.language.work import Work
from tidings.live import link as link_module
from tidings.live import router_core as router_module
from tidings.live.access import Principal
from tidings.live.client_core import Answered, ClientCore
from tidings.live.dialling import Dialler
from tidings.live.doorway import Doorway
from tidings.live.flow import Outflow
from tidings.live.inbox import Inbox
from tidings.live.limits import Limits
from tidings.live.link import Link
from tidings.live.naming import Naming
from tidings.live.outbox import Outbox
from tidings.live.pending import Pending
from tidings.live.probes import Probes
from tidings.live.router_core import RouterCore
from tidings.live.session import Batch, Session
from tidings.live.stream import Stream
from tidings.live.timers import Timers
from tidings.routing.packets import lane_of
from tidings.routing.planes.board import Board
from tidings.routing.planes.local import Local
from tidings.sim.cluster_trial import Drawn, Result, draw, draw_stall, run
from tidings.wire import messages as m
from tidings.wire.errors import WireError

Change = tuple[Any, str, Any]  # an owner, the name of what it owns, and what it owns now


class ClusterPlant(NamedTuple):
    """A planted bug."""

    changes: list[Change]
    topology: str = "small"
    benign: tuple[str, ...] | None = None  # faults; None: as the seed draws them
    harmful: tuple[str, ...] | None = None
    bounds: Mapping[str, int] = MappingProxyType({})  # that every seed gets
    cross: int = 0  # events of saturating traffic, instead of programs
    stall: str = ""  # what stands still, instead of faults
    sizes: tuple[str, ...] = ()  # of predicates; none: as the seed draws them
    protocol: str = "cbcb"
    first: int = 0  # the seed to begin with: earlier ones are known not to catch it


@contextmanager
def planted(changes: list[Change]) -> Iterator[None]:
    """The bug, as long as it lasts."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


# Flow control


def one_lane(packet: Any) -> tuple[str, int] | None:
    """All sources share one lane, as when every link had one queue."""
    return None if lane_of(packet) is None else ("all", 0)


def no_room_ever(self: Outflow, lane: Any, number: int) -> None:
    """What was processed opens no gate."""
    found = self._lanes.get(lane)
    if found is not None:
        self._take(lane, found, number)


def resumed_forgets(self: Outflow, heard: int, waiting: Any) -> None:
    """After a break nothing counts as processed that was reported before it."""


def has_room_by_events(self: Outflow, found: Any) -> bool:
    """Whether a lane has room, whatever its bytes."""
    limits = self._limits
    count = len(found.events)
    return count < limits.lane or (count < limits.lane_most and self.open < limits.link)


def reset_keeps_gates(self: Outflow) -> None:
    """Who waits for a link that begins anew waits for ever."""
    self.open = self.open_bytes = 0
    self._lanes = {}


# Links


def attach_sends_nothing_again(self: Link, stream: Stream, heard: int, again: bool) -> None:
    """After a break only what is new is sent."""
    unsent = self._unsent
    _attach_link(self, stream, heard, again)
    self._unsent = min(unsent, self._unsent)


_attach_link = Link.attach


def skips_silently(self: Link, lane: Any, life: int, newest: int) -> None:
    """Copies that are discarded while they wait are not confirmed."""
    confirm = self.confirm
    self.confirm = lambda *_: None  # type: ignore[method-assign]
    try:
        _skip(self, lane, life, newest)
    finally:
        self.confirm = confirm  # type: ignore[method-assign]


_skip = Link.skip


def lives_name_numbers(self: Link, join: m.Join) -> bool:
    """Numbers are named by lives, of which one end can begin anew alone."""
    return self.life != 0 and self.life == join.life


def never_second(self: Dialler, link: Link, join: m.Join) -> bool:
    """Both ends dial, and replace each other's connection."""
    return False


def confirms_at_once(self: Link, number: int) -> Pending:
    """A router reports upstream before those downstream have confirmed."""
    self.confirm(number, True, self._resets)
    return Pending(lambda well: None)


def never_redials(self: Dialler, one: Any, why: str) -> None:
    """A neighbour that does not answer is never dialled again."""


# Sessions


def heard_is_taken(self: Session, stream: Stream, heard: int, taken: int, noticed: int) -> None:
    """What the client has received counts as taken when it comes back."""
    _attach(self, stream, heard, heard, noticed)


_attach = Session.attach


def sends_heard_again(self: Session, stream: Stream, heard: int, taken: int, noticed: int) -> None:
    """What the client has received and not taken is sent again."""
    _attach(self, stream, heard, taken, noticed)
    self._sent = taken
    self._open.clear()
    self._open_bytes = 0


def notices_said_twice(self: Session, stream: Stream, heard: int, taken: int, noticed: int) -> None:
    """Notices of what goes on because the client is back are said at once, and with the others."""
    self.stream = stream
    _attach(self, stream, heard, taken, noticed)


def says_what_is_routed(self: RouterCore, stream: Stream, greeting: m.Open, who: Principal) -> None:
    """What the router has received and not routed, the client is to send again."""
    send = stream.send

    def send_less(message: Any) -> None:
        if type(message) is m.Opened:
            routed = self.sessions[message.session].mailbox.published
            message = structs.replace(message, published=routed)
        send(message)

    stream.send = send_less  # type: ignore[method-assign]
    try:
        _open_session(self, stream, greeting, who)
    finally:
        stream.send = send  # type: ignore[method-assign]


_open_session = RouterCore.open_session


def forgets_notices(self: Session, stream: Stream, heard: int, taken: int, noticed: int) -> None:
    """Notices that the client has not counted are not sent again."""
    kept, send = self._notices, stream.send_frame
    stream.send_frame = lambda data: None  # type: ignore[method-assign]
    try:
        _attach(self, stream, heard, taken, noticed)
    finally:
        stream.send_frame = send  # type: ignore[method-assign]
    assert kept is self._notices


def held_reads_nothing(self: Session, number: int, event: Any, batch: Any) -> None:
    """The connection of a publisher that waits is not read, so neither is what it takes."""
    _publish_one(self, number, event, batch)
    if self._held and self.stream is not None:
        self.stream._transport.pause()


def released_reads(self: Session) -> None:
    """And is read again when there is room."""
    if self.stream is not None:
        self.stream._transport.resume()
    _released(self)


_publish_one = Session._publish_one
_released = Session._released


def progress_ignored(self: Session, number: int, noticed: int) -> None:
    """The deadline of a slow client counts from the first overflow."""
    before = self._progress_at
    _take(self, number, noticed)
    self._progress_at = before


_take = Session._take


def drops_one(self: Session) -> None:
    """Policy `drop` takes out one delivery for each that comes, whatever its size."""
    if self.policy != "drop":
        _overfull(self)
        return
    dropped = self.mailbox.drop_oldest(self._sent)
    if dropped is not None:
        self.dropped += 1
        pending = self._followed.pop(dropped.number, None)
        if pending is not None:
            pending.end(False)


_overfull = Session._overfull


def drops_silently(self: Session) -> None:
    """Policy `drop` does not count what it drops."""
    before = self.dropped
    _overfull(self)
    self.dropped = before


def end_keeps_gate(self: Session) -> None:
    """Publishers that wait for a client that was given up wait for ever."""
    gate, self.gate = self.gate, type(self.gate)()
    _end(self)
    self.gate = gate


_end = Session.end


def publishes_again(self: Session, stream: Stream, message: m.Publish) -> None:
    """Publications that come again are published again."""
    if message.first <= self.received:
        last = message.first + len(message.events) - 1
        for number, event in enumerate(message.events, message.first):
            self.router.publish(self, number, event, 0, None)
        self.received = max(self.received, last)
        return
    _publish(self, stream, message)


_publish = Session._publish


def sends_all_again(self: Outbox, newest: int) -> None:
    """After a break the client sends again what the router has."""
    _send_again(self, 0)


_send_again = Outbox.send_again


def overlooks_links(self: Board, events: Any, table: Any) -> Any:
    """A router passes over publications that only others want."""
    return _look_ahead(self, events, {})


_look_ahead = Board.look_ahead


def passes_over_late(self: Session, batch: Batch, until: int) -> None:
    """Publications that nobody wants are not reported at the level that was asked for."""
    level, batch.level = batch.level, 0
    _pass_over(self, batch, until)
    batch.level = level


_pass_over = Session._pass_over


def taken_is_any(self: Session, number: int, noticed: int) -> None:
    """One taken delivery reports all as taken."""
    _take(self, number, noticed)
    if number:
        for pending in list(self._followed.values()):
            pending.end()
        self._followed.clear()


def requests_again(self: Session, message: Any) -> None:
    """Requests that come again are not answered, and neither are those that come after them."""
    if message.request <= self.requested:
        self.requested = 2**62
        return
    _request(self, message)


_request = Session._request


def gather_ignores_window(self: Session) -> None:
    """Deliveries are sent whatever the client has taken."""
    self._open.clear()
    self._open_bytes = 0
    _gather(self)


_gather = Session._gather


def absent_gets_nothing(self: Session, *given: Any) -> None:
    """What is published for a client that is away gets lost."""
    if self.stream is not None:
        _deliver_to(self, *given)


_deliver_to = Session.deliver


def absent_is_given_up(self: Session) -> None:
    """A client that is away when its session fills up is given up at once."""
    if self.policy == "block" and self.stream is None:
        self._give_up()
    else:
        _overfull(self)


def absent_has_time(self: Session) -> None:
    """Publishers wait for a client that is away as long as its session lasts."""
    if self.stream is None:
        self._deadline = self._timers.after(self._limits.block, self._check_progress)
    else:
        _check_progress(self)


_check_progress = Session._check_progress


def expires_at_once(self: RouterCore, session: Session, stream: Stream, error: Any) -> None:
    """A session ends with its connection."""
    _client_gone(self, session, stream, error)
    if session.stream is None:
        self.end_session(session, "expired")


_client_gone = RouterCore._client_gone


def never_late(self: RouterCore, action: Any) -> None:
    """Events that a later one has overtaken are delivered all the same."""
    self.applications[action.application].newest.clear()
    _deliver(self, action)


_deliver = RouterCore._deliver


def link_stays(self: RouterCore, link: Link) -> None:
    """A stranger's link stays for ever."""
    _link_down(self, link)
    self.links.setdefault(link.neighbour, link)


_link_down = RouterCore._link_down


def open_without_room(self: Doorway, transport: Any) -> Stream:
    """Who comes when many are silent is refused."""
    if len(self._ungreeted) >= self._router.limits.ungreeted:
        limits = self._router.limits
        stream = Stream(self._router.timers, limits, transport, self._first, self.ended)
        stream.fail(WireError("full"))
        return stream
    return _open(self, transport)


_open = Doorway.open


def asks_without_bound(self: Probes, session: Session, ask: m.Ask) -> None:
    """A client may ask any number of queries at once."""
    limits = self._router.limits
    self._router.limits = replace(limits, queries=10**9)
    try:
        _begin(self, session, ask)
    finally:
        self._router.limits = limits


_begin = Probes.begin


# Predicates


def reads_on_the_loop(self: Session, message: Any) -> None:
    """Predicates are read where everything else waits for it."""
    limits, self._limits = self._limits, replace(self._limits, short_predicate=10**9)
    try:
        _carry_out_one(self, message)
    finally:
        self._limits = limits


_carry_out_one = Session._carry_out_one


def each_by_itself(self: Predicate, filters: Sequence[Filter]) -> list[Filter]:
    """Each filter is compared with its own bound on steps, so many take many times as long."""
    return [one for one in filters if _uncovered(self, (one,))]


_uncovered = Predicate.uncovered


def any_work(self: _Expansion, max_filters: int) -> None:
    """A normal form may take any number of steps, and have very many filters."""
    _expansion(self, 2**15)
    self.work = Work(float("inf"), thorough=False)


_expansion = _Expansion.__init__


# Rights


def any_element(self: Any, event: dict[str, Any]) -> bool:
    """A token's predicate is tested on an event as a whole, so lists widen it."""
    return self.publish is None or bool(self.publish.matches(event))


# Clients


def gives_up(self: ClientCore, stream: Stream) -> None:
    """A client whose router does not answer the greeting never tries again."""
    self._stream = None
    stream.abort()


def dies_silently(self: ClientCore, stream: Stream, error: Exception | None) -> None:
    """A client whose connection ends during the greeting never tries again."""
    if stream.conversation == "greeting" and stream is self._stream:
        self._stream = None
        return
    _lost(self, stream, error)


_lost = ClientCore._lost


def any_size(self: ClientCore, event: Any, what: str) -> tuple[Any, bytes]:
    """Events are sent whatever their size and their names."""
    return event, m.encode(event)


def ghosts(self: ClientCore, unknown: Any) -> None:
    """What was unsubscribed while the router was away is subscribed again."""
    asked = [one.message for one in [*self._asked.values(), *self._unasked]]
    leaving = [message.id for message in asked if type(message) is m.Unsubscribe]
    _subscribe_again(self, unknown)
    for id in leaving:
        self._ask(m.Subscribe(self._next_request(), id, "true"), lambda error, done: None)


_subscribe_again = ClientCore._subscribe_again


def refusal_swallowed(self: ClientCore, inbox: Inbox, error: Any, done: Any) -> None:
    """Nobody is told when a subscription that is made again is refused."""
    if error is None:
        inbox.name = done.id


def forgets_what_it_publishes(self: ClientCore, unknown: Any) -> None:
    """A new session does not learn what the client has advertised."""
    advertised, self.advertisements = self.advertisements, {}
    _subscribe_again(self, unknown)
    self.advertisements = advertised


def moves_on(self: ClientCore, stream: Stream, error: Exception | None) -> None:
    """After every break the client goes on at the next address."""
    if stream is self._stream and stream.conversation != "greeting":
        self._place = (self._place + 1) % len(self.options.addresses)
    _lost(self, stream, error)


def comes_again(self: ClientCore, delivery: m.Delivery) -> bool:
    """What came from one router may come again from the next."""
    return False


def leaves_it_there(self: ClientCore, inbox: Inbox) -> None:
    """A subscription that was given up stays at the router."""
    if self.inboxes.pop(inbox.id, None) is not None:
        inbox.release()
        inbox.finish(True)


def remembers_the_former(
    self: ClientCore, inbox: Inbox, predicate: Any, answered: Answered
) -> None:
    """A new session gets the predicate that a subscription had before it was replaced."""
    before = inbox.predicate

    def told(error: Exception | None, done: Any) -> None:
        inbox.predicate = before
        answered(error, done)

    _replace(self, inbox, predicate, told)


def lives_on_by_its_replacement(
    self: ClientCore, inbox: Inbox, predicate: Any, answered: Answered
) -> None:
    """A subscription that was refused is held, if the router accepts its replacement."""
    text = str(predicate)
    inbox.replacing += 1

    def told(error: Exception | None, done: Any) -> None:
        inbox.replacing -= 1
        if error is None:
            inbox.predicate = text
        answered(error, done)
        inbox.changed()

    self._ask(m.Subscribe(self._next_request(), inbox.id, text), told)


_replace = ClientCore.replace


def resubscribes_nothing(self: ClientCore, unknown: Any) -> None:
    """A client whose session was lost does not subscribe again."""
    inboxes, self.inboxes = self.inboxes, {}
    _subscribe_again(self, unknown)
    self.inboxes = inboxes
    for inbox in inboxes.values():
        inbox.accepted = inbox.confirmed = False
        inbox.interruptions += 1
        inbox.changed()


def publishes_unknown_again(self: ClientCore, stream: Stream) -> None:
    """Publications in flight are sent again to a router that has lost the session."""
    self._outbox.send_again(0)
    _begin_anew(self, stream)


_begin_anew = ClientCore._begin_anew


def heard_twice(self: ClientCore, number: int, delivery: m.Delivery) -> None:
    """Deliveries that come again are handed to the program again."""
    self._heard = min(self._heard, number - 1)
    _delivery(self, number, delivery)


_delivery = ClientCore._delivery


def takes_at_once(self: Inbox, event: Any, share: Any) -> None:
    """A delivery counts as taken when it has arrived."""
    _put(self, event, share)
    self.release()


_put = Inbox.put


def has_credit(self: Outbox, count: int, size: int) -> bool:
    """The client publishes more than the router gave it credit for."""
    return True


# Streams and time


def time_stands_still(self: Timers, clock: int) -> None:
    """When the clock goes back, time waits for it."""
    self._clock = clock
    self.now = max(self.now, clock)


def never_silent(self: Stream) -> None:
    """A peer that says nothing is never given up."""
    self.heard_at = self._timers.now
    _beat(self)


_beat = Stream._beat


RING: Final = "ring:5"
CLUSTER_PLANTS: Final[dict[str, ClusterPlant]] = {
    # Waiting in a circle
    "one lane for all": ClusterPlant(
        [(link_module, "lane_of", one_lane), (router_module, "lane_of", one_lane)],
        RING,
        cross=60,
        bounds={"lane": 2, "lane_most": 2, "link": 2, "queued": 200},
    ),
    "one lane for all, and one stands still": ClusterPlant(
        [(link_module, "lane_of", one_lane), (router_module, "lane_of", one_lane)],
        RING,
        bounds={"lane": 2, "lane_most": 2, "link": 2, "queued": 4},
        cross=60,
        stall="still reader",
    ),
    "gates stay closed": ClusterPlant([(Outflow, "worked", no_room_ever)]),
    "resumed forgets": ClusterPlant([(Outflow, "resumed", resumed_forgets)], RING, first=25),
    "reset keeps gates": ClusterPlant([(Outflow, "reset", reset_keeps_gates)], "ring:4"),
    "ended session keeps its gate": ClusterPlant([(Session, "end", end_keeps_gate)]),
    # Looking ahead
    "looks past links": ClusterPlant([(Board, "look_ahead", overlooks_links)], "line:3"),
    "the unwanted are not numbered": ClusterPlant([(Local, "pass_over", lambda self, count: None)]),
    "the unwanted are not reported": ClusterPlant([(Session, "_pass_over", passes_over_late)]),
    # Clients that do not come back
    "gives up after a late greeting": ClusterPlant(
        [(ClientCore, "_too_late", gives_up)], harmful=("stall router",)
    ),
    "gives up during the greeting": ClusterPlant([(ClientCore, "_lost", dies_silently)]),
    "never dials again": ClusterPlant([(Dialler, "_again", never_redials)]),
    "moves on after every break": ClusterPlant(
        [(ClientCore, "_lost", moves_on)], benign=("cut client",)
    ),
    "another router delivers it again": ClusterPlant(
        [(ClientCore, "_is_old", comes_again)], harmful=("kill router",), first=65
    ),
    "does not subscribe again": ClusterPlant(
        [(ClientCore, "_subscribe_again", resubscribes_nothing)], harmful=("kill router",)
    ),
    # Sizes
    "events of any size": ClusterPlant([(ClientCore, "_encoded", any_size)]),
    "batches of any size": ClusterPlant(
        [],
        bounds={
            "delivery_batch_bytes": 10**9,
            "client_frame": 8_192,
            "delivery_batch": 256,
            "queued": 200,
            "queued_bytes": 100_000,
            "open_bytes": 100_000,
            "high_water": 100_000,
        },
        first=26,
    ),
    # Predicates
    "predicates are read on the loop": ClusterPlant(
        [(Session, "_carry_out_one", reads_on_the_loop)]
    ),
    "normal forms without bound": ClusterPlant(
        [(_Expansion, "__init__", any_work)],
        "line:2",
        sizes=("usual", "hostile"),
        first=4,
    ),
    "each filter has its own steps": ClusterPlant(
        [(Predicate, "uncovered", each_by_itself)],
        sizes=("usual", "long", "hostile"),
        first=106,
    ),
    # Clients that are away
    "absent ones get nothing": ClusterPlant([(Session, "deliver", absent_gets_nothing)]),
    "absent ones are given up": ClusterPlant(
        [(Session, "_overfull", absent_is_given_up)],
        benign=("cut client", "flap client"),
        bounds={"queued": 4},
    ),
    "absent ones have time": ClusterPlant(
        [(Session, "_check_progress", absent_has_time)],
        harmful=("lose client",),
        bounds={"queued": 4},
    ),
    # Slow and not so slow
    "held reads nothing": ClusterPlant(
        [
            (Session, "_publish_one", held_reads_nothing),
            (Session, "_released", released_reads),
        ]
    ),
    "progress is ignored": ClusterPlant([(Session, "_take", progress_ignored)], first=31),
    "window is ignored": ClusterPlant([(Session, "_gather", gather_ignores_window)], first=31),
    "sessions expire at once": ClusterPlant([(RouterCore, "_client_gone", expires_at_once)]),
    # Levels
    "heard is taken": ClusterPlant([(Session, "attach", heard_is_taken)]),
    "arrived is taken": ClusterPlant([(Inbox, "put", takes_at_once)]),
    "one taken is all taken": ClusterPlant([(Session, "_take", taken_is_any)]),
    "confirmed at once": ClusterPlant([(Link, "_follow", confirms_at_once)]),
    # Bounds
    "drops one": ClusterPlant(
        [(Session, "_overfull", drops_one)],
        bounds={"queued": 200, "queued_bytes": 800, "event_bytes": 1_500},
    ),
    "drops silently": ClusterPlant([(Session, "_overfull", drops_silently)]),
    "window by events": ClusterPlant(
        [(Outflow, "_has_room", has_room_by_events)],
        "ring:4",
        bounds={"lane_bytes": 300, "lane_most": 64, "link": 1_000, "link_bytes": 600},
    ),
    "queries without bound": ClusterPlant(
        [(Probes, "begin", asks_without_bound)],
        RING,
        ("pause router",),
        ("stall router",),
        bounds={"queries": 1},
    ),
    "more than the credit": ClusterPlant([(Outbox, "_has_credit", has_credit)]),
    # Ghosts and strangers
    "unsubscribed comes back": ClusterPlant(
        [(ClientCore, "_subscribe_again", ghosts)], harmful=("kill router",)
    ),
    "refusal is swallowed": ClusterPlant(
        [(ClientCore, "_resubscribed", refusal_swallowed)], harmful=("narrow router",)
    ),
    "refused lives on": ClusterPlant(
        [(ClientCore, "replace", lives_on_by_its_replacement)],
        "line:1",
        (),
        ("narrow router",),
        bounds={"requests": 1},
        first=39,
    ),
    "given up stays": ClusterPlant([(ClientCore, "give_up", leaves_it_there)]),
    "stranger's link stays": ClusterPlant(
        [(RouterCore, "_link_down", link_stays)], benign=("stranger",)
    ),
    "silent ones keep others out": ClusterPlant(
        [(Doorway, "open", open_without_room)], benign=("crowd",), bounds={"ungreeted": 4}
    ),
    "forgets what it publishes": ClusterPlant(
        [(ClientCore, "_subscribe_again", forgets_what_it_publishes)],
        harmful=("kill router",),
        first=103,
    ),
    "lists widen": ClusterPlant([(Principal, "may_publish", any_element)], first=21),
    "the former predicate comes back": ClusterPlant(
        [(ClientCore, "replace", remembers_the_former)], harmful=("kill router",)
    ),
    # Breaks
    "nothing is sent again": ClusterPlant([(Link, "attach", attach_sends_nothing_again)]),
    "discarded copies are not confirmed": ClusterPlant(
        [(Link, "skip", skips_silently)], "ring:4", (), (), protocol="flood"
    ),
    "lives name numbers": ClusterPlant(
        [(Link, "holds", lives_name_numbers)],
        RING,
        ("flap link",),
        ("lose link", "partition", "stall router"),
    ),
    "every name is free": ClusterPlant(
        [(Naming, "_is_taken", lambda self, join: False)], RING, ("namesake",), ()
    ),
    "both replace": ClusterPlant([(Dialler, "_is_second", never_second)]),
    "published twice": ClusterPlant(
        [(Session, "_publish", publishes_again), (Outbox, "send_again", sends_all_again)],
        benign=("cut client", "flap client"),
    ),
    "delivered twice": ClusterPlant(
        [(Session, "attach", sends_heard_again), (ClientCore, "_delivery", heard_twice)],
        benign=("cut client", "flap client"),
    ),
    "unknown is sent again": ClusterPlant(
        [(ClientCore, "_begin_anew", publishes_unknown_again)],
        harmful=("lose client",),
        bounds={"credit": 1_000, "credit_bytes": 100_000},
    ),
    "notices are said twice": ClusterPlant(
        [(Session, "attach", notices_said_twice)], first=3_000_126
    ),
    "what is routed is what has come": ClusterPlant(
        [(RouterCore, "open_session", says_what_is_routed)], first=3_000_126
    ),
    "notices are forgotten": ClusterPlant([(Session, "attach", forgets_notices)]),
    "requests stop": ClusterPlant([(Session, "_request", requests_again)]),
    "late ones are delivered": ClusterPlant([(RouterCore, "_deliver", never_late)], "ring:4"),
    # Streams and time
    "time stands still": ClusterPlant(
        [(Timers, "set", time_stands_still)], benign=("clock back", "cut client")
    ),
    "silence is not noticed": ClusterPlant([(Stream, "_beat", never_silent)], first=50),
}


def draw_for(plant: ClusterPlant, seed: int) -> Drawn:
    """What a seed decides for a planted bug."""
    if plant.stall:
        drawn = draw_stall(seed, plant.topology, plant.stall)
    else:
        drawn = draw(seed, plant.topology, plant.benign, plant.harmful)
    limits: Limits = replace(drawn.limits, **plant.bounds)  # type: ignore[arg-type]
    return drawn._replace(
        limits=limits, cross=plant.cross, sizes=plant.sizes, protocol=plant.protocol
    )


def catch_in_cluster(name: str, seeds: int = 100, first: int | None = None) -> Result | None:
    """The result of the first seed that finds a planted bug; None if none of `seeds` seeds does."""
    plant = CLUSTER_PLANTS[name]
    begin = plant.first if first is None else first
    with planted(plant.changes):
        for seed in range(begin, begin + seeds):
            result = run(draw_for(plant, seed), first_only=True)
            if result.violations:
                return result
    return None
