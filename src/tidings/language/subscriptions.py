"""Subscriptions, and the files they come in: CSV, JSON lines, plain text, each perhaps gzipped.

A file is read as a stream and never held whole (but for its ids, to find duplicates). What is wrong
with one subscription makes it a `BadSubscription` and reading goes on; what is wrong with the file
raises `SubscriptionFileError`. A format is two functions and a row in `FORMATS`: `read` turns lines
of bytes into records, `column` says where in a line of the file a mistake in a predicate stands.
Ids, duplicates and predicates are judged in one place, after them.

CSV is taken apart here and not by the `csv` module: that one has a single limit on fields for the
whole process, does not say where a field begins, takes `"a b" = 3` for `a b = 3`, and loses the
rest of the file to one quote that is not closed.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple

from tidings.language.constraint import INT_MAX, INT_MIN
from tidings.language.errors import PredicateError
from tidings.language.predicate import Predicate, parse

Id = str | int

MAX_RECORD_BYTES: Final = 8 * 1024 * 1024  # of a line, and of a CSV record that spans lines
MAX_ID: Final = 1_024  # characters
MAX_TEXT_KEPT: Final = 1_000  # characters of a bad line or predicate

_BOM: Final = b"\xef\xbb\xbf"
_GZIP: Final = b"\x1f\x8b"  # no text in UTF-8 begins like this


class Subscription(NamedTuple):
    """An id and a predicate, and the line of its file on which it begins."""

    id: Id
    predicate: Predicate
    line: int


@dataclass(frozen=True, slots=True)
class BadSubscription:
    """A subscription that cannot be taken, and where and why.

    `line` counts from 1 and is where the record begins, also where a CSV record spans lines.
    `column` counts characters from 1 in that line of the file, not in the predicate; it is None
    where the mistake has no place, or stands on a later line of the record. `text` is the predicate
    where there is one, else the line, and only its beginning if it is long. `error` is the
    predicate's own, with the whole text, and the line and column in it.
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
    """A file that cannot be read as one of subscriptions."""

    def __init__(self, file: str, expected: str, found: str) -> None:
        self.file = file
        self.expected = expected
        self.found = found
        super().__init__(f"{file}: expected {expected}, found {found}")

    def __reduce__(self) -> tuple[type[SubscriptionFileError], tuple[str, str, str]]:
        """Rebuild from the facts, so that the error survives the way from a worker process."""
        return SubscriptionFileError, (self.file, self.expected, self.found)


