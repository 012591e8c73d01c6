"""What a client program holds: subscriptions, delivered events, outcomes of publications."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from tidings.language.predicate import Predicate

if TYPE_CHECKING:
    from tidings.live.client import Client


class NetworkError(Exception):
    """The network did not do what the program asked, and why."""


class RefusedError(NetworkError):
    """The router refused a publication or a request."""


class UnknownOutcomeError(NetworkError):
    """The router left before it acknowledged a publication; the client did not send it again."""


class Outcome:
    """The outcome of one or more publications: how many are open, and the first error."""

    __slots__ = ("_future", "error", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.error: Exception | None = None
        self._future: asyncio.Future[None] | None = None

    def resolve(self, error: Exception | None) -> None:
        """One publication has been acknowledged, or has failed."""
        self.waiting -= 1
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


class Tiding(dict[str, Any]):
    """A delivered event: a dict, with the fields that a reply to its publisher needs."""

    __slots__ = ("life", "number", "source")

    def __init__(self, event: dict[str, Any], source: str, life: int, number: int) -> None:
        super().__init__(event)
        self.source = source  # the router where it was published
        self.life = life
        self.number = number  # of the publication, within its router's life


class Subscription:
    """An async iterator of the matching events, in each publisher's order."""

    def __init__(self, client: Client, id: int, predicate: str) -> None:
        self.id = id
        self.predicate = predicate
        self.name = ""  # in the network, for `tidings why`
        self.epoch = 0
        self.interruptions = 0  # how often the session was lost, and events may have been missed
        self._client = client
        self._events: deque[tuple[Tiding, list[Any] | None]] = deque()
        self._waiting: set[asyncio.Future[None]] = set()  # of tasks that wait for an event
        self._established = asyncio.Event()
        self._over: Exception | bool = False

    async def established(self) -> int:
        """Wait until every router in reach knows the subscription; return its epoch."""
        await self._client._while_open(self._established.wait())
        return self.epoch

    async def replace(self, predicate: Predicate | str) -> None:
        """Change the predicate; events that match both are neither missed nor repeated."""
        await self._client.replace(self, predicate)

    async def unsubscribe(self) -> None:
        """End the subscription; the iterator ends after the events that have arrived."""
        await self._client.unsubscribe(self)

    def __aiter__(self) -> AsyncIterator[Tiding]:
        return self

    async def __anext__(self) -> Tiding:
        while not self._events:
            if self._over:
                if isinstance(self._over, Exception):
                    raise self._over
                raise StopAsyncIteration
            arrived = asyncio.get_running_loop().create_future()
            self._waiting.add(arrived)
            try:
                await arrived
            finally:
                self._waiting.discard(arrived)
        event, share = self._events.popleft()
        if share is not None:
            self._client._taken(share)
        return event

    def _put(self, event: Tiding, share: list[Any]) -> None:
        self._events.append((event, share))
        self._notify()

    def _release(self) -> None:
        """Acknowledge all arrived events, taken or not, so that they hold up nothing."""
        held, self._events = self._events, deque((event, None) for event, _ in self._events)
        for _, share in held:
            if share is not None:
                self._client._taken(share)

    def _finish(self, why: Exception | bool) -> None:
        self._over = why
        self._notify()

    def _notify(self) -> None:
        for arrived in self._waiting:
            if not arrived.done():
                arrived.set_result(None)
