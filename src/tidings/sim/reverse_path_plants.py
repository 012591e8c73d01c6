"""Bugs planted in the router that learns by the reverse path: rows of `REVERSE_PATH_BUGS`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tidings.language.poset import Known, Upwards
from tidings.routing.planes.link_table import Link, LinkTables
from tidings.routing.planes.spanning import Spanning
from tidings.routing.protocol import (
    Action,
    Cause,
    Established,
    Subscribe,
)
from tidings.routing.protocols import Make
from tidings.routing.reverse_path.covering import Covers
from tidings.routing.reverse_path.merging import Mergers
from tidings.routing.reverse_path.router import ReversePathRouter


class StopsAtEquals(ReversePathRouter):
    """Tells nobody what is known already, as the survey has it."""

    def is_told(self, text: str, name: str) -> bool:
        known = len(self.wanted.who.get(text, ())) > 1 and text not in self.base[name]
        return super().is_told(text, name) and not known


class NothingToldOnUp(ReversePathRouter):
    """Does not tell a new neighbour what this side wants."""

    def is_told(self, text: str, name: str) -> bool:
        fresh = not self.tables.links[name].number
        return super().is_told(text, name) and not fresh


class EstablishedLocally(ReversePathRouter):
    """Says that a subscription is established as soon as it is made."""

    def handle(self, cause: Cause, now: int) -> list[Action]:
        out = super().handle(cause, now)
        if isinstance(cause, Subscribe):
            out.insert(0, Established((cause.id,)))
        return out


class MutualUpwards(Upwards):
    def _over(self, other: Known, known: Known) -> bool:
        return True


class MutualCovers(Covers):
    upwards_of = MutualUpwards


class EqualsHideEachOther(ReversePathRouter):
    """Lets filters of equal meaning hide each other."""

    covers_of = MutualCovers


class ForgetfulCovers(Covers):
    def update(self, changed: Iterable[str]) -> dict[str, None]:
        kept = list(changed)
        for text in kept:
            self._relying.pop(text, None)
        self._relying = {}
        return super().update(kept)

    def _rely(self, text: str, witnesses: tuple[str, ...]) -> None:
        self._witnesses[text] = witnesses


class NothingUncovered(ReversePathRouter):
    """Does not tell what was hidden by a filter that has gone."""

    covers_of = ForgetfulCovers


class OneSidedCovers(Covers):
    def cover(self, text: str, neighbour: str) -> str | None:
        witnesses = self._witnesses.get(text, ())
        return witnesses[0] if witnesses else None


class HiddenFromItsCover(ReversePathRouter):
    """Hides a filter also from the neighbour that itself told the cover."""

    covers_of = OneSidedCovers


class LossNotFollowed(ReversePathRouter):
    """Goes on telling what a lost neighbour wanted."""

    def lose(self, name: str) -> None:
        dirty = dict(self._dirty)
        super().lose(name)
        self._dirty = dirty

    def _unnoticed(self) -> list[str]:
        return []


class HastyTables(LinkTables):
    def follow(self, name: str, number: int) -> None:
        link = self.links.get(name)
        if link is not None:
            link.following.append((number, []))


class SettledAtOnce(ReversePathRouter):
    """Says that a change has settled when it has only been taken."""

    tables_of = HastyTables


class SplitTables(LinkTables):
    def tell(self, name: str, *change: Any) -> None:
        added, removed, advertised, withdrawn, now, out = change
        if added and removed:
            super().tell(name, (), removed, (), withdrawn, now, out)
            removed = withdrawn = ()
        super().tell(name, added, removed, advertised, withdrawn, now, out)


class RemovesFirst(ReversePathRouter):
    """Takes back what is wide before it tells what is narrow."""

    tables_of = SplitTables


class NoRepetition(LinkTables):
    def timer(self) -> int | None:
        return None

    def wake(self, now: int, out: list[Action]) -> None:
        pass


class ChangesNotRepeated(ReversePathRouter):
    """Tells each change once."""

    tables_of = NoRepetition


class NoAudits(LinkTables):
    def due_audits(self, now: int) -> list[Link]:
        return []


class NeverAudits(ReversePathRouter):
    """Never compares what is held with what was told."""

    tables_of = NoAudits


class HastySpanning(Spanning):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._linger = 0


class TreeBreaksFirst(ReversePathRouter):
    """Gives a former link of the tree up at once."""

    spanning_of = HastySpanning


class ForgetsUnadvertised(ReversePathRouter):
    """Forgets what nobody advertises when it comes."""

    def want(self, text: str, who: str) -> None:
        behind = [name for name in self.tables.links if name != who]
        if not who or not behind or any(self.advertised.meets(text, name) for name in behind):
            super().want(text, who)


class UnadvertiseKeeps(ReversePathRouter):
    """Goes on telling a link what nobody behind it publishes any more."""

    def is_told(self, text: str, name: str) -> bool:
        kept = text in self.base[name] and self.wanted.besides(text, name)
        return super().is_told(text, name) or kept


class MortalMergers(Mergers):
    def __init__(self, most_filters: int) -> None:
        super().__init__(most_filters)
        self.lost: set[str] = set()

    def add(self, text: str) -> None:
        self.lost.discard(text)
        super().add(text)

    def remove(self, text: str) -> None:
        merger = self.merger_of(text)
        if merger is not None:
            self._dissolve(merger)
            self.lost |= merger.members.keys() - {text}
        elif text in self.lost:
            self.lost.remove(text)
        else:
            super().remove(text)


class MergerDiesWithAMember(ReversePathRouter):
    """Takes a merger back when one of its members goes."""

    mergers_of = MortalMergers


class NarrowMergers(Mergers):
    def _tighten(self) -> None:
        for merger in self.mergers.values():
            if merger.loose:
                keep = sorted(merger.members)[:1]
                for text in [text for text in merger.members if text not in keep]:
                    del merger.members[text]
                    self._merger_of.pop(text)
        for merger in [merger for merger in self.mergers.values() if len(merger.members) < 2]:
            self._dissolve(merger)
            self._place(merger.members)


class TightensTooMuch(ReversePathRouter):
    """Makes a merger that has lost a member narrower than the others allow."""

    mergers_of = NarrowMergers

    def _merge(self, name: str, added: list[str], removed: list[str]) -> Any:
        mergers = self.merged[name]
        known = {*mergers.alone, *mergers._merger_of}
        return super()._merge(name, added, [text for text in removed if text in known])


class StepsBackBlindly(ReversePathRouter):
    """Steps back to what it had told before, and forgets what has come since."""

    def _adapt(self, name: str, *change: Any) -> Any:
        ladder = self.ladders[name]
        before, policy = dict(ladder.precise), ladder.policy
        found = super()._adapt(name, *change)
        if policy == ladder.policy == "everything":
            ladder.precise = before
        return found


class LegsMixed(ReversePathRouter):
    """Takes an event that comes down for the one that has climbed."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._climbed = self._once


