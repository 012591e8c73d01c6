"""How compiled tables reach the workers: through a common file system, with the job, or as files.

The workers of a session on this machine read the driver's own folder. Elsewhere a small table
travels with the job, in the function that Spark sends to the workers, so that a few changes of a
store leave nothing behind. A large table is an archive that Spark sends to each executor once.
"""

from __future__ import annotations

import io
import os
import tarfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidings.spark.worker import Shard

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITH_JOB: Final = 1 << 20  # bytes of a packed table that travels with the job
MOST_FILES: Final = 8 << 20  # bytes of a table that is worth packing to find out


def sees_our_files(spark: SparkSession) -> bool:
    """Whether workers run on this machine, so that they can read this process's paths."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return False  # the server may be anywhere
    master = spark.conf.get("spark.master") or ""
    return master.startswith("local") and not master.startswith("local-cluster")


def sent(spark: SparkSession, shard: Shard) -> Shard:
    """A shard that workers can open although they do not see the folder of its table."""
    folder = Path(shard.path)
    if sum(file.stat().st_size for file in folder.iterdir()) <= MOST_FILES:
        data = io.BytesIO()
        _pack(folder, data)
        packed = zlib.compress(data.getvalue(), level=1)
        if len(packed) <= WITH_JOB:
            return shard._replace(data=packed)
    archive = folder.with_name(f"{shard.key}.tar")
    if not archive.exists():
        making = archive.with_name(f".{archive.name}.{os.getpid()}")
        with making.open("wb") as file:
            _pack(folder, file)
        making.rename(archive)
    spark.addArtifacts(str(archive), file=True)
    return shard._replace(shipped=True)


def _pack(folder: Path, into: io.BufferedIOBase) -> None:
    with tarfile.open(fileobj=into, mode="w") as packed:
        packed.add(folder, arcname=".")
