"""Nodes of unlike capacity: who serves, how few change, and how the ring is cut for them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.overlay.ring import by_rank
from tidings.overlay.weights import by_capacity, first_nodes

NAMES = [f"n{number}" for number in range(40)]
nodes = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)
capacities = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0.25, 1.0, 2.0, 4.0, 8.0]))


@given(nodes=nodes, key=st.text(max_size=5), count=st.integers(0, 40), weights=capacities)
def test_growing_by_one_node_keeps_those_that_serve(
    nodes: list[str], key: str, count: int, weights: dict[str, float]
) -> None:
    few = first_nodes(key, nodes, count, weights)
    assert len(few) == len(set(few)) == min(count, len(nodes))
    assert few == first_nodes(key, nodes, count + 1, weights)[:count]
    assert few == first_nodes(key, reversed(nodes), count, weights)


@given(nodes=nodes, key=st.text(max_size=5), count=st.integers(1, 40))
def test_a_node_that_joins_takes_the_place_of_one_at_most(
    nodes: list[str], key: str, count: int
) -> None:
    before = first_nodes(key, nodes, count)
    after = first_nodes(key, [*nodes, "new"], count)
    assert len(set(before) - set(after)) <= 1
    assert set(after) - set(before) <= {"new"}


def test_a_node_is_first_as_often_as_it_weighs() -> None:
    weights = {"a": 1.0, "b": 2.0, "c": 5.0}
    first = Counter(first_nodes(f"key {n}", weights, 1, weights)[0] for n in range(8_000))
    assert {name: count / 1_000 for name, count in first.items()} == pytest.approx(weights, abs=0.2)


@given(nodes=nodes, regions=st.integers(1, 12), capacity=capacities)
def test_every_node_is_in_one_region_and_no_region_is_empty(
    nodes: list[str], regions: int, capacity: dict[str, float]
) -> None:
    division = by_capacity(nodes, regions, capacity)
    assert len(division) == regions
    assert sorted(name for region in division for name in region) == sorted(nodes)
    if len(nodes) >= regions:
        assert all(division)


@given(nodes=nodes, regions=st.integers(1, 12), capacity=capacities)
def test_no_region_is_off_its_share_by_more_than_its_nodes_allow(
    nodes: list[str], regions: int, capacity: dict[str, float]
) -> None:
    if len(nodes) < 3 * regions:
        return
    division = by_capacity(nodes, regions, capacity)
    total = sum(capacity.get(name, 1.0) for name in nodes)
    largest = max(capacity.get(name, 1.0) for name in nodes)
    ring = [name for region in division for name in region]
    assert ring == [name for region in by_rank(nodes, 1) for name in region]
    least = min(sum(capacity.get(name, 1.0) for name in region) for region in division)
    assert least <= total / regions
    most = max(sum(capacity.get(name, 1.0) for name in region) for region in division)
    assert most <= total / regions + largest + 1e-9 or len(nodes) < 2 * regions
