"""Paper L, section 4.1 (L5): how many events a second the nodes carry, by R, H and skew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import (
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    generator,
    identity,
    select,
)
from tidings.lab.layer_model import greatest_rate, imbalance, throughput
from tidings.lab.trips import Layer, Trip, popularity, travel
from tidings.routing.layers.placement import Regions
from tidings.sim.service import MatchTime, Service

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES: Final = {"full": 240, "quick": 48, "tiny": 24}
EVENTS: Final = {"full": 20_000, "quick": 3_000, "tiny": 500}
SUBSCRIPTIONS: Final = 240_000
SAMPLE: Final = 4_000
SHAPES: Final = (  # R, H
    *((1, 1), (1, 2), (1, 4), (1, 8)),
    *((2, 1), (2, 2), (2, 4), (4, 1), (4, 2), (4, 4)),
    *((8, 1), (8, 2), (12, 1), (12, 2)),
)
FEW: Final = ((1, 1), (1, 4), (4, 1))
SKEWS: Final = ("0.0", "1.0", "one")
MATCHING: Final = {"linear": (1_000.0, 40.0, 1.0), "engine": (2_000.0, 400.0, 0.7)}
# `narrow`: the last region of a walk of four hops or more is behind links that take this long.
LINKS: Final = ("free", "narrow")
NARROW_NS: Final = 20_000_000


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {
            "nodes": NODES[setting],
            "events": EVENTS[setting],
            "replicas": replicas,
            "hops": hops,
            "skew": skew,
            "matching": matching,
            "links": links,
        }
        for replicas, hops in (FEW if setting == "tiny" else SHAPES)
        for skew in SKEWS
        for matching in MATCHING
        for links in LINKS
        if links == "free" or (skew == "one" and matching == "linear")
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    nodes = [f"n{number}" for number in range(parameters["nodes"])]
    shape = Regions(len(nodes) // parameters["replicas"], parameters["hops"])
    layer = Layer("throughput", nodes, shape, weight=SUBSCRIPTIONS / SAMPLE)
    source = generator("l5-throughput", identity(parameters))
    order = source.permutation(shape.regions)
    likely = popularity(shape.regions, parameters["skew"], order)
    held: Counter[int] = Counter(source.choice(order, SAMPLE, p=likely[order]).tolist())
    homes = {
        (key, layer.put(number, key)) for key, count in held.items() for number in range(count)
    }
    asked: list[int] = source.choice(order, parameters["events"], p=likely[order]).tolist()
    walks = [layer.route(number, [key])[0] for number, key in enumerate(asked)]
    published = Counter(asked)
    layer.checked_law(
        SAMPLE,
        len(asked),
        max(held[key] for key in published),
        [((home,), published[key]) for key, home in homes],
    )
    match = MatchTime(*MATCHING[parameters["matching"]])
    hottest = max(held, key=held.__getitem__)
    stops = layer.placement.stops(hottest)
    narrow = stops[-1][0] if parameters["links"] == "narrow" and len(stops) >= 4 else ()
    cost = {n: max(match(layer.load(n)), NARROW_NS * (n in narrow)) for n in nodes}
    trips = [Trip(n, 0, tuple((node, cost[node]) for node in walk)) for n, walk in enumerate(walks)]
    service = Service(_no_cost)
    last = max(travel(trips, 0, service).values())
    storage = imbalance([layer.stored[node] for node in nodes])
    routing = imbalance([layer.visited[node] for node in nodes])
    mean = SUBSCRIPTIONS * parameters["replicas"] / len(nodes)
    steps = len(shape.window())
    string = [cost[members[0]] / 1e9 for members, _ in stops]
    yield {
        "rate": parameters["events"] / (last / 1e9),
        "busiest": parameters["events"] / (max(service.busy_ns.values()) / 1e9),
        "formula": greatest_rate(len(nodes), steps, routing, match(mean * storage) / 1e9),
        "string": throughput(string),
        "storage": storage,
        "routing": routing,
    }


def _no_cost(router: Any, packet: Any) -> int:
    raise AssertionError("trips bring their costs")


COLUMNS: Final = dict.fromkeys(
    ("rate", "busiest", "formula", "string", "storage", "routing"), float
)


def claims(rows: Rows) -> list[Claim]:
    free = select(rows, links="free")
    low = [r["formula"] / r["busiest"] for r in free]
    strings = [r["rate"] / (r["string"] * r["replicas"]) for r in free if r["skew"] == "one"]
    more_hops = {
        (skew, matching): _gain(free, skew, matching, (1, 1), (1, 4))
        for skew in SKEWS
        for matching in MATCHING
    }
    more_replicas = {
        (skew, matching): _gain(free, skew, matching, (1, 1), (4, 1))
        for skew in SKEWS
        for matching in MATCHING
    }
    narrow = _gain(select(rows, links="narrow"), "one", "linear", (1, 1), (1, 4))
    return [
        Claim(
            "4.1",
            "the maximum matching throughput of a string of idle nodes is that of the most loaded "
            "node, min 1 / match(store_i)",
            f"with one key, R strings carry {min(strings):.2f} to {max(strings):.2f} times R times "
            "that",
            max(strings) <= 1.01,
            "Replicas are chosen by chance, so one of them is the last to be done.",
        ),
        Claim(
            "4.1",
            "when H increases, assuming I_s = 1, throughput will increase",
            f"from H = 1 to 4 at R = 1: {_listed(more_hops)}",
            min(more_hops.values()) > 1,
            "It holds for the string of nodes of one key. With even keys the other nodes were not "
            "idle: each event now visits four of them, and as many regions share each "
            "subscription as before.",
        ),
        Claim(
            "4.1",
            "bottleneck links and nodes might be included in the string of nodes therefore "
            "producing the opposite effect",
            f"where the last of four nodes is behind a narrow link, H = 1 to 4 gives x{narrow:.2f}",
            narrow < 1,
        ),
        Claim(
            "4.1",
            "increasing R and minimizing I_r benefits both latency and throughput",
            f"from R = 1 to 4 at H = 1: {_listed(more_replicas)}",
            min(more_replicas.values()) > 1,
            "Replicas help the hot key. The nodes are as many as before, so every node stores "
            "more, and where keys are even that is all that changes.",
        ),
        Claim(
            "not in the paper",
            "N / (H I_r match(S R I_s / N)) bounds the rate from below",
            f"it is {min(low):.2f} to {max(low):.2f} times the rate of the busiest node",
            max(low) < 1.05,
            "The node that stores the most need not be the one that is visited the most.",
        ),
    ]


Shape = tuple[int, int]  # R, H


def _gain(rows: Rows, skew: str, matching: str, before: Shape, after: Shape) -> float:
    """By how much the rate changes from one shape to another."""
    first, second = (
        select(rows, skew=skew, matching=matching, replicas=replicas, hops=hops)[0]["rate"]
        for replicas, hops in (before, after)
    )
    return float(second / first)


def _listed(gains: dict[tuple[str, str], float]) -> str:
    names = {"0.0": "even keys", "1.0": "keys by Zipf's law", "one": "one key"}
    return "; ".join(
        f"{names[skew]}, {matching} matching x{gain:.2f}"
        for (skew, matching), gain in gains.items()
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    for panel, (axis, fixed) in zip(
        axes, (("hops", {"replicas": 1}), ("replicas", {"hops": 1})), strict=True
    ):
        for number, skew in enumerate(SKEWS):
            for matching, line in zip(MATCHING, ("-", ":"), strict=True):
                found = select(rows, skew=skew, matching=matching, links="free", **fixed)
                panel.plot(
                    [r[axis] for r in found],
                    [r["rate"] for r in found],
                    color=COLOURS[number],
                    marker=MARKERS[number],
                    linestyle=line,
                    label=f"{'one key' if skew == 'one' else f'skew {skew}'}, {matching}",
                )
        panel.set_xlabel({"hops": "hops H, R = 1", "replicas": "replicas R, H = 1"}[axis])
        panel.set_ylabel("events a second at saturation")
        panel.set_yscale("log")
    axes[0].legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="l5-throughput",
    parts=("L5",),
    title="Throughput at saturation",
    question="How many events a second do N nodes carry, and what do R and H change?",
    paper="A formula for one string of idle nodes in section 4.1, and two pieces of advice; no "
    "measurement.",
    here="A fixed number of simulated nodes that take time, 240,000 subscriptions, and more events "
    "than they can carry: keys even, by Zipf's law, or one; matching linear, or with gamma = 0.7.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
