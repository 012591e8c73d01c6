"""Collects and ranks the constants of filters: numbers, texts, bounds and patterns.

Each kind of constant is first collected, constraint by constraint, then ranked all at once; after
that it gives the places of what was collected. Numbers and bounds are ranked within their slot,
texts for equality are numbered across all slots, patterns are only told apart.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.language import wildcard
from tidings.language.sets import TOP
from tidings.matching import kernels as k

Array = np.ndarray[Any, Any]


class Numbers(NamedTuple):
    """Numbers, slot by slot and in order within each, none twice."""

    highs: Array  # the double that is next to each
    lows: Array  # and what is left
    begins: Array  # of each slot, and where the last ends

    @property
    def counts(self) -> Array:
        """How many there are in each slot."""
        return np.diff(self.begins)


class Texts(NamedTuple):
    """Texts, slot by slot, none twice in a slot; those that are compared in order are in order."""

    places: Array  # where the bytes of each begin, and those of the last end
    data: Array
    begins: Array  # of each slot, and where the last ends

    @property
    def counts(self) -> Array:
        """How many there are in each slot."""
        return np.diff(self.begins)

    @classmethod
    def of(cls, texts: pa.Array, slots: Array, slot_count: int) -> Texts:
        """Texts as Arrow has them, in the order of their slots."""
        _, offsets, data = texts.buffers()
        places = np.zeros(1, np.int64)
        if len(texts):
            places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        held = np.frombuffer(b"" if data is None else data, np.uint8)[places[0] : places[-1]]
        return cls(places - places[0], held, np.searchsorted(slots, np.arange(slot_count + 1)))


class Constants(NamedTuple):
    """What values are compared with."""

    numbers: Numbers
    equal: Texts  # for equality
    bounds: Texts  # in order


class Taken:
    """Constants taken so far, with the slot of each."""

    def __init__(self, slots: int) -> None:
        self.slot_count = slots
        self.slots: list[Array] = []
        self.values: list[Any] = []

    def take(self, slots: Array, values: list[Any]) -> slice:
        """Take constants; what to ask for their places with, once they are ranked."""
        start = len(self.values)
        self.values.extend(values)
        self.slots.append(slots)
        return slice(start, len(self.values))

    def all_slots(self) -> Array:
        """The slot of each."""
        return np.concatenate([*self.slots, np.zeros(0, np.int64)])


class TakenNumbers(Taken):
    """Numbers that values are compared with."""

    def rank(self) -> Numbers:
        """All of them; from then on there are places."""
        slots = self.all_slots()
        highs = np.array(self.values, np.float64)
        lows = np.zeros(highs.size, np.int64)
        for at in np.flatnonzero(np.abs(highs) >= 2.0**53).tolist():
            value = self.values[at]
            if isinstance(value, int):
                lows[at] = value - int(highs[at])
        highs += 0.0  # one zero
        order = np.lexsort((lows, highs, slots))
        in_order = slots[order]
        highs, lows = highs[order], lows[order]
        new = np.zeros(order.size, bool)
        new[:1] = True
        for column in (in_order, highs, lows):
            new[1:] |= column[1:] != column[:-1]
        begins = np.searchsorted(in_order[new], np.arange(self.slot_count + 1))
        number = np.empty(order.size, np.int64)
        number[order] = np.cumsum(new) - 1
        self.places = number - begins[slots]  # of each its place within the slot
        return Numbers(highs[new], lows[new], begins)


class TakenTexts(Taken):
    """Texts that values are compared with for equality."""

    def rank(self) -> Texts:
        """All of them; from then on there are numbers."""
        slots = self.all_slots()
        texts = pa.array(self.values, pa.large_string())
        held = Texts.of(texts, slots, 0)
        self.numbers, first = numbered(slots, held.places, held.data)
        return Texts.of(texts.take(pa.array(first)), slots[first], self.slot_count)


def numbered(slots: Array, places: Array, data: Array) -> tuple[Array, Array]:
    """The numbers of texts, slot by slot and across all, and where each number occurs first."""
    number = np.empty(slots.size, np.int64)
    first = np.empty(slots.size, np.int64)
    table = k.table_for(slots.size)
    count = k.number_texts(slots, places, read_only(data), table, number, first)
    order = np.argsort(slots[first[:count]], kind="stable")
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    return place[number], first[order]


def read_only(array: Array) -> Array:
    """A view that cannot be written to: to Numba it is of another type than one that can."""
    view = array.view()
    view.flags.writeable = False
    return view


def fixed(constants: Any) -> Any:
    """Constants in arrays that cannot be written to, as they are when mapped from a file."""
    return type(constants)(*map(read_only, constants))


class TakenBounds(Taken):
    """Texts that values are compared with in order, which is by code point."""

    def rank(self) -> Texts:
        """All of them; from then on there are places."""
        slots = self.all_slots()
        texts = sorted({text for text in self.values if text is not TOP})
        rank = {text: number for number, text in enumerate(texts)}
        rank[TOP] = len(texts)  # above all, in no slot
        size = len(texts) + 1
        ranks = np.fromiter(map(rank.__getitem__, self.values), np.int64, len(self.values))
        both = slots * size + ranks
        used = np.unique(both[ranks < len(texts)])
        held = pa.array(texts, pa.large_string()).take(pa.array(used % size))
        found = Texts.of(held, used // size, self.slot_count)
        self.places = np.searchsorted(used, both) - found.begins[slots]  # of each within the slot
        return found


class Patterns:
    """What values are to contain or to fit, told apart by its bytes."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.grams: list[int] = []  # of each number the run to file it under; zero if there is none

    def contained(self, texts: list[bytes]) -> Array:
        """The numbers of texts that values may contain."""
        runs = {
            text: [text[i : i + 3] for i in range(max(len(text) - 2, 1))]
            for text in dict.fromkeys(texts)
        }
        common: dict[bytes, int] = {}
        for run in chain.from_iterable(runs.values()):
            common[run] = common.get(run, 0) + 1
        number = {text: self._number(text) for text in runs}
        for text, found in runs.items():
            rarest = min(found, key=common.__getitem__)
            self.grams[number[text]] = int.from_bytes(rarest, "big") | len(rarest) << 24
        return np.fromiter(map(number.__getitem__, texts), np.int64, len(texts))

    def fitted(self, patterns: list[bytes]) -> Array:
        """The numbers of patterns that whole values may fit; -1 for one that is too long."""
        number = {
            pattern: self._number(pattern) if len(pattern) <= k.LONGEST_LIKE else -1
            for pattern in dict.fromkeys(patterns)
        }
        return np.fromiter(map(number.__getitem__, patterns), np.int64, len(patterns))

    def _number(self, data: bytes) -> int:
        number = self.numbers.setdefault(data, len(self.numbers))
        if number == len(self.grams):
            self.grams.append(0)
        return number

    def joined(self, others: Patterns) -> tuple[Patterns, Array]:
        """These and others together, and for each of the others its number there."""
        both = Patterns()
        both.numbers, both.grams = dict(self.numbers), list(self.grams)
        number_of = np.fromiter(map(both._number, others.numbers), np.int64, len(others.numbers))
        for number, gram in zip(number_of.tolist(), others.grams, strict=True):
            both.grams[number] = both.grams[number] or gram
        return both, number_of

    def texts(self) -> Texts:
        """All of them, in one slot."""
        held = pa.array(list(self.numbers), pa.large_binary())
        return Texts.of(held, np.zeros(len(held), np.int64), 1)


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
