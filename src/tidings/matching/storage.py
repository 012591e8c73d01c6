"""Saves a table as a directory of arrays, and loads it by mapping them into memory.

`table.json` names the other files with their sizes and digests, and holds the small parts of the
plan. Each array of the plan is a `.npy` file; `subscriptions.arrow` holds the ids, and the
predicates as text. Loading maps these files and reads almost nothing, and processes that load one
table share one copy. A predicate is parsed when somebody asks for it, never for matching.

The layout of the arrays belongs to one version of `kernels.py`, `plan.py` and the files that they
use. A table saved by another version of these sources is compiled anew from its texts.

A table directory must be trusted: offsets in it index raw memory, and its digests find damage but
are no signature.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Iterator, MutableMapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa

from tidings.language import text as tx
from tidings.language.errors import PredicateError
from tidings.language.expression import MAX_DEPTH, Expression
from tidings.language.predicate import Predicate, parse
from tidings.matching import constants, filing_kernels, kernels, plan, plan_kernels
from tidings.matching.contract import Id
from tidings.matching.plan import Plan
from tidings.matching.segment import Segment

FORMAT: Final = 1
MANIFEST: Final = "table.json"
SUBSCRIPTIONS: Final = "subscriptions.arrow"
PLAIN_TEXT: Final = 1_000  # characters; a longer text is parsed once before it is saved
ATTEMPTS: Final = 1_000  # to load a table while others replace it


class TableFileError(ValueError):
    """A saved table cannot be read, or a table cannot be saved at a path."""


class File(msgspec.Struct):
    """What a file must look like."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct):
    """The content of `table.json`."""

    format: int
    tidings: str  # the version that saved it
    layout: str  # digest of the sources that laid out the arrays
    subscriptions: int
    counted: bool  # ids are 0, 1, 2, … and not stored
    numbers: dict[str, int]  # fields of the plan that are numbers
    arrays: list[str]  # fields of the plan that are arrays, one file each
    folded: dict[str, str]
    names: dict[str, int]
    residuals: list[str]
    files: dict[str, File]
    sha256: str = ""  # of this manifest, without this field

    def digest(self) -> str:
        """What `sha256` must be."""
        return hashlib.sha256(
            msgspec.json.encode(msgspec.structs.replace(self, sha256=""))
        ).hexdigest()


class StoredIds(Sequence[Id]):
    """The ids in a file; they become Python objects when the first one is needed."""

    def __init__(self, column: pa.Array, integer: pa.Array | None) -> None:
        self.column = column
        self.integer = integer  # if the ids are of both kinds: which are integers
        self._list: list[Id] | None = None

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, number: Any) -> Any:
        return self._all()[number]

    def __iter__(self) -> Iterator[Id]:
        return iter(self._all())

    def _all(self) -> list[Id]:
        if self._list is None:
            ids = self.column.to_pylist()
            if self.integer is not None:
                kinds = self.integer.to_pylist()
                ids = [int(id) if whole else id for id, whole in zip(ids, kinds, strict=True)]
            self._list = ids
        return self._list


