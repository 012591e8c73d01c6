"""`tidings explain`: why does this event match this predicate, or why not?"""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated

import typer

from tidings.cli.terminal import colour, complain, complain_of_predicate, write


def explain(
    predicate: Annotated[
        str | None, typer.Argument(metavar="PREDICATE", help="The predicate's text.")
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="The event as a JSON object; @FILE reads a file, - reads standard input.",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="DIRECTORY", help="Show how a saved table finds its filters instead."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
) -> int:
    """Explain why an event matches a predicate, or why it does not; or how a table is searched.

    Shows whether each constraint holds, the predicate's canonical text, its normal form, and which
    constraints of the nearest filter fail.

    Exits with 0 whether the event matches or not, 1 if the predicate, the event or the table is
    bad, 2 if the event's file cannot be read.

    \b
    Example:
      tidings explain "class = 'alert' and severity > 2" --event '{"class": "alert", "severity": 1}'
    """
    from tidings.language.errors import EventError, PredicateError, caret
    from tidings.language.explanation import explain as explained
    from tidings.language.explanation import printable
    from tidings.language.predicate import parse

    if table is not None:
        return _plan(table)
    if predicate is None or event is None:
        complain("tidings explain: expected PREDICATE and --event, or --table")
        return 2
    try:
        text = _event_text(event)
    except OSError as error:
        complain(f"tidings explain: {printable(str(error))} (--event @FILE reads a file)")
        return 2
    try:
        explanation = explained(parse(predicate), text)
    except PredicateError as error:
        complain_of_predicate("tidings explain", error)
        return 1
    except EventError as error:
        complain(f"tidings explain: bad event: {printable(str(error))}")
        if error.position is not None:
            shown = text.rstrip().decode("utf-8", "replace")
            for line in caret(shown, error.position).splitlines():
                complain(printable(line))
        return 1
    if as_json:
        write(json.dumps(explanation.as_dict()))
        return 0
    for line in str(explanation).splitlines():
        mark = re.match(r" *([✓✗])", line)
        write(_coloured(line, mark[1], mark.end()) if mark else line)
    return 0


def _plan(table: str) -> int:
    """Write how a saved table finds its filters."""
    from tidings.matching.storage import TableFileError
    from tidings.matching.table import Table

    try:
        write(Table.load(table).explain_plan())
    except TableFileError as error:
        complain(f"tidings explain: {error}")
        return 1
    return 0


def _event_text(event: str) -> bytes:
    """The bytes of the event, from the argument, a file or standard input."""
    from tidings.language.event import MAX_EVENT_BYTES

    if event == "-":
        return sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    if event.startswith("@"):
        with open(event[1:], "rb") as file:
            return file.read(MAX_EVENT_BYTES + 1)
    return event.encode("utf-8", "surrogateescape")


def _coloured(line: str, mark: str, end: int) -> str:
    return line[: end - 1] + colour(mark, {"✓": "green", "✗": "red"}[mark]) + line[end:]
