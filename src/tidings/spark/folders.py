"""A folder of small files, on this machine's file system or in object storage.

Stores and journals need four things of it: a file appears as a whole or not at all; only one writer
can make a file of a name (put-if-absent); what was written is there after a crash; and all who work
together see the same files. On a file system, hard links and `fsync` give that. In object storage a
conditional put does (`If-None-Match` on S3), through the file systems of fsspec: `s3://`, `gs://`,
`abfs://`. Those packages are optional: `pip install 'tidings[storage]' s3fs`.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast
from uuid import uuid4

# Protocols whose file systems put a file only if there is none, in one step.
CONDITIONAL: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"})


class FolderError(ValueError):
    """A location that cannot serve as a folder of a store or a journal."""


class Folder(Protocol):
    """Files by name. A name may have folders in it: `changes/1.parquet`."""

    location: str

    def put(self, name: str, data: bytes) -> None:
        """Write a file, in place of one of that name."""

    def put_new(self, name: str, data: bytes) -> bool:
        """Write a file; False, and nothing happens, if there is one of that name."""

    def read(self, name: str) -> bytes:
        """The content of a file; raises `FileNotFoundError`."""

    def open(self, name: str) -> IO[bytes]:
        """A file to read from; raises `FileNotFoundError`."""

    def names(self, below: str = "") -> list[str]:
        """The files directly in a folder, sorted, without those whose names begin with a dot."""

    def exists(self, name: str) -> bool:
        """Whether there is a file."""

    def entries(self) -> list[str]:
        """The names of all files and folders directly in it."""

    def modified(self, name: str) -> float:
        """When a file was last written, in seconds since 1970; raises `FileNotFoundError`."""

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""

    def sweep(self, below: str, before: float) -> int:
        """Remove what writers that died before that time have left; return how many files."""


def folder(location: str | os.PathLike[str]) -> Folder:
    """The folder at a path, or at a URL of object storage."""
    text = os.fspath(location)
    text = text.removeprefix("file://") if text.startswith("file://") else text
    protocol, separator, _ = text.partition("://")
    if not separator:
        return LocalFolder(Path(text))
    if protocol not in CONDITIONAL:
        known = ", ".join(f"{one}://" for one in sorted(CONDITIONAL - {"memory"}))
        raise FolderError(f"expected a folder of a file system, or one of {known}, found {text!r}")
    return RemoteFolder(text)


class LocalFolder:
    """A folder of a file system with hard links."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.location = str(path)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, in place of one of that name."""
        self._write(name, data, lambda aside, path: os.replace(aside, path))

    def put_new(self, name: str, data: bytes) -> bool:
        """Write a file; False, and nothing happens, if there is one of that name."""
        try:
            self._write(name, data, lambda aside, path: os.link(aside, path))
        except FileExistsError:
            return False
        return True

    def _write(self, name: str, data: bytes, claim: Any) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.stem}.{uuid4().hex}")
        try:
            with aside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            claim(aside, path)
        finally:
            aside.unlink(missing_ok=True)
        parent = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    def read(self, name: str) -> bytes:
        """The content of a file; raises `FileNotFoundError`."""
        return (self.path / name).read_bytes()

    def open(self, name: str) -> IO[bytes]:
        """A file to read from; raises `FileNotFoundError`."""
        return (self.path / name).open("rb")

    def names(self, below: str = "") -> list[str]:
        """The files directly in a folder, sorted, without those whose names begin with a dot."""
        try:
            entries = list(os.scandir(self.path / below))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(e.name for e in entries if e.is_file() and not e.name.startswith("."))

    def exists(self, name: str) -> bool:
        """Whether there is a file."""
        return (self.path / name).is_file()

    def entries(self) -> list[str]:
        """The names of all files and folders directly in it."""
        return os.listdir(self.path) if self.path.is_dir() else []

    def modified(self, name: str) -> float:
        """When a file was last written, in seconds since 1970; raises `FileNotFoundError`."""
        return (self.path / name).stat().st_mtime

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        (self.path / name).unlink(missing_ok=True)

    def sweep(self, below: str, before: float) -> int:
        """Remove what writers that died before that time have left; return how many files."""
        removed = 0
        for path in (self.path / below).glob(".*"):
            if path.is_file() and path.stat().st_mtime <= before:
                path.unlink(missing_ok=True)
                removed += 1
        return removed


class RemoteFolder:
    """A folder in object storage, through fsspec."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs

            self._files, root = url_to_fs(url)
        except ImportError as error:
            raise FolderError(
                f"{url} needs a package that is not installed: pip install 'tidings[storage]', and "
                f"the file system of fsspec for it ({error})"
            ) from None
        self.location = url.rstrip("/")
        self._root = root.rstrip("/")

    def put(self, name: str, data: bytes) -> None:
        """Write a file, in place of one of that name."""
        self._files.pipe_file(self._path(name), data)

    def put_new(self, name: str, data: bytes) -> bool:
        """Write a file; False, and nothing happens, if there is one of that name.

        An answer of the storage may be lost, and the put tried again finds its own file: so a file
        with the very content counts as written.
        """
        try:
            self._files.pipe_file(self._path(name), data, mode="create")
        except FileExistsError:
            return self.read(name) == data
        return True

    def read(self, name: str) -> bytes:
        """The content of a file; raises `FileNotFoundError`."""
        return cast(bytes, self._files.cat_file(self._path(name)))

    def open(self, name: str) -> IO[bytes]:
        """A file to read from; raises `FileNotFoundError`."""
        return cast(IO[bytes], self._files.open(self._path(name), "rb"))

    def names(self, below: str = "") -> list[str]:
        """The files directly in a folder, sorted, without those whose names begin with a dot."""
        path = self._path(below)
        self._files.invalidate_cache(path)
        try:
            entries = self._files.ls(path, detail=True)
        except FileNotFoundError:
            return []
        found = (e["name"].rpartition("/")[2] for e in entries if e["type"] == "file")
        return sorted(name for name in found if name and not name.startswith("."))

    def exists(self, name: str) -> bool:
        """Whether there is a file."""
        path = self._path(name)
        self._files.invalidate_cache(path.rpartition("/")[0])
        return bool(self._files.isfile(path))

    def entries(self) -> list[str]:
        """The names of all files and folders directly in it."""
        self._files.invalidate_cache(self._root)
        try:
            found = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return [str(path).rstrip("/").rpartition("/")[2] for path in found]

    def modified(self, name: str) -> float:
        """When a file was last written, in seconds since 1970; raises `FileNotFoundError`."""
        at = cast(datetime, self._files.modified(self._path(name)))
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        try:
            self._files.rm_file(self._path(name))
        except FileNotFoundError:
            return

    def sweep(self, below: str, before: float) -> int:
        """Nothing: an object is there as a whole or not at all."""
        return 0

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root
