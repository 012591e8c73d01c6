"""Events: mappings from attribute names to values, and how the language reads them.

For the language every attribute is a *set of scalars*: a scalar is a set of one, a list is the set
of its elements, and null and the empty list are the empty set, which is what "absent" means. A
nested record is not a value; its fields are attributes with dotted names. Everything a predicate
can say follows from that one picture.

This file knows nothing of predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from tidings.language.errors import EventError
from tidings.language.json_errors import json_position, json_reason
from tidings.language.values import (
    MAX_EVENT_DEPTH,
    SCALARS,
    Scalar,
    is_unicode,
    opened,
    scalar,
)

MAX_EVENT_BYTES: Final = 32 * 1024 * 1024


class Event(dict[str, Any]):
    """A flat event: each dotted name leads to a scalar, or to a tuple if there are several.

    Build one if you test many predicates on the same event; a plain mapping works everywhere too
    and is looked up as needed. JSON text or bytes are decoded. `source` is the event as given,
    nested, for code that must distinguish null from absent or the records of a list.

    >>> Event({"class": "alert", "host": {"name": "web-1", "tags": ["a", "b"], "rack": None}})
    Event({'class': 'alert', 'host.name': 'web-1', 'host.tags': ('a', 'b')})
    """

    __slots__ = ("source",)

    def __init__(self, source: Mapping[str, Any] | bytes | bytearray | memoryview | str) -> None:
        super().__init__()
        self.source: Mapping[str, Any]
        if isinstance(source, Event):
            self.update(source)
            self.source = source.source
            return
        found: dict[str, list[Scalar]] = {}
        self.source = read(source)
        try:
            _flatten(self.source, "", found, ())
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            reason = f"{type(error).__name__}: {error}"
            raise EventError(f"the event cannot be read: {reason}") from error
        for name, values in found.items():
            self[name] = values[0] if len(values) == 1 else tuple(values)

    def __repr__(self) -> str:
        return f"Event({super().__repr__()})"


def read(source: Mapping[str, Any] | bytes | bytearray | memoryview | str) -> Mapping[str, Any]:
    """The event as a mapping, from a mapping or from the JSON text of an object."""
    if type(source) is dict or isinstance(source, Mapping):
        return source
    if not isinstance(source, bytes | bytearray | memoryview | str):
        raise EventError(
            f"expected a mapping or JSON text of an object, found {type(source).__name__}"
        )
    if len(source) > MAX_EVENT_BYTES:
        raise EventError(f"the event has {len(source)} bytes; the bound is {MAX_EVENT_BYTES}")
    import msgspec  # here, so that `import tidings` stays light

    try:
        decoded = msgspec.json.decode(source)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise EventError(f"not JSON: {error}") from None
    except msgspec.MsgspecError as error:
        raise _malformed(source, str(error)) from None
    except RecursionError:
        raise EventError(f"JSON nested deeper than {MAX_EVENT_DEPTH} levels") from None
    if not isinstance(decoded, dict):
        raise EventError(f"expected a JSON object, found {type(decoded).__name__}")
    return decoded


def _malformed(source: bytes | bytearray | memoryview | str, message: str) -> EventError:
    """The error for JSON text that msgspec cannot decode."""
    raw = source.encode() if isinstance(source, str) else bytes(source)
    position = json_position(raw, message)
    before = raw.decode("utf-8", "replace")[:position]
    line, column = before.count("\n") + 1, position - before.rfind("\n")
    return EventError(f"not JSON: {json_reason(message)} (line {line}, column {column})", position)


def lookup(event: Mapping[str, Any], name: str) -> list[Scalar]:
    """All values of an attribute; none if it is absent.

    A dotted name may lead through nested records, through keys that contain dots, or both; the
    values at the end of every path belong to the attribute.

    >>> lookup({"host": [{"name": "a"}, {"name": "b"}], "host.name": "c"}, "host.name")
    ['a', 'b', 'c']
    """
    found: list[Scalar] = []
    if type(event) is Event:
        value = event.get(name)
        if value is not None:
            found.extend(value if type(value) is tuple else (value,))
        return found
    _follow(event, name, found, ())
    return found


def _follow(
    record: Mapping[str, Any], rest: str, found: list[Scalar], within: tuple[int, ...]
) -> None:
    """Collect the values under `rest`, a suffix of the attribute's full name."""
    if id(record) in within or len(within) > MAX_EVENT_DEPTH:
        return
    inside = (*within, id(record))
    for key in _keys(record, rest):
        for element in opened(record.get(key), inside):
            if isinstance(element, dict):
                _follow(element, rest[len(key) + 1 :], found, inside)
    value = record.get(rest)
    if value is not None:
        found.extend(_scalars(value, inside))


def _keys(record: Mapping[str, Any], rest: str) -> list[str]:
    """The keys of a record that a dotted name may go through, the shortest first.

    A name may have hundreds of dots and the record few keys, or the other way round.
    """
    dots = rest.count(".")
    if dots < 2:
        return [rest[: rest.index(".")]] if dots else []
    if dots > len(record):
        names: list[Any] = list(record)
        return sorted(
            (k for k in names if isinstance(k, str) and rest.startswith(k + ".")), key=len
        )
    ends = accumulate((len(part) + 1 for part in rest.split(".")[:-1]), initial=-1)
    return [rest[:end] for end in ends if end >= 0]


def _flatten(
    record: Mapping[str, Any], prefix: str, found: dict[str, list[Scalar]], within: tuple[int, ...]
) -> None:
    """Collect every attribute of a record under its dotted name."""
    if id(record) in within or len(within) > MAX_EVENT_DEPTH:
        return
    inside = (*within, id(record))
    items: Iterable[tuple[Any, Any]] = record.items()
    for key, value in items:
        if not isinstance(key, str) or not is_unicode(key):
            continue  # no predicate can name it
        name = prefix + str.__str__(key)
        kind = type(value)
        if kind in SCALARS and kind is not str:
            found.setdefault(name, []).append(value)
            continue
        for element in opened(value, inside):
            if isinstance(element, dict):
                _flatten(element, name + ".", found, inside)
            else:
                held = scalar(element)
                if held is not None:
                    found.setdefault(name, []).append(held)


def _scalars(value: Any, within: tuple[int, ...]) -> Iterator[Scalar]:
    """The scalars in a value; a record is none."""
    for element in opened(value, within):
        held = None if isinstance(element, dict) else scalar(element)
        if held is not None:
            yield held
