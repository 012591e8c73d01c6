"""Many seeds of whole networks, one after the other, and the tally of what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tidings.sim.cluster_trial import Drawn, Result, draw, draw_cross, run
from tidings.sim.storms import BENIGN, HARMFUL
from tidings.sim.swarm import SwarmError

# The names in the tally, and those in the judge's counts.
COUNTED: Final = {
    "published": "published",
    "expected": "expected",
    "delivered": "delivered",
    "lost": "lost",
    "lost_when_stable": "lost when stable",
    "duplicated": "duplicated",
    "unexpected": "unexpected",
    "withdrawn": "withdrawn",
    "interrupted": "interrupted",
    "dropped": "dropped",
    "interruptions": "interruptions",
}


@dataclass
class Tally:
    """The counts of many seeds added up."""

    seeds: int = 0
    failures: int = 0  # seeds with a violation
    simulated_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Add what became of a seed."""
        self.seeds += 1
        self.failures += bool(result.violations)
        self.simulated_s += result.simulated_s
        self.counts.update(result.counts)

    def as_dict(self) -> dict[str, Any]:
        """The tally as plain values with stable names."""
        row: dict[str, Any] = {"seeds": self.seeds, "failures": self.failures}
        row["simulated_s"] = round(self.simulated_s, 3)
        row |= {name: self.counts[counted] for name, counted in COUNTED.items()}
        row["outcomes"] = self._of("outcome ")
        row["faults"] = self._of("fault ")
        return row

    def _of(self, prefix: str) -> dict[str, int]:
        return {
            name.removeprefix(prefix): count
            for name, count in sorted(self.counts.items())
            if name.startswith(prefix)
        }


def cluster_fault_kinds(text: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The benign and the harmful faults that a text names: `all` is None, as each seed draws them.

    >>> cluster_fault_kinds("kill router, cut link")
    (('cut link',), ('kill router',))
    """
    if text == "all":
        return None
    named = [] if text == "none" else [kind.strip() for kind in text.split(",")]
    for kind in named:
        if kind not in BENIGN and kind not in HARMFUL:
            known = ", ".join([*BENIGN, *HARMFUL])
            raise SwarmError(f"--faults: expected all, none or some of {known}, found {kind!r}")
    return (
        tuple(kind for kind in BENIGN if kind in named),
        tuple(kind for kind in HARMFUL if kind in named),
    )


def draw_seed(text: str, faults: str, seed: int, cross: int = 0) -> Drawn:
    """What a seed decides, with these faults; `cross` is a number of events for cross traffic."""
    if cross:
        return draw_cross(seed, text, cross)
    kinds = cluster_fault_kinds(faults)
    return draw(seed, text) if kinds is None else draw(seed, text, *kinds)


def cluster_swarm(text: str, faults: str, seeds: Iterable[int], cross: int = 0) -> Iterator[Result]:
    """What becomes of each seed; `small` draws a small topology for each."""
    for seed in seeds:
        yield run(draw_seed(text, faults, seed, cross))
