"""Advertisements (S11): what is published where, so that filters go only to links that matter.

Advertisements are told exactly as subscriptions are, and kept by link. A filter is told to a link
if some advertisement of that link *meets* it: some event may match both. Nothing that is wanted is
forgotten because nobody advertises it; it is looked at again when an advertisement comes.

An advertisement is in force once its change has settled: then every subscription that it draws has
come back to this node. It is withdrawn a while after its user gives it up, so that its last events
do not find the tables empty. Who publishes what no advertisement in force here covers, publishes
under an implicit one, `true`: its events wait until that is in force. A node begins with it, and
keeps it while it has no other, or has needed it recently.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tidings.language.filter import Filter
from tidings.routing.planes.interests import EVERYTHING, predicate_of
from tidings.routing.protocol import SECOND, earliest
from tidings.routing.reverse_path.filters import HERE, Held, filter_of, filters_of
from tidings.routing.reverse_path.knobs import Advertising, Knobs

IMPLICIT: Final = ""  # the id of the implicit advertisement
KEPT: Final = 2 * SECOND  # for which an implicit advertisement stays that was needed


class Own:
    """An advertisement of a user here."""

    __slots__ = ("before", "in_force", "predicate", "said", "turn", "until")

    def __init__(self, predicate: str, turn: int) -> None:
        self.predicate = predicate
        self.turn = turn  # tells it from a former one of the same id
        self.in_force = False
        self.said = False  # whether its user has heard that it is in force
        self.before: Own | None = None  # what it replaces, while it is not in force
        self.until: int | None = None  # when it is withdrawn

    def covers(self, event: dict[str, Any]) -> bool:
        """Whether it, or what it replaces, is in force and matches an event."""
        if self.in_force:
            return predicate_of(self.predicate).matches(event)
        return self.before is not None and self.before.covers(event)


class Advertised:
    """What is advertised, here and behind each link."""

    def __init__(self, knobs: Knobs, lingering: int) -> None:
        self.active = isinstance(knobs, Advertising)
        self.single = isinstance(knobs, Advertising) and knobs.values == "single"
        self.implies = isinstance(knobs, Advertising) and knobs.unadvertised == "implicit"
        self.held = Held()
        self.news: dict[str, None] = {}  # links that must hear of changes
        self.retold: dict[str, None] = {}  # links behind which another set is advertised now
        self.turn = 0
        self._most = knobs.most_told
        self._past: set[str] = set()  # links with more to tell than that
        self._linger = lingering
        self._own: dict[str, Own] = {}
        self._former: list[Own] = []  # that are given up, and not withdrawn yet
        self._met: dict[str, dict[str, bool]] = {}  # by link and filter, as it was found
        if self.implies:
            implicit = self._own[IMPLICIT] = Own(EVERYTHING, 0)
            implicit.in_force = implicit.said = True
            self.held.put(EVERYTHING, HERE)

    # Users

    def advertise(self, id: str, predicate: str, now: int) -> bool:
        """A user advertises; returns whether neighbours must hear of it.

        What it replaces stays in force until this is.
        """
        self.turn += 1
        own = Own(predicate, self.turn)
        former = self._own.get(id)
        if former is not None:
            own.before = former if former.in_force else former.before
        self._own[id] = own
        implicit = self._own.get(IMPLICIT)
        if implicit is not None and implicit.until is None:
            implicit.until = now + KEPT
        return self._gather()

    def unadvertise(self, id: str, now: int) -> bool:
        """A user gives an advertisement up; returns whether neighbours must hear of it."""
        former = self._own.pop(id, None)
        if former is None:
            return False
        self._give_up(former, now)
        return self.implies and not any(self._own) and self.imply(now)

    def _give_up(self, own: Own | None, now: int) -> None:
        """Withdraw an advertisement, and what it replaces, after a while."""
        while own is not None:
            own.until = now + self._linger
            self._former.append(own)
            own = own.before

    def imply(self, now: int) -> bool:
        """Something else is published here; returns whether neighbours must hear of it."""
        implicit = self._own.get(IMPLICIT)
        until = now + KEPT if any(self._own) else None
        if implicit is not None:
            implicit.until = until
            return False
        self.turn += 1
        implicit = self._own[IMPLICIT] = Own(EVERYTHING, self.turn)
        implicit.until = until
        return self._gather()

    @property
    def implied(self) -> int | None:
        """The turn of the implicit advertisement, if there is one and it is not in force."""
        implicit = self._own.get(IMPLICIT)
        return None if implicit is None or implicit.in_force else implicit.turn

    def settle(self, id: str, turn: int, now: int) -> bool:
        """An advertisement has settled; returns whether it is still there, and was not before."""
        own = self._own.get(id)
        if own is None or own.turn != turn:
            return False
        news = not own.said
        own.in_force = own.said = True
        self._give_up(own.before, now)
        own.before = None
        return news

    def unsettle(self) -> list[tuple[str, int]]:
        """The node joins a network: nothing is in force; returns what is to settle."""
        for own in self._own.values():
            own.in_force = False
        return [(id, own.turn) for id, own in self._own.items()]

    def covers(self, event: dict[str, Any], explicitly: bool = False) -> bool:
        """Whether an advertisement in force here covers an event."""
        if not self.active:
            return True
        several = self.single and any(isinstance(value, list | dict) for value in event.values())
        for id, own in self._own.items():
            if id != IMPLICIT and not several and own.covers(event):
                return True
        implicit = self._own.get(IMPLICIT)
        return implicit is not None and implicit.in_force and not explicitly

    def allows(self, event: dict[str, Any], now: int) -> bool:
        """The same; the implicit one stays longer, if it is needed for that."""
        if not self.covers(event):
            return False
        implicit = self._own.get(IMPLICIT)
        if implicit is not None and implicit.until is not None and not self.covers(event, True):
            implicit.until = now + KEPT
        return True

    def _gather(self) -> bool:
        """Hold what is advertised here; returns whether that has changed."""
        mine = [*self._own.values(), *self._former]
        mine += [own.before for own in mine if own.before is not None]
        wanted = {text for own in mine for text in filters_of(own.predicate)}
        changed = [self.held.put(text, HERE) for text in sorted(wanted)]
        gone = [text for text in self.held.by(HERE) if text not in wanted]
        for text in gone:
            self.held.take(text, HERE)
        return any(changed) or bool(gone)

    # Neighbours

    def take(self, name: str, added: Iterable[str], withdrawn: Iterable[str]) -> bool:
        """A neighbour tells a change; returns whether others must hear of it."""
        changed = [self.held.put(text, name) for text in added]
        changed += [self.held.take(text, name) for text in withdrawn]
        if not any(changed):
            return False
        self._met.pop(name, None)
        self.retold[name] = None
        return True

    def lose(self, name: str) -> bool:
        """A link is down; returns whether others must hear of it."""
        gone = list(self.held.by(name))
        for text in gone:
            self.held.take(text, name)
        self._met.pop(name, None)
        self._past.discard(name)
        self.retold.pop(name, None)
        self.news.pop(name, None)
        return bool(gone)

    def meets(self, text: str, name: str) -> bool:
        """Whether something advertised behind a link may match a filter."""
        if not self.active:
            return True
        met = self._met.setdefault(name, {})
        found = met.get(text)
        if found is None:
            found = met[text] = self.meeting(text, self.held.by(name))
        return found

    def meeting(self, text: str, advertised: Iterable[str]) -> bool:
        """Whether some advertisement meets a filter."""
        filter = filter_of(text)
        return any(self._meet(filter, one) for one in advertised)

    def _meet(self, filter: Filter | None, advertised: str) -> bool:
        other = filter_of(advertised)
        if filter is None or other is None or not other:
            return True
        return filter.intersects(other, lists=not self.single)

    def has_news_for(self, name: str, told: dict[str, None]) -> bool:
        """Whether to look what to advertise to a neighbour; it must hear of something at first."""
        return self.active and (name in self.news or not told)

    def news_for(self, name: str, told: dict[str, None]) -> tuple[list[str], list[str]]:
        """What to advertise to a neighbour, and what to withdraw."""
        if not self.has_news_for(name, told):
            return [], []
        self.news.pop(name, None)
        wanted = self.told_to(name)
        more = [text for text in wanted if text not in told]
        kept = frozenset(wanted)
        return more, [text for text in told if text not in kept]

    def told_to(self, name: str) -> list[str]:
        """All that a neighbour is to have been told; `true`, if that is too much."""
        wanted = [text for text in self.held.who if self.held.besides(text, name)]
        if 4 * len(wanted) > (3 if name in self._past else 4) * self._most:
            self._past.add(name)
            return [EVERYTHING]
        self._past.discard(name)
        return wanted if self.active else []

    # Time

    def wake(self, now: int) -> bool:
        """Withdraw what was given up; returns whether neighbours must hear of it."""
        due = [own for own in self._former if own.until is not None and now >= own.until]
        implicit = self._own.get(IMPLICIT)
        if implicit is not None and implicit.until is not None and now >= implicit.until:
            del self._own[IMPLICIT]
            self._give_up(implicit, now)
        if not due:
            return False
        self._former = [own for own in self._former if own not in due]
        return self._gather()

    def timer(self) -> int | None:
        """When to wake."""
        found: int | None = None
        for own in (*self._former, *self._own.values()):
            found = earliest(found, own.until)
        return found

    def snapshot(self) -> dict[str, list[str]]:
        """What is advertised, and by whom."""
        return {text: sorted(who) for text, who in sorted(self.held.who.items())}
