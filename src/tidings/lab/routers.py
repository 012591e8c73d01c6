"""Routers under the workload of paper F (F7), and how long they take for a message.

The paper calls an event a message, and so do its experiments. A router has a number of filters
behind a number of interfaces. As in the paper's section 5.1, the number of filters of an interface
is uniform from 1 to less than twice the mean, a filter has 1 to 9 constraints, and 100 messages
have 1 to 18 attributes. The paper's algorithm (`counting`) and ours (the forwarding table), both
compiled, must first agree on every message. Then both are timed, one message after the other, again
and again. The best time of each message counts, because other work of the machine makes a message
slower, never faster.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidings.lab.experiment import Row, Rows
from tidings.matching.forwarding import ForwardingTable
from tidings.matching.rivals.counting import Counting
from tidings.matching.workload import ForwardingWorkload, Record, Subscription

MESSAGES: Final = 100  # M
ROUNDS: Final = 10
MAX_ROUNDS: Final = 100  # that are built; fewer rounds use the first of them
MIN_REPEATS: Final = 7
MAX_REPEATS: Final = 25
ENOUGH_S: Final = 0.5  # of measuring; until then it goes on, up to MAX_REPEATS
LARGE: Final = 900_000  # constraints; smaller tables cannot decide the paper's statements

COUNTING: Final = "counting"
OURS: Final = "ours"
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


# The curves of a figure: matcher, rounds, label.
CURVES: Final = (
    (COUNTING, 0, "counting, r = 0"),
    (COUNTING, ROUNDS, f"counting, r = {ROUNDS}"),
    (OURS, 0, "ours"),
)


class Router(NamedTuple):
    """A router with the tables of both algorithms, and messages to forward."""

    predicates: list[Subscription]
    messages: list[Record]
    constraints: int
    counting: Counting
    table: ForwardingTable
    found: list[list[Any]]  # the interfaces that each message goes through


class Timing(NamedTuple):
    """How long a message takes, in microseconds."""

    us: float  # the mean over messages of each message's best time
    us_mean: float  # the mean over the repeats
    us_spread: float
    repeats: int


def workload_of(filters: int, interfaces: int, seed: int) -> ForwardingWorkload:
    """About `filters` filters behind `interfaces` interfaces; one each if these are equal."""
    each = max(1, filters // interfaces)
    return ForwardingWorkload(interfaces=interfaces, filters=(1, max(2, 2 * each)), seed=seed)


# The largest take minutes to make, and successive experiments share some.
@lru_cache(maxsize=2)
def router(filters: int, interfaces: int, seed: int) -> Router:
    """Make a router, and check that both algorithms find the same."""
    workload = workload_of(filters, interfaces, seed)
    predicates = list(workload.subscriptions())
    messages = workload.events(0, MESSAGES)
    counting = Counting(predicates, MAX_ROUNDS)
    table = ForwardingTable(predicates)
    found = [sorted(map(int, table.forward(message))) for message in messages]
    for rounds in (0, ROUNDS, MAX_ROUNDS):
        one = counting.variant(rounds)
        if [sorted(map(int, one.match(message))) for message in messages] != found:
            raise AssertionError(f"counting with {rounds} rounds and ours do not agree")
    constraints = sum(predicate.constraints for _, predicate in predicates)
    return Router(predicates, messages, constraints, counting, table, found)


def times(made: Router, rounds: tuple[int, ...] = (0, ROUNDS)) -> list[Row]:
    """Time a message by the paper's algorithm, with each number of rounds, and by ours."""
    matchers: list[tuple[str, int, Callable[[Record], Any]]] = [
        (COUNTING, number, made.counting.variant(number).match) for number in rounds
    ]
    matchers.append((OURS, 0, made.table.forward))
    about = {"constraints": made.constraints, "matched": statistics.mean(map(len, made.found))}
    return [
        {"matcher": matcher, "rounds": number, **about, **timed(match, made.messages)._asdict()}
        for matcher, number, match in matchers
    ]


def decided(rows: Rows, verdict: bool) -> bool | None:
    """The verdict, or None if no table is large enough to decide."""
    return verdict if max(row["constraints"] or 0 for row in rows) >= LARGE else None


def timed(match: Callable[[Record], Any], messages: list[Record]) -> Timing:
    """Time all messages again and again, until there are enough repeats."""
    clock = time.perf_counter
    best = [float("inf")] * len(messages)
    sums: list[float] = []
    gc.collect()
    gc.freeze()  # else a collection would visit millions of predicates while the clock runs
    try:
        while len(sums) < MIN_REPEATS or (sum(sums) < ENOUGH_S and len(sums) < MAX_REPEATS):
            seconds = []
            for message in messages:
                begun = clock()
                match(message)
                seconds.append(clock() - begun)
            best = list(map(min, best, seconds))
            sums.append(sum(seconds))
    finally:
        gc.unfreeze()
    us = [1e6 * one / len(messages) for one in sums]
    return Timing(
        1e6 * statistics.mean(best), statistics.mean(us), statistics.pstdev(us), len(sums)
    )
