"""Past the caveats of paper L (L7): a placement that follows what is stored and what is published.

The paper scatters the subscriptions of a key over all H regions of its window, and every event
visits all of them; each subscription has R replicas, however often it matches. Here instead:

- *Fill, do not scatter*: a subscription goes into the first region of the window that has room
  (linear probing). Each region counts, by key, the subscriptions that were pushed past it, and an
  event goes on only while that count is above zero. H stays the bound; the mean is what the
  subscriptions need.
- *Replication follows load*: a key with many events has a `spread` of 2, 4, 8 … regions for each
  region of its window, all of which store the same. An event takes one of them, by its number. So
  a hot key has more replicas, and the others have not.

A step of the window is not a region here but a run of `spread` regions. All that a node needs to
know to send an event on is in the region where it is: the counts and the spread of the key.

This is the model that the lab measures at sizes that no simulated protocol reaches. The protocol
itself does the same by key and not by subscription: see `following`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

UP: Final = 1.0  # the load a replica must have, as a multiple of its share, to become two
DOWN: Final = 4.0  # and the part of its share below which two become one again


def followed(spread: int, load: float, share: float, most: int) -> int:
    """A spread that follows a load, given what one region should carry, and the most there may be.

    >>> [followed(1, load, share=10, most=8) for load in (10, 11, 21, 500)]
    [1, 2, 4, 8]
    >>> [followed(4, load, share=10, most=8) for load in (40, 10, 9, 2)]
    [4, 4, 2, 1]
    """
    while load > UP * share * spread and 2 * spread <= most:
        spread *= 2
    while spread > 1 and (load < share * spread / DOWN or spread > most):
        spread //= 2
    return spread


class Adapting:
    """Where the subscriptions of an application lie, by key and step, and where its events go.

    >>> placement = Adapting(regions=8, hops=3, room=2)
    >>> [placement.put(5) for _ in range(3)], placement.visits(5), placement.visits(6)
    ([0, 0, 1], (5, 6), (6,))
    >>> placement.remove(5, 1)
    >>> placement.visits(5)
    (5,)
    """

    def __init__(self, regions: int, hops: int, room: int | None = None) -> None:
        if regions < 1 or hops < 1 or (room is not None and room < 1):
            raise ValueError(
                f"expected a region, a hop and room, found {regions}, {hops} and {room}"
            )
        self.regions = regions
        self.hops = min(hops, regions)
        self.room = room  # subscriptions of a region; None: it never fills
        self.stored: Counter[int] = Counter()  # by region
        self.held: Counter[tuple[int, int]] = Counter()  # by key and step
        self.past: Counter[tuple[int, int]] = Counter()  # how many of a key lie after a step
        self.spread: dict[int, int] = {}  # of a key, a power of two; 1 if it is not here

    def run(self, key: int, step: int) -> range:
        """The regions that store what lies at a step of a key's window (as numbers to wrap)."""
        spread = self.spread.get(key, 1)
        first = key + step * spread
        return range(first, first + spread)

    def put(self, key: int) -> int:
        """Store a subscription; the step of the window where it lies.

        Where no region of the window has room, the emptiest takes it: H is a promise, room is not.
        """
        steps = range(self.hops)
        full = [max(self.stored[c % self.regions] for c in self.run(key, s)) for s in steps]
        chosen = next((s for s in steps if self.room is None or full[s] < self.room), None)
        if chosen is None:
            chosen = min(steps, key=full.__getitem__)
        self._count(key, chosen, 1)
        return chosen

    def remove(self, key: int, step: int) -> None:
        """Forget a subscription that `put` stored at this step."""
        if not self.held[key, step]:
            raise ValueError(f"expected a subscription of key {key} at step {step}, found none")
        self._count(key, step, -1)

    def _count(self, key: int, step: int, change: int) -> None:
        self.held[key, step] += change
        for region in self.run(key, step):
            self.stored[region % self.regions] += change
        for before in range(step):
            self.past[key, before] += change

    def visits(self, key: int, draw: int = 0) -> tuple[int, ...]:
        """The regions that an event with this key visits; `draw` chooses among replicas."""
        found = []
        for step in range(self.hops):
            run = self.run(key, step)
            found.append(run[draw % len(run)] % self.regions)
            if not self.past[key, step]:
                break
        return tuple(found)

    @property
    def copies(self) -> int:
        """How many regions store a subscription, counted for all of them."""
        return sum(self.stored.values())

    def respread(self, loads: Mapping[int, float], share: float) -> int:
        """Let the spread of keys follow their loads; how many copies had to be moved.

        A load is what the events of a key cost, `share` what one region should carry. A key doubles
        its spread while a replica carries more than `UP` shares, and halves it while one carries
        less than 1 / `DOWN`: between them it stays as it is, so a constant load ends all change.
        """
        if share <= 0:
            raise ValueError(f"share: expected more than 0, found {share}")
        moved = 0
        for key in sorted({*loads, *self.spread}):
            load = loads.get(key, 0.0)
            before = self.spread.get(key, 1)
            spread = followed(before, load, share, self.regions // self.hops)
            if spread != before:
                moved += self._change_spread(key, spread)
        return moved

    def _change_spread(self, key: int, spread: int) -> int:
        """Store the subscriptions of a key in other regions; how many copies are new."""
        steps = [(step, self.held[key, step]) for step in range(self.hops)]
        old = self._copies_of(key, steps)
        for step, count in steps:
            self._count(key, step, -count)
        self.spread[key] = spread
        for step, count in steps:
            self._count(key, step, count)
        new = self._copies_of(key, steps)
        if spread == 1:
            del self.spread[key]
        return sum((new - old).values())

    def _copies_of(self, key: int, steps: Iterable[tuple[int, int]]) -> Counter[tuple[int, int]]:
        """The copies of a key's subscriptions, by step and region."""
        found: Counter[tuple[int, int]] = Counter()
        for step, count in steps:
            for region in self.run(key, step):
                found[step, region % self.regions] += count
        return found
