"""The delivery layer (L1): how does an event get to the nodes that want it?

Its one verb is the paper's, `send(message, destinations)`. It looks neither at the event nor at any
subscription. The rows of `DELIVERY`:

- `unicast`: a copy for each destination, on the shortest path;
- `list`: one packet with the list of destinations, divided at every hop (DRP, MEDYM);
- `tree`: to all nodes, on the sender's broadcast tree; the list matters only at the ends. Where
  nearly all nodes are destinations it needs the fewest bytes. A node that does not know the view by
  which the tree was computed sends the event over every link, and so do all after it: some packets
  too many while links change, and nobody is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from tidings.routing.layers.lists import Lists
from tidings.routing.packets import Consignment, Payload, Spread
from tidings.routing.planes.once import Once
from tidings.routing.protocol import Action, Drop, Send

MOST_APPLICATIONS: Final = 256  # whose events a node tells apart from those that it has passed on


class DeliveryLayer(Protocol):
    """One node's part in the delivery layer of an application."""

    def send(
        self, payload: Payload, destinations: tuple[str, ...], now: int, out: list[Action]
    ) -> None:
        """Get an event to other nodes."""


class Unicast:
    """A copy for each destination."""

    def __init__(self, application: str, lists: Lists, spreading: Spreading) -> None:
        self.application = application
        self.lists = lists

    def send(
        self, payload: Payload, destinations: tuple[str, ...], now: int, out: list[Action]
    ) -> None:
        """Get an event to other nodes."""
        consignment = Consignment(self.application, payload)
        for destination in destinations:
            self.lists.send((destination,), consignment, now, out)


class ByList:
    """One packet with the list of destinations."""

    def __init__(self, application: str, lists: Lists, spreading: Spreading) -> None:
        self.application = application
        self.lists = lists

    def send(
        self, payload: Payload, destinations: tuple[str, ...], now: int, out: list[Action]
    ) -> None:
        """Get an event to other nodes."""
        self.lists.send(destinations, Consignment(self.application, payload), now, out)


class ByTree:
    """To all nodes, on the sender's tree."""

    def __init__(self, application: str, lists: Lists, spreading: Spreading) -> None:
        self.application = application
        self.spreading = spreading

    def send(
        self, payload: Payload, destinations: tuple[str, ...], now: int, out: list[Action]
    ) -> None:
        """Get an event to other nodes."""
        if destinations:
            self.spreading.send(self.application, payload, out)


class Spreading:
    """One node's part in spreading events on trees, for all applications."""

    once_of: type[Once] = Once

    def __init__(self, lists: Lists) -> None:
        self.lists = lists
        # By application: how far one may be behind another is nobody's concern.
        self._once: dict[str, Once] = {}
        self._numbers: Counter[str] = Counter()

    def send(self, application: str, payload: Payload, out: list[Action]) -> None:
        """Send an event to all nodes, from here."""
        plane = self.lists.plane
        self._numbers[application] += 1
        number, digest = self._numbers[application], plane.routes.digest
        spread = Spread(application, plane.node, plane.life, number, digest, False, payload)
        self._is_first(spread)
        self._pass_on(spread, None, out)

    def received(self, neighbour: str, spread: Spread, out: list[Action]) -> bool:
        """Pass an event on; False if it has been here before."""
        if not self._is_first(spread):
            out.append(Drop("a duplicate", spread))
            return False
        self._pass_on(spread, neighbour, out)
        return True

    def _is_first(self, spread: Spread) -> bool:
        once = self._once.get(spread.application)
        if once is None:
            if len(self._once) >= MOST_APPLICATIONS:
                del self._once[next(iter(self._once))]
            once = self._once[spread.application] = self.once_of()
        return once.first(spread)

    def _pass_on(self, spread: Spread, but: str | None, out: list[Action]) -> None:
        routes = self.lists.find(spread.topology)
        neighbours = self.lists.plane.neighbours
        if routes is not None and not spread.everywhere:
            children = routes.children(spread.source)
            if all(map(neighbours.is_up, children)):
                out.extend(Send(child, spread) for child in children)
                return
        if not spread.everywhere:
            spread = msgspec.structs.replace(spread, everywhere=True)
        out.extend(Send(name, spread) for name in neighbours.up() if name != but)


class Carriage(NamedTuple):
    """A row of `DELIVERY`."""

    make: Callable[[str, Lists, Spreading], DeliveryLayer]
    idea: str


DELIVERY: Final[dict[str, Carriage]] = {
    "unicast": Carriage(Unicast, "a copy for each destination"),
    "list": Carriage(ByList, "one packet with the list of destinations"),
    "tree": Carriage(ByTree, "to all nodes, on the sender's tree"),
}
