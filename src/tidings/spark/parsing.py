"""Subscriptions parsed and normalised in Spark's Python workers: rows in, flat columns out.

Each batch of rows becomes one row of Arrow streams: the good subscriptions, their normal forms as
`matching.assembly` lays them out, and the bad subscriptions with the reason. The row also sums the
hashes that stand beside the subscriptions, so that the driver knows which rows were parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from tidings.language.errors import PredicateError
from tidings.language.files.subscriptions import MAX_ID, MAX_TEXT_KEPT
from tidings.language.predicate import Predicate, parse
from tidings.matching.arrow_values import raw_texts
from tidings.matching.assembly import Flat, collector_off, flatten, to_bytes
from tidings.spark.intake import NOT_UTF8, OWN_DIALECT, replaced

COLUMNS: Final = ("subscription", "predicate", "dialect")
SEEN: Final = "seen"  # the part that says which rows were parsed
PARTS: Final = (SEEN, "subscriptions", "rejected", *Flat._fields)


def rejected_schema(id: pa.DataType) -> pa.Schema:
    """The columns of bad subscriptions; `line` and `column` count from 1."""
    return pa.schema(
        {
            "subscription": id,
            "predicate": pa.string(),
            "dialect": pa.string(),
            "reason": pa.string(),
            "line": pa.int64(),
            "column": pa.int64(),
        }
    )


def parsed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse batches of `subscription`, `predicate`, `dialect`, and perhaps columns of hashes."""
    for batch in batches:
        if batch.num_rows:
            with collector_off():
                parts = {name: pa.array([data], pa.binary()) for name, data in _parts(batch)}
            yield pa.RecordBatch.from_pydict(parts)


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[str, bytes]]:
    hashes = batch.columns[len(COLUMNS) :]
    yield SEEN, msgspec.json.encode([batch.num_rows, *(str(sum(h.to_pylist())) for h in hashes)])
    id_type = batch.schema.field("subscription").type
    ids: list[Any] = []
    texts: list[str] = []
    predicates: list[Predicate] = []
    rejected: list[dict[str, Any]] = []
    for id, text, dialect in zip(*map(raw_texts, batch.columns[: len(COLUMNS)]), strict=True):
        try:
            predicate = _predicate(id, text, dialect)
        except _Refused as refusal:
            rejected.append(refusal.row(id, text, dialect))
            continue
        ids.append(id)
        texts.append(text if dialect in (None, OWN_DIALECT) else str(predicate))
        predicates.append(predicate)
    taken = pa.schema({"id": id_type, "text": pa.large_string()})
    yield "subscriptions", to_bytes(pa.table([ids, texts], schema=taken))
    yield "rejected", to_bytes(pa.Table.from_pylist(rejected, rejected_schema(id_type)))
    for name, table in flatten(predicates)._asdict().items():
        yield name, to_bytes(table)


class _Refused(Exception):
    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        self.reason = reason
        self.line = line
        self.column = column

    def row(self, id: Any, text: Any, dialect: Any) -> dict[str, Any]:
        id, text, dialect = map(replaced, (id, text, dialect))
        shown = None if text is None else text[:MAX_TEXT_KEPT]
        kept = id[:MAX_ID] if isinstance(id, str) else id
        return {
            "subscription": kept,
            "predicate": shown,
            "dialect": dialect,
            "reason": self.reason,
            "line": self.line,
            "column": self.column,
        }


def _predicate(id: Any, text: Any, dialect: Any) -> Predicate:
    if any(isinstance(value, bytes) for value in (id, text, dialect)):
        raise _Refused(NOT_UTF8)
    if id is None:
        raise _Refused("expected an id, found null")
    if isinstance(id, str):
        if not id or id.isspace():
            raise _Refused("expected an id, found an empty one")
        if len(id) > MAX_ID:
            raise _Refused(f"expected an id of at most {MAX_ID} characters, found {len(id)}")
    if text is None:
        raise _Refused("expected a predicate, found null")
    try:
        return parse(text, dialect=dialect or OWN_DIALECT)
    except PredicateError as error:
        reason = f"expected {error.expected}, found {error.found}"
        raise _Refused(reason, error.line, error.column) from None
    except ValueError as error:  # an unknown dialect
        raise _Refused(str(error)) from None
