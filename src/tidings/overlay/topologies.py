"""Topologies: graphs from a short text, one row of `TOPOLOGIES` each.

A text is a name, a colon and a size, then perhaps the weights of links: `ring:6`, `grid:10x10`,
`ba:200,weights=1-9`. Links weigh 1 unless the text says otherwise: `weights=LOW-HIGH` draws
weights, `weights=distance` derives them from the places of nodes, in kilometres or thousandths of
the unit square. The same text and seed make the same graph. Its nodes reach each other, except in
files that say otherwise.
"""

from __future__ import annotations

import math
import re
import tarfile
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median_low
from typing import Any, Final, NamedTuple

from tidings.overlay.graph import MAX_WEIGHT, Graph

MAX_NODES: Final = 100_000
MAX_FILE_BYTES: Final = 64 * 2**20  # of a GraphML text
EARTH_RADIUS_KM: Final = 6_371.0
WAXMAN_REACH: Final = 0.15  # of the longest distance: how far links go
WAXMAN_DEGREE: Final = 4.0  # the mean degree that the density of links is set for
WAXMAN_NODES: Final = 10_000  # at most, because every pair is drawn
BA_LINKS: Final = 2  # that every new node of a power-law graph brings

Place = tuple[float, float]


class TopologyError(ValueError):
    """A text that describes no graph, or a file that holds none."""


class Sketch(NamedTuple):
    """What a maker draws: the ends of links, and perhaps places and names of nodes.

    Places are in the unit square, or degrees of latitude and longitude if `on_earth`.
    """

    nodes: int
    ends: Iterable[tuple[int, int]]
    places: list[Place | None] | None = None
    names: list[str] | None = None
    on_earth: bool = False


class Topology(NamedTuple):
    """A row of `TOPOLOGIES`: the form of its text, what it makes, and the function that does."""

    form: str
    description: str
    make: Callable[[str, int], Sketch]


def topology(text: str, seed: int = 0) -> Graph:
    """The graph that a text describes.

    >>> topology("ring:4").links
    ((0, 1, 1), (0, 3, 1), (1, 2, 1), (2, 3, 1))
    """
    plain, _, weights = text.partition(",weights=")
    name, colon, size = plain.partition(":")
    if not colon or name not in TOPOLOGIES:
        forms = ", ".join(row.form for row in TOPOLOGIES.values())
        raise TopologyError(f"topology {text!r}: expected one of {forms}")
    sketch = TOPOLOGIES[name].make(size, seed)
    ends = sorted({(min(pair), max(pair)) for pair in sketch.ends if pair[0] != pair[1]})
    drawn = _weights(weights or "1", sketch, ends, seed)
    links = [(*pair, weight) for pair, weight in zip(ends, drawn, strict=True)]
    return Graph(sketch.nodes, links, sketch.names)


# Makers: from a size as text and a seed


def line(size: str, seed: int) -> Sketch:
    nodes = _count("line", size, 1)
    return Sketch(nodes, pairwise(range(nodes)))


def ring(size: str, seed: int) -> Sketch:
    nodes = _count("ring", size, 3)
    return Sketch(nodes, [*pairwise(range(nodes)), (nodes - 1, 0)])


def star(size: str, seed: int) -> Sketch:
    nodes = _count("star", size, 2)
    return Sketch(nodes, [(0, leaf) for leaf in range(1, nodes)])


def tree(size: str, seed: int) -> Sketch:
    """Every node hangs below a random earlier one."""
    nodes = _count("tree", size, 1)
    chance = Random(f"tree {seed}")
    return Sketch(nodes, [(chance.randrange(node), node) for node in range(1, nodes)])


def grid(size: str, seed: int) -> Sketch:
    found = re.fullmatch(r"(\d{1,6})x(\d{1,6})", size)
    if not found:
        raise TopologyError(f"grid:{size}: expected rows and columns such as grid:10x10")
    rows, columns = int(found[1]), int(found[2])
    _count("grid", str(rows * columns), 1)
    across = [
        (r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)
    ]
    down = [
        (r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)
    ]
    scale = max(rows, columns)
    places: list[Place | None] = [
        (c / scale, r / scale) for r in range(rows) for c in range(columns)
    ]
    return Sketch(rows * columns, across + down, places)


def waxman(size: str, seed: int) -> Sketch:
    """Waxman's graph: nodes in the unit square, and the shorter a link, the likelier it is.

    The density is set for a mean degree. Parts without a link between them get the shortest one.
    """
    import networkx as nx  # type: ignore[import-untyped]

    nodes = _count("waxman", size, 2, WAXMAN_NODES)
    chance = Random(f"waxman {seed}")
    reach = WAXMAN_REACH * math.sqrt(2)
    lengths = [
        math.hypot(chance.random() - chance.random(), chance.random() - chance.random())
        for _ in range(1_000)
    ]
    likely = sum(math.exp(-length / reach) for length in lengths) / len(lengths)
    density = min(1.0, WAXMAN_DEGREE / ((nodes - 1) * likely))
    drawn = nx.waxman_graph(nodes, beta=density, alpha=WAXMAN_REACH, seed=chance)
    places = nx.get_node_attributes(drawn, "pos")
    parts = sorted(map(sorted, nx.connected_components(drawn)), key=lambda part: (-len(part), part))
    ends = list(drawn.edges)
    joined = parts[0]
    for part in parts[1:]:
        pairs = ((math.dist(places[a], places[b]), a, b) for a in joined for b in part)
        _, one, other = min(pairs)
        ends.append((one, other))
        joined = joined + part
    return Sketch(nodes, ends, [places[node] for node in range(nodes)])


