"""A publisher's side of a walk: the nodes that an event must visit, and those that have answered.

The publisher chooses all stops, so the nodes on the walk need no view of their own. Each answers
the publisher. If one does not, the walk goes on from there past another node of the same region:
replicas are spares as well. What has been visited is not visited again.

An event may be long on its way, because others wait before it. So the publisher also remembers by
which epoch each walk goes that has not come to its end, and nobody forgets that epoch (`epochs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from tidings.overlay.weights import first_nodes
from tidings.routing.layers.epochs import Epoch
from tidings.routing.layers.rendezvous import Keys
from tidings.routing.layers.store import ANY
from tidings.routing.packets import Stop, Walk, Walked
from tidings.routing.planes.topology import digest_of
from tidings.routing.protocol import Timing, earliest

MOST_WALKS: Final = 4_096  # that a node waits for
MOST_TRIES: Final = 4  # members of a region that are tried
MOST_OPEN: Final = 1 << 16  # walks whose epochs a node remembers


class Under(NamedTuple):
    """By which epoch a walk goes."""

    life: int
    epoch: int
    until: int  # when to wait for its end no longer
    is_whole: bool  # whether no region was given up, to which it may still come


class Choice(NamedTuple):
    """A stop before a node is chosen for it."""

    members: tuple[str, ...]
    asked: tuple[tuple[int, int], ...]  # homes and keys
    weights: Mapping[str, float] = MappingProxyType({})  # of nodes, where they have capacities


class Walking:
    """A walk that has yet to be answered."""

    __slots__ = ("at", "choices", "since", "tries", "walk")

    def __init__(self, walk: Walk, choices: list[Choice], since: int, at: int) -> None:
        self.since = since
        self.walk = walk  # from the first stop that has not answered
        self.choices = choices  # as many as the walk has stops
        self.at = at
        self.tries = 1


class Walks:
    """The walks of the events that are published at one node."""

    def __init__(self, node: str, timing: Timing) -> None:
        self.node = node
        self.timing = timing
        self._walking: dict[tuple[int, int], Walking] = {}  # by number of the event, and part
        self._look_at: int | None = None  # when the first of them may be late
        self._wait = 2 * timing.retry  # for an answer: twice what the slowest took
        self._open: dict[tuple[int, int], Under] = {}  # those that may not have ended, by age
        self._open_by: Counter[int] = Counter()  # their epochs

    def choices(self, epoch: Epoch, keys: Keys, draw: int = 0) -> list[Choice]:
        """What an event with these keys must visit: no region twice, so no node twice.

        Where several regions hold the same, `draw` chooses.
        """
        placement = epoch.placement
        if placement is None:
            return []
        found: dict[int, dict[tuple[int, int], None]] = {}
        for key in sorted(keys):
            for home in placement.shape.visits(key, draw):
                asked = found.setdefault(placement.server_of(home), {})
                asked[home, key if epoch.settings.by_key else ANY] = None
        weights = epoch.settings.weights
        nodes_of = placement.nodes_of
        return [Choice(nodes_of[server], tuple(a), weights) for server, a in found.items()]

    def all_choices(self, epoch: Epoch) -> list[Choice]:
        """Every region, and all that lies there: for audits."""
        placement = epoch.placement
        if placement is None:
            return []
        found: dict[int, list[tuple[int, int]]] = {}
        for home in range(placement.shape.regions):
            found.setdefault(placement.server_of(home), []).append((home, ANY))
        weights = epoch.settings.weights
        nodes_of = placement.nodes_of
        return [Choice(nodes_of[server], tuple(a), weights) for server, a in found.items()]

    def stop(self, choice: Choice, draw: str, turn: int = 0) -> Stop:
        """Choose a node for a stop: this one if it can be, else by hash, which is as even.

        Where nodes have capacities, each is chosen as often as it can do more than others.
        """
        if choice.weights:
            order = first_nodes(draw, choice.members, len(choice.members), choice.weights)
            return (order[turn % len(order)], choice.asked)
        if self.node in choice.members:
            return (self.node, choice.asked)
        place = (digest_of(draw) + turn) % len(choice.members)
        return (choice.members[place], choice.asked)

    def begin(
        self, walk: Walk, choices: list[Choice], now: int, part: int = 0, epoch: int = 0
    ) -> None:
        """Wait for the answers to a walk by an epoch."""
        self.expire(now)
        if len(self._open) >= MOST_OPEN:
            self._close(next(iter(self._open)))
        until = now + 3 * self.timing.age // 4
        self._open[walk.number, part] = Under(walk.life, epoch, until, True)
        self._open_by[epoch] += 1
        if len(self._walking) >= MOST_WALKS:
            del self._walking[next(iter(self._walking))]
        at = now + self._wait
        self._walking[walk.number, part] = Walking(walk, choices, now, at)
        self._look_at = earliest(self._look_at, at)

    def walked(self, answer: Walked, now: int) -> None:
        """A node has answered: all stops before those that are left have been visited."""
        under = self._open.get((answer.number, answer.part))
        if not answer.left and under is not None and under.is_whole and under.life == answer.life:
            self._close((answer.number, answer.part))
        walking = self._walking.get((answer.number, answer.part))
        if walking is None or walking.walk.life != answer.life:
            return
        if not 0 <= answer.left < len(walking.walk.stops):
            return
        took = 2 * (now - walking.since)
        self._wait = min(max(took, self._wait, self.timing.retry), 4 * self.timing.retry)
        if not answer.left:
            del self._walking[answer.number, answer.part]
            return
        walking.walk = msgspec.structs.replace(
            walking.walk, stops=walking.walk.stops[-answer.left :], found=answer.found
        )
        walking.choices = walking.choices[-answer.left :]
        walking.since = now
        walking.at = now + self._wait
        walking.tries = 1

    def late(self, now: int) -> list[tuple[Walk, bool]]:
        """The walks to send again, each with whether its first stop was given up."""
        found: list[tuple[Walk, bool]] = []
        if self._look_at is None or now < self._look_at:
            return found
        for name, walking in list(self._walking.items()):
            if walking.at > now:
                continue
            walk, choice = walking.walk, walking.choices[0]
            given_up = walking.tries >= min(MOST_TRIES, 1 + len(choice.members))
            if given_up:
                walking.choices = walking.choices[1:]
                walk = msgspec.structs.replace(walk, stops=walk.stops[1:])
                walking.tries = 1
                if name in self._open:
                    self._open[name] = self._open[name]._replace(is_whole=False)
            else:
                draw = f"{walk.life} {walk.number} {len(walk.stops)}"
                stop = self.stop(choice, draw, walking.tries)
                walk = msgspec.structs.replace(walk, stops=(stop, *walk.stops[1:]))
                walking.tries += 1
            walking.walk = walk
            walking.at = now + self._wait
            if not walk.stops:
                del self._walking[name]
            found.append((walk, given_up))
        self._look_at = min((walking.at for walking in self._walking.values()), default=None)
        return found

    def timer(self) -> int | None:
        """When to look for walks that were not answered."""
        return self._look_at

    # Their epochs

    def goes_by(self, epoch: int) -> bool:
        """Whether an event may still be on its walk by an epoch."""
        return self._open_by[epoch] > 0

    def expires(self) -> int | None:
        """When the oldest walk is waited for no longer."""
        return next(iter(self._open.values())).until if self._open else None

    def expire(self, now: int) -> None:
        """Wait no longer for walks that are too old: what they were sent past may be gone."""
        while self._open and next(iter(self._open.values())).until <= now:
            self._close(next(iter(self._open)))

    def _close(self, name: tuple[int, int]) -> None:
        epoch = self._open.pop(name).epoch
        self._open_by[epoch] -= 1
        if not self._open_by[epoch]:
            del self._open_by[epoch]

    @property
    def count(self) -> int:
        """How many walks have yet to be answered."""
        return len(self._walking)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {"walks": self.count}
