"""The ring of identifiers (L2): every node has a place on it, and regions are runs of it.

An identifier is 64 bits that follow from a name alone, so all nodes find the same ones. A division
cuts the ring into regions, numbered from 0, that begin at an offset of the caller's choice:

- `by_rank` cuts the sorted ring into runs of nearly equally many nodes. No region is empty, unless
  there are more regions than nodes. It needs the names of all nodes.
- `by_width` cuts the circle into equal arcs, as paper L does. How many nodes fall into an arc is a
  matter of luck: with one node for each region on average, about a third of them are empty.

The law of both: every node is in exactly one region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

BITS: Final = 64
Division = tuple[tuple[str, ...], ...]  # the nodes of each region, in the order of the ring


@lru_cache(1 << 16)
def identifier(name: str) -> int:
    """The place of a name on the ring, the same in every process."""
    return int.from_bytes(blake2b(name.encode(), digest_size=BITS // 8, person=b"ring").digest())


def clockwise(offset: int, name: str) -> int:
    """How far the identifier of a name is from an offset, going round."""
    return (identifier(name) - offset) % (1 << BITS)


def by_rank(nodes: Iterable[str], regions: int, offset: int = 0) -> Division:
    """The ring cut into regions of nearly equally many nodes.

    >>> by_rank("abcdef", 3)
    (('a', 'b'), ('e', 'f'), ('c', 'd'))
    """
    ring = sorted(nodes, key=lambda name: (clockwise(offset, name), name))
    cuts = [len(ring) * region // regions for region in range(regions + 1)]
    return tuple(tuple(ring[cuts[c] : cuts[c + 1]]) for c in range(regions))


def by_width(nodes: Iterable[str], regions: int, offset: int = 0) -> Division:
    """The ring cut into equal arcs, some of them perhaps without a node.

    >>> by_width("abcdef", 3)
    (('a', 'b', 'e', 'f'), ('c',), ('d',))
    """
    ring = sorted(nodes, key=lambda name: (clockwise(offset, name), name))
    found: list[list[str]] = [[] for _ in range(regions)]
    for name in ring:
        found[clockwise(offset, name) * regions >> BITS].append(name)
    return tuple(map(tuple, found))


DIVISIONS: Final[dict[str, Callable[[Iterable[str], int, int], Division]]] = {
    "rank": by_rank,
    "width": by_width,
}
