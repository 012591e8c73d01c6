"""Paper U, section 2.3 (U1, U2, U5): how far deliveries are from the smallest tree there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

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
from tidings.lab.zoo import DISTANCE, HOPS, graph_of, origin_of, sample
from tidings.overlay.graph import Graph
from tidings.overlay.paths import tree
from tidings.overlay.smallest import next_hops, smallest_tree, thrifty_tree
from tidings.routing.delivery import deliver, judge
from tidings.routing.network import Matched, Network, nodes_of
from tidings.routing.network import Row as Links
from tidings.routing.schemes import SCHEMES
from tidings.routing.source_trees import drp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOPOLOGIES: Final = {"full": 1_000, "quick": 30, "tiny": 6}  # at most
EVENTS: Final = {"full": 20, "quick": 10, "tiny": 10}  # of each number of receivers
RECEIVERS: Final = (2, 3, 4, 5, 6)
MAX_NODES: Final = 200  # trees of all nodes are built for each network


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"topology": text, "weights": weights, "events": EVENTS[setting]}
        for text in sample(TOPOLOGIES[setting], (1, MAX_NODES))
        for weights in (DISTANCE, HOPS)
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    graph = graph_of(parameters["topology"], parameters["weights"])
    if graph.nodes > MAX_NODES:
        return
    source = generator("u1-ideal", identity(parameters))
    network = Network(graph, ["true"] * graph.nodes)
    psf, free = SCHEMES["psf"], SCHEMES["drp"]
    rows = psf.build(network)
    tables = drp.build(network, _unicast(graph, source))
    for count in RECEIVERS:
        totals: Counter[str] = Counter()
        for _ in range(parameters["events"]):
            node = int(source.integers(graph.nodes))
            reached = tree(graph, node).order[1:]
            if len(reached) < count:
                continue
            chosen = sorted(source.choice(reached, count, replace=False).tolist())
            event = Matched(nodes_of(chosen))
            sent = judge(network, deliver(psf, rows, graph, node, event), event.interested)
            free_sent = judge(network, deliver(free, tables, graph, node, event), event.interested)
            fewest = smallest_tree(graph, node, chosen)
            totals["asked"] += 1
            totals["tied"] += _tied(graph, node, chosen)
            totals["psf_needless"] += not sent.ideal
            if sent.packets > fewest:
                totals["psf_larger"] += 1
                totals["larger_psf"] += sent.packets
                totals["larger_smallest"] += fewest
            totals["drp_needless"] += not free_sent.ideal
            totals["drp_late"] += not free_sent.latency_minimal
            totals["psf"] += sent.packets
            totals["thrifty"] += thrifty_tree(graph, node, chosen)
            totals["drp"] += free_sent.packets
            totals["smallest"] += fewest
        yield {"nodes": graph.nodes, "receivers": count, **{name: totals[name] for name in COUNTS}}


COUNTS: Final = (
    "asked", "tied", "psf_needless", "psf_larger", "drp_needless", "drp_late",
    "psf", "thrifty", "drp", "smallest", "larger_psf", "larger_smallest",
)  # fmt: skip
COLUMNS: Final = {"nodes": int, "receivers": int, **dict.fromkeys(COUNTS, int)}


def _unicast(graph: Graph, source: np.random.Generator) -> list[Links]:
    """Unicast tables as the paper leaves them: at every node, any shortest path may be chosen."""
    tables = []
    for node in range(graph.nodes):
        order, onward = next_hops(graph, node)
        firsts: dict[int, set[int]] = {node: set()}  # by which neighbours a node can be reached
        for one in order:
            for other in onward[one]:
                firsts.setdefault(other, set()).update(firsts[one] or {other})
        chosen: dict[int, list[int]] = {}
        for other in order[1:]:
            link = int(source.choice(sorted(firsts[other])))
            chosen.setdefault(link, []).append(other)
        tables.append(tuple((link, nodes_of(nodes)) for link, nodes in sorted(chosen.items())))
    return tables


def _tied(graph: Graph, source: int, receivers: list[int]) -> bool:
    """Whether more than one shortest path leads to one of the receivers."""
    order, onward = next_hops(graph, source)
    paths = {source: 1}
    for node in order:
        for other in onward[node]:
            paths[other] = paths.get(other, 0) + paths[node]
    return any(paths[node] > 1 for node in receivers)


def claims(rows: Rows) -> list[Claim]:
    asked = sum(r["asked"] for r in rows)
    needless = sum(r["psf_needless"] for r in rows)
    alone = [r for r in rows if not r["tied"]]
    return [
        Claim(
            "3.1",
            "PSF is ideal: every packet is needed",
            f"a packet can be left out in {needless} of {asked:,} deliveries. {origin_of(rows)}",
            needless == 0,
        ),
        Claim(
            "2.3, 3.1",
            "PSF is ideal: it sends the smallest of all latency-minimal trees",
            "; ".join(_distance(rows, weights) for weights in values(rows, "weights")),
            not any(r["psf_larger"] for r in rows),
            "By the paper's own definition it does not hold where several shortest paths lead to a "
            "receiver: PSF follows one rule for ties and does not look for paths that receivers "
            "can share. "
            + (
                f"Where no receiver has a tie ({sum(r['asked'] for r in alone):,} deliveries) PSF "
                f"sent more than the smallest tree {sum(r['psf_larger'] for r in alone)} times."
            ),
        ),
        Claim(
            "3.4",
            "DRP is ideal only if shortest paths are unique",
            "with unicast tables that break ties freely a packet can be left out on "
            + "; ".join(_free(rows, weights) for weights in values(rows, "weights")),
            any(r["drp_needless"] for r in rows)
            if any(r["tied"] for r in rows) and asked >= 1_000
            else None,
            f"{sum(r['drp_late'] for r in rows)} deliveries took longer than a shortest path. "
            "Where all unicast tables break ties by one rule, as in u1-schemes, DRP sends what "
            "PSF sends.",
        ),
        Claim(
            BEYOND,
            "how much of the gap a simple heuristic closes",
            _gap(rows),
            None,
            "Receivers join the tree one after another, the nearest first, each by the fewest new "
            "links on shortest paths.",
        ),
    ]


def _networks(rows: Rows, column: str) -> int:
    return len({r["topology"] for r in rows if r[column]})


def _distance(rows: Rows, weights: str) -> str:
    found = select(rows, weights=weights)
    tied = [r for r in found if r["tied"]]
    larger = sum(r["larger_smallest"] for r in found)
    more = sum(r["larger_psf"] for r in found) / max(1, larger) - 1
    return (
        f"by {weights}, ties on {_networks(tied, 'tied')} of {_networks(found, 'asked')} networks: "
        f"not the smallest on {_networks(found, 'psf_larger')} of them, in "
        f"{sum(r['psf_larger'] for r in found):,} of {sum(r['tied'] for r in found):,} deliveries "
        f"with ties" + (f", {more:.0%} more packets where it happens" if larger else "")
    )


def _free(rows: Rows, weights: str) -> str:
    found = select(rows, weights=weights)
    return (
        f"{_networks(found, 'drp_needless')} of {_networks(found, 'tied')} networks with ties "
        f"by {weights}"
    )


def _gap(rows: Rows) -> str:
    tied = [r for r in rows if r["tied"]]
    smallest = sum(r["smallest"] for r in tied)
    if not smallest:
        return "no delivery met a tie"
    shares = {name: sum(r[name] for r in tied) / smallest - 1 for name in ("psf", "drp", "thrifty")}
    return (
        "packets above the smallest tree, over the rows that meet ties: "
        f"PSF {shares['psf']:.1%}, DRP with free ties {shares['drp']:.1%}, "
        f"the heuristic {shares['thrifty']:.1%}"
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(len(values(rows, "weights")), share_y=True)
    names = {"psf": "PSF", "drp": "DRP, ties broken freely", "thrifty": "heuristic"}
    for one, weights in zip(axes, values(rows, "weights"), strict=True):
        found = [r for r in select(rows, weights=weights) if r["tied"]]
        for number, (name, label) in enumerate(names.items()):
            line = []
            for count in values(found, "receivers"):
                same = select(found, receivers=count)
                smallest = sum(r["smallest"] for r in same)
                line.append((count, 100 * (sum(r[name] for r in same) / smallest - 1)))
            if line:
                one.plot(*zip(*line, strict=True), color=COLOURS[number], marker=MARKERS[number],
                         label=label)  # fmt: skip
        one.axhline(0, color="#888888", linewidth=0.8)
        one.set_title(f"weights: {weights}")
        one.set_xlabel("receivers of an event")
        one.set_xticks(RECEIVERS)
        one.set_ylabel("packets above the smallest tree, %")
        one.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="u1-ideal",
    parts=("U1", "U2", "U5"),
    title="How far deliveries are from the smallest tree",
    question="Where several shortest paths lead to a receiver, do schemes send the smallest tree?",
    paper="Defines the ideal delivery as the smallest of the latency-minimal ones, and proves PSF "
    "ideal, and DRP if and only if shortest paths are unique.",
    here=f"Every network of the Topology Zoo of at most {MAX_NODES} nodes, links weighed by "
    "distance and by hops, events of 2 to 6 receivers at random places. The smallest tree is found "
    "exactly, over all shortest paths. DRP runs with unicast tables that choose any shortest path "
    "at each node, as the paper leaves them.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
