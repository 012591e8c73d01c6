"""Routers under the workload of paper F (F7), and how long they take for a message.

The paper calls an event a message, and so do its experiments. A router has filters behind
interfaces: exactly as many as asked for, dealt to the interfaces so that each has from 1 to less
than twice the mean, as in the paper's section 5.1. A filter has 1 to 9 constraints, 100 messages
have 1 to 18 attributes. Filters and messages are drawn anew for every seed.

The paper leaves two things open. `types`: Table 1 draws the type of every constraint and attribute
("draw"); paper U gives each name one type ("name"). `attributes`: Table 1 has messages of 1 to 18
attributes, the text of 1 to 19.

The paper's algorithm runs with three kinds of counters, since its figures have a map and its text
does not say which; ours is the forwarding table. All are compiled, and a time counts only if the
message went through the same interfaces. Every message is timed several times, all messages in
turn. `us` is the mean over messages of each message's best time, because other work of the machine
makes a message slower, never faster; `us_mean` is the mean over all repeats.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from tidings.lab.experiment import Parameters, Row, Rows, Setting, generator, select
from tidings.lab.intervals import Mean, by_seed, mean_of
from tidings.matching.forwarding import ForwardingTable
from tidings.matching.rivals.counting import Counters, Counting
from tidings.matching.workload import ForwardingWorkload, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MESSAGES: Final = 100  # M
ROUNDS: Final = 10
MAX_ROUNDS: Final = 200  # that are built; fewer rounds use the first of them
MIN_REPEATS: Final = 3
MAX_REPEATS: Final = 25
ENOUGH_S: Final = 0.1  # of measuring; until then it goes on, up to MAX_REPEATS
LARGE: Final = 900_000  # constraints; smaller tables cannot decide the paper's statements
SEEDS: Final[dict[Setting, range]] = {"full": range(1, 6), "quick": range(1, 6), "tiny": range(2)}

Types = Literal["draw", "name"]
COUNTING: Final[dict[str, Counters]] = {"array": "array", "hash": "hash", "map": "map"}
MAPS: Final = ("hash", "map")  # of counters, as the paper's figures have
OURS: Final = "ours"
LABELS: Final = {
    "array": "counting, array",
    "hash": "counting, hash map",
    "map": "counting, ordered map",
    OURS: "ours",
}
# The curves of a figure: matcher and rounds.
CURVES: Final = (*((matcher, rounds) for matcher in COUNTING for rounds in (0, ROUNDS)), (OURS, 0))
TIMING: Final = (
    "A message's time is its best of at least three repeats, called from Python; a point is the "
    "mean over 100 messages and over five seeds, each with a table and messages of its own, with "
    "its 95 % interval."
)
# The columns of a measured time.
TIMES: Final = {
    "matcher": str,
    "rounds": int,
    "constraints": int,
    "us": float,
    "us_mean": float,
    "us_spread": float,
    "repeats": int,
    "matched": float,
}


class Drawn(NamedTuple):
    """Filters and messages: a router with one filter an interface, before it has our table."""

    counting: Counting  # interfaces have the numbers of their filters
    messages: list[Record]
    constraints: int


class Router(NamedTuple):
    """A router with the tables of both algorithms, and messages to forward."""

    counting: Counting
    table: ForwardingTable
    messages: list[Record]
    constraints: int
    found: list[list[int]]  # the interfaces that each message goes through


class Timing(NamedTuple):
    """How long a message takes, in microseconds."""

    us: float  # the mean over messages of each message's best time
    us_mean: float  # the mean over the repeats
    us_spread: float
    repeats: int


@contextmanager
def without_collections() -> Iterator[None]:
    """No garbage collection: it would visit millions of predicates again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# The largest take half a minute to make, and successive rows share some (`drawn_for`).
@lru_cache(maxsize=1)
def drawn(filters: int, seed: int, types: Types = "draw", attributes: int = 18) -> Drawn:
    """Draw filters and messages of at most so many attributes."""
    drawn.cache_clear()  # first, so that there is never room for two
    workload = ForwardingWorkload(
        interfaces=filters, type_by=types, attributes=(1, attributes + 1), seed=seed
    )
    with without_collections():
        counting = Counting(workload.subscriptions(), MAX_ROUNDS)
        constraints = int(counting.table.right.sizes.sum())
    return Drawn(counting, workload.events(0, MESSAGES), constraints)


def drawn_for(parameters: Parameters) -> tuple[Any, ...]:
    """What must be drawn for a row of an experiment, to be drawn once for all that share it."""
    types, attributes = parameters.get("types", "draw"), parameters.get("attributes", 18)
    return parameters.get("filters", 0), types, attributes, parameters.get("seed", 0)


