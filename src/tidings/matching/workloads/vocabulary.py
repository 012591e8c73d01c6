"""Made-up words for workloads, and attribute names drawn by Zipf's law.

Words are built from syllables and from each other (`port`, `porter`, `airport`), so they share
prefixes, suffixes and inner parts like those of a dictionary, and some contain others. The lists
are fixed: they depend on no seed, and a longer list begins with the shorter ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidings.language.text import KEYWORDS, TYPES

MIN_LETTERS: Final = 3
MAX_LETTERS: Final = 12

# fmt: off
_ONSETS: Final = (
    "b", "br", "c", "ch", "cl", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p",
    "pl", "pr", "qu", "r", "s", "sh", "sl", "st", "t", "th", "tr", "v", "w",
)
_VOWELS: Final = ("a", "a", "e", "e", "i", "i", "o", "o", "u", "ai", "ea", "oo", "ou")
_CODAS: Final = (
    "", "", "", "ck", "d", "g", "l", "m", "n", "n", "nd", "ng", "nt", "p", "r", "r", "rt", "s",
    "st", "t", "x",
)
_HEADS: Final = (
    "be", "con", "de", "dis", "en", "in", "inter", "mis", "out", "over", "pre", "pro", "re", "sub",
    "un", "up",
)
_TAILS: Final = (
    "able", "al", "ed", "en", "er", "est", "ful", "ing", "ion", "ish", "ist", "ity", "ive", "less",
    "ly", "ment", "ness", "s",
)
# fmt: on
_STEMS: Final = 300  # at the start; a long list has more


@lru_cache(maxsize=16)
def vocabulary(kind: str, count: int) -> tuple[str, ...]:
    """The first words of the list of a kind: lower case, 3 to 12 letters, no keywords or types.

    >>> vocabulary("words", 5) == vocabulary("words", 1000)[:5]
    True
    """
    source = Random(f"tidings vocabulary {kind}")
    words: dict[str, None] = {}
    stems = [_syllable(source) for _ in range(_STEMS)]
    while len(words) < count:
        draw = source.random()
        if draw < 0.05:
            stems.append(_syllable(source))
        word = _pick(source, stems)
        if draw < 0.35:
            word += _pick(source, stems)
        elif draw < 0.6:
            word += _pick(source, _TAILS)
        elif draw < 0.75:
            word = _pick(source, _HEADS) + word
        elif draw < 0.85:
            word = _pick(source, _HEADS) + word + _pick(source, _TAILS)
        fits = MIN_LETTERS <= len(word) <= MAX_LETTERS
        if fits and word not in words and word not in KEYWORDS and word not in TYPES:
            words[word] = None
    return tuple(words)


def _syllable(source: Random) -> str:
    return _pick(source, _ONSETS) + _pick(source, _VOWELS) + _pick(source, _CODAS)


def _pick(source: Random, options: Sequence[str]) -> str:
    return options[int(source.random() * len(options))]


@dataclass(frozen=True)
class Names:
    """Attribute names by Zipf's law: the probability of a name falls with a power of its rank.

    They are the names from number `first` on of one list; sets whose numbers overlap share names.
    """

    count: int = 1_000
    exponent: float = 1.0
    first: int = 0

    @property
    def stop(self) -> int:
        """The number after the last."""
        return self.first + self.count

    def weights(self) -> NDArray[np.float64]:
        """The probability of each name, by rank."""
        weights = np.arange(1, self.count + 1, dtype=np.float64) ** -self.exponent
        return np.asarray(weights / weights.sum())

    def draw(self, source: np.random.Generator, shape: int | tuple[int, int]) -> NDArray[np.int64]:
        """Numbers of names, each drawn independently of the others."""
        bounds = np.cumsum(self.weights())[:-1]
        ranks = np.searchsorted(bounds, source.random(shape), side="right")
        return np.asarray(ranks + self.first)

    def draw_distinct(
        self, source: np.random.Generator, rows: int, columns: int
    ) -> NDArray[np.int64]:
        """Rows of distinct numbers: each is drawn again until it differs from those before it."""
        weights = self.weights()
        if weights[columns:].sum() < 0.05:  # redrawing would take long, so use exponential clocks
            clocks = source.standard_exponential((rows, self.count)) / weights
            return np.asarray(np.argsort(clocks, axis=1)[:, :columns] + self.first)
        names = self.draw(source, (rows, columns))
        pending = np.arange(rows)
        while pending.size:
            again = _repeated(names[pending])
            pending, again = pending[again.any(axis=1)], again[again.any(axis=1)]
            redrawn = names[pending]
            # A repeated number equals one before it that stays, so all can be redrawn at once.
            redrawn[again] = self.draw(source, int(again.sum()))
            names[pending] = redrawn
        return names


def _repeated(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """For each element, whether an earlier one in its row equals it."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    repeated = np.zeros(rows.shape, dtype=np.bool_)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return repeated
