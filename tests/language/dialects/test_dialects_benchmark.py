"""The benchmark of dialects runs, checks its answers, and prints what others compute with."""

import json
import random
import subprocess
import sys

import pytest

from benchmarks.dialects import RULES, lots
from tests.places import ROOT

pytestmark = pytest.mark.slow

FIGURES = [
    f"{name}_{unit}"
    for name in ("json", "json_batch", "decode", "match", "batch_decode", "batch_match")
    for unit in ("per_s", "us", "spread_us")
]


def test_every_family_has_its_figures() -> None:
    if not RULES.exists():
        pytest.skip("the rules are not beside the repository (shared/data)")
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.dialects", "--json", "--events", "200"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    ).stdout
    families = [json.loads(line) for line in found.splitlines()]
    assert len(families) == 14
    for line in families:
        assert line["events"] == 200
        assert all(line[figure] >= 0 for figure in FIGURES)
        assert line["command"].startswith("python -m benchmarks.dialects")
    assert sum(line["matches"] for line in families) > 0


def test_the_lots_are_drawn_from_a_seed() -> None:
    first, again, other = (list(lots(random.Random(seed), 50)) for seed in (1, 1, 2))
    assert first == again != other
    assert set(json.loads(first[0])) == {"type", "properties", "geometry"}
