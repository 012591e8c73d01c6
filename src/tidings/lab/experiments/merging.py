"""The survey, VI-C (S13): filters saved by imprecise merging, and what comes in vain for it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.quotes import Event, Quotes, quotes, source
from tidings.lab.reverse_paths import QuoteNetwork
from tidings.overlay.topologies import topology
from tidings.routing.protocol import SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPE: Final = {  # network, subscriptions, seconds of each phase, hot symbols, localities
    "full": ("tree:20", 300, 60, 20, (0.0, 0.5, 1.0)),
    "quick": ("tree:8", 80, 30, 10, (0.0, 1.0)),
    "tiny": ("line:3", 30, 12, 4, (1.0,)),
}
BUDGETS: Final = (0, 300, 3_000, 10**9)  # bytes a second
FEWEST: Final = 2  # filters that a link is to be told, at most
RATE: Final = 20  # events a second, in the network


def sweep(setting: Setting) -> list[Parameters]:
    text, subscriptions, seconds, hot, localities = SHAPE[setting]
    return [
        {
            "topology": text,
            "budget": budget,
            "subscriptions": subscriptions,
            "locality": locality,
            "seconds": seconds,
            "hot": hot,
            "source": source(),
        }
        for locality in localities
        for budget in BUDGETS
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    """Half of the time any symbol is quoted; then a few of them become hot."""
    graph = topology(parameters["topology"], 1)
    locality = parameters["locality"]
    stock = quotes(parameters["source"])
    chance = Random(f"merging {locality}")
    run = QuoteNetwork(graph, f"merging:most_filters={FEWEST},waste={parameters['budget']}")
    for _ in range(parameters["subscriptions"]):
        node = chance.randrange(graph.nodes)
        run.subscribe(graph.names[node], stock.draw_filter(chance, node, locality))
    run.wait(parameters["seconds"] * SECOND)
    for phase in ("steady", "step"):
        rates: list[int] = []
        dead = 0
        totals = dict.fromkeys(("packets_an_event", "spam", "stretch", "busiest"), 0.0)
        control = run.watch.control_bytes
        for _ in range(parameters["seconds"]):
            before = sum(router.dead_ends for router in run.nodes())
            events = [
                (chance.choice(graph.names), _quote(stock, chance, phase, parameters["hot"]))
                for _ in range(RATE)
            ]
            sent = run.publish(events, SECOND // RATE, rest=0)
            for name in totals:
                totals[name] += sent[name] / parameters["seconds"]
            dead += sum(router.dead_ends for router in run.nodes()) - before
            rates.append(max(mergers.rate for r in run.nodes() for mergers in r.merged.values()))
        told = [len(link.told) for r in run.nodes() for link in r.tables.links.values()]
        yield {
            "phase": phase,
            "told_mean": sum(told) / len(told),
            "told_most": max(told),
            "control": run.watch.control_bytes - control,
            **totals,
            "dead_ends": dead / (RATE * parameters["seconds"]),
            "highest": max(rates),
            "highest_at_last": max(rates[-max(1, len(rates) // 4) :]),
        }


def _quote(stock: Quotes, chance: Random, phase: str, hot: int) -> Event:
    if phase == "step" and chance.random() < 0.7:
        return stock.draw_quote(chance, chance.choice(stock.symbols[-hot:]))
    return stock.draw_quote(chance)


COLUMNS: Final = {
    "phase": str,
    "told_mean": float,
    "told_most": int,
    "control": int,
    **dict.fromkeys(("packets_an_event", "spam", "stretch", "busiest", "dead_ends"), float),
    "highest": int,
    "highest_at_last": int,
}


def claims(rows: Rows) -> list[Claim]:
    local = values(rows, "locality")[-1]
    steady = {
        b: select(rows, budget=b, phase="steady", locality=local)[0] for b in values(rows, "budget")
    }
    none, all_ = min(steady), max(steady)
    within = {
        budget: max(row["highest_at_last"] for row in select(rows, budget=budget))
        for budget in steady
    }
    return [
        Claim(
            "VI-C",
            "merging trades bandwidth for fewer filters",
            f"filters told to a link, mean, at locality {local}: "
            f"{steady[none]['told_mean']:.1f} without a budget, "
            f"{steady[all_]['told_mean']:.1f} with any; packets an event: "
            f"{steady[none]['packets_an_event']:.2f} and {steady[all_]['packets_an_event']:.2f}",
            steady[all_]["told_mean"] < steady[none]["told_mean"]
            and steady[all_]["packets_an_event"] >= steady[none]["packets_an_event"],
            quotes(rows[0]["source"]).origin,
        ),
        Claim(
            "VI-C",
            "the precision of summaries can be changed so that waste stays within a budget",
            "highest waste of a link in the last quarter, bytes a second: "
            + ", ".join(f"{found:,} with {budget:,}" for budget, found in within.items()),
            all(found <= budget for budget, found in within.items()),
            "After a step of the load waste is beyond the budget until mergers are taken apart.",
        ),
        Claim(
            "VI-C",
            "without a budget nothing is merged, and nothing comes in vain",
            f"{steady[none]['dead_ends']:.2f} packets an event in vain",
            steady[none]["dead_ends"] == 0,
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (told, waste) = panels(2)
    places = {budget: place for place, budget in enumerate(values(rows, "budget"))}
    looks = [(p, phase) for p in values(rows, "locality") for phase in ("steady", "step")]
    for number, (locality, phase) in enumerate(looks):
        style: dict[str, Any] = {
            "color": COLOURS[number],
            "marker": MARKERS[number],
            "label": f"{phase}, locality {locality}",
        }
        found = select(rows, phase=phase, locality=locality)
        line = sorted((places[row["budget"]], row["told_mean"]) for row in found)
        told.plot(*zip(*line, strict=True), **style)
        line = sorted((places[row["budget"]], row["dead_ends"]) for row in found)
        waste.plot(*zip(*line, strict=True), **style)
    told.set_ylabel("filters told to a link, mean")
    waste.set_ylabel("packets an event that come in vain")
    for axes in (told, waste):
        axes.set_xlabel("budget, bytes a second")
        axes.set_xticks(list(places.values()), [f"{budget:,}" for budget in places])
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="s13-budget",
    parts=("S13",),
    title="Imprecise merging: filters saved within a budget of waste",
    question="How many filters does a budget save, and does it hold when the load changes?",
    paper="The survey describes summaries whose precision keeps bandwidth within a budget.",
    here="Stock quotes on a tree, links that are to be told two filters, over the locality of "
    "subscriptions; then quotes of a few symbols become frequent. Every delivery is checked.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
