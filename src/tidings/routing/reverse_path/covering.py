"""Covering (S12): which filters need not be told, because one that is wider is told anyway.

A filter f is told to a link L if someone other than L wants it, and nobody other than L wants a
filter above it. Let C be all that want a filter above f. If C is empty, f is told to everyone; if C
is one neighbour, f is told to that neighbour only, since all others hear of the filter above; if it
has two members, or holds the users of this node, f is told to nobody.

A neighbour that alone wants f hears of it from nobody. So if C is that neighbour, f is told to
nobody, too.

For each filter it is enough to remember at most two *witnesses*: filters above it that together
show which of these it is. When a filter goes away, only those that it is a witness for are looked
at again.

Witnesses are found among the filters that are told to someone, the *shown* ones: a node that holds
very many has few of them. That is enough. Let s be in C, by a filter g above f that no other of s
is above. If g is not shown, then users here, or two neighbours, want filters above g. These are
above f as well, so f is told to nobody in any case; and what is highest among them is shown. Only
where `covers` may be unsure, a filter above one above f need not be above f: then all are searched.

When a filter is shown that was not, or more sources want one that is, only shown ones below it can
be hidden by it. `Covers.by_definition` is the slow twin.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import lru_cache
from typing import Final

from tidings.language.poset import Downwards, Known, Upwards, above_by_definition
from tidings.routing.reverse_path.filters import HERE, Held, filter_of

REMEMBERED: Final = 1 << 14


@lru_cache(REMEMBERED)
def known_of(text: str) -> Known | None:
    """The filter that a text writes, to compare it with others; None for an atom."""
    filter = filter_of(text)
    return None if filter is None else Known(filter, text)


class Covers:
    """What hides the filters of a node."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.known: dict[str, Known] = {}
        self._every = self.upwards_of()
        self._top = self.upwards_of()  # the shown ones
        self._shown = Downwards()  # those that may have to be told to someone
        self._unsure = 0  # filters of which `covers` may be unsure
        self._witnesses: dict[str, tuple[str, ...]] = {}
        self._relying: dict[str, dict[str, None]] = {}  # by witness
        self._sources: dict[str, frozenset[str]] = {}  # by filter: who wanted it at the last update

    upwards_of: type[Upwards] = Upwards

    def update(self, changed: Iterable[str]) -> dict[str, None]:
        """Someone has begun or ceased to want these: all filters that may be told otherwise now."""
        changed = list(changed)
        again: dict[str, None] = dict.fromkeys(changed)
        for text in changed:
            relying = self._relying.get(text, {})
            if self._has_grown(text):  # what is hidden from everyone stays so
                again.update((other, None) for other in relying if other in self._shown.known)
            elif not self._is_enough(self.held.who.get(text, {}).keys()):
                again.update(relying)
            if text not in self.held.who:
                self._remove(text)
        for text in changed:
            if text in self.held.who and text not in self.known:
                self._add(text)
        affected = dict.fromkeys(changed)
        over: dict[str, None] = {}  # filters that may hide others now
        # What is wide comes first: then what is narrow is hidden at once.
        for text in sorted(again, key=self._width):
            before = text in self._shown.known
            self._look(text)
            after = text in self._shown.known
            if before or after:
                affected[text] = None
            if after and not before:
                over[text] = None
        for text in changed:
            # What a hidden filter covers is hidden by what hides it; unless `covers` is unsure.
            if text in self._shown.known or (text in self.known and self._unsure):
                over[text] = None
        below = {other.text: None for text in over for other in self._shown.below(self.known[text])}
        for text in below:
            self._look(text)
        return affected | below

    def _width(self, text: str) -> tuple[int, int]:
        known = self.known.get(text)
        return (0, 0) if known is None else (len(known.filter), len(text))

    def _has_grown(self, text: str) -> bool:
        """Whether all that wanted a filter at the last update still do."""
        before = self._sources.pop(text, frozenset())
        if text not in self.held.who:
            return False
        now = self._sources[text] = frozenset(self.held.who[text])
        return before <= now

    def unnoticed(self) -> list[str]:
        """The filters that others want than at the last update."""
        who = self.held.who
        return [text for text, had in self._sources.items() if had != who.get(text, {}).keys()]

    def _add(self, text: str) -> None:
        known = known_of(text)
        if known is not None:
            self.known[text] = known
            self._unsure += known.unsure
            self._every.add(known)

    def _remove(self, text: str) -> None:
        known = self.known.pop(text, None)
        if known is not None:
            self._unsure -= known.unsure
            self._every.remove(known)
            self._rely(text, ())
            self._show(known, False)

    def _look(self, text: str) -> None:
        """Find the witnesses of a filter anew, unless those that it has are still enough."""
        known = self.known.get(text)
        if known is None:
            return
        wanting = self.held.who.get(text, {}).keys()
        sources: set[str] = set()
        for witness in self._witnesses.get(text, ()):
            sources |= self.held.who.get(witness, {}).keys()
        hidden = self._is_enough(sources, wanting)
        if not hidden:
            hidden = self._find(known, wanting, self._top)
        if not hidden and self._unsure:
            hidden = self._find(known, wanting, self._every)
        self._show(known, not hidden)

    def _find(self, known: Known, wanting: Set[str], tree: Upwards) -> bool:
        """Find witnesses in a tree; returns whether they hide a filter from every link."""
        witnesses: list[str] = []
        sources: set[str] = set()
        for other in tree.above(known):
            more = self.held.who.get(other.text, {}).keys() - sources  # it may have got lost
            if more:
                witnesses.append(other.text)
                sources |= more
                if self._is_enough(sources, wanting):
                    break
        self._rely(known.text, tuple(witnesses))
        return self._is_enough(sources, wanting)

    def _show(self, known: Known, shown: bool) -> None:
        if shown is not (known.text in self._shown.known):
            for index in (self._top, self._shown):
                (index.add if shown else index.remove)(known)

    def _is_enough(self, sources: Set[str], wanting: Set[str] | None = None) -> bool:
        """Whether a filter is hidden from every link, if these want filters above it.

        And if none but `wanting` want the filter itself.
        """
        if len(sources) > 1 or HERE in sources:
            return True
        return wanting is not None and bool(sources) and wanting <= sources

    def _rely(self, text: str, witnesses: tuple[str, ...]) -> None:
        for witness in self._witnesses.pop(text, ()):
            relying = self._relying[witness]
            del relying[text]
            if not relying:
                del self._relying[witness]
        if witnesses:
            self._witnesses[text] = witnesses
            for witness in witnesses:
                self._relying.setdefault(witness, {})[text] = None

    def cover(self, text: str, neighbour: str) -> str | None:
        """A filter above one that someone other than a neighbour wants; None if there is none."""
        for witness in self._witnesses.get(text, ()):
            if self.held.besides(witness, neighbour):
                return witness
        return None

    def by_definition(self, neighbour: str) -> set[str]:
        """The filters to tell a neighbour, by comparing all with all."""
        wanted = {text for text in self.held.who if self.held.besides(text, neighbour)}
        known = [known for text in wanted if (known := known_of(text)) is not None]
        hidden = {one.text for one in known if above_by_definition(known, one)}
        return wanted - hidden
