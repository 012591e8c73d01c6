"""The survey, VI-D (S14): what a rooted tree saves in tables, and costs at its root."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.quotes import quotes, source
from tidings.lab.reverse_paths import STEP, QuoteNetwork, binary
from tidings.overlay.topologies import topology
from tidings.routing.protocol import SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS: Final = {"full": (4, 6, 8), "quick": (3, 5, 6), "tiny": (2, 3)}
EVENTS: Final = {"full": 400, "quick": 120, "tiny": 20}
QUOTED: Final = {  # with stock quotes: network, subscriptions, changes, localities
    "full": ("ba:40", 400, 200, (0.0, 0.25, 0.5, 0.75, 1.0)),
    "quick": ("ba:12", 100, 40, (0.0, 0.5, 1.0)),
    "tiny": ("tree:5", 12, 6, (0.0, 1.0)),
}
DOWN: Final = "rooted:direction=down"
PROTOCOLS: Final = ("subscriptions", "rooted", DOWN)  # on the tree of the survey
FLAT: Final = "covering"
SHOWN: Final = (FLAT, "rooted", DOWN)  # with stock quotes: all of them cover


def sweep(setting: Setting) -> list[Parameters]:
    text, subscriptions, changes, localities = QUOTED[setting]
    by_levels: list[Parameters] = [
        {"kind": "survey", "levels": levels, "protocol": protocol, "events": EVENTS[setting]}
        for levels in LEVELS[setting]
        for protocol in PROTOCOLS
    ]
    return by_levels + [
        {
            "kind": "quotes",
            "topology": text,
            "protocol": protocol,
            "subscriptions": subscriptions,
            "changes": changes,
            "locality": locality,
            "events": EVENTS[setting],
            "source": source(),
        }
        for locality in localities
        for protocol in SHOWN
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    yield from (_survey if parameters["kind"] == "survey" else _quotes)(parameters)


def _survey(parameters: Parameters) -> Iterator[Row]:
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
    events = [
        (chance.choice(graph.names), {"topic": chance.randrange(graph.nodes)})
        for _ in range(parameters["events"])
    ]
    found = run.publish(events)
    for level in range(parameters["levels"]):
        mine = [held[graph.names[node]] for node in range(2**level - 1, 2 ** (level + 1) - 1)]
        yield {
            "nodes": graph.nodes,
            "level": level,
            "held_mean": sum(mine) / len(mine),
            "entries": sum(held.values()) / graph.nodes,
            "root_share": run.watch.through[graph.names[0]] / parameters["events"],
            **{name: found[name] for name in ("packets_an_event", "spam", "stretch", "busiest")},
        }


def _quotes(parameters: Parameters) -> Iterator[Row]:
    """Stock quotes on a network with cycles; subscriptions come and go."""
    graph = topology(parameters["topology"], 1)
    locality = parameters["locality"]
    stock = quotes(parameters["source"])
    chance = Random(f"hierarchy of quotes {locality}")
    run = QuoteNetwork(graph, parameters["protocol"])

    def subscribe() -> None:
        node = chance.randrange(graph.nodes)
        run.subscribe(graph.names[node], stock.draw_filter(chance, node, locality))

    for _ in range(parameters["subscriptions"]):
        subscribe()
    run.wait(3 * SECOND)
    before = run.watch.control_bytes
    for _ in range(parameters["changes"]):
        run.unsubscribe(chance.choice(sorted(run.held)))
        subscribe()
        run.wait(STEP)
    control = run.watch.control_bytes - before
    found = run.publish(
        [
            (chance.choice(graph.names), stock.draw_quote(chance))
            for _ in range(parameters["events"])
        ]
    )
    root = run.nodes()[0].spanning.root
    yield {
        "nodes": graph.nodes,
        **run.tables(),
        "bytes_a_change": control / parameters["changes"],
        "root_share": run.watch.through[root] / parameters["events"],
        **{name: found[name] for name in ("packets_an_event", "spam", "stretch", "busiest")},
    }


COLUMNS: Final = {
    "nodes": int,
    "level": int,
    **dict.fromkeys(("held_mean", "held_most", "entries", "root_share", "bytes_a_change"), float),
    **dict.fromkeys(("packets_an_event", "spam", "stretch", "busiest"), float),
}


def claims(rows: Rows) -> list[Claim]:
    quoted = select(rows, kind="quotes")
    rows = select(rows, kind="survey")
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
        *_of_quotes(quoted),
    ]


def _of_quotes(rows: Rows) -> list[Claim]:
    """What the survey says, asked of stock quotes at each locality."""
    ends = [values(rows, "locality")[0], values(rows, "locality")[-1]]

    def found(column: str, form: str) -> str:
        return "; ".join(
            f"locality {p}: "
            + ", ".join(
                f"{select(rows, locality=p, protocol=one)[0][column]:{form}} {one}" for one in SHOWN
            )
            for p in ends
        )

    def ratios(column: str, protocol: str) -> list[float]:
        return [
            select(rows, locality=p, protocol=protocol)[0][column]
            / select(rows, locality=p, protocol=FLAT)[0][column]
            for p in values(rows, "locality")
        ]

    return [
        Claim(
            "VI-D",
            "with stock quotes too a root makes the tables smaller",
            f"filters held by a node: {found('held_mean', '.1f')}. Bytes told for a change: "
            f"{found('bytes_a_change', '.0f')}",
            all(ratio < 1 for ratio in ratios("held_mean", "rooted")),
            quotes(rows[0]["source"]).origin,
        ),
        Claim(
            "VI-D",
            "paths are optimal only if publishers sit at the root",
            f"stretch: {found('stretch', '.2f')}. Share of the busiest node: "
            f"{found('busiest', '.0%')}",
            all(ratio > 1 for ratio in ratios("stretch", DOWN)),
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (tables, packets, held, busiest) = panels(2, rows=2)
    quoted = select(rows, kind="quotes")
    for number, protocol in enumerate(SHOWN):
        found = select(quoted, protocol=protocol)
        for axes, column in ((held, "held_mean"), (busiest, "busiest")):
            line = sorted((row["locality"], row[column]) for row in found)
            look: dict[str, Any] = {
                "color": COLOURS[number],
                "marker": MARKERS[number],
                "label": protocol,
            }
            axes.plot(*zip(*line, strict=True), **look)
            axes.set_xlabel("locality of stock quotes")
    held.set_ylabel("filters held by a node, mean")
    busiest.set_ylabel("share of the busiest node")
    rows = select(rows, kind="survey")
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
    for axes in (tables, packets, held, busiest):
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="s14-hierarchy",
    parts=("S14",),
    title="Rooted trees: tables by level, and the load of the root",
    question="What does a root save in tables, and what does it cost?",
    paper="The survey counts tables on a balanced binary tree, one subscription at each node.",
    here="The same, measured; and packets of events for one random subscriber each. Then stock "
    "quotes on a network with cycles, over the locality of subscriptions.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
