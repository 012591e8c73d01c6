"""The settings of an application (L4): its two layers, and how each is configured."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct

from tidings.overlay.weights import first_nodes
from tidings.routing.layers.placement import Placement, Regions, Width, regions_for
from tidings.routing.layers.rendezvous import MOST_PLACES, Rendezvous, rendezvous_of
from tidings.routing.packets import Adapted

Count = Annotated[int, Meta(ge=1, le=1 << 20)]
Capacity = Annotated[float, Meta(ge=1e-3, le=1e3)]


_function = lru_cache(256)(rendezvous_of)


class Layering(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an application finds who wants an event, and how it gets the event there."""

    matching: Literal["everywhere", "regions", "nowhere"] = "everywhere"
    delivery: Literal["unicast", "list", "tree"] = "list"
    nodes: tuple[str, ...] = ()  # those that match, its trusted ones; none named: all
    replicas: Count = 3  # R: nodes of a region
    hops: Count = 1  # H: regions that an event visits
    regions: Annotated[int, Meta(ge=0, le=1 << 12)] = 0  # X; 0: about one for R nodes
    division: Literal["rank", "width"] = "rank"
    rendezvous: str = "one"
    unkeyed: Literal["spread", "strict"] = "spread"  # what has no single key: spread it, or refuse
    places: Count = MOST_PLACES  # keys of a subscription, before it counts as wide
    scatter: bool = False  # whether an event visits its regions at once, not one after the other
    gather: bool = False  # whether it is delivered at the end of its walk, not at each stop
    by_key: bool = True  # whether a stop asks only subscriptions with the event's key
    by_source: bool = False  # whether the events of a source take the same walk, and stay in order
    audit: Annotated[int, Meta(ge=0)] = 0  # one event in so many also visits all regions; 0: none
    seal: Literal["none", "application", "subscriber"] = "none"
    capacities: tuple[tuple[str, Capacity], ...] = ()  # of nodes that can do more than 1, or less
    adapt_ms: Annotated[int, Meta(ge=0, le=1 << 32)] = 0  # how often places follow load; 0: never
    room: Annotated[int, Meta(ge=0, le=1 << 40)] = 0  # subscriptions that a node should hold
    rate: Annotated[int, Meta(ge=0, le=1 << 40)] = 0  # events a second that a node should match

    def __post_init__(self) -> None:
        if self.capacities and self.division != "rank":
            raise ValueError(f"capacities: expected the division 'rank', found {self.division!r}")
        if self.adapt_ms and self.seal != "none":
            raise ValueError(
                f"adapt_ms: expected 0 with seal {self.seal!r}, because nodes would tell all "
                "others how much is published by key"
            )
        if self.gather and self.seal == "subscriber":
            raise ValueError(
                "gather: expected false with seal 'subscriber', because only the stop that finds a "
                "subscriber knows its key"
            )

    def function(self) -> Rendezvous:
        """Its rendezvous function; only `regions` needs one."""
        return _function(self.rendezvous if self.matching == "regions" else "one")

    @property
    def weights(self) -> dict[str, float]:
        """The capacity of each node that has another than 1."""
        return dict(self.capacities)

    def adapts(self) -> bool:
        """Whether places follow load (L7)."""
        return self.matching == "regions" and bool(self.adapt_ms)

    def placement(
        self, application: str, members: tuple[str, ...], adapted: Adapted | None = None
    ) -> Placement:
        """Its regions on the nodes that match, perhaps as load wants them."""
        if self.matching != "regions":
            return Placement.of(application, members, Regions(1, 1))
        weights = self.weights
        if adapted is not None and adapted.serving:
            members = first_nodes(application, members, adapted.serving, weights)
        regions = min(self.regions, len(members)) or regions_for(len(members), self.replicas)
        if self.division == "width" and self.regions:
            regions = self.regions
        shape = Regions(regions, self.hops)
        if adapted is not None and adapted.regions == regions:
            widths = {key: Width(steps, spread) for key, steps, spread in adapted.widths}
            shape = shape._replace(widths=widths)
        elif adapted is not None and self.room:
            shape = shape._replace(hops=min(self.hops, adapted.usual or self.hops))
        return Placement.of(application, members, shape, self.division, weights)


def pair(matching: str, delivery: str) -> type[Layering]:
    """The settings of applications with these two layers."""
    fields = [("matching", str, matching), ("delivery", str, delivery)]
    made: Any = msgspec.defstruct(
        f"{matching}_{delivery}", fields, bases=(Layering,), frozen=True, kw_only=True
    )
    return cast(type[Layering], made)
