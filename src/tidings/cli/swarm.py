"""`tidings simulate` under faults, by `--protocol` or `--live`: one ledger over many seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from tidings.cli.terminal import INTERRUPTED, colour, complain, write

if TYPE_CHECKING:
    from tidings.sim.cluster_swarm import Tally
    from tidings.sim.ledger import Ledger

SHOWN: Final = 5  # failures that are shown in full
SHOWN_VIOLATIONS: Final = 3  # violations shown for each of them

Step = Callable[[str, int, int], None]


@dataclass
class Swarm:
    """One kind of swarm: what differs between them, for the one loop over their results."""

    name: str  # of what is put to the test
    topology: str
    results: Iterator[Any]  # each with `violations` and `trace`
    drawn: Callable[[Any], Any]  # what the seed of a result decided: `seed`, `topology`
    ledger: Ledger | Tally
    add: Callable[[Any], None]  # a result to the ledger
    rows: dict[str, str]  # of the ledger: the name for people, and the name in it
    facts: dict[str, Any]  # that come first in JSON
    replay: str  # the command that runs one seed again, but for the seed


def run_swarm(
    topology: str, protocol: str, faults: str, seeds: int, seed: int, as_json: bool, step: Step
) -> int:
    """Run `seeds` seeds of a protocol from `seed` on, and write the ledger."""
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
        return _refuse(error)
    ledger = Ledger()
    replay = f"tidings simulate --topology {quote(topology)} --protocol {protocol}"
    kind = Swarm(
        name=protocol,
        topology=topology,
        results=swarm(topology, protocol, kinds, range(seed, seed + seeds)),
        drawn=lambda verdict: verdict.options,
        ledger=ledger,
        add=lambda verdict: ledger.add(verdict.ledger),
        rows=PROTOCOL_ROWS,
        facts={"topology": topology, "protocol": protocol, "fault_kinds": list(kinds)},
        replay=f"{replay} --faults {quote(faults)} --seeds 1 --seed ",
    )
    return _run(kind, seeds, seed, as_json, step)


def run_live_swarm(
    topology: str, faults: str, seeds: int, seed: int, cross: int, as_json: bool, step: Step
) -> int:
    """Run `seeds` seeds of whole routers and clients from `seed` on, and write the ledger."""
    from tidings.overlay.topologies import TopologyError
    from tidings.overlay.topologies import topology as graph_of
    from tidings.sim.cluster_swarm import Tally, cluster_fault_kinds, cluster_swarm
    from tidings.sim.swarm import SwarmError

    try:
        if topology != "small":
            graph_of(topology, seed)
        cluster_fault_kinds(faults)
    except (SwarmError, TopologyError) as error:
        return _refuse(error)
    tally = Tally()
    replay = f"tidings simulate --live --topology {quote(topology)} --faults {quote(faults)}"
    kind = Swarm(
        name="whole routers and clients",
        topology=topology,
        results=cluster_swarm(topology, faults, range(seed, seed + seeds), cross),
        drawn=lambda result: result.drawn,
        ledger=tally,
        add=tally.add,
        rows=LIVE_ROWS,
        facts={"topology": topology, "faults": faults, "cross": cross},
        replay=replay + (f" --cross {cross}" if cross else "") + " --seeds 1 --seed ",
    )
    return _run(kind, seeds, seed, as_json, step)


def _refuse(error: Exception) -> int:
    from tidings.language.explanation import printable

    complain(f"tidings simulate: {printable(str(error))} (see tidings simulate --help)")
    return 2


def _run(kind: Swarm, seeds: int, seed: int, as_json: bool, step: Step) -> int:
    """Run all seeds, and write the ledger, also after an interrupt."""
    failed: list[Any] = []
    interrupted = False
    step(f"{kind.name} on {kind.topology}", 0, seeds)
    try:
        for result in kind.results:
            kind.add(result)
            if result.violations:
                failed.append(result)
            step(f"{kind.name}, {len(failed)} failed", kind.ledger.seeds, seeds)
    except KeyboardInterrupt:
        interrupted = True
    if as_json:
        write(json.dumps(_facts(kind, seed, failed, interrupted)))
    else:
        which = f"seed {seed}" if seeds == 1 else f"seeds {seed} to {seed + seeds - 1}"
        for line in _lines(kind, which, failed):
            write(line)
        if interrupted:
            complain(f"interrupted after {kind.ledger.seeds} of {seeds} seeds")
    if interrupted:
        return INTERRUPTED
    return 1 if failed else 0


def _facts(kind: Swarm, seed: int, failed: list[Any], interrupted: bool) -> dict[str, Any]:
    """The ledger and the failures as plain values."""
    return {
        **kind.facts,
        "seed": seed,
        "interrupted": interrupted,
        "ledger": kind.ledger.as_dict(),
        "failed": [
            {
                "seed": kind.drawn(result).seed,
                "violations": result.violations,
                "trace": result.trace,
                "replay": f"{kind.replay}{kind.drawn(result).seed}",
            }
            for result in failed
        ],
    }


def _lines(kind: Swarm, which: str, failed: list[Any]) -> Iterator[str]:
    """The ledger and the failures as lines of text."""
    for result in failed[:SHOWN]:
        drawn = kind.drawn(result)
        yield colour(f"seed {drawn.seed} failed", "red") + f" on {drawn.topology}:"
        for violation in result.violations[:SHOWN_VIOLATIONS]:
            yield f"  {violation}"
        yield f"  replay: {kind.replay}{drawn.seed}"
    if len(failed) > SHOWN:
        others = ", ".join(str(kind.drawn(result).seed) for result in failed[SHOWN:])
        yield f"other seeds that failed: {others}"
    counts = kind.ledger.as_dict()
    yield (
        f"{kind.name} on {kind.topology}, {which}: {counts['seeds']:,} run, "
        f"{len(failed):,} failed, {counts['simulated_s']:,.0f} s simulated"
    )
    width = max(map(len, kind.rows))
    for name, field in kind.rows.items():
        yield f"{name:{width}}  {value_text(counts[field])}"


PROTOCOL_ROWS: Final = {
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
LIVE_ROWS: Final = {
    "published": "published",
    "expected": "expected",
    "delivered": "delivered",
    "lost under faults": "lost",
    "lost when stable": "lost_when_stable",
    "withdrawn": "withdrawn",
    "interrupted": "interrupted",
    "dropped": "dropped",
    "duplicated": "duplicated",
    "unexpected": "unexpected",
    "interruptions": "interruptions",
    "outcomes": "outcomes",
    "faults": "faults",
}


def value_text(value: object) -> str:
    """A value of a ledger, for people."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:,}" for name, count in value.items()) or "none"
    if isinstance(value, float):
        return f"{value:,.0f} ms"
    return "-" if value is None else f"{value:,}"
