"""Paper U, section 3.1 (U6): the average distance in large networks, by which PSF's state grows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tidings.lab.experiment import (
    BEYOND,
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
from tidings.lab.intervals import mean_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES: Final = {
    "full": (1_000, 3_162, 10_000, 31_623, 100_000),
    "quick": (1_000, 10_000, 31_623),
    "tiny": (300, 1_000),
}
SEEDS: Final = {"full": 5, "quick": 2, "tiny": 1}
SOURCES: Final = 24  # sampled, in each network
MEAN_DEGREE: Final = 6.0
POWER_LAWS: Final = {"power law 2.1": 2.1, "power law 2.5": 2.5, "power law 2.9": 2.9}
EVEN: Final = "even"  # all links equally likely
GRID: Final = "grid"
NEAR: Final = 0.01
FAMILIES: Final = (*POWER_LAWS, EVEN, GRID)


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"family": family, "nodes": nodes, "seed": seed}
        for nodes in NODES[setting]
        for family in FAMILIES
        for seed in range(1, 1 + (1 if family == GRID else SEEDS[setting]))
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    from scipy.sparse import csr_array  # type: ignore[import-untyped]
    from scipy.sparse.csgraph import (  # type: ignore[import-untyped]
        breadth_first_order,
        connected_components,
        shortest_path,
    )

    source = generator("u6-distances", identity(parameters))
    ends = _links(parameters["family"], parameters["nodes"], source)
    nodes = int(ends.max()) + 1
    both = np.concatenate((ends, ends[:, ::-1]))
    ones = np.ones(len(both), np.int8)
    matrix = csr_array((ones, (both[:, 0], both[:, 1])), shape=(nodes, nodes))
    matrix.data[:] = 1  # links that were drawn twice count once
    labels = connected_components(matrix, directed=False)[1]
    inside = np.flatnonzero(labels == np.bincount(labels).argmax())
    matrix = matrix[inside][:, inside]
    degrees = np.diff(matrix.indptr)
    sources = source.choice(inside.size, min(SOURCES, inside.size), replace=False)
    hops = np.asarray(shortest_path(matrix, method="D", unweighted=True, indices=sources))
    # One tree for all, rooted where most links are: what reverse-path schemes on a tree would use.
    root = int(degrees.argmax())
    order, parents = breadth_first_order(matrix, root, directed=False)
    depth = np.zeros(inside.size, np.int64)
    for node in order[1:].tolist():
        depth[node] = depth[parents[node]] + 1
    shared = np.array([_tree_hops(parents, depth, one, root) for one in sources.tolist()])
    others = hops > 0
    kept = np.sum([_interests(matrix, one) for one in sources.tolist()], axis=0)
    yield {
        "reached": int(inside.size),
        "links": int(degrees.sum()) // 2,
        "degree": int(degrees.max()),
        "distance": float(hops[others].mean()),
        "longest": int(hops.max()),
        "shared_distance": float(shared[others].mean()),
        "shared_stretch": float((shared[others] / hops[others]).mean()),
        "kept": float(kept.sum() / sources.size / inside.size),
        "kept_most": float(kept.max() / sources.size),
    }


COLUMNS: Final = {
    "reached": int,  # nodes of the largest part
    "links": int,
    "degree": int,  # the greatest
    "distance": float,  # the mean from the sampled sources to all
    "longest": int,
    "shared_distance": float,  # the same on one tree
    "shared_stretch": float,
    "kept": float,  # interests that a node keeps with PSF for one source, if all want something
    "kept_most": float,  # the same at the node that keeps most
}


def _interests(matrix: Any, source: int) -> NDArray[np.int64]:
    """By node: the interests that PSF keeps there for a source: all that its children lead to."""
    from scipy.sparse.csgraph import breadth_first_order

    order, parents = breadth_first_order(matrix, source, directed=False)
    below = np.ones(order.size, np.int64)  # nodes in the subtree of each, itself included
    for node in order[:0:-1].tolist():
        below[parents[node]] += below[node]
    return np.asarray(below - 1)


def _links(family: str, nodes: int, source: np.random.Generator) -> NDArray[np.int64]:
    """The links of a random graph of a family, by their ends."""
    if family == GRID:
        side = math.isqrt(nodes)
        number = np.arange(side * side).reshape(side, side)
        across = np.stack((number[:, :-1].ravel(), number[:, 1:].ravel()), axis=1)
        down = np.stack((number[:-1].ravel(), number[1:].ravel()), axis=1)
        return np.concatenate((across, down))
    weights: NDArray[Any] = np.ones(nodes)
    if family in POWER_LAWS:  # the expected degrees of Chung and Lu
        weights = np.arange(1, nodes + 1) ** (-1 / (POWER_LAWS[family] - 1))
        # No degree above the root of the number of links, or pairs would be drawn again and again.
        most = math.sqrt(nodes * MEAN_DEGREE)
        weights = np.minimum(weights * nodes * MEAN_DEGREE / weights.sum(), most)
    bounds = np.cumsum(weights)
    drawn = source.random((round(nodes * MEAN_DEGREE / 2), 2)) * bounds[-1]
    ends = np.searchsorted(bounds, drawn, side="right")
    return np.asarray(ends[ends[:, 0] != ends[:, 1]], np.int64)


def _tree_hops(
    parents: NDArray[Any], depth: NDArray[np.int64], source: int, root: int
) -> NDArray[np.int64]:
    """The distance of every node from one, on the tree."""
    above = {}  # the nodes from the source up to the root, and how far each is
    node, far = source, 0
    while True:
        above[node] = far
        if node == root:
            break
        node, far = int(parents[node]), far + 1
    order = np.argsort(depth, kind="stable")
    hops = np.zeros(depth.size, np.int64)
    for one in order.tolist():
        hops[one] = above[one] if one in above else hops[parents[one]] + 1
    return hops


def _growth(rows: Rows, column: str) -> float:
    """How many times as large a column is in the largest networks as in the smallest."""
    sizes = values(rows, "nodes")
    low, high = (mean(r[column] for r in select(rows, nodes=n)) for n in (sizes[0], sizes[-1]))
    return float(high / low)


def claims(rows: Rows) -> list[Claim]:
    sizes = values(rows, "nodes")
    low, high = sizes[0], sizes[-1]
    doubly = math.log(math.log(high)) / math.log(math.log(low))
    once = math.log(high) / math.log(low)
    found = {family: _growth(select(rows, family=family), "distance") for family in FAMILIES}
    laws = {family: found[family] for family in POWER_LAWS}
    enough = high >= 30 * low
    return [
        Claim(
            "3.1",
            "the average distance is O(log log n) in power-law graphs",
            f"from {low:,} to {high:,} nodes d grows {_listed(laws, rows)}; log log n grows "
            f"{doubly:.2f} times, log n {once:.2f} times",
            all(abs(ratio - doubly) < abs(ratio - once) for ratio in laws.values())
            if enough
            else None,
            "Agrees if each is nearer to log log n than to log n. Graphs have the expected degrees "
            f"of Chung and Lu, {MEAN_DEGREE:.0f} on average; distances are within the largest "
            "part.",
        ),
        Claim(
            "3.1",
            "the average distance depends on the topology, and can be much larger",
            f"d grows {found[EVEN]:.2f} times where all links are equally likely, "
            f"{found[GRID]:.2f} times on grids (the root of n: {math.sqrt(high / low):.2f})",
            found[GRID] > found[EVEN] > min(laws.values()),
        ),
        _state(rows),
        Claim(
            BEYOND,
            "what one tree for all sources costs in distance",
            "mean stretch of a tree rooted at the node with most links, in the largest networks: "
            + ", ".join(
                f"{family} {mean(r['shared_stretch'] for r in same):.2f}"
                for family in FAMILIES
                if (same := select(rows, family=family, nodes=high))
            ),
            None,
            "A source tree has stretch 1. In power-law graphs most paths pass the best-linked "
            "nodes anyway, so one tree is not much longer.",
        ),
    ]


def _listed(found: dict[str, float], rows: Rows) -> str:
    high = values(rows, "nodes")[-1]
    texts = []
    for family, ratio in found.items():
        distances = [r["distance"] for r in select(rows, family=family, nodes=high)]
        texts.append(f"{ratio:.2f} times ({family}: to {mean_of(distances):.2f})")
    return ", ".join(texts)


def _state(rows: Rows) -> Claim:
    """What PSF keeps in large networks, counted on the trees of the sampled sources."""
    high = values(rows, "nodes")[-1]
    largest = {family: select(rows, family=family, nodes=high) for family in FAMILIES}
    texts = [
        f"{family} {mean_of(r['kept'] for r in found):.2f}, at most "
        f"{mean_of(r['kept_most'] for r in found):,.0f} at one node"
        for family, found in largest.items()
    ]
    off = max(abs(r["kept"] / r["distance"] - 1) for r in rows)
    return Claim(
        "3.1",
        "PSF keeps s r d interests in all: d at a node for each source, if all receive",
        f"interests that a node keeps for one source, in networks of {high:,} nodes: "
        f"{'; '.join(texts)}. It is d within {off:.1%} in every network",
        off <= NEAR,
        f"Agrees within {NEAR:.0%}. The mean hides where they lie: a well-linked node keeps "
        "thousands of times as many. With s sources PSF keeps s times this. PIF and DRP keep one "
        "interest of each receiver at a node, however many send (u6-memory measures them).",
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (distance, stretch) = panels(2)
    for number, family in enumerate(FAMILIES):
        found = select(rows, family=family)
        sizes = values(found, "nodes")
        style: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number % len(MARKERS)]}
        for axes, column in ((distance, "distance"), (stretch, "shared_stretch")):
            line = [mean(r[column] for r in select(found, nodes=n)) for n in sizes]
            axes.plot(sizes, line, label=family, **style)
    sizes = values(rows, "nodes")
    first = mean(r["distance"] for r in select(rows, family="power law 2.5", nodes=sizes[0]))
    for label, grows in (("log log n", lambda n: math.log(math.log(n))), ("log n", math.log)):
        line = [first * grows(n) / grows(sizes[0]) for n in sizes]
        distance.plot(sizes, line, color="#888888", linewidth=0.8,
                      linestyle="--" if label == "log n" else ":", label=label)  # fmt: skip
    distance.set_yscale("log")
    distance.set_ylabel("average distance d, links")
    stretch.set_ylabel("stretch of one tree for all")
    for axes in (distance, stretch):
        axes.set_xscale("log")
        axes.set_xlabel("nodes")
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="u6-distances",
    parts=("U6",),
    title="Distance and state in large networks",
    question="PSF's state grows with the average distance d: how large are both in networks of a "
    "thousand to a hundred thousand nodes?",
    paper="Cites Chung and Lu: d is O(log log n) in most power-law random graphs; gives PSF's "
    "state as a formula.",
    here=f"Random graphs with the expected degrees of Chung and Lu for three exponents, graphs "
    f"whose links are all equally likely, and grids; distances and PSF's state from {SOURCES} "
    "sampled sources. Each network is a Spark task.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
