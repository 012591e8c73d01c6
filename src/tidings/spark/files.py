"""Files of events and of subscriptions, as DataFrames.

Events are Parquet, CSV with a header, or JSON lines; the endings of their names say which, or the
caller does. Each line of JSON stays as it is, as text in a column `event`: so attributes may have
any types, and a line that is not a valid event can be reported instead of becoming nulls.
Subscriptions are the files of `tidings check`, Parquet, or a store.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.language.files.subscriptions import BadSubscription, read_subscriptions
from tidings.spark.intake import ChangeRefused, StoreError
from tidings.spark.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

EVENT: Final = "event"
CORRUPT: Final = "_corrupt"  # the column for lines of CSV that Spark cannot read
ENDINGS: Final = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    ".csv": "csv",
    ".parquet": "parquet",
}
COMPRESSED: Final = (".gz", ".bz2", ".zst")
SUBSCRIPTIONS: Final = pa.schema(
    {"subscription": pa.string(), "predicate": pa.string(), "dialect": pa.string()}
)


_Row = tuple[str | int, str, int]  # id, predicate, line


class EventFileError(ValueError):
    """Files that cannot be read as events."""


class Events(NamedTuple):
    """Events as a frame, and how to read them from it."""

    frame: DataFrame
    json: str | None  # the column that holds them as JSON text
    corrupt: str | None  # the column with the lines that could not be read


class Subscriptions(NamedTuple):
    """Good subscriptions as Arrow, and the bad ones."""

    rows: pa.Table
    bad: list[BadSubscription]


def absolute(path: str | os.PathLike[str]) -> str:
    """An absolute path for Spark, because Java may have started in another folder than Python."""
    text = os.fspath(path)
    return text if ":" in text.partition("/")[0] else os.path.abspath(text)


# Events


def read_events(spark: SparkSession, files: Sequence[str], format: str | None = None) -> Events:
    """The events of files or folders."""
    known = format or format_of(files)
    paths = [absolute(file) for file in files]
    match known:
        case "json":
            frame = spark.read.text(paths)
            return Events(frame.withColumnRenamed("value", EVENT), EVENT, None)
        case "csv":
            schema = _csv_schema(spark, paths)
            frame = spark.read.schema(schema).options(**_csv_options()).csv(paths)
            return Events(frame, None, CORRUPT)
        case "parquet":
            return Events(spark.read.parquet(*paths), None, None)
        case _:
            raise EventFileError(f"expected json, csv or parquet, found {known!r}")


def stream_events(
    spark: SparkSession, folder: str, format: str | None, files_a_batch: int
) -> Events:
    """The events of a folder into which others move files."""
    known = format or format_of([folder])
    path = absolute(folder)
    reader = spark.readStream.option("maxFilesPerTrigger", files_a_batch)
    match known:
        case "json":
            frame = reader.text(path)
            return Events(frame.withColumnRenamed("value", EVENT), EVENT, None)
        case "csv":
            schema = _csv_schema(spark, [path])
            return Events(reader.schema(schema).options(**_csv_options()).csv(path), None, CORRUPT)
        case "parquet":
            return Events(reader.schema(spark.read.parquet(path).schema).parquet(path), None, None)
        case _:
            raise EventFileError(f"expected json, csv or parquet, found {known!r}")


def format_of(paths: Sequence[str]) -> str:
    """The format of files, from the endings of their names or of the names in a folder."""
    found = {_format(Path(path)) for path in paths}
    if len(found) == 1:
        (known,) = found
        if known is not None:
            return known
    shown = ", ".join(paths[:3])
    endings = ", ".join(ENDINGS)
    raise EventFileError(
        f"{shown}: expected files that all have one of the endings {endings}; else name the format"
    )


def _format(path: Path) -> str | None:
    name = path.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    known = ENDINGS.get(os.path.splitext(name)[1])
    if known is None and path.is_dir():
        inside = (_format(child) for child in sorted(path.iterdir()) if child.name[0] not in "._")
        return next((kind for kind in inside if kind is not None), None)
    return known


def _csv_options() -> dict[str, str]:
    return {"header": "true", "columnNameOfCorruptRecord": CORRUPT, "escape": '"'}


def _csv_schema(spark: SparkSession, paths: Sequence[str]) -> StructType:
    """The types of the columns, which Spark infers, and a column for lines that do not fit."""
    guess = spark.read.options(**_csv_options(), inferSchema="true").csv(list(paths))
    return guess.schema.add(CORRUPT, "string")


# Subscriptions


def is_store(path: str) -> bool:
    """Whether there is a store at a path."""
    try:
        return Store(path).exists()
    except StoreError:
        return False


def read_rows(
    source: str | BinaryIO, format: str | None = None, dialect: str = "tidings"
) -> Subscriptions:
    """The subscriptions of a file, with predicates of other dialects translated into our own."""
    if format is None and isinstance(source, str) and source.lower().endswith(".parquet"):
        return Subscriptions(_parquet_rows(source), [])
    rows: list[_Row] = []
    bad: list[BadSubscription] = []
    for one in read_subscriptions(source, format, dialect):
        if isinstance(one, BadSubscription):
            bad.append(one)
        else:
            rows.append((one.id, str(one.predicate), one.line))
    integers = bool(rows) and all(isinstance(row[0], int) for row in rows)
    if not integers:
        rows, repeated = _with_text_ids(source if isinstance(source, str) else "<stream>", rows)
        bad += repeated
    kind = pa.int64() if integers else pa.string()
    columns = [
        pa.array([row[0] for row in rows], kind),
        pa.array([row[1] for row in rows], pa.string()),
        pa.nulls(len(rows), pa.string()),
    ]
    return Subscriptions(
        pa.table(columns, schema=SUBSCRIPTIONS.set(0, pa.field("subscription", kind))), bad
    )


def _with_text_ids(file: str, rows: list[_Row]) -> tuple[list[_Row], list[BadSubscription]]:
    """Rows with their ids as texts. In a file, 7 and "7" are two ids; as texts they are one."""
    first: dict[str, _Row] = {}
    repeated: list[BadSubscription] = []
    for id, predicate, line in rows:
        held = first.setdefault(str(id), (str(id), predicate, line))
        if held[2] != line:
            found = f"{id!r}, the same text as the id on line {held[2]}"
            repeated.append(
                BadSubscription(file, line, None, id, "an id used once", found, predicate)
            )
    return list(first.values()), repeated


def joined(parts: Sequence[pa.Table], integers: bool | None) -> pa.Table:
    """The rows of several files, with ids as `integers` says; by default integers if all are."""
    kinds = {part.schema.field("subscription").type for part in parts}
    whole = all(map(pa.types.is_integer, kinds)) if integers is None else integers
    kind = pa.int64() if whole else pa.string()
    schema = SUBSCRIPTIONS.set(0, pa.field("subscription", kind))
    try:
        return pa.concat_tables([part.cast(schema) for part in parts])
    except pa.ArrowInvalid as error:
        raise ChangeRefused(f"expected ids that are integers: {error}") from None


def _parquet_rows(path: str) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(f"{path}: {error}") from None
    if "dialect" not in table.column_names:
        table = table.append_column("dialect", pa.nulls(table.num_rows, pa.string()))
    missing = [name for name in SUBSCRIPTIONS.names if name not in table.column_names]
    if missing:
        found = ", ".join(table.column_names)
        raise StoreError(f"{path}: expected a column {missing[0]!r}, found {found}")
    return table.select(SUBSCRIPTIONS.names)


def subscriptions_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Subscriptions as a DataFrame."""
    integers = pa.types.is_integer(rows.schema.field("subscription").type)
    kind = "bigint" if integers else "string"
    schema = f"subscription {kind}, predicate string, dialect string"
    return spark.createDataFrame(rows.select(SUBSCRIPTIONS.names), schema)


def store_rows(path: str) -> pa.Table:
    """The subscriptions of the newest version of a store."""
    return Store(path).snapshot()
