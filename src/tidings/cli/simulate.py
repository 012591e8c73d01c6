"""`tidings simulate`: what do routing schemes cost on this network, and do protocols survive?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.extras import require
from tidings.cli.terminal import colour, complain, progress_bar, write
from tidings.cli.topology import graph_of

if TYPE_CHECKING:
    from tidings.overlay.graph import Graph
    from tidings.routing.comparison import Measures


def simulate(
    topology: Annotated[
        str, typer.Option(help="The network; tidings topology lists the possible ones.")
    ] = "ba:200",
    scheme: Annotated[
        str | None,
        typer.Option(help="Schemes, perhaps with options, separated by commas; by default all."),
    ] = None,
    subscriptions: Annotated[
        int, typer.Option(min=0, max=100_000, help="Subscriptions at each node.")
    ] = 10,
    events: Annotated[
        int, typer.Option(min=0, max=10_000_000, help="Events, each published at a random node.")
    ] = 1_000,
    protocol: Annotated[
        str | None,
        typer.Option(help="Test this protocol under faults, instead of comparing schemes."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="With --protocol: an option of it, key=value; repeatable."),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Test whole routers and clients under faults, instead."),
    ] = False,
    cross: Annotated[
        int,
        typer.Option(
            min=0, max=100_000, help="With --live: saturating traffic in bursts of so many events."
        ),
    ] = 0,
    faults: Annotated[
        str,
        typer.Option(help="With --protocol or --live: all, none, or kinds separated by commas."),
    ] = "all",
    seeds: Annotated[
        int,
        typer.Option(min=1, max=100_000_000, help="With --protocol or --live: the number of runs."),
    ] = 100,
    seed: Annotated[
        int, typer.Option(min=0, help="The seed of all random choices; of many runs, the first.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
) -> int:
    """Compare routing schemes: the same events on the same network under each.

    Subscriptions and events come from the generator of paper F. With --protocol, a network runs
    the protocol while links and nodes fail, once for each seed, and every delivery is checked. With
    --live, whole routers and clients run on simulated connections, with bounds so small that each
    run meets them. The topology small gives each seed a small network of its own.

    Exits with 0, 1 if an event was lost or a protocol broke another of its guarantees, 2 if there
    is no such topology, scheme, protocol or fault.

    \b
    Examples:
      tidings simulate --live --topology small --faults all --seeds 1000
      tidings simulate --topology ba:200 --scheme pif,psf,drp,flooding --events 1000
      tidings simulate --topology ba:30 --protocol cbcb --faults all --seeds 1000
    """
    if live:
        from tidings.cli.live_swarm import run_live_swarm

        with progress_bar() as step:
            return run_live_swarm(topology, faults, seeds, seed, cross, as_json, step)
    if protocol is not None:
        from tidings.cli.swarm import run_swarm

        if option:
            protocol += ("," if ":" in protocol else ":") + ",".join(option)
        with progress_bar() as step:
            return run_swarm(topology, protocol, faults, seeds, seed, as_json, step)
    require("scipy")  # before the kernels are compiled, which may take a minute
    return _compare(topology, scheme, subscriptions, events, seed, as_json)


def _compare(
    text: str, names: str | None, subscriptions: int, events: int, seed: int, as_json: bool
) -> int:
    from random import Random

    from tidings.language.explanation import printable
    from tidings.matching.workload import ForwardingWorkload
    from tidings.overlay.paths import unique_paths
    from tidings.routing.comparison import compare
    from tidings.routing.network import Network
    from tidings.routing.options import OptionsError, split_list
    from tidings.routing.schemes import SCHEMES, scheme

    try:
        wanted = [scheme(text) for text in (SCHEMES if names is None else split_list(names))]
    except OptionsError as error:
        complain(f"tidings simulate: --scheme: {printable(str(error))}")
        return 2
    graph = graph_of("simulate", text, seed)
    if graph is None:
        return 2
    workload = ForwardingWorkload(seed=seed)
    chance = Random(f"sources {seed}")
    with progress_bar() as step:
        step("subscribing", 0, 1)
        held = workload.subscriptions(0, subscriptions * graph.nodes)
        network = Network.of(graph, ((row % graph.nodes, predicate) for row, predicate in held))
        published = [(chance.randrange(graph.nodes), one) for one in workload.events(0, events)]
        rows = compare(network, wanted, published, step)
    if as_json:
        facts = {
            "topology": text,
            "seed": seed,
            "nodes": graph.nodes,
            "links": len(graph.links),
            "shortest_paths_unique": unique_paths(graph),
            "subscriptions": subscriptions * graph.nodes,
            "events": events,
            "schemes": [asdict(row) for row in rows],
        }
        write(json.dumps(facts))
    else:
        for line in _table(text, seed, graph, subscriptions, rows):
            write(line)
    return 0 if all(row.correct for row in rows) else 1


def _table(
    text: str, seed: int, graph: Graph, subscriptions: int, rows: list[Measures]
) -> Iterator[str]:
    """The comparison as a table of text."""
    from tidings.language.explanation import printable

    yield (
        f"{printable(text)}, seed {seed}: {graph.nodes:,} nodes, {len(graph.links):,} links, "
        f"{graph.nodes * subscriptions:,} subscriptions, {rows[0].events:,} events, "
        f"{rows[0].expected:,} deliveries"
    )
    columns = {
        "scheme": [row.scheme for row in rows],
        "packets": [f"{row.packets:,}" for row in rows],
        "relayed": [f"{row.relayed:,}" for row in rows],
        "spam": [f"{row.spam:,}" for row in rows],
        "duplicates": [f"{row.duplicates:,}" for row in rows],
        "stretch": [f"{row.stretch_mean:.2f}" for row in rows],
        "header bits": [f"{row.header_bits_mean:.0f}" for row in rows],
        "state bits": [_short(row.state_bits) for row in rows],
        "unreduced": [_short(row.state_bits_unreduced) for row in rows],
        "formula": [_short(row.formula_bits) for row in rows],
        "verdict": [_verdict(row) for row in rows],
    }
    widths = [max(map(len, [name, *cells])) for name, cells in columns.items()]
    for line in [list(columns), *zip(*columns.values(), strict=True)]:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join([line[0].ljust(len(first)), *others[:-1], line[-1]])
    if any(row.state_bits is None for row in rows):
        yield "-: too many filters to reduce; the column unreduced is an upper bound"


def _verdict(row: Measures) -> str:
    if not row.correct:
        return colour(f"lost {row.expected - row.delivered:,}", "red")
    if row.ideal:
        return "ideal"
    return "latency-minimal" if row.latency_minimal else "correct"


def _short(bits: int | None) -> str:
    """A number of bits with three digits and a unit."""
    if bits is None:
        return "-"
    value, units = float(bits), iter(("", "k", "M", "G", "T", "P", "E"))
    unit = next(units)
    while value >= 999.5:
        value /= 1_000
        unit = next(units)
    if not unit:
        return f"{bits}"
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}{unit}"
