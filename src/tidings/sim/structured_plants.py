"""Bugs planted in protocols on structured overlays, for `plants`: each is easily got wrong.

`STRUCTURED_BUGS` has for each a node with that bug, and the protocol and options it is run with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from tidings.routing.packets import Branch, Publication
from tidings.routing.protocol import Action
from tidings.routing.structured.arcs import Arcs, OwnArc, Tries, Wanted, any_wants, united
from tidings.routing.structured.chord import Chord
from tidings.routing.structured.chord_trees import ChordTreesRouter, Trees
from tidings.routing.structured.hermes import Hermes, HermesRouter, NextNode, Place, Tree
from tidings.routing.structured.pastry import Pastry
from tidings.routing.structured.scribe import GroupTree, Scribe, ScribeRouter
from tidings.routing.structured.substrate import Portion
from tidings.routing.structured.types import DIRECTORY

PASTRY: Final = "chord-trees:substrate=pastry,leaves=2"
GROUPED: Final = "scribe:substrate=pastry,leaves=2,type=kind,groups=3"
TYPED: Final = "hermes:type=kind,trees=3"


class ArcsNotCut(Chord):
    """Claims the last portion of an arc as far as it goes, not as far as the arc."""

    def split(self, end: int) -> tuple[Portion, ...]:
        whole = super().split(self.key)
        heads = {portion.head for portion in super().split(end)}
        return tuple(portion for portion in whole if portion.head in heads)


class ArcsDoNotWrap(Chord):
    """Compares keys as numbers, as if the circle did not close."""

    def split(self, end: int) -> tuple[Portion, ...]:
        found = super().split(end)
        if end == self.key:
            return found
        return tuple(portion for portion in found if self._at(portion.head) < max(end, self.key))


class NeverOlder(Arcs):
    """Keeps what an arc has wanted once: ghosts."""

    def _renew(self, arc: OwnArc) -> None:
        before = arc.texts
        super()._renew(arc)
        if not set(before) <= set(arc.texts):
            arc.texts = united([*before, *arc.texts])


class OneClaimantIsEnough(Arcs):
    """Says that a subscription is established once its node has told its tables."""

    def established(self, numbers: dict[int, int]) -> bool:
        return True


class TreesNotCounted(Arcs):
    """Says that a subscription is established in all trees that reach it, be they all or not."""

    def established(self, numbers: dict[int, int]) -> bool:
        return all(arc.settled() >= numbers.get(end, 0) for end, arc in self.arcs.items())


class DivisionAtOnce(Arcs):
    """Uses a new division of an arc before its tables have come, and takes them as empty."""

    def _renew(self, arc: OwnArc) -> None:
        arc.used = tuple(portion for portion in arc.newest if self._has(portion))
        super()._renew(arc)


class NumbersBeginAgain(Arcs):
    """Numbers the tables of each arc for itself, so an arc that is kept again begins below."""

    def _renew(self, arc: OwnArc) -> None:
        before, self._tables = self._tables, arc.number
        super()._renew(arc)
        self._tables = before


class NotInTheDirectory(Hermes):
    """Sends events to the trees of their types only."""

    def _pass_on(
        self, number: int, publication: Publication, source: str | None, out: list[Action]
    ) -> None:
        if number != DIRECTORY:
            super()._pass_on(number, publication, source, out)


class HermesSettledAtOnce(Hermes):
    """Answers for those behind it before they have."""

    def has_acted(self, numbers: Mapping[Place, int]) -> bool:
        return True


class ForgetsSiblings(Hermes):
    """Sends an event up only: those below hear of it if it comes from above."""

    def chosen(
        self, number: int, event: dict[str, Any], wanted: Tries = any_wants
    ) -> list[NextNode]:
        found = super().chosen(number, event, wanted)
        tree = self.trees.get(number)
        if tree is None or tree.parent is None:
            return found
        return [one for one in found if one.name in tree.parents()]


class TellsNothingDown(Hermes):
    """Takes what it has heard from above for all that is wanted, though more has come since."""

    def below(self, tree: Tree, but: str) -> list[Wanted]:
        return super().below(tree, but) if but in tree.parents() else []


class BreaksBeforeItMakes(Hermes):
    """Gives a former parent up as soon as there is another."""

    def _climb_on(self, now: int) -> None:
        super()._climb_on(now)
        for tree in self.trees.values():
            tree.former.clear()


class WholeAtOnce(Hermes):
    """Takes what it has heard from above for all there is, be it all or not."""

    def _heard(self, source: str, packet: Branch, now: int, out: list[Action]) -> None:
        super()._heard(source, msgspec.structs.replace(packet, whole=True), now, out)


class TableBeforeTheNext(Pastry):
    """Divides an arc among its entries only: the next node may be in nobody's part."""

    def _links(self) -> list[str]:
        links = super()._links()
        return links[1:] if len(links) > 1 else links


