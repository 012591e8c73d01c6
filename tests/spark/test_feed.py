"""A live subscription as numbered events: nothing is lost or doubled, wherever the process ends."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

import tidings
from tests.live.background import Background, background
from tests.live.networks import PATIENCE_S
from tests.places import ROOT
from tidings.spark import feed as feed_module
from tidings.spark.feed import Counts, Feed, FeedError, received, unpacked
from tidings.spark.options import Link
from tidings.spark.rows import Rows

SCHEMA = StructType().add("n", "long").add("name", "string")

PROGRAM = """
import sys, time
from tests.spark.test_feed import SCHEMA, taken
from tidings.spark.feed import Feed
from tidings.spark.options import Link
from tidings.spark.rows import Rows
feed = Feed(Link((sys.argv[1],)), "n >= 0", Rows(SCHEMA), sys.argv[2])
feed.start()
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def routers() -> Iterator[Background]:
    with background() as started:
        yield started


def make(url: str, journal: Path | None, wanted: str = "n >= 0", **options: Any) -> Feed:
    place = None if journal is None else str(journal)
    feed = Feed(Link((url,)), wanted, Rows(SCHEMA), place, **options)
    feed.start()
    return feed


def taken(feed: Feed, first: int = 0) -> list[int]:
    """The events from a number on, as a task would read them."""
    parts = feed.between(first, feed.newest)
    return [n for part in parts for batch in unpacked(part) for n in batch["n"].to_pylist()]


def wait_for(feed: Feed, count: int) -> None:
    for _ in range(2_000):
        feed.check()
        if feed.counts.received >= count:
            return
        feed._idle.clear()
        feed._idle.wait(0.05)
    raise AssertionError(f"{feed.counts} instead of {count}")


def test_events_are_numbered_and_forgotten_when_they_are_processed(
    routers: Background, tmp_path: Path
) -> None:
    url = routers.start("a")
    feed = make(url, tmp_path / "journal")
    with tidings.connect(url) as net:
        for first in range(0, 50, 10):
            net.publish_all({"n": n} for n in range(first, first + 10))
            wait_for(feed, first + 10)
    assert feed.newest == 50
    assert taken(feed) == list(range(50))
    assert taken(feed, 17) == list(range(17, 50))
    files = tmp_path / "journal" / "events"
    before = len(list(files.iterdir()))
    feed.forget(40)
    assert len(list(files.iterdir())) < before
    assert taken(feed, 40) == list(range(40, 50))
    feed.forget(50)
    assert len(list(files.iterdir())) == 1  # it has the position
    with pytest.raises(FeedError, match="from number 0 on are not in the journal"):
        feed.between(0, 50)
    feed.stop()
    assert not tmp_path.joinpath("journal").stat().st_mode & 0o077
    routers.stop("a")


def test_a_feed_goes_on_where_another_ended(routers: Background, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    url = routers.start("a")
    published = 0
    with tidings.connect(url) as net:
        for _ in range(6):
            feed = make(url, tmp_path / "journal")
            assert feed.counts.interruptions == 0
            if draw.random() < 0.7:
                net.publish_all({"n": n} for n in range(published, published + 20))
                published += 20
                if draw.random() < 0.5:
                    wait_for(feed, published)
            feed.stop()
            net.publish_all({"n": n} for n in range(published, published + 5))  # while it is away
            published += 5
    feed = make(url, tmp_path / "journal")
    wait_for(feed, published)
    assert taken(feed) == list(range(published))
    feed.stop()
    assert received(tmp_path / "journal") == Counts(published)
    routers.stop("a")


def test_a_feed_that_is_killed_loses_nothing(routers: Background, tmp_path: Path) -> None:
    url = routers.start("a")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    published = 0
    with tidings.connect(url) as net:
        for _ in range(3):
            words = [sys.executable, "-c", PROGRAM, url, str(tmp_path / "journal")]
            process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
            assert process.stdout is not None
            assert process.stdout.readline() == b"started\n"
            net.publish_all({"n": n} for n in range(published, published + 500))
            published += 500
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)
            process.stdout.close()
    feed = make(url, tmp_path / "journal")
    wait_for(feed, published)
    assert taken(feed) == list(range(published))
    assert feed.counts == Counts(published)
    feed.stop()
    routers.stop("a")


