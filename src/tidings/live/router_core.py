"""A router without sockets and clock: the short loop that connects a protocol to its clients.

Everything that happens becomes a cause. The protocol answers with actions, which become packets on
links and deliveries in sessions. A *host* gives the router connections, carried by transports, and
runs what takes long; timers say what time it is. So the same router runs on sockets (`router`) and
in the simulator. It needs no locks, because its host calls it from one thread.

A protocol that does not confirm subscriptions has them presumed established after a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from tidings.language.predicate import Predicate
from tidings.live.access import Access, Principal, check_event
from tidings.live.dialling import Dialler
from tidings.live.doorway import Doorway
from tidings.live.edge import Edge, Growing, bounded
from tidings.live.flow import Gate, Gates, Shares
from tidings.live.hosted import REMEMBERED, Hosted, figures
from tidings.live.journal import journal
from tidings.live.limits import LIMITS, Limits
from tidings.live.link import Link
from tidings.live.naming import Naming, is_name
from tidings.live.pending import Pending
from tidings.live.probes import Probes
from tidings.live.recorder import Recorder
from tidings.live.session import Session
from tidings.live.settings import Dial, Settings
from tidings.live.store import Memory, Store
from tidings.live.stream import Stream, Transport
from tidings.live.timers import Timer, Timers
from tidings.live.turns import Turns
from tidings.routing.layers.sealing import Keyring
from tidings.routing.packets import (
    Answer,
    Packet,
    Returned,
    Switch,
    application_of,
    lane_of,
    publication_of,
)
from tidings.routing.protocol import (
    SECOND,
    Action,
    Advertise,
    Answered,
    Broadcast,
    Cause,
    Configure,
    Decline,
    Deliver,
    Drop,
    Established,
    Feedback,
    Host,
    InForce,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Refused,
    Send,
    Subscribe,
    Unadvertise,
    Unanswered,
    Unhost,
    Unsubscribe,
    Unwanted,
    Woken,
)
from tidings.routing.protocols import NEVER
from tidings.wire import messages as m
from tidings.wire.errors import WireError

GONE: Final = "the publisher has gone"
BUSY: Final = 8  # the share of what a link may keep, as a divisor, beyond which it takes no reply


@dataclass
class Counts:
    """Counters for `status` and `/metrics`."""

    published: int = 0
    refused: int = 0
    delivered: int = 0
    late: int = 0  # events dropped because a later one overtook them while routes changed
    dropped_packets: int = 0
    replies_dropped: int = 0  # because their publisher does not read them, or a link is full
    malformed: int = 0  # connections ended because of malformed input
    denied: int = 0  # connections with a wrong token
    twins: int = 0  # connections ended because two routers have one name
    evicted: int = 0  # connections ended before their greeting, to make room
    sessions: int = 0
    sessions_resumed: int = 0
    links_lost: int = 0


class RouterHost(Protocol):
    """What a router needs of the world."""

    def dial(self, dial: Dial) -> None:
        """Try to connect; then call `dialled` or `undialled`."""

    def work(self, function: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run a function that may take long, then call `then` with what it returns."""


