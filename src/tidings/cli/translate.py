"""`tidings translate`: what is this predicate in another dialect?"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.check import Format, check_dialect, source_of
from tidings.cli.terminal import complain, complain_of_predicate, write

if TYPE_CHECKING:
    from tidings.language.dialects import Dialect
    from tidings.language.predicate import Predicate


def translate(
    predicate: Annotated[
        str | None,
        typer.Argument(
            metavar="PREDICATE", help="The predicate; @FILE reads a file, - reads standard input."
        ),
    ] = None,
    source: Annotated[
        str, typer.Option("--from", metavar="DIALECT", help="The dialect to translate from.")
    ] = "tidings",
    target: Annotated[
        str, typer.Option("--to", metavar="DIALECT", help="The dialect to translate to.")
    ] = "tidings",
    subscriptions: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Translate a file instead; - is standard input."),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option(help="The format of that file, if its name has no known ending."),
    ] = None,
) -> int:
    """Translate a predicate, or a file of subscriptions, from one dialect to another.

    The dialects are tidings (our own), eventbridge, jms and cesql. Where a dialect cannot express a
    part of a predicate, the error names that part. Subscriptions are written as JSON lines.

    Exits with 0 if all is translated, 1 if a predicate is bad or cannot be expressed, 2 if a file
    cannot be read.

    \b
    Example:
      tidings translate '{"severity": [{"numeric": [">", 2]}]}' --from eventbridge
      tidings translate "severity > 2" --to eventbridge
    """
    from tidings.language.dialects import DIALECTS

    for name in (source, target):
        check_dialect(name)
    written = DIALECTS[target]
    if not written.writes:
        raise typer.BadParameter(f"Tidings reads {target} but does not write it: --to another")
    if (predicate is None) is (subscriptions is None):
        raise typer.BadParameter("expected either a predicate or --subscriptions")
    if subscriptions is not None:
        return _translate_file(subscriptions, format, source, target, written)
    assert predicate is not None
    return _translate_one(predicate, source, written)


def _translate_one(given: str, source: str, target: Dialect) -> int:
    """Translate one predicate."""
    from tidings.language.errors import PredicateError, TranslationError
    from tidings.language.explanation import printable
    from tidings.language.predicate import parse

    try:
        text = _text(given)
    except (OSError, UnicodeError) as error:
        complain(f"tidings translate: {printable(str(error))} (@FILE reads a file)")
        return 2
    try:
        write(target.write(parse(text, dialect=source).expression))
    except PredicateError as error:
        complain_of_predicate("tidings translate", error)
        return 1
    except TranslationError as error:
        complain(f"tidings translate: {printable(str(error))}")
        return 1
    return 0


def _text(given: str) -> str:
    """The text of the predicate, from the argument, a file or standard input."""
    from tidings.language.text import MAX_TEXT

    if given == "-":
        return sys.stdin.read(MAX_TEXT + 1).strip()
    if given.startswith("@"):
        with open(given[1:], encoding="utf-8") as file:
            return file.read(MAX_TEXT + 1).strip()
    return given


def _translate_file(
    file: str, format: Format | None, source: str, target: str, written: Dialect
) -> int:
    """Translate the subscriptions of a file, and count those that cannot be."""
    from tidings.language.explanation import printable
    from tidings.language.files.subscriptions import (
        BadSubscription,
        SubscriptionFileError,
        read_subscriptions,
    )

    stream = source_of(file, format)
    good = bad = 0
    try:
        with closing(read_subscriptions(stream, format, source)) as found:  # type: ignore[type-var]
            for one in found:
                if isinstance(one, BadSubscription):
                    reason: str | None = one.reason
                else:
                    reason = _write_row(one.id, one.predicate, target, written)
                if reason is None:
                    good += 1
                else:
                    bad += 1
                    complain(f"{printable(file)}:{one.line}: {printable(reason)}")
    except SubscriptionFileError as error:
        complain(f"tidings translate: {printable(str(error))}")
        return 2
    if bad:
        complain(f"tidings translate: {good} translated, {bad} not")
    return 1 if bad else 0


def _write_row(id: str | int, predicate: Predicate, target: str, written: Dialect) -> str | None:
    """Write a subscription as a JSON line, or return why that is not possible."""
    from tidings.language.errors import TranslationError

    try:
        text = written.write(predicate.expression)
    except TranslationError as error:
        return str(error)
    row: dict[str, Any] = {"id": id, "predicate": text}
    if target != "tidings":
        row["dialect"] = target
    write(json.dumps(row, ensure_ascii=False))
    return None
