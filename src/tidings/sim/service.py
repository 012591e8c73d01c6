"""Nodes that take time (L5): a packet waits until its node is free, and then for its own service.

`Service` plugs into a `Network` (`network.service = …`): an arrival is handled when it has been
served. Without it nodes take no time. Packets are served in the order in which they arrive, one at
a time, and how long one takes depends on the packet, on what the node stores, and on the node's
capacity. Nothing here draws chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class MatchTime:
    """How long a node of capacity 1 takes to match an event, by the number of its subscriptions.

    The time is a + b * n ** gamma. Past the memory of the node each further subscription costs
    `cliff` times its share, as it has to be fetched from secondary storage (paper L, 4.1).

    >>> linear = MatchTime(fixed_ns=1_000, growth_ns=10.0, exponent=1.0, memory=100, cliff=5.0)
    >>> linear(0), linear(100), linear(200)
    (1000, 2000, 7000)
    """

    fixed_ns: float
    growth_ns: float
    exponent: float
    memory: int | None = None  # subscriptions; None: there is always enough
    cliff: float = 10.0

    def __post_init__(self) -> None:
        if self.fixed_ns < 0 or self.growth_ns < 0 or self.exponent < 0:
            raise ValueError(f"expected times and an exponent of at least 0, found {self}")
        if self.cliff < 1 or (self.memory is not None and self.memory < 0):
            raise ValueError(f"expected a cliff of at least 1 and a memory, found {self}")

    def __call__(self, subscriptions: float) -> int:
        """Nanoseconds, rounded up."""
        if subscriptions <= 0:
            return -int(-self.fixed_ns // 1)
        growth = self.growth_ns * subscriptions**self.exponent
        if self.memory is not None and subscriptions > self.memory:
            growth *= 1 + (self.cliff - 1) * (subscriptions - self.memory) / subscriptions
        return -int(-(self.fixed_ns + growth) // 1)


@dataclass
class Service:
    """When each node is free again, and how much it has done."""

    cost: Callable[[Any, Any], int]  # of a router and a packet: nanoseconds at capacity 1
    capacity: Mapping[str, float] = field(default_factory=dict)  # of a node; 1 if not named
    free_at: dict[str, int] = field(default_factory=dict)
    busy_ns: Counter[str] = field(default_factory=Counter)
    waited_ns: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)

    def packet(self, now: int, node: str, router: Any, packet: Any) -> int:
        """Put a packet into the queue of a node; the time when it has been served."""
        return self.work(now, node, self.cost(router, packet))

    def work(self, now: int, node: str, cost: int) -> int:
        """Put work into the queue of a node; the time when it is done."""
        begin = max(now, self.free_at.get(node, 0))
        takes = -int(-cost // self.capacity.get(node, 1.0))
        self.waited_ns[node] += begin - now
        self.busy_ns[node] += takes
        self.served[node] += 1
        self.free_at[node] = begin + takes
        return begin + takes

    def forget(self, node: str) -> None:
        """Empty the queue of a node, which has crashed."""
        self.free_at.pop(node, None)