class RouterCore:
    """A node of the live network, driven by its host."""

    def __init__(
        self,
        settings: Settings,
        host: RouterHost,
        timers: Timers,
        entropy: Callable[[int], int],  # gives random bits
        limits: Limits = LIMITS,
        store: Store | None = None,
    ) -> None:
        self.settings = settings
        self.host = host
        self.timers = timers
        self.limits = limits
        self.node = settings.node
        self.life = entropy(52) + 1
        self.access = Access(settings.principals)
        self.counts = Counts()
        self.epoch = 0
        self.links: dict[str, Link] = {}
        self.sessions: dict[str, Session] = {}
        row = self.row = settings.chosen.row
        self.applications: dict[str, Hosted] = {}
        for name in ("", *settings.applications):
            self._add_application(name)
        self.shares = Shares(settings.weights)
        self.turns: Turns | None = None  # without them, each publication is routed at once
        if settings.applications:
            self._take_turns()
        self.drops: dict[str, int] = {}
        self.probes = Probes(self)
        self.doorway = Doorway(self)
        self.dialler = Dialler(self)
        self.naming = Naming(self)
        self.protocol = row.configured(settings.chosen.options)(
            self.node,
            self.life,
            settings.timing,
            matcher=Growing,
            board=self.edge.board,
            **settings.sharing(),
        )
        # The two layers of each application, if the protocol has any.
        self.layers: Mapping[str, Any] = getattr(self.protocol, "applications", {})
        self._copies = row.copies  # whether an event comes by several links
        self.entropy = entropy
        self._secret = entropy(128).to_bytes(16, "big")
        self._store: Store = store or Memory()
        self._held: dict[int, tuple[Session, int]] = {}  # by number: session, its id
        self._numbers = 0
        self._sessions_made = 0
        # Of the newest replies: their number, session, the session's request.
        self._repliers: list[tuple[int, Session, int] | None] = [None] * REMEMBERED
        self._replied = 0
        self._advertised = 0  # so far; gives ids
        self._advertising: dict[str, tuple[Session, int]] = {}  # by id: session and its request
        self._wake: Timer | None = None
        self._wake_at: int | None = None
        self._down: dict[str, Timer] = {}  # links within their grace period
        self._recorder: Recorder | None = None
        self._pending: tuple[Pending | None, Pending | None] = (None, None)
        self._gates: list[Gate] = []  # the full queues on the path of the current event
        self._switching = Gate()  # full while the protocol waits for its events to pass
        self._started_at = timers.now

    @property
    def edge(self) -> Edge:
        """The subscriptions of the application without a name."""
        return self.applications[""].edge

    # Start and stop

    def start(self, recorder: Recorder | None = None) -> None:
        """Begin to connect to the neighbours."""
        self._recorder = recorder
        if Growing.table_of is None:
            self.host.work(Growing.prepare, self._loaded)
        for dial in self.settings.links:
            self.dialler.keep(dial)

    def stop(self) -> None:
        """Tell everyone that this router stops, and end everything."""
        self.happen(Leave())
        self.dialler.stop()
        self.doorway.stop()
        for link in self.links.values():
            if link.stream is not None:
                link.stream.fail(WireError("stopping"))
        for timer in self._down.values():
            timer.cancel()
        for session in list(self.sessions.values()):
            if session.stream is not None:
                session.stream.fail(WireError("stopping"))
            self.end_session(session, "stopping")
        if self._wake is not None:
            self._wake.cancel()

    def reconfigure(self, settings: Settings) -> None:
        """Take other principals and other links; sessions whose token is still good go on."""
        self.access = Access(settings.principals)
        for session in list(self.sessions.values()):
            principal = self.access.successor(session.principal)
            if principal is None or not principal.may_use(session.hosted.name):
                if session.stream is not None:
                    session.stream.fail(WireError("denied"))
                self.end_session(session, "denied")
            else:
                session.change_principal(principal)
        self.dialler.change(settings.links)
        if self.row.shares:
            self._host(settings)
        self.shares.change(settings.weights)
        for name, before in self.settings.applications.items():
            after = settings.applications.get(name)
            if after is None or name not in self.layers:
                continue
            if settings.keys.get(name) != self.settings.keys.get(name):
                self._rekey(name, settings.keys.get(name, ()))
            # The whole network changes: perhaps another router has told of it already.
            known = self.layers[name].matching.settings
            if after.layering != before.layering and after.layering != known:
                self.happen(Configure(name, msgspec.to_builtins(after.layering)))
                journal("application changed", node=self.node, application=name)
        self.settings = settings
        journal("reconfigured", node=self.node, links=len(settings.links))

    def _add_application(self, name: str) -> None:
        keeps_order = not name and self.row.ordered != NEVER
        self.applications[name] = Hosted(name, keeps_order, self._announce)

    def _take_turns(self) -> None:
        if self.turns is None:
            self.turns = Turns(self.timers, lambda: self.settings.weights)

    def _host(self, settings: Settings) -> None:
        """Carry the applications of these settings, and no others; the rest goes on meanwhile."""
        here = self.applications.keys() - {""}
        for name in sorted(here - settings.applications.keys()):
            for session in [one for one in self.sessions.values() if one.hosted.name == name]:
                if session.stream is not None:
                    gone = WireError("application", f"{name} is no longer at {self.node}")
                    session.stream.fail(gone)
                self.end_session(session, "application gone")
            self.happen(Unhost(name))
            del self.applications[name]
            journal("application gone", node=self.node, application=name)
        for name in sorted(settings.applications.keys() - here):
            self._take_turns()
            self._add_application(name)
            protocol: Any = self.protocol
            protocol.keys[name] = settings.keys.get(name, ())
            layering = settings.applications[name].layering
            self.happen(Host(name, msgspec.to_builtins(layering)))
            hosted, local = self.applications[name], self.layers[name].local
            hosted.published = local.published
            hosted.table.grow()
            journal("application added", node=self.node, application=name)

    def _rekey(self, application: str, keys: Sequence[Keyring]) -> None:
        """Take other keys of an application. No cause says so: recordings must not show them."""
        actions: list[Action] = []
        self.layers[application].rekey(keys, self.timers.now, actions)
        self._act(actions)
        self._arm()

    # Connections

    def accepted(self, transport: Transport) -> Stream:
        """Someone has connected."""
        return self.doorway.open(transport)

    def dialled(self, dial: Dial, transport: Transport) -> Stream:
        """A connection that the router asked for stands."""
        return self.dialler.made(dial, transport)

    def undialled(self, dial: Dial, why: str) -> None:
        """A connection that the router asked for could not be made."""
        self.dialler.failed(dial, why)

    def _loaded(self, error: Any) -> None:
        """Tables can be used from now on."""
        for hosted in self.applications.values():
            hosted.table.grow()

    # The loop around the protocol

    def happen(self, cause: Cause) -> None:
        """Let the protocol handle a cause, and carry out its actions."""
        self._handle(cause)
        is_event = type(cause) is Received and publication_of(cause.packet) is not None
        if not is_event:  # events change no timer
            self._arm()
            self.naming.look()
            if self._switching.full and not self.protocol.is_switching:
                self._switching.clear()

    def _handle(self, cause: Cause) -> None:
        now = self.timers.now
        actions = self.protocol.handle(cause, now)
        if self._recorder is not None:
            self._recorder.write(now, cause, actions)
        if actions:
            self._act(actions)

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            kind = type(action)
            if kind is Send:
                self._send(action.neighbour, action.packet)  # type: ignore[union-attr]
            elif kind is Deliver:
                self._deliver(action)  # type: ignore[arg-type]
            elif kind is Established:
                self._established(action)  # type: ignore[arg-type]
            elif kind is Drop:
                self._dropped(action)  # type: ignore[arg-type]
            elif kind is Broadcast:
                for neighbour in self.links:
                    self._send(neighbour, action.packet)  # type: ignore[union-attr]
            elif kind is InForce:
                self._in_force(action.ids)  # type: ignore[union-attr]
            elif kind is Answered:
                self._answered(action)  # type: ignore[arg-type]
            elif kind is Unanswered:
                self._unanswered(action)  # type: ignore[arg-type]
            elif kind is Refused:
                self._refused(action)  # type: ignore[arg-type]
            else:
                raise TypeError(f"expected an action, found {action!r}")

    def _dropped(self, action: Drop) -> None:
        self.counts.dropped_packets += 1
        self.drops[action.reason] = self.drops.get(action.reason, 0) + 1
        packet = action.packet
        name = getattr(packet, "application", None) or application_of(packet)
        if name in self.applications:
            self.applications[name].use.dropped += 1

    def _arm(self) -> None:
        """Set the timer to the time at which the protocol wants to be woken."""
        at = self.protocol.timer()
        if at == self._wake_at and self._wake is not None:
            return
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._wake_at = at
        if at is not None:
            self._wake = self.timers.after(max(0, at - self.timers.now), self._woken)

    def _woken(self) -> None:
        self._wake = None
        self.happen(Woken())

    # Events

    def switching(self) -> Gate | None:
        """The gate to wait for before anything is published, while the source's tree changes."""
        if not self.protocol.is_switching:
            return None
        self._switching.full = True
        return self._switching

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        """The places of the events that somebody may want, if they are published now.

        A recording has every event, so a router that records takes them one by one.
        """
        if self._recorder is not None:
            return range(len(events))
        return self.protocol.look_ahead(events)

    def pass_over(self, hosted: Hosted, count: int) -> None:
        """A client publishes events that nobody wants, as `look_ahead` has found."""
        self.counts.published += count
        hosted.use.published += count
        hosted.published += count
        self._handle(Unwanted(count))

    def publish(
        self, session: Session, number: int, event: dict[str, Any], level: int, follow: Any
    ) -> Gate | None:
        """A client publishes an event; return the gate of a full queue on its path, if any."""
        self.counts.published += 1
        self._pending = (
            follow if level == m.ROUTED else None,
            follow if level == m.DELIVERED else None,
        )
        session.hosted.use.published += 1
        session.hosted.remember(session, number)
        return self._publish(session.hosted, event)

    def feedback(self, session: Session, message: m.Feedback) -> None:
        """A client replies to the publisher of an event; it hears if the publisher has gone."""
        self._replied += 1
        self._repliers[self._replied % REMEMBERED] = self._replied, session, message.request
        whose = message.source, message.life, message.number
        self.happen(Feedback(self._replied, *whose, message.reply, session.hosted.name))

    def _publish(self, hosted: Hosted, event: dict[str, Any]) -> Gate | None:
        self._gates = []
        hosted.published += 1
        self._handle(hosted.cause(Publish(event)))
        self._pending = (None, None)
        return self._gate()

    def packet(self, link: Link, packet: Packet, follow: Pending | None) -> Gate | None:
        """A neighbour has sent a packet; return the gate of a full queue on its path, if any."""
        publication = publication_of(packet)
        if publication is not None:
            reason = check_event(publication.event)
            if reason is not None:
                raise WireError("malformed", reason)
        self._gates = []
        self._pending = (None, follow)
        self.happen(Received(link.neighbour, packet))
        self._pending = (None, None)
        if self._copies and publication is not None:
            lane = lane_of(publication)
            for other in self.links.values():
                if lane is not None:
                    other.skip(lane, publication.life, publication.number)
        return self._gate()

    def _gate(self) -> Gate | None:
        """What to wait for after an event: all the full queues that it met, not one of them."""
        if len(self._gates) > 1:
            return Gates(self._gates)
        return self._gates[0] if self._gates else None

    def _send(self, neighbour: str, packet: Packet) -> None:
        link = self.links.get(neighbour)
        if link is None:
            return
        lane = lane_of(packet)
        if lane is not None and type(packet) is not Switch:
            link.send(packet, *self._pending)
            gate = link.flow.gate(lane)
            if gate is not None:
                self._gates.append(gate)
        elif type(packet) in (Answer, Returned) and link.is_busy(BUSY):
            self.counts.replies_dropped += 1
        else:
            link.send(packet, None, None)
        if link.overfull:
            self.timers.after(0, partial(self._overfull, link))

    def _overfull(self, link: Link) -> None:
        """A link keeps more than it may: give it up."""
        if link.overfull:
            self.give_up(link, WireError("slow"))

    def give_up(self, link: Link, error: WireError) -> None:
        """Take a link down at once, and tell the neighbour why."""
        if link.stream is not None:
            link.stream.fail(error)
        link.detach()
        self._link_down(link)

    def _deliver(self, action: Deliver) -> None:
        publication = action.publication
        event = publication.event
        hosted = self.applications[action.application]
        life, newest = hosted.newest.get(publication.source, (0, 0))
        if life == publication.life and publication.number <= newest and hosted.keeps_order:
            self.counts.late += 1
            return
        numbers = hosted.edge.match(event)
        if not numbers:
            return
        hosted.newest[publication.source] = publication.life, publication.number
        data = m.encode(event)
        whose = publication.source, publication.life, publication.number
        ticket = self.ticket(*whose, hosted.name)
        by_session: dict[Session, list[int]] = {}
        held = self._held
        for number in numbers:
            session, id = held[number]
            if session in by_session:
                by_session[session].append(id)
            else:
                by_session[session] = [id]
        follow = self._pending[1]
        self.counts.delivered += len(by_session)
        hosted.use.delivered += len(by_session)
        for session, ids in by_session.items():
            session.deliver(ids, publication, ticket, data, follow)
            if session.gate.full:
                self._gates.append(session.gate)

    def ticket(self, source: str, life: int, number: int, application: str = "") -> int:
        """What a client that got an event can show, and nobody else."""
        text = f"{source}\n{life}\n{number}\n{application}".encode()
        return int.from_bytes(blake2b(text, digest_size=7, key=self._secret).digest(), "big")

    def _answered(self, action: Answered) -> None:
        """Feedback has come for a publisher here, or for one that is no longer here."""
        hosted = self.applications.get(action.application)
        found = None if hosted is None else hosted.publisher(action.number)
        if found is not None:
            found[0].say(m.Reply(found[1], action.message))
        else:
            whose = action.replier, action.replier_life, action.id
            self.happen(Decline(*whose, GONE))

    def _unanswered(self, action: Unanswered) -> None:
        """Feedback of a client here has not reached its publisher."""
        found = self._repliers[action.id % REMEMBERED]
        if found is not None and found[0] == action.id and not found[1].over:
            found[1].say(m.Unanswered(found[2], action.reason))

    # Subscriptions

    def subscribe(
        self, session: Session, id: int, number: int | None, predicate: Predicate
    ) -> tuple[int, bool]:
        """Add a subscription or replace its predicate: its number, whether it is established."""
        if number is None:
            self._numbers += 1
            number = self._numbers
            self._held[number] = session, id
        return number, session.hosted.edge.put(number, predicate)

    def unsubscribe(self, number: int) -> None:
        """A client ends a subscription."""
        found = self._held.get(number)
        if found is not None:
            found[0].hosted.edge.remove(number)
            found[0].hosted.release(number)
            self._held.pop(number, None)

    def _announce(self, application: str, id: str, predicate: str | None) -> None:
        cause = Unsubscribe(id) if predicate is None else Subscribe(id, predicate)
        self.happen(self.applications[application].cause(cause))
        if predicate is not None and not self.row.confirms:
            established = Established((id,), application)
            self.timers.after(self.limits.presumed, partial(self._established, established))

    def _refused(self, action: Refused) -> None:
        """The protocol cannot serve announcements: their subscriptions are over."""
        by_session: dict[Session, list[int]] = {}
        edge = self.applications[action.application].edge
        for number in edge.relying(action.subscriptions):
            session, id = self._held[number]
            by_session.setdefault(session, []).append(id)
        for session, ids in by_session.items():
            # Not before `subscribe` has returned, so that the client knows what is over.
            self.timers.after(0, partial(session.reject, ids, action.reason))

    # Advertisements

    def new_advertisement(self) -> str:
        """An id for an advertisement."""
        self._advertised += 1
        return f"v{self._advertised}"

    def advertise(self, session: Session, request: int, id: str, predicate: Predicate) -> None:
        """A client advertises what it publishes; it hears when that is in force."""
        self._advertising[id] = session, request
        self.happen(Advertise(id, bounded(predicate)))

    def unadvertise(self, id: str) -> None:
        """A client withdraws an advertisement."""
        self._advertising.pop(id, None)
        self.happen(Unadvertise(id))

    def _in_force(self, ids: tuple[str, ...]) -> None:
        for id in ids:
            waiting = self._advertising.pop(id, None)
            if waiting is not None and not waiting[0].over:
                waiting[0].in_force(waiting[1])

    def _established(self, action: Established) -> None:
        self.epoch += 1
        by_session: dict[Session, list[int]] = {}
        edge = self.applications[action.application].edge
        for number in edge.established(action.subscriptions):
            session, id = self._held[number]
            if session.subscriptions.get(id) == number:  # else `subscribe` has not returned yet
                by_session.setdefault(session, []).append(id)
        for session, ids in by_session.items():
            session.say(m.Established(ids, self.epoch))

    # Queries

    def ask(self, session: Session, message: m.Ask) -> None:
        """A client asks about the network."""
        error = ""
        if not session.principal.status:
            error = "this token may not ask about the network"
        elif message.kind not in ("trace", "why", "status"):
            error = f"expected trace, why or status, found {message.kind!r:.40}"
        elif message.kind != "status":
            error = check_event(message.event) or ""
            if self.is_sealed(session.hosted.name):
                error = f"the application {session.hosted.name} is sealed: a query would show it"
        if error:
            session.say(m.Answer(message.request, error, []))
            return
        self.probes.begin(session, message)

    def is_sealed(self, application: str) -> bool:
        """Whether routers on the path of an event of an application must not read it."""
        layers = self.layers.get(application)
        return layers is not None and layers.matching.settings.seal != "none"

    def explain_links(
        self, application: str, source: str, event: dict[str, Any]
    ) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of an application would take it from here, and why."""
        if application:
            explained: dict[str, tuple[bool, str]]
            explained = self.layers[application].explain_links(source, event)
            return explained
        return self.protocol.explain_links(source, event)

    # Sessions

    def open_session(self, stream: Stream, greeting: m.Open, principal: Principal) -> None:
        """A client opens a session, or resumes one."""
        if greeting.policy not in m.POLICIES:
            raise WireError("out-of-turn", f"the policies are {', '.join(m.POLICIES)}")
        self._check_application(greeting.application, principal)
        session = self.sessions.get(greeting.session) if greeting.session else None
        if session is not None and session.principal is not principal:
            raise WireError("denied")
        if session is not None and session.hosted.name != greeting.application:
            raise WireError("application", "the session is of another one")
        resumed = session is not None
        said = (greeting.heard, greeting.taken, greeting.noticed) if resumed else (0, 0, 0)
        if session is not None:
            session.check_resumable(*said)  # before anything changes: else it would never expire
        if session is None:
            hosted = self.applications[greeting.application]
            most = self.shares.of(hosted.name, self.limits.sessions)
            if len(self.sessions) >= self.limits.sessions:
                raise WireError("full")
            if hosted.sessions >= most:
                raise WireError("full", f"{hosted.title} has at most {most:,} sessions at a router")
            session = self._new_session(principal, greeting)
        elif session.stream is not None:
            former = session.stream
            session.detach()
            former.fail(WireError("replaced"))
        if session.expiry is not None:
            session.expiry.cancel()
            session.expiry = None
        stream.agree("from client", self.limits.client_frame)
        stream.on_message = session.take
        stream.on_end = partial(self._client_gone, session)
        stream.polite = True
        self.counts.sessions_resumed += resumed
        credit = self.limits.credit, self.limits.credit_bytes
        newest = session.received, *credit, session.requested
        stream.send(m.Opened(self.node, session.key, resumed, *newest))
        session.attach(stream, *said)

    def _check_application(self, name: str, principal: Principal) -> None:
        if not principal.may_use(name):
            raise WireError("denied")
        if name not in self.applications:
            known = ", ".join(filter(None, self.applications)) or "none"
            raise WireError("application", f"expected one of {known}, found {name!r:.60}")
        if name in self.layers and not self.layers[name].may_use:
            raise WireError("application", f"{name} is sealed, and {self.node} has no key for it")

    def _new_session(self, principal: Principal, greeting: m.Open) -> Session:
        key = f"{self.entropy(192):048x}"
        self._sessions_made += 1
        mailbox = self._store.open(key)
        session = Session(self, key, self._sessions_made, principal, mailbox, greeting)
        self.sessions[key] = session
        session.hosted.sessions += 1
        self.counts.sessions += 1
        return session

    def _client_gone(self, session: Session, stream: Stream, error: Exception | None) -> None:
        """The connection of a session has ended; the session waits for another."""
        self.doorway.ended(stream, error)
        if session.stream is stream:
            session.detach()
            if session.key in self.sessions:
                linger = round(self.settings.linger_s * SECOND)
                expire = partial(self.end_session, session, "expired")
                session.expiry = self.timers.after(linger, expire)

    def end_session(self, session: Session, why: str) -> None:
        """Forget a client and all its subscriptions."""
        if self.sessions.pop(session.key, None) is None:
            return
        session.hosted.sessions -= 1
        session.detach()
        for number in session.subscriptions.values():
            self.unsubscribe(number)
        session.subscriptions.clear()
        for id, _ in session.advertised.values():
            self.unadvertise(id)
        session.advertised.clear()
        session.end()
        self._store.remove(session.key)
        journal("session ended", node=self.node, session=session.number, why=why)

    # Links

    def link_to(self, neighbour: str) -> Link:
        """The link to a neighbour, made if there is none yet."""
        if neighbour == self.node:
            raise WireError("denied", "a router cannot be its own neighbour")
        found = self.links.get(neighbour)
        if found is None:
            calls = self.packet, self.probes.came, self.probes.found
            found = Link(neighbour, *calls, self.limits, self.shares)
            self.links[neighbour] = found
        return found

    def beginning(self) -> int:
        """A new name for the numbers of a link."""
        return self.entropy(52) + 1

    def greeting(self, token: str, cost: int, began: int, known: int, heard: int) -> m.Join:
        """The first message to a neighbour."""
        runs = self.settings.chosen.agreement
        return m.Join(m.VERSION, self.node, self.life, token, cost, began, known, heard, runs)

    def check_protocol(self, join: m.Join) -> None:
        """Refuse a neighbour that runs another protocol, or the same with other options."""
        mine = self.settings.chosen.agreement
        if join.protocol and join.protocol != mine:
            raise WireError("protocol", f"{join.node} runs {join.protocol}, {self.node} {mine}")

    def join(
        self, stream: Stream, link: Link, join: m.Join, began: int, again: bool, dialled: bool
    ) -> None:
        """Use a new connection to a neighbour, after both ends have said what they hold.

        They go on where they were if they do `again`, or begin anew with the numbers `began`.
        """
        former = link.stream
        if former is not None:
            link.detach()
            former.fail(WireError("replaced"))
        timer = self._down.pop(link.neighbour, None)
        if timer is not None:
            timer.cancel()
        stream.agree("between", self.limits.router_frame)
        stream.on_message = link.take
        stream.on_end = partial(self._neighbour_gone, link)
        link.dialled = dialled
        if not again:
            self._link_lost(link)
            link.reset(join.life, began, join.began)
        link.cost = max(link.cost, join.cost)
        link.attach(stream, join.heard, again)
        self.naming.linked()
        if not link.up:
            link.up = True
            self.happen(LinkUp(link.neighbour, link.cost))
        journal(
            "link made", node=self.node, neighbour=link.neighbour, again=again, peer=stream.peer
        )

    def _neighbour_gone(self, link: Link, stream: Stream, error: Exception | None) -> None:
        """The connection of a link has ended; the link waits for another."""
        self.doorway.ended(stream, error)
        if is_name(error):
            self.naming.yielded()
        if link.stream is stream:
            link.detach()
            link.broken_at = self.timers.now
            grace = 0 if link.leaving else round(self.settings.grace_s * SECOND)
            self._down[link.neighbour] = self.timers.after(grace, partial(self._link_down, link))

    def _link_down(self, link: Link) -> None:
        """A link has not reconnected within its grace period."""
        timer = self._down.pop(link.neighbour, None)
        if timer is not None:
            timer.cancel()
        if link.stream is None:
            self._link_lost(link)
            link.reset(0)
            if not self.dialler.knows(link.neighbour):  # it dials us, if it comes back at all
                self.links.pop(link.neighbour, None)

    def _link_lost(self, link: Link) -> None:
        if link.up:
            link.up = False
            self.counts.links_lost += 1
            self.happen(LinkDown(link.neighbour))
            journal("link lost", node=self.node, neighbour=link.neighbour)

    # Figures for people and programs

    def status(self) -> dict[str, Any]:
        """The state and the counters of the router, as JSON."""
        protocol = self.protocol
        sessions = self.sessions.values()
        return {
            "node": self.node,
            "protocol": self.settings.protocol,
            "up_s": round((self.timers.now - self._started_at) / SECOND, 1),
            "settled": protocol.is_settled(),
            "epoch": self.epoch,
            "sessions": len(self.sessions),
            "connected": sum(s.stream is not None for s in sessions),
            "subscriptions": sum(len(one.edge) for one in self.applications.values()),
            "announcements": sum(one.edge.announcements for one in self.applications.values()),
            "loading": Growing.table_of is None,
            "counts": asdict(self.counts),
            "drops": dict(sorted(self.drops.items())),
            "waiting": sum(len(s.mailbox) for s in sessions),
            "waiting_bytes": sum(s.mailbox.size + s.notice_bytes for s in sessions),
            "dropped": sum(s.dropped for s in sessions),
            "links": {name: link.status() for name, link in sorted(self.links.items())},
            "interests": {
                name: text if len(text) <= 200 else text[:199] + "…"
                for name, text in sorted(protocol.table.items())
            },
            "applications": self._figures(),
            "topology": protocol.snapshot().get("topology", 0),
            "figures": self.figures(),
            "reaches": sorted(protocol.hops or ()),
        }

    def _figures(self) -> dict[str, Any]:
        """What there is to say about each application that has a name."""
        sent: Counter[str] = Counter()
        for link in self.links.values():
            sent.update(link.sent_of)
        named = {name: one for name, one in self.applications.items() if name}
        return {name: figures(one, self.layers[name], sent) for name, one in named.items()}

    def figures(self) -> dict[str, int]:
        """What the protocol counts of itself, if it does."""
        count = getattr(self.protocol, "figures", None)
        return {} if count is None else dict(count())

    def troubles(self) -> list[str]:
        """Why this router does not serve everyone as it should; empty if it does."""
        found = [f"no link to {place}" for place in self.dialler.missing()]
        if not self.protocol.is_settled():
            found.append("routes are not settled")
        if self.naming.has_yielded:
            found.append(f"another router has the name {self.node}")
        held = sum(session.is_held for session in self.sessions.values())
        if held:
            found.append(f"{held} publishers wait for slow subscribers")
        return found

    def explain(
        self, number: int, event: dict[str, Any], application: str = ""
    ) -> dict[str, Any] | None:
        """Whether a subscription would get an event, and why; None if it is not at this router."""
        edge = self.applications[application].edge
        predicate = edge.predicates.get(number)
        if predicate is None:
            return None
        return {
            "matches": predicate.matches(event),
            "established": edge.is_established(number),
            "predicate": str(predicate),
            "explanation": str(predicate.explain(event)),
        }
