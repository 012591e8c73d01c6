"""The store keeps every change of every writer, at every version, whoever dies in between."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.effort import examples
from tidings import Subscription, parse
from tidings.spark import store as store_module
from tidings.spark.intake import StoreError
from tidings.spark.store import Store

IDS = [f"s{number}" for number in range(6)]
TEXTS = ["x = 1", "x > 2 and y = 'a'", "not exists z", "name like 'a%'"]


def held(store: Store, version: int | None = None) -> dict[Any, str]:
    rows = store.snapshot(version).to_pylist()
    found = {row["subscription"]: row["predicate"] for row in rows}
    assert len(found) == len(rows)
    return found


class Twin:
    """The obvious store: a list of dictionaries."""

    def __init__(self) -> None:
        self.versions: list[dict[Any, str]] = [{}]

    def apply(self, change: str, rows: dict[Any, str]) -> int:
        """Change what can be changed; how many cannot."""
        now = dict(self.versions[-1])
        taken = {id: text for id, text in rows.items() if (id in now) == (change != "add")}
        for id, text in taken.items():
            if change == "remove":
                del now[id]
            else:
                now[id] = text
        if taken:
            self.versions.append(now)
        return len(rows) - len(taken)


CHANGES = st.tuples(
    st.sampled_from(["add", "remove", "replace"]),
    st.dictionaries(st.sampled_from(IDS), st.sampled_from(TEXTS), max_size=4),
)
UPKEEP: st.SearchStrategy[Any] = st.tuples(
    st.sampled_from(["compact", "forget", "another", "vacuum"]), st.just({})
)


@settings(max_examples=examples(40))
@given(steps=st.lists(st.one_of(CHANGES, CHANGES, UPKEEP), max_size=15))
def test_every_version_is_what_a_list_of_dictionaries_says(
    steps: list[tuple[str, dict[str, str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("store") / "s"
    store, twin, oldest = Store(path), Twin(), 0
    idle = Store(path)  # looks only now and then
    store.add({"seed": "x = 0"})
    store.remove("seed")
    twin.versions = [{}, {"seed": "x = 0"}, {}]
    for step, rows in steps:
        if step == "compact":
            assert store.compact() == len(twin.versions) - 1
        elif step == "forget":
            store = Store(path)
        elif step == "another":
            assert idle.version() == len(twin.versions) - 1
            assert held(idle) == twin.versions[-1]
        elif step == "vacuum":
            oldest = max(oldest, len(twin.versions) - 2)
            store.vacuum(oldest, grace_seconds=0)
        else:
            given_rows: Any = list(rows) if step == "remove" else rows
            commit = getattr(store, step)(given_rows, strict=False)
            assert commit.refused.num_rows == twin.apply(step, rows)
            assert commit.version == len(twin.versions) - 1
    for version in range(oldest, len(twin.versions)):
        assert held(store, version) == held(Store(path), version) == twin.versions[version]
    changes = store.changes(oldest).to_pylist()
    replayed = dict(twin.versions[oldest])
    for change in changes:
        if change["change"] == "remove":
            del replayed[change["subscription"]]
        else:
            replayed[change["subscription"]] = change["predicate"]
    assert replayed == twin.versions[-1]
    if oldest > 1:
        with pytest.raises(StoreError, match=r"vacuumed; the oldest is \d+"):
            Store(path).snapshot(oldest - 1)


def test_it_takes_subscriptions_in_every_form(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.add(("one", "x = 1"))
    store.add([("two", parse("x = 2")), ("three", "x = 3", "tidings")])
    store.add(Subscription("four", parse("x = 4"), 17))
    store.add({"five": "x = 5"})
    table = pa.table({"predicate": ["x = 6"], "subscription": ["six"], "note": [1]})
    store.add(table)
    store.add(table.set_column(1, "subscription", [["seven"]]).to_batches()[0])
    store.remove(pa.table({"subscription": ["one"]}))
    store.remove(["two", "three"])
    store.replace(("four", "y = 4"))
    expected = {"four": "y = 4", "five": "x = 5", "six": "x = 6", "seven": "x = 6"}
    assert held(store) == expected
    assert [(c.added, c.removed, c.replaced) for c in store.history()] == [
        *((1, 0, 0), (2, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0)),
        *((0, 1, 0), (0, 2, 0), (0, 0, 1)),
    ]


def test_what_cannot_be_taken_is_refused_with_its_reason(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    rows = [("a", "x = 1"), ("b", "x >"), ("a", "x = 2"), (" ", "x = 1"), ("c" * 2000, "x = 1")]
    rows.append(("d", None))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match=r"cannot add subscription 'b': line 1, .*; and 4 more"):
        store.add(rows)
    assert store.version() == 0
    commit = store.add(rows, strict=False)
    assert (commit.version, held(store)) == (1, {"a": "x = 1"})
    reasons = commit.refused.column("reason").to_pylist()
    assert [reason.partition(",")[0] for reason in reasons] == [
        "line 1",
        "the id is given a second time",
        "expected an id",
        "expected an id of at most 1024 characters without NUL",
        "expected a predicate",
    ]
    with pytest.raises(StoreError, match="the id is in the store already; replace it"):
        store.add(("a", "x = 2"))
    with pytest.raises(StoreError, match=r"cannot remove subscription 'z': the id is not in the"):
        store.remove("z")
    with pytest.raises(StoreError, match="expected a dialect"):
        store.replace(("a", "x = 1", "klingon"))
    assert store.remove("z", strict=False).version == store.version() == 1


def test_ids_of_a_store_are_of_one_type(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    with pytest.raises(StoreError, match="all texts or all integers, found 'a' and 2"):
        store.add({"a": "x = 1", 2: "x = 1"})
    for id in (None, 1.5, True, ("a",)):
        with pytest.raises(StoreError, match="expected an id that is text or an integer, found"):
            store.add({id: "x = 1"})
        with pytest.raises(StoreError, match="found"):
            store.remove([id])
    assert not store.exists()
    with pytest.raises(StoreError, match="at most 64 bit"):
        store.add({2**63: "x = 1"})
    with pytest.raises(StoreError, match="found the type double"):
        store.add(pa.table({"subscription": [1.5], "predicate": ["x = 1"]}))
    store.add({7: "x = 1", -1: "x = 2"})
    store.add(pa.table({"subscription": pa.array([8], pa.int16()), "predicate": ["x = 8"]}))
    assert held(store) == {7: "x = 1", -1: "x = 2", 8: "x = 8"}
    with pytest.raises(StoreError, match="expected ids that are integers, as all in this store"):
        store.add(("7", "x = 1"))
    store.remove([7, -1, 8])
    assert store.snapshot().schema.field("subscription").type == pa.int64()
    assert store.changes(3).schema.field("subscription").type == pa.int64()


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        Store(tmp_path / "nowhere").snapshot()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear all")
    with pytest.raises(StoreError, match="an empty folder, found other files"):
        Store(tmp_path / "full").add(("a", "x = 1"))
    with pytest.raises(StoreError, match="expected a folder of a file system"):
        Store("hdfs://machine/store")
    store = Store(tmp_path / "s")
    store.add(("a", "x = 1"))
    with pytest.raises(StoreError, match="expected a version from 0 to 1, found 2"):
        store.snapshot(2)
    next((tmp_path / "s" / "changes").iterdir()).write_bytes(b"PAR1 what?")
    with pytest.raises(StoreError, match="a file of the store is damaged"):
        Store(tmp_path / "s").snapshot()


def test_states_are_saved_by_themselves_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "STATE_EVERY", 4)
    store = Store(tmp_path / "s")
    for number in range(10):
        store.add((number, f"x = {number}"))
    assert sorted(int(p.stem) for p in (tmp_path / "s" / "states").iterdir()) == [4, 8]
    for version in range(11):
        assert held(Store(tmp_path / "s"), version) == {n: f"x = {n}" for n in range(version)}


def test_frames_are_taken_and_the_changes_are_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    rules = spark.createDataFrame(
        [(1, "x = 1", None), (2, "x >", None), (3, "x BETWEEN 1 AND 3", "jms"), (1, "x = 4", None)],
        "subscription int, predicate string, dialect string",
    )
    with pytest.raises(StoreError, match=r"cannot add subscription 2: .*; and 1 more"):
        store.add(rules)
    refused = store.add(rules, strict=False).refused.to_pylist()
    assert [row["subscription"] for row in refused] == ["2", "1"]
    store.remove(spark.createDataFrame([(3,)], "subscription long"))
    store.replace(spark.createDataFrame([(1, "y = 1")], "subscription long, predicate string"))
    changes = spark.read.parquet(str(tmp_path / "s" / "changes")).orderBy("version", "subscription")
    assert changes.columns[-1] == "expires"
    assert [tuple(row) for row in changes.collect()] == [
        (1, "add", 1, "x = 1", None, None),
        (1, "add", 3, "x BETWEEN 1 AND 3", "jms", None),
        (2, "remove", 3, None, None, None),
        (3, "replace", 1, "y = 1", None, None),
    ]
    with pytest.raises(StoreError, match="expected a column 'predicate' of subscriptions"):
        store.add(rules.drop("predicate"))
    with pytest.raises(StoreError, match="found the type double"):
        store.add(rules.selectExpr("double(subscription) subscription", "predicate"))


# Faults


class Fault(Exception):
    """The process dies here."""


STEPS = [(os, "link"), (os, "fsync"), (pq, "write_table"), (Path, "unlink")]


@pytest.mark.parametrize("work", ["add", "remove", "compact", "vacuum"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[step for _, step in STEPS])
def test_a_store_is_whole_wherever_its_writer_dies(
    work: str, owner: Any, step: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    Store(path).add({"a": "x = 1", "b": "x = 2"})
    Store(path).replace({"a": "x = 3"})
    versions = [{}, {"a": "x = 1", "b": "x = 2"}, {"a": "x = 3", "b": "x = 2"}]
    done = {"add": {**versions[2], "c": "x = 9"}, "remove": {"a": "x = 3"}}
    actions: dict[str, Callable[[], Any]] = {
        "add": lambda: Store(path).add(("c", "x = 9")),
        "remove": lambda: Store(path).remove("b"),
        "compact": lambda: Store(path).compact(),
        "vacuum": lambda: Store(path).vacuum(1, grace_seconds=0),
    }
    real = getattr(owner, step)
    left = 0
    for nth in range(20):  # die at the first such step, then at the second, and so on
        left = nth

        def dying(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0 and not after:
                raise Fault
            result = real(*arguments, **named)
            if left < 0:
                raise Fault
            return result

        before = Store(path).version()
        died = False
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, dying)
            try:
                actions[work]()
            except Fault:
                died = True
        store = Store(path)
        assert store.version() in (before, before + 1)
        assert held(store) == (done[work] if store.version() == 3 else versions[2])
        assert held(store, 1) == versions[1]
        if not died or store.version() == 3:
            break
    if work in done and store.version() == 2:
        actions[work]()
        assert held(Store(path)) == done[work]


WRITER = """
import sys
from tidings.spark.store import Store
store = Store(sys.argv[1])
print("ready", flush=True)
for number in range(10**6):
    store.add((f"{sys.argv[2]}-{number}", f"x = {number}"))
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_all_that_it_said_was_written(tmp_path: Path) -> None:
    for name in ("one", "two"):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "s"), name],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(12)]
        time.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.readlines()
        writer.wait()
        writer.stdout.close()
        written = {f"{name}-{line.strip()}" for line in said[1:] if line.endswith("\n")}
        found = {id for id in held(Store(tmp_path / "s")) if id.startswith(name)}
        assert written <= found
        assert len(found) <= len(written) + 1


