"""`tidings topology`: which topologies exist, and what is this one like?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.terminal import complain, write

if TYPE_CHECKING:
    from tidings.overlay.graph import Graph

MAX_DESCRIBED = 5_000  # nodes of the largest graph whose distances are computed


def topology(
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TOPOLOGY]", help="The one to describe, such as ba:200."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of a random topology.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
) -> int:
    """List the topologies, or describe one.

    Every link weighs 1, unless the text ends in ,weights=1-9 (random weights) or in
    ,weights=distance (the distance of the two nodes).

    Exits with 0, or with 2 if the text describes no graph.

    \b
    Example:
      tidings topology
      tidings topology waxman:50,weights=distance --seed 7
    """
    from tidings.overlay.topologies import TOPOLOGIES

    if text is None:
        rows = {name: [row.form, row.description] for name, row in TOPOLOGIES.items()}
        if as_json:
            fields = ("form", "description")
            listed = {name: dict(zip(fields, row, strict=True)) for name, row in rows.items()}
            write(json.dumps(listed, ensure_ascii=False))
            return 0
        width = max(len(form) for form, _ in rows.values())
        for form, description in rows.values():
            write(f"{form:{width}}  {description}")
        return 0
    graph = graph_of("topology", text, seed)
    if graph is None:
        return 2
    found = describe(graph)
    if as_json:
        write(json.dumps({"topology": text, "seed": seed} | found))
        return 0
    for name, value in found.items():
        write(f"{name.replace('_', ' '):22} {_shown(value)}")
    return 0


def graph_of(command: str, text: str, seed: int) -> Graph | None:
    """The graph that a text describes; None, after a complaint, if it describes none."""
    from tidings.language.explanation import printable
    from tidings.overlay.topologies import TopologyError
    from tidings.overlay.topologies import topology as made

    try:
        return made(text, seed)
    except TopologyError as error:
        complain(f"tidings {command}: {printable(str(error))} (tidings topology lists them)")
        return None


def describe(graph: Graph) -> dict[str, Any]:
    """The size and shape of a graph, with distances if it has at most `MAX_DESCRIBED` nodes."""
    from tidings.overlay.paths import trees, unique_paths

    degrees = [len(graph.neighbours(node)) for node in range(graph.nodes)]
    found: dict[str, Any] = {
        "nodes": graph.nodes,
        "links": len(graph.links),
        "components": len(graph.components),
        "bridges": len(graph.bridges()),
        "degree_mean": sum(degrees) / graph.nodes,
        "degree_max": max(degrees),
    }
    if graph.nodes > MAX_DESCRIBED:
        return found
    pairs = total = longest = 0
    for tree in trees(graph):
        reached = [distance for distance in tree.distance if distance > 0]
        pairs += len(reached)
        total += sum(reached)
        longest = max([longest, *reached])
    return found | {
        "distance_mean": total / max(pairs, 1),
        "distance_max": longest,
        "shortest_paths_unique": unique_paths(graph),
    }


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
