"""The shell around what is pure: sockets that carry streams, and a clock that drives timers.

Everything that asyncio calls comes in here. It sets the time, hands bytes to a stream, and sets one
alarm for the next timer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tidings.live.stream import Stream, Transport
from tidings.live.timers import Timers

CLOSING_S: Final = 1.0  # until a connection that closes is cut
WORKERS: Final = 2  # threads for what takes long


class Clock:
    """Tells timers the time, and calls them when something is due."""

    def __init__(self) -> None:
        self.timers = Timers(time.monotonic_ns())
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0
        self._workers: ThreadPoolExecutor | None = None
        self._stopped = False

    def __enter__(self) -> None:
        """Something happens now; leaving it sets the alarm."""
        self.timers.set(time.monotonic_ns())

    def __exit__(self, *error: object) -> None:
        soonest = self.timers.soonest()
        if self._alarm is not None:
            if soonest == self._alarm_at:
                return
            self._alarm.cancel()
            self._alarm = None
        if soonest is not None and not self._stopped:
            self._alarm_at = soonest
            delay = max(0, soonest - time.monotonic_ns()) / 1e9
            self._alarm = self._loop.call_later(delay, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        with self:
            self.timers.advance(time.monotonic_ns())

    def work(self, function: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run a function in a thread, then call `then` with what it returns or raises."""
        if self._workers is None:
            self._workers = ThreadPoolExecutor(WORKERS, "tidings")

        def done(future: asyncio.Future[Any]) -> None:
            if not self._stopped and not future.cancelled():
                with self:
                    then(future.exception() or future.result())

        self._loop.run_in_executor(self._workers, function).add_done_callback(done)

    def stop(self) -> None:
        """Call nothing any more."""
        self._stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)


class Socket(asyncio.Protocol):
    """Carries the bytes of one stream."""

    def __init__(self, clock: Clock, high_water: int, made: Callable[[Transport], Stream]) -> None:
        self.peer = "nobody"
        self._clock = clock
        self._high_water = high_water
        self._made = made
        self._loop = asyncio.get_running_loop()
        self._socket: Any = None  # an asyncio.Transport, or uvloop's, which is not one
        self._stream: Stream | None = None

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._socket = transport
        self._socket.set_write_buffer_limits(high=self._high_water)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.peer = f"{name[0]}:{name[1]}"
        with self._clock:
            self._stream = self._made(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        assert self._stream is not None
        with self._clock:
            self._stream.received(data)

    def pause_writing(self) -> None:
        """The peer is slow to read."""
        if self._stream is not None:
            with self._clock:
                self._stream.choke()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        if self._stream is not None:
            with self._clock:
                self._stream.unchoke()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        if self._stream is not None:
            with self._clock:
                self._stream.lost(error)

    # What the stream calls

    def schedule(self) -> None:
        """Write in this turn of the event loop."""
        self._loop.call_soon(self._flush)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.write(data)

    def waiting(self) -> int:
        """How many bytes wait to be sent."""
        size: int = self._socket.get_write_buffer_size()
        return size

    def pause(self) -> None:
        """Read nothing more."""
        self._socket.pause_reading()

    def resume(self) -> None:
        """Read again."""
        self._socket.resume_reading()

    def close(self) -> None:
        """End the connection when everything is sent, or soon."""
        self._socket.close()
        self._loop.call_later(CLOSING_S, self._socket.abort)

    def abort(self) -> None:
        """End the connection at once."""
        self._socket.abort()

    def _flush(self) -> None:
        if self._stream is not None:
            with self._clock:
                self._stream.flush()
