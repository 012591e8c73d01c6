"""The survey, VI-B (S11): how much smaller advertisements make the tables of subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.quotes import quotes, source
from tidings.lab.reverse_paths import QuoteNetwork
from tidings.overlay.topologies import topology
from tidings.routing.protocol import SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPE: Final = {  # network, subscriptions, publishers, events, localities
    "full": ("ba:40", 600, (1, 4, 40), 200, (0.0, 0.5, 1.0)),
    "quick": ("ba:12", 120, (1, 2, 12), 40, (0.0, 1.0)),
    "tiny": ("tree:7", 24, (1, 7), 10, (0.0,)),
}
SERVED: Final = (0.05, 0.5, 1.0)  # the share of symbols that someone publishes
WITH: Final = "advertisements:values=single,unadvertised=refuse"
PROTOCOLS: Final = ("covering", WITH)


def sweep(setting: Setting) -> list[Parameters]:
    text, subscriptions, publishers, events, localities = SHAPE[setting]
    return [
        {
            "topology": text,
            "protocol": protocol,
            "subscriptions": subscriptions,
            "publishers": count,
            "served": served,
            "locality": locality,
            "events": events,
            "source": source(),
        }
        for locality in localities
        for count in publishers
        for served in SERVED
        for protocol in PROTOCOLS
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    graph = topology(parameters["topology"], 1)
    locality = parameters["locality"]
    stock = quotes(parameters["source"])
    chance = Random(f"advertisements {parameters['publishers']} {parameters['served']} {locality}")
    run = QuoteNetwork(graph, parameters["protocol"])
    symbols = stock.symbols[: max(1, round(len(stock.symbols) * parameters["served"]))]
    publishers = chance.sample(graph.names, parameters["publishers"])
    of = {symbol: publishers[place % len(publishers)] for place, symbol in enumerate(symbols)}
    for node in publishers:
        mine = [repr(symbol) for symbol, name in of.items() if name == node]
        if mine:
            run.advertise(node, f"v{node}", f"class = 'STOCK' and symbol in ({', '.join(mine)})")
    run.wait(3 * SECOND)
    before = run.watch.control_bytes
    for _ in range(parameters["subscriptions"]):
        place = chance.randrange(graph.nodes)
        run.subscribe(graph.names[place], stock.draw_filter(chance, place, locality))
    run.wait(3 * SECOND)
    control = run.watch.control_bytes - before
    tables = run.tables()
    chosen = [chance.choice(symbols) for _ in range(parameters["events"])]
    found = run.publish([(of[symbol], stock.draw_quote(chance, symbol)) for symbol in chosen])
    yield {
        **tables,
        "bytes_a_subscription": control / parameters["subscriptions"],
        **{name: found[name] for name in ("packets_an_event", "spam", "stretch", "busiest")},
    }


COLUMNS: Final = {
    "held_mean": float,
    "held_most": float,
    "bytes_a_subscription": float,
    **dict.fromkeys(("packets_an_event", "spam", "stretch", "busiest"), float),
}


def _share(rows: Rows, publishers: int, served: float, locality: float = 0.0) -> float:
    where = {"publishers": publishers, "served": served, "locality": locality}
    (without,) = select(rows, protocol="covering", **where)
    (with_,) = select(rows, protocol=WITH, **where)
    return float(with_["held_mean"] / without["held_mean"])


def claims(rows: Rows) -> list[Claim]:
    few, many = values(rows, "publishers")[0], values(rows, "publishers")[-1]
    shares = {served: _share(rows, many, served) for served in SERVED}
    lone = {served: _share(rows, few, served) for served in SERVED}
    shown = ", ".join(
        f"{share:.2f} where {served:.0%} are served" for served, share in shares.items()
    )
    one = ", ".join(f"{share:.2f} where {p:.0%} are served" for p, share in lone.items())
    return [
        Claim(
            "VI-B",
            "advertisements make the tables of subscriptions smaller",
            f"filters held, as a share of those without, if every node publishes: {shown}",
            shares[SERVED[0]] < 1,
            quotes(rows[0]["source"]).origin,
        ),
        Claim(
            "VI-B",
            "they are justified only if many subscriptions are served by no publisher",
            f"with {few} publisher: {one}",
            lone[SERVED[-1]] > 0.95,
            "With few publishers they save much even if all subscriptions are served: filters go "
            "towards the publishers only, and not everywhere.",
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (shares, control) = panels(2)
    counts, localities = values(rows, "publishers"), values(rows, "locality")
    looks = [
        (count, p) for count in (counts[0], counts[-1]) for p in (localities[0], localities[-1])
    ]
    for number, (publishers, locality) in enumerate(dict.fromkeys(looks)):
        style: dict[str, Any] = {
            "color": COLOURS[number],
            "marker": MARKERS[number],
            "label": f"{publishers} publishers, locality {locality}",
        }
        line = [(100 * part, _share(rows, publishers, part, locality)) for part in SERVED]
        shares.plot(*zip(*line, strict=True), **style)
        found = select(rows, protocol=WITH, publishers=publishers, locality=locality)
        told = sorted((100 * row["served"], row["bytes_a_subscription"]) for row in found)
        control.plot(*zip(*told, strict=True), **style)
    shares.set_ylabel("filters held, as a share of those without")
    control.set_ylabel("bytes told for a subscription")
    for axes in (shares, control):
        axes.set_xlabel("symbols that someone publishes, %")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="s11-advertisements",
    parts=("S11",),
    title="Advertisements: filters only where something is published",
    question="When do advertisements pay?",
    paper="The survey says that their only use is smaller tables; it measures nothing.",
    here="Stock quotes on a network with cycles; some symbols are published by nobody; one "
    "publisher, some, or every node. Attributes have one value. Every delivery is checked.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
