"""Paper L, sections 2.2 and 4.2 (L6): the five applications of Table 1, each alone and at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select
from tidings.lab.layer_model import imbalance
from tidings.lab.planning import HEADER_BYTES, Needs, PlanError, evaluated, plan, serves
from tidings.lab.profiling import TIMES, machine_for, needs_of, rendezvous_for
from tidings.lab.trips import Layer, Trip, drawn, travel
from tidings.matching.table import Table
from tidings.matching.workload import APPLICATIONS, Record
from tidings.overlay.weights import first_nodes
from tidings.routing.layers.placement import Regions
from tidings.routing.layers.rendezvous import MOST_PLACES, One, Rendezvous, keys_of, placed, wide
from tidings.sim.service import Service

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES: Final = 72
TOGETHER: Final = (72, 96)  # nodes for all five at once
SAMPLE: Final = {"full": 4_000, "quick": 600, "tiny": 100}  # subscriptions, which stand for all
EVENTS: Final = {"full": 20_000, "quick": 1_000, "tiny": 60}
TOGETHER_S: Final = {"full": 10.0, "quick": 1.0, "tiny": 0.1}
MOST: Final = {"full": 250_000, "quick": 12_000, "tiny": 1_000}  # events; one stands for several
SMALL: Final = {"slower": 2.0, "memory": 100_000, "hop_ms": 0.5}
SHAPES: Final = tuple(
    (replicas, hops) for replicas in (1, 2, 3, 6, 12, 24, 72) for hops in (1, 2, 4, 6, 10, 13, 24)
)  # R, H


def sweep(setting: Setting) -> list[Parameters]:
    size = {"sample": SAMPLE[setting], "events": EVENTS[setting]}
    rows: list[Parameters] = [
        {"kind": "alone", "application": name, "scheme": scheme} | size
        for name in APPLICATIONS
        for scheme in ("own", "everywhere", "nowhere")
    ]
    rows.append({"kind": "one shape"})
    seconds = {"seconds": TOGETHER_S[setting], "most": MOST[setting]}
    rows += [
        {"kind": "together", "nodes": nodes, "sample": SAMPLE[setting]} | seconds
        for nodes in TOGETHER
    ]
    return rows


def measure(parameters: Parameters) -> Iterator[Row]:
    if parameters["kind"] == "one shape":
        yield from _one_shape()
    elif parameters["kind"] == "together":
        yield from _together(parameters)
    else:
        yield _alone(parameters)


@lru_cache(maxsize=8)
def small_needs(name: str) -> Needs:
    """What an application needs of small nodes, so that one alone seldom does."""
    machine = machine_for(name)
    machine = msgspec.structs.replace(
        machine,
        match_fixed_us=machine.match_fixed_us * SMALL["slower"],
        match_growth_us=machine.match_growth_us * SMALL["slower"],
        memory=int(SMALL["memory"]),
        hop_ms=SMALL["hop_ms"],
    )
    return needs_of(name, machine)


class Shape(NamedTuple):
    """An application's configuration."""

    replicas: int
    hops: int
    regions: int
    rendezvous: str


def _shape(needs: Needs, scheme: str) -> Shape:
    match scheme:
        case "own":
            found = plan(needs, 10 * NODES)
            return Shape(found.replicas, found.hops, found.regions, found.rendezvous)
        case "everywhere":
            return Shape(NODES, 1, 1, "one")
        case "nowhere":
            return Shape(1, NODES, NODES, "one")
        case _:
            raise ValueError(f"expected a scheme, found {scheme!r}")


