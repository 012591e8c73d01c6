"""Paper L, sections 2.1 and 4.1 (L5, L6): the protocol itself, on nodes that take time."""

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
    identity,
    select,
)
from tidings.lab.layer_model import assert_law, imbalance, latency, law, waiting
from tidings.lab.layered import EDGES, HOP_NS, MATCHING, Watch, check_law, star, walk_here
from tidings.lab.trips import popularity
from tidings.language.predicate import Predicate, parse
from tidings.matching.scan import Scan
from tidings.matching.workload import APPLICATIONS
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import Publication
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Publish,
    Subscribe,
)
from tidings.sim.network import Network
from tidings.sim.service import MatchTime, Service

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MATCH: Final = MatchTime(fixed_ns=100_000, growth_ns=20_000.0, exponent=1.0)
SUBSCRIPTIONS: Final = 120
EVENTS: Final = {"full": 2_000, "quick": 160, "tiny": 40}
SHAPES: Final = ((12, 1), (6, 1), (6, 2), (3, 1), (3, 2), (3, 4), (2, 3), (1, 4))  # R, H
FEW: Final = ((12, 1), (3, 2))
SKEWS: Final = ("0.0", "1.0", "one")
LOADS: Final = (0.0, 0.5)
RIVALS: Final = ("regions-list", "everywhere-list", "nowhere-tree", "cbcb")


def sweep(setting: Setting) -> list[Parameters]:
    rows: list[Parameters] = [
        {
            "kind": "shape",
            "replicas": replicas,
            "hops": hops,
            "skew": skew,
            "load": load,
            "events": EVENTS[setting],
        }
        for replicas, hops in (FEW if setting == "tiny" else SHAPES)
        for skew in (SKEWS[::2] if setting == "tiny" else SKEWS)
        for load in LOADS
    ]
    rows += [
        {
            "kind": "application",
            "application": name,
            "protocol": protocol,
            "events": EVENTS[setting] // 4,
        }
        for name in (("games", "alerts") if setting == "tiny" else APPLICATIONS)
        for protocol in RIVALS
    ]
    return rows


def measure(parameters: Parameters) -> Iterator[Row]:
    yield _shape(parameters) if parameters["kind"] == "shape" else _application(parameters)


class Timed(Service):
    """A service that knows when the last node of each walk was through."""

    def __init__(self) -> None:
        super().__init__(_cost)
        self.through: dict[tuple[str, int], int] = {}  # by source and number

    def packet(self, now: int, node: str, router: Any, packet: Any) -> int:
        done = super().packet(now, node, router, packet)
        walk = walk_here(router, packet)
        if walk is not None:
            event = (walk.source, walk.number)
            self.through[event] = max(done, self.through.get(event, 0))
        return done


def _cost(router: Any, packet: Any) -> int:
    """Matching takes time; everything else is free."""
    if walk_here(router, packet) is not None:
        return MATCH(len(router.layers.matching.store))
    if type(packet) is Publication:  # of `cbcb`, which matches at every hop
        return MATCH(SUBSCRIPTIONS)
    return 0


def _options(**chosen: Any) -> Layering:
    names = tuple(f"m{number}" for number in range(MATCHING))
    usual: dict[str, Any] = {"nodes": names, "by_key": False, "places": MATCHING + 2}
    return Layering(**(usual | chosen))


