"""The benchmark of matching runs, and prints what others compute with."""

import json
import subprocess
import sys

import pytest

from tests.places import ROOT

pytestmark = pytest.mark.slow

FIELDS = {
    "matcher",
    "workload",
    "subscriptions",
    "constraints",
    "events",
    "us_per_event",
    "us_per_event_batch",
    "matches_per_event",
    "build_s",
    "subscriptions_per_s",
    "bytes_per_constraint",
    "bytes_per_subscription",
    "command",
}


def run(*options: str) -> str:
    small = ("--subscriptions", "200", "--events", "8", "--batch", "32", "--repeats", "1")
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.matching", *options, *small],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    ).stdout


@pytest.mark.parametrize("matcher", ["table", "counting"])
def test_a_measurement_is_a_line_with_the_fields_that_others_read(matcher: str) -> None:
    (text,) = run("--workload", "equalities", "--matcher", matcher, "--json").splitlines()
    line = json.loads(text)
    assert line.keys() >= FIELDS
    assert (line["matcher"], line["workload"]) == (matcher, "equalities")
    assert (line["subscriptions"], line["constraints"]) == (200, 400)
    assert all(line[field] > 0 for field in ("us_per_event", "us_per_event_batch", "build_s"))
    assert line["command"].startswith("python -m benchmarks.matching --workload equalities")


def test_growth_is_a_table_by_subscriptions() -> None:
    printed = run("--growth", "--workload", "ranges")
    assert "table: µs an event of a batch, by subscriptions\nworkload" in printed


def test_under_updates_a_line_compares_with_matching_alone() -> None:
    (text,) = run("--updates", "--workload", "ranges", "--seconds", "0.3", "--json").splitlines()
    line = json.loads(text)
    assert line["updates_per_s"] > 0
    assert line["ratio"] == pytest.approx(line["us_per_event"] / line["us_per_event_alone"], 0.01)


def test_the_figures_of_paper_f_stand_beside_ours() -> None:
    printed = run("--paper")
    assert "one filter an interface, ms a message      330" in printed
    assert "20 interfaces, ms a message                  3" in printed


def test_twenty_interfaces_are_measured_alone() -> None:
    counting, ours = map(json.loads, run("--interfaces", "--json").splitlines())
    assert (counting["matcher"], ours["matcher"]) == ("counting", "forwarding table")
    assert ours["us_per_event_batch"] > 0
