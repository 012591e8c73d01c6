"""Filters as nodes tell them to each other, and who holds which.

The unit is the filter, not the predicate: covering is exact between two filters, and between
disjunctions it is not. So a node splits a predicate into the filters of its normal form. A
predicate without one, or with very many filters, stays one *atom*: nothing covers it, it covers
nothing, and it is never merged. A text that cannot be read is an atom that every event matches.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tidings.language.errors import NormalFormError
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.routing.planes.interests import predicate_of, readable

HERE: Final = ""  # stands for the users of this node among the names of neighbours
MOST_FILTERS: Final = 64  # of a predicate that is split
REMEMBERED: Final = 1 << 17


@lru_cache(REMEMBERED)
def filters_of(text: str) -> tuple[str, ...]:
    """The texts of the filters that a predicate is split into; none if nothing matches it.

    >>> filters_of("severity > 2 or site = 'Oslo' and severity > 1")
    ("severity > 1 and site = 'Oslo'", 'severity > 2')
    """
    try:
        filters = predicate_of(text).filters
    except NormalFormError:
        return (text,)
    possible = [filter for filter in filters if filter.possible()]
    if len(possible) > MOST_FILTERS:
        return (text,)
    return tuple(sorted(map(str, possible)))


@lru_cache(REMEMBERED)
def filter_of(text: str) -> Filter | None:
    """The filter that a text writes; None for an atom."""
    try:
        filters = predicate_of(readable(text)).filters
    except NormalFormError:
        return None
    return filters[0] if len(filters) == 1 and readable(text) == text else None


def matched_by(text: str) -> Predicate:
    """The predicate of a told text, as events are matched against it."""
    return predicate_of(readable(text))


class Held:
    """Which filters a node holds, and from whom: neighbours, or its own users (`HERE`)."""

    def __init__(self) -> None:
        self.who: dict[str, dict[str, None]] = {}  # by filter
        self.of: dict[str, dict[str, None]] = {}  # by neighbour

    def put(self, text: str, who: str) -> bool:
        """Someone wants a filter; returns whether that is new."""
        holders = self.who.setdefault(text, {})
        if who in holders:
            return False
        holders[who] = None
        self.of.setdefault(who, {})[text] = None
        return True

    def take(self, text: str, who: str) -> bool:
        """Someone does not want a filter any more; returns whether they did."""
        holders = self.who.get(text)
        if holders is None or who not in holders:
            return False
        del holders[who], self.of[who][text]
        if not holders:
            del self.who[text]
        if not self.of[who]:
            del self.of[who]
        return True

    def by(self, who: str) -> dict[str, None]:
        """The filters of one neighbour, or of the users here."""
        return self.of.get(who, {})

    def besides(self, text: str, neighbour: str) -> bool:
        """Whether anyone but a neighbour wants a filter."""
        holders = self.who.get(text)
        return holders is not None and len(holders) > (neighbour in holders)
