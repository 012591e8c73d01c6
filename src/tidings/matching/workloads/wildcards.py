"""A workload of prefixes, suffixes and substrings, which no index by equality serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    Interval,
    Record,
    Shares,
    Subscription,
    blocks,
    bounds_of,
    check_shares,
    describe,
    distinct,
    generator,
)
from tidings.matching.workloads.vocabulary import vocabulary


@dataclass(frozen=True)
class WildcardsWorkload:
    """Parts of words to be found in attributes that hold words: at either end, or anywhere.

    The parts are cut from words of the same list that events draw from. A small share are patterns
    with wildcards inside.
    """

    attributes: int = 8
    present: Interval = (4, 9)  # attributes of an event, uniform
    constraints: Interval = (1, 4)  # of a subscription, uniform; on different attributes
    operators: Shares = (("prefix", 0.35), ("suffix", 0.25), ("contains", 0.3), ("like", 0.1))
    letters: Interval = (3, 9)  # of a part, uniform; at most the whole word
    words: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("present", "constraints"):
            low, high = getattr(self, name)
            if not 1 <= low < high <= self.attributes + 1:
                raise ValueError(f"{name}: expected 1 <= low < high <= {self.attributes + 1}")
        check_shares("operators", self.operators, frozenset(_CUTS))

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes."""
        return vocabulary("names", self.attributes)

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        names = sorted(self.names)
        words = vocabulary("words", self.words)
        most = self.constraints[1] - 1
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "wildcards subscriptions", block)
            counts = source.integers(*self.constraints, BLOCK).tolist()
            chosen = distinct(source, self.attributes, most).tolist()
            drawn = source.integers(0, self.words, (BLOCK, most)).tolist()
            letters = source.integers(*self.letters, (BLOCK, most)).tolist()
            bounds = bounds_of(self.operators)
            operators = np.searchsorted(bounds, source.random((BLOCK, most)), side="right").tolist()
            places = source.random((BLOCK, most)).tolist()
            for row in range(first, last):
                constraints = []
                for i in sorted(range(counts[row]), key=chosen[row].__getitem__):
                    operator = self.operators[operators[row][i]][0]
                    word = words[drawn[row][i]]
                    operand = _CUTS[operator](word, letters[row][i], places[row][i])
                    constraints.append(
                        Constraint(names[chosen[row][i]], operator, "string", False, operand)
                    )
                yield block * BLOCK + row, Predicate.of((Filter(constraints),))

    def events(self, start: int, stop: int) -> list[Record]:
        names = self.names
        words = vocabulary("words", self.words)
        return [
            {names[i]: words[word] for i, word in enumerate(row) if word >= 0}
            for row in self._values(start, stop).tolist()
        ]

    def event_table(self, start: int, stop: int) -> pa.Table:
        words = pa.array(vocabulary("words", self.words), pa.string())
        values = self._values(start, stop)
        return pa.table(
            {
                name: words.take(pa.array(values[:, i], mask=values[:, i] < 0))
                for i, name in enumerate(self.names)
            }
        )

    def describe(self) -> str:
        return describe(self)

    def _values(self, start: int, stop: int) -> NDArray[np.int64]:
        """The word of each attribute of each event, by number; -1 where it is absent."""
        parts = [np.empty((0, self.attributes), np.int64)]
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "wildcards events", block)
            counts = source.integers(*self.present, BLOCK)
            order = distinct(source, self.attributes, self.attributes)
            words = source.integers(0, self.words, (BLOCK, self.attributes))
            parts.append(np.where(order < counts[:, None], words, -1)[first:last])
        return np.concatenate(parts)


def _cut_inside(word: str, letters: int, place: float) -> str:
    start = int(place * max(len(word) - letters + 1, 1))
    return word[start : start + letters]


def _cut_pattern(word: str, letters: int, place: float) -> str:
    """A pattern with a wildcard inside that the word fits, in one of three shapes."""
    shape = int(place * 3)
    end = word[-max(letters // 2, 1) :]
    if shape == 0:
        return f"{word[: max(letters // 2, 1)]}%{end}"
    if shape == 1:
        return f"%{word[1:3]}_%{end}"
    middle = len(word) // 2
    return f"{word[:middle]}_{word[middle + 1 :]}"


# How to make each operator's operand from a word, a number of letters and a random number.
_CUTS: Final[dict[str, Callable[[str, int, float], str]]] = {
    "prefix": lambda word, letters, _: word[:letters],
    "suffix": lambda word, letters, _: word[-letters:],
    "contains": _cut_inside,
    "like": _cut_pattern,
}
