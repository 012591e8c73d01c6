"""A clock that never goes back, made of one that may leap both ways."""

from __future__ import annotations


class Steady:
    """Time as a protocol sees it. When the node's clock leaps back, it goes on from where it was.

    >>> clock = Steady()
    >>> clock.read(100), clock.read(30), clock.read(40)
    (100, 100, 110)
    >>> clock.shown(120)  # what the node's clock shows then
    50
    """

    __slots__ = ("_added", "_newest")

    def __init__(self) -> None:
        self._newest: int | None = None
        self._added = 0

    def read(self, now: int) -> int:
        """The time, given what the node's clock shows."""
        time = now + self._added
        if self._newest is not None and time < self._newest:
            self._added += self._newest - time
            time = self._newest
        self._newest = time
        return time

    def shown(self, time: int | None) -> int | None:
        """What the node's clock shows at a time."""
        return None if time is None else time - self._added
