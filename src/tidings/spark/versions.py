"""The compiled subscriptions of any version of a store, without compiling all for each version.

One version, the base, is compiled as a whole. For another version, `Versions` compiles only the
changes since the base (the delta) and marks replaced and removed ids (`Compiled.changed`). After
many changes it compiles a new base in the background and uses that from then on.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import weakref
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from tidings.spark.compiled import BUDGET, ROWS_HERE, Compiled, compile_here, compile_rows
from tidings.spark.intake import StoreError
from tidings.spark.store import Store, net_changes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

LEAST: Final = 2_000  # a new base needs more changed subscriptions than this,
SHARE: Final = 20  # and more than a twentieth of the base
RECENT: Final = 4  # deltas that are kept

log = logging.getLogger("tidings.spark")


class Versions:
    """The versions of a store, compiled."""

    def __init__(
        self, store: Store, *, budget: int = BUDGET, directory: str | os.PathLike[str] | None = None
    ) -> None:
        self.store = store
        self.budget = budget
        self.directory = directory
        self._lock = threading.Lock()
        self._base: tuple[int, Compiled] | None = None
        self._last: tuple[int, int, Compiled] | None = None  # its base and its version
        self._compiling: threading.Thread | None = None
        self._scratch: Path | None = None
        self._recent: deque[Path] = deque()

    def __reduce__(self) -> Any:
        """Pickle what to compile and where, for Spark Connect runs a batch in another process."""
        return _versions, (self.store, self.budget, self.directory)

    @property
    def base(self) -> int | None:
        """The version that is compiled as a whole."""
        with self._lock:
            return None if self._base is None else self._base[0]

    def at(self, spark: SparkSession, version: int, base: int | None = None) -> Compiled:
        """The subscriptions of a version; `base` is compiled first if there is no base yet."""
        with self._lock:
            held = self._base
        if held is None or not 0 < held[0] <= version:
            # Version 0 is no base: it is empty, and the type of its ids is not known.
            held = self._begin(spark, min(base, version) if base else version, version)
        if version == held[0]:
            return held[1]
        if self._last is not None and self._last[:2] == (held[0], version):
            return self._last[2]
        try:
            changes = net_changes(self.store.changes(held[0], version))
        except StoreError:  # vacuumed
            return self._begin(spark, version, version)[1]
        if changes.num_rows > max(LEAST, held[1].stats().subscriptions // SHARE):
            self._compile_later(spark, version)
        changed = self._changed(spark, held[1], changes)
        self._last = held[0], version, changed
        return changed

    def _begin(self, spark: SparkSession, base: int, version: int) -> tuple[int, Compiled]:
        """Compile a base and keep it; the version itself if the store no longer has `base`."""
        try:
            rows = self.store.snapshot(base)
        except StoreError:
            base, rows = version, self.store.snapshot(version)
        held = base, self._compile_all(spark, rows)
        with self._lock:
            self._base = held
        return held

    def wait(self) -> None:
        """Wait until nothing is being compiled in the background."""
        compiling = self._compiling
        if compiling is not None:
            compiling.join()

    def _compile_all(self, spark: SparkSession, rows: pa.Table) -> Compiled:
        """Compile all subscriptions of a version, or find them in the cache."""
        compiled = compile_rows(spark, rows, self.budget, self.directory)
        if compiled.facts.rejected:
            log.warning("%s: %d subscriptions rejected", self.store, compiled.facts.rejected)
        return compiled

    def _changed(self, spark: SparkSession, base: Compiled, changes: pa.Table) -> Compiled:
        """A base with the last change of each id."""
        new = changes.filter(pc.not_equal(changes.column("change"), "remove"))
        if new.num_rows > ROWS_HERE:
            others = self._compile_all(spark, new)
        else:  # in this process: a Spark job would take longer than the work
            others = compile_here(spark, new, self._folder())
            self._forget_older(self._folder() / others.facts.key)
        return base.changed(others, changes.column("subscription").to_pylist())

    def _forget_older(self, table: Path) -> None:
        """Remove deltas that no batch uses any more; a process that has mapped one keeps it."""
        if table not in self._recent:
            self._recent.append(table)
        while len(self._recent) > RECENT:
            shutil.rmtree(self._recent.popleft(), ignore_errors=True)

    def _folder(self) -> Path:
        """The folder for deltas, which goes with this object."""
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="tidings-changes-"))
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        return self._scratch

    def _compile_later(self, spark: SparkSession, version: int) -> None:
        """Start to compile a version as a whole, unless another is being compiled."""
        if self._compiling is not None and self._compiling.is_alive():
            return
        rows = self.store.snapshot(version)

        def work() -> None:
            try:
                compiled = self._compile_all(spark, rows)
            except Exception:  # the present base stays in use
                log.exception("%s: version %d could not be compiled", self.store, version)
                return
            with self._lock:
                self._base = version, compiled

        self._compiling = threading.Thread(target=work, daemon=True, name="tidings-compile")
        self._compiling.start()


def _versions(store: Store, budget: int, directory: Any) -> Versions:
    return Versions(store, budget=budget, directory=directory)
