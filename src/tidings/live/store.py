"""Keeps the deliveries that clients have not taken: the interface, and the store in memory.

A `Mailbox` holds the deliveries of one session that its client has not taken yet, and the number of
the newest publication received from it. That is all that a session needs to go on after a broken
connection; with a store on disk it could go on after a crash of the router. `Memory` loses
everything when the process ends.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple, Protocol

from tidings.wire.messages import Delivery


class Kept(NamedTuple):
    """A delivery that the client has not taken yet."""

    number: int
    size: int  # bytes of its event
    delivery: Delivery


class Mailbox(Protocol):
    """The deliveries of one session, numbered from 1."""

    published: int  # the newest publication received from the session

    def append(self, delivery: Delivery, size: int) -> int:
        """Keep a delivery; return its number."""

    def after(self, number: int, most: int) -> list[Kept]:
        """The oldest deliveries above a number, at most `most` of them."""

    def take(self, number: int) -> None:
        """Discard the deliveries up to this number."""

    def drop_oldest(self, above: int) -> Kept | None:
        """Remove and return the oldest delivery above a number; None if there is none."""

    @property
    def newest(self) -> int:
        """The number of the newest delivery."""

    @property
    def size(self) -> int:
        """The bytes of all events kept."""

    def __len__(self) -> int:
        """How many deliveries are kept."""


class Store(Protocol):
    """The mailboxes by session."""

    def open(self, session: str) -> Mailbox:
        """The mailbox of a session, made if there is none yet."""

    def remove(self, session: str) -> None:
        """Discard the mailbox of a session."""


class MemoryMailbox:
    """A mailbox in memory."""

    def __init__(self) -> None:
        self.published = 0
        self._kept: deque[Kept] = deque()
        self._newest = 0
        self._size = 0

    def append(self, delivery: Delivery, size: int) -> int:
        """Keep a delivery; return its number."""
        self._newest += 1
        self._size += size
        self._kept.append(Kept(self._newest, size, delivery))
        return self._newest

    def after(self, number: int, most: int) -> list[Kept]:
        """The oldest deliveries above a number, at most `most` of them."""
        start = self._first_above(number)
        return list(islice(self._kept, start, start + most))

    def take(self, number: int) -> None:
        """Discard the deliveries up to this number."""
        kept = self._kept
        while kept and kept[0].number <= number:
            self._size -= kept.popleft().size

    def drop_oldest(self, above: int) -> Kept | None:
        """Remove and return the oldest delivery above a number; None if there is none."""
        index = self._first_above(above)
        if index == len(self._kept):
            return None
        one = self._kept[index]
        del self._kept[index]
        self._size -= one.size
        return one

    def _first_above(self, number: int) -> int:
        """The place of the first delivery above a number."""
        kept = self._kept
        if not kept or number < kept[0].number:
            return 0
        # Only dropped deliveries leave gaps, so the place is right or too late.
        place = min(len(kept), number - kept[0].number + 1)
        while kept[place - 1].number > number:
            place -= 1
        return place

    @property
    def newest(self) -> int:
        """The number of the newest delivery."""
        return self._newest

    @property
    def size(self) -> int:
        """The bytes of all events kept."""
        return self._size

    def __len__(self) -> int:
        return len(self._kept)


class Memory:
    """The store in memory."""

    def __init__(self) -> None:
        self._mailboxes: dict[str, MemoryMailbox] = {}

    def open(self, session: str) -> MemoryMailbox:
        """The mailbox of a session, made if there is none yet."""
        return self._mailboxes.setdefault(session, MemoryMailbox())

    def remove(self, session: str) -> None:
        """Discard the mailbox of a session."""
        self._mailboxes.pop(session, None)
