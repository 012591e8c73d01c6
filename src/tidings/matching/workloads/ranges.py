"""The range workload of the literature: boxes in a space of real attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.language.constraint import Constraint
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.matching.workloads.draws import (
    BLOCK,
    Record,
    Subscription,
    blocks,
    describe,
    distinct,
    generator,
)


@dataclass(frozen=True)
class RangesWorkload:
    """Ranges of one width on different real attributes, uniform in [0, 1); events carry them all.

    An event satisfies a subscription with probability `width ** ranges`: ten of a million by
    default, a thousand in `dense`.
    """

    attributes: int = 20
    ranges: int = 5
    width: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.ranges <= self.attributes:
            raise ValueError(f"ranges: expected 1 to {self.attributes}, found {self.ranges}")
        if not 0 < self.width < 1:
            raise ValueError(f"width: expected between 0 and 1, found {self.width}")

    @property
    def names(self) -> list[str]:
        """The attributes: a0, a1 and on."""
        return [f"a{number}" for number in range(self.attributes)]

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        names = np.array(sorted(self.names), dtype=object)
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "ranges subscriptions", block)
            chosen = distinct(source, self.attributes, self.ranges)[first:last]
            chosen = np.sort(chosen, axis=1)  # so the constraints are sorted
            low = (source.random((BLOCK, self.ranges)) * (1 - self.width))[first:last]
            constraints = list(
                map(
                    Constraint,
                    names[chosen].ravel().tolist(),
                    repeat("between"),
                    repeat("number"),
                    repeat(False),
                    zip(low.ravel().tolist(), (low + self.width).ravel().tolist(), strict=True),
                )
            )
            for row in range(last - first):
                filter = Filter(constraints[row * self.ranges : (row + 1) * self.ranges])
                yield block * BLOCK + first + row, Predicate.of((filter,))

    def events(self, start: int, stop: int) -> list[Record]:
        names = self.names
        rows = self._values(start, stop).tolist()
        return [dict(zip(names, row, strict=True)) for row in rows]

    def event_table(self, start: int, stop: int) -> pa.Table:
        values = self._values(start, stop)
        return pa.table({name: pa.array(values[:, i]) for i, name in enumerate(self.names)})

    def describe(self) -> str:
        return describe(self)

    def _values(self, start: int, stop: int) -> NDArray[np.float64]:
        parts = [np.empty((0, self.attributes))]
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "ranges events", block)
            parts.append(source.random((BLOCK, self.attributes))[first:last])
        return np.concatenate(parts)