class Load:
    """Subscriptions at the edges, and events that are published there."""

    def __init__(
        self, network: Network, watch: Watch, predicates: list[Predicate], events: list[Any]
    ) -> None:
        self.network, self.watch, self.events = network, watch, events
        ids = {f"s{number}": predicate for number, predicate in enumerate(predicates)}
        for number, (id, predicate) in enumerate(ids.items()):
            network.tell(f"e{number % EDGES}", Subscribe(id, str(predicate)))
        network.run(network.now + 5 * SECOND)
        assert watch.settled >= ids.keys(), "not all subscriptions are established"
        self.scan = Scan(list(ids.items()))
        self.matches: list[list[str]] = []  # of each event
        self.walked: list[int] = []  # how long until the last node had matched it
        self.delivered: list[int] = []  # and until it was delivered last

    def play(self, gaps: list[int]) -> None:
        """Publish, and check that every delivery is due and happens once."""
        network, watch = self.network, self.watch
        service = network.service = Timed()
        watch.packets = watch.bytes = watch.other_bytes = 0
        starts: dict[tuple[str, int], int] = {}
        due: Counter[tuple[str, str, int]] = Counter()
        for number, (event, gap) in enumerate(zip(self.events, gaps, strict=True)):
            network.run(network.now + gap)
            name = (f"e{number % EDGES}", number // EDGES + 1)
            starts[name] = network.now
            self.matches.append([str(id) for id in self.scan.match(event)])
            due.update((id, *name) for id in self.matches[-1])
            network.tell(name[0], Publish(event))
        network.run(network.now + 3 * SECOND)
        assert watch.delivered_to == due, "deliveries differ from the scan"
        self.walked = [done - starts[name] for name, done in service.through.items()]
        self.delivered = [last - starts[name] for name, last in watch.last.items()]


def _shape(parameters: Parameters) -> Row:
    replicas, hops = parameters["replicas"], parameters["hops"]
    regions = MATCHING // replicas
    network, watch = star(
        "regions-unicast",
        _options(
            matching="regions",
            delivery="unicast",
            replicas=replicas,
            regions=regions,
            hops=hops,
            rendezvous="hash:key",
        ),
    )
    source = generator("l5-protocol", identity(parameters))
    likely = popularity(40, parameters["skew"], source.permutation(40))
    forty = np.arange(40)
    keys = [int(key) for key in source.choice(forty, SUBSCRIPTIONS, p=likely)]
    asked = [int(key) for key in source.choice(forty, parameters["events"], p=likely)]
    predicates = [parse(f"key = {key}") for key in keys]
    load = Load(network, watch, predicates, [{"key": key} for key in asked])
    names = [f"m{number}" for number in range(MATCHING)]
    routers: dict[str, Any] = {name: network.nodes[name].router for name in names}
    stored = [len(routers[name].layers.matching.store) for name in names]
    steps = min(hops, regions)
    rate = parameters["load"] * replicas / (MATCH(max(stored)) / 1e9)
    gaps = [50 * MILLISECOND] * len(asked)
    if rate:
        gaps = [int(gap / rate * 1e9) for gap in source.standard_exponential(len(asked))]
    load.play(gaps)
    visits = [routers[name].layers.matching.counts["visits"] for name in names]
    assert sum(visits) == steps * len(asked), "an event visits H nodes"
    matched: Counter[str] = Counter(id for found in load.matches for id in found)
    kept = assert_law(
        law(
            stored,
            visits,
            steps,
            SUBSCRIPTIONS,
            len(asked),
            max(map(len, load.matches)),
            [(count, replicas) for count in matched.values()],
        )
    )
    cost = [MATCH(n) for n in stored]
    mean = float(np.average(cost, weights=visits))  # of a visit
    busy = parameters["load"]
    walk = latency(HOP_NS, [mean] * steps)
    return {
        "measured_ms": float(np.mean(load.walked)) / 1e6,
        "formula_ms": walk / 1e6,
        "queue_ms": (walk + steps * waiting(busy, mean)) / 1e6,
        "storage": imbalance(stored),
        "routing": imbalance(visits),
        "law_storage": kept.storage,
        "law_routing": kept.routing,
    }


def _application(parameters: Parameters) -> Row:
    name, protocol = parameters["application"], parameters["protocol"]
    options = None
    if protocol != "cbcb":
        who, how = protocol.split("-")
        options = _options(matching=who, delivery=how)
        if who == "regions":
            options = _options(
                matching=who,
                delivery=how,
                replicas=3,
                regions=4,
                hops=2,
                rendezvous=f"hash:{APPLICATIONS[name]().profile.key}",
            )
    network, watch = star(protocol, options)
    workload = APPLICATIONS[name](seed=3, scale=10)
    predicates = [p for _, p in workload.subscriptions(0, SUBSCRIPTIONS)]
    events = workload.events(0, parameters["events"])
    for event in events:
        event.pop("payload")  # counted apart: it is the same for all
    load = Load(network, watch, predicates, events)
    begun = network.now
    load.play([20 * MILLISECOND] * len(events))
    if options is not None:
        match = [f"m{number}" for number in range(MATCHING)]
        users = [f"e{number}" for number in range(EDGES)]
        check_law(network, match, users, load.events, load.matches)
    return {
        "deliveries": sum(map(len, load.matches)),
        "packets": watch.packets / len(events),
        "bytes": watch.bytes / len(events),
        "other_bytes": watch.other_bytes / ((network.now - begun) / SECOND),
        "measured_ms": float(np.mean(load.delivered)) / 1e6 if load.delivered else 0.0,
    }


COLUMNS: Final = {
    **dict.fromkeys(("measured_ms", "formula_ms", "queue_ms", "storage", "routing"), float),
    **dict.fromkeys(("law_storage", "law_routing", "packets", "bytes", "other_bytes"), float),
    "deliveries": int,
}


def claims(rows: Rows) -> list[Claim]:
    shapes = select(rows, kind="shape")
    idle = [r["measured_ms"] / r["formula_ms"] for r in select(shapes, load=0.0)]
    busy = [r["measured_ms"] / r["queue_ms"] for r in shapes if r["load"]]
    least = min(min(r["law_storage"], r["law_routing"]) for r in shapes)
    hot = [
        r["routing"] * min(r["hops"], MATCHING // r["replicas"]) * r["replicas"] / MATCHING
        for r in select(shapes, skew="one")
    ]
    applications = select(rows, kind="application")
    deliveries = sum(r["deliveries"] for r in applications)
    spans, others = (
        {
            protocol: float(np.mean([r[name] for r in select(applications, protocol=protocol)]))
            for protocol in RIVALS
        }
        for name in ("bytes", "other_bytes")
    )
    return [
        Claim(
            "4.1",
            "assuming that all nodes are idle, latency = k1 H + sum of match(store_i)",
            f"the protocol takes {min(idle):.2f} to {max(idle):.2f} times that, with the mean "
            f"matching time of a visit; nodes busy by half {min(busy):.2f} to {max(busy):.2f} "
            "times what M/D/1 adds",
            min(idle) > 0.9 and max(idle) < 1.1,
        ),
        Claim(
            "2.1",
            "in the worst case, H R I_s >= N and H R I_r >= N",
            f"held in all {len(shapes)} runs of the protocol, by a factor of at least {least:.3f}; "
            f"with one key, H R I_r / N is {min(hot):.2f} to {max(hot):.2f}",
            least >= 1 - 1e-9,
        ),
        Claim(
            "3",
            "content-based matching solutions can be combined with event delivery solutions "
            "without any important losses of performance",
            f"{deliveries:,} deliveries of the applications, each as the scan finds it; bytes "
            "an event, means: "
            + ", ".join(
                f"{protocol} {size:,.0f} (and {others[protocol]:,.0f} a second that bear no event)"
                for protocol, size in spans.items()
            ),
            spans["everywhere-list"] <= 2 * spans["cbcb"],
            "On a star of 17 nodes, where `cbcb`, the monolithic one, matches at the hub on the "
            "way, and the layers must first go to nodes that match. Without the payload of events.",
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    for number, load in enumerate(LOADS):
        found = select(rows, kind="shape", load=load)
        axes[0].scatter(
            [r["queue_ms"] for r in found],
            [r["measured_ms"] for r in found],
            color=COLOURS[number],
            marker=MARKERS[number],
            label=f"busy {load:.0%}",
        )
    most = max(r["measured_ms"] for r in select(rows, kind="shape"))
    axes[0].plot([0, most], [0, most], color="black", linewidth=0.5)
    axes[0].set_xlabel("latency by the model, ms")
    axes[0].set_ylabel("latency of the protocol, ms")
    axes[0].legend()
    names = list(APPLICATIONS)
    for number, protocol in enumerate(RIVALS):
        found = select(rows, kind="application", protocol=protocol)
        axes[1].scatter(
            [names.index(r["application"]) for r in found],
            [r["bytes"] for r in found],
            color=COLOURS[number],
            marker=MARKERS[number],
            label=protocol,
        )
    axes[1].set_xticks(range(len(names)), names)
    axes[1].set_yscale("log")
    axes[1].set_ylabel("bytes an event")
    axes[1].legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="l5-protocol",
    parts=("L5", "L6"),
    title="The protocol on nodes that take time",
    question="Does the protocol behave as the model says?",
    paper="Formulas and properties in sections 2.1, 4.1 and 4.2; no implementation.",
    here="The protocol of Tidings in the simulator: 12 nodes that match and take time for it, 4 "
    "where users are, one that relays. Every delivery is compared with the scan. Then the five "
    "applications, beside everything everywhere, nowhere, and the monolithic `cbcb`.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
