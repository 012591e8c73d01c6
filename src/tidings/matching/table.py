"""`Table`: which of very many subscriptions does this event satisfy?

A table is one compiled segment and an index of recent subscriptions. `add` writes to the recent
index, and `remove` sets a tombstone, so both take effect with the next call. When there are many
recent subscriptions, a thread in the background merges them into a new segment and swaps it in at
once. Matching never waits for that and is exact at every moment.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, MutableMapping
from math import isqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.language.event import Event
from tidings.language.predicate import Predicate, parse
from tidings.matching import contract
from tidings.matching import kernels as k
from tidings.matching import recent_search_kernels as rs
from tidings.matching.contract import Batch, EventLike, Id, Stats
from tidings.matching.documents import match_documents
from tidings.matching.ranking import Slots
from tidings.matching.recent import NOTHING, RecentIndex
from tidings.matching.recent_ranking import rank_recent
from tidings.matching.residuals import Check
from tidings.matching.segment import Segment, encode
from tidings.matching.storage import StoredPredicates, read_table, write_table

if TYPE_CHECKING:
    from tidings.language.explanation import Explanation
    from tidings.matching.statistics import Statistics

Array = np.ndarray[Any, Any]

PLAIN_TYPES: Final = frozenset({str, int, float, bool, type(None)})
RECENT: Final = 4_096  # recent subscriptions at which compiling starts, in a small table
ANEW: Final = 3  # times as many if everything must be compiled from predicates
SMALL: Final = 16_384  # subscriptions of a small table; above, RECENT grows with the square root
TRIES: Final = 2  # to match an event again while others change the table
ROUNDS: Final = 4  # to remove from the new segment what has changed since compiling began
SELDOM: Final = 32  # updates between two checks whether to compile


class Parts(NamedTuple):
    """The parts of a table, which are always replaced together."""

    segments: tuple[Segment, ...]
    recent: RecentIndex
    combined: bool = False  # use the combined kernel even if the recent index is empty

    @classmethod
    def of(cls, segment: Segment, recent: RecentIndex) -> Parts:
        """One segment and the recent index.

        If the ids are integers but not their own numbers, the combined kernel also looks up the ids
        of the numbers it finds.
        """
        listed = isinstance(segment.ids, list) and not segment.counted
        combined = listed and not segment.plan.residuals and segment.id_objects().dtype != object
        return cls((segment,), recent, combined)


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
        changing: bool = False,
    ) -> None:
        """Compile subscriptions; `statistics` of events help to choose the constraints to index.

        With `changing`, the table keeps from the beginning what it needs to merge later changes;
        that is about as large as the index. Without it, the table makes this when enough has
        changed, which takes time then.
        """
        pairs = list(subscriptions.items() if isinstance(subscriptions, Mapping) else subscriptions)
        for id, *_ in pairs:
            contract.check_id(id)
        given: dict[Id, Any] = dict(pairs)
        if len(given) < len(pairs):
            seen: set[Id] = set()
            raise contract.duplicate(next(i for i, _ in pairs if i in seen or seen.add(i)))  # type: ignore[func-returns-value]
        if set(map(type, given.values())) - {Predicate}:
            given = {id: _predicate(predicate) for id, predicate in given.items()}
        self._predicates: MutableMapping[Id, Predicate] = given
        self._statistics = statistics
        self._changing = changing
        self._lock = threading.RLock()
        self._compiling: threading.Thread | None = None
        self._changed: set[Id] = set()  # since compiling began
        self._least = 0  # recent subscriptions needed to try again after compiling has failed
        self._next_look = 0  # the number of changes at which to check whether to compile
        self._compiled: tuple[RecentIndex, int, Segment] | None = (
            None  # the recent subscriptions as a segment, for batches
        )
        self._distinct: tuple[RecentIndex, int] | None = None  # when the ids last were, as texts
        self._parts = Parts((), RecentIndex())
        if given:
            self._parts = Parts.of(self._all(), self._nothing_recent())
        self._local = _LocalReader()

    # Subscriptions

    def __len__(self) -> int:
        return len(self._predicates)

    def __contains__(self, id: Id) -> bool:
        return id in self._predicates

    def add(self, id: Id, predicate: Predicate | str) -> None:
        """Add a subscription; the next call matches it."""
        contract.check_id(id)
        compiled = _predicate(predicate)
        with self._lock:
            if id in self._predicates:
                raise contract.duplicate(id)
            self._predicates[id] = compiled
            if not self._parts.recent.add(id, compiled):
                self._add(id, compiled, NOTHING)
            elif self._parts.recent.changes >= self._next_look:
                self._compile_if_due()

    def remove(self, id: Id) -> None:
        """Remove a subscription; the next call does not match it."""
        with self._lock:
            try:
                del self._predicates[id]
            except KeyError:
                raise contract.unknown(id) from None
            if self._compiling is not None:
                self._changed.add(id)
            if not self._parts.recent.remove(id):
                for segment in self._parts.segments:
                    if segment.remove(id):
                        break

    def replace(self, id: Id, predicate: Predicate | str) -> None:
        """Give a subscription another predicate.

        An event that matches both the old and the new predicate is never missed.
        """
        compiled = _predicate(predicate)
        with self._lock:
            if id not in self._predicates:
                raise contract.unknown(id)
            self._predicates[id] = compiled
            if self._compiling is not None:
                self._changed.add(id)
            for segment in self._parts.segments:
                number = segment.number_of(id)
                if number is not None:
                    self._add(id, compiled, segment.tombstone_addresses(number))
                    segment.count_removal(number)
                    return
            self._add(id, compiled, NOTHING)

    def _file(self) -> None:
        """File the subscriptions added since the last match into the recent index."""
        with self._lock:
            while not self._parts.recent.file():
                self._parts = self._parts._replace(recent=self._parts.recent.larger())

    def _add(self, id: Id, predicate: Predicate, tombstone: Array) -> None:
        """Add a recent subscription and set the tombstone of the one it replaces, at once."""
        while not self._parts.recent.add(id, predicate, tombstone):
            self._parts = self._parts._replace(recent=self._parts.recent.larger(predicate))
        self._compile_if_due()

    # Matching

    def match(self, event: EventLike) -> list[Id]:
        """The ids of the subscriptions that the event satisfies, each once."""
        if type(event) is not dict or not _is_plain(map(type, event.values())):
            event = Event(event)
        while True:
            parts = self._parts
            segments, recent, combined = parts
            if recent.waiting:
                self._file()
                continue
            if recent.numbers or combined:
                reader = self._local.reader
                if (
                    reader is None
                    or reader.parts is not parts
                    or reader.folds != len(recent.folded)
                ):
                    reader = self._local.reader = _Reader(parts, self._lock)
                found = reader.match(event)
                if self._parts is parts and reader.folds == len(recent.folded):
                    return found
            else:
                found = segments[0].match(event) if segments else []
                # A subscription replaced meanwhile may have been missed in both of its places.
                if self._parts is parts and not recent.numbers:
                    return found

    def match_batch(
        self, batch: Batch, json: str | None = None, threads: int | None = None
    ) -> pa.Table:
        """The matches as pairs: columns `event` (the row number) and `subscription` (the id).

        The columns of the batch are attributes, or `json` names the column that holds the events as
        JSON text. The pairs come in the order of rows. `threads` defaults to the number of cores.
        """
        with self._lock:
            parts = self._all_compiled()
            held = [part for part in parts if len(part)]
            integers = bool(held) and all(part.integers for part in held)
            if not integers:
                self._check_texts()
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

    def _check_texts(self) -> None:
        """Raise where two ids are the same text; not again until something was added."""
        recent = self._parts.recent
        seen = self._distinct
        if seen is None or seen[0] is not recent or seen[1] != recent.changes:
            contract.check_texts(self._predicates)
            self._distinct = recent, recent.changes

    def explain(self, event: EventLike, id: Id) -> Explanation:
        """Why the event matches a subscription, or why not."""
        if id not in self._predicates:
            raise contract.unknown(id)
        return self._predicates[id].explain(event)

    def stats(self) -> Stats:
        """How large the table is; `bytes` counts the index and what is kept to change it."""
        with self._lock:
            segments = self._all_compiled()
        return Stats(
            len(self._predicates),
            sum(segment.plan.filters for segment in segments),
            sum(segment.plan.constraints for segment in segments),
            sum(segment.bytes for segment in segments),
        )

    # Compiling in the background

    def _segment(self, subscriptions: Mapping[Id, Predicate]) -> Segment:
        return Segment.of(subscriptions, statistics=self._statistics)

    def _all(self) -> Segment:
        """All subscriptions as one segment."""
        if self._changing:
            return self._growing(self._predicates)
        return self._segment(self._predicates)

    def _nothing_recent(self) -> RecentIndex:
        """An empty recent index that can grow to what will come until the next compilation."""
        return RecentIndex(wanted=2 * _due(len(self._predicates)))

    def _growing(self, subscriptions: Mapping[Id, Predicate]) -> Segment:
        """Subscriptions as a segment that can grow; has Numba compile the kernels for that now."""
        rank_recent(RecentIndex(), [], [], Slots())
        return Segment.growing(subscriptions, self._statistics)

    def _all_compiled(self) -> list[Segment]:
        """The segments, and the recent subscriptions as one more, kept until something changes."""
        segments, recent, _ = self._parts
        if not recent.numbers:
            return [*segments]
        kept = self._compiled
        if kept is None or kept[0] is not recent or kept[1] != recent.changes:
            kept = self._compiled = (recent, recent.changes, self._segment(recent.held()))
        return [*segments, kept[2]]

    def _compile_if_due(self) -> None:
        segments, recent, _ = self._parts
        if recent.changes < self._next_look or self._compiling is not None:
            return
        self._next_look = recent.changes + SELDOM
        due = _due(max(map(len, segments), default=0))
        if segments and segments[0].coordinates is None:
            due *= ANEW
        if len(recent.numbers) < max(due, self._least):
            return
        self._compiling = threading.Thread(
            target=self._compile, daemon=True, name="tidings-compile"
        )
        self._compiling.start()

    def _compile(self) -> None:
        """Merge the recent subscriptions into a new segment, and swap it in."""
        changed: set[Id] = set()
        with self._lock:
            self._changed = set()
            self._file()
            segments, recent, _ = self._parts
            frozen = dict(recent.numbers)
            removed = [segment.removed.copy() for segment in segments]
        try:
            new = self._grown(segments, removed, recent, frozen)
            new.prepare()
            for _ in range(ROUNDS):  # each round has less to do; the last one below holds the lock
                with self._lock:
                    newer, self._changed = self._changed, set()
                for id in newer:
                    new.remove(id)
                changed |= newer
        except BaseException:
            with self._lock:  # the table stays as it is and tries again with more
                self._compiling = None
                self._least = 2 * len(self._parts.recent.numbers)
            raise
        with self._lock:
            for id in self._changed:
                new.remove(id)
            self._file()
            self._parts.recent.wanted = 2 * _due(len(new))
            left = self._parts.recent.without(frozen.keys() - changed - self._changed)
            self._parts = Parts.of(new, left)
            self._compiling = None
            self._least = 0

    def _grown(
        self,
        segments: tuple[Segment, ...],
        removed: list[Array],
        recent: RecentIndex,
        frozen: dict[Id, int],
    ) -> Segment:
        """A new segment: the old ones without the removed, and the recent ones in `frozen`."""
        predicates = [recent.predicates[number] for number in frozen.values()]
        if segments and segments[0].coordinates is not None:
            slots = segments[0].coordinates.slots.copy()
            numbers = list(frozen.values())
            newer = rank_recent(recent, numbers, predicates, slots, self._statistics)
            return segments[0].joined(removed[0], list(frozen), newer)
        held = dict(zip(frozen, predicates, strict=True))
        for segment, flags in zip(segments, removed, strict=True):
            for id, is_removed in zip(segment.ids, flags.tolist(), strict=True):
                predicate = None if is_removed else self._predicates.get(id)
                if predicate is not None:  # None if it was removed just now
                    held.setdefault(id, predicate)
        return self._growing(held)

    def wait(self) -> None:
        """Wait until no compilation is running."""
        compiling = self._compiling
        if compiling is not None:
            compiling.join()

    def compact(self) -> None:
        """Compile everything into one segment now."""
        while True:
            self.wait()
            with self._lock:
                if self._compiling is None:  # no other has begun since
                    self._parts = Parts.of(self._all(), self._nothing_recent())
                    self._next_look = 0
                    return

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the table as a directory, compiled into one segment, completely or not at all.

        A table already saved at the path is replaced at the end; processes that have loaded it keep
        theirs. Anything else at the path raises `TableFileError`.
        """
        while True:
            self.wait()
            with self._lock:
                if self._compiling is not None:
                    continue
                if not self._is_one_segment() and not self._changing:
                    self.compact()
                held = self._predicates
                segment = self._parts.segments[0] if self._is_one_segment() else self._segment(held)
                find = held.written if isinstance(held, StoredPredicates) else held.__getitem__
                predicates = [find(id) for id in segment.ids]
            return write_table(path, segment, predicates)

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = False) -> Table:
        """Load a saved table: it maps the arrays, and parses a predicate when it is asked for.

        The directory must be trusted. Offsets in its files index raw memory, so a forged table can
        crash the process or worse; the digests beside them find damage and are no signature.

        Loading always checks the sizes of the files, and with `verify` every byte. A table that
        another version of the sources saved is compiled anew from its texts. `TableFileError` says
        what is wrong.
        """
        table = cls()
        segment, table._predicates = read_table(path, verify)
        table._parts = Parts.of(segment, table._nothing_recent())
        return table

    def _is_one_segment(self) -> bool:
        """Whether one segment holds all subscriptions and no removed ones."""
        segments, recent, _ = self._parts
        return len(segments) == 1 and not segments[0].removals and not recent.numbers


