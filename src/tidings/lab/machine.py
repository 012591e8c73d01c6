"""Describes the machine that measures: processor, memory, versions and load."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

PACKAGES: Final = ("numpy", "pyarrow", "pyspark")


def machine() -> str:
    """The processor, cores, memory and versions of this machine, in one line."""
    parts = [_processor(), f"{os.cpu_count()} cores"]
    memory = _memory_gib()
    if memory:
        parts.append(f"{memory:.0f} GiB")
    parts += [platform.system(), f"Python {platform.python_version()}"]
    return ", ".join([*parts, *_versions()])


def load() -> float:
    """The load average of the last minute; 0 where the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())
    return platform.processor() or platform.machine()


def _memory_gib() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, ValueError, OSError):
        return 0.0


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # not installed; some experiments do not need it
            continue
    return found
