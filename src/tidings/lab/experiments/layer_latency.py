"""Paper L, section 4.1 (L5): the latency of a walk, by the formula and by nodes that take time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

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
    values,
)
from tidings.lab.layer_model import best_hops, latency, scatter_latency, waiting
from tidings.lab.trips import Layer, Trip, travel
from tidings.routing.layers.placement import Regions
from tidings.sim.service import MatchTime, Service

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUBSCRIPTIONS: Final = 100_000
REPLICAS: Final = 3
HOPS: Final = (1, 2, 3, 4, 6, 8, 12)
FEW: Final = (1, 3, 4, 12)
EVENTS: Final = {"full": 20_000, "quick": 1_000, "tiny": 100}
LOADS: Final = {
    "full": (0.0, 0.3, 0.6, 0.8, 0.9),
    "quick": (0.0, 0.3, 0.6, 0.9),
    "tiny": (0.0, 0.6),
}
# Fixed and growing part of matching times in ns, exponent; and the memory, in subscriptions.
MATCHING: Final[dict[str, tuple[float, float, float, int | None]]] = {
    "linear": (1_000.0, 40.0, 1.0, None),
    "engine": (2_000.0, 400.0, 0.7, None),
    "memory": (1_000.0, 40.0, 1.0, 30_000),
}
HOP_NS: Final = {"near": 100_000, "far": 5_000_000}


def sweep(setting: Setting) -> list[Parameters]:
    rows: list[Parameters] = []
    for matching in MATCHING:
        for hops in FEW if setting == "tiny" else HOPS:
            for hop in HOP_NS:
                loads = LOADS[setting] if hop == "near" else (0.0,)
                rows += [
                    {
                        "matching": matching,
                        "hops": hops,
                        "hop": hop,
                        "load": load,
                        "events": EVENTS[setting],
                    }
                    for load in loads
                ]
    return rows


def measure(parameters: Parameters) -> Iterator[Row]:
    hops, hop_ns = parameters["hops"], HOP_NS[parameters["hop"]]
    fixed, growth, exponent, memory = MATCHING[parameters["matching"]]
    match = MatchTime(fixed, growth, exponent, memory)
    nodes = [f"n{number}" for number in range(hops * REPLICAS)]
    # One key for everything: the window is the whole ring, and each of its regions has S / H.
    layer = Layer("latency", nodes, Regions(hops, hops), weight=SUBSCRIPTIONS / 2_000)
    for number in range(2_000):
        layer.put(number, 0)
    cost = {node: match(layer.load(node)) for node in nodes}
    walks = [layer.route(number, [0])[0] for number in range(parameters["events"])]
    layer.checked_law(2_000, len(walks), 2_000, [((0,), len(walks))])
    starts = _starts(parameters, REPLICAS / max(cost.values()))
    walk = [
        Trip(number, start, tuple((node, cost[node]) for node in nodes))
        for number, (start, nodes) in enumerate(zip(starts, walks, strict=True))
    ]
    scatter = [Trip(t.event, t.start_ns, (stop,)) for t in walk for stop in t.stops]
    steps = [cost[layer.placement.members(region)[0]] for region in range(hops)]
    waits = [waiting(parameters["load"] * step / max(steps), step) for step in steps]
    took = {
        name: list(
            travel(sorted(trips, key=lambda t: t.start_ns), hop_ns, Service(_no_cost)).values()
        )
        for name, trips in (("walk", walk), ("scatter", scatter))
    }
    yield {
        "walk_ms": float(np.mean(took["walk"])) / 1e6,
        "walk_p99_ms": float(np.percentile(took["walk"], 99)) / 1e6,
        "scatter_ms": float(np.mean(took["scatter"])) / 1e6,
        "formula_ms": latency(hop_ns, steps) / 1e6,
        "queue_ms": (latency(hop_ns, steps) + sum(waits)) / 1e6,
        "scatter_formula_ms": scatter_latency(hop_ns, steps) / 1e6,
    }


def _no_cost(router: Any, packet: Any) -> int:
    raise AssertionError("trips bring their costs")


def _starts(parameters: Parameters, most: float) -> list[int]:
    """When events begin: one after the other, or as Poisson arrivals at a share of the most."""
    source = generator("l5-latency", identity(parameters))
    if parameters["load"] == 0:
        return [number * 10**12 for number in range(parameters["events"])]
    gaps = source.standard_exponential(parameters["events"]) / (parameters["load"] * most)
    return [int(time) for time in np.cumsum(gaps)]


COLUMNS: Final = dict.fromkeys(
    ("walk_ms", "walk_p99_ms", "scatter_ms", "formula_ms", "queue_ms", "scatter_formula_ms"), float
)


def claims(rows: Rows) -> list[Claim]:
    idle = select(rows, load=0.0)
    off = max(abs(r["walk_ms"] / r["formula_ms"] - 1) for r in idle)
    best = {
        (matching, hop): min(select(idle, matching=matching, hop=hop), key=lambda r: r["walk_ms"])[
            "hops"
        ]
        for matching in MATCHING
        for hop in HOP_NS
    }
    memory = MATCHING["memory"][3]
    assert memory is not None
    advised = best_hops(SUBSCRIPTIONS, memory)
    busy = [r for r in rows if r["load"] >= 0.3]
    queue = [r["walk_ms"] / r["queue_ms"] for r in busy]
    growth = {
        load: np.mean([r["walk_ms"] / r["formula_ms"] for r in select(rows, hop="near", load=load)])
        for load in values(rows, "load")
    }
    linear = {r["hops"]: r["walk_ms"] for r in select(idle, matching="linear", hop="near")}
    spread = [r["walk_ms"] / r["scatter_ms"] for r in idle if r["hops"] == max(HOPS)]
    return [
        Claim(
            "4.1",
            "assuming that all nodes are idle, latency = k1 H + sum of match(store_i)",
            f"nodes that take time are off by at most {off:.1%}, over H = {HOPS[0]} to {HOPS[-1]}",
            off < 0.02,
        ),
        Claim(
            "4.1",
            "to optimize latency, we choose H = floor(sum of subscriptions / M) + 1",
            f"with {SUBSCRIPTIONS:,} subscriptions and room for {memory:,} the formula says "
            f"{advised}; measured, the best H is {best['memory', 'near']} where a hop takes "
            f"{HOP_NS['near'] / 1e6:g} ms, and {best['memory', 'far']} where it takes "
            f"{HOP_NS['far'] / 1e6:g} ms",
            best["memory", "near"] == advised,
            "Past the memory each subscription costs ten times as much here. Where a hop costs "
            "more than that saves, fewer are better; the formula does not know k1.",
        ),
        Claim(
            "4.1",
            "latency directly depends on H, so it is optimised by the proper H",
            f"where memory suffices, H = 1 is best: {best['linear', 'near']} for linear matching, "
            f"{best['engine', 'near']} for gamma = {MATCHING['engine'][2]}; from H = 1 to "
            f"{max(HOPS)}, linear matching takes {linear[1]:.1f} to {linear[max(HOPS)]:.1f} ms",
            best["linear", "near"] == best["engine", "near"] == 1,
            "The sum of the matching times does not shrink as the stores are split, and with "
            "gamma < 1 it grows: hops are worth their time for memory or load only.",
        ),
        Claim(
            "4.1",
            "when the node becomes congested, the service time will increase sharply due to "
            "exploding queue sizes",
            "; ".join(f"busy {load:.0%}: {times:.1f} times the idle latency"
                      for load, times in growth.items())
            + f"; measured / predicted by M/D/1 {min(queue):.2f} to {max(queue):.2f}",
            max(growth.values()) > 1.2 and max(queue) < 1.5,
            "A walk leaves a node at the node's own pace, so arrivals at the next are smoother "
            "than Poisson's and wait less than the formula says.",
        ),
        Claim(
            "not in the paper",
            "asking all H regions at once instead of one after the other",
            f"at H = {max(HOPS)} a walk takes {min(spread):.1f} to {max(spread):.1f} times as long",
            None,
            "The nodes do the same work; only the destinations have to be sent from H nodes.",
        ),
    ]  # fmt: skip


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    for number, matching in enumerate(MATCHING):
        style: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number]}
        found = select(rows, matching=matching, hop="near", load=0.0)
        hops = [r["hops"] for r in found]
        axes[0].plot(hops, [r["walk_ms"] for r in found], **style, label=matching)
        axes[0].plot(hops, [r["formula_ms"] for r in found], color="black", linewidth=0.5)
        axes[0].plot(hops, [r["scatter_ms"] for r in found], **style, linestyle=":")
        loaded = select(rows, matching=matching, hop="near", hops=4)
        loads = [r["load"] for r in loaded]
        axes[1].plot(loads, [r["walk_ms"] for r in loaded], **style, label=matching)
        axes[1].plot(loads, [r["queue_ms"] for r in loaded], color="black", linewidth=0.5)
    axes[0].set_xlabel("hops H (dotted: all at once)")
    axes[1].set_xlabel("share of time that nodes work, H = 4")
    for panel in axes:
        panel.set_yscale("log")
        panel.set_ylabel("latency, ms (thin: formula)")
        panel.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="l5-latency",
    parts=("L5",),
    title="Latency of a walk",
    question="Does the formula give the latency, and which H is best?",
    paper="A formula for idle nodes in section 4.1; no measurement.",
    here="Simulated nodes that take time, one window of H regions with three replicas each and "
    "100,000 subscriptions; three laws of matching time, near and far nodes, rising load.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
