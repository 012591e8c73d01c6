"""Without an extra: every command and the library say what is missing and how to install it.

Each test runs a process whose import system does not find the packages of one extra.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidings.cli.extras import EXTRAS

COMMAND = "from tidings.cli.main import main; sys.exit(main())"
WITHOUT = """\
import sys
missing = sys.argv.pop(1).split(",")

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in missing:
            return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
"""
PAGES = """\
name = "a"
listen = "127.0.0.1:0"
http = "127.0.0.1:0"
"""


def without(extra: str, code: str, *arguments: str, folder: Path) -> tuple[int, str, str]:
    """Run code where the packages of an extra cannot be imported."""
    missing = ",".join(package for package, brought_by in EXTRAS.items() if brought_by == extra)
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT + code, missing, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return run.returncode, run.stdout, run.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "day.jsonl").write_text('{"severity": 3}\n')
    (tmp_path / "alerts.txt").write_text("ada severity > 2\n")
    (tmp_path / "node.toml").write_text(PAGES)
    (tmp_path / "network.toml").write_text("[[node]]\n" + PAGES.replace(":0", ":7471", 1))
    return tmp_path


MATCH = "match --events day.jsonl --subscriptions alerts.txt"


@pytest.mark.parametrize(
    ("extra", "command", "package"),
    [
        ("spark", f"{MATCH} --out matches", "pyspark"),
        ("spark", f"{MATCH} --explain", "pyspark"),
        ("spark", "lab run u7-figure5 --tiny", "pyspark"),
        ("lab", "lab run u7-figure5 --tiny", "networkx"),
        ("lab", "simulate --topology grid:3x3", "scipy"),
        ("lab", "simulate --topology ba:30 --protocol cbcb --seeds 1", "networkx"),
        ("lab", "topology ba:30", "networkx"),
        ("lab", "topology star:8", "scipy"),
        ("live", "serve --listen 127.0.0.1:0 --http 127.0.0.1:0", "prometheus_client"),
        ("live", "serve --config node.toml", "prometheus_client"),
        ("live", "up network.toml", "prometheus_client"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(
    extra: str, command: str, package: str, folder: Path
) -> None:
    code, out, err = without(extra, COMMAND, *command.split(), folder=folder)
    advice = f"this needs {package}, which is not installed: pip install 'tidings[{extra}]'"
    assert (code, out, err) == (2, "", f"tidings: {advice}\n")


def test_simulate_asks_before_it_begins(folder: Path) -> None:
    ended, _, err = without("lab", COMMAND, "simulate", "--topology", "grid:3x3", folder=folder)
    assert ended == 2
    assert "this needs scipy" in err


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("spark", "store add --store held alerts.txt"),
        ("spark", "check alerts.txt"),
        ("lab", "topology"),
        ("lab", "lab list"),
        ("lab", "lab report u7-figure5 --tiny"),
        ("lab", "simulate --topology small --protocol cbcb --seeds 1"),
    ],
)
def test_what_needs_no_extra_works_without_it(extra: str, command: str, folder: Path) -> None:
    code, _, err = without(extra, COMMAND, *command.split(), folder=folder)
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    "code",
    [
        "from tidings import spark; spark.match",
        "import tidings; tidings.spark.match",
        "from tidings.spark import match_stream",
        "from tidings import spark; spark.session()",
        "from tidings import spark; spark.register",
    ],
)
def test_the_library_names_the_extra_too(code: str, folder: Path) -> None:
    ended, _, err = without("spark", code, folder=folder)
    assert ended == 1
    last = err.splitlines()[-1]
    advice = "this needs pyspark, which is not installed: pip install 'tidings[spark]'"
    assert last == f"ModuleNotFoundError: {advice}"


def test_spark_is_a_part_of_tidings_that_loads_with_its_first_use(folder: Path) -> None:
    code = (
        "import tidings\n"
        "assert 'tidings.spark' not in sys.modules\n"
        "assert tidings.spark.Store('held').exists() is False\n"
        "assert 'spark' in tidings.__all__\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    assert without("spark", code, folder=folder) == (0, "", "")
