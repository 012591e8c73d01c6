"""Holds the subscriptions of a router's own clients, and announces them to the network.

One table holds every subscription and decides exactly what a client gets. To the protocol the edge
gives *announcements*: the same predicates, each text once, up to `MAX_ANNOUNCEMENTS` of them and
`MAX_CHARACTERS` together. Beyond that it announces a coarser predicate, which tests only how a
string begins; beyond that, one that tests only that an attribute is present; beyond that, `true`. A
single predicate that is long is announced coarser by size. So a router with very many clients
receives more events than it needs, but does not send its neighbours a text of megabytes. The table
still decides what is delivered. A subscription is established when its announcement is.

When a client replaces a predicate, the edge keeps the old announcement until the new one is
established. At every moment one of the two attracts the events that match both predicates, and the
table matches each event once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from tidings.language.coarseness import coarser
from tidings.language.constraint import Constraint
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.matching.contract import Id, Matcher
from tidings.matching.scan import Scan
from tidings.routing.planes.board import Board
from tidings.routing.planes.interests import Bounds, compile_with, written

MAX_ANNOUNCEMENTS: Final = 512  # at each level of coarseness
MAX_CHARACTERS: Final = 131_072  # of all announcements at a level
LONGEST: Final = Bounds(characters=4_096, constants=256, filters=64)  # of one announcement
PHRASED: Final = 32  # predicates whose text is remembered until they are announced
PREFIX: Final = 2  # characters of a string that a coarse predicate tests
EVERYTHING: Final = "true"


class Matches(Matcher, Protocol):
    """A matcher that can look at many events at once."""

    def match_each(self, events: Sequence[dict[str, Any]]) -> dict[int, list[Id]]:
        """What `match` finds for each event, by its place; events without a match are left out."""


class Growing:
    """A matcher that becomes a table as soon as tables can be used.

    Tables need packages that take a while to import. A router does that in a thread, with
    `prepare`, and evaluates all predicates one by one until then.
    """

    table_of: Callable[[], Matches] | None = None

    def __init__(self) -> None:
        self._matcher: Matches = Scan()
        self._predicates: dict[Id, Predicate] = {}
        self._compiled = False

    @classmethod
    def prepare(cls) -> None:
        """Import what tables need; this takes a while, and may run in a thread."""
        from tidings.matching.table import Table

        cls.table_of = Table
        compile_with(lambda predicate: Table({0: predicate}))

    def add(self, id: Id, predicate: Predicate) -> None:
        """Add a predicate."""
        self._predicates[id] = predicate
        self._matcher.add(id, predicate)
        if not self._compiled:
            self.grow()

    def grow(self) -> None:
        """Go over to a table, if tables can be used."""
        if self._compiled or Growing.table_of is None:
            return
        self._compiled = True
        self._matcher = Growing.table_of()
        for known, one in self._predicates.items():
            self._matcher.add(known, one)

    def remove(self, id: Id) -> None:
        """Remove a predicate."""
        del self._predicates[id]
        self._matcher.remove(id)

    def match(self, event: Any) -> Any:
        """The ids of the predicates that the event matches."""
        return self._matcher.match(event)

    def match_each(self, events: Sequence[dict[str, Any]]) -> dict[int, list[Id]]:
        """The same for many events, by the place of the event, where there are any."""
        return self._matcher.match_each(events)

    def __len__(self) -> int:
        return len(self._predicates)


class Announcement:
    """A predicate announced to the network, and the subscriptions that rely on it."""

    __slots__ = ("established", "id", "level", "subscriptions", "text")

    def __init__(self, id: str, text: str, level: int) -> None:
        self.id = id
        self.text = text
        self.level = level
        self.established = False
        self.subscriptions: dict[int, None] = {}


class Edge:
    """Subscriptions by number, and announcements by text.

    The edge calls `tell` with an announcement's id and its predicate, or with None to withdraw it.
    It shares `board` with the protocol, so that both find what they need in one search.
    """

    def __init__(
        self,
        tell: Callable[[str, str | None], None],
        table: Growing,
        board: Board | None = None,
    ) -> None:
        self.board = board or Board(table)
        self.predicates: dict[int, Predicate] = {}
        self._tell = tell
        self._announcements: dict[str, Announcement] = {}
        self._by_id: dict[str, Announcement] = {}
        self._announcement_of: dict[int, list[Announcement]] = {}  # the last is the current one
        self._announced = 0  # so far; gives ids
        self._levels = [0, 0, 0, 0]  # announcements at each level of coarseness
        self._characters = [0, 0, 0, 0]  # of all announcements at each level

    def __len__(self) -> int:
        return len(self.predicates)

    @property
    def announcements(self) -> int:
        """How many predicates are announced to the network."""
        return len(self._announcements)

    def put(self, number: int, predicate: Predicate) -> bool:
        """Add a subscription or replace its predicate; return whether it is established already."""
        if number in self.predicates:
            self.board.remove(number)
        self.predicates[number] = predicate
        self.board.add(number, predicate)
        level, text = self._phrase(predicate)
        announcement = self._announcements.get(text)
        held = self._announcement_of.setdefault(number, [])
        if announcement is not None and held and held[-1] is announcement:
            return announcement.established
        new = announcement is None
        if announcement is None:
            self._announced += 1
            self._levels[level] += 1
            self._characters[level] += len(text)
            announcement = Announcement(f"a{self._announced}", text, level)
            self._announcements[text] = self._by_id[announcement.id] = announcement
        announcement.subscriptions[number] = None
        if announcement in held:
            held.remove(announcement)
        held.append(announcement)
        if new:
            self._tell(announcement.id, text)  # may establish it before this returns
        if announcement.established:
            self._release_older(number)
        return announcement.established

    def remove(self, number: int) -> None:
        """Remove a subscription."""
        if self.predicates.pop(number, None) is None:
            return
        self.board.remove(number)
        for announcement in self._announcement_of.pop(number):
            self._release(announcement, number)

    def established(self, ids: Iterable[str]) -> list[int]:
        """Mark announcements as established; return the subscriptions that now are."""
        found: list[int] = []
        for id in ids:
            announcement = self._by_id.get(id)
            if announcement is None or announcement.established:
                continue
            announcement.established = True
            for number in list(announcement.subscriptions):
                if self._announcement_of[number][-1] is announcement:
                    found.append(number)
                    self._release_older(number)
        return found

    def relying(self, ids: Iterable[str]) -> list[int]:
        """The subscriptions that rely on these announcements."""
        found = (self._by_id[id] for id in ids if id in self._by_id)
        return [number for announcement in found for number in announcement.subscriptions]

    def is_established(self, number: int) -> bool:
        """Whether every router in reach knows a subscription's announcement."""
        return self._announcement_of[number][-1].established

    def match(self, event: dict[str, Any]) -> list[int]:
        """The numbers of the subscriptions that an event matches."""
        return self.board.numbers(event)

    def _phrase(self, predicate: Predicate) -> tuple[int, str]:
        """How coarsely to announce a predicate, and the text of the announcement."""
        text = bounded(predicate)
        for level in range(3):
            if level:
                text = coarse(predicate, exactly=level == 1)
            if text in self._announcements or self._has_room(level, text):
                return level, text
        return 3, EVERYTHING

    def _has_room(self, level: int, text: str) -> bool:
        return (
            self._levels[level] < MAX_ANNOUNCEMENTS
            and self._characters[level] + len(text) <= MAX_CHARACTERS
        )

    def _release_older(self, number: int) -> None:
        """The current announcement of a subscription is established: release the older ones."""
        held = self._announcement_of[number]
        for announcement in held[:-1]:
            self._release(announcement, number)
        del held[:-1]

    def _release(self, announcement: Announcement, number: int) -> None:
        announcement.subscriptions.pop(number, None)
        if not announcement.subscriptions:
            del self._announcements[announcement.text], self._by_id[announcement.id]
            self._levels[announcement.level] -= 1
            self._characters[announcement.level] -= len(announcement.text)
            self._tell(announcement.id, None)


