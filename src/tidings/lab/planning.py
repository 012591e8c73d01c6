"""Plans (L7): R, H, X and the fewest nodes that carry an application, from the model of paper L.

The paper leaves open how an application finds its R and H, and assigns all nodes to it. A plan
takes what the application needs and what a node can do, goes through the shapes, and keeps the one
with the fewest nodes n = X * R at which

- no node stores more subscriptions than its memory holds (*memory*),
- the busiest node works at most a share `utilisation` of the time (*load*),
- 99 of 100 events are through in time, their waits included (*latency*),
- a subscription has at least as many replicas as asked for (*replicas*).

The wait of a step is that of an M/D/1 queue. Of the sum of H waits the mean and `TAIL` * sqrt(H)
times a wait more are allowed for, which for one step is the 99th percentile of an exponential.

The hottest region is reckoned with: that of the hottest key, where also the subscriptions without a
key lie. What binds a plan is the constraint without which the fewest nodes would do.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from pathlib import Path
from typing import Final

import msgspec

from tidings.lab.layer_model import waiting
from tidings.routing.layers.rendezvous import MOST_PLACES
from tidings.sim.service import MatchTime

MOST_NODES: Final = 100_000
CONSTRAINTS: Final = ("memory", "load", "latency", "replicas")
TAIL: Final = 3.6  # ln 100 - 1
HEADER_BYTES: Final = 60  # of a packet that carries an event or a subscription


class PlanError(ValueError):
    """A profile that cannot be read, or that no plan can serve; the text says what binds."""


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a node can do, and how far the next one is."""

    match_fixed_us: float = 5.0  # matching takes this,
    match_growth_us: float = 0.01  # and this for n subscriptions,
    match_exponent: float = 0.8  # times n to this power
    store_us: float = 50.0  # to store a subscription
    memory: int = 2_000_000  # subscriptions that a node holds
    hop_ms: float = 1.0  # from a node to the next
    utilisation: float = 0.6  # the share of time that the busiest node may work

    def match_time(self) -> MatchTime:
        """How long a node takes to match an event."""
        return MatchTime(
            self.match_fixed_us * 1e3, self.match_growth_us * 1e3, self.match_exponent, self.memory
        )


class Needs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an application needs: a column of Table 1, as numbers."""

    name: str
    subscriptions: int
    events_per_second: float  # when it is busiest
    event_bytes: int
    latency_ms: float
    subscription_bytes: int = 100
    renewals_per_second: float = 0.0  # subscriptions that replace others
    matched: float = 0.0  # the share of subscriptions that an event matches
    rendezvous: str = "one"  # where events and subscriptions can meet: `one` if nowhere
    hot_subscriptions: float = 0.0  # the share of the hottest key
    hot_events: float = 0.0
    width: float = 0.0  # the share of all keys that a subscription covers
    keys: float = 1.0  # keys of an event, on average
    unkeyed: float = 0.0  # the share of subscriptions that say nothing about the key
    replicas: int = 1  # at least
    nodes: Machine = Machine()


_NUMBERS: Final = {  # the least and the greatest value of what a profile states
    "subscriptions": (1, 1e12),
    "events_per_second": (0, 1e12),
    "event_bytes": (1, 1e9),
    "latency_ms": (1e-6, 1e12),
    "subscription_bytes": (1, 1e9),
    "renewals_per_second": (0, 1e12),
    "keys": (1, 1e3),
    "replicas": (1, MOST_NODES),
    "match_fixed_us": (0, 1e9),
    "match_growth_us": (0, 1e9),
    "match_exponent": (0, 2),
    "store_us": (0, 1e9),
    "memory": (1, 1e12),
    "hop_ms": (0, 1e9),
    "utilisation": (1e-6, 0.999),
    **dict.fromkeys(("matched", "hot_subscriptions", "hot_events", "width", "unkeyed"), (0, 1)),
}


def read_needs(path: Path) -> Needs:
    """The needs that a TOML file states; an error names the place and what was expected there."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: expected a TOML file that can be read: {error}") from None
    try:
        found = msgspec.convert(tomllib.loads(text), Needs)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path}: expected TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise PlanError(f"{path}: {error}") from None
    return checked(found, str(path))


def checked(needs: Needs, place: str) -> Needs:
    """The needs, if all of their numbers mean something."""
    for struct, where in ((needs, ""), (needs.nodes, "nodes.")):
        for name in struct.__struct_fields__:
            if name in _NUMBERS:
                least, greatest = _NUMBERS[name]
                value = getattr(struct, name)
                if not least <= value <= greatest:
                    raise PlanError(
                        f"{place}: {where}{name}: expected {least:g} to {greatest:g}, "
                        f"found {value:g}"
                    )
    return needs


