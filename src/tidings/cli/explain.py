"""`tidings explain`: why does this event match this predicate, or why not?"""

from __future__ import annotations

import json
import re
import sys
from itertools import islice
from typing import Annotated

import typer

from tidings.cli.terminal import colour, complain, complain_of_predicate, count, write

SAMPLE = 10_000  # subscriptions, and events, that --rendezvous looks at
WIDE = 60  # characters of a rendezvous function


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
    rendezvous: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Show which rendezvous functions suit these subscriptions instead."
        ),
    ] = None,
    events: Annotated[
        str | None, typer.Option(metavar="FILE", help="For --rendezvous: events, JSON lines.")
    ] = None,
    regions: Annotated[
        int, typer.Option(min=1, max=4_096, help="For --rendezvous: regions of the application.")
    ] = 16,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
) -> int:
    """Explain why an event matches a predicate, or why it does not; or how a table is searched.

    Shows whether each constraint holds, the predicate's canonical text, its normal form, and which
    constraints of the nearest filter fail.

    Exits with 0 whether the event matches or not, 1 if the predicate, the event or the table is
    bad, 2 if a file cannot be read.

    \b
    Examples:
      tidings explain "class = 'alert' and severity > 2" --event '{"class": "alert", "severity": 1}'
      tidings explain --rendezvous subscriptions.csv --events events.jsonl
    """
    from tidings.language.errors import EventError, PredicateError, caret
    from tidings.language.explanation import explain as explained
    from tidings.language.explanation import printable
    from tidings.language.predicate import parse

    if table is not None:
        return _plan(table)
    if rendezvous is not None:
        return _rendezvous(rendezvous, events, regions, as_json)
    if predicate is None or event is None:
        complain("tidings explain: expected PREDICATE and --event, or --table, or --rendezvous")
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


def _rendezvous(file: str, events: str | None, regions: int, as_json: bool) -> int:
    """Write which rendezvous functions suit the subscriptions of a file, the best first."""
    from tidings.language.errors import EventError
    from tidings.language.event import read
    from tidings.language.explanation import printable
    from tidings.language.files.subscriptions import (
        BadSubscription,
        SubscriptionFileError,
        read_subscriptions,
    )
    from tidings.routing.layers.choosing import choose

    if events is None:
        complain("tidings explain: --rendezvous: expected --events as well")
        return 2
    try:
        found = list(read_subscriptions(file))
        with open(events, "rb") as lines:
            sample = [dict(read(line)) for line in islice(lines, SAMPLE) if line.strip()]
    except (OSError, SubscriptionFileError) as error:
        complain(f"tidings explain: {printable(str(error))}")
        return 2
    except EventError as error:
        complain(f"tidings explain: {printable(events)}: bad event: {printable(str(error))}")
        return 1
    good = [one.predicate for one in found if not isinstance(one, BadSubscription)][:SAMPLE]
    bad = sum(isinstance(one, BadSubscription) for one in found)
    if bad:
        complain(f"tidings explain: {count(bad, 'bad subscription')} left out; see tidings check")
    ranked = choose(good, sample, regions)
    if as_json:
        rows = [{**one._asdict(), "score": one.score} for one in ranked]
        write(json.dumps({"regions": regions, "rendezvous": rows}))
        return 0
    write("score  keyed  keys  even  rendezvous")
    for one in ranked:
        figures = f"{one.score:5.2f}  {one.keyed:5.0%}  {one.keys:4.1f}  {one.spread:4.0%}"
        write(
            printable(f"{figures}  {one.text if len(one.text) <= WIDE else one.text[:WIDE] + '…'}")
        )
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
