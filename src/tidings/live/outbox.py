"""What a client has published, until the router has received it.

Publications are numbered from 1. They wait in runs: first those in flight, which a router that
resumes the session may have to get again, then those that have not been sent. The router's credit
bounds what is in flight, and the client's window bounds both. Each publication has a function that
hears how it ended.

A router counts the publications of a session from 1. `base` is how many came before the session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from tidings.live.limits import Limits
from tidings.wire import messages as m

Settled = Callable[[int, Exception | None], None]  # how many publications, and what went wrong


class Run:
    """Publications of one level with numbers that follow each other, encoded."""

    __slots__ = ("data", "first", "level", "size")

    def __init__(self, first: int, level: int, data: list[bytes], size: int) -> None:
        self.first = first  # the number of the first
        self.level = level
        self.data = data
        self.size = size  # bytes of all

    def __len__(self) -> int:
        return len(self.data)

    @property
    def numbers(self) -> range:
        """The numbers of the publications."""
        return range(self.first, self.first + len(self.data))

    def extend(self, data: list[bytes], size: int) -> None:
        """Add the publications that follow."""
        self.data += data
        self.size += size

    def cut(self, count: int) -> Run | None:
        """Keep the first publications; return a run of the others, if there are any."""
        rest = self.data[count:]
        if not rest:
            return None
        del self.data[count:]
        cut = Run(self.first + count, self.level, rest, sum(map(len, rest)))
        self.size -= cut.size
        return cut


class Outbox:
    """The publications of a client that no router has acknowledged as received."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.published = 0  # since the client began
        self.base = 0  # of these, before this session
        self.kept = 0
        self.credit = 0, 0  # publications and bytes in flight, at most
        self._kept_bytes = 0
        self._unsent: deque[Run] = deque()
        self._flight: deque[Run] = deque()
        self._in_flight = self._flight_bytes = 0
        self._outcomes: dict[int, Settled] = {}
        self._room: deque[Callable[[], None]] = deque()  # who waits for room

    @property
    def has_room(self) -> bool:
        """Whether the program may publish now, or should wait with `when_room`."""
        return self.kept < self.limits.window and self._kept_bytes < self.limits.window_bytes

    @property
    def waits(self) -> bool:
        """Whether there are publications to send."""
        return bool(self._unsent)

    def when_room(self, call: Callable[[], None]) -> None:
        """Call a function when there is room again, or when the client cannot go on."""
        self._room.append(call)

    def keep(self, level: int, data: list[bytes], settled: Settled) -> None:
        """Keep publications until the router has received them."""
        first, count, size = self.published + 1, len(data), sum(map(len, data))
        self.published += count
        self.kept += count
        self._kept_bytes += size
        self._outcomes.update(dict.fromkeys(range(first, first + count), settled))
        unsent = self._unsent
        if unsent and unsent[-1].level == level and len(unsent[-1]) < self.limits.publish_batch:
            unsent[-1].extend(data, size)
        else:
            unsent.append(Run(first, level, data, size))

    def next(self) -> Run | None:
        """Take the next publications to send, as many as a frame and the credit allow."""
        if not self._unsent or not self._has_credit(0, 0):
            return None
        run = self._unsent.popleft()
        rest = run.cut(self._fitting(run))
        if rest is not None:
            self._unsent.appendleft(rest)
        self._flight.append(run)
        self._in_flight += len(run)
        self._flight_bytes += run.size
        return run

    def _fitting(self, run: Run) -> int:
        """How many publications of a run fit into a frame and the credit; one does in any case."""
        most, most_bytes = self.limits.publish_batch, self.limits.publish_batch_bytes
        if len(run) <= most and run.size <= most_bytes and self._has_credit(len(run), run.size):
            return len(run)
        size = 0
        for count, data in enumerate(run.data):
            size += len(data)
            is_too_much = count == most or size > most_bytes
            if count and (is_too_much or not self._has_credit(count, size - len(data))):
                return count
        return len(run)

    def _has_credit(self, count: int, size: int) -> bool:
        """Whether another publication may be sent after these; one may in any case."""
        flight = self._in_flight + count
        room = flight < self.credit[0] and self._flight_bytes + size < self.credit[1]
        return not flight or room

    # What becomes of them; numbers are those of the session

    def received(self, number: int) -> None:
        """The router has received publications up to a number."""
        number += self.base
        flight = self._flight
        while flight and flight[0].first <= number:
            run = flight.popleft()
            rest = run.cut(number + 1 - run.first)
            if rest is not None:
                flight.appendleft(rest)
            self.kept -= len(run)
            self._kept_bytes -= run.size
            self._in_flight -= len(run)
            self._flight_bytes -= run.size
            if run.level == m.RECEIVED:
                self._settle(run.numbers, None)
        self.make_room()

    def settle(self, numbers: Iterable[int], error: Exception | None) -> None:
        """Tell how publications ended."""
        self._settle((self.base + number for number in numbers), error)

    def _settle(self, numbers: Iterable[int], error: Exception | None) -> None:
        """At once of those that were published together."""
        told: Settled | None = None
        count = 0
        for number in numbers:
            settled = self._outcomes.pop(number, None)
            if settled is not told:
                if told is not None:
                    told(count, error)
                told, count = settled, 0
            count += 1
        if told is not None:
            told(count, error)

    def send_again(self, newest: int) -> None:
        """The router has received publications up to a number: send the later ones again."""
        newest += self.base
        flight = self._flight
        while flight and flight[-1].numbers[-1] > newest:
            run = flight.pop()
            again = run.cut(max(0, newest + 1 - run.first))
            assert again is not None
            self._in_flight -= len(again)
            self._flight_bytes -= again.size
            self._unsent.appendleft(again)
            if run.data:
                flight.append(run)

    def begin_anew(self) -> list[Settled]:
        """A new session begins: give up what is in flight. Returns whom to tell of each."""
        self.kept -= self._in_flight
        self._kept_bytes -= self._flight_bytes
        self._flight.clear()
        self._in_flight = self._flight_bytes = 0
        # A new session counts from 1: that is the first publication which was not sent.
        self.base = self._unsent[0].first - 1 if self._unsent else self.published
        unknown = [number for number in self._outcomes if number <= self.base]
        return [self._outcomes.pop(number) for number in unknown]

    def fail(self, error: Exception) -> None:
        """The client cannot go on: tell everyone who waits for an outcome."""
        outcomes, self._outcomes = self._outcomes, {}
        for settled in outcomes.values():
            settled(1, error)

    def make_room(self) -> None:
        """Let those go on who wait for room, if half of it is free."""
        limits = self.limits
        half = self._kept_bytes <= limits.window_bytes // 2
        if self.kept <= limits.window // 2 and half:
            self.wake()

    def wake(self) -> None:
        """Let those go on who wait for room."""
        room, self._room = self._room, deque()
        for go_on in room:
            go_on()
