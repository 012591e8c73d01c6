"""How long to wait for answers before asking again (backoff)."""

from __future__ import annotations

from typing import Final

MOST_PATIENCE: Final = 4  # times the first wait, at most


class Patience:
    """How long to wait for all answers before asking again: twice what it took last time (backoff).

    Otherwise a network with longer paths than expected would never answer in time.
    """

    __slots__ = ("_first", "_since", "_wait")

    def __init__(self, first: int) -> None:
        self._first = first
        self._wait = first
        self._since: int | None = None

    def ask(self, now: int) -> int:
        """The node asks; returns when to ask again. To ask again doubles the wait."""
        if self._since is not None:
            self._wait = min(2 * self._wait, MOST_PATIENCE * self._first)
        self._since = now
        return now + self._wait

    def answered(self, now: int) -> None:
        """All nodes have answered."""
        if self._since is not None:
            took = now - self._since
            self._wait = min(max(2 * took, self._first), MOST_PATIENCE * self._first)
        self._since = None

    def begin(self) -> None:
        """Start again from the first wait: the network may have changed."""
        self._wait = self._first
        self._since = None
