"""The constants of filters, ranked: what turns a comparison into an interval of whole numbers.

Each kind of constant is first taken, constraint by constraint, then ranked all at once, and then
asked for the places of what was taken. Numbers and bounds are ranked within their slot, texts for
equality are numbered across all slots, patterns are only told apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidings.language import wildcard
from tidings.language.sets import TOP
from tidings.matching import kernels as k

Array = np.ndarray[Any, Any]


class Constants:
    """Constants taken so far, with the slot of each."""

    def __init__(self, slots: int) -> None:
        self.slot_count = slots
        self.taken_slots: list[Array] = []
        self.taken: list[Any] = []

    def take(self, slots: Array, values: list[Any]) -> slice:
        """Take constants; what to ask for their places with, once they are ranked."""
        start = len(self.taken)
        self.taken.extend(values)
        self.taken_slots.append(slots)
        return slice(start, len(self.taken))


class Numbers(Constants):
    """The numeric constants of all slots, ranked within each, exactly."""

    def rank(self) -> None:
        slots = np.concatenate([*self.taken_slots, np.zeros(0, np.int64)])
        highs = np.array(self.taken, np.float64)
        lows = np.zeros(highs.size, np.int64)
        for at in np.flatnonzero(np.abs(highs) >= 2.0**53).tolist():
            value = self.taken[at]
            if isinstance(value, int):
                lows[at] = value - int(highs[at])
        highs += 0.0  # one zero
        order = np.lexsort((lows, highs, slots))
        slots, highs, lows = slots[order], highs[order], lows[order]
        new = np.zeros(order.size, bool)
        new[:1] = True
        for column in (slots, highs, lows):
            new[1:] |= column[1:] != column[:-1]
        self.constant = np.empty(order.size, np.int64)  # of each taken: its number among all
        self.constant[order] = np.cumsum(new) - 1
        self.highs, self.lows, self.slots = highs[new], lows[new], slots[new]
        self.counts = np.bincount(self.slots, minlength=self.slot_count)
        self.begins = np.concatenate(([0], np.cumsum(self.counts)))

    def index(self, taken: slice) -> Array:
        constant: Array = self.constant[taken]
        return constant

    def place(self, taken: slice) -> Array:
        number = self.constant[taken]
        within: Array = number - self.begins[self.slots[number]]
        return within

    def size(self, slots: Array) -> Array:
        counts: Array = self.counts[slots]
        return counts


class Equalities(Constants):
    """Texts that values are compared with for equality, numbered across all slots."""

    def rank(self) -> None:
        slots = np.concatenate([*self.taken_slots, np.zeros(0, np.int64)])
        self.texts = pa.array(self.taken, pa.large_string())
        _, offsets, data = self.texts.buffers()
        begins = np.frombuffer(offsets, np.int64)[: len(self.texts) + 1] if self.taken else slots
        held = np.frombuffer(data if data is not None else b"", np.uint8)
        number = np.empty(slots.size, np.int64)
        first = np.empty(slots.size, np.int64)  # of each distinct one where it was taken
        first = first[: k.number_texts(slots, begins, held, k.table_for(slots.size), number, first)]
        order = np.argsort(slots[first], kind="stable")
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        self.number = place[number]  # of each taken
        self.first = first[order]
        self.slots = slots[self.first]


class Bounds(Constants):
    """Texts that values are compared with in order, ranked within each slot by code point."""

    def rank(self) -> None:
        slots = np.concatenate([*self.taken_slots, np.zeros(0, np.int64)])
        self.sorted = sorted({text for text in self.taken if text is not TOP})
        rank = {text: number for number, text in enumerate(self.sorted)}
        rank[TOP] = len(self.sorted)  # above all, in no slot
        size = len(self.sorted) + 1
        ranks = np.fromiter(map(rank.__getitem__, self.taken), np.int64, len(self.taken))
        real = ranks < size - 1
        used = np.unique(slots[real] * size + ranks[real])
        self.slots, self.ranks = used // size, used % size
        self.counts = np.bincount(self.slots, minlength=self.slot_count)
        self.begins = np.concatenate(([0], np.cumsum(self.counts)))
        number = np.searchsorted(used, slots * size + ranks)
        self.within = number - self.begins[slots]

    def place(self, taken: slice) -> Array:
        within: Array = self.within[taken]
        return within

    def size(self, slots: Array) -> Array:
        counts: Array = self.counts[slots]
        return counts

    def base(self, slots: Array) -> Array:
        """Where the places of a slot begin among those of all."""
        return 2 * self.begins[slots] + slots

    def encoded(self) -> Iterable[bytes]:
        return (self.sorted[rank].encode() for rank in self.ranks.tolist())


class Patterns:
    """What values are to contain or to fit, told apart by its bytes."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def contained(self, texts: list[str]) -> tuple[Array, Array]:
        """The numbers of texts that values may contain, and of each the run to file it under."""
        distinct = {text: text.encode() for text in dict.fromkeys(texts)}
        runs = {
            text: [data[i : i + 3] for i in range(max(len(data) - 2, 1))]
            for text, data in distinct.items()
        }
        common: dict[bytes, int] = {}
        for run in chain.from_iterable(runs.values()):
            common[run] = common.get(run, 0) + 1
        rarest = {text: min(found, key=lambda run: common[run]) for text, found in runs.items()}
        gram = {text: int.from_bytes(run, "big") | len(run) << 24 for text, run in rarest.items()}
        number = {text: self._number(data) for text, data in distinct.items()}
        numbers = np.fromiter(map(number.__getitem__, texts), np.int64, len(texts))
        return numbers, np.fromiter(map(gram.__getitem__, texts), np.int64, len(texts))

    def like(self, patterns: list[str]) -> Array:
        """The numbers of patterns that whole values may fit; -1 for one that is too long."""
        distinct = {pattern: like_bytes(pattern) for pattern in dict.fromkeys(patterns)}
        number = {
            pattern: self._number(data) if len(data) <= k.LONGEST_LIKE else -1
            for pattern, data in distinct.items()
        }
        return np.fromiter(map(number.__getitem__, patterns), np.int64, len(patterns))

    def _number(self, data: bytes) -> int:
        return self.numbers.setdefault(data, len(self.numbers))

    def encoded(self) -> Iterable[bytes]:
        return self.numbers


def like_bytes(pattern: str) -> bytes:
    r"""A pattern of `like` as `kernels.fits` reads it.

    >>> like_bytes("a%_")
    b'a\xfe\xff'
    """
    return b"".join(
        part.encode() if isinstance(part, str) else _WILDCARDS[part]
        for part in wildcard.tokens(pattern)
    )


_WILDCARDS: Final = {
    wildcard.ONE: bytes([k.ANY_CHARACTER]),
    wildcard.MANY: bytes([k.ANY_TEXT]),
}