class KeepsItsParent(Spanning):
    def _find(self, routes: Any) -> None:
        before = self.parent
        super()._find(routes)
        if before is not None and before in self.plane.neighbours.known:
            self.parent = before


class ParentKept(ReversePathRouter):
    """Keeps its parent when the tree changes."""

    spanning_of = KeepsItsParent


class Bug(NamedTuple):
    """A planted bug, before `plants` makes it one of its own."""

    protocol: str
    make: Make
    first: int = 0


REVERSE_PATH_BUGS: Final[dict[str, Bug]] = {
    "stops at equals": Bug("subscriptions", StopsAtEquals),
    "nothing told on up": Bug("subscriptions", NothingToldOnUp),
    "established locally": Bug("subscriptions", EstablishedLocally),
    "settled at once": Bug("subscriptions", SettledAtOnce, first=2),
    "changes not repeated": Bug("subscriptions", ChangesNotRepeated, first=2),
    "never audits": Bug("subscriptions", NeverAudits, first=6),
    "loss not followed": Bug("subscriptions", LossNotFollowed),
    "tree breaks first": Bug("subscriptions", TreeBreaksFirst),
    "equals hide each other": Bug("covering", EqualsHideEachOther),
    "nothing uncovered": Bug("covering", NothingUncovered),
    "hidden from its cover": Bug("covering", HiddenFromItsCover),
    "removes first": Bug("covering", RemovesFirst, first=1),
    "forgets what nobody advertises": Bug("advertisements", ForgetsUnadvertised),
    "unadvertise keeps": Bug("advertisements", UnadvertiseKeeps),
    "merger dies with a member": Bug("merging", MergerDiesWithAMember),
    "merger tightens too much": Bug("merging", TightensTooMuch),
    "steps back blindly": Bug("covering:policy=adaptive,trial=64", StepsBackBlindly),
    "legs mixed": Bug("rooted", LegsMixed),
    "parent kept": Bug("rooted", ParentKept),
}
