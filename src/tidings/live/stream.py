"""One connection as state: bytes in become messages, messages become bytes out.

A stream knows nothing of sockets, and of messages only signs of life and failures. Its *transport*
carries the bytes: a socket, or the simulator. Its owner gives it one function for messages and one
for its end. The stream collects what is sent and writes it once in a turn of the transport; just
before, it calls the owner's `gather`, so many deliveries become one frame. A peer that breaks the
protocol gets a `Failed` that says how, and the connection ends.
"""

from __future__ import annotations

from collections.abc import Callable
from traceback import format_exception
from typing import Any, Protocol

from tidings.live.journal import journal
from tidings.live.limits import Limits
from tidings.live.timers import Timers
from tidings.wire.errors import WireError
from tidings.wire.frames import Frames, frame
from tidings.wire.messages import Failed, Ping, decode, encode


class Transport(Protocol):
    """What a stream needs of whatever carries its bytes."""

    peer: str  # the address at the other end

    def schedule(self) -> None:
        """Call the stream's `flush` soon, once."""

    def write(self, data: bytes) -> None:
        """Send bytes, in order."""

    def waiting(self) -> int:
        """How many bytes were written and have not left yet."""

    def pause(self) -> None:
        """Read nothing more."""

    def resume(self) -> None:
        """Read again."""

    def close(self) -> None:
        """End the connection when everything written has left."""

    def abort(self) -> None:
        """End the connection at once."""


class Stream:
    """A conversation with a peer; its transport calls `received`, `lost`, `choke`, `unchoke`."""

    def __init__(
        self,
        timers: Timers,
        limits: Limits,
        transport: Transport,
        on_message: Callable[[Stream, Any], None],
        on_end: Callable[[Stream, Exception | None], None],
    ) -> None:
        self.conversation = "greeting"
        self.on_message = on_message
        self.on_end = on_end
        self.gather: Callable[[], None] | None = None  # called before each write
        self.frames = Frames(limits.first_frame)
        self.size = 0  # of the current frame, in bytes
        self.bytes_in = 0
        self.bytes_out = 0
        self.choked = False  # the transport cannot take more now
        self.polite = False  # whether to read nothing from a peer that does not read
        self.open = True
        self.error: Exception | None = None
        self.peer = transport.peer
        self._transport = transport
        self._timers = timers
        self._limits = limits
        self._paused = False
        self._waited = 0  # bytes that had not left when we looked last
        self._progress_at = timers.now  # when the peer last read something, while choked
        self._out: list[bytes] = []
        self._scheduled = False
        self.heard_at = timers.now  # when something has last arrived
        self._said_at = timers.now
        self._timer = timers.after(limits.ping, self._beat)
        self._ended = False

    # What the transport calls

    def received(self, data: bytes) -> None:
        """Bytes have arrived."""
        self.bytes_in += len(data)
        self.heard_at = self._timers.now
        self.frames.feed(data)
        self._read()

    def choke(self) -> None:
        """The peer is slow to read."""
        self.choked = True
        self._progress_at = self._timers.now
        self._waited = self._transport.waiting()
        if self.polite and self.open:
            self._paused = True
            self._transport.pause()

    def unchoke(self) -> None:
        """The peer has caught up."""
        self.choked = False
        if self._paused and self.open:
            self._paused = False
            self.heard_at = self._timers.now
            self._transport.resume()
            self._read()
        self.schedule()

    def lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        self.open = False
        self._timer.cancel()
        if not self._ended:
            self._ended = True
            self.on_end(self, self.error or error)

    def flush(self) -> None:
        """Write everything that waits."""
        self._scheduled = False
        if not self.open:
            self._out.clear()
            return
        if self.gather is not None:
            self.gather()
        out = self._out
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            self.bytes_out += len(data)
            self._said_at = self._timers.now
            self._transport.write(data)

    # What owners call

    def agree(self, conversation: str, bound: int) -> None:
        """The greeting is over: what follows is another conversation, with another bound."""
        self.conversation = conversation
        self.frames.bound = bound

    def send(self, message: Any) -> None:
        """Send a message, soon and in order."""
        self.send_frame(frame(encode(message)))

    def send_frame(self, data: bytes) -> None:
        """Send a message that is a frame already."""
        self._out.append(data)
        self.schedule()

    def schedule(self) -> None:
        """Make sure that `gather` is called and everything is written soon."""
        if not self._scheduled and self.open:
            self._scheduled = True
            self._transport.schedule()

    def fail(self, error: WireError) -> None:
        """Tell the peer what is wrong, and end the connection."""
        self.error = error
        if self.open:
            self.flush()  # the collected messages go first
            self.gather = None
            self._out.append(frame(encode(Failed(error.code, error.detail))))
            self.close()

    def close(self) -> None:
        """Write what waits, and end the connection."""
        if self.open:
            self.flush()
            self.open = False
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.open = False
        self._transport.abort()

    # Inside

    def _read(self) -> None:
        frames = self.frames
        try:
            while self.open and not self._paused:
                try:
                    body = next(frames)
                except StopIteration:
                    return
                self.size = len(body)
                self.on_message(self, decode(body, self.conversation))
        except WireError as error:
            self.fail(error)
        except Exception as error:  # a bug of ours; only this connection ends
            journal("bug", peer=self.peer, trace=format_exception(error))
            self.fail(WireError("bug"))

    def _beat(self) -> None:
        """Send a sign of life if due, and fail if the other end gives none."""
        now, silence = self._timers.now, self._limits.silence
        if self.choked:
            waiting = self._transport.waiting()
            if waiting < self._waited:
                self._progress_at = now
            self._waited = waiting
        silent = not self._paused and now - self.heard_at > silence
        stuck = self.choked and now - self._progress_at > silence
        if silent or stuck:
            self.fail(WireError("silent" if silent else "slow"))
            self.abort()
            return
        if self.conversation != "greeting" and now - self._said_at >= self._limits.ping // 2:
            self.send(Ping())
        self._timer = self._timers.after(self._limits.ping, self._beat)
