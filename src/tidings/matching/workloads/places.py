"""The workload of location services (paper L, Table 1; L6): who is where, asked for by area."""

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
from tidings.matching.workloads.crowds import Crowd, uniform
from tidings.matching.workloads.draws import BLOCK, Record, Subscription, blocks, describe
from tidings.matching.workloads.profile import MONTH_S, PADDING, Profile, padded, steady

DEGREES: Final = (360.0, 140.0)  # where people live
CORNER: Final = (-180.0, -60.0)
TABLE_1: Final = Profile(
    publishers=1_000_000,
    events_per_second=0.5,
    event_bytes=250,  # 1 kbit/s
    latency_s=0.1,
    subscribers=1_000_000,
    subscriptions=1,
    renewal_s=MONTH_S,
    clustering="multimodal",
    key="lon",
)


@dataclass(frozen=True)
class PlacesWorkload:
    """Devices tell where they are, around cities of unlike size; providers ask for boxes there.

    The sides of a box are drawn evenly by their logarithm.
    """

    scale: int = 1
    cities: int = 40
    sides: tuple[float, float] = (0.01, 0.1)  # degrees
    seed: int = 0

    @property
    def profile(self) -> Profile:
        """The application at this scale."""
        return TABLE_1.scaled(self.scale)

    def times(self, start: int, stop: int) -> NDArray[np.float64]:
        """When the events of these rows are published, in seconds."""
        return steady(start, stop, self.profile.rate)

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        low, high = np.log(self.sides)
        for block, first, last in blocks(start, stop):
            rows = np.arange(block * BLOCK + first, block * BLOCK + last)
            centres = self._crowd.anchors(-1 - rows) + CORNER  # nobody's own
            sides = [np.exp(low + (high - low) * uniform(self.seed, s, rows)) for s in ("w", "h")]
            half = np.stack(sides, axis=1) / 2
            begin, end = np.round(centres - half, 4).tolist(), np.round(centres + half, 4).tolist()
            for i, row in enumerate(rows.tolist()):
                constraints = [
                    Constraint("lat", "between", "number", False, (begin[i][1], end[i][1])),
                    Constraint("lon", "between", "number", False, (begin[i][0], end[i][0])),
                ]
                yield row, Predicate.of((Filter(constraints),))

    def events(self, start: int, stop: int) -> list[Record]:
        profile = self.profile
        times = self.times(start, stop)
        rows = np.arange(start, stop)
        devices = rows % profile.publishers
        at = np.round(self._crowd.positions(devices, times) + CORNER, 5).tolist()
        accuracy = np.round(3 + 50 * uniform(self.seed, "accuracy", rows) ** 3, 1).tolist()
        return [
            padded(
                {
                    "device": device,
                    "lon": at[i][0],
                    "lat": at[i][1],
                    "accuracy": accuracy[i],
                    "time": round(float(times[i]), 3),
                },
                profile.event_bytes,
            )
            for i, device in enumerate(devices.tolist())
        ]

    def event_table(self, start: int, stop: int) -> pa.Table:
        return pa.Table.from_pylist(self.events(start, stop), schema=_SCHEMA)

    def describe(self) -> str:
        return describe(self)

    @property
    def _crowd(self) -> Crowd:
        return Crowd(
            self.cities, *DEGREES, spread=0.15, reach=0.01, turn_s=1_800.0, skew=1.0, seed=self.seed
        )


_SCHEMA: Final = pa.schema(
    {
        "device": pa.int64(),
        "lon": pa.float64(),
        "lat": pa.float64(),
        "accuracy": pa.float64(),
        "time": pa.float64(),
        PADDING: pa.string(),
    }
)