def ba(size: str, seed: int) -> Sketch:
    import networkx as nx

    nodes = _count("ba", size, BA_LINKS + 1)
    return Sketch(nodes, nx.barabasi_albert_graph(nodes, BA_LINKS, seed=Random(f"ba {seed}")).edges)


def file(size: str, seed: int) -> Sketch:
    """A GraphML file, or `ARCHIVE#NAME`: the file NAME.graphml in a tar archive."""
    import networkx as nx

    text = _graphml_bytes(size)
    # Entities may grow without bound. In UTF-16 this test would not see them, so refuse it.
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text or b"\0" in text:
        raise TopologyError(f"file:{size}: expected GraphML in UTF-8 and without a DOCTYPE")
    try:
        read = nx.read_graphml(BytesIO(text))
    except Exception as error:  # the reader may raise anything
        raise TopologyError(f"file:{size}: expected GraphML, found {error}") from None
    if not 1 <= len(read) <= MAX_NODES:
        raise TopologyError(f"file:{size}: expected 1 to {MAX_NODES} nodes, found {len(read)}")
    numbers = {node: number for number, node in enumerate(read)}
    places = [_place(read.nodes[node]) for node in read]
    ends = [(numbers[one], numbers[other]) for one, other in read.edges()]
    return Sketch(len(numbers), ends, places, _names(read), on_earth=True)


TOPOLOGIES: Final[dict[str, Topology]] = {
    "line": Topology("line:N", "N nodes in a row", line),
    "ring": Topology("ring:N", "N nodes in a circle", ring),
    "star": Topology("star:N", "one node in the middle, N - 1 around it", star),
    "tree": Topology("tree:N", "a random tree: every node hangs below an earlier one", tree),
    "grid": Topology("grid:RxC", "R rows and C columns", grid),
    "waxman": Topology("waxman:N", "Waxman's random graph in the unit square", waxman),
    "ba": Topology("ba:N", "Barabási and Albert's power-law graph, two links a node", ba),
    "file": Topology("file:PATH", "a GraphML file, or PATH#NAME: one in a tar archive", file),
}


# Parts of the above


def _count(name: str, size: str, least: int, most: int = MAX_NODES) -> int:
    if not re.fullmatch(r"\d{1,9}", size) or not least <= int(size) <= most:
        raise TopologyError(f"{name}:{size}: expected {least} to {most} nodes")
    return int(size)


def _weights(text: str, sketch: Sketch, ends: list[tuple[int, int]], seed: int) -> list[int]:
    """The weight of each link."""
    if text == "1":
        return [1] * len(ends)
    if text == "distance":
        return _distances(sketch, ends)
    drawn = re.fullmatch(r"(\d{1,10})-(\d{1,10})", text)
    if drawn and 1 <= int(drawn[1]) <= int(drawn[2]) <= MAX_WEIGHT:
        chance = Random(f"weights {seed}")
        return [chance.randint(int(drawn[1]), int(drawn[2])) for _ in ends]
    raise TopologyError(f"weights={text}: expected 1, distance or a range such as 1-9")


def _distances(sketch: Sketch, ends: list[tuple[int, int]]) -> list[int]:
    """The lengths of links; where a place is unknown, the median of the known lengths."""
    if sketch.places is None:
        raise TopologyError("weights=distance: the nodes of this topology have no places")
    known: dict[tuple[int, int], int] = {}
    for one, other in ends:
        a, b = sketch.places[one], sketch.places[other]
        if a is not None and b is not None:
            length = _kilometres(a, b) if sketch.on_earth else 1_000 * math.dist(a, b)
            known[one, other] = max(1, round(length))
    if ends and not known:
        raise TopologyError("weights=distance: no link joins two nodes whose places are known")
    usual = median_low(known.values()) if known else 1
    return [known.get(pair, usual) for pair in ends]


def _kilometres(one: Place, other: Place) -> float:
    """The length of the great circle between two places (the haversine formula)."""
    up, across = math.radians(other[0] - one[0]), math.radians(other[1] - one[1])
    flat = math.cos(math.radians(one[0])) * math.cos(math.radians(other[0]))
    half = math.sin(up / 2) ** 2 + flat * math.sin(across / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, half)))


def _graphml_bytes(path: str) -> bytes:
    archive, hash_sign, name = path.rpartition("#")
    try:
        if not hash_sign:
            source = Path(path)
            if source.stat().st_size > MAX_FILE_BYTES:
                raise TopologyError(f"file:{path}: expected at most {MAX_FILE_BYTES} bytes")
            return source.read_bytes()
        names = []
        with tarfile.open(archive) as members:
            for member in members:
                names.append(Path(member.name).stem)
                if Path(member.name).name != f"{name}.graphml" or not member.isfile():
                    continue
                found = members.extractfile(member)
                if member.size > MAX_FILE_BYTES or found is None:
                    raise TopologyError(f"file:{path}: expected at most {MAX_FILE_BYTES} bytes")
                return found.read()
    except (OSError, tarfile.TarError) as error:
        raise TopologyError(f"file:{path}: cannot be read: {error}") from None
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"; similar names: {', '.join(near)}" if near else f"; it holds {len(names)} others"
    raise TopologyError(f"file:{path}: the archive holds no file {name}.graphml{hint}")


def _place(attributes: dict[str, Any]) -> Place | None:
    """Latitude and longitude as the Topology Zoo writes them."""
    try:
        return float(attributes["Latitude"]), float(attributes["Longitude"])
    except (KeyError, ValueError):
        return None


def _names(read: Any) -> list[str]:
    """The labels of nodes, made unique where several nodes share one."""
    names: list[str] = []
    taken: set[str] = set()
    for node in read:
        label = str(read.nodes[node].get("label") or node)
        name = label if label not in taken else f"{label} ({node})"
        while name in taken:
            name += "'"
        taken.add(name)
        names.append(name)
    return names
