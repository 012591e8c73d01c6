"""Flow control of a link, source by source, so that routers never wait for each other in a circle.

Rule 1: the sending end counts, for each source, the events that the next router has not processed.
A source may have `RESERVED` of them on a link in any case, and up to `WINDOW` while all sources
together have fewer than `TOTAL`. Beyond that its events wait one hop before.

Rule 2: the receiving end processes each source by itself. An event that finds no room holds up only
later events of its own source.

Why nothing waits in a circle: the events of one source follow a tree, away from the source, so
within one source waiting has an end, at links that lead to subscribers. No source waits for the
reserved room of another. What all sources share, the room beyond `RESERVED`, is never all that a
source has. This file knows nothing of sockets, clocks or packets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidings.wire.errors import WireError

RESERVED: Final = 64  # unprocessed events that every source may have on a link
WINDOW: Final = 4_096  # that one source may have while there is room
TOTAL: Final = 8_192  # of all sources together, beyond which each has only what is reserved


class Gate:
    """A queue that can be full, and the senders that wait until it has room."""

    __slots__ = ("_waiting", "full")

    def __init__(self) -> None:
        self.full = False
        self._waiting: list[Callable[[], None]] = []

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when there is room again."""
        self._waiting.append(go_on)

    def clear(self) -> None:
        """There is room again: let everyone who waits go on."""
        self.full = False
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()


class Outflow:
    """The sending end of a link: what each source has sent, and what of it is processed.

    >>> flow = Outflow(reserved=2, window=4, total=5)
    >>> for source in "aaaab":
    ...     flow.sent(source)
    >>> flow.gate("a") is None, flow.gate("b") is None  # `a` has its window, `b` what is reserved
    (False, True)
    >>> flow.worked("a", 4)
    >>> flow.gate("a") is None
    True
    """

    def __init__(self, reserved: int = RESERVED, window: int = WINDOW, total: int = TOTAL) -> None:
        self.reserved = reserved
        self.window = window
        self.total = total
        self.open = 0  # events of all sources that are not processed
        self._sent: dict[str, int] = {}
        self._worked: dict[str, int] = {}
        self._gates: dict[str, Gate] = {}  # of the sources that wait

    def sent(self, source: str) -> None:
        """An event of this source goes out."""
        self._sent[source] = self._sent.get(source, 0) + 1
        self.open += 1

    def gate(self, source: str) -> Gate | None:
        """What to wait for before another event of this source is sent; None if there is room."""
        gate = self._gates.get(source)
        if gate is not None:
            return gate
        unprocessed = self.unprocessed(source)
        if unprocessed < self.reserved or (unprocessed < self.window and self.open < self.total):
            return None
        gate = self._gates[source] = Gate()
        gate.full = True
        return gate

    def worked(self, source: str, number: int) -> None:
        """The next router has processed this many events of a source since the link began.

        Gates open when a half of the room is free again, so that senders go on in batches.
        """
        before = self._worked.get(source, 0)
        if number > self._sent.get(source, 0):
            raise WireError("out-of-turn", f"{number} events of {source} processed, fewer sent")
        if number <= before:
            return
        self._worked[source] = number
        self.open -= number - before
        for name in [name for name in self._gates if self._is_roomy(name)]:
            gate = self._gates.pop(name, None)
            if gate is not None:  # or it was opened by one who went on just now
                gate.clear()

    def unprocessed(self, source: str) -> int:
        """How many events of a source are not processed."""
        return self._sent.get(source, 0) - self._worked.get(source, 0)

    def reset(self) -> None:
        """The link begins anew: nothing is open, and nobody waits."""
        self.open = 0
        self._sent.clear()
        self._worked.clear()
        gates, self._gates = self._gates, {}
        for gate in gates.values():
            gate.clear()

    def _is_roomy(self, source: str) -> bool:
        unprocessed = self.unprocessed(source)
        if unprocessed <= self.reserved // 2:
            return True
        return unprocessed <= self.window // 2 and self.open <= 3 * self.total // 4
