"""The asyncio client: it publishes, subscribes, and resumes its session after a break.

After a break the client reconnects, says what it has received, and sends again what the router has
not acknowledged; the router skips what it already has. If the router has lost the session, for
example in a crash, the client subscribes again. It then reports the publications in flight as
unknown rather than send them twice, and each subscription counts an interruption.

The client acknowledges a delivery when the program takes it out of its iterator, so a slow program
is never flooded.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from tidings.language.errors import EventError
from tidings.language.predicate import Predicate
from tidings.live.access import MAX_EVENT_BYTES, client_tls
from tidings.live.connection import Connection
from tidings.live.subscription import (
    NetworkError,
    Outcome,
    RefusedError,
    Subscription,
    Tiding,
    UnknownOutcomeError,
)
from tidings.wire import messages as m
from tidings.wire.errors import WireError
from tidings.wire.events import PLAIN, as_sent
from tidings.wire.frames import MAX_CLIENT

WINDOW: Final = 32_768  # unacknowledged publications
WINDOW_BYTES: Final = 16 * 1024 * 1024
BATCH: Final = 512  # events in a frame
BATCH_BYTES: Final = 128 * 1024
NOTICES: Final = 128  # received before the client acknowledges them
GREETING_S: Final = 5.0
RECONNECT_S: Final = (0.05, 1.0)  # between attempts: doubles from the first to the second
USES_TLS: Final = {"tidings": False, "tidings+tls": True}
PORT: Final = 7_471
# Codes of `Failed` after which the client does not reconnect.
FATAL: Final = ("denied", "version", "out-of-turn", "malformed", "slow", "replaced")

_decode_event = msgspec.msgpack.Decoder(dict[str, Any]).decode


class Client:
    """A connection to the network; made by `connect`."""

    def __init__(
        self, url: str, token: str, policy: str, window: int, authority: Path | None
    ) -> None:
        self.host, self.port, tls = read_url(url)
        if policy not in m.POLICIES:
            raise ValueError(f"policy: expected one of {', '.join(m.POLICIES)}, found {policy!r}")
        self.node = ""  # the router's name
        self.dropped = 0  # deliveries that the router dropped under policy `drop`
        self.reconnections = 0
        self.replies: asyncio.Queue[tuple[int, dict[str, Any]]] = asyncio.Queue(65_536)
        self._token = token
        self._policy = policy
        self._window = window
        self._tls: ssl.SSLContext | None = client_tls(authority) if tls else None
        self._connection: Connection | None = None
        self._session = ""
        self._heard = 0
        self._unacknowledged: deque[list[Any]] = deque()  # number, subscriptions yet to take it
        self._take_due = 0
        self._take_said = 0
        self._noticed = 0  # notices of this session
        self._noticed_said = 0
        self._published = 0
        self._received = 0
        self._kept: deque[tuple[int, int, bytes]] = deque()  # number, level, event: until received
        self._kept_bytes = 0
        self._unsent = 0
        self._outcomes: dict[int, Outcome] = {}
        self._room: deque[asyncio.Future[None]] = deque()
        self._requests: dict[int, tuple[asyncio.Future[Any], Any]] = {}
        self._request = 0
        self._subscriptions: dict[int, Subscription] = {}
        self._subscribed = 0
        self._advertised: str | None = None
        self._opened: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._runner: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._closing = False

    # Life

    async def start(self) -> None:
        """Connect; raises an error if it cannot."""
        await self._connect()
        self._runner = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the session, after waiting for the acknowledgements of all publications."""
        self._closing = True
        if self._connection is not None and self._connection.open and self._failure is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.flush(), GREETING_S)
            if self._connection.open:
                self._connection.send(m.Close())
                self._connection.close()
        if self._runner is not None:
            self._runner.cancel()
        self._fail(NetworkError("the connection is closed"), ending=True)

    async def _run(self) -> None:
        """Reconnect whenever the connection ends; if that is a bug of ours, fail with it."""
        try:
            await self._reconnect()
        except Exception as error:
            self._fail(error)

    async def _reconnect(self) -> None:
        loop = asyncio.get_running_loop()
        delay = RECONNECT_S[0]
        while not self._closing:
            assert self._ended is not None
            since = loop.time()
            await self._ended
            if loop.time() - since >= RECONNECT_S[1]:
                delay = RECONNECT_S[0]
            else:  # backoff: the router ended it at once, and may do so again
                await asyncio.sleep(delay)
                delay = min(2 * delay, RECONNECT_S[1])
            while self._failure is None:
                try:
                    await self._connect()
                    break
                except WireError as error:
                    if error.code in FATAL:
                        self._fail(error)
                        return
                except (OSError, NetworkError):
                    pass
                await asyncio.sleep(delay)
                delay = min(2 * delay, RECONNECT_S[1])
            if self._failure is not None:
                return

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        opened = self._opened = loop.create_future()
        self._ended = loop.create_future()
        name = self.host if self._tls is not None else None
        _, connection = await loop.create_connection(
            lambda: Connection("greeting", self._greeted, self._lost, self._made),
            self.host,
            self.port,
            ssl=self._tls,
            server_hostname=name,
        )
        try:
            await asyncio.wait_for(opened, GREETING_S)
        except TimeoutError:
            connection.abort()
            raise NetworkError(f"{self.host}:{self.port} does not answer") from None

    def _made(self, connection: Connection) -> None:
        self._connection = connection
        connection.send(
            m.Open(
                m.VERSION,
                self._token,
                self._session,
                self._heard,
                self._noticed,
                self._policy,
                self._window,
            )
        )

    def _greeted(self, connection: Connection, message: Any) -> None:
        if type(message) is m.Failed:
            raise _error_of(message)
        if type(message) is not m.Opened:
            raise WireError("out-of-turn", f"a {type(message).__name__} for a greeting")
        connection.agree("to client", MAX_CLIENT)
        connection.on_message = self._message
        connection.gather = self._gather
        first = not self._session
        self.node = message.node
        self._session = message.session
        if not first:
            self.reconnections += 1
        if message.resumed:
            self._unsent = self._published - max(message.published, self._received)
            self._take_said = 0
            for _, sent in self._requests.values():
                connection.send(sent)
        elif not first:
            self._begin_anew(connection)
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)
        connection.schedule()

    def _begin_anew(self, connection: Connection) -> None:
        """The router lost the session: subscribe again, report as unknown what was in flight."""
        unknown = UnknownOutcomeError("the router lost the session before it acknowledged this")
        sent = len(self._kept) - self._unsent
        for _ in range(sent):
            number, _, data = self._kept.popleft()
            self._kept_bytes -= len(data)
            self._resolve(number, unknown)
        for number in [n for n in self._outcomes if not self._kept or n < self._kept[0][0]]:
            self._resolve(number, unknown)
        self._heard = self._take_due = self._take_said = 0
        self._noticed = self._noticed_said = 0
        self._unacknowledged.clear()
        # A new session counts from 1, so unsent publications get new numbers.
        waiting = list(self._kept)
        outcomes = {number: self._outcomes.pop(number, None) for number, _, _ in waiting}
        self._kept.clear()
        self._published = self._received = 0
        for number, level, event in waiting:
            self._published += 1
            self._kept.append((self._published, level, event))
            outcome = outcomes[number]
            if outcome is not None:
                self._outcomes[self._published] = outcome
        self._unsent = len(self._kept)
        self._make_room()
        requests, self._requests = self._requests, {}
        if self._advertised is not None:
            self._ask(m.Advertise(self._next_request(), self._advertised))
        subscribing = set()
        leaving = {
            sent_message.id
            for _, sent_message in requests.values()
            if isinstance(sent_message, m.Unsubscribe)
        }
        for future, sent_message in requests.values():
            if isinstance(sent_message, m.Unsubscribe) and not future.done():
                future.set_result(m.Done(0, "", ""))
            elif isinstance(sent_message, m.Subscribe):
                if sent_message.id in leaving:
                    continue
                subscribing.add(sent_message.id)
                again = m.Subscribe(self._next_request(), sent_message.id, sent_message.predicate)
                self._requests[again.request] = future, again
                connection.send(again)
            elif not future.done():
                future.set_exception(unknown)
        for id, subscription in self._subscriptions.items():
            subscription._established.clear()
            subscription.interruptions += 1
            if id not in subscribing and id not in leaving:
                request = m.Subscribe(self._next_request(), id, subscription.predicate)
                self._ask(request).add_done_callback(partial(_rename, subscription))

    def _lost(self, connection: Connection, error: Exception | None) -> None:
        """The connection has ended."""
        if connection is not self._connection:
            return
        connection.gather = None
        if isinstance(error, WireError) and error.code in FATAL:
            self._fail(error)
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(error or ConnectionError("the connection was closed"))
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _fail(self, error: Exception, ending: bool = False) -> None:
        """The client cannot go on: fail everything that waits."""
        if self._failure is not None:
            return
        self._failure = error
        for number in list(self._outcomes):
            self._resolve(number, error)
        for future, _ in list(self._requests.values()):
            if not future.done():
                future.set_exception(error)
                future.exception()  # retrieved, so that asyncio does not complain if nobody awaits
        for waiting in self._room:
            if not waiting.done():
                waiting.set_result(None)
        for subscription in self._subscriptions.values():
            subscription._finish(True if ending else error)
            subscription._established.set()

    async def _while_open(self, waiting: Awaitable[Any]) -> None:
        await waiting
        if self._failure is not None:
            raise self._failure

    # Publishing

    async def publish(self, event: Mapping[str, Any], level: str = "received") -> None:
        """Publish an event, and wait until it has got as far as `level` says.

        `received`: the router has it. `routed`: the next routers on its path have it too.
        `delivered`: everyone whose established subscription it matches has taken it.
        """
        outcome = Outcome()
        if not self._has_room():
            await self._wait_for_room()
        self._put(event, _level(level), outcome)
        await outcome.all()

    async def publish_all(
        self, events: Iterable[Mapping[str, Any]], level: str = "received"
    ) -> int:
        """Publish many events without waiting for each; return how many, when all are acknowledged.

        Raises the first error, after the other events have been published.
        """
        wanted = _level(level)
        outcome = Outcome()
        count = 0
        for event in events:
            if not self._has_room():
                await self._wait_for_room()
            self._put(event, wanted, outcome)
            count += 1
            if count % BATCH == 0:
                await asyncio.sleep(0)
        await outcome.all()
        return count

    async def flush(self) -> None:
        """Wait until everything published so far is acknowledged as received."""
        while self._kept and self._failure is None:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(waiting)
            await waiting

    def _has_room(self) -> bool:
        roomy = len(self._kept) < WINDOW and self._kept_bytes < WINDOW_BYTES
        return roomy and self._failure is None

    async def _wait_for_room(self) -> None:
        while not self._has_room():
            if self._failure is not None:
                raise self._failure
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(waiting)
            await waiting

    def _put(self, event: Mapping[str, Any], level: int, outcome: Outcome) -> None:
        data = _encoded(event, "the event")
        number = self._published = self._published + 1
        self._kept.append((number, level, data))
        self._kept_bytes += len(data)
        self._unsent += 1
        outcome.waiting += 1
        self._outcomes[number] = outcome
        if self._connection is not None:
            self._connection.schedule()

    def _gather(self) -> None:
        """Send everything that waits; the connection calls this just before it writes."""
        connection = self._connection
        if connection is None or connection.conversation == "greeting":
            return
        if self._take_said < self._take_due or self._noticed >= self._noticed_said + NOTICES:
            self._take_said = self._take_due
            self._noticed_said = self._noticed
            connection.send(m.Take(self._take_due, self._noticed))
        while self._unsent and not connection.choked:
            first, level, _ = self._kept[-self._unsent]
            events: list[Any] = []
            size = 0
            while self._unsent and len(events) < BATCH and size < BATCH_BYTES:
                _, own, data = self._kept[-self._unsent]
                if own != level or (events and size + len(data) > BATCH_BYTES):
                    break
                size += len(data)
                events.append(msgspec.Raw(data))
                self._unsent -= 1
            connection.send(m.Publish(first, level, events))

    def _received_up_to(self, number: int) -> None:
        kept = self._kept
        while kept and kept[0][0] <= number:
            one, level, data = kept.popleft()
            self._kept_bytes -= len(data)
            if level == m.RECEIVED:
                self._resolve(one, None)
        self._unsent = min(self._unsent, len(kept))
        self._received = max(self._received, number)
        self._make_room()

    def _make_room(self) -> None:
        if self._room and len(self._kept) < WINDOW // 2 and self._kept_bytes < WINDOW_BYTES // 2:
            room, self._room = self._room, deque()
            for waiting in room:
                if not waiting.done():
                    waiting.set_result(None)

    def _resolve(self, number: int, error: Exception | None) -> None:
        outcome = self._outcomes.pop(number, None)
        if outcome is not None:
            outcome.resolve(error)

    # Subscribing

    async def subscribe(self, predicate: Predicate | str, wait: bool = True) -> Subscription:
        """Subscribe; return when it is established, or without `wait` when it is accepted."""
        text = _predicate_text(predicate)
        self._subscribed += 1
        subscription = Subscription(self, self._subscribed, text)
        self._subscriptions[subscription.id] = subscription
        request = m.Subscribe(self._next_request(), subscription.id, subscription.predicate)
        try:
            done: m.Done = await self._ask(request)
            subscription.name = done.id
            if wait:
                await subscription.established()
        except NetworkError:
            self._subscriptions.pop(subscription.id, None)
            raise
        except asyncio.CancelledError:  # the caller never gets it, so nobody would read its events
            self._give_up(subscription)
            raise
        return subscription

    def _give_up(self, subscription: Subscription) -> None:
        """Unsubscribe without waiting for the answer."""
        if self._subscriptions.pop(subscription.id, None) is None or self._failure is not None:
            return
        subscription._release()
        subscription._finish(True)
        request = m.Unsubscribe(self._next_request(), subscription.id)
        self._ask(request).add_done_callback(lambda done: done.cancelled() or done.exception())

    async def replace(self, subscription: Subscription, predicate: Predicate | str) -> None:
        """Give a subscription another predicate, and wait until it is established."""
        text = _predicate_text(predicate)
        before = subscription.predicate
        subscription.predicate = text
        subscription._established.clear()
        try:
            await self._ask(m.Subscribe(self._next_request(), subscription.id, text))
        except RefusedError:
            subscription.predicate = before
            subscription._established.set()
            raise
        await subscription.established()

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription."""
        await self._ask(m.Unsubscribe(self._next_request(), subscription.id))
        self._subscriptions.pop(subscription.id, None)
        subscription._release()
        subscription._finish(True)

    async def advertise(self, predicate: Predicate | str) -> None:
        """Declare what this client publishes; the router then refuses any other event."""
        text = _predicate_text(predicate)
        await self._ask(m.Advertise(self._next_request(), text))
        self._advertised = text

    async def feedback(self, event: Tiding, reply: Mapping[str, Any]) -> None:
        """Reply to the publisher of an event, who finds (number, reply) in its `replies`."""
        sent, _ = _checked(reply, "the reply")
        await self._ask(
            m.Feedback(self._next_request(), event.source, event.life, event.number, sent)
        )

    async def ask(
        self, kind: str, event: Mapping[str, Any] | None = None, subscription: str = ""
    ) -> list[dict[str, Any]]:
        """Ask the network: `trace` or `why` about an event, or `status` of the routers."""
        sent, _ = _checked(event or {}, "the event")
        answer: m.Answer = await self._ask(m.Ask(self._next_request(), kind, sent, subscription))
        if answer.error:
            raise RefusedError(answer.error)
        return answer.findings

    def _next_request(self) -> int:
        self._request += 1
        return self._request

    def _ask(self, request: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            future.set_exception(self._failure)
            return future
        self._requests[request.request] = future, request
        connection = self._connection
        if connection is not None and connection.open and connection.conversation != "greeting":
            connection.send(request)
        return future

    # What the router says

    def _message(self, connection: Connection, message: Any) -> None:
        kind = type(message)
        if kind in m.NOTICES:
            self._noticed += 1
            if self._noticed >= self._noticed_said + NOTICES:
                connection.schedule()
        if kind is m.Deliveries:
            for number, delivery in enumerate(message.items, message.first):
                self._delivery(number, delivery)
            connection.schedule()
        elif kind is m.Published:
            self._received_up_to(message.number)
        elif kind is m.Reached:
            for number in message.numbers:
                self._resolve(number, None)
            for number in message.lost:
                self._resolve(number, UnknownOutcomeError("not every subscriber confirmed it"))
        elif kind is m.Refused:
            self._resolve(message.number, RefusedError(message.reason))
        elif kind is m.Done or kind is m.Answer:
            future, request = self._requests.pop(message.request, (None, None))
            if type(request) is m.Subscribe and request.id in self._subscriptions:
                # An `Established` before this was about the former predicate.
                self._subscriptions[request.id]._established.clear()
            if future is not None and not future.done():
                if kind is m.Done and message.error:
                    future.set_exception(RefusedError(message.error))
                else:
                    future.set_result(message)
        elif kind is m.Established:
            for id in message.ids:
                subscription = self._subscriptions.get(id)
                if subscription is not None:
                    subscription.epoch = message.epoch
                    subscription._established.set()
        elif kind is m.Dropped:
            self.dropped = message.count
        elif kind is m.Reply:
            if not self.replies.full():
                self.replies.put_nowait((message.number, message.reply))
        elif kind is m.Failed:
            raise _error_of(message)
        elif kind is not m.Ping:
            raise WireError("out-of-turn", f"a {kind.__name__} from a router")

    def _delivery(self, number: int, delivery: m.Delivery) -> None:
        if number <= self._heard:
            return  # sent again, and received before
        self._heard = number
        share = [number, 0]
        source, life, origin = delivery.source, delivery.life, delivery.number
        event: dict[str, Any] | None = None
        for id in delivery.ids:
            subscription = self._subscriptions.get(id)
            if subscription is not None:
                if event is None:
                    event = _decode_event(delivery.event)
                share[1] += 1
                subscription._put(Tiding(event, source, life, origin), share)
        if not self._unacknowledged and not share[1]:
            self._take_due = number
        else:
            self._unacknowledged.append(share)

    def _taken(self, share: list[Any]) -> None:
        """A subscription has handed an event to the program; acknowledge it when all have."""
        share[1] -= 1
        waiting = self._unacknowledged
        if share[1] or not waiting or waiting[0][1]:
            return
        while waiting and not waiting[0][1]:
            self._take_due = waiting.popleft()[0]
        if self._connection is not None:
            self._connection.schedule()


def _rename(subscription: Subscription, done: asyncio.Future[Any]) -> None:
    """Take the answer to a subscription that was made again; a refusal ends its iterator."""
    if done.cancelled():
        return
    error = done.exception()
    if error is None:
        subscription.name = done.result().id
    elif isinstance(error, RefusedError):
        subscription._finish(error)


def _encoded(event: Mapping[str, Any], what: str) -> bytes:
    """An event as bytes; `RefusedError` for one that the network cannot carry."""
    return _checked(event, what)[1]


def _checked(event: Mapping[str, Any], what: str) -> tuple[dict[str, Any], bytes]:
    """An event in types that messages carry, and as bytes."""
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
    if len(data) > MAX_EVENT_BYTES:
        raise RefusedError(f"{what} is larger than {MAX_EVENT_BYTES} bytes")
    return sent, data


def _predicate_text(predicate: Predicate | str) -> str:
    """The text of a predicate; `RefusedError` for one that is too long to send."""
    text = str(predicate)
    if len(text) > m.MAX_PREDICATE:
        raise RefusedError(f"the predicate is longer than {m.MAX_PREDICATE} characters")
    return text


def _level(level: str) -> int:
    if level not in m.LEVELS:
        raise ValueError(f"level: expected one of {', '.join(m.LEVELS)}, found {level!r}")
    return m.LEVELS[level]


def _error_of(message: m.Failed) -> WireError:
    try:
        return WireError(message.code, message.detail)
    except ValueError:
        return WireError("out-of-turn", f"an unknown error: {message.code!r:.40}")


def read_url(url: str) -> tuple[str, int, bool]:
    """The host, the port and whether to use TLS, from `tidings://HOST:PORT` or `tidings+tls://…`.

    >>> read_url("tidings://localhost:7000")
    ('localhost', 7000, False)
    """
    parts = urlsplit(url if "://" in url else f"tidings://{url}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in USES_TLS or not parts.hostname or port == -1:
        raise ValueError(f"expected tidings://HOST:PORT or tidings+tls://HOST:PORT, found {url!r}")
    return parts.hostname, port or PORT, USES_TLS[parts.scheme]
