"""Matches many events at once that come as dictionaries, as from a JSON decoder.

It does not match them one by one. It gathers the values of each attribute from all events and
passes them to the kernels like a column. If events have few attributes out of very many, this is
far quicker than making a column for each attribute. Law: it finds what `Segment.match` finds for
each event.
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
    """Some event holds an integer of more than 64 bits."""


def match_documents(
    segment: Segment, events: Sequence[Mapping[str, Any]], threads: int = 1
) -> Iterator[Pairs]:
    """The matches of events."""
    flat = [event if isinstance(event, dict) else Event(event) for event in events]
    try:
        try:
            rows = _entries(segment, flat)
        except UnicodeEncodeError:  # some text has a lone surrogate
            flat = [Event(event) for event in flat]
            rows = _entries(segment, flat)
    except _Huge:
        yield from _one_by_one(segment, flat)
        return

    def asked(numbers: Array, names: set[str]) -> Sequence[Mapping[str, Any]]:
        return [flat[number] for number in numbers.tolist()]

    yield from segment.match_entries(rows, len(flat), asked, threads, nulls=True)


def tally_documents(segment: Segment, events: Sequence[dict[str, Any]], totals: Array) -> None:
    """Add to `totals[n]` how many events match subscription number n."""
    try:
        rows = None if segment.plan.residuals else _entries(segment, events)
    except (_Huge, UnicodeEncodeError):
        rows = None
    if rows is None:
        tally(match_documents(segment, events), totals)
    else:
        segment.tally_entries(rows, len(events), totals)


def _entries(segment: Segment, events: Sequence[dict[str, Any]]) -> Rows:
    plan = segment.plan
    return entries_of_leaves(_leaves(events, names_in(plan)), plan, len(events))


def _leaves(events: Sequence[dict[str, Any]], wanted: set[str]) -> Iterator[Leaf]:
    """The values of the wanted attributes in all events, one leaf for each attribute and type."""
    lengths = np.fromiter(map(len, events), np.int64, len(events))
    rows = np.repeat(np.arange(len(events)), lengths)
    names = list(chain.from_iterable(events))
    values = list(chain.from_iterable(map(dict.values, events)))
    kinds = _kinds_of(values)
    nested = kinds == _OTHER
    if nested.any():  # lists and records: flatten those events and read them again
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
    """Values of one type as an Arrow array."""
    places = np.arange(rows.size)
    if kind != _INTEGER:
        yield Leaf(name, pa.array(values, _ARROW[kind]), places, rows)
        return
    try:
        yield Leaf(name, pa.array(values.astype(np.int64)), places, rows)
    except OverflowError:
        raise _Huge from None


def _one_by_one(segment: Segment, events: list[dict[str, Any]]) -> Iterator[Pairs]:
    """The matches of events with integers of more than 64 bits, for which Arrow has no type."""
    numbered = Segment(range(len(segment.ids)), segment.plan)
    for row, event in enumerate(events):
        numbers = np.array(numbered.match(Event(event)), np.int64)
        numbers = numbers[~segment.removed[numbers]]
        yield np.full(numbers.size, row, np.int64), numbers
