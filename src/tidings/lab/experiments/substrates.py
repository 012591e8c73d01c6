"""Survey, VI-D (S15, S16): the overlays below, Chord and Pastry, from 10 to 10,000 nodes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from math import ceil, log2
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.experiments.chord_trees import lookup
from tidings.routing.structured.chord import Chord
from tidings.routing.structured.pastry import Pastry
from tidings.sim.meshes import Mesh

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUBSTRATES: Final[dict[str, Callable[..., Any]]] = {"chord": Chord, "pastry": Pastry}
NODES: Final = {"full": (10, 100, 1_000, 10_000), "quick": (10, 100), "tiny": (10, 30)}
LOOKUPS: Final = 2_000
REST_S: Final = 4  # for which traffic is counted
CRASHES: Final = 0.01  # the share of nodes that crash at once: one at least
POLL_S: Final = 0.25
MOST_POLLS: Final = 240


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"substrate": name, "nodes": nodes, "seed": 1}
        for nodes in NODES[setting]
        for name in SUBSTRATES
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    nodes, chance = parameters["nodes"], Random(parameters["seed"])
    mesh = Mesh([str(number) for number in range(nodes)], SUBSTRATES[parameters["substrate"]])
    names = list(mesh.nodes)
    hops = [
        len(lookup(mesh.ideal, chance.choice(names), chance.getrandbits(64))) - 1
        for _ in range(LOOKUPS)
    ]
    kept = statistics.mean(len(mesh.substrate(name).neighbours()) for name in names)
    mesh.run(REST_S)
    found: Row = {
        "hops": statistics.mean(hops),
        "most_hops": max(hops),
        "neighbours": kept,
        "packets_per_s": mesh.packets / nodes / REST_S,
        "bytes_per_s": mesh.bytes / nodes / REST_S,
        "moved": len(mesh.wrong(names)),
    }
    mesh.crash(chance.sample(names, max(1, round(CRASHES * nodes))))
    yield found | dict(zip(("ring_s", "repair_s"), repaired(mesh), strict=True))


COLUMNS: Final = {
    "hops": float,
    "most_hops": int,
    "neighbours": float,
    "packets_per_s": float,
    "bytes_per_s": float,
    "moved": int,
    "ring_s": float,
    "repair_s": float,
}


def repaired(mesh: Mesh) -> tuple[float, float]:
    """Seconds until all nodes have the right ones beside them; and until all tables are right."""
    misplaced, wrong = mesh.misplaced(list(mesh.nodes)), mesh.wrong(list(mesh.nodes))
    polls = polls_of_ring = 0
    while wrong and polls < MOST_POLLS:
        mesh.run(POLL_S)
        polls += 1
        if misplaced:
            misplaced = mesh.misplaced(misplaced)
            polls_of_ring = polls
        wrong = mesh.wrong(wrong) or mesh.wrong(list(mesh.nodes))
    return polls_of_ring * POLL_S, polls * POLL_S


def digits(nodes: int) -> int:
    """How many digits tell so many nodes apart: the logarithm to base 16, rounded up."""
    return ceil(round(log2(nodes) / 4, 9))


def claims(rows: Rows) -> list[Claim]:
    sizes = values(rows, "nodes")
    chord = {nodes: select(rows, substrate="chord", nodes=nodes)[0] for nodes in sizes}
    pastry = {nodes: select(rows, substrate="pastry", nodes=nodes)[0] for nodes in sizes}
    largest = sizes[-1]
    rounds = [row["ring_s"] for row in rows]
    one, other = chord[largest], pastry[largest]
    return [
        Claim(
            "VI-D, [57] (Chord)",
            "a lookup takes half the logarithm of the nodes in hops, to base 2, give or take one",
            ", ".join(f"{row['hops']:.1f} of {log2(n) / 2:.1f}" for n, row in chord.items()),
            all(abs(row["hops"] - log2(n) / 2) <= 1 for n, row in chord.items()),
            "The list of four successors saves some of the last hops.",
        ),
        Claim(
            "Rowstron, Druschel (Pastry)",
            "a lookup takes fewer hops than the logarithm of the nodes to base 16, rounded up",
            ", ".join(f"{row['hops']:.1f} of {digits(n)}" for n, row in pastry.items()),
            all(row["hops"] < digits(n) for n, row in pastry.items()),
        ),
        Claim(
            "ours",
            "at rest nothing changes; after a crash of one node in a hundred the ring is right "
            "again within four seconds, however many nodes there are",
            f"{min(rounds):g} to {max(rounds):g} s from {sizes[0]:,} to {largest:,} nodes",
            max(rounds) <= 4 and not any(row["moved"] for row in rows),
        ),
        Claim(
            "ours",
            "shorter paths cost more upkeep: Pastry keeps more neighbours, and sends more",
            f"with {largest:,} nodes {other['neighbours']:.0f} and {one['neighbours']:.0f} "
            f"neighbours, {other['bytes_per_s']:.0f} and {one['bytes_per_s']:.0f} bytes a node "
            "and second",
            other["neighbours"] > one["neighbours"] and other["bytes_per_s"] > one["bytes_per_s"],
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(3)
    sizes = values(rows, "nodes")
    columns = {
        "hops": "hops of a lookup",
        "bytes_per_s": "bytes a node and second",
        "repair_s": "repair of a crash, s",
    }
    for panel, (column, label) in zip(axes, columns.items(), strict=True):
        for number, name in enumerate(SUBSTRATES):
            line = [select(rows, substrate=name, nodes=nodes)[0][column] for nodes in sizes]
            panel.plot(sizes, line, label=name, color=COLOURS[number], marker=MARKERS[number])
        panel.set_xscale("log")
        panel.set_xlabel("nodes")
        panel.set_ylabel(label)
        panel.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="s15-substrates",
    parts=("S16",),
    title="Chord and Pastry: hops, upkeep and repair",
    question="How long are the paths of each, what does it cost to keep them, and how long does "
    "repair take?",
    paper="The survey names both, and gives no figures. Their own papers give hops.",
    here="Overlays from 10 to 10,000 nodes that begin at rest, on a network that delays every "
    f"packet by 10 ms: {LOOKUPS:,} lookups each, the traffic of {REST_S} s, and the time until "
    "everything is right again when one node in a hundred has crashed.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
