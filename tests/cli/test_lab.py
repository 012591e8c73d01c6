"""`tidings lab`: what it lists, runs, reports and refuses."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidings.cli.main import main
from tidings.lab.parts import PARTS

Capture = pytest.CaptureFixture[str]


def test_every_part_is_listed_with_its_state(capsys: Capture) -> None:
    assert main(["lab", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for part in PARTS.values():
        state = "works" if part.works else "not yet"
        assert [line for line in lines if line.split()[:1] == [part.id] and state in line]
    works = sum(part.works for part in PARTS.values())
    assert lines[-1] == f"{works} of {len(PARTS)} parts work"


def test_parts_are_listed_for_programs(capsys: Capture) -> None:
    assert main(["lab", "list", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in rows] == list(PARTS)
    assert all(row["works"] == bool(row["shown_by"]) for row in rows)


def test_an_experiment_is_run_and_reported(
    spark: SparkSession, tmp_path: Path, capsys: Capture
) -> None:
    assert spark is not None
    results, page = str(tmp_path / "results"), tmp_path / "report.html"
    command = ["u7-figure5", "--tiny", "--results", results]
    assert main(["lab", "run", *command]) == 0
    assert capsys.readouterr().out.startswith("u7-figure5     18 rows (")
    assert main(["lab", "run", *command]) == 0
    assert "18 rows, 18 known before" in capsys.readouterr().out
    assert main(["lab", "report", *command, "--out", str(page)]) == 0
    assert "agrees" in capsys.readouterr().out
    assert "Fig. 5" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "fig8"], "expected some of f2-protocols, "),
        (["report", "u9"], "found 'u9'"),
        (["run", "--quick", "--tiny"], "expected --quick or --tiny, found both"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(
    arguments: list[str], complaint: str, capsys: Capture
) -> None:
    assert main(["lab", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
