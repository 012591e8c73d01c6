"""One search an event: the subscriptions of a node and the interests behind its links together.

A live router asks two questions about each event: which of its links want it, and which of its own
subscriptions it matches. A board holds both in one matcher and answers both from one search, which
it remembers for the event just asked about. Of many events that come together it can `look_ahead`:
it searches for all of them at once, and remembers what it found until something changes.

The predicate of an interface is large and changes often. A long one is held filter by filter, so a
change adds and removes only the filters that differ. The board compares the table with the one it
holds when it is asked, so many changes between two events cost one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tidings.language.errors import NormalFormError
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.routing.planes.interests import EVERYTHING, LONG, NOTHING, predicate_of

Part = Filter | str  # what an interface holds in the matcher: filters, or its whole predicate


class Index(Protocol):
    """What a board needs of a matcher."""

    def add(self, id: int, predicate: Predicate, /) -> None:
        """Add a predicate."""

    def remove(self, id: int, /) -> None:
        """Remove a predicate."""

    def match(self, event: dict[str, Any], /) -> Any:
        """The ids of the predicates that an event matches."""

    def match_each(self, events: Sequence[dict[str, Any]], /) -> Any:
        """The same for many events: the ids by the place of the event, where there are any."""


class Board:
    """Subscriptions by number, from 0 up, and the interests of interfaces, in one matcher.

    >>> from tidings.matching.scan import Scan
    >>> board = Board(Scan())
    >>> board.add(7, predicate_of("severity > 2"))
    >>> event = {"severity": 3}
    >>> board.links(event, {"b": "severity > 1", "c": "severity > 5"}), board.numbers(event)
    ({'b'}, [7])
    """

    def __init__(self, matcher: Index) -> None:
        self._matcher = matcher
        self._table: dict[str, str] = {}  # what the matcher holds, by interface
        self._parts: dict[str, dict[Part, int]] = {}  # and under which numbers, all below 0
        self._interface_of: dict[int, str] = {}
        self._always: set[str] = set()  # interfaces that want everything
        self._last = 0
        self.changes = 0  # of what the matcher holds; later ones may be wanted by others
        self._event: dict[str, Any] | None = None  # the one just asked about, and what was found
        self._links: set[str] = set()
        self._numbers: list[int] = []
        self._ahead: Sequence[dict[str, Any]] = ()  # events that come next,
        self._found: dict[int, list[int]] = {}  # and what was found for some of them, by `id`

    def add(self, number: int, predicate: Predicate) -> None:
        """Add a subscription."""
        self._forget()
        self._matcher.add(number, predicate)

    def remove(self, number: int) -> None:
        """Remove a subscription."""
        self._forget()
        self._matcher.remove(number)

    def numbers(self, event: dict[str, Any]) -> list[int]:
        """The numbers of the subscriptions that an event matches."""
        if event is not self._event:
            self._search(event)
        return self._numbers

    def links(self, event: dict[str, Any], table: dict[str, str]) -> set[str]:
        """The interfaces of a table whose predicate an event matches."""
        if table != self._table:
            self._take(table)
        if event is not self._event:
            self._search(event)
        return self._links

    def look_ahead(self, events: Sequence[dict[str, Any]], table: dict[str, str]) -> Sequence[int]:
        """The places of the events that a subscription or an interface of a table may want."""
        if table != self._table:
            self._take(table)
        if self._always:
            return range(len(events))
        found = self._matcher.match_each(events)
        self._ahead = events  # kept, so that no other event has the `id` of one of them
        self._found = {id(events[place]): numbers for place, numbers in found.items()}
        return list(found)

    def _forget(self) -> None:
        """Something changes: what was found is not true any more."""
        self.changes += 1
        self._event = None
        self._ahead = ()
        self._found = {}

    def _search(self, event: dict[str, Any]) -> None:
        found = self._found.pop(id(event), None)
        if found is None:
            found = self._matcher.match(event)
        self._event = event
        self._numbers = found
        self._links = self._always
        interface_of = self._interface_of
        if found and interface_of:
            links = {interface_of[number] for number in found if number < 0}
            if links:
                self._links = links | self._always
                self._numbers = [number for number in found if number >= 0]

    def _take(self, table: dict[str, str]) -> None:
        """Hold another table."""
        self._forget()
        for interface in [*self._table, *table]:
            text = table.get(interface, NOTHING)
            if self._table.get(interface, NOTHING) != text:
                self._replace(interface, text)
        self._table = dict(table)
        self._always = {interface for interface, text in table.items() if text == EVERYTHING}

    def _replace(self, interface: str, text: str) -> None:
        former = self._parts.pop(interface, {})
        parts = _parts_of(text)
        kept: dict[Part, int] = {}
        for part, predicate in parts.items():
            number = former.pop(part, None)
            if number is None:
                self._last -= 1
                number = self._last
                self._interface_of[number] = interface
                self._matcher.add(number, predicate or Predicate.of((part,)))  # type: ignore[arg-type]
            kept[part] = number
        for number in former.values():
            del self._interface_of[number]
            self._matcher.remove(number)
        if kept:
            self._parts[interface] = kept


def _parts_of(text: str) -> dict[Part, Predicate | None]:
    """What to hold for a predicate: a short one as a whole, a long one filter by filter."""
    if text in (NOTHING, EVERYTHING):
        return {}
    predicate = predicate_of(text)
    if len(text) < LONG:
        return {text: predicate}
    try:
        return dict.fromkeys(predicate.filters)
    except NormalFormError:
        return {text: predicate}
