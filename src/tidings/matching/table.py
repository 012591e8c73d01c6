"""`Table`: which of very many subscriptions does this event satisfy?

A table is one large compiled segment, perhaps smaller ones with what came lately, and an index in
plain Python of what came just now. Adding and removing touch only the last and marks on the others,
so they take effect with the next call; segments are compiled anew in the background and put in
place at once. Matching never waits for that and is exact at every moment.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tidings.language.errors import NormalFormError
from tidings.language.event import Event
from tidings.language.predicate import Predicate, parse
from tidings.matching import contract
from tidings.matching import kernels as k
from tidings.matching.contract import Batch, EventLike, Id, Stats
from tidings.matching.documents import match_documents
from tidings.matching.segment import Segment, encode
from tidings.matching.storage import StoredPredicates, read_table, write_table

if TYPE_CHECKING:
    from tidings.language.explanation import Explanation
    from tidings.matching.statistics import Statistics

PLAIN_TYPES: Final = frozenset({str, int, float, bool, type(None)})
FRESH: Final = 4_096  # subscriptions in plain Python before they are compiled
UNINDEXED: Final = 128  # of these, so many without an equality, which are tried one by one
GROWTH: Final = 8  # a segment is compiled again with others when they reach an eighth of it


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
        """Compile subscriptions; `statistics` of events tell by which constraints to find them."""
        pairs = list(subscriptions.items() if isinstance(subscriptions, Mapping) else subscriptions)
        given: dict[Id, Any] = dict(pairs)
        if len(given) < len(pairs):
            seen: set[Id] = set()
            raise contract.duplicate(next(i for i, _ in pairs if i in seen or seen.add(i)))  # type: ignore[func-returns-value]
        if set(map(type, given.values())) - {Predicate}:
            given = {id: _predicate(predicate) for id, predicate in given.items()}
        self._predicates: MutableMapping[Id, Predicate] = given
        self._statistics = statistics
        self._lock = threading.RLock()
        self._compiling: threading.Thread | None = None
        self._changed: set[Id] = set()
        self._segments: tuple[Segment, ...] = ()
        self._fresh: tuple[_Fresh, ...] = (_Fresh(),)
        self._reader = _Reader()
        if self._predicates:
            self._segments = (self._segment(self._predicates),)

    # Subscriptions

    def __len__(self) -> int:
        return len(self._predicates)

    def __contains__(self, id: Id) -> bool:
        return id in self._predicates

    def add(self, id: Id, predicate: Predicate | str) -> None:
        """Add a subscription; the next call matches it."""
        compiled = _predicate(predicate)
        with self._lock:
            if id in self._predicates:
                raise contract.duplicate(id)
            self._predicates[id] = compiled
            self._fresh[-1].add(id, compiled)
            self._compile_if_due()

    def remove(self, id: Id) -> None:
        """Remove a subscription; the next call does not match it."""
        with self._lock:
            if id not in self._predicates:
                raise contract.unknown(id)
            del self._predicates[id]
            self._forget(id, self._fresh)

    def replace(self, id: Id, predicate: Predicate | str) -> None:
        """Give a subscription another predicate; an event that matches both is never missed."""
        compiled = _predicate(predicate)
        with self._lock:
            if id not in self._predicates:
                raise contract.unknown(id)
            self._predicates[id] = compiled
            older = self._fresh[:-1]
            if not self._fresh[-1].replace(id, compiled):
                self._fresh[-1].add(id, compiled)
                self._forget(id, older)
            self._compile_if_due()

    def _forget(self, id: Id, fresh: tuple[_Fresh, ...]) -> None:
        """Take an id out of wherever it is."""
        self._changed.add(id)
        if not any(part.remove(id) for part in fresh):
            for segment in self._segments:
                if segment.remove(id):
                    return

    # Matching

    def match(self, event: EventLike) -> list[Id]:
        """The ids of the subscriptions that the event satisfies, each once."""
        segments, fresh = self._segments, self._fresh
        if type(event) is not dict or not _is_plain(map(type, event.values())):
            event = Event(event)
        if len(segments) == 1:
            found = segments[0].match(event)
        else:
            found = self._reader.match(segments, event)
        for part in fresh:
            if part.predicates:
                found = part.match(event, found)
        return found

    def match_batch(
        self, batch: Batch, json: str | None = None, threads: int | None = None
    ) -> pa.Table:
        """For each row and each subscription it satisfies: `event` (row number), `subscription`.

        Columns are attributes, or `json` names the column that holds the events as JSON text. The
        pairs come in the order of rows. `threads` is by default the number of cores.
        """
        with self._lock:
            segments, fresh = self._segments, self._fresh
            parts = [*segments, *(part.segment() for part in fresh if part.predicates)]
            held = [part for part in parts if len(part)]
            integers = bool(held) and all(part.integers for part in held)
        workers = threads or os.cpu_count() or 1
        documents = [] if json is None else list(contract.events_of(batch, None, json))
        events: list[Any] = []
        ids: list[pa.Array] = []
        for segment in parts:
            found = (
                segment.match_batch(batch, workers)
                if json is None
                else match_documents(segment, documents, workers)
            )
            for rows, numbers in found:
                events.append(rows)
                ids.append(segment.id_column(numbers, integers))
        kind = pa.int64() if integers else pa.string()
        columns = {
            "event": pa.chunked_array(events, pa.int64()),
            "subscription": pa.chunked_array(ids, kind),
        }
        table = pa.table(columns)
        if len(parts) > 1:
            order = np.argsort(table.column("event").to_numpy(), kind="stable")
            table = table.take(pa.array(order))
        return table

    def explain(self, event: EventLike, id: Id) -> Explanation:
        """Why the event satisfies a subscription or does not."""
        if id not in self._predicates:
            raise contract.unknown(id)
        return self._predicates[id].explain(event)

    def stats(self) -> Stats:
        """How large the table is: `bytes` are those of the compiled index."""
        with self._lock:
            segments = [*self._segments, *(p.segment() for p in self._fresh if p.predicates)]
        return Stats(
            len(self._predicates),
            sum(segment.plan.filters for segment in segments),
            sum(segment.plan.constraints for segment in segments),
            sum(segment.plan.bytes for segment in segments),
        )

    # Compiling in the background

    def _segment(self, subscriptions: Mapping[Id, Predicate]) -> Segment:
        return Segment.of(subscriptions, statistics=self._statistics)

    def _compile_if_due(self) -> None:
        fresh = self._fresh[-1]
        if self._compiling is not None or (
            len(fresh.predicates) < FRESH and len(fresh.others) < UNINDEXED
        ):
            return
        frozen = self._fresh[-1]
        self._fresh = (*self._fresh, _Fresh())
        merged: list[Segment] = []
        size = len(frozen.predicates)
        for segment in sorted(self._segments, key=len):
            if len(segment) <= GROWTH * size:
                merged.append(segment)
                size += len(segment)
        self._changed = set()
        self._compiling = threading.Thread(
            target=self._compile, args=(frozen, merged), daemon=True, name="tidings-compile"
        )
        self._compiling.start()

    def _compile(self, frozen: _Fresh, merged: list[Segment]) -> None:
        """Compile frozen subscriptions and those of some segments into one, and put it in place."""
        with self._lock:
            current = dict(frozen.predicates)
            for segment in merged:
                current.update((id, self._predicates[id]) for id in segment.held())
        new = self._segment(current)
        with self._lock:
            for id in self._changed:
                new.remove(id)
            kept = tuple(segment for segment in self._segments if segment not in merged)
            self._segments = (*kept, new)
            self._fresh = tuple(part for part in self._fresh if part is not frozen)
            self._compiling = None

    def wait(self) -> None:
        """Wait until nothing is being compiled."""
        compiling = self._compiling
        if compiling is not None:
            compiling.join()

    def compact(self) -> None:
        """Compile everything into one segment now."""
        while True:
            self.wait()
            with self._lock:
                if self._compiling is None:  # none has begun since
                    self._segments = (self._segment(self._predicates),)
                    self._fresh = (_Fresh(),)
                    return

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the table as a directory, compiled into one segment; whole or not at all.

        A table saved there before is replaced at the end; those who loaded it keep theirs. Anything
        else at the path raises `TableFileError`.
        """
        while True:
            self.wait()
            with self._lock:
                if self._compiling is not None:
                    continue
                if not self._is_one_segment():
                    self.compact()
                segment, held = self._segments[0], self._predicates
                find = held.written if isinstance(held, StoredPredicates) else held.__getitem__
                predicates = [find(id) for id in segment.ids]
            return write_table(path, segment, predicates)

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = False) -> Table:
        """Load a saved table: its arrays are mapped, its predicates parsed when asked for.

        Sizes of files are checked always, with `verify` every byte is. A table that another source
        of Tidings saved is compiled anew from its texts. `TableFileError` says what is wrong.
        """
        table = cls()
        segment, table._predicates = read_table(path, verify)
        table._segments = (segment,)
        return table

    def _is_one_segment(self) -> bool:
        """Whether one segment holds everything and nothing else."""
        fresh = any(part.predicates for part in self._fresh)
        return len(self._segments) == 1 and not self._segments[0].removals and not fresh


