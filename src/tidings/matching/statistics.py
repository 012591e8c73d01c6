"""Statistics of events from a sample: which attributes they have, and which values.

A filter is best indexed by the constraint that the fewest events satisfy. `Statistics.share`
estimates that number. It knows each frequent value with its share; a few of the other values,
evenly spaced in sorted order, stand for the rest. For a comparison it counts the values below the
bound; a pattern it tries on each value. If an attribute has few distinct values and no lists, the
estimate is exact for the sample.

The estimate treats the n values of a list as independent of each other, and likewise the
constraints of a filter. It takes opaque tests of other dialects to hold for half of all events.
"""

from __future__ import annotations

import json as jsonlib
import math
import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.language.constraint import ACCEPTS, TESTS, Constraint
from tidings.language.errors import EventError
from tidings.language.event import Event
from tidings.language.values import Scalar
from tidings.matching.contract import EventLike, events_of

MAX_EVENTS: Final = 20_000  # events sampled
MAX_ATTRIBUTES: Final = 10_000  # attributes kept, those present most often
MAX_TEXT: Final = 1_000  # characters kept of a value
FREQUENT: Final = 64  # values kept with their share, for each attribute and type
OTHERS: Final = 128  # values that stand for the rest
OPAQUE: Final = 0.5  # the share of events for which an opaque test is taken to hold
KEPT_ANSWERS: Final = 1 << 16  # estimates that are cached
KINDS: Final[dict[type, str]] = {bool: "bool", int: "int", float: "real", str: "string"}


class Values(NamedTuple):
    """The values of an attribute that have one type; NaN counts as a type of its own."""

    share: float  # of all values of the attribute
    distinct: int  # how many distinct values events may have, estimated
    frequent: tuple[
        tuple[Scalar, float], ...
    ]  # a value and its share of all values, commonest first
    others: tuple[Scalar, ...]  # sorted; each stands for an equal part of the rest


class Attribute(NamedTuple):
    """What is known of an attribute."""

    present: float  # the share of events that have it
    length: float  # how many values it has on average, if it is present
    kinds: dict[str, Values]  # by type: int, real, string, bool, nan