class StoredResiduals(Sequence[Expression]):
    """Residuals as text, each parsed when it is first evaluated."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, number: Any) -> Any:
        return tx.read(self.texts[number])


class Written(NamedTuple):
    """A predicate as it is stored."""

    text: str
    max_filters: int


class StoredPredicates(MutableMapping[Id, Predicate]):
    """The predicates of a loaded table, parsed on demand, and the changes since it was loaded."""

    def __init__(self, ids: Sequence[Id], texts: pa.Array, bounds: pa.Array) -> None:
        self.ids = ids
        self.texts = texts
        self.bounds = bounds
        self._newer: dict[Id, Predicate] = {}
        self._removed: set[Id] = set()  # stored ids that were removed or have a newer predicate
        self._numbers: dict[Id, int] | None = None

    def __len__(self) -> int:
        return len(self.ids) - len(self._removed) + len(self._newer)

    def __iter__(self) -> Iterator[Id]:
        removed = self._removed
        yield from (id for id in self.ids if id not in removed) if removed else self.ids
        yield from self._newer

    def __contains__(self, id: object) -> bool:
        return id in self._newer or self._number(id) is not None

    def __getitem__(self, id: Id) -> Predicate:
        found = self.written(id)
        return found if isinstance(found, Predicate) else parse(*found, max_characters=None)

    def written(self, id: Id) -> Predicate | Written:
        """The predicate of an id; a stored one is not parsed."""
        newer = self._newer.get(id)
        if newer is not None:
            return newer
        number = self._number(id)
        if number is None:
            raise KeyError(id)
        return Written(self.texts[number].as_py(), self.bounds[number].as_py())

    def __setitem__(self, id: Id, predicate: Predicate) -> None:
        self._newer[id] = predicate  # before the older one is removed, because readers do not lock
        if self._number(id) is not None:
            self._removed.add(id)

    def __delitem__(self, id: Id) -> None:
        if self._number(id) is not None:
            self._removed.add(id)
        else:
            del self._newer[id]

    def _number(self, id: Any) -> int | None:
        """The number of an id that is stored and neither removed nor replaced."""
        if id in self._removed:
            return None
        if isinstance(self.ids, range):
            return id if isinstance(id, int) and 0 <= id < len(self.ids) else None
        if self._numbers is None:
            self._numbers = {id: number for number, id in enumerate(self.ids)}
        return self._numbers.get(id)


# Saving


def write_table(
    path: str | os.PathLike[str], segment: Segment, predicates: Sequence[Predicate | Written]
) -> None:
    """Save a segment and its predicates, in the order of its ids, completely or not at all."""
    target = Path(os.path.realpath(path))
    _refuse_others(target)
    _refuse_others(_previous(target))
    making = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.saving")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    try:
        _write_files(making, segment, predicates)
        _put_in_place(making, target)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _refuse_others(target: Path) -> None:
    """Raise unless a path is free or holds a saved table and nothing else."""
    if not target.exists():
        return
    if not target.is_dir():
        raise TableFileError(f"{target} is a file and no saved table; it is left as it is")
    names = {entry.name for entry in target.iterdir()}
    strange = {name for name in names if not name.endswith(".npy")} - {MANIFEST, SUBSCRIPTIONS}
    if names and (strange or not _is_manifest(target / MANIFEST)):
        raise TableFileError(f"{target} holds other things than a saved table; it is left as it is")


def _is_manifest(file: Path) -> bool:
    """Whether a file is the manifest of a table, of this format or another."""
    try:
        facts = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (OSError, ValueError):
        return False
    return {"format", "tidings", "layout"} <= facts.keys()


def _write_files(folder: Path, segment: Segment, predicates: Sequence[Predicate | Written]) -> None:
    compiled = segment.plan
    numbers: dict[str, int] = {}
    arrays: list[str] = []
    for name, value in compiled._asdict().items():
        if isinstance(value, np.ndarray):
            np.save(folder / f"{name}.npy", value, allow_pickle=False)
            arrays.append(name)
        elif isinstance(value, int | np.integer):
            numbers[name] = int(value)
        elif name not in ("folded", "names", "residuals"):
            raise TypeError(f"no way to save {name!r} of a plan, a {type(value).__name__}")
    _write_subscriptions(folder / SUBSCRIPTIONS, segment, predicates)
    files = {}
    for name in [*(f"{name}.npy" for name in arrays), SUBSCRIPTIONS]:
        _flush(folder / name)
        files[name] = File((folder / name).stat().st_size, _digest(folder / name))
    residuals: Any = compiled.residuals
    if isinstance(residuals, StoredResiduals):
        residuals = residuals.texts
    else:
        residuals = [_text(residual, "a residual") for residual in residuals]
    manifest = Manifest(
        format=FORMAT,
        tidings=_version(),
        layout=_layout(),
        subscriptions=len(segment.ids),
        counted=segment.counted,
        numbers=numbers,
        arrays=arrays,
        folded=compiled.folded,
        names=compiled.names,
        residuals=residuals,
        files=files,
    )
    manifest.sha256 = manifest.digest()
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    _flush(folder / MANIFEST)
    _flush(folder)


def _write_subscriptions(
    file: Path, segment: Segment, predicates: Sequence[Predicate | Written]
) -> None:
    columns: dict[str, pa.Array] = {} if segment.counted else _id_columns(segment.ids)
    texts = [
        p.text if isinstance(p, Written) else _text(p.expression, f"the subscription {id!r}")
        for id, p in zip(segment.ids, predicates, strict=True)
    ]
    columns["predicate"] = pa.array(texts, pa.large_string())
    columns["max_filters"] = pa.array([p.max_filters for p in predicates], pa.int64())
    batch = pa.RecordBatch.from_pydict(columns)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _id_columns(ids: Sequence[Id]) -> dict[str, pa.Array]:
    """Ids as columns: integers, texts, or texts with a column that says which are integers."""
    if isinstance(ids, StoredIds):
        kept = {"id": ids.column}
        return kept if ids.integer is None else {**kept, "integer": ids.integer}
    integer = [isinstance(id, int) for id in ids]
    if any(integer):
        if all(integer) and all(-(2**63) <= id < 2**63 for id in cast("Sequence[int]", ids)):
            return {"id": pa.array(ids, pa.int64())}
        texts = [str(int(id)) if isinstance(id, int) else id for id in ids]
        return {"id": pa.array(texts, pa.string()), "integer": pa.array(integer, pa.bool_())}
    return {"id": pa.array(ids, pa.string())}


def _text(expression: Expression, whose: str) -> str:
    """The text of an expression; raises if that text could not be parsed again."""
    text = tx.write(expression)
    if len(text) > PLAIN_TEXT or text.count("(") > MAX_DEPTH:
        try:
            tx.read(text, None)
        except PredicateError as error:
            raise TableFileError(
                f"{whose} has no text that can be read again ({error.summary}); split it"
            ) from None
    return text


def _put_in_place(made: Path, target: Path) -> None:
    """Rename a finished directory to its final name; the old one keeps another name until then."""
    before = _previous(target)
    if target.exists():
        shutil.rmtree(before, ignore_errors=True)
        target.rename(before)
    try:
        made.rename(target)
    except OSError:
        if before.exists() and not target.exists():
            before.rename(target)
        raise
    _flush(target.parent)
    shutil.rmtree(before, ignore_errors=True)


def _previous(target: Path) -> Path:
    """Where the old table is while it is replaced; only a crash at that moment leaves it behind."""
    return target.with_name(f".{target.name}.previous")


def _flush(path: Path) -> None:
    """Flush a file or a directory to the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    except PermissionError:  # a directory, on systems that cannot open one
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Loading


