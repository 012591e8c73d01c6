"""Paper F, Fig. 9 (F8): time per message of routers with few interfaces and many filters."""

from __future__ import annotations

import math
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
from tidings.lab.routers import COUNTING, OURS, ROUNDS, TIMES, decided, router, times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INTERFACES: Final = {"full": (10, 20, 50, 100), "quick": (10, 20, 100), "tiny": (10,)}
FILTERS: Final = {
    "full": (200, 1_000, 10_000, 100_000, 1_000_000),
    "quick": (200, 1_000, 10_000, 50_000),
    "tiny": (100, 1_000),
}
SAME: Final = 0.10  # times that differ by less are indistinguishable
PAPER_MS: Final = 3.0  # 20 interfaces, five million constraints
PAPER_CONSTRAINTS: Final = 4_000_000


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"interfaces": interfaces, "filters": filters, "seed": 1}
        for filters in FILTERS[setting]
        for interfaces in INTERFACES[setting]
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    yield from times(router(parameters["filters"], parameters["interfaces"], parameters["seed"]))


def claims(rows: Rows) -> list[Claim]:
    return [_same(rows), _sublinear(rows), _time(rows)]


def _same(rows: Rows) -> Claim:
    """Compare the time with and without rounds, table by table."""
    changes = []
    for row in select(rows, matcher=COUNTING, rounds=0):
        tables = {"filters": row["filters"], "interfaces": row["interfaces"]}
        (other,) = select(rows, matcher=COUNTING, rounds=ROUNDS, **tables)
        changes.append((other["us"] - row["us"]) / row["us"])
    worst = max(changes, key=abs)
    return Claim(
        "5.2",
        "the curves with no and with ten rounds are essentially indistinguishable",
        f"the rounds change the time by {sum(changes) / len(changes):+.1%} on average, by "
        f"{worst:+.1%} at most",
        abs(worst) <= 2 * SAME,
        "The largest changes are in the smallest tables, where a message takes microseconds.",
    )


def growth(rows: Rows, matcher: str, rounds: int, interfaces: int) -> float:
    """The exponent by which time grows with constraints, between the two largest tables."""
    line = sorted(
        (r["constraints"], r["us"])
        for r in select(rows, matcher=matcher, rounds=rounds, interfaces=interfaces)
    )
    (before, less), (last, more) = line[-2], line[-1]
    return math.log(more / less) / math.log(last / before)


def _sublinear(rows: Rows) -> Claim:
    counting = [growth(rows, COUNTING, 0, i) for i in values(rows, "interfaces")]
    ours = [growth(rows, OURS, 0, i) for i in values(rows, "interfaces")]
    return Claim(
        "5.2",
        "with a fixed number of interfaces, time grows less than linearly in the constraints",
        "between the two largest tables the exponent is "
        f"{min(counting):.2f} to {max(counting):.2f} (counting) and "
        f"{min(ours):.2f} to {max(ours):.2f} (ours)",
        decided(rows, max(counting) < 1 and max(ours) < 1),
    )


def _time(rows: Rows) -> Claim:
    largest = [
        r
        for r in select(rows, interfaces=20)
        if r["filters"] >= max(FILTERS["full"]) and r["constraints"] > PAPER_CONSTRAINTS
    ]
    statement = "3 ms per message for 20 interfaces and five million constraints"
    if not largest:
        return Claim("1", statement, "only the full setting has tables this large", None)
    counting = min(r["us"] for r in select(largest, matcher=COUNTING)) / 1e3
    ours = min(r["us"] for r in select(largest, matcher=OURS)) / 1e3
    matched = largest[0]["matched"]
    return Claim(
        "1",
        statement,
        f"counting {counting:.3g} ms, ours {ours:.3g} ms; a message goes to {matched:.1f} of the "
        "20 interfaces (the paper: 18)",
        counting <= PAPER_MS,
        "The paper's computer had 950 MHz.",
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    kinds = ((axes[0], COUNTING, "counting (paper F)"), (axes[1], OURS, "ours"))
    for one, matcher, title in kinds:
        for number, interfaces in enumerate(values(rows, "interfaces")):
            for rounds in (0, ROUNDS) if matcher == COUNTING else (0,):
                line = sorted(
                    (r["constraints"], r["us"] / 1e3)
                    for r in select(rows, matcher=matcher, rounds=rounds, interfaces=interfaces)
                )
                label = f"I = {interfaces}" + (f", r = {rounds}" if matcher == COUNTING else "")
                one.plot(*zip(*line, strict=True), color=COLOURS[number], marker=MARKERS[number],
                         linestyle="--" if rounds else "-", label=label)  # fmt: skip
        one.set_xscale("log")
        one.set_xlabel("constraints in the table")
        one.set_ylabel("time per message, ms")
        one.set_ylim(bottom=0)
        one.set_title(title)
        one.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="f8-figure9",
    parts=("F8",),
    title="Fig. 9: forwarding time of routers with 10 to 100 interfaces",
    question="How long does a router in a network take for a message, and does the selectivity "
    "table matter there?",
    paper="The tables of Fig. 8 behind a fixed number of interfaces, with no rounds and with ten.",
    here="The same, with the paper's algorithm and with ours. As in the paper's table 1, the "
    "number of filters behind an interface is uniform from 1, so tables of one size differ a "
    "little.",
    sweep=sweep,
    columns=TIMES,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
)