def read_subscriptions(
    source: str | os.PathLike[str] | BinaryIO, format: str | None = None
) -> Iterator[Subscription | BadSubscription]:
    """The subscriptions of a file or of a stream of bytes, one by one.

    `format` is `csv`, `jsonl` or `text`; a file's name tells it too: `.csv`, `.jsonl` or `.ndjson`,
    `.txt`. Compressed content (`.csv.gz`) is noticed by itself. The file is opened when the first
    subscription is asked for, and closed after the last; a stream is left open.

    - `csv`: a header with the columns `id` and `predicate`, in any order among others. Every record
      has as many fields as the header; empty lines are skipped.
    - `jsonl`: on each line `{"id": …, "predicate": "…"}`, perhaps among other fields. The id is
      text or a 64-bit integer, and `7` is another id than `"7"`. Empty lines are skipped.
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
    lines_by_id: dict[Id, int] = {}
    with _opened(source, file) as stream:
        for record in form.read(_Lines(stream, file)):
            if isinstance(record, BadSubscription):
                yield record
                continue
            line, id, text, origin = record
            fault = _id_fault(id)
            if fault is None:
                first = lines_by_id.setdefault(id, line)
                if first != line:
                    shown = _shorten(repr(id), 80)
                    fault = "an id used once", f"{shown} a second time (first on line {first})"
            if fault is not None:
                shown_id = None if id == "" else id[:MAX_ID] if isinstance(id, str) else id
                yield BadSubscription(file, line, None, shown_id, *fault, _kept(text))
                continue
            try:
                predicate = parse(text)
            except PredicateError as error:
                column = form.column(origin, error)
                expected, found = error.expected, error.found
                yield BadSubscription(file, line, column, id, expected, found, _kept(text), error)
                continue
            yield Subscription(id, predicate, line)


def _id_fault(id: Id) -> tuple[str, str] | None:
    """What is wrong with an id: what was expected and what was found."""
    if type(id) is int:
        return None if INT_MIN <= id <= INT_MAX else ("an integer of 64 bit as id", "a larger one")
    assert isinstance(id, str)
    if not id or id.isspace():
        return "an id", "an empty one"
    if len(id) > MAX_ID:
        return f"an id of at most {MAX_ID} characters", f"one of {len(id)}"
    if "\0" in id:
        return "an id without NUL characters", _shorten(repr(id), 80)
    return None


def _kept(text: str) -> str:
    return text if len(text) <= MAX_TEXT_KEPT else text[: MAX_TEXT_KEPT - 1] + "…"


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


# Files


def _name_of(source: str | os.PathLike[str] | BinaryIO) -> str:
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
        f"a name that ends in one of {endings} (or these with .gz), or the format to be given",
        "neither",
    )


@contextmanager
def _opened(source: str | os.PathLike[str] | BinaryIO, file: str) -> Iterator[BinaryIO]:
    """The stream of bytes, decompressed, with the errors of reading it made ours."""
    try:
        if isinstance(source, str | os.PathLike):
            with open(source, "rb") as opened:
                yield _decompressed(opened)
        elif isinstance(source, io.TextIOBase):
            raise TypeError("expected a stream of bytes, found one of text (open it in mode 'rb')")
        else:
            yield _decompressed(source)
    except FileNotFoundError:
        raise SubscriptionFileError(file, "a file", "none of this name") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise SubscriptionFileError(file, "a file that can be read", reason) from error


def _decompressed(stream: BinaryIO) -> BinaryIO:
    buffered: Any = stream if hasattr(stream, "peek") else io.BufferedReader(_Raw(stream))
    if buffered.peek(2)[:2] == _GZIP:
        # GzipFile reads lines slowly by itself.
        buffered = io.BufferedReader(gzip.GzipFile(fileobj=buffered), 256 * 1024)
    return buffered  # type: ignore[no-any-return]


class _Raw(io.RawIOBase):
    """A stream that can only `read`, for a buffer to be put around it; leaves the stream open."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.stream.read(len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)


class _Lines:
    """The lines of a stream as bytes, with their ends; `number` is that of the last, from 1.

    Where a line is longer than the bound, its beginning stands for it and the rest is skipped.
    """

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self.stream = stream
        self.file = file
        self.number = 0

    def __iter__(self) -> Iterator[bytes]:
        readline = self.stream.readline
        while raw := readline(MAX_RECORD_BYTES + 1):
            self.number += 1
            if self.number == 1:
                raw = raw.removeprefix(_BOM)
            if len(raw) > MAX_RECORD_BYTES:
                rest = raw
                while rest and not rest.endswith(b"\n"):
                    rest = readline(MAX_RECORD_BYTES)
            yield raw

    def bad(
        self,
        line: int,
        raw: bytes,
        expected: str,
        found: str,
        column: int | None = None,
        id: Id | None = None,
    ) -> BadSubscription:
        """A line that is no subscription."""
        text = _kept(raw[: 4 * MAX_TEXT_KEPT].decode("utf-8", "replace").rstrip("\r\n"))
        return BadSubscription(self.file, line, column, id, expected, found, text)

    def unreadable(self, line: int, raw: bytes) -> BadSubscription | None:
        """What is wrong with a line whatever its format: too long, or no UTF-8."""
        if len(raw) > MAX_RECORD_BYTES:
            return self.bad(
                line, raw, f"a line of at most {MAX_RECORD_BYTES} bytes", "a longer one"
            )
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            column = len(raw[: error.start].decode()) + 1
            return self.bad(line, raw, "UTF-8", f"the byte 0x{raw[error.start]:02x}", column)
        return None


