"""Chord: bugs planted in it are seen."""

from tests.routing.structured.stress import partitioned, started
from tidings.routing.protocol import SECOND
from tidings.routing.structured.chord import Chord


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
    key = rings.substrate("3").key
    assert sum(rings.substrate(name).owns(key) for name in rings.running()) == 0
