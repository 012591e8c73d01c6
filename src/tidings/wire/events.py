"""Events as messages carry them: the values of the language, records, lists, null, and bytes.

A publisher's objects become the values that they stand for, so the network compares what the
library compares, and a subscriber gets what was compared. Bytes stand for no value; the network
carries them all the same. Whatever it cannot carry, the publisher is told by name: an event is
never delivered with a part missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidings.language.errors import EventError
from tidings.language.values import (
    MAX_EVENT_DEPTH,
    SCALARS,
    elements_of,
    is_null,
    is_unicode,
    scalar,
)

LEAST, MOST = -(2**63), 2**64 - 1  # the integers of MessagePack
PLAIN: Final = SCALARS | {type(None)}


def as_sent(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event in types that messages carry; raises `EventError` for what they cannot carry.

    >>> from datetime import date
    >>> as_sent({"day": date(2024, 2, 29), "tags": {"a"}, "raw": b"x"})
    {'day': '2024-02-29', 'tags': ['a'], 'raw': b'x'}
    """
    return _record(event, "", 1)


def _record(record: Mapping[Any, Any], prefix: str, level: int) -> dict[str, Any]:
    sent: dict[str, Any] = {}
    for key, value in record.items():
        if not isinstance(key, str) or not is_unicode(key):
            where = f" in {prefix[:-1]!r:.60}" if prefix else ""
            raise EventError(f"expected texts as names{where}, found {key!r:.60}")
        name = str.__str__(key)
        sent[name] = _value(value, prefix + name, level)
    return sent


def _value(value: Any, name: str, level: int) -> Any:
    if is_null(value):
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if level > MAX_EVENT_DEPTH:
        raise EventError(f"attribute {name!r}: nested deeper than {MAX_EVENT_DEPTH} levels")
    if isinstance(value, Mapping):
        return _record(value, name + ".", level + 1)
    elements = elements_of(value)
    if elements is not None:
        listed = [_value(element, name, level + 1) for element in elements]
        return listed if _is_several(value) else listed[0] if listed else None
    held = scalar(value)
    if held is None:
        found = "a lone surrogate" if isinstance(value, str) else type(value).__name__
        raise EventError(
            f"attribute {name!r}: expected text, a number, a boolean, a date, bytes, a list or a "
            f"record, found {found}"
        )
    if type(held) is int and not LEAST <= held <= MOST:
        raise EventError(f"attribute {name!r}: expected an integer of at most 64 bits")
    return held


def _is_several(value: Any) -> bool:
    """Whether a value with elements is a list; an enumeration's member or a scalar is none."""
    return isinstance(value, list | tuple | set | frozenset) or bool(getattr(value, "shape", ()))
