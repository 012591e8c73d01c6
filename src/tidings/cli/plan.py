"""`tidings plan`: how many nodes does an application take, and with which R, H and X?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.terminal import complain, write

if TYPE_CHECKING:
    from tidings.lab.planning import Needs, Plan

SIZES = (100, 1_000, 10_000, 50_000)  # subscriptions with which --measure matches


def plan(
    profile: Annotated[
        str,
        typer.Option(
            metavar="FILE|NAME",
            help="A TOML file, or games, feeds, quotes, alerts or places of paper L.",
        ),
    ],
    nodes: Annotated[int, typer.Option(help="How many nodes there are.")] = 12,
    hop_ms: Annotated[
        float | None, typer.Option(help="Milliseconds from a node to the next.")
    ] = None,
    memory: Annotated[
        int | None, typer.Option(help="Subscriptions that the memory of a node holds.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(help="How many replicas a subscription has at least.")
    ] = None,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure on this machine how long matching takes."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
) -> int:
    """Plan the matching layer of an application: R, H, X and the fewest nodes that carry it.

    The model of paper L predicts latency, throughput and bytes, and the plan names the constraint
    without which fewer nodes would do. docs/planning.md says what a profile holds.

    Exits with 0, 1 if no plan serves, 2 if the profile cannot be read.

    \b
    Examples:
      tidings plan --profile quotes --nodes 12
      tidings plan --profile orders.toml --nodes 40 --replicas 2
    """
    from tidings.language.explanation import printable

    try:
        needs = _needs(profile, hop_ms, memory, replicas, measure)
    except ValueError as error:
        complain(f"tidings plan: {printable(str(error))} (see docs/planning.md)")
        return 2
    return _show(needs, nodes, as_json)


def _needs(
    profile: str, hop_ms: float | None, memory: int | None, replicas: int | None, measure: bool
) -> Needs:
    """What the profile and the options say."""
    from msgspec.structs import replace

    from tidings.lab.planning import PlanError, checked, read_needs
    from tidings.lab.profiling import TIMES, measured_machine, needs_of

    if profile in TIMES:
        needs = needs_of(profile)
        if measure:
            needs = replace(needs, nodes=measured_machine(profile, SIZES, needs.nodes))
    elif measure:
        raise PlanError("--measure: expected a profile of paper L, whose events can be made")
    elif Path(profile).exists():
        needs = read_needs(Path(profile))
    else:
        known = ", ".join(TIMES)
        raise PlanError(f"--profile: expected a file or one of {known}, found {profile!r}")
    machine = needs.nodes
    if hop_ms is not None:
        machine = replace(machine, hop_ms=hop_ms)
    if memory is not None:
        machine = replace(machine, memory=memory)
    needs = replace(needs, nodes=machine, replicas=replicas or needs.replicas)
    return checked(needs, "options" if profile in TIMES else profile)


def _show(needs: Needs, nodes: int, as_json: bool) -> int:
    from dataclasses import asdict

    from tidings.lab.planning import PlanError
    from tidings.lab.planning import plan as planned
    from tidings.language.explanation import printable

    try:
        found = planned(needs, nodes)
    except PlanError as error:
        complain(f"tidings plan: {printable(str(error))}")
        return 1
    if as_json:
        facts = asdict(found)
        facts["greatest_rate"] = min(found.greatest_rate, 1e15)  # JSON has no infinity
        write(json.dumps({"application": needs.name, "nodes": found.nodes} | facts))
        return 0
    for line in _lines(needs, nodes, found):
        write(line)
    return 0


def _lines(needs: Needs, nodes: int, found: Plan) -> Iterator[str]:
    from tidings.language.explanation import printable

    rate = needs.events_per_second
    yield (
        f"{printable(needs.name)}: {needs.subscriptions:,} subscriptions, {rate:,.0f} events/s, "
        f"at most {needs.latency_ms:g} ms"
    )
    yield (
        f"R = {found.replicas}, H = {found.hops}, X = {found.regions}: "
        f"n = {found.nodes} of {nodes:,} nodes, rendezvous {printable(found.rendezvous)}"
    )
    yield (
        f"stored      {found.stored:,.0f} subscriptions on the fullest node, "
        f"{_bytes(found.memory_bytes)}"
    )
    yield f"matching    {found.match_ms:.3f} ms an event there, which is busy {found.busy:.0%}"
    yield f"latency     {found.latency_ms:.1f} ms; 99 of 100 within {found.latency_p99_ms:.1f} ms"
    yield f"throughput  {min(found.greatest_rate, 1e15):,.0f} events/s at most"
    yield (
        f"bytes       {_bytes(found.walk_bytes)}/s of events between nodes, "
        f"{_bytes(found.store_bytes)}/s of subscriptions"
    )
    yield f"delivery    {found.delivered:,.0f} destinations/s for the other layer"
    yield f"bound by    {found.binds}"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1_000
    raise AssertionError