class Run:
    """An application on its nodes: a sample of its subscriptions, and the trips of its events."""

    def __init__(self, name: str, shape: Shape, nodes: Sequence[str], sample: int) -> None:
        self.name = name
        self.needs = small_needs(name)
        self.workload = APPLICATIONS[name](seed=1)
        regions = Regions(shape.regions, shape.hops)
        self.layer = Layer(name, nodes, regions, weight=self.needs.subscriptions / sample)
        self.rendezvous: Rendezvous = One()
        if shape.rendezvous != "one":
            self.rendezvous = rendezvous_for(name, self.workload) or One()
        self.lies: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        subscriptions = list(self.workload.subscriptions(0, sample))
        self.keys: set[int] = set()
        turns: Counter[int] = Counter()
        self.copies: dict[int, list[int]] = {}  # the homes of a subscription
        for row, predicate in subscriptions:
            places = placed(self.rendezvous, predicate, shape.regions, MOST_PLACES)
            homes = []
            for key in sorted(places):
                # By turns, not by chance: the sample stands for many, whose homes even out.
                (home,) = regions.homes(key, turns[key])
                turns[key] += 1
                self.layer.store(key, home)
                homes.append((key, home))
                self.lies[key, home].add(row)
            self.copies[row] = [home for _, home in homes]
            self.keys |= places
        self.table = Table(subscriptions)
        self.matched: Counter[int] = Counter()  # events by subscription
        self.most = 0  # subscriptions that one event matched
        self.walks = 0
        self.events = 0
        match = self.needs.nodes.match_time()
        self.cost = {node: match(self.layer.load(node)) for node in nodes}

    def trips(self, starts: Sequence[int], first: int, each: int = 1) -> list[Trip]:
        """The trips of events, each of which stands for several; every match must be met."""
        found = []
        shape = self.layer.placement.shape
        for number, (start, event) in enumerate(
            zip(starts, self.workload.events(0, len(starts)), strict=True)
        ):
            keys = self._keys(event)
            matched = {int(row) for row in self.table.match(event)}
            met = {
                row
                for key in keys
                for home in shape.visits(key)
                for row in self.lies.get((key, home), ())
            }
            assert met >= matched, "a match was not met"
            self.matched.update(matched)
            self.most = max(self.most, len(matched))
            for walk in self.layer.route(number, keys):
                self.walks += len(walk)
                stops = tuple((node, each * self.cost[node]) for node in walk)
                found.append(Trip(first + number, start, stops))
        self.events += len(starts)
        return found

    def _keys(self, event: Record) -> frozenset[int]:
        """The keys of an event; that of wide subscriptions if there are any."""
        regions = self.layer.placement.shape.regions
        found = keys_of(self.rendezvous, event, regions)
        return found | {wide(regions)} if wide(regions) in self.keys else found

    def renewals(self, seconds: float) -> list[Trip]:
        """What replaced subscriptions cost: work at each replica, which no event waits for."""
        cost = int(self.needs.nodes.store_us * 1e3)
        found = []
        for number in range(int(self.needs.renewals_per_second * seconds)):
            start = int(number / self.needs.renewals_per_second * 1e9)
            rows = self.copies[drawn("renewal", number) % len(self.copies)]
            nodes = [node for home in rows for node in self.layer.placement.members(home)]
            found += [Trip(-1 - number, start, ((node, cost),)) for node in nodes]
        return found

    def row(self, took: Sequence[int], service: Service, seconds: float) -> Row:
        """What was measured; the law of the model is asserted."""
        layer, needs = self.layer, self.needs
        homes = [(found, self.matched[row]) for row, found in self.copies.items()]
        layer.checked_law(len(self.copies), self.events, self.most, homes)
        nodes = layer.nodes
        busy = max(service.busy_ns[node] for node in nodes) / 1e9
        copies = sum(layer.stored.values()) / len(self.copies)
        return {
            "application": self.name,
            "events": self.events,
            "used": len(nodes),
            "visits": self.walks / self.events,
            "copies": copies,
            "p50_ms": float(np.percentile(took, 50)) / 1e6,
            "p99_ms": float(np.percentile(took, 99)) / 1e6,
            "latency_ms": needs.latency_ms,
            "busy": busy / seconds,
            "stored": max(map(layer.load, nodes)),
            "storage": imbalance([layer.stored[node] for node in nodes]),
            "routing": imbalance([layer.visited[node] for node in nodes]),
            "event_bytes": self.walks / self.events * (needs.event_bytes + HEADER_BYTES),
            "store_bytes": copies * (needs.subscription_bytes + HEADER_BYTES),
            "serves": "",
        }


