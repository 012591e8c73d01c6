"""`ForwardingTable`: on which interfaces does this event leave the router? (F3, F4)

Content-based forwarding selects, among the interfaces that a broadcast would use, those whose
predicate the event satisfies. This is the matching problem with few interfaces, each with a
predicate of very many filters, and it allows short cuts. Once an interface has matched, the search
skips its filters; once all have matched, the search ends. The paper's selectivity table excludes
interfaces that need an attribute which the event lacks; the search here never reaches them, because
every filter is filed under its rarest constraint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidings.language.predicate import Predicate, parse
from tidings.matching import contract
from tidings.matching.batches import match_columns, pairs_of
from tidings.matching.contract import Batch, EventLike, Id, Stats
from tidings.matching.native.engine import Index
from tidings.matching.table import load

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
        self._index = Index(statistics)
        load(self._index, compiled)

    def forward(self, event: EventLike, broadcast: Collection[Id] | None = None) -> list[Id]:
        """The interfaces whose predicate the event satisfies, among those in `broadcast`."""
        if broadcast is None:
            return self._index.match(event, None, len(self.interfaces))
        allowed = set(broadcast)
        excluded = [n for n, interface in enumerate(self.interfaces) if interface not in allowed]
        return self._index.match(event, excluded, len(self.interfaces) - len(excluded))

    def forward_batch(self, batch: Batch, threads: int = 1) -> pa.Table:
        """The pairs of a batch: columns `event` (the row number) and `interface`."""
        integers = contract.all_integers(self.interfaces)
        if not integers:
            contract.check_texts(set(self.interfaces))
        pairs = match_columns(self._index, batch, threads, len(self.interfaces))
        found = pairs_of(self._index, pairs, integers)
        return found.rename_columns(["event", "interface"])

    def stats(self) -> Stats:
        """How large the table is."""
        return Stats(*self._index.sizes())
