"""A live run, recorded: every cause and the actions it led to, so that it can be played again.

The file is frames: the first says which node of which protocol, each further one is a time, a
cause and the actions. `replay` gives the causes to a new node of the same protocol, without any
socket, and says where the actions differ. If none do, what the live router did was the protocol's
doing, and every fault found in a recording can be studied in one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from tidings.live.edge import Growing
from tidings.routing.protocol import Action, Cause, Timing
from tidings.routing.protocols import PROTOCOLS
from tidings.wire.frames import MAX_ROUTER, Frames, frame
from tidings.wire.messages import encode


class Header(msgspec.Struct, frozen=True, array_like=True):
    """What was recorded."""

    node: str
    life: int
    protocol: str
    timing: list[int]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One cause."""

    now: int
    cause: Cause
    actions: list[Action]


class Difference(NamedTuple):
    """Where a replay went another way."""

    entry: int
    cause: Cause
    recorded: list[Any]
    replayed: list[Any]


class Recorder:
    """Writes a recording."""

    def __init__(self, path: Path, node: str, life: int, protocol: str, timing: Timing) -> None:
        self._file = path.open("wb")
        self._file.write(frame(encode(Header(node, life, protocol, list(timing)))))

    def write(self, now: int, cause: Cause, actions: list[Action]) -> None:
        """A cause has been handled."""
        self._file.write(frame(encode(Entry(now, cause, actions))))

    def close(self) -> None:
        """Write everything out."""
        self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_entry = msgspec.msgpack.Decoder(Entry)


def read_recording(path: Path) -> tuple[Header, Iterator[Entry]]:
    """What was recorded; a last entry that was not written whole is left out."""
    frames = Frames(MAX_ROUTER)
    frames.feed(path.read_bytes())
    header = msgspec.msgpack.decode(next(frames), type=Header)
    return header, (_entry.decode(body) for body in frames)


def replay(path: Path) -> tuple[int, list[Difference]]:
    """How many causes were played again, and where the actions differ."""
    header, entries = read_recording(path)
    make = PROTOCOLS[header.protocol].make
    router = make(header.node, header.life, Timing(*header.timing), matcher=Growing)
    differences = []
    count = 0
    for count, entry in enumerate(entries, 1):
        actions = router.handle(entry.cause, entry.now)
        if encode(actions) != encode(entry.actions):
            differences.append(Difference(count, entry.cause, entry.actions, actions))
    return count, differences
