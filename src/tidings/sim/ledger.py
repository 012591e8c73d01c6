"""The ledger: what was published, what came of it, and what was done to the network meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tidings.routing.protocol import MILLISECOND


@dataclass
class Ledger:
    """The counts of one run, or of many added up.

    expected + surplus = delivered + lost + lost_when_stable + withdrawn
    """

    seeds: int = 0
    simulated_s: float = 0.0
    published: int = 0
    expected: int = 0  # pairs of event and subscription held when it was published
    delivered: int = 0
    lost: int = 0  # expected, and not delivered: while the network was broken
    lost_when_stable: int = 0  # the same while it was not: a fault of ours
    withdrawn: int = 0  # expected, and the subscription was given up before it came
    surplus: int = 0  # delivered, and not expected: subscribed or in reach while it was under way
    duplicated: int = 0
    unexpected: int = 0
    spam_packets: int = 0  # event packets that no receiver needed, while the network was stable
    event_packets: int = 0
    control_packets: int = 0
    control_bytes: int = 0
    failures: int = 0  # seeds with a violation
    faults: Counter[str] = field(default_factory=Counter)
    drops: Counter[str] = field(default_factory=Counter)
    convergence_ns: list[int] = field(default_factory=list)

    @property
    def packets(self) -> int:
        """All packets sent."""
        return self.event_packets + self.control_packets

    def add(self, other: Ledger) -> None:
        """Add the counts of another ledger."""
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            elif isinstance(mine, list):
                mine.extend(theirs)
            else:
                setattr(self, item.name, mine + theirs)

    def convergence_ms(self, share: float) -> float | None:
        """The time within which the given share of repairs were done."""
        times = sorted(self.convergence_ns)
        if not times:
            return None
        return times[min(len(times) - 1, int(share * len(times)))] / MILLISECOND

    def as_dict(self) -> dict[str, Any]:
        """The ledger as plain values with stable names."""
        row = asdict(self)
        del row["convergence_ns"]
        row["simulated_s"] = round(self.simulated_s, 3)
        row["packets"] = self.packets
        row["faults"] = dict(sorted(self.faults.items()))
        row["drops"] = dict(sorted(self.drops.items()))
        row["convergence_p50_ms"] = self.convergence_ms(0.5)
        row["convergence_p99_ms"] = self.convergence_ms(0.99)
        return row
