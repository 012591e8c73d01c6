"""The survey, VI-C and VI-G (S10, S12): what covering saves in tables, and costs in changes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.reverse_paths import STEP, SYMBOLS, QuoteNetwork, draw_filter, draw_quote
from tidings.overlay.topologies import topology
from tidings.routing.protocol import SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPE: Final = {
    "full": ("ba:60", (100, 1_000, 5_000), 400, 400),
    "quick": ("ba:20", (40, 200, 600), 100, 60),
    "tiny": ("tree:7", (20, 40), 12, 10),
}
LOCALITIES: Final = (0.0, 0.5, 1.0)
POLICIES: Final = ("subscriptions", "covering")


def sweep(setting: Setting) -> list[Parameters]:
    text, sizes, changes, events = SHAPE[setting]
    return [
        {
            "topology": text,
            "protocol": protocol,
            "subscriptions": size,
            "locality": locality,
            "changes": changes,
            "events": events,
        }
        for size in sizes
        for locality in LOCALITIES
        for protocol in POLICIES
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    graph = topology(parameters["topology"], 1)
    locality = parameters["locality"]
    chance = Random(f"covering {parameters['subscriptions']} {locality}")  # alike for all protocols
    run = QuoteNetwork(graph, parameters["protocol"])

    def subscribe() -> None:
        node = chance.randrange(graph.nodes)
        run.subscribe(graph.names[node], draw_filter(chance, node, locality))

    for _ in range(parameters["subscriptions"]):
        subscribe()
    run.wait(3 * SECOND)
    tables = run.tables()
    for router in run.nodes():
        router.bursts.clear()
    before = run.watch.control_bytes
    for _ in range(parameters["changes"]):
        run.unsubscribe(chance.choice(sorted(run.held)))
        run.wait(STEP)
        subscribe()
        run.wait(STEP)
    run.wait(2 * SECOND)
    control = (run.watch.control_bytes - before) / (2 * parameters["changes"])
    bursts = sorted(size for r in run.nodes() for size in r.bursts.elements())
    quotes = [
        (chance.choice(graph.names), draw_quote(chance, chance.randrange(SYMBOLS)))
        for _ in range(parameters["events"])
    ]
    packets = run.publish(quotes)
    yield {
        **tables,
        "bytes_a_change": control,
        "burst_most": max(bursts, default=0),
        "packets_an_event": packets["packets_an_event"],
    }


COLUMNS: Final = {
    "held_mean": float,
    "held_most": float,
    "bytes_a_change": float,
    "burst_most": int,
    "packets_an_event": float,
}


def _ratio(rows: Rows, column: str, **where: float) -> float:
    (exact,) = select(rows, protocol="subscriptions", **where)
    (covering,) = select(rows, protocol="covering", **where)
    return float(covering[column] / exact[column]) if exact[column] else 1.0


def claims(rows: Rows) -> list[Claim]:
    most = values(rows, "subscriptions")[-1]
    wide = {p: _ratio(rows, "held_mean", subscriptions=most, locality=p) for p in LOCALITIES}
    costs = {p: _ratio(rows, "bytes_a_change", subscriptions=most, locality=p) for p in LOCALITIES}
    same = all(
        _ratio(rows, "packets_an_event", subscriptions=size, locality=p) == 1
        for size in values(rows, "subscriptions")
        for p in LOCALITIES
    )
    shown = ", ".join(f"{wide[p]:.2f} at locality {p}" for p in LOCALITIES)
    cost = ", ".join(f"{costs[p]:.2f} at locality {p}" for p in LOCALITIES)
    return [
        Claim(
            "VI-C",
            "covering is precise: no false positives and no false negatives",
            "events take as many packets with covering as without, and all arrive"
            if same
            else "events take other numbers of packets",
            same,
        ),
        Claim(
            "VI-C",
            "covering makes the tables smaller",
            f"filters held, as a share of those without covering, with {most:,} subscriptions: "
            f"{shown}",
            all(share < 1 for share in wide.values()),
        ),
        Claim(
            "VI-G",
            "summaries are a clear win only if notifications are many compared to changes",
            f"bytes told for a change, as a share of those without covering: {cost}",
            any(share > 1 for share in costs.values()),
            "Where a share is below 1, covering wins at any rate: what is covered is not told, "
            "and that saves more than uncovering costs.",
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    for place, column, label in (
        (0, "held_mean", "filters held by a node, mean"),
        (1, "bytes_a_change", "bytes told for a change"),
    ):
        for number, (protocol, locality) in enumerate(
            (protocol, p) for protocol in POLICIES for p in (0.0, 1.0)
        ):
            found = select(rows, protocol=protocol, locality=locality)
            line = sorted((row["subscriptions"], row[column]) for row in found)
            axes[place].plot(
                *zip(*line, strict=True),
                color=COLOURS[number],
                marker=MARKERS[number],
                label=f"{protocol}, locality {locality}",
            )
        axes[place].set_xlabel("subscriptions")
        axes[place].set_ylabel(label)
        axes[place].legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="s12-covering",
    parts=("S10", "S12"),
    title="Covering: smaller tables, and what a change costs",
    question="When does it pay not to tell filters that others cover?",
    paper="The survey describes covering and says when it pays; it measures nothing.",
    here="Stock quotes on a network with cycles, over the number of subscriptions and their "
    "locality; subscriptions come and go. Every delivery is checked.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