# Line of the file, id, predicate, and whatever `column` needs to find the place of a mistake.
_Record = tuple[int, Id, str, Any]
_Read = Callable[[_Lines], Iterable[_Record | BadSubscription]]


class _Format(NamedTuple):
    read: _Read
    column: Callable[[Any, PredicateError], int | None]


# Plain text


def _read_text(lines: _Lines) -> Iterator[_Record | BadSubscription]:
    for raw in lines:
        bad = None
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            bad = lines.unreadable(lines.number, raw)
        if len(raw) > MAX_RECORD_BYTES:
            bad = lines.unreadable(lines.number, raw)
        if bad is not None:
            yield bad
            continue
        parts = text.split(None, 1)
        if len(parts) == 2 and parts[0][0] != "#":
            yield lines.number, parts[0], parts[1].rstrip(), text
        elif len(parts) == 1 and parts[0][0] != "#":
            expected = "an id, white space and a predicate"
            yield lines.bad(lines.number, raw, expected, "one word", id=parts[0][:MAX_ID])


def _text_column(line: str, error: PredicateError) -> int | None:
    id = line.split(None, 1)[0]
    after = line.index(id) + len(id)
    space = len(line) - after - len(line[after:].lstrip())
    return after + space + error.position + 1


# JSON lines


def _read_jsonl(lines: _Lines) -> Iterator[_Record | BadSubscription]:
    import msgspec  # here, so that `import tidings` stays light

    class Row(msgspec.Struct):
        id: Id
        predicate: str

    decode = msgspec.json.Decoder(Row).decode
    for raw in lines:
        try:
            row = decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            if raw.strip():
                yield _bad_json(lines, raw)
            continue
        if len(raw) > MAX_RECORD_BYTES:  # and white space from where it was cut
            yield _bad_json(lines, raw)
            continue
        yield lines.number, row.id, row.predicate, raw


def _bad_json(lines: _Lines, raw: bytes) -> BadSubscription:
    """What is wrong with a line that did not decode."""
    import msgspec

    number = lines.number
    unreadable = lines.unreadable(number, raw)
    if unreadable is not None:
        return unreadable
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        found = "nesting too deep" if isinstance(error, RecursionError) else str(error)
        found = re.sub(r"JSON is malformed: | \(byte \d+\)", "", found)
        found = found.replace("Input data was truncated", "the end of the line")
        return lines.bad(number, raw, "JSON", found, json_position(raw, str(error)) + 1)
    if not isinstance(value, dict):
        return lines.bad(number, raw, "a JSON object", _JSON_KINDS[type(value)])
    id = value.get("id") if type(value.get("id")) in (str, int) else None
    if isinstance(id, str):
        id = id[:MAX_ID]
    if "id" not in value or "predicate" not in value:
        missing = "predicate" if "id" in value else "id"
        return lines.bad(number, raw, f'a field "{missing}"', "none", id=id)
    if id is None:
        wanted, kind = 'text or an integer as "id"', _JSON_KINDS[type(value["id"])]
    else:
        wanted, kind = 'text as "predicate"', _JSON_KINDS[type(value["predicate"])]
    return lines.bad(number, raw, wanted, kind, id=id)


def json_position(raw: bytes, message: str) -> int:
    """The character, from 0, that msgspec means by the byte in its message; the end if it has none.

    >>> json_position('{"ü": 1,}'.encode(), "JSON is malformed: … (byte 9)")
    8
    """
    place = re.search(r"\(byte (\d+)\)", message)
    if place is None:
        return len(raw.rstrip().decode("utf-8", "replace"))
    # What trails is named by the byte after its first.
    at = int(place[1]) - ("trailing characters" in message)
    return len(raw[:at].decode("utf-8", "ignore"))


