"""Reads subscriptions from JSON lines: each is `{"id": …, "predicate": "…"}`.

Other fields are ignored, and empty lines are skipped. The id is text or an integer; `7` and `"7"`
are different ids. A field `dialect` names the dialect of the predicate; if that dialect is JSON,
the predicate may be an object instead of a text.

A line is decoded straight into the fields. Only if that fails is it decoded a second time, to find
an object as its predicate or to say what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tidings.language.errors import PredicateError
from tidings.language.files.lines import BadLine, Id, Lines, Record
from tidings.language.json_errors import json_position, json_reason

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
        dialect: str | None = None

    pattern_row: Any = msgspec.defstruct(
        "PatternRow", [("id", Id), ("predicate", msgspec.Raw), ("dialect", str | None, None)]
    )
    decode = msgspec.json.Decoder(Row).decode
    decode_pattern = msgspec.json.Decoder(pattern_row).decode
    for raw in lines:
        try:
            row = decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            try:
                pattern = decode_pattern(raw)
                text = bytes(pattern.predicate).decode()
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                text = ""
            if text.startswith("{") and len(raw) <= lines.max_bytes:
                yield lines.number, pattern.id, text, pattern.dialect, raw
            elif raw.strip():
                yield _bad_line(lines, raw)
            continue
        if len(raw) > lines.max_bytes:  # too long, although its beginning can be decoded
            yield _bad_line(lines, raw)
            continue
        yield lines.number, row.id, row.predicate, row.dialect, raw


def _bad_line(lines: Lines, raw: bytes) -> BadLine:
    """What is wrong with a line that could not be decoded."""
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
    elif type(value["predicate"]) not in (str, dict):
        wanted, kind = 'text as "predicate"', _KINDS[type(value["predicate"])]
    else:
        wanted, kind = 'text as "dialect"', _KINDS[type(value.get("dialect"))]
    return BadLine(number, raw, wanted, kind, id=id)


def column(raw: bytes, error: PredicateError) -> int | None:
    """The column of a mistake in a predicate; None if it cannot be told."""
    line = raw.decode()
    written = list(_PREDICATE.finditer(line))
    if not written and line.count(error.text) == 1:  # an object
        return line.index(error.text) + error.position + 1
    if len(written) != 1:
        return None
    characters = _CHARACTER.findall(written[0][1])
    if len(characters) != len(error.text):  # a wrong match: the field's name has escapes
        return None
    return written[0].start(1) + sum(map(len, characters[: error.position])) + 1
