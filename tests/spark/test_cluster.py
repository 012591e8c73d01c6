"""A cluster of its own: a master and two workers, on which Tidings is not installed.

Executors run a Python that has the packages Tidings needs and not Tidings: `ship` sends it. One of
the two executors is killed while the job runs.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pyspark
import pytest

import tidings
from tests.effort import BRIEF
from tests.live.background import Background, background
from tests.places import ROOT
from tests.spark import network_job, slow_job
from tidings import Table
from tidings.live.connect import BlockingClient
from tidings.spark.feed import received
from tidings.spark.java import java_home
from tidings.spark.store import Store

PATIENCE_S = 240.0
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
PACKAGE = "org.apache.spark.deploy"

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


def wait_for(what: str, found: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"waited in vain for {what}")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def python_without_tidings(folder: Path) -> Path:
    """A Python that sees installed packages, but not those that are only linked, as Tidings is."""
    command = folder / "python"
    packages = sysconfig.get_paths()["purelib"]
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n'
    )
    command.chmod(0o755)
    return command


class Cluster(NamedTuple):
    """A master and two workers that run."""

    url: str
    environment: dict[str, str]  # of its jobs
    executors: Path  # what executors keep


@pytest.fixture(scope="module")  # so that executors compile what they were sent once, not twice
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": BRIEF,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": str(python_without_tidings(folder)),
        "TIDINGS_CACHE": str(folder / "cache of the driver"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
    }
    executors = environment | {"TIDINGS_CACHE": str(folder / "cache of executors")}
    del executors["PYTHONPATH"]
    master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    commands: list[list[str]] = [[str(SPARK_CLASS), f"{PACKAGE}.master.Master", *master]]
    for number in range(2):
        own = ["--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "1g"]
        work = ["-d", str(folder / f"worker {number}")]
        commands.append([str(SPARK_CLASS), f"{PACKAGE}.worker.Worker", *own, *work, url])
    log = folder / "log"
    started = []
    with log.open("wb") as output:
        for command in commands:
            process = subprocess.Popen(
                command, env=executors, stdout=output, stderr=output, start_new_session=True
            )
            started.append(process)
        try:
            wait_for("workers", lambda: log.read_text().count("Successfully registered") == 2)
            yield Cluster(url, environment, folder / "cache of executors")
        finally:
            for process in started:
                os.killpg(process.pid, signal.SIGTERM)
            for process in started:
                process.wait()


def test_a_job_on_a_cluster_survives_the_death_of_an_executor(
    cluster: Cluster, tmp_path: Path
) -> None:
    url, environment, executors_keep = cluster
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    job = subprocess.Popen(
        [sys.executable, slow_job.__file__, url, out, marks],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    executors = partial(slow_job.executors, marks)
    wait_for("both executors", lambda: len(executors()) == 2 or job.poll() is not None)
    first = executors()
    if job.poll() is None:
        begun = tmp_path / slow_job.ANOTHER
        begun.write_text(str(len(first)))
        begun.rename(marks / slow_job.ANOTHER)  # in one step: tasks never read half a number
        os.kill(min(first), signal.SIGKILL)
    said, _ = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 0, said
    assert len(first) == 2
    assert executors() > first  # another took the place of the one killed
    rows = pq.read_table(out).select(["x", "subscription"]).to_pydict()
    assert sorted(zip(rows["x"], rows["subscription"], strict=True)) == slow_job.expected()
    assert list((executors_keep / "code").iterdir())  # it was sent


def test_a_stream_of_the_network_survives_executors_and_drivers(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A stream at one router, a publisher at another. An executor is killed, then the whole job;
    no event is lost or doubled, and every one comes back to the network."""
    journal = tmp_path / "journal"
    for name in ("marks", "out"):
        (tmp_path / name).mkdir()
    with background() as routers:
        far = routers.start("a")
        near = routers.start("b", "a")
        with tidings.connect(far) as net, net.subscribe("exists again") as events:
            job = _begin(cluster, near, tmp_path, routers)
            try:
                _publish(net, range(100), job, tmp_path)
                executors = slow_job.executors(tmp_path / "marks")
                os.kill(min(executors), signal.SIGKILL)
                _publish(net, range(100, 200), job, tmp_path)
                net.publish_all({"n": n} for n in range(200, 300))
                wait_for("the journal", lambda: received(journal).received >= 300)
            finally:
                _kill(job)
            job = _begin(cluster, near, tmp_path, routers)
            try:
                _publish(net, range(300, 400), job, tmp_path)
                keys: dict[str, int] = {}
                while len(keys) < 400:  # an event in flight when the job died may come twice
                    event = events.get(PATIENCE_S)
                    assert event is not None, (len(keys), job.poll())
                    keys[event["key"]] = event["again"]
            finally:
                _kill(job)
            assert sorted(committed(tmp_path / "out")) == list(range(400))
            assert sorted(keys.values()) == list(range(400))
            assert received(journal).unfit == 0


