"""Subscriptions and events of a simulated network, and which event matches which subscription.

A subscription is drawn together with the plainest possible test of an event. The test owes nothing
to the language room, so the oracle can judge every delivery by it. Subscriptions are broad and
narrow, equal, covering and overlapping, so that pruning and reduction have something to get wrong.

There are two loads. The plain one has a small vocabulary, for which a few events show all that can
be told apart. The other draws from the whole language.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from tidings.sim import predicates

KINDS: Final = 5
LONG_SHARE: Final = 0.03  # of the subscriptions from the whole language
SAMPLES: Final = 60  # events that stand for all, where there are too many sorts
PRICES: Final = (0, 5, 10, 15)  # in subscriptions; events have those between as well
SITES: Final = ("oslo", "osaka", "lima", "lille")

Event = dict[str, Any]

# One event of each sort that subscriptions can distinguish: what holds for these holds for all.
SORTS: Final[tuple[Event, ...]] = tuple(
    {"kind": kind}
    | ({} if price is None else {"price": price})
    | ({} if site is None else {"site": site})
    for kind in range(KINDS)
    for price in (None, *(price + more for price in PRICES for more in (0, 1)))
    for site in (None, SITES[0], SITES[2])  # prefixes are too short for the others
)


class Test(NamedTuple):
    """One condition on one attribute."""

    name: str
    operator: str
    operand: int | str

    def holds(self, event: Event) -> bool:
        """Whether the event meets it."""
        value = event.get(self.name)
        if value is None:
            return False
        match self.operator:
            case "=":
                return bool(value == self.operand)
            case "<":
                return bool(value < self.operand)
            case ">":
                return bool(value > self.operand)
            case "prefix":
                return str(value).startswith(str(self.operand))
            case _:
                raise ValueError(f"no operator: {self.operator}")

    def __str__(self) -> str:
        operand = f"'{self.operand}'" if isinstance(self.operand, str) else self.operand
        return f"{self.name} {self.operator} {operand}"


class Want(NamedTuple):
    """A subscription as the oracle sees it: all tests of one of these filters must hold."""

    filters: tuple[tuple[Test, ...], ...]

    def wants(self, event: Event) -> bool:
        """Whether the event matches."""
        for filter in self.filters:
            for test in filter:
                if not test.holds(event):
                    break
            else:
                return True
        return False

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, filter)) for filter in self.filters)


class Phrase(NamedTuple):
    """A subscription from the whole language, as the oracle sees it."""

    predicate: predicates.Predicate

    def wants(self, event: Event) -> bool:
        """Whether the event matches."""
        return self.predicate.holds(event)

    def __str__(self) -> str:
        return str(self.predicate)


AnyWant = Want | Phrase


class Load:
    """Draws the subscriptions and events of a run, plain or from the whole language."""

    def __init__(self, chance: Random, whole: bool) -> None:
        self._chance = chance
        self._whole = whole

    def want(self) -> AnyWant:
        """A subscription."""
        if not self._whole:
            return draw_want(self._chance)
        size = "long" if self._chance.random() < LONG_SHARE else "usual"
        return Phrase(predicates.draw_predicate(self._chance, size))

    def event(self, number: int, held: Sequence[AnyWant]) -> Event:
        """An event; its number makes it unique. Many match one of the subscriptions held."""
        if not self._whole:
            return draw_event(self._chance, number)
        return {**self._aimed(self._chance, held), "number": number}

    def samples(self, held: Sequence[AnyWant]) -> Sequence[Event]:
        """Events to try on tables."""
        if not self._whole:
            return SORTS
        chance = Random(len(held))
        return [self._aimed(chance, held) for _ in range(SAMPLES)]

    def _aimed(self, chance: Random, held: Sequence[AnyWant]) -> Event:
        aims = [want.predicate for want in held if isinstance(want, Phrase)]
        while True:
            event = predicates.draw_event(chance, aims)
            try:
                msgspec.msgpack.encode(event)
            except OverflowError:  # an integer that no packet carries
                continue
            return event


def draw_want(chance: Random) -> Want:
    """A subscription."""
    filters = 2 if chance.random() < 0.2 else 1
    return Want(tuple(_draw_filter(chance) for _ in range(filters)))


def _draw_filter(chance: Random) -> tuple[Test, ...]:
    filter = [Test("kind", "=", chance.randrange(KINDS))]
    if chance.random() < 0.5:
        operator = "<" if chance.random() < 0.5 else ">"
        filter.append(Test("price", operator, chance.choice(PRICES)))
    if chance.random() < 0.3:
        site = chance.choice(SITES)
        filter.append(Test("site", "prefix", site[: chance.randint(1, 2)]))
    if chance.random() < 0.1:
        filter = filter[1:] or [Test("price", ">", PRICES[2])]
    return tuple(filter)


def draw_event(chance: Random, number: int) -> Event:
    """An event; its number makes it unique."""
    event: Event = {"number": number, "kind": chance.randrange(KINDS)}
    if chance.random() < 0.9:
        event["price"] = chance.randrange(20)
    if chance.random() < 0.7:
        event["site"] = chance.choice(SITES)
    return event
