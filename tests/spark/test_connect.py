"""Every function works on Spark Connect, with a server of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.spark import connect_job

PATIENCE_S = 300


@pytest.mark.spark
@pytest.mark.xdist_group("spark connect")
def test_every_function_works_on_spark_connect(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "TIDINGS_CACHE": str(tmp_path / "cache"),
    }
    said = subprocess.run(
        [sys.executable, connect_job.__file__, str(tmp_path)],
        env=environment, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=PATIENCE_S,
    )  # fmt: skip
    if said.returncode == connect_job.TOO_BUSY:
        pytest.skip("the machine is too busy: Spark gave up to start its worker, time and again")
    assert said.returncode == 0, said.stderr[-4_000:]
    line = next(line for line in said.stdout.splitlines() if line.startswith("found "))
    found = json.loads(line.removeprefix("found "))
    pairs = [[1, "ada"], [1, "ben"], [3, "ada"]]
    first = ['{"severity": 9}', "ada"]
    second = '{"device": "web-2"}'
    assert found == {
        "pairs": pairs,
        "carried": [[*pair, "team"] for pair in pairs],
        "counts": [["ada", 2], ["ben", 1]],
        "lists": [[1, ["ada", "ben"]], [2, []], [3, ["ada"]]],
        "sql": pairs,
        "predicate": [[1], [3]],
        "rejected": [[2]],
        "stream 0": [[*first, 1, 0]],
        "stream 1": [[second, "ben", 2, 1], [second, "cleo 0", 2, 1], [*first, 1, 0]],
        "batches": [[1, 2, 1], [2, 1, 2]],
        "own batches": [
            [second, "ben", 3],
            [second, "cleo 0", 3],
            [second, "cleo 1", 3],
            [*first, 3],
        ],
    }
