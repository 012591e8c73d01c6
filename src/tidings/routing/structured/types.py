"""The types of events and predicates (S15): in which trees an event goes, and a predicate lies.

A type is a value of one attribute; its number is a hash of that value, so that there are only so
many trees. Each filter of a predicate lies in the trees of the types that it names by `=` or `in`,
by one constraint of its choice: an event that matches the filter has one of these types, among
others perhaps, and goes to the trees of all of its own. A filter that names none, or too many, lies
in the directory. An event without the attribute has a tree, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

from msgspec import Meta

from tidings.language.errors import NormalFormError
from tidings.language.predicate import Predicate
from tidings.routing.layers.rendezvous import ByHash
from tidings.routing.planes.interests import predicate_of
from tidings.routing.structured.substrates import SubstrateOptions

DIRECTORY: Final = -1
MOST_TYPES: Final = 8  # that a filter may name, or else it lies in the directory


class HermesOptions(SubstrateOptions, frozen=True, forbid_unknown_fields=True):
    """How types are found, and on which overlay their trees stand."""

    type: Annotated[str, Meta(min_length=1, max_length=256)] = "class"  # the attribute
    trees: Annotated[int, Meta(ge=1, le=65_536)] = 1_024  # at most: types beyond share them


def types_of(options: HermesOptions, event: Mapping[str, Any]) -> list[int]:
    """The numbers of the types of an event.

    >>> len(types_of(HermesOptions(), {"class": ["alert", "alarm"]})), types_of(HermesOptions(), {})
    (2, [1024])
    """
    return sorted(ByHash(options.type).event(event, options.trees))


@lru_cache(1 << 14)
def placed_in(options: HermesOptions, text: str) -> Mapping[int, str]:
    """By tree, what of a predicate lies there.

    >>> placed_in(HermesOptions(trees=9), "class = 'alert' and severity > 2 or price > 5")
    {3: "class = 'alert' and severity > 2", -1: 'price > 5'}
    """
    by_hash = ByHash(options.type)
    try:
        filters = predicate_of(text).filters
    except NormalFormError:
        return {DIRECTORY: text}
    found: dict[int, list[Any]] = {}
    for filter in filters:
        keys = by_hash.places(Predicate.of((filter,)), options.trees)
        if keys is None or len(keys) > MOST_TYPES:
            keys = frozenset((DIRECTORY,))
        for key in sorted(keys):
            found.setdefault(key, []).append(filter)
    return {tree: str(Predicate.of(tuple(group))) for tree, group in found.items()}
