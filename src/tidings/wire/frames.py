"""Frames: split a stream of bytes into message bodies, each with a length and a checksum.

A frame is the length of its body (four bytes, big-endian), the CRC-32 of the body (likewise) and
the body. `Frames` takes bytes as they arrive, one by one or all at once, and gives the bodies.
However the bytes are split, it gives the same bodies, and the same `WireError` at the same place.
It buffers nothing of a frame whose length is over the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from tidings.wire.errors import WireError

HEADER: Final = 8
MAX_FIRST: Final = 4 * 1024  # bytes of a frame before the greeting is over
MAX_CLIENT: Final = 1024 * 1024  # of a frame from or to a client
MAX_ROUTER: Final = 16 * 1024 * 1024  # of a frame between routers


def frame(body: bytes) -> bytes:
    """The frame of a body.

    >>> frame(b"hi").hex(" ")
    '00 00 00 02 d8 93 2a ac 68 69'
    """
    return len(body).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body


class Frames:
    """Bytes in, bodies out.

    >>> frames = Frames(MAX_FIRST)
    >>> frames.feed(frame(b"one") + frame(b"two")[:5])
    >>> list(frames)
    [b'one']
    """

    __slots__ = ("_buffer", "_position", "bound", "error")

    def __init__(self, bound: int) -> None:
        self.bound = bound  # of a body, in bytes; may change between two frames
        self.error: WireError | None = None
        self._buffer = b""
        self._position = 0

    def feed(self, data: bytes) -> None:
        """Add bytes; `__next__` parses them."""
        if self.error is not None:
            return
        rest = self._buffer[self._position :] if self._position else self._buffer
        self._buffer = rest + data if rest else bytes(data)
        self._position = 0

    @property
    def held(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._buffer) - self._position

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """The next complete body. After one `WireError` every further call raises it again."""
        if self.error is not None:
            raise self.error
        buffer, start = self._buffer, self._position
        if len(buffer) - start < HEADER:
            raise StopIteration
        size = int.from_bytes(buffer[start : start + 4], "big")
        if size > self.bound:
            raise self._fail("too-long", f"{size} bytes, the bound is {self.bound}")
        if size == 0:
            raise self._fail("empty")
        end = start + HEADER + size
        if len(buffer) < end:
            raise StopIteration
        body = buffer[start + HEADER : end]
        if crc32(body) != int.from_bytes(buffer[start + 4 : start + HEADER], "big"):
            raise self._fail("damaged")
        self._position = end
        return body

    def _fail(self, code: str, detail: str = "") -> WireError:
        self.error = WireError(code, detail)
        self._buffer, self._position = b"", 0
        return self.error
