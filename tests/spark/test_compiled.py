"""Subscriptions are compiled on the executors as they would be here, once, and found again."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.language import strategies
from tidings import Predicate, Table, parse
from tidings.matching.assembly import Flat, assemble, flatten, from_bytes, to_bytes
from tidings.matching.batches import match_columns, match_documents
from tidings.matching.workload import WORKLOADS
from tidings.spark import compile, compiled, match, reach, worker
from tidings.spark.compiled import compile_here
from tidings.spark.parsing import parsed
from tidings.spark.reach import sent
from tidings.spark.worker import Shard


def frame(spark: SparkSession, rows: list[tuple[Any, ...]], kind: str = "string") -> DataFrame:
    return spark.createDataFrame(rows, f"subscription {kind}, predicate string")


# Flat predicates, without Spark


def carried(flat: Flat, pieces: int = 1) -> Flat:
    """The same after it travelled, in so many pieces."""
    return Flat(*(from_bytes([to_bytes(table)] * pieces) for table in flat))


@given(
    st.lists(strategies.expressions(), min_size=1, max_size=8),
    st.lists(strategies.flat_events, min_size=1, max_size=5),
    st.sampled_from([4096, 2]),
    st.data(),
)
def test_flat_predicates_compile_to_what_predicates_compile_to(
    expressions: list[Any], events: list[dict[str, Any]], bound: int, data: st.DataObject
) -> None:
    predicates = [p for p in (Predicate(e, bound) for e in expressions) if readable(p)]
    texts = pa.array(map(str, predicates), pa.large_string())
    index = assemble(texts, carried(flatten(predicates)))
    direct = Table(dict(enumerate(predicates)))
    for event in events:
        assert sorted(index.match(worker.flat(event))) == sorted(direct.match(event))  # type: ignore[arg-type]
    documents = [
        (r, n)
        for rows, ns in match_documents(index, events)
        for r, n in zip(rows.tolist(), ns.tolist(), strict=True)
    ]
    assert sorted(documents) == sorted(
        (row, id) for row, e in enumerate(events) for id in direct.match(e)
    )
    chosen = data.draw(st.sets(st.sampled_from(range(len(predicates))))) if predicates else set()
    part = flatten(predicates).take(pa.array(sorted(chosen), pa.int64()).to_numpy())
    kept = Table({at: predicates[n] for at, n in enumerate(sorted(chosen))})
    few = assemble(texts.take(pa.array(sorted(chosen), pa.int64())), part)
    for event in events:
        assert sorted(few.match(worker.flat(event))) == sorted(kept.match(event))  # type: ignore[arg-type]


def readable(predicate: Predicate) -> bool:
    try:
        parse(str(predicate))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", WORKLOADS)
def test_documents_and_columns_of_a_workload_find_the_same(name: str) -> None:
    workload = WORKLOADS[name](seed=3)
    index = Table(dict(workload.subscriptions(0, 400)))._index
    by_columns = list(match_columns(index, workload.event_table(0, 5_000)))
    by_documents = list(match_documents(index, list(workload.events(0, 5_000))))
    for found in (by_columns, by_documents):
        rows = [row for part, _ in found for row in part.tolist()]
        assert rows == sorted(rows)
    assert sorted(pairs(by_columns)) == sorted(pairs(by_documents))


def pairs(found: list[Any]) -> list[tuple[int, int]]:
    return [
        pair
        for rows, numbers in found
        for pair in zip(rows.tolist(), numbers.tolist(), strict=True)
    ]


def test_parts_are_parsed_by_themselves_and_joined() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "subscription": ["a", "b"],
            "predicate": ["x = 1", "x ="],
            "dialect": pa.array([None, None], pa.string()),
        }
    )
    parts = list(parsed([batch, batch.slice(0, 0), batch.slice(1)]))
    assert len(parts) == 2
    rejected = from_bytes([part.column("rejected")[0].as_py() for part in parts]).to_pylist()
    assert [(row["subscription"], row["line"], row["column"]) for row in rejected] == [
        ("b", 1, 4)
    ] * 2


# On Spark


def test_what_is_compiled_is_found_again_whatever_the_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(f"s{n}", f"x = {n}") for n in range(50)]
    first = compile(frame(spark, rows), directory=tmp_path)
    folders = set(tmp_path.iterdir())

    def never(*arguments: Any) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(compiled, "_make", never)
    again = compile(frame(spark, rows[::-1]).repartition(3), directory=tmp_path)
    assert again.facts == first.facts
    assert again.shards == first.shards
    assert set(tmp_path.iterdir()) == folders
    for other in (rows[1:], [*rows, ("s50", "x = 0")], [("s0", "x = 1"), *rows[1:]]):
        with pytest.raises(AssertionError, match="compiled again"):
            compile(frame(spark, other), directory=tmp_path)


def test_null_and_text_are_different_subscriptions(spark: SparkSession) -> None:
    kinds = "subscription string, predicate string, dialect string"
    one = spark.createDataFrame([("a", "x = 1", None)], kinds)
    two = spark.createDataFrame([("a", None, "x = 1")], kinds)
    assert compiled._fingerprint(one) != compiled._fingerprint(two)


def test_a_small_budget_makes_shards_that_find_the_same(spark: SparkSession) -> None:
    workload = WORKLOADS["mixed"](seed=5)
    held = [(id, str(p)) for id, p in workload.subscriptions(0, 500)]
    subscriptions = frame(spark, held, "long")
    whole = compile(subscriptions)
    split = compile(subscriptions, budget=whole.stats().bytes // 3)
    assert len(whole.shards) == 1
    assert len(split.shards) >= 3
    assert max(split.facts.bytes) <= split.facts.budget
    assert split.stats()[:3] == whole.stats()[:3]
    assert f"grid: event partitions × {len(split.shards)} shards" in split.explain()
    texts = [(n, json.dumps(e)) for n, e in enumerate(workload.events(0, 200))]
    events = spark.createDataFrame(texts, "n int, e string")
    for output in ("pairs", "counts"):
        found = [
            sorted(map(tuple, match(events, c, json="e", output=output).collect()))
            for c in (whole, split)
        ]
        assert found[0] == found[1] != []
    lists = [
        {
            row["n"]: sorted(row["subscriptions"])
            for row in match(events, c, json="e", output="lists").collect()
        }
        for c in (whole, split)
    ]
    assert lists[0] == lists[1]


def test_changes_hide_what_is_gone_and_add_what_is_new(spark: SparkSession) -> None:
    before = compile(frame(spark, [("a", "x = 1"), ("b", "x = 1"), ("c", "x = 1")]))
    after = before.changed(compile(frame(spark, [("b", "x = 2"), ("d", "x = 1")])), ["c", "z"])
    events = spark.createDataFrame([(1,), (2,)], "x int")
    assert sorted(map(tuple, match(events, after).collect())) == [(1, "a"), (1, "d"), (2, "b")]
    lists = {
        row["x"]: sorted(row["subscriptions"])
        for row in match(events, after, output="lists").collect()
    }
    assert lists == {1: ["a", "d"], 2: ["b"]}
    assert sorted(map(tuple, match(events, before).collect())) == [(1, "a"), (1, "b"), (1, "c")]
    assert "2 subscriptions" in after.explain()
    assert after.names == {"x"}


def test_explain_tells_sizes_and_where_tables_are(spark: SparkSession) -> None:
    found = compile(frame(spark, [("a", "x = 1 and y > 2 or z = 3"), ("b", "x")]))
    text = found.explain()
    assert text.startswith("1 subscriptions, 2 filters, 3 constraints, ")
    assert "rejected: 1\nattributes in use: x, y, z\n" in text
    assert "mapped from" in text
    assert repr(found).startswith("Compiled(1 subscriptions, ")


def test_subscriptions_of_the_wrong_kind_are_refused(spark: SparkSession) -> None:
    real = spark.createDataFrame([(1.5, "x = 1")], "subscription double, predicate string")
    with pytest.raises(ValueError, match="expected ids that are text or integers, found double"):
        compile(real)


def test_workers_keep_few_tables_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_opened", type(worker._opened)())
    shards = []
    for number in range(worker.KEPT + 2):
        Table({f"s{number}": "x = 1"}).save(tmp_path / str(number))
        shards.append(Shard(f"key {number}", str(tmp_path / str(number)), shipped=False))
    for shard in shards:
        worker.open_shard(shard)
    assert len(worker._opened) == worker.KEPT
    assert worker.open_shard(shards[-1]) is worker.open_shard(shards[-1])
    hidden = worker.open_shard(shards[-1]._replace(removed=(f"s{worker.KEPT + 1}",)))
    assert not len(hidden.table)


def test_a_small_table_travels_with_the_job_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_opened", type(worker._opened)())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Table({"a": "x = 1"}).save(tmp_path / "table")
    shard = sent(None, Shard("key", str(tmp_path / "table")))  # type: ignore[arg-type]
    assert not shard.shipped
    (tmp_path / "table").rename(tmp_path / "elsewhere")  # the executor does not see the folder
    opened = worker.open_shard(shard)
    assert opened.table.match({"x": 1}) == ["a"]
    assert opened.ids.to_pylist() == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


def test_archives_are_unpacked_once_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts: list[str] = []

    class Session:
        def addArtifacts(self, path: str, file: bool) -> None:
            artifacts.append(path)

    Table({"a": "x = 1"}).save(tmp_path / "table")
    monkeypatch.setattr(reach, "WITH_JOB", 0)
    for _ in range(2):
        shard = sent(Session(), Shard("key", str(tmp_path / "table")))  # type: ignore[arg-type]
        assert (shard.shipped, shard.data) == (True, b"")
    assert artifacts == [str(tmp_path / "key.tar")] * 2
    for _ in range(2):
        worker.unpack(tmp_path / "key.tar", tmp_path / "unpacked")
        assert Table.load(tmp_path / "unpacked", verify=True).match({"x": 1}) == ["a"]
    assert {path.name for path in tmp_path.iterdir()} == {"table", "key.tar", "unpacked"}


def test_compiling_here_gives_the_same_as_on_executors(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "subscription": ["a", "b", "b"],
            "predicate": ["x = 1", "x", "x = 2"],
            "dialect": pa.array([None] * 3, pa.string()),
        }
    )
    here = compile_here(spark, rows, tmp_path)
    there = compile(spark.createDataFrame(rows))
    for name in ("subscriptions", "filters", "constraints", "names", "rejected"):
        assert getattr(here.facts, name) == getattr(there.facts, name)
    assert here.rejected.collect() == there.rejected.collect()
    assert Table.load(here.shards[0].path).match({"x": 2}) == ["b"]
    empty = compile_here(spark, rows.slice(0, 0), tmp_path)
    assert empty.facts.subscriptions == [0]
    assert len(Table.load(empty.shards[0].path)) == 0


def test_what_is_saved_is_named_by_the_rows_that_were_compiled(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A source that gives other rows at its second reading, as a live table does."""
    marks = tmp_path / "marks"
    marks.mkdir()

    def changing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            readings = len(list(marks.iterdir())) + 1
            (marks / str(readings)).touch()
            yield pa.RecordBatch.from_pydict(
                {"subscription": ["a"] * batch.num_rows, "predicate": [f"x = {readings}"]}
            )

    live = spark.range(1, numPartitions=1).mapInArrow(
        changing, "subscription string, predicate string"
    )
    events = spark.createDataFrame([(1,), (2,)], "x int")
    found = compile(live, directory=tmp_path / "tables")
    assert len(list(marks.iterdir())) == 2
    assert [row["x"] for row in match(events, found).collect()] == [2]  # what was parsed
    for x in (1, 2):
        held = frame(spark, [("a", f"x = {x}")])
        kept = match(events, held, directory=tmp_path / "tables").collect()
        assert [row["x"] for row in kept] == [x]


def test_a_folder_that_says_it_was_made_from_other_rows_is_made_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    held = frame(spark, [("a", "x = 1")])
    compile(held, directory=tmp_path)
    (facts,) = tmp_path.glob("*/compiled.json")
    for damage in ({"fingerprint": "other"}, {"key": None}):
        facts.write_text(json.dumps(json.loads(facts.read_text()) | damage))
        compile(held, directory=tmp_path)
        assert json.loads(facts.read_text())["fingerprint"].startswith("1 ")
