"""What a node holds for others: their subscriptions, by region and key, compiled.

An owner sends what is added and removed, and a digest of all that the node should then hold for it.
If that differs, the node says so and the owner sends everything again: anti-entropy. Changes of an
owner come one at a time, each with a number; one that comes again is answered again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tidings.matching.contract import EventLike, Matcher
from tidings.routing.packets import Put, Slot
from tidings.routing.planes.interests import predicate_of, readable
from tidings.routing.planes.topology import digest_of

ANY: int = -1  # in place of a key: ask the subscriptions of every key


def digest_of_entry(slot: Slot, text: str) -> int:
    """63 bits that stand for a stored subscription."""
    return digest_of(f"{slot} {text!r}")


def digest_of_all(entries: dict[Slot, str]) -> int:
    """63 bits that stand for all that is held for an owner."""
    found = 0
    for slot, text in entries.items():
        found ^= digest_of_entry(slot, text)
    return found


class Shelf:
    """What is held for one owner."""

    __slots__ = ("agrees", "digest", "entries", "life", "number", "public")

    def __init__(self, life: int) -> None:
        self.life = life
        self.number = 0  # of the newest change
        self.agrees = True  # whether it left what the owner thinks
        self.entries: dict[Slot, tuple[str, int]] = {}  # with the number in its matcher
        self.digest = 0
        self.public = b""  # the owner's key, where events are sealed for each subscriber's node


class Store:
    """The subscriptions that a node holds, its own among them."""

    def __init__(self, matcher: Callable[[], Matcher]) -> None:
        self._matcher = matcher
        self.holdings: dict[str, Shelf] = {}
        self._indices: dict[tuple[int, int], dict[int, Matcher]] = {}  # by X and home, then by key
        self._counts: Counter[tuple[int, int, int]] = Counter()  # entries, by X, home and key
        self._owners: dict[int, str] = {}
        self._last = 0

    def put(self, put: Put) -> bool | None:
        """Do as an owner says; returns whether both agree, None for what has been overtaken."""
        holding = self.holdings.get(put.owner)
        if holding is None or holding.life != put.life:
            self.forget(put.owner)
            holding = self.holdings[put.owner] = Shelf(put.life)
        if put.number < holding.number:
            return None
        if put.number > holding.number:
            removed = tuple(holding.entries) if put.anew else put.removed
            for slot in removed:
                self._remove(holding, slot)
            for slot, text in put.added:
                self._remove(holding, slot)
                self._add(put.owner, holding, slot, text)
            holding.number = put.number
            holding.public = put.public
            holding.agrees = holding.digest == put.digest
        return holding.agrees

    def forget(self, owner: str) -> None:
        """Drop all that is held for an owner."""
        holding = self.holdings.pop(owner, None)
        if holding is not None:
            for slot in list(holding.entries):
                self._remove(holding, slot)

    def match(
        self, regions: int, asked: Iterable[tuple[int, int]], event: EventLike
    ) -> set[tuple[str, int]]:
        """The owners of the subscriptions that an event matches, each with the key of its own."""
        found: set[tuple[str, int]] = set()
        for home, key in asked:
            by_key = self._indices.get((regions, home), {})
            for one, matcher in by_key.items():
                if key in (one, ANY):
                    found.update((self._owners[int(n)], one) for n in matcher.match(event))
        return found

    def count(self, regions: int, asked: Iterable[tuple[int, int]]) -> int:
        """How many subscriptions an event is compared with."""
        found = self._counts
        return sum(
            count
            for home, key in asked
            for one in (self._indices.get((regions, home), {}) if key == ANY else (key,))
            if (count := found.get((regions, home, one), 0))
        )

    def publics(self, owners: Iterable[str]) -> dict[str, bytes]:
        """The keys of those owners who have told one."""
        shelves = ((owner, self.holdings.get(owner)) for owner in owners)
        return {owner: shelf.public for owner, shelf in shelves if shelf and shelf.public}

    def _add(self, owner: str, holding: Shelf, slot: Slot, text: str) -> None:
        _, regions, home, key = slot
        by_key = self._indices.setdefault((regions, home), {})
        if key not in by_key:
            by_key[key] = self._matcher()
        self._last += 1
        by_key[key].add(self._last, predicate_of(readable(text)))
        self._owners[self._last] = owner
        self._counts[regions, home, key] += 1
        holding.entries[slot] = (text, self._last)
        holding.digest ^= digest_of_entry(slot, text)

    def _remove(self, holding: Shelf, slot: Slot) -> None:
        found = holding.entries.pop(slot, None)
        if found is None:
            return
        text, number = found
        _, regions, home, key = slot
        by_key = self._indices[regions, home]
        by_key[key].remove(number)
        del self._owners[number]
        holding.digest ^= digest_of_entry(slot, text)
        self._counts[regions, home, key] -= 1
        if not self._counts[regions, home, key]:
            del by_key[key], self._counts[regions, home, key]
            if not by_key:
                del self._indices[regions, home]

    def entries(self, owner: str) -> dict[Slot, str]:
        """What is held for an owner."""
        holding = self.holdings.get(owner)
        return (
            {} if holding is None else {slot: text for slot, (text, _) in holding.entries.items()}
        )

    def __len__(self) -> int:
        return len(self._owners)
