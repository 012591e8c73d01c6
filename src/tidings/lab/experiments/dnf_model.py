"""Paper U, Fig. 6 and 7 (U8): what a disjunction saves if predicates are constraints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tidings.lab.experiment import (
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    generator,
    identity,
    select,
    values,
)
from tidings.lab.terms import TERMS
from tidings.language.constraint import Constraint
from tidings.language.filter import Filter
from tidings.language.reduction import reduce_filters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# How names are distributed, and how many there are; one panel each.
SCENARIOS: Final = (("zipf", 500), ("zipf", 5_000), ("uniform", 50), ("uniform", 500))
PREDICATES: Final = {
    "full": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 3_000, 5_000, 7_000, 10_000),
    "quick": (2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000),
    "tiny": (5, 20, 100),
}
SETS: Final = {"full": 40, "quick": 10, "tiny": 8}  # of predicates, of each number
# The paper has terms "selected from a distribution of the 200 most-common". Either all are equally
# likely, or common ones are likelier. The second reading, by Zipf's law, is measured at few points.
ALIKE: Final = "uniform"
BY_RANK: Final = "zipf"
BY_RANK_PREDICATES: Final = {
    "full": (100, 1_000, 3_000, 5_000, 7_000, 10_000),
    "quick": (100, 1_000),
    "tiny": (20,),
}
BY_RANK_SETS: Final = {"full": 10, "quick": 5, "tiny": 2}
PAPER_CROSSING: Final = 7_000
NEAR: Final = 0.1
STEP: Final = 0.02
TASK: Final = 10_000  # predicates of one task, about

SIZES: Final = (0.10, 0.40, 0.30, 0.10, 0.05, 0.05)  # of a filter: 1 to 6 constraints
STRING_OPERATORS: Final = ("=", "prefix", "suffix", "contains", "!=", "<", ">")
STRING_SHARES: Final = (0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)
INT_OPERATORS: Final = ("=", "<", ">", "!=")
INT_SHARES: Final = (0.40, 0.25, 0.25, 0.10)
INTEGERS: Final = (-100, 101)
SUMMARY: Final = (("min", 0), ("p5", 5), ("median", 50), ("p95", 95), ("max", 100))


def sweep(setting: Setting) -> list[Parameters]:
    rows: list[Parameters] = []
    for terms, numbers, sets in (
        (ALIKE, PREDICATES[setting], SETS[setting]),
        (BY_RANK, BY_RANK_PREDICATES[setting], BY_RANK_SETS[setting]),
    ):
        for number in numbers:
            size = min(sets, max(1, TASK // number))
            rows.extend(
                {
                    "law": law,
                    "names": names,
                    "terms": terms,
                    "predicates": number,
                    "sets": min(size, sets - first),
                    "first": first,
                }
                for law, names in SCENARIOS
                for first in range(0, sets, size)
            )
    return rows


def measure(parameters: Parameters) -> Iterator[Row]:
    for number in range(parameters["first"], parameters["first"] + parameters["sets"]):
        alone = {name: parameters[name] for name in ("law", "names", "terms", "predicates")}
        source = generator("u8-figures6-7", identity(alone), number)
        drawn = filters(source, parameters["predicates"], alone)
        constraints = sum(map(len, drawn))
        reduced = sum(map(len, reduce_filters(drawn, merge=False)))
        yield {
            "set": number,
            "constraints": constraints,
            "reduced": reduced,
            "alpha": reduced / constraints,
        }


COLUMNS: Final = {"set": int, "constraints": int, "reduced": int, "alpha": float}


def filters(source: np.random.Generator, count: int, parameters: Parameters) -> list[Filter]:
    """Draw `count` predicates of one filter each, by the distributions of section 4.2."""
    names = parameters["names"]
    lengths = source.choice(len(SIZES), count, p=SIZES) + 1
    total = int(lengths.sum())
    drawn = _ranks(source, parameters["law"], names, total)
    is_string = np.zeros(names, np.bool_)  # a random half of the names
    is_string[source.permutation(names)[: names // 2]] = True
    strings = is_string[drawn].tolist()
    string_operators = source.choice(len(STRING_OPERATORS), total, p=STRING_SHARES).tolist()
    int_operators = source.choice(len(INT_OPERATORS), total, p=INT_SHARES).tolist()
    words = _ranks(source, parameters["terms"], len(TERMS), total).tolist()
    integers = source.integers(*INTEGERS, total).tolist()
    constraints = [
        Constraint(f"a{name}", STRING_OPERATORS[string_operators[at]], "string", False,
                   TERMS[words[at]])
        if strings[at]
        else Constraint(f"a{name}", INT_OPERATORS[int_operators[at]], "number", False, integers[at])
        for at, name in enumerate(drawn.tolist())
    ]  # fmt: skip
    ends = np.cumsum(lengths).tolist()
    starts = [0, *ends[:-1]]
    return [Filter(constraints[a:b]) for a, b in zip(starts, ends, strict=True)]


def _ranks(source: np.random.Generator, law: str, count: int, size: int) -> NDArray[np.int64]:
    if law == "uniform":
        return source.integers(0, count, size)
    return np.searchsorted(_bounds(count), source.random(size), side="right")


@lru_cache(maxsize=8)
def _bounds(count: int) -> NDArray[np.float64]:
    weights = 1 / np.arange(1, count + 1)
    return np.asarray(np.cumsum(weights / weights.sum())[:-1])


def summary(rows: Rows, law: str, names: int, terms: str = ALIKE) -> dict[int, dict[str, float]]:
    """By the number of predicates: min, p5, median, p95, max of the advantage."""
    found = select(rows, law=law, names=names, terms=terms)
    result = {}
    for number in values(found, "predicates"):
        alphas = [r["alpha"] for r in select(found, predicates=number)]
        result[number] = {name: float(np.percentile(alphas, percent)) for name, percent in SUMMARY}
    return result


def claims(rows: Rows) -> list[Claim]:
    by_scenario = {scenario: summary(rows, *scenario) for scenario in SCENARIOS}
    return [
        _better_with_more(by_scenario),
        _not_below_a_hundred(by_scenario),
        _slowest(rows, by_scenario),
        _order(by_scenario),
        _spread(by_scenario),
    ]


Summaries = dict[tuple[str, int], dict[int, dict[str, float]]]


def _better_with_more(found: Summaries) -> Claim:
    ends = {s: (min(lines), max(lines)) for s, lines in found.items()}
    texts = [
        f"{law} {names}: {found[law, names][low]['median']:.2f} to "
        f"{found[law, names][high]['median']:.2f}"
        for (law, names), (low, high) in ends.items()
    ]
    falls = all(
        all(
            lines[a]["median"] >= lines[b]["median"] - STEP
            for a, b in zip(list(lines), list(lines)[1:], strict=False)
        )
        for lines in found.values()
    )
    return Claim(
        "4.2",
        "combining more predicates yields better and better reductions",
        f"medians from {ends['zipf', 500][0]} to {ends['zipf', 500][1]:,} predicates: "
        + "; ".join(texts),
        falls,
        f"Agrees if no median is more than {STEP} above the one before it.",
    )


def _not_below_a_hundred(found: Summaries) -> Claim:
    statement = "no scenario is consistently at 0.5 or better for fewer than 100 predicates"
    lowest = min(
        (line["p95"], number, scenario)
        for scenario, lines in found.items()
        for number, line in lines.items()
        if number < 100
    )
    alpha, number, (law, names) = lowest
    return Claim(
        "4.2",
        statement,
        f"the lowest 95th percentile below 100 predicates is {alpha:.2f} ({law} {names}, "
        f"{number} predicates)",
        alpha > 0.5,
    )


def _slowest(rows: Rows, found: Summaries) -> Claim:
    statement = "with 500 uniform names alpha is below 0.5 only for 7,000 predicates or more"
    lines = found["uniform", 500]
    below = [number for number, line in lines.items() if line["median"] < 0.5]
    by_rank = summary(rows, "uniform", 500, BY_RANK)
    other = ", ".join(f"{line['median']:.2f} at {number:,}" for number, line in by_rank.items())
    if max(lines) < 7_000:
        last = max(lines)
        return Claim(
            "4.2",
            statement,
            f"the median is {lines[last]['median']:.2f} at {last:,} predicates; only the full "
            "setting has 7,000",
            None if lines[last]["median"] > 0.5 else False,
        )
    near = ", ".join(
        f"{lines[number]['median']:.3f} at {number:,}" for number in lines if number >= 2_000
    )
    crossing = _crossing({number: line["median"] for number, line in lines.items()})
    where = f"near {crossing:,.0f} predicates" if below else "nowhere"
    return Claim(
        "4.2",
        statement,
        f"the median crosses 0.5 {where}: {near}",
        bool(below) and crossing >= PAPER_CROSSING * (1 - NEAR),
        f"Agrees if it is no more than {NEAR:.0%} below {PAPER_CROSSING:,}. The paper leaves open "
        "how terms are drawn. Here all terms are equally likely. If common terms are likelier, by "
        f"Zipf's law, the median is {other or 'not measured'}.",
    )


def _crossing(medians: dict[int, float]) -> float:
    """Where medians fall below 0.5, by linear interpolation between the measured numbers."""
    before, above = 0, 1.0
    for number, median in medians.items():
        if median < 0.5:
            return before + (number - before) * (above - 0.5) / (above - median)
        before, above = number, median
    return float("inf")


def _order(found: Summaries) -> Claim:
    zipf, uniform = found["zipf", 500], found["uniform", 500]
    shared = [number for number in zipf if number in uniform and number >= 50]
    return Claim(
        "4.2",
        "with the same number of names, non-uniform names reduce better",
        "medians of 500 names, Zipf and uniform: "
        + ", ".join(
            f"{zipf[n]['median']:.2f} and {uniform[n]['median']:.2f} at {n:,}"
            for n in (shared[0], shared[-1])
        ),
        all(zipf[n]["median"] < uniform[n]["median"] for n in shared),
    )


def _spread(found: Summaries) -> Claim:
    few = [line for lines in found.values() for n, line in lines.items() if 10 <= n <= 500]
    many = [lines[max(lines)] for lines in found.values()]

    def widest(lines: list[dict[str, float]]) -> float:
        return max(line["p95"] - line["p5"] for line in lines)

    return Claim(
        "4.2",
        "alpha is highly variable for a few tens or hundreds of predicates, then stabilizes",
        f"the 5th and the 95th percentile are at most {widest(few):.2f} apart for 10 to 500 "
        f"predicates, {widest(many):.3f} for the largest number",
        widest(many) < widest(few) / 2 if max(found["zipf", 500]) >= 1_000 else None,
        "Agrees if they are less than half as far apart.",
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import panels
    from tidings.lab.routers import mark

    figure, axes = panels(2, rows=2, share_y=True)
    for one, (law, names) in zip(axes, SCENARIOS, strict=True):
        _band(one, summary(rows, law, names))
        number = 6 if law == "zipf" else 7
        kind = "Zipf" if law == "zipf" else "uniform"
        one.set_title(f"Fig. {number}: {names:,} names, {kind}")
        one.set_xscale("log")
        one.set_ylim(0, 1.02)
        one.set_xlabel("predicates")
        one.set_ylabel("disjunction advantage α")
        one.axhline(0.5, color="#888888", linewidth=0.8)
        if (law, names) == ("uniform", 500):
            mark(one, PAPER_CROSSING, 0.5, "paper U: below 0.5 from 7,000")
        elif number == 6:
            one.axvline(100, color="#000000", linestyle=":", linewidth=0.8,
                        label="paper U: not below 0.5 up to 100")  # fmt: skip
        one.legend(loc="lower left")
    return figure


def _band(axes: Axes, lines: dict[int, dict[str, float]]) -> None:
    from tidings.lab.figures import COLOURS

    numbers = list(lines)

    def column(name: str) -> list[Any]:
        return [lines[number][name] for number in numbers]

    axes.fill_between(numbers, column("min"), column("max"), color=COLOURS[5], alpha=0.25,
                      label="min to max")  # fmt: skip
    axes.fill_between(numbers, column("p5"), column("p95"), color=COLOURS[0], alpha=0.35,
                      label="5th to 95th percentile")  # fmt: skip
    axes.plot(numbers, column("median"), color=COLOURS[0], marker="o", label="median")


EXPERIMENT: Final = Experiment(
    name="u8-figures6-7",
    parts=("U8",),
    title="Fig. 6 and 7: the disjunction advantage of predicates as constraints",
    question="How much smaller is a disjunction of predicates without redundant constraints and "
    "filters?",
    paper="Monte Carlo: predicates of one filter of 1 to 6 constraints, 500 and 5,000 names by "
    "Zipf's law, 50 and 500 uniform, string terms from a distribution of the 200 commonest of a "
    "news corpus; constraints and filters that others imply are dropped.",
    here="The same distributions and the same reduction, without merging. The 200 terms are a list "
    "written for this purpose (src/tidings/lab/terms.py), all equally likely. Each set draws "
    "which half of the names have strings. A point has 40 sets (ten in the setting quick), so its "
    "5th and 95th percentiles are the second or third smallest and largest of them.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
