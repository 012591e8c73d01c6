"""Matching batches: Arrow columns or JSON texts in, pairs of row and subscription out.

The engine reads rows and searches without the GIL, so several threads share a batch. What only
Python can test is asked afterwards, for the rows that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidings.matching.contract import Batch, events_of
from tidings.matching.native.engine import Index

Array = np.ndarray[Any, Any]
Pairs = tuple[Array, Array]  # rows, numbers of subscriptions


def match_columns(index: Index, batch: Batch, threads: int = 1) -> Iterator[Pairs]:
    """The matches of a batch whose columns are attributes."""
    names = index.asked_names()
    yield from match_documents(index, list(events_of(batch, names)))


def match_texts(index: Index, batch: Batch, json: str, threads: int = 1) -> Iterator[Pairs]:
    """The matches of a batch, one column of which holds events as JSON text."""
    yield from match_documents(index, list(events_of(batch, None, json)))


def match_documents(index: Index, events: Sequence[Mapping[str, Any]]) -> Iterator[Pairs]:
    """The matches of events that come as mappings."""
    yield index.match_events(events)


def tally(pairs: Iterable[Pairs], totals: Array) -> None:
    """Add to `totals` how many rows match each subscription."""
    for _, numbers in pairs:
        totals += np.bincount(numbers, minlength=totals.size)


def pairs_of(index: Index, found: Iterable[Pairs], integers: bool) -> pa.Table:
    """Pairs with ids: int64 if `integers`, else text."""
    rows: list[pa.Array] = []
    ids: list[pa.Array] = []
    kind = pa.int64() if integers else pa.string()
    for at, numbers in found:
        named = list(map(index.id_of, numbers.tolist()))
        rows.append(pa.array(at, pa.int64()))
        ids.append(pa.array(named if integers else map(str, named), kind))
    return pa.table(
        {
            "event": pa.chunked_array(rows, pa.int64()),
            "subscription": pa.chunked_array(ids, kind),
        }
    )
