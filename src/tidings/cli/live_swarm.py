"""`tidings simulate --live`: do whole routers and clients keep their promises under faults?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from shlex import quote
from typing import TYPE_CHECKING

from tidings.cli.swarm import SHOWN, SHOWN_VIOLATIONS, value_text
from tidings.cli.terminal import INTERRUPTED, colour, complain, write

if TYPE_CHECKING:
    from tidings.sim.cluster_swarm import Tally
    from tidings.sim.cluster_trial import Result


def run_live_swarm(
    topology: str,
    faults: str,
    seeds: int,
    seed: int,
    cross: int,
    as_json: bool,
    step: Callable[[str, int, int], None],
) -> int:
    """Run `seeds` seeds from `seed` on, and write the tally, also after an interrupt."""
    from tidings.language.explanation import printable
    from tidings.overlay.topologies import TopologyError
    from tidings.overlay.topologies import topology as graph_of
    from tidings.sim.cluster_swarm import Tally, cluster_fault_kinds, cluster_swarm
    from tidings.sim.swarm import SwarmError

    try:
        if topology != "small":
            graph_of(topology, seed)
        cluster_fault_kinds(faults)
    except (SwarmError, TopologyError) as error:
        complain(f"tidings simulate: {printable(str(error))} (see tidings simulate --help)")
        return 2
    tally = Tally()
    failed: list[Result] = []
    interrupted = False
    step(f"live on {topology}", 0, seeds)
    try:
        for result in cluster_swarm(topology, faults, range(seed, seed + seeds), cross):
            tally.add(result)
            if result.violations:
                failed.append(result)
            step(f"live, {len(failed)} failed", tally.seeds, seeds)
    except KeyboardInterrupt:
        interrupted = True
    replay = f"tidings simulate --live --topology {quote(topology)} --faults {quote(faults)}"
    replay += (f" --cross {cross}" if cross else "") + " --seeds 1 --seed "
    if as_json:
        facts = {
            "topology": topology,
            "faults": faults,
            "cross": cross,
            "seed": seed,
            "interrupted": interrupted,
            "ledger": tally.as_dict(),
            "failed": [
                {
                    "seed": result.drawn.seed,
                    "violations": result.violations,
                    "trace": result.trace,
                    "replay": f"{replay}{result.drawn.seed}",
                }
                for result in failed
            ],
        }
        write(json.dumps(facts))
    else:
        for line in _lines(topology, tally, failed, replay):
            write(line)
        if interrupted:
            complain(f"interrupted after {tally.seeds} of {seeds} seeds")
    if interrupted:
        return INTERRUPTED
    return 1 if failed else 0


def _lines(topology: str, tally: Tally, failed: list[Result], replay: str) -> Iterator[str]:
    """The tally as lines of text."""
    for result in failed[:SHOWN]:
        drawn = result.drawn
        yield colour(f"seed {drawn.seed} failed", "red") + f" on {drawn.topology}:"
        for violation in result.violations[:SHOWN_VIOLATIONS]:
            yield f"  {violation}"
        yield f"  replay: {replay}{drawn.seed}"
    if len(failed) > SHOWN:
        others = ", ".join(str(result.drawn.seed) for result in failed[SHOWN:])
        yield f"other seeds that failed: {others}"
    counts = tally.as_dict()
    yield (
        f"whole routers and clients on {topology}: {tally.seeds:,} seeds run, {len(failed):,} "
        f"failed, {tally.simulated_s:,.0f} s simulated"
    )
    names = [name for name in counts if name not in ("seeds", "failures", "simulated_s")]
    width = max(map(len, names))
    for name in names:
        words = NAMES.get(name, name.replace("_", " "))
        yield f"{words:{width + 2}}{value_text(counts[name])}"


NAMES = {"lost": "lost under faults"}
