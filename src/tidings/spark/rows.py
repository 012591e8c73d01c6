"""Events of the network as rows of a schema, and a schema from a sample of events.

A column is the attribute of its name. A value either fits its column exactly or the event does not
fit: nothing is rounded, cut or replaced by null. An attribute is a set of values, so a list of one
value fits a column of single values, and a single value fits an array.
"""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

CORRUPT: Final = "_corrupt_record"  # as Spark's own readers call it
MAX_SHOWN: Final = 80  # characters of a value in a reason
_INTEGERS: Final = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}

Convert = Callable[[Any], Any]


class UnfitError(ValueError):
    """An event that does not fit a schema: which attribute, what was expected and found."""


class Unfit(NamedTuple):
    """An event that does not fit, and why."""

    event: Mapping[str, Any]
    reason: str


class Rows:
    """Makes rows of events.

    With `json`, each event is JSON text in that one column. With a column `_corrupt_record`, an
    event that does not fit is a row that has its JSON text there, and nulls.
    """

    def __init__(self, schema: T.StructType, json: str | None = None) -> None:
        self.schema = schema
        self.arrow = to_arrow_schema(schema, timezone="UTC")
        self.json = json
        self.keeps_corrupt = CORRUPT in schema.fieldNames()
        self._columns: list[tuple[str, Convert]] = []
        if json is not None:
            if schema.simpleString() != json_schema(json).simpleString():
                raise ValueError(
                    f"with the option json, expected the schema `{json} string`, "
                    f"found {schema.simpleString()}"
                )
            return
        for field in schema.fields:
            if field.name == CORRUPT:
                if not isinstance(field.dataType, T.StringType):
                    raise ValueError(f"column {CORRUPT!r}: expected a string")
                continue
            self._columns.append((field.name, _converter(field.dataType, field.name)))

    def batch(self, events: Iterable[Mapping[str, Any]]) -> tuple[pa.RecordBatch, list[Unfit]]:
        """The events that fit as a batch of rows, and the others with reasons."""
        rows: list[dict[str, Any]] = []
        unfit: list[Unfit] = []
        for event in events:
            try:
                rows.append(self._row(event))
            except UnfitError as error:
                if self.keeps_corrupt:
                    rows.append({CORRUPT: as_json(event)})
                else:
                    unfit.append(Unfit(event, str(error)))
        return pa.RecordBatch.from_pylist(rows, self.arrow), unfit

    def _row(self, event: Mapping[str, Any]) -> dict[str, Any]:
        if self.json is not None:
            return {self.json: as_json(event)}
        row = {}
        for name, convert in self._columns:
            value = event.get(name)
            if value is not None:
                try:
                    row[name] = convert(value)
                except UnfitError as error:
                    raise UnfitError(f"attribute {name!r}: {error}") from None
        return row


def json_schema(column: str) -> T.StructType:
    """The schema of events as JSON text."""
    return T.StructType([T.StructField(column, T.StringType())])


def as_json(event: Mapping[str, Any]) -> str:
    """An event as JSON text. Bytes stand for no value, and are left out."""
    return jsonlib.dumps(_without_bytes(event), ensure_ascii=False, separators=(",", ":"))


