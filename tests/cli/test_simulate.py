"""`tidings simulate`: the table, the JSON that programs read, and what it refuses."""

import json
import re
from typing import Any

import pytest

from tidings.cli.main import main
from tidings.routing.schemes import SCHEMES

Capture = pytest.CaptureFixture[str]
SMALL = ["simulate", "--topology", "grid:4x4", "--subscriptions", "5", "--events", "60"]

# Programs read these: add, but do not rename.
FIELDS = [
    *("scheme", "events", "expected", "delivered", "packets", "packets_per_event", "relayed"),
    *("spam", "duplicates", "stretch_mean", "stretch_max", "header_bits_mean", "state_bits"),
    *("state_bits_by_node", "state_bits_unreduced", "advantage", "formula_bits"),
    *("formula_bits_unreduced", "correct", "latency_minimal", "ideal"),
]
FACTS = [
    *("topology", "seed", "nodes", "links", "shortest_paths_unique", "subscriptions", "events"),
    "schemes",
]


def simulated(capsys: Capture, *options: str) -> Any:
    assert main([*SMALL, "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_field_names_are_stable(capsys: Capture) -> None:
    found = simulated(capsys)
    assert list(found) == FACTS
    assert [list(row) for row in found["schemes"]] == [FIELDS] * len(SCHEMES)


def test_the_seed_decides_all(capsys: Capture) -> None:
    first = simulated(capsys, "--seed", "4")
    assert first == simulated(capsys, "--seed", "4")
    assert first != simulated(capsys, "--seed", "5") | {"seed": 4}


def test_only_the_schemes_asked_for_are_run_in_their_order(capsys: Capture) -> None:
    rows = simulated(capsys, "--scheme", "pif, psf")["schemes"]
    assert [row["scheme"] for row in rows] == ["pif", "psf"]


def test_the_table_has_a_line_a_scheme(capsys: Capture) -> None:
    assert main(SMALL) == 0
    first, names, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("grid:4x4, seed 1: 16 nodes, 24 links, 80 subscriptions, 60 events")
    assert names.split()[:3] == ["scheme", "packets", "relayed"]
    assert [row.split()[0] for row in rows] == list(SCHEMES)
    assert re.search(r"ideal$", rows[1])


def test_nothing_to_do_is_not_an_error(capsys: Capture) -> None:
    nothing = ["--topology", "line:1", "--subscriptions", "0", "--events", "0"]
    assert main(["simulate", *nothing]) == 0
    assert "0 deliveries" in capsys.readouterr().out


def test_a_scheme_that_loses_events_ends_with_1(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = SCHEMES["psf"]._replace(send=lambda node, header, event: [])
    monkeypatch.setitem(SCHEMES, "psf", deaf)
    assert main([*SMALL, "--scheme", "psf"]) == 1
    assert "lost" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--topology", "cube:3"], "expected one of line:N"),
        (["--scheme", "psf,teleport"], "found 'teleport'"),
        (["--events", "-1"], "--events"),
        (["--subscriptions", "many"], "--subscriptions"),
    ],
)
def test_wrong_options_are_one_line_and_2(
    capsys: Capture, options: list[str], expected: str
) -> None:
    assert main(["simulate", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert expected in captured.err
