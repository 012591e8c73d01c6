"""Simulated byte streams between processes, as TCP gives them on a bad day.

An agenda holds what happens when, in whole nanoseconds. A process runs, is paused, or has ended. A
wire is one connection: two ends, and a line in each direction with a delay, a bandwidth and room
for so many bytes. Bytes arrive in order, in pieces split anywhere. What finds no room waits at the
sending end, which is told when too much waits. A line can be held, for a while or for good. A wire
breaks with what is under way or after it, or one end vanishes and the other is not told. All chance
comes from one generator, so a seed decides every piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple, Protocol

from tidings.routing.protocol import MILLISECOND, SECOND
from tidings.sim.network import Endless


class Agenda:
    """What is going to happen, in order of time; the trace is a hash over what has happened."""

    def __init__(self, most_steps: int | None = None) -> None:
        self.now = 0
        self.steps = 0
        self.most_steps = most_steps  # after which the run counts as endless
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._trace = blake2b(digest_size=16)

    def call(self, time: int, function: Callable[[], None]) -> None:
        """Call a function at a time, or now if that has passed."""
        self._order += 1
        heappush(self._queue, (max(time, self.now), self._order, function))

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function after what happens now."""
        self.call(self.now, function)

    def mark(self, what: bytes) -> None:
        """Add to the trace."""
        self._trace.update(what)

    @property
    def trace(self) -> str:
        """A hash over all that has happened."""
        return self._trace.copy().hexdigest()

    def run(self, until: int) -> None:
        """Run everything that happens up to and at a time."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, function = heappop(queue)
            self.steps += 1
            if self.steps == self.most_steps:
                raise Endless(f"{self.steps} steps after {self.now / SECOND:.3f} s")
            function()
        self.now = until


class Process:
    """Runs what is asked of it: at once, when it goes on after a pause, or never again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused = False
        self.ended = False
        self.on_end: list[Callable[[], None]] = []
        self._missed: deque[Callable[[], None]] = deque()

    def do(self, function: Callable[[], None]) -> None:
        """Run a function in this process."""
        if self.ended:
            return
        if self.paused:
            self._missed.append(function)
        else:
            self.run(function)

    def run(self, function: Callable[[], None]) -> None:
        """Run a function now; a process with a clock sets it first."""
        function()

    def pause(self) -> None:
        """Stand still, as after SIGSTOP."""
        self.paused = True

    def go_on(self) -> None:
        """Go on after a pause, with everything that was missed."""
        self.paused = False
        while self._missed and not self.paused and not self.ended:
            self.run(self._missed.popleft())

    def end(self) -> None:
        """End at once, as after SIGKILL."""
        self.ended = True
        self._missed.clear()


class Carried(Protocol):
    """What a wire carries bytes for: the state of one connection."""

    def received(self, data: bytes) -> None:
        """Bytes have arrived."""

    def lost(self, error: Exception | None) -> None:
        """The connection has ended."""

    def choke(self) -> None:
        """Too many bytes wait to be sent."""

    def unchoke(self) -> None:
        """Few bytes wait to be sent."""

    def flush(self) -> None:
        """Write what waits."""


class Quality(NamedTuple):
    """How a line carries bytes."""

    delay_ns: int = MILLISECOND
    ns_per_byte: int = 0
    room: int = 65_536  # bytes on the line and unread at its end
    piece: int = 65_536  # bytes that arrive at once, at most


class Line:
    """One direction of a wire."""

    __slots__ = ("_late", "free_at", "held", "label", "last", "on_it", "quality")

    def __init__(self, label: str, quality: Quality) -> None:
        self.label = label.encode()
        self.quality = quality
        self.free_at = 0  # when the earlier bytes are on their path
        self.last = 0  # when the last piece arrives
        self.held = 0  # how many faults hold it
        self.on_it = 0  # bytes on the line
        self._late: list[Callable[[], None]] = []  # what was due while it was held

    def arrive(self, function: Callable[[], None]) -> None:
        """Something is due at the far end; if the line is held, later."""
        if self.held or self._late:
            self._late.append(function)
        else:
            function()

    def release(self) -> None:
        """One fault less holds it."""
        self.held -= 1
        if not self.held:
            late, self._late = self._late, []
            for function in late:
                function()


