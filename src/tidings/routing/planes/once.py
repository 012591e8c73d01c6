"""Has this publication been here before? Bounded memory of what came from each source.

For every life of a source the newest numbers are remembered. What is too old to tell is taken for
a repetition: an event may get lost that way if it was thousands behind, but none comes twice.
"""

from __future__ import annotations

from typing import Final

from tidings.routing.packets import Publication

NUMBERS: Final = 4_096  # of a life, how far below the newest a number may come for the first time
LIVES: Final = 8  # of a source that are remembered


class Once:
    """Publications seen, by source, life and number."""

    def __init__(self) -> None:
        self._newest: dict[str, dict[int, list[int]]] = {}

    def first(self, publication: Publication) -> bool:
        """Whether this is the first time; from now on it is not."""
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
