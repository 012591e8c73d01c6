"""Events: mappings from attribute names to values, and how the language reads them.

For the language every attribute is a *set of scalars*: a scalar is a set of one, a list is the set
of its elements, and null and the empty list are the empty set, which is what "absent" means. A
nested record is not a value; its fields are attributes with dotted names. Everything a predicate
can say follows from that one picture.

This file knows nothing of predicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tidings.language.errors import EventError
from tidings.language.json_errors import json_position, json_reason

Scalar = str | int | float | bool

SCALARS: Final = frozenset({str, int, float, bool})
MAX_EVENT_DEPTH: Final = 100
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
            _flatten(self.source, "", found, 0)
        except Exception as error:
            raise _as_event_error("the event", error) from error
        for name, values in found.items():
            self[name] = values[0] if len(values) == 1 else tuple(values)

    def __repr__(self) -> str:
        return f"Event({super().__repr__()})"


def read(source: Mapping[str, Any] | bytes | bytearray | memoryview | str) -> Mapping[str, Any]:
    """The event as a mapping, from a mapping or from the JSON text of an object."""
    if isinstance(source, Mapping):
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
    try:
        _follow(event, name, name, found, 0)
    except Exception as error:
        raise _as_event_error(f"attribute {name!r}", error) from error
    return found


def _follow(
    event: Mapping[str, Any], rest: str, name: str, found: list[Scalar], depth: int
) -> None:
    """Collect the values under `rest`, a suffix of the attribute's full name."""
    for key in _keys(event, rest):
        for record in _records(event.get(key), name, depth + 1):
            _follow(record, rest[len(key) + 1 :], name, found, depth + 1)
    found.extend(
        scalar(value, name)
        for value in _elements(event.get(rest), name, depth)
        if not isinstance(value, Mapping)
    )


def _keys(event: Mapping[str, Any], rest: str) -> list[str]:
    """The keys that a dotted name may begin with: by its dots, or by the keys if they are fewer."""
    dots = rest.count(".")
    if dots < 2:
        return [rest[: rest.index(".")]] if dots else []
    if dots <= len(event):
        parts = rest.split(".")
        return [".".join(parts[:count]) for count in range(1, dots + 1)]
    keys = (key for key in event if type(key) is str)
    return sorted((key for key in keys if rest.startswith(key + ".")), key=len)


def _records(value: Any, name: str, depth: int) -> Iterator[Mapping[str, Any]]:
    """The records in a value: the value itself, or those in a list."""
    for element in _elements(value, name, depth):
        if isinstance(element, Mapping):
            yield element


def _elements(value: Any, name: str, depth: int) -> Iterator[Any]:
    """The non-null elements of a value; nested lists are flattened."""
    if depth > MAX_EVENT_DEPTH:
        raise EventError(f"attribute {name!r}: nested deeper than {MAX_EVENT_DEPTH} levels")
    if value is None:
        return
    if isinstance(value, list | tuple | set | frozenset):
        for element in value:
            yield from _elements(element, name, depth + 1)
    else:
        yield value


def _flatten(
    event: Mapping[str, Any], prefix: str, found: dict[str, list[Scalar]], depth: int
) -> None:
    """Collect every attribute of a record under its dotted name."""
    for key, value in event.items():
        if type(key) is not str:
            raise EventError(f"expected names to be text, found {type(key).__name__} {key!r:.60}")
        name = prefix + key
        if not key.isascii():
            _check_characters(key, f"the name {name!r}")
        if type(value) is str and not value.isascii():
            check_text(value, name)
        if type(value) in SCALARS:
            found.setdefault(name, []).append(value)
            continue
        try:
            for element in _elements(value, name, depth):
                if isinstance(element, Mapping):
                    _flatten(element, name + ".", found, depth + 1)
                else:
                    found.setdefault(name, []).append(scalar(element, name))
        except Exception as error:
            raise _as_event_error(f"attribute {name!r}", error) from error


def _as_event_error(what: str, error: Exception) -> Exception:
    """What to raise where an object of the caller's fails while it is read."""
    if isinstance(error, EventError | MemoryError):
        return error
    return EventError(f"{what} cannot be read: {type(error).__name__}: {error}")


def scalar(value: Any, name: str) -> Scalar:
    """A value as one of the four scalar types; raises an error that names the attribute."""
    if isinstance(value, str) and not value.isascii():
        check_text(value, name)
    if type(value) in SCALARS:
        return value  # type: ignore[no-any-return]
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, str):
        return str.__str__(value)
    # Scalars of NumPy and its like, and arrays without a dimension. A masked one has no value.
    is_scalar = hasattr(value, "dtype") and hasattr(value, "item")
    if is_scalar and getattr(value, "shape", ()) == () and not hasattr(value, "mask"):
        item = value.item()
        if type(item) in SCALARS:
            return item  # type: ignore[no-any-return]
    raise EventError(
        f"attribute {name!r}: expected text, a number, a boolean, a list or a record, "
        f"found {type(value).__name__}"
    )


def check_text(text: str, name: str) -> None:
    """Refuse a text that is not a sequence of Unicode characters: Python allows lone surrogates."""
    _check_characters(text, f"attribute {name!r}")


def _check_characters(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EventError(
            f"{what}: expected Unicode characters, found a lone surrogate at character "
            f"{error.start + 1}"
        ) from None
