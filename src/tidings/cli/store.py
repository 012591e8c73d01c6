"""`tidings store`: subscriptions in a folder that streams follow as it changes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.check import Format, source_of
from tidings.cli.terminal import colour, complain, count, write

if TYPE_CHECKING:
    from tidings.language.files.subscriptions import BadSubscription
    from tidings.spark.store import Commit, Store

SHOWN = 20  # subscriptions that are listed at most, and refused ones
TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhdw])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
)

Folder = Annotated[str, typer.Option("--store", metavar="PATH", help="The folder of the store.")]
Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Files of subscriptions, or - for standard input."),
]
OneId = Annotated[str | None, typer.Option("--id", help="The id of one subscription.")]
OnePredicate = Annotated[str | None, typer.Option("--predicate", help="Its predicate.")]
Dialect = Annotated[str, typer.Option(help="The dialect, where a file does not name one.")]
FileFormat = Annotated[
    Format | None, typer.Option(help="The format of files, if their names have no known ending.")
]
Expires = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN",
        help="When they end: a time from now (30m, 12h, 7d) or a moment (2030-01-31T12:00Z).",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Change nothing if one is refused.")]


@app.callback()
def keep(context: typer.Context) -> int:
    """Keep subscriptions in a folder with all their versions; streams follow the changes."""
    if context.invoked_subcommand is None:
        write(context.get_help())
    return 0


ADD = """Add subscriptions whose ids are not in the store; the first ones make it.

Files are those of tidings check, or Parquet with the columns subscription and predicate. The
command shows each subscription that the store refuses, and adds the others.

Exits with 0 if all were added, 1 if one was not, 2 if a file or the store cannot be read.

\b
Example:
  tidings store add --store alerts --id ada --predicate "severity > 2"
  tidings store add --store alerts alerts.csv
  tidings store add --store alerts --id ben --predicate "severity > 5" --expires 7d
"""
REPLACE = """Give other predicates, and another end or none, to subscriptions in the store.

Exits with 0 if all were replaced, 1 if one was not, 2 if a file or the store cannot be read.

\b
Example:
  tidings store replace --store alerts --id ada --predicate "severity > 3"