_is_plain: Final = PLAIN_TYPES.issuperset


class _Reader(threading.local):
    """Several segments asked by one call, in one thread."""

    def __init__(self) -> None:
        self.segments: tuple[Segment, ...] = ()
        self.size = -1

    def match(self, segments: tuple[Segment, ...], event: dict[str, Any]) -> list[Id]:
        """The ids in all segments that a flat event satisfies."""
        if segments is not self.segments:
            self._renew(segments, 0)
        if not segments:
            return []
        data = encode(event, self.folded)
        if len(data) > self.size:
            self._renew(segments, len(data))
        found = k.match_segments(self.contexts, data)
        if found == 0:
            return []
        if found < 0:  # something has to be asked in Python
            return [id for segment in segments for id in segment.match(event)]
        ids: list[Id] = []
        counts = self.contexts[:, k.FOUND].tolist()
        for segment, count, out in zip(segments, counts, self.outs, strict=True):
            if count:
                ids += segment.ids_of(out[:count])
        return ids

    def _renew(self, segments: tuple[Segment, ...], size: int) -> None:
        """Take the arrays of these segments in this thread, with room for so many bytes."""
        held = [segment.arrays(size) for segment in segments]
        self.segments = segments
        self.size = min((arrays.size for arrays in held), default=0)
        self.outs = [arrays.out for arrays in held]
        self.works = [arrays.work for arrays in held]  # the contexts know where they are
        self.contexts = np.array([arrays.context for arrays in held])
        self.folded = {
            name: own for segment in segments for name, own in segment.plan.folded.items()
        }