class TwoOwners(Pastry):
    """Is in charge of a key as soon as it is nearer than the next node behind it."""

    def _owner(self, key: int) -> str:
        behind = self.beside()[1]
        rank = self.circle.rank
        if behind is None or rank(key, self.key) < rank(key, self._at(behind)):
            return self.node
        return super()._owner(key)


class ParentForEver(Scribe):
    """Keeps its parent for as long as it is there, whoever is the root."""

    def _turn_to(self, group: GroupTree, parent: str | None) -> None:
        if group.parent is None or not group.number:
            super()._turn_to(group, parent)


class GraftedIsAttached(Scribe):
    """Says that it is attached, though its parent may not be."""

    def is_attached(self, group: GroupTree) -> bool:
        return True


class GraftsOnce(Scribe):
    """Says once that it is a child, and never again."""

    def _tell_parent(
        self, number: int, group: GroupTree, refresh: bool, now: int, out: list[Action]
    ) -> None:
        if not group.number:
            super()._tell_parent(number, group, refresh, now, out)


class NeverLeaves(Scribe):
    """Does not tell its parent that nobody is left, and says for ever that it is a child."""

    def _leave(self, number: int, group: GroupTree, out: list[Action]) -> None:
        group.own = True


class OnlyTypes(Scribe):
    """Sends events to the groups of their types only, not to the directory."""

    def groups_of(self, event: dict[str, Any]) -> tuple[int, ...]:
        return super().groups_of(event)[:-1]


def _trees(chord: type[Chord] = Chord, arcs: type[Arcs] = Arcs) -> Any:
    service = type(arcs.__name__, (Trees,), {"arcs_of": arcs})
    return type("Planted", (ChordTreesRouter,), {"chord_of": chord, "trees_of": service})


def _pastry(pastry: type[Pastry], router: type[Any] = ChordTreesRouter) -> Any:
    return type("Planted", (router,), {"pastry_of": pastry})


def _groups(scribe: type[Scribe]) -> Any:
    return type("Planted", (ScribeRouter,), {"scribe_of": scribe})


def _types(hermes: type[Hermes]) -> Any:
    return type("Planted", (HermesRouter,), {"hermes_of": hermes})


class StructuredBug(NamedTuple):
    """A planted bug, and the protocol whose nodes have it."""

    make: Any
    protocol: str = "chord-trees"
    first: int = 0


STRUCTURED_BUGS: Final[dict[str, StructuredBug]] = {
    "arcs not cut": StructuredBug(_trees(ArcsNotCut)),
    "arcs do not wrap": StructuredBug(_trees(ArcsDoNotWrap)),
    "ghosts": StructuredBug(_trees(arcs=NeverOlder)),
    "told is established": StructuredBug(_trees(arcs=OneClaimantIsEnough)),
    "trees not counted": StructuredBug(_trees(arcs=TreesNotCounted)),
    "division at once": StructuredBug(_trees(arcs=DivisionAtOnce)),
    "numbers begin again": StructuredBug(_trees(arcs=NumbersBeginAgain), first=5),
    "next node forgotten": StructuredBug(_pastry(TableBeforeTheNext), PASTRY),
    "two owners": StructuredBug(_pastry(TwoOwners, ScribeRouter), GROUPED),
    "parent for ever": StructuredBug(_groups(ParentForEver), GROUPED),
    "grafted is attached": StructuredBug(_groups(GraftedIsAttached), GROUPED),
    "grafts once": StructuredBug(_groups(GraftsOnce), GROUPED),
    "never leaves": StructuredBug(_groups(NeverLeaves), GROUPED),
    "only types": StructuredBug(_groups(OnlyTypes), GROUPED),
    "not in the directory": StructuredBug(_types(NotInTheDirectory), TYPED),
    "settled at once": StructuredBug(_types(HermesSettledAtOnce), TYPED),
    "forgets siblings": StructuredBug(_types(ForgetsSiblings), TYPED),
    "tells nothing down": StructuredBug(_types(TellsNothingDown), TYPED),
    "breaks before it makes": StructuredBug(_types(BreaksBeforeItMakes), TYPED),
    "whole at once": StructuredBug(_types(WholeAtOnce), TYPED),
}