@dataclass(frozen=True)
class Plan:
    """A shape, and what the model says of it."""

    rendezvous: str  # the application's own, or `one` where its key does not pay
    replicas: int  # R
    hops: int  # H
    regions: int  # X
    stored: float  # subscriptions of the fullest node
    match_ms: float  # there
    busy: float  # the share of time that the busiest node works
    latency_ms: float  # mean
    latency_p99_ms: float
    greatest_rate: float  # events a second at which the busiest node never rests
    walk_bytes: float  # a second, of events between nodes
    store_bytes: float  # a second, of subscriptions that are renewed
    memory_bytes: float  # of subscriptions, on the fullest node
    delivered: float  # a second, handed to the delivery layer
    binds: str = ""  # what keeps it from fewer nodes

    @property
    def nodes(self) -> int:
        """n, the nodes that it takes."""
        return self.replicas * self.regions


def evaluated(needs: Needs, regions: int, hops: int, replicas: int) -> Plan:
    """What the model says of a shape, whether it serves or not."""
    load = _Load.of(needs, regions, hops)
    busy = load.busy(replicas)
    rest = load.visits * load.match_s
    spare = 1 - load.storing
    idle_ms = (needs.nodes.hop_ms + load.match_s * 1e3) * load.hops
    wait_ms = waiting(busy, load.match_s) * 1e3
    walks = needs.events_per_second * load.walks * load.hops
    stored_each = needs.renewals_per_second * load.places
    return Plan(
        rendezvous=needs.rendezvous,
        replicas=replicas,
        hops=load.hops,
        regions=regions,
        stored=load.stored,
        match_ms=load.match_s * 1e3,
        busy=busy,
        latency_ms=idle_ms + wait_ms * load.hops,
        latency_p99_ms=idle_ms + wait_ms * _waits(load.hops),
        greatest_rate=max(0.0, spare * replicas * needs.events_per_second / rest) if rest else inf,
        walk_bytes=walks * (needs.event_bytes + HEADER_BYTES),
        store_bytes=stored_each * replicas * (needs.subscription_bytes + HEADER_BYTES),
        memory_bytes=load.stored * needs.subscription_bytes,
        delivered=needs.events_per_second * needs.matched * needs.subscriptions,
    )


def _waits(hops: int) -> float:
    """How many waits of a step 99 of 100 events stay below."""
    return hops + TAIL * sqrt(hops)


@dataclass(frozen=True)
class _Load:
    """The load of the hottest region of a shape."""

    hops: int
    stored: float  # subscriptions
    places: float  # where each lies
    walks: float  # of an event
    visits: float  # a second
    storing: float  # the share of time that storing takes
    match_s: float

    @classmethod
    def of(cls, needs: Needs, regions: int, hops: int) -> _Load:
        hops = min(hops, regions)
        keyed = 1.0 - needs.unkeyed
        if needs.rendezvous == "one":  # one key for all: what has no key is no worse
            hot_subscriptions = hot_events = keyed = walks = places = 1.0
            unkeyed = 0.0
        else:
            places = min(regions, 1 + needs.width * regions)
            hot_subscriptions, hot_events = needs.hot_subscriptions, needs.hot_events
            unkeyed = needs.unkeyed
            walks = min(needs.keys, regions) + (unkeyed > 0)
        share = keyed * places * (hot_subscriptions / hops + (1 - hot_subscriptions) / regions)
        share += unkeyed / hops
        window = hot_events + (1 - hot_events) * hops / regions
        visits = needs.events_per_second * (
            min(needs.keys, regions) * window if needs.rendezvous != "one" else 1.0
        )
        visits = min(visits, needs.events_per_second) + needs.events_per_second * (unkeyed > 0)
        stored = needs.subscriptions * share
        match_s = needs.nodes.match_time()(stored) / 1e9
        storing = needs.renewals_per_second * share * needs.nodes.store_us / 1e6
        return cls(hops, stored, places, walks, visits, storing, match_s)

    def busy(self, replicas: int) -> float:
        """The share of time that a node of the region works."""
        return self.visits * self.match_s / replicas + self.storing


def plan(needs: Needs, nodes: int) -> Plan:
    """The plan with the fewest nodes; of several, the fastest. Refused if it takes more."""
    if not 1 <= nodes <= MOST_NODES:
        raise PlanError(f"nodes: expected 1 to {MOST_NODES:,}, found {nodes:,}")
    found = _fewest(needs, nodes)
    if found is None:
        raise PlanError(_refusal(needs, nodes))
    return replace(found, binds=_binding(needs, found.nodes))


def serves(needs: Needs, regions: int, hops: int, replicas: int) -> str:
    """The first constraint that a shape breaks; empty if it serves."""
    return _breaks(needs, _Load.of(needs, regions, hops), replicas, regions, "")


