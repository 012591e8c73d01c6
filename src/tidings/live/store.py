"""What a router keeps for its clients: an interface, and the store in memory.

A `Mailbox` holds the deliveries of one session that its client has not taken yet, and the number
of the newest publication taken from it. That is all that a session needs to go on after its
connection broke; a store on disk would let it go on after the router did. `Memory` loses
everything when the process ends.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple, Protocol

from tidings.wire.messages import Delivery


class Kept(NamedTuple):
    """A delivery that is not taken yet."""

    number: int
    size: int  # bytes of its event
    delivery: Delivery


class Mailbox(Protocol):
    """The deliveries of one session, numbered from 1 on."""

    published: int  # the newest publication taken from the session

    def append(self, delivery: Delivery, size: int) -> int:
        """Keep a delivery; its number."""

    def after(self, number: int, most: int) -> list[Kept]:
        """The oldest deliveries above a number, so many at most."""

    def take(self, number: int) -> None:
        """Deliveries up to this number need not be kept any more."""

    def drop_oldest(self, above: int) -> Kept | None:
        """Take out the oldest delivery above a number; None if there is none."""

    @property
    def newest(self) -> int:
        """The newest number given."""

    @property
    def size(self) -> int:
        """The bytes of all events kept."""

    def __len__(self) -> int:
        """How many deliveries are kept."""


class Store(Protocol):
    """The mailboxes by session."""

    def open(self, session: str) -> Mailbox:
        """The mailbox of a session, made if there is none."""

    def remove(self, session: str) -> None:
        """Nothing is to be kept for this session any more."""


class MemoryMailbox:
    """A mailbox in memory."""

    def __init__(self) -> None:
        self.published = 0
        self._kept: deque[Kept] = deque()
        self._newest = 0
        self._size = 0

    def append(self, delivery: Delivery, size: int) -> int:
        """Keep a delivery; its number."""
        self._newest += 1
        self._size += size
        self._kept.append(Kept(self._newest, size, delivery))
        return self._newest

    def after(self, number: int, most: int) -> list[Kept]:
        """The oldest deliveries above a number, so many at most."""
        start = self._first_above(number)
        return list(islice(self._kept, start, start + most))

    def take(self, number: int) -> None:
        """Deliveries up to this number need not be kept any more."""
        kept = self._kept
        while kept and kept[0].number <= number:
            self._size -= kept.popleft().size

    def drop_oldest(self, above: int) -> Kept | None:
        """Take out the oldest delivery above a number; None if there is none."""
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
        # Numbers have gaps only where deliveries were dropped, so this is at most too late.
        place = min(len(kept), number - kept[0].number + 1)
        while kept[place - 1].number > number:
            place -= 1
        return place

    @property
    def newest(self) -> int:
        """The newest number given."""
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
        """The mailbox of a session, made if there is none."""
        return self._mailboxes.setdefault(session, MemoryMailbox())

    def remove(self, session: str) -> None:
        """Nothing is to be kept for this session any more."""
        self._mailboxes.pop(session, None)
