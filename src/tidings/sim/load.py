"""Subscriptions and events of a simulated network, and which event matches which subscription.

A subscription is drawn together with the plainest possible test of an event. The test owes nothing
to the language room, so the oracle can judge every delivery by it. Subscriptions are broad and
narrow, equal, covering and overlapping, so that pruning and reduction have something to get wrong.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

KINDS: Final = 5
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
