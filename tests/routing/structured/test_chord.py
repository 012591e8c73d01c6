"""Chord against its ideal: joins, leaves, crashes, lost packets, and rings that join again."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tidings.overlay.ideal import IdealRing
from tidings.overlay.keys import Circle
from tidings.routing.protocol import SECOND, Leave
from tidings.routing.structured.chord import Chord
from tidings.sim.rings import Rings

KEYS = [Random(7).getrandbits(64) for _ in range(20)]


def started(text: str = "ba:20", seed: int = 1, **more: object) -> Rings:
    rings = Rings(text, seed, **more)  # type: ignore[arg-type]
    for name in list(rings.network.nodes):
        rings.network.start(name)
    rings.run(12)
    return rings


@settings(max_examples=examples(60))
@given(
    st.sets(st.integers(0, 40), min_size=1, max_size=16),
    st.integers(0, 255),
    st.data(),
)
def test_the_parts_of_an_arc_hold_its_nodes_once_each_and_are_shorter(
    numbers: set[int], end: int, data: st.DataObject
) -> None:
    circle = Circle(8)
    names = {circle.key(str(n)): str(n) for n in numbers}.values()  # one node for each key
    ring = IdealRing(names, circle)
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


def test_all_nodes_start_at_once_and_find_the_ring() -> None:
    rings = started()
    assert rings.wrong() == []
    ideal = IdealRing(rings.running())
    for key in KEYS:
        for name in rings.running():
            path = rings.route(name, key)
            assert path[-1] == ideal.owner(key)
            assert [rings.chord(path[-1]).owns(key)] == [True]
            hop = ideal.hop(name, key)
            assert path[1:2] == ([] if hop is None else [hop])
        assert sum(rings.chord(name).owns(key) for name in rings.running()) == 1


@pytest.mark.parametrize("seed", range(3))
def test_nodes_join_leave_and_crash_under_loss(seed: int) -> None:
    rings = Rings("ba:24,weights=1-3", seed)
    chance = Random(seed)
    names = list(rings.network.nodes)
    for link in rings.network.links.values():
        link.loss, link.duplicate, link.reorder = 0.05, 0.05, 0.1
        link.disturbed()
    for name in names:
        rings.network.start(name)
        rings.run(0.3)
    for _ in range(12):
        running = rings.running()
        name = chance.choice(names)
        if name in running and len(running) > 8:
            if chance.random() < 0.5:
                rings.network.tell(name, Leave())
            rings.network.stop(name, forget=True)
        elif name not in running:
            rings.network.start(name)
        rings.run(chance.random() * 2)
    for link in rings.network.links.values():
        link.calm()
    rings.run(30)
    assert rings.wrong() == []


def partitioned(seed: int, make: type[Chord] = Chord) -> Rings:
    """A ring that fell apart in two for 25 seconds, 40 seconds later."""
    rings = started("grid:4x5", seed, make=make)
    sides = [
        [n for n in rings.running() if int(n) < 10],
        [n for n in rings.running() if int(n) > 9],
    ]
    for (one, other), link in rings.network.links.items():
        link.cut += (one in sides[0]) != (other in sides[0])
    rings.run(25)
    assert [rings.wrong(side) for side in sides] == [[], []]
    for link in rings.network.links.values():
        link.cut = 0
    rings.run(40)
    return rings


@pytest.mark.parametrize("seed", range(2))
def test_rings_that_were_partitioned_join_again(seed: int) -> None:
    assert partitioned(seed).wrong() == []


def test_who_knows_only_one_node_joins_and_small_rings_stand_too() -> None:
    for count in (1, 2, 3):
        rings = started("line:3")
        for name in rings.running()[count:]:
            rings.network.stop(name, forget=True)
        rings.run(12)
        assert rings.wrong() == []


class CopiesNoList(Chord):
    """A planted bug: takes a successor without its list."""

    def _adopt(self, successor, theirs):  # type: ignore[no-untyped-def]
        super()._adopt(successor, ())


class KeepsItsPredecessor(Chord):
    """A planted bug: a dead predecessor stays."""

    def _rectify(self, source, now, out):  # type: ignore[no-untyped-def]
        before = self.predecessor
        if before is None or self.circle.inside(self._at(before), self._at(source), self.key):
            super()._rectify(source, now, out)

    def lost(self, names, now, out):  # type: ignore[no-untyped-def]
        before = self.predecessor
        super().lost(names, now, out)
        self.predecessor = before


class NeverMerges(Chord):
    """A planted bug: asks nobody but its own ring."""

    def _remember(self, now, out):  # type: ignore[no-untyped-def]
        pass

    def _look_nearer(self, now, out):  # type: ignore[no-untyped-def]
        if not self.successors and now < SECOND:
            super()._look_nearer(now, out)


class OwnsOneTooFew(Chord):
    """A planted bug: a node is not in charge of its own key."""

    def owns(self, key: int) -> bool:
        return key != self.key and super().owns(key)


def test_a_list_not_copied_is_seen() -> None:
    assert started(make=CopiesNoList).wrong() != []


def test_a_predecessor_that_stays_is_seen() -> None:
    rings = started("ba:12", make=KeepsItsPredecessor)
    for name in rings.running()[::3]:
        rings.network.stop(name, forget=True)
    rings.run(30)
    assert rings.wrong() != []


def test_rings_that_do_not_merge_are_seen() -> None:
    assert partitioned(0, NeverMerges).wrong() != []


def test_a_node_that_does_not_own_its_own_key_is_seen() -> None:
    rings = started("ba:8", make=OwnsOneTooFew)
    key = rings.chord("3").key
    assert sum(rings.chord(name).owns(key) for name in rings.running()) == 0
