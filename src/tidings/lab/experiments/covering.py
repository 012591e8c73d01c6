"""The survey, VI-C and VI-G (S10, S12, S13): what summaries save in tables, and when they pay."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.quotes import quotes, source
from tidings.lab.reverse_paths import STEP, QuoteNetwork
from tidings.overlay.topologies import topology
from tidings.routing.protocol import SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPE: Final = {  # network, subscriptions, changes, events, localities
    "full": ("ba:30", (50, 250, 1_000), 300, 300, (0.0, 0.25, 0.5, 0.75, 1.0)),
    "quick": ("ba:12", (20, 80, 240), 60, 60, (0.0, 0.5, 1.0)),
    "tiny": ("tree:5", (12, 24), 8, 8, (0.0, 1.0)),
}
EXACT: Final = "subscriptions"
COVERING: Final = "covering"
MERGING: Final = "merging:most_filters=8"
PROTOCOLS: Final = (EXACT, COVERING, MERGING)


def sweep(setting: Setting) -> list[Parameters]:
    text, sizes, changes, events, localities = SHAPE[setting]
    return [
        {
            "topology": text,
            "protocol": protocol,
            "subscriptions": size,
            "locality": locality,
            "changes": changes,
            "events": events,
            "source": source(),
        }
        for size in sizes
        for locality in localities
        for protocol in PROTOCOLS
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    graph = topology(parameters["topology"], 1)
    locality = parameters["locality"]
    stock = quotes(parameters["source"])
    chance = Random(f"covering {parameters['subscriptions']} {locality}")  # alike for all protocols
    run = QuoteNetwork(graph, parameters["protocol"])

    def subscribe() -> None:
        node = chance.randrange(graph.nodes)
        run.subscribe(graph.names[node], stock.draw_filter(chance, node, locality))

    for _ in range(parameters["subscriptions"]):
        subscribe()
    run.wait(10 * SECOND)
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
    events = [
        (chance.choice(graph.names), stock.draw_quote(chance)) for _ in range(parameters["events"])
    ]
    before = run.watch.event_bytes
    found = run.publish(events)
    yield {
        **tables,
        "bytes_a_change": control,
        "bytes_an_event": (run.watch.event_bytes - before) / len(events),
        "bursts": len(bursts),
        "burst_p99": bursts[len(bursts) * 99 // 100] if bursts else 0,
        "burst_most": max(bursts, default=0),
        **{name: found[name] for name in ("packets_an_event", "spam", "stretch", "busiest")},
    }


COLUMNS: Final = {
    **dict.fromkeys(("held_mean", "held_most", "bytes_a_change", "bytes_an_event"), float),
    **dict.fromkeys(("bursts", "burst_p99", "burst_most"), int),
    **dict.fromkeys(("packets_an_event", "spam", "stretch", "busiest"), float),
}


def _ratio(rows: Rows, column: str, protocol: str = COVERING, **where: float) -> float:
    (exact,) = select(rows, protocol=EXACT, **where)
    (other,) = select(rows, protocol=protocol, **where)
    return float(other[column] / exact[column]) if exact[column] else 1.0


def break_even(rows: Rows, protocol: str, **where: float) -> tuple[float, float]:
    """The events for each change between which a summary is cheaper than none, in bytes."""
    (exact,) = select(rows, protocol=EXACT, **where)
    (other,) = select(rows, protocol=protocol, **where)
    saved = exact["bytes_a_change"] - other["bytes_a_change"]
    wasted = other["bytes_an_event"] - exact["bytes_an_event"]
    if wasted <= 1e-9:
        return (0.0, float("inf")) if saved > 0 else (float("inf"), float("inf"))
    return 0.0, max(0.0, saved / wasted)


def claims(rows: Rows) -> list[Claim]:
    most, localities = values(rows, "subscriptions")[-1], values(rows, "locality")
    wide = {p: _ratio(rows, "held_mean", subscriptions=most, locality=p) for p in localities}
    costs = {
        (size, p): _ratio(rows, "bytes_a_change", subscriptions=size, locality=p)
        for size in values(rows, "subscriptions")
        for p in localities
    }
    same = all(
        _ratio(rows, "packets_an_event", subscriptions=size, locality=p) == 1 for size, p in costs
    )
    worst = max(costs, key=lambda key: costs[key])
    shown = ", ".join(f"{wide[p]:.2f} at locality {p}" for p in localities)
    even = {p: break_even(rows, MERGING, subscriptions=most, locality=p)[1] for p in localities}
    bursts = max(select(rows, protocol=COVERING), key=lambda row: row["burst_most"])
    return [
        Claim(
            "VI-C",
            "covering is precise: no false positives and no false negatives",
            "events take as many packets with covering as without, and all arrive"
            if same
            else "events take other numbers of packets",
            same,
            quotes(rows[0]["source"]).origin,
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
            f"covering: bytes told for a change are {min(costs.values()):.2f} to "
            f"{costs[worst]:.2f} of those without, most with {worst[0]:,} subscriptions and "
            f"locality {worst[1]}",
            any(share > 1 for share in costs.values()),
            "Where a share is below 1, covering wins at any rate of events: what is covered is "
            "not told, and that saves more than uncovering costs. The largest burst is "
            f"{bursts['burst_most']} filters told because one was withdrawn.",
        ),
        Claim(
            "VI-C",
            "imprecise merging pays while events are few compared to changes",
            f"with {most:,} subscriptions it is cheaper than telling all, up to "
            + ", ".join(f"{_count(found)} at locality {p}" for p, found in even.items())
            + " events a change",
            all(found > 0 for found in even.values()),
        ),
    ]


def _count(found: float) -> str:
    return "any number of" if found == float("inf") else f"{found:.1f}"


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (tables, changes, even, load) = panels(2, rows=2)
    sizes = values(rows, "subscriptions")
    most = sizes[-1]
    for number, protocol in enumerate(PROTOCOLS):
        found = select(rows, protocol=protocol, subscriptions=most)
        for axes, column in ((tables, "held_mean"), (load, "busiest")):
            line = sorted((row["locality"], row[column]) for row in found)
            axes.plot(
                *zip(*line, strict=True),
                color=COLOURS[number],
                marker=MARKERS[number],
                label=protocol.partition(":")[0],
            )
    for number, size in enumerate(sizes):
        for protocol, dashes in ((COVERING, "-"), (MERGING, ":")):
            line = [
                (p, _ratio(rows, "bytes_a_change", protocol, subscriptions=size, locality=p))
                for p in values(rows, "locality")
            ]
            changes.plot(
                *zip(*line, strict=True),
                color=COLOURS[number],
                marker=MARKERS[number],
                linestyle=dashes,
                label=f"{protocol.partition(':')[0]}, {size:,}",
            )
        line = [
            (p, min(1_000.0, break_even(rows, MERGING, subscriptions=size, locality=p)[1]))
            for p in values(rows, "locality")
        ]
        even.plot(
            *zip(*line, strict=True),
            color=COLOURS[number],
            marker=MARKERS[number],
            label=f"{size:,} subscriptions",
        )
    changes.axhline(1, color="#555555", linewidth=0.7)
    tables.set_ylabel(f"filters held by a node, {most:,} subscriptions")
    changes.set_ylabel("bytes a change, as a share of exact")
    even.set_ylabel("events a change, up to which merging pays")
    even.set_yscale("symlog")
    load.set_ylabel("share of the busiest node")
    for axes in (tables, changes, even, load):
        axes.set_xlabel("locality")
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="s12-covering",
    parts=("S10", "S12", "S13"),
    title="Covering and merging: smaller tables, and what a change costs",
    question="When does it pay not to tell filters that others cover, or to merge them?",
    paper="The survey describes both and says when they pay; it measures nothing.",
    here="Stock quotes on a network with cycles, over the number of subscriptions and their "
    "locality; subscriptions come and go. Every delivery is checked.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
