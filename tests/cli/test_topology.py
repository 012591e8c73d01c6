"""`tidings topology`: the list, the description, and what it says of texts that are wrong."""

import json
import sys

import pytest

from tidings.cli.main import main
from tidings.overlay.topologies import TOPOLOGIES

Capture = pytest.CaptureFixture[str]


def test_it_lists_every_topology(capsys: Capture) -> None:
    assert main(["topology"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [row.form for row in TOPOLOGIES.values()]


def test_the_list_as_json(capsys: Capture) -> None:
    assert main(["topology", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["grid"] == {"form": "grid:RxC", "description": "R rows and C columns"}


def test_it_describes_a_graph(capsys: Capture) -> None:
    assert main(["topology", "ring:6"]) == 0
    shown = dict(line.rsplit(None, 1) for line in capsys.readouterr().out.splitlines())
    assert shown == {
        "nodes": "6",
        "links": "6",
        "components": "1",
        "bridges": "0",
        "degree mean": "2.00",
        "degree max": "2",
        "distance mean": "1.80",
        "distance max": "3",
        "shortest paths unique": "no",
    }


def test_the_description_as_json(capsys: Capture) -> None:
    assert main(["topology", "line:4,weights=5-5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["topology"] == "line:4,weights=5-5"
    assert (found["bridges"], found["distance_max"]) == (3, 15)
    assert found["shortest_paths_unique"] is True


def test_distances_of_large_graphs_are_left_out(capsys: Capture) -> None:
    assert main(["topology", "tree:6000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["nodes"] == 6000
    assert "distance_mean" not in found


def test_a_wrong_text_is_one_line_and_2(capsys: Capture) -> None:
    assert main(["topology", "cube:3\x1b[31m"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "expected one of line:N" in captured.err
    assert "\x1b" not in captured.err


def test_a_missing_package_is_named_with_what_brings_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    assert main(["topology", "ba:10"]) == 2
    assert "tidings[lab]" in capsys.readouterr().err


def test_help_shows_an_example(capsys: Capture) -> None:
    assert main(["topology", "--help"]) == 0
    assert "tidings topology waxman:50,weights=distance --seed 7" in capsys.readouterr().out
