"""The protocols by name. A new one is a file beside this one and a row here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tidings.routing.flooding.router import FloodRouter
from tidings.routing.protocol import Protocol
from tidings.routing.reverse_path.subscription_forwarding import SubscriptionRouter
from tidings.routing.source_trees.content import ContentRouter


class Row(NamedTuple):
    """A protocol: how to make a node of it, and what it needs and promises."""

    make: Callable[..., Protocol]  # node, life, timing, topologies, matcher, board
    idea: str
    any_graph: bool = False  # or only networks without cycles
    confirms: bool = False  # whether it says when a subscription is established
    judged: bool = False  # whether the simulator holds its routes and tables to the true network


PROTOCOLS: Final[dict[str, Row]] = {
    "cbcb": Row(
        ContentRouter,
        "advertisements pushed, requests pulled, source trees (F2)",
        any_graph=True,
        confirms=True,
        judged=True,
    ),
    "subscriptions": Row(SubscriptionRouter, "subscriptions learned by the reverse path (S10)"),
    "flood": Row(
        FloodRouter,
        "every event everywhere, duplicates dropped (S1)",
        any_graph=True,
        confirms=True,
    ),
}
