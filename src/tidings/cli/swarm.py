"""`tidings simulate --protocol`: does a protocol survive faults? One ledger over many seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from shlex import quote
from typing import TYPE_CHECKING

from tidings.cli.terminal import INTERRUPTED, colour, complain, write

if TYPE_CHECKING:
    from tidings.sim.ledger import Ledger
    from tidings.sim.trial import Verdict

SHOWN = 5  # failures that are shown in full
SHOWN_VIOLATIONS = 3  # violations shown for each of them


def run_swarm(
    topology: str,
    protocol: str,
    faults: str,
    seeds: int,
    seed: int,
    as_json: bool,
    step: Callable[[str, int, int], None],
) -> int:
    """Run `seeds` seeds from `seed` on, and write the ledger, also after an interrupt."""
    from tidings.language.explanation import printable
    from tidings.overlay.topologies import TopologyError
    from tidings.overlay.topologies import topology as graph_of
    from tidings.sim.ledger import Ledger
    from tidings.sim.swarm import SwarmError, check_protocol, fault_kinds, swarm

    try:
        graph = None if topology == "small" else graph_of(topology, seed)
        tree = graph is None or len(graph.links) == graph.nodes - len(graph.components)
        check_protocol(protocol, tree)
        kinds = fault_kinds(faults)
    except (SwarmError, TopologyError) as error:
        complain(f"tidings simulate: {printable(str(error))} (see tidings simulate --help)")
        return 2
    ledger = Ledger()
    failed: list[Verdict] = []
    interrupted = False
    step(f"{protocol} on {topology}", 0, seeds)
    try:
        for verdict in swarm(topology, protocol, kinds, range(seed, seed + seeds)):
            ledger.add(verdict.ledger)
            if verdict.violations:
                failed.append(verdict)
            step(f"{protocol}, {len(failed)} failed", ledger.seeds, seeds)
    except KeyboardInterrupt:
        interrupted = True
    replay = f"tidings simulate --topology {quote(topology)} --protocol {protocol}"
    replay += f" --faults {quote(faults)} --seeds 1 --seed "
    if as_json:
        _write_json(topology, protocol, kinds, seed, ledger, failed, replay, interrupted)
    else:
        for line in _lines(topology, protocol, seed, seeds, ledger, failed, replay):
            write(line)
        if interrupted:
            complain(f"interrupted after {ledger.seeds} of {seeds} seeds")
    if interrupted:
        return INTERRUPTED
    return 1 if failed else 0


def _write_json(
    topology: str,
    protocol: str,
    kinds: tuple[str, ...],
    seed: int,
    ledger: Ledger,
    failed: list[Verdict],
    replay: str,
    interrupted: bool,
) -> None:
    facts = {
        "topology": topology,
        "protocol": protocol,
        "fault_kinds": list(kinds),
        "seed": seed,
        "interrupted": interrupted,
        "ledger": ledger.as_dict(),
        "failed": [
            {
                "seed": verdict.options.seed,
                "violations": verdict.violations,
                "trace": verdict.trace,
                "replay": f"{replay}{verdict.options.seed}",
            }
            for verdict in failed
        ],
    }
    write(json.dumps(facts))


def _lines(
    topology: str,
    protocol: str,
    seed: int,
    seeds: int,
    ledger: Ledger,
    failed: list[Verdict],
    replay: str,
) -> Iterator[str]:
    """The ledger as lines of text."""
    for verdict in failed[:SHOWN]:
        options = verdict.options
        yield colour(f"seed {options.seed} failed", "red") + f" on {options.topology}:"
        for violation in verdict.violations[:SHOWN_VIOLATIONS]:
            yield f"  {violation}"
        yield f"  replay: {replay}{options.seed}"
    if len(failed) > SHOWN:
        others = ", ".join(str(verdict.options.seed) for verdict in failed[SHOWN:])
        yield f"other seeds that failed: {others}"
    counts = ledger.as_dict()
    which = f"seed {seed}" if seeds == 1 else f"seeds {seed} to {seed + seeds - 1}"
    yield (
        f"{protocol} on {topology}, {which}: {ledger.seeds:,} run, {len(failed):,} failed, "
        f"{counts['simulated_s']:,.0f} s simulated"
    )
    width = max(map(len, _ROWS))
    for name, field in _ROWS.items():
        value = counts[field]
        yield f"{name:{width}}  {value_text(value)}"


_ROWS = {
    "published": "published",
    "expected": "expected",
    "delivered": "delivered",
    "lost under faults": "lost",
    "lost when stable": "lost_when_stable",
    "withdrawn": "withdrawn",
    "surplus": "surplus",
    "duplicated": "duplicated",
    "unexpected": "unexpected",
    "spam packets": "spam_packets",
    "packets": "packets",
    "control packets": "control_packets",
    "control bytes": "control_bytes",
    "faults": "faults",
    "convergence p50": "convergence_p50_ms",
    "convergence p99": "convergence_p99_ms",
}


def value_text(value: object) -> str:
    """A value of a ledger, for people."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:,}" for name, count in value.items()) or "none"
    if isinstance(value, float):
        return f"{value:,.0f} ms"
    return "-" if value is None else f"{value:,}"
