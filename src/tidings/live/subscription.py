"""What an asyncio program holds of a subscription: an iterator of the matching events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tidings.language.predicate import Predicate
from tidings.live.inbox import Inbox, Tiding

if TYPE_CHECKING:
    from tidings.live.client import Client


class Subscription:
    """An async iterator of the matching events, in each publisher's order.

    Several tasks may iterate over one subscription; each event goes to one of them. `async with`
    unsubscribes at the end of the block.
    """

    def __init__(self, client: Client, inbox: Inbox) -> None:
        self._client = client
        self._inbox = inbox
        self._waiting: set[asyncio.Future[None]] = set()  # of tasks that wait for a change
        inbox.on_change = self._notify

    @property
    def id(self) -> int:
        """The client's number for it."""
        return self._inbox.id

    @property
    def predicate(self) -> str:
        """The text of the predicate."""
        return self._inbox.predicate

    @property
    def name(self) -> str:
        """Its name in the network, for `tidings why`."""
        return self._inbox.name

    @property
    def epoch(self) -> int:
        """The router's epoch in which it was established."""
        return self._inbox.epoch

    @property
    def interruptions(self) -> int:
        """How often the session was lost, and events may have been missed."""
        return self._inbox.interruptions

    @property
    def waiting(self) -> int:
        """How many events have arrived and are not taken."""
        return len(self._inbox)

    def peek(self, most: int) -> list[tuple[Tiding, int]]:
        """The events that have arrived, each with the number of its delivery.

        They stay untaken, so the router keeps them: a program may store them before it takes them.
        """
        return self._inbox.peek(most)

    def take(self, most: int) -> None:
        """Take the oldest events that have arrived, at most so many."""
        for _ in range(min(most, len(self._inbox))):
            self._inbox.take()

    async def arrival(self) -> None:
        """Wait until something about the subscription changes, or return if events wait."""
        if not len(self._inbox) and not self._inbox.over:
            await self._change()

    @property
    def over(self) -> Exception | bool:
        """Whether there is no more to come, or the reason why."""
        return self._inbox.over

    async def established(self, timeout_s: float | None = None) -> int:
        """Wait until every router in reach knows the subscription; return its epoch."""
        await self._client.within(timeout_s, self._until_established())
        return self._inbox.epoch

    async def replace(self, predicate: Predicate | str, timeout_s: float | None = None) -> None:
        """Change the predicate; events that match both are neither missed nor repeated."""
        await self._client.replace(self, predicate, timeout_s)

    async def unsubscribe(self, timeout_s: float | None = None) -> None:
        """End the subscription; the iterator ends after the events that have arrived."""
        await self._client.unsubscribe(self, timeout_s)

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._client.give_up(self)

    def __aiter__(self) -> AsyncIterator[Tiding]:
        return self

    async def __anext__(self) -> Tiding:
        inbox = self._inbox
        while True:
            event = inbox.take()
            if event is not None:
                return event
            if isinstance(inbox.over, Exception):
                raise inbox.over
            if inbox.over:
                raise StopAsyncIteration
            await self._change()

    async def _until_established(self) -> None:
        inbox = self._inbox
        while not inbox.established:
            if isinstance(inbox.over, Exception):
                raise inbox.over
            if inbox.over:
                raise self._client.ended()
            await self._change()

    async def _change(self) -> None:
        changed = asyncio.get_running_loop().create_future()
        self._waiting.add(changed)
        try:
            await changed
        finally:
            self._waiting.discard(changed)

    def _notify(self) -> None:
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)
