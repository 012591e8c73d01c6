"""Paper U, sections 2 and 3 (U1 to U5): the packets of every scheme on real networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import (
    BEYOND,
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    generator,
    select,
)
from tidings.lab.zoo import graph_of, origin_of, sample
from tidings.matching.workload import ForwardingWorkload
from tidings.overlay.paths import unique_paths
from tidings.routing.delivery import deliver, judge
from tidings.routing.network import Matched, Network
from tidings.routing.schemes import SCHEMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOPOLOGIES: Final = {"full": 1_000, "quick": 60, "tiny": 4}  # at most
EVENTS: Final = {"full": 500, "quick": 100, "tiny": 40}
SUBSCRIPTIONS: Final = 10  # a node
COMPARED = ("flooding", "psf", "ips", "pif", "drp")  # those of paper U


def sweep(setting: Setting) -> list[Parameters]:
    return [{"topology": text, "events": EVENTS[setting]} for text in sample(TOPOLOGIES[setting])]


def measure(parameters: Parameters) -> Iterator[Row]:
    graph = graph_of(parameters["topology"])
    workload = ForwardingWorkload(seed=1)
    held = workload.subscriptions(0, SUBSCRIPTIONS * graph.nodes)
    network = Network.of(graph, ((row % graph.nodes, predicate) for row, predicate in held))
    source = generator("u1-schemes", parameters["topology"])
    sources = source.integers(0, graph.nodes, (parameters["events"],)).tolist()
    events = workload.events(0, parameters["events"])
    asked = [(node, network.interested(event)) for node, event in zip(sources, events, strict=True)]
    unique = unique_paths(graph)
    for scheme in map(SCHEMES.__getitem__, COMPARED):
        states = scheme.build(network)
        totals: Counter[str] = Counter()
        stretch_max = 1.0
        for node, interested in asked:
            delivery = deliver(scheme, states, scheme.graph(network), node, Matched(interested))
            outcome = judge(network, delivery, interested)
            for name in ("expected", "delivered", "packets", "relayed", "spam", "duplicates"):
                totals[name] += getattr(outcome, name)
            totals["header_bits"] += outcome.header_bits
            totals["not_ideal"] += not outcome.ideal
            stretch_max = max(stretch_max, *outcome.stretches, 1.0)
        yield {
            "scheme": scheme.name,
            "nodes": graph.nodes,
            "links": len(graph.links),
            "unique": unique,
            "stretch_max": stretch_max,
            **{name: totals[name] for name in COUNTS},
        }


COUNTS: Final = (
    "expected", "delivered", "packets", "relayed", "spam", "duplicates", "header_bits", "not_ideal",
)  # fmt: skip
COLUMNS: Final = {
    "scheme": str,
    "nodes": int,
    "links": int,
    "unique": bool,
    "stretch_max": float,
    **dict.fromkeys(COUNTS, int),
}


def claims(rows: Rows) -> list[Claim]:
    by_scheme = {scheme: select(rows, scheme=scheme) for scheme in COMPARED}
    packets = {
        scheme: {r["topology"]: r["packets"] for r in found} for scheme, found in by_scheme.items()
    }
    whole = len(by_scheme["psf"])
    lost = sum(r["expected"] - r["delivered"] for r in rows)
    longest = max(r["stretch_max"] for r in rows)
    ideal = {scheme: sum(not r["not_ideal"] for r in found) for scheme, found in by_scheme.items()}
    unique = sum(r["unique"] for r in by_scheme["psf"])
    spam = [r["spam"] / r["packets"] if r["packets"] else 0.0 for r in by_scheme["pif"]]
    more = [packets["pif"][text] / count - 1 for text, count in packets["psf"].items() if count]
    flooded = sum(packets["flooding"].values()) / max(1, sum(packets["psf"].values()))
    return [
        Claim(
            "2.3, 3",
            "PSF, iPS, PIF and DRP are correct and latency-minimal",
            f"{lost} of {sum(r['expected'] for r in rows):,} deliveries missed, greatest stretch "
            f"{longest:.2f}. {origin_of(rows)}",
            lost == 0 and longest == 1.0,
        ),
        Claim(
            "3.2",
            "iPS sends what PSF sends, and both send no packet in vain",
            f"the same packets on {sum(packets['ips'][t] == n for t, n in packets['psf'].items())} "
            f"of {whole} networks; no packet in vain on {ideal['psf']} and {ideal['ips']}",
            ideal["psf"] == ideal["ips"] == whole and packets["ips"] == packets["psf"],
            "u1-ideal asks for more: the smallest tree.",
        ),
        Claim(
            "3.3",
            "PIF sends every packet that PSF sends, and is not ideal",
            f"spam on {sum(share > 0 for share in spam)} of {whole} networks, at most "
            f"{max(spam):.0%} of its packets; {sum(more) / max(1, len(more)):.1%} more packets "
            "than PSF on average",
            min(more, default=0.0) >= 0 and any(share > 0 for share in spam),
        ),
        Claim(
            "3.4",
            "DRP is ideal if shortest paths are unique",
            f"they are on {unique} of {whole} networks; DRP is ideal on all of these"
            if all(not r["not_ideal"] for r in by_scheme["drp"] if r["unique"])
            else "DRP is not ideal on a network with unique shortest paths",
            all(not r["not_ideal"] for r in by_scheme["drp"] if r["unique"]),
        ),
        Claim(
            "3.4",
            "the price of DRP's little state is its headers",
            f"{_header_bits(by_scheme['drp']):.0f} bits a packet on average, PSF "
            f"{_header_bits(by_scheme['psf']):.0f}",
            _header_bits(by_scheme["drp"]) > _header_bits(by_scheme["psf"]),
        ),
        Claim(
            BEYOND,
            "flooding, for comparison",
            f"{flooded:.0f} times the packets of PSF over all networks; "
            f"{_share(by_scheme['flooding'], 'duplicates')} of them are duplicates and "
            f"{_share(by_scheme['flooding'], 'spam')} spam",
            None,
        ),
    ]


def _header_bits(rows: Rows) -> float:
    bits: int = sum(r["header_bits"] for r in rows)
    packets: int = sum(r["packets"] for r in rows)
    return bits / max(1, packets)


def _share(rows: Rows, name: str) -> str:
    return f"{sum(r[name] for r in rows) / max(1, sum(r['packets'] for r in rows)):.0%}"


def draw(rows: Rows) -> Figure:
    """Networks side by side, each curve sorted: schemes that send the same lie on one line."""
    from tidings.lab.figures import COLOURS, panels

    figure, (packets, vain) = panels(2)
    least = {r["topology"]: r["packets"] for r in select(rows, scheme="psf") if r["packets"]}
    for number, scheme in enumerate(COMPARED):
        found = [r for r in select(rows, scheme=scheme) if r["topology"] in least]
        ratios = sorted(r["packets"] / least[r["topology"]] for r in found)
        style: dict[str, Any] = {"color": COLOURS[number], "linewidth": 1.6}
        if scheme in ("ips", "drp"):  # on the line of psf
            style |= {"linestyle": "--" if scheme == "ips" else ":", "linewidth": 2.4}
        packets.plot(ratios, label=scheme, **style)
        for name, dashes in (("spam", "-"), ("duplicates", "--")):
            shares = sorted(100 * r[name] / r["packets"] for r in found if r["packets"])
            if any(shares):
                vain.plot(shares, label=f"{scheme}: {name}", **style | {"linestyle": dashes})
    packets.set_yscale("log")
    packets.set_ylabel("packets, by those of psf")
    vain.set_ylabel("share of packets in vain, %")
    for axes in (packets, vain):
        axes.set_xlabel("networks, sorted by curve")
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="u1-schemes",
    parts=("S1", "U1", "U2", "U3", "U4", "U5"),
    title="The packets of every scheme on real networks",
    question="How many packets does each scheme send to deliver the events, and how many in vain?",
    paper="Definitions and proofs in sections 2 and 3, examples on small graphs, no measurement.",
    here="Every network of the Topology Zoo with the real length of links; ten subscriptions a "
    "node, and events at random nodes, from the generator of paper F; every packet of every "
    "scheme.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
