"""Subscriptions compiled once for many jobs: parsed on executors, assembled on the driver, kept.

`compile` saves the compiled tables in a directory named by a hash of the rows that were compiled
and of the source that compiles them, so that the next job with the same subscriptions finds them.
The hash is taken from the rows as they are parsed: a source that gives other rows at the next
reading gets another directory. Where one table would be larger than `budget`, it splits the
subscriptions into shards. On a cluster a small table travels with the job, a large one as an
archive that Spark sends to each executor once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidings.language
import tidings.matching
from tidings.language.predicate import MAX_FILTERS
from tidings.matching.assembly import Flat, assemble, from_bytes
from tidings.matching.contract import Id, Stats
from tidings.matching.storage import Contents, StoredIds, WrittenTexts, write_table
from tidings.spark.files import absolute, is_store, read_rows, subscriptions_frame
from tidings.spark.intake import frame_of, subscriptions_table
from tidings.spark.naming import column_named
from tidings.spark.parsing import COLUMNS, PARTS, SEEN, parsed, rejected_schema
from tidings.spark.reach import sees_our_files, sent
from tidings.spark.store import Store
from tidings.spark.worker import Shard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

Subscriptions: TypeAlias = (
    "DataFrame | Store | Mapping[Any, Any] | pa.Table | str | os.PathLike[str]"
)
BUDGET: Final = 1 << 30  # bytes of the largest table that a worker process maps
ROWS_A_TASK: Final = 20_000  # subscriptions that one task parses
ROWS_HERE: Final = 20_000  # subscriptions that are sooner compiled here than by a Spark job
SHOWN: Final = 5  # rejected subscriptions that an error names
KEPT: Final = 16  # compiled sets that stay in the cache, besides those used within a day
DAY_S: Final = 86_400
SOURCE: Final = frozenset({".py", ".pyx", ".pxi", ".h"})
FACTS: Final = "compiled.json"
REJECTED: Final = "rejected.arrow"


class SubscriptionsRejected(ValueError):
    """Some subscriptions are bad, and the caller asked for `strict`."""


class Facts(msgspec.Struct, frozen=True):
    """What `compiled.json` says of compiled subscriptions, besides the tables."""

    key: str
    fingerprint: str  # of the rows
    integers: bool  # whether the ids are integers
    names: list[str]  # attributes that subscriptions name; the empty name means all
    subscriptions: list[int]  # for each shard, as the next three
    filters: list[int]
    constraints: list[int]
    bytes: list[int]
    rejected: int
    budget: int


class Compiled:
    """Subscriptions that are ready to match any number of frames of events.

    `stats()` returns their size, `rejected` the bad ones, and `explain()` the plan as text.
    `source` is the DataFrame that they come from, with its column of ids, if they come from one.
    """

    def __init__(
        self,
        spark: SparkSession,
        facts: Facts,
        shards: tuple[Shard, ...],
        rejected: pa.Table,
        source: tuple[DataFrame, str] | None = None,
    ) -> None:
        self.facts = facts
        self.shards = shards
        self.source = source
        self._spark = spark
        self._rejected = rejected

    @property
    def id_type(self) -> DataType:
        """The type of the ids: long or string."""
        from pyspark.sql.types import LongType, StringType

        return LongType() if self.facts.integers else StringType()

    @property
    def names(self) -> frozenset[str]:
        """The attributes that the subscriptions name; the empty name means all attributes."""
        return frozenset(self.facts.names)

    @property
    def rejected(self) -> DataFrame:
        """The bad subscriptions, with `reason`, `line` and `column`."""
        return self._spark.createDataFrame(self._rejected)

    def refuse_rejected(self) -> None:
        """Raise `SubscriptionsRejected` if there are bad subscriptions."""
        count = self._rejected.num_rows
        if not count:
            return
        lines = [f"{count:,} of {self.stats().subscriptions + count:,} subscriptions are bad:"]
        for row in self._rejected.slice(0, SHOWN).to_pylist():
            place = "" if row["line"] is None else f"line {row['line']}, column {row['column']}: "
            lines.append(f"  {row['subscription']!r}: {place}{row['reason']}")
        if count > SHOWN:
            lines.append("  …")
        raise SubscriptionsRejected("\n".join(lines))

    def stats(self) -> Stats:
        """The size of all tables together."""
        facts = self.facts
        return Stats(
            sum(facts.subscriptions), sum(facts.filters), sum(facts.constraints), sum(facts.bytes)
        )

    def explain(self) -> str:
        """The plan for matching these subscriptions, as text."""
        stats, facts = self.stats(), self.facts
        asked = "any" if "" in facts.names else ", ".join(facts.names[:20])
        more = "" if len(facts.names) <= 20 else f", … ({len(facts.names)} in all)"
        lines = [
            f"{stats.subscriptions:,} subscriptions, {stats.filters:,} filters, "
            f"{stats.constraints:,} constraints, {stats.bytes:,} bytes",
            f"rejected: {facts.rejected:,}",
            f"attributes in use: {asked}{more}",
            f"grid: event partitions × {len(self.shards)} "
            f"{'shard' if len(self.shards) == 1 else 'shards'} (budget {facts.budget:,} bytes)",
        ]
        for number, shard in enumerate(self.shards):
            how = "mapped from"
            if shard.data:
                how = f"{len(shard.data):,} bytes sent with the job, from"
            elif shard.shipped:
                how = "sent to executors, from"
            removed = f", {len(shard.removed):,} removed" if shard.removed else ""
            lines.append(
                f"  shard {number}: {facts.subscriptions[number]:,} subscriptions, "
                f"{facts.bytes[number]:,} bytes{removed}, {how} {shard.path}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        stats = self.stats()
        return (
            f"Compiled({stats.subscriptions:,} subscriptions, {stats.bytes:,} bytes, "
            f"{len(self.shards)} shards, {self.facts.rejected:,} rejected)"
        )

    def changed(self, others: Compiled, removed: Iterable[Id] = ()) -> Compiled:
        """These subscriptions without the removed ones, and with others, which replace equal ids.

        Compiles nothing again: it marks ids as removed (tombstones). Meant for few changes; after
        many, compile all subscriptions anew.
        """
        leaving = set(removed)
        for shard in others.shards:
            leaving.update(_ids(shard))
        marked = tuple(sorted(leaving, key=lambda id: (str(type(id)), id)))
        mine = tuple(
            shard._replace(removed=tuple(sorted({*shard.removed, *marked})))
            for shard in self.shards
        )
        one, two = self.facts, others.facts
        facts = Facts(
            key=_digest(one.key, two.key, repr(marked)),
            fingerprint="",
            integers=one.integers,
            names=sorted({*one.names, *two.names}),
            subscriptions=one.subscriptions + two.subscriptions,
            filters=one.filters + two.filters,
            constraints=one.constraints + two.constraints,
            bytes=one.bytes + two.bytes,
            rejected=two.rejected,
            budget=one.budget,
        )
        return Compiled(self._spark, facts, mine + others.shards, others._rejected)


def compile(
    subscriptions: Subscriptions,
    *,
    subscription: str = "subscription",
    predicate: str = "predicate",
    dialect: str = "dialect",
    strict: bool = False,
    budget: int = BUDGET,
    directory: str | os.PathLike[str] | None = None,
) -> Compiled:
    """Compile subscriptions, or find them in the cache.

    Subscriptions are a DataFrame, a `Store` (its newest version), a mapping from ids to predicates,
    an Arrow table, or the path of a store or of a file as `tidings check` reads it. Of a DataFrame
    or a Parquet file, `subscription`, `predicate` and `dialect` name the columns. Ids are text or
    integers; the dialect may be missing or null. Bad subscriptions are in `rejected` of the result;
    with `strict` they raise `SubscriptionsRejected`. Equal rows count once. An id with different
    predicates is rejected, because nothing says which of them is meant.

    `directory` keeps the compiled tables. By default it is a cache of this user, from which the
    tables are sent to the executors of a cluster. Tidings assumes that every machine sees a
    directory that you name, and sends nothing.
    """
    from pyspark.sql import SparkSession

    frame = frame_of(subscriptions)
    spark = SparkSession.active() if frame is None else frame.sparkSession
    names = (subscription, predicate, dialect)
    return compile_for(spark, subscriptions, names, strict, budget, directory)


def compile_for(
    spark: SparkSession,
    subscriptions: Subscriptions,
    names: tuple[str, str, str] = COLUMNS,
    strict: bool = False,
    budget: int = BUDGET,
    directory: str | os.PathLike[str] | None = None,
) -> Compiled:
    """`compile` in a session; `names` are those of the three columns."""
    given: Any = subscriptions
    if isinstance(given, str | os.PathLike):
        given = _opened(spark, os.fspath(given))
    bad: pa.Table | None = None
    if isinstance(given, Store):
        given = given.snapshot()
    elif isinstance(given, tuple):
        given, bad = given
    frame = frame_of(given)
    if frame is not None:
        compiled = _compile_frame(frame, names, budget, directory)
    else:
        compiled = compile_rows(spark, subscriptions_table(given), budget, directory)
    if bad is not None:
        compiled = _with_rejected(compiled, bad)
    if strict:
        compiled.refuse_rejected()
    return compiled


def compile_rows(
    spark: SparkSession,
    rows: pa.Table,
    budget: int = BUDGET,
    directory: str | os.PathLike[str] | None = None,
) -> Compiled:
    """Compile rows of `subscription`, `predicate`, `dialect`: few here, many on the executors."""
    if rows.num_rows > ROWS_HERE:
        return _compile_frame(subscriptions_frame(spark, rows), COLUMNS, budget, directory)
    root = Path(directory) if directory is not None else cache_folder()
    return compile_here(spark, rows, root, budget, shared=directory is not None)


def compile_here(
    spark: SparkSession, rows: pa.Table, root: Path, budget: int = BUDGET, shared: bool = False
) -> Compiled:
    """Compile rows in this process into a folder that all workers see if it is `shared`."""
    integers = pa.types.is_integer(rows.schema.field("subscription").type)
    rows = rows.select(COLUMNS).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    fingerprint = "here " + hashlib.sha256(sink.getvalue()).hexdigest()
    folder = root / _key(fingerprint, integers, budget)
    if not _holds(folder, fingerprint):
        schema = pa.schema({name: pa.binary() for name in PARTS})
        batches = parsed(rows.to_batches(max_chunksize=ROWS_A_TASK))
        parts = _joined(pa.Table.from_batches(batches, schema), integers)
        _make(folder, parts, fingerprint, integers, budget)
    return _found(spark, folder, shared)


def _compile_frame(
    frame: DataFrame,
    names: tuple[str, str, str],
    budget: int,
    directory: str | os.PathLike[str] | None,
) -> Compiled:
    """Compile a DataFrame on the executors, or find it in the cache."""
    rows, integers = _rows(frame, *names)
    root = Path(directory) if directory is not None else cache_folder()
    count, fingerprint = _fingerprint(rows)
    folder = root / _key(fingerprint, integers, budget)
    if not _holds(folder, fingerprint):
        found = _parse(rows, count)
        fingerprint = _fingerprint_parsed(found)  # another one if the rows have changed meanwhile
        folder = root / _key(fingerprint, integers, budget)
        parts = _joined(found, integers)
        del found  # with a million subscriptions it matters
        if not _holds(folder, fingerprint):
            _make(folder, parts, fingerprint, integers, budget)
    compiled = _found(frame.sparkSession, folder, directory is not None)
    compiled.source = frame, names[0]
    return compiled


def _opened(spark: SparkSession, path: str) -> Any:
    """What a path names: a store, a Parquet file as a DataFrame, or rows with the bad ones."""
    if is_store(path):
        return Store(path)
    local = absolute(path)
    if path.lower().endswith(".parquet") or "://" in local or os.path.isdir(local):
        return spark.read.parquet(local)
    found = read_rows(path)
    kind = found.rows.schema.field("subscription").type
    bad = [
        {
            "subscription": one.id
            if pa.types.is_integer(kind) is isinstance(one.id, int)
            else None,
            "predicate": one.text,
            "reason": f"{one.file}:{one.line}: {one.reason}",
        }
        for one in found.bad
    ]
    return found.rows, pa.Table.from_pylist(bad, rejected_schema(kind))


def _with_rejected(compiled: Compiled, bad: pa.Table) -> Compiled:
    """Compiled subscriptions with more bad ones."""
    count = compiled.facts.rejected + bad.num_rows
    facts = msgspec.structs.replace(compiled.facts, rejected=count)
    rejected = pa.concat_tables([compiled._rejected, bad])
    return Compiled(compiled._spark, facts, compiled.shards, rejected, compiled.source)


def _holds(folder: Path, fingerprint: str) -> bool:
    """Whether a folder has what was compiled from the rows of a fingerprint."""
    try:
        facts = msgspec.json.decode((folder / FACTS).read_bytes(), type=Facts)
    except FileNotFoundError:
        return False
    except (OSError, msgspec.MsgspecError):
        facts = None
    if facts is None or facts.fingerprint != fingerprint:
        shutil.rmtree(folder, ignore_errors=True)  # damaged: nothing else has this name
        return False
    return True


def _found(spark: SparkSession, folder: Path, shared: bool) -> Compiled:
    """What was compiled into a folder; its tables are on their way to the executors."""
    facts = msgspec.json.decode((folder / FACTS).read_bytes(), type=Facts)
    os.utime(folder)
    shards = tuple(
        Shard(f"tidings-{facts.key}-{number}", str(folder / str(number)))
        for number in range(len(facts.subscriptions))
    )
    if not shared and not sees_our_files(spark):
        shards = tuple(sent(spark, shard) for shard in shards)
    with pa.OSFile(str(folder / REJECTED)) as source:
        rejected = pa.ipc.open_file(source).read_all()
    return Compiled(spark, facts, shards, rejected)


# The rows, and the key of what is compiled from them


def _rows(
    subscriptions: DataFrame, subscription: str, predicate: str, dialect: str
) -> tuple[DataFrame, bool]:
    """The rows with their columns cast and named, and whether the ids are integers."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegralType, StringType

    kinds = {field.name: field.dataType for field in subscriptions.schema.fields}
    names = (subscription, predicate, dialect)
    subscription, predicate, dialect = (column_named(name, subscriptions) for name in names)
    for name in (subscription, predicate):
        if name not in kinds:
            raise ValueError(
                f"expected a column {name!r} of subscriptions, found {', '.join(kinds)}"
            )
    if not isinstance(kinds[subscription], IntegralType | StringType):
        found = kinds[subscription].simpleString()
        raise ValueError(
            f"column {subscription!r}: expected ids that are text or integers, found {found}"
        )
    if not isinstance(kinds[predicate], StringType):
        found = kinds[predicate].simpleString()
        raise ValueError(f"column {predicate!r}: expected predicates that are text, found {found}")
    integers = isinstance(kinds[subscription], IntegralType)
    said = quoted(dialect) if dialect in kinds else F.lit(None)
    rows = subscriptions.select(
        quoted(subscription).cast("long" if integers else "string").alias("subscription"),
        quoted(predicate).cast("string").alias("predicate"),
        said.cast("string").alias("dialect"),
    )
    return rows, integers


