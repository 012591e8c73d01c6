"""Paper F, Fig. 8 (F8): time per message of a centralized router, one filter an interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidings.lab.experiment import (
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    select,
    values,
)
from tidings.lab.routers import COUNTING, CURVES, OURS, ROUNDS, TIMES, decided, router, times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILTERS: Final = {
    "full": (100, 1_000, 10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000),
    "quick": (100, 1_000, 10_000, 50_000),
    "tiny": (50, 500),
}
PAPER_MS: Final = 330.0
PAPER_CONSTRAINTS: Final = 4_500_000  # at least; about the paper's five million
PAPER_SAVING: Final = 0.40


def sweep(setting: Setting) -> list[Parameters]:
    return [{"filters": filters, "seed": 1} for filters in FILTERS[setting]]


def measure(parameters: Parameters) -> Iterator[Row]:
    filters = parameters["filters"]
    yield from times(router(filters, filters, parameters["seed"]))


def claims(rows: Rows) -> list[Claim]:
    return [_time(rows), _saving(rows), _ours(rows)]


def _time(rows: Rows) -> Claim:
    largest = [r for r in rows if r["constraints"] >= PAPER_CONSTRAINTS]
    by_counting = select(largest, matcher=COUNTING, rounds=ROUNDS)
    by_ours = select(largest, matcher=OURS)
    statement = "about 330 ms per message with over five million constraints, one million filters"
    if not by_counting or not by_ours:
        return Claim("5.2", statement, "only the full setting has tables this large", None)
    counting_ms, ours_ms = by_counting[-1]["us"] / 1e3, by_ours[-1]["us"] / 1e3
    return Claim(
        "5.2",
        statement,
        f"counting {counting_ms:.3g} ms, ours {ours_ms:.3g} ms, {by_ours[-1]['constraints']:,} "
        "constraints",
        counting_ms <= PAPER_MS,
        "The paper's computer had 950 MHz and ran another program, in C++, so no slower counts as "
        "agreement.",
    )


def savings(rows: Rows) -> list[tuple[int, float]]:
    """For each table, its constraints and the share of the time that the rounds save."""
    found = []
    for constraints in values(rows, "constraints"):
        without = select(rows, matcher=COUNTING, rounds=0, constraints=constraints)
        with_rounds = select(rows, matcher=COUNTING, rounds=ROUNDS, constraints=constraints)
        if without and with_rounds:
            found.append((constraints, 1 - with_rounds[0]["us"] / without[0]["us"]))
    return found


def _saving(rows: Rows) -> Claim:
    found = savings(rows)
    constraints, best = max(found, key=lambda pair: pair[1])
    last = found[-1]
    return Claim(
        "5.2",
        "ten rounds of the selectivity table save up to 40 % of the time",
        f"at best {best:.0%}, with {constraints:,} constraints; {last[1]:.0%} with {last[0]:,}",
        decided(rows, best >= PAPER_SAVING / 2),
        "A negative share is a cost. The algorithm still visits excluded filters: it follows every "
        "link from a satisfied constraint to its filters and tests there whether to ignore them "
        "(Fig. 7). A round saves only the counter of each: an entry of a map in the paper, an "
        "element of a flat array here, which costs next to nothing. The rounds are cheap as well, "
        "an `or` of bit sets. But with them the processor can no longer predict the outcome of the "
        "test at each visit, and a wrong prediction takes longer than counting.",
    )


def _ours(rows: Rows) -> Claim:
    pairs = [
        (select(rows, matcher=OURS, constraints=c), select(rows, matcher=COUNTING, constraints=c))
        for c in values(rows, "constraints")
    ]
    ratios = [min(r["us"] for r in theirs) / ours[0]["us"] for ours, theirs in pairs]
    return Claim(
        "not in the paper",
        "ours is faster than the better of the two curves",
        f"{min(ratios):.1f} to {max(ratios):.1f} times, {ratios[-1]:.1f} times at the largest",
        min(ratios) >= 1,
        "Where it is not faster, the table is so small that Python's work for each message "
        "outweighs matching.",
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (plain, logarithmic) = panels(2)
    for number, (matcher, rounds, label) in enumerate(CURVES):
        line = sorted(
            (r["constraints"], r["us"] / 1e3) for r in select(rows, matcher=matcher, rounds=rounds)
        )
        for axes in (plain, logarithmic):
            axes.plot(*zip(*line, strict=True), color=COLOURS[number], marker=MARKERS[number],
                      label=label)  # fmt: skip
    logarithmic.set_xscale("log")
    logarithmic.set_yscale("log")
    logarithmic.set_title("the same, logarithmic")
    for axes in (plain, logarithmic):
        axes.set_xlabel("constraints in the table")
        axes.set_ylabel("time per message, ms")
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="f8-figure8",
    parts=("F8",),
    title="Fig. 8: forwarding time of a centralized router",
    question="How long does a router take for a message when every filter has an interface of its "
    "own?",
    paper="Tables from a few hundred to over five million constraints, one filter an interface, "
    "100 messages, with no round of the selectivity table and with ten; C++ on a 950 MHz computer.",
    here="The same tables and messages, drawn by the paper's distributions (F7), with the paper's "
    "algorithm and with ours, both compiled ahead of time and called from Python. The time is the "
    "mean over all messages of each message's best in at least seven repeats.",
    sweep=sweep,
    columns=TIMES,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
)
