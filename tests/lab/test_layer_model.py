"""The formulas of paper L: their extremes, and the law against every placement there is."""

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.lab.layer_model import (
    Law,
    LawBroken,
    assert_law,
    best_hops,
    greatest_rate,
    hot_key_imbalance,
    imbalance,
    latency,
    law,
    scatter_latency,
    stores,
    throughput,
    utilisation,
    visits,
    waiting,
)
from tidings.routing.layers.placement import Placement, Regions

SHAPES = st.builds(Regions, regions=st.integers(1, 12), hops=st.integers(1, 6), widths=st.just({}))
LOADS = st.floats(0, 1e6)


@st.composite
def any_scheme(draw: st.DrawFn) -> dict[str, Any]:
    """Any way to store and to visit at which every match is met: the law knows no scheme."""
    nodes = draw(st.integers(1, 8))
    places = st.frozensets(st.integers(0, nodes - 1), min_size=1)
    held = draw(st.lists(places, min_size=1, max_size=10))
    events = draw(st.integers(1, 10))
    stored, visited = [0] * nodes, [0] * nodes
    hops = most = 0
    matched = [0] * len(held)
    for replicas in held:
        for node in replicas:
            stored[node] += 1
    for _ in range(events):
        matching = draw(st.frozensets(st.integers(0, len(held) - 1)))
        chosen = {draw(st.sampled_from(sorted(held[one]))) for one in sorted(matching)}
        chosen |= draw(st.frozensets(st.integers(0, nodes - 1), max_size=2))  # in vain
        for node in chosen:
            visited[node] += 1
        for one in matching:
            matched[one] += 1
        hops, most = max(hops, len(chosen)), max(most, len(matching))
    return {
        "stored": stored,
        "visited": visited,
        "hops": hops,
        "subscriptions": len(held),
        "events": events,
        "most_met": most,
        "matches": [(count, len(held[one])) for one, count in enumerate(matched)],
    }


@given(run=any_scheme())
def test_the_law_holds_for_whatever_finds_all_matches(run: dict[str, Any]) -> None:
    assert_law(law(**run))


def test_the_law_is_an_equality_where_all_is_even() -> None:
    """R = N and H = 1, a replicated server; R = 1 and H = N, a tour of all nodes."""
    servers = law([10] * 4, [5] * 4, 1, 10, 20, 10, [(20, 4)])
    assert servers == Law(1.0, 1.0)
    tour = law([5] * 4, [8] * 4, 4, 20, 8, 20, [(8, 1)])
    assert tour == Law(1.0, 1.0)
    with pytest.raises(LawBroken, match="at least 1"):
        assert_law(law([5] * 4, [8] * 4, 3, 20, 8, 20, [(8, 1)]))


def test_without_matches_the_law_asks_nothing() -> None:
    assert law([1, 0], [0, 1], 1, 1, 1, 0, [(0, 1)]) == Law(inf, inf)


def test_no_load_has_no_imbalance() -> None:
    with pytest.raises(ValueError, match="found none"):
        imbalance([0, 0])


# By region


@given(shape=SHAPES, data=st.data())
def test_what_regions_store_and_see_is_what_walks_bring(
    shape: Regions, data: st.DataObject
) -> None:
    """Against the placement itself: every key's subscriptions at each draw, every key's events."""
    loads = data.draw(st.lists(st.integers(0, 50), min_size=shape.regions, max_size=shape.regions))
    steps = len(shape.window())
    stored, seen = [0.0] * shape.regions, [0.0] * shape.regions
    for key, load in enumerate(loads):
        for draw in range(steps):
            stored[shape.homes(key, draw)[0]] += load / steps
        for region in shape.visits(key):
            seen[region] += load
    assert stores(loads, shape) == pytest.approx(stored)
    assert visits(loads, shape) == pytest.approx(seen)
    assert sum(stores(loads, shape)) == pytest.approx(sum(loads))


@given(shape=SHAPES, share=st.floats(0, 1))
def test_one_hot_key_is_the_papers_equality_and_even_keys_are_even(
    shape: Regions, share: float
) -> None:
    rest = (1 - share) / shape.regions
    loads = [share + rest] + [rest] * (shape.regions - 1)
    assert imbalance(visits(loads, shape)) == pytest.approx(hot_key_imbalance(share, shape))
    assert imbalance(stores(loads, shape)) == pytest.approx(hot_key_imbalance(share, shape))
    hops = min(shape.hops, shape.regions)
    assert hot_key_imbalance(1, shape) == pytest.approx(shape.regions / hops)
    assert hot_key_imbalance(0, shape) == 1


def test_keys_that_do_not_fit_the_regions_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 3 keys, found 2"):
        stores([1, 2], Regions(3, 1))


def test_a_placement_of_nodes_has_the_load_of_its_regions() -> None:
    placement = Placement.of("a", [f"n{i}" for i in range(12)], Regions(4, 2))
    assert [len(members) for members in placement.nodes_of] == [3, 3, 3, 3]


# Latency, throughput, waits


@given(
    hop=LOADS, matching=st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=8), more=st.floats(1, 9)
)
def test_latency_adds_up_and_throughput_is_the_slowest_node(
    hop: float, matching: list[float], more: float
) -> None:
    assert latency(hop, matching) == pytest.approx(len(matching) * hop + sum(matching))
    assert scatter_latency(hop, matching) <= latency(hop, matching) + 1e-9
    assert throughput(matching) == pytest.approx(1 / max(matching))
    assert throughput([*matching, max(matching) * more]) <= throughput(matching)


@given(total=st.floats(1, 1e6), parts=st.lists(st.floats(0.01, 1), min_size=2, max_size=6))
def test_even_stores_have_the_greatest_throughput(total: float, parts: list[float]) -> None:
    """The paper's I_s = 1, for a matching time that is linear."""
    uneven = [total * part / sum(parts) for part in parts]
    even = [total / len(parts)] * len(parts)
    assert throughput(even) >= throughput(uneven) * (1 - 1e-9)


@given(
    nodes=st.integers(1, 100),
    hops=st.integers(1, 8),
    unevenness=st.floats(1, 10),
    service=st.floats(1e-6, 1),
)
def test_at_the_greatest_rate_the_busiest_node_never_rests(
    nodes: int, hops: int, unevenness: float, service: float
) -> None:
    rate = greatest_rate(nodes, hops, unevenness, service)
    assert utilisation(rate, nodes, hops, unevenness, service) == pytest.approx(1)
    assert waiting(1.0, service) == inf
    half = waiting(0.5, service)
    assert half == pytest.approx(service / 2)
    assert waiting(0.0, service) == 0 < half < waiting(0.9, service)


def test_hops_hold_what_one_node_cannot() -> None:
    assert [best_hops(s, 100) for s in (0, 99, 100, 250)] == [1, 1, 2, 3]
