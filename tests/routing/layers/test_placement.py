"""Regions on the ring, and the window in which subscriptions and events meet (L2)."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.overlay.ring import BITS, DIVISIONS, by_rank, by_width, clockwise
from tidings.routing.layers.placement import Placement, Regions, regions_for

names = st.sets(st.text("abcdef012", min_size=1, max_size=4), min_size=1, max_size=30)
shapes = st.builds(Regions, st.integers(1, 40), st.integers(1, 50))


@given(names, st.integers(1, 40), st.integers(0, 2**BITS - 1), st.sampled_from(sorted(DIVISIONS)))
def test_every_node_is_in_exactly_one_region(
    nodes: set[str], regions: int, offset: int, division: str
) -> None:
    found = DIVISIONS[division](nodes, regions, offset)
    assert len(found) == regions
    assert sorted(name for region in found for name in region) == sorted(nodes)
    ring = sorted(nodes, key=lambda name: clockwise(offset, name))
    assert [name for region in found for name in region] == ring


@given(names, st.integers(1, 40))
def test_regions_by_rank_differ_by_one_node_at_most(nodes: set[str], regions: int) -> None:
    sizes = [len(region) for region in by_rank(nodes, regions)]
    assert max(sizes) - min(sizes) <= 1


def test_equal_arcs_leave_about_as_many_regions_empty_as_chance_would() -> None:
    for replicas, share in ((1, 0.37), (3, 0.05)):
        regions = by_width(map(str, range(3000)), 3000 // replicas)
        empty = sum(not region for region in regions) / len(regions)
        assert abs(empty - share) < 0.03


@given(shapes, st.integers(0, 39), st.integers(0, 2**20))
def test_an_event_meets_a_subscription_of_its_key_exactly_once(
    shape: Regions, key: int, draw: int
) -> None:
    visits = shape.visits(key)
    assert len(visits) == len(set(visits)) == min(shape.hops, shape.regions)
    assert visits.count(*shape.homes(key, draw)) == 1


@given(st.integers(1, 20), st.integers(0, 19))
def test_every_offset_of_the_window_is_used_equally_often(hops: int, key: int) -> None:
    shape = Regions(20, hops)
    homes = [home for draw in range(3 * hops) for home in shape.homes(key, draw)]
    assert sorted(homes) == sorted(3 * list(shape.visits(key)))


@given(names, shapes, st.integers(0, 39), st.sampled_from(sorted(DIVISIONS)))
def test_an_event_visits_no_node_twice_and_every_home_once(
    nodes: set[str], shape: Regions, key: int, division: str
) -> None:
    placement = Placement.of("an application", nodes, shape, division)
    stops = placement.stops(key)
    visited = [name for members, _ in stops for name in members]
    assert len(visited) == len(set(visited))
    assert sorted(h for _, homes in stops for h in homes) == sorted(shape.visits(key))
    for members, homes in stops:
        assert members
        assert all(placement.members(home) == members for home in homes)


@given(st.integers(1, 4000), st.integers(1, 60))
def test_regions_have_about_the_nodes_that_were_asked_for(nodes: int, replicas: int) -> None:
    regions = regions_for(nodes, replicas)
    assert 1 <= regions <= nodes
    assert regions & (regions - 1) == 0
    if 2 * regions <= nodes and replicas <= nodes:
        assert 1 / 2 <= (nodes / regions / replicas) ** 2 <= 2
    assert regions_for(nodes + 1, replicas) in (regions, 2 * regions)


def test_applications_begin_at_different_places_of_the_ring() -> None:
    nodes = [f"node{n}" for n in range(40)]
    first = {Placement.of(name, nodes, Regions(40, 1)).members(0) for name in "abcdefgh"}
    assert len(first) > 4
