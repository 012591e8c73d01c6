"""Imprecise merging within a budget (S13): fewer filters told to a link, for some waste.

A *merger* is one filter told in the place of several, its members; it covers them all. What comes
by the link and matches a merger, and nobody but that neighbour wants, has come in vain. The node
that tells a merger also gets what it attracts, and knows all members: so waste is measured where it
arrives, in bytes, and charged to the mergers that match. What a merger would attract cannot be seen
before it is told. So a merger is a trial: one window later its waste is known.

Each window, deterministically: if the waste of the link is beyond its budget, the costliest merger
is taken apart, as it was put together; far beyond it, every costly one is. If there are too many
filters and waste is well within the budget, those filters are joined that promise the least waste
on the events seen recently. What was taken apart is not joined again for a while. Between the two
pressures bandwidth wins: then more filters are told than `most_filters`, and `pressed` counts it.

A member that goes away leaves its merger as it is, until the next window makes it tight again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

from tidings.language.filter import Filter
from tidings.language.hull import hull
from tidings.routing.protocol import SECOND
from tidings.routing.reverse_path.filters import filter_of, matched_by

TUNE: Final = SECOND  # a window
COOL: Final = 10  # windows, for which what was taken apart is not joined again
SEEN: Final = 64  # events kept, to foretell waste
TRIED: Final = 128  # pairs of filters compared in a window
HASTE: Final = 4  # the share of what is too much, as a divisor, that is joined in a window


class Merger:
    """A filter told in the place of its members."""

    __slots__ = ("carried", "filter", "loose", "members", "parts", "rate", "text", "wasted")

    def __init__(self, filter: Filter, parts: tuple[Part, Part]) -> None:
        self.filter = filter
        self.text = str(filter)
        self.parts = parts  # as it was joined, to undo that
        self.members: dict[str, None] = {}
        self.loose = False  # whether a member has gone
        self.carried = 0  # packets that matched it
        self.wasted = 0  # of them, those in vain
        self.rate = 0  # bytes in vain, by window, in which older ones count less


Part = Merger | str


class Mergers:
    """What is told to one link instead of its filters."""

    def __init__(self, most_filters: int) -> None:
        self.most_filters = most_filters
        self.mergers: dict[str, Merger] = {}
        self.alone: dict[str, None] = {}
        self.rate = 0  # bytes a window that came in vain
        self.pressed = 0  # windows with more filters than `most_filters`
        self.splits = 0
        self.joins = 0
        self._merger_of: dict[str, Merger] = {}
        self._window = 0
        self._charged: dict[Merger, int] = {}
        self._cool: dict[str, int] = {}
        self._tick = 0

    def told(self) -> dict[str, None]:
        """The filters to tell."""
        return {**self.alone, **dict.fromkeys(self.mergers)}

    def merger_of(self, text: str) -> Merger | None:
        """The merger that a filter is a member of."""
        return self._merger_of.get(text)

    # Filters come and go

    def add(self, text: str) -> None:
        """Someone wants a filter."""
        filter = filter_of(text)
        if filter is not None:
            for merger in self.mergers.values():
                if merger.filter.covers(filter):
                    self._enter(text, merger)
                    return
        self.alone[text] = None

    def _enter(self, text: str, merger: Merger) -> None:
        merger.members[text] = None
        self._merger_of[text] = merger

    def remove(self, text: str) -> None:
        """Nobody wants a filter any more."""
        if text in self.alone:
            del self.alone[text]
            return
        merger = self._merger_of.pop(text)
        del merger.members[text]
        merger.loose = True
        if len(merger.members) < 2:
            self._dissolve(merger)
            self._place(merger.members)

    def _dissolve(self, merger: Merger) -> None:
        del self.mergers[merger.text]
        self._charged.pop(merger, None)
        for text in merger.members:
            del self._merger_of[text]

    def _place(self, texts: Iterable[str]) -> None:
        for text in list(texts):
            self.add(text)

    # Waste

    def note(self, event: dict[str, Any], size: int, in_vain: bool) -> None:
        """An event has come by the link; `in_vain` if nobody but the neighbour wants it."""
        if in_vain:
            self._window += size
        for merger in self.mergers.values():
            if not matched_by(merger.text).matches(event):
                continue
            merger.carried += 1
            if in_vain:
                merger.wasted += 1
                self._charged[merger] = self._charged.get(merger, 0) + size

    def tune(self, budget: int, seen: deque[dict[str, Any]]) -> None:
        """A window ends: take apart, join, or leave as it is."""
        self._tick += 1
        self.rate = (self.rate + self._window) // 2
        latest, self._window = self._window, 0
        for merger in self.mergers.values():
            merger.rate = (merger.rate + self._charged.get(merger, 0)) // 2
        self._charged.clear()
        self._tighten()
        for text in [text for text, until in self._cool.items() if until <= self._tick]:
            del self._cool[text]
        if max(self.rate, latest) > budget:
            self._take_apart(budget)
            return
        excess = len(self.alone) + len(self.mergers) - self.most_filters
        if excess > 0 and (self.rate * 10 < budget * 7 or not self.mergers) and budget:
            for _ in range(max(1, excess // HASTE)):
                if not self._join(seen):
                    break
        elif excess > 0:
            self.pressed += 1

    def _tighten(self) -> None:
        """Make mergers that have lost members as narrow as the others allow."""
        for merger in [merger for merger in self.mergers.values() if merger.loose]:
            filters = [filter for text in merger.members if (filter := filter_of(text)) is not None]
            tight = filters[0]
            for filter in filters[1:]:
                tight = hull(tight, filter)
            merger.loose = False
            if str(tight) != merger.text:
                self._dissolve(merger)
                rest = sorted(merger.members)
                self._form(tight, (rest[0], rest[1]), merger.members)

    def _form(self, filter: Filter, parts: tuple[Part, Part], members: Iterable[str]) -> Merger:
        """Tell a filter in the place of members, and of whatever else it covers."""
        merger = Merger(filter, parts)
        former = self.mergers.get(merger.text)
        if former is not None:
            self._dissolve(former)
            members = [*former.members, *members]
        self.mergers[merger.text] = merger
        for text in members:
            self._enter(text, merger)
        for text in list(self.alone):
            other = filter_of(text)
            if other is not None and filter.covers(other):
                del self.alone[text]
                self._enter(text, merger)
        return merger

    def _take_apart(self, budget: int) -> None:
        costly = [merger for merger in self.mergers.values() if merger.rate]
        costly.sort(key=lambda merger: (-merger.rate * 100 // len(merger.members), merger.text))
        for merger in costly if self.rate > 4 * budget else costly[:1]:
            self.splits += 1
            self._cool[merger.text] = self._tick + COOL
            self._dissolve(merger)
            for part in merger.parts:
                if isinstance(part, Merger):
                    mine = [
                        t for t in merger.members if part.filter.covers(filter_of(t) or Filter())
                    ]
                    if len(mine) > 1 and all(t not in self._merger_of for t in mine):
                        self._form(part.filter, part.parts, mine)
            self._place(text for text in merger.members if text not in self._merger_of)

    def _join(self, seen: deque[dict[str, Any]]) -> bool:
        """Join the two that promise the least waste; False if no two can be joined."""
        entries: list[tuple[tuple[str, ...], str, Filter]] = []
        for text in self.told():
            filter = filter_of(text)
            if filter is not None:
                entries.append((tuple(sorted({c.name for c in filter})), text, filter))
        entries.sort(key=lambda entry: entry[:2])
        beside = list(pairwise(entries))
        alike = [pair for pair in beside if pair[0][0] == pair[1][0]]
        related = [pair for pair in beside if set(pair[0][0]) & set(pair[1][0])]
        start = self._tick * TRIED % max(1, len(alike or related or beside))
        pairs = (alike or related or beside)[start : start + TRIED] or (alike or related or beside)
        best: tuple[tuple[int, int, str], Filter, str, str] | None = None
        for (_, one, mine), (_, other, theirs) in pairs[:TRIED]:
            joined = hull(mine, theirs)
            text = str(joined)
            if text in self._cool:
                continue
            check = matched_by(text)
            waste = sum(
                check.matches(event)
                and not matched_by(one).matches(event)
                and not matched_by(other).matches(event)
                for event in seen
            )
            cost = waste, len(mine) + len(theirs) - 2 * len(joined), text
            if best is None or cost < best[0]:
                best = cost, joined, one, other
        if best is None:
            return False
        self.joins += 1
        _, joined, one, other = best
        members: dict[str, None] = {}
        parts: list[Part] = []
        for text in (one, other):
            merger = self.mergers.get(text)
            if merger is not None:
                self._dissolve(merger)
                members.update(merger.members)
                parts.append(merger)
            else:
                del self.alone[text]
                members[text] = None
                parts.append(text)
        self._form(joined, (parts[0], parts[1]), members)
        return True
