"""`tidings check` finds every bad subscription, says where it is, and exits as it promises."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidings.cli import main as command
from tidings.cli.main import main

MIXED = """\
id,predicate,note
a,class = 'alert' and severity > 2,fine
b,"severity in (1, 2",a parenthesis is missing
c,severity >> 2,
a,severity = 1,an id for the second time
d,x in (1, 2),commas without quotes
e,"x = 1
and y = ",two lines
f,"open,
g,name = '[red]Köln[/red]' or name =,markup
,x = 1,
h,x = 1 or y = 2,fine
"""


def environment() -> dict[str, str]:
    """That of a terminal with colours, so that their absence is our doing."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")
    }
    return kept | {"TERM": "xterm-256color", "PYTHONUTF8": "1"}


def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tidings.cli.main", *arguments],
        input=given,
        capture_output=True,
        env=environment(),
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_transcript(
    folder: Path, capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]
) -> None:
    (folder / "mixed.csv").write_text(MIXED, encoding="utf-8")
    code = main(["check", "mixed.csv"])
    golden("check.txt", f"$ tidings check mixed.csv\n{capsys.readouterr().out}exit code {code}\n")


def test_good_files_exit_with_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one.txt").write_text("a x = 1\nb x = 1 or y = 2\n")
    (folder / "two.jsonl").write_text('{"id": 1, "predicate": "x = 1"}\n')
    assert main(["check", "one.txt", "two.jsonl"]) == 0
    assert capsys.readouterr().out == ("2 files, 3 subscriptions: 3 good, 0 bad\n")


