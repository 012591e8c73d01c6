"""A stream gives the pairs of a table, each once, of the version its batch had, come what may."""

import gzip
import io
import json as jsonlib
import lzma
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.places import DATA
from tidings.matching.table import Table
from tidings.matching.workload import WORKLOADS, Names
from tidings.spark import compiled as compiled_module
from tidings.spark import versions as versions_module
from tidings.spark.counts import with_counts
from tidings.spark.intake import StoreError
from tidings.spark.journal import KEPT, Batch, Journal, JournalError
from tidings.spark.matches import match
from tidings.spark.store import Store
from tidings.spark.stream import StreamError, batches, for_each_batch, match_stream
from tidings.spark.versions import Versions
from tidings.spark.workloads import workload

FEW_NAMES = {"attribute_names": Names(count=40), "constraint_names": Names(count=40)}
ALL_THERE_IS = {"availableNow": True}
Pair = tuple[Any, ...]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "cache"))


def put(folder: Path, name: str, table: pa.Table) -> None:
    """Put a file of events into a folder that a stream reads; it appears whole."""
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    """The files of a folder, one a batch, in the order of their times."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def pairs_of(frame: DataFrame, version: str = "version") -> Counter[Pair]:
    return Counter(map(tuple, frame.select("event", "subscription", version).collect()))


def expected(
    store: Store, version: int, events: pa.Table, json: str | None = None
) -> Counter[Pair]:
    """The pairs of events and subscriptions of a version, by a table."""
    rows = store.snapshot(version).to_pylist()
    table = Table({row["subscription"]: row["predicate"] for row in rows})
    found = table.match_batch(events, json)
    numbers = events.column("event").take(found.column("event")).to_pylist()
    ids = found.column("subscription").to_pylist()
    return Counter((number, id, version) for number, id in zip(numbers, ids, strict=True))


def numbered(events: pa.Table, start: int = 0) -> pa.Table:
    return events.add_column(0, "event", pa.array(range(start, start + events.num_rows)))


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_stream_batch_and_table_give_the_same_pairs(
    name: str, spark: SparkSession, seed: int, tmp_path: Path
) -> None:
    parameters: dict[str, Any] = FEW_NAMES if name == "forwarding" else {}
    local = WORKLOADS[name](seed=seed, **parameters)
    rules, _ = workload(spark, name, subscriptions=400, events=0, seed=seed, **parameters)
    store = Store(tmp_path / "store")
    store.add(rules)
    events = numbered(local.event_table(0, 300))
    for part in range(2):
        put(tmp_path / "events", f"{part}", events.slice(150 * part, 150))
    stream = stream_of(spark, tmp_path / "events")
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    version = "store version" if "version" in events.column_names else "version"
    match_stream(
        stream,
        store,
        out=out,
        checkpoint=checkpoint,
        trigger=ALL_THERE_IS,
        names={"version": version},
    ).awaitTermination()
    streamed = pairs_of(spark.read.parquet(str(out)), version)
    assert streamed == expected(store, 1, events)
    whole = spark.read.parquet(str(tmp_path / "events"))
    batch = match(whole, rules).select("event", "subscription")
    assert Counter(map(tuple, batch.collect())) == Counter(pair[:2] for pair in streamed)
    assert sum(b.events or 0 for b in batches(checkpoint)) == 300
    assert sum(b.matches or 0 for b in batches(checkpoint)) == streamed.total()


def stock_quotes(folder: Path) -> tuple[dict[int, str], pa.Table]:
    operators = {"eq": "=", ">": ">", "<": "<"}
    with gzip.open(folder / "subscriptions_10000.jsonl.gz", "rt", encoding="utf-8") as lines:
        asked = [jsonlib.loads(line)["predicates"] for line in lines]
    texts = [" and ".join(f"{n} {operators[o]} {v!r}" for n, o, v in tests) for tests in asked]
    raw = lzma.decompress((folder / "stockquotes.jsonl.xz").read_bytes())
    quotes = pa_json.read_json(io.BytesIO(raw)).drop_columns(["date"])
    return dict(enumerate(texts)), quotes.take(pa.array(range(0, quotes.num_rows, 5_000)))


def flights(folder: Path) -> tuple[dict[int, str], pa.Table]:
    raw = lzma.decompress((folder / "flights.csv.xz").read_bytes())
    options = pa_csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    table = pa_csv.read_csv(io.BytesIO(raw), convert_options=options).slice(0, 5_000)
    asked = [
        "arr_delay > 120",
        "dep_time is null and origin in ('JFK', 'LGA')",
        "dest in ('SFO', 'LAX') and dep_delay between 30 and 60",
        "tailnum like 'N1%AA' and not carrier = 'MQ'",
    ]
    return dict(enumerate(asked)), table.drop_columns(["time_hour"])


def security_events(folder: Path) -> tuple[dict[int, str], pa.Table]:
    with gzip.open(folder / "events.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [line for _, line in zip(range(1_000), lines, strict=False)]
    asked = [
        "EventID = 1 and Image isuffix 'powershell.exe'",
        "EventID in (4624, 4688) and not TargetUserName iprefix 'dwm'",
        "CommandLine imatches 'encod|bypass' or ParentImage icontains 'winword'",
        "exists Hostname and EventID >= 4000",
    ]
    return dict(enumerate(asked)), pa.table({"text": texts})


SHARED: dict[str, Callable[[Path], tuple[dict[int, str], pa.Table]]] = {
    "padres-stockquotes": stock_quotes,
    "nycflights13": flights,
    "windows-security-events": security_events,
}


@pytest.mark.parametrize("name", SHARED)
def test_stream_of_data_gives_the_pairs_of_a_table(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    if not DATA.exists():
        pytest.skip("the shared data are not beside the repository (shared/data)")
    asked, rows = SHARED[name](DATA / name)
    events = numbered(rows)
    json = "text" if name == "windows-security-events" else None
    store = Store(tmp_path / "store")
    store.add(asked)
    put(tmp_path / "events", "all", events)
    stream = stream_of(spark, tmp_path / "events")
    query = match_stream(
        stream,
        store,
        out=tmp_path / "out",
        checkpoint=tmp_path / "checkpoint",
        json=json,
        trigger=ALL_THERE_IS,
    )
    query.awaitTermination()
    wanted = expected(store, 1, events, json)
    assert wanted.total() > 100
    assert pairs_of(spark.read.parquet(str(tmp_path / "out"))) == wanted


def test_a_change_is_seen_by_the_next_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions_module, "LEAST", 3)
    monkeypatch.setattr(versions_module, "SHARE", 1_000)
    local = WORKLOADS["wildcards"](seed=8)
    store = Store(tmp_path / "store")
    texts = {id: str(predicate) for id, predicate in local.subscriptions(0, 120)}
    store.add({id: texts[id] for id in range(50)})
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: store.add({id: texts[id] for id in range(50, 52)}),
        lambda: store.remove([0, 1]),
        lambda: store.replace({51: "true", 2: "true"}),
        lambda: store.add({0: "true", **{id: texts[id] for id in range(60, 100)}}),
        lambda: store.remove([0]),
    ]
    wanted: Counter[Pair] = Counter()
    folder = tmp_path / "events"
    put(folder, "before", numbered(local.event_table(0, 10)))
    wanted += expected(store, 1, numbered(local.event_table(0, 10)))
    query = match_stream(
        stream_of(spark, folder), store, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint"
    )
    try:
        query.processAllAvailable()
        for step, change in enumerate(changes, 1):
            change()
            events = numbered(local.event_table(10 * step, 10 * step + 10), 10 * step)
            put(folder, f"{step}", events)
            wanted += expected(store, store.version(), events)
            query.processAllAvailable()
    finally:
        query.stop()
    assert pairs_of(spark.read.parquet(str(tmp_path / "out"))) == wanted
    done = batches(tmp_path / "checkpoint")
    assert [b.version for b in done] == [1, 1, 2, 3, 4, 5, 6]
    assert all(b.done and b.events == 10 for b in done)
    assert [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]] == [10] * 7


def test_every_version_can_be_asked_for_while_bases_are_compiled(
    spark: SparkSession, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions_module, "LEAST", 5)
    source = Random(seed)
    local = WORKLOADS["equalities"](seed=seed, population=60)
    texts = [str(predicate) for _, predicate in local.subscriptions(0, 60)]
    store = Store(tmp_path / "store")
    store.add({str(id): texts[id] for id in range(30)})
    for _ in range(5):
        held = store.snapshot().column("subscription").to_pylist()
        absent = [str(id) for id in range(60) if str(id) not in held]
        store.add({id: texts[int(id)] for id in source.sample(absent, 3)})
        store.replace({id: source.choice(texts) for id in source.sample(held, 2)})
        store.remove(source.sample(held, 3))
    events = numbered(local.event_table(0, 200))
    frame = spark.createDataFrame(events).cache()
    compiled = Versions(store, directory=tmp_path / "tables")
    bases = set()
    for version in (1, 2, 5, 9, 16, 4):
        found = match(frame, compiled.at(spark, version), output="lists")
        pairs = Counter(
            (row["event"], id, version)
            for row in found.select("event", "subscriptions").collect()
            for id in row["subscriptions"]
        )
        assert pairs == expected(store, version, events), f"version {version}"
        compiled.wait()
        bases.add(compiled.base)
    assert len(bases) > 2
    store.vacuum(12, grace_seconds=0)  # and with it what led here from the base
    found = match(frame, compiled.at(spark, 16))
    pairs = Counter((row["event"], row["subscription"], 16) for row in found.collect())
    assert pairs == expected(store, 16, events)


def test_bad_events_are_kept_apart_and_do_not_stop_the_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    store.add({"all": "true", "some": "x > 1"})
    lines = ['{"x": 1}', '{"x": 2}', "{no event", "[1, 2]", '{"x": 3}']
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.jsonl").write_text("\n".join(lines))
    events = spark.readStream.text(str(tmp_path / "events"))
    query = match_stream(
        events,
        store,
        out=tmp_path / "out",
        checkpoint=tmp_path / "checkpoint",
        json="value",
        format="json",
        trigger=ALL_THERE_IS,
    )
    query.awaitTermination()
    rows = spark.read.json(str(tmp_path / "out")).collect()
    assert Counter((row["value"], row["subscription"]) for row in rows) == Counter(
        [(lines[at], "all") for at in (0, 1, 4)] + [(lines[at], "some") for at in (1, 4)]
    )
    bad = spark.read.json(str(tmp_path / "out" / "_rejected")).collect()
    assert {row["value"]: row["reason"].partition(":")[0] for row in bad} == {
        lines[2]: "not JSON",
        lines[3]: "expected a JSON object, found list",
    }
    (done,) = batches(tmp_path / "checkpoint")
    assert (done.events, done.matches, done.rejected) == (5, 5, 2)


def test_progress_tells_what_was_found(spark: SparkSession, tmp_path: Path) -> None:
    class Watch(StreamingQueryListener):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None:
            self.seen.append(with_counts(event.progress).observedMetrics)

        def onQueryTerminated(self, event: Any) -> None: ...

    store = Store(tmp_path / "store")
    store.add({"all": "true", "some": "x > 1"})
    events = tmp_path / "events"
    events.mkdir()
    (events / "1.jsonl").write_text('{"x": 1}\n{"x": 2}\n{no event\n')
    watch = Watch()
    spark.streams.addListener(watch)
    query = match_stream(
        spark.readStream.text(str(events)).observe("mine", F.count(F.lit(1)).alias("rows")),
        store,
        out=tmp_path / "out",
        checkpoint=tmp_path / "checkpoint",
        json="value",
    )
    try:
        query.processAllAvailable()
        first = query.lastProgress
        assert first is not None
        assert first.observedMetrics["tidings"].asDict() == {
            "version": 1,
            "events": 3,
            "matches": 3,
            "rejected": 1,
        }
        assert jsonlib.loads(first.json)["observedMetrics"]["tidings"]["matches"] == 3
        store.remove("some")
        (events / "2.jsonl").write_text('{"x": 3}\n')
        query.processAllAvailable()
        found = [progress.observedMetrics for progress in query.recentProgress]
        told = [tuple(one["tidings"]) for one in found if "tidings" in one]
        assert told == [(1, 3, 3, 1), (2, 1, 1, 0)]
        assert all("mine" in one for one in found if "tidings" in one)
    finally:
        query.stop()
        spark.streams.removeListener(watch)
    deadline = time.monotonic() + 30
    while sum("tidings" in one for one in watch.seen) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)  # Spark calls listeners from another thread
    assert [tuple(one["tidings"]) for one in watch.seen if "tidings" in one] == told
    other = spark.readStream.text(str(events)).writeStream.format("noop")
    plain = other.option("checkpointLocation", str(tmp_path / "plain"))
    plain_query = plain.trigger(availableNow=True).start()
    plain_query.awaitTermination()
    progress = plain_query.lastProgress
    assert progress is not None
    assert with_counts(progress) is progress


def test_a_batch_that_comes_again_has_the_version_it_had(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    store.add({"a": "x > 1"})
    events = spark.createDataFrame([(1, 1), (2, 2)], "event long, x long")
    written: dict[int, Counter[Pair]] = {}

    def write(matches: DataFrame, rejected: DataFrame | None, batch: int) -> None:
        assert rejected is None
        written[batch] = pairs_of(matches)

    run = for_each_batch(store, tmp_path / "journal", write)
    run(events, 0)
    store.replace({"a": "x = 1"})
    run(events, 0)
    assert written.pop(0) == Counter([(2, "a", 1)])
    store.add({"b": "true"})
    again = for_each_batch(store.path, tmp_path / "journal", write)  # as after a restart
    again(events, 0)
    again(events, 1)
    assert written == {
        0: Counter([(2, "a", 1)]),
        1: Counter([(1, "a", 3), (1, "b", 3), (2, "b", 3)]),
    }


def test_what_cannot_be_run_is_said_at_once(spark: SparkSession, tmp_path: Path) -> None:
    places: dict[str, Any] = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with pytest.raises(StoreError, match="there is no store"):
        match_stream(rate, tmp_path / "nowhere", **places)
    store = Store(tmp_path / "store")
    store.add({"a": "true"})
    with pytest.raises(StreamError, match="expected a stream of events"):
        match_stream(spark.range(1), store, **places)
    with pytest.raises(ValueError, match="the events have a column 'version' already"):
        match_stream(rate.withColumnRenamed("value", "version"), store, **places)
    text = spark.readStream.text(str(tmp_path)).selectExpr("value", "1 as Reason")
    with pytest.raises(ValueError, match="the events have a column 'Reason' already"):
        match_stream(text, store, json="value", **places)  # and not at the first bad row
    for name in ("a=b", "a/b", ".b", ""):
        with pytest.raises(ValueError, match="that can name a folder"):
            match_stream(rate, store, names={"batch": name}, **places)
    with pytest.raises(StreamError, match="expected a folder of this machine"):
        match_stream(rate, store, out=tmp_path / "out", checkpoint="hdfs://host/checkpoint")
    with pytest.raises(StreamError, match="expected the format parquet or json, found 'csv'"):
        match_stream(rate, store, format="csv", **places)  # type: ignore[arg-type]


def test_output_of_another_checkpoint_is_not_overwritten(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    store.add({"a": "true"})
    put(tmp_path / "events", "1", pa.table({"event": [1]}))
    stream = stream_of(spark, tmp_path / "events")
    for number, fails in enumerate([False, True]):
        query = match_stream(
            stream,
            store,
            out=tmp_path / "out",
            checkpoint=tmp_path / f"checkpoint-{number}",
            trigger=ALL_THERE_IS,
        )
        if fails:
            with pytest.raises(Exception, match="batch=0 that this checkpoint did not write"):
                query.awaitTermination()
        else:
            query.awaitTermination()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 1


# Killed


RUNNER = """
import sys
from tidings.spark import match_stream, session
folder = sys.argv[1]
spark = session("local[1]")
schema = spark.read.parquet(f"{folder}/events").schema
stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
match_stream(
    stream.parquet(f"{folder}/events"), f"{folder}/store",
    out=f"{folder}/out", checkpoint=f"{folder}/checkpoint",
).awaitTermination()
"""


def killed_in(batch: int, folder: Path) -> Batch:
    """Run a stream in a process of its own, and kill it while a batch writes; what it had begun."""
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=(folder / "errors").open("wb"),
        start_new_session=True,
    )
    journal = Journal(folder / "checkpoint" / "tidings")
    try:
        while runner.poll() is None:
            entry = journal.find(batch)
            if entry is not None and (folder / "out" / f"batch={batch}").exists():
                break
            time.sleep(0.005)
        assert runner.poll() is None, (folder / "errors").read_text()[-2_000:]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(runner.pid, signal.SIGKILL)
        runner.wait()
    begun = journal.batches()[-1]
    assert begun.batch >= batch
    return begun


def test_a_stream_killed_in_a_batch_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    local = WORKLOADS["ranges"](seed=4, ranges=2)
    store = Store(tmp_path / "store")
    store.add({id: str(predicate) for id, predicate in local.subscriptions(0, 500)})
    events = numbered(local.event_table(0, 4_000))
    for part in range(4):
        put(tmp_path / "events", f"{part}", events.slice(1_000 * part, 1_000))
    begun = killed_in(1, tmp_path)
    assert not begun.done
    # What has happened since must not show in the batch that was begun.
    store.replace({0: "true"})
    store.remove([1])
    stream = stream_of(spark, tmp_path / "events")
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    match_stream(
        stream, store, out=out, checkpoint=checkpoint, trigger=ALL_THERE_IS
    ).awaitTermination()
    found = spark.read.parquet(str(out))
    of_batch = {b.batch: b for b in batches(checkpoint)}
    assert len(of_batch) == 4
    assert of_batch[begun.batch].version == begun.version == 1
    assert of_batch[3].version == 3
    wanted: Counter[Pair] = Counter()
    for number, batch in of_batch.items():
        wanted += expected(store, batch.version, events.slice(1_000 * number, 1_000))
    assert pairs_of(found) == wanted


# The journal


def test_a_journal_keeps_the_last_batches(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "deep" / "journal")
    assert journal.batches() == []
    assert journal.find(0) is None
    for number in range(KEPT + 5):
        journal.put(Batch(number, number // 2, 0))
    journal.put(Batch(KEPT, 7, 1, events=3, matches=2, rejected=1, done=True))
    kept = Journal(tmp_path / "deep" / "journal").batches()
    assert [entry.batch for entry in kept] == list(range(5, KEPT + 5))
    assert journal.find(KEPT) == Batch(KEPT, 7, 1, 3, 2, 1, True)
    assert [path.name for path in Path(journal.path).parent.iterdir()] == ["journal.json"]
    Path(journal.path).write_text("what?")
    with pytest.raises(JournalError, match="expected the journal of a stream"):
        journal.batches()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_journal_is_whole_wherever_its_writer_dies(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.put(Batch(0, 1, 1))

    def die(*_: Any) -> Iterator[None]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, step, die)
        with pytest.raises(KeyboardInterrupt):
            journal.put(Batch(1, 2, 1))
    assert journal.batches() in ([Batch(0, 1, 1)], [Batch(0, 1, 1), Batch(1, 2, 1)])
    journal.put(Batch(1, 2, 1))
    assert jsonlib.loads(Path(journal.path).read_text())[1]["version"] == 2


def test_what_runs_a_batch_can_be_sent_to_another_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark Connect does so: it pickles the function and runs it in a process of the server."""
    Store(tmp_path / "store").add({"a": "x = 1"})
    found: Path = tmp_path / "found"

    def write(matches: DataFrame, rejected: DataFrame | None, batch: int) -> None:
        found.write_text(str([tuple(row) for row in matches.collect()]))

    names = {"subscription": "rule", "version": "of"}
    run = for_each_batch(tmp_path / "store", tmp_path / "journal", write, names=names)
    batch = spark.createDataFrame([(1,), (2,)], "x int")
    run(batch, 0)  # with what it has compiled, too
    again = cloudpickle.loads(cloudpickle.dumps(run))  # type: ignore[no-untyped-call]
    found.unlink()
    again(batch, 1)
    assert found.read_text() == "[(1, 'a', 1)]"
    assert [(b.batch, b.version) for b in Journal(tmp_path / "journal").batches()] == [
        (0, 1),
        (1, 1),
    ]


