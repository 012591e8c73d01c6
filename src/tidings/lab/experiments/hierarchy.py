"""The survey, VI-D (S14): what a rooted tree saves in tables, and costs at its root."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.reverse_paths import QuoteNetwork, binary
from tidings.routing.protocol import SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS: Final = {"full": (4, 6, 8), "quick": (3, 5, 6), "tiny": (2, 3)}
EVENTS: Final = {"full": 400, "quick": 120, "tiny": 20}
DOWN: Final = "rooted:direction=down"
PROTOCOLS: Final = ("subscriptions", "rooted", DOWN)


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"levels": levels, "protocol": protocol, "events": EVENTS[setting]}
        for levels in LEVELS[setting]
        for protocol in PROTOCOLS
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    """Every node has one subscription, different from all others, as in the survey's example."""
    graph = binary(parameters["levels"])
    chance = Random(f"hierarchy {parameters['levels']}")
    run = QuoteNetwork(graph, parameters["protocol"])
    for node, name in enumerate(graph.names):
        run.subscribe(name, f"topic = {node}")
    run.wait(3 * SECOND)
    held = {
        name: len(router.wanted.who) for name, router in zip(graph.names, run.nodes(), strict=True)
    }
    quotes = [
        (chance.choice(graph.names), {"topic": chance.randrange(graph.nodes)})
        for _ in range(parameters["events"])
    ]
    packets = run.publish(quotes)
    for level in range(parameters["levels"]):
        mine = [held[graph.names[node]] for node in range(2**level - 1, 2 ** (level + 1) - 1)]
        yield {
            "nodes": graph.nodes,
            "level": level,
            "held_mean": sum(mine) / len(mine),
            "entries": sum(held.values()) / graph.nodes,
            "root_share": run.watch.through[graph.names[0]] / parameters["events"],
            "packets_an_event": packets["packets_an_event"],
        }


COLUMNS: Final = {
    "nodes": int,
    "level": int,
    "held_mean": float,
    "entries": float,
    "root_share": float,
    "packets_an_event": float,
}


def claims(rows: Rows) -> list[Claim]:
    levels = values(rows, "levels")[-1]
    rooted = sorted(
        (row["level"], row["held_mean"], row["nodes"])
        for row in select(rows, levels=levels, protocol="rooted")
    )
    nodes = rooted[0][2]
    expected = all(held == (nodes + 1) / 2**level - 1 for level, held, _ in rooted)
    flat = select(rows, levels=levels, protocol="subscriptions", level=0)[0]
    both = select(rows, levels=levels, protocol="rooted", level=0)[0]
    down = select(rows, levels=levels, protocol=DOWN, level=0)[0]
    shown = ", ".join(f"{held:.0f} at level {level}" for level, held, _ in rooted)
    return [
        Claim(
            "VI-D",
            "the root knows n subscriptions, a node of level k n/2^k, a leaf its own",
            f"{nodes} nodes, one subscription each: {shown}",
            expected,
        ),
        Claim(
            "VI-D",
            "a subscription is in O(log n) tables, instead of in O(n)",
            f"in {both['entries']:.1f} tables on average, {flat['entries']:.1f} without a root",
            both["entries"] <= levels and flat["entries"] == nodes,
        ),
        Claim(
            "VI-D",
            "the root is a point of congestion",
            f"events that reach the root: {both['root_share']:.0%} (both ways), "
            f"{down['root_share']:.0%} (down), {flat['root_share']:.0%} without a root",
            both["root_share"] > flat["root_share"],
        ),
        Claim(
            "VI-D",
            "events that branch on their path up take fewer packets than those that come down",
            f"packets an event: {both['packets_an_event']:.2f} both ways, "
            f"{down['packets_an_event']:.2f} down, {flat['packets_an_event']:.2f} without a root",
            both["packets_an_event"] <= down["packets_an_event"],
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (tables, packets) = panels(2)
    levels = values(rows, "levels")[-1]
    for number, protocol in enumerate(PROTOCOLS):
        style: dict[str, Any] = {
            "color": COLOURS[number],
            "marker": MARKERS[number],
            "label": protocol,
        }
        found = select(rows, levels=levels, protocol=protocol)
        line = sorted((row["level"], row["held_mean"]) for row in found)
        tables.plot(*zip(*line, strict=True), **style)
        found = select(rows, protocol=protocol, level=0)
        line = sorted((row["nodes"], row["packets_an_event"]) for row in found)
        packets.plot(*zip(*line, strict=True), **style)
    tables.set_xlabel("level, from the root")
    tables.set_ylabel("filters at a node")
    packets.set_xlabel("nodes")
    packets.set_ylabel("packets an event")
    for axes in (tables, packets):
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="s14-hierarchy",
    parts=("S14",),
    title="Rooted trees: tables by level, and the load of the root",
    question="What does a root save in tables, and what does it cost?",
    paper="The survey counts tables on a balanced binary tree, one subscription at each node.",
    here="The same, measured; and packets of events for one random subscriber each.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
