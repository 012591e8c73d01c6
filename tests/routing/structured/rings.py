"""Nodes that do nothing but keep a ring, in the simulator, and how right the ring is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from tests.routing.running import Log
from tidings.overlay.ideal import IdealRing
from tidings.overlay.keys import Circle
from tidings.overlay.topologies import topology
from tidings.routing.packets import Parcel
from tidings.routing.planes.carrier import Meshed
from tidings.routing.protocol import (
    MILLISECOND,
    USUAL,
    Action,
    Cause,
    Leave,
    LinkUp,
    Received,
    Woken,
)
from tidings.routing.protocols import ANYONE, NEIGHBOURS
from tidings.routing.structured.chord import Chord
from tidings.sim.network import Network


class RingNode:
    """A node of a ring that speaks to whom it has heard of, at first its neighbours by link."""

    is_switching = False
    hops: Mapping[str, str] | None = None

    def __init__(
        self, node: str, life: int, circle: Circle, make: Callable[..., Any] = Chord
    ) -> None:
        self.mesh = Meshed(node, life)
        self.chord = make(node, self.mesh, USUAL, circle, self.mesh.meet)
        self.lives: dict[str, int] = {}
        self.table: dict[str, str] = {}

    def handle(self, cause: Cause, now: int) -> list[Action]:
        out: list[Action] = []
        match cause:
            case LinkUp(neighbour):
                self.mesh.meet(neighbour)
                self.chord.heard(now, out)
            case Received(neighbour, packet):
                assert isinstance(packet, Parcel)
                known = self.lives.get(packet.source, packet.life)
                inner = self.mesh.received(neighbour, packet, out)
                self.lives[packet.source] = max(known, packet.life)
                if packet.life > known:
                    self.chord.lost([packet.source], now, out)
                if inner is not None and packet.life >= known:
                    self.chord.received(packet.source, inner, now, out)
            case Woken():
                self.chord.wake(now, out)
            case Leave():
                self.chord.leave(out)
        return out

    def timer(self) -> int | None:
        return self.chord.timer()  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, Any]:
        return self.chord.snapshot()  # type: ignore[no-any-return]

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        return range(len(events))

    def is_settled(self) -> bool:
        return self.chord.is_settled()  # type: ignore[no-any-return]

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
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
        self.log = Log()
        self.network = Network(
            lambda name, life: RingNode(name, life, self.circle, make),
            self.log,
            Random(seed),
            frozenset({NEIGHBOURS, ANYONE}),
        )
        graph = topology(text, seed)
        for name in graph.names:
            self.network.add_node(name)
        for one, other, weight in graph.links:
            self.network.add_link(graph.names[one], graph.names[other], weight, 2 * MILLISECOND)

    def run(self, seconds: float) -> None:
        self.network.run(self.network.now + int(seconds * 1_000) * MILLISECOND)

    def chord(self, name: str) -> Any:
        router: Any = self.network.nodes[name].router
        return router.chord

    def running(self) -> list[str]:
        return [node.name for node in self.network.nodes.values() if node.running]

    def wrong(self, names: Sequence[str] | None = None) -> list[str]:
        """Where the ring of some nodes, or of all that run, is not as it must be."""
        names = self.running() if names is None else names
        ideal = IdealRing(names, self.circle)
        found = []
        for name in names:
            chord = self.chord(name)
            if len(names) == 1:
                assert not chord.successors
                continue
            after = ideal.successors(name)
            if chord.successors != after:
                found.append(f"{name} has the successors {chord.successors}, not {after}")
            if chord.predecessor != ideal.predecessor(name):
                found.append(f"{name} has the predecessor {chord.predecessor}")
            if chord.split(chord.key) != ideal.split(name, chord.key):
                found.append(f"{name} divides the ring into {chord.split(chord.key)}")
        return found

    def route(self, name: str, key: int) -> list[str]:
        """The nodes on the path from a node to the one in charge of a key."""
        path = [name]
        while (hop := self.chord(path[-1]).hop(key)) is not None:
            assert len(path) < 100, path
            path.append(hop)
        return path
