"""Paper F, Fig. 11 (F8): the time that rounds of the selectivity table save or cost."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.routers import MAX_ROUNDS, decided, router, timed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILTERS: Final = {
    "full": (1_000_000, 100_000),
    "quick": (50_000, 5_000),
    "tiny": (500, 50),
}
ROUNDS: Final = (0, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, MAX_ROUNDS)
PAPER_USELESS: Final = (50, 70)
PAPER_SAVING: Final = 0.40


def sweep(setting: Setting) -> list[Parameters]:
    return [{"filters": filters, "seed": 1} for filters in FILTERS[setting]]


def measure(parameters: Parameters) -> Iterator[Row]:
    made = router(parameters["filters"], parameters["filters"], parameters["seed"])
    for rounds in ROUNDS:
        counting = made.counting.variant(rounds)
        yield {
            "rounds": rounds,
            "constraints": made.constraints,
            "us": timed(counting.match, made.messages).us,
            "excluded": statistics.mean(counting.excluded(m) for m in made.messages),
        }


COLUMNS: Final = {"rounds": int, "constraints": int, "us": float, "excluded": float}


def gains(rows: Rows, filters: int) -> list[tuple[int, float]]:
    """For each number of rounds, the share of the time that they save."""
    line = sorted((r["rounds"], r["us"]) for r in select(rows, filters=filters))
    return [(rounds, 1 - us / line[0][1]) for rounds, us in line]


def claims(rows: Rows) -> list[Claim]:
    sizes = values(rows, "filters")
    by_size = {size: gains(rows, size) for size in sizes}
    best = {size: max(line, key=lambda pair: pair[1]) for size, line in by_size.items()}
    large, small = sizes[-1], sizes[0]
    after = [rounds for rounds, gain in by_size[large] if rounds > best[large][0] and gain <= 0]
    excluded = select(rows, filters=large)
    share = {r["rounds"]: r["excluded"] / r["filters"] for r in excluded}
    reason = (
        f"The exclusion itself works as in the paper: ten rounds exclude {share[10]:.0%} of the "
        f"interfaces, a hundred {share[100]:.0%}. But the algorithm still visits excluded filters, "
        "once for every constraint of theirs that the message satisfies. It saves only their "
        "counters, which cost next to nothing here. In return the processor can no longer predict "
        "at each visit that the filter is not ignored; the more filters are excluded, the better "
        "it predicts again. See f8-figure8."
    )
    return [
        Claim(
            "5.3",
            "rounds save up to 40 % of the time, more in larger tables",
            f"at best {best[large][1]:.0%} at {best[large][0]} rounds with {large:,} filters, "
            f"{best[small][1]:.0%} at {best[small][0]} with {small:,}",
            decided(rows, best[large][1] >= max(PAPER_SAVING / 2, best[small][1])),
            reason,
        ),
        Claim(
            "5.3",
            "rounds become ineffective, and ultimately a cost, after 50 to 70",
            f"a cost from {after[0]} rounds on with {large:,} filters"
            if after
            else f"no cost up to {max(ROUNDS)} rounds with {large:,} filters",
            decided(rows, bool(after) and PAPER_USELESS[0] <= after[0] <= 100),
            reason,
        ),
        Claim(
            "5.3",
            "each further round excludes less than those before",
            f"{share[10]:.0%} of the interfaces are excluded after 10 rounds, {share[50]:.0%} "
            f"after 50, {share[100]:.0%} after 100",
            share[10] / 10 > (share[50] - share[10]) / 40 > (share[100] - share[50]) / 50,
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (gain, share) = panels(2)
    for number, filters in enumerate(values(rows, "filters")):
        found = select(rows, filters=filters)
        style: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number]}
        label = f"{found[0]['constraints']:,} constraints"
        line = gains(rows, filters)
        gain.plot([r for r, _ in line], [100 * g for _, g in line], label=label, **style)
        excluded = sorted((r["rounds"], 100 * r["excluded"] / filters) for r in found)
        share.plot(*zip(*excluded, strict=True), label=label, **style)
    gain.axhline(0, color="#888888", linewidth=0.8)
    gain.set_ylabel("time saved by rounds, %")
    share.set_ylabel("interfaces excluded, %")
    share.set_title("the reason: what the rounds exclude")
    for axes in (gain, share):
        axes.set_xlabel("rounds")
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="f8-figure11",
    parts=("F8", "F9"),
    title="Fig. 11: the time that rounds of the selectivity table save",
    question="How many rounds of the selectivity table are worth their cost?",
    paper="One filter an interface, tables of five million constraints and of a smaller number; "
    "the time saved, compared with no rounds.",
    here="The same, and how many interfaces the rounds exclude per message.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
)