def read_table(
    path: str | os.PathLike[str], verify: bool = False
) -> tuple[Segment, StoredPredicates]:
    """Load what `write_table` saved; `verify` reads every byte and compares the digests."""
    target = Path(os.path.realpath(path))
    for _ in range(ATTEMPTS):
        place = target if target.exists() else _previous(target)
        before = _identity(place)
        if before is None:
            continue
        try:
            loaded = _read(place, target, verify)
        except (TableFileError, OSError):
            if _identity(place) == before:
                raise
        else:
            # Files of two tables must not mix, so the directory must still be the same one.
            if _identity(place) == before:
                return loaded
    if not target.exists():
        raise TableFileError(f"{target} does not exist; save a table there first")
    raise TableFileError(f"{target} was replaced again and again while it was loaded; try later")


def _identity(folder: Path) -> tuple[int, ...] | None:
    """What changes if a directory is replaced; None if it does not exist."""
    try:
        facts = folder.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_mtime_ns


def _read(folder: Path, shown: Path, verify: bool) -> tuple[Segment, StoredPredicates]:
    manifest = _manifest(folder, shown)
    own = manifest.layout == _layout()
    needed = [*(f"{name}.npy" for name in manifest.arrays if own), SUBSCRIPTIONS]
    for name in needed:
        _check(folder / name, manifest.files.get(name), shown, verify)
    try:
        predicates, id_column = _read_subscriptions(folder, manifest)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise TableFileError(f"{shown}: {SUBSCRIPTIONS} is damaged ({error})") from None
    if not own:
        return Segment.of(predicates), predicates
    arrays = {name: _map(folder / f"{name}.npy", shown) for name in manifest.arrays}
    try:
        compiled = Plan(
            folded=manifest.folded,
            names=manifest.names,
            residuals=cast(Any, StoredResiduals(manifest.residuals)),
            **arrays,
            **cast(Any, manifest.numbers),
        )
    except TypeError as error:
        raise TableFileError(f"{shown}: {MANIFEST} is damaged ({error})") from None
    segment = Segment(cast(Any, predicates.ids), compiled)
    segment.counted = manifest.counted
    if id_column is not None:
        segment._id_arrays[pa.types.is_integer(id_column.type)] = id_column
    return segment, predicates


