"""Schemes side by side, as the paper compares them."""

import pytest

from tidings.matching.workload import ForwardingWorkload
from tidings.overlay.topologies import topology
from tidings.routing.comparison import Measures, compare
from tidings.routing.network import Event, Network
from tidings.routing.schemes import SCHEMES


def compared(text: str, subscriptions: int, events: int, seed: int) -> dict[str, Measures]:
    graph = topology(text, seed)
    workload = ForwardingWorkload(seed=seed)
    held = ((row % graph.nodes, p) for row, p in workload.subscriptions(0, subscriptions))
    published: list[tuple[int, Event]] = [
        (row % graph.nodes, event) for row, event in enumerate(workload.events(0, events))
    ]
    rows = compare(Network.of(graph, held), SCHEMES.values(), published)
    return {row.scheme: row for row in rows}


@pytest.mark.parametrize("text", ["ba:60", "grid:7x7,weights=1-9", "tree:60", "waxman:60"])
def test_schemes_compare_as_the_paper_says(text: str, seed: int) -> None:
    rows = compared(text, 400, 200, seed % 1000)
    assert all(row.correct for row in rows.values())
    detours = {"medym-mesh", *(name for name, scheme in SCHEMES.items() if scheme.detours)}
    assert "medym-mesh" in {name for name, row in rows.items() if not row.latency_minimal}
    assert {name for name, row in rows.items() if not row.latency_minimal} <= detours
    assert len({row.delivered for row in rows.values()}) == 1
    assert rows["psf"].packets == rows["ips"].packets == rows["drp"].packets
    assert rows["psf"].packets <= rows["pif"].packets <= rows["flooding"].packets
    assert rows["psf"].ideal
    assert rows["ips"].state_bits_unreduced <= rows["psf"].state_bits_unreduced
    assert rows["pif"].state_bits_unreduced <= rows["psf"].state_bits_unreduced
    straight = [row for name, row in rows.items() if name not in detours]
    assert all(row.stretch_mean == row.stretch_max == 1 for row in straight)
    if text.startswith("tree"):
        assert rows["pif"].ideal
        assert rows["shared-tree"].ideal
