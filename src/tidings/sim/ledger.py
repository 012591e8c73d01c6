"""The ledger: what was published, what was delivered of it, and which faults struck meanwhile."""

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
    expected: int = 0  # pairs of an event and a subscription that was held and in reach
    delivered: int = 0
    lost: int = 0  # expected, never delivered; not stable, or not yet established
    lost_when_stable: int = 0  # the same in a stable network, once established: a bug
    withdrawn: int = 0  # expected, but unsubscribed before the event came
    surplus: int = 0  # delivered, though the subscription or the path is newer than the event
    duplicated: int = 0  # delivered twice
    unexpected: int = 0  # delivered without a matching subscription, or never published
    advertised: int = 0
    replied: int = 0  # feedback to publishers
    answered: int = 0  # of it, what a publisher got
    unanswered: int = 0  # of it, what came back: the publisher has gone
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
        """The time within which the given share of repairs was done."""
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
