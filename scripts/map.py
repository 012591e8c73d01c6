"""Write the decisions and the map of the code into docs/architecture.md, from their first lines.

`make map` runs it; `tests/test_layout.py` holds that the page is what it writes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "tidings"
PAGE: Final = ROOT / "docs" / "architecture.md"
BEGIN: Final = "<!-- The map: `make map` writes what follows. -->"
END: Final = "<!-- End of the map. -->"
NATIVE: Final = (".pyx", ".pxd", ".pxi", ".h")  # Cython and C
# What opens a native file: comments to the compiler, then a docstring or a comment.
OPENING: Final = re.compile(r'(?:#\s*(?:cython|distutils):.*\n|\s)*(?:"""|#|//|/\*+)[ \t]*(\S.*)')

# The rooms, in the order in which they may import: each only from those before it.
ROOMS: Final = (
    "language",
    "matching",
    "summary",
    "overlay",
    "routing",
    "wire",
    "live",
    "sim",
    "spark",
    "lab",
    "console",
    "cli",
)


def first_line(module: Path) -> str:
    """What a module says that it is for: the first line of its docstring, without the full stop."""
    text = module.read_text(encoding="utf-8")
    if module.suffix in NATIVE:
        opening = OPENING.match(text)
        return (
            opening[1].removesuffix("*/").removesuffix('"""').strip().rstrip(".") if opening else ""
        )
    lines = (ast.get_docstring(ast.parse(text, str(module))) or "").splitlines()
    return lines[0].rstrip(".") if lines else ""


def sources(folder: Path) -> list[Path]:
    """The files of code in a folder, native ones too."""
    return sorted(path for path in folder.glob("*") if path.suffix in (".py", *NATIVE))


def rooms() -> list[Path]:
    """The folders of the rooms that there are, in their order."""
    return [PACKAGE / name for name in ROOMS if (PACKAGE / name).is_dir()]


def render() -> str:
    """The list of decisions, then the map: a section a room, a table a folder, a row a file."""
    lines = ["## Decisions", ""]
    for decision in sorted((PAGE.parent / "decisions").glob("*.md")):
        title = decision.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        lines.append(f"- [{title}](decisions/{decision.name})")
    lines += ["", "## The map", "", "Every file, with the first line of its docstring.", ""]
    for room in rooms():
        lines += _room(room)
    return "\n".join(lines)


def _room(room: Path) -> Iterator[str]:
    for folder in [room, *sorted(path.parent for path in room.rglob("*/__init__.py"))]:
        yield f"{'###' if folder == room else '####'} {folder.relative_to(PACKAGE).as_posix()}"
        yield ""
        about = first_line(folder / "__init__.py")
        yield about if about.endswith("?") else f"{about}."
        yield ""
        files = [path for path in sources(folder) if path.name != "__init__.py"]
        if files:
            yield "| file | what it is for |"
            yield "|---|---|"
            for file in files:
                link = f"[{file.name}](../{file.relative_to(ROOT).as_posix()})"
                yield f"| {link} | {first_line(file)} |"
            yield ""


def with_map(page: str) -> str:
    """The page with the present map between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name}: expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{render()}\n{END}{after}"


def main() -> None:
    """Write the page anew."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_map(page), encoding="utf-8")
    count = sum(len(sources(folder)) for folder in PACKAGE.rglob("*/"))
    print(f"{PAGE.relative_to(ROOT)}: the map of {count} files")


if __name__ == "__main__":
    main()
