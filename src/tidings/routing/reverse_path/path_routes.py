"""Trees built by path cost (S17, the survey's VI-E): routes that come with the subscriptions.

No node floods records of its links. A node tells each neighbour, for each origin that it knows of,
what the path there costs from itself, and the path. It takes the cheapest path that its neighbours
offer, and offers that on. Costs are unique (`weight_of`), so between two nodes there is one
cheapest path, the same in both directions, and nodes need no rule for paths of equal cost.

A *distance vector* without the path would count to infinity when a node fails: two nodes would each
offer the other a path through itself. Here a node takes no path that it lies on (path vector), so
every wrong path ends, at the latest when it has passed all nodes. A node also learns from the path
whether a neighbour's next hop is itself: then the neighbour is its *child* in the origin's tree.

What an origin wants goes down its tree only, to children, with a number. When all below have it,
that number comes back up (`confirmed`).

This file knows nothing of events, links, or time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from tidings.routing.planes.topology import weight_of

MOST_HOPS: Final = 1_024  # of a path that a node takes
LINK: Final = ""  # stands for the link itself among the origins: its cost, as the other end has it
REMEMBERED: Final = 1 << 17

_encode = msgspec.json.Encoder().encode
_offers = msgspec.json.Decoder(tuple[str, int, str, int, int, tuple[str, ...]])
_wants = msgspec.json.Decoder(tuple[str, str])


class Offer(NamedTuple):
    """What a node tells a neighbour of an origin."""

    origin: str
    life: int  # of the origin
    cost: int  # from the node that tells it
    number: int  # up to which it has told this neighbour what the origin wants; 0 if not a child
    confirmed: int  # up to which all nodes below it have that; 0 if this neighbour is not above
    path: tuple[str, ...]  # from the node that tells it to the origin

    def text(self) -> str:
        """As link tables carry it."""
        origin, life, cost, number, confirmed, path = self
        return _encode((origin, life, f"{cost:x}", number, confirmed, path)).decode()


@lru_cache(REMEMBERED)
def read_offer(text: str) -> Offer | None:
    """The offer that a text writes; None if it writes none."""
    try:
        origin, life, digits, number, confirmed, path = _offers.decode(text)
        cost = int(digits, 16)
    except (msgspec.MsgspecError, ValueError):
        return None
    whole = path[-1:] == ((origin,) if origin != LINK else ()) and len(path) <= MOST_HOPS
    if not whole or min(cost, number, confirmed) < 0:
        return None
    return Offer(origin, life, cost, number, confirmed, path)


def want_text(origin: str, predicate: str) -> str:
    """As link tables carry one predicate that an origin wants."""
    return _encode((origin, predicate)).decode()


@lru_cache(REMEMBERED)
def read_want(text: str) -> tuple[str, str] | None:
    """The origin and the predicate that a text writes; None if it writes none."""
    try:
        return _wants.decode(text)
    except msgspec.MsgspecError:
        return None


class Route(NamedTuple):
    """How a node reaches an origin."""

    via: str  # the neighbour that comes next; the node itself, if it is the origin
    life: int
    cost: int
    path: tuple[str, ...]  # from this node
    number: int  # up to which this node has what the origin wants


class PathRoutes:
    """The routes of one node, from what its neighbours offer."""

    def __init__(self, node: str, life: int) -> None:
        self.node = node
        self.life = life
        self.number = 0  # of what this node itself wants
        self.costs: dict[str, int] = {}  # of the links in use, as this end has them
        self.offers: dict[str, dict[str, Offer]] = {}  # by neighbour and origin
        self.wants: dict[str, dict[str, dict[str, None]]] = {}  # by neighbour and origin
        self.routes: dict[str, Route] = {}  # by origin
        self.changed: dict[str, None] = {}  # origins to look at again
        self.hop: dict[str, str] = {}  # by origin

    # What neighbours tell

    def open(self, neighbour: str, cost: int) -> None:
        """A link comes into use."""
        self.costs[neighbour] = cost
        self.offers[neighbour], self.wants[neighbour] = {}, {}
        self.changed.update(dict.fromkeys((self.node, *self.routes)))

    def close(self, neighbour: str) -> None:
        """A link goes out of use."""
        self.changed.update(dict.fromkeys((self.node, *self.routes, *self.offers[neighbour])))
        del self.costs[neighbour], self.offers[neighbour], self.wants[neighbour]

    def offer(self, neighbour: str, offer: Offer) -> None:
        """A neighbour offers a path, or the same at other terms."""
        if offer.path[:1] not in ((neighbour,), ()):
            return
        self.offers[neighbour][offer.origin] = offer
        self._change(neighbour, offer.origin)

    def withdraw(self, neighbour: str, offer: Offer) -> None:
        """A neighbour takes an offer back, unless it has made another since."""
        if self.offers[neighbour].get(offer.origin) == offer:
            del self.offers[neighbour][offer.origin]
            self._change(neighbour, offer.origin)

    def _change(self, neighbour: str, origin: str) -> None:
        self.changed[origin] = None
        if origin == LINK:  # all that the neighbour offers has another cost now
            self.changed.update(dict.fromkeys(self.offers[neighbour]))

    def want(self, neighbour: str, origin: str, predicate: str) -> None:
        """A neighbour says what an origin wants."""
        self.wants[neighbour].setdefault(origin, {})[predicate] = None
        self.changed[origin] = None

    def unwant(self, neighbour: str, origin: str, predicate: str) -> None:
        """A neighbour says what an origin wants no more, or that this node is not below it."""
        self.wants[neighbour].get(origin, {}).pop(predicate, None)
        self.changed[origin] = None

    # What follows

    def look(self, origin: str) -> bool:
        """Find the route to an origin anew; returns whether neighbours must hear of another."""
        before = self.routes.get(origin)
        found = self.find(origin)
        if found is None:
            self.routes.pop(origin, None)
            self.hop.pop(origin, None)
        else:
            self.routes[origin] = found
            if origin != self.node:
                self.hop[origin] = found.via
        return (found and found[:4]) != (before and before[:4])

    def find(self, origin: str) -> Route | None:
        """The cheapest path that neighbours offer."""
        if origin == self.node:
            return Route(self.node, self.life, 0, (self.node,), self.number)
        best: Route | None = None
        for neighbour, offers in self.offers.items():
            offer, weight = offers.get(origin), self.weight(neighbour)
            if offer is None or weight is None or origin == LINK or not self.may_take(offer):
                continue
            cost = offer.cost + weight
            if best is None or self.is_better(cost, best.cost):
                path = (self.node, *offer.path)
                best = Route(neighbour, offer.life, cost, path, offer.number)
        return best

    def may_take(self, offer: Offer) -> bool:
        """Whether a path does not come back here."""
        return self.node not in offer.path and len(offer.path) < MOST_HOPS

    def is_better(self, cost: int, best: int) -> bool:
        """Whether a path is cheaper than another."""
        return cost < best

    def weight(self, neighbour: str) -> int | None:
        """The unique weight of a link, the same at both ends; None until the other has told its."""
        theirs = self.offers[neighbour].get(LINK)
        if theirs is None:
            return None
        low, high = min(self.node, neighbour), max(self.node, neighbour)
        return self.weigh(low, high, max(self.costs[neighbour], theirs.cost))

    def weigh(self, low: str, high: str, cost: int) -> int:
        """The cost of a link, made unique so that there are no ties."""
        return weight_of(low, high, cost)

    def is_child(self, neighbour: str, origin: str) -> bool:
        """Whether the path of a neighbour to an origin comes here next."""
        offer = self.offers[neighbour].get(origin)
        route = self.routes.get(origin)
        if offer is None or route is None or offer.life != route.life:
            return False
        return len(offer.path) > 1 and offer.path[1] == self.node

    def children(self, origin: str) -> list[str]:
        """The neighbours below this node in an origin's tree."""
        return [name for name in self.costs if self.is_child(name, origin)]

    def confirmed(self, origin: str) -> int:
        """Up to which number all nodes below have what an origin wants.

        A neighbour that does not know the origin yet may become a child.
        """
        route = self.routes.get(origin)
        if route is None:
            return 0
        found = route.number
        for name in self.costs:
            if name != route.via:
                offer = self.offers[name].get(origin)
                if offer is None or offer.life != route.life:
                    return 0
                if self.is_child(name, origin):
                    found = min(found, offer.confirmed)
        return found

    def wanted(self, origin: str) -> Mapping[str, None]:
        """What an origin wants, as the neighbour says that leads there."""
        route = self.routes.get(origin)
        return {} if route is None else self.wants.get(route.via, {}).get(origin, {})

    def offer_for(self, neighbour: str, origin: str) -> Offer | None:
        """What to tell a neighbour of an origin."""
        route = self.routes.get(origin)
        if route is None:
            return None
        child = self.is_child(neighbour, origin)
        confirmed = self.confirmed(origin) if neighbour == route.via else 0
        number = route.number if child else 0
        return Offer(origin, route.life, route.cost, number, confirmed, route.path)

    def link_offer(self, neighbour: str) -> Offer:
        """What to tell a neighbour of the link itself."""
        return Offer(LINK, self.life, self.costs[neighbour], 0, 0, ())

    def texts_for(
        self, neighbour: str, origin: str, own: Mapping[str, None]
    ) -> Iterator[tuple[str, bool]]:
        """What link tables carry to a neighbour for an origin: texts, and whether one is a want."""
        offer = self.offer_for(neighbour, origin)
        if offer is None:
            return
        yield offer.text(), False
        if self.is_child(neighbour, origin):
            for predicate in own if origin == self.node else self.wanted(origin):
                yield want_text(origin, predicate), True
