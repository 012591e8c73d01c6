"""Means over seeds, and how far they may be off: 95 % intervals by Student's t."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tidings.lab.experiment import Rows, select, values

# By the number of values: how many standard errors the mean may be off. For more values the last.
T_95: Final = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


class Mean(NamedTuple):
    """A mean, and half the width of its interval; formats as both, with as many decimals.

    >>> f"{Mean(0.7444, 0.06291):.3g}, {Mean(0.47, 0.07):.0%}"
    '0.744 ± 0.063, 47% ± 7%'
    """

    mean: float
    off: float  # 0 if there is one value only

    def __format__(self, spec: str) -> str:
        mean = f"{self.mean:{spec}}"
        if not self.off:
            return mean
        if spec.endswith("g") and "e" not in mean:  # digits of the mean, not of each
            spec = f".{len(mean.partition('.')[2])}f"
        return f"{mean} ± {self.off:{spec}}"

    def scaled(self, by: float) -> Mean:
        """The same in another unit."""
        return Mean(by * self.mean, by * self.off)


def mean_of(found: Iterable[float]) -> Mean:
    """The mean of some values, which are independent of each other.

    >>> f"{mean_of([1.0, 1.2, 0.9, 1.1, 1.3]):.2f}"
    '1.10 ± 0.20'
    """
    known = list(found)
    if len(known) < 2:
        return Mean(statistics.mean(known), 0.0)
    error = statistics.stdev(known) / math.sqrt(len(known))
    return Mean(statistics.mean(known), T_95.get(len(known), T_95[max(T_95)]) * error)


def by_seed(rows: Rows, value: Callable[[Rows], float]) -> Mean:
    """The mean over seeds of what a function makes of the rows of each."""
    return mean_of(value(select(rows, seed=seed)) for seed in values(rows, "seed"))
