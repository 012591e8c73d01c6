"""What commands write: colours on a terminal only, and no character of a user's that controls it.

Commands write every line through this file. It writes text as it is and reads no markup in it. A
caller that passes a user's text cleans it with `printable` first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from tidings.language.errors import PredicateError

INTERRUPTED = 130  # the exit code that shells use: 128 and the number of the signal


class OutputClosed(Exception):
    """The reader of our output has closed it, as `head` does, so nothing more can be written."""


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


def count(number: int, what: str) -> str:
    """A number with its noun: `1 file`, `2,000 files`, `3 matches`."""
    plural = "" if number == 1 else "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{plural}"


def colour(text: str, name: str) -> str:
    """The text in a colour (`red`, `green`, `yellow`), if standard output shows colours."""
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
    """A bar on the terminal; nothing where standard error is not a terminal."""
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