"""


@app.command("replace", help=REPLACE)
@app.command("add", help=ADD)
def add_or_replace(
    context: typer.Context,
    store: Folder,
    files: Files = None,
    id: OneId = None,
    predicate: OnePredicate = None,
    dialect: Dialect = "tidings",
    format: FileFormat = None,
    expires: Expires = None,
    strict: Strict = False,
) -> int:
    """Add or replace the subscriptions of files, or one."""
    from tidings.language.files.subscriptions import SubscriptionFileError
    from tidings.spark.files import joined, read_rows
    from tidings.spark.intake import StoreError

    what = str(context.info_name)
    if bool(files) == (id is not None) or (id is None) != (predicate is None):
        raise typer.BadParameter("name files, or one subscription by --id and --predicate")
    end = None if expires is None else _end("--expires", expires)
    bad: list[BadSubscription] = []
    parts: list[Any] = []
    try:
        for file in files or ():
            rows, wrong = read_rows(source_of(file, format), format, dialect)
            parts.append(rows)
            bad += wrong
    except (SubscriptionFileError, StoreError) as error:
        return _failed(what, str(error))
    if bad and strict:
        _show_bad(bad)
        complain(f"tidings store {what}: nothing was changed (--strict)")
        return 1

    def change(held: Store) -> Commit:
        rows: Any
        if id is not None:
            rows = [(*_as_ids(held, [id]), predicate, dialect)]
        else:
            rows = joined(parts, _has_integers(held))
        return (held.add if what == "add" else held.replace)(rows, strict=strict, expires=end)

    return _carry_out(what, store, change, bad)


@app.command()
def remove(
    store: Folder,
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID", help="The ids; - reads them from the lines of standard input."
        ),
    ],
    strict: Strict = False,
) -> int:
    """Remove subscriptions from the store.

    Exits with 0 if all were removed, 1 if one was not, 2 if the store cannot be read.

    \b
    Example:
      tidings store remove --store alerts ada ben
    """
    given = [line.rstrip("\r\n") for line in sys.stdin] if ids == ["-"] else ids

    def change(held: Store) -> Commit:
        return held.remove(_as_ids(held, given), strict=strict)

    return _carry_out("remove", store, change, [])


@app.command()
def expire(store: Folder) -> int:
    """Remove the subscriptions whose end has come; a stream does so before each batch.

    \b
    Example:
      tidings store expire --store alerts
    """
    from tidings.spark.intake import StoreError
    from tidings.spark.store import Store

    try:
        held = Store(store)
        before = held.snapshot().num_rows
        version = held.expire().version
        after = held.snapshot(version).num_rows
    except StoreError as error:
        return _failed("expire", str(error))
    write(f"version {version}: {before - after} ended; {count(after, 'subscription')}")
    return 0


@app.command("list")
def list_subscriptions(
    store: Folder,
    version: Annotated[int | None, typer.Option(help="The version; by default the newest.")] = None,
    history: Annotated[
        bool, typer.Option("--history", help="List the versions and their changes instead.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="List at most this many; 0 for all.")] = SHOWN,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON lines.")] = False,
) -> int:
    """List the subscriptions of a version, or the versions.

    \b
    Example:
      tidings store list --store alerts --version 3
      tidings store list --store alerts --history
    """
    from tidings.spark.intake import StoreError
    from tidings.spark.store import Store

    try:
        held = Store(store)
        number = held.version() if version is None else version
        if history:
            _write_history(held, limit, as_json)
        else:
            _write_rows(held.snapshot(number, ends=True), number, limit, as_json)
    except StoreError as error:
        return _failed("list", str(error))
    return 0


@app.command()
def compact(
    store: Folder,
    before: Annotated[
        int | None,
        typer.Option(help="Also remove the versions before this one, which no stream may use."),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Also remove the versions that were replaced longer ago (7d, 12h)."
        ),
    ] = None,
) -> int:
    """Save the state of the newest version, so that readers need not apply all changes.

    \b
    Example:
      tidings store compact --store alerts
      tidings store compact --store alerts --keep 7d
    """
    from tidings.spark.intake import StoreError
    from tidings.spark.store import Store

    if before is not None and keep is not None:
        raise typer.BadParameter("name --before or --keep, and not both")
    kept = None if keep is None else _time("--keep", keep)
    try:
        held = Store(store, keep=kept)
        version = held.compact()
        forgotten = held.forget()
        removed = 0 if before is None else held.vacuum(before)
    except StoreError as error:
        return _failed("compact", str(error))
    write(f"saved the state of version {version}")
    if before is not None:
        write(f"removed {count(removed, 'file')} of versions before {before} (older than an hour)")
    if keep is not None:
        write(f"removed {count(forgotten, 'file')} of versions replaced more than {keep} ago")
    return 0


# Times


def _time(option: str, text: str) -> timedelta:
    """A number and its unit."""
    found = TIME.fullmatch(text.strip())
    try:
        if found is None:
            raise OverflowError
        return timedelta(**{UNITS[found[2]]: float(found[1])})
    except OverflowError:
        expected = "a number and a unit (s, m, h, d, w), such as 12h"
        raise typer.BadParameter(f"{option}: expected {expected}, found {text!r}") from None


def _end(option: str, text: str) -> datetime | timedelta:
    """A moment with its zone, or a time from now."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _time(option, text)
    if moment.tzinfo is None:
        raise typer.BadParameter(f"{option}: expected a moment with a zone, found {text!r}")
    return moment


# Changes


