"""`tidings simulate --protocol`: the ledger, the replay of a failure, and what it refuses."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tidings.cli.main import main
from tidings.routing.protocols import PROTOCOLS
from tidings.sim import swarm as sim_swarm
from tidings.sim.plants import UnsubscribedMatches

Capture = pytest.CaptureFixture[str]
RING = ["simulate", "--topology", "ring:5", "--protocol", "cbcb", "--faults", "cut,crash"]

# Programs read these: add, but do not rename.
LEDGER = {
    *("seeds", "simulated_s", "published", "expected", "delivered", "lost", "lost_when_stable"),
    *("withdrawn", "surplus", "duplicated", "unexpected", "spam_packets", "packets"),
    *("event_packets", "control_packets", "control_bytes", "failures", "faults", "drops"),
    *("convergence_p50_ms", "convergence_p99_ms", "advertised", "replied", "answered"),
    "unanswered",
}


def test_the_ledger_is_one_object_with_stable_names(capsys: Capture) -> None:
    assert main([*RING, "--seeds", "2", "--seed", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {
        *("topology", "protocol", "fault_kinds", "seed", "interrupted", "ledger", "failed")
    }
    assert set(found["ledger"]) == LEDGER
    assert found["fault_kinds"] == ["cut", "crash"]
    assert (found["ledger"]["seeds"], found["failed"]) == (2, [])


def test_the_ledger_for_a_person_names_what_counts(capsys: Capture) -> None:
    assert main([*RING, "--seeds", "1"]) == 0
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("cbcb on ring:5, seed 1: 1 run, 0 failed")
    assert [row.split("  ")[0] for row in rows[:5]] == [
        *("published", "expected", "delivered", "lost under faults", "lost when stable")
    ]


def test_a_failure_comes_with_the_command_that_replays_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = PROTOCOLS["cbcb"]._replace(make=UnsubscribedMatches)
    monkeypatch.setitem(PROTOCOLS, "cbcb", broken)
    assert main([*RING, "--seeds", "1", "--seed", "5"]) == 1
    shown = capsys.readouterr().out.splitlines()
    replay = next(line for line in shown if "replay:" in line).split("replay: tidings ")[1]
    assert replay == (
        "simulate --topology ring:5 --protocol cbcb --faults cut,crash --seeds 1 --seed 5"
    )
    assert main(replay.split()) == 1
    assert capsys.readouterr().out.splitlines() == shown


def test_an_interrupted_run_leaves_the_ledger_of_what_is_done(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sim_swarm.swarm

    def cut_short(*given: Any) -> Iterator[Any]:
        yield next(whole(*given))
        raise KeyboardInterrupt

    monkeypatch.setattr(sim_swarm, "swarm", cut_short)
    assert main([*RING, "--seeds", "50"]) == 130
    shown = capsys.readouterr()
    assert "cbcb on ring:5, seeds 1 to 50: 1 run, 0 failed" in shown.out
    assert "interrupted after 1 of 50 seeds" in shown.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--protocol", "bgp"], "found 'bgp'"),
        (["--protocol", "cbcb", "--faults", "rain"], "found 'rain'"),
        (["--protocol", "cbcb", "--option", "filter=3"], "expected one of characters, constants"),
        (["--protocol", "cbcb:filters=0"], "filters: expected `int` >= 1"),
        (["--protocol", "covering:uncover=never"], "uncover: invalid enum value 'never'"),
        (["--protocol", "cbcb", "--topology", "cloud:7"], "cloud"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(
    capsys: Capture, given: list[str], said: str
) -> None:
    assert main(["simulate", "--topology", "ring:5", *given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tidings simulate: ")
    assert said in line


def test_whole_routers_and_clients_are_counted_in_one_ledger(capsys: Capture) -> None:
    few = ["simulate", "--live", "--topology", "line:2", "--faults", "none", "--seeds", "2"]
    assert main([*few, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts) == [
        *("topology", "faults", "cross", "seed", "interrupted", "ledger", "failed")
    ]
    assert (facts["ledger"]["seeds"], facts["failed"]) == (2, [])
    assert facts["ledger"]["delivered"] > 0
    assert main(few) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("whole routers and clients on line:2, seeds 1 to 2: 2 run, 0 failed")


def test_an_unknown_fault_of_a_live_network_is_refused(capsys: Capture) -> None:
    assert main(["simulate", "--live", "--topology", "small", "--faults", "rain"]) == 2
    assert "found 'rain'" in capsys.readouterr().err
