"""Paper U, section 4 (U8), beyond it: what disjunctions save for what applications ask."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Final

from tidings.lab.experiment import (
    BEYOND,
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    select,
    values,
)
from tidings.lab.intervals import mean_of
from tidings.language.reduction import reduce_filters
from tidings.matching.workload import APPLICATIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES: Final = {
    "full": (10, 30, 100, 300, 1_000, 3_000, 10_000),
    "quick": (10, 100, 1_000),
    "tiny": (10, 50),
}
# Covering is slow for patterns in texts, a minute for a thousand, and for boxes of which many may
# overlap: it compares all pairs.
MOST: Final = {"alerts": 300, "places": 3_000, "games": 3_000}
SEEDS: Final = {"full": 5, "quick": 2, "tiny": 2}


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {
            "application": name,
            "sizes": [size for size in SIZES[setting] if size <= MOST.get(name, size)],
            "seed": seed,
        }
        for name in APPLICATIONS
        for seed in range(1, 1 + SEEDS[setting])
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    workload = APPLICATIONS[parameters["application"]](seed=parameters["seed"])
    for size in parameters["sizes"]:
        held = [predicate for _, predicate in workload.subscriptions(0, size)]
        filters = [one for predicate in held for one in predicate.filters]
        reduced = reduce_filters(filters, merge=False)
        yield {
            "size": size,
            "alpha": sum(map(len, reduced)) / sum(map(len, filters)),
            "different": len(set(filters)) / len(filters),
        }


COLUMNS: Final = {
    "size": int,
    "alpha": float,
    "different": float,  # the share of filters that are left when equal ones are one
}


def claims(rows: Rows) -> list[Claim]:
    texts, falls = [], True
    for name in values(rows, "application"):
        found = select(rows, application=name)
        size = values(found, "size")[-1]
        last = select(found, size=size)
        alphas = [r["alpha"] for r in last]
        texts.append(
            f"{name} {mean_of(alphas):.2f} of {size:,} (equal ones as one: "
            f"{mean(r['different'] for r in last):.2f})"
        )
        line = [mean(r["alpha"] for r in select(found, size=n)) for n in values(found, "size")]
        falls &= all(one >= other for one, other in pairwise(line))
    return [
        Claim(
            BEYOND,
            "combining more predicates yields better and better reductions, whatever they ask",
            "the advantage, of the most subscriptions measured: " + ", ".join(texts),
            falls,
            "Holds if the mean falls with each size for every application"
            + (". " if falls else ", which it does not. ")
            + "The paper draws predicates at random; these are the five applications of paper L. "
            "One subscription to a whole class covers all quotes; no two players ask for the same "
            "place.",
        ),
        Claim(
            BEYOND,
            "how much of it is one subscription asked again and again",
            "see above: what is left when equal filters are one",
            None,
            "Where the two numbers are alike, a dictionary of subscriptions saves as much as "
            "covering does.",
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (axes,) = panels()
    for number, name in enumerate(values(rows, "application")):
        found = select(rows, application=name)
        sizes = values(found, "size")
        for column, dashes in (("alpha", "-"), ("different", ":")):
            line = [mean(r[column] for r in select(found, size=n)) for n in sizes]
            axes.plot(sizes, line, dashes, color=COLOURS[number],
                      marker=MARKERS[number] if dashes == "-" else None,
                      label=name if dashes == "-" else None)  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("subscriptions")
    axes.set_ylabel("disjunction advantage α")
    axes.legend(title="dotted: equal ones as one", title_fontsize=7)
    return figure


EXPERIMENT: Final = Experiment(
    name="u8-applications",
    parts=("U8",),
    title="The disjunction advantage of five applications",
    question="How much does a disjunction save where subscriptions are not drawn at random?",
    paper="Draws names, operators and terms at random.",
    here="The five applications of paper L's Table 1 as seeded workloads: what is asked follows "
    "people's interests, so much is asked again and again.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