def _manifest(folder: Path, shown: Path) -> Manifest:
    file = folder / MANIFEST
    if not file.is_file():
        raise TableFileError(f"{shown} is not a saved table: it holds no {MANIFEST}")
    data = file.read_bytes()
    try:
        number = msgspec.json.decode(data, type=dict[str, Any]).get("format")
        if number != FORMAT:
            raise TableFileError(
                f"{shown} has the format {number!r}, and this version of Tidings reads {FORMAT}"
            )
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TableFileError(f"{shown}: {MANIFEST} is damaged ({error})") from None
    if (
        manifest.digest() != manifest.sha256
    ):  # always checked: it is small, and kernels rely on its sizes
        raise TableFileError(f"{shown}: {MANIFEST} is damaged (its checksum differs)")
    return manifest


def _check(file: Path, wanted: File | None, shown: Path, verify: bool) -> None:
    """Raise unless a file has the size that was saved and, with `verify`, the same bytes."""
    if wanted is None or not file.is_file():
        raise TableFileError(f"{shown}: {file.name} is missing")
    size = file.stat().st_size
    if size != wanted.bytes:
        raise TableFileError(
            f"{shown}: {file.name} has {size} bytes where {wanted.bytes} were saved"
        )
    if verify and _digest(file) != wanted.sha256:
        raise TableFileError(f"{shown}: {file.name} is not what was saved: its checksum differs")


def _read_subscriptions(
    folder: Path, manifest: Manifest
) -> tuple[StoredPredicates, pa.Array | None]:
    """The predicates, and the ids as an Arrow array if they are stored."""
    source = pa.memory_map(str(folder / SUBSCRIPTIONS))
    batch = pa.ipc.open_file(source).get_batch(0)
    if batch.num_rows != manifest.subscriptions:
        raise ValueError(f"{batch.num_rows} rows for {manifest.subscriptions} subscriptions")
    texts, bounds = batch.column("predicate"), batch.column("max_filters")
    if manifest.counted:
        return StoredPredicates(range(batch.num_rows), texts, bounds), None
    mixed = "integer" in batch.schema.names
    ids = StoredIds(batch.column("id"), batch.column("integer") if mixed else None)
    return StoredPredicates(ids, texts, bounds), ids.column


def _map(file: Path, shown: Path) -> Any:
    """The array in a file, mapped, as a plain `ndarray`, for which the kernels are compiled."""
    try:
        mapped = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise TableFileError(f"{shown}: {file.name} is damaged ({error})") from None
    return mapped.view(np.ndarray)


# Digests and versions


def _digest(file: Path) -> str:
    with open(file, "rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _layout() -> str:
    """The digest of the sources that lay out the arrays of a plan and read them."""
    digest = hashlib.sha256()
    for module in (constants, filing_kernels, plan, plan_kernels, kernels):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()


def _version() -> str:
    try:
        return version("tidings")
    except PackageNotFoundError:  # running from a source tree
        return "unknown"
