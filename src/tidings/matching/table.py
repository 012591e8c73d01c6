"""`Table`: subscriptions in the engine, their predicates, and files.

The engine (`native/`) holds filters as records in immutable segments, with a log of the latest
changes, and finds numbers and ids. This file keeps what it does not know: the predicates, which id
has which number, and when to merge segments.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidings.language.errors import EventError, NormalFormError
from tidings.language.predicate import Predicate, normal_forms, parse
from tidings.matching import contract
from tidings.matching.batches import match_columns, match_texts, pairs_of
from tidings.matching.contract import Batch, EventLike, Id, Stats
from tidings.matching.filters import filters_of
from tidings.matching.merging import MERGER, MOST_SEGMENTS
from tidings.matching.native.engine import Index
from tidings.matching.plans import plan_text
from tidings.matching.storage import Contents, StoredPredicates, read_table, write_table

if TYPE_CHECKING:
    from tidings.language.explanation import Explanation
    from tidings.matching.statistics import Statistics


class Table:
    """Subscriptions compiled for matching.

    >>> table = Table({"ada": "class = 'alert' and severity > 2", "ben": "device prefix 'web-'"})
    >>> sorted(table.match({"class": "alert", "severity": 3, "device": "web-1"}))
    ['ada', 'ben']
    >>> table.remove("ada")
    >>> table.match({"class": "alert", "severity": 3, "device": "web-1"})
    ['ben']
    """

    def __init__(
        self,
        subscriptions: Mapping[Any, Predicate | str] | Iterable[tuple[Id, Predicate | str]] = (),
        *,
        statistics: Statistics | None = None,
    ) -> None:
        """Compile subscriptions; `statistics` of events help to choose the constraints to index."""
        pairs = list(subscriptions.items() if isinstance(subscriptions, Mapping) else subscriptions)
        contract.check_ids([pair[0] for pair in pairs])
        given: dict[Id, Any] = dict(pairs)
        if len(given) < len(pairs):
            seen: set[Id] = set()
            raise contract.duplicate(next(i for i, _ in pairs if i in seen or seen.add(i)))  # type: ignore[func-returns-value]
        if set(map(type, given.values())) - {Predicate}:
            given = {id: _predicate(predicate) for id, predicate in given.items()}
        self._predicates: MutableMapping[Id, Predicate] = given
        self._index = Index(statistics)
        load(self._index, given)
        self._numbers: dict[Id, int] | None = dict(zip(given, range(len(given)), strict=True))
        self._lock = threading.RLock()
        self._folds = 0  # of the index, when segments were last looked at
        self._other_ids = contract.other_ids(given)
        self._checked: int | None = None  # the change at which ids last were different texts
        self._changes = 0

    # Subscriptions

    def __len__(self) -> int:
        return len(self._predicates)

    def __contains__(self, id: Id) -> bool:
        return id in self._predicates

    def __repr__(self) -> str:
        subscriptions, filters, constraints, size = self._index.sizes()
        return (
            f"Table({subscriptions:,} subscriptions, {filters:,} filters, "
            f"{constraints:,} constraints, {self._index.segments()} segments, {size:,} bytes)"
        )

    def add(self, id: Id, predicate: Predicate | str) -> None:
        """Add a subscription; the next call matches it."""
        contract.check_id(id)
        compiled = _predicate(predicate)
        filters, whole = filters_of(compiled)
        with self._lock:
            if id in self._predicates:
                raise contract.duplicate(id)
            number = self._index.add(id, filters, whole)
            self._all_numbers()[id] = number
            self._predicates[id] = compiled
            self._count(id, 1)

    def remove(self, id: Id) -> None:
        """Remove a subscription; the next call does not match it."""
        with self._lock:
            if id not in self._predicates:
                raise contract.unknown(id)
            self._index.remove(self._all_numbers().pop(id))
            del self._predicates[id]
            self._count(id, -1)

    def replace(self, id: Id, predicate: Predicate | str) -> None:
        """Give a subscription another predicate, at one moment.

        An event that matches both the old and the new predicate is never missed.
        """
        compiled = _predicate(predicate)
        filters, whole = filters_of(compiled)
        with self._lock:
            if id not in self._predicates:
                raise contract.unknown(id)
            numbers = self._all_numbers()
            numbers[id] = self._index.replace(numbers[id], filters, whole)
            self._predicates[id] = compiled
            self._count(id, 0)

    def _count(self, id: Id, difference: int) -> None:
        """Note a change, and merge segments where that is due."""
        self._changes += 1
        if difference and not contract.is_integer(id):
            self._other_ids += difference
        index = self._index
        if index.folds != self._folds:
            self._folds = index.folds
            if index.due():
                MERGER.request(index)
            if index.segments() > MOST_SEGMENTS:
                MERGER.wait(index)

    def _all_numbers(self) -> dict[Id, int]:
        """The number of each id; of a loaded table it is made by the first change."""
        if self._numbers is None:
            assert isinstance(self._predicates, StoredPredicates)
            self._numbers = dict(self._predicates.numbered())
        return self._numbers

    # Matching

    def match(self, event: EventLike) -> list[Id]:
        """The ids of the subscriptions that the event satisfies, each once."""
        try:
            return self._index.match(event)
        except EventError:
            if self._forget_names():
                return self._index.match(event)
            raise

    def match_each(self, events: Sequence[EventLike]) -> dict[int, list[Id]]:
        """What `match` finds for each event, by its place; events without a match are left out."""
        try:
            rows, numbers = self._index.match_events(events)
        except EventError:
            if not self._forget_names():
                raise
            rows, numbers = self._index.match_events(events)
        found: dict[int, list[Id]] = {}
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            found.setdefault(row, []).append(self._index.id_of(number))
        return found

    def match_batch(
        self, batch: Batch, json: str | None = None, threads: int | None = None
    ) -> pa.Table:
        """The matches as pairs: columns `event` (the row number) and `subscription` (the id).

        The columns of the batch are attributes, or `json` names the column that holds the events as
        JSON text. The pairs come in the order of rows. `threads` defaults to the number of cores.
        """
        integers = len(self._predicates) > 0 and self._other_ids == 0
        if not integers:
            self._check_texts()
        try:
            return self._matched(batch, json, threads or os.cpu_count() or 1, integers)
        except EventError:
            if self._forget_names():
                return self._matched(batch, json, threads or os.cpu_count() or 1, integers)
            raise

    def _matched(self, batch: Batch, json: str | None, threads: int, integers: bool) -> pa.Table:
        if json is None:
            found = match_columns(self._index, batch, threads)
        else:
            found = match_texts(self._index, batch, json, threads)
        return pairs_of(self._index, found, integers)

    def _forget_names(self) -> bool:
        """Forget attributes that no subscription asks about any more; whether there were any.

        The index keeps them until an event holds something odd, which matters only where somebody
        asks.
        """
        with self._lock:
            asked = contract.names_of(p.expression for p in self._predicates.values())
            return self._index.names.keep_only(asked)

    def _check_texts(self) -> None:
        """Raise where two ids are the same text; not again until something was changed."""
        with self._lock:
            if self._checked != self._changes:
                contract.check_texts(self._predicates)
                self._checked = self._changes

    def explain(self, event: EventLike, id: Id) -> Explanation:
        """Why the event matches a subscription, or why not."""
        if id not in self._predicates:
            raise contract.unknown(id)
        return self._predicates[id].explain(event)

    def explain_plan(self) -> str:
        """How filters are found, segment by segment, and which attributes take most, as text."""
        return plan_text(self._index)

    def stats(self) -> Stats:
        """How large the table is; `bytes` counts the index."""
        return Stats(*self._index.sizes())

    # Segments

    def wait(self) -> None:
        """Wait until nothing is merged."""
        MERGER.wait(self._index)

    def compact(self) -> None:
        """Compile everything into one segment now."""
        with self._lock:
            self._compact()

    def _compact(self) -> None:
        while not self._index.is_compact():
            self.wait()
            self._index.compact()

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the table as a directory, compiled into one segment, completely or not at all.

        A table already saved at the path is replaced at the end; processes that have loaded it keep
        theirs. Anything else at the path raises `TableFileError`.
        """
        with self._lock:
            self._compact()
            held = self._predicates
            if isinstance(held, StoredPredicates) and not held.changed:
                numbers, ids = list(held.numbers), list(held.ids)
            else:
                ordered = sorted((number, id) for id, number in self._all_numbers().items())
                numbers, ids = [number for number, _ in ordered], [id for _, id in ordered]
            find = held.written if isinstance(held, StoredPredicates) else held.__getitem__
            contents = Contents(self._index, ids, numbers, [find(id) for id in ids])
            write_table(path, contents)

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = False) -> Table:
        """Load a saved table: it maps the segment, and parses a predicate when it is asked for.

        The directory must be trusted. Offsets in its files index raw memory, so a forged table can
        crash the process or worse; the digests beside them find damage and are no signature.

        Loading always checks the sizes of the files, and with `verify` every byte. A table that
        another version saved is compiled anew from its texts, with a warning. `TableFileError` says
        what is wrong.
        """
        table = cls()
        table._index, held = read_table(path, verify)
        table._predicates, table._numbers = held, None
        table._other_ids = held.other_ids
        return table


def load(index: Index, subscriptions: Mapping[Id, Predicate]) -> None:
    """Compile subscriptions into an empty index; their numbers are their places."""
    predicates = list(subscriptions.values())
    wholes: dict[int, Any] = {}
    filters: list[Any]
    try:
        filters = list(normal_forms(predicates))
    except NormalFormError:
        filters = []
        for place, predicate in enumerate(predicates):
            found, whole = filters_of(predicate)
            filters.append(found)
            if whole is not None:
                wholes[place] = whole
    index.load(list(subscriptions), filters, wholes)


def _predicate(given: Predicate | str) -> Predicate:
    return parse(given) if isinstance(given, str) else given
