"""Workloads: seeded subscriptions and events to match, one row of `WORKLOADS` each (F7).

A workload is a value: its parameters and a seed. It defines two endless sequences of rows;
`subscriptions(start, stop)` and `events(start, stop)` give a slice of each. A row depends only on
the workload and the row's number, not on the slice, so any partitioning makes the same rows (see
`workloads.draws`).

Workloads build predicates as objects in normal form, not through text. `event_table` gives the rows
of `events` as typed columns, with null for an absent attribute; its schema does not depend on the
rows.

>>> workload = WORKLOADS["ranges"](seed=7)
>>> workload.events(10, 20) == workload.events(0, 100)[10:20]
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

import pyarrow as pa

from tidings.matching.workloads.alerts import AlertsWorkload
from tidings.matching.workloads.draws import Record, Subscription
from tidings.matching.workloads.equalities import EqualitiesWorkload
from tidings.matching.workloads.feeds import FeedsWorkload
from tidings.matching.workloads.forwarding import ForwardingWorkload
from tidings.matching.workloads.games import GamesWorkload
from tidings.matching.workloads.mixed import MixedWorkload
from tidings.matching.workloads.places import PlacesWorkload
from tidings.matching.workloads.profile import Profiled
from tidings.matching.workloads.quotes import QuotesWorkload
from tidings.matching.workloads.ranges import RangesWorkload
from tidings.matching.workloads.vocabulary import Names
from tidings.matching.workloads.wildcards import WildcardsWorkload

__all__ = [
    "APPLICATIONS",
    "WORKLOADS",
    "AlertsWorkload",
    "ApplicationWorkload",
    "EqualitiesWorkload",
    "FeedsWorkload",
    "ForwardingWorkload",
    "GamesWorkload",
    "MixedWorkload",
    "Names",
    "PlacesWorkload",
    "QuotesWorkload",
    "RangesWorkload",
    "Record",
    "Subscription",
    "WildcardsWorkload",
    "Workload",
]


class Workload(Protocol):
    """What the rows of `WORKLOADS` make: a frozen dataclass with a seed among its parameters."""

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        """The subscriptions of these rows; the id of each is its row number."""

    def events(self, start: int, stop: int) -> list[Record]:
        """The events of these rows."""

    def event_table(self, start: int, stop: int) -> pa.Table:
        """The same events as typed columns, null where an attribute is absent."""

    def describe(self) -> str:
        """The parameters as text."""


class ApplicationWorkload(Workload, Profiled, Protocol):
    """A workload with the profile of an application."""


# The five applications of Table 1 of paper L (L6).
APPLICATIONS: Final[dict[str, Callable[..., ApplicationWorkload]]] = {
    "games": GamesWorkload,
    "feeds": FeedsWorkload,
    "quotes": QuotesWorkload,
    "alerts": AlertsWorkload,
    "places": PlacesWorkload,
}
WORKLOADS: Final[dict[str, Callable[..., Workload]]] = {
    "forwarding": ForwardingWorkload,
    "equalities": EqualitiesWorkload,
    "ranges": RangesWorkload,
    "dense": partial(RangesWorkload, ranges=10, width=0.5),
    "wildcards": WildcardsWorkload,
    "mixed": MixedWorkload,
    **APPLICATIONS,
    "quotes-table": partial(QuotesWorkload, subscriptions_each=1),
}
