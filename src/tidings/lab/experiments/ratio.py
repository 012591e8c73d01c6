"""Paper F, Fig. 10 (F8): time per message as one table has fewer and fewer interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.routers import (
    COUNTING,
    CURVES,
    LABELS,
    MAPS,
    OURS,
    ROUNDS,
    SEEDS,
    TIMES,
    TIMING,
    curve,
    decided,
    drawn_for,
    milliseconds,
    router,
    saving,
    style,
    times,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILTERS: Final = {"full": 200_000, "quick": 10_000, "tiny": 1_000}
EACH: Final = {
    "full": (1, 2, 5, 10, 100, 1_000, 10_000),
    "quick": (1, 5, 100, 1_000),
    "tiny": (1, 10, 100),
}
HELPS: Final = 0.05


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"filters": FILTERS[setting], "each": each, "seed": seed}
        for seed in SEEDS[setting]
        for each in EACH[setting]
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    filters, each = parameters["filters"], parameters["each"]
    yield from times(router(filters, filters // each, parameters["seed"]))


def claims(rows: Rows) -> list[Claim]:
    fewest, most = values(rows, "each")[0], values(rows, "each")[-1]

    def gain(matcher: str) -> float:
        left, right = (milliseconds(select(rows, each=e), matcher).mean for e in (fewest, most))
        return left / right

    best = {
        matcher: min(
            values(rows, "each"), key=lambda each: milliseconds(select(rows, each=each), matcher)
        )
        for matcher in COUNTING
    }
    left = {matcher: saving(select(rows, each=fewest), matcher) for matcher in COUNTING}
    right = {matcher: saving(select(rows, each=most), matcher) for matcher in COUNTING}
    return [
        Claim(
            "5.2",
            "the algorithm is at its best with very large disjunctions",
            f"{most:,} filters an interface instead of one: "
            + ", ".join(
                f"{LABELS[m]} {gain(m):.1f} times as fast (fastest at {best[m]:,})"
                for m in COUNTING
            )
            + f", ours {gain(OURS):.1f} times as fast",
            decided(rows, all(gain(m) > 1 and best[m] >= most // 10 for m in COUNTING)),
            f"Agrees if each kind of counters is faster there than with one filter an interface, "
            f"and fastest with at least {most // 10:,}.",
        ),
        Claim(
            "5.2",
            "excluding interfaces helps where an interface has few filters, on the left",
            "ten rounds save at one filter an interface and at "
            f"{most:,}: "
            + "; ".join(f"{LABELS[m]} {left[m]:.0%} and {right[m]:.0%}" for m in COUNTING),
            decided(rows, all(left[m].mean > max(right[m].mean, HELPS) for m in MAPS)),
            f"A negative share is a cost. Agrees if with both maps they save more than {HELPS:.0%} "
            "on the left, and more than on the right. With a flat array there is little to save "
            "(see f8-figure8).",
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import panels

    figure, (time, saved) = panels(2)
    tables = {each: select(rows, each=each) for each in values(rows, "each")}
    for matcher, rounds in CURVES:
        points = [(each, milliseconds(t, matcher, rounds)) for each, t in tables.items()]
        curve(time, points, **style(matcher, rounds))
    for matcher in COUNTING:
        shares = [(each, saving(t, matcher).scaled(100)) for each, t in tables.items()]
        curve(saved, shares, **(style(matcher, ROUNDS) | {"label": LABELS[matcher]}))
    time.set_yscale("log")
    time.set_ylabel("time per message, ms")
    saved.axhline(0, color="#888888", linewidth=0.8)
    saved.set_ylim(-150, 100)
    saved.set_ylabel(f"time that {ROUNDS} rounds save, %; below 0 a cost")
    for axes in (time, saved):
        axes.set_xscale("log")
        axes.set_xlabel("filters an interface, mean")
    time.set_ylim(bottom=time.get_ylim()[0] / 20)  # room for the legend
    time.legend(ncols=2, loc="lower center", fontsize=7)
    saved.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="f8-figure10",
    parts=("F8",),
    title="Fig. 10: forwarding time over the number of filters of an interface",
    question="How does the time depend on the number of interfaces, if the table keeps its size?",
    paper="A fixed number of filters and constraints, which the paper does not give; no rounds and "
    "ten.",
    here="The same 200,000 filters, about a million constraints, in the full setting, dealt to "
    f"200,000 interfaces and to fewer. {TIMING}",
    sweep=sweep,
    columns=TIMES,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
    shares=drawn_for,
)
