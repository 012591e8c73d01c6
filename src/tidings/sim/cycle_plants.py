"""Bugs planted where links form cycles (S17): rows of `CYCLE_BUGS`."""

from __future__ import annotations

from functools import partial
from typing import Final

from tidings.routing.planes.once import Numbered, Once
from tidings.routing.planes.topology import UNIT
from tidings.routing.reverse_path.path_cost import PathCostRouter
from tidings.routing.reverse_path.path_routes import Offer, PathRoutes
from tidings.routing.source_trees.content import ContentRouter
from tidings.routing.source_trees.cycle_covers import CycleCovers
from tidings.sim.reverse_path_plants import Bug


class NeverStale(CycleCovers):
    def replied(self, asker: str, neighbour: str, reply: str) -> None:
        pass


class StaleCover(ContentRouter):
    """Goes on counting on what an issuer has given up."""

    covers_of = NeverStale


class HastyCovers(CycleCovers):
    def sent(self, issuer: str, number: int, neighbour: str, predicate: str) -> None:
        super().sent(issuer, number, neighbour, predicate)
        super().confirmed(issuer, number, neighbour)


class CoverUnconfirmed(ContentRouter):
    """Counts on an advertisement that nobody has confirmed."""

    covers_of = HastyCovers


class ReversedCovers(CycleCovers):
    def serves(self, other: str, issuer: str, neighbour: str) -> bool:
        return self.below.of(other, neighbour) <= self.below.of(issuer, neighbour)


class ConditionReversed(ContentRouter):
    """Lets an issuer whom fewer nodes reach over a link cover for one whom more do."""

    covers_of = ReversedCovers


class CoversAnywhere(CycleCovers):
    def serves(self, other: str, issuer: str, neighbour: str) -> bool:
        return True


class CoverOnAnyPath(ContentRouter):
    """Lets any issuer behind a link cover for any other, as decision 4 forbids."""

    covers_of = CoversAnywhere


class AnyPath(PathRoutes):
    def may_take(self, offer: Offer) -> bool:
        return True


class PathsThroughItself(PathCostRouter):
    """Takes a path that comes back to this node: neighbours count to infinity."""

    routes_of = AnyPath


class TiedRoutes(PathRoutes):
    def weigh(self, low: str, high: str, cost: int) -> int:
        return cost * UNIT


class TiesByArrival(PathCostRouter):
    """Of two paths that cost the same, takes the one that was offered first."""

    routes_of = TiedRoutes


class ShyRoutes(PathRoutes):
    def offer_for(self, neighbour: str, origin: str) -> Offer | None:
        shy = origin == self.node and not self.number
        return None if shy else super().offer_for(neighbour, origin)


class OnlySubscribersAnnounce(PathCostRouter):
    """Announces itself only once someone here subscribes: publishers have no trees."""

    routes_of = ShyRoutes


class TrustingRoutes(PathRoutes):
    def confirmed(self, origin: str) -> int:
        route = self.routes.get(origin)
        return 0 if route is None else route.number


class ConfirmedByItself(PathCostRouter):
    """Confirms what it has itself, whatever nodes below it have."""

    routes_of = TrustingRoutes


class LastingOffers(PathRoutes):
    def withdraw(self, neighbour: str, offer: Offer) -> None:
        pass


class OffersNotWithdrawn(PathCostRouter):
    """Keeps a path that a neighbour offers no more."""

    routes_of = LastingOffers


class EveryCopy(Once):
    def first(self, publication: Numbered) -> bool:
        return True


class CopiesPass(PathCostRouter):
    """Passes every copy of an event on, where entries lead in circles."""

    once_of = EveryCopy


CYCLE_BUGS: Final[dict[str, Bug]] = {
    "stale cover": Bug("cbcb:covering=bridges", StaleCover),
    "cover unconfirmed": Bug("cbcb:covering=bridges", CoverUnconfirmed),
    "cover condition reversed": Bug("cbcb:covering=paths", ConditionReversed),
    "cover on any path": Bug("cbcb:covering=paths", CoverOnAnyPath),
    "paths through itself": Bug("path-cost", PathsThroughItself),
    "ties by arrival": Bug("path-cost", TiesByArrival),
    "only subscribers announce": Bug("path-cost", OnlySubscribersAnnounce),
    "confirmed by itself": Bug("path-cost", ConfirmedByItself),
    "offers not withdrawn": Bug("path-cost", OffersNotWithdrawn),
    "copies pass": Bug("path-entries", partial(CopiesPass, notify="entries")),
}