_is_plain: Final = PLAIN_TYPES.issuperset


class _Reader:
    """Matches one thread's events against segments and the recent index, by one call."""

    def __init__(self, parts: Parts, lock: threading.RLock) -> None:
        self.parts = parts
        self.lock = lock
        self.segments, self.recent, _ = parts
        self.tries = 0  # for the same event
        self.folds = len(self.recent.folded)  # when there are more, a new reader is needed
        self.folded = {**self.recent.folded}
        for segment in self.segments:
            self.folded.update(segment.plan.folded)
        self.asking = any(segment.plan.residuals for segment in self.segments)
        self.found = np.zeros(self.recent.room, np.int64)
        self.ids = np.zeros(sum(len(s.ids) for s in self.segments) + self.recent.room, np.int64)
        self._make_room(1024)

    def match(self, event: dict[str, Any]) -> list[Id]:
        """The ids that a flat event satisfies, in all segments and among recent subscriptions.

        Without residuals it keeps the GIL throughout: while others add or compile, getting the GIL
        back would often take longer than matching.
        """
        data = encode(event, self.folded)
        if len(data) > self.size:
            self._make_room(len(data))
        if self.asking:
            return self._asked(event, data)
        count = rs.match_combined(self.combined, data)
        if count == 0:
            return []
        if count < 0:
            return self._again(count, event)
        ids: list[Id] = []
        gathered = self.view[rs.COMBINED_GATHERED]
        if gathered >= 0:
            ids = self.ids[:gathered].tolist()
            for segment, arrays in self.held:
                if arrays.view[k.SPAN_COUNT]:
                    segment.span(arrays, ids)
                    if not segment.is_as_found(arrays):
                        return self._anew(event)
            return ids
        for segment, arrays in self.held:
            found = arrays.view[k.FOUND]
            if found or arrays.view[k.SPAN_COUNT]:
                more = segment.found(arrays, found)
                if arrays.view[k.SPAN_COUNT] and not segment.is_as_found(arrays):
                    return self._anew(event)
                ids = ids + more if ids else more
        recent, asks = self.view[rs.COMBINED_FOUND], self.view[rs.COMBINED_ASKS]
        if recent or asks:
            ids += self.recent.found(recent, asks, event, self.found)
        return ids

    def _anew(self, event: dict[str, Any]) -> list[Id]:
        """Match again: a subscription replaced meanwhile would be missing."""
        self.tries += 1
        try:
            if self.tries <= TRIES:
                return self.match(event)
            with self.lock:  # so nothing changes meanwhile
                return self.match(event)
        finally:
            self.tries = 0

    def _asked(self, event: dict[str, Any], data: bytes) -> list[Id]:
        """The same for segments with residuals."""
        replaced, held = self.recent.replaced, len(self.recent.predicates)
        known: dict[Check, bool] = {}
        ids: list[Id] = []
        for segment in self.segments:
            ids += segment.match(event, known=known)
        count = rs.match_combined(self.alone, data)
        if count < 0:
            return self._again(count, event)
        recent, asks = self.alone[rs.COMBINED_FOUND : rs.COMBINED_ASKS + 1].tolist()
        if recent or asks:
            # An id removed and added again meanwhile would be found twice, so later additions are
            # left out; unless one was replaced, which may be found twice but must not be missed.
            replacing = self.recent.replacing or replaced != self.recent.replaced
            most = None if replacing else held
            more = self.recent.found(recent, asks, event, self.found, known, most)
            if replacing:
                twice = set(more).intersection(ids)
                more = [id for id in more if id not in twice]
            ids += more
        return ids

    def _again(self, why: int, event: dict[str, Any]) -> list[Id]:
        """Match again: the event was not flat, or there was no room for all answers."""
        if why != rs.NO_ROOM_OUT:
            return self.match(Event(event))
        self.found = np.zeros(2 * self.found.size, np.int64)
        self._make_room(self.size)
        return self.match(event)

    def _make_room(self, size: int) -> None:
        """Make arrays for an event of `size` bytes."""
        self.size = size
        entries = (rs.RAW_WIDTH + rs.FIELD_WIDTH // 2) * size + rs.PENDING_ROOM
        self.entries = np.zeros(entries, np.int64)
        self.held = [(segment, segment.arrays(size)) for segment in self.segments]
        combined = np.zeros(rs.COMBINED_PLAN + rs.COMBINED_STEP * len(self.held), np.int64)
        combined[rs.COMBINED_RECENT] = self.recent.context.ctypes.data
        # Slots of the recent index by slot of the first plan; slot 0 always exists and has no name.
        plans = [segment.plan.whole for segment in self.segments[:1]]
        self.slots = np.zeros(sum(k.section(p, k.SLOT_REVERSED).size for p in plans), np.int64)
        combined[rs.COMBINED_KNOWN] = 1
        arrays = {
            rs.COMBINED_ENTRIES: self.entries,
            rs.COMBINED_OUT: self.found,
            rs.COMBINED_SLOTS: self.slots,
        }
        for name, array in arrays.items():
            combined[name : name + 2] = array.ctypes.data, array.size
        self.alone = combined.copy()
        combined[rs.COMBINED_PLANS] = len(self.held)
        combined[rs.COMBINED_PLAN :: rs.COMBINED_STEP] = [
            a.context.ctypes.data for _, a in self.held
        ]
        # Keep the arrays here too: two threads may make those of a segment at the same time.
        self.named = [np.zeros(0) if s.counted else s.id_objects() for s in self.segments]
        if all(ids.dtype != object for ids in self.named):
            combined[rs.COMBINED_IDS : rs.COMBINED_IDS_SIZE + 1] = (
                self.ids.ctypes.data,
                self.ids.size,
            )
            addresses = [ids.ctypes.data if ids.size else 0 for ids in self.named]
            combined[rs.COMBINED_PLAN + 1 :: rs.COMBINED_STEP] = addresses
        self.combined = combined
        self.view = combined.data  # a memoryview, which gives Python integers at once


class _LocalReader(threading.local):
    """The reader of each thread."""

    def __init__(self) -> None:
        self.reader: _Reader | None = None


def _due(compiled: int) -> int:
    """How many recent subscriptions start a compilation, in a table of `compiled` ones."""
    return RECENT * max(isqrt(compiled // SMALL), 1)


def _predicate(given: Predicate | str) -> Predicate:
    return parse(given) if isinstance(given, str) else given
