"""The store: a folder of subscriptions with all their versions, which may change as jobs read it.

`changes/N.parquet` is the change that made version N. It is immutable: only one writer can make a
file of that name, and it appears as a whole (`folders`). So a writer never overwrites another's
change, a reader never sees half a file, and a process may die at any point: a change is there as a
whole or not at all. `states/N.parquet` holds all subscriptions of version N,
so that readers need not apply the changes before it. Version 0 is empty. Files whose names begin
with a dot are being written; readers, Spark among them, ignore them.

A store needs no JVM. It needs a folder that the writers and the driver share: of a file system with
hard links, or of object storage with conditional puts.

>>> store = Store(tmp)
>>> store.add({"ada": "severity > 2", "ben": "device prefix 'web-'"}).version
1
>>> store.remove("ben").version
2
>>> store.snapshot().to_pylist(), store.snapshot(1).num_rows
([{'subscription': 'ada', 'predicate': 'severity > 2', 'dialect': None}], 2)
"""

from __future__ import annotations

import io
import os
import time
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.spark.folders import FolderError, folder
from tidings.spark.intake import (
    MAX_SHOWN,
    ChangeRefused,
    Given,
    GivenIds,
    StoreError,
    judged_ids,
    judged_subscriptions,
)

MAX_CHANGES: Final = 10_000_000  # subscriptions in one change
STATE_EVERY: Final = 100  # versions, after which the state is saved too
GRACE_SECONDS: Final = 3_600.0  # the longest that a writer may work on one version
ATTEMPTS: Final = 1_000  # to claim a version that other writers claim too
CHANGES: Final = "changes"
STATES: Final = "states"
ENDS: Final = pa.timestamp("us", "UTC")  # of subscriptions
_NOTHING_REFUSED: Final = pa.schema(
    [(name, pa.string()) for name in ("subscription", "predicate", "dialect", "reason")]
).empty_table()
_COUNTS: Final = {"add": b"added", "remove": b"removed", "replace": b"replaced"}


class Commit(NamedTuple):
    """The result of a change: the version that it made, and the subscriptions it refused.

    `refused` has the columns `subscription`, `predicate`, `dialect` and `reason`, all text. If
    nothing was left to change, `version` is the version before.
    """

    version: int
    refused: pa.Table


class Change(NamedTuple):
    """A version in the history of a store."""

    version: int
    at: datetime
    added: int
    removed: int
    replaced: int


