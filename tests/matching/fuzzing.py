"""Fuzzing: whatever bytes come, the readers of JSON and of saved tables raise only their own error.

A target is a function of bytes that returns if all is well. `test_fuzzing.py` runs each on a few
hundred mutated inputs. `make fuzz` runs each under libFuzzer, which looks for inputs that reach new
code, Python and native: `python -m tests.matching.fuzzing TARGET [FOLDER] [-max_total_time=60]`
with Atheris installed. `python -m tests.matching.fuzzing TARGET FILE` runs one input again.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tidings.language.errors import EventError
from tidings.language.event import Event
from tidings.language.predicate import Predicate, parse
from tidings.matching.storage import TableFileError
from tidings.matching.table import Table

PREDICATES: Final[dict[str, Predicate]] = {
    text: parse(text)
    for text in (
        "a = 1",
        "a > 2.5 and b prefix 'x'",
        "a = 9007199254740993 or a < -1e300",
        "b contains 'é' or b suffix 'z'",
        "b in ('x', 'y') and not exists c",
        "b like 'x%y'",
        "c.d = true",
        "c.d = 'x' and c.e between 1 and 2",
        "not a = 1",
    )
}
JSON: Final = (
    b'{"a": 1, "b": "xyz", "c": {"d": true, "e": 1.5}}',
    b'{"a": [1, 9007199254740993, -1.0e308], "b": "\\u00e9\\ud83d\\ude00\\n", "c": null}',
    b'{"z": [1, -2.0e308], "b": "x", "y": {"x": 1e400}}',  # about which no predicate asks
    b'{"c": [{"d": "x", "e": 1}, {"d": false}], "a": -0, "a": 2E5, "c.d": []}',
    '{"b": "é😀", "": {"": 0.1}}'.encode(),
)
TOKENS: Final = (
    b'"',
    b"\\",
    b"\\u",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"e",
    b"-",
    b".",
    b"0" * 20,
    b"e308",
    b"e-400",
)
TOKENS_OF_FILES: Final = (b"\0" * 4, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x01")


class Target(NamedTuple):
    """What is fuzzed: the function, inputs to begin with, and bytes that mean something to it."""

    check: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    tokens: Sequence[bytes]


@cache
def table() -> Table:
    """A table of all predicates."""
    return Table(PREDICATES)


def check_json(data: bytes) -> None:
    """JSON finds what the slow twin finds, and is refused where the twin refuses it."""
    expected = found = None  # refused
    with suppress(EventError):
        event = Event(data)
        expected = sorted(text for text, p in PREDICATES.items() if p.matches(event))
    with suppress(EventError):
        found = sorted(table().match(data))
    assert found == expected, data


@cache
def saved() -> Path:
    """The folder of a saved table, until the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="tidings-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    table().save(folder / "table")
    return folder / "table"


def files() -> list[Path]:
    """The files of the saved table, in the order by which an input names them."""
    return sorted(path for path in saved().rglob("*") if path.is_file())


def saved_seeds() -> list[bytes]:
    """An input for each file: its number in one byte, then its bytes."""
    return [bytes([number]) + path.read_bytes() for number, path in enumerate(files())]


def check_table(data: bytes) -> None:
    """A saved table with one file replaced is refused, or answers as before."""
    path = files()[data[0] % len(files())] if data else files()[0]
    kept = path.read_bytes()
    path.write_bytes(data[1:])
    try:
        loaded = Table.load(saved(), verify=True)
        assert sorted(loaded.match(JSON[0])) == sorted(table().match(JSON[0]))
    except TableFileError:
        pass
    finally:
        path.write_bytes(kept)


TARGETS: Final = {
    "json": Target(check_json, lambda: JSON, TOKENS),
    "table": Target(check_table, saved_seeds, TOKENS_OF_FILES),
}


def mutated(target: Target, random: Random, count: int) -> Iterator[bytes]:
    """The seeds of a target, then as many inputs made of them by a few random changes each."""
    seeds = target.seeds()
    yield from seeds
    for _ in range(count):
        data = bytearray(random.choice(seeds))
        for _ in range(random.randint(1, 4)):
            place = random.randrange(len(data) + 1)
            span = slice(place, place + random.randint(1, 8))
            change = random.randrange(5)
            if change == 0:
                data[span] = random.randbytes(len(data[span]))
            elif change == 1:
                data[place:place] = random.choice(target.tokens)
            elif change == 2:
                del data[span]
            elif change == 3:
                data[place:place] = data[span] * random.randint(1, 40)
            else:
                data[place:] = random.choice(seeds)[place:]
        yield bytes(data)


def main() -> None:
    """Run a target under libFuzzer, from its seeds and what the folder holds."""
    import atheris  # installed by `make fuzz`

    target = TARGETS[sys.argv.pop(1)]
    for number, data in enumerate(target.seeds()):
        target.check(data)
        for folder in filter(Path.is_dir, map(Path, sys.argv[1:])):
            (folder / f"seed-{number}").write_bytes(data)
    atheris.Setup(sys.argv, target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