class Statistics:
    """How often attributes are present and which values they have.

    >>> found = statistics_of([{"x": 1}, {"x": 2, "y": "a"}, {"x": 2}, {}])
    >>> found.share(Constraint("x", "=", "number", False, 2)), found.attributes["y"].present
    (0.5, 0.25)
    """

    def __init__(self, events: int, attributes: Mapping[str, Attribute]) -> None:
        self.events = events  # how many were sampled
        self.attributes = dict(attributes)
        self._ranked: dict[tuple[str, str], _Ranked] = {}
        self._answers: dict[Constraint, float] = {}

    def __repr__(self) -> str:
        return f"Statistics({self.events} events, {len(self.attributes)} attributes)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Statistics):
            return NotImplemented
        return (self.events, self.attributes) == (other.events, other.attributes)

    __hash__ = None  # type: ignore[assignment]

    def share(self, constraint: Constraint) -> float:
        """The estimated share of events that satisfy a constraint."""
        known = self._answers.get(constraint)
        if known is None:
            if len(self._answers) >= KEPT_ANSWERS:
                self._answers.clear()
            holds = self._holds(constraint)
            known = self._answers[constraint] = 1.0 - holds if constraint.negated else holds
        return known

    def _holds(self, constraint: Constraint) -> float:
        if constraint.operator == "holds":
            return OPAQUE
        attribute = self.attributes.get(constraint.name)
        if attribute is None:
            return 0.0
        one = 0.0  # the chance that one value satisfies the constraint
        kinds = {KINDS[kind] for kind in ACCEPTS[constraint.type]}
        if constraint.operator == "exists" and "real" in kinds:
            kinds.add("nan")
        for kind in kinds & attribute.kinds.keys():
            one += self._rank(constraint.name, kind).share(constraint.operator, constraint.operand)
        one = min(max(one, 0.0), 1.0)
        some: float = 1.0 - (1.0 - one) ** attribute.length
        return attribute.present * some

    def _rank(self, name: str, kind: str) -> _Ranked:
        ranked = self._ranked.get((name, kind))
        if ranked is None:
            ranked = self._ranked[name, kind] = _Ranked(self.attributes[name].kinds[kind])
        return ranked

    # As text

    def to_json(self) -> str:
        """The statistics as JSON."""
        attributes = {
            name: {
                "present": a.present,
                "length": a.length,
                "kinds": {
                    kind: {
                        "share": v.share,
                        "distinct": v.distinct,
                        "frequent": [[_written(value), share] for value, share in v.frequent],
                        "others": [_written(value) for value in v.others],
                    }
                    for kind, v in a.kinds.items()
                },
            }
            for name, a in self.attributes.items()
        }
        return jsonlib.dumps({"events": self.events, "attributes": attributes}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Statistics:
        """Read what `to_json` wrote; raises `ValueError` for anything else."""
        try:
            given = jsonlib.loads(text)
            attributes = {
                name: Attribute(
                    float(a["present"]),
                    float(a["length"]),
                    {kind: _values(kind, v) for kind, v in a["kinds"].items()},
                )
                for name, a in given["attributes"].items()
            }
            return cls(int(given["events"]), attributes)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"expected statistics as JSON, found something else: {error!r}"
            ) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Read a file that `save` wrote."""
        return cls.from_json(Path(path).read_bytes())


def statistics_of(
    events: pa.Table | pa.RecordBatch | Iterable[EventLike],
    *,
    json: str | None = None,
    max_events: int = MAX_EVENTS,
    seed: int = 0,
) -> Statistics:
    """The statistics of events: an Arrow table (`json` names a column of JSON text) or an iterable.

    From a table with more rows than `max_events`, it draws that many by the seed; from an iterable
    it takes the first ones. It skips whatever is not a valid event or not a valid value.
    """
    if isinstance(events, pa.Table | pa.RecordBatch):
        if events.num_rows > max_events:
            drawn = np.random.default_rng(seed).choice(events.num_rows, max_events, replace=False)
            events = events.take(pa.array(np.sort(drawn)))
        if json is None:
            events = events_of(events)
        else:
            events = (text for text in events.column(json).to_pylist() if text is not None)
    seen = 0
    present: Counter[str] = Counter()
    counters: dict[str, dict[str, Counter[Any]]] = {}
    for given, _ in zip(events, range(max_events), strict=False):
        try:
            event = Event(given)
        except EventError:
            continue
        seen += 1
        present.update(event.keys())
        for name, held in event.items():
            kinds = counters.setdefault(name, {})
            for value in held if type(held) is tuple else (held,):
                kind = "nan" if value != value else KINDS[type(value)]
                kept = value[:MAX_TEXT] if kind == "string" else None if kind == "nan" else value
                kinds.setdefault(kind, Counter())[kept] += 1
    attributes = {
        name: _attribute(number / max(seen, 1), number, counters[name])
        for name, number in sorted(present.most_common(MAX_ATTRIBUTES))
    }
    return Statistics(seen, attributes)


def _attribute(present: float, events: int, counters: dict[str, Counter[Any]]) -> Attribute:
    total = sum(counter.total() for counter in counters.values())
    kinds = {kind: _described(counter, total) for kind, counter in sorted(counters.items())}
    return Attribute(present, total / events, kinds)


def _described(counter: Counter[Any], total: int) -> Values:
    """The values of one type; `total` counts the values of all types."""
    share = counter.total() / total
    if None in counter:  # NaN
        return Values(share, 1, (), ())
    commonest = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    frequent = tuple((value, number / total) for value, number in commonest[:FREQUENT])
    rest = sorted(commonest[FREQUENT:])
    ends = list(accumulate(number for _, number in rest))
    others: tuple[Scalar, ...] = ()
    if rest:
        points = ((2 * i + 1) * ends[-1] / (2 * OTHERS) for i in range(min(OTHERS, ends[-1])))
        if ends[-1] <= OTHERS:
            others = tuple(value for value, number in rest for _ in range(number))
        else:
            others = tuple(rest[bisect_right(ends, point)][0] for point in points)
    once = sum(number == 1 for number in counter.values())
    twice = sum(number == 2 for number in counter.values())
    unseen = once * (once - 1) / (2 * (twice + 1))  # Chao's estimate
    return Values(share, len(counter) + round(unseen), frequent, others)


class _Ranked:
    """The values of one type, sorted for estimates."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.whole = bool(values.frequent) and type(values.frequent[0][0]) is int
        self.by_value: dict[Scalar, float] = dict(values.frequent)
        ordered = sorted(values.frequent)
        self.frequent = [value for value, _ in ordered]
        self.below = [0.0, *accumulate(share for _, share in ordered)]
        self.rest = max(values.share - self.below[-1], 0.0) if values.others else 0.0
        unknown = max(values.distinct - len(ordered), 1)
        self.other = self.rest / unknown  # the share of one value that is not frequent

    def share(self, operator: str, operand: Any) -> float:
        """The share of all values of the attribute that are of this type and satisfy a test."""
        match operator:
            case "exists":
                return self.values.share
            case "=":
                return self._equal(operand)
            case "!=":
                return self.values.share - self._equal(operand)
            case "in":
                return sum(map(self._equal, operand))
            case "<":
                return self._below(operand, bisect_left)
            case "<=":
                return self._below(operand, bisect_right)
            case ">":
                return self.values.share - self._below(operand, bisect_right)
            case ">=":
                return self.values.share - self._below(operand, bisect_left)
            case "between":
                low, high = operand
                return max(self._below(high, bisect_right) - self._below(low, bisect_left), 0.0)
            case _:
                return self._tried(TESTS[operator](operand))

    def _equal(self, operand: Any) -> float:
        found = self.by_value.get(operand)
        if found is not None:
            return found
        return 0.0 if self.whole and operand != operand // 1 else self.other

    def _below(self, operand: Any, bisect: Callable[[Any, Any], int]) -> float:
        others = self.values.others
        share = self.below[bisect(self.frequent, operand)]
        return share + self.rest * bisect(others, operand) / len(others) if others else share

    def _tried(self, test: Callable[[Any], bool]) -> float:
        share = sum(share for value, share in self.values.frequent if test(value))
        others = self.values.others
        if others:
            # If no sampled value passes, some value of the rest may still do.
            share += self.rest * (sum(map(test, others)) or 0.5) / len(others)
        return share


def _written(value: Scalar) -> Scalar:
    """A value for JSON, which has no infinity."""
    return repr(value) if isinstance(value, float) and math.isinf(value) else value


def _values(kind: str, given: Any) -> Values:
    """Values of one type from JSON."""
    if kind not in ("nan", *KINDS.values()):
        raise ValueError(f"expected a type of values, found {kind!r}")
    read: Callable[[Any], Scalar] = float if kind == "real" else lambda value: value
    expected = {"int": int, "real": float, "string": str, "bool": bool, "nan": float}[kind]
    frequent = tuple((read(value), float(share)) for value, share in given["frequent"])
    others = tuple(read(value) for value in given["others"])
    if any(type(value) is not expected for value in (*(v for v, _ in frequent), *others)):
        raise ValueError(f"expected values of type {kind}")
    return Values(float(given["share"]), int(given["distinct"]), frequent, others)
