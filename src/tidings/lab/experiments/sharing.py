"""Paper U, section 3.2 (U3): what iPS saves, and by what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidings.lab.experiment import (
    BEYOND,
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
from tidings.lab.experiments.memory import FAMILIES, drawn_interests, made, mean
from tidings.lab.zoo import graph_of, origin_of, sample
from tidings.routing.memory import Scale, Size
from tidings.routing.network import Network
from tidings.routing.source_trees import ips, psf

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MADE: Final = {"full": 100, "quick": 64, "tiny": 16}  # nodes of a made network
SEEDS: Final = {"full": 5, "quick": 1, "tiny": 1}
TOPOLOGIES: Final = {"full": 1_000, "quick": 40, "tiny": 3}  # of the Zoo, at most
MAX_NODES: Final = 200
REAL: Final = "zoo"
IMPORTANT: Final = 0.9  # of PSF's state; a scheme that needs more saves too little to matter


def sweep(setting: Setting) -> list[Parameters]:
    made_ones: list[Parameters] = [
        {"family": family, "topology": "", "nodes": MADE[setting], "seed": seed}
        for family in FAMILIES
        for seed in range(1, 1 + SEEDS[setting])
    ]
    real: list[Parameters] = [
        {"family": REAL, "topology": text, "nodes": 0, "seed": 1}
        for text in sample(TOPOLOGIES[setting], (1, MAX_NODES))
    ]
    return made_ones + real


def measure(parameters: Parameters) -> Iterator[Row]:
    if parameters["topology"]:
        graph = graph_of(parameters["topology"])
    else:
        graph = made(parameters["family"], parameters["nodes"], parameters["seed"])
    source = generator("u3-sharing", identity(parameters))
    network = Network.of(graph, drawn_interests(source, list(range(graph.nodes))))
    scale = Scale(network)

    def bits(sizes: Iterator[Size]) -> int:
        by_node = scale.weigh(sizes).by_node
        assert by_node is not None
        return sum(by_node)

    plain, improved = psf.build(network), ips.build(network)
    yield {
        "psf": bits(psf.size(state) for state in plain),
        "psf_shared": bits(psf.size(state, shared=True) for state in plain),
        "ips": bits(ips.size(state, shared=False) for state in improved),
        "ips_shared": bits(ips.size(state) for state in improved),
        "rows_psf": sum(len(state.rows) for state in plain),
        "rows_ips": sum(len(state.rows) for state in improved),
        "rewritten": sum(len(state.rewrites) for state in improved),
    }


COLUMNS: Final = dict.fromkeys(
    ("psf", "psf_shared", "ips", "ips_shared", "rows_psf", "rows_ips", "rewritten"), int
)
SHOWN: Final = {
    "psf_shared": "PSF, shared",
    "ips": "iPS",
    "ips_shared": "iPS, shared",
}


def _share(rows: Rows, column: str, of: str = "psf") -> float:
    return mean(rows, column) / mean(rows, of)


def claims(rows: Rows) -> list[Claim]:
    real = select(rows, family=REAL)
    return [
        Claim(
            "3.2",
            "indistinguishable sources play an important role in practice, since networks are "
            "hierarchical: iPS needs less state than PSF",
            "state as a share of PSF's, each row with its own predicates: "
            + _by_family(rows, "ips", "psf"),
            _share(real, "ips") <= IMPORTANT if real else None,
            f"Agrees if iPS needs at most {IMPORTANT:.0%} of PSF's state in real networks (zoo), "
            "by indistinguishable sources alone: nothing is shared between rows. The other "
            "families are made. On a star it does not hold, for its sources can all be told apart, "
            "and hardly on a ring. Sharing predicates between rows saves as much or more, and "
            "leaves iPS nothing to save: see below.",
        ),
        Claim(
            BEYOND,
            "how often nodes keep one row for sources that they cannot tell apart",
            "rows kept, of PSF's: "
            + _by_family(rows, "rows_ips", "rows_psf")
            + "; of these rewrite the header: "
            + _by_family(rows, "rewritten", "rows_ips"),
            None,
            "The paper leaves how often that happens in real networks out of its scope. "
            + origin_of(rows),
        ),
        Claim(
            BEYOND,
            "what storing a predicate that several rows share once saves",
            "PSF with sharing: "
            + _by_family(rows, "psf_shared", "psf")
            + "; iPS with sharing: "
            + _by_family(rows, "ips_shared", "psf"),
            None,
            "The paper's bound for iPS on trees needs sharing. With it, PSF needs as little as "
            "iPS within "
            f"{max(abs(r['psf_shared'] / r['ips_shared'] - 1) for r in rows):.0%} on every network"
            + (f", {len(real)} of them real." if real else "."),
        ),
    ]


def _families(rows: Rows) -> dict[str, list[Row]]:
    return {family: found for family in (*FAMILIES, REAL) if (found := select(rows, family=family))}


def _by_family(rows: Rows, column: str, of: str) -> str:
    return ", ".join(
        f"{family} {_share(found, column, of):.0%}" for family, found in _families(rows).items()
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, panels

    figure, (bars,) = panels()
    families = _families(rows)
    for number, (column, label) in enumerate(SHOWN.items()):
        places = [place + 0.27 * (number - 1) for place in range(len(families))]
        shares = [100 * _share(found, column) for found in families.values()]
        bars.bar(places, shares, 0.25, color=COLOURS[number], label=label)
    bars.axhline(100, color="#888888", linewidth=0.8)
    bars.set_xticks(range(len(families)), families)
    bars.set_ylabel("state, % of PSF's")
    bars.set_ylim(0, 125)
    bars.legend(ncols=3, loc="upper center")
    return figure


EXPERIMENT: Final = Experiment(
    name="u3-sharing",
    parts=("U3",),
    title="iPS taken apart",
    question="Does iPS save state because sources cannot be told apart, or because rows share "
    "predicates?",
    paper="Defines indistinguishable sources and says that they matter in practice; a bound for "
    "trees, no measurement.",
    here="PSF and iPS, each with and without storing shared predicates once, on six families of "
    f"made networks and on the networks of the Topology Zoo of at most {MAX_NODES} nodes.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
