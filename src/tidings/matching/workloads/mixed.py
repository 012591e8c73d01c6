"""A workload of everything the language can say and an event can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pyarrow as pa

from tidings.language import wildcard
from tidings.language.constraint import MINDING_CASE, Constraint, Operand, simplify
from tidings.language.filter import Filter, normalise
from tidings.language.predicate import Predicate
from tidings.language.reduction import absorb
from tidings.language.work import CHEAP
from tidings.matching.workloads.draws import Interval, Record, Subscription, describe, row_range
from tidings.matching.workloads.vocabulary import vocabulary


@dataclass(frozen=True)
class MixedWorkload:
    """A bit of everything in the language, to test agreement rather than speed.

    Predicates have one to three filters with negations, lists, all types, typed and untyped bounds,
    operators that ignore case, and patterns. Events have missing and null attributes, lists,
    records and lists of records, and attributes of two types, spelled both ways: `origin.code` is
    an integer as a key of its own and text within a record `origin`.
    """

    filters: Interval = (1, 4)
    constraints: Interval = (1, 5)
    negated: float = 0.15
    absent: float = 0.2
    null: float = 0.05
    seed: int = 0

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        for row in row_range(start, stop):
            source = Random(f"{self.seed} mixed subscription {row}")
            filters: list[Filter] = []
            while not filters:  # now and then a drawn filter is impossible
                drawn = (self._filter(source) for _ in range(source.randrange(*self.filters)))
                filters = [filter for filter in drawn if filter is not None]
            yield row, Predicate.of(absorb(filters, work=CHEAP))

    def events(self, start: int, stop: int) -> list[Record]:
        return [
            self._event(Random(f"{self.seed} mixed event {row}")) for row in row_range(start, stop)
        ]

    def event_table(self, start: int, stop: int) -> pa.Table:
        return pa.Table.from_pylist(self.events(start, stop), schema=_MIXED_SCHEMA)

    def describe(self) -> str:
        return describe(self)

    def _filter(self, source: Random) -> Filter | None:
        constraints: list[Constraint] = []
        for _ in range(source.randrange(*self.constraints)):
            constraint = simplify(_mixed_constraint(source))
            if constraint is not None:
                negated = source.random() < self.negated
                constraints.append(constraint.negate() if negated else constraint)
        return normalise(constraints) if constraints else None

    def _event(self, source: Random) -> Record:
        event: Record = {}
        for name, make in _MIXED_VALUES.items():
            draw = source.random()
            value = make(source)  # drawn even if unused, so one choice shifts no others
            if draw >= self.absent + self.null:
                event[name] = value
            elif draw >= self.absent:
                event[name] = None
        return event


_KINDS: Final = (
    *("alert", "Alert", "ALERT", "notice", "Notice", "größe", "GRÖẞE", "Ärger", "σίσυφος"),
    *("ΣΊΣΥΦΟΣ", "it's", "x", ""),
)
_TAGS: Final = vocabulary("words", 40)
_PLACES: Final = ("web-1", "web-2", "web-10", "db-1", "WEB-1", "cache_1", "cache%2", "back\\slash")
_SYSTEMS: Final = ("linux", "Linux", "bsd", "")
_PORTS: Final = (22, 80, 443, 8080, 65535)
_EXACT: Final = 2**53  # above, not every integer is a double


def _message(source: Random) -> str:
    return " ".join(source.choice((*_TAGS, *_KINDS)) for _ in range(source.randrange(1, 5)))


def _tenths(source: Random) -> float:
    return source.randrange(-20, 120) / 10


def _number(source: Random) -> int | float:
    return source.choice((source.randrange(-2, 12), _tenths(source)))


def _serial(source: Random) -> int:
    return source.choice((1, -1)) * (_EXACT + source.randrange(-3, 4))


def _host(source: Random) -> Record:
    return {
        "name": source.choice(_PLACES),
        "port": source.choice((None, *_PORTS)),
        "os": source.choice((None, *_SYSTEMS)),
        "rack": source.choice((None, {"row": source.randrange(4), "unit": source.choice("abc")})),
    }


_MIXED_VALUES: Final[dict[str, Callable[[Random], Any]]] = {
    "kind": lambda source: source.choice(_KINDS),
    "severity": lambda source: source.randrange(10),
    "temperature": _tenths,
    "serial": _serial,
    "active": lambda source: source.random() < 0.5,
    "message": _message,
    "tags": lambda source: [source.choice((*_TAGS, None)) for _ in range(source.randrange(4))],
    "readings": lambda source: [_tenths(source) for _ in range(source.randrange(4))],
    "host": _host,
    "alarms": lambda source: [
        {"name": source.choice(_KINDS), "level": source.randrange(10)}
        for _ in range(source.randrange(3))
    ],
    "load.now": lambda source: source.randrange(10),
    "load": lambda source: {"now": source.choice((None, source.randrange(0, 100) / 10))},
    "origin.code": lambda source: source.randrange(10),
    "origin": lambda source: {"code": source.choice((*_PLACES, "7", None)), "zone": "north"},
}  # fmt: skip

_MIXED_SCHEMA: Final = pa.schema(
    {
        "kind": pa.string(),
        "severity": pa.int64(),
        "temperature": pa.float64(),
        "serial": pa.int64(),
        "active": pa.bool_(),
        "message": pa.string(),
        "tags": pa.list_(pa.string()),
        "readings": pa.list_(pa.float64()),
        "host": pa.struct(
            {
                "name": pa.string(),
                "port": pa.int64(),
                "os": pa.string(),
                "rack": pa.struct({"row": pa.int64(), "unit": pa.string()}),
            }
        ),
        "alarms": pa.list_(pa.struct({"name": pa.string(), "level": pa.int64()})),
        "load.now": pa.int64(),
        "load": pa.struct({"now": pa.float64()}),
        "origin.code": pa.int64(),
        "origin": pa.struct({"code": pa.string(), "zone": pa.string()}),
    }
)

# Attributes by the operators they take, and the texts and numbers to compare them with.
_MIXED_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "kind": _KINDS,
    "message": (*_TAGS, *_KINDS),
    "tags": _TAGS,
    "host.name": _PLACES,
    "host.os": _SYSTEMS,
    "host.rack.unit": ("a", "b", "d"),
    "alarms.name": _KINDS,
    "origin.code": (*_PLACES, "7"),
    "severity": ("7",),  # never text: such a constraint fails, or holds if it is negated
}
_MIXED_NUMBERS: Final[dict[str, Callable[[Random], int | float]]] = {
    "severity": _number,
    "temperature": _number,
    "serial": lambda source: source.choice((int, float))(_serial(source)),
    "readings": _number,
    "host.port": lambda source: source.choice((*_PORTS, 1024, 442.5)),
    "host.rack.row": _number,
    "alarms.level": _number,
    "load.now": _number,
    "origin.code": _number,
    "kind": _number,  # never a number
}
_MIXED_NAMES: Final = sorted({*_MIXED_TEXTS, *_MIXED_NUMBERS, "active", "host", "nowhere"})
_MIXED_TEXT_OPERATORS: Final = (
    *("=", "=", "=", "!=", "<", "<=", ">", ">=", "between", "in", *MINDING_CASE),
    *("prefix", "suffix", "contains", "like", "matches"),
)
_MIXED_NUMBER_OPERATORS: Final = ("=", "=", "!=", "<", "<=", ">", ">=", "between", "between", "in")


def _mixed_constraint(source: Random) -> Constraint:
    """A constraint as a user might write it, neither negated nor simplified."""
    draw = source.random()
    if draw < 0.08:
        kind = source.choice(("any", "any", "number", "int", "real", "string", "bool"))
        return Constraint(source.choice(_MIXED_NAMES), "exists", kind, False, None)
    if draw < 0.14:
        operator = source.choice(("=", "!="))
        return Constraint("active", operator, "bool", False, source.random() < 0.5)
    if draw < 0.55:
        name = source.choice(tuple(_MIXED_TEXTS))
        operator = source.choice(_MIXED_TEXT_OPERATORS)
        operand = _mixed_text(source, _MIXED_TEXTS[name], operator)
        return Constraint(name, operator, "string", False, operand)
    name = source.choice(tuple(_MIXED_NUMBERS))
    operator = source.choice(_MIXED_NUMBER_OPERATORS)
    kind = source.choice(("number", "number", "number", "int", "real"))
    values = [_MIXED_NUMBERS[name](source) for _ in range(source.randrange(2, 5))]
    return Constraint(name, operator, kind, False, _shaped(operator, values))


def _mixed_text(source: Random, texts: tuple[str, ...], operator: str) -> Operand:
    text = source.choice(texts)
    if operator in ("in", "iin", "between"):
        return _shaped(operator, [source.choice(texts) for _ in range(source.randrange(2, 5))])
    cut = source.randrange(len(text) + 1)
    match MINDING_CASE.get(operator, operator):
        case "prefix":
            return text[:cut]
        case "suffix" | "contains":
            return text[cut:]
        case "like":
            plain = wildcard.escape(text)
            return source.choice(
                (f"{plain}%", f"%{plain}", f"%{wildcard.escape(text[:1])}_%", "_%", plain)
            )
        case "matches":
            return source.choice((r"^[a-m]", r"-\d+$", "a.*e", "ö|ß", "^$", r"\bx\b"))
        case _:
            return text


def _shaped(operator: str, values: list[Any]) -> Operand:
    """The operand for an operator, made from values of one type."""
    if operator in ("in", "iin"):
        return tuple(sorted(set(values)))
    if operator == "between":
        return (min(values), max(values))
    return values[0]  # type: ignore[no-any-return]
