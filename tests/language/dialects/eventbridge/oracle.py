"""The slow twin of the dialect `eventbridge`, written from event-ruler's description of itself.

An event is flattened to fields: a dotted name, a value, and the elements of arrays that it lies in.
A pattern becomes sub-rules of dotted names. A sub-rule matches if fields can be chosen, name after
name, all of them in consistent elements of arrays. Nothing here is shared with the dialect.
"""

import ipaddress
import operator as op
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

Rule = dict[str, list[Any]]


class Field(NamedTuple):
    """One value of an event."""

    name: str
    value: Any
    elements: dict[tuple[Any, ...], int]  # of arrays, by the way to them


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Whether an event matches a pattern, both as nested mappings."""
    fields = list(_flatten(event, "", (), {}))
    return any(_rule_matches(sorted(rule.items()), fields, {}) for rule in rules(pattern))


# Patterns


def rules(pattern: Mapping[str, Any]) -> list[Rule]:
    """The sub-rules of a pattern: one for each way through its `$or`s."""
    found: list[Rule] = [{}]
    _collect(pattern, "", found)
    return found


def _collect(pattern: Mapping[str, Any], path: str, found: list[Rule]) -> None:
    for name, value in pattern.items():
        if name == "$or":
            ways = []
            for alternative in value:
                way = [dict(rule) for rule in found]
                _collect(alternative, path, way)
                ways += way
            found[:] = ways
        elif isinstance(value, Mapping):
            _collect(value, f"{path}{name}.", found)
        else:
            for rule in found:
                rule[path + name] = value


# Events


def _flatten(
    value: Any, name: str, way: tuple[Any, ...], elements: dict[tuple[Any, ...], int]
) -> Iterator[Field]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flatten(inner, f"{name}.{key}" if way else key, (*way, key), elements)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            inside = {**elements, way: index} if isinstance(inner, list | Mapping) else elements
            yield from _flatten(inner, name, (*way, index), inside)
    else:
        yield Field(name, value, elements)


def _consistent(one: Mapping[Any, int], other: Mapping[Any, int]) -> bool:
    return all(other.get(array, index) == index for array, index in one.items())


def _rule_matches(
    wanted: list[tuple[str, list[Any]]], fields: list[Field], so_far: dict[Any, int]
) -> bool:
    if not wanted:
        return True
    (name, tests), *rest = wanted
    here = [f for f in fields if f.name == name and _consistent(f.elements, so_far)]
    if {"exists": False} in tests and not here and _rule_matches(rest, fields, so_far):
        return True
    return any(
        _rule_matches(rest, fields, {**so_far, **field.elements})
        for field in here
        if any(_holds(test, field.value) for test in tests)
    )


# Values

_COMPARE = {"=": op.eq, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}


def _holds(test: Any, value: Any) -> bool:
    if not isinstance(test, Mapping):
        return _equal(test, value)
    ((operator, operand),) = test.items()
    text = value if isinstance(value, str) else None
    match operator:
        case "exactly":
            return bool(text == operand)
        case "exists":
            return bool(operand)
        case "prefix" if isinstance(operand, Mapping):
            return text is not None and _any_case(operand["equals-ignore-case"], text, end=False)
        case "prefix":
            return text is not None and text[: len(operand)] == operand
        case "suffix" if isinstance(operand, Mapping):
            return text is not None and _any_case(operand["equals-ignore-case"], text, start=False)
        case "suffix":
            return text is not None and text.endswith(operand)
        case "equals-ignore-case":
            return text is not None and _any_case(operand, text)
        case "wildcard":
            return text is not None and _fits(operand, text)
        case "numeric":
            number = comparable(value)
            bounds = zip(operand[::2], operand[1::2], strict=True)
            return number is not None and all(_COMPARE[o](number, float(b)) for o, b in bounds)
        case "cidr":
            found = _address(text)
            network = ipaddress.ip_network(operand, strict=False)
            return found is not None and found.version == network.version and found in network
        case "anything-but" if isinstance(operand, Mapping):
            ((inner, values),) = operand.items()
            listed = values if isinstance(values, list) else [values]
            return not any(_holds({inner: one}, value) for one in listed)
        case "anything-but":
            listed = operand if isinstance(operand, list) else [operand]
            return not any(
                _holds({"exactly": one}, value) if isinstance(one, str) else _equal(one, value)
                for one in listed
            )
        case _:
            raise AssertionError(operator)


def _equal(test: Any, value: Any) -> bool:
    if isinstance(test, bool) or test is None or isinstance(value, bool) or value is None:
        return test is value
    if isinstance(test, str):
        if _address(test) is not None:
            return isinstance(value, str) and _address(value) == _address(test)
        return isinstance(value, str) and value == test
    if isinstance(value, str):
        return False
    if comparable(test) is None:
        return bool(value == test)  # by its digits
    return comparable(value) == comparable(test)


def comparable(value: Any) -> float | None:
    """The double of a number, where it has the same digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        near = float(value)
        return near if Decimal(repr(near)) == Decimal(repr(value)) else None
    except (OverflowError, ArithmeticError):
        return None


def _address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if text is None:
        return None
    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", text) and len(text) <= 15:
        parts = [int(part) for part in text.split(".")]
        return ipaddress.IPv4Address(bytes(parts)) if max(parts) < 256 else None
    if not re.fullmatch(r"[0-9a-fA-F:]+", text) or ":" not in text:
        return None
    try:
        found = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found


def _any_case(wanted: str, text: str, start: bool = True, end: bool = True) -> bool:
    """Each character in lower or upper case, by trying all ways."""
    places = {0} if start else set(range(len(text) + 1))
    for character in wanted:
        cases = {character.lower(), character.upper()} if ord(character) < 65536 else {character}
        places = {p + len(c) for p in places for c in cases if text.startswith(c, p)}
    return any(place == len(text) or not end for place in places)


def _fits(pattern: str, text: str) -> bool:
    """Whether a text fits a wildcard, by trying every length for every `*`."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(_fits(pattern[1:], text[at:]) for at in range(len(text) + 1))
    if pattern[0] == "\\":
        pattern = pattern[1:]
    return text[:1] == pattern[0] and _fits(pattern[1:], text[1:])