def test_json_has_its_fields(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mixed.csv").write_text(MIXED, encoding="utf-8")
    assert main(["check", "mixed.csv", "--json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert all(line.isascii() and line.isprintable() for line in lines)
    *bad, summary = map(json.loads, lines)
    assert {tuple(one) for one in bad} == {
        ("file", "line", "column", "id", "reason", "expected", "found", "text")
    }
    assert [(one["line"], one["column"]) for one in bad] == [
        (3, 21),
        (4, 13),
        (5, None),
        (6, None),
        (7, None),
        (9, 3),
        (10, 37),
        (11, None),
    ]
    assert summary == {
        "summary": {
            "files": 1,
            "subscriptions": 10,
            "good": 2,
            "bad": 8,
            "constraints": 4,
            "past_bound": 0,
            "not_reduced": 0,
        }
    }


def test_bound_of_errors_is_on_what_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.txt").write_text("".join(f"s{number} x =\n" for number in range(250)))
    assert main(["check", "bad.txt"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("bad.txt:") for line in lines) == 100
    assert lines[-2] == "… 150 more bad subscriptions (--max-errors shows more)"
    assert "250 bad" in lines[-1]
    assert main(["check", "bad.txt", "--json", "--max-errors", "0"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_what_is_past_a_budget_is_a_note_that_names_the_part(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    factors = " and ".join(f"(a{number} = 1 or b{number} = 1)" for number in range(20))
    ranges = " or ".join(f"a > {number} and b < {number}" for number in range(500))
    (folder / "large.txt").write_text(f"s x = 1 or y = 2 and {factors}\nt x = 1\nu {ranges}\n")
    assert main(["check", "large.txt"]) == 0
    combinations, alternatives, counts = capsys.readouterr().out.splitlines()
    assert combinations == (
        "large.txt:1: note: good, and matched exactly, but slower, and perhaps routed by a "
        "coarser predicate: this part has too many combinations (more than 4,096 filters, or too "
        "many steps to find them): y = 2 and (a0 = 1 or b0 = 1) and (a1 = 1 or b1 = 1) and "
        "(a2 = 1 or b2 = 1) and …"
    )
    assert alternatives == (
        "large.txt:3: note: good, and matched exactly: its 500 alternatives are too many to "
        "compare, so those that others cover stay, and covers may say no: a > 0 and b < 0 or a > 1 "
        "and b < 1 or a > 2 and b < 2 or a > 3 and b < 3 or a >…"
    )
    assert counts == (
        "1 file, 3 subscriptions: 3 good, 0 bad; 1 has too large a normal form (see the notes)"
        "; 1 has too many alternatives (see the notes)"
    )


def test_file_that_cannot_be_read_exits_with_2_and_the_others_are_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "good.txt").write_text("a x = 1\n")
    (folder / "empty.csv").write_text("")
    (folder / "unknown.xml").write_text("a x = 1\n")
    assert main(["check", "none.csv", "empty.csv", "unknown.xml", "good.txt"]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("1 file, 1 subscription: 1 good")
    first, second, third = shown.err.splitlines()
    assert first == "tidings check: none.csv: expected a file, found none of this name"
    assert second.endswith("columns id and predicate, once each, found an empty file")
    assert "--format" in third
    assert main(["check", "unknown.xml", "--format", "text"]) == 0


def test_standard_input_needs_a_format(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["check", "-"]) == 2
    shown = capsys.readouterr().err
    assert "say --format" in shown
    assert len(shown.splitlines()) == 1
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a x =\n")))
    assert main(["check", "-", "--format", "text"]) == 1
    assert ":1:6: expected" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["check"], ["check", "--nope", "x"], ["chekc"], ["check", "x", "--format", "xml"], ["--nope"]],
)
def test_mistake_in_the_command_line_is_one_line_with_a_hint(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("tidings")
    assert line.endswith("--help)")


def test_bug_is_one_line_unless_debugging(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("tidings.language.files.subscriptions.read_subscriptions", broken)
    assert main(["check", "x.csv"]) == command.BUG
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "tidings: a bug in Tidings: RuntimeError: two lines (tidings --debug shows the trace)"
    )
    with pytest.raises(RuntimeError):
        main(["--debug", "check", "x.csv"])


def test_help_has_an_example_and_needs_nothing_heavy() -> None:
    script = (
        "import sys; from tidings.cli.main import main; main(sys.argv[1:]);"
        "print(*{'rich', 'msgspec', 're2'} & set(sys.modules))"
    )
    for arguments in (["--help"], ["check", "--help"], ["explain", "--help"]):
        shown = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
        )
        assert "Example" in shown.stdout
        assert shown.stdout.splitlines()[-1] == ""


def test_version_is_told() -> None:
    shown = run("--version")
    assert shown.returncode == 0
    assert shown.stdout.startswith(b"tidings ")


def test_piped_output_has_no_colours_and_exit_codes_are_kept(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b"a\x1b[31m x = = 1\n\x1b[2J x = '\x1b]0;t\x07' [red]\n")
    shown = run("check", "bad.txt")
    assert shown.returncode == 1
    assert shown.stderr == b""
    text = shown.stdout.decode()
    assert all(line.isprintable() for line in text.splitlines())
    assert "[red]" in text
    assert run("check", "none.csv").returncode == 2
    assert run("check", "-", "--format", "text", given=b"a x = 1\n").returncode == 0


def test_terminal_output_has_colours_but_none_of_the_users(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b"a x = '\x1b]0;t\x07' [red]\n")
    ours, theirs = pytest.importorskip("pty").openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tidings.cli.main", "check", "bad.txt"],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment(),
    )
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 4096):
            shown += data
    except OSError:  # how the end of a terminal shows
        pass
    os.close(ours)
    assert process.wait(60) == 1
    text = shown.decode()
    assert "\x1b[31m" in text
    assert "[red]" in text
    assert "\x1b]" not in text
    assert "\x07" not in text


def test_interrupt_says_how_far_it_came() -> None:
    # A pipe that stays open: the command has read what there is and waits, however fast it is.
    process = subprocess.Popen(
        [sys.executable, "-m", "tidings.cli.main", "check", "-", "--format", "text"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        # A run of tests in the background ignores interrupts, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    # More than a pipe and the buffers hold, so that writing ends only when much has been checked.
    for number in range(100_000):
        process.stdin.write(b"s%d x = %d\n" % (number, number))
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    error = process.stderr.read().decode()
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()
    assert process.wait(60) == 130
    (line,) = error.splitlines()
    count = int(line.removeprefix("interrupted after ").removesuffix(" subscriptions"))
    assert 10_000 < count <= 100_000


def test_closed_pipe_is_quiet(folder: Path) -> None:
    with (folder / "bad.txt").open("w") as file:
        file.writelines(f"s{number} x =\n" for number in range(20_000))
    process = subprocess.Popen(
        [sys.executable, "-m", "tidings.cli.main", "check", "bad.txt", "--max-errors", "20000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == command.OUTPUT_CLOSED