class End:
    """One end of a wire: the transport of the stream at that end."""

    def __init__(self, wire: Wire, process: Process, peer: str, line: Line) -> None:
        self.peer = peer
        self.process = process
        self.stream: Carried | None = None
        self.open = True  # until the stream was told of the end
        self.high_water = 65_536  # bytes that wait, beyond which the stream is choked
        self.line = line  # to the other end
        self.other: End
        self._wire = wire
        self._out = bytearray()
        self._in = bytearray()
        self._reading = True
        self._closing = False
        self._told_other = False  # that this end has ended
        self._over: Exception | bool = False  # what came after the last byte
        self._choked = False
        self._due = False

    def carry(self, stream: Carried) -> None:
        """Carry the bytes of a stream."""
        self.stream = stream
        self._wire.agenda.soon(self._read)

    # What a stream calls

    def schedule(self) -> None:
        """Let the stream write, soon and once."""
        if not self._due and self.open:
            self._due = True
            self._wire.agenda.soon(lambda: self.process.do(self._flush))

    def write(self, data: bytes) -> None:
        """Bytes go out."""
        if not self.open or self._closing:
            return
        self._out += data
        self._pump()
        if not self._choked and len(self._out) > self.high_water and self.stream is not None:
            self._choked = True
            self.stream.choke()

    def waiting(self) -> int:
        """The bytes that the line has not taken."""
        return len(self._out)

    def pause(self) -> None:
        """Read nothing."""
        self._reading = False

    def resume(self) -> None:
        """Read again."""
        if not self._reading:
            self._reading = True
            self._wire.agenda.soon(self._read)

    def close(self) -> None:
        """End the connection when everything is written."""
        if not self._closing and self.open:
            self._closing = True
            self._pump()

    def abort(self) -> None:
        """End the connection at once."""
        if self.open:
            self._out.clear()
            self._finish(ConnectionResetError("the peer has aborted the connection"))

    # Bytes out

    def _flush(self) -> None:
        self._due = False
        if self.open and self.stream is not None:
            self.stream.flush()

    def _pump(self) -> None:
        """Put on the line what finds room there."""
        wire, line = self._wire, self.line
        agenda, quality = wire.agenda, line.quality
        while self._out and not wire.broken:
            room = quality.room - line.on_it - len(self.other._in)
            size = min(len(self._out), room, wire.chance.randint(1, quality.piece))
            if size <= 0:
                break
            data = bytes(self._out[:size])
            del self._out[:size]
            line.on_it += size
            line.free_at = max(line.free_at, agenda.now) + size * quality.ns_per_byte
            self._send(line.free_at, lambda data=data: self.other._arrived(data))  # type: ignore[misc]
        if self._closing and not self._out:
            self._finish(True)
        if self._choked and len(self._out) <= self.high_water // 4:
            self._choked = False
            agenda.soon(lambda: self.process.do(self._unchoke))

    def _unchoke(self) -> None:
        if self.open and not self._choked and self.stream is not None:
            self.stream.unchoke()

    def _send(self, time: int, function: Callable[[], None]) -> None:
        line = self.line
        line.last = max(line.last, time + line.quality.delay_ns)
        self._wire.agenda.call(line.last, lambda: line.arrive(function))

    def _finish(self, why: Exception | bool) -> None:
        self.tell_other(why)
        self._wire.agenda.soon(lambda: self.process.do(lambda: self._lose(None)))

    def tell_other(self, why: Exception | bool) -> None:
        """This end has ended the connection: the other learns it after the last byte."""
        if not self._told_other:
            self._told_other = True
            self._send(self.line.free_at, lambda: self.other.hear_end(why))

    def drop_output(self) -> None:
        """Lose what has not left yet."""
        self._out.clear()

    # Bytes in

    def _arrived(self, data: bytes) -> None:
        line = self.other.line
        line.on_it -= len(data)
        wire = self._wire
        if wire.broken:
            return
        if wire.vanished is self:
            line.on_it += len(data)  # nobody ever reads it
            return
        if not self.open or self.process.ended:
            self.tell_other(ConnectionResetError("nobody is there any more"))
            return
        wire.agenda.mark(b"%d %b " % (wire.agenda.now, line.label))
        wire.agenda.mark(data)
        self._in += data
        self._read()

    def _read(self) -> None:
        if not (self._in or self._over) or not self._reading or self.process.ended:
            return
        if self.process.paused:
            self.process.do(self._read)
            return
        if self._in and self.stream is not None and self.open:
            data = bytes(self._in)
            self._in.clear()
            stream = self.stream
            self.process.do(lambda: stream.received(data))
            self.other._pump()
        if self._over and not self._in and self._reading:
            error = self._over if isinstance(self._over, Exception) else None
            self.process.do(lambda: self._lose(error))

    def hear_end(self, why: Exception | bool) -> None:
        """The connection has ended, and nothing more will come."""
        if not self._over:
            self._over = why
            self._wire.agenda.soon(self._read)

    def _lose(self, error: Exception | None) -> None:
        if self.open:
            self.open = False
            self._out.clear()
            self._in.clear()
            self.tell_other(True)
            if self.stream is not None:
                self.stream.lost(error)
            self._wire.closed()


class Wire:
    """One connection between two processes; `dialler` is the end that made it."""

    def __init__(
        self,
        agenda: Agenda,
        chance: Random,
        processes: tuple[Process, Process],
        names: tuple[str, str],
        qualities: tuple[Quality, Quality],
        on_closed: Callable[[Wire], None],
    ) -> None:
        self.agenda = agenda
        self.chance = chance
        self.names = names
        self.broken = False
        self.vanished: End | None = None  # an end that is gone without a sign
        self._on_closed = on_closed
        there = Line(f"{names[0]}>{names[1]}", qualities[0])
        back = Line(f"{names[1]}>{names[0]}", qualities[1])
        self.dialler = End(self, processes[0], names[1], there)
        self.acceptor = End(self, processes[1], names[0], back)
        self.dialler.other, self.acceptor.other = self.acceptor, self.dialler
        self.ends = self.dialler, self.acceptor

    def closed(self) -> None:
        """An end was told that it is over."""
        if not any(end.open and not end.process.ended for end in self.ends):
            self._on_closed(self)

    def cut(self, lose: bool) -> None:
        """Break: both ends are told; what is on the lines is lost, or arrives before."""
        error = ConnectionResetError("the connection is broken")
        self.broken = self.broken or lose
        for end in self.ends:
            end.drop_output()
            if lose:
                end.hear_end(error)
            else:
                end.tell_other(error)

    def kill(self, end: End, silently: bool, lose: bool = False) -> None:
        """The process of an end has died: the other end is told, or hears nothing any more.

        What is on the lines arrives before that, or is lost.
        """
        end.drop_output()
        self.broken = self.broken or lose
        if silently:
            self.vanished = end
        else:
            end.tell_other(ConnectionResetError("the peer has died"))
        self.closed()

    def hold(self, there: bool = True, back: bool = True) -> Callable[[], None]:
        """Hold one direction or both; returns what lets them go."""
        lines = [end.line for end, held in zip(self.ends, (there, back), strict=True) if held]
        for line in lines:
            line.held += 1

        def release() -> None:
            for line in lines:
                line.release()

        return release
