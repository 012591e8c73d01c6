"""Rings alone: nodes that do nothing but keep a structured overlay, and how right it is.

They speak to whom they have heard of, at first their neighbours by link; the network below takes
its shortest path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from tidings.overlay.keys import Circle
from tidings.overlay.topologies import topology
from tidings.routing.packets import Packet, Parcel
from tidings.routing.planes.carrier import Meshed
from tidings.routing.protocol import (
    MILLISECOND,
    USUAL,
    Action,
    Cause,
    Deliver,
    Drop,
    Established,
    Leave,
    LinkUp,
    Received,
    Woken,
)
from tidings.routing.protocols import ANYONE, NEIGHBOURS
from tidings.routing.structured.chord import Chord
from tidings.sim.network import Network, Node, UserAction


class Traffic:
    """A watcher that counts packets and their bytes."""

    def __init__(self) -> None:
        self.packets = 0
        self.bytes = 0

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        self.packets += 1
        self.bytes += size

    def delivered(self, now: int, node: Node, action: Deliver) -> None:
        raise TypeError(f"a ring delivers nothing: {action!r}")

    def established(self, now: int, node: Node, action: Established) -> None:
        raise TypeError(f"a ring establishes nothing: {action!r}")

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        pass

    def told(self, now: int, node: Node, action: UserAction) -> None:
        raise TypeError(f"a ring tells users nothing: {action!r}")


class RingNode:
    """A node of a ring, on a mesh."""

    is_switching = False
    hops: Mapping[str, str] | None = None

    def __init__(
        self, node: str, life: int, circle: Circle, make: Callable[..., Any] = Chord
    ) -> None:
        self.mesh = Meshed(node, life)
        self.substrate = make(node, self.mesh, USUAL, circle, self.mesh.meet)
        self.lives: dict[str, int] = {}
        self.table: dict[str, str] = {}

    def life_of(self, node: str) -> int:
        """It cannot tell: nobody but neighbours says its life."""
        return 0

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        match cause:
            case LinkUp(neighbour):
                self.mesh.meet(neighbour)
                self.substrate.heard(now, out)
            case Received(neighbour, packet):
                assert isinstance(packet, Parcel)
                known = self.lives.get(packet.source, packet.life)
                inner = self.mesh.received(neighbour, packet, out)
                self.lives[packet.source] = max(known, packet.life)
                if packet.life > known:
                    self.substrate.lost([packet.source], now, out)
                if inner is not None and packet.life >= known:
                    self.substrate.received(packet.source, inner, now, out)
            case Woken():
                self.substrate.wake(now, out)
            case Leave():
                self.substrate.leave(out)
        return out

    def timer(self) -> int | None:
        """When to wake."""
        return self.substrate.timer()  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return self.substrate.snapshot()  # type: ignore[no-any-return]

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        """All events: a ring has none."""
        return range(len(events))

    def is_settled(self) -> bool:
        """Whether it has found its place."""
        return self.substrate.is_settled()  # type: ignore[no-any-return]

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """Nothing: a ring carries no events."""
        return {}


class Rings:
    """Nodes of rings on a network below."""

    def __init__(
        self,
        text: str = "ba:20",
        seed: int = 1,
        circle: Circle | None = None,
        make: Callable[..., Any] = Chord,
    ) -> None:
        self.circle = circle or Circle()
        self.traffic = Traffic()
        self.network = Network(
            lambda name, life: RingNode(name, life, self.circle, make),
            self.traffic,
            Random(seed),
            frozenset({NEIGHBOURS, ANYONE}),
        )
        graph = topology(text, seed)
        for name in graph.names:
            self.network.add_node(name)
        for one, other, weight in graph.links:
            self.network.add_link(graph.names[one], graph.names[other], weight, 2 * MILLISECOND)

    def run(self, seconds: float) -> None:
        """Let some time go by."""
        self.network.run(self.network.now + int(seconds * 1_000) * MILLISECOND)

    def substrate(self, name: str) -> Any:
        """A node's part in the ring."""
        router: Any = self.network.nodes[name].router
        return router.substrate

    def running(self) -> list[str]:
        """The nodes that run."""
        return [node.name for node in self.network.nodes.values() if node.running]

    def wrong(self, names: Sequence[str] | None = None) -> list[str]:
        """Where the ring of some nodes, or of all that run, is not as it must be."""
        names = self.running() if names is None else names
        ideal = self.substrate(names[0]).ideal(names)
        found = []
        for name in names:
            is_, should = self.substrate(name).snapshot(), ideal.snapshot(name)
            found += [
                f"{name} has the {part} {is_[part]}, not {should[part]}"
                for part in should
                if is_[part] != should[part]
            ]
        return found

    def route(self, name: str, key: int) -> list[str]:
        """The nodes on the path from a node to the one in charge of a key."""
        path = [name]
        while (hop := self.substrate(path[-1]).hop(key)) is not None:
            assert len(path) < 100, path
            path.append(hop)
        return path
