"""The asyncio client: a `ClientCore` on sockets, with futures for its answers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from tidings.language.predicate import Predicate
from tidings.live.access import client_tls
from tidings.live.client_core import Address, Change, ClientCore, Options, Position
from tidings.live.errors import DisconnectedError, NetworkError, TimedOutError
from tidings.live.inbox import Tiding
from tidings.live.limits import LIMITS, Limits
from tidings.live.sockets import Clock, Socket
from tidings.live.subscription import Subscription

Result = TypeVar("Result")

USES_TLS: Final = {"tidings": False, "tidings+tls": True}
PORT: Final = 7_471
SOME: Final = 64  # publications between two looks whether there is room for more
TURN: Final = 8 * SOME  # publications between two turns of the event loop


class Outcome:
    """The outcome of one or more publications: how many are open, and the first error."""

    __slots__ = ("_future", "error", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.error: Exception | None = None
        self._future: asyncio.Future[None] | None = None

    def settled(self, count: int, error: Exception | None) -> None:
        """So many publications have been acknowledged, or have failed."""
        self.waiting -= count
        if error is not None and self.error is None:
            self.error = error
        if not self.waiting and self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def all(self) -> None:
        """Wait for all of them; raises the first error."""
        if self.waiting:
            self._future = asyncio.get_running_loop().create_future()
            await self._future
        if self.error is not None:
            raise self.error


class Client:
    """A connection to the network; made by `connect`.

    Verbs that wait take `timeout_s`; past it they raise `TimedOutError`. Each can be cancelled.
    """

    def __init__(
        self,
        addresses: tuple[Address, ...],
        token: str = "",
        policy: str = "block",
        window: int = 1_024,
        authority: Path | None = None,
        timeout_s: float | None = 10.0,
        on_change: Callable[[Change], None] | None = None,
        limits: Limits = LIMITS,
        position: Position | None = None,
        application: str = "",
    ) -> None:
        self.replies: asyncio.Queue[tuple[int, dict[str, Any]]] = asyncio.Queue(limits.replies)
        self.unanswered: asyncio.Queue[tuple[int, str]] = asyncio.Queue(limits.replies)
        self._clock = Clock()
        self._core = ClientCore(
            Options(addresses, token, policy, window, application),
            self,
            self._clock.timers,
            limits,
        )
        self._core.on_change = self._changed
        self._core.on_reply = self._replied
        self._core.on_unanswered = self._not_replied
        self.resumed: Subscription | None = None  # the subscription of the position
        if position is not None:
            self.resumed = Subscription(self, self._core.resume(position))
        self._on_change = on_change
        self._timeout_s = timeout_s  # to connect
        self._tls: ssl.SSLContext | None = None
        if any(address.tls for address in addresses):
            self._tls = client_tls(authority)
        self._connecting: asyncio.Task[None] | None = None
        self._open: asyncio.Future[None] | None = None

    # Figures

    @property
    def node(self) -> str:
        """The name of the router that it is connected to."""
        return self._core.node

    @property
    def dropped(self) -> int:
        """How many deliveries the router has dropped under policy `drop`."""
        return self._core.dropped

    @property
    def reconnections(self) -> int:
        """How often it has reconnected."""
        return self._core.reconnections

    @property
    def interruptions(self) -> int:
        """How often the session was lost, and events may have been missed."""
        return self._core.interruptions

    # Life

    async def start(self) -> None:
        """Connect; tries all addresses, again and again, until the timeout."""
        self._open = asyncio.get_running_loop().create_future()
        with self._clock:
            self._core.start()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._open
        except TimeoutError:
            where = ", ".join(map(str, self._core.options.addresses))
            why = self._core.trouble or "no answer"
            await self.close()
            raise TimedOutError(f"cannot connect to {where}: {why}") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the session, after waiting for the acknowledgements of all publications."""
        core = self._core
        if core.is_open and core.failure is None:
            try:
                async with asyncio.timeout(core.limits.closing / 1e9):
                    await self.flush()
            except (NetworkError, TimeoutError):
                pass
        with self._clock:
            core.close()
        if self._connecting is not None:
            self._connecting.cancel()
        await asyncio.sleep(0)
        self._clock.stop()

    def position(self, subscription: Subscription, taken: int) -> Position:
        """Where this client stands once it has taken deliveries up to a number."""
        return self._core.position(subscription._inbox, taken)

    async def leave(self) -> None:
        """Disconnect, but leave the session to whoever resumes it from its `position`."""
        with self._clock:
            self._core.leave()
        if self._connecting is not None:
            self._connecting.cancel()
        await asyncio.sleep(0)
        self._clock.stop()

    def ended(self) -> Exception:
        """Why the client does not go on."""
        return self._core.failure or DisconnectedError("closed", "the subscription has ended")

    async def within(self, timeout_s: float | None, work: Coroutine[Any, Any, Result]) -> Result:
        """What a coroutine returns; `TimedOutError` if it takes longer."""
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except TimeoutError as error:
            if isinstance(error, NetworkError):
                raise
            raise TimedOutError(f"no answer in {timeout_s} s") from None

    # Publishing

    async def publish(
        self, event: Mapping[str, Any], level: str = "received", timeout_s: float | None = None
    ) -> int:
        """Publish an event, and wait until it has got as far as `level` says.

        `received`: the router has it. `routed`: the next routers on its path have it too.
        `delivered`: everyone whose established subscription it matches has taken it. Returns the
        number that replies to it carry.
        """
        if timeout_s is not None:
            return await self.within(timeout_s, self.publish(event, level))
        outcome = Outcome()
        if not self._core.has_room:
            await self._room()
        outcome.waiting = 1
        number = self._core.publish(event, level, outcome.settled)
        await outcome.all()
        return number

    async def publish_all(
        self,
        events: Iterable[Mapping[str, Any]],
        level: str = "received",
        timeout_s: float | None = None,
    ) -> int:
        """Publish many events without waiting for each; return how many, when all are acknowledged.

        Raises the first error, after the other events have been published; an event that cannot be
        sent raises at once, and those after it are not published.
        """
        if timeout_s is not None:
            return await self.within(timeout_s, self.publish_all(events, level))
        core, outcome = self._core, Outcome()
        count, coming = 0, iter(events)
        while True:
            if not core.has_room:
                await self._room()
            some = core.publish_some(islice(coming, SOME), level, outcome.settled)
            outcome.waiting += some
            count += some
            if some < SOME:
                break
            if count % TURN == 0:
                await asyncio.sleep(0)
        await outcome.all()
        return count

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything published so far is acknowledged as received."""
        if timeout_s is not None:
            return await self.within(timeout_s, self.flush())
        while self._core.unreceived:
            if self._core.failure is not None:
                raise self._core.failure
            await self._wait_for_room()
        return None

    async def _room(self) -> None:
        """Wait until there is room for another publication."""
        while not self._core.has_room and self._core.failure is None:
            await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._core.when_room(partial(_resolve, future))
        await future

    # Subscribing

    async def subscribe(
        self, predicate: Predicate | str, wait: bool = True, timeout_s: float | None = None
    ) -> Subscription:
        """Subscribe; return when it is established, or without `wait` when it is accepted."""
        accepted: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with self._clock:
            inbox = self._core.subscribe(predicate, partial(_answer, accepted))
        subscription = Subscription(self, inbox)
        try:
            await self.within(timeout_s, self._accepted(subscription, accepted, wait))
        except BaseException:  # the caller never gets it, so nobody would read its events
            with self._clock:
                self._core.give_up(inbox)
            raise
        return subscription

    async def _accepted(
        self, subscription: Subscription, accepted: asyncio.Future[Any], wait: bool
    ) -> None:
        await accepted
        if wait:
            await subscription.established()

    def give_up(self, subscription: Subscription) -> None:
        """Unsubscribe without waiting for the answer."""
        with self._clock:
            self._core.give_up(subscription._inbox)

    async def replace(
        self,
        subscription: Subscription,
        predicate: Predicate | str,
        timeout_s: float | None = None,
    ) -> None:
        """Give a subscription another predicate, and wait until it is established."""
        await self._asked(timeout_s, self._core.replace, subscription._inbox, predicate)
        await subscription.established(timeout_s)

    async def unsubscribe(
        self, which: Subscription | Predicate | str, timeout_s: float | None = None
    ) -> None:
        """End a subscription: this one, or the oldest of this client with an equal predicate."""
        inbox = which._inbox if isinstance(which, Subscription) else self._core.held(which)
        await self._asked(timeout_s, self._core.unsubscribe, inbox)

    async def advertise(self, predicate: Predicate | str, timeout_s: float | None = None) -> int:
        """Declare what this client publishes; return its number when it is in force.

        From then on what it publishes reaches every established subscription. The router refuses
        an event that matches none of the client's advertisements.
        """
        number: int = await self._asked(timeout_s, self._core.advertise, predicate)
        return number

    async def unadvertise(
        self, which: int | Predicate | str, timeout_s: float | None = None
    ) -> None:
        """Withdraw an advertisement: by its number, or the oldest with an equal predicate."""
        await self._asked(timeout_s, self._core.unadvertise, which)

    async def feedback(
        self, event: Tiding, reply: Mapping[str, Any], timeout_s: float | None = None
    ) -> int:
        """Reply to the publisher of an event, who finds (number, reply) in its `replies`.

        Returns the number of this reply. If the publisher has gone, `unanswered` gets that number
        and the reason.
        """
        number: int = await self._asked(timeout_s, self._core.feedback, event, reply)
        return number

    async def ask(
        self,
        kind: str,
        event: Mapping[str, Any] | None = None,
        subscription: str = "",
        timeout_s: float | None = None,
    ) -> list[dict[str, Any]]:
        """Ask the network: `trace` or `why` about an event, or `status` of the routers."""
        findings: list[dict[str, Any]] = await self._asked(
            timeout_s, self._core.ask, kind, event or {}, subscription
        )
        return findings

    async def _asked(self, timeout_s: float | None, verb: Callable[..., Any], *what: Any) -> Any:
        """Carry out a verb of the core, and wait for its answer."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with self._clock:
            verb(*what, partial(_answer, future))
        return await self.within(timeout_s, _value(future))

    # What the core asks of its host

    def connect(self, address: Address) -> None:
        """Try to connect to a router."""
        self._connecting = asyncio.get_running_loop().create_task(self._connect(address))

    async def _connect(self, address: Address) -> None:
        core = self._core
        tls = self._tls if address.tls else None
        try:
            await asyncio.wait_for(
                asyncio.get_running_loop().create_connection(
                    lambda: Socket(self._clock, core.limits.high_water, core.connected),
                    address.host,
                    address.port,
                    ssl=tls,
                    server_hostname=address.host if tls is not None else None,
                ),
                core.limits.greeting / 1e9,
            )
        except (OSError, TimeoutError, UnicodeError) as error:  # the last: no name of a host
            with self._clock:
                if isinstance(error, ssl.SSLCertVerificationError) and not core.node:
                    core.close(DisconnectedError("denied", str(error)))
                else:
                    core.unconnected(error)

    def _changed(self, change: Change) -> None:
        if self._open is not None and not self._open.done():
            if change.kind == "failed" and self._core.failure is not None:
                self._open.set_exception(self._core.failure)
            elif change.kind in ("connected", "reconnected", "interrupted"):
                self._open.set_result(None)
        if self._on_change is not None:
            asyncio.get_running_loop().call_soon(self._on_change, change)

    def _replied(self, number: int, reply: dict[str, Any]) -> None:
        if not self.replies.full():
            self.replies.put_nowait((number, reply))

    def _not_replied(self, number: int, reason: str) -> None:
        if not self.unanswered.full():
            self.unanswered.put_nowait((number, reason))


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _answer(future: asyncio.Future[Any], error: Exception | None, answer: Any) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)
        future.exception()  # retrieved, so that asyncio does not complain if nobody awaits


async def _value(future: asyncio.Future[Any]) -> Any:
    return await future


def read_url(url: str) -> Address:
    """The address of a router, from `tidings://HOST:PORT` or `tidings+tls://HOST:PORT`.

    >>> read_url("tidings://localhost:7000")
    Address(host='localhost', port=7000, tls=False)
    """
    parts = urlsplit(url if "://" in url else f"tidings://{url}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in USES_TLS or not parts.hostname or port == -1:
        raise ValueError(f"expected tidings://HOST:PORT or tidings+tls://HOST:PORT, found {url!r}")
    return Address(parts.hostname, port or PORT, USES_TLS[parts.scheme])
