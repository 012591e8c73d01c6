"""Survey, VI-D (S15): Hermes, a tree per type; does it spread the load?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.overlay.ideal import IdealRing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES: Final = {"full": (10, 100, 1_000, 10_000), "quick": (100, 1_000), "tiny": (30,)}
TYPES: Final = (1, 4, 16, 64, 256)
SKEWS: Final = (0.0, 1.0, 2.0)  # exponents of Zipf's law: types alike, or one far ahead
EVENTS: Final = 2_000
SUBSCRIBERS: Final = 4  # nodes that want each event


def sweep(setting: Setting) -> list[Parameters]:
    return [{"nodes": nodes, "seed": 1} for nodes in NODES[setting]]


def measure(parameters: Parameters) -> Iterator[Row]:
    nodes, seed = parameters["nodes"], parameters["seed"]
    ring = IdealRing(map(str, range(nodes)))
    for types in TYPES:
        above = {kind: Parents(ring, kind) for kind in range(types)}
        for skew in SKEWS:
            chance = Random(f"{seed} {nodes} {types} {skew}")
            weights = [1 / (kind + 1) ** skew for kind in range(types)]
            load: Counter[str] = Counter()
            packets = 0
            for kind in chance.choices(range(types), weights, k=EVENTS):
                source, *wanting = chance.sample(ring.nodes, min(nodes, SUBSCRIBERS + 1))
                steps = {
                    link for target in wanting for link in between(above[kind], source, target)
                }
                packets += len(steps)
                load.update(sender for sender, _ in steps)
            yield {
                "types": types,
                "skew": skew,
                "packets": packets / EVENTS,
                "busiest": max(load.values()) / packets,
            }


COLUMNS: Final = {"types": int, "skew": float, "packets": float, "busiest": float}


class Parents(dict[str, str | None]):
    """The parent of each node in the tree of a type, found when it is asked for."""

    def __init__(self, ring: IdealRing, kind: int) -> None:
        super().__init__()
        self._ring = ring
        self._key = ring.circle.key(f"type {kind}")

    def __missing__(self, name: str) -> str | None:
        found = self[name] = self._ring.hop(name, self._key)
        return found


def between(above: Parents, source: str, target: str) -> Iterator[tuple[str, str]]:
    """The steps from one node to another: up to where their paths to the root meet, and down."""
    up = ancestors(above, source)
    down = ancestors(above, target)
    meeting = next(name for name in up if name in down)
    for name in up[: up.index(meeting)]:
        yield name, above[name] or ""
    for name in down[: down.index(meeting)]:
        yield above[name] or "", name


def ancestors(above: Parents, name: str) -> list[str]:
    """A node and those above it."""
    found = [name]
    while (parent := above[found[-1]]) is not None:
        found.append(parent)
    return found


def claims(rows: Rows) -> list[Claim]:
    largest = values(rows, "nodes")[-1]
    shares = {(row["types"], row["skew"]): row["busiest"] for row in select(rows, nodes=largest)}
    one, many = shares[TYPES[0], 0.0], shares[TYPES[-1], 0.0]
    skewed = shares[TYPES[-1], SKEWS[-1]]
    return [
        Claim(
            "VI-D",
            "trees of disjoint sets of notifications spread the load of the dissemination",
            f"with {largest:,} nodes the busiest sends {one:.0%} of the packets with one type, "
            f"{many:.1%} with {TYPES[-1]}",
            many < one / 4,
        ),
        Claim(
            "VI-D",
            "it does so while types are alike; where one dominates, its tree carries the load",
            f"{skewed:.0%} with {TYPES[-1]} types, of which the k-th has 1/k² of the events",
            skewed > 2 * many,
            "This is a reservation of ours, not a sentence of the survey.",
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (load,) = panels(1)
    largest = values(rows, "nodes")[-1]
    for number, skew in enumerate(SKEWS):
        line = sorted((r["types"], r["busiest"]) for r in select(rows, nodes=largest, skew=skew))
        style: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number]}
        load.plot(*zip(*line, strict=True), label=f"Zipf exponent {skew:g}", **style)
    load.set_xscale("log")
    load.set_xlabel("types")
    load.set_ylabel(f"share of the busiest of {largest:,} nodes")
    load.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="s15-hermes",
    parts=(),
    title="Hermes: how a tree per type spreads the load",
    question="What share of the packets does the busiest node send, by the number of types?",
    paper="The survey names the method and its purpose, and gives no figures.",
    here=f"Trees of types on rings at rest, {EVENTS:,} events that {SUBSCRIBERS} nodes want each; "
    "types alike, or by Zipf's law.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
