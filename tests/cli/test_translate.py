"""`tidings translate`: predicates and files of subscriptions from one dialect to another."""

import io
import json
import sys
from pathlib import Path

import pytest

from tidings.cli.main import main


def test_a_pattern_becomes_a_predicate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", '{"class": ["alert"]}', "--from", "eventbridge"]) == 0
    assert capsys.readouterr().out == "class = 'alert'\n"


def test_a_predicate_becomes_a_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "class = 'alert' and n > 2", "--to", "eventbridge"]) == 0
    pattern = json.loads(capsys.readouterr().out)
    assert pattern == {"class": ["alert"], "n": [{"numeric": [">", 2]}]}


def test_the_predicate_may_come_from_a_file_or_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.txt"
    file.write_text("A=1\n", encoding="utf-8")
    assert main(["translate", f"@{file}"]) == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("A=1\n"))
    assert main(["translate", "-"]) == 0
    assert capsys.readouterr().out == "A = 1\nA = 1\n"
    assert main(["translate", f"@{tmp_path / 'none'}"]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_mistake_is_shown_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", '{"a": 1}', "--from", "eventbridge"]) == 1
    assert capsys.readouterr().err == (
        "tidings translate: bad predicate: line 1, column 7: expected an object or an array of "
        'values, found a number\n  {"a": 1}\n        ^\n'
    )


def test_what_the_target_cannot_say_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "x = 1 and not y = 2", "--to", "eventbridge"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("tidings translate: eventbridge cannot say not y = 2: it also holds")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["x = 1", "--to", "sql"], "expected a dialect (tidings, "),
        ([], "expected either a predicate or --subscriptions"),
        (["x = 1", "--subscriptions", "-"], "expected either a predicate or --subscriptions"),
        (["--subscriptions", "-"], "standard input needs a format"),
    ],
)
def test_wrong_options_are_one_line(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", *arguments]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_a_file_is_translated_row_by_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "subscriptions.csv"
    file.write_text(
        'id,predicate,dialect\na,x = 1,\nb,"{""y"": [""z""]}",eventbridge\nc,x >,\nd,not x = 1,\n',
        encoding="utf-8",
    )
    assert main(["translate", "--subscriptions", str(file), "--to", "eventbridge"]) == 1
    written = capsys.readouterr()
    assert [json.loads(line) for line in written.out.splitlines()] == [
        {"id": "a", "predicate": '{"x": [1]}', "dialect": "eventbridge"},
        {"id": "b", "predicate": '{"y": ["z"]}', "dialect": "eventbridge"},
    ]
    bad, refused, summary = written.err.splitlines()
    assert bad.startswith(f"{file}:4: expected a number or a text")
    assert refused.startswith(f"{file}:5: eventbridge cannot say not x = 1: ")
    assert summary == "tidings translate: 2 translated, 2 not"
    assert main(["translate", "--subscriptions", str(tmp_path / "none.csv")]) == 2


def test_check_takes_the_dialect_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rules.txt"
    file.write_text('a {"x": [1]}\nb {"x": []}\n', encoding="utf-8")
    assert main(["check", str(file), "--dialect", "eventbridge"]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{file}:2:9: expected at least one value in an array, found none\n")
    assert "1 good, 1 bad" in out
    assert main(["check", str(file), "--dialect", "sql"]) == 2
    assert "expected a dialect (tidings, " in capsys.readouterr().err
