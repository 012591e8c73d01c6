"""Paper F, Fig. 10 (F8): time per message as one table has fewer and fewer interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.routers import COUNTING, CURVES, OURS, ROUNDS, TIMES, decided, router, times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILTERS: Final = {"full": 200_000, "quick": 20_000, "tiny": 1_000}
EACH: Final = {
    "full": (1, 2, 5, 10, 100, 1_000, 10_000, 20_000),
    "quick": (1, 2, 5, 10, 100, 1_000, 2_000),
    "tiny": (1, 10, 100),
}


def sweep(setting: Setting) -> list[Parameters]:
    return [{"filters": FILTERS[setting], "each": each, "seed": 1} for each in EACH[setting]]


def measure(parameters: Parameters) -> Iterator[Row]:
    filters, each = parameters["filters"], parameters["each"]
    yield from times(router(filters, filters // each, parameters["seed"]))


def claims(rows: Rows) -> list[Claim]:
    fewest, most = values(rows, "each")[0], values(rows, "each")[-1]

    def us(each: int, matcher: str, rounds: int) -> float:
        (row,) = select(rows, each=each, matcher=matcher, rounds=rounds)
        return float(row["us"])

    left = 1 - us(fewest, COUNTING, ROUNDS) / us(fewest, COUNTING, 0)
    right = 1 - us(most, COUNTING, ROUNDS) / us(most, COUNTING, 0)
    gains = [us(fewest, COUNTING, 0) / us(most, COUNTING, 0)]
    gains.append(us(fewest, OURS, 0) / us(most, OURS, 0))
    best = min(values(rows, "each"), key=lambda each: us(each, COUNTING, 0))
    return [
        Claim(
            "5.2",
            "the algorithm is at its best with very large disjunctions",
            f"{most:,} filters an interface instead of one: counting {gains[0]:.1f} times as fast, "
            f"ours {gains[1]:.1f} times; counting is fastest at {best:,}",
            decided(rows, gains[0] > 1 and best >= most // 10),
        ),
        Claim(
            "5.2",
            "excluding interfaces helps where an interface has few filters, on the left",
            f"ten rounds save {left:.0%} of the time at one filter an interface, {right:.0%} at "
            f"{most:,}",
            decided(rows, left > max(right, 0.05)),
            "On the left the rounds do exclude most interfaces (see f9-headline). But that saves "
            "little where counters are cheap (see f8-figure8).",
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    for one in axes:
        for number, (matcher, rounds, label) in enumerate(CURVES):
            line = sorted(
                (r["each"], r["us"] / 1e3) for r in select(rows, matcher=matcher, rounds=rounds)
            )
            one.plot(*zip(*line, strict=True), color=COLOURS[number], marker=MARKERS[number],
                     label=label)  # fmt: skip
        one.set_xscale("log")
        one.set_xlabel("filters an interface, mean")
        one.set_ylabel("time per message, ms")
        one.legend()
    axes[0].set_ylim(bottom=0)
    axes[1].set_yscale("log")
    axes[1].set_title("the same, logarithmic")
    return figure


EXPERIMENT: Final = Experiment(
    name="f8-figure10",
    parts=("F8",),
    title="Fig. 10: forwarding time over the number of filters of an interface",
    question="How does the time depend on the number of interfaces, if the table keeps its size?",
    paper="A fixed number of filters and constraints, which the paper does not give; no rounds and "
    "ten.",
    here="200,000 filters, about a million constraints, in the full setting.",
    sweep=sweep,
    columns=TIMES,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
)
