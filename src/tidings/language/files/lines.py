"""Opens a file of subscriptions and reads its lines; all formats use it.

It detects compression, and reads the file as a stream: it holds one line at a time, and of that
line no more than a bound. A format takes `Lines` and yields a `Record` for each subscription, or a
`BadLine` for a line that is not one; reading continues after it. A mistake in the file as a whole
raises `UnreadableFile`.

This file does not know the formats, nor what a good id or predicate is.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

MAX_RECORD_BYTES: Final = 8 * 1024 * 1024  # of a line, and of a CSV record that spans lines

_BOM: Final = b"\xef\xbb\xbf"
_GZIP: Final = b"\x1f\x8b"  # no text in UTF-8 begins like this

Id = str | int
Source = str | os.PathLike[str] | BinaryIO

# Line number, id, predicate, its dialect if one is named, and whatever the format needs to find the
# place of a mistake.
Record = tuple[int, Id, str, str | None, Any]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a subscription; if a record spans lines, the first of them."""

    line: int  # from 1
    raw: bytes
    expected: str
    found: str
    column: int | None = None  # in characters from 1; None if the mistake has no place
    id: Id | None = None  # if it could be read


class UnreadableFile(Exception):
    """A file that cannot be read to its end, or does not begin as its format must."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected = expected
        self.found = found
        super().__init__(f"expected {expected}, found {found}")


class Lines:
    """The lines of a stream as bytes, with line ends; `number` is the last line read, from 1.

    Of a line longer than `max_bytes` it gives the beginning and skips the rest.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.number = 0
        self.max_bytes = MAX_RECORD_BYTES

    def __iter__(self) -> Iterator[bytes]:
        readline = self.stream.readline
        while raw := readline(self.max_bytes + 1):
            self.number += 1
            if self.number == 1:
                raw = raw.removeprefix(_BOM)
            if len(raw) > self.max_bytes:
                rest = raw
                while rest and not rest.endswith(b"\n"):
                    rest = readline(self.max_bytes)
            yield raw

    def decode(self, line: int, raw: bytes) -> str | BadLine:
        """The text of a line, or what is wrong with it in any format."""
        if len(raw) > self.max_bytes:
            return BadLine(line, raw, f"a line of at most {self.max_bytes} bytes", "a longer one")
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            column = len(raw[: error.start].decode()) + 1
            return BadLine(line, raw, "UTF-8", f"the byte 0x{raw[error.start]:02x}", column)


@contextmanager
def opened(source: Source) -> Iterator[Lines]:
    """The lines of a file or of a stream; a stream is left open.

    Errors while reading the lines raise `UnreadableFile` too.
    """
    try:
        if isinstance(source, str | os.PathLike):
            with open(source, "rb") as stream:
                yield Lines(_decompressed(stream))
        elif isinstance(source, io.TextIOBase):
            raise TypeError("expected a stream of bytes, found one of text (open it in mode 'rb')")
        else:
            yield Lines(_decompressed(source))
    except FileNotFoundError:
        raise UnreadableFile("a file", "none of this name") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UnreadableFile("a file that can be read", reason) from error


def _decompressed(stream: BinaryIO) -> BinaryIO:
    buffered: Any = stream if hasattr(stream, "peek") else io.BufferedReader(_Raw(stream))
    if buffered.peek(2)[:2] == _GZIP:
        # GzipFile without a buffer reads lines slowly.
        buffered = io.BufferedReader(gzip.GzipFile(fileobj=buffered), 256 * 1024)
    return buffered  # type: ignore[no-any-return]


class _Raw(io.RawIOBase):
    """Wraps a stream that can only `read`, so that it can be buffered; never closes it."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.stream.read(len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)
