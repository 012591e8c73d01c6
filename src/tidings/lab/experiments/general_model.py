"""Paper U, Fig. 5 (U7): what a disjunction saves if predicates are sets of messages."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIVERSES: Final = {
    "full": (10_000, 100_000, 1_000_000),
    "quick": (10_000, 100_000),
    "tiny": (10_000,),
}
REPLICATIONS: Final = {"full": 10, "quick": 4, "tiny": 3}
# A predicate holds one in 100 or one in 1,000 messages of the universe; the paper's example, 100.
ONE_OF: Final = (100, 1_000)
PREDICATES: Final = {
    100: (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500),
    1_000: (1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100),
}
UNIFORM: Final = "uniform"
ZIPF: Final = "zipf"  # a predicate is a set of different messages
ZIPF_DRAWS: Final = "zipf, repeated"  # a predicate is draws that may repeat, all counted
EXPONENT: Final = 1.0
NEAR: Final = 0.01
ABOUT: Final = 0.1


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {
            "distribution": distribution,
            "universe": universe,
            "one_of": one_of,
            "replication": replication,
        }
        for universe in UNIVERSES[setting]
        for distribution in (UNIFORM, ZIPF, ZIPF_DRAWS)
        for one_of in ONE_OF
        for replication in range(REPLICATIONS[setting])
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    universe, one_of = parameters["universe"], parameters["one_of"]
    source = generator("u7-figure5", identity(parameters))
    size = universe // one_of
    weights = np.arange(1, universe + 1, dtype=np.float64) ** -EXPONENT
    bounds = np.cumsum(weights)
    joined = np.zeros(universe, np.bool_)
    wanted = set(PREDICATES[one_of])
    different = 0  # messages of each predicate, without repetitions within it
    for number in range(1, max(wanted) + 1):
        drawn = _predicate(parameters["distribution"], source, weights, bounds, size)
        different += np.unique(drawn).size
        joined[drawn] = True
        if number in wanted:
            yield {
                "predicates": number,
                "ratio": number * size / universe,
                "alpha": int(joined.sum()) / (number * size),
                "expected": closed_form(number, size, universe),
                "joining": int(joined.sum()) / different,
                "repeating": different / (number * size),
            }


COLUMNS: Final = {
    "predicates": int,
    "ratio": float,
    "alpha": float,
    "expected": float,
    "joining": float,  # what joining predicates saves: the union by the sum of the sets
    "repeating": float,  # what repetitions within predicates save: the sets by the draws
}


def _predicate(
    distribution: str,
    source: np.random.Generator,
    weights: NDArray[np.float64],
    bounds: NDArray[np.float64],
    size: int,
) -> NDArray[Any]:
    """Draw the messages of one predicate."""
    if distribution == UNIFORM:
        return np.asarray(source.choice(weights.size, size, replace=False, shuffle=False))
    if distribution == ZIPF_DRAWS:
        return np.asarray(np.searchsorted(bounds, source.random(size) * bounds[-1], side="right"))
    # To draw without replacement, give each message an exponential clock whose rate is its weight,
    # and take those that ring first.
    clocks = source.standard_exponential(weights.size) / weights
    return np.asarray(np.argpartition(clocks, size)[:size])


def closed_form(predicates: int, size: int, universe: int) -> float:
    """The expected advantage of uniform predicates (section 4.1)."""
    return universe / (predicates * size) * (1 - (1 - size / universe) ** predicates)


def means(rows: Rows, **wanted: Any) -> list[tuple[float, float, float]]:
    """For each number of predicates: nk / |M|, the mean advantage, and the closed form."""
    found = select(rows, **wanted)
    lines = []
    for number in values(found, "predicates"):
        same = select(found, predicates=number)
        alpha = statistics.mean(r["alpha"] for r in same)
        lines.append((same[0]["ratio"], alpha, same[0]["expected"]))
    return lines


def claims(rows: Rows) -> list[Claim]:
    return [
        _closed_form(rows),
        _zipf_saves_more(rows),
        _half_is_saved(
            rows,
            ZIPF,
            "a predicate is a set of k different messages, as section 4.1 defines it",
            "A set of k different messages must reach past the most popular ones, so there is less "
            "to share. See the next line for what the paper seems to have simulated.",
        ),
        _half_is_saved(
            rows,
            ZIPF_DRAWS,
            "a predicate is k draws that may repeat, and each draw counts in nk",
            "So the statement holds for draws, not for sets of k messages. It then counts "
            "repetitions within one predicate as if joining predicates had saved them.",
        ),
    ]


def _all_means(rows: Rows, distribution: str) -> list[list[tuple[float, float, float]]]:
    """The means of a distribution in each universe, for each size of predicates."""
    return [
        means(rows, distribution=distribution, universe=universe, one_of=one_of)
        for universe in values(rows, "universe")
        for one_of in ONE_OF
    ]


def _closed_form(rows: Rows) -> Claim:
    lines = _all_means(rows, UNIFORM)
    off = max(abs(alpha / expected - 1) for line in lines for _, alpha, expected in line)
    return Claim(
        "4.1",
        "uniform predicates follow the closed form exactly",
        f"means differ from it by {off:.2%} at most",
        off <= NEAR,
        f"Agrees within {NEAR:.0%}.",
    )


def _zipf_saves_more(rows: Rows) -> Claim:
    lines = _all_means(rows, ZIPF) + _all_means(rows, ZIPF_DRAWS)
    below = all(alpha < expected for line in lines for _, alpha, expected in line[1:])
    return Claim(
        "4.1",
        "uniform predicates save least; Zipf predicates save much more, even at low ratios",
        "the Zipf curves are below the closed form everywhere"
        if below
        else "a Zipf curve is not below the closed form somewhere",
        below,
    )


def _half_is_saved(rows: Rows, distribution: str, meaning: str, why: str) -> Claim:
    """The paper's example of five predicates, for one meaning of drawing a predicate."""
    example = select(rows, distribution=distribution, one_of=100, predicates=5)
    universes = values(rows, "universe")
    alphas = [statistics.mean(r["alpha"] for r in select(example, universe=u)) for u in universes]
    shown = ", ".join(f"{alpha:.2f}" for alpha in alphas)
    parts = {
        name: ", ".join(
            f"{statistics.mean(r[name] for r in select(example, universe=u)):.2f}"
            for u in universes
        )
        for name in ("joining", "repeating")
    }
    sizes = ", ".join(f"10^{round(math.log10(u))}" for u in universes)
    return Claim(
        "4.1",
        "five Zipf predicates, each of one message in a hundred, save about 50 %",
        f"alpha is {shown} for |M| = {sizes}, where {meaning}; joining predicates "
        f"alone leaves {parts['joining']}, dropping repetitions within a predicate alone "
        f"{parts['repeating']}",
        all(abs(alpha - 0.5) <= ABOUT for alpha in alphas),
        f"Agrees within {ABOUT}. {why}",
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels
    from tidings.lab.routers import mark

    figure, (wide, near) = panels(2)
    for number, universe in enumerate(values(rows, "universe")):
        name = f"10^{round(math.log10(universe))}"
        line = means(rows, distribution=UNIFORM, universe=universe, one_of=100)
        wide.plot([x for x, _, _ in line], [a for _, a, _ in line], linestyle="none",
                  marker=MARKERS[number], color=COLOURS[6], label=f"uniform, {name}")  # fmt: skip
        for axes, one_of in ((wide, 100), (near, 1_000)):
            for distribution, dashes in ((ZIPF, "-"), (ZIPF_DRAWS, "--")):
                label = f"{distribution}, {name}"
                if distribution == ZIPF:  # the curves of sets coincide: one stands for all
                    if number:
                        continue
                    label = f"{distribution}, in every universe"
                line = means(rows, distribution=distribution, universe=universe, one_of=one_of)
                axes.plot([x for x, _, _ in line], [a for _, a, _ in line], dashes,
                          color=COLOURS[number], label=label)  # fmt: skip
    line = means(rows, distribution=UNIFORM, universe=values(rows, "universe")[0], one_of=100)
    wide.plot([x for x, _, _ in line], [e for _, _, e in line], color="black", linewidth=0.8,
              label="closed form, uniform")  # fmt: skip
    mark(wide, 0.05, 0.5, "paper U: five predicates save 50 %")
    near.set_title("Zipf, near 0; k = |M|/1000")
    wide.set_title("k = |M|/100")
    for axes in (wide, near):
        axes.set_xlabel("nk / |M|")
        axes.set_ylabel("disjunction advantage α")
        axes.set_ylim(0, 1.02)
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="u7-figure5",
    parts=("U7",),
    title="Fig. 5: the disjunction advantage in the general model",
    question="How much smaller is the union of n predicates than their sum, if a predicate is just "
    "a set of k messages?",
    paper="Monte Carlo over universes of 10^4, 10^5 and 10^6 messages, predicates drawn uniformly "
    "and by Zipf's law with exponent 1; the paper does not give k.",
    here="The same, with k of a hundredth and of a thousandth of the universe, and with both "
    "meanings of drawing a predicate by Zipf's law: k different messages, or k draws.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
