"""Rewords msgspec's errors for malformed JSON, and gives their place in characters.

msgspec names the place in its message, in bytes. This file reads only the message: it does not know
whose text it is, and it does not load msgspec.
"""

from __future__ import annotations

import re


def json_reason(message: str) -> str:
    """What is wrong, without the place.

    >>> json_reason("JSON is malformed: trailing comma in object (byte 9)")
    'trailing comma in object'
    """
    reason = re.sub(r"JSON is malformed: | \(byte \d+\)", "", message)
    return reason.replace("Input data was truncated", "the end of the text came too early")


def json_position(raw: bytes, message: str) -> int:
    """The character, from 0, at the byte that msgspec's message names; the end if it names none.

    >>> json_position('{"ü": 1,}'.encode(), "JSON is malformed: … (byte 9)")
    8
    """
    place = re.search(r"\(byte (\d+)\)", message)
    if place is None:
        return len(raw.rstrip().decode("utf-8", "replace"))
    # For trailing characters msgspec names the byte after the first of them.
    at = int(place[1]) - ("trailing characters" in message)
    return len(raw[:at].decode("utf-8", "ignore"))