def _breaks(needs: Needs, load: _Load, replicas: int, regions: int, without: str) -> str:
    if load.places > MOST_PLACES and needs.rendezvous != "one":
        return "memory"  # it would be stored as if it had no key
    busy = load.busy(replicas)
    if without != "memory" and load.stored > needs.nodes.memory:
        return "memory"
    if without != "load" and busy > needs.nodes.utilisation:
        return "load"
    waits = waiting(busy, load.match_s) if without != "load" else 0.0
    through_ms = (needs.nodes.hop_ms + load.match_s * 1e3) * load.hops
    through_ms += waits * 1e3 * _waits(load.hops)
    if without != "latency" and through_ms > needs.latency_ms:
        return "latency"
    if without != "replicas" and replicas < needs.replicas:
        return "replicas"
    return ""


def _fewest(needs: Needs, nodes: int, without: str = "") -> Plan | None:
    """The best plan of at most so many nodes; `without` names a constraint to leave out."""
    found = [
        evaluated(one, regions, hops, replicas)
        for one in _rivals(needs)
        for regions, hops, replicas in _shapes(one, nodes, without)
    ]
    return min(found, key=lambda one: (one.nodes, one.latency_ms), default=None)


def _rivals(needs: Needs) -> list[Needs]:
    """The needs with the application's key, and without it."""
    keyless = msgspec.structs.replace(needs, rendezvous="one")
    return [needs] if needs == keyless else [needs, keyless]


def _shapes(needs: Needs, nodes: int, without: str) -> Iterator[tuple[int, int, int]]:
    """The shapes that serve, each with the least R; none that has more nodes than one before."""
    most = nodes
    hop_limit = nodes
    if needs.nodes.hop_ms > 0 and without != "latency":
        hop_limit = int(needs.latency_ms / needs.nodes.hop_ms)
    regions = 0
    while regions < most:
        regions += 1
        # Without a key an event visits every region, so fewer hops than regions miss some.
        least = regions if needs.rendezvous == "one" else 1
        for hops in range(least, min(regions, hop_limit) + 1):
            load = _Load.of(needs, regions, hops)
            replicas = _least_replicas(needs, load, without)
            if replicas is None or regions * replicas > most:
                continue
            if not _breaks(needs, load, replicas, regions, without):
                most = regions * replicas
                yield regions, hops, replicas


def _least_replicas(needs: Needs, load: _Load, without: str) -> int | None:
    """The least R at which a node is idle enough and an event is through in time."""
    least = 1 if without == "replicas" else needs.replicas
    if without == "load":
        return least
    most_busy = needs.nodes.utilisation
    if without != "latency":
        idle_s = (needs.nodes.hop_ms / 1e3 + load.match_s) * load.hops
        slack_s = (needs.latency_ms / 1e3 - idle_s) / _waits(load.hops)
        if slack_s < 0:
            return None
        # From waiting(busy, match) <= slack.
        if load.match_s > 0:
            most_busy = min(most_busy, 2 * slack_s / (load.match_s + 2 * slack_s))
    if load.storing >= most_busy and load.visits * load.match_s > 0:
        return None
    work = load.visits * load.match_s
    replicas = max(least, ceil(work / (most_busy - load.storing) - 1e-9)) if work else least
    # Rounding may leave it a hair short of what `_breaks` asks.
    return replicas if not _breaks(needs, load, replicas, 0, without) else replicas + 1


def _binding(needs: Needs, nodes: int) -> str:
    """The constraint without which the fewest nodes would do; nothing if one node is enough."""
    if nodes == 1:
        return "nothing"
    fewer = {
        name: found.nodes
        for name in CONSTRAINTS
        if (found := _fewest(needs, nodes, name)) is not None and found.nodes < nodes
    }
    return min(fewer, key=lambda name: fewer[name]) if fewer else "several together"


def _refusal(needs: Needs, nodes: int) -> str:
    """Why there is no plan, and what it would take."""
    more = _fewest(needs, min(MOST_NODES, max(64, 20 * nodes)))
    if more is not None:
        binding = _binding(needs, more.nodes)
        return (
            f"{needs.name}: expected at least {more.nodes:,} nodes (R = {more.replicas}, "
            f"H = {more.hops}, X = {more.regions}; bound by {binding}), found {nodes:,}"
        )
    lifted = [name for name in CONSTRAINTS if _fewest(needs, nodes, name) is not None]
    reasons = {
        "memory": f"no shape fits into {needs.nodes.memory:,} subscriptions a node",
        "load": f"{needs.events_per_second:,.0f} events a second are more than nodes can match",
        "latency": f"no shape is through in {needs.latency_ms:g} ms",
        "replicas": f"{needs.replicas:,} replicas are more than nodes",
    }
    if not lifted:
        return f"{needs.name}: no plan for {nodes:,} nodes: several constraints bind together"
    return f"{needs.name}: no plan for {nodes:,} nodes: bound by {lifted[0]}: {reasons[lifted[0]]}"
