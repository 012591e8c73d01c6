"""A client without sockets and clock: it publishes, subscribes, and resumes its session.

After a break the client reconnects, says what it has received and what its program has taken, and
sends again what the router has not acknowledged; the router skips what it already has. If the
router has lost the session, for example in a crash, the client subscribes again. It then reports
the publications in flight as unknown rather than send them twice, and each subscription counts an
interruption. With several addresses it goes on at the next one.

The client acknowledges a delivery when the program takes it out of its inbox, so a slow program is
never flooded. A *host* makes its connections; results come back through functions that the caller
gives. The asyncio client (`client`) and the simulator run the same code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from tidings.language.errors import EventError
from tidings.language.predicate import Predicate, parse
from tidings.live.errors import (
    DisconnectedError,
    NetworkError,
    RefusedError,
    UnknownOutcomeError,
)
from tidings.live.inbox import Inbox, Share, Tiding
from tidings.live.limits import LIMITS, Limits
from tidings.live.outbox import Outbox, Settled
from tidings.live.stream import Stream, Transport
from tidings.live.timers import Timer, Timers
from tidings.wire import messages as m
from tidings.wire.errors import WireError
from tidings.wire.events import PLAIN, as_sent

# Codes of `Failed` after which the client does not reconnect.
FATAL: Final = (
    *("denied", "application", "version", "out-of-turn"),
    *("malformed", "slow", "replaced"),
)
SOURCES: Final = 4_096  # routers whose newest event a client remembers
Answered = Callable[[Exception | None, Any], None]

_decode_event = msgspec.msgpack.Decoder(dict[str, Any]).decode


class Address(NamedTuple):
    """Where a router listens."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Options(NamedTuple):
    """How a client connects."""

    addresses: tuple[Address, ...]
    token: str = ""
    policy: str = "block"
    window: int = 1_024  # deliveries that the router sends ahead
    application: str = ""


class Change(NamedTuple):
    """Something has happened to the connection.

    `kind` is `connected`, `disconnected`, `reconnected` (the session goes on, nothing is lost),
    `interrupted` (a new session, events may be missed) or `failed` (the client cannot go on).
    """

    kind: str
    detail: str


class Position(msgspec.Struct, frozen=True):
    """Where a subscriber stands in its session: another process can go on from here.

    It has the key of the session, so whoever reads it can take the session over: a secret.
    """

    session: str
    taken: int  # deliveries
    noticed: int  # notices
    requested: int
    subscription: int  # its number; a position has one subscription
    predicate: str


class ClientHost(Protocol):
    """What a client needs of the world."""

    def connect(self, address: Address) -> None:
        """Try to connect; then call `connected` or `unconnected`."""


class Asked(NamedTuple):
    """A request, and whom to tell the answer."""

    message: Any
    answered: Answered


