"""Reads files of subscriptions: CSV, JSON lines or plain text, also compressed with gzip.

It reads a file as a stream and never holds it whole, except its ids, to find duplicates. A mistake
in one subscription gives a `BadSubscription`, and reading continues; a mistake in the file raises
`SubscriptionFileError`. A format is a module with two functions and a row in `FORMATS`: `read`
turns lines of bytes into records, and `column` says where in a line a mistake in a predicate is.
This module then checks ids, duplicates and predicates.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidings.language.constraint import INT_MAX, INT_MIN
from tidings.language.dialects import DIALECTS, dialect_named
from tidings.language.errors import PredicateError
from tidings.language.files import csv_rows, json_rows, text_rows
from tidings.language.files.lines import BadLine, Id, Lines, Record, Source, UnreadableFile, opened
from tidings.language.predicate import Predicate, parse

MAX_ID: Final = 1_024  # characters
MAX_TEXT_KEPT: Final = 1_000  # characters of a bad line or predicate


class Subscription(NamedTuple):
    """An id, a predicate, and the line of the file on which it begins."""

    id: Id
    predicate: Predicate
    line: int


@dataclass(frozen=True, slots=True)
class BadSubscription:
    """A subscription that cannot be read, with where and why.

    `line` counts from 1 and is the line on which the record begins. `column` counts characters from
    1 in that line of the file, not in the predicate; it is None if the mistake has no place or is
    on a later line of the record. `text` is the predicate if there is one, else the line; a long
    text is cut. `error` is the error of the predicate itself, with its whole text and the line and
    column in that.
    """

    file: str
    line: int
    column: int | None
    id: Id | None
    expected: str
    found: str
    text: str
    error: PredicateError | None = None

    @property
    def reason(self) -> str:
        """What is wrong, in one line."""
        return f"expected {self.expected}, found {self.found}"


class SubscriptionFileError(ValueError):
    """A file that cannot be read as a file of subscriptions."""

    def __init__(self, file: str, expected: str, found: str) -> None:
        self.file = file
        self.expected = expected
        self.found = found
        super().__init__(f"{file}: expected {expected}, found {found}")

    def __reduce__(self) -> tuple[type[SubscriptionFileError], tuple[str, str, str]]:
        """Pickle by the constructor's arguments, so the error can come from a worker process."""
        return SubscriptionFileError, (self.file, self.expected, self.found)


def read_subscriptions(
    source: Source, format: str | None = None, dialect: str = "tidings"
) -> Iterator[Subscription | BadSubscription]:
    """The subscriptions of a file or of a stream of bytes, one by one.

    `format` is `csv`, `jsonl` or `text`; without it, the end of the file's name decides: `.csv`,
    `.jsonl` or `.ndjson`, `.txt`. Compressed content (`.csv.gz`) is detected. The file is opened
    when the first subscription is needed and closed after the last; a stream is left open.

    `dialect` applies to predicates for which the file names none in a column or field `dialect`.

    - `csv`: a header with the columns `id` and `predicate`, in any order among others. Every record
      has as many fields as the header; empty lines are skipped.
    - `jsonl`: on each line `{"id": …, "predicate": "…"}`; other fields are ignored. The id is text
      or a 64-bit integer; `7` and `"7"` are different ids. Empty lines are skipped.
    - `text`: on each line an id, white space, a predicate. Empty lines and those that begin with
      `#` are skipped.

    >>> import io
    >>> for one in read_subscriptions(io.BytesIO(b"a  x > 1\\nb  x >\\n"), "text"):
    ...     print(one.predicate if isinstance(one, Subscription) else one.reason)
    x > 1
    expected a number or a text (texts stand in single quotes), found the end of the text
    """
    file = _name_of(source)
    form = _format_of(file, format)
    dialect_named(dialect)
    try:
        with opened(source) as lines:
            yield from _judged(file, form, form.read(lines), dialect)
    except UnreadableFile as error:
        raise SubscriptionFileError(file, error.expected, error.found) from error.__cause__


def _judged(
    file: str, form: _Format, records: Iterable[Record | BadLine], default: str
) -> Iterator[Subscription | BadSubscription]:
    """Check the ids and predicates of the records that a format has read."""
    lines_by_id: dict[Id, int] = {}
    for record in records:
        if isinstance(record, BadLine):
            yield _bad_subscription(file, record)
            continue
        line, id, text, dialect, origin = record
        fault = _id_fault(id)
        if fault is None:
            first = lines_by_id.setdefault(id, line)
            if first != line:
                shown = _shorten(repr(id), 80)
                fault = "an id used once", f"{shown} a second time (first on line {first})"
        if fault is None and dialect is not None and dialect not in DIALECTS:
            fault = f"a dialect ({', '.join(DIALECTS)})", _shorten(repr(dialect), 80)
        if fault is not None:
            shown_id = None if id == "" else _cut_id(id)
            yield BadSubscription(file, line, None, shown_id, *fault, _kept(text))
            continue
        try:
            predicate = parse(text, dialect=dialect or default)
        except PredicateError as error:
            column = form.column(origin, error)
            expected, found = error.expected, error.found
            yield BadSubscription(file, line, column, id, expected, found, _kept(text), error)
            continue
        yield Subscription(id, predicate, line)


def _bad_subscription(file: str, bad: BadLine) -> BadSubscription:
    text = bad.raw[: 4 * MAX_TEXT_KEPT].decode("utf-8", "replace").rstrip("\r\n")
    id = None if bad.id is None else _cut_id(bad.id)
    return BadSubscription(file, bad.line, bad.column, id, bad.expected, bad.found, _kept(text))


def _id_fault(id: Id) -> tuple[str, str] | None:
    """What is wrong with an id: what was expected and what was found."""
    if type(id) is int:
        return None if INT_MIN <= id <= INT_MAX else ("a 64-bit integer as id", "a larger one")
    assert isinstance(id, str)
    if not id or id.isspace():
        return "an id", "an empty one"
    if len(id) > MAX_ID:
        return f"an id of at most {MAX_ID} characters", f"one of {len(id)}"
    if "\0" in id:
        return "an id without NUL characters", _shorten(repr(id), 80)
    return None


def _cut_id(id: Id) -> Id:
    return id[:MAX_ID] if isinstance(id, str) else id


def _kept(text: str) -> str:
    return _shorten(text, MAX_TEXT_KEPT)


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _name_of(source: Source) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<stream>"


def _format_of(file: str, format: str | None) -> _Format:
    if format is not None:
        if format not in FORMATS:
            raise ValueError(f"expected a format ({', '.join(FORMATS)}), found {format!r}")
        return FORMATS[format]
    name = file.lower().removesuffix(".gz")
    for ending, known in _ENDINGS.items():
        if name.endswith(ending):
            return FORMATS[known]
    endings = ", ".join(_ENDINGS)
    raise SubscriptionFileError(
        file,
        f"a name that ends in one of {endings} (or these with .gz), or an explicit format",
        "neither",
    )


class _Format(NamedTuple):
    read: Callable[[Lines], Iterable[Record | BadLine]]
    column: Callable[[Any, PredicateError], int | None]


FORMATS: Final = {
    "csv": _Format(csv_rows.read, csv_rows.column),
    "jsonl": _Format(json_rows.read, json_rows.column),
    "text": _Format(text_rows.read, text_rows.column),
}
_ENDINGS: Final = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "text"}