def _no_cost(router: Any, packet: Any) -> int:
    raise AssertionError("trips bring their costs")


def _scattered(trips: Sequence[Trip]) -> list[Trip]:
    return [Trip(t.event, t.start_ns, (stop,)) for t in trips for stop in t.stops]


def _in_order(trips: list[Trip]) -> list[Trip]:
    return sorted(trips, key=lambda trip: (trip.start_ns, trip.event))


def _alone(parameters: Parameters) -> Row:
    name, scheme = parameters["application"], parameters["scheme"]
    needs = small_needs(name)
    shape = _shape(needs, scheme)
    nodes = [f"n{number}" for number in range(shape.replicas * shape.regions)]
    run = Run(name, shape, nodes, parameters["sample"])
    # As many events as asked for, at the rate when it is busiest, arriving as Poisson's.
    gaps = np.random.default_rng(drawn(name)).standard_exponential(parameters["events"])
    starts = np.cumsum(gaps / needs.events_per_second * 1e9).astype(int).tolist()
    seconds = starts[-1] / 1e9
    trips = run.trips(starts, 0)
    if scheme == "nowhere":
        trips = _scattered(trips)
    service = Service(_no_cost)
    hop_ns = int(needs.nodes.hop_ms * 1e6)
    took = travel(_in_order(trips + run.renewals(seconds)), hop_ns, service)
    row = run.row([ns for event, ns in took.items() if event >= 0], service, seconds)
    predicted = evaluated(
        msgspec.structs.replace(needs, rendezvous=shape.rendezvous),
        shape.regions,
        shape.hops,
        shape.replicas,
    )
    return row | {
        "replicas": shape.replicas,
        "hops": shape.hops,
        "regions": shape.regions,
        "predicted_ms": min(predicted.latency_ms, 1e9),
        "predicted_busy": predicted.busy,
        "serves": _verdict(row, needs),
    }


def _verdict(row: Row, needs: Needs) -> str:
    """What was too much; empty if the application is served."""
    if row["stored"] > needs.nodes.memory * 1.1:  # a sample stands for all
        return "memory"
    if row["busy"] > 1:
        return "load"
    return "latency" if row["p99_ms"] > needs.latency_ms else ""


