"""Turns: a thread that matches lets others have the GIL from time to time.

Python lets a thread that needs the GIL wait for five milliseconds before it asks the one that has
it to let go, and begins anew when another was given it meanwhile. Compiling is a hundred steps and
more, and it needs the GIL for a moment after each; so while something is compiled, and matching
goes on without a pause, it would take seconds instead of tenths, and what is fresh would grow.

This is the only place in the room that looks at a clock; no answer depends on it.
"""

from __future__ import annotations

import threading
from time import perf_counter
from typing import Final

TURN: Final = 0.001  # seconds for which a thread keeps the GIL
PAUSE: Final = 0.00002  # for which it lets go of it then; systems make it some more


class Turn:
    """The turn of one thread."""

    def __init__(self) -> None:
        self._end = 0.0
        self._never = threading.Lock()
        self._never.acquire()

    def take(self) -> None:
        """Let go of the GIL for a moment if the turn has ended."""
        if perf_counter() > self._end:
            self._never.acquire(timeout=PAUSE)
            self._end = perf_counter() + TURN