_JSON_KINDS: Final[dict[type, str]] = {
    str: "text",
    int: "an integer",
    float: "a real",
    bool: "a boolean",
    type(None): "null",
    list: "a list",
    dict: "an object",
}
_JSON_PREDICATE: Final = re.compile(r'"predicate"\s*:\s*"((?:[^"\\]|\\.)*)"')
_JSON_CHARACTER: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u[0-9a-fA-F]{4}|\\.|[^\\]"
)


def _json_column(raw: bytes, error: PredicateError) -> int | None:
    line = raw.decode()
    written = list(_JSON_PREDICATE.finditer(line))
    if len(written) != 1:
        return None
    characters = _JSON_CHARACTER.findall(written[0][1])
    if len(characters) != len(error.text):  # the field's name was written with escapes elsewhere
        return None
    return written[0].start(1) + sum(map(len, characters[: error.position])) + 1


# CSV

_QUOTED: Final = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')
_TO_QUOTE: Final = re.compile(r'([^"]*+(?:""[^"]*+)*+)"')


class _Place(NamedTuple):
    """Where a field begins."""

    line: int
    column: int  # of the first character, within the quotes if there are any, from 0
    quoted: bool


# Line, its bytes, the fields, and their places; none where the line has no quotes.
_Row = tuple[int, bytes, list[str], list[_Place]]


class _BrokenRecord(Exception):
    """A record that does not keep the rules of quotes: column, what was expected, what found."""


class _Rows:
    """The records of a CSV file (RFC 4180)."""

    def __init__(self, lines: _Lines) -> None:
        self.lines = lines
        self.fresh = iter(lines)
        self.again: deque[tuple[int, bytes]] = deque()  # lines to be read a second time
        self.taken: list[tuple[int, bytes]] = []  # lines of the present record but the first

    def next_line(self) -> tuple[int, bytes] | None:
        if self.again:
            return self.again.popleft()
        raw = next(self.fresh, None)
        return None if raw is None else (self.lines.number, raw)

    def __iter__(self) -> Iterator[_Row | BadSubscription]:
        while (numbered := self.next_line()) is not None:
            line, raw = numbered
            if b'"' in raw and len(raw) <= MAX_RECORD_BYTES:
                yield self.quoted_row(line, raw)
                continue
            bad = None
            try:
                text = raw.decode().rstrip("\r\n")
            except UnicodeDecodeError:
                bad = self.lines.unreadable(line, raw)
            if len(raw) > MAX_RECORD_BYTES:
                bad = self.lines.unreadable(line, raw)
            if bad is not None:
                yield bad
            elif text:
                yield line, raw, text.split(","), []

    def quoted_row(self, line: int, raw: bytes) -> _Row | BadSubscription:
        """A record with quotes, which may take further lines."""
        self.taken = []
        text = raw.decode("utf-8", "surrogateescape")
        try:
            fields, places = self.fields(line, text)
        except _BrokenRecord as broken:
            column, expected, found = broken.args
            # A quote left open takes in what follows, so only the line it stands on is given up. No
            # line is read a third time: the next line with such a quote ends what this one began.
            self.again.extendleft(reversed(self.taken))
            return self.lines.bad(line, raw, expected, found, column)
        for number, one in [(line, raw), *self.taken]:
            bad = None if one.isascii() else self.lines.unreadable(number, one)
            if bad is not None:
                found = bad.found if number == line else f"{bad.found} on line {number}"
                column = bad.column if number == line else None
                return self.lines.bad(line, raw, bad.expected, found, column)
        return line, raw, fields, places

    def fields(self, first_line: int, text: str) -> tuple[list[str], list[_Place]]:
        """Take a record apart, reading more lines while a quote is open."""
        fields: list[str] = []
        places: list[_Place] = []
        line, position = first_line, 0
        while True:
            if text.startswith('"', position):
                places.append(_Place(line, position + 1, quoted=True))
                closed = _QUOTED.match(text, position)
                if closed is not None:
                    content, end = closed[1], closed.end()
                else:
                    content, line, text, end = self.open_field(text, position)
                fields.append(content.replace('""', '"'))
            else:
                places.append(_Place(line, position, quoted=False))
                comma = text.find(",", position)
                end = comma if comma >= 0 else len(text.rstrip("\r\n"))
                fields.append(text[position:end])
            if text.startswith(",", end):
                position = end + 1
            elif text[end:] in ("", "\n", "\r\n"):
                return fields, places
            else:
                column = end + 1 if line == first_line else None
                expected = 'a comma or the end after a quoted field (a quote within is doubled: "")'
                raise _BrokenRecord(column, expected, repr(text[end]))

    def open_field(self, text: str, position: int) -> tuple[str, int, str, int]:
        """A quoted field that does not end on its line: content, then line and place of its end."""
        column = None if self.taken else position + 1
        parts = [text[position + 1 :]]
        size = len(text)
        while (numbered := self.next_line()) is not None:
            self.taken.append(numbered)
            line, raw = numbered
            size += len(raw)
            if size > MAX_RECORD_BYTES:
                expected = f"a closing double quote within {MAX_RECORD_BYTES} bytes"
                raise _BrokenRecord(column, expected, "none")
            text = raw.decode("utf-8", "surrogateescape")
            closing = _TO_QUOTE.match(text)
            if closing is not None:
                return "".join([*parts, closing[1]]), line, text, closing.end()
            parts.append(text)
        raise _BrokenRecord(column, "a closing double quote", "the end of the file")


