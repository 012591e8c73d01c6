"""Paper F, Fig. 9 (F8): time per message of routers with few interfaces and many filters."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

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
from tidings.lab.intervals import Mean, by_seed
from tidings.lab.routers import (
    OURS,
    ROUNDS,
    SEEDS,
    TIMES,
    TIMING,
    Router,
    curve,
    decided,
    drawn_for,
    mark,
    milliseconds,
    router,
    saving,
    times,
)
from tidings.language.predicate import Predicate
from tidings.language.reduction import reduce_filters
from tidings.matching.rivals.counting import Counting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INTERFACES: Final = {"full": (10, 20, 100), "quick": (10, 20, 100), "tiny": (10, 20)}
FILTERS: Final = {
    "full": (1_000, 10_000, 50_000, 250_000, 1_000_000),
    "quick": (1_000, 3_000, 10_000),
    "tiny": (100, 1_000),
}
SOME: Final = 20  # interfaces with which the reduced table is measured too
MOST_REDUCED: Final = 50_000  # filters; reducing more takes minutes
ARRAY: Final = "array"
REDUCED: Final = "array, reduced table"
CURVES: Final = ((ARRAY, 0), (ARRAY, ROUNDS), (OURS, 0))
SAME: Final = 0.20  # times that differ by less are indistinguishable
PAPER_MS: Final = 3.0  # 20 interfaces, five million constraints
PAPER_CONSTRAINTS: Final = 5_000_000


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"interfaces": interfaces, "filters": filters, "seed": seed}
        for filters in FILTERS[setting]
        for seed in SEEDS[setting]
        for interfaces in INTERFACES[setting]
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    filters, interfaces = parameters["filters"], parameters["interfaces"]
    made = router(filters, interfaces, parameters["seed"])
    others = {}
    if interfaces == SOME and filters <= MOST_REDUCED:
        others[REDUCED] = reduced(made).match
    yield from times(made, CURVES, others)


def reduced(made: Router) -> Counting:
    """The paper's algorithm on a table in which no filter of an interface covers another."""
    interfaces = made.counting.subscriptions.items()
    return Counting(
        (id, Predicate.of(reduce_filters(predicate.filters, merge=False)))
        for id, predicate in interfaces
    )


def claims(rows: Rows) -> list[Claim]:
    return [_same(rows), _sublinear(rows), _reduced(rows)]


def _same(rows: Rows) -> Claim:
    """Compare the time with and without rounds, table by table."""
    changes = {
        (filters, interfaces): saving(select(rows, filters=filters, interfaces=interfaces), ARRAY)
        for filters in values(rows, "filters")
        for interfaces in values(rows, "interfaces")
    }
    worst = max(changes, key=lambda table: abs(changes[table].mean))
    return Claim(
        "5.2",
        "the curves with no and with ten rounds are essentially indistinguishable",
        f"the rounds save {statistics.mean(c.mean for c in changes.values()):.1%} of the time on "
        f"average; {changes[worst]:.1%} where they matter most, with {worst[0]:,} filters behind "
        f"{worst[1]} interfaces",
        abs(changes[worst].mean) <= SAME,
        f"Agrees if they nowhere save or cost more than {SAME:.0%}. Counters are a flat array; "
        "f8-figure10 has maps.",
    )


def growth(rows: Rows, matcher: str, interfaces: int) -> Mean:
    """The exponent by which time grows with constraints: the slope of a line through all tables
    but the smallest, on logarithmic axes."""

    def slope(of: Rows) -> float:
        found = sorted((r["constraints"], r["us"]) for r in select(of, matcher=matcher, rounds=0))
        line = np.log(np.array(found[1:] if len(found) > 2 else found))
        return float(np.polyfit(line[:, 0], line[:, 1], 1)[0])

    return by_seed(select(rows, interfaces=interfaces), slope)


def _sublinear(rows: Rows) -> Claim:
    slopes = {
        matcher: [growth(rows, matcher, i) for i in values(rows, "interfaces")]
        for matcher in (ARRAY, OURS)
    }
    shown = "; ".join(
        f"{name}: " + ", ".join(f"{slope:.2f}" for slope in slopes[matcher])
        for matcher, name in ((ARRAY, "counting"), (OURS, "ours"))
    )
    listed = ", ".join(map(str, values(rows, "interfaces")))
    return Claim(
        "5.2",
        "with a fixed number of interfaces, time grows less than linearly in the constraints",
        f"time grows with a power of the constraints; its exponent for {listed} interfaces, over "
        f"all tables but the smallest: {shown}",
        decided(rows, max(s.mean + s.off for several in slopes.values() for s in several) < 1),
        "Agrees if every exponent is below 1 with its whole interval.",
    )


