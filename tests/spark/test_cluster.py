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

from tests.places import ROOT
from tests.spark import slow_job
from tidings import Table
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
