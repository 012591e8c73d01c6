"""What `ship` sends: the source and the native modules of this Python, and nothing they are made of."""

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
        code = tarfile.open(fileobj=io.BytesIO(packed.read(shipping.CODE)))
    names = set(code.getnames())
    assert f"tidings/matching/rivals/{Path(counting_kernels.__file__).name}" in names
    assert "tidings/matching/rivals/counting.py" in names
    assert not [name for name in names if name.endswith((".pyx", ".pxd", ".c", ".h"))]
