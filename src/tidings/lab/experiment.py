"""What an experiment is: the functions that every file in `experiments` has, in this order.

- `sweep(setting) -> parameters`: the rows to measure in a setting. `full` has the paper's values as
  far as possible, `quick` takes minutes on two cores, `tiny` takes seconds and is for tests. A row
  is small, and JSON.
- `measure(parameters) -> results`: measures one row of parameters and gives one or more rows of
  results. It runs inside a Spark task. Its random numbers depend on its parameters alone
  (`generator`), so results do not depend on how Spark distributes the rows. Nothing else measures.
- `COLUMNS`: the columns of a result by name: `float`, `int`, `str` or `bool`.
- `claims(rows) -> claims`: compares the paper's statements with the results.
- `draw(rows) -> figure`: draws the results with the axes of the paper's figure.

`claims` and `draw` get the results of the rows that succeeded, joined with their parameters. If a
setting has not measured what they need, they say so.
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

BEYOND: Final = "not in the paper"  # the place of what a paper does not say
SETTINGS: Final[tuple[Setting, ...]] = ("full", "quick", "tiny")


class Claim(NamedTuple):
    """A statement of the paper, and what was measured here."""

    place: str  # the section of the paper
    statement: str
    measured: str
    agrees: bool | None  # None: undecided in this setting
    why: str = ""  # the reason for a disagreement, or a reservation about an agreement
    comparable: bool = True  # False: a time of the paper's computer, which decides nothing


class Experiment(NamedTuple):
    """A row of `EXPERIMENTS`."""

    name: str
    parts: tuple[str, ...]  # of the papers, by their ids
    title: str
    question: str
    paper: str  # what the paper did
    here: str  # what this experiment does, and where it differs
    sweep: Callable[[Setting], list[Parameters]]
    columns: Mapping[str, type]
    measure: Callable[[Parameters], Iterable[Row]]
    claims: Callable[[Rows], list[Claim]]
    draw: Callable[[Rows], Figure]
    timed: bool = False  # whether it measures time: then one task at a time, and nothing else
    # What is expensive to make for a timed row, and others may share, also of other experiments.
    shares: Callable[[Parameters], tuple[Any, ...]] = lambda parameters: ()


def identity(parameters: Parameters) -> str:
    """Parameters as text; equal parameters give equal texts."""
    return json.dumps(dict(parameters), sort_keys=True, separators=(",", ":"))


def generator(*of: str | int) -> np.random.Generator:
    """A random generator whose numbers depend on these arguments alone."""
    digest = hashlib.sha256(json.dumps(of).encode()).digest()
    seed = np.random.SeedSequence(np.frombuffer(digest, np.uint32).tolist())
    return np.random.Generator(np.random.Philox(seed))


def select(rows: Rows, **wanted: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def values(rows: Rows, name: str) -> list[Any]:
    """The different values of a column, in order."""
    return sorted({row[name] for row in rows})
