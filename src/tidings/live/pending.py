"""Who waits for whom: acknowledgements of one publication, brought together.

A publication whose publisher wants to know more than that it was received is followed: it is open
at every link and every client that it was given to. When all have answered, whoever waits above is
told, once: whether it reached them all, or one of them went away before it could answer.
"""

from __future__ import annotations

from collections.abc import Callable


class Pending:
    """One publication at one router, and what it still waits for."""

    __slots__ = ("_told", "lost", "tell", "waiting")

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self.tell = tell  # called with whether all was well
        self.waiting = 1  # the first is the one who hands it out, so that it cannot end early
        self.lost = False
        self._told = False

    def begin(self) -> None:
        """One more has been given it."""
        self.waiting += 1

    def end(self, well: bool = True) -> None:
        """One of them has answered, or never will."""
        self.waiting -= 1
        if not well:
            self.lost = True
        if self.waiting == 0 and not self._told:
            self._told = True
            self.tell(not self.lost)
