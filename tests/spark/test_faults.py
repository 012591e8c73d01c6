"""Workers that die change nothing: their tasks are done again."""

import os
import signal
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark import slow_job

PATIENCE_S = 120.0


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            facts = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(facts[1]) == parent:
            found.append(int(folder.name))
    return found


def test_killed_python_workers_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        end = time.monotonic() + PATIENCE_S
        while not done.is_set() and time.monotonic() < end:
            marks = [path.name.split("-") for path in tmp_path.iterdir()]
            if len(marks) >= 4:  # every worker of the daemon, be it matching or slow
                for pid in children(int(marks[0][1])):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                return
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = slow_job.slow_matches(spark, str(tmp_path)).collect()
    finally:
        done.set()
        killer.join()
    assert killed
    assert len(list(tmp_path.iterdir())) > slow_job.PARTITIONS  # some tasks ran again
    assert sorted(map(tuple, found)) == slow_job.expected()
