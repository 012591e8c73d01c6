"""`Scan`, the oracle: it tests every predicate against every event.

It has no index and keeps no state between events, so there is little to get wrong. The tests hold
every other matcher to its answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from tidings.language.constraint import Check
from tidings.language.event import read
from tidings.language.predicate import Predicate
from tidings.matching.contract import (
    Batch,
    EventLike,
    Id,
    Stats,
    bytes_of,
    check_id,
    duplicate,
    match_rows,
    stats_of,
    unknown,
)


class Scan:
    """Subscriptions in a dict.

    >>> from tidings import parse
    >>> scan = Scan([("loud", parse("severity > 2")), ("web", parse("host prefix 'web-'"))])
    >>> scan.match({"severity": 3, "host": "db-1"})
    ['loud']
    """

    def __init__(self, subscriptions: Iterable[tuple[Id, Predicate]] = ()) -> None:
        self.subscriptions: dict[Id, Predicate] = {}
        self._checks: dict[Id, Check] = {}
        for id, predicate in subscriptions:
            self.add(id, predicate)

    def add(self, id: Id, predicate: Predicate) -> None:
        check_id(id)
        if id in self.subscriptions:
            raise duplicate(id)
        self.subscriptions[id] = predicate
        self._checks[id] = predicate.check()

    def remove(self, id: Id) -> None:
        if id not in self.subscriptions:
            raise unknown(id)
        del self.subscriptions[id], self._checks[id]

    def match(self, event: EventLike) -> list[Id]:
        attributes = read(event)
        return [id for id, check in self._checks.items() if check(attributes)]

    def match_each(self, events: Sequence[EventLike]) -> dict[int, list[Id]]:
        each = enumerate(map(self.match, events))
        return {place: found for place, found in each if found}

    def match_batch(self, batch: Batch, json: str | None = None) -> pa.Table:
        return match_rows(self.match, self.subscriptions, batch, json)

    def stats(self) -> Stats:
        return stats_of(self.subscriptions.values(), bytes_of(self.subscriptions))

    def __repr__(self) -> str:
        return f"Scan({len(self.subscriptions)} subscriptions)"
