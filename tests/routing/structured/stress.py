"""What structured overlays are put through, whichever they are: starts, storms, partitions."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from tidings.routing.protocol import Leave
from tidings.routing.structured.chord import Chord
from tidings.routing.structured.pastry import Pastry
from tidings.sim.rings import Rings

Make = Callable[..., Any]
SUBSTRATES: dict[str, Make] = {
    "chord": Chord,
    "pastry": Pastry,
    "pastry with two leaves": partial(Pastry, leaves=2),
}


def started(text: str = "ba:20", seed: int = 1, make: Make = Chord) -> Rings:
    """Nodes that have all started at once, 12 seconds later."""
    rings = Rings(text, seed, make=make)
    for name in list(rings.network.nodes):
        rings.network.start(name)
    rings.run(12)
    return rings


def stormed(seed: int, make: Make = Chord) -> Rings:
    """Nodes that have joined, left and crashed while packets got lost, 30 seconds later."""
    rings = Rings("ba:24,weights=1-3", seed, make=make)
    chance = Random(seed)
    names = list(rings.network.nodes)
    for link in rings.network.links.values():
        link.loss, link.duplicate, link.reorder = 0.05, 0.05, 0.1
        link.disturbed()
    for name in names:
        rings.network.start(name)
        rings.run(0.3)
    for _ in range(12):
        running = rings.running()
        name = chance.choice(names)
        if name in running and len(running) > 8:
            if chance.random() < 0.5:
                rings.network.tell(name, Leave())
            rings.network.stop(name, forget=True)
        elif name not in running:
            rings.network.start(name)
        rings.run(chance.random() * 2)
    for link in rings.network.links.values():
        link.calm()
    rings.run(30)
    return rings


def partitioned(seed: int, make: Make = Chord) -> Rings:
    """Nodes that fell apart in two rings for 25 seconds, 40 seconds later."""
    rings = started("grid:4x5", seed, make)
    sides = [
        [n for n in rings.running() if int(n) < 10],
        [n for n in rings.running() if int(n) > 9],
    ]
    for (one, other), link in rings.network.links.items():
        link.cut += (one in sides[0]) != (other in sides[0])
    rings.run(25)
    assert [rings.wrong(side) for side in sides] == [[], []]
    for link in rings.network.links.values():
        link.cut = 0
    rings.run(40)
    return rings