def _without_bytes(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = ((k, v) for k, v in value.items() if not isinstance(v, bytes))
        return {key: _without_bytes(item) for key, item in kept}
    if isinstance(value, list):
        return [_without_bytes(item) for item in value if not isinstance(item, bytes)]
    return value


# Values


def _converter(kind: T.DataType, name: str) -> Convert:
    """A function from values of events to values of a column; it raises `UnfitError`."""
    match kind:
        case T.StringType():
            return _single(lambda value: value if type(value) is str else _no("text", value))
        case T.BooleanType():
            return _single(lambda value: value if type(value) is bool else _no("a boolean", value))
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return _single(_integer(_INTEGERS[type(kind)]))
        case T.DoubleType():  # a `float` would be rounded
            return _single(_real)
        case T.BinaryType():
            return _single(lambda value: value if type(value) is bytes else _no("bytes", value))
        case T.DateType():
            return _single(_moment(date.fromisoformat, "a date"))
        case T.TimestampType():
            return _single(_moment(_in_utc, "a moment"))
        case T.TimestampNTZType():
            return _single(_moment(_without_zone, "a moment without a zone"))
        case T.ArrayType(elementType=element):
            inner = _converter(element, name)
            return lambda value: [
                None if item is None else inner(item)
                for item in (value if isinstance(value, list) else [value])
            ]
        case T.StructType():
            return _struct(kind, name)
        case T.MapType(keyType=T.StringType(), valueType=item):
            return _map(_converter(item, name))
        case _:
            raise ValueError(
                f"column {name!r}: expected text, a number, a boolean, binary, a date, a "
                "timestamp, or an array, a struct or a map of these with text as keys, found "
                f"{kind.simpleString()}"
            )


def _single(convert: Convert) -> Convert:
    def one(value: Any) -> Any:
        if type(value) is not list:
            return convert(value)
        held = [item for item in value if item is not None]
        if len(held) > 1:
            raise UnfitError(f"expected one value, found {len(held)}")
        return one(held[0]) if held else None

    return one


def _integer(bits: int) -> Convert:
    most = 2 ** (bits - 1)

    def convert(value: Any) -> int:
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int or not -most <= value < most:
            _no(f"an integer of {bits} bits", value)
        return int(value)

    return convert


def _real(value: Any) -> float:
    if type(value) is int and int(float(value)) == value:  # else it would be rounded
        return float(value)
    return value if type(value) is float else _no("a real", value)


def _moment(read: Callable[[str], Any], what: str) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is str:
            try:
                return read(value)
            except ValueError:
                pass
        return _no(what, value)

    return convert


def _in_utc(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _without_zone(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is not None:
        raise ValueError("a moment with a zone")
    return at


def _struct(kind: T.StructType, name: str) -> Convert:
    fields = [(f.name, _converter(f.dataType, f"{name}.{f.name}")) for f in kind.fields]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            _no("a record", value)
        return {key: inner(value[key]) for key, inner in fields if value.get(key) is not None}

    return convert


def _map(inner: Convert) -> Convert:
    def convert(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, Mapping):
            _no("a record", value)
        return [(key, None if item is None else inner(item)) for key, item in value.items()]

    return convert


def _no(expected: str, value: Any) -> Any:
    shown = repr(value)
    shown = shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 1] + "…"
    raise UnfitError(f"expected {expected}, found {shown}")


# Schemas


def inferred(events: Sequence[Mapping[str, Any]]) -> T.StructType:
    """The schema of a sample of events: a column for each attribute, by name.

    Raises `ValueError` for an attribute that has values of different kinds.
    """
    return _inferred_struct(events, "")


def _inferred_struct(records: Sequence[Mapping[str, Any]], prefix: str) -> T.StructType:
    values: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.items():
            values.setdefault(name, []).append(value)
    fields = [(name, _inferred(held, prefix + name)) for name, held in sorted(values.items())]
    return T.StructType([T.StructField(name, kind) for name, kind in fields if kind is not None])


def _inferred(values: Sequence[Any], name: str) -> T.DataType | None:
    """The type of some values; None if all are null."""
    items = [value for value in values if value is not None]
    if any(isinstance(value, list) for value in items):
        flat = [item for value in items for item in (value if isinstance(value, list) else [value])]
        element = _inferred(flat, name)
        return None if element is None else T.ArrayType(element)
    kinds = {"record" if isinstance(value, Mapping) else type(value).__name__ for value in items}
    match sorted(kinds):
        case []:
            return None
        case ["str"]:
            return T.StringType()
        case ["bool"]:
            return T.BooleanType()
        case ["int"]:
            return T.LongType()
        case ["float"] | ["float", "int"]:
            return T.DoubleType()
        case ["bytes"]:
            return T.BinaryType()
        case ["record"]:
            kind = _inferred_struct(items, name + ".")
            return kind if kind.fields else None
        case several:
            raise ValueError(
                f"attribute {name!r} has values of different kinds ({', '.join(several)}): give a "
                "schema, or take events as JSON text with the option json"
            )
