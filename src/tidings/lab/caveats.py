"""The four caveats of paper L, section 4.2 (L7), measured one by one: `l7-caveats` runs these.

Each function measures one row of parameters. The law of the model is asserted in every run in
which events meet subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidings.lab.experiment import Parameters, Row, generator, identity
from tidings.lab.layer_model import assert_law, imbalance, law
from tidings.lab.trips import Trip, drawn, popularity, travel
from tidings.overlay.ring import by_rank
from tidings.overlay.weights import by_capacity, first_nodes
from tidings.routing.layers.adapting import Adapting
from tidings.sim.service import MatchTime, Service

SUBSCRIPTIONS: Final = 200_000
SAMPLE: Final = 2_000  # each stands for a hundred
WEIGHT: Final = SUBSCRIPTIONS // SAMPLE
MATCH: Final = MatchTime(fixed_ns=20_000, growth_ns=400.0, exponent=1.0)  # by key
STORE_NS: Final = 50_000  # to take over a subscription
SUBSCRIPTION_BYTES: Final = 160
HOP_NS: Final = 500_000
REPLICAS: Final = 2
HOPS: Final = 4
LOAD: Final = 0.25  # of all nodes together
ADAPT_S: Final = 3.0  # between two changes of the spread
MEMORY: Final = 0.5  # of the load before, that an interval keeps
CAPACITIES: Final = (1.0, 2.0, 4.0, 8.0)


def _no_cost(router: Any, packet: Any) -> int:
    raise AssertionError("trips bring their costs")


def _members(nodes: int, regions: int) -> tuple[tuple[str, ...], ...]:
    return by_rank([f"n{number}" for number in range(nodes)], regions)


def _keys(source: np.random.Generator, likely: NDArray[np.float64], count: int) -> list[int]:
    return [int(key) for key in source.choice(len(likely), count, p=likely)]


def _poisson(source: np.random.Generator, count: int, rate: float) -> list[int]:
    return [int(t * 1e9) for t in np.cumsum(source.standard_exponential(count) / rate)]


def _measured(took: Sequence[int]) -> Row:
    return {
        "mean_ms": float(np.mean(took)) / 1e6,
        "p99_ms": float(np.percentile(took, 99)) / 1e6,
    }


# The average H, below its bound


def _hops(parameters: Parameters) -> Row:
    """Subscriptions scattered over the window, or filled in."""
    source = generator("l7-caveats", identity(parameters))
    regions = parameters["nodes"] // REPLICAS
    likely = popularity(regions, parameters["skew"], source.permutation(regions))
    keys = _keys(source, likely, SAMPLE)
    room = max(1, round(parameters["room"] * SAMPLE / regions))
    filled = parameters["policy"] == "fill"
    placement = Adapting(regions, HOPS, room if filled else None)
    members = _members(parameters["nodes"], regions)
    steps: list[tuple[int, int]] = []
    for number, key in enumerate(keys):
        if filled:
            steps.append((key, placement.put(key)))
        else:  # the paper's random r
            step = drawn("step", number) % HOPS
            placement._count(key, step, 1)
            steps.append((key, step))
    held = Counter(keys)
    asked = _keys(source, likely, parameters["events"])
    work = float(np.mean([MATCH(WEIGHT * held[key]) for key in asked])) / 1e9
    rate = LOAD * parameters["nodes"] / (HOPS * MATCH(0) / 1e9 + work)
    starts = _poisson(source, len(asked), rate)
    visited: Counter[str] = Counter()
    trips, hops = [], 0
    for number, (start, key) in enumerate(zip(starts, asked, strict=True)):
        route = placement.visits(key) if filled else _window(key, regions)
        # Every subscription of the key is met: none lies beyond the last step.
        assert sum(placement.held[key, step] for step in range(len(route))) == held[key]
        nodes = [_one(members[region], number, region) for region in route]
        visited.update(nodes)
        hops += len(route)
        cost = [MATCH(WEIGHT * placement.held[key, step]) for step in range(len(route))]
        trips.append(Trip(number, start, tuple(zip(nodes, cost, strict=True))))
    took = travel(trips, HOP_NS, Service(_no_cost))
    names = [name for region in members for name in region]
    stored = [placement.stored[c] for c, region in enumerate(members) for _ in region]
    published = Counter(asked)
    homes = {(key, placement.run(key, step)[0] % regions) for key, step in steps}
    assert_law(
        law(
            stored,
            [visited[name] for name in names],
            max(len(trip.stops) for trip in trips),
            SAMPLE,
            len(asked),
            max(held[key] for key in published),
            [(published[key], len(members[home])) for key, home in homes],
        )
    )
    return _measured(list(took.values())) | {
        "hops_mean": hops / len(asked),
        "fullest": max(stored) / (SAMPLE / regions),
        "storage": imbalance(stored),
        "routing": imbalance([visited[name] for name in names]),
    }


def _window(key: int, regions: int) -> tuple[int, ...]:
    return tuple((key + step) % regions for step in range(HOPS))


def _one(nodes: Sequence[str], *of: int) -> str:
    return nodes[drawn("replica", *of) % len(nodes)]


# Replication that follows load


def _replicas(parameters: Parameters) -> Row:
    """A spread learned from half of the events, or as many replicas for every key."""
    source = generator("l7-caveats", identity({**parameters, "policy": ""}))
    nodes, regions = parameters["nodes"], parameters["nodes"] // REPLICAS
    likely = popularity(regions, parameters["skew"], source.permutation(regions))
    keys = _keys(source, likely, SAMPLE)
    asked = _keys(source, likely, parameters["events"])
    placement = Adapting(regions, 1)
    for key in keys:
        placement.put(key)
    learned = Counter(asked[: len(asked) // 2])
    placement.respread(learned, len(asked) / 2 / regions)
    copies = placement.copies * REPLICAS / SAMPLE
    members = _members(nodes, regions)
    if parameters["policy"] == "uniform":  # at least as many copies, the same for all
        regions = max(1, int(nodes / copies))
        placement = Adapting(regions, 1)
        for key in keys:
            placement.put(key % regions)
        members = _members(nodes, regions)
        copies = nodes / regions
    visited: Counter[str] = Counter()
    trips = []
    kept = Counter(keys)
    half = asked[len(asked) // 2 :]
    for number, key in enumerate(half):
        (region,) = placement.visits(key % regions, drawn("spread", number))
        node = _one(members[region], number, region)
        visited[node] += 1
        trips.append(Trip(number, 0, ((node, MATCH(WEIGHT * kept[key])),)))
    last = max(travel(trips, 0, Service(_no_cost)).values())
    names = [name for region in members for name in region]
    held = Counter(key % regions for key in keys)
    published = Counter(key % regions for key in half)
    spreads = {key: placement.spread.get(key, 1) for key in held}
    stored = [placement.stored[c] for c, region in enumerate(members) for _ in region]
    assert_law(
        law(
            stored,
            [visited[name] for name in names],
            1,
            SAMPLE,
            len(half),
            max(held[key] for key in published),
            [
                (published[key], sum(len(members[c % regions]) for c in placement.run(key, 0)))
                for key in spreads
            ],
        )
    )
    return {
        "copies": copies,
        "rate": len(half) / (last / 1e9),
        "routing": imbalance([visited[name] for name in names]),
        "storage": imbalance(stored),
    }


# Unequal nodes


def _unequal(parameters: Parameters) -> Row:
    """Nodes of capacity 1, 2, 4 and 8: how much each carries, by what it can."""
    policy = parameters["policy"]
    source = generator("l7-caveats", "unequal")
    names = [f"n{number}" for number in range(parameters["nodes"])]
    capacity = {name: CAPACITIES[drawn(name) % len(CAPACITIES)] for name in names}
    regions = parameters["nodes"] // 4
    if policy == "virtual":
        twins = [f"{name}/{i}" for name in names for i in range(int(capacity[name]))]
        members = by_rank(twins, regions)
    elif policy == "ignored":
        members = by_rank(names, regions)
    else:
        members = by_capacity(names, regions, capacity)
    asked = [int(key) for key in source.integers(0, regions, parameters["events"])]
    keys = [int(key) for key in source.integers(0, regions, SAMPLE)]
    stored = Counter(keys)
    load: Counter[str] = Counter()
    trips = []
    held: Counter[str] = Counter()  # subscriptions by node
    for region, count in stored.items():
        for name in {twin.partition("/")[0] for twin in members[region]}:
            held[name] += count
    cost = {name: MATCH(WEIGHT * held[name]) for name in names}
    power = sum(capacity.values())
    mean = float(np.mean([MATCH(WEIGHT * count) for count in stored.values()])) / 1e9
    rate = LOAD * power / mean
    starts = _poisson(source, len(asked), rate)
    for number, (start, key) in enumerate(zip(starts, asked, strict=True)):
        if policy == "chosen":
            name = first_nodes(str(number), members[key], 1, capacity)[0]
        else:
            name = _one(members[key], number, key).partition("/")[0]
        load[name] += 1
        trips.append(Trip(number, start, ((name, cost[name]),)))
    service = Service(_no_cost, capacity)
    took = travel(trips, HOP_NS, service)
    replicas = {key: len({twin.partition("/")[0] for twin in members[key]}) for key in stored}
    _check_law(held, load, names, stored, Counter(asked), replicas)
    work = [load[name] * cost[name] / capacity[name] for name in names]
    return _measured(list(took.values())) | {
        "absolute": imbalance(work),
        "copies": sum(held.values()) / SAMPLE,
        "rate": len(asked) / (max(service.busy_ns.values()) / 1e9),
    }


def _slow(parameters: Parameters) -> Row:
    """One node at a quarter of its speed; events take any replica, or the freer of two."""
    source = generator("l7-caveats", "slow")
    regions = parameters["nodes"] // 4
    members = _members(parameters["nodes"], regions)
    slow = members[0][0]
    asked = [int(key) for key in source.integers(0, regions, parameters["events"])]
    cost = MATCH(SUBSCRIPTIONS / regions)
    starts = _poisson(source, len(asked), LOAD * parameters["nodes"] / (cost / 1e9))
    trips = []
    for number, (start, key) in enumerate(zip(starts, asked, strict=True)):
        one, other = (
            (members[key][drawn(name, number) % len(members[key])], cost) for name in ("a", "b")
        )
        others = (other,) if parameters["policy"] == "freer of two" else ()
        trips.append(Trip(number, start, (one,), others))
    speed = {slow: 0.25}
    service = Service(_no_cost, speed)
    took = travel(trips, HOP_NS, service)
    names = [name for region in members for name in region]
    visited = Counter(
        {name: round(service.busy_ns[name] * speed.get(name, 1.0) / cost) for name in names}
    )
    assert visited.total() == len(asked), "an event visits one node"
    even = Counter(dict.fromkeys(range(regions), 1))  # one subscription stands for those of a key
    held = Counter(dict.fromkeys(names, 1))
    replicas = {key: len(members[key]) for key in even}
    _check_law(held, visited, names, even, Counter(asked), replicas)
    return _measured(list(took.values()))


def _check_law(
    held: Mapping[str, int],
    visited: Mapping[str, int],
    names: Sequence[str],
    stored: Mapping[int, int],
    published: Mapping[int, int],
    replicas: Mapping[int, int],
) -> None:
    """The law of the model where an event visits one node, and matches all with its key.

    Copies and visits by node; subscriptions, events and replicas by key.
    """
    assert_law(
        law(
            [held.get(name, 0) for name in names],
            [visited.get(name, 0) for name in names],
            1,
            sum(stored.values()),
            sum(published.values()),
            max(stored.get(key, 0) for key in published),
            [(published.get(key, 0), replicas[key]) for key in stored],
        )
    )


# Nodes by load


def _growing(parameters: Parameters) -> Row:
    """How many copies move if an application takes one node more."""
    names = [f"n{number}" for number in range(parameters["nodes"])]
    few = parameters["nodes"] // 2
    regions = few // 4
    before, after = (
        by_rank(first_nodes("application", names, count), regions) for count in (few, few + 1)
    )
    moved = sum(len(set(new) - set(old)) for old, new in zip(before, after, strict=True))
    return {"moved_share": moved / few, "nodes_before": few, "copies": 4.0}


# What changes while it runs


def _changing(parameters: Parameters) -> Row:
    """A hot key that moves, or a crowd of fifty times the events: a spread that follows, or not."""
    source = generator("l7-caveats", parameters["change"])
    seconds, nodes = parameters["seconds"], parameters["nodes"]
    regions = nodes // REPLICAS
    members = _members(nodes, regions)
    placement = Adapting(regions, 1)
    order = source.permutation(regions)
    likely = popularity(regions, "1.2", order)
    for number in range(SAMPLE):  # even: only the events are skewed
        placement.put(number % regions)
    rate = LOAD * nodes / (MATCH(SUBSCRIPTIONS / regions) / 1e9)
    trips: list[Trip] = []
    loads: dict[int, float] = {}
    moved, changes, last_change, number = 0, 0, 0.0, 0
    intervals = int(seconds / ADAPT_S)
    changed = intervals // 3 * ADAPT_S  # when something changes
    for interval in range(intervals):
        begin = interval * ADAPT_S
        late = begin >= changed
        now = _likely(parameters["change"], likely, order, interval, intervals)
        crowd = parameters["change"] == "crowd" and intervals // 3 <= interval < 2 * intervals // 3
        count = int(source.poisson(rate * ADAPT_S * (1.5 if crowd else 1.0)))
        times = np.sort(source.random(count)) * ADAPT_S + begin
        asked = _keys(source, now, count)
        visited: Counter[str] = Counter()
        for time, key in zip(times.tolist(), asked, strict=True):
            (region,) = placement.visits(key, drawn("spread", number))
            node = _one(members[region], number, region)
            visited[node] += 1
            cost = MATCH(WEIGHT * placement.held[key, 0])
            trips.append(Trip(number, int(time * 1e9), ((node, cost),)))
            number += 1
        seen = Counter(asked)
        if seen:
            held = {n: placement.stored[c] for c, nodes_of in enumerate(members) for n in nodes_of}
            stored = {key: placement.held[key, 0] for key in range(regions)}
            replicas = {
                key: sum(len(members[c % regions]) for c in placement.run(key, 0)) for key in stored
            }
            _check_law(held, visited, list(held), stored, seen, replicas)
        loads = {
            key: MEMORY * loads.get(key, 0.0) + (1 - MEMORY) * seen[key] for key in {*loads, *seen}
        }
        if parameters["policy"] == "spread":
            before = Counter(placement.stored)
            new = placement.respread(loads, sum(loads.values()) / regions)
            moved += new
            if new:
                changes += late
                last_change = begin + ADAPT_S
            for region, more in sorted((placement.stored - before).items()):
                start = int((begin + ADAPT_S) * 1e9)
                work = [(node, more * WEIGHT * STORE_NS) for node in members[region]]
                trips += [Trip(-1 - len(trips), start, (one,)) for one in work]
    trips.sort(key=lambda trip: trip.start_ns)
    service = Service(_no_cost)
    took = travel(trips, HOP_NS, service)
    when = {trip.event: trip.start_ns / 1e9 for trip in trips}
    calm, struck = (
        [ns for event, ns in took.items() if event >= 0 and first <= when[event] < last]
        for first, last in ((changed / 2, changed), (changed, seconds))
    )
    return _measured(struck) | {
        "calm_p99_ms": float(np.percentile(calm, 99)) / 1e6,
        "moved_bytes": float(moved * WEIGHT * REPLICAS * SUBSCRIPTION_BYTES) / (seconds / 60),
        "changes": changes / ((seconds - changed) / 60),
        "last_change": last_change,
        "adapted_s": _adapted(took, when, changed, calm),
        "copies": placement.copies * REPLICAS / SAMPLE,
    }


def _likely(
    change: str,
    likely: NDArray[np.float64],
    order: NDArray[np.int64],
    interval: int,
    intervals: int,
) -> NDArray[np.float64]:
    """How likely keys are now."""
    if interval < intervals // 3 or change == "none":
        return likely
    if change == "moving":  # the ranks move on, four times
        step = 1 + 4 * (interval - intervals // 3) // (intervals - intervals // 3)
        return np.roll(likely, 5 * step)
    if interval >= 2 * intervals // 3:
        return likely
    crowded = likely.copy()  # fifty times the events of a key that few wanted
    crowded[int(np.argmin(likely))] *= 50
    return np.asarray(crowded / crowded.sum())


def _adapted(
    took: dict[int, int], when: dict[int, float], begun: float, calm: Sequence[int]
) -> float:
    """Seconds from the first change until latency stays below twice what it was; -1 if never."""
    limit = 2 * float(np.percentile(calm, 99))
    windows: dict[int, list[int]] = {}
    for event, ns in took.items():
        if event >= 0 and when[event] >= begun:
            windows.setdefault(int((when[event] - begun) / ADAPT_S), []).append(ns)
    bad = [w for w, found in windows.items() if np.percentile(found, 95) > limit]
    if not bad:
        return 0.0
    return -1.0 if max(bad) == max(windows) else (max(bad) + 1) * ADAPT_S


MEASURES: Final[dict[str, Callable[[Parameters], Row]]] = {
    "hops": _hops,
    "replicas": _replicas,
    "unequal": _unequal,
    "slow": _slow,
    "growing": _growing,
    "changing": _changing,
}
