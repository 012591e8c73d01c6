"""`ForwardingTable`: on which interfaces does this event leave the router? (F3, F4)

Content-based forwarding selects, among the interfaces that a broadcast would use, those whose
predicate the event satisfies. This is the matching problem with few interfaces, each with a
predicate of very many filters, and it allows short cuts. Once an interface has matched, the search
skips its filters; once all have matched, the search ends. Compilation drops a filter that another
filter of one constraint of the same interface covers. The paper's selectivity table excludes
interfaces that need an attribute which the event lacks; the search here never reaches them, because
every filter is filed under its rarest constraint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidings.language.event import Event
from tidings.language.predicate import Predicate, parse
from tidings.matching import contract
from tidings.matching.contract import Batch, EventLike, Id, Stats
from tidings.matching.segment import Segment
from tidings.matching.table import PLAIN_TYPES

if TYPE_CHECKING:
    from tidings.matching.statistics import Statistics


class ForwardingTable:
    """Interfaces with predicates, compiled once.

    >>> table = ForwardingTable({"north": "severity > 2", "south": "site = 'Oslo'"})
    >>> sorted(table.forward({"severity": 3, "site": "Oslo"}))
    ['north', 'south']
    >>> table.forward({"severity": 3, "site": "Oslo"}, broadcast={"south"})
    ['south']
    """

    def __init__(
        self,
        interfaces: Mapping[Any, Predicate | str] | Iterable[tuple[Id, Predicate | str]],
        *,
        statistics: Statistics | None = None,
    ) -> None:
        pairs = interfaces.items() if isinstance(interfaces, Mapping) else interfaces
        compiled: dict[Id, Predicate] = {}
        for interface, predicate in pairs:
            contract.check_id(interface)
            if interface in compiled:
                raise contract.duplicate(interface)
            compiled[interface] = parse(predicate) if isinstance(predicate, str) else predicate
        self.interfaces = list(compiled)
        self._numbers = {interface: number for number, interface in enumerate(compiled)}
        self._segment = Segment.of(compiled, absorb=True, statistics=statistics)

    def forward(self, event: EventLike, broadcast: Collection[Id] | None = None) -> list[Id]:
        """The interfaces whose predicate the event satisfies, among those in `broadcast`."""
        if type(event) is not dict or not PLAIN_TYPES.issuperset(map(type, event.values())):
            event = Event(event)
        if broadcast is None:
            return self._segment.match(event)
        allowed = set(broadcast)
        excluded = [n for interface, n in self._numbers.items() if interface not in allowed]
        return self._segment.match(event, excluded)

    def forward_batch(self, batch: Batch, threads: int = 1) -> pa.Table:
        """The pairs of a batch: columns `event` (the row number) and `interface`."""
        found = list(self._segment.match_batch(batch, threads))
        integers = self._segment.integers
        if not integers:
            contract.check_texts(self._numbers)
        columns = {
            "event": pa.chunked_array([rows for rows, _ in found], pa.int64()),
            "interface": pa.chunked_array(
                [self._segment.id_column(numbers, integers) for _, numbers in found],
                pa.int64() if integers else pa.string(),
            ),
        }
        return pa.table(columns)

    def stats(self) -> Stats:
        """How large the table is."""
        plan = self._segment.plan
        return Stats(len(self.interfaces), plan.filters, plan.constraints, plan.bytes)
