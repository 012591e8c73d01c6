"""Survey, VI-D (S16): a tree per publisher over Chord, from 10 to 10,000 nodes."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from math import ceil, log2
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.overlay.ideal import IdealRing
from tidings.sim.rings import Rings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES: Final = {"full": (10, 100, 1_000, 10_000), "quick": (10, 100, 1_000), "tiny": (10, 30)}
RINGS: Final = {"full": (10, 30, 100), "quick": (10, 30), "tiny": (10,)}  # that are simulated
LOOKUPS: Final = 2_000
SOURCES: Final = 8
REST_S: Final = 20  # until a ring is at rest, and for which its traffic is counted
POLL_S: Final = 0.25
MOST_POLLS: Final = 400


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"nodes": nodes, "simulated": nodes in RINGS[setting], "seed": 1}
        for nodes in sorted({*NODES[setting], *RINGS[setting]})
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    nodes, seed = parameters["nodes"], parameters["seed"]
    ring = IdealRing(map(str, range(nodes)))
    chance = Random(seed)
    hops = [
        len(lookup(ring, chance.choice(ring.nodes), chance.getrandbits(64))) - 1
        for _ in range(LOOKUPS)
    ]
    load: Counter[str] = Counter()
    rooted: Counter[str] = Counter()
    depth = packets = 0
    root = ring.nodes[0]
    for source in chance.sample(ring.nodes, min(SOURCES, nodes)):
        tree = broadcast(ring, source)
        packets += len(tree)
        depth = max(depth, *tree.values())
        load.update(sender for sender, _ in tree)
        rooted.update(sender for sender, _ in broadcast(ring, root))
    found = simulated(nodes, seed) if parameters["simulated"] else (0.0, 0.0)
    yield {
        "hops": statistics.mean(hops),
        "depth": depth,
        "packets": packets / min(SOURCES, nodes),
        "busiest": max(load.values()) / packets,
        "busiest_rooted": max(rooted.values()) / rooted.total(),
        "bytes_per_s": found[0],
        "repair_s": found[1],
    }


COLUMNS: Final = {
    "hops": float,
    "depth": int,
    "packets": float,
    "busiest": float,
    "busiest_rooted": float,
    "bytes_per_s": float,
    "repair_s": float,
}


def lookup(ring: IdealRing, source: str, key: int) -> list[str]:
    """The nodes on the path from one to the owner of a key."""
    path = [source]
    while (hop := ring.hop(path[-1], key)) is not None:
        path.append(hop)
    return path


def broadcast(ring: IdealRing, source: str) -> dict[tuple[str, str], int]:
    """The packets of an event that all nodes want, and how many came before on the path of each."""
    found: dict[tuple[str, str], int] = {}
    pending = [(source, ring.circle.key(source), 0)]
    for node, end, depth in pending:  # grows while it is read
        for head, stop in ring.split(node, end):
            found[node, head] = depth + 1
            pending.append((head, stop, depth + 1))
    return found


def simulated(nodes: int, seed: int) -> tuple[float, float]:
    """A ring at rest: bytes a node and second; and the seconds that it takes to repair a crash."""
    rings = Rings(f"ba:{nodes}", seed)
    for name in list(rings.network.nodes):
        rings.network.start(name)
    rings.run(REST_S)
    before = rings.traffic.bytes
    rings.run(REST_S)
    per_second = (rings.traffic.bytes - before) / nodes / REST_S
    rings.network.stop("1", forget=True)
    polls = 0
    while rings.wrong() and polls < MOST_POLLS:
        rings.run(POLL_S)
        polls += 1
    return per_second, polls * POLL_S


def claims(rows: Rows) -> list[Claim]:
    sizes = values(rows, "nodes")
    by_size = {nodes: select(rows, nodes=nodes)[0] for nodes in sizes}
    largest = by_size[sizes[-1]]
    hops = {nodes: row["hops"] / log2(nodes) for nodes, row in by_size.items() if nodes >= 30}
    return [
        Claim(
            "VI-D",
            "it is possible to spread the load using a different tree per publisher",
            f"with {sizes[-1]:,} nodes the busiest sends {largest['busiest']:.1%} of the packets "
            f"of {SOURCES} publishers; in one tree for all, {largest['busiest_rooted']:.1%}",
            largest["busiest"] < largest["busiest_rooted"],
        ),
        Claim(
            "VI-D, [57]",
            "a lookup in Chord takes about half the logarithm of the nodes in hops",
            ", ".join(f"{share:.2f} × log2 {nodes:,}" for nodes, share in hops.items()),
            all(0.3 < share < 0.6 for share in hops.values()),
            "The list of four successors saves the last hops.",
        ),
        Claim(
            "VI-D, [61]",
            "an event that all want takes one packet fewer than there are nodes, on a path of "
            "logarithmic length",
            f"{largest['packets']:,.0f} packets, at most {largest['depth']} hops",
            all(row["packets"] == nodes - 1 for nodes, row in by_size.items())
            and all(row["depth"] <= 1.5 * ceil(log2(nodes)) + 2 for nodes, row in by_size.items()),
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (hops, load) = panels(2)
    sizes = values(rows, "nodes")
    lines: list[tuple[Any, str, str]] = [
        (hops, "hops", "hops of a lookup"),
        (hops, "depth", "depth of a publisher's tree"),
        (load, "busiest", "a tree per publisher"),
        (load, "busiest_rooted", "one tree for all"),
    ]
    for number, (axes, column, label) in enumerate(lines):
        line = [select(rows, nodes=nodes)[0][column] for nodes in sizes]
        axes.plot(sizes, line, label=label, color=COLOURS[number], marker=MARKERS[number])
    for axes in (hops, load):
        axes.set_xscale("log")
        axes.set_xlabel("nodes")
        axes.legend()
    load.set_ylabel("share of the busiest node")
    return figure


EXPERIMENT: Final = Experiment(
    name="s16-chord-trees",
    parts=("S16",),
    title="A tree per publisher over Chord",
    question="How long are the paths, how is the load spread, and what does the ring cost?",
    paper="The survey names the method and its purpose, and gives no figures.",
    here="Rings at rest from 10 to 10,000 nodes, events that all want; and simulated rings up to "
    "100 nodes: bytes that a node sends to keep the ring, and the time until a crash is repaired.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
