"""The documents tell the truth: their code runs, their commands print what they say.

A page is run from top to bottom in one empty folder (with examples/ in it), block by block:

- ```python: executed; the blocks of a page share their names. With `>>>` it is a doctest.
- ```text file=NAME (or any other language): written to that file.
- ```console or ```sh: where the first line is `$ tidings ...` (or pipes into it) and output
  follows, every `$` line is run in a shell, and what it prints must be what follows. A line `...`
  stands for any lines.

The comment `<!-- not run: reason -->` on the line before a block leaves it out. The examples are
run as well, and where tests/golden has a file of their name, their output must equal it.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
import textwrap
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from tests.places import ROOT

EXAMPLES = ROOT / "examples"
GOLDEN = ROOT / "tests" / "golden"
TIMEOUT_SECONDS = 300

PYTHON = {"python", "py", "pycon"}
CONSOLE = {"console", "sh", "shell", "bash"}
RUNS_TIDINGS = re.compile(r"\$ (?:.*\| *)?tidings\b")


class Block(NamedTuple):
    """A fenced block: the line its text starts on, what stands on its fence, and the text."""

    line: int
    language: str
    file: str | None
    text: str


class Command(NamedTuple):
    """A `$` line of a console block, and the lines that should follow it."""

    line: int
    command: str
    output: str


class Untrue(Exception):
    """A document says what is not so; the message begins with its place."""


def pages() -> list[Path]:
    return [path for path in [ROOT / "README.md"] if path.exists()] + sorted(
        (ROOT / "docs").rglob("*.md")
    )


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page that are to be run, in order."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        fence = re.fullmatch(r"(\s*)(`{3,}|~{3,})\s*([^`]*)", lines[number])
        number += 1
        if fence is None:
            continue
        indent, marks, info = fence.groups()
        closing = re.compile(rf"\s*{marks[0]}{{{len(marks)},}}\s*")
        start = number
        while number < len(lines) and not closing.fullmatch(lines[number]):
            number += 1
        body = "".join(line.removeprefix(indent) + "\n" for line in lines[start:number])
        number += 1
        before = lines[start - 2].strip() if start >= 2 else ""
        if re.fullmatch(r"<!--\s*not run:\s*\S.*-->", before):
            continue
        words = info.split()
        file = next((word.removeprefix("file=") for word in words if word.startswith("file=")), "")
        yield Block(start + 1, words[0] if words else "", file or None, body)


def commands(block: Block) -> list[Command]:
    """The commands of a console block; none where it shows no output or does not run Tidings."""
    lines = block.text.splitlines()
    if not lines or not RUNS_TIDINGS.match(lines[0]):
        return []
    found: list[Command] = []
    continued = False
    for number, line in enumerate(lines, block.line):
        if continued:
            found[-1] = found[-1]._replace(command=f"{found[-1].command}\n{line}")
        elif line.startswith("$ "):
            found.append(Command(number, line.removeprefix("$ "), ""))
        else:
            found[-1] = found[-1]._replace(output=f"{found[-1].output}{line}\n")
            continue
        continued = line.endswith("\\")
    return found if any(command.output.strip() for command in found) else []


def same_output(expected: str, printed: str) -> bool:
    """Whether the lines are the same, apart from white space at their ends and around the whole."""

    def lines(text: str) -> list[str]:
        return [line.rstrip() for line in text.strip("\n").rstrip().splitlines()]

    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else re.escape(line) + "\n" for line in lines(expected)
    )
    return re.fullmatch(pattern, "".join(line + "\n" for line in lines(printed))) is not None


def environment(**more: str) -> dict[str, str]:
    """The environment of a command whose output is compared: no colours, one width, UTF-8."""
    colours = {"CLICOLOR_FORCE", "FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
    kept = {name: value for name, value in os.environ.items() if name not in colours}
    fixed = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "PYTHONUTF8": "1"}
    return kept | fixed | more


class Page:
    """A page on its way from top to bottom: the folder it is run in, and the names it has made."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / "page"
        self.folder.mkdir()
        if EXAMPLES.exists():
            (self.folder / "examples").symlink_to(EXAMPLES)
        self.commands = folder / "bin"
        self.commands.mkdir()
        command = self.commands / "tidings"
        command.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tidings.cli.main "$@"\n'
        )
        command.chmod(0o755)
        # A module of its own and not a bare dictionary: classes look for the module they are in.
        self.module = types.ModuleType("page")

    def run(self, block: Block) -> None:
        if block.file is not None:
            self.write(block, block.file)
        elif block.language in PYTHON and re.search(r"^\s*>>>", block.text, re.MULTILINE):
            self.run_doctest(block)
        elif block.language in PYTHON:
            self.run_python(block)
        elif block.language in CONSOLE:
            for command in commands(block):
                self.run_command(command)

    def write(self, block: Block, file: str) -> None:
        path = (self.folder / file).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise Untrue(f"{self.name}:{block.line}: {file} is outside of the folder of the page")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def run_python(self, block: Block) -> None:
        # With the empty lines in front, a traceback counts the lines as the page does.
        source = "\n" * (block.line - 1) + block.text
        try:
            exec(compile(source, self.name, "exec", dont_inherit=True), self.module.__dict__)
        except (Exception, SystemExit) as error:
            frames = traceback.extract_tb(error.__traceback__)
            here = [frame.lineno for frame in frames if frame.filename == self.name]
            line = (error.lineno if isinstance(error, SyntaxError) else None) or block.line
            why = "".join(traceback.format_exception(error))
            raise Untrue(f"{self.name}:{here[-1] if here else line}: {why}") from None

    def run_doctest(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(
            textwrap.dedent(block.text),
            self.module.__dict__,
            "example",
            self.name,
            block.line - 1,
        )
        failures: list[str] = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
        runner.run(test, out=failures.append, clear_globs=False)
        self.module.__dict__.update(test.globs)
        if failures:
            line = re.search(r"line (\d+)", "".join(failures))
            raise Untrue(f"{self.name}:{line[1] if line else block.line}: {''.join(failures)}")

    def run_command(self, command: Command) -> None:
        try:
            run = subprocess.run(
                ["/bin/sh", "-c", command.command],
                cwd=self.folder,
                env=environment(PATH=f"{self.commands}{os.pathsep}{os.environ.get('PATH', '')}"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Untrue(f"{self.name}:{command.line}: {error}") from None
        printed = run.stdout.decode(errors="replace")
        if not same_output(command.output, printed):
            raise Untrue(
                f"{self.name}:{command.line}: $ {command.command}\n"
                f"should print\n{textwrap.indent(command.output, '    ')}"
                f"but prints (exit code {run.returncode})\n{textwrap.indent(printed, '    ')}"
            )


def run_page(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(name, folder)
    monkeypatch.setitem(sys.modules, page.module.__name__, page.module)
    monkeypatch.chdir(page.folder)
    for block in blocks(text):
        page.run(block)


def marked(path: Path) -> ParameterSet:
    """A page as a parameter; those that start Spark run in one process, which then has a JVM."""
    uses_spark = "tidings.spark" in path.read_text(encoding="utf-8") or path.stem == "spark"
    marks = [pytest.mark.spark, pytest.mark.xdist_group("spark pages")] if uses_spark else []
    return pytest.param(path, id=path.relative_to(ROOT).as_posix(), marks=marks)


@pytest.mark.parametrize("path", [marked(path) for path in pages()])
def test_page_tells_the_truth(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = path.relative_to(ROOT).as_posix()
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "cache"))
    untrue = ""
    try:
        run_page(name, path.read_text(encoding="utf-8"), tmp_path, monkeypatch)
    except Untrue as error:
        untrue = str(error)
    if untrue:  # out here, so that the report is this text alone
        pytest.fail(untrue, pytrace=False)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_runs(path: Path, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    run = subprocess.run(
        [sys.executable, path],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if run.returncode != 0:
        place = path.relative_to(ROOT).as_posix()
        pytest.fail(f"{place}:1: exit code {run.returncode}\n{run.stderr}", pytrace=False)
    if (GOLDEN / f"{path.stem}.txt").exists():
        golden(f"{path.stem}.txt", run.stdout)


TRUE_PAGE = """\
# A page

```python
numbers = [1, 2]
```

    ```text file=data/numbers.txt
    one
      two
    ```

~~~python
>>> numbers, open("data/numbers.txt").read()
([1, 2], 'one\\n  two\\n')
>>> list(range(100))
[0, 1, ..., 99]
>>> more = 3
~~~

```python
from dataclasses import dataclass

@dataclass
class Later:
    number: "int" = more

assert Later().number == 3
```

<!-- not run: it needs a network -->
```python
raise OSError
```

```sh
$ tidings there is no output here, so it is not run
```

```sh
$ make demo
not run either
```
"""


def test_true_page_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page("page.md", TRUE_PAGE, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("```python\nx = 1\nassert x == 2\n```\n", "page.md:3: "),
        ("```python\ndef f():\n    1 / 0\n\nf()\n```\n", "page.md:3: "),
        ("```python\nx = = 1\n```\n", "page.md:2: "),
        ("```python\nraise SystemExit(0)\n```\n", "page.md:2: "),
        ("\n```python\n>>> 1\n1\n>>> 1 + 1\n3\n```\n", "page.md:5: "),
        ("<!-- not run: -->\n```python\nraise OSError\n```\n", "page.md:3: "),
        ("```text file=../x\n```\n", "page.md:2: "),
        ("```console\n$ true | tidings no-such-command\nfine\n```\n", "page.md:2: "),
    ],
)
def test_untrue_page_is_found_with_its_line(
    text: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Untrue, match=rf"^{re.escape(place)}"):
        run_page("page.md", text, tmp_path, monkeypatch)


def test_commands_are_run_in_the_folder_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page("page.md", tmp_path)
    (page.commands / "tidings").write_text('#!/bin/sh\necho "got $*"; echo; cat; echo oops >&2\n')
    text = (
        "```text file=in.csv\na\n```\n"
        "```console\n$ tidings 'x y' \\\n    z < in.csv\ngot x y z\n\na   \noops\n"
        "$ cat in.csv | tidings\n...\noops\n```\n"
    )
    for block in blocks(text):
        page.run(block)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb\n", "\na  \nb\n\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("...\n", "", True),
        ("a\n...\n", "a\nb\n", True),
        ("a.c\n", "abc\n", False),
        ("a\n", "a\nb\n", False),
        ("  a\n", "a\n", False),
        ("a\n...\nd\n", "a\nb\n", False),
    ],
)
def test_output_is_compared_line_by_line(expected: str, printed: str, same: bool) -> None:
    assert same_output(expected, printed) is same
