"""A live router: the short loop that connects a protocol to sockets, clocks and clients.

Everything that happens becomes a cause. The protocol answers with actions, which become packets on
links and deliveries in sessions. This file knows sockets, clocks and connections, and nothing of
how routes are found. All of it runs in one thread, so it needs no locks.

Feedback to a publisher travels as an event too, under reserved names that no client can publish or
receive. Every router announces interest in the feedback addressed to it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from tidings.language.predicate import Predicate
from tidings.live.access import Access, Principal, check_event, server_tls
from tidings.live.connection import Connection
from tidings.live.dialling import GREETING_S, keep_link
from tidings.live.edge import FEW, Edge, Growing
from tidings.live.flow import Gate
from tidings.live.journal import journal
from tidings.live.link import Link
from tidings.live.pending import Pending
from tidings.live.probes import Probes
from tidings.live.recorder import Recorder
from tidings.live.session import Session
from tidings.live.settings import Settings
from tidings.live.store import Memory, Store
from tidings.routing.packets import Advertisement, Packet, Publication, Reply
from tidings.routing.planes.interests import LONG
from tidings.routing.protocol import (
    Action,
    Cause,
    Deliver,
    Drop,
    Established,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Send,
    Subscribe,
    Unsubscribe,
    Woken,
)
from tidings.routing.protocols import PROTOCOLS
from tidings.wire import messages as m
from tidings.wire.errors import WireError
from tidings.wire.frames import MAX_CLIENT, MAX_ROUTER

MAX_CONNECTIONS: Final = 10_000
MAX_SESSIONS: Final = 20_000  # of clients that are connected or may come back
MAX_UNGREETED: Final = 1_000  # connections that have not said who they are
REMEMBERED: Final = 65_536  # publications whose publisher the router remembers, for feedback
FEEDBACK: Final = "feedback"  # the id of the announcement that attracts feedback
TO, LIFE, NUMBER = "tidings:to", "tidings:life", "tidings:number"


@dataclass
class Counts:
    """Counters for `status` and `/metrics`."""

    published: int = 0
    refused: int = 0
    delivered: int = 0
    late: int = 0  # events dropped because a later one overtook them while routes changed
    dropped_packets: int = 0
    malformed: int = 0  # connections ended because of malformed input
    sessions: int = 0
    sessions_resumed: int = 0
    links_lost: int = 0


class Router:
    """A node on real sockets.

    `async with Router(Settings("a")) as router:` runs one, which listens on `router.port`.
    """

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self.settings = settings
        self.node = settings.node
        self.life = secrets.randbits(52) + 1
        self.access = Access(settings.principals)
        self.counts = Counts()
        self.epoch = 0
        self.port = 0
        self.links: dict[str, Link] = {}
        self.sessions: dict[str, Session] = {}
        self._matchers: list[Growing] = []
        self.edge = Edge(self._announce, self._matcher())
        self.drops: dict[str, int] = {}
        self.probes = Probes(self)
        self.protocol = PROTOCOLS[settings.protocol].make(
            self.node, self.life, settings.timing, matcher=self._matcher
        )
        self._store: Store = store or Memory()
        self._held: dict[int, tuple[Session, int]] = {}  # by number: session, its id
        self._numbers = 0
        self._sessions_made = 0
        self._newest: dict[str, tuple[int, int]] = {}  # by source: life, newest number delivered
        self._publishers: dict[int, tuple[Session, int]] = {}
        self._published = 0  # as the protocol counts them
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at: int | None = None
        self._ungreeted: dict[Connection, asyncio.TimerHandle] = {}
        self._owners: dict[Connection, Session | Link] = {}
        self._down: dict[str, asyncio.TimerHandle] = {}  # links within their grace period
        self._tasks: list[asyncio.Task[Any]] = []
        self._preparing: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._recorder: Recorder | None = None
        self._pending: tuple[Pending | None, Pending | None] = (None, None)
        self._gate: Gate | None = None
        self._started_ns = time.monotonic_ns()

    # Start and stop

    async def start(self) -> None:
        """Listen, and connect to the neighbours."""
        settings = self.settings
        if settings.record is not None:
            self._recorder = Recorder(
                settings.record, self.node, self.life, settings.protocol, settings.timing
            )
        tls = None
        if settings.certificate is not None and settings.key is not None:
            tls = server_tls(settings.certificate, settings.key)
        loop = asyncio.get_running_loop()
        self.happen(Subscribe(FEEDBACK, f'"{TO}" = {_quoted(self.node)}'))
        self._server = await loop.create_server(
            self._accept, settings.host, settings.port, ssl=tls, backlog=512
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks += [loop.create_task(keep_link(self, dial)) for dial in settings.links]
        journal("listening", node=self.node, host=settings.host, port=self.port)

    async def stop(self) -> None:
        """Tell everyone that this router stops, and close everything."""
        self.happen(Leave())
        for task in self._tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
        for timer in (*self._down.values(), *self._ungreeted.values()):
            timer.cancel()
        for connection in [*self._owners, *self._ungreeted]:
            connection.fail(WireError("stopping"))
        for session in list(self.sessions.values()):
            self.end_session(session, "stopping")
        if self._wake is not None:
            self._wake.cancel()
        await asyncio.sleep(0)
        if self._recorder is not None:
            self._recorder.close()
        journal("stopped", node=self.node)

    async def __aenter__(self) -> Router:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def _prepare(self) -> None:
        """Load the compiler of tables in a thread, if that has not begun yet."""
        if self._preparing is None:
            self._preparing = asyncio.get_running_loop().create_task(self._load())
            self._tasks.append(self._preparing)

    async def _load(self) -> None:
        if Growing.table_of is None:
            await asyncio.to_thread(Growing.prepare)
        for matcher in self._matchers:
            matcher.grow()

    def _matcher(self) -> Growing:
        """A matcher that will be compiled when the compiler is loaded."""
        self._matchers.append(Growing())
        return self._matchers[-1]

    # The loop around the protocol

    def happen(self, cause: Cause) -> None:
        """Let the protocol handle a cause, and carry out its actions."""
        now = time.monotonic_ns()
        actions = self.protocol.handle(cause, now)
        if self._recorder is not None:
            self._recorder.write(now, cause, actions)
        if actions:
            self._act(actions)
        is_event = isinstance(cause, Publish) or (
            isinstance(cause, Received) and type(cause.packet) is Publication
        )
        if not is_event:  # events change no timer
            self._arm()

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            kind = type(action)
            if kind is Send:
                self._send(action.neighbour, action.packet)  # type: ignore[union-attr]
            elif kind is Deliver:
                self._deliver(action)  # type: ignore[arg-type]
            elif kind is Established:
                self._established(action.subscriptions)  # type: ignore[union-attr]
            elif kind is Drop:
                self.counts.dropped_packets += 1
                reason = action.reason  # type: ignore[union-attr]
                self.drops[reason] = self.drops.get(reason, 0) + 1
            else:
                raise TypeError(f"expected an action, found {action!r}")

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
            delay = max(0, at - time.monotonic_ns()) / 1e9
            self._wake = asyncio.get_running_loop().call_later(delay, self._woken)

    def _woken(self) -> None:
        self._wake = None
        self.happen(Woken())

    # Events

    def publish(
        self, session: Session, number: int, event: dict[str, Any], level: int, follow: Any
    ) -> Gate | None:
        """A client publishes an event; return the gate of a full queue on its path, if any."""
        self.counts.published += 1
        self._gate = None
        self._pending = (
            follow if level == m.ROUTED else None,
            follow if level == m.DELIVERED else None,
        )
        publishers = self._publishers
        self._published += 1
        publishers[self._published] = session, number
        if len(publishers) > REMEMBERED:
            del publishers[next(iter(publishers))]
        cause = Publish(event)
        now = time.monotonic_ns()
        actions = self.protocol.handle(cause, now)  # as `happen`, except for the timer
        if self._recorder is not None:
            self._recorder.write(now, cause, actions)
        if actions:
            self._act(actions)
        self._pending = (None, None)
        return self._gate

    def _packet(self, link: Link, packet: Packet, follow: Pending | None) -> Gate | None:
        """A neighbour has sent a packet; return the gate of a full queue on its path, if any."""
        if type(packet) is Publication:
            reason = check_event(packet.event, reserved=TO in packet.event)
            if reason is not None:
                raise WireError("malformed", reason)
        self._gate = None
        self._pending = (None, follow)
        self.happen(Received(link.neighbour, packet))
        self._pending = (None, None)
        if isinstance(packet, Advertisement | Reply):
            interests = getattr(self.protocol, "table", {}).values()
            if any(len(text) >= LONG for text in interests):
                self._prepare()
        return self._gate

    def _send(self, neighbour: str, packet: Packet) -> None:
        link = self.links.get(neighbour)
        if link is None:
            return
        if type(packet) is not Publication:
            link.send(packet, None, None)
            return
        link.send(packet, *self._pending)
        gate = link.flow.gate(packet.source)
        if gate is not None:
            self._gate = gate

    def _deliver(self, action: Deliver) -> None:
        publication = action.publication
        event = publication.event
        if TO in event:
            if event[TO] == self.node:
                self._feedback_came(event)
            return
        life, newest = self._newest.get(publication.source, (0, 0))
        if life == publication.life and publication.number <= newest:
            self.counts.late += 1
            return
        numbers = self.edge.match(event)
        if not numbers:
            return
        self._newest[publication.source] = publication.life, publication.number
        data = m.encode(event)
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
        for session, ids in by_session.items():
            session.deliver(ids, publication, data, follow)
            if session.gate.full:
                self._gate = session.gate

    # Subscriptions

    def subscribe(
        self, session: Session, id: int, number: int | None, predicate: Predicate
    ) -> tuple[int, bool]:
        """Add a subscription or replace its predicate: its number, whether it is established."""
        if number is None:
            self._numbers += 1
            number = self._numbers
            self._held[number] = session, id
            if len(self.edge) > FEW:
                self._prepare()
        return number, self.edge.put(number, predicate)

    def unsubscribe(self, number: int) -> None:
        """A client ends a subscription."""
        self.edge.remove(number)
        self._held.pop(number, None)

    def _announce(self, id: str, predicate: str | None) -> None:
        self.happen(Unsubscribe(id) if predicate is None else Subscribe(id, predicate))

    def _established(self, announcements: tuple[str, ...]) -> None:
        self.epoch += 1
        by_session: dict[Session, list[int]] = {}
        for number in self.edge.established(announcements):
            session, id = self._held[number]
            if session.subscriptions.get(id) == number:  # else `subscribe` has not returned yet
                by_session.setdefault(session, []).append(id)
        for session, ids in by_session.items():
            session.say(m.Established(ids, self.epoch))

    # Feedback

    def feedback(self, message: m.Feedback) -> None:
        """A client replies to the publisher of an event."""
        event = {
            TO: message.source,
            LIFE: message.life,
            NUMBER: message.number,
            "reply": message.reply,
        }
        self._published += 1
        self.happen(Publish(event))

    def _feedback_came(self, event: dict[str, Any]) -> None:
        if event.get(LIFE) == self.life:
            number = event.get(NUMBER)
            session, own = (
                self._publishers.get(number, (None, 0)) if type(number) is int else (None, 0)
            )
            reply = event.get("reply")
            if session is not None and isinstance(reply, dict):
                session.say(m.Reply(own, reply))

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
        if error:
            session.say(m.Answer(message.request, error, []))
            return
        self.probes.begin(session, message)

    # Connections

    def _accept(self) -> Connection:
        return Connection("greeting", self._greeted, self.ended, self._made)

    def _made(self, connection: Connection) -> None:
        if len(self._ungreeted) >= MAX_UNGREETED or len(self._owners) >= MAX_CONNECTIONS:
            connection.fail(WireError("full"))
            return
        loop = asyncio.get_running_loop()
        self._ungreeted[connection] = loop.call_later(
            GREETING_S, connection.fail, WireError("silent")
        )

    def _greeted(self, connection: Connection, message: Any) -> None:
        """The first message on a connection that a client or a neighbour made."""
        timer = self._ungreeted.pop(connection, None)
        if timer is not None:
            timer.cancel()
        kind = type(message)
        if kind not in (m.Open, m.Join):
            raise WireError("out-of-turn", f"a {kind.__name__} for a greeting")
        if message.version != m.VERSION:
            raise WireError("version", f"{message.version}, here it is {m.VERSION}")
        if kind is m.Open:
            self._open(connection, message)
        else:
            self.access.router(message.token)
            link = self.link_to(message.node)
            answer = link.greeting(m.VERSION, self.node, self.life, "", link.cost)
            self._refuse_second(link, message)
            connection.send(answer)
            self.join(connection, link, message, dialled=False)

    def ended(self, connection: Connection, error: Exception | None) -> None:
        """A connection has ended; its session or link waits for another."""
        timer = self._ungreeted.pop(connection, None)
        if timer is not None:
            timer.cancel()
        if isinstance(error, WireError) and error.code in ("damaged", "malformed", "too-long"):
            self.counts.malformed += 1
        owner = self._owners.pop(connection, None)
        if error is not None:
            journal("connection ended", node=self.node, peer=connection.peer, why=str(error))
        if isinstance(owner, Session) and owner.connection is connection:
            owner.detach()
            if owner.key in self.sessions:
                loop = asyncio.get_running_loop()
                linger = self.settings.linger_s
                owner.expiry = loop.call_later(linger, self.end_session, owner, "expired")
        elif isinstance(owner, Link) and owner.connection is connection:
            owner.detach()
            loop = asyncio.get_running_loop()
            grace = 0.0 if owner.leaving else self.settings.grace_s
            self._down[owner.neighbour] = loop.call_later(grace, self._link_down, owner)

    # Clients

    def _open(self, connection: Connection, message: m.Open) -> None:
        principal = self.access.principal(message.token)
        if message.policy not in m.POLICIES:
            raise WireError("out-of-turn", f"the policies are {', '.join(m.POLICIES)}")
        session = self.sessions.get(message.session) if message.session else None
        if session is not None and session.principal is not principal:
            raise WireError("denied")
        resumed = session is not None
        if session is None:
            if len(self.sessions) >= MAX_SESSIONS:
                raise WireError("full")
            session = self._new_session(principal, message)
        elif session.connection is not None:
            former, session.connection = session.connection, None
            self._owners.pop(former, None)
            former.gather = None
            former.fail(WireError("replaced"))
        if session.expiry is not None:
            session.expiry.cancel()
            session.expiry = None
        connection.agree("from client", MAX_CLIENT)
        connection.on_message = session.take
        self._owners[connection] = session
        self.counts.sessions_resumed += resumed
        connection.send(m.Opened(self.node, session.key, resumed, session.mailbox.published))
        connection.polite = True
        session.attach(connection, *((message.heard, message.noticed) if resumed else (0, 0)))

    def _new_session(self, principal: Principal, message: m.Open) -> Session:
        key = secrets.token_urlsafe(24)
        self._sessions_made += 1
        mailbox = self._store.open(key)
        session = Session(self, key, self._sessions_made, principal, mailbox, message)
        self.sessions[key] = session
        self.counts.sessions += 1
        return session

    def end_session(self, session: Session, why: str) -> None:
        """Forget a client and all its subscriptions."""
        if self.sessions.pop(session.key, None) is None:
            return
        session.detach()
        for number in session.subscriptions.values():
            self.unsubscribe(number)
        session.subscriptions.clear()
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
            found = Link(neighbour, self._packet, self.probes.came, self.probes.found)
            self.links[neighbour] = found
        return found

    def _refuse_second(self, link: Link, join: m.Join) -> None:
        """If two routers dial each other at once, keep the connection that the lesser name made."""
        alive = link.connection is not None and link.connection.open
        if alive and link.dialled and self.node < link.neighbour and join.life == link.life:
            raise WireError("linked", self.node)

    def join(self, connection: Connection, link: Link, join: m.Join, dialled: bool) -> None:
        """Use a new connection to a neighbour, after both ends have said what they hold."""
        former = link.connection
        if former is not None:
            self._owners.pop(former, None)
            link.detach()
            former.fail(WireError("replaced"))
        timer = self._down.pop(link.neighbour, None)
        if timer is not None:
            timer.cancel()
        connection.agree("between", MAX_ROUTER)
        connection.on_message = link.take
        self._owners[connection] = link
        link.dialled = dialled
        again = link.resumes(join, self.life)
        if not again:
            self._link_lost(link)
            link.reset(join.life)
        link.cost = max(link.cost, join.cost)
        link.attach(connection, join.heard, again)
        if not link.up:
            link.up = True
            self.happen(LinkUp(link.neighbour, link.cost))
        journal(
            "link made", node=self.node, neighbour=link.neighbour, again=again, peer=connection.peer
        )

    def _link_down(self, link: Link) -> None:
        """A link has not reconnected within its grace period."""
        self._down.pop(link.neighbour, None)
        if link.connection is None:
            self._link_lost(link)
            link.reset(0)

    def _link_lost(self, link: Link) -> None:
        if link.up:
            link.up = False
            self.counts.links_lost += 1
            self.happen(LinkDown(link.neighbour))
            journal("link lost", node=self.node, neighbour=link.neighbour)

    # Figures for people and programs

    def status(self) -> dict[str, Any]:
        """The state and the counters of the router, as JSON."""
        state = self.protocol.snapshot()
        return {
            "node": self.node,
            "scheme": self.settings.scheme,
            "up_s": round((time.monotonic_ns() - self._started_ns) / 1e9, 1),
            "settled": state.get("settled", True),
            "epoch": self.epoch,
            "sessions": len(self.sessions),
            "connected": sum(s.connection is not None for s in self.sessions.values()),
            "subscriptions": len(self.edge),
            "announcements": self.edge.announcements,
            "loading": self._preparing is not None and not self._preparing.done(),
            "counts": asdict(self.counts),
            "drops": dict(sorted(self.drops.items())),
            "waiting": sum(len(s.mailbox) for s in self.sessions.values()),
            "dropped": sum(s.dropped for s in self.sessions.values()),
            "links": {name: link.status() for name, link in sorted(self.links.items())},
            "interests": {
                name: text if len(text) <= 200 else text[:199] + "…"
                for name, text in state.get("table", {}).items()
            },
            "topology": state.get("topology", 0),
            "reaches": sorted(state.get("hops", {})),
        }

    def explain(self, number: int, event: dict[str, Any]) -> dict[str, Any] | None:
        """Whether a subscription would get an event, and why; None if it is not at this router."""
        predicate = self.edge.predicates.get(number)
        if predicate is None:
            return None
        return {
            "matches": predicate.matches(event),
            "established": self.edge.is_established(number),
            "predicate": str(predicate),
            "explanation": str(predicate.explain(event)),
        }


def _quoted(text: str) -> str:
    """A string as a literal of the predicate language."""
    return "'" + text.replace("'", "''") + "'"
