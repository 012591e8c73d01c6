"""What `ship` sends: the source and the native modules, and nothing that these are made of."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tidings.matching.rivals import counting_kernels
from tidings.spark import shipping


def test_native_modules_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path))
    with zipfile.ZipFile(shipping.package()) as packed:
        data = io.BytesIO(packed.read(shipping.CODE))
    with tarfile.open(fileobj=data) as code:
        names = set(code.getnames())
    assert f"tidings/matching/rivals/{Path(counting_kernels.__file__).name}" in names
    assert "tidings/matching/rivals/counting.py" in names
    assert not [name for name in names if name.endswith((".pyx", ".pxd", ".c", ".h"))]
