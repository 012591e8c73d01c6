"""Records every cause and action of a live run, and replays it through the protocol alone.

The file consists of frames. The first names the node and the protocol; each further one holds a
time, a cause and the actions. `replay` gives the causes to a new node of the same protocol, without
sockets, and reports where the actions differ. If none differ, the protocol alone decided what the
live router did, and a fault in a recording can be studied in one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from tidings.live.edge import Growing
from tidings.routing.layers.settings import Layering
from tidings.routing.planes.board import Board
from tidings.routing.protocol import Action, Cause, Timing
from tidings.routing.protocols import Chosen, protocol
from tidings.wire.frames import MAX_ROUTER, Frames, frame
from tidings.wire.messages import encode


class Header(msgspec.Struct, frozen=True, array_like=True):
    """The node that was recorded."""

    node: str
    life: int
    protocol: str
    timing: list[int]
    options: dict[str, Any] = {}  # of the protocol
    applications: dict[str, Layering] = {}  # that share the node


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One cause and its actions."""

    now: int
    cause: Cause
    actions: list[Action]


class Difference(NamedTuple):
    """A cause whose actions in the replay differ from the recorded ones."""

    entry: int
    cause: Cause
    recorded: list[Any]
    replayed: list[Any]


class Recorder:
    """Writes a recording."""

    def __init__(
        self,
        path: Path,
        node: str,
        life: int,
        chosen: Chosen,
        timing: Timing,
        applications: Mapping[str, Layering] | None = None,
    ) -> None:
        self._file = path.open("wb")
        options = msgspec.structs.asdict(chosen.options)
        given = chosen.name, list(timing), options, dict(applications or {})
        self._file.write(frame(encode(Header(node, life, *given))))

    def write(self, now: int, cause: Cause, actions: list[Action]) -> None:
        """Record a cause and its actions."""
        self._file.write(frame(encode(Entry(now, cause, actions))))

    def close(self) -> None:
        """Close the file."""
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
    """Read a recording; an incomplete last entry is left out."""
    frames = Frames(MAX_ROUTER)
    frames.feed(path.read_bytes())
    header = msgspec.msgpack.decode(next(frames), type=Header)
    return header, (_entry.decode(body) for body in frames)


def replay(path: Path) -> tuple[int, list[Difference]]:
    """Replay a recording: how many causes there were, and where the actions differ."""
    header, entries = read_recording(path)
    chosen = protocol(header.protocol, header.options)
    board = Board(Growing())
    make = chosen.row.configured(chosen.options)
    more = {"applications": header.applications} if header.applications else {}
    router = make(header.node, header.life, Timing(*header.timing), board=board, **more)
    differences = []
    count = 0
    for count, entry in enumerate(entries, 1):
        actions = router.handle(entry.cause, entry.now)
        if encode(actions) != encode(entry.actions):
            differences.append(Difference(count, entry.cause, entry.actions, actions))
    return count, differences