def _carry_out(
    what: str, store: str, change: Callable[[Store], Commit], bad: list[BadSubscription]
) -> int:
    """Make a change, and say which subscriptions it changed and which the store refused."""
    from tidings.spark.intake import ChangeRefused, StoreError
    from tidings.spark.store import Store

    try:
        held = Store(store)
        before = held.version() if held.exists() else 0
        commit = change(held)
        made, total = [], None
        if held.exists():
            made = [one for one in held.history() if one.version == commit.version > before]
            total = held.snapshot(commit.version).num_rows
    except StoreError as error:
        return _failed(what, str(error), 1 if isinstance(error, ChangeRefused) else 2)
    _show_bad(bad)
    refused = commit.refused.to_pylist()
    for row in refused[:SHOWN]:
        write(f"{_printable(row['subscription'])}: {colour(_printable(row['reason']), 'red')}")
    if len(refused) > SHOWN:
        write(f"… {len(refused) - SHOWN} more refused")
    changed = sum(one.added + one.removed + one.replaced for one in made)
    refusals = len(bad) + len(refused)
    done = {"add": "added", "remove": "removed", "replace": "replaced"}[what]
    counts = f"{changed} {done}, "
    counts += colour(f"{refusals} refused", "red") if refusals else "0 refused"
    if total is None:
        write(f"no store was made: {counts}")
    else:
        write(f"version {commit.version}: {counts}; {count(total, 'subscription')}")
    return 1 if refusals else 0


def _show_bad(bad: list[BadSubscription]) -> None:
    for one in bad[:SHOWN]:
        place = f"{one.file}:{one.line}" + (f":{one.column}" if one.column is not None else "")
        write(f"{_printable(place)}: {colour(_printable(one.reason), 'red')}")
    if len(bad) > SHOWN:
        write(f"… {len(bad) - SHOWN} more bad subscriptions (tidings check shows them)")


def _has_integers(held: Store) -> bool | None:
    """Whether the ids of a store are integers; None if it has had no subscription yet."""
    if not held.exists() or not held.version():
        return None
    return str(held.snapshot().schema.field("subscription").type) == "int64"


def _as_ids(held: Store, given: list[str]) -> list[str | int]:
    """Ids from the command line, as integers if the ids of the store are."""
    return [_integer(id) for id in given] if _has_integers(held) else [*given]


def _integer(id: str) -> int:
    from tidings.spark.intake import ChangeRefused

    try:
        return int(id)
    except ValueError:
        raise ChangeRefused(
            f"expected an integer as id, as all in this store are, found {id!r:.80}"
        ) from None


# Output


def _write_rows(rows: Any, version: int, limit: int, as_json: bool) -> None:
    shown = rows.slice(0, limit or rows.num_rows).to_pylist()
    if as_json:
        for row in shown:
            fields = {"id": row["subscription"], "predicate": row["predicate"]}
            end = {"expires": row["expires"].isoformat()} if row["expires"] else {}
            dialect = {"dialect": row["dialect"]} if row["dialect"] else {}
            write(json.dumps(fields | dialect | end))
        return
    write(f"version {version}: {count(rows.num_rows, 'subscription')}")
    width = max((len(_printable(str(row["subscription"]))) for row in shown), default=0)
    for row in shown:
        spoken = f"  ({_printable(row['dialect'])})" if row["dialect"] else ""
        name = _printable(str(row["subscription"]))
        end = row["expires"]
        until = f"  (until {end.isoformat(sep=' ', timespec='seconds')})" if end else ""
        write(f"  {name:{min(width, 40)}}  {_printable(row['predicate'])}{spoken}{until}")
    if rows.num_rows > len(shown):
        write(f"  … {rows.num_rows - len(shown)} more (--limit 0 lists all)")


def _write_history(held: Store, limit: int, as_json: bool) -> None:
    changes = held.history()
    for change in changes[-limit:] if limit else changes:
        at = change.at.isoformat(sep=" ", timespec="seconds")
        if as_json:
            write(json.dumps(change._asdict() | {"at": change.at.isoformat()}))
        else:
            write(
                f"version {change.version}  {at}  "
                f"{change.added} added, {change.removed} removed, {change.replaced} replaced"
            )


def _printable(text: str) -> str:
    from tidings.language.explanation import printable

    return printable(text)


def _failed(what: str, message: str, code: int = 2) -> int:
    complain(f"tidings store {what}: {_printable(message)} (see tidings store {what} --help)")
    return code
