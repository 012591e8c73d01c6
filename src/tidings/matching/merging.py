"""Merging in the background: one thread for all tables makes one segment of several.

Every segment costs an event some time, so a table that grows has few: the segments of a table are
merged from the newest backwards while the next is not much larger than these together. Building
needs no Python, so the thread that merges does not hold the GIL.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final
from weakref import ref

if TYPE_CHECKING:
    from tidings.matching.native.engine import Index

MOST_SEGMENTS: Final = 16  # with more, a writer waits until some are merged (back-pressure)


class Merger:
    """The thread that merges, started when the first table needs it."""

    def __init__(self) -> None:
        self._wanted: SimpleQueue[ref[Index]] = SimpleQueue()
        self._changed = threading.Condition()
        self._pending: dict[int, int] = {}  # by the identity of an index: requests not done
        self._thread: threading.Thread | None = None

    def request(self, index: Index) -> None:
        """Merge what is due in an index, soon."""
        with self._changed:
            if self._pending.get(id(index), 0) > 0:  # it will be looked at
                return
            self._pending[id(index)] = 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, daemon=True, name="tidings-merge")
                self._thread.start()
        self._wanted.put(ref(index))

    def wait(self, index: Index) -> None:
        """Wait until nothing is merged in an index."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pending.get(id(index)))

    def _run(self) -> None:
        while True:
            wanted = self._wanted.get()
            index = wanted()
            if index is None:
                continue
            key = id(index)
            try:
                merge_due(index)
            except MemoryError:
                pass  # the segments stay as they are, and the next fold asks again
            finally:
                with self._changed:
                    self._pending.pop(key, None)
                    self._changed.notify_all()
            del index


def merge_due(index: Index) -> None:
    """Merge until nothing is due."""
    while count := index.due():
        index.merge(count)


MERGER: Final = Merger()
