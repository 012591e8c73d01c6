"""The theorems of paper U on every small graph, from every source, for every set of receivers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import pytest

from tidings.overlay.graph import Graph
from tidings.overlay.paths import unique_paths
from tidings.routing.delivery import deliver, judge
from tidings.routing.network import Matched, Network
from tidings.routing.schemes import SCHEMES

COMPARED = ("psf", "ips", "pif", "drp")


def connected(nodes: int, most: int) -> Iterator[Graph]:
    """All connected graphs of labelled nodes, links weighing 1 to `most`."""
    pairs = list(combinations(range(nodes), 2))
    for weights in product(range(most + 1), repeat=len(pairs)):  # 0: no link
        links = [(*pair, weight) for pair, weight in zip(pairs, weights, strict=True) if weight]
        graph = Graph(nodes, links)
        if len(graph.components) == 1:
            yield graph


@pytest.mark.parametrize(
    ("nodes", "most"),
    [(2, 3), (3, 3), (4, 2), pytest.param(5, 1, marks=pytest.mark.soak)],
)
def test_the_theorems_hold_on_every_small_graph(nodes: int, most: int) -> None:
    for graph in connected(nodes, most):
        network = Network(graph, ["true"] * nodes)
        unique = unique_paths(graph)
        states = {name: SCHEMES[name].build(network) for name in COMPARED}
        for source, interested in product(range(nodes), range(1, 1 << nodes)):
            sent = {}
            for name in COMPARED:
                event = Matched(interested)
                delivery = deliver(SCHEMES[name], states[name], graph, source, event)
                outcome = judge(network, delivery, interested)
                place = (name, graph.links, source, interested)
                assert outcome.latency_minimal, place
                assert outcome.ideal or name == "pif" or (name == "drp" and not unique), place
                sent[name] = sorted(zip(delivery.senders, delivery.receivers, strict=True))
            assert sent["ips"] == sent["psf"]
            assert set(sent["psf"]) <= set(sent["pif"])
