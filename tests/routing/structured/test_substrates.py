"""Structured overlays against their ideals: joins, leaves, crashes, loss, and partitions."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import SOAK, examples
from tests.routing.structured.stress import SUBSTRATES, partitioned, started, stormed
from tidings.overlay.ideal import IdealPastry, IdealRing
from tidings.overlay.keys import Circle

KEYS = [Random(7).getrandbits(64) for _ in range(20)]
every_substrate = pytest.mark.parametrize("make", SUBSTRATES.values(), ids=SUBSTRATES)
numbers_of_nodes = st.sets(st.integers(0, 400), min_size=1, max_size=40)


def ring_of(kind: type[IdealRing], numbers: set[int], **more: Any) -> IdealRing:
    """An ideal on a circle of 256 keys, each with one node at most."""
    circle = Circle(8)
    names = {circle.key(str(n)): str(n) for n in numbers}.values()
    return kind(names, circle, **more)


@settings(max_examples=examples(60))
@given(st.sampled_from([IdealRing, IdealPastry]), numbers_of_nodes, st.integers(0, 255), st.data())
def test_the_parts_of_an_arc_hold_its_nodes_once_each_and_are_shorter(
    kind: type[IdealRing], numbers: set[int], end: int, data: st.DataObject
) -> None:
    ring = ring_of(kind, numbers)
    circle = ring.circle
    node = data.draw(st.sampled_from(ring.nodes))
    members = list(ring.members(node, end))
    inside = [
        n for n in ring.nodes if n == node or circle.inside(circle.key(node), circle.key(n), end)
    ]
    assert sorted(members) == sorted(inside)
    parts = ring.split(node, end)
    held = [name for head, stop in parts for name in ring.members(head, stop)]
    assert sorted([node, *held]) == sorted(members)
    for head, stop in parts:
        length = circle.length(circle.key(head), stop)
        assert length < circle.length(circle.key(node), end)


@settings(max_examples=examples(60))
@given(numbers_of_nodes, st.integers(1, 8), st.integers(0, 255))
def test_paths_of_the_ideals_end_at_the_owner(numbers: set[int], leaves: int, key: int) -> None:
    chord, pastry = ring_of(IdealRing, numbers), ring_of(IdealPastry, numbers, leaves=leaves)
    circle = Circle(8)
    first = min(chord.nodes, key=lambda name: circle.distance(key, circle.key(name)))
    nearest = min(chord.nodes, key=lambda name: circle.rank(key, circle.key(name)))
    for ring, owner in ((chord, first), (pastry, nearest)):
        assert ring.owner(key) == owner
        for name in ring.nodes:
            path = [name]
            while (hop := ring.hop(path[-1], key)) is not None:
                path.append(hop)
                assert len(path) <= 10
            assert path[-1] == owner


@settings(max_examples=examples(40))
@given(numbers_of_nodes)
def test_an_entry_is_the_nearest_to_its_mark_of_all_nodes_with_its_digits(
    numbers: set[int],
) -> None:
    ring = ring_of(IdealPastry, numbers)
    assert isinstance(ring, IdealPastry)
    circle = ring.circle
    for name in ring.nodes:
        key = circle.key(name)
        found: dict[tuple[int, int], list[str]] = {}
        for other in ring.nodes:
            if other != name:
                row = circle.shared(key, circle.key(other))
                found.setdefault((row, circle.digit(circle.key(other), row)), []).append(other)
        nearest = {
            slot: min(names, key=lambda n: circle.rank(circle.mark(key, *slot), circle.key(n)))
            for slot, names in found.items()
        }
        assert ring.table(name) == nearest


@every_substrate
def test_all_nodes_start_at_once_and_find_their_places(make: Any) -> None:
    rings = started(make=make)
    assert rings.wrong() == []
    ideal = rings.substrate("0").ideal(rings.running())
    for key in KEYS:
        for name in rings.running():
            path = rings.route(name, key)
            assert path[-1] == ideal.owner(key)
            assert rings.substrate(path[-1]).owns(key)
            hop = ideal.hop(name, key)
            assert path[1:2] == ([] if hop is None else [hop])
        assert sum(rings.substrate(name).owns(key) for name in rings.running()) == 1


@every_substrate
@pytest.mark.parametrize("seed", range(10 if SOAK else 2))
def test_nodes_join_leave_and_crash_under_loss(make: Any, seed: int) -> None:
    assert stormed(seed, make).wrong() == []


@every_substrate
@pytest.mark.parametrize("seed", range(10 if SOAK else 1))
def test_rings_that_were_partitioned_join_again(make: Any, seed: int) -> None:
    assert partitioned(seed, make).wrong() == []


@every_substrate
def test_who_knows_only_one_node_joins_and_small_rings_stand_too(make: Any) -> None:
    for count in (1, 2, 3):
        rings = started("line:3", make=make)
        for name in rings.running()[count:]:
            rings.network.stop(name, forget=True)
        rings.run(12)
        assert rings.wrong() == []
