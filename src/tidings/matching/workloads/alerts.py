"""The workload of security alerts (paper L, Table 1; L6): hosts ask for what they run."""

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
from tidings.matching.workloads.draws import (
    BLOCK,
    Interval,
    Record,
    Subscription,
    blocks,
    describe,
    generator,
)
from tidings.matching.workloads.profile import MONTH_S, PADDING, Profile, padded
from tidings.matching.workloads.vocabulary import Names, vocabulary

AFFECTED: Final = 5  # products of an alert, at most
BURST_S: Final = 5.0  # that a burst lasts, at most
TABLE_1: Final = Profile(
    publishers=1_000,
    events_per_second=0.01,  # 10/s of all, in bursts
    event_bytes=600,
    latency_s=0.1,
    subscribers=1_000_000,
    subscriptions=1,
    renewal_s=MONTH_S,
    clustering="power law",
    key="affects",
)


@dataclass(frozen=True)
class AlertsWorkload:
    """Alerts in bursts, each about one product; hosts ask for what they have installed.

    Most subscriptions ask whether an alert affects any product of a list (`in`); a share
    `inclusion` asks that it affects two products at once.
    """

    scale: int = 1
    products: int = 5_000
    exponent: float = 1.0  # of what hosts have installed
    activity: float = 0.3  # the exponent of what alerts are about
    installed: Interval = (10, 201)  # products of a host, by their logarithm uniform
    inclusion: float = 0.1
    burst: Interval = (10, 1_001)  # alerts, by their logarithm uniform
    seed: int = 0

    @property
    def profile(self) -> Profile:
        """The application at this scale."""
        return TABLE_1.scaled(self.scale)

    def times(self, start: int, stop: int) -> NDArray[np.float64]:
        """When the events of these rows are published, in seconds."""
        parts = [np.empty(0)]
        for block, first, last in blocks(start, stop):
            parts.append(self._bursts(block)[0][first:last])
        return np.concatenate(parts)

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        names = vocabulary("products", self.products)
        law = Names(self.products, self.exponent)
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "alerts subscriptions", block)
            counts = self._sizes(source, self.installed, BLOCK).tolist()
            both = (source.random(BLOCK) < self.inclusion).tolist()
            # Drawn with repeats: a list is a few products shorter than its count.
            drawn = law.draw(source, (BLOCK, self.installed[1] - 1)).tolist()
            pairs = law.draw_distinct(source, BLOCK, 2).tolist()
            for row in range(first, last):
                if both[row]:
                    products = sorted(names[number] for number in pairs[row])
                    filter = Filter(
                        [Constraint("affects", "=", "string", False, name) for name in products]
                    )
                else:
                    listed = sorted({names[number] for number in drawn[row][: counts[row]]})
                    filter = Filter([_among(listed)])
                yield block * BLOCK + row, Predicate.of((filter,))

    def events(self, start: int, stop: int) -> list[Record]:
        names = vocabulary("products", self.products)
        law = Names(self.products, self.activity)
        size = self.profile.event_bytes
        found: list[Record] = []
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "alerts events", block)
            _, bursts = self._bursts(block)
            products = law.draw(source, BLOCK)[bursts].tolist()  # one for each burst
            others = law.draw(source, (BLOCK, AFFECTED - 1)).tolist()
            counts = source.integers(0, AFFECTED, BLOCK).tolist()
            versions = source.integers(0, 10, (BLOCK, 2)).tolist()
            severities = source.integers(1, 11, BLOCK).tolist()
            for row in range(first, last):
                affected = {products[row], *others[row][: counts[row]]}
                event = {
                    "product": names[products[row]],
                    "version": "{}.{}".format(*versions[row]),
                    "severity": severities[row],
                    "affects": [names[number] for number in sorted(affected)],
                }
                found.append(padded(event, size))
        return found

    def event_table(self, start: int, stop: int) -> pa.Table:
        return pa.Table.from_pylist(self.events(start, stop), schema=_SCHEMA)

    def describe(self) -> str:
        return describe(self)

    def _bursts(self, block: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Of each event of a block its time and its burst; bursts begin whenever they like."""
        source = generator(self.seed, "alerts bursts", block)
        sizes = self._sizes(source, self.burst, BLOCK)
        bursts = np.repeat(np.arange(BLOCK), sizes)[:BLOCK]
        span = BLOCK / self.profile.rate
        begins, lasts = source.random(BLOCK) * span, 1 + source.random(BLOCK) * (BURST_S - 1)
        times = np.minimum(begins[bursts] + lasts[bursts] * source.random(BLOCK), span)
        order = np.argsort(times, kind="stable")
        return block * span + times[order], bursts[order]

    @staticmethod
    def _sizes(source: np.random.Generator, bounds: Interval, count: int) -> NDArray[np.int64]:
        low, high = np.log(bounds)
        return np.asarray(np.exp(low + (high - low) * source.random(count)), np.int64)


def _among(names: list[str]) -> Constraint:
    """That one of the values is among these."""
    if len(names) == 1:
        return Constraint("affects", "=", "string", False, names[0])
    return Constraint("affects", "in", "string", False, tuple(names))


_SCHEMA: Final = pa.schema(
    {
        "product": pa.string(),
        "version": pa.string(),
        "severity": pa.int64(),
        "affects": pa.list_(pa.string()),
        PADDING: pa.string(),
    }
)
