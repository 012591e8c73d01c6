"""The style of all figures: one size, one set of colours, text that readers can select."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH: Final = 9.2  # inches
HEIGHT: Final = 3.7
# Dark enough on white, and distinct to colour-blind readers (Okabe and Ito).
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "x")


def panels(count: int = 1, rows: int = 1, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, `count` in each row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH if count > 1 else WIDTH * 0.7, HEIGHT * rows))
    grid: Any = figure.subplots(rows, count, squeeze=False, sharey=share_y)
    axes = list(grid.flat)
    for one in axes:
        one.grid(visible=True, color="#e4e4e4", linewidth=0.7)
        one.set_axisbelow(True)
        for side in ("top", "right"):
            one.spines[side].set_visible(False)
    return figure, axes


def picture(draw: Callable[[Rows], Figure], rows: Rows, salt: str) -> str:
    """A figure as SVG for a page; equal rows give equal text."""
    import matplotlib

    settings: dict[Any, Any] = {"svg.hashsalt": salt, "svg.fonttype": "none"}
    settings |= {"font.size": 9.0, "font.family": "sans-serif", "legend.frameon": False}
    settings |= {"axes.titlesize": 9.5, "legend.fontsize": 8.0, "lines.markersize": 4.0}
    with matplotlib.rc_context(settings):
        figure = draw(rows)
        figure.tight_layout()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    found = text.getvalue()
    found = found[found.index("<svg") :]
    return re.sub(r'(<svg[^>]*?) height="[^"]*"([^>]*?) width="[^"]*"', r"\1\2", found, count=1)
