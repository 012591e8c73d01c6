"""The data source `tidings`: the live network as tables and streams of Spark, and back."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidings
from tests.live.background import Background, background
from tests.live.networks import PATIENCE_S
from tidings import spark as ts
from tidings.live.connect import BlockingSubscription
from tidings.spark.feed import Counts
from tidings.spark.options import OptionError
from tidings.spark.source import PUSHDOWN, PUSHES

SCHEMA = "i long, d double, s string, b boolean"
CLAUSES = [
    "i > 1.5 and s not like 'a%'",
    "i in (1, 2, null)",
    "i <=> null",
    "d >= 1 and d <> double('Infinity')",
    "d = double('NaN')",
    "not (d < 1) and (i = 3 or length(s) > 1)",
    "s like '%''%' and b",
]
VALUES: list[Any] = [
    (1, 0.5, "a", True),
    (2, math.nan, "ab", False),
    (3, 1, "b", None),
    (None, math.inf, "it's b", True),
    (2.0, None, None, True),
    ([1], -1.5, ["ab"], []),
]
EVENTS: list[dict[str, Any]] = [{"i": i, "d": d, "s": s, "b": b} for i, d, s, b in VALUES] + [
    {},
    {"other": 1},
]


@pytest.fixture(scope="module")
def routers() -> Iterator[Background]:
    with background() as started:
        yield started


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    ts.register_source(spark)
    yield spark
    spark.conf.set(PUSHDOWN, "false")


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def taken(events: BlockingSubscription, count: int) -> list[dict[str, Any]]:
    return [dict(events.get(PATIENCE_S) or {}) for _ in range(count)]


def test_a_where_clause_reaches_a_recording_and_changes_nothing_else(
    session: SparkSession, routers: Background, tmp_path: Path
) -> None:
    """The same rows, whether Spark or Tidings applies the clause."""
    record = tmp_path / "recording"
    url = routers.start("a", record=record)
    with tidings.connect(url) as net:
        net.publish_all(EVENTS)
    routers.stop("a")
    reader = session.read.format("tidings").schema(SCHEMA)
    frame = reader.load(str(record))
    assert frame.count() == len(EVENTS)
    counts = frame.select(*(F.count_if(F.expr(clause)) for clause in CLAUSES)).first()
    pushed = [reader.option("pushdown", "true").load(str(record)).where(c) for c in CLAUSES]
    assert [one.count() for one in pushed] == list(counts or ()) == [1, 4, 3, 2, 1, 3, 1]
    once = reader.load(str(record))
    assert once.where("i > 2").count() == 1
    # Spark reads it with the former filter. Where it no longer does, `PUSHES` can be true.
    assert (once.count() == len(EVENTS)) == PUSHES
    inferred = session.read.format("tidings").option("subscription", "i = 2").load(str(record))
    assert inferred.dtypes == [("b", "boolean"), ("d", "double"), ("i", "double"), ("s", "string")]
    kept = session.read.format("tidings").schema("i int, _corrupt_record string").load(str(record))
    assert kept.where("i > 1").count() == 3
    strict = session.read.format("tidings").schema("s long").load(str(record))
    with pytest.raises(Exception, match="EventsUnfit") as error:
        strict.collect()
    assert ts.explained(error.value).startswith(
        "EventsUnfitError: attribute 's': expected an integer of 64 bits, found 'a'; give another"
    )


def test_a_where_clause_reaches_the_network(session: SparkSession, routers: Background) -> None:
    url = routers.start("a")
    router = routers.routers["a"]
    heard: list[str] = []

    def asked() -> list[str]:
        return [str(p) for s in router.core.sessions.values() for p in s.asked.values()]

    def publish() -> None:
        routers.until(lambda: bool(asked()))
        heard.extend(asked())
        with tidings.connect(url) as net:
            net.publish_all({"i": n, "s": f"web-{n}"} for n in range(9))

    publisher = threading.Thread(target=publish)
    publisher.start()
    reader = session.read.format("tidings").schema(SCHEMA)
    reader = reader.options(url=url, seconds=60, events=2, pushdown="true")
    frame = reader.load().where("i > 6 and s like 'web-%' and length(s) > 2")
    assert [row["i"] for row in frame.collect()] == [7, 8]
    publisher.join(PATIENCE_S)
    assert heard == ["exists i and exists s and i > 6 and s prefix 'web-'"]
    routers.stop("a")


def test_mistakes_are_said_in_one_line(session: SparkSession, tmp_path: Path) -> None:
    def said(stream: bool = False, **options: Any) -> str:
        source = (session.readStream if stream else session.read).format("tidings")
        frame = source.schema("x long").options(**options).load()
        noop = frame.writeStream.format("noop") if stream else None
        try:
            frame.collect() if noop is None else noop.start().awaitTermination()
        except Exception as error:
            line = ts.explained(error)
        assert "\n" not in line
        return line

    here = "tidings://127.0.0.1:9"
    assert "option url: expected the address of a router" in said()
    assert "option subscription: expected the predicate" in said(stream=True, url=here)
    assert "'true' takes every event" in said(url=here, seconds=1)
    assert "line 1, column 4: expected a number or a text" in said(
        url=here, seconds=1, subscription="x >"
    )
    assert "cannot connect to 127.0.0.1:9" in said(
        stream=True, url=here, subscription="true", timeoutSeconds="0.2"
    )
    assert "expected the recording of a router" in said(path=str(tmp_path / "nowhere"))
    with pytest.raises(OptionError, match="expected a schema with a Column"):
        ts.subscribe(here, F.col("x") > 1)
    with pytest.raises(OptionError, match="nothing of this condition can be said"):
        ts.subscribe(here, (F.col("x") > 1) | (F.col("x") < 0), schema="x long")
    frame = session.range(1).write.format("tidings").mode("append")
    with pytest.raises(Exception, match="up to row 1: cannot connect to 127") as error:
        frame.options(url=here, timeoutSeconds="0.2").save()
    assert ts.explained(error.value).startswith("PublishError: partition ")


def test_a_stream_gives_every_event_once_across_restarts(
    session: SparkSession, routers: Background, tmp_path: Path
) -> None:
    url = routers.start("a")
    found = ts.subscribe(
        url,
        (F.col("n") >= 0) & (F.col("n") % 2 == 0),
        schema="n long",
        journal=str(tmp_path / "journal"),
    )
    assert found.subscription == "exists n and n >= 0"
    published = 0
    with tidings.connect(url) as net:
        for run in range(3):
            writer = found.events.writeStream.option("checkpointLocation", f"{tmp_path}/check")
            query = writer.option("path", f"{tmp_path}/out").format("parquet").start()
            routers.until(lambda: bool(routers.routers["a"].core.sessions))
            if run == 0:  # once the subscription stands
                query.processAllAvailable()
            net.publish_all({"n": n} for n in range(published, published + 40))
            published += 40
            net.publish({"n": "forty"})
            if run == 1:
                query.processAllAvailable()
            query.stop()
            net.publish_all({"n": n} for n in range(published, published + 10))  # while it is away
            published += 10
    writer = found.events.writeStream.option("checkpointLocation", f"{tmp_path}/check")
    last = writer.option("path", f"{tmp_path}/out").trigger(availableNow=True).start()
    last.awaitTermination()
    rows = [row["n"] for row in session.read.parquet(f"{tmp_path}/out").collect()]
    assert sorted(rows) == list(range(0, published, 2))
    assert ts.received(tmp_path / "journal") == Counts(published, 0, 0)
    progress = last.lastProgress
    assert progress is not None
    routers.stop("a")


def test_rows_are_published_as_events(
    session: SparkSession, routers: Background, tmp_path: Path
) -> None:
    url = routers.start("a")
    frame = session.range(0, 40, 1, 4).selectExpr(
        "id AS n",
        "IF(id % 2 = 0, concat('n', id), null) AS name",
        "map('k', id) AS more",
        "timestamp_seconds(id) AS at",
    )
    writer = frame.write.format("tidings").mode("append")
    with tidings.connect(url) as net, net.subscribe("more.k < 30") as events:
        writer.options(url=url, level="routed", id="key").save()
        got = sorted(taken(events, 30), key=lambda event: event["n"])
        assert got[3] == {
            "n": 3,
            "more": {"k": 3},
            "at": "1970-01-01T00:00:03+00:00",
            "key": got[3]["key"],
        }
        assert got[2]["name"] == "n2"
        assert len({event["key"] for event in got}) == 30
        assert got[13]["key"].split("/")[1:] == ["1", "3"]
        text = json.dumps({"more": {"k": 1}, "x": [1, 2]})
        texts = session.createDataFrame([(text,)], "e string")
        texts.write.format("tidings").mode("append").options(url=url, json="e").save()
        assert events.get(PATIENCE_S) == {"more": {"k": 1}, "x": [1, 2]}
        bad = session.createDataFrame([("{",)], "e string").write.format("tidings")
        with pytest.raises(Exception, match="row 0 is not an event"):
            bad.mode("append").options(url=url, json="e").save()
        with pytest.raises(Exception, match="cannot be overwritten"):
            frame.write.format("tidings").mode("overwrite").options(url=url).save()
    routers.stop("a")


def test_a_batch_of_a_stream_that_runs_again_publishes_what_is_missing(
    session: SparkSession, routers: Background, tmp_path: Path
) -> None:
    """The first attempt of a task dies half-way, and then the whole batch runs again."""
    url = routers.start("a")
    source = session.readStream.format("rate-micro-batch").options(rowsPerBatch=20, numPartitions=2)

    def run() -> None:
        writer = source.load().select("value").writeStream.format("tidings")
        query = writer.options(
            url=url, id="key", journal=f"{tmp_path}/notes", checkpointLocation=f"{tmp_path}/check"
        ).trigger(once=True)
        assert query.start().awaitTermination(int(PATIENCE_S))

    with tidings.connect(url) as net, net.subscribe("exists value") as events:
        run()
        first = taken(events, 20)
        assert sorted(event["value"] for event in first) == list(range(20))
        (query,) = (path for path in (tmp_path / "notes").iterdir())
        # Spark has not noted that batch 0 is done, and one partition got to row 4 only.
        notes = sorted((query / "0").iterdir())
        notes[0].write_text("4")
        for number in (tmp_path / "check" / "commits").iterdir():
            number.unlink()
        (tmp_path / "check" / "commits" / ".0.crc").unlink(missing_ok=True)
        for path in (tmp_path / "check" / "offsets").iterdir():
            if path.name not in ("0", ".0.crc"):
                path.unlink()
        for path in query.iterdir():
            if path.name != "0":
                for note in path.iterdir():
                    note.unlink()
        run()
        again = taken(events, 6)
        partition = notes[0].name.lstrip("0") or "0"
        keys = {event["key"]: event["key"].split("/")[2:] for event in first}
        expected = {key for key, (own, row) in keys.items() if own == partition and int(row) >= 4}
        assert {event["key"] for event in again} == expected
    routers.stop("a")
