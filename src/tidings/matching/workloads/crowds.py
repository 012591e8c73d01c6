"""Crowds: walkers around anchors, which lie in Gaussian hot spots.

Where a walker is depends on the seed, its number and the time alone: it circles its anchor on a
curve of its own (Lissajous), so consecutive places are near each other, and any moment can be
computed without those before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.matching.workloads.draws import hashed

Numbers = NDArray[np.int64]
Points = NDArray[np.float64]  # a row for each: x, y


def uniform(seed: int, stream: str, rows: Numbers) -> NDArray[np.float64]:
    """A number in [0, 1) for each row."""
    return np.asarray((hashed(seed, stream, rows) >> np.uint64(11)) / 2**53)


@dataclass(frozen=True)
class Crowd:
    """Walkers in hot spots of a rectangle; small numbers of spots have the most walkers."""

    spots: int
    width: float
    height: float
    spread: float  # of anchors around the centre of their spot (standard deviation)
    reach: float  # of a walker around its anchor
    turn_s: float  # that a walker needs to come round, about
    skew: float  # how the popularity of spots falls with their rank (Zipf); 0: it does not
    seed: int

    def centres(self) -> Points:
        """The centres of the hot spots, away from the edges."""
        spots = np.arange(self.spots)
        place = np.stack([uniform(self.seed, f"spot {axis}", spots) for axis in "xy"], axis=1)
        return (0.1 + 0.8 * place) * (self.width, self.height)

    def spot_of(self, walkers: Numbers) -> Numbers:
        """The hot spot of each walker."""
        weights = np.arange(1, self.spots + 1) ** -self.skew
        bounds = np.cumsum(weights / weights.sum())[:-1]
        return np.searchsorted(bounds, uniform(self.seed, "home", walkers), side="right")

    def anchors(self, walkers: Numbers) -> Points:
        """The anchor of each walker: Gaussian around the centre of its spot (Box, Muller)."""
        radius = np.sqrt(-2 * np.log(1 - uniform(self.seed, "radius", walkers)))
        angle = 2 * np.pi * uniform(self.seed, "angle", walkers)
        offset = np.stack([np.cos(angle), np.sin(angle)], axis=1) * radius[:, None]
        return self._within(self.centres()[self.spot_of(walkers)] + self.spread * offset)

    def positions(self, walkers: Numbers, times: NDArray[np.float64]) -> Points:
        """Where each walker is at its time."""
        curve = []
        for axis in "xy":
            speed = (0.7 + 0.6 * uniform(self.seed, f"speed {axis}", walkers)) / self.turn_s
            phase = uniform(self.seed, f"phase {axis}", walkers)
            curve.append(np.sin(2 * np.pi * (speed * times + phase)))
        return self._within(self.anchors(walkers) + self.reach * np.stack(curve, axis=1))

    def _within(self, points: Points) -> Points:
        return np.clip(points, 0, (self.width, self.height))