def sizes_of(filters: int, interfaces: int, seed: int) -> list[int]:
    """How many filters each interface has: uniform from 1 to less than twice the mean, in all so
    many as asked for."""
    most = -(-2 * filters // interfaces) - 1
    source = generator("sizes of interfaces", filters, interfaces, seed)
    sizes = source.integers(1, most + 1, interfaces)
    sizes = np.clip(np.rint(sizes * (filters / sizes.sum())).astype(int), 1, most)
    while missing := filters - int(sizes.sum()):
        free = np.flatnonzero(sizes < most if missing > 0 else sizes > 1)
        chosen = source.permutation(free)[: abs(missing)]
        sizes[chosen] += 1 if missing > 0 else -1
    return list(map(int, sizes))


def dealt(filters: int, interfaces: int, seed: int) -> dict[int, range]:
    """The filters of each interface, by their numbers."""
    ends = np.cumsum(sizes_of(filters, interfaces, seed)).tolist()
    starts = [0, *ends[:-1]]
    return {n: range(*ends_of) for n, ends_of in enumerate(zip(starts, ends, strict=True))}


def router(
    filters: int, interfaces: int, seed: int, types: Types = "draw", attributes: int = 18
) -> Router:
    """Make a router."""
    made = drawn(filters, seed, types, attributes)
    with without_collections():
        counting = made.counting
        if interfaces != filters:
            counting = counting.join(dealt(filters, interfaces, seed), ROUNDS)
        table = ForwardingTable(counting.subscriptions)
    found = [ids(table.forward(message)) for message in made.messages]
    return Router(counting, table, made.messages, made.constraints, found)


def ids(found: Sequence[Any]) -> list[int]:
    """Interfaces in order, to compare."""
    return sorted(map(int, found))


def times(
    made: Router,
    curves: Sequence[tuple[str, int]] = CURVES,
    others: Mapping[str, Callable[[Record], Any]] | None = None,
) -> Iterator[Row]:
    """Time a message by each matcher with each number of rounds, and by others."""
    matchers: list[tuple[str, int, Callable[[Record], Any]]] = []
    for matcher, rounds in curves:
        if matcher == OURS:
            matchers.append((OURS, 0, made.table.forward))
        else:
            counting = made.counting.variant(rounds, COUNTING[matcher])
            matchers.append((matcher, rounds, counting.match))
    matchers += [(name, 0, match) for name, match in (others or {}).items()]
    about = {"constraints": made.constraints, "matched": statistics.mean(map(len, made.found))}
    for matcher, rounds, match in matchers:
        timing = timed(match, made.messages, made.found)
        yield {"matcher": matcher, "rounds": rounds, **about, **timing._asdict()}


def timed(
    match: Callable[[Record], Any], messages: Sequence[Record], expected: Sequence[list[int]]
) -> Timing:
    """Time all messages again and again, until there are enough repeats."""
    clock = time.perf_counter
    best = [float("inf")] * len(messages)
    sums: list[float] = []
    with without_collections():
        while len(sums) < MIN_REPEATS or (sum(sums) < ENOUGH_S and len(sums) < MAX_REPEATS):
            seconds = []
            for number, message in enumerate(messages):
                begun = clock()
                found = match(message)
                seconds.append(clock() - begun)
                if not sums and ids(found) != expected[number]:
                    raise AssertionError(f"{match} does not find what ours finds: {message}")
            best = list(map(min, best, seconds))
            sums.append(sum(seconds))
    us = [1e6 * one / len(messages) for one in sums]
    return Timing(
        1e6 * statistics.mean(best), statistics.mean(us), statistics.pstdev(us), len(sums)
    )


# Reading the results


def decided(rows: Rows, verdict: bool) -> bool | None:
    """The verdict, or None if no table is large enough to decide."""
    return verdict if max(row["constraints"] or 0 for row in rows) >= LARGE else None


def milliseconds(rows: Rows, matcher: str, rounds: int = 0) -> Mean:
    """The time per message of some tables, over their seeds."""
    return mean_of(row["us"] / 1e3 for row in select(rows, matcher=matcher, rounds=rounds))


def saving(rows: Rows, matcher: str, rounds: int = ROUNDS) -> Mean:
    """The share of the time that rounds save, table by table, over their seeds."""

    def of(one: Rows) -> float:
        (without,) = select(one, matcher=matcher, rounds=0)
        (with_rounds,) = select(one, matcher=matcher, rounds=rounds)
        return 1 - float(with_rounds["us"]) / float(without["us"])

    return by_seed(rows, of)


def style(matcher: str, rounds: int = 0) -> dict[str, Any]:
    """How a curve looks: a colour for each matcher, dashed with rounds."""
    from tidings.lab.figures import COLOURS, MARKERS

    number = list(LABELS).index(matcher)
    label = LABELS[matcher] + (f", r = {rounds}" if matcher in COUNTING else "")
    line = "--" if rounds else "-"
    return {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": line, "label": label}


def curve(axes: Axes, points: Sequence[tuple[float, Mean]], **look: Any) -> None:
    """Draw means with their intervals."""
    ordered = sorted(points, key=lambda point: point[0])
    places, means = [x for x, _ in ordered], [y for _, y in ordered]
    axes.errorbar(
        places, [y.mean for y in means], [y.off for y in means], capsize=2, elinewidth=0.8, **look
    )


def mark(axes: Axes, x: float, y: float, label: str) -> None:
    """Draw a value of the paper."""
    axes.plot([x], [y], linestyle="", marker="*", markersize=11, color="#000000", label=label)
