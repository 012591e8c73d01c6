"""Paper F, Fig. 11 (F8): the time that rounds of the selectivity table save or cost."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select, values
from tidings.lab.intervals import Mean
from tidings.lab.routers import (
    COUNTING,
    LABELS,
    MAPS,
    MAX_ROUNDS,
    SEEDS,
    TIMES,
    TIMING,
    curve,
    decided,
    drawn_for,
    router,
    saving,
    style,
    times,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILTERS: Final = {
    "full": (100_000, 1_000_000),
    "quick": (2_000, 10_000),
    "tiny": (50, 500),
}
ROUNDS: Final = (0, 5, 10, 20, 35, 50, 70, 100, MAX_ROUNDS)
PAPER_USELESS: Final = (50, 70)
PAPER_SAVING: Final = 0.40
NEAR: Final = 0.02  # of the time; further rounds that change less are ineffective
CURVES: Final = tuple((matcher, rounds) for matcher in COUNTING for rounds in ROUNDS)


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"filters": filters, "seed": seed}
        for filters in FILTERS[setting]
        for seed in SEEDS[setting]
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    filters = parameters["filters"]
    made = router(filters, filters, parameters["seed"])
    excluded = {
        rounds: statistics.mean(map(made.counting.variant(rounds).excluded, made.messages))
        for rounds in ROUNDS
    }
    for row in times(made, CURVES):
        yield row | {"excluded": excluded[row["rounds"]]}


COLUMNS: Final = TIMES | {"excluded": float}


def gains(rows: Rows, filters: int, matcher: str) -> dict[int, Mean]:
    """For each number of rounds, the share of the time that they save."""
    table = select(rows, filters=filters)
    return {rounds: saving(table, matcher, rounds) for rounds in ROUNDS}


def levels_off(gained: dict[int, Mean]) -> int:
    """The rounds after which further ones change the time by little."""
    best = max(gain.mean for gain in gained.values())
    return next(rounds for rounds, gain in gained.items() if gain.mean >= best - NEAR)


def claims(rows: Rows) -> list[Claim]:
    small, large = values(rows, "filters")[0], values(rows, "filters")[-1]
    by_size = {n: {m: gains(rows, n, m) for m in COUNTING} for n in (small, large)}
    best = {
        n: {m: max(line.items(), key=lambda pair: pair[1].mean) for m, line in lines.items()}
        for n, lines in by_size.items()
    }
    share = {
        rounds: statistics.mean(
            r["excluded"] / r["filters"] for r in select(rows, filters=large, rounds=rounds)
        )
        for rounds in ROUNDS
    }
    ends = {m: by_size[large][m][MAX_ROUNDS] for m in COUNTING}
    level = {m: levels_off(by_size[large][m]) for m in COUNTING}
    low, high = PAPER_USELESS
    return [
        Claim(
            "5.3",
            "rounds save up to 40 % of the time, more in larger tables",
            "; ".join(
                f"{LABELS[m]}: {_best(*best[large][m])} with {large:,} filters, "
                f"{_best(*best[small][m])} with {small:,}"
                for m in COUNTING
            ),
            decided(
                rows,
                all(
                    best[large][m][1].mean >= max(PAPER_SAVING / 2, best[small][m][1].mean - NEAR)
                    for m in MAPS
                ),
            ),
            "Agrees if both maps save at least half as much as the paper, 20 %, and no less in the "
            f"larger table (by more than {NEAR:.0%}). The exclusion itself does not depend on the "
            f"counters: ten rounds exclude {share[10]:.0%} of the interfaces, a hundred "
            f"{share[100]:.0%}. What that saves does: see f8-figure8.",
        ),
        Claim(
            "5.3",
            "rounds become ineffective, and ultimately a cost, after 50 to 70",
            f"with {large:,} filters, "
            + "; ".join(
                f"{LABELS[m]}: within {NEAR:.0%} of the best from {level[m]} rounds on, "
                f"{ends[m]:.0%} at {MAX_ROUNDS}"
                for m in COUNTING
            ),
            decided(rows, all(low <= level[m] <= high and ends[m].mean < 0 for m in MAPS)),
            f"Agrees if with both maps the gain levels off at {low} to {high} rounds and is below "
            f"zero at {MAX_ROUNDS}. A round is an `or` of two bit sets here, so even {MAX_ROUNDS} "
            "of them cost little beside a map of counters.",
        ),
        Claim(
            "5.3",
            "each further round excludes less than those before",
            f"{share[10]:.0%} of the interfaces are excluded after 10 rounds, {share[50]:.0%} "
            f"after 50, {share[100]:.0%} after 100",
            share[10] / 10 > (share[50] - share[10]) / 40 > (share[100] - share[50]) / 50,
        ),
    ]


def _best(rounds: int, gain: Mean) -> str:
    """In words."""
    return f"at best {gain:.0%} at {rounds} rounds" if rounds else "none saves time"


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (gain, share) = panels(2)
    for number, filters in enumerate(values(rows, "filters")):
        found = select(rows, filters=filters)
        constraints = f"{statistics.mean(r['constraints'] for r in found):,.0f} constraints"
        look: dict[str, Any] = {"linestyle": "-" if number else ":"}
        for matcher in COUNTING:
            line = [(r, saved.scaled(100)) for r, saved in gains(rows, filters, matcher).items()]
            label = f"{LABELS[matcher]}, {constraints}"
            curve(gain, line, **(style(matcher) | look | {"label": label}))
        excluded = [
            statistics.mean(100 * r["excluded"] / filters for r in select(found, rounds=rounds))
            for rounds in ROUNDS
        ]
        share.plot(ROUNDS, excluded, color=COLOURS[number], marker=MARKERS[number],
                   label=f"excluded, {constraints}")  # fmt: skip
    gain.axhline(0, color="#888888", linewidth=0.8)
    gain.axhline(100 * PAPER_SAVING, color="#000000", linestyle=":", label="paper F: up to 40 %")
    gain.axvspan(*PAPER_USELESS, color="#dddddd", label="paper F: ineffective from here on")
    gain.set_ylim(-150, 100)
    gain.set_ylabel("time saved by rounds, %; below 0 a cost")
    share.set_ylabel("interfaces excluded, %")
    gain.set_title("cut off at -150 %")
    share.set_title("the reason: what the rounds exclude")
    share.set_ylim(bottom=0)
    for axes in (gain, share):
        axes.set_xlabel("rounds")
    # The left panel has no room for its legend.
    handles, labels = gain.get_legend_handles_labels()
    more, names = share.get_legend_handles_labels()
    share.legend(handles + more, labels + names, loc="lower right", fontsize=7)
    return figure


EXPERIMENT: Final = Experiment(
    name="f8-figure11",
    parts=("F8", "F9"),
    title="Fig. 11: the time that rounds of the selectivity table save",
    question="How many rounds of the selectivity table are worth their cost?",
    paper="One filter an interface, tables of five million constraints and of a smaller number; "
    "the time saved, compared with no rounds.",
    here="The same with three kinds of counters, and how many interfaces the rounds exclude per "
    f"message. {TIMING}",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
    shares=drawn_for,
)