def quoted(name: str) -> Any:
    """The column with exactly this name, whatever characters it has."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def _hashes() -> list[Any]:
    """Two hashes of a row. They skip nulls, so which values are null is hashed too."""
    from pyspark.sql import functions as F

    facts = [*(F.col(name) for name in COLUMNS), *(F.col(name).isNull() for name in COLUMNS)]
    return [F.xxhash64(F.lit(salt), *facts).alias(f"hash_{salt}") for salt in range(2)]


def _fingerprint(rows: DataFrame) -> tuple[int, str]:
    """The number of rows, and a hash of them that does not depend on their order."""
    from pyspark.sql import functions as F

    sums = [F.sum(hash.cast("decimal(38,0)")) for hash in _hashes()]
    count, *found = rows.agg(F.count(F.lit(1)), *sums).collect()[0]
    return count, " ".join(str(int(part or 0)) for part in (count, *found))


def _fingerprint_parsed(found: pa.Table) -> str:
    """The same hash of the rows that were parsed."""
    totals = [0, 0, 0]
    for text in found.column(SEEN).to_pylist():
        totals = [
            total + int(part) for total, part in zip(totals, msgspec.json.decode(text), strict=True)
        ]
    return " ".join(map(str, totals))


def _key(fingerprint: str, integers: bool, budget: int) -> str:
    return _digest(source_digest(), str(integers), str(budget), fingerprint)


@cache
def source_digest() -> str:
    """A digest of the source that parses and compiles, because another may make other tables."""
    digest = hashlib.sha256()
    own = Path(__file__)
    folders = [Path(package.__path__[0]) for package in (tidings.language, tidings.matching)]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in SOURCE]
    for file in sorted([*files, own, own.with_name("parsing.py")]):
        name = file.relative_to(own.parents[1]).as_posix()
        digest.update(name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _digest(*facts: str) -> str:
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:32]


# Compiling


def _make(
    folder: Path, parts: dict[str, pa.Table], fingerprint: str, integers: bool, budget: int
) -> None:
    """Compile parsed subscriptions into a folder, which appears as a whole."""
    ids, texts = (_one(parts["subscriptions"].column(name)) for name in ("id", "text"))
    flat = Flat(*(parts[name] for name in Flat._fields))
    kept, rejected = _unique(ids, texts, parts["rejected"])
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        stats = list(_shards(making, ids, texts, flat, kept, budget))
        sizes = {name: [getattr(one, name) for one in stats] for name in Stats._fields}
        names = sorted(set(flat.names.column("name").to_pylist()))
        facts = Facts(
            folder.name,
            fingerprint,
            integers,
            names,
            **sizes,
            rejected=len(rejected),
            budget=budget,
        )
        file = str(making / REJECTED)
        with pa.OSFile(file, "wb") as sink, pa.ipc.new_file(sink, rejected.schema) as writer:
            writer.write_table(rejected)
        (making / FACTS).write_bytes(msgspec.json.encode(facts))
        try:
            making.rename(folder)
        except OSError:
            if not (folder / FACTS).exists():  # else another job made the same folder first
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    _forget_old(folder.parent)


def _parse(rows: DataFrame, count: int) -> pa.Table:
    """Parse rows on the executors, and collect the result.

    The rows are hashed after they were moved, so that the hash is of the very rows that are parsed.
    """
    from pyspark.sql.types import BinaryType, StructField, StructType

    schema = StructType([StructField(name, BinaryType()) for name in PARTS])
    tasks = max(1, min(-(-count // ROWS_A_TASK), 1_000))
    spread = rows.repartition(tasks, "subscription", "predicate").select("*", *_hashes())
    return spread.mapInArrow(parsed, schema).toArrow()


def _one(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, without a copy where it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _joined(found: pa.Table, integers: bool) -> dict[str, pa.Table]:
    """The parts of the parsed subscriptions, each as one table."""
    if found.num_rows:
        return {
            name: from_bytes(part.as_buffer() for part in found.column(name)) for name in PARTS[1:]
        }
    # Without rows there are no parts; the schemas come from one row of nulls, which is dropped.
    columns = {name: pa.array([None], pa.string()) for name in ("predicate", "dialect")}
    id = pa.array([None], pa.int64() if integers else pa.string())
    nothing = pa.RecordBatch.from_pydict({"subscription": id, **columns})
    found = pa.Table.from_batches(parsed([nothing]))
    return {name: from_bytes(found.column(name).to_pylist()).slice(0, 0) for name in PARTS[1:]}


def _unique(
    ids: pa.Array, texts: pa.Array, rejected: pa.Table
) -> tuple[np.ndarray[Any, Any], pa.Table]:
    """Which subscriptions to keep: the first of equal ones, none of an id with several."""
    counts = pc.value_counts(ids)
    repeated = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))
    kept = np.ones(len(ids), bool)
    rows: list[dict[str, Any]] = []
    if len(repeated):
        first: dict[Any, dict[str, int]] = {}
        for at in np.flatnonzero(pc.is_in(ids, repeated).to_numpy(zero_copy_only=False)).tolist():
            held = first.setdefault(ids[at].as_py(), {})
            kept[at] = held.setdefault(texts[at].as_py(), at) == at
        for id, held in first.items():
            if len(held) > 1:
                for text, at in held.items():
                    kept[at] = False
                    reason = f"expected an id used once, found {len(held)} different predicates"
                    rows.append({"subscription": id, "predicate": text, "reason": reason})
    schema = rejected_schema(ids.type)
    return kept, pa.concat_tables([rejected, pa.Table.from_pylist(rows, schema)]).combine_chunks()


def _shards(
    folder: Path, ids: pa.Array, texts: pa.Array, flat: Flat, kept: Any, budget: int
) -> Iterator[Stats]:
    """Compile and save shard after shard, each within the budget if that is possible."""
    chosen = np.flatnonzero(kept)
    if chosen.size < len(ids):
        ids, texts, flat = (
            ids.take(pa.array(chosen)),
            texts.take(pa.array(chosen)),
            flat.take(chosen),
        )
    spans = [(0, len(ids))]
    number = 0
    while spans:
        first, last = spans.pop()
        here = texts.slice(first, last - first)
        index = assemble(here, flat.slice(first, last))
        _, filters, constraints, size = index.sizes()
        if size > budget and last - first > 1:
            pieces = min(-(-size // budget), last - first)
            ends = [first + (last - first) * piece // pieces for piece in range(pieces + 1)]
            spans += reversed(list(pairwise(ends)))
            continue
        stored = StoredIds(ids.slice(first, last - first), None)
        written = WrittenTexts(here, MAX_FILTERS)
        contents = Contents(index, stored, range(last - first), written)
        write_table(folder / str(number), contents)
        yield Stats(last - first, filters, constraints, size)
        number += 1


# The cache


def cache_folder() -> Path:
    """The folder of this user's compiled tables; TIDINGS_CACHE names another place."""
    named = os.environ.get("TIDINGS_CACHE")
    if named:
        return Path(named) / "spark"
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "tidings" / "spark"


def _forget_old(root: Path) -> None:
    """Remove the least recently used sets, except those of the last day, which a job may use."""
    held = sorted((f for f in root.iterdir() if (f / FACTS).exists()), key=_last_used, reverse=True)
    for folder in held[KEPT:]:
        if _last_used(folder) < time.time() - DAY_S:
            shutil.rmtree(folder, ignore_errors=True)


def _last_used(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _ids(shard: Shard) -> list[Id]:
    """The ids in a saved table."""
    from tidings.matching.storage import read_table

    _, predicates = read_table(shard.path)
    return list(predicates.ids)
