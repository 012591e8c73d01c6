"""Which code measured a result: the version of an experiment, and the commit.

The version is a digest of all definitions that `measure` can reach: by name through the file that
defines it, and by imports through the other files of this package. So the lab measures again when
code that a result depends on has changed, and not when a figure, a sentence or a comment has. A
native module counts as a whole, with what it includes.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

PACKAGE: Final = Path(__file__).parent.parent
ALL: Final = "*"  # every definition of a module
NATIVE: Final = (".pyx", ".pxi", ".h")  # the sources of a native module


class _Module(NamedTuple):
    """A file, split into its definitions."""

    definitions: dict[str, list[ast.stmt]]
    always: list[ast.stmt]  # statements that define no name, and run at import


Place = tuple[str, str]  # a module, and a name in it


@lru_cache(maxsize=1_000)
def version_of(measure: Callable[..., Any]) -> str:
    """The version of the code that a function depends on."""
    digest = hashlib.sha256()
    for place, statements in sorted(reached(measure.__module__, measure.__name__).items()):
        digest.update(f"{place}\n".encode())
        for statement in statements:
            digest.update(_plain(statement).encode())
    return digest.hexdigest()[:12]


def reached(module: str, name: str) -> dict[Place, list[ast.stmt]]:
    """The definitions that one depends on, itself among them."""
    found: dict[Place, list[ast.stmt]] = {}
    pending: list[Place] = [(module, name)]
    while pending:
        place = pending.pop()
        parts = _take_apart(place[0])
        if place in found or parts is None:
            continue
        if place[1] == ALL:
            found[place] = parts.always
            pending.extend((place[0], one) for one in parts.definitions)
            continue
        found[place] = [*parts.definitions.get(place[1], []), *parts.always]
        for statement in found[place]:
            pending.extend(_mentioned(place[0], parts, statement))
    return found


def commit() -> str:
    """The commit of this clone, followed by `+` if files have changed; empty outside a clone."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=12"],
            cwd=PACKAGE, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def _mentioned(module: str, parts: _Module, statement: ast.stmt) -> Iterator[Place]:
    """What a statement may use: names of its module, and names that it imports itself."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        yield from _imported(statement)
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id in parts.definitions:
            yield module, node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imported(node)


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[Place]:
    if isinstance(statement, ast.Import):
        yield from ((alias.name, ALL) for alias in statement.names)
    elif statement.module is not None:
        for alias in statement.names:
            if _file(f"{statement.module}.{alias.name}") is not None:
                yield f"{statement.module}.{alias.name}", ALL
            else:
                yield statement.module, alias.name


@lru_cache(maxsize=1_000)
def _take_apart(module: str) -> _Module | None:
    path = _file(module)
    if path is None:
        return None
    if path.suffix in NATIVE:
        return _Module({}, [ast.Expr(ast.Constant(_digest_of_native(path.parent)))])
    parts = _Module({}, [])
    _sort(ast.parse(path.read_text(encoding="utf-8")).body, parts)
    return parts


def _digest_of_native(folder: Path) -> str:
    """A digest of the native sources of a folder: a module includes its neighbours."""
    sources = sorted(path for path in folder.iterdir() if path.suffix in NATIVE)
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _sort(body: Iterable[ast.stmt], parts: _Module) -> None:
    for statement in (one for whole in body for one in _one_name_each(whole)):
        names = _defined(statement)
        if isinstance(statement, ast.If):  # mostly imports for type checking
            _sort([*statement.body, *statement.orelse], parts)
        elif names:
            for name in names:
                parts.definitions.setdefault(name, []).append(statement)
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            parts.always.append(statement)


def _one_name_each(statement: ast.stmt) -> list[ast.stmt]:
    """Split an import of many names: code that uses one of them does not use the others."""
    if isinstance(statement, ast.Import):
        return [ast.Import([alias]) for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [ast.ImportFrom(statement.module, [one], statement.level) for one in statement.names]
    return [statement]


def _defined(statement: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


@lru_cache(maxsize=10_000)
def _plain(statement: ast.stmt) -> str:
    """A statement without comments, docstrings and layout."""
    for node in ast.walk(statement):
        body: Any = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and len(body) > 1 else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            del body[0]
    return ast.dump(statement)


def _file(module: str) -> Path | None:
    """The file of a module of this package; None if there is none."""
    top, *inside = module.split(".")
    if top != "tidings":
        return None
    path = PACKAGE.joinpath(*inside)
    candidates = path.with_suffix(".py"), path / "__init__.py", path.with_suffix(".pyx")
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    return None
