"""Reads subscriptions from plain text: on each line an id, white space, a predicate.

Empty lines and those that begin with `#` are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.language.errors import PredicateError
from tidings.language.files.lines import BadLine, Lines, Record


def read(lines: Lines) -> Iterator[Record | BadLine]:
    """The subscriptions of a text file."""
    for raw in lines:
        text = lines.decode(lines.number, raw)
        if isinstance(text, BadLine):
            yield text
            continue
        parts = text.split(None, 1)
        if not parts or parts[0][0] == "#":
            continue
        if len(parts) == 2:
            yield lines.number, parts[0], parts[1].rstrip(), None, text
        else:
            expected = "an id, white space and a predicate"
            yield BadLine(lines.number, raw, expected, "one word", id=parts[0])


def column(line: str, error: PredicateError) -> int | None:
    """The column of a mistake in a predicate."""
    id = line.split(None, 1)[0]
    after = line.index(id) + len(id)
    space = len(line) - after - len(line[after:].lstrip())
    return after + space + error.position + 1
