"""`tidings check`: are these subscriptions good?"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.terminal import colour, complain, write

if TYPE_CHECKING:
    from tidings.language.files.subscriptions import BadSubscription, Subscription

PATIENCE_SECONDS = 1.0  # before progress is shown
STEP = 1_000  # subscriptions between two looks at the clock


class Format(StrEnum):
    """How subscriptions are written in a file."""

    CSV = "csv"
    JSONL = "jsonl"
    TEXT = "text"


def check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Files to check; - is standard input.")
    ],
    format: Annotated[
        Format | None,
        typer.Option(
            help="The format, where the name does not tell (.csv, .jsonl, .ndjson, .txt)."
        ),
    ] = None,
    dialect: Annotated[
        str,
        typer.Option(help="The dialect of predicates for which a file names none (see docs)."),
    ] = "tidings",
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Write JSON lines: an object for each bad one, and last the summary."
        ),
    ] = False,
    max_errors: Annotated[
        int, typer.Option(min=0, help="Show this many bad ones; all are counted.")
    ] = 100,
) -> int:
    """Check files of subscriptions, and show what is wrong with each bad one.

    Files are CSV with the columns id and predicate, JSON lines with these fields, or text with an
    id and a predicate on a line; each may be compressed (.gz). Ids must differ within a file. A
    column or field dialect names the dialect of a predicate that is not in our own.

    Exits with 0 if all are good, 1 if any is bad, 2 if a file cannot be read.

    \b
    Example:
      tidings check alerts.csv
      zcat alerts.jsonl.gz | tidings check - --format jsonl --json
    """
    report = _Report(as_json, max_errors)
    unreadable = 0
    try:
        for file in files:
            unreadable += not _check_file(file, format, dialect, report)
    except KeyboardInterrupt:
        report.progress.hide()
        complain(f"interrupted after {report.counts.subscriptions} subscriptions")
        return 130
    finally:
        report.progress.hide()
    report.close()
    return 2 if unreadable else 1 if report.counts.bad else 0


def _check_file(file: str, format: Format | None, dialect: str, report: _Report) -> bool:
    """Check one file; whether it could be read."""
    from tidings.language.dialects import DIALECTS
    from tidings.language.explanation import printable
    from tidings.language.files.subscriptions import SubscriptionFileError, read_subscriptions

    if file == "-" and format is None:
        raise typer.BadParameter("standard input has no name to tell its format: say --format")
    if dialect not in DIALECTS:
        raise typer.BadParameter(f"expected a dialect ({', '.join(DIALECTS)}), found {dialect!r}")
    source: Any = sys.stdin.buffer if file == "-" else file
    try:
        with closing(read_subscriptions(source, format, dialect)) as subscriptions:  # type: ignore[type-var]
            report.take(file, subscriptions)
    except SubscriptionFileError as error:
        report.progress.hide()
        hint = "" if format else " (--format says the format of a file whose name does not)"
        complain(
            f"tidings check: {printable(str(error))}{hint if error.found == 'neither' else ''}"
        )
        return False
    report.counts.files += 1
    return True


@dataclass
class _Counts:
    """What the summary says. `constraints` counts those of normal forms within the bound."""

    files: int = 0
    subscriptions: int = 0
    good: int = 0
    bad: int = 0
    constraints: int = 0
    past_bound: int = 0  # good, but the normal form would pass the bound


class _Report:
    """What has been found so far, and its writing."""

    def __init__(self, as_json: bool, max_errors: int) -> None:
        self.as_json = as_json
        self.max_errors = max_errors
        self.counts = _Counts()
        self.progress = _Progress(self.counts)

    def take(self, file: str, subscriptions: Iterator[Subscription | BadSubscription]) -> None:
        """Count and show what a file holds."""
        from tidings.language.errors import NormalFormError
        from tidings.language.files.subscriptions import BadSubscription

        counts = self.counts
        for one in subscriptions:
            counts.subscriptions += 1
            if counts.subscriptions % STEP == 0:
                self.progress.step()
            if isinstance(one, BadSubscription):
                counts.bad += 1
                if counts.bad <= self.max_errors:
                    self.show(one)
                continue
            counts.good += 1
            try:
                counts.constraints += one.predicate.constraints
            except NormalFormError as error:
                counts.past_bound += 1
                if counts.past_bound <= self.max_errors and not self.as_json:
                    self.progress.hide()
                    write(_past_bound(file, one, error.max_filters))

    def show(self, bad: BadSubscription) -> None:
        self.progress.hide()
        if self.as_json:
            fields = ("file", "line", "column", "id", "reason", "expected", "found", "text")
            write(json.dumps({field: getattr(bad, field) for field in fields}))
        else:
            for line in _bad_lines(bad):
                write(line)

    def close(self) -> None:
        """The counts."""
        self.progress.hide()
        counts = self.counts
        if self.as_json:
            write(json.dumps({"summary": asdict(counts)}))
            return
        if counts.bad > self.max_errors:
            write(
                f"… {counts.bad - self.max_errors} more bad subscriptions (--max-errors shows more)"
            )
        if counts.past_bound > self.max_errors:
            write(f"… {counts.past_bound - self.max_errors} more notes (--max-errors shows more)")
        bad = f"{counts.bad} bad"
        write(
            f"{_count(counts.files, 'file')}, {_count(counts.subscriptions, 'subscription')}: "
            f"{counts.good} good, {colour(bad, 'red') if counts.bad else bad}; "
            f"{_count(counts.constraints, 'constraint')} in normal form, "
            f"{counts.past_bound} past the bound of it"
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _bad_lines(bad: BadSubscription) -> Iterator[str]:
    """A bad subscription for a person: its place, what is wrong, the text and a caret."""
    from tidings.language.errors import caret
    from tidings.language.explanation import printable

    place = f"{bad.file}:{bad.line}" + (f":{bad.column}" if bad.column is not None else "")
    within = ""
    if bad.error is not None and bad.column is None:
        line = f"line {bad.error.line}, " if "\n" in bad.error.text else ""
        within = f" ({line}column {bad.error.column} of the predicate)"
    yield f"{printable(place)}: {colour(printable(bad.reason), 'red')}{within}"
    if bad.error is not None:
        yield from map(printable, bad.error.caret.splitlines())
    elif bad.text.strip():
        shown = caret(bad.text, (bad.column or 1) - 1).splitlines()
        yield from map(printable, shown if bad.column is not None else shown[:1])


def _past_bound(file: str, one: Subscription, max_filters: int) -> str:
    from tidings.language.explanation import printable

    note = colour("note", "yellow")
    return (
        f"{printable(file)}:{one.line}: {note}: good for matching, but its normal form would pass "
        f"the bound of {max_filters} filters"
    )


class _Progress:
    """A line on the terminal while the work is long; none where standard error is no terminal."""

    def __init__(self, counts: _Counts) -> None:
        self.counts = counts
        self.started = time.monotonic()
        self.status: Any = None

    def step(self) -> None:
        if not sys.stderr.isatty() or time.monotonic() - self.started < PATIENCE_SECONDS:
            return
        text = f"{self.counts.subscriptions} subscriptions, {self.counts.bad} bad"
        if self.status is None:
            from rich.console import Console

            self.status = Console(stderr=True).status(text)
            self.status.start()
        else:
            self.status.update(text)

    def hide(self) -> None:
        """Make room for a line; the next step shows it again."""
        if self.status is not None:
            self.status.stop()
            self.status = None