def _read_csv(lines: _Lines) -> Iterator[_Record | BadSubscription]:
    rows = iter(_Rows(lines))
    width, id_at, predicate_at = _read_header(lines, next(rows, None))
    for row in rows:
        if isinstance(row, BadSubscription):
            yield row
            continue
        line, raw, fields, _ = row
        if len(fields) == width:
            yield line, fields[id_at], fields[predicate_at], (row, predicate_at)
            continue
        expected = f"{width} fields like the header"
        if len(fields) > width:
            expected += " (a field that holds a comma stands in double quotes)"
        yield lines.bad(line, raw, expected, str(len(fields)))


def _read_header(lines: _Lines, header: _Row | BadSubscription | None) -> tuple[int, int, int]:
    """How many fields a record has, and which of them are the id and the predicate."""
    expected = "a CSV header with the columns id and predicate, once each"
    if header is None:
        raise SubscriptionFileError(lines.file, expected, "an empty file")
    if isinstance(header, BadSubscription):
        found = f"a first line that is none ({header.reason})"
        raise SubscriptionFileError(lines.file, expected, found)
    names = [field.strip() for field in header[2]]
    if names.count("id") != 1 or names.count("predicate") != 1:
        found = f"the columns {_shorten(', '.join(map(repr, names)), 200)}"
        raise SubscriptionFileError(lines.file, expected, found)
    return len(names), names.index("id"), names.index("predicate")


def _csv_column(origin: tuple[_Row, int], error: PredicateError) -> int | None:
    (line, _, fields, places), predicate_at = origin
    if not places:
        before = fields[:predicate_at]
        return sum(map(len, before)) + len(before) + error.position + 1
    place = places[predicate_at]
    if place.line != line or error.line != 1:
        return None
    doubled = error.text[: error.position].count('"') if place.quoted else 0
    return place.column + error.position + doubled + 1


FORMATS: Final[dict[str, _Format]] = {
    "csv": _Format(_read_csv, _csv_column),
    "jsonl": _Format(_read_jsonl, _json_column),
    "text": _Format(_read_text, _text_column),
}
_ENDINGS: Final = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "text"}
