"""Random draws for workloads: each row depends only on the seed and the row's number.

With NumPy, workloads draw whole blocks, each from its own generator, and cut them to the rows they
need; `hashed` draws single rows. Nothing here has state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tidings.language.predicate import Predicate

BLOCK: Final = 4_096  # rows drawn together

Subscription = tuple[int, Predicate]
Record = dict[str, Any]
Interval = tuple[int, int]  # low inclusive, high exclusive
Shares = tuple[tuple[str, float], ...]


def generator(seed: int, stream: str, block: int) -> np.random.Generator:
    """The generator of one block of one stream."""
    sequence = np.random.SeedSequence((seed, crc32(stream.encode()), block))
    return np.random.Generator(np.random.Philox(sequence))


def row_range(start: int, stop: int) -> range:
    if not 0 <= start <= stop:
        raise ValueError(f"expected rows 0 <= start <= stop, found {start} and {stop}")
    return range(start, stop)


def blocks(start: int, stop: int, size: int = BLOCK) -> Iterator[tuple[int, int, int]]:
    """The blocks that hold these rows: number, first row and end within the block."""
    rows = row_range(start, stop)
    for block in range(rows.start // size, -(-rows.stop // size)):
        begin = block * size
        yield block, max(start - begin, 0), min(stop - begin, size)


def hashed(seed: int, stream: str, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A random number for each row, without drawing the rows before it (splitmix64)."""
    key = np.random.SeedSequence((seed, crc32(stream.encode()))).generate_state(1, np.uint64)
    mixed = key + rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def distinct(source: np.random.Generator, count: int, columns: int) -> NDArray[np.int64]:
    """A block of rows, each of `columns` distinct numbers below `count`, all equally likely."""
    return np.asarray(np.argsort(source.random((BLOCK, count)), axis=1)[:, :columns])


def bounds_of(shares: Shares) -> NDArray[np.float64]:
    """Where in [0, 1) each share except the first begins."""
    return np.cumsum([share for _, share in shares])[:-1]


def check_shares(name: str, shares: Shares, known: frozenset[str]) -> None:
    unknown = [operator for operator, _ in shares if operator not in known]
    if unknown:
        raise ValueError(f"{name}: expected some of {sorted(known)}, found {unknown}")
    if any(share < 0 for _, share in shares) or abs(sum(s for _, s in shares) - 1) > 1e-9:
        raise ValueError(f"{name}: expected shares that sum to 1, found {shares}")


def offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where consecutive runs of these lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)])


def ranks(texts: Sequence[str]) -> NDArray[np.int64]:
    """The rank of each text in sorted order; equal texts share one."""
    places = {text: place for place, text in enumerate(sorted(set(texts)))}
    return np.array([places[text] for text in texts])


def describe(workload: Any) -> str:
    """The first line of the class's docstring, then one parameter a line."""
    sentence = str(type(workload).__doc__).partition("\n")[0]
    lines = (f"  {f.name}: {getattr(workload, f.name)!r}" for f in fields(workload))
    return "\n".join([f"{type(workload).__name__}: {sentence}", *lines])