class ClientCore:
    """A session with the network, driven by its host."""

    def __init__(
        self, options: Options, host: ClientHost, timers: Timers, limits: Limits = LIMITS
    ) -> None:
        if options.policy not in m.POLICIES:
            known = ", ".join(m.POLICIES)
            raise ValueError(f"policy: expected one of {known}, found {options.policy!r}")
        if type(options.window) is not int or not 1 <= options.window <= m.MAX_WINDOW:
            raise ValueError(
                f"window: expected an integer from 1 to {m.MAX_WINDOW}, found {options.window!r}"
            )
        if not m.is_name(options.application):
            raise ValueError(
                f"application: expected a name of at most {m.MAX_NAME} characters, "
                f"found {options.application!r:.60}"
            )
        if not m.is_name(options.token):
            raise ValueError(f"token: expected a text of at most {m.MAX_NAME} characters")
        if not options.addresses:
            raise ValueError("expected the address of a router, found none")
        self.options = options
        self.timers = timers
        self.limits = limits
        self.node = ""  # the router's name
        self.dropped = 0  # deliveries that the router dropped under policy `drop`
        self.reconnections = 0
        self.interruptions = 0
        self.failure: Exception | None = None
        self.trouble: Exception | None = None  # why the last attempt to connect failed
        self.on_change: Callable[[Change], None] | None = None
        self.on_reply: Callable[[int, dict[str, Any]], None] | None = None
        self.on_unanswered: Callable[[int, str], None] | None = None
        self.inboxes: dict[int, Inbox] = {}
        self._host = host
        self._place = 0  # of the address in use
        self._delay = limits.redial[0]
        self._opened_at = 0
        self._stream: Stream | None = None
        self._timer: Timer | None = None
        self._session = ""
        self._inherited: Inbox | None = None  # that of a position, until a router knows it
        self._heard = 0
        # By source, its life and the newest number of its events: delivered, and before this
        # session. What another router delivers of these would come twice.
        self._newest: dict[str, tuple[int, int]] = {}
        self._before: dict[str, tuple[int, int]] = {}
        self._dropped_before = 0  # in former sessions
        self._unacknowledged: deque[Share] = deque()
        self._take_due = 0
        self._take_said = 0
        self._noticed = 0  # notices of this session
        self._noticed_said = 0
        self._outbox = Outbox(limits)
        self._asked: dict[int, Asked] = {}  # requests in flight
        self._unasked: deque[Asked] = deque()
        self._request = 0
        self._subscribed = 0
        self.advertisements: dict[int, str] = {}
        self._advertised = 0
        # Requests that say so again in a new session, before anything is published.
        self._declaring: set[int] = set()
        self._closing = False

    # Connections

    @property
    def is_open(self) -> bool:
        """Whether a connection stands and its greeting is over."""
        stream = self._stream
        return stream is not None and stream.open and stream.conversation != "greeting"

    def start(self) -> None:
        """Connect, again and again until it succeeds or cannot."""
        self._host.connect(self.options.addresses[self._place])

    def connected(self, transport: Transport) -> Stream:
        """A connection stands: greet."""
        limits = self.limits
        stream = Stream(self.timers, limits, transport, self._greeted, self._lost)
        if self.failure is not None:
            stream.abort()
            return stream
        self._stream = stream
        self._time(limits.greeting, partial(self._too_late, stream))
        stream.send(
            m.Open(
                m.VERSION,
                self.options.token,
                self._session,
                self._heard,
                self._take_due,
                self._noticed,
                self.options.policy,
                self.options.window,
                self.options.application,
            )
        )
        return stream

    def position(self, inbox: Inbox, taken: int) -> Position:
        """Where the client stands once its program has taken deliveries up to a number."""
        told = self._session, taken, self._noticed, self._request
        return Position(*told, inbox.id, inbox.predicate)

    def resume(self, position: Position) -> Inbox:
        """Before the first connection: go on where another process stood."""
        self._session = position.session
        self._heard = self._take_due = self._take_said = position.taken
        self._noticed = self._noticed_said = position.noticed
        self._request = position.requested
        self._subscribed = position.subscription
        inbox = Inbox(position.subscription, position.predicate, self._taken)
        inbox.accepted = True
        self.inboxes[inbox.id] = self._inherited = inbox
        return inbox

    def unconnected(self, why: Exception) -> None:
        """A connection could not be made: try the next address, after a while."""
        if self.failure is not None:
            return
        self.trouble = why
        self._place = (self._place + 1) % len(self.options.addresses)
        self._time(self._delay, self.start)
        self._delay = min(2 * self._delay, self.limits.redial[1])

    def close(self, why: Exception | None = None) -> None:
        """End the session at once."""
        self._closing = True
        if self.is_open and self._stream is not None:
            self._stream.send(m.Close())
            self._stream.close()
        elif self._stream is not None:
            self._stream.abort()
        self._fail(why or DisconnectedError("closed", "the client is closed"), ending=why is None)

    def leave(self) -> None:
        """Disconnect, and leave the session to whoever resumes it from a `position`."""
        self._closing = True
        if self._stream is not None:
            self._stream.abort()
        self._fail(DisconnectedError("closed", "the client has left"), ending=True)

    def _too_late(self, stream: Stream) -> None:
        stream.error = NetworkError(f"{self.options.addresses[self._place]} does not answer")
        stream.abort()

    def _greeted(self, stream: Stream, message: Any) -> None:
        if type(message) is m.Failed:
            raise _error_of(message)
        if type(message) is not m.Opened:
            raise WireError("out-of-turn", f"a {type(message).__name__} for a greeting")
        if self._timer is not None:
            self._timer.cancel()
        stream.agree("to client", self.limits.client_frame)
        stream.on_message = self._message
        stream.gather = self._gather
        first = not self._session
        self.node = message.node
        self._session = message.session
        self._outbox.credit = message.credit, message.credit_bytes
        self._opened_at = self.timers.now
        if message.resumed:
            # Those that the router has are settled by `Published`, after the notices before it.
            self._outbox.send_again(message.published)
            self._take_said = 0
            for asked in self._asked.values():
                stream.send(asked.message)
            self._inherit(message.requested)
        elif not first:
            self._begin_anew(stream)
        self._inherited = None
        self._ask_more()
        self._tell_change(first, message.resumed)
        stream.schedule()

    def _inherit(self, requested: int) -> None:
        """Ask for the subscription of a position again, once.

        Other processes may have gone on from there before. They may have asked for another
        predicate, and the router skips requests whose numbers it knows.
        """
        if self._inherited is not None:
            self._request = max(self._request, requested)
            inbox = self._inherited
            again = m.Subscribe(self._next_request(), inbox.id, inbox.predicate)
            self._ask(again, partial(self._resubscribed, inbox))

    def _tell_change(self, first: bool, resumed: bool) -> None:
        if first:
            self._change("connected", self.node)
            return
        self.reconnections += 1
        if resumed:
            self._change("reconnected", self.node)
        else:
            self.interruptions += 1
            self._change("interrupted", f"{self.node} did not know the session")

    def _change(self, kind: str, detail: str) -> None:
        if self.on_change is not None:
            self.on_change(Change(kind, detail))

    def _begin_anew(self, stream: Stream) -> None:
        """The router lost the session: subscribe again, report as unknown what was in flight."""
        unknown = UnknownOutcomeError("the router lost the session before it acknowledged this")
        in_flight = self._outbox.begin_anew()
        self._heard = self._take_due = self._take_said = 0
        self._noticed = self._noticed_said = 0
        for share in self._unacknowledged:
            share.number = 0  # nothing of the new session
        self._unacknowledged.clear()
        self._before = dict(self._newest)
        self._dropped_before = self.dropped
        self._subscribe_again(unknown)
        for settled in in_flight:
            settled(1, unknown)
        self._outbox.make_room()

    def _subscribe_again(self, unknown: NetworkError) -> None:
        asked = [*self._asked.values(), *self._unasked]
        # What a session was lost before it had learned is declared below, and waited for.
        asked = [one for one in asked if one.message.request not in self._declaring]
        self._asked.clear()
        self._unasked.clear()
        leaving = {one.message.id for one in asked if type(one.message) is m.Unsubscribe}
        again = [one for one in self.inboxes.values() if one.accepted and one.id not in leaving]
        for inbox in self.inboxes.values():
            inbox.accepted = inbox.confirmed = False
            inbox.interruptions += 1
        advertising = {one.message.id for one in asked if type(one.message) is m.Advertise}
        self._declaring.clear()
        for id, text in self.advertisements.items():
            if id not in advertising:
                number = self._next_request()
                self._declaring.add(number)
                self._ask(m.Advertise(number, id, text), partial(self._declared, number))
        for inbox in again:  # those that no router had accepted are among the requests
            request = m.Subscribe(self._next_request(), inbox.id, inbox.predicate)
            self._ask(request, partial(self._resubscribed, inbox))
        for message, answered in asked:
            if type(message) is m.Unsubscribe or type(message) is m.Unadvertise:
                answered(None, m.Done(0, "", ""))
            elif type(message) is m.Advertise:
                declare = m.Advertise(self._next_request(), message.id, message.predicate)
                self._ask(declare, answered)
            elif type(message) is m.Subscribe and message.id not in leaving:
                self._ask(
                    m.Subscribe(self._next_request(), message.id, message.predicate), answered
                )
            else:
                answered(unknown, None)
        for inbox in list(self.inboxes.values()):
            inbox.changed()

    def _declared(self, request: int, error: Exception | None, done: Any) -> None:
        """The router knows again what this client publishes: go on publishing."""
        self._declaring.discard(request)
        if not self._declaring and self._stream is not None:
            self._stream.schedule()

    def _resubscribed(self, inbox: Inbox, error: Exception | None, done: Any) -> None:
        """Take the answer to a subscription that was made again; a refusal ends it."""
        if error is None:
            inbox.name = done.id
        elif isinstance(error, RefusedError):
            self.inboxes.pop(inbox.id, None)
            inbox.finish(error)

    def _lost(self, stream: Stream, error: Exception | None) -> None:
        """The connection has ended."""
        if stream is not self._stream or self._closing:
            return
        if self._timer is not None:
            self._timer.cancel()
        was_open = stream.conversation != "greeting"
        stream.gather = None
        self._stream = None
        why = error or ConnectionError("the connection was closed")
        if isinstance(error, WireError) and error.code in FATAL:
            self._fail(DisconnectedError(error.code, error.detail))
            return
        if was_open:
            self._change("disconnected", str(why))
            if self.timers.now - self._opened_at >= self.limits.redial[1]:
                self._delay = self.limits.redial[0]
        self.trouble = why
        self._time(self._delay, self.start)
        if not was_open:
            self._place = (self._place + 1) % len(self.options.addresses)
        self._delay = min(2 * self._delay, self.limits.redial[1])

    def _fail(self, error: Exception, ending: bool = False) -> None:
        """The client cannot go on: fail everything that waits."""
        if self.failure is not None:
            return
        self.failure = error
        if self._timer is not None:
            self._timer.cancel()
        self._outbox.fail(error)
        asked = [*self._asked.values(), *self._unasked]
        self._asked.clear()
        self._unasked.clear()
        for one in asked:
            one.answered(error, None)
        self._outbox.wake()
        for inbox in list(self.inboxes.values()):
            inbox.finish(True if ending else error)
        if not ending:
            self._change("failed", str(error))

    def _time(self, delay: int, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.timers.after(delay, call)

    # Publishing

    @property
    def has_room(self) -> bool:
        """Whether the program may publish now, or should wait with `when_room`."""
        return self._outbox.has_room

    @property
    def unreceived(self) -> int:
        """How many publications the router has not acknowledged as received."""
        return self._outbox.kept

    def when_room(self, call: Callable[[], None]) -> None:
        """Call a function when there is room again, or when the client cannot go on."""
        self._outbox.when_room(call)

    def publish(self, event: Mapping[str, Any], level: str, settled: Settled) -> int:
        """Publish an event; call `settled` when it has got as far as `level`, or why it has not.

        Returns the publication's number, which replies carry. An event that cannot be sent raises
        here.
        """
        self.publish_some((event,), level, settled)
        return self._outbox.published

    def publish_some(
        self, events: Iterable[Mapping[str, Any]], level: str, settled: Settled
    ) -> int:
        """Publish events, and return how many; call `settled` with how many of them have got as far
        as `level`, or why they have not.

        An event that cannot be sent raises here, and those before it are published.
        """
        if self.failure is not None:
            raise self.failure
        wanted = _level(level)
        data: list[bytes] = []
        try:
            for event in events:
                data.append(self._encoded(event, "the event")[1])  # noqa: PERF401  # until it raises
        finally:
            if data:
                self._outbox.keep(wanted, data, settled)
                if self._stream is not None:
                    self._stream.schedule()
        return len(data)

    def _gather(self) -> None:
        """Send everything that waits; the stream calls this just before it writes."""
        stream, limits = self._stream, self.limits
        if stream is None or stream.conversation == "greeting":
            return
        if self._take_said < self._take_due or self._noticed >= self._noticed_said + limits.notices:
            self._take_said = self._take_due
            self._noticed_said = self._noticed
            stream.send(m.Take(self._take_due, self._noticed))
        if self._declaring:
            return
        outbox = self._outbox
        while not stream.choked and (run := outbox.next()) is not None:
            events: list[Any] = list(map(msgspec.Raw, run.data))
            stream.send(m.Publish(run.first - outbox.base, run.level, events))

    # Requests

    def subscribe(self, predicate: Predicate | str, answered: Answered) -> Inbox:
        """Subscribe; `answered` hears whether the router accepts it."""
        text = self._predicate_text(predicate)
        if self.failure is not None:
            raise self.failure
        self._subscribed += 1
        inbox = Inbox(self._subscribed, text, self._taken)
        self.inboxes[inbox.id] = inbox

        def accepted(error: Exception | None, done: Any) -> None:
            if error is None:
                inbox.name = done.id
            else:
                self.inboxes.pop(inbox.id, None)
            answered(error, inbox)

        self._ask(m.Subscribe(self._next_request(), inbox.id, text), accepted)
        return inbox

    def give_up(self, inbox: Inbox) -> None:
        """Unsubscribe without waiting for the answer."""
        if self.inboxes.pop(inbox.id, None) is None or self.failure is not None:
            return
        inbox.release()
        inbox.finish(True)
        self._ask(m.Unsubscribe(self._next_request(), inbox.id), _ignore)

    def replace(self, inbox: Inbox, predicate: Predicate | str, answered: Answered) -> None:
        """Give a subscription another predicate; it is then not established for a while.

        If the router refuses it, the subscription goes on with the one that it has.
        """
        text = self._predicate_text(predicate)
        inbox.replacing += 1

        def accepted(error: Exception | None, done: Any) -> None:
            inbox.replacing -= 1
            if error is None:
                inbox.predicate = text
                if inbox.id not in self.inboxes:
                    # The subscription was refused in the meantime, and this was no replacement.
                    self._ask(m.Unsubscribe(self._next_request(), inbox.id), _ignore)
            answered(error, done)
            inbox.changed()

        self._ask(m.Subscribe(self._next_request(), inbox.id, text), accepted)

    def unsubscribe(self, inbox: Inbox, answered: Answered) -> None:
        """End a subscription; what has arrived can still be taken."""
        inbox.leaving = True

        def done(error: Exception | None, answer: Any) -> None:
            self.inboxes.pop(inbox.id, None)
            inbox.release()
            inbox.finish(True)
            answered(error, answer)

        self._ask(m.Unsubscribe(self._next_request(), inbox.id), done)

    def advertise(self, predicate: Predicate | str, answered: Answered) -> None:
        """Declare what this client publishes; the router then refuses any other event.

        `answered` hears the advertisement's number when it is in force.
        """
        text = self._predicate_text(predicate)
        self._advertised += 1
        id = self._advertised
        self.advertisements[id] = text

        def done(error: Exception | None, answer: Any) -> None:
            if error is not None:
                self.advertisements.pop(id, None)
            answered(error, id)

        self._ask(m.Advertise(self._next_request(), id, text), done)

    def unadvertise(self, which: int | Predicate | str, answered: Answered) -> None:
        """Withdraw an advertisement: by its number, or by an equal predicate, the oldest."""
        id = which if isinstance(which, int) else _oldest(self.advertisements, which)
        if id not in self.advertisements:
            raise RefusedError(f"there is no advertisement {which!r:.60}")
        del self.advertisements[id]
        self._ask(m.Unadvertise(self._next_request(), id), answered)

    def held(self, predicate: Predicate | str) -> Inbox:
        """The oldest subscription with an equal predicate."""
        held = self.inboxes.items()
        texts = {id: inbox.predicate for id, inbox in held if not inbox.leaving}
        found = self.inboxes.get(_oldest(texts, predicate))
        if found is None:
            raise RefusedError(f"there is no subscription {str(predicate)!r:.60}")
        return found

    def feedback(self, event: Tiding, reply: Mapping[str, Any], answered: Answered) -> None:
        """Reply to the publisher of an event; `answered` hears the reply's number.

        If the publisher has gone, `on_unanswered` hears that number and why.
        """
        if not isinstance(event, Tiding):
            raise RefusedError(f"expected a delivered event, found {type(event).__name__}")
        sent, _ = self._encoded(reply, "the reply")
        whose = event.source, event.life, event.number, event.ticket
        number = self._next_request()

        def done(error: Exception | None, answer: Any) -> None:
            answered(error, number)

        self._ask(m.Feedback(number, *whose, sent), done)

    def ask(
        self, kind: str, event: Mapping[str, Any], subscription: str, answered: Answered
    ) -> None:
        """Ask about the network; the answer is the findings of its routers."""
        if type(kind) is not str or type(subscription) is not str:
            raise RefusedError(f"expected texts, found {kind!r:.40} and {subscription!r:.40}")
        if len(kind) > m.MAX_NAME or len(subscription) > m.MAX_NAME:
            raise RefusedError(f"expected names of at most {m.MAX_NAME} characters")
        sent, _ = self._encoded(event, "the event")

        def found(error: Exception | None, answer: Any) -> None:
            if error is None and answer.error:
                error = RefusedError(answer.error)
            answered(error, answer.findings if error is None else None)

        self._ask(m.Ask(self._next_request(), kind, sent, subscription), found)

    def _next_request(self) -> int:
        self._request += 1
        return self._request

    def _ask(self, message: Any, answered: Answered) -> None:
        if self.failure is not None:
            answered(self.failure, None)
            return
        self._unasked.append(Asked(message, answered))
        self._ask_more()

    def _ask_more(self) -> None:
        """Send the requests that wait, as many as the router takes."""
        while self._unasked and self.is_open and len(self._asked) < self.limits.requests:
            asked = self._unasked.popleft()
            self._asked[asked.message.request] = asked
            if self._stream is not None:
                self._stream.send(asked.message)

    # What the router says

    def _message(self, stream: Stream, message: Any) -> None:
        kind = type(message)
        if kind in m.NOTICES:
            self._noticed += 1
            if self._noticed >= self._noticed_said + self.limits.notices:
                stream.schedule()
        if kind is m.Deliveries:
            for number, delivery in enumerate(message.items, message.first):
                self._delivery(number, delivery)
            stream.schedule()
        elif kind is m.Published:
            self._outbox.received(message.number)
            if self._outbox.waits:
                stream.schedule()
        elif kind is m.Reached:
            self._outbox.settle(message.numbers, None)
            lost = UnknownOutcomeError("not every subscriber confirmed it")
            self._outbox.settle(message.lost, lost)
        elif kind is m.Refused:
            self._outbox.settle([message.number], RefusedError(message.reason))
        elif kind is m.Done or kind is m.Answer:
            self._answered(message)
        elif kind is m.Established:
            for id in message.ids:
                inbox = self.inboxes.get(id)
                if inbox is not None:
                    inbox.epoch = message.epoch
                    inbox.confirmed = True
                    inbox.changed()
        elif kind is m.Dropped:
            self.dropped = self._dropped_before + message.count
        elif kind is m.Reply:
            if self.on_reply is not None:
                self.on_reply(self._outbox.base + message.number, message.reply)
        elif kind is m.Unanswered:
            if self.on_unanswered is not None:
                self.on_unanswered(message.request, message.reason)
        elif kind is m.Rejected:
            for id in message.ids:
                inbox = self.inboxes.pop(id, None)
                if inbox is not None:
                    inbox.finish(RefusedError(message.reason))
        elif kind is m.Failed:
            raise _error_of(message)
        elif kind is not m.Ping:
            raise WireError("out-of-turn", f"a {kind.__name__} from a router")

    def _answered(self, answer: Any) -> None:
        asked = self._asked.pop(answer.request, None)
        if asked is None:
            return
        message, answered = asked
        if type(answer) is m.Done and answer.error:
            answered(RefusedError(answer.error), None)
        else:
            if type(message) is m.Subscribe and message.id in self.inboxes:
                inbox = self.inboxes[message.id]
                inbox.accepted = True
                inbox.confirmed = False  # an `Established` before this was about the former one
            answered(None, answer)
        self._ask_more()

    def _delivery(self, number: int, delivery: m.Delivery) -> None:
        if number <= self._heard:
            return  # sent again, and received before
        self._heard = number
        share = Share(number)
        whose = delivery.source, delivery.life, delivery.number, delivery.ticket
        event: dict[str, Any] | None = None
        found = []
        for id in () if self._is_old(delivery) else delivery.ids:
            inbox = self.inboxes.get(id)
            if inbox is not None:
                if event is None:
                    event = _decode_event(delivery.event)
                share.left += 1
                found.append((inbox, Tiding(event, *whose)))
        self._unacknowledged.append(share)
        for inbox, tiding in found:
            inbox.put(tiding, share)
        if not found:
            self._acknowledge()

    def _is_old(self, delivery: m.Delivery) -> bool:
        """Whether an event may have come in a former session, from another router."""
        source, life, number = delivery.source, delivery.life, delivery.number
        if self._before:
            known, newest = self._before.get(source, (0, 0))
            if life == known and number <= newest:
                return True
        newest_of = self._newest
        if source not in newest_of and len(newest_of) >= SOURCES:
            del newest_of[next(iter(newest_of))]
        newest_of[source] = life, number
        return False

    def _taken(self, share: Share) -> None:
        """A subscription has handed an event to the program; acknowledge it when all have."""
        share.left -= 1
        if not share.left:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledge the deliveries, from the oldest on, that all subscriptions have taken."""
        waiting = self._unacknowledged
        if not waiting or waiting[0].left:
            return
        while waiting and not waiting[0].left:
            self._take_due = waiting.popleft().number
        if self._stream is not None:
            self._stream.schedule()

    # Arguments

    def _encoded(self, event: Mapping[str, Any], what: str) -> tuple[dict[str, Any], bytes]:
        """An event in types that messages carry, and as bytes; `RefusedError` if they cannot."""
        if type(event) is not dict and not isinstance(event, Mapping):
            raise RefusedError(f"{what}: expected a mapping, found {type(event).__name__}")
        try:
            if type(event) is dict and PLAIN.issuperset(map(type, event.values())):
                sent = event
            else:
                sent = as_sent(event)
            try:
                "".join(sent)  # the quickest test of all names
                data = m.encode(sent)
            except (TypeError, OverflowError, UnicodeEncodeError):
                sent = as_sent(event)  # raises an error that names the attribute
                data = m.encode(sent)
        except EventError as error:
            raise RefusedError(f"{what} cannot be sent: {error}") from None
        if len(data) > self.limits.event_bytes:
            raise RefusedError(f"{what} is larger than {self.limits.event_bytes} bytes")
        return sent, data

    def _predicate_text(self, predicate: Predicate | str) -> str:
        """The text of a predicate; `RefusedError` for one that is too long to send."""
        if not isinstance(predicate, Predicate | str):
            raise RefusedError(f"expected a predicate, found {type(predicate).__name__}")
        text = str(predicate)
        most = self.limits.predicate_length
        if len(text) > most:
            raise RefusedError(f"the predicate is longer than {most} characters")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RefusedError(f"the predicate: {error}") from None
        return text


def _level(level: str) -> int:
    if level not in m.LEVELS:
        raise ValueError(f"level: expected one of {', '.join(m.LEVELS)}, found {level!r}")
    return m.LEVELS[level]


def _oldest(texts: Mapping[int, str], which: Predicate | str) -> int:
    """The first id whose predicate equals another; 0 if there is none."""
    wanted = which if isinstance(which, Predicate) else parse(which)
    return next((id for id, text in texts.items() if parse(text) == wanted), 0)


def _error_of(message: m.Failed) -> WireError:
    try:
        return WireError(message.code, message.detail)
    except ValueError:
        return WireError("out-of-turn", f"an unknown error: {message.code!r:.40}")


def _ignore(error: Exception | None, answer: Any) -> None:
    """Nobody waits for this answer."""
