"""How benchmarks measure: warm up apart, repeat, report mean and spread, compare in one run."""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """The time of one case: seconds per operation, over the repeats."""

    case: str
    operations: int
    seconds: tuple[float, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def best_us(self) -> float:
        """Microseconds an operation in the best repeat."""
        return min(self.seconds) / self.operations * 1e6

    @property
    def mean_us(self) -> float:
        """Microseconds an operation, on average over the repeats."""
        return statistics.mean(self.seconds) / self.operations * 1e6

    @property
    def spread_us(self) -> float:
        """The standard deviation of that over the repeats."""
        return statistics.pstdev(self.seconds) / self.operations * 1e6

    def as_dict(self) -> dict[str, Any]:
        """What `--json` prints, a line a measurement."""
        return {
            "case": self.case,
            "operations": self.operations,
            "repeats": len(self.seconds),
            "per_s": round(1e6 / self.best_us, 1),
            "best_us": round(self.best_us, 4),
            "mean_us": round(self.mean_us, 4),
            "spread_us": round(self.spread_us, 4),
            **self.facts,
        }


def measure(
    case: str,
    operations: int,
    run: Callable[[], object],
    repeats: int = 7,
    clock: Callable[[], float] = time.perf_counter,
    **facts: Any,
) -> Measurement:
    """Time a function that does `operations` operations, after one unmeasured call to warm up."""
    run()
    seconds = []
    for _ in range(repeats):
        gc.collect()
        start = clock()
        run()
        seconds.append(clock() - start)
    return Measurement(case, operations, tuple(seconds), facts)


def command_line(module: str, description: str) -> tuple[argparse.ArgumentParser, str]:
    """The arguments that all benchmarks share, and the command that repeats this run."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--json", action="store_true", help="one JSON line a measurement")
    parser.add_argument("--repeats", type=int, default=7, help="timed repeats of each case")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated input")
    return parser, " ".join(["python -m", module, *sys.argv[1:]])


def report(measurements: list[Measurement], command: str, as_json: bool) -> None:
    """Print measurements as a table, or as JSON lines."""
    if as_json:
        for measurement in measurements:
            print(json.dumps({**measurement.as_dict(), "command": command}))
        return
    width = max(len(m.case) for m in measurements)
    print(f"{'case':{width}}  {'a second':>12}  {'best µs':>11}  {'mean µs':>11}  {'spread':>9}")
    for m in measurements:
        notes = "  ".join(f"{name} {value}" for name, value in m.facts.items())
        print(
            f"{m.case:{width}}  {1e6 / m.best_us:12,.0f}  {m.best_us:11,.2f}  {m.mean_us:11,.2f}"
            f"  {m.spread_us:9,.2f}  {notes}".rstrip()
        )
    print(f"\nPython {platform.python_version()}, {platform.machine()}; again with: {command}")
