"""Subscriptions compiled once for many jobs: parsed on executors, assembled on the driver, kept.

`compile` takes a DataFrame of subscriptions. It saves the compiled tables in a directory named by a
hash of the rows and of the source that compiles them, so that the next job with the same
subscriptions finds them. Where one table would be larger than `budget`, it splits the subscriptions
into shards. On a cluster it sends the tables to the executors once, as archives.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidings.language
import tidings.matching
from tidings.language.predicate import MAX_FILTERS
from tidings.matching.assembly import Flat, assemble, from_bytes
from tidings.matching.contract import Id, Stats
from tidings.matching.storage import Contents, StoredIds, Written, write_table
from tidings.spark.parsing import PARTS, parsed, rejected_schema
from tidings.spark.worker import Shard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

BUDGET: Final = 1 << 30  # bytes of the largest table that a worker process maps
ROWS_A_TASK: Final = 20_000  # subscriptions that one task parses
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
    """

    def __init__(
        self, spark: SparkSession, facts: Facts, shards: tuple[Shard, ...], folder: Path
    ) -> None:
        self.facts = facts
        self.shards = shards
        self._spark = spark
        self._folder = folder

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
        with pa.memory_map(str(self._folder / REJECTED)) as source:
            return self._spark.createDataFrame(pa.ipc.open_file(source).read_all())

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
            how = "sent to executors" if shard.shipped else "mapped from"
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
            integers=one.integers,
            names=sorted({*one.names, *two.names}),
            subscriptions=one.subscriptions + two.subscriptions,
            filters=one.filters + two.filters,
            constraints=one.constraints + two.constraints,
            bytes=one.bytes + two.bytes,
            rejected=two.rejected,
            budget=one.budget,
        )
        return Compiled(self._spark, facts, mine + others.shards, others._folder)


def compile(
    subscriptions: DataFrame,
    *,
    subscription: str = "subscription",
    predicate: str = "predicate",
    dialect: str = "dialect",
    strict: bool = False,
    budget: int = BUDGET,
    directory: str | os.PathLike[str] | None = None,
) -> Compiled:
    """Compile subscriptions, or find them in the cache.

    `subscription`, `predicate` and `dialect` name columns. Ids are text or integers; the dialect
    may be missing or null. Bad subscriptions are in `rejected` of the result; with `strict` they
    raise `SubscriptionsRejected`. Equal rows count once. An id with different predicates is
    rejected, because nothing says which of them is meant.

    `directory` keeps the compiled tables. By default it is a cache of this user, from which the
    tables are sent to the executors of a cluster. Tidings assumes that every machine sees a
    directory that you name, and sends nothing.
    """
    rows, integers = _rows(subscriptions, subscription, predicate, dialect)
    spark = subscriptions.sparkSession
    count, digest = _fingerprint(rows)
    root = Path(directory) if directory is not None else cache_folder()
    key = _digest(source_digest(), str(integers), str(budget), digest)
    if not (root / key / FACTS).exists():
        _make(root / key, _parse(rows, count), key, integers, budget)
    facts, shards = _found(root / key, directory is None and not sees_our_files(spark))
    if strict and facts.rejected:
        raise SubscriptionsRejected(_complaint(root / key, facts))
    for shard in shards:
        if shard.shipped:
            _ship(spark, shard)
    return Compiled(spark, facts, shards, root / key)


