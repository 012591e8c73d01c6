"""Which rendezvous function suits an application (L3)? Its subscriptions and events are asked.

A good one gives most subscriptions few keys, and spreads events evenly over the regions. `choose`
tries every attribute that subscriptions test, by hash and by range, and ranks the functions by the
product of two shares: the subscriptions that are not wide, and the mean load of a region by the
largest (1 / I, where I is the imbalance of paper L).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple

from tidings.language.errors import NormalFormError
from tidings.language.event import lookup
from tidings.language.predicate import Predicate
from tidings.routing.layers.rendezvous import (
    MOST_PLACES,
    ByHash,
    ByRange,
    One,
    Rendezvous,
    keys_of,
    placed,
    wide,
)

ATTRIBUTES: Final = 16  # that are tried: those that most subscriptions test
CUTS: Final = 4  # of a range, for each region, at most


class Suited(NamedTuple):
    """How a rendezvous function suits a sample of subscriptions and events."""

    text: str  # as `rendezvous` in the settings of an application
    keyed: float  # the share of subscriptions with at most so many keys as are allowed
    keys: float  # of a keyed subscription, on average
    spread: float  # the mean load of a region by the largest, for events

    @property
    def score(self) -> float:
        """The larger the better, at most 1."""
        return self.keyed * self.spread


def choose(
    subscriptions: Sequence[Predicate],
    events: Sequence[Mapping[str, Any]],
    regions: int,
    most: int = MOST_PLACES,
) -> list[Suited]:
    """The rendezvous functions that may suit, the best first.

    >>> from tidings.language.predicate import parse
    >>> wants = [parse(f"topic = 't{n}' and size > {n}") for n in range(20)]
    >>> sample = [{"topic": f"t{n % 20}", "size": 5} for n in range(200)]
    >>> best = choose(wants, sample, 4, most=2)[0]
    >>> best.text.split(":")[1], best.keyed
    ('topic', 1.0)
    """
    found = [_suited("one", One(), subscriptions, events, regions, most)]
    for name in _attributes(subscriptions):
        found.append(_suited(f"hash:{name}", ByHash(name), subscriptions, events, regions, most))
        cuts = _cuts(name, events, regions)
        if cuts:
            text = f"range:{name}:{','.join(map(str, cuts))}"
            found.append(_suited(text, ByRange(name, cuts), subscriptions, events, regions, most))
    return sorted(found, key=lambda one: (-one.score, one.keys, one.text))


def _attributes(subscriptions: Iterable[Predicate]) -> list[str]:
    """The attributes that most subscriptions test, not negated."""
    tested: Counter[str] = Counter()
    for predicate in subscriptions:
        try:
            filters = predicate.filters
        except NormalFormError:
            continue
        tested.update({c.name for one in filters for c in one if c.name and not c.negated})
    return [name for name, _ in tested.most_common(ATTRIBUTES)]


def _cuts(name: str, events: Iterable[Mapping[str, Any]], regions: int) -> list[Any]:
    """Values that divide events evenly; none if there are too few, or of several kinds."""
    values = [value for event in events for value in lookup(event, name)]
    texts = [v for v in values if isinstance(v, str) and "," not in v and "|" not in v]
    numbers = [
        v for v in values if not isinstance(v, str | bool | bytes) and isfinite(v) and v is not None
    ]
    some: list[Any] = sorted(texts if len(texts) > len(numbers) else numbers)
    count = CUTS * regions
    found = {some[len(some) * place // count] for place in range(1, count)} if some else set()
    return sorted(found - {some[0]} if some else found)


def _suited(
    text: str,
    function: Rendezvous,
    subscriptions: Sequence[Predicate],
    events: Sequence[Mapping[str, Any]],
    regions: int,
    most: int,
) -> Suited:
    places = [placed(function, predicate, regions, most) for predicate in subscriptions]
    keyed = [keys for keys in places if wide(regions) not in keys]
    load: Counter[int] = Counter()
    for event in events:
        load.update(key % regions for key in keys_of(function, event, regions))
    mean = load.total() / regions
    return Suited(
        text,
        len(keyed) / len(places) if places else 1.0,
        sum(map(len, keyed)) / len(keyed) if keyed else 0.0,
        mean / max(load.values()) if load else 1.0,
    )
