"""Reads subscriptions from CSV with a header that names the columns `id` and `predicate`.

These columns may stand in any order among others. A column `dialect` names the dialect of each
predicate; if it is empty, the dialect of the file applies.

Every record has as many fields as the header, and may span lines within quotes (RFC 4180). Empty
lines are skipped.

This module does not use the `csv` module, which has one limit on the size of fields for the whole
process, does not say where a field begins, reads `"a b" = 3` as `a b = 3`, and loses the rest of
the file if one quote is not closed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidings.language.errors import PredicateError
from tidings.language.files.lines import BadLine, Lines, Record, UnreadableFile

_QUOTED: Final = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')
_TO_QUOTE: Final = re.compile(r'([^"]*+(?:""[^"]*+)*+)"')


class _Place(NamedTuple):
    """Where a field begins."""

    line: int
    column: int  # of the first character, within the quotes if there are any, from 0
    quoted: bool


# Line number, bytes of the line, fields, and their places; no places if the line has no quotes.
_Row = tuple[int, bytes, list[str], list[_Place]]


class _BrokenRecord(Exception):
    """A record with misplaced quotes; arguments: column, what was expected, what was found."""


class Rows:
    """The records of a CSV file (RFC 4180)."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.unread = iter(lines)
        self.again: deque[tuple[int, bytes]] = deque()  # lines to be read a second time
        self.taken: list[tuple[int, bytes]] = []  # lines of the current record after the first

    def next_line(self) -> tuple[int, bytes] | None:
        if self.again:
            return self.again.popleft()
        raw = next(self.unread, None)
        return None if raw is None else (self.lines.number, raw)

    def __iter__(self) -> Iterator[_Row | BadLine]:
        while (numbered := self.next_line()) is not None:
            line, raw = numbered
            if b'"' in raw and len(raw) <= self.lines.max_bytes:
                yield self.quoted_row(line, raw)
                continue
            text = self.lines.decode(line, raw)
            if isinstance(text, BadLine):
                yield text
            elif text := text.rstrip("\r\n"):
                yield line, raw, text.split(","), []

    def quoted_row(self, line: int, raw: bytes) -> _Row | BadLine:
        """A record with quotes, which may span lines."""
        self.taken = []
        text = raw.decode("utf-8", "surrogateescape")
        try:
            fields, places = self.fields(line, text)
        except _BrokenRecord as broken:
            column, expected, found = broken.args
            # An open quote swallows the lines after it, so only its own line is given up and the
            # others are read again. No line is read a third time: the next line with such a quote
            # closes the open one.
            self.again.extendleft(reversed(self.taken))
            return BadLine(line, raw, expected, found, column)
        for number, one in [(line, raw), *self.taken]:
            bad = None if one.isascii() else self.lines.decode(number, one)
            if isinstance(bad, BadLine):
                found = bad.found if number == line else f"{bad.found} on line {number}"
                column = bad.column if number == line else None
                return BadLine(line, raw, bad.expected, found, column)
        return line, raw, fields, places

    def fields(self, first_line: int, text: str) -> tuple[list[str], list[_Place]]:
        """Split a record into fields; reads more lines while a quote is open."""
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
        """A quoted field that ends on a later line: content, and the line and place of its end."""
        column = None if self.taken else position + 1
        parts = [text[position + 1 :]]
        size = len(text)
        while (numbered := self.next_line()) is not None:
            self.taken.append(numbered)
            line, raw = numbered
            size += len(raw)
            if size > self.lines.max_bytes:
                expected = f"a closing double quote within {self.lines.max_bytes} bytes"
                raise _BrokenRecord(column, expected, "none")
            text = raw.decode("utf-8", "surrogateescape")
            closing = _TO_QUOTE.match(text)
            if closing is not None:
                return "".join([*parts, closing[1]]), line, text, closing.end()
            parts.append(text)
        raise _BrokenRecord(column, "a closing double quote", "the end of the file")


def read(lines: Lines) -> Iterator[Record | BadLine]:
    """The subscriptions of a CSV file."""
    rows = iter(Rows(lines))
    width, id_at, predicate_at, dialect_at = _read_header(next(rows, None))
    for row in rows:
        if isinstance(row, BadLine):
            yield row
            continue
        line, raw, fields, _ = row
        if len(fields) == width:
            dialect = None if dialect_at is None else fields[dialect_at].strip() or None
            yield line, fields[id_at], fields[predicate_at], dialect, (row, predicate_at)
            continue
        expected = f"{width} fields like the header"
        if len(fields) > width:
            expected += " (a field that holds a comma stands in double quotes)"
        yield BadLine(line, raw, expected, str(len(fields)))


def _read_header(header: _Row | BadLine | None) -> tuple[int, int, int, int | None]:
    """How many fields a record has, and where the id, the predicate and the dialect are."""
    expected = "a CSV header with the columns id and predicate, once each"
    if header is None:
        raise UnreadableFile(expected, "an empty file")
    if isinstance(header, BadLine):
        found = f"an invalid first line (expected {header.expected}, found {header.found})"
        raise UnreadableFile(expected, found)
    names = [field.strip() for field in header[2]]
    if names.count("id") != 1 or names.count("predicate") != 1 or names.count("dialect") > 1:
        shown = ", ".join(map(repr, names))
        shown = shown if len(shown) <= 200 else shown[:199] + "…"
        raise UnreadableFile(expected, f"the columns {shown}")
    dialect_at = names.index("dialect") if "dialect" in names else None
    return len(names), names.index("id"), names.index("predicate"), dialect_at


def column(origin: tuple[_Row, int], error: PredicateError) -> int | None:
    """The column of a mistake in a predicate; None if it is on a later line of the record."""
    (line, _, fields, places), predicate_at = origin
    if not places:
        before = fields[:predicate_at]
        return sum(map(len, before)) + len(before) + error.position + 1
    place = places[predicate_at]
    if place.line != line or error.line != 1:
        return None
    doubled = error.text[: error.position].count('"') if place.quoted else 0
    return place.column + error.position + doubled + 1