def _add_many(path: str, writer: int, count: int) -> None:
    store = Store(path)
    for number in range(count):
        store.add((f"{writer}-{number}", f"x = {number}"))
        store.add((f"shared-{number}", f"y = {writer}"), strict=False)


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path, writers, count = str(tmp_path / "s"), 4, 10
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add_many, args=(path, n, count)) for n in range(writers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    store = Store(path)
    assert store.version() == writers * count + count
    names = {f"{writer}-{number}" for writer in range(writers) for number in range(count)}
    assert set(held(store)) == names | {f"shared-{number}" for number in range(count)}
    assert not list((tmp_path / "s").rglob(".*"))


def test_subscriptions_end_when_their_time_has_come(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    store.add({"ada": "x = 1", "ben": "x = 2"}, expires=noon)
    store.add({"cleo": "x = 3"})
    store.add({"dan": "x = 4"}, expires=noon + timedelta(hours=1))
    store.replace({"ben": "x = 5"})  # without an end now
    assert store.expire(noon - timedelta(seconds=1)).version == 4
    for other in (store, Store(tmp_path / "s")):
        assert other.expire(noon).version == 5
    assert Store(tmp_path / "s").snapshot().column("subscription").to_pylist() == [
        "cleo",
        "dan",
        "ben",
    ]
    assert store.compact() == 5
    assert Store(tmp_path / "s").expire(noon + timedelta(days=1)).version == 6
    assert store.snapshot().column("subscription").to_pylist() == ["cleo", "ben"]
    assert store.snapshot(1).schema.names == ["subscription", "predicate", "dialect"]
    assert store.changes().schema.names == [
        "version",
        "change",
        "subscription",
        "predicate",
        "dialect",
    ]
    with pytest.raises(StoreError, match="expected a moment with a zone"):
        store.add({"eve": "x = 1"}, expires=datetime(2024, 5, 1))
    assert store.add({"eve": "x = 1"}, expires=timedelta(days=1)).version == 7
    assert store.expire().version == 7


def test_what_ends_is_removed_although_the_versions_since_the_last_look_are_gone(
    tmp_path: Path,
) -> None:
    reader, writer = Store(tmp_path / "store"), Store(tmp_path / "store")
    writer.add({"a": "x = 1"})
    assert reader.expire().version == 1
    writer.add({"b": "x = 1"}, expires=datetime.now(UTC) - timedelta(hours=1))
    writer.replace({"a": "x = 2"})
    writer.vacuum(3, grace_seconds=0)
    assert reader.expire().version == 4
    assert reader.snapshot().column("subscription").to_pylist() == ["a"]


def test_an_end_that_was_put_off_meanwhile_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer gives a subscription a later end while this one removes it."""
    store, other = Store(tmp_path / "s"), Store(tmp_path / "s")
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    store.add({"ada": "x = 1", "ben": "x = 2"}, expires=noon)
    commit = Store._commit

    def late(self: Store, change: str, *given: Any, **more: Any) -> Any:
        if change == "remove":
            other.replace({"ada": "x = 1"}, expires=noon + timedelta(days=1))
        return commit(self, change, *given, **more)

    monkeypatch.setattr(Store, "_commit", late)
    assert store.expire(noon).version == 3
    assert store.snapshot().column("subscription").to_pylist() == ["ada"]


def test_changes_of_before_subscriptions_had_ends_are_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.add({"ada": "x = 1"})
    (file,) = (tmp_path / "s" / "changes").iterdir()
    pq.write_table(pq.read_table(file).drop_columns("expires"), file)
    again = Store(tmp_path / "s")
    again.add({"ben": "x = 2"}, expires=datetime(2024, 5, 1, tzinfo=UTC))
    assert again.expire().version == 3
    assert again.snapshot().column("subscription").to_pylist() == ["ada"]


def test_a_store_forgets_versions_by_itself_if_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "STATE_EVERY", 4)
    store = Store(tmp_path / "s", keep=timedelta(days=7))
    for number in range(7):
        store.add((number, "x = 1"))
    for version in (1, 2, 3, 4, 5):  # these were made nine days ago
        past = time.time() - 9 * 86_400
        os.utime(tmp_path / "s" / "changes" / f"{version:020}.parquet", (past, past))
    store.add((7, "x = 1"))
    assert [change.version for change in store.history()] == [6, 7, 8]
    for version in (5, 6, 7, 8):  # the one that was in force seven days ago stays
        assert Store(tmp_path / "s").snapshot(version).num_rows == version
    with pytest.raises(StoreError, match="was vacuumed"):
        Store(tmp_path / "s").snapshot(3)
