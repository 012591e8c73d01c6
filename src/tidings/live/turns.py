"""Whose publications a router routes next, where several applications share it.

Each application that has some waiting gets a turn, and in it routes as many as its weight says
(deficit round robin). Between two rounds the router reads its connections. So however many clients
of one application publish, an event of another waits for one round and no longer. Within an
application its clients take turns as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tidings.live.timers import Timer, Timers

SOME: Final = 64  # publications in a turn of weight 1, about
SOON: Final = 1  # nanoseconds: when the host has looked at its connections


class Publisher(Protocol):
    """Someone whose publications wait."""

    def route(self, most: int) -> int:
        """Route about so many of them; returns how many it has routed."""

    @property
    def is_waiting(self) -> bool:
        """Whether there are more, and they could go on."""


class Turns:
    """The publishers that wait, by application."""

    def __init__(self, timers: Timers, weight_of: Callable[[], Mapping[str, int]]) -> None:
        self._timers = timers
        self._weight_of = weight_of
        self._waiting: dict[str, deque[Publisher]] = {}
        self._timer: Timer | None = None

    def add(self, application: str, publisher: Publisher) -> None:
        """A publisher has something to route."""
        waiting = self._waiting.setdefault(application, deque())
        if publisher not in waiting:
            waiting.append(publisher)
        if self._timer is None:
            self._timer = self._timers.after(SOON, self._round)

    def _round(self) -> None:
        """Give each application a turn."""
        self._timer = None
        weights = self._weight_of()
        for application in list(self._waiting):
            self._turn(application, SOME * weights.get(application, 1))
        if self._waiting and self._timer is None:
            self._timer = self._timers.after(SOON, self._round)

    def _turn(self, application: str, left: int) -> None:
        waiting = self._waiting[application]
        while waiting and left > 0:
            publisher = waiting.popleft()
            left -= publisher.route(min(left, SOME))
            if publisher.is_waiting and publisher not in waiting:
                waiting.append(publisher)
        if not waiting:
            del self._waiting[application]
