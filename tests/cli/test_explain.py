"""`tidings explain` shows the explanation, and where a predicate or an event is wrong."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidings import parse
from tidings.cli.main import main

PREDICATE = "class = 'alert' and (severity > 2 or device like 'web-%') and not site in ('Oslo')"
EVENT = '{"class": "alert", "severity": "7", "devices": ["web-1", "web-2"], "site": null}'


def test_transcript(capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]) -> None:
    code = main(["explain", PREDICATE, "--event", EVENT])
    shown = f"$ tidings explain {PREDICATE!r} --event {EVENT!r}\n"
    golden("explain.txt", f"{shown}{capsys.readouterr().out}exit code {code}\n")


@pytest.mark.parametrize("event", ['{"x": 3}', '{"x": 1}'])
def test_exit_code_is_0_whether_it_matches_or_not(
    event: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "x > 2", "--event", event, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == parse("x > 2").explain(event).as_dict()


def test_event_comes_from_a_file_or_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "event.json").write_text('{"x": 3}\n')
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "x > 2", "--event", "@event.json"]) == 0
    from_file = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"x": 3}')))
    assert main(["explain", "x > 2", "--event", "-"]) == 0
    assert capsys.readouterr().out == from_file
    assert from_file.startswith("✓ matches\n")


def test_file_that_cannot_be_read_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "x > 2", "--event", "@none.json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "none.json" in line


def test_bad_predicate_is_shown_with_a_caret(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "x > > 2", "--event", "{}"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    first, text, caret = shown.err.splitlines()
    assert first.startswith("tidings explain: bad predicate: line 1, column 5: expected a number")
    assert text[caret.index("^")] == ">"
    assert caret.index("^") == text.rindex(">")


@pytest.mark.parametrize(
    ("event", "place"),
    [
        ('{"ü": 1, "y" ?}', "?"),
        ('{"x": 1} ?', "?"),
        ('{"x": [1, 2', None),
        ("", None),
    ],
)
def test_bad_json_is_shown_with_a_caret(
    event: str, place: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "x > 2", "--event", event]) == 1
    first, text, caret = capsys.readouterr().err.splitlines()
    assert first.startswith("tidings explain: bad event: not JSON: ")
    assert caret.index("^") == (len(text) if place is None else text.index(place))


@pytest.mark.parametrize("event", ["[1]", "7", '{"x": 1e999}', '"\\ud800"', '{"x": "\udcff"}'])
def test_other_bad_event_exits_with_1(event: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "x > 2", "--event", event]) == 1
    assert capsys.readouterr().err.startswith("tidings explain: bad event: ")


def test_piped_output_is_plain_text() -> None:
    arguments = ["explain", "x = '[red]\x1b[31m'", "--event", '{"x": "[bold]\\u001b[2J"}']
    shown = subprocess.run(
        [sys.executable, "-m", "tidings.cli.main", *arguments],
        capture_output=True,
        check=True,
    ).stdout.decode("utf-8", "replace")
    assert all(line.isprintable() for line in shown.splitlines())
    assert "[red]" in shown
    assert "[bold]" in shown


def test_an_interrupt_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidings import Table

    def load(*_: object) -> Table:
        raise KeyboardInterrupt

    monkeypatch.setattr(Table, "load", load)
    assert main(["explain", "--table", "any"]) == 130
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "interrupted\n")


def test_a_saved_table_shows_its_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tidings import Table

    Table({1: "x = 1 and y > 2", 2: "y > 3"}).save(tmp_path / "table")
    assert main(["explain", "--table", str(tmp_path / "table")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 subscriptions, 2 filters, 3 constraints, ")
    assert "1 by key, 1 in order" in out
    assert main(["explain", "--table", str(tmp_path / "none")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert main(["explain"]) == 2
    assert "expected PREDICATE and --event, or --table" in capsys.readouterr().err


def test_rendezvous_functions_are_ranked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wants = [f"topic = 't{n % 30}' and size > {n}" for n in range(60)]
    wants += ["size < 7", "no predicate ("]
    Path("wants.jsonl").write_text(
        "".join(json.dumps({"id": n, "predicate": w}) + "\n" for n, w in enumerate(wants))
    )
    events = [{"topic": f"t{n % 30}", "size": n, "flag": n % 2 == 0} for n in range(300)]
    Path("events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    given = ["explain", "--rendezvous", "wants.jsonl", "--events", "events.jsonl"]
    assert main([*given, "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)["rendezvous"]
    assert err == "tidings explain: 1 bad subscription left out; see tidings check\n"
    assert found[0]["text"].startswith(("hash:topic", "range:topic"))
    assert [one["text"].partition(":")[0] for one in found].count("one") == 1
    assert all(0 <= one["score"] <= 1 for one in found)
    assert found == sorted(found, key=lambda one: -one["score"])
    (one,) = (one for one in found if one["text"] == "one")
    assert one["score"] == pytest.approx(1 / 16)  # every event visits the same region
    assert main(given) == 0
    assert capsys.readouterr().out.startswith("score  keyed  keys  even  rendezvous\n")
    assert main(given[:3]) == 2
    assert main([*given[:4], "nowhere.jsonl"]) == 2