def compile_here(
    rows: pa.Table, directory: str | os.PathLike[str]
) -> tuple[Facts, tuple[Shard, ...]]:
    """Compile `subscription`, `predicate`, `dialect` in this process, without Spark."""
    integers = pa.types.is_integer(rows.schema.field("subscription").type)
    rows = rows.select(["subscription", "predicate", "dialect"]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    content = hashlib.sha256(sink.getvalue()).hexdigest()
    key = _digest(source_digest(), str(integers), str(BUDGET), "here", content)
    folder = Path(directory) / key
    if not (folder / FACTS).exists():
        schema = pa.schema({name: pa.binary() for name in PARTS})
        batches = parsed(rows.to_batches(max_chunksize=ROWS_A_TASK))
        _make(folder, pa.Table.from_batches(batches, schema), key, integers, BUDGET)
    return _found(folder, shipped=False)


def _found(folder: Path, shipped: bool) -> tuple[Facts, tuple[Shard, ...]]:
    """The facts and the shards in a folder."""
    facts = msgspec.json.decode((folder / FACTS).read_bytes(), type=Facts)
    os.utime(folder)
    shards = (
        Shard(f"tidings-{facts.key}-{number}", str(folder / str(number)), shipped)
        for number in range(len(facts.subscriptions))
    )
    return facts, tuple(shards)


# The rows, and the key of what is compiled from them


def _rows(
    subscriptions: DataFrame, subscription: str, predicate: str, dialect: str
) -> tuple[DataFrame, bool]:
    """The rows with their columns cast and named, and whether the ids are integers."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegralType, StringType

    kinds = {field.name: field.dataType for field in subscriptions.schema.fields}
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


def _fingerprint(rows: DataFrame) -> tuple[int, str]:
    """The number of rows, and a hash of them that does not depend on their order."""
    from pyspark.sql import functions as F

    columns = ("subscription", "predicate", "dialect")
    # The hash skips nulls, so which values are null is hashed too.
    facts = [*(F.col(name) for name in columns), *(F.col(name).isNull() for name in columns)]
    sums = [
        F.sum(F.xxhash64(F.lit(salt), *facts).cast("decimal(38,0)")).alias(f"hash_{salt}")
        for salt in range(2)
    ]
    found = rows.agg(F.count(F.lit(1)).alias("rows"), *sums).collect()[0]
    return found["rows"], f"{found['rows']} {found['hash_0']} {found['hash_1']}"


@cache
def source_digest() -> str:
    """A digest of the source that parses and compiles, because another may make other tables."""
    digest = hashlib.sha256()
    for package in (tidings.language, tidings.matching):
        folder = Path(package.__path__[0])
        for file in sorted(path for path in folder.rglob("*") if path.suffix in SOURCE):
            name = file.relative_to(folder).as_posix()
            digest.update(name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _digest(*facts: str) -> str:
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:32]


# Compiling


def _make(folder: Path, found: pa.Table, key: str, integers: bool, budget: int) -> None:
    """Compile parsed subscriptions into a folder, which appears as a whole."""
    parts = _joined(found, integers)
    ids, texts = (parts["subscriptions"].column(name).combine_chunks() for name in ("id", "text"))
    flat = Flat(*(parts[name] for name in Flat._fields))
    kept, rejected = _unique(ids, texts, parts["rejected"])
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        stats = list(_shards(making, ids, texts, flat, kept, budget))
        sizes = {name: [getattr(one, name) for one in stats] for name in Stats._fields}
        names = sorted(set(flat.names.column("name").to_pylist()))
        facts = Facts(key, integers, names, **sizes, rejected=len(rejected), budget=budget)
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
    """Parse rows on the executors, and collect the result."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    schema = StructType([StructField(name, BinaryType()) for name in PARTS])
    tasks = max(1, min(-(-count // ROWS_A_TASK), 1_000))
    spread = rows.repartition(tasks, "subscription", "predicate")
    return spread.mapInArrow(parsed, schema).toArrow()


def _joined(found: pa.Table, integers: bool) -> dict[str, pa.Table]:
    """The parts of the parsed subscriptions, each as one table."""
    if found.num_rows:
        return {name: from_bytes(found.column(name).to_pylist()) for name in PARTS}
    # Without rows there are no parts; the schemas come from one row of nulls, which is dropped.
    columns = {name: pa.array([None], pa.string()) for name in ("predicate", "dialect")}
    id = pa.array([None], pa.int64() if integers else pa.string())
    nothing = pa.RecordBatch.from_pydict({"subscription": id, **columns})
    found = pa.Table.from_batches(parsed([nothing]))
    return {name: from_bytes(found.column(name).to_pylist()).slice(0, 0) for name in PARTS}


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
        written = [Written(text, MAX_FILTERS) for text in here.to_pylist()]
        stored = StoredIds(ids.slice(first, last - first), None)
        contents = Contents(index, stored, range(last - first), written)
        write_table(folder / str(number), contents)
        yield Stats(last - first, filters, constraints, size)
        number += 1


def _complaint(folder: Path, facts: Facts) -> str:
    with pa.memory_map(str(folder / REJECTED)) as source:
        first = pa.ipc.open_file(source).read_all().slice(0, SHOWN).to_pylist()
    total = sum(facts.subscriptions) + facts.rejected
    lines = [f"{facts.rejected:,} of {total:,} subscriptions are bad:"]
    for row in first:
        place = "" if row["line"] is None else f"line {row['line']}, column {row['column']}: "
        lines.append(f"  {row['subscription']!r}: {place}{row['reason']}")
    if facts.rejected > len(first):
        lines.append("  …")
    return "\n".join(lines)


# The cache, and how tables reach the executors


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


def sees_our_files(spark: SparkSession) -> bool:
    """Whether workers run on this machine, so that they can read this process's paths."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return False  # the server may be anywhere
    master = spark.conf.get("spark.master") or ""
    return master.startswith("local") and not master.startswith("local-cluster")


def _ship(spark: SparkSession, shard: Shard) -> None:
    """Send a table once to every executor, present and future."""
    archive = Path(shard.path).parent / f"{shard.key}.tar"
    if not archive.exists():
        making = archive.with_name(f".{archive.name}.{os.getpid()}")
        with tarfile.open(making, "w") as packed:
            packed.add(shard.path, arcname=".")
        making.rename(archive)
    spark.addArtifacts(str(archive), file=True)


def _ids(shard: Shard) -> list[Id]:
    """The ids in a saved table."""
    from tidings.matching.storage import read_table

    _, predicates = read_table(shard.path)
    return list(predicates.ids)
