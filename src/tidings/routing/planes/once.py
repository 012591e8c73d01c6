"""Has this publication been here before? Deduplication, with a bounded memory for each source.

For every life of a source a node remembers the newest numbers. A number too old to tell counts as a
duplicate: an event that is thousands behind may get lost, but none is taken twice.
"""

from __future__ import annotations

from typing import Final, Protocol

NUMBERS: Final = 4_096  # how far below the newest of its life a number may still be new
LIVES: Final = 8  # remembered for each source


class Numbered(Protocol):
    """What is told apart by its source, the source's life, and a number."""

    @property
    def source(self) -> str: ...
    @property
    def life(self) -> int: ...
    @property
    def number(self) -> int: ...


class Once:
    """The publications that a node has seen, by source, life and number."""

    def __init__(self) -> None:
        self._newest: dict[str, dict[int, list[int]]] = {}

    def first(self, publication: Numbered) -> bool:
        """Whether the publication is new; from now on it is not."""
        lives = self._newest.setdefault(publication.source, {})
        number = publication.number
        seen = lives.get(publication.life)
        if seen is None:
            if len(lives) == LIVES:
                del lives[next(iter(lives))]
            lives[publication.life] = [number, 1]
            return True
        newest, mask = seen  # bit i of the mask: newest - i has been here
        behind = newest - number
        if behind < 0:
            seen[0] = number
            seen[1] = (mask << -behind | 1) & ((1 << NUMBERS) - 1) if -behind < NUMBERS else 1
            return True
        if behind >= NUMBERS or mask >> behind & 1:
            return False
        seen[1] = mask | 1 << behind
        return True