def _one_shape() -> Iterator[Row]:
    """Which applications a shape serves on all nodes, by the model, for many shapes."""
    for replicas, hops in SHAPES:
        regions = max(1, NODES // replicas)
        if hops > regions:
            continue
        broken = {}
        for name in APPLICATIONS:
            needs = small_needs(name)
            rivals = [needs]
            if hops == regions:
                rivals.append(msgspec.structs.replace(needs, rendezvous="one"))
            if needs.rendezvous == "one" and hops < regions:
                broken[name] = "key"  # it has none, and an event would miss regions
                continue
            verdicts = [serves(one, regions, hops, replicas) for one in rivals]
            if "" not in verdicts:
                broken[name] = verdicts[0]
        yield {
            "replicas": replicas,
            "hops": hops,
            "regions": regions,
            "served": len(APPLICATIONS) - len(broken),
            "serves": ", ".join(f"{name}: {why}" for name, why in broken.items()),
        }


def _together(parameters: Parameters) -> Iterator[Row]:
    """All five at once on the same nodes, each on the nodes with the most to spare."""
    names = [f"n{number}" for number in range(parameters["nodes"])]
    seconds = parameters["seconds"]
    spare = dict.fromkeys(names, 1.0)
    shapes = {name: _shape(small_needs(name), "own") for name in APPLICATIONS}
    runs: dict[str, Run] = {}
    trips: list[Trip] = []
    for name, shape in sorted(shapes.items(), key=lambda item: -item[1].replicas * item[1].regions):
        needs = small_needs(name)
        wanted = shape.replicas * shape.regions
        if wanted > len(names):
            raise PlanError(f"{name}: expected at most {len(names)} nodes, found {wanted}")
        weights = {node: left**8 for node, left in spare.items()}  # who is busy is chosen last
        nodes = first_nodes(name, names, wanted, weights)
        busy = evaluated(
            msgspec.structs.replace(needs, rendezvous=shape.rendezvous),
            shape.regions,
            shape.hops,
            shape.replicas,
        ).busy
        for node in nodes:
            spare[node] = max(0.02, spare[node] - busy)
        run = runs[name] = Run(name, shape, nodes, parameters["sample"])
        published = max(2, int(needs.events_per_second * seconds))
        each = -(-published // parameters["most"])
        count = published // each
        gaps = np.random.default_rng(drawn(name)).standard_exponential(count)
        times = np.cumsum(gaps)
        starts = (times / times[-1] * seconds * 1e9).astype(int).tolist()
        trips += run.trips(starts, 10**9 * (len(runs) - 1), each)
        trips += run.renewals(seconds)
    service = Service(_no_cost)
    hop_ns = int(SMALL["hop_ms"] * 1e6)
    took = travel(_in_order(trips), hop_ns, service)
    for number, (name, run) in enumerate(runs.items()):
        mine = [ns for event, ns in took.items() if 10**9 * number <= event < 10**9 * (number + 1)]
        row = run.row(mine, service, seconds)
        shape = shapes[name]
        yield row | {
            "replicas": shape.replicas,
            "hops": shape.hops,
            "regions": shape.regions,
            "serves": "latency" if row["p99_ms"] > row["latency_ms"] else "",
        }


COLUMNS: Final = {
    **dict.fromkeys(("application", "serves"), str),
    **dict.fromkeys(("events", "used", "replicas", "hops", "regions", "served"), int),
    **dict.fromkeys(
        ("visits", "copies", "p50_ms", "p99_ms", "latency_ms", "busy", "stored", "storage"), float
    ),
    **dict.fromkeys(
        ("routing", "event_bytes", "store_bytes", "predicted_ms", "predicted_busy"), float
    ),
}


def claims(rows: Rows) -> list[Claim]:
    alone = select(rows, kind="alone")
    own = select(alone, scheme="own")
    shapes = select(rows, kind="one shape")
    few, together = (select(rows, kind="together", nodes=nodes) for nodes in TOGETHER)
    most = max(shapes, key=lambda r: r["served"])
    rivals = {
        scheme: [f"{r['application']} ({r['serves']})" for r in select(alone, scheme=scheme)
                 if r["serves"]]
        for scheme in ("everywhere", "nowhere")
    }  # fmt: skip
    quotes = select(own, application="quotes")[0]
    waits = [r["p99_ms"] / r["latency_ms"] for r in together]
    near = [r["busy"] / r["predicted_busy"] for r in own if r["events"] >= 1_000]
    return [
        Claim(
            "2.2",
            "the diversity in requirements seriously complicates the task of creating a "
            "one-size-fits-all solution",
            f"of {len(shapes)} shapes of {NODES} small nodes none serves all five; R = "
            f"{most['replicas']}, H = {most['hops']} serves {most['served']} and fails "
            f"{most['serves']}. Everything everywhere fails {', '.join(rivals['everywhere'])}; "
            f"nowhere fails {', '.join(rivals['nowhere'])}",
            max(r["served"] for r in shapes) < len(TIMES),
            "Small nodes: twice slower than measured, room for 100,000 subscriptions, 0.5 ms a "
            "hop. On nodes with room for millions and the engine's own times, one node serves "
            "games, feeds and alerts out of bursts.",
        ),
        Claim(
            "4.2",
            "since R and H can be chosen arbitrarily, this simple architecture can potentially "
            "support completely different classes of applications",
            "; ".join(
                f"{r['application']} R = {r['replicas']}, H = {r['hops']}, X = {r['regions']}: "
                f"p99 {r['p99_ms']:.1f} of {r['latency_ms']:g} ms"
                for r in own
            ),
            not any(r["serves"] for r in own),
            "Each by its own plan (`tidings plan`). The key decides as much as R and H: `alerts` "
            "has none that pays, as a host asks for up to 200 products, so it visits every region.",
        ),
        Claim(
            "4.2",
            "the solution can support multiple applications with different characteristics on the "
            "same infrastructure of nodes",
            f"all five at once, p99 by the limit: on {TOGETHER[1]} nodes {_limits(together)}; on "
            f"{TOGETHER[0]} nodes {_limits(few)}",
            max(waits) <= 1,
            "Each takes as many nodes as its plan says, those with the most to spare first; "
            f"together they are {sum(r['used'] for r in together)}. Nodes serve in the order of "
            "arrival, so where they share too many, an event of quotes waits behind the long "
            "matching of alerts. An event of places stands for several.",
        ),
        Claim(
            "Table 1",
            "stock quotes: a maximum latency of about 0.01 s",
            f"H = {quotes['hops']} hops of {SMALL['hop_ms']:g} ms and matching take "
            f"{quotes['p50_ms']:.1f} ms of 10",
            quotes["p99_ms"] <= 10,
            "So its nodes stand in one place: hops of 10 ms leave no plan at all.",
        ),
        Claim(
            "4.1",
            "application level requirements can be improved by controlling lower level parameters",
            f"the busiest node works {min(near):.2f} to {max(near):.2f} times as much as planned"
            if near
            else "too few events",
            min(near) > 0.3 and max(near) < 1.7 if near else None,
            "A plan reckons with the hottest key and the wide subscriptions in one region; they "
            "seldom meet.",
        ),
    ]


def _limits(rows: Rows) -> str:
    return ", ".join(f"{r['application']} {r['p99_ms'] / r['latency_ms']:.0%}" for r in rows)


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    places = {name: place for place, name in enumerate(APPLICATIONS)}
    for number, scheme in enumerate(("own", "everywhere", "nowhere")):
        found = select(rows, kind="alone", scheme=scheme)
        at = [places[r["application"]] for r in found]
        style: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number]}
        axes[0].scatter(at, [r["p99_ms"] / r["latency_ms"] for r in found], label=scheme, **style)
        axes[1].scatter(at, [r["stored"] / SMALL["memory"] for r in found], label=scheme, **style)
    found = select(rows, kind="together", nodes=TOGETHER[1])
    at = [places[r["application"]] for r in found]
    shares = [r["p99_ms"] / r["latency_ms"] for r in found]
    axes[0].scatter(at, shares, color=COLOURS[3], marker="x", label="all at once")
    axes[0].set_ylabel("p99 latency by the limit")
    axes[1].set_ylabel("stored by memory, fullest node")
    for panel in axes:
        panel.set_yscale("log")
        panel.axhline(1, color="black", linewidth=0.7, linestyle=":")
        panel.set_xticks(range(len(places)), list(places))
    axes[0].legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="l6-applications",
    parts=("L6",),
    title="The five applications of Table 1",
    question="Does one R and H serve all five applications, and does each its own?",
    paper="Table 1 and section 2.2; no measurement.",
    here="Seeded workloads held to the table, planned for small nodes and simulated at full rate: "
    "a sample of the subscriptions stands for all, and events walk through nodes that take time. "
    "Each alone, beside everything everywhere and nowhere; then all five on the same nodes. "
    "Every match of the sample must be met.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