def test_a_router_that_lost_the_session_is_counted(routers: Background, tmp_path: Path) -> None:
    url = routers.start("a")
    port = routers.routers["a"].port
    feed = make(url, tmp_path / "journal")
    feed.stop()
    routers.stop("a")
    routers.start("a", port=port)
    feed = make(url, tmp_path / "journal")
    assert feed.counts.interruptions == 1
    with tidings.connect(url) as net:
        net.publish({"n": 1})
    wait_for(feed, 1)
    feed.stop()
    assert received(tmp_path / "journal") == Counts(1, 0, 1)
    routers.stop("a")


def test_events_that_do_not_fit_are_kept_and_counted(routers: Background, tmp_path: Path) -> None:
    url = routers.start("a")
    feed = make(url, tmp_path / "journal", "true")
    with tidings.connect(url) as net:
        net.publish_all([{"n": 1}, {"n": "two"}, {"n": 3, "name": [1, 2]}, {"n": [4]}])
    wait_for(feed, 4)
    assert taken(feed) == [1, 4]
    assert feed.counts == Counts(4, 2)
    files = sorted((tmp_path / "journal" / "unfit").iterdir())
    kept = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [one["event"] for one in kept] == [{"n": "two"}, {"n": 3, "name": [1, 2]}]
    assert kept[0]["reason"] == "attribute 'n': expected an integer of 64 bits, found 'two'"
    feed.stop()
    routers.stop("a")


def test_a_changed_subscription_takes_over(routers: Background, tmp_path: Path) -> None:
    url = routers.start("a")
    make(url, tmp_path / "journal", "n < 2").stop()
    feed = make(url, tmp_path / "journal", "n > 2")
    with tidings.connect(url) as net:
        net.publish_all([{"n": 1}, {"n": 3}])
    wait_for(feed, 1)
    assert taken(feed) == [3]
    feed.stop()
    routers.stop("a")


def test_a_second_query_on_a_journal_is_found_out(routers: Background, tmp_path: Path) -> None:
    url = routers.start("a")
    first = make(url, tmp_path / "journal")
    second = make(url, tmp_path / "journal")
    with tidings.connect(url) as net:
        net.publish({"n": 1})
    wait_for(second, 1)
    first._thread.join(PATIENCE_S)
    with pytest.raises(tidings.NetworkError, match="replaced"):
        first.check()
    second.stop()
    other = Rows(StructType().add("m", "long"))
    with pytest.raises(FeedError, match="its events have another schema"):
        Feed(Link((url,)), "true", other, str(tmp_path / "journal"))
    routers.stop("a")


def test_a_full_journal_takes_no_more(
    routers: Background, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "SEGMENT", 10)
    url = routers.start("a")
    feed = make(url, tmp_path / "journal", most_bytes=1)  # the empty first segment fills it
    with tidings.connect(url) as net:
        net.publish_all({"n": n} for n in range(30))
    feed._idle.wait(0.2)
    assert feed.newest == 0
    feed._most_bytes = 1 << 20
    wait_for(feed, 30)
    assert taken(feed) == list(range(30))
    feed.stop()
    routers.stop("a")


def test_without_a_journal_nothing_stays(routers: Background) -> None:
    url = routers.start("a")
    feed = make(url, None)
    with tidings.connect(url) as net:
        net.publish({"n": 1})
    wait_for(feed, 1)
    feed.settle()
    assert taken(feed) == [1]
    feed.stop()
    assert not Path(feed.files.location).exists()
    routers.stop("a")


def test_a_network_that_cannot_be_reached_is_said() -> None:
    feed = Feed(Link(("tidings://127.0.0.1:9",), timeout_s=0.3), "true", Rows(SCHEMA))
    with pytest.raises(tidings.NetworkError, match=r"cannot connect to 127\.0\.0\.1:9"):
        feed.start()
    feed.stop()