def _reduced(rows: Rows) -> Claim:
    size = max(r["filters"] for r in select(rows, matcher=REDUCED))
    table = select(rows, filters=size, interfaces=SOME)
    by_counting, by_reduced = milliseconds(table, ARRAY), milliseconds(table, REDUCED)
    ours = milliseconds(table, OURS)
    return Claim(
        "not in the paper",
        "ours is faster than counting on the same reduced table",
        f"{size:,} filters behind {SOME} interfaces: counting {1e3 * by_counting.mean:.0f} µs, on "
        f"the reduced table {1e3 * by_reduced.mean:.0f} µs, ours {1e3 * ours.mean:.0f} µs",
        ours.mean < by_reduced.mean,
        "Ours leaves out filters that a single constraint of the same interface covers when it is "
        "built, counting keeps all. The reduced table has no filter that another one of its "
        "interface covers.",
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (counting, ours, logarithmic, third) = panels(2, rows=2)
    names = {ARRAY: "counting, array", OURS: "ours", REDUCED: "counting, reduced table"}

    def points(matcher: str, rounds: int, interfaces: int) -> list[tuple[float, Mean]]:
        found = select(rows, matcher=matcher, rounds=rounds, interfaces=interfaces)
        tables = [select(found, filters=filters) for filters in values(found, "filters")]
        return [
            (statistics.mean(r["constraints"] for r in t), milliseconds(t, matcher, rounds))
            for t in tables
        ]

    for number, interfaces in enumerate(values(rows, "interfaces")):
        for matcher, rounds in CURVES:
            look = {"color": COLOURS[number], "marker": MARKERS[number]}
            look["linestyle"] = "--" if rounds else "-"
            label = f"I = {interfaces}" + (f", r = {rounds}" if matcher == ARRAY else "")
            line = points(matcher, rounds, interfaces)
            curve(counting if matcher == ARRAY else ours, line, label=label, **look)
            if rounds == 0:
                look["linestyle"] = "-" if matcher == ARRAY else ":"
                curve(logarithmic, line, label=f"{names[matcher]}, I = {interfaces}", **look)
    mark(logarithmic, PAPER_CONSTRAINTS, PAPER_MS, "paper F: 3 ms, I = 20, 950 MHz")
    places, means = zip(*points(ARRAY, 0, SOME), strict=True)
    linear = [means[0].mean * x / places[0] for x in places]
    logarithmic.plot(places, linear, color="#000000", linestyle=":", label="linear")
    for number, matcher in enumerate((ARRAY, REDUCED, OURS)):
        line = [p for p in points(matcher, 0, SOME) if p[0] <= 6 * MOST_REDUCED]
        curve(third, line, label=names[matcher], color=COLOURS[number], marker=MARKERS[number])
    logarithmic.set_xscale("log")
    logarithmic.set_yscale("log")
    counting.set_title("counting (paper F)")
    ours.set_title("ours")
    logarithmic.set_title("both, logarithmic")
    third.set_title(f"the reduced table, I = {SOME}")
    for axes in (counting, ours, logarithmic, third):
        axes.set_xlabel("constraints in the table")
        axes.set_ylabel("time per message, ms")
        axes.legend(loc="upper left", fontsize=6 if axes is logarithmic else 7)
    logarithmic.set_ylim(top=20 * logarithmic.get_ylim()[1])  # room for the legend
    for axes in (counting, ours, third):
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", nbins=5)
    return figure


EXPERIMENT: Final = Experiment(
    name="f8-figure9",
    parts=("F8",),
    title="Fig. 9: forwarding time of routers with 10 to 100 interfaces",
    question="How long does a router in a network take for a message, and does the selectivity "
    "table matter there?",
    paper="The tables of Fig. 8 behind a fixed number of interfaces, with no rounds and with ten.",
    here="The same, with the paper's algorithm and with ours, and for 20 interfaces with the "
    "paper's algorithm on a reduced table as well. The number of filters behind an interface is "
    f"uniform from 1 as in the paper's Table 1, their sum is exact. {TIMING}",
    sweep=sweep,
    columns=TIMES,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
    shares=drawn_for,
)
