"""Paper L, section 3 (L1): nine pairs of layers side by side, and the monolithic `cbcb`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import msgspec

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
from tidings.lab.layered import Watch, check_law
from tidings.matching.scan import Scan
from tidings.overlay.graph import Graph
from tidings.overlay.paths import trees
from tidings.overlay.topologies import topology
from tidings.routing.layers.delivery import DELIVERY
from tidings.routing.layers.matching import MATCHING
from tidings.routing.layers.settings import Layering
from tidings.routing.planes.interests import predicate_of
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import MILLISECOND, SECOND, Publish, Subscribe
from tidings.routing.protocols import PROTOCOLS
from tidings.sim.network import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS: Final = tuple(f"{who}-{how}" for who in MATCHING for how in DELIVERY)
MONOLITHIC: Final = "cbcb"
PLACES: Final = {
    "full": ("waxman:60", "ba:60", "grid:8x8", "tree:60"),
    "quick": ("waxman:16", "ba:16"),
    "tiny": ("waxman:10",),
}
SHARES: Final = {"few": 0.06, "some": 0.3, "most": 0.9}  # of the nodes that want an event
KEYS: Final = 20
EVENTS: Final = {"full": 100, "quick": 30, "tiny": 12}
REPLICAS: Final = 3
GAP_NS: Final = 50 * MILLISECOND


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"protocol": protocol, "topology": place, "wanted": wanted, "events": EVENTS[setting]}
        for place in PLACES[setting]
        for wanted in SHARES
        for protocol in (*PAIRS, MONOLITHIC)
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    graph = topology(parameters["topology"], 1)
    network, watch = _network(parameters["protocol"], parameters["topology"])
    source = generator("l1-layers", identity({**parameters, "protocol": ""}))
    wants: dict[str, str] = {}
    for name in graph.names:
        keys = [key for key in range(KEYS) if source.random() < SHARES[parameters["wanted"]]]
        if keys:
            wants[f"s{name}"] = f"key in ({', '.join(map(str, keys))})"
            network.tell(name, Subscribe(f"s{name}", wants[f"s{name}"]))
    network.run(network.now + 5 * SECOND)
    assert watch.settled >= wants.keys(), "not all subscriptions are established"
    control = watch.other_bytes
    watch.packets = watch.bytes = 0
    scan = Scan([(id, predicate_of(text)) for id, text in wants.items()])
    events = [{"key": int(source.integers(KEYS))} for _ in range(parameters["events"])]
    places = [graph.names[int(source.integers(graph.nodes))] for _ in events]
    numbers: Counter[str] = Counter()
    starts: dict[tuple[str, int], int] = {}
    due: Counter[tuple[str, str, int]] = Counter()
    matches = []
    for event, place in zip(events, places, strict=True):
        network.run(network.now + GAP_NS)
        numbers[place] += 1
        whose = (place, numbers[place])
        starts[whose] = network.now
        matches.append([str(id) for id in scan.match(event)])
        due.update((id, *whose) for id in matches[-1])
        network.tell(place, Publish(event))
    network.run(network.now + 3 * SECOND)
    assert watch.delivered_to == due, "deliveries differ from the scan"
    routers: dict[str, Any] = {name: node.router for name, node in network.nodes.items()}
    state = 0.0
    if parameters["protocol"] != MONOLITHIC:
        check_law(network, graph.names, graph.names, events, matches)
        state = fmean(len(router.layers.matching.store) for router in routers.values())
    bare = sum(len(msgspec.msgpack.encode(event)) for event in events) / len(events)
    yield {
        "packets": watch.packets / len(events),
        "header_bytes": watch.bytes / max(1, watch.packets) - bare,
        "bytes": watch.bytes / len(events),
        "control_bytes": control / graph.nodes,
        "state": state,
        "stretch": _stretch(watch, starts, graph),
        "deliveries": due.total(),
    }


def _network(protocol: str, place: str) -> tuple[Network, Watch]:
    graph, watch, topologies = topology(place, 1), Watch(), Topologies()
    row = PROTOCOLS[protocol]
    made = row.make
    if protocol != MONOLITHIC:
        who, how = protocol.split("-")
        layering: dict[str, Any] = {"matching": who, "delivery": how}
        options = Layering(**layering, replicas=REPLICAS, rendezvous="hash:key")
        made = partial(made, options=options)
    network = Network(
        lambda name, life: made(name, life, topologies=topologies), watch, Random(place), row.needs
    )
    for name in graph.names:
        network.add_node(name)
    for one, other, weight in graph.links:
        network.add_link(graph.names[one], graph.names[other], weight, weight * MILLISECOND)
    for name in graph.names:
        network.start(name)
    network.run(network.now + 3 * SECOND)
    return network, watch


def _stretch(watch: Watch, starts: dict[tuple[str, int], int], graph: Graph) -> float:
    """How long deliveries to other nodes took, by the delay of the shortest path; the mean."""
    places = {name: number for number, name in enumerate(graph.names)}
    shortest = {graph.names[one.source]: one.distance for one in trees(graph)}
    return fmean(
        (when - starts[source, number]) / (shortest[source][places[id[1:]]] * MILLISECOND)
        for (id, source, number), when in watch.first.items()
        if id != f"s{source}"
    )


COLUMNS: Final = {
    **dict.fromkeys(("packets", "header_bytes", "bytes", "control_bytes", "state"), float),
    "stretch": float,
    "deliveries": int,
}


def claims(rows: Rows) -> list[Claim]:
    by_list = _ratios(rows, "packets", "everywhere-list", MONOLITHIC)
    least: dict[str, list[str]] = {}
    for wanted in SHARES:
        for place in sorted({row["topology"] for row in rows}):
            few = {r["protocol"]: r["bytes"] for r in select(rows, topology=place, wanted=wanted)}
            least.setdefault(wanted, []).append(min(PAIRS, key=few.__getitem__))
    best = {wanted: max(found, key=found.count) for wanted, found in least.items()}
    stretch = {p: fmean(r["stretch"] for r in select(rows, protocol=p)) for p in PAIRS}
    state = {p: fmean(r["state"] for r in select(rows, protocol=p)) for p in PAIRS}
    header = {p: fmean(r["header_bytes"] for r in select(rows, protocol=p)) for p in PAIRS}
    return [
        Claim(
            "3",
            "content-based matching solutions can be combined with event delivery solutions",
            f"all nine pairs, {sum(r['deliveries'] for r in rows):,} deliveries, each as the scan "
            "finds it, and the law of the model in every run",
            True,
        ),
        Claim(
            "3.2",
            "the layered approach is good enough: no important losses of performance",
            f"`everywhere-list` sends {min(by_list):.2f} to {max(by_list):.2f} times the packets "
            f"of `{MONOLITHIC}`; regions take {stretch['regions-list']:.2f} times the shortest "
            f"delay, and hold {state['regions-list']:.1f} subscriptions at a node instead of "
            f"{state['everywhere-list']:.1f}",
            max(by_list) <= 1.1,
            "Packets of events alone. Headers of a list, which names its destinations, are "
            f"{header['everywhere-list']:.0f} bytes, of a copy for each "
            f"{header['everywhere-unicast']:.0f}, of a tree {header['everywhere-tree']:.0f}.",
        ),
        Claim(
            "3.1",
            "different applications need different delivery",
            "the fewest bytes: " + ", ".join(f"where {w} want it, {p}" for w, p in best.items()),
            len({pair.partition("-")[2] for pair in best.values()}) > 1,
        ),
    ]


def _ratios(rows: Rows, column: str, one: str, other: str) -> list[float]:
    """A column of one protocol by that of another, for each network and share."""
    other_of = {(r["topology"], r["wanted"]): r[column] for r in select(rows, protocol=other)}
    mine = select(rows, protocol=one)
    return [r[column] / other_of[r["topology"], r["wanted"]] for r in mine if r[column]]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(4)
    names = (*PAIRS, MONOLITHIC)
    titles = {
        "packets": "packets an event",
        "header_bytes": "bytes of a packet besides the event",
        "stretch": "delay by that of the shortest path",
        "state": "subscriptions at a node",
    }
    for axis, (column, title) in zip(axes, titles.items(), strict=True):
        for number, wanted in enumerate(SHARES):
            found = [
                fmean(r[column] for r in select(rows, protocol=name, wanted=wanted))
                for name in names
            ]
            axis.plot(
                range(len(names)),
                found,
                color=COLOURS[number],
                marker=MARKERS[number],
                linestyle="none",
                label=f"{wanted} nodes want it",
            )
        axis.set_xticks(range(len(names)), names, rotation=60, ha="right")
        axis.set_ylabel(title)
    axes[0].set_yscale("log")
    axes[0].legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="l1-layers",
    parts=("L1", "S4"),
    title="Pairs of layers side by side",
    question="What does it cost to answer who and how apart, and which pair costs least?",
    paper="Section 3 argues that the layers can be separated; it measures nothing.",
    here="Every pair of a matching and a delivery layer, as a protocol in the simulator, beside "
    "the monolithic `cbcb`: on random networks, where few, some or most nodes want an event. Every "
    "delivery is compared with the scan. `everywhere-list` is MEDYM as the survey reads it.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
