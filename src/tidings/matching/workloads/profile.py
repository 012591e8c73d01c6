"""Profiles: what Table 1 of paper L says of an application, and what its five workloads share (L6).

The table mixes readings: the rate of games is that of all publishers, the rate of location services
can only be that of each. A profile gives the rate of one publisher. Where the table gives a span of
latencies, a profile takes the shortest. `scale` divides publishers and subscribers alike, so an
event matches the same share of the subscriptions at every scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidings.matching.workloads.draws import BLOCK, Record, blocks, generator, row_range

PADDING: Final = "payload"  # the attribute that brings an event to its size
DAY_S: Final = 86_400.0
MONTH_S: Final = 30 * DAY_S


@dataclass(frozen=True)
class Profile:
    """A column of Table 1."""

    publishers: int
    events_per_second: float  # of each publisher, on average
    event_bytes: int  # as JSON
    latency_s: float  # the longest that matching and delivery may take
    subscribers: int
    subscriptions: int  # of each subscriber
    renewal_s: float  # after which a subscriber replaces a subscription
    clustering: Literal["multimodal", "power law"]  # of subscriptions
    key: str  # the attribute at which events and subscriptions can meet

    @property
    def population(self) -> int:
        """How many subscriptions there are at any time; row n + population replaces row n."""
        return self.subscribers * self.subscriptions

    @property
    def rate(self) -> float:
        """Events a second of all publishers."""
        return self.publishers * self.events_per_second

    @property
    def renewals(self) -> float:
        """Subscriptions a second that replace others."""
        return self.population / self.renewal_s

    @property
    def publisher_bits_per_second(self) -> float:
        """What a publisher sends."""
        return self.events_per_second * self.event_bytes * 8

    def scaled(self, scale: int) -> Profile:
        """The same application with fewer publishers and subscribers."""
        if scale < 1:
            raise ValueError(f"scale: expected 1 or more, found {scale}")
        return replace(
            self,
            publishers=max(1, self.publishers // scale),
            subscribers=max(1, self.subscribers // scale),
        )


class Profiled(Protocol):
    """What a workload of an application has beside rows: its profile, and when events happen."""

    @property
    def profile(self) -> Profile:
        """The application at this scale."""

    def times(self, start: int, stop: int) -> NDArray[np.float64]:
        """When the events of these rows are published, in seconds."""


def steady(start: int, stop: int, rate: float) -> NDArray[np.float64]:
    """Times of publishers that take turns."""
    rows = row_range(start, stop)
    return np.arange(rows.start, rows.stop) / rate


def irregular(seed: int, stream: str, start: int, stop: int, rate: float) -> NDArray[np.float64]:
    """Times of many independent publishers: those of a block are uniform over its time, sorted."""
    parts = [np.empty(0)]
    for block, first, last in blocks(start, stop):
        drawn = np.sort(generator(seed, f"{stream} times", block).random(BLOCK))
        parts.append(((block + drawn) * BLOCK / rate)[first:last])
    return np.concatenate(parts)


def padded(event: Record, size: int) -> Record:
    """The event with a text that brings its JSON to a size; as it is where it is larger."""
    missing = size - len(msgspec.json.encode(event)) - len(f',"{PADDING}":""')
    return event | {PADDING: "x" * max(missing, 0)}
