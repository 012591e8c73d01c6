"""`tidings plan`: what it prints, as JSON, and what it refuses."""

import json
from pathlib import Path

import pytest

from tidings.cli.main import main

Capture = pytest.CaptureFixture[str]

PROFILE = """
name = "orders"
subscriptions = 100000
events_per_second = 1000
event_bytes = 300
latency_ms = 50
rendezvous = "hash:customer"
hot_subscriptions = 0.1
hot_events = 0.1

[nodes]
memory = 30000
"""


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "orders.toml"
    path.write_text(PROFILE, encoding="utf-8")
    return str(path)


def test_it_prints_the_shape_the_prediction_and_what_binds(profile: str, capsys: Capture) -> None:
    assert main(["plan", "--profile", profile, "--nodes", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "orders: 100,000 subscriptions, 1,000 events/s, at most 50 ms"
    assert lines[1].startswith("R = 1, H = ")
    assert [line.split()[0] for line in lines[2:]] == [
        *("stored", "matching", "latency", "throughput", "bytes", "delivery", "bound"),
    ]
    assert lines[-1] == "bound by    memory"


def test_it_writes_json(profile: str, capsys: Capture) -> None:
    assert main(["plan", "--profile", profile, "--nodes", "20", "--replicas", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["application"] == "orders"
    assert found["nodes"] == found["replicas"] * found["regions"]
    assert found["replicas"] == 3


def test_options_override_the_profile(profile: str, capsys: Capture) -> None:
    assert main(["plan", "--profile", profile, "--memory", "1000000"]) == 0
    assert "bound by    nothing" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["games", "feeds", "quotes", "alerts", "places"])
def test_the_applications_of_the_paper_have_plans(name: str, capsys: Capture) -> None:
    assert main(["plan", "--profile", name, "--nodes", "100"]) == 0
    assert capsys.readouterr().out.startswith(f"{name}: ")


def test_no_plan_is_one_line_and_1(profile: str, capsys: Capture) -> None:
    assert main(["plan", "--profile", profile, "--nodes", "2"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "orders: expected at least" in captured.err
    assert "bound by memory" in captured.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--profile", "nothing\x1b[31m"], "expected a file or one of games, feeds"),
        (["--profile", "games", "--memory", "0"], "options: nodes.memory: expected 1 to"),
        (["--profile", "games", "--hop-ms", "-1"], "options: nodes.hop_ms: expected 0 to"),
        (["--profile", ".", "--measure"], "--measure: expected a profile of paper L"),
        (["--profile", "."], "expected a TOML file that can be read"),
    ],
)
def test_a_wrong_profile_is_one_line_and_2(
    arguments: list[str], expected: str, capsys: Capture
) -> None:
    assert main(["plan", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert expected in captured.err
    assert captured.err.count("\n") == 1
    assert "\x1b[31m" not in captured.err


def test_nodes_out_of_bounds_are_refused(capsys: Capture) -> None:
    assert main(["plan", "--profile", "games", "--nodes", "0"]) == 1
    assert "nodes: expected 1 to 100,000, found 0" in capsys.readouterr().err


def test_matching_can_be_measured_here(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.cli.plan.SIZES", (10, 100))
    assert main(["plan", "--profile", "games", "--measure"]) == 0
    assert "bound by" in capsys.readouterr().out