class Store:
    """Subscriptions in a folder, with all their versions.

    The first change makes the folder. The ids of a store are all text or all integers. A bad
    subscription (its predicate is wrong, `add` finds its id in the store, `remove` or `replace` do
    not) raises `StoreError`, and nothing changes. With `strict=False` the store takes the others,
    and the commit says which it refused and why.

    `add` and `replace` take a mapping from ids to predicates; one pair, triple with a dialect, or
    `Subscription`; an iterable of these; or an Arrow table or Spark DataFrame with the columns
    `subscription`, `predicate` and perhaps `dialect`. The executors parse the predicates of a
    DataFrame. `expires` is when these subscriptions end, as a moment or as a time from now;
    `expire` removes those whose end has come, and a stream does so before each batch.

    With `keep`, a writer removes versions that were replaced longer ago than that, whenever it
    saves a state; a stream must not be interrupted for longer.
    """

    def __init__(self, path: str | os.PathLike[str], *, keep: timedelta | None = None) -> None:
        try:
            self.files = folder(path)
        except FolderError as error:
            raise StoreError(f"the store: {error}") from None
        self.path = self.files.location
        self._known = 0  # a version that exists
        self._state: tuple[int, pa.Table] | None = None  # the last snapshot, with ends
        self._soonest: tuple[int, datetime | None] | None = None  # the first end up to a version
        self.keep = keep

    def __repr__(self) -> str:
        return f"Store({self.path!r})"

    def __reduce__(self) -> Any:
        """Pickle where the store is and what it keeps, and not what was read."""
        return partial(Store, keep=self.keep), (self.path,)

    # Changes

    def add(
        self,
        subscriptions: Given,
        *,
        strict: bool = True,
        expires: datetime | timedelta | None = None,
    ) -> Commit:
        """Add subscriptions whose ids are not in the store."""
        judged = judged_subscriptions(subscriptions)
        return self._commit("add", judged, strict, _end(expires))

    def replace(
        self,
        subscriptions: Given,
        *,
        strict: bool = True,
        expires: datetime | timedelta | None = None,
    ) -> Commit:
        """Give other predicates, and another end or none, to subscriptions in the store."""
        judged = judged_subscriptions(subscriptions)
        return self._commit("replace", judged, strict, _end(expires))

    def remove(self, ids: GivenIds, *, strict: bool = True) -> Commit:
        """Remove subscriptions from the store."""
        return self._commit("remove", judged_ids(ids), strict)

    def expire(self, now: datetime | None = None) -> Commit:
        """Remove the subscriptions whose end has come."""
        at = _end(now) or datetime.now(UTC)
        version = self.version()
        self._check_version(version)
        soonest = self._first_end(version)
        if soonest is None or soonest > at:
            return Commit(version, _NOTHING_REFUSED)
        held = self._whole(version)
        due = held.filter(pc.less_equal(held.column("expires"), pa.scalar(at, ENDS)))
        self._soonest = None
        if not due.num_rows:
            return Commit(version, _NOTHING_REFUSED)
        ids = judged_ids(due.column("subscription").to_pylist())
        return Commit(self._commit("remove", ids, False, due=at).version, _NOTHING_REFUSED)

    def _first_end(self, version: int) -> datetime | None:
        """The first end of a subscription, or an earlier one that no longer counts."""
        ends, before = None, None
        if self._soonest is not None and self._soonest[0] <= version:
            since, before = self._soonest
            with suppress(StoreError):  # where the changes since then were vacuumed
                ends = self._reading(lambda: self._changes(since, version)).column("expires")
        if ends is None:
            ends, before = self._whole(version).column("expires"), None
        first = pc.min(ends).as_py()
        soonest = min((end for end in (first, before) if end is not None), default=None)
        self._soonest = version, soonest
        return soonest

    def _commit(
        self,
        change: str,
        given: pa.Table,
        strict: bool,
        expires: datetime | None = None,
        due: datetime | None = None,
    ) -> Commit:
        """Claim the next version for the good rows; try again if another writer was first."""
        if given.num_rows > MAX_CHANGES:
            raise StoreError(f"expected at most {MAX_CHANGES} changes at once, found more")
        if change != "add":
            self._check_exists()
        for _ in range(ATTEMPTS):
            version = self.version() if self.exists() else 0
            judged = self._compared(change, given, version, due)
            bad = pc.is_valid(judged.column("reason"))
            refused = judged.filter(bad)
            if refused.num_rows and strict:
                raise ChangeRefused(_complaint(change, refused))
            good = judged.filter(pc.invert(bad)).drop_columns("reason")
            if not good.num_rows:
                return Commit(version, _as_text(refused))
            if not version:
                self._refuse_foreign()
            table = _change_table(version + 1, change, good, expires)
            if self._publish(_change_name(version + 1), table):
                self._known = version + 1
                if (version + 1) % STATE_EVERY == 0:
                    with suppress(OSError, StoreError):  # the change is made; a state only helps
                        self.compact()
                        self.forget()
                return Commit(version + 1, _as_text(refused))
        raise StoreError(
            f"{self.path}: other writers changed the store first, {ATTEMPTS:,} times in a row"
        )

    def _compared(
        self, change: str, given: pa.Table, version: int, due: datetime | None
    ) -> pa.Table:
        """The rows with the reasons why the store refuses some, given what it holds."""
        ids = given.column("subscription")
        held = ids.slice(0, 0)
        if version:
            rows = self._whole(version)
            if due is not None:  # another writer may have given them another end
                rows = rows.filter(pc.less_equal(rows.column("expires"), pa.scalar(due, ENDS)))
            held = rows.column("subscription")
        if given.num_rows and ids.type != held.type:
            raise ChangeRefused(
                f"{self.path}: expected ids that are {_kind(held.type)}s, as all in this store "
                f"are, found {_kind(ids.type)}s"
            )
        there = pc.is_in(ids, held)
        if change == "add":
            fault = pc.if_else(there, "the id is in the store already; replace it", None)
        else:
            fault = pc.if_else(there, None, "the id is not in the store")
        reasons = pc.coalesce(given.column("reason"), fault.cast(pa.string()))
        return given.set_column(given.schema.get_field_index("reason"), "reason", reasons)

    # Versions

    def exists(self) -> bool:
        """Whether there is a store."""
        return bool(self.files.names(CHANGES) or self.files.names(STATES))

    def version(self) -> int:
        """The newest version. Each version since the last call costs a look at the file system.

        `vacuum` removes the oldest files first: where a version exists, all later ones do.
        """
        if not self._known or not self.files.exists(_change_name(self._known)):
            self._known = max((*self._numbers(CHANGES), *self._numbers(STATES)), default=0)
        while self.files.exists(_change_name(self._known + 1)):
            self._known += 1
        return self._known

    def snapshot(self, version: int | None = None, *, ends: bool = False) -> pa.Table:
        """The subscriptions of a version, by default the newest one.

        Columns: `subscription` (text or int64), `predicate`, `dialect` (null for our own); with
        `ends` also `expires`, null for a subscription that has no end.
        """
        wanted = self.version() if version is None else version
        whole = self._whole(wanted)
        return whole if ends else whole.drop_columns("expires")

    def _whole(self, wanted: int) -> pa.Table:
        """The subscriptions of a version, with their ends in a column `expires`."""
        self._check_version(wanted)
        if self._state is not None and self._state[0] == wanted:
            return self._state[1]
        state = self._reading(lambda: self._build(wanted))
        if wanted:  # the type of the ids of an empty store is not known yet
            self._state = (wanted, state)
        return state

    def changes(self, since: int = 0, until: int | None = None) -> pa.Table:
        """The changes after a version and up to another, by default the newest, in order.

        Columns: `version`, `change` (add, remove, replace), `subscription`, `predicate`, `dialect`.
        """
        last = self.version() if until is None else until
        self._check_version(last)
        self._check_version(since)
        found: pa.Table = self._reading(lambda: self._changes(since, last))
        return found.drop_columns("expires")

    def history(self) -> list[Change]:
        """Every version whose change still exists, with its time and sizes."""
        self._check_exists()
        found: list[Change] = self._reading(self._history)
        return found

    def _history(self) -> list[Change]:
        found = []
        for version in self._numbers(CHANGES):
            facts = self._schema(_change_name(version)).metadata
            counts = (int(facts[b"tidings." + _COUNTS[change]]) for change in _COUNTS)
            added, removed, replaced = counts
            at = datetime.fromisoformat(facts[b"tidings.at"].decode())
            found.append(Change(version, at, added, removed, replaced))
        return found

    def _build(self, version: int) -> pa.Table:
        """A snapshot, made from the nearest state before it in memory or in a file."""
        start, state = 0, None
        if self._state is not None and self._state[0] <= version:
            start, state = self._state
        saved = max((v for v in self._numbers(STATES) if start < v <= version), default=start)
        if saved > start:
            start, state = saved, self._read(_state_name(saved))
        return _applied(state, self._changes(start, version))

    def _changes(self, since: int, until: int) -> pa.Table:
        parts = [self._read(_change_name(v)) for v in range(since + 1, until + 1)]
        if parts:
            return pa.concat_tables(parts)
        kind = pa.string()
        if until:
            newest = max(v for v in (*self._numbers(CHANGES), *self._numbers(STATES)))
            at_change = _change_name(newest)
            name = at_change if self.files.exists(at_change) else _state_name(newest)
            kind = self._schema(name).field("subscription").type
        return _change_schema(kind).empty_table()

    def _reading(self, read: Callable[[], Any]) -> Any:
        """Call `read`, a second time if a file was removed meanwhile; explain what went wrong."""
        for last_time in (False, True):
            try:
                return read()
            except FileNotFoundError as error:
                if last_time:
                    oldest = min(self._numbers(STATES), default=0)
                    raise StoreError(
                        f"{self.path}: this version was vacuumed; the oldest is {oldest}"
                    ) from error
            except (pa.ArrowInvalid, KeyError) as error:
                raise StoreError(f"{self.path}: a file of the store is damaged: {error}") from error
        raise AssertionError

    # Upkeep

    def compact(self) -> int:
        """Save the state of the newest version, so that reading starts there; return it."""
        version = self.version()
        self._check_version(version)
        state = self._whole(version)
        if version and not self.files.exists(_state_name(version)):
            self._publish(_state_name(version), state)
        return version

    def vacuum(self, before: int, *, grace_seconds: float = GRACE_SECONDS) -> int:
        """Remove the versions before one, and return how many files that were.

        No running stream may use a version before it. Files younger than `grace_seconds` stay,
        because a writer that has read a version must find all changes since.
        """
        self._check_version(before)
        if before and not self.files.exists(_state_name(before)):
            self._publish(_state_name(before), self._whole(before))
        oldest_kept = time.time() - grace_seconds
        removed = 0
        for below, last in ((STATES, before - 1), (CHANGES, before)):
            for version in self._numbers(below):  # the oldest first: `version` relies on it
                name = f"{below}/{_name(version)}"
                if version > last or self.files.modified(name) > oldest_kept:
                    break
                self.files.remove(name)
                removed += 1
        return removed + sum(self.files.sweep(below, oldest_kept) for below in (CHANGES, STATES))

    def forget(self) -> int:
        """Remove the versions that were replaced longer ago than `keep`; how many files."""
        if self.keep is None:
            return 0
        numbers = self._numbers(CHANGES)
        oldest_kept = time.time() - self.keep.total_seconds()
        replaced = bisect_right(
            numbers, oldest_kept, key=lambda version: self.files.modified(_change_name(version))
        )
        return self.vacuum(numbers[replaced - 1]) if replaced else 0

    # Files

    def _numbers(self, below: str) -> list[int]:
        """The versions of the files in a folder, sorted."""
        stems = (name.partition(".") for name in self.files.names(below))
        return sorted(int(stem) for stem, _, end in stems if end == "parquet" and stem.isdecimal())

    def _refuse_foreign(self) -> None:
        """Raise `StoreError` where the first version would come to lie among other files."""
        if not {CHANGES, STATES}.issuperset(self.files.entries()):
            raise StoreError(f"{self.path}: expected a store or an empty folder, found other files")

    def _read(self, name: str) -> pa.Table:
        # Without threads: files are small, and a process that exits at once must not cut theirs
        # off.
        with self.files.open(name) as file, pq.ParquetFile(file) as content:
            table = content.read(use_threads=False)
        if "expires" not in table.schema.names:  # written before subscriptions had ends
            table = table.append_column("expires", pa.nulls(table.num_rows, ENDS))
        return table

    def _schema(self, name: str) -> pa.Schema:
        with self.files.open(name) as file:
            return pq.read_schema(file)

    def _check_exists(self) -> None:
        if not self.exists():
            raise StoreError(f"{self.path}: there is no store; the first subscription makes one")

    def _check_version(self, version: int) -> None:
        self._check_exists()
        newest = self._known if 0 <= version <= self._known else self.version()
        if not 0 <= version <= newest:
            raise StoreError(f"{self.path}: expected a version from 0 to {newest}, found {version}")

    def _publish(self, name: str, table: pa.Table) -> bool:
        """Write a table to a new file, as a whole or not at all; False if the file exists."""
        data = io.BytesIO()
        pq.write_table(table, data, compression="zstd")
        return self.files.put_new(name, data.getvalue())