Job = subprocess.Popen[str]


def _begin(cluster: Cluster, url: str, folder: Path, routers: Background) -> Job:
    """Start the job, and wait until every router knows its subscription."""
    words = [sys.executable, network_job.__file__, cluster.url, url, str(folder)]
    job = subprocess.Popen(
        words,
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    sessions = routers.routers["b"].core.sessions
    try:
        wait_for(
            "the stream",
            lambda: job.poll() or any(s.stream and s.asked for s in list(sessions.values())),
        )
        assert job.poll() is None, job.communicate()[0]
        with tidings.connect(url) as net:
            net.subscribe("n >= 0")  # once this one is established, so is the one before it
    except BaseException:
        _kill(job)
        raise
    return job


def _publish(net: BlockingClient, numbers: range, job: Job, folder: Path) -> None:
    """Publish numbers, and wait until all up to them are in the output."""
    net.publish_all({"n": n} for n in numbers)
    wait_for("rows", lambda: job.poll() or len(committed(folder / "out")) >= numbers.stop)
    assert job.poll() is None, job.communicate()[0]


def _kill(job: Job) -> None:
    job.kill()
    print(job.communicate()[0])


def committed(folder: Path) -> list[int]:
    """What Spark's file sink has committed: its log names the files that count."""
    files = set()
    for log in (folder / "_spark_metadata").glob("[0-9]*"):
        lines = log.read_text().splitlines()[1:]
        files |= {json.loads(line)["path"].removeprefix("file://") for line in lines}
    return [n for file in files for n in pq.read_table(file).column("n").to_pylist()]


@pytest.mark.soak
def test_the_command_does_the_same_on_a_cluster_in_one_go_and_as_a_stream(
    cluster: Cluster, tmp_path: Path
) -> None:
    url, environment, _ = cluster
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    held = {7: "x > 2 and name prefix 'n'", 8: "x = 1"}
    Store(tmp_path / "store").add(held)
    table = Table(held)

    def events(first: int) -> list[dict[str, Any]]:
        return [{"x": x % 5, "name": f"n{x}" if x % 2 else "m"} for x in range(first, first + 20)]

    def run(out: str, *more: str) -> list[tuple[str, int]]:
        """Have everything matched; the pairs that are then in the folder."""
        words: list[str | Path] = ["match", "--events", incoming]
        words += ["--subscriptions", tmp_path / "store"]
        words += ["--out", tmp_path / out, "--master", url, "--format", "json", *more]
        told = subprocess.run(
            [sys.executable, "-m", "tidings.cli.main", *words],
            env=environment, capture_output=True, encoding="utf-8", timeout=PATIENCE_S,
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
        files = [path for path in (tmp_path / out).rglob("*.parquet") if "_" not in path.parts[-2]]
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        return sorted((row["event"], row["subscription"]) for row in rows)

    expected: list[tuple[str, int]] = []
    for first in (0, 20):
        texts = [json.dumps(event) for event in events(first)]
        (incoming / f"{first}.jsonl").write_text("\n".join(texts))
        expected += [(text, id) for text in texts for id in table.match(json.loads(text))]  # type: ignore[misc]
        assert run("stream", "--stream", "--once") == sorted(expected)
    assert run("batch") == sorted(expected)