@lru_cache(PHRASED)
def bounded(predicate: Predicate) -> str:
    """The text of a predicate, or of a coarser one where it is long.

    A router reads predicates in a thread, and asks there first, because this may take a while.
    """
    short = len(str(predicate)) <= LONGEST.characters
    return written(predicate if short else coarser(predicate, *LONGEST))


def coarse(predicate: Predicate, exactly: bool) -> str:
    """A coarser predicate that covers this one, so that many predicates share few announcements.

    >>> from tidings.language.predicate import parse
    >>> one = parse("class = 'alert' and severity > 2 or severity > 7")
    >>> coarse(one, exactly=True)
    "class prefix 'al' or exists severity"
    >>> coarse(one, exactly=False)
    'exists class or exists severity'
    """
    kept: set[Filter] = set()
    for filter in coarser(predicate, *LONGEST).filters:
        needed = sorted((c for c in filter if c.name and not c.negated), key=_telling)
        if not needed:
            return EVERYTHING
        first = needed[0]
        if exactly and not _telling(first)[0]:
            start = str(first.operand)[:PREFIX]
            kept.add(Filter((Constraint(first.name, "prefix", "string", False, start),)))
        else:
            kept.add(Filter((Constraint(first.name, "exists", "any", False, None),)))
    return str(Predicate.of(sorted(kept)))


def _telling(constraint: Constraint) -> tuple[bool, str]:
    """A sort key: equalities with a string first, then by attribute, as they select best."""
    equality = constraint.operator == "=" and constraint.type == "string" and constraint.operand
    return not equality, constraint.name
