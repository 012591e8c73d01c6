"""The recent index: subscriptions added since the last compilation, in arrays that grow.

Kernels read and write it and keep the GIL, so a reader sees all of a change or none of it. A filter
goes to them as MessagePack, like an event. They hold it with its constants unranked, filed under an
equality, under bytes of a text, or else under the presence of an attribute. This module evaluates
the residuals that they leave to Python.

`add` queues a subscription, and the next match files the whole queue at once, in the cache of the
processor that will read it.

If there is no room, `larger` makes another index without the removed subscriptions.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
import numpy as np

from tidings.language.constraint import IGNORING_CASE, Constraint
from tidings.language.expression import conjoin
from tidings.language.predicate import Predicate
from tidings.matching import kernels as k
from tidings.matching import recent_kernels as rk
from tidings.matching.contract import Id, all_integers
from tidings.matching.ranking import FOLDED, derived_name, filters_of
from tidings.matching.residuals import Check, Residuals
from tidings.matching.segment import ids_at

Array = np.ndarray[Any, Any]

LEAST: Final = 256  # subscriptions that there is room for at first
# By which factor the room grows, and by which at most if more is wanted; memory is taken only with
# use.
GROWTH, MOST_GROWTH = 4, 128
USUAL: Final = 128  # bytes of a subscription's filters as MessagePack, usually
LINE: Final = 64  # bytes
FOLDING: Final = frozenset(IGNORING_CASE.values()) - {"ilike", "imatches"}
MOST: Final = 1 << 63
MOST_WAITING: Final = 256  # subscriptions that wait to be filed
NEVER: Final = msgspec.msgpack.encode([])  # no filters
NOTHING: Final = np.zeros(0, np.int64)
NONE: Final = np.zeros(rk.USED, np.int64)
_ASKED: Final = frozenset({"ilike", "matches", "imatches", "holds"})
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class RecentIndex:
    """Subscriptions with ids, each with a number by which the kernels know it."""

    def __init__(
        self, room: Array | None = None, size: int = 0, filters: int = 0, wanted: int = 0
    ) -> None:
        """Make an index with room for `room` of each thing, and `size` bytes and `filters` more.

        `wanted` subscriptions are expected here in the end.
        """
        self.wanted = wanted
        self.predicates: list[Predicate] = []
        self.numbers: dict[Id, int] = {}  # of those that are not removed
        self.folded: dict[str, str] = {}
        self.changes = 0
        self.replaced = 0  # grows whenever something is, or may have been, replaced
        self.replacing = False  # something at this moment
        self.waiting: list[bytes] = []  # the last predicates, which are to be filed
        self.residuals = Residuals()
        self._arrays = {
            name: _zeros(length, np.dtype(np.uint8 if name == rk.HELD_TEXTS else np.int64))
            for name, length in _lengths(NONE if room is None else room, size, filters).items()
        }
        self.used = self._arrays[rk.HELD_USED]
        self.used[rk.USED_SLOTS] = 1  # which is always present
        self.used[rk.USED_CHAINS] = _chains(self.room)
        self._arrays[rk.HELD_SLOTS][[rk.SLOT_BLOCK, rk.SLOT_LAST_BLOCK]] = -1
        self.ids = np.empty(self.room, object)
        self._most = self.room
        self._integers = self._arrays[rk.HELD_IDS].data  # the same, as long as all are integers
        self.context = np.zeros(rk.HELD_CONTEXT, np.int64)
        for name, array in self._arrays.items():
            self.context[name : name + 2] = array.ctypes.data, array.size

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def room(self) -> int:
        """How many subscriptions it has room for."""
        return self._arrays[rk.HELD_OWNERS].size // rk.OWNER_WIDTH

    def add(self, id: Id, predicate: Predicate, tombstone: Array = NOTHING) -> bool:
        """Add a subscription; it replaces the one here with the same id, if there is one.

        `tombstone` says where to set the tombstone of the one that it replaces in a segment, at the
        same moment. Returns False if there is no room.
        """
        number = len(self.predicates)
        comes = tombstone is NOTHING and id not in self.numbers
        plain = _plainly(predicate) if comes else None
        at_once = plain is None or len(self.waiting) == MOST_WAITING
        if number == self._most or (at_once and not self.file()):
            return False
        # All is in place before the kernel is called, since others may match right after it.
        self.ids[number] = id
        if type(id) is int and -MOST <= id < MOST:
            self._integers[number] = id
        else:
            self.used[rk.USED_NAMED] = True
        instead = -1 if comes else self.numbers.get(id, -1)
        self.numbers[id] = number
        self.predicates.append(predicate)
        self.changes += 1
        if plain is not None:
            self.waiting.append(plain)
            return True
        data, residuals = self._encoded(predicate)
        self.replaced += 1
        self.replacing = True
        is_room = bool(rk.hold(self.context, data, residuals, instead, tombstone))
        if not is_room:
            del self.predicates[-1], self.numbers[id]
            if instead >= 0:
                self.numbers[id] = instead
        self.changes += 1
        self.replaced += 1  # once more: who began to match in between has to notice
        self.replacing = False
        return is_room

    def file(self) -> bool:
        """File the queued subscriptions; returns False if there is no room."""
        waiting = self.waiting
        data = b"".join(waiting)
        at, is_room = 0, True
        while is_room and at < len(data):
            at, why = rk.hold_all(self.context, data, at)
            is_room = why != rk.NO_ROOM
            if why == rk.SPECIAL:
                number = int(self.used[rk.USED_OWNERS])
                encoded, residuals = self._encoded(self.predicates[number], writable=True)
                is_room = rk.hold(self.context, encoded, residuals, -1, NOTHING)
                at += len(waiting[number - len(self.predicates)])
        left = len(self.predicates) - int(self.used[rk.USED_OWNERS])
        del waiting[: len(waiting) - left]
        return is_room

    def larger(self, predicate: Predicate | None = None) -> RecentIndex:
        """A larger index with what is held, and room for this predicate and the queue."""
        self.file()  # as much as goes: cells are cut by what is filed
        size = sum(map(len, self.waiting))
        filters = 0
        first = self.predicates[-len(self.waiting)] if self.waiting else None
        for coming in (first, predicate):
            if coming is not None:
                size += len(self._encoded(coming)[0])
                filters += len(filters_of(coming)[0])
        return self.without((), size, filters)

    def _encoded(self, predicate: Predicate, writable: bool = False) -> tuple[bytes, Array]:
        """The filters for the kernels, and for each the residual that is left, if there is any.

        With `writable`, it is known that all constraints can be written.
        """
        filters, complete = filters_of(predicate)
        simple: list[list[Constraint]] = []
        numbers = []
        for filter in filters:
            held: list[Constraint] = []
            left: list[Constraint] = []
            for constraint in filter:
                operator = constraint.operator
                if operator in FOLDING:
                    self.folded[constraint.name] = derived_name(constraint.name, FOLDED)
                if _is_native(constraint) and (writable or _is_writable(constraint)):
                    held.append(constraint)
                    continue
                left.append(constraint)
                if operator != "holds" and not constraint.negated:  # so it needs a value at least
                    held.append(constraint._replace(operator="exists", operand=None))
            simple.append(held)
            asked = conjoin(tuple(left)) if complete else predicate.expression
            numbers.append(self.residuals.number_of(asked) if left or not complete else -1)
        return _ENCODE(simple), np.array(numbers, np.int64)

    def remove(self, id: Id) -> bool:
        """Remove a subscription, if it is here."""
        number = self.numbers.get(id)
        if number is None:
            return False
        waits = number - len(self.predicates) + len(self.waiting)
        if waits >= 0:
            self.waiting[waits] = NEVER
        else:
            rk.let_go(self.context, number)
        del self.numbers[id]
        self.changes += 1
        return True

    def name_of(self, slot: int) -> str:
        """The name of a slot of the kernels, that of folded values as it is derived."""
        slots = self._arrays[rk.HELD_SLOTS]
        begin = slots[rk.SLOT_WIDTH * slot + rk.SLOT_NAME]
        end = begin + slots[rk.SLOT_WIDTH * slot + rk.SLOT_NAME_SIZE]
        return self._arrays[rk.HELD_TEXTS][begin:end].tobytes().decode()

    def held(self) -> dict[Id, Predicate]:
        """The subscriptions that are here."""
        predicates = self.predicates
        return {id: predicates[number] for id, number in self.numbers.items()}

    def without(self, dropped: Collection[Id], size: int = 0, filters: int = 0) -> RecentIndex:
        """Another index with what is held, except the ids in `dropped`, and with more room."""
        kept = {id: number for id, number in self.numbers.items() if id not in dropped}
        order = sorted(kept.values())
        leave = np.ones(len(self.predicates), bool)
        leave[order] = False
        filed = len(self.predicates) - len(self.waiting)
        waits = [
            data for data, removed in zip(self.waiting, leave[filed:], strict=True) if not removed
        ]
        held = np.zeros(rk.USED, np.int64)
        rk.measure_held(self.context, leave, held)
        held[rk.USED_OWNERS] += len(waits)
        # As much for each as those held take on average; of few that tells nothing.
        times = self.wanted // max(int(held[rk.USED_OWNERS]), LEAST)
        room = held * min(max(times, GROWTH), MOST_GROWTH)
        room[rk.USED_SLOTS] = GROWTH * held[rk.USED_SLOTS]  # attributes are mostly the same
        other = RecentIndex(room, size, filters, self.wanted)
        residuals = np.full(len(self.residuals), -1, np.int64)
        rk.hold_others(other.context, self.context, leave, residuals)
        other.residuals = self.residuals.kept(residuals)
        other.waiting = waits
        other.ids[: len(order)] = self.ids[order]
        if not self.used[rk.USED_NAMED] or all_integers(kept):
            other._arrays[rk.HELD_IDS][: len(order)] = self._arrays[rk.HELD_IDS][order]
        else:
            other.used[rk.USED_NAMED] = True
        other.predicates = [self.predicates[number] for number in order]
        other.numbers = {id: number for number, id in enumerate(other.ids[: len(order)])}
        other.folded = dict(self.folded)
        other.changes = self.changes + 1
        return other

    def found(
        self,
        found: int,
        asks: int,
        event: dict[str, Any],
        out: Array,
        known: dict[Check, bool] | None = None,
        most: int | None = None,
    ) -> list[Id]:
        """The ids of what the kernel found for an event and of what Python says yes to.

        Of numbers below `most`, if that is given.
        """
        numbers = out[:found]
        if asks:
            asked = out[: -2 * asks - 1 : -1]
            numbers = self.residuals.answered(event, len(self.predicates), numbers, asked, known)
        if most is not None:
            numbers = numbers[numbers < most]
        return ids_at(self.ids, numbers)


def _plainly(predicate: Predicate) -> bytes | None:
    """The filters as they are, if they say all and can be written."""
    filters, complete = filters_of(predicate)
    try:
        return _ENCODE(filters) if complete else None
    except OverflowError:  # integers past 64 bit
        return None


def _is_native(constraint: Constraint) -> bool:
    """Whether the kernels can test a constraint, if it can be written."""
    if constraint.operator == "like":
        return len(str(constraint.operand).encode()) <= k.LONGEST_LIKE
    return constraint.operator not in _ASKED


def _is_writable(constraint: Constraint) -> bool:
    try:
        _ENCODE(constraint)
    except OverflowError:
        return False
    return True


def _lengths(room: Array, size: int, filters: int) -> dict[int, int]:
    """The lengths of arrays with room for so much of each thing, and for something more."""
    size += LEAST * USUAL
    owners = int(room[rk.USED_OWNERS]) + LEAST
    slots = int(room[rk.USED_SLOTS]) + size // 8 + 2
    many, few = (int(rk.block_length(size)) for size in (rk.MANY_SLOTS, rk.FEW_SLOTS))
    held_filters = int(room[rk.USED_BLOCKS])
    whole_blocks = held_filters // rk.BLOCK_HELD + 2 * filters + 8
    first_blocks = 2 * (held_filters // rk.MOST_LISTED)  # two of a slot that had a full list
    items = 4 * held_filters + rk.MOST_LISTED * (filters + 4) + rk.LEAST_LISTED * slots
    return {
        rk.HELD_USED: rk.USED,
        rk.HELD_NAMES: _power(2 * slots),
        rk.HELD_SLOTS: rk.SLOT_WIDTH * slots,
        rk.HELD_CUTS: rk.CUTS * slots,
        rk.HELD_RECORDS: int(room[rk.USED_RECORDS]) + 4 * size + 64,
        rk.HELD_NODES: rk.NODE_WIDTH * (_chains(owners) + int(room[rk.USED_NODES]) + size),
        rk.HELD_KEYS: rk.KEY_BITS // 64,
        rk.HELD_LISTS: rk.ITEM_WIDTH * items,
        rk.HELD_BLOCKS: many * (whole_blocks + 2 * rk.SOME_SLOTS) + few * first_blocks,
        rk.HELD_OWNERS: rk.OWNER_WIDTH * owners,
        rk.HELD_TEXTS: int(room[rk.USED_TEXTS]) + 2 * size + 64,
        rk.HELD_IDS: owners,
        rk.HELD_PRESENT: slots // 64 + 1,
    }


def _chains(owners: int) -> int:
    """How many chains there are for so many subscriptions."""
    return _power(owners)


def _zeros(length: int, dtype: np.dtype[Any]) -> Array:
    """An array that begins where a line of the memory does."""
    size = length * dtype.itemsize
    held = np.zeros(size + LINE, np.uint8)
    begin = -held.ctypes.data % LINE
    return held[begin : begin + size].view(dtype)


def _power(least: int) -> int:
    """The power of two that is not less."""
    return 1 << (least - 1).bit_length()
