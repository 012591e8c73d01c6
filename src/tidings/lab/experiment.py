"""What an experiment is. A file in `experiments` has these, in this order:

- `sweep(setting) -> parameters`: the rows to measure in a setting: `full`, the paper's values as
  far as this can go; `quick`, minutes on two cores; `tiny`, seconds, for tests. A row is small and
  JSON.
- `COLUMNS`: the columns of a result, by name, `float`, `int`, `str` or `bool`.
- `measure(parameters) -> results`: one row of parameters to one or more rows of results. It runs
  inside a Spark task, and what it draws depends on its parameters alone (`generator`), so results
  do not depend on how rows are spread. It is the only place where anything is measured.
- `claims(rows) -> claims`: what the paper says, beside what was measured.
- `draw(rows) -> figure`: with the axes of the paper's figure.

The rows that `claims` and `draw` get are results with their parameters, of rows that succeeded.
Either may find that a setting has not measured what it needs, and says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Setting = Literal["full", "quick", "tiny"]
Parameters = Mapping[str, Any]
Row = dict[str, Any]
Rows = Sequence[Row]

SETTINGS: Final[tuple[Setting, ...]] = ("full", "quick", "tiny")


class Claim(NamedTuple):
    """A statement of the paper beside what was measured."""

    place: str  # where in the paper
    statement: str
    measured: str
    agrees: bool | None  # None: the setting does not tell
    why: str = ""  # of a disagreement, or what makes an agreement worth less


class Experiment(NamedTuple):
    """A row of `EXPERIMENTS`."""

    name: str
    parts: tuple[str, ...]  # of the papers, by their ids
    title: str
    question: str
    paper: str  # what the paper did
    here: str  # what is done here, and where that differs
    sweep: Callable[[Setting], list[Parameters]]
    columns: Mapping[str, type]
    measure: Callable[[Parameters], Iterable[Row]]
    claims: Callable[[Rows], list[Claim]]
    draw: Callable[[Rows], Figure]
    timed: bool = False  # measures time: one task at a time, and nothing else meanwhile


def identity(parameters: Parameters) -> str:
    """Parameters as text, always the same."""
    return json.dumps(dict(parameters), sort_keys=True, separators=(",", ":"))


def generator(*of: str | int) -> np.random.Generator:
    """A generator whose numbers depend on these alone, wherever and whenever it is asked for."""
    digest = hashlib.sha256(json.dumps(of).encode()).digest()
    seed = np.random.SeedSequence(np.frombuffer(digest, np.uint32).tolist())
    return np.random.Generator(np.random.Philox(seed))


def select(rows: Rows, **wanted: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def values(rows: Rows, name: str) -> list[Any]:
    """The different values of a column, in order."""
    return sorted({row[name] for row in rows})
