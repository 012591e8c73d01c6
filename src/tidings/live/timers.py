"""Timers without a clock: who holds them says what time it is, and runs what is due.

Time is nanoseconds and never goes back. If the clock leaps back, time stands still for an instant
and then goes on from where it was; a leap forward makes due whatever lies in between.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Timer:
    """A call that is due at a time, unless it is cancelled."""

    __slots__ = ("at", "call")

    def __init__(self, at: int, call: Callable[[], None]) -> None:
        self.at = at
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Do not call."""
        self.call = None


class Timers:
    """What is due when.

    >>> timers, rung = Timers(), []
    >>> _ = timers.after(5, lambda: rung.append("late"))
    >>> timers.after(3, lambda: rung.append("never")).cancel()
    >>> timers.advance(4), rung, timers.soonest()
    (None, [], 5)
    >>> timers.advance(7), rung, timers.now
    (None, ['late'], 7)
    """

    def __init__(self, clock: int = 0) -> None:
        self.now = clock
        self._clock = clock  # what it showed last
        self._ahead = 0  # of the clock, because that has leapt back
        self._queue: list[tuple[int, int, Timer]] = []
        self._order = 0

    def after(self, delay: int, call: Callable[[], None]) -> Timer:
        """Call a function after a time."""
        timer = Timer(self.now + delay, call)
        self._order += 1
        heappush(self._queue, (timer.at, self._order, timer))
        return timer

    def soonest(self) -> int | None:
        """What the clock shows when the next call is due; None if there is none."""
        queue = self._queue
        while queue and queue[0][2].call is None:
            heappop(queue)
        return queue[0][0] - self._ahead if queue else None

    def set(self, clock: int) -> None:
        """The clock shows this; calls nothing."""
        if clock < self._clock:
            self._ahead += self._clock - clock
        self._clock = clock
        self.now = clock + self._ahead

    def advance(self, clock: int) -> None:
        """The clock shows this: call what is due, in the order of its time."""
        self.set(clock)
        queue = self._queue
        until = self.now
        while queue and queue[0][0] <= until:
            timer = heappop(queue)[2]
            call, timer.call = timer.call, None
            if call is not None:
                call()
