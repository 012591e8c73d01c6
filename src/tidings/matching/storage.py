"""Saves a table as a directory, and loads it by mapping its files into memory.

`table.json` names the other files with their sizes and digests, and holds the attributes and the
residuals. `segment.bin` is the segment, the same bytes as in memory; `subscriptions.arrow` holds
the ids, and the predicates as text. Loading maps these files and reads almost nothing, and
processes that load one table share one copy. A predicate is parsed when somebody asks for it, never
for matching.

A table whose segment another version laid out is compiled anew from its texts.

A table directory must be trusted: offsets in it index raw memory, and its digests find damage but
are no signature.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import threading
import warnings
from collections.abc import Iterator, MutableMapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec
import pyarrow as pa

from tidings.language import text as tx
from tidings.language.errors import PredicateError
from tidings.language.expression import MAX_DEPTH, Expression
from tidings.language.predicate import Predicate, parse
from tidings.matching.contract import Id, is_integer
from tidings.matching.filters import filters_of
from tidings.matching.native import engine
from tidings.matching.native.engine import Index

FORMAT: Final = 2
OLDER_FORMATS: Final = frozenset({1})  # whose texts are read
MANIFEST: Final = "table.json"
SEGMENT: Final = "segment.bin"
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
    layout: str  # what laid out the segment
    subscriptions: int
    counted: bool  # ids are 0, 1, 2, … and not stored
    files: dict[str, File]
    numbers: int = 0  # how many there are; some may be free
    attributes: list[tuple[str, int | bool]] = []  # by number: name and kind, once a truth value
    residuals: dict[str, list[str]] = {}  # by number of the subscription
    sha256: str = ""  # of this manifest, without this field

    def digest(self) -> str:
        """What `sha256` must be."""
        return hashlib.sha256(
            msgspec.json.encode(msgspec.structs.replace(self, sha256=""))
        ).hexdigest()


class Older(msgspec.Struct):
    """What is read of a `table.json` of an older format."""

    format: int
    tidings: str
    subscriptions: int
    counted: bool
    files: dict[str, File]


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


class Written(NamedTuple):
    """A predicate as it is stored."""

    text: str
    max_filters: int


class WrittenTexts(NamedTuple):
    """Predicates as they are stored, all with one bound."""

    texts: pa.Array
    max_filters: int


class StoredPredicates(MutableMapping[Id, Predicate]):
    """The predicates of a loaded table, parsed on demand, and the changes since it was loaded."""

    def __init__(
        self,
        ids: Sequence[Id],
        texts: pa.Array,
        bounds: pa.Array,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.ids = ids
        self.texts = texts
        self.bounds = bounds
        self.numbers: Sequence[int] = range(len(ids)) if numbers is None else numbers
        self._newer: dict[Id, Predicate] = {}
        self._removed: set[Id] = set()  # stored ids that were removed or have a newer predicate
        self._numbers: dict[Id, int] | None = None

    @property
    def changed(self) -> bool:
        """Whether something changed since it was loaded."""
        return bool(self._newer or self._removed)

    @property
    def other_ids(self) -> int:
        """How many of the stored ids are no 64-bit integers."""
        if isinstance(self.ids, range):
            return 0
        assert isinstance(self.ids, StoredIds)
        if self.ids.integer is None:
            return 0 if pa.types.is_integer(self.ids.column.type) else len(self.ids)
        return sum(not is_integer(id) for id in self.ids)

    def id_array(self) -> pa.Array:
        """The stored ids as an Arrow array, by number: no number may be free."""
        assert isinstance(self.numbers, range)
        if isinstance(self.ids, range):
            return pa.array(self.ids, pa.int64())
        assert isinstance(self.ids, StoredIds)
        return self.ids.column

    def numbered(self) -> Iterator[tuple[Id, int]]:
        """The stored ids, each with the number of its subscription in the index."""
        return zip(self.ids, self.numbers, strict=True)

    def ids_by_number(self, count: int) -> list[Id | None]:
        """The stored ids in the order of their numbers; None where a number is free."""
        if isinstance(self.numbers, range):
            return list(self.ids)
        listed: list[Id | None] = [None] * count
        for id, number in self.numbered():
            listed[number] = id
        return listed

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


class Contents(NamedTuple):
    """What is saved: an index of one segment, and its subscriptions in the order of numbers."""

    table: Index
    ids: Sequence[Id]
    numbers: Sequence[int]
    predicates: Sequence[Predicate | Written] | WrittenTexts

    @property
    def dense(self) -> bool:
        """Whether no number is free."""
        return len(self.numbers) == self.table.numbers

    @property
    def counted(self) -> bool:
        """Whether every id is its own number."""
        return self.dense and isinstance(self.ids, list) and self.ids == list(self.numbers)


# Saving


def write_table(path: str | os.PathLike[str], contents: Contents) -> None:
    """Save a table, completely or not at all."""
    target = Path(os.path.realpath(path))
    _refuse_others(target)
    _refuse_others(_previous(target))
    making = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.saving")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    try:
        _write_files(making, contents)
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
    strange = {name for name in names if not name.endswith(".npy")}  # which older versions wrote
    strange -= {MANIFEST, SEGMENT, SUBSCRIPTIONS}
    if names and (strange or not _is_manifest(target / MANIFEST)):
        raise TableFileError(f"{target} holds other things than a saved table; it is left as it is")


def _is_manifest(file: Path) -> bool:
    """Whether a file is the manifest of a table, of this format or another."""
    try:
        facts = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (OSError, ValueError):
        return False
    return {"format", "tidings", "layout"} <= facts.keys()


def _write_files(folder: Path, contents: Contents) -> None:
    index = contents.table
    _write_segment(folder / SEGMENT, index)
    counted = contents.counted
    _write_subscriptions(folder / SUBSCRIPTIONS, contents, counted)
    files = {}
    for name in (SEGMENT, SUBSCRIPTIONS):
        _flush(folder / name)
        files[name] = File((folder / name).stat().st_size, _digest(folder / name))
    manifest = Manifest(
        format=FORMAT,
        tidings=_version(),
        layout=layout(),
        subscriptions=len(contents.ids),
        counted=counted,
        files=files,
        numbers=index.numbers,
        attributes=index.names.listed,
        residuals={
            str(number): [
                asked if isinstance(asked, str) else _text(asked, "a residual")
                for asked in all_asked
            ]
            for number in contents.numbers
            if (all_asked := index.residuals.get(number)) is not None
        },
    )
    manifest.sha256 = manifest.digest()
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    _flush(folder / MANIFEST)
    _flush(folder)


def _write_segment(file: Path, index: Index) -> None:
    with open(file, "wb") as sink:
        block = index.block()
        if block is not None:
            sink.write(block)


def _write_subscriptions(file: Path, contents: Contents, counted: bool) -> None:
    columns: dict[str, pa.Array] = {} if counted else _id_columns(contents.ids)
    held = contents.predicates
    if isinstance(held, WrittenTexts):
        columns["predicate"] = held.texts.cast(pa.large_string())
        columns["max_filters"] = pa.repeat(pa.scalar(held.max_filters, pa.int64()), len(held.texts))
    else:
        texts = [
            p.text if isinstance(p, Written) else _text(p.expression, f"the subscription {id!r}")
            for id, p in zip(contents.ids, held, strict=True)
        ]
        columns["predicate"] = pa.array(texts, pa.large_string())
        columns["max_filters"] = pa.array([p.max_filters for p in held], pa.int64())
    if not contents.dense:
        columns["number"] = pa.array(contents.numbers, pa.int64())
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
) -> tuple[Index, StoredPredicates]:
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


def _read(folder: Path, shown: Path, verify: bool) -> tuple[Index, StoredPredicates]:
    manifest = _manifest(folder, shown)
    own = manifest.format == FORMAT and manifest.layout == layout()
    for name in (SEGMENT, SUBSCRIPTIONS) if own else (SUBSCRIPTIONS,):
        _check(folder / name, manifest.files.get(name), shown, verify)
    try:
        predicates = _read_subscriptions(folder, manifest)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise TableFileError(f"{shown}: {SUBSCRIPTIONS} is damaged ({error})") from None
    if not own:
        warnings.warn(
            f"{shown} was saved by Tidings {manifest.tidings}, whose tables have another layout; "
            "it is compiled anew from its texts. Save it again to load it quickly.",
            stacklevel=4,
        )
        return _rebuilt(predicates), predicates
    try:
        return _opened(folder / SEGMENT, manifest, predicates), predicates
    except (ValueError, OSError, TypeError) as error:
        raise TableFileError(f"{shown}: {SEGMENT} is damaged ({error})") from None


def _opened(file: Path, manifest: Manifest, predicates: StoredPredicates) -> Index:
    """The index of a segment in a file."""
    numbers = manifest.numbers
    used = set() if isinstance(predicates.numbers, range) else set(predicates.numbers)
    unused = [] if not used and numbers == len(predicates) else sorted({*range(numbers)} - used)
    if len(predicates) + len(unused) != numbers or not used <= {*range(numbers)}:
        raise ValueError(f"{len(predicates)} subscriptions have not {numbers} numbers")
    if not manifest.files[SEGMENT].bytes:  # no subscription has a filter
        return _rebuilt(predicates)
    with open(file, "rb") as source:
        mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
    return Index.open(
        mapped,
        manifest.attributes,
        numbers,
        lambda: predicates.ids_by_number(numbers),
        {int(number): tuple(texts) for number, texts in manifest.residuals.items()},
        unused,
    )


def _rebuilt(predicates: StoredPredicates) -> Index:
    """The index of stored predicates, compiled from their texts; numbers are places."""
    predicates.numbers = range(len(predicates))
    index = Index()
    found = [filters_of(predicate) for predicate in predicates.values()]
    wholes = {place: whole for place, (_, whole) in enumerate(found) if whole is not None}
    index.load(list(predicates.ids), [filters for filters, _ in found], wholes)
    return index


def _manifest(folder: Path, shown: Path) -> Manifest:
    file = folder / MANIFEST
    if not file.is_file():
        raise TableFileError(f"{shown} is not a saved table: it holds no {MANIFEST}")
    data = file.read_bytes()
    try:
        number = msgspec.json.decode(data, type=dict[str, Any]).get("format")
        if number != FORMAT and number not in OLDER_FORMATS:
            raise TableFileError(
                f"{shown} has the format {number!r}, and this version of Tidings reads {FORMAT}"
            )
        if number in OLDER_FORMATS:
            older = msgspec.json.decode(data, type=Older)
            return Manifest(
                older.format, older.tidings, "", older.subscriptions, older.counted, older.files
            )
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TableFileError(f"{shown}: {MANIFEST} is damaged ({error})") from None
    if manifest.digest() != manifest.sha256:  # always checked: it is small, and sizes rely on it
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


def _read_subscriptions(folder: Path, manifest: Manifest) -> StoredPredicates:
    """The ids and predicates of a saved table."""
    source = pa.memory_map(str(folder / SUBSCRIPTIONS))
    batch = pa.ipc.open_file(source).get_batch(0)
    if batch.num_rows != manifest.subscriptions:
        raise ValueError(f"{batch.num_rows} rows for {manifest.subscriptions} subscriptions")
    texts, bounds = batch.column("predicate"), batch.column("max_filters")
    numbers = None
    if "number" in batch.schema.names:
        numbers = batch.column("number").to_pylist()
    if manifest.counted:
        return StoredPredicates(range(batch.num_rows), texts, bounds)
    mixed = "integer" in batch.schema.names
    ids = StoredIds(batch.column("id"), batch.column("integer") if mixed else None)
    return StoredPredicates(ids, texts, bounds, numbers)


# Digests and versions


def _digest(file: Path) -> str:
    with open(file, "rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def layout() -> str:
    """What lays out segments in this version."""
    return engine.layout()


def _version() -> str:
    try:
        return version("tidings")
    except PackageNotFoundError:  # running from a source tree
        return "unknown"
