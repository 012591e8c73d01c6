"""Sending Tidings to executors that do not have it.

`ship(spark)` sends this package with its native modules, as Spark sends Python files. The first
worker on a machine that imports it unpacks it into its user's cache, once for all applications, so
that nothing is read from an archive. It needs the driver's kind of machine and version of Python,
and the packages that Tidings needs (docs/cluster.md).
"""

from __future__ import annotations

import hashlib
import io
import os
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tidings.spark
from tidings.spark.compiled import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODE: Final = "code.tar"
SENT: Final = (".py", ".typed", ".properties", str(sysconfig.get_config_var("EXT_SUFFIX")))
# The module that `import tidings` finds first: it unpacks the package and then replaces itself.
BOOTSTRAP: Final = '''\
"""Unpacks the package that came with this file into a cache, and imports it from there."""

import io
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile

_named = os.environ.get("TIDINGS_CACHE")
try:
    _base = pathlib.Path(_named) if _named else pathlib.Path.home() / ".cache" / "tidings"
    _base = _base / "code"
    _base.mkdir(parents=True, exist_ok=True, mode=0o700)
except (OSError, RuntimeError):
    _base = pathlib.Path(tempfile.mkdtemp(prefix="tidings-code-"))
_folder = _base / "{digest}"
if not _folder.exists():
    _making = tempfile.mkdtemp(prefix=".", dir=_base)
    _data = __spec__.loader.get_data("{code}")
    with tarfile.open(fileobj=io.BytesIO(_data)) as _packed:
        _packed.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        _packed.extractall(_making)
    try:
        os.rename(_making, _folder)
    except OSError:
        shutil.rmtree(_making, ignore_errors=True)
sys.path.insert(0, str(_folder))
del sys.modules["tidings"]
import tidings
'''


def ship(spark: SparkSession) -> None:
    """Send this Tidings to all executors of a session, present and future."""
    spark.addArtifacts(str(package()), pyfile=True)


def package() -> Path:
    """The archive to send, which is made once for each state of the source."""
    root = Path(tidings.spark.__file__).parents[1]
    files = sorted(path for path in root.rglob("*") if path.name.endswith(SENT))
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    name = digest.hexdigest()[:16]
    target = cache_folder().with_name("code") / f"tidings-{name}.zip"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        making = target.with_name(f".{target.name}.{os.getpid()}")
        with zipfile.ZipFile(making, "w") as packed:
            packed.writestr("tidings/__init__.py", BOOTSTRAP.format(digest=name, code=CODE))
            packed.writestr(CODE, _tar(root, files))
        making.rename(target)
    return target


def _tar(root: Path, files: list[Path]) -> bytes:
    """The files as one archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for path in files:
            packed.add(path, arcname=f"tidings/{path.relative_to(root)}")
    return data.getvalue()
