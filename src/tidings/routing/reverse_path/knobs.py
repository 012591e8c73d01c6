"""The knobs of the one router that learns by the reverse path (S10–S14); a row turns some of them.

Which links carry subscriptions: all links of the tree, or only the one towards its root. Whether
advertisements restrict them. And the policy by which a node sums up for a link what it wants: one
for all its links, or `adaptive`, by which each link chooses its own.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tidings.routing.planes.spanning import ELECT

Policy = Literal["exact", "covering", "merging", "everything", "adaptive"]
Positive = Annotated[int, Meta(ge=1)]
Budget = Annotated[int, Meta(ge=0)]


class Knobs(Struct, frozen=True):
    """What all of them have."""

    policy: Policy = "exact"  # how a node sums up what it tells a link
    root: str = ELECT  # of the tree: a node's name, or `elect` for the smallest in reach
    uncover: Literal["at-once", "lazy"] = "at-once"  # when to withdraw what nobody wants
    most_filters: Positive = 256  # to tell a link, from which on `merging` merges
    waste: Budget = 20_000  # bytes a second that may come by a link in vain, because of merging
    most_told: Positive = 65_536  # filters to tell a link; of more, `true` is told instead
    trial: Positive = 1_024  # bytes that a link spends before `adaptive` first tries another policy


class Covering(Knobs, frozen=True):
    """S12."""

    policy: Policy = "covering"


class Merging(Knobs, frozen=True):
    """S13."""

    policy: Policy = "merging"


class Advertising(Knobs, frozen=True):
    """S11."""

    policy: Policy = "covering"
    values: Literal["lists", "single"] = "lists"  # `single`: an advertisement promises no lists
    unadvertised: Literal["implicit", "refuse"] = "implicit"  # what else is published: as `true`


class Rooted(Knobs, frozen=True):
    """S14."""

    policy: Policy = "covering"
    direction: Literal["both", "down"] = "both"  # events branch on their path up, or at the root
