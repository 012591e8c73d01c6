"""The workload of event-ruler's memory benchmark: two equalities on long random texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.language.constraint import Constraint
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.matching.workloads.draws import (
    BLOCK,
    Record,
    Subscription,
    blocks,
    describe,
    generator,
    hashed,
)


@dataclass(frozen=True)
class EqualitiesWorkload:
    """event-ruler's own template for measuring memory: two attributes equal 20 random characters.

    A share `matching` of the events holds both values of one of the first `population`
    subscriptions; a share `crossing` holds the values of two different ones; the others hold values
    that no subscription mentions.
    """

    population: int = 1_000_000
    matching: float = 0.9
    crossing: float = 0.05
    seed: int = 0

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        for block, first, last in blocks(start, stop):
            rows = np.arange(block * BLOCK + first, block * BLOCK + last)
            names = [_RULER_NAMES[kind] for kind in self._kinds(rows)]
            texts = zip(self._texts(rows, 0), self._texts(rows, 1), strict=True)
            for row, name, (one, other) in zip(rows.tolist(), names, texts, strict=True):
                first_equal = Constraint(name, "=", "string", False, one)
                last_equal = Constraint(_RULER_LAST, "=", "string", False, other)
                yield row, Predicate.of((Filter((first_equal, last_equal)),))

    def events(self, start: int, stop: int) -> list[Record]:
        kinds, ones, others = self._values(start, stop)
        return [
            {_RULER_NAMES[kind]: one, _RULER_LAST: other}
            for kind, one, other in zip(kinds, ones, others, strict=True)
        ]

    def event_table(self, start: int, stop: int) -> pa.Table:
        kinds, ones, others = self._values(start, stop)
        columns = {
            name: pa.array(
                [one if kind == number else None for kind, one in zip(kinds, ones, strict=True)],
                pa.string(),
            )
            for number, name in enumerate(_RULER_NAMES)
        }
        columns[_RULER_LAST] = pa.array(others, pa.string())
        return pa.table(columns)

    def describe(self) -> str:
        return describe(self)

    def _values(self, start: int, stop: int) -> tuple[list[int], list[str], list[str]]:
        """For each event, which first attribute it has, and its two values."""
        kinds: list[int] = []
        ones: list[str] = []
        others: list[str] = []
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "equalities events", block)
            chance = source.random(BLOCK)
            left = source.integers(0, self.population, BLOCK)
            right = source.integers(0, self.population, BLOCK)
            strange = chance >= self.matching + self.crossing
            left[strange] += self.population  # rows beyond the population, which match nothing
            right[strange] += self.population
            right = np.where(chance < self.matching, left, right)
            kinds += self._kinds(left[first:last])
            ones += self._texts(left[first:last], 0)
            others += self._texts(right[first:last], 1)
        return kinds, ones, others

    # Both values of a subscription are hashes of its row, so an event can use those of any row.

    def _kinds(self, rows: NDArray[np.int64]) -> list[int]:
        kinds = hashed(self.seed, "equalities names", rows) % np.uint64(len(_RULER_NAMES))
        return [int(kind) for kind in kinds]

    def _texts(self, rows: NDArray[np.int64], which: int) -> list[str]:
        characters = np.empty((rows.size, 20), np.uint8)
        for half in range(2):
            digits = hashed(self.seed, f"equalities {which} {half}", rows)
            for place in range(half * 10, half * 10 + 10):  # 62^10 < 2^64
                digits, digit = np.divmod(digits, np.uint64(len(_ALPHANUMERIC)))
                characters[:, place] = _ALPHANUMERIC[digit]
        return characters.view("S20").ravel().astype("U20").tolist()


_RULER_NAMES: Final = (
    *("Abernathy.Ada", "Abernathy.Bruno", "Abernathy.Clara", "Abernathy.Dmitri", "Abernathy.Elena"),
    *("Abernathy.Farid", "Abernathy.Greta", "Abernathy.Hugo", "Abernathy.Ines", "Abernathy.Jonas"),
)
_RULER_LAST: Final = "Barnard.Oliver"
_ALPHANUMERIC: Final = np.frombuffer(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", np.uint8
)
