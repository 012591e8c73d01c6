"""Paper L, section 4.2 (L7): the protocol lets places follow load, on nodes that take time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidings.lab.experiment import (
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    generator,
    select,
)
from tidings.lab.layer_model import imbalance
from tidings.lab.layered import EDGES, MATCHING, star, walk_here
from tidings.lab.trips import popularity
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import Listed, Put
from tidings.routing.protocol import SECOND, Publish, Subscribe
from tidings.sim.network import Network
from tidings.sim.service import MatchTime, Service

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES: Final = tuple(f"m{number}" for number in range(MATCHING))
TOPICS: Final = 40
SUBSCRIPTIONS: Final = 120
HOPS: Final = 4
MATCH: Final = MatchTime(fixed_ns=20e6, growth_ns=100_000.0, exponent=1.0)
STORE_NS: Final = 1_000_000  # to take over a subscription
RATE: Final = 12  # events a second, when it is calm
SHARE: Final = 8  # and what each node should match
CROWD: Final = 4  # times the events, all new ones of one topic
SECONDS: Final = {"full": 120, "quick": 45, "tiny": 15}
CAPACITIES: Final = tuple((name, float(2 ** (number % 4))) for number, name in enumerate(NAMES))
POLICIES: Final = ("fixed", "windows", "following")  # `windows`: they alone follow
CHANGES: Final = ("none", "moving", "crowd")


def sweep(setting: Setting) -> list[Parameters]:
    rows: list[Parameters] = [
        {"change": change, "policy": policy, "seconds": SECONDS[setting]}
        for change in CHANGES
        for policy in POLICIES
    ]
    rows += [
        {"change": "unequal", "policy": policy, "seconds": SECONDS[setting]}
        for policy in ("ignored", "told")
    ]
    return rows


class Matched(Service):
    """Matching and taking subscriptions over take time; what else comes does not wait for them."""

    def packet(self, now: int, node: str, router: Any, packet: Any) -> int:
        cost = self.cost(router, packet)
        return self.work(now, node, cost) if cost else now


def _cost(router: Any, packet: Any) -> int:
    walk = walk_here(router, packet)
    if walk is not None:
        return MATCH(router.layers.matching.store.count(walk.regions, walk.stops[0][1]))
    if type(packet) is Listed and type(packet.inner) is Put:
        return STORE_NS * len(packet.inner.added)
    return 0


def _options(parameters: Parameters) -> Layering:
    settings: dict[str, Any] = {
        "matching": "regions",
        "rendezvous": "hash:topic",
        "nodes": NAMES,
        "replicas": 2,
        "hops": HOPS,
        "places": MATCHING,
    }
    if parameters["policy"] in ("windows", "following"):
        settings |= {"adapt_ms": 1_000, "room": 40}
    if parameters["policy"] == "following":
        settings |= {"rate": SHARE}
    elif parameters["policy"] == "told":
        settings |= {"capacities": CAPACITIES}
    return Layering(**settings)


def _topics(
    parameters: Parameters, second: int, likely: Any, chance: np.random.Generator
) -> list[int]:
    """The topics of the events of a second."""
    late = second >= parameters["seconds"] // 3
    if parameters["change"] == "moving" and late:
        turns = 4 * (second - parameters["seconds"] // 3) // parameters["seconds"]
        likely = np.roll(likely, 7 * (1 + turns))
    count = 5 * RATE if parameters["change"] == "unequal" else RATE
    if parameters["change"] == "moving":
        count = 4 * RATE
    found = [int(topic) for topic in chance.choice(TOPICS, count, p=likely)]
    crowd = parameters["change"] == "crowd" and late and second < 2 * parameters["seconds"] // 3
    if crowd:
        found += [int(np.argmin(likely))] * ((CROWD - 1) * RATE)
        chance.shuffle(found)
    return found


def measure(parameters: Parameters) -> Iterator[Row]:
    chance = generator("l7-protocol", parameters["change"])
    network, watch = star("regions-list", _options(parameters))
    likely = popularity(TOPICS, "1.4", chance.permutation(TOPICS))
    wanted = {f"s{n}": int(chance.choice(TOPICS, p=likely)) for n in range(SUBSCRIPTIONS)}
    for number, (id, topic) in enumerate(wanted.items()):
        network.tell(f"e{number % EDGES}", Subscribe(id, f"topic = {topic}"))
    network.run(network.now + 5 * SECOND)
    assert watch.settled >= wanted.keys(), "not all subscriptions are established"
    service = network.service = Matched(
        _cost, dict(CAPACITIES) if parameters["change"] == "unequal" else {}
    )
    watch.other_bytes = 0
    begun = network.now
    starts: dict[tuple[str, int], int] = {}
    due: Counter[tuple[str, str, int]] = Counter()
    serving, numbers = [], Counter[str]()
    last_change, number_before = 0, _adapted(network)
    for second in range(parameters["seconds"]):
        topics = _topics(parameters, second, likely, chance)
        for place, topic in enumerate(topics):
            edge = f"e{place % EDGES}"
            numbers[edge] += 1
            name = (edge, numbers[edge])
            starts[name] = network.now
            due.update((id, *name) for id, wants in wanted.items() if wants == topic)
            network.tell(edge, Publish({"topic": topic}))
            end = begun + second * SECOND + (place + 1) * SECOND // len(topics)
            network.run(end)
        serving.append(_serving(network))
        if _adapted(network) != number_before:
            last_change, number_before = second, _adapted(network)
    took = network.now - begun
    network.run(network.now + 10 * SECOND)
    assert watch.delivered_to == due, "deliveries differ from what subscribers want"
    late = begun + parameters["seconds"] // 3 * SECOND
    waits = [
        (when - starts[source, number]) / 1e6
        for (_, source, number), when in watch.first.items()
        if starts[source, number] >= late
    ]
    layers = [_matching(network, name) for name in NAMES]
    yield {
        "hops_mean": sum(one.counts["visits"] for one in layers) / len(starts),
        "mean_ms": float(np.mean(waits)),
        "p99_ms": float(np.percentile(waits, 99)),
        "busiest": max(service.busy_ns.values()) / took,
        "absolute": imbalance([service.busy_ns[name] for name in NAMES]),
        "routing": imbalance([one.counts["visits"] for one in layers]),
        "copies": sum(len(one.store) for one in layers) / SUBSCRIPTIONS,
        "serving": float(np.mean(serving[len(serving) // 3 :])),
        "changes": _adapted(network),
        "last_change": last_change,
        "control_bytes": watch.other_bytes / (took / SECOND),
    }


def _matching(network: Network, name: str) -> Any:
    router: Any = network.nodes[name].router
    return router.layers.matching


def _adapted(network: Network) -> int:
    found = _matching(network, "e0").adapted
    return 0 if found is None else int(found.number)


def _serving(network: Network) -> int:
    return sum(map(len, _matching(network, "e0").epochs.used.placement.nodes_of))


COLUMNS: Final = {
    **dict.fromkeys(("hops_mean", "mean_ms", "p99_ms", "absolute", "routing", "copies"), float),
    **dict.fromkeys(("busiest", "serving", "control_bytes"), float),
    "changes": int,
    "last_change": int,
}


def claims(rows: Rows) -> list[Claim]:
    found = {(r["change"], r["policy"]): r for r in rows}
    calm, fixed = found["none", "following"], found["none", "fixed"]
    crowd = [(policy, found["crowd", policy]) for policy in POLICIES]
    moving = [(policy, found["moving", policy]) for policy in POLICIES]
    unequal = {r["policy"]: r for r in select(rows, change="unequal")}
    changing = [(change, found[change, "fixed"], found[change, "following"]) for change in CHANGES]
    return [
        Claim(
            "4.2",
            "it would be desirable to have a small average(H) and only bound the worst case "
            "routing hops with H",
            f"events visit {calm['hops_mean']:.2f} nodes on average, and {fixed['hops_mean']:.2f} "
            f"where the window is the same for all keys; H = {HOPS}",
            calm["hops_mean"] < fixed["hops_mean"],
        ),
        Claim(
            "4.2",
            "it would be desirable to correlate an increase in the replication rate of a "
            "subscription with an increase in the number of notifications it matches",
            "where a crowd comes for a third of the time, the busiest node works "
            + ", ".join(f"{policy} {r['busiest']:.0%}" for policy, r in crowd)
            + " of the time, p99 is "
            + ", ".join(f"{policy} {r['p99_ms']:,.0f} ms" for policy, r in crowd)
            + ", copies at the end are "
            + ", ".join(f"{policy} {r['copies']:.1f}" for policy, r in crowd),
            crowd[2][1]["busiest"] < min(crowd[0][1]["busiest"], crowd[1][1]["busiest"]),
            "Every event was delivered once to everyone who wants it, also while places changed. "
            "Nodes that take a subscription over are busy with it.",
        ),
        Claim(
            "4.2",
            "a better policy would be to provide the minimum number of nodes that supports the "
            "application's load",
            "; ".join(
                f"{change}: {after['serving']:.1f} of {MATCHING} nodes on average, p99 "
                f"{after['p99_ms']:,.0f} ms"
                for change, _, after in changing
            ),
            calm["serving"] < MATCHING,
        ),
        Claim(
            "4.2",
            "the implicit assumption that nodes are homogenous is not the case in a real "
            "environment, as absolute loads need to be taken into account",
            f"with capacities 1 to 8, the busiest node works {unequal['ignored']['absolute']:.1f} "
            f"times the mean if they are not told, and {unequal['told']['absolute']:.1f} times if "
            f"they are; p99 {unequal['ignored']['p99_ms']:,.0f} and "
            f"{unequal['told']['p99_ms']:,.0f} ms",
            unequal["told"]["absolute"] < unequal["ignored"]["absolute"],
        ),
        Claim(
            "not in the paper",
            "adapting is worth its price where the hot keys move",
            f"where they move every {moving[0][1]['seconds'] / 4:.0f} s, p99 is "
            + ", ".join(f"{policy} {r['p99_ms']:,.0f} ms" for policy, r in moving)
            + ", the busiest node works "
            + ", ".join(f"{policy} {r['busiest']:.0%}" for policy, r in moving)
            + " of the time",
            moving[2][1]["p99_ms"] < moving[0][1]["p99_ms"],
            "Nodes look every second, and a change takes two rounds of reports: copies come too "
            "late for keys that are hot for a few looks only, and windows alone do better.",
        ),
        Claim(
            "not in the paper",
            "adapting ends at constant load, and has a price",
            f"{calm['changes']} changes, the last after {calm['last_change']} of "
            f"{calm['seconds']} s; "
            + "; ".join(
                f"{change}: {after['changes']} changes, {after['control_bytes'] / 1e3:.1f} kB a "
                f"second that bear no event instead of {before['control_bytes'] / 1e3:.1f}"
                for change, before, after in changing
            ),
            calm["last_change"] <= calm["seconds"] // 2,
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, panels

    figure, axes = panels(2)
    places = np.arange(len(CHANGES))
    for number, policy in enumerate(POLICIES):
        chosen = [select(rows, change=change, policy=policy)[0] for change in CHANGES]
        for panel, measured in zip(axes, ("p99_ms", "control_bytes"), strict=True):
            panel.bar(
                places + 0.3 * (number - 1),
                [r[measured] for r in chosen],
                0.3,
                color=COLOURS[number],
                label=policy,
            )
    axes[0].set_ylabel("latency, p99, ms")
    axes[1].set_ylabel("bytes a second that bear no event")
    for panel in axes:
        panel.set_xticks(places, CHANGES)
        panel.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="l7-protocol",
    parts=("L7",),
    title="Places that follow load, in the protocol",
    question="Does the protocol follow load without losing an event, and what does that cost?",
    paper="Names four deficiencies in section 4.2 as problems for future research.",
    here="The protocol of Tidings in the simulator: 12 nodes that match and take time for it, 4 "
    "where users are, one that relays. Windows, copies and the number of nodes follow load, or are "
    "the same all the time. The hot keys move, or a crowd comes for a key that few wanted.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
