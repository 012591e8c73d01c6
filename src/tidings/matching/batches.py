"""Matching batches: Arrow columns or JSON texts in, pairs of row and subscription out.

The engine reads rows and searches without the GIL, so several threads share a batch. What only
Python can test is asked afterwards, for the rows that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidings.language.errors import EventError
from tidings.matching.contract import Batch, events_of, is_text_or_binary, known_columns
from tidings.matching.native.engine import Columns, Index, Moment, Unreadable

Array = np.ndarray[Any, Any]
Pairs = tuple[Array, Array]  # rows, numbers of subscriptions
PART: Final = 4_096  # rows that a thread takes at a time
SOME: Final = 256  # rows by which it learns how many pairs they have
PAIRS: Final = 2**19  # in one piece of an answer, about: the memory of such pieces is used again
ALL: Final = 2**63  # more matches than there can be


def match_columns(
    index: Index, batch: Batch, threads: int = 1, enough: int = ALL
) -> Iterator[Pairs]:
    """The matches of a batch whose columns are attributes, in the order of rows.

    A row need not have more than `enough` matches found, which is all that it can have.
    """
    names = set(batch.schema.names)
    moment = index.moment()  # before columns are chosen by name: it asks for no other
    try:
        if len(names) < len(batch.schema.names):
            raise Unreadable("a name twice")
        asked = index.asked_names()
        known = [known_columns(part, asked) for part in _record_batches(batch)]
        parts = [(part, Columns.of(part, index.names)) for part in known]
    except Unreadable:  # Python reads the rows, or says what is wrong with them
        yield from match_documents(index, list(events_of(batch, index.asked_names())))
        return

    def events(part: pa.RecordBatch, rows: list[int]) -> Iterable[Mapping[str, Any]]:
        return events_of(without_views(part).take(pa.array(rows)), index.asked_names())

    yield from _match_parts(index, moment, parts, events, threads, enough)


def match_texts(index: Index, batch: Batch, json: str, threads: int = 1) -> Iterator[Pairs]:
    """The matches of a batch, one column of which holds events as JSON text."""
    column = batch.column(json)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not is_text_or_binary(kind):
        raise EventError(f"column {json!r}: expected JSON text, found the type {kind}")
    alone = pa.table({json: column})
    moment = index.moment()
    try:
        parts = [(part, Columns.of(part, index.names, json)) for part in _record_batches(alone)]
    except Unreadable:
        yield from match_documents(index, list(events_of(alone, None, json)))
        return

    def events(part: pa.RecordBatch, rows: list[int]) -> Iterable[Mapping[str, Any]]:
        return events_of(pa.record_batch({json: part.column(0).take(pa.array(rows))}), None, json)

    try:
        yield from _match_parts(index, moment, parts, events, threads)
    except EventError:
        for _ in events_of(alone, None, json):  # which says in which row
            pass
        raise


def _record_batches(batch: Batch) -> list[pa.RecordBatch]:
    return batch.to_batches() if isinstance(batch, pa.Table) else [batch]


def _match_parts(
    index: Index,
    moment: Moment,
    parts: list[tuple[pa.RecordBatch, Columns]],
    events: Callable[[pa.RecordBatch, list[int]], Iterable[Mapping[str, Any]]],
    threads: int,
    enough: int = ALL,
) -> Iterator[Pairs]:
    """The matches of parts of a batch, all at one moment of the table."""
    pieces: list[tuple[int, pa.RecordBatch, Columns, int]] = []
    begin = 0
    for part, columns in parts:
        pieces += [(begin, part, columns, first) for first in range(0, columns.rows, PART)]
        begin += columns.rows

    def piece(given: tuple[int, pa.RecordBatch, Columns, int]) -> Iterator[Pairs]:
        begin, part, columns, first = given
        last = min(first + PART, columns.rows)
        step = SOME
        while first < last:
            until = min(first + step, last)
            rows, numbers, asked = index.match_rows(columns, first, until, moment, begin, enough)
            if asked:
                wanted = sorted({row for row, _, _ in asked})
                given_events = dict(zip(wanted, events(part, wanted), strict=True))
                more_rows, more_numbers = index.answers(asked, given_events, begin)
                at = np.searchsorted(rows, more_rows, side="right")
                rows, numbers = np.insert(rows, at, more_rows), np.insert(numbers, at, more_numbers)
            yield rows, numbers
            step = min(PART, (until - first) * PAIRS // max(numbers.size, 1) + 1)
            first = until

    if threads > 1 and len(pieces) > 1:
        with ThreadPoolExecutor(threads) as pool:
            yield from chain.from_iterable(pool.map(lambda given: list(piece(given)), pieces))
    else:
        yield from chain.from_iterable(map(piece, pieces))


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
        rows.append(pa.array(at, pa.int64()))
        ids.append(pa.array(index.take_ids(numbers, integers), kind))
    return pa.table(
        {
            "event": pa.chunked_array(rows, pa.int64()),
            "subscription": pa.chunked_array(ids, kind),
        }
    )


def without_views(batch: Batch) -> Batch:
    """The batch with string views as large strings, because Arrow cannot `take` from views."""
    kinds = [_without_views(field.type) for field in batch.schema]
    if kinds == batch.schema.types:
        return batch
    fields = [field.with_type(kind) for field, kind in zip(batch.schema, kinds, strict=True)]
    # Cast only these columns: Arrow cannot cast a sliced struct of nulls, even to its own type.
    columns = [
        column if column.type == kind else column.cast(kind)
        for column, kind in zip(batch.columns, kinds, strict=True)
    ]
    return type(batch).from_arrays(columns, schema=pa.schema(fields))


def _without_views(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = _without_views(kind.key_type), _without_views(kind.item_type)
        same = key == kind.key_type and item == kind.item_type
        return kind if same else pa.map_(key, item, kind.keys_sorted)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        inner = kind.value_field.with_type(_without_views(kind.value_type))
        return pa.list_(inner, kind.list_size)
    return kind
