"""Stores and journals in object storage do what they do in a folder of this machine.

The storage is moto's server, a stand-in for S3 with conditional puts, on this machine.
"""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tidings.spark.folders import Folder, FolderError, folder
from tidings.spark.intake import StoreError
from tidings.spark.journal import Batch, Journal
from tidings.spark.store import Store

BUCKET = "tidings"


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket of an S3 stand-in; clients find it by the environment."""
    pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    import fsspec

    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with contextlib.redirect_stderr(io.StringIO()), pytest.MonkeyPatch.context() as patch:
        server.start()
        host, port = server.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir(BUCKET)
        try:
            yield f"s3://{BUCKET}"
        finally:
            server.stop()


@pytest.fixture(params=["local", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The location of an empty folder."""
    match request.param:
        case "local":
            return str(tmp_path / "folder")
        case "memory":
            pytest.importorskip("fsspec")
            return f"memory://{uuid4().hex}"
        case _:
            return f"{request.getfixturevalue('bucket')}/{uuid4().hex}"


def test_files_come_and_go(place: str) -> None:
    files: Folder = folder(place)
    assert files.names() == files.entries() == files.names("a") == []
    assert files.put_new("a/1", b"one")
    assert not files.put_new("a/1", b"two")
    assert files.read("a/1") == b"one"
    files.put("a/1", b"three")
    files.put("b", b"")
    with files.open("a/1") as file:
        assert file.read() == b"three"
    assert (files.names("a"), files.names(), sorted(files.entries())) == (["1"], ["b"], ["a", "b"])
    assert files.exists("a/1")
    assert files.modified("a/1") > 1_600_000_000
    files.remove("a/1")
    files.remove("a/1")
    assert not files.exists("a/1")
    for read in (files.read, files.modified, lambda name: files.open(name).read()):
        with pytest.raises(FileNotFoundError):
            read("a/1")


def test_only_one_of_many_writers_makes_a_file(place: str) -> None:
    files = folder(place)

    def claim(number: int) -> bool:
        return files.put_new("claimed", str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(claim, range(32)))
    assert outcomes.count(True) == 1
    assert files.read("claimed") == str(outcomes.index(True)).encode()


def test_a_put_whose_answer_was_lost_finds_its_own_file(bucket: str) -> None:
    """The storage has the object, its answer is lost, and the put is tried again."""
    files = folder(f"{bucket}/{uuid4().hex}")
    assert files.put_new("1", b"mine")
    assert files.put_new("1", b"mine")
    assert not files.put_new("1", b"another's")


def test_a_store_is_the_same_store_everywhere(place: str, tmp_path: Path, seed: int) -> None:
    """Random changes give the same versions here and in a plain folder."""
    draw = random.Random(seed)
    here, there = Store(tmp_path / "plain"), Store(place)
    for _ in range(12):
        id, text = f"s{draw.randrange(5)}", f"x > {draw.randrange(9)}"
        verb, *given = draw.choice([("add", (id, text)), ("replace", (id, text)), ("remove", id)])
        assert _outcome(here, verb, given) == _outcome(there, verb, given)
        assert here.exists() == there.exists()
    for store in (there, Store(place)):
        for version in range(1, here.version() + 1):
            assert store.snapshot(version).equals(here.snapshot(version))
    if here.version():
        assert Store(place).compact() == here.compact()
        assert there.vacuum(there.version(), grace_seconds=-60) > 0
        assert Store(place).snapshot().equals(here.snapshot())


def _outcome(store: Store, verb: str, given: list[Any]) -> int | str:
    try:
        version: int = getattr(store, verb)(*given).version
        return version
    except StoreError as error:
        return str(error).replace(store.path, "")


def test_writers_to_one_store_in_object_storage_lose_nothing(bucket: str) -> None:
    place = f"{bucket}/{uuid4().hex}"

    def write(writer: int) -> None:
        for number in range(3):
            Store(place).add((f"{writer}-{number}", "x = 1"))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    store = Store(place)
    assert store.version() == store.snapshot().num_rows == 9


def test_a_journal_is_kept_everywhere(place: str) -> None:
    Journal(place).put(Batch(0, 3, 1))
    Journal(place).put(Batch(1, 4, 1))
    Journal(place).put(Batch(0, 3, 1, done=True))
    assert [(b.batch, b.version, b.done) for b in Journal(place).batches()] == [
        (0, 3, True),
        (1, 4, False),
    ]


def test_what_cannot_put_once_only_is_refused() -> None:
    with pytest.raises(FolderError, match=r"expected a folder .* found 'ftp://a/b'"):
        folder("ftp://a/b")
    with pytest.raises(StoreError, match="the store: expected a folder"):
        Store("hdfs://a/b")
