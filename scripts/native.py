"""Build the native modules: Cython makes C of each `.pyx`, and a C compiler makes the module.

Hatchling runs `NativeBuild` when it makes a wheel or an editable installation; `make native` runs
`main` after a change. The compiler is `$CC`, else the system's, else that of the `ziglang` wheel,
which the build asks for only where there is no other. Products stay in `build/native`, one folder a
flavour; a module is made again when it is older than its source, a header or this file.
TIDINGS_NATIVE names the flavour.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ZIG: Final = "ziglang==0.17.0"
FOLDERS: Final = ("tidings/matching/native", "tidings/matching/rivals")
SHARED: Final = (".pxd", ".pxi", ".h")  # a change in one of these may concern every module
# Exact comparisons: no flag may let the compiler take real numbers for something else.
FLAGS: Final = ("-std=c11", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-w")
ASSERT: Final = ("-UNDEBUG", "-g", "-fno-omit-frame-pointer")
FLAVOURS: Final = {
    "release": ("-O3", "-g0", "-DNDEBUG", "-DCYTHON_WITHOUT_ASSERTIONS"),
    "profile": ("-O3", "-DNDEBUG", "-DCYTHON_WITHOUT_ASSERTIONS", "-g", "-fno-omit-frame-pointer"),
    "checked": ("-O2", *ASSERT),
    "asan": ("-O1", *ASSERT, "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    "tsan": ("-O1", *ASSERT, "-fsanitize=thread"),
    "fuzz": ("-O1", *ASSERT, "-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp"),
}
CHECKED: Final = ("checked", "asan", "fuzz")  # these check the indices of memory views too
LINKED: Final = {
    "linux": ("-shared",),
    "darwin": ("-bundle", "-undefined", "dynamic_lookup"),
    "win32": ("-shared", f"-L{sys.base_prefix}/libs", "-lpython{}{}".format(*sys.version_info)),
}


class BuildError(Exception):
    """A module could not be built; the text is one line that says which, why and what may help."""


class NativeBuild(BuildHookInterface[Any]):
    """What hatchling calls."""

    def dependencies(self) -> list[str]:
        """What the build needs beyond `build-system.requires`."""
        return [] if system_compiler() else [ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the modules; put them into the wheel, or beside the source."""
        root = Path(self.root)
        try:
            built = build(root)
        except BuildError as error:
            self.app.abort(f"native: {error}")
        if version == "editable":
            put(built, root / "src")
            return
        build_data["infer_tag"] = bool(built)
        build_data["pure_python"] = not built
        build_data["force_include"].update({str(made): inside for inside, made in built.items()})


def system_compiler() -> list[str]:
    """The command of the compiler that `$CC` names or the system has; empty if there is none."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    return [found] if found else []


def compiler() -> list[str]:
    """The command of the compiler to use."""
    if command := system_compiler():
        return command
    if find_spec("ziglang"):  # compiles for the very machine it runs on, unless told otherwise
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    raise BuildError(f"found no C compiler; install one, name it in CC, or `pip install {ZIG}`")


def build(root: Path) -> dict[str, Path]:
    """Build what is older than its source; returns every module by its place in the package."""
    flavour = os.environ.get("TIDINGS_NATIVE") or "release"
    if flavour not in FLAVOURS:
        raise BuildError(f"TIDINGS_NATIVE={flavour}: the flavours are {', '.join(FLAVOURS)}")
    folders = [root / "src" / folder for folder in FOLDERS]
    sources = sorted(path for folder in folders for path in folder.glob("*.pyx"))
    shared = [path for folder in folders for path in folder.glob("*") if path.suffix in SHARED]
    changed = max(path.stat().st_mtime for path in [root / "scripts" / "native.py", *shared])
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    built, stale = {}, []
    for source in sources:
        inside = source.relative_to(root / "src").with_suffix(suffix).as_posix()
        made = built[inside] = root / "build" / "native" / flavour / inside
        newest = max(changed, source.stat().st_mtime)
        if not made.exists() or made.stat().st_mtime < newest:
            stale.append((source, made))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda pair: _build_module(root, pair[0], pair[1], flavour), stale))
    return built


def _build_module(root: Path, source: Path, made: Path, flavour: str) -> None:
    """Make one module, under another name until it is whole."""
    name = ".".join(source.relative_to(root / "src").with_suffix("").parts)
    code, making = made.with_name(f"{source.stem}.c"), made.with_name(f"{made.name}.{os.getpid()}")
    made.parent.mkdir(parents=True, exist_ok=True)
    relative = source.relative_to(root).as_posix()
    cython = [sys.executable, "-m", "cython", "-3", "--module-name", name, "-I", "src"]
    if flavour in CHECKED:  # whatever the source says
        cython += ["-X", "boundscheck=True"]
    _run([*cython, "-o", str(code), relative], root, relative, "`make env` installs Cython")
    include = [f"-I{sysconfig.get_path('include')}", f"-I{source.parent}"]
    link = [*LINKED.get(sys.platform, LINKED["linux"]), "-o", str(making), str(code), "-lm"]
    hint = "Python.h: apt install python3-dev on Debian and Ubuntu; CC=... names another compiler"
    _run([*compiler(), *FLAGS, *FLAVOURS[flavour], *include, *link], root, relative, hint)
    making.replace(made)


def _run(command: list[str], root: Path, source: str, hint: str) -> None:
    """Run a step; if it fails, say in one line where, and keep all it has said in `build`."""
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    said = done.stderr + done.stdout
    log = root / "build" / "native" / f"{Path(source).stem}.log"
    log.write_text(f"{shlex.join(command)}\n{said}")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    placed = [line for line in lines if re.search(r":\d+:\d+: ", line)]
    why = next(iter(placed or lines[-1:]), f"{command[0]} ended with {done.returncode}")
    raise BuildError(f"could not build {source}: {why} (all of it: {log}; {hint})")


def put(built: dict[str, Path], folder: Path) -> None:
    """Copy modules to their places in the package below a folder, unless they are there."""
    for inside, made in built.items():
        target = folder / inside
        if not target.exists() or target.stat().st_mtime != made.stat().st_mtime:
            target.unlink(missing_ok=True)  # a process may have the old one mapped
            shutil.copy2(made, target)


def main() -> None:
    """Build, and put the modules beside the source; with a folder, into a copy of the package."""
    root = Path(__file__).parents[1]
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "src"
    try:
        built = build(root)
    except BuildError as error:
        sys.exit(f"native: {error}")
    if folder != root / "src":
        left = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
        shutil.copytree(root / "src", folder, dirs_exist_ok=True, ignore=left)
    put(built, folder)


if __name__ == "__main__":
    main()