def net_changes(changes: pa.Table) -> pa.Table:
    """The last change of each id, in order."""
    numbered = changes.append_column("row", pa.array(range(changes.num_rows), pa.int64()))
    last = (
        numbered.group_by("subscription", use_threads=False)
        .aggregate([("row", "max")])
        .column("row_max")
    )
    return changes.take(last.combine_chunks().sort())


def _applied(state: pa.Table | None, changes: pa.Table) -> pa.Table:
    """A state after changes: first the unchanged rows in their order, then the changed ones."""
    columns = ["subscription", "predicate", "dialect", "expires"]
    net = net_changes(changes)
    stays = net.filter(pc.not_equal(net.column("change"), "remove")).select(columns)
    if state is None:
        return stays
    kept = state.filter(
        pc.invert(pc.is_in(state.column("subscription"), net.column("subscription")))
    )
    return pa.concat_tables([kept, stays]).combine_chunks()


def _name(version: int) -> str:
    return f"{version:020}.parquet"


def _change_name(version: int) -> str:
    return f"{CHANGES}/{_name(version)}"


def _state_name(version: int) -> str:
    return f"{STATES}/{_name(version)}"


def _change_schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema(
        {
            "version": pa.int64(),
            "change": pa.string(),
            "subscription": kind,
            "predicate": pa.string(),
            "dialect": pa.string(),
            "expires": ENDS,
        }
    )


