"""The workload of online games (paper L, Table 1; L6): avatars see what moves near them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.language.constraint import Constraint
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.matching.workloads.crowds import Crowd, Numbers, uniform
from tidings.matching.workloads.draws import BLOCK, Record, Subscription, blocks, describe
from tidings.matching.workloads.profile import PADDING, Profile, padded, steady

WORLD: Final = 1_000.0  # metres, each map
ACTIONS: Final = ("move", "turn", "fire", "talk", "use")
TABLE_1: Final = Profile(
    publishers=1_000,
    events_per_second=10.0,  # 10,000/s of all
    event_bytes=375,  # 30 kbit/s
    latency_s=0.1,
    subscribers=1_000,
    subscriptions=1,
    renewal_s=1.5,
    clustering="multimodal",
    key="x",
)


@dataclass(frozen=True)
class GamesWorkload:
    """Avatars on maps, most of them near hot spots; each asks for the square around itself.

    An avatar both publishes and subscribes. As it walks, it replaces its area of interest.
    """

    scale: int = 1
    maps: int = 4
    spots: int = 5  # on each map
    view: float = 30.0  # metres to each side
    seed: int = 0

    @property
    def profile(self) -> Profile:
        """The application at this scale."""
        return TABLE_1.scaled(self.scale)

    def times(self, start: int, stop: int) -> NDArray[np.float64]:
        """When the events of these rows are published, in seconds."""
        return steady(start, stop, self.profile.rate)

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        profile = self.profile
        for block, first, last in blocks(start, stop):
            rows = np.arange(block * BLOCK + first, block * BLOCK + last)
            avatars, renewals = rows % profile.population, rows // profile.population
            times = np.asarray(renewals * profile.renewal_s, np.float64)
            at = self._crowd.positions(avatars, times)
            low, high = np.round(at - self.view, 2).tolist(), np.round(at + self.view, 2).tolist()
            maps = self._maps(avatars).tolist()
            for i, row in enumerate(rows.tolist()):
                constraints = [
                    Constraint("map", "=", "string", False, f"map{maps[i]}"),
                    Constraint("x", "between", "number", False, (low[i][0], high[i][0])),
                    Constraint("y", "between", "number", False, (low[i][1], high[i][1])),
                ]
                yield row, Predicate.of((Filter(constraints),))

    def events(self, start: int, stop: int) -> list[Record]:
        profile = self.profile
        times = self.times(start, stop)
        rows = np.arange(start, stop)
        avatars = rows % profile.publishers
        at = np.round(self._crowd.positions(avatars, times), 2).tolist()
        maps = self._maps(avatars).tolist()
        actions = (uniform(self.seed, "action", rows) * len(ACTIONS)).astype(int).tolist()
        return [
            padded(
                {
                    "avatar": avatar,
                    "map": f"map{maps[i]}",
                    "x": at[i][0],
                    "y": at[i][1],
                    "action": ACTIONS[actions[i]],
                },
                profile.event_bytes,
            )
            for i, avatar in enumerate(avatars.tolist())
        ]

    def event_table(self, start: int, stop: int) -> pa.Table:
        return pa.Table.from_pylist(self.events(start, stop), schema=_SCHEMA)

    def describe(self) -> str:
        return describe(self)

    @property
    def _crowd(self) -> Crowd:
        return Crowd(
            self.spots * self.maps, WORLD, WORLD, 40.0, 60.0, turn_s=60.0, skew=0.0, seed=self.seed
        )

    def _maps(self, avatars: Numbers) -> Numbers:
        return self._crowd.spot_of(avatars) % self.maps


_SCHEMA: Final = pa.schema(
    {
        "avatar": pa.int64(),
        "map": pa.string(),
        "x": pa.float64(),
        "y": pa.float64(),
        "action": pa.string(),
        PADDING: pa.string(),
    }
)
