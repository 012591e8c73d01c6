"""Pastry: leaves, table and paths; and bugs planted in it are seen."""

from functools import partial
from math import ceil, log
from random import Random
from statistics import mean
from typing import Any

import pytest

from tests.routing.structured.stress import partitioned, started, stormed
from tidings.overlay.ideal import IdealPastry
from tidings.overlay.keys import Circle
from tidings.routing.packets import Leaves, RingQuery
from tidings.routing.planes.carrier import Meshed
from tidings.routing.protocol import SECOND, USUAL
from tidings.routing.structured.pastry import BEFORE, BEHIND, Pastry
from tidings.sim.rings import Rings


@pytest.mark.parametrize("nodes", [16, 256, 4_096])
def test_paths_have_as_many_hops_as_a_key_needs_digits(nodes: int) -> None:
    ideal = IdealPastry(map(str, range(nodes)))
    chance = Random(1)
    hops = []
    for _ in range(200):
        path, key = [chance.choice(ideal.nodes)], chance.getrandbits(64)
        while (hop := ideal.hop(path[-1], key)) is not None:
            path.append(hop)
        hops.append(len(path) - 1)
    assert mean(hops) < ceil(log(nodes, 16))
    assert max(hops) <= ceil(log(nodes, 16)) + 2


def test_a_node_is_not_adopted_on_hearsay() -> None:
    mesh = Meshed("0", 1)
    node = Pastry("0", mesh, USUAL, meet=mesh.meet)
    mesh.meet("1")
    out: list[Any] = []
    node.received("1", Leaves(("2", "3"), ("2", "3")), 0, out)
    assert node.beside() == ("1", "1")
    asked = {action.neighbour for action in out if action.packet.packet == RingQuery()}
    assert asked
    assert asked <= {"2", "3"}


def test_longer_lists_than_leaves_are_cut() -> None:
    mesh = Meshed("0", 1)
    node = Pastry("0", mesh, USUAL, meet=mesh.meet, leaves=3)
    names = sorted(map(str, range(1, 40)), key=lambda name: node._far(name, BEHIND))
    mesh.meet(names[0])
    node.received(names[0], Leaves((), tuple(names[1:])), 0, [])
    assert node.leaves[BEHIND] == names[:3]
    assert len(mesh.reach) <= 1 + 3


class AdoptsNoList(Pastry):
    """A planted bug: takes a first leaf without its leaves."""

    def _adopt(self, side, first, theirs, out):  # type: ignore[no-untyped-def]
        super()._adopt(side, first, (), out)


class OneSided(Pastry):
    """A planted bug: looks for a better first leaf on one side only."""

    def _is_nearer(self, name: str, side: int) -> bool:
        if side == BEFORE and self.leaves[side]:
            return False
        return super()._is_nearer(name, side)


class KeepsTheDead(Pastry):
    """A planted bug: entries that are silent stay in the table."""

    def lost(self, names, now, out):  # type: ignore[no-untyped-def]
        entries = dict(self.entries)
        super().lost(names, now, out)
        self.entries = entries
        self._table = None


class NeverRefines(Pastry):
    """A planted bug: the first node that fits a slot stays there."""

    def _consider(self, name: str) -> None:
        if name != self.node and self._slot(name) not in self.table():
            super()._consider(name)


class JoinsNothing(Pastry):
    """A planted bug: asks nobody but its own leaves."""

    def _remember(self, now, out):  # type: ignore[no-untyped-def]
        pass

    def _look_nearer(self, now, out):  # type: ignore[no-untyped-def]
        if self.beside() == (None, None) and now < SECOND:
            super()._look_nearer(now, out)


@pytest.mark.parametrize("bug", [AdoptsNoList, OneSided])
def test_leaves_that_are_wrong_are_seen(bug: type[Pastry]) -> None:
    assert started(make=bug).wrong() != []


@pytest.mark.parametrize("bug", [KeepsTheDead, NeverRefines])
def test_a_table_that_is_wrong_is_seen(bug: type[Pastry]) -> None:
    assert any(stormed(seed, partial(bug, leaves=2)).wrong() for seed in range(2))


def test_networks_that_do_not_join_again_are_seen() -> None:
    assert partitioned(0, JoinsNothing).wrong() != []


@pytest.mark.parametrize("leaves", [1, 8])
def test_a_key_as_near_to_one_node_as_to_another_has_one_owner(leaves: int) -> None:
    circle = Circle(8)
    names = [str(number) for number in range(60) if circle.key(str(number)) % 2 == 0]
    names = list({circle.key(name): name for name in names}.values())
    ideal = IdealPastry(names, circle, leaves)
    nodes = []
    for name in names:
        mesh = Meshed(name, 1)
        nodes.append(Pastry(name, mesh, USUAL, circle, mesh.meet, leaves=leaves))
        nodes[-1].begin_at_rest(ideal, 0)
    for key in range(circle.size):
        assert [node.node for node in nodes if node.owns(key)] == [ideal.owner(key)]


def test_nodes_with_the_same_key_do_not_stop_each_other() -> None:
    """They cannot both find their places, but they go on."""
    rings = Rings("ba:12", 3, Circle(4), make=Pastry)
    names = list(rings.network.nodes)
    assert len({rings.circle.key(name) for name in names}) < len(names)
    for name in names:
        rings.network.start(name)
    rings.run(4)
    assert all(rings.substrate(name).snapshot()["behind"] for name in names)
