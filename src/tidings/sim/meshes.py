"""Large structured overlays that begin at rest: what they cost, and how long repair takes.

`rings` has links, faults and shortest paths below, and a few hundred nodes. Here every packet
arrives after the same delay, unless its target has crashed. So there may be 10,000 nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

import msgspec

from tidings.overlay.ideal import IdealRing
from tidings.overlay.keys import Circle
from tidings.routing.packets import Packet
from tidings.routing.protocol import MILLISECOND, SECOND, USUAL, Action, Received, Send, Woken
from tidings.sim.rings import RingNode

DELAY: Final = 10 * MILLISECOND
LIFE: Final = 1


class Mesh:
    """Nodes of a structured overlay that has come to rest, and what is going to happen to it."""

    def __init__(self, names: list[str], make: Callable[..., Any]) -> None:
        self.nodes = {name: RingNode(name, LIFE, Circle(), make) for name in names}
        self.ideal: IdealRing = self.substrate(names[0]).ideal(names)
        self.now = 0
        self.packets = 0
        self.bytes = 0
        self._queue: list[tuple[int, int, str, str, Packet | None]] = []
        self._order = 0
        self._wakes: dict[str, int] = {}
        self._encode = msgspec.msgpack.Encoder().encode
        circle, round_ns = Circle(), 2 * USUAL.hello
        for name, node in self.nodes.items():  # their rounds do not begin at once
            node.substrate.begin_at_rest(self.ideal, circle.key(name) % round_ns - round_ns)
            self._arm(name)

    def substrate(self, name: str) -> Any:
        """A node's part in the overlay."""
        return self.nodes[name].substrate

    def crash(self, names: list[str]) -> None:
        """These nodes are there no more."""
        for name in names:
            del self.nodes[name]
        self.ideal = self.substrate(next(iter(self.nodes))).ideal(self.nodes)

    def run(self, seconds: float) -> None:
        """Let some time go by."""
        until = self.now + int(seconds * SECOND)
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, target, source, packet = heappop(queue)
            node = self.nodes.get(target)
            if node is None:
                continue
            if packet is not None:
                self._act(target, node.handle(Received(source, packet), self.now))
            elif self._wakes.get(target) == self.now:
                del self._wakes[target]
                self._act(target, node.handle(Woken(), self.now))
        self.now = until

    def _act(self, name: str, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self.packets += 1
                self.bytes += len(self._encode(action.packet))
                self._push(self.now + DELAY, action.neighbour, name, action.packet)
        self._arm(name)

    def _arm(self, name: str) -> None:
        timer = self.nodes[name].timer()
        if timer is not None:
            moment = max(timer, self.now + 1)
            if self._wakes.get(name) != moment:
                self._wakes[name] = moment
                self._push(moment, name, name, None)

    def _push(self, time: int, target: str, source: str, packet: Packet | None) -> None:
        self._order += 1
        heappush(self._queue, (time, self._order, target, source, packet))

    # How right it is

    def misplaced(self, names: list[str]) -> list[str]:
        """Those of some nodes that have other nodes beside them than they should."""
        ideal = self.ideal
        return [
            name
            for name in names
            if self.substrate(name).beside() != (ideal.predecessor(name), ideal.successor(name))
        ]

    def wrong(self, names: list[str]) -> list[str]:
        """Those of some nodes whose state is not as it must be."""
        return [n for n in names if self.substrate(n).snapshot() != self.ideal.snapshot(n)]
