"""Packages that only some commands need, and the extra of Tidings that brings each of them.

A command calls `require` before it begins. A package that nobody asked for in advance is found
missing when it is imported. Either way the error is a `ModuleNotFoundError`, and `main` writes what
`advice` says of it.
"""

from __future__ import annotations

from importlib.util import find_spec

SPARK = ("pyspark", "pandas")  # for every Spark job
GRAPHS = ("networkx", "scipy")  # to draw topologies, and to find shortest paths
PAGES = ("prometheus_client", "starlette", "uvicorn")  # for a router's pages, --http

EXTRAS = {
    **dict.fromkeys((*SPARK, "py4j"), "spark"),
    **dict.fromkeys((*GRAPHS, "matplotlib"), "lab"),
    **dict.fromkeys(PAGES, "live"),
    "cryptography": "seal",
}


def require(*packages: str) -> None:
    """Raise `ModuleNotFoundError` for the first package that is not installed; imports nothing."""
    for package in packages:
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def advice(error: ModuleNotFoundError) -> str | None:
    """What to install; None for a package that no extra brings."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    return f"this needs {package}, which is not installed: pip install 'tidings[{EXTRAS[package]}]'"
