"""Many events at once as dictionaries, as a JSON decoder gives them.

They are not matched one by one: the values of each attribute are gathered from all of them and go
to the kernels as those of a column would. For events of few attributes out of very many that is far
quicker than a column for each. Law: the same as `Segment.match` for each event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidings.language.event import Event
from tidings.matching.columns import Leaf, Rows, entries_of_leaves, names_in
from tidings.matching.segment import Pairs, Segment, tally

Array = np.ndarray[Any, Any]

_TEXT, _INTEGER, _REAL, _TRUTH, _NULL, _OTHER = range(6)
_KINDS: Final = {
    str: _TEXT, int: _INTEGER, float: _REAL, bool: _TRUTH, type(None): _NULL
}  # fmt: skip
_ARROW: Final = {_TEXT: pa.string(), _REAL: pa.float64(), _TRUTH: pa.bool_()}


class _Huge(Exception):
    """An integer past 64 bit is among the events."""


def match_documents(
    segment: Segment, events: Sequence[Mapping[str, Any]], threads: int = 1
) -> Iterator[Pairs]:
    """The matches of events; `EventError` where one of them holds what is no value."""
    flat = [event if isinstance(event, dict) else Event(event) for event in events]
    try:
        rows = _entries(segment, flat)
    except _Huge:
        yield from _one_by_one(segment, flat)
        return

    def asked(numbers: Array, names: set[str]) -> Sequence[Mapping[str, Any]]:
        return [flat[number] for number in numbers.tolist()]

    yield from segment.match_entries(rows, len(flat), asked, threads, nulls=True)


def tally_documents(segment: Segment, events: Sequence[dict[str, Any]], totals: Array) -> None:
    """Add to `totals`, by number of the subscription, how many events match each."""
    try:
        rows = None if segment.plan.residuals else _entries(segment, events)
    except _Huge:
        rows = None
    if rows is None:
        tally(match_documents(segment, events), totals)
    else:
        segment.tally_entries(rows, len(events), totals)


def _entries(segment: Segment, events: Sequence[dict[str, Any]]) -> Rows:
    plan = segment.plan
    return entries_of_leaves(_leaves(events, names_in(plan)), plan, len(events))


def _leaves(events: Sequence[dict[str, Any]], wanted: set[str]) -> Iterator[Leaf]:
    """The values of wanted attributes, all events together; those of an attribute by type."""
    lengths = np.fromiter(map(len, events), np.int64, len(events))
    rows = np.repeat(np.arange(len(events)), lengths)
    names = list(chain.from_iterable(events))
    values = list(chain.from_iterable(map(dict.values, events)))
    kinds = _kinds_of(values)
    nested = kinds == _OTHER
    if nested.any():  # lists and records: those events once more, laid flat
        laid = {row: Event(events[row]) for row in np.unique(rows[nested]).tolist()}
        more = [
            (row, name, value)
            for row, event in laid.items()
            for name, found in event.items()
            for value in (found if type(found) is tuple else (found,))
        ]
        kinds[np.isin(rows, np.fromiter(laid, np.int64, len(laid)))] = _NULL
        rows = np.concatenate((rows, np.fromiter((m[0] for m in more), np.int64, len(more))))
        names += [m[1] for m in more]
        values += [m[2] for m in more]
        kinds = np.concatenate((kinds, _kinds_of([m[2] for m in more])))
    listed = sorted(wanted)
    code_of = {name: code for code, name in enumerate(listed)}
    codes = np.fromiter(map(code_of.get, names, repeat(-1)), np.int64, len(names))
    held = np.flatnonzero((codes >= 0) & (kinds < _NULL))
    group = codes[held] * _NULL + kinds[held]
    order = held[np.argsort(group, kind="stable")]
    group = np.sort(group)
    objects = np.fromiter(values, object, len(values))
    ends = [*np.flatnonzero(np.diff(group)).tolist(), group.size - 1] if group.size else []
    begin = 0
    for end in (last + 1 for last in ends):
        chosen = order[begin:end]
        name, kind = listed[int(group[begin]) // _NULL], int(group[begin]) % _NULL
        yield from _typed(name, kind, objects[chosen], rows[chosen])
        begin = end


def _kinds_of(values: list[Any]) -> Array:
    return np.fromiter(map(_KINDS.get, map(type, values), repeat(_OTHER)), np.int8, len(values))


def _typed(name: str, kind: int, values: Array, rows: Array) -> Iterator[Leaf]:
    """Values of one type as Arrow has them."""
    places = np.arange(rows.size)
    if kind != _INTEGER:
        yield Leaf(name, pa.array(values, _ARROW[kind]), places, rows)
        return
    try:
        yield Leaf(name, pa.array(values.astype(np.int64)), places, rows)
    except OverflowError:
        raise _Huge from None


def _one_by_one(segment: Segment, events: list[dict[str, Any]]) -> Iterator[Pairs]:
    """The matches of events that hold integers past 64 bit, for which Arrow has no column."""
    numbered = Segment(range(len(segment.ids)), segment.plan)
    for row, event in enumerate(events):
        numbers = np.array(numbered.match(Event(event)), np.int64)
        numbers = numbers[~segment.removed[numbers]]
        yield np.full(numbers.size, row, np.int64), numbers
