"""The journal of a stream: which version of the subscriptions each batch was matched with.

A batch that runs again after a crash must give the same matches, even if the store has changed. So
the stream decides the version of a batch once, and writes it to disk before it uses it. The journal
belongs to a checkpoint, whose batch numbers it uses; it keeps the last 100 batches.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from tidings.spark.folders import FolderError, folder

FILE: Final = "journal.json"
KEPT: Final = 100  # batches


class JournalError(ValueError):
    """A journal that cannot be read."""


class Batch(msgspec.Struct, frozen=True):
    """A batch of events. Its counts are None until it is done."""

    batch: int
    version: int  # of the subscriptions
    base: int  # the version that was compiled as a whole, before the changes up to `version`
    events: int | None = None
    matches: int | None = None
    rejected: int | None = None  # rows that are not valid events
    done: bool = False


class Journal:
    """The last batches of a stream, in a file."""

    def __init__(self, place: str | os.PathLike[str]) -> None:
        try:
            self.files = folder(place)
        except FolderError as error:
            raise JournalError(f"the journal: {error}") from None
        self.path = f"{self.files.location}/{FILE}"

    def batches(self) -> list[Batch]:
        """The last batches, oldest first."""
        try:
            return msgspec.json.decode(self.files.read(FILE), type=list[Batch])
        except FileNotFoundError:
            return []
        except msgspec.MsgspecError as error:
            raise JournalError(f"{self.path}: expected the journal of a stream: {error}") from None

    def find(self, batch: int) -> Batch | None:
        """The entry of a batch, if there is one."""
        return next((entry for entry in self.batches() if entry.batch == batch), None)

    def put(self, entry: Batch) -> None:
        """Write an entry, in place of one of the same batch. It is on disk when this returns."""
        others = [other for other in self.batches() if other.batch != entry.batch]
        kept = sorted([*others, entry], key=lambda other: other.batch)[-KEPT:]
        self.files.put(FILE, msgspec.json.encode(kept))
