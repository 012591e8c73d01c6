"""Nodes that can do unlike much (L7): who serves an application, and how the ring is cut for them.

`first_nodes` is weighted rendezvous hashing: every node has a score for a key, which its weight
stretches, and the highest scores serve. Another node more changes no score, so growing from n nodes
to n + 1 keeps the n. `by_capacity` cuts the ring into regions of nearly equal capacity, where
`by_rank` cuts it into regions of nearly equally many nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from math import log

from tidings.overlay.ring import Division, clockwise


def score(key: str, node: str, weight: float = 1.0) -> float:
    """The score of a node for a key: of several nodes, each is first as often as it weighs."""
    digest = blake2b(f"{key}\n{node}".encode(), digest_size=8, person=b"weights").digest()
    chance = (int.from_bytes(digest) + 1) / (2**64 + 1)  # in (0, 1)
    return -weight / log(chance)


def first_nodes(
    key: str, nodes: Iterable[str], count: int, weights: Mapping[str, float] | None = None
) -> tuple[str, ...]:
    """The nodes with the highest scores for a key, the highest first.

    >>> first_nodes("quotes", "abcdef", 3)
    ('d', 'a', 'f')
    >>> first_nodes("quotes", "abcdef", 4)
    ('d', 'a', 'f', 'c')
    """
    weights = weights or {}
    scored = [(score(key, node, weights.get(node, 1.0)), node) for node in nodes]
    return tuple(node for _, node in sorted(scored, reverse=True)[:count])


def by_capacity(
    nodes: Iterable[str], regions: int, capacity: Mapping[str, float], offset: int = 0
) -> Division:
    """The sorted ring cut where the capacities add up to equal shares; no region is empty.

    >>> by_capacity("abcdef", 3, {"a": 4.0})
    (('a',), ('b', 'e'), ('f', 'c', 'd'))
    """
    ring = sorted(nodes, key=lambda name: (clockwise(offset, name), name))
    share = sum(capacity.get(name, 1.0) for name in ring) / regions
    found: list[list[str]] = [[] for _ in range(regions)]
    region, filled = 0, 0.0
    for place, name in enumerate(ring):
        capable = capacity.get(name, 1.0)
        left, behind = len(ring) - place, regions - region - 1
        # On to the next region where it comes nearer to its share, or where each left needs a node.
        if (
            found[region]
            and behind
            and (filled + capable / 2 >= share * (region + 1) or left <= behind)
        ):
            region += 1
        found[region].append(name)
        filled += capable
    return tuple(map(tuple, found))
