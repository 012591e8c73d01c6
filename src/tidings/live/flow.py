"""Flow control of a link, lane by lane, so that routers never wait for each other in a circle.

A *lane* is the events of one source that follow one tree. Rule 1: the sending end counts, for each
lane, the events that the next router has not processed, and their bytes. A lane may have
`Limits.lane` of them on a link in any case, and up to `Limits.lane_most` while all lanes of its
application together have fewer than the application's share of `Limits.link`. Beyond that its
events wait one hop before. So an application that floods a link waits for itself, and takes
nothing of what the others may have on it.

Rule 2: the receiving end processes each lane by itself. An event that finds no room holds up only
later events of its own lane.

Why nothing waits in a circle: the events of one lane follow a tree, away from the source, so within
one lane waiting has an end, at links that lead to subscribers. No lane waits for the room of
another. What lanes share is never all that a lane has. Flooding, which has no tree, needs a further
rule (`Link.skip`). This file knows nothing of sockets, clocks or packets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tidings.live.limits import LIMITS, Limits
from tidings.wire.errors import WireError

Lane = tuple[str, int]  # the source, and the tree that its events follow


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


class Gates(Gate):
    """Several full queues on the path of one event: who waits goes on when none of them is full."""

    __slots__ = ("_gates",)

    def __init__(self, gates: list[Gate]) -> None:
        super().__init__()
        self.full = True
        self._gates = gates

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when all of them have room at once."""
        for gate in self._gates:
            if gate.full:
                gate.wait(partial(self.wait, go_on))
                return
        go_on()


class Shares:
    """What part of a link each application may fill, by its weight.

    >>> shares = Shares({"quotes": 3, "alerts": 1})
    >>> shares.of("quotes", 100), shares.of("alerts", 100), shares.of("", 100)
    (60, 20, 20)
    """

    def __init__(self, weights: Mapping[str, int] | None = None) -> None:
        self.change(weights or {})

    def change(self, weights: Mapping[str, int]) -> None:
        """Give the applications other weights; the one without a name has 1."""
        self._weights = {"": 1, **weights}
        self._total = sum(self._weights.values())

    def of(self, application: str, whole: int) -> int:
        """An application's part of something; one that is not known has the smallest there is."""
        return whole * self._weights.get(application, 1) // self._total


WHOLE: Final = Shares()  # for one application


class Unprocessed:
    """The events of one lane that the next router has not processed: number and size of each."""

    __slots__ = ("application", "bytes", "events", "gate")

    def __init__(self, application: str) -> None:
        self.application = application
        self.events: deque[tuple[int, int]] = deque()
        self.bytes = 0
        self.gate: Gate | None = None  # of those who wait for room


class Outflow:
    """The sending end of a link: the events of each lane that the next router has not processed.

    >>> flow = Outflow(Limits(lane=2, lane_most=4, link=5))
    >>> for number, lane in enumerate([("a", 0)] * 4 + [("b", 0)]):
    ...     flow.sent(lane, number, size=10)
    >>> flow.gate(("a", 0)) is None, flow.gate(("b", 0)) is None  # `b` still has room of its own
    (False, True)
    >>> flow.worked(("a", 0), 3)
    >>> flow.gate(("a", 0)) is None
    True
    """

    def __init__(self, limits: Limits = LIMITS, shares: Shares = WHOLE) -> None:
        self.open = 0  # events of all lanes that are not processed
        self.open_bytes = 0
        self.full: dict[str, int] = {}  # how often an application had to wait for room
        self._of: dict[str, list[int]] = {}  # by application: events not processed, and bytes
        self._limits = limits
        self._shares = shares
        self._lanes: dict[Lane, Unprocessed] = {}

    def sent(self, lane: Lane, number: int, size: int, application: str = "") -> None:
        """An event of this lane goes out, in the packet of this number."""
        found = self._lanes.get(lane)
        if found is None:
            found = self._lanes[lane] = Unprocessed(application)
        found.events.append((number, size))
        found.bytes += size
        self.open += 1
        self.open_bytes += size
        used = self._of.setdefault(found.application, [0, 0])
        used[0] += 1
        used[1] += size

    def gate(self, lane: Lane) -> Gate | None:
        """What to wait for before another event of this lane is sent; None if there is room."""
        found = self._lanes.get(lane)
        if found is None or (found.gate is None and self._has_room(found)):
            return None
        if found.gate is None:
            found.gate = Gate()
            found.gate.full = True
            self.full[found.application] = self.full.get(found.application, 0) + 1
        return found.gate

    def worked(self, lane: Lane, number: int) -> None:
        """The next router has processed the events of a lane up to the packet of this number."""
        found = self._lanes.get(lane)
        if found is None or (found.events and number > found.events[-1][0]):
            raise WireError("out-of-turn", f"events of {lane[0]} processed that were not sent")
        self._take(lane, found, number)
        self._open_gates()

    def resumed(self, heard: int, waiting: Mapping[Lane, int]) -> None:
        """After a break: the next router has everything up to `heard`, and has processed it except
        for the lanes that wait, each from the given number on."""
        for lane, found in list(self._lanes.items()):
            self._take(lane, found, min(heard, waiting.get(lane, heard + 1) - 1))
        self._open_gates()

    def unprocessed(self, lane: Lane) -> int:
        """How many events of a lane are not processed."""
        found = self._lanes.get(lane)
        return len(found.events) if found is not None else 0

    def reset(self) -> None:
        """The link begins anew: nothing is open, and nobody waits."""
        self.open = self.open_bytes = 0
        self._of = {}
        lanes, self._lanes = self._lanes, {}
        for found in lanes.values():
            if found.gate is not None:
                found.gate.clear()

    def _take(self, lane: Lane, found: Unprocessed, number: int) -> None:
        events, used = found.events, self._of.get(found.application, [0, 0])
        while events and events[0][0] <= number:
            size = events.popleft()[1]
            found.bytes -= size
            self.open -= 1
            self.open_bytes -= size
            used[0] -= 1
            used[1] -= size
        if not events and found.gate is None:
            del self._lanes[lane]

    def _open_gates(self) -> None:
        """Open the gates of lanes that have half of their room again: senders go on in batches."""
        for lane, found in list(self._lanes.items()):
            gate = found.gate
            if gate is not None and self._is_roomy(found):
                found.gate = None
                if not found.events and self._lanes.get(lane) is found:
                    del self._lanes[lane]
                gate.clear()

    def _has_room(self, found: Unprocessed) -> bool:
        limits = self._limits
        count, size = len(found.events), found.bytes
        if not count or (count < limits.lane and size < limits.lane_bytes):
            return True
        used, share = self._of[found.application], self._shares.of
        return (
            count < limits.lane_most
            and size < limits.lane_most_bytes
            and used[0] < share(found.application, limits.link)
            and used[1] < share(found.application, limits.link_bytes)
        )

    def _is_roomy(self, found: Unprocessed) -> bool:
        limits = self._limits
        count, size = len(found.events), found.bytes
        if count <= limits.lane // 2 and size <= limits.lane_bytes // 2:
            return True
        used, share = self._of[found.application], self._shares.of
        return (
            count <= limits.lane_most // 2
            and size <= limits.lane_most_bytes // 2
            and used[0] <= 3 * share(found.application, limits.link) // 4
            and used[1] <= 3 * share(found.application, limits.link_bytes) // 4
        )
