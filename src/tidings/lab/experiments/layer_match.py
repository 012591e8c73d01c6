"""Paper L, section 4.1 (L5): how local matching time grows with the subscriptions of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select
from tidings.lab.profiling import fitted, matching_times
from tidings.matching.matchers import MATCHERS
from tidings.matching.workload import APPLICATIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES: Final = {
    "table": {
        "full": [100, 1_000, 10_000, 100_000, 1_000_000],
        "quick": [100, 1_000, 10_000, 30_000],
        "tiny": [10, 50, 100],
    },
    "scan": {
        "full": [100, 1_000, 10_000, 100_000],
        "quick": [100, 1_000, 5_000],
        "tiny": [10, 50, 100],
    },
}
LEAST_S: Final = {"full": 0.5, "quick": 0.05, "tiny": 0.001}
LINEAR: Final = 1.05  # an exponent that counts as at most linear


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {
            "application": name,
            "matcher": matcher,
            "sizes": sizes[setting],
            "least_s": LEAST_S[setting],
        }
        for name in APPLICATIONS
        for matcher, sizes in SIZES.items()
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    workload = APPLICATIONS[parameters["application"]](seed=1)
    make = MATCHERS[parameters["matcher"]]
    times = matching_times(workload, make, parameters["sizes"], least_s=parameters["least_s"])
    fixed, growth, exponent = fitted(times)
    for size, seconds in times:
        yield {
            "size": size,
            "match_us": seconds * 1e6,
            "fixed_us": fixed * 1e6,
            "growth_us": growth * 1e6,
            "exponent": exponent,
        }


COLUMNS: Final = {
    "size": int,
    "match_us": float,
    "fixed_us": float,
    "growth_us": float,
    "exponent": float,
}


def claims(rows: Rows) -> list[Claim]:
    exponents = {(r["matcher"], r["application"]): r["exponent"] for r in rows}
    table, scan = (
        {name: found for (matcher, name), found in exponents.items() if matcher == one}
        for one in ("table", "scan")
    )
    largest = max(r["size"] for r in rows)
    return [
        Claim(
            "4.1",
            "local matching time increases at most linearly with store_i as long the node's memory "
            "size is large enough",
            f"exponents of a + b n^gamma: the engine {_listed(table)}; asking every predicate "
            f"{_listed(scan)}",
            max(table.values()) <= LINEAR if largest >= 10_000 else None,
            "An engine finds candidates by index, so gamma says how many an event matches: with a "
            "fixed share of matches it is 1. Above 1 is the memory hierarchy: a node with more "
            "subscriptions has fewer of them in its caches, long before its memory is full. "
            "Whether more hops pay depends on gamma: below 1, splitting costs more than it saves.",
        )
    ]


def _listed(exponents: dict[str, float]) -> str:
    return ", ".join(f"{name} {found:.2f}" for name, found in exponents.items())


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    for panel, matcher in zip(axes, SIZES, strict=True):
        for number, name in enumerate(APPLICATIONS):
            found = sorted(
                (r["size"], r["match_us"]) for r in select(rows, matcher=matcher, application=name)
            )
            panel.plot(
                *zip(*found, strict=True), color=COLOURS[number], marker=MARKERS[number], label=name
            )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("subscriptions of a node")
        panel.set_ylabel("time to match an event, µs")
        panel.set_title(matcher)
    axes[0].legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="l5-match",
    parts=("L5",),
    title="Local matching time",
    question="How does the time to match an event grow with the subscriptions that a node stores?",
    paper="Assumes at most linear growth up to the memory of a node (section 4.1); no figures.",
    here="The workloads of Table 1 with the engine and with a scan, in processor time, fitted with "
    "a + b n^gamma. Events are objects already: nothing is decoded.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
)
