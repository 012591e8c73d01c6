"""One connection: sends and receives messages in frames, and knows nothing of their meaning.

The owner of a connection gives it one function for messages and one for its end. The connection
collects what is sent and writes it once in a turn of the event loop. Just before it writes it calls
the owner's `gather`, so many deliveries become one frame. The owner can hold a connection: it then
reads nothing and hands on nothing until it is released, which pushes back on the sender. A peer
that breaks the protocol gets a `Failed` that says how, and the connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from traceback import format_exception
from typing import Any, Final

from tidings.live.journal import journal
from tidings.wire.errors import WireError
from tidings.wire.frames import MAX_FIRST, Frames, frame
from tidings.wire.messages import Failed, Ping, decode, encode

PING_S: Final = 1.0  # between signs of life
SILENCE_S: Final = 10.0  # after which the connection fails
HIGH_WATER: Final = 512 * 1024  # bytes waiting to be sent; beyond that the owner sends no more


class Connection(asyncio.Protocol):
    """A stream of messages with a peer, in one conversation at a time."""

    def __init__(
        self,
        conversation: str,
        on_message: Callable[[Connection, Any], None],
        on_end: Callable[[Connection, Exception | None], None],
        on_made: Callable[[Connection], None] | None = None,
    ) -> None:
        self.conversation = conversation
        self.on_message = on_message
        self.on_end = on_end
        self.on_made = on_made
        self.gather: Callable[[], None] | None = None  # called before each write
        self.frames = Frames(MAX_FIRST)
        self.size = 0  # of the current frame, in bytes
        self.bytes_in = 0
        self.bytes_out = 0
        self.choked = False  # more than HIGH_WATER waits to be sent
        self.polite = False  # whether to read nothing from a peer that does not read
        self.open = False
        self.error: Exception | None = None
        self._holds = 0
        self._choked_at = 0.0
        self._out: list[bytes] = []
        self._flush_due = False
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._said_at = self._heard_at
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is open."""
        self._transport = transport  # type: ignore[assignment]  # uvloop's is not an asyncio.Transport
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        self.open = True
        self._timer = self._loop.call_later(PING_S, self._beat)
        if self.on_made is not None:
            self.on_made(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        self.bytes_in += len(data)
        self._heard_at = self._loop.time()
        self.frames.feed(data)
        self._pump()

    def pause_writing(self) -> None:
        """The peer is slow to read."""
        self.choked = True
        self._choked_at = self._loop.time()
        if self.polite:
            self.hold()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self.choked = False
        if self.polite:
            self.release()
        self.schedule()

    def connection_lost(self, error: Exception | None) -> None:
        """The stream has ended."""
        self.open = False
        if self._timer is not None:
            self._timer.cancel()
        if not self._ended:
            self._ended = True
            self.on_end(self, self.error or error)

    # What owners call

    def agree(self, conversation: str, bound: int) -> None:
        """The greeting is over: what follows is another conversation, with another bound."""
        self.conversation = conversation
        self.frames.bound = bound

    def send(self, message: Any) -> None:
        """Send a message, soon and in order."""
        self._out.append(frame(encode(message)))
        self.schedule()

    def schedule(self) -> None:
        """Make sure that `gather` is called and everything is written in this turn of the loop."""
        if not self._flush_due and self.open:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def fail(self, error: WireError) -> None:
        """Tell the peer what is wrong, and end the connection."""
        self.error = error
        if self.open:
            self._flush()  # the collected messages go first
            self._out.append(frame(encode(Failed(error.code, error.detail))))
            self.close()

    def close(self) -> None:
        """Write what waits, and end the connection."""
        if self.open and self._transport is not None:
            self._flush()
            self.open = False
            self._transport.close()
            self._loop.call_later(1.0, self._transport.abort)

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self.open = False
            self._transport.abort()

    def hold(self) -> None:
        """Read nothing more, until `release` has been called as often as `hold`."""
        self._holds += 1
        if self._holds == 1 and self._transport is not None:
            self._transport.pause_reading()

    def release(self) -> None:
        """Go on reading."""
        self._holds -= 1
        if not self._holds and self.open and self._transport is not None:
            self._heard_at = self._loop.time()
            self._transport.resume_reading()
            self._loop.call_soon(self._pump)

    @property
    def peer(self) -> str:
        """The address at the other end."""
        name = self._transport.get_extra_info("peername") if self._transport else None
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "nobody"

    # Inside

    def _pump(self) -> None:
        frames = self.frames
        try:
            while not self._holds and self.open:
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

    def _flush(self) -> None:
        self._flush_due = False
        if not self.open or self._transport is None:
            self._out.clear()
            return
        if self.gather is not None:
            self.gather()
        out = self._out
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            self.bytes_out += len(data)
            self._said_at = self._loop.time()
            self._transport.write(data)

    def _beat(self) -> None:
        """Send a sign of life if due, and fail if the other end gives none."""
        now = self._loop.time()
        if not self._holds and now - self._heard_at > SILENCE_S:
            self.fail(WireError("silent"))
            self.abort()
            return
        if self.choked and now - self._choked_at > SILENCE_S:
            self.fail(WireError("slow"))
            self.abort()
            return
        if self.conversation != "greeting" and now - self._said_at >= PING_S / 2:
            self.send(Ping())
        self._timer = self._loop.call_later(PING_S, self._beat)
