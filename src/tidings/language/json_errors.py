"""What msgspec says of text that is not JSON, in our words and in characters.

It says it in a message, which names the place in bytes. Only the message is looked at: this file
does not know whose text it is, nor does it load msgspec.
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
