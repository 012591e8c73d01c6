"""A small experiment with rows that succeed and rows that fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.lab.experiment import (
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    generator,
    identity,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweep(setting: Setting) -> list[Parameters]:
    return [{"number": number} for number in range({"full": 40, "quick": 10, "tiny": 3}[setting])]


def measure(parameters: Parameters) -> Iterator[Row]:
    """Two rows for each number; an error if `stone` names an existing file.

    The process dies if `pit` names one.
    """
    pit = parameters.get("pit")
    if pit is not None and Path(pit).exists():
        Path(pit).unlink()
        os._exit(1)
    stone = parameters.get("stone")
    if stone is not None and Path(stone).exists():
        raise OSError("a stone lies in the way")
    if parameters["number"] < 0:
        return
    source = generator("toy", identity(parameters))
    for draw in range(2):
        yield {"draw": draw, "value": float(source.random())}


def whereabouts(parameters: Parameters) -> Iterator[Row]:
    """The process that measures."""
    yield {"draw": 0, "value": float(os.getpid())}


def claims(rows: Rows) -> list[Claim]:
    mean = sum(row["value"] for row in rows) / len(rows)
    return [Claim("1", "values are <b>small</b>", f"{mean:.2f} on average", mean < 1)]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import panels

    figure, (axes,) = panels()
    axes.plot([row["number"] for row in rows], [row["value"] for row in rows], "o")
    return figure


TOY = Experiment(
    name="toy",
    parts=("F8",),
    title="A toy",
    question="Does the lab work?",
    paper="Nothing.",
    here="Draws numbers.",
    sweep=sweep,
    columns={"draw": int, "value": float},
    measure=measure,
    claims=claims,
    draw=draw,
)
