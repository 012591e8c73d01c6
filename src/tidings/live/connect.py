"""`tidings.connect`, for asyncio programs and for blocking ones.

    async with tidings.connect("tidings://127.0.0.1:7471") as net:
        await net.publish({"severity": 3})

    with tidings.connect("tidings://127.0.0.1:7471") as net:
        net.publish({"severity": 3})

The blocking client runs an event loop in a thread of its own and waits for its results.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tidings.language.predicate import Predicate
from tidings.live.client import Client, read_url
from tidings.live.client_core import Change
from tidings.live.inbox import Tiding
from tidings.live.subscription import Subscription

Result = TypeVar("Result")


class BlockingSubscription:
    """An iterator of the matching events."""

    def __init__(self, net: BlockingClient, inner: Subscription) -> None:
        self._net = net
        self._inner = inner

    @property
    def name(self) -> str:
        """The subscription's name in the network, for `tidings why`."""
        return self._inner.name

    @property
    def interruptions(self) -> int:
        """How often the session was lost, and events may have been missed."""
        return self._inner.interruptions

    def get(self, timeout_s: float | None = None) -> Tiding | None:
        """The next event; None if none arrives in time or the subscription has ended."""
        try:
            return self._net._wait(asyncio.wait_for(self._inner.__anext__(), timeout_s))
        except (StopAsyncIteration, TimeoutError):
            return None

    def replace(self, predicate: Predicate | str, timeout_s: float | None = None) -> None:
        """Change the predicate; events that match both are neither missed nor repeated."""
        self._net._wait(self._inner.replace(predicate, timeout_s))

    def unsubscribe(self, timeout_s: float | None = None) -> None:
        """End the subscription; the iterator ends after the events that have arrived."""
        self._net._wait(self._inner.unsubscribe(timeout_s))

    def __enter__(self) -> BlockingSubscription:
        return self

    def __exit__(self, *error: object) -> None:
        self._net._wait(self._inner.__aexit__(*error))

    def __iter__(self) -> Iterator[Tiding]:
        return self

    def __next__(self) -> Tiding:
        try:
            return self._net._wait(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class BlockingClient:
    """The verbs of `Client` for blocking code."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        """Connect."""
        self._thread.start()
        try:
            self._client = self._wait(self._begin())
        except BaseException:
            self._stop()
            raise

    async def _begin(self) -> Client:
        client = self._make()
        await client.start()
        return client

    def close(self) -> None:
        """End the session, after waiting for the acknowledgements of all publications."""
        try:
            self._wait(self._client.close())
        finally:
            self._stop()

    @property
    def node(self) -> str:
        """The name of the router that it is connected to."""
        return self._client.node

    @property
    def dropped(self) -> int:
        """How many deliveries the router has dropped under policy `drop`."""
        return self._client.dropped

    @property
    def reconnections(self) -> int:
        """How often it has reconnected."""
        return self._client.reconnections

    @property
    def interruptions(self) -> int:
        """How often the session was lost, and events may have been missed."""
        return self._client.interruptions

    def publish(
        self, event: Mapping[str, Any], level: str = "received", timeout_s: float | None = None
    ) -> int:
        """Publish an event, and wait until it has got as far as `level` says; return its number."""
        return self._wait(self._client.publish(event, level, timeout_s))

    def publish_all(
        self,
        events: Iterable[Mapping[str, Any]],
        level: str = "received",
        timeout_s: float | None = None,
    ) -> int:
        """Publish many events; return how many, when all are acknowledged."""
        return self._wait(self._client.publish_all(events, level, timeout_s))

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything published so far is acknowledged as received."""
        self._wait(self._client.flush(timeout_s))

    def subscribe(
        self, predicate: Predicate | str, wait: bool = True, timeout_s: float | None = None
    ) -> BlockingSubscription:
        """Subscribe; return when it is established, or without `wait` when it is accepted."""
        return BlockingSubscription(
            self, self._wait(self._client.subscribe(predicate, wait, timeout_s))
        )

    def unsubscribe(self, predicate: Predicate | str, timeout_s: float | None = None) -> None:
        """End the oldest subscription of this client with an equal predicate."""
        self._wait(self._client.unsubscribe(predicate, timeout_s))

    def advertise(self, predicate: Predicate | str, timeout_s: float | None = None) -> int:
        """Declare what this client publishes; return its number when it is in force."""
        return self._wait(self._client.advertise(predicate, timeout_s))

    def unadvertise(self, which: int | Predicate | str, timeout_s: float | None = None) -> None:
        """Withdraw an advertisement: by its number, or the oldest with an equal predicate."""
        self._wait(self._client.unadvertise(which, timeout_s))

    def feedback(
        self, event: Tiding, reply: Mapping[str, Any], timeout_s: float | None = None
    ) -> int:
        """Reply to the publisher of an event; return the number of the reply."""
        return self._wait(self._client.feedback(event, reply, timeout_s))

    def ask(
        self,
        kind: str,
        event: Mapping[str, Any] | None = None,
        subscription: str = "",
        timeout_s: float | None = None,
    ) -> list[dict[str, Any]]:
        """Ask the network: `trace` or `why` about an event, or `status` of the routers."""
        return self._wait(self._client.ask(kind, event, subscription, timeout_s))

    def reply(self, timeout_s: float | None = None) -> tuple[int, dict[str, Any]] | None:
        """The next reply: the publication's number and the reply; None if none arrives in time."""
        try:
            return self._wait(asyncio.wait_for(self._client.replies.get(), timeout_s))
        except TimeoutError:
            return None

    def unanswered(self, timeout_s: float | None = None) -> tuple[int, str] | None:
        """The next reply of ours whose publisher has gone: its number and why; None if in time
        there is none."""
        try:
            return self._wait(asyncio.wait_for(self._client.unanswered.get(), timeout_s))
        except TimeoutError:
            return None

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        outcome = asyncio.run_coroutine_threadsafe(_shielded(work), self._loop).result()
        if outcome.error is not None:
            raise outcome.error
        result: Result = outcome.result
        return result

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Outcome(NamedTuple):
    """The result of a coroutine or its error: futures cannot carry a StopAsyncIteration."""

    result: Any
    error: Exception | None


async def _shielded(work: Coroutine[Any, Any, Any]) -> _Outcome:
    try:
        return _Outcome(await work, None)
    except Exception as error:
        return _Outcome(None, error)


class Connector:
    """What `connect` returns: `async with` gives a `Client`, `with` a `BlockingClient`."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._client: Client | None = None
        self._blocking: BlockingClient | None = None

    async def __aenter__(self) -> Client:
        self._client = self._make()
        await self._client.start()
        return self._client

    async def __aexit__(self, *error: object) -> None:
        if self._client is not None:
            await self._client.close()

    def __enter__(self) -> BlockingClient:
        self._blocking = BlockingClient(self._make)
        self._blocking.start()
        return self._blocking

    def __exit__(self, *error: object) -> None:
        if self._blocking is not None:
            self._blocking.close()


def connect(
    url: str | Sequence[str] = "tidings://127.0.0.1:7471",
    *,
    token: str = "",
    policy: str = "block",
    window: int = 1_024,
    authority: str | Path | None = None,
    timeout_s: float | None = 10.0,
    on_change: Callable[[Change], None] | None = None,
    application: str = "",
) -> Connector:
    """Connect to a router: `async with connect(url) as net`, or `with` in blocking code.

    With several addresses, the client goes on at the next one when a router does not answer.
    `policy` says what the router does if this client does not take its deliveries in time: it makes
    publishers wait (`block`), drops the oldest deliveries (`drop`), or disconnects the client
    (`disconnect`). `window` is how many deliveries the router sends ahead. `authority` is a file of
    the certificates that `tidings+tls` trusts. `timeout_s` bounds how long it tries to connect at
    first; once connected it reconnects for ever. `on_change` is called in the client's event loop
    with each `Change` of the connection. `application` names one of those that share the network:
    the client publishes and gets its events, and no others.
    """
    urls = (url,) if isinstance(url, str) else tuple(url)
    addresses = tuple(read_url(one) for one in urls)
    place = Path(authority) if authority is not None else None
    given = addresses, token, policy, window, place, timeout_s, on_change
    return Connector(partial(Client, *given, application=application))