class _Fresh:
    """Subscriptions that were added just now, found by an equality or else tried one by one."""

    def __init__(self) -> None:
        self.predicates: dict[Id, Predicate] = {}
        self.equal: dict[str, dict[Any, list[Id]]] = {}
        self.others: list[Id] = []
        self._segment: Segment | None = None

    def add(self, id: Id, predicate: Predicate) -> None:
        self.predicates[id] = predicate
        self._segment = None
        keys = _equalities(predicate)
        if keys is None:
            self.others.append(id)
        else:
            for name, value in keys:
                self.equal.setdefault(name, {}).setdefault(value, []).append(id)

    def replace(self, id: Id, predicate: Predicate) -> bool:
        """Put another predicate in place of one that is here."""
        if id not in self.predicates:
            return False
        self.add(id, predicate)  # where it stood before, the new predicate is asked and says no
        return True

    def remove(self, id: Id) -> bool:
        self._segment = None
        return self.predicates.pop(id, None) is not None

    def match(self, event: dict[str, Any], found: list[Id]) -> list[Id]:
        """The ids found so far and those that are satisfied here."""
        candidates: list[Id] = list(self.others)
        equal = self.equal
        for name, value in event.items():
            values = equal.get(name)
            if values is not None:
                for one in value if type(value) is tuple else (value,):
                    candidates += values.get(one, ())
        if not candidates:
            return found
        known = set(found)
        for id in dict.fromkeys(candidates):
            predicate = self.predicates.get(id)
            if predicate is not None and id not in known and predicate.matches(event):
                found = [*found, id]
        return found

    def segment(self) -> Segment:
        """What is here, compiled, for a batch; kept until something changes."""
        if self._segment is None:
            self._segment = Segment.of(self.predicates)
        return self._segment


def _equalities(predicate: Predicate) -> list[tuple[str, Any]] | None:
    """An equality of each filter, or None where one has none."""
    keys = []
    try:
        filters = predicate.filters
    except NormalFormError:
        return None
    for filter in filters:
        found = next((c for c in filter if c.operator == "=" and not c.negated), None)
        if found is None:
            return None
        keys.append((found.name, found.operand))
    return keys


def _predicate(given: Predicate | str) -> Predicate:
    return parse(given) if isinstance(given, str) else given