def test_a_change_travels_with_the_job_where_workers_do_not_see_our_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_module, "sees_our_files", lambda spark: False)
    store = Store(tmp_path / "store")
    store.add({id: f"x = {id}" for id in range(40)})
    events = spark.createDataFrame([(1,), (2,)], "x int")
    versions = Versions(store)
    before = versions.at(spark, store.version())
    for change in range(6):
        store.replace({1: f"x = 2 or x = {100 + change}"})
        store.remove(10 + change)
        found = versions.at(spark, store.version())
        assert found.shards[0][:2] == before.shards[0][:2]  # the base is as it was
        assert all(shard.data and not shard.shipped for shard in found.shards)
    elsewhere = [shard._replace(path="/of/the/driver") for shard in found.shards]
    found.shards = tuple(elsewhere)
    pairs = match(events, found).collect()
    assert sorted(map(tuple, pairs)) == [(2, 1), (2, 2)]
    assert not list(tmp_path.rglob("*.tar"))
    scratch = versions._folder()
    assert len(list(scratch.iterdir())) == versions_module.RECENT


def test_odd_names_changes_and_old_versions_that_go_lose_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(tmp_path / "a store's `place`")
    store.add({"a'b": '"x.y" = 1 and "say ""hi""" = \'q\'', "ß": "HOST.\"n a`me\" = 'web'"})
    kind = pa.struct({"n a`me": pa.string()})

    def events(first: int, name: str) -> pa.Table:
        return pa.table(
            {
                "event": [first, first + 1],
                "x.y": [1, 2],
                'say "hi"': ["q", "q"],
                "Host": pa.array([{"n a`me": "web"}, None], kind),
                "Version": [name, name],
            }
        )

    folder = tmp_path / "events"
    put(folder, "0", events(0, "first"))
    names = {"subscription": "a `rule`.id", "version": "store version", "batch": "part of it"}
    query = match_stream(
        stream_of(spark, folder),
        store,
        out=tmp_path / "out",
        checkpoint=tmp_path / "check point",
        names=names,
        unknown="refuse",
    )
    try:
        query.processAllAvailable()
        past = datetime.now(UTC) - timedelta(hours=1)
        store.add({"ended": "true"}, expires=past)
        store.replace({"ß": "exists event"})
        store.vacuum(3, grace_seconds=0)  # the base of the stream is among what goes
        put(folder, "1", events(10, "second"))
        query.processAllAvailable()
        store.remove(["a'b", "ß"])  # nothing is left
        put(folder, "2", events(20, "third"))
        query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    found = sorted(
        (row["event"], row["a `rule`.id"], row["store version"], row["part of it"]) for row in rows
    )
    # Version 4 is the stream's own: it removes what has ended.
    assert found == [
        (0, "a'b", 1, 0),
        (0, "ß", 1, 0),
        (10, "a'b", 4, 1),
        (10, "ß", 4, 1),
        (11, "ß", 4, 1),
    ]
    counts = [tuple(one.observedMetrics.get("tidings", ())) for one in query.recentProgress]
    assert [one for one in counts if one] == [(1, 2, 2, 0), (4, 2, 3, 0), (5, 2, 0, 0)]
