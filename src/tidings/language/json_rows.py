"""Subscriptions in JSON lines: on each `{"id": …, "predicate": "…"}`, perhaps among other fields.

The id is text or an integer, and `7` is another id than `"7"`. Empty lines are skipped.

A line is decoded straight into the two fields; only one for which that fails is decoded a second
time, to say what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tidings.language.errors import PredicateError
from tidings.language.json_errors import json_position, json_reason
from tidings.language.lines import BadLine, Id, Lines, Record

_KINDS: Final[dict[type, str]] = {
    str: "text",
    int: "an integer",
    float: "a real",
    bool: "a boolean",
    type(None): "null",
    list: "a list",
    dict: "an object",
}
_PREDICATE: Final = re.compile(r'"predicate"\s*:\s*"((?:[^"\\]|\\.)*)"')
_CHARACTER: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u[0-9a-fA-F]{4}|\\.|[^\\]"
)


def read(lines: Lines) -> Iterator[Record | BadLine]:
    """The subscriptions of a file of JSON lines."""
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
                yield _bad_line(lines, raw)
            continue
        if len(raw) > lines.max_bytes:  # and white space from where it was cut
            yield _bad_line(lines, raw)
            continue
        yield lines.number, row.id, row.predicate, raw


def _bad_line(lines: Lines, raw: bytes) -> BadLine:
    """What is wrong with a line that did not decode."""
    import msgspec

    number = lines.number
    text = lines.decode(number, raw)
    if isinstance(text, BadLine):
        return text
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        message = str(error)
        if isinstance(error, RecursionError):
            found = "nesting too deep"
        elif "truncated" in message:
            found = "the end of the line"
        else:
            found = json_reason(message)
        return BadLine(number, raw, "JSON", found, json_position(raw, message) + 1)
    if not isinstance(value, dict):
        return BadLine(number, raw, "a JSON object", _KINDS[type(value)])
    id = value.get("id") if type(value.get("id")) in (str, int) else None
    if "id" not in value or "predicate" not in value:
        missing = "predicate" if "id" in value else "id"
        return BadLine(number, raw, f'a field "{missing}"', "none", id=id)
    if id is None:
        wanted, kind = 'text or an integer as "id"', _KINDS[type(value["id"])]
    else:
        wanted, kind = 'text as "predicate"', _KINDS[type(value["predicate"])]
    return BadLine(number, raw, wanted, kind, id=id)


def column(raw: bytes, error: PredicateError) -> int | None:
    """Where in its line a mistake in a predicate stands; None where that cannot be told."""
    line = raw.decode()
    written = list(_PREDICATE.finditer(line))
    if len(written) != 1:
        return None
    characters = _CHARACTER.findall(written[0][1])
    if len(characters) != len(error.text):  # the field's name was written with escapes elsewhere
        return None
    return written[0].start(1) + sum(map(len, characters[: error.position])) + 1
