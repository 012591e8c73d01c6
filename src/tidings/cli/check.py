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

from tidings.cli.terminal import INTERRUPTED, colour, complain, count, write

if TYPE_CHECKING:
    from tidings.language.files.subscriptions import BadSubscription, Subscription

PATIENCE_SECONDS = 1.0  # until progress is shown
MANY = 256  # constraints, from which on alternatives may be too many to compare
SHOWN = 80  # characters of a part of a predicate
STEP = 1_000  # subscriptions from one look at the clock to the next


class Format(StrEnum):
    """The formats of files of subscriptions."""

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
            help="The format, if no ending of the name says it (.csv, .jsonl, .ndjson, .txt)."
        ),
    ] = None,
    dialect: Annotated[
        str,
        typer.Option(help="The dialect of predicates, where the file does not name one."),
    ] = "tidings",
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Write JSON lines: an object for each bad one, then the summary."
        ),
    ] = False,
    max_errors: Annotated[
        int, typer.Option(min=0, help="Show at most this many bad ones, and count all.")
    ] = 100,
) -> int:
    """Check files of subscriptions, and show what is wrong with each bad one.

    Files are CSV with the columns id and predicate, JSON lines with these fields, or text with an
    id and a predicate on each line. They may be compressed (.gz). Ids must differ within a file. A
    column or field dialect names the dialect of a predicate in another language than Tidings' own.

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
        return INTERRUPTED
    finally:
        report.progress.hide()
    report.close()
    return 2 if unreadable else 1 if report.counts.bad else 0


def _check_file(file: str, format: Format | None, dialect: str, report: _Report) -> bool:
    """Check one file, and return whether it could be read."""
    from tidings.language.explanation import printable
    from tidings.language.files.subscriptions import SubscriptionFileError, read_subscriptions

    source = source_of(file, format)
    check_dialect(dialect)
    try:
        with closing(read_subscriptions(source, format, dialect)) as subscriptions:  # type: ignore[type-var]
            report.take(file, subscriptions)
    except SubscriptionFileError as error:
        report.progress.hide()
        hint = "" if format else " (--format names the format)"
        complain(
            f"tidings check: {printable(str(error))}{hint if error.found == 'neither' else ''}"
        )
        return False
    report.counts.files += 1
    return True


def source_of(file: str, format: Format | None) -> Any:
    """The file to read: its name, or standard input for `-`, whose format must be given."""
    if file != "-":
        return file
    if format is None:
        raise typer.BadParameter("standard input needs a format: say --format")
    return sys.stdin.buffer


def check_dialect(name: str) -> None:
    """Refuse a dialect that does not exist."""
    from tidings.language.dialects import DIALECTS

    if name not in DIALECTS:
        raise typer.BadParameter(f"expected a dialect ({', '.join(DIALECTS)}), found {name!r}")


@dataclass
class _Counts:
    """The summary. `constraints` counts those of the normal forms that stay within the bound."""

    files: int = 0
    subscriptions: int = 0
    good: int = 0
    bad: int = 0
    constraints: int = 0
    past_bound: int = 0  # good subscriptions whose normal form would pass the bound
    not_reduced: int = 0  # good subscriptions with too many alternatives to compare


class _Report:
    """Counts what the files hold, and writes it."""

    def __init__(self, as_json: bool, max_errors: int) -> None:
        self.as_json = as_json
        self.max_errors = max_errors
        self.counts = _Counts()
        self.progress = _Progress(self.counts)

    def take(self, file: str, subscriptions: Iterator[Subscription | BadSubscription]) -> None:
        """Count the subscriptions of a file, and show the bad ones."""
        from tidings.language.errors import NormalFormError
        from tidings.language.files.subscriptions import BadSubscription
        from tidings.language.normal_form import is_reduced

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
                constraints = one.predicate.constraints
            except NormalFormError:
                counts.past_bound += 1
                self.note(_past_bound(file, one))
                continue
            counts.constraints += constraints
            if constraints >= MANY and not is_reduced(one.predicate.expression):
                counts.not_reduced += 1
                self.note(_not_reduced(file, one))

    def note(self, text: str) -> None:
        """Write a note on a good subscription, while there are few."""
        counts = self.counts
        if counts.past_bound + counts.not_reduced <= self.max_errors and not self.as_json:
            self.progress.hide()
            write(text)

    def show(self, bad: BadSubscription) -> None:
        self.progress.hide()
        if self.as_json:
            fields = ("file", "line", "column", "id", "reason", "expected", "found", "text")
            write(json.dumps({field: getattr(bad, field) for field in fields}))
        else:
            for line in _bad_lines(bad):
                write(line)

    def close(self) -> None:
        """Write the summary."""
        self.progress.hide()
        counts = self.counts
        if self.as_json:
            write(json.dumps({"summary": asdict(counts)}))
            return
        if counts.bad > self.max_errors:
            more = counts.bad - self.max_errors
            write(f"… {count(more, 'more bad subscription')} (--max-errors shows more)")
        more = counts.past_bound + counts.not_reduced - self.max_errors
        if more > 0:
            write(f"… {count(more, 'more note')} (--max-errors shows more)")
        bad = f"{counts.bad:,} bad"
        large = ""
        if counts.past_bound:
            verb = "has" if counts.past_bound == 1 else "have"
            large = f"; {counts.past_bound:,} {verb} too large a normal form (see the notes)"
        if counts.not_reduced:
            verb = "has" if counts.not_reduced == 1 else "have"
            large += f"; {counts.not_reduced:,} {verb} too many alternatives (see the notes)"
        write(
            f"{count(counts.files, 'file')}, {count(counts.subscriptions, 'subscription')}: "
            f"{counts.good:,} good, {colour(bad, 'red') if counts.bad else bad}{large}"
        )


def _bad_lines(bad: BadSubscription) -> Iterator[str]:
    """A bad subscription: its place, what is wrong, the text and a caret below it."""
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


def _past_bound(file: str, one: Subscription) -> str:
    """The note on a subscription without a normal form: what that means, and which part it is."""
    from tidings.language.normal_form import too_large
    from tidings.language.text import write as write_expression

    predicate = one.predicate
    part = too_large(predicate.expression, predicate.max_filters) or predicate.expression
    return _note(
        file,
        one,
        f"good, and matched exactly, but slower, and perhaps routed by a coarser predicate: this "
        f"part has too many combinations (more than {predicate.max_filters:,} filters, or too many "
        f"steps to find them): {_cut(write_expression(part))}",
    )


def _not_reduced(file: str, one: Subscription) -> str:
    """The note on a subscription whose alternatives are too many to compare."""
    return _note(
        file,
        one,
        f"good, and matched exactly: its {len(one.predicate.filters):,} alternatives are too many "
        f"to compare, so those that others cover stay, and covers may say no: "
        f"{_cut(str(one.predicate))}",
    )


def _note(file: str, one: Subscription, text: str) -> str:
    from tidings.language.explanation import printable

    return f"{printable(file)}:{one.line}: {colour('note', 'yellow')}: {printable(text)}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


class _Progress:
    """A line on the terminal during long work; none where standard error is not a terminal."""

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
        """Clear the line for other output; the next step shows it again."""
        if self.status is not None:
            self.status.stop()
            self.status = None
