"""Paper F, section 5.4 (F8): one router with a million filters, or a network of routers."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select
from tidings.lab.routers import COUNTING, OURS, ROUNDS, TIMES, decided, router, times
from tidings.lab.zoo import graph_of, networks, sample
from tidings.overlay.graph import Graph
from tidings.overlay.paths import trees

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILTERS: Final = {"full": 1_000_000, "quick": 50_000, "tiny": 1_000}
TOPOLOGIES: Final = {"full": 1_000, "quick": 40, "tiny": 3}  # at most
AT_ONCE: Final = 50  # topologies of a task
INTERFACES: Final = 20
DESTINATIONS: Final = 1_000_000
PAPER_HOPS: Final = 12
PAPER_GAIN: Final = 350 / 40
MATCHERS: Final = ((COUNTING, ROUNDS, "counting, r = 10"), (OURS, 0, "ours"))


def sweep(setting: Setting) -> list[Parameters]:
    filters = FILTERS[setting]
    routers: list[Parameters] = [
        {"filters": filters, "interfaces": interfaces, "seed": 1}
        for interfaces in (filters, INTERFACES)
    ]
    chosen = sample(TOPOLOGIES[setting])
    parts = [chosen[at : at + AT_ONCE] for at in range(0, len(chosen), AT_ONCE)]
    return [*routers, *({"topologies": part} for part in parts)]


def measure(parameters: Parameters) -> Iterator[Row]:
    if "filters" in parameters:
        made = router(parameters["filters"], parameters["interfaces"], parameters["seed"])
        yield from times(made, rounds=(ROUNDS,))
        return
    for text in parameters["topologies"]:
        graph = graph_of(text)
        counts = list(_routers(graph))
        yield {
            "topology": text,
            "nodes": graph.nodes,
            "routers_mean": statistics.mean(counts or [1]),
            "routers_max": max(counts, default=1),
        }


def _routers(graph: Graph) -> Iterator[int]:
    """For each two nodes in reach of each other, the routers on the path, both ends included."""
    for tree in trees(graph):
        passed = {tree.source: 1}
        for node in tree.order[1:]:
            passed[node] = passed[tree.parent[node]] + 1
            yield passed[node]


COLUMNS: Final = TIMES | {
    "topology": str,
    "nodes": int,
    "routers_mean": float,
    "routers_max": int,
}


def tree_hops(interfaces: int, destinations: int) -> int:
    """The routers on the longest path through a tree of routers with this many destinations."""
    depth, reached = 1, interfaces
    while reached < destinations:
        depth, reached = depth + 1, reached * (interfaces - 1)
    return 2 * depth - 1


def milliseconds(rows: Rows, matcher: str, rounds: int) -> tuple[float, float]:
    """The time per message at the one router, and at a router of the network."""
    timed = select(rows, matcher=matcher, rounds=rounds)
    many = next(r["us"] for r in timed if r["interfaces"] == r["filters"])
    few = next(r["us"] for r in timed if r["interfaces"] == INTERFACES)
    return many / 1e3, few / 1e3


def claims(rows: Rows) -> list[Claim]:
    hops = tree_hops(INTERFACES, DESTINATIONS)
    one, step = milliseconds(rows, COUNTING, ROUNDS)
    ours_one, ours_step = milliseconds(rows, OURS, 0)
    measured = [r for r in rows if r.get("routers_max")]
    shorter = sum(r["routers_max"] * step < one for r in measured)
    filters = max(r["filters"] for r in rows if r.get("filters"))
    return [
        Claim(
            "5.4",
            "with routers of 20 interfaces a million destinations are at most 12 hops apart",
            f"the longest path through a tree of such routers passes {hops} of them",
            hops <= PAPER_HOPS,
        ),
        Claim(
            "5.4",
            "one router takes 350 ms, the network at worst 40 ms in all: nearly nine times less",
            f"with {filters:,} filters, counting: {one:.3g} ms against {PAPER_HOPS} x {step:.3g} = "
            f"{PAPER_HOPS * step:.3g} ms, {one / (PAPER_HOPS * step):.1f} times less; ours: "
            f"{ours_one:.3g} ms against {PAPER_HOPS * ours_step:.3g} ms",
            decided(rows, one / (PAPER_HOPS * step) >= PAPER_GAIN / 2),
            "Like the paper, this assumes the worst case: every router of the network holds all "
            "filters, and a message needs 12 times the time of one router. In the paper a router "
            "with few interfaces was a hundred times as fast as the large one. Here it is about "
            "ten times as fast, because compiled counting over flat arrays has sped up the large "
            "router most. The times of the large router vary by half with the load of the machine "
            "(compare f8-figure8), which does not change this.",
        ),
        Claim(
            "5.4, on real networks",
            "a network of routers outperforms a single one under the same load",
            f"on the longest path, in {shorter} of {len(measured)} networks (counting, "
            f"{filters:,} filters). {networks().origin}",
            decided(rows, shorter >= 0.9 * len(measured)),
            "Forwarding time only: as in the paper, both leave out the delay of links. Where the "
            "network is slower, its longest path passes very many routers.",
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    measured = [r for r in rows if r.get("routers_max")]
    for one, (matcher, rounds, title) in zip(axes, MATCHERS, strict=True):
        alone, step = milliseconds(rows, matcher, rounds)
        for number, (column, label) in enumerate(
            (("routers_max", "network, longest path"), ("routers_mean", "network, mean path"))
        ):
            one.scatter([r["nodes"] for r in measured], [r[column] * step for r in measured], s=9,
                        color=COLOURS[number], marker=MARKERS[number], label=label)  # fmt: skip
        one.axhline(alone, color=COLOURS[2], label="one router with all filters")
        one.axhline(
            PAPER_HOPS * step, color=COLOURS[6], linestyle=":", label="12 hops, the paper's"
        )
        one.set_xscale("log")
        one.set_yscale("log")
        one.set_xlabel("routers in the network")
        one.set_ylabel("end-to-end forwarding time, ms")
        one.set_title(title)
        one.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="f8-network",
    parts=("F8",),
    title="Section 5.4: one large router, or a network of small ones",
    question="Does a network of routers forward a message faster than one router that holds all "
    "filters?",
    paper="A million filters, each of another destination: the time of one router (Fig. 8) against "
    "12 times the time of a router with 20 interfaces (Fig. 9).",
    here="Both times are measured. The time of a small router is then multiplied by the number of "
    "routers on every shortest path through real networks.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
)
