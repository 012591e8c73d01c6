"""What commands write: colours only on a terminal, and nothing of a user's text that steers it.

Every line that a command writes goes through here. Text is written as it is, never read as markup;
who passes text of a user's cleans it with `printable` first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from tidings.language.errors import PredicateError


class OutputClosed(Exception):
    """Whoever read our output has gone away, as `head` does; there is nobody left to tell."""


def write(line: str) -> None:
    """One line on standard output."""
    _write(sys.stdout, line)


def complain(line: str) -> None:
    """One line on standard error."""
    _write(sys.stderr, line)


def complain_of_predicate(command: str, error: PredicateError) -> None:
    """Say on standard error what is wrong with a predicate, with its text and a caret below it."""
    from tidings.language.explanation import printable

    complain(f"{command}: bad predicate: {printable(error.summary)}")
    for line in error.caret.splitlines():
        complain(printable(line))


def colour(text: str, name: str) -> str:
    """The text in a colour (`red`, `green`, `yellow`), if standard output shows it."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_COLOURS[name]}m{text}\x1b[0m"


_COLOURS = {"red": 31, "green": 32, "yellow": 33}


def _write(stream: TextIO, line: str) -> None:
    try:
        stream.write(line + "\n")
    except BrokenPipeError:
        raise OutputClosed from None


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on the terminal; none where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, whole: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    parts: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn()]
    parts += [MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*parts, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("")
        yield lambda what, done, whole: progress.update(
            task, description=f"{what:22}", completed=done, total=whole
        )
