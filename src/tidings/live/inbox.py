"""The receiving end of a subscription: the events that have arrived and were not taken yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any


class Tiding(dict[str, Any]):
    """A delivered event: a dict, with the fields that a reply to its publisher needs."""

    __slots__ = ("life", "number", "source", "ticket")

    def __init__(
        self, event: dict[str, Any], source: str, life: int, number: int, ticket: int
    ) -> None:
        super().__init__(event)
        self.source = source  # the router where it was published
        self.life = life
        self.number = number  # of the publication, within its router's life
        self.ticket = ticket  # shows that this client got it


class Share:
    """A delivery, and how many subscriptions of the client have not handed it to the program."""

    __slots__ = ("left", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.left = 0


class Inbox:
    """A subscription of a client; `on_change` is called whenever something about it changes."""

    def __init__(self, id: int, predicate: str, taken: Callable[[Share], None]) -> None:
        self.id = id
        self.predicate = predicate  # the newest that a router has accepted, or the first
        self.accepted = False  # whether the router of the present session has accepted it
        self.confirmed = False  # whether that router has said that it is established
        self.replacing = 0  # requests for another predicate that have no answer
        self.name = ""  # in the network, for `tidings why`
        self.epoch = 0
        self.interruptions = 0  # how often the session was lost, and events may have been missed
        self.over: Exception | bool = False  # why there is no more to come
        self.leaving = False  # whether the program has unsubscribed
        self.on_change: Callable[[], None] | None = None
        self._taken = taken
        self._events: deque[tuple[Tiding, Share | None]] = deque()

    def __len__(self) -> int:
        return len(self._events)

    @property
    def established(self) -> bool:
        """Whether every router in reach knows the predicate that the program has asked for."""
        return self.confirmed and not self.replacing

    def take(self) -> Tiding | None:
        """The next event, or None; the client acknowledges it."""
        if not self._events:
            return None
        event, share = self._events.popleft()
        if share is not None:
            self._taken(share)
        return event

    def peek(self, most: int) -> list[tuple[Tiding, int]]:
        """The oldest events, and the numbers of their deliveries; they stay, unacknowledged.

        The number is 0 for a delivery of an earlier session, which nobody acknowledges.
        """
        return [
            (event, share.number)
            for event, share in islice(self._events, most)
            if share is not None
        ]

    def put(self, event: Tiding, share: Share) -> None:
        """An event has arrived."""
        self._events.append((event, share))
        self.changed()

    def release(self) -> None:
        """Acknowledge all arrived events, taken or not, so that they hold up nothing."""
        held, self._events = self._events, deque((event, None) for event, _ in self._events)
        for _, share in held:
            if share is not None:
                self._taken(share)

    def finish(self, why: Exception | bool) -> None:
        """There is no more to come."""
        self.over = why
        self.changed()

    def changed(self) -> None:
        """Tell whoever waits for a change."""
        if self.on_change is not None:
            self.on_change()
