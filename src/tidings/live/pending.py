"""Collects the acknowledgements of one publication, and reports once when all are in.

If a publisher asks for more than `received`, the router follows the publication: it stays open at
every link and every client that got it. When all have answered, the router reports once to whoever
waits upstream: all have it, or one of them left before it could answer.
"""

from __future__ import annotations

from collections.abc import Callable


class Pending:
    """One publication at one router, and how many answers it still waits for."""

    __slots__ = ("_told", "lost", "tell", "waiting")

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self.tell = tell  # called with whether all have it
        self.waiting = 1  # one for the sender itself, so that it cannot end early
        self.lost = False
        self._told = False

    def begin(self) -> None:
        """One more link or client got the publication."""
        self.waiting += 1

    def end(self, well: bool = True) -> None:
        """One of them has answered, or with `well` false never will."""
        self.waiting -= 1
        if not well:
            self.lost = True
        if self.waiting == 0 and not self._told:
            self._told = True
            self.tell(not self.lost)
