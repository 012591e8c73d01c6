"""The networks of the experiments: the Internet Topology Zoo, or generated ones without it.

The Zoo (Knight et al., IEEE JSAC 29(9), 2011; CC BY 4.0) is not part of this repository: the lab
looks for it in `../shared/data/topology-zoo` beside the clone. `networks` says which networks there
are, and where they are from. Executors on other machines have no clone: `send_networks` sends them
the archive with the job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tidings.overlay.graph import Graph
from tidings.overlay.topologies import TopologyError, topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidings.lab.experiment import Parameters

ARCHIVE: Final = "graphml.tar.xz"
FOLDER: Final = Path(__file__).parents[4] / "shared" / "data" / "topology-zoo"
ZOO: Final = "zoo:"
DISTANCE: Final = "distance"
HOPS: Final = "hops"
MADE: Final = tuple(
    f"{kind}:{nodes}{weights}"
    for nodes in (10, 20, 40, 80, 160)
    for kind, weights in (("waxman", ",weights=distance"), ("ba", ",weights=1-9"), ("tree", ""))
)


class Networks(NamedTuple):
    """The texts that name networks, and where the networks are from."""

    texts: list[str]
    origin: str
    nodes: dict[str, int]  # how many each has


@lru_cache(maxsize=1)
def networks() -> Networks:
    """All networks, the smallest first."""
    try:
        index = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
    except OSError:
        return Networks(
            list(MADE),
            "Generated networks: the Topology Zoo is not beside this clone (../shared).",
            {text: topology(text, seed=1).nodes for text in MADE},
        )
    found = sorted((entry["nodes"], entry["file"].removesuffix(".graphml")) for entry in index)
    return Networks(
        [f"{ZOO}{name}" for _, name in found],
        f"{len(found)} networks of the Internet Topology Zoo.",
        {f"{ZOO}{name}": nodes for nodes, name in found},
    )


def sample(most: int, nodes: tuple[int, int] | None = None) -> list[str]:
    """At most `most` of the networks, of all sizes, or of these numbers of nodes."""
    found = networks()
    texts = found.texts
    if nodes is not None:
        low, high = nodes
        texts = [text for text in texts if low <= found.nodes[text] <= high]
    return texts[:: max(1, len(texts) // most)][:most]


def graph_of(text: str, weights: str = DISTANCE) -> Graph:
    """The graph of a text; links of the Zoo have their real length, if places are known.

    With `HOPS` every link weighs 1, whatever the text says.
    """
    if not text.startswith(ZOO):
        return topology(text.partition(",")[0] if weights == HOPS else text, seed=1)
    file = path_of(text)
    if weights == HOPS:
        return topology(file)
    try:
        return topology(f"{file},weights=distance")
    except TopologyError:  # no link joins two nodes with known places
        return topology(file)


def origin_of(rows: Iterable[Parameters]) -> str:
    """Where the networks of some results come from, and how many they are."""
    real = {row["topology"] for row in rows if row["topology"].startswith(ZOO)}
    return f"{len(real)} networks of the Internet Topology Zoo." if real else networks().origin


def path_of(text: str) -> str:
    """The text by which `topology` finds a network; links of the Zoo weigh 1."""
    return f"file:{_archive()}#{text.removeprefix(ZOO)}" if text.startswith(ZOO) else text


def send_networks(spark: SparkSession, sweep: Iterable[Parameters]) -> None:
    """Send the archive of the Zoo to all executors, if rows of parameters name a network of it."""
    wanted = any(str(value).startswith(ZOO) for row in sweep for value in row.values())
    archive = FOLDER / ARCHIVE
    if not wanted or not archive.exists():
        return
    key = "tidings.lab.networks"
    if spark.conf.get(key, "") != str(archive):  # Spark refuses to send a file twice
        spark.addArtifacts(str(archive), file=True)
        spark.conf.set(key, str(archive))


def _archive() -> Path:
    """The archive beside the clone, or the one that came with the job."""
    archive = FOLDER / ARCHIVE
    if archive.exists():
        return archive
    try:
        from pyspark import SparkFiles

        return Path(SparkFiles.get(ARCHIVE))
    except (ImportError, AttributeError, AssertionError):  # no Spark, or no session
        return archive
