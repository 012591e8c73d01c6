"""Covering (S12): which filters need not be told, because one that is wider is told anyway.

A filter f is told to a link L if someone other than L wants it, and nobody other than L wants a
filter above it. Let C be all that want a filter above f. If C is empty, f is told to everyone; if C
is one neighbour, f is told to that neighbour only, since all others hear of the filter above; if it
has two members, or holds the users of this node, f is told to nobody.

So for each filter it is enough to remember at most two *witnesses*: filters above it that together
show which of the three it is. When a filter goes away, only those that it is a witness for are
looked at again. When one comes, or more sources want it, only those that are still told to someone
can be hidden by it.
`Covers.by_definition` is the slow twin.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.language.poset import Downwards, Known, Upwards, above_by_definition
from tidings.routing.reverse_path.filters import HERE, Held, filter_of


class Covers:
    """What hides the filters of a node."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.known: dict[str, Known] = {}
        self._up = Upwards()
        self._shown = Downwards()  # those that may have to be told to someone
        self._unsure = 0  # filters of which `covers` may be unsure
        self._witnesses: dict[str, tuple[str, ...]] = {}
        self._relying: dict[str, dict[str, None]] = {}  # by witness
        self._sources: dict[str, frozenset[str]] = {}  # by filter: who wanted it at the last update

    def update(self, changed: Iterable[str]) -> dict[str, None]:
        """Someone has begun or ceased to want these: all filters that may be told otherwise now."""
        again: dict[str, None] = {}
        changed = list(changed)
        for text in changed:
            again[text] = None
            relying = self._relying.get(text, {})
            if self._has_grown(text):  # what is hidden from everyone stays so
                again.update((other, None) for other in relying if other in self._shown.known)
            else:
                again.update(relying)
            if text not in self.held.who:
                self._remove(text)
        for text in changed:
            if text in self.held.who and text not in self.known:
                self._add(text)
        for text in again:
            self._look(text)
        below: dict[str, None] = {}
        for text in changed:
            # What a hidden filter covers is hidden by what hides it; unless `covers` is unsure.
            if text in self._shown.known or (text in self.known and self._unsure):
                covered = self._shown.below(self.known[text])
                below.update((other.text, None) for other in covered)
        for text in below:
            self._look(text)
        return {**again, **below}

    def _has_grown(self, text: str) -> bool:
        """Whether all that wanted a filter at the last update still do."""
        before = self._sources.pop(text, frozenset())
        if text not in self.held.who:
            return False
        now = self._sources[text] = frozenset(self.held.who[text])
        return before <= now

    def _add(self, text: str) -> None:
        filter = filter_of(text)
        if filter is not None:
            known = self.known[text] = Known(filter, text)
            self._unsure += known.unsure
            self._up.add(known)

    def _remove(self, text: str) -> None:
        known = self.known.pop(text, None)
        if known is not None:
            self._unsure -= known.unsure
            self._up.remove(known)
            self._rely(text, ())
            if text in self._shown.known:
                self._shown.remove(known)

    def _look(self, text: str) -> None:
        """Find the witnesses of a filter anew."""
        known = self.known.get(text)
        if known is None:
            return
        witnesses: list[str] = []
        sources: set[str] = set()
        for other in self._up.above(known):
            more = self.held.who.get(other.text, {}).keys() - sources  # it may have got lost
            if more:
                witnesses.append(other.text)
                sources |= more
                if self._is_enough(sources):
                    break
        self._rely(known.text, tuple(witnesses))
        shown = not self._is_enough(sources)
        if shown is not (known.text in self._shown.known):
            (self._shown.add if shown else self._shown.remove)(known)

    def _is_enough(self, sources: set[str]) -> bool:
        """Whether a filter is hidden from every link, if these want filters above it."""
        return len(sources) > 1 or HERE in sources

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
        known = [Known(filter, text) for text in wanted if (filter := filter_of(text)) is not None]
        hidden = {one.text for one in known if above_by_definition(known, one)}
        return wanted - hidden