def _end(expires: datetime | timedelta | None) -> datetime | None:
    """When subscriptions end, as a moment with a zone."""
    if expires is None:
        return None
    if isinstance(expires, timedelta):
        try:
            return datetime.now(UTC) + expires
        except OverflowError:
            raise StoreError(f"expected an end before the year 10000, found {expires}") from None
    if getattr(expires, "tzinfo", None) is None:
        raise StoreError(f"expected a moment with a zone, or a time from now, found {expires!r}")
    return expires


def _change_table(version: int, change: str, rows: pa.Table, expires: datetime | None) -> pa.Table:
    # The key tells a writer its own change from an equal one of another writer.
    facts = {
        b"tidings.at": datetime.now(UTC).isoformat().encode(),
        b"tidings.key": uuid4().hex.encode(),
    }
    for kind, name in _COUNTS.items():
        facts[b"tidings." + name] = str(rows.num_rows if kind == change else 0).encode()
    columns = [
        pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows),
        pa.repeat(change, rows.num_rows),
        *(rows.column(name) for name in ("subscription", "predicate", "dialect")),
        pa.repeat(pa.scalar(expires, ENDS), rows.num_rows),
    ]
    schema = _change_schema(rows.column("subscription").type)
    return pa.Table.from_arrays(columns, schema=schema.with_metadata(facts))


# Messages


def _complaint(change: str, refused: pa.Table) -> str:
    first = refused.slice(0, 1).to_pylist()[0]
    text = "" if first["predicate"] is None else f" ({_cut(first['predicate'])})"
    more = f"; and {refused.num_rows - 1} more" if refused.num_rows > 1 else ""
    shown = _cut(repr(first["subscription"]))
    return f"cannot {change} subscription {shown}: {_cut(first['reason'])}{text}{more}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _as_text(refused: pa.Table) -> pa.Table:
    return refused.set_column(0, "subscription", refused.column("subscription").cast(pa.string()))


def _kind(kind: pa.DataType) -> str:
    return "integer" if pa.types.is_integer(kind) else "text"
