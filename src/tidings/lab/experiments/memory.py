"""Paper U, section 3 (U6): the state that schemes need, measured and by the formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.matching.workload import ForwardingWorkload
from tidings.overlay.topologies import topology
from tidings.routing.comparison import compare
from tidings.routing.network import Network
from tidings.routing.schemes import SCHEMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILIES: Final = ("tree", "star", "ring", "grid", "waxman", "ba")
NODES: Final = {"full": (16, 36, 64, 100, 144, 196), "quick": (16, 36, 64), "tiny": (9, 16)}
SEEDS: Final = {"full": 3, "quick": 1, "tiny": 1}
SUBSCRIPTIONS: Final = 10  # a node
COMPARED: Final = ("psf", "ips", "pif", "drp")


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"family": family, "nodes": nodes, "seed": seed}
        for nodes in NODES[setting]
        for family in FAMILIES
        for seed in range(1, 1 + SEEDS[setting])
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    family, nodes, seed = parameters["family"], parameters["nodes"], parameters["seed"]
    side = math.isqrt(nodes)
    graph = topology(f"grid:{side}x{side}" if family == "grid" else f"{family}:{nodes}", seed)
    held = ForwardingWorkload(seed=seed).subscriptions(0, SUBSCRIPTIONS * graph.nodes)
    network = Network.of(graph, ((row % graph.nodes, predicate) for row, predicate in held))
    for found in compare(network, [SCHEMES[name] for name in COMPARED], ()):
        yield {
            "scheme": found.scheme,
            "bits": found.state_bits,
            "bits_unreduced": found.state_bits_unreduced,
            "formula": found.formula_bits,
            "formula_unreduced": found.formula_bits_unreduced,
            "advantage": found.advantage,
        }


COLUMNS: Final = {
    "scheme": str,
    "bits": int,
    "bits_unreduced": int,
    "formula": int,
    "formula_unreduced": int,
    "advantage": float,
}


def mean(rows: Rows, column: str) -> float:
    """The geometric mean, because sizes differ by orders of magnitude."""
    return math.exp(sum(math.log(max(r[column], 1)) for r in rows) / len(rows))


def growth(rows: Rows, column: str) -> float:
    """The exponent by which a column grows with the number of nodes, in the larger networks."""
    sizes = values(rows, "nodes")
    low, high = sizes[len(sizes) // 2 - (len(sizes) <= 2)], sizes[-1]
    ends = [mean(select(rows, nodes=size), column) for size in (low, high)]
    return math.log(ends[1] / ends[0]) / math.log(high / low)


def claims(rows: Rows) -> list[Claim]:
    return [_formulas(rows), _growth(rows), _ips(rows), _ips_on_trees(rows), _advantage(rows)]


def _formulas(rows: Rows) -> Claim:
    ratios = {
        scheme: [r["bits"] / r["formula"] for r in select(rows, scheme=scheme) if r["formula"]]
        for scheme in COMPARED
    }
    texts = [f"{name} {min(found):.2f} to {max(found):.2f}" for name, found in ratios.items()]
    return Claim(
        "3.1 to 3.4",
        "the totals M(PSF), M(iPS) on trees, M(PIF), M(DRP)",
        "measured bits over the formula's, with the measured advantage: " + "; ".join(texts),
        all(0.2 <= ratio <= 2 for found in ratios.values() for ratio in found),
        "The total for PIF has a factor n that its terms do not have; it is left out here. Where "
        "the measured bits are far below the formula's, as on stars, the formula takes the "
        "greatest degree for every node.",
    )


def _growth(rows: Rows) -> Claim:
    texts, apart = [], []
    for scheme in ("psf", "pif", "drp"):
        pairs = [
            (growth(found, "bits_unreduced"), growth(found, "formula_unreduced"))
            for family in FAMILIES
            if (found := select(rows, scheme=scheme, family=family))
        ]
        apart.append(max(abs(one - other) for one, other in pairs))
        texts.append(
            f"{scheme} {min(p[0] for p in pairs):.2f} to {max(p[0] for p in pairs):.2f}"
            f" (formula {min(p[1] for p in pairs):.2f} to {max(p[1] for p in pairs):.2f})"
        )
    return Claim(
        "3.1 to 3.4",
        "how state grows with the network: PSF as s r d, PIF as n r, DRP as n r",
        "exponent of the number of nodes, without reduction: " + "; ".join(texts),
        max(apart) <= 0.3,
        "The exponents differ where most nodes have less than the greatest degree.",
    )


def _ips(rows: Rows) -> Claim:
    shares: dict[str, list[float]] = {}
    for row in select(rows, scheme="ips"):
        place = {name: row[name] for name in ("family", "nodes", "seed")}
        (psf,) = select(rows, scheme="psf", **place)
        shares.setdefault(row["family"], []).append(row["bits"] / psf["bits"])
    return Claim(
        "3.2",
        "indistinguishable sources matter in practice: iPS needs less state than PSF",
        "iPS's bits as a share of PSF's: "
        + ", ".join(f"{f} {mean_of(s):.0%}" for f, s in shares.items()),
        all(mean_of(found) < 1 for found in shares.values()),
        "Where all sources are distinguishable, iPS needs more: its map from sources to "
        "representatives.",
    )


def _ips_on_trees(rows: Rows) -> Claim:
    trees = [r for r in select(rows, scheme="ips") if r["family"] in ("tree", "star")]
    ratios = [r["bits"] / r["formula"] for r in trees if r["formula"]]
    return Claim(
        "3.2",
        "on a tree iPS needs O(n r M_p alpha)",
        f"measured bits over the formula's: {min(ratios):.2f} to {max(ratios):.2f} over all sizes",
        max(ratios) <= 1.2,
    )


def _advantage(rows: Rows) -> Claim:
    sizes = values(rows, "nodes")

    def alpha(scheme: str, nodes: int) -> float:
        return mean_of([r["advantage"] for r in select(rows, scheme=scheme, nodes=nodes)])

    texts = [
        f"{scheme} {alpha(scheme, sizes[0]):.2f} to {alpha(scheme, sizes[-1]):.2f}"
        for scheme in COMPARED
    ]
    return Claim(
        "3.1, 4",
        "adding predicates to a disjunction costs less than linearly",
        f"advantage from {sizes[0]} to {sizes[-1]} nodes: " + "; ".join(texts),
        all(alpha(s, sizes[-1]) < alpha(s, sizes[0]) for s in ("psf", "ips", "pif")),
        "DRP joins nothing, so it has no advantage.",
    )


def mean_of(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(3, rows=2, share_y=True)
    for one, family in zip(axes, FAMILIES, strict=True):
        for number, scheme in enumerate(COMPARED):
            found = select(rows, scheme=scheme, family=family)
            style: dict[str, Any] = {"color": COLOURS[number]}
            for column, more in (
                ("bits", {"marker": MARKERS[number], "label": scheme}),
                ("bits_unreduced", {"linestyle": ":", "linewidth": 0.9}),
                ("formula", {"linestyle": "--", "linewidth": 0.9}),
            ):
                line = [
                    (nodes, mean(same, column))
                    for nodes in values(found, "nodes")
                    if (same := [r for r in select(found, nodes=nodes) if r[column]])
                ]
                if line:
                    one.plot(*zip(*line, strict=True), **style, **more)
        one.set_title(family)
        one.set_xscale("log")
        one.set_yscale("log")
        one.set_xticks(values(rows, "nodes"), map(str, values(rows, "nodes")))
        one.minorticks_off()
        one.set_xlabel("nodes")
        one.set_ylabel("state of all nodes, bits")
    axes[0].legend(title="dotted: unreduced\ndashed: formula", title_fontsize=7)
    return figure


EXPERIMENT: Final = Experiment(
    name="u6-memory",
    parts=("U6",),
    title="The memory of PSF, iPS, PIF and DRP",
    question="How much state do the schemes need, how does it grow, and do the formulas agree?",
    paper="Formulas in section 3, no measurement.",
    here="Six families of networks, with ten subscriptions a node from the generator of paper F. "
    "Bits are counted as docs/routing.md says, with and without the advantage of reduction.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
