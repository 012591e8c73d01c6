"""Matching: how fast the matchers find the subscriptions of an event, beside each other.

`python -m benchmarks.matching [--workload W] [--matcher M] [--subscriptions N] [--json]` measures;
`--updates` while subscriptions come and go, `--paper` beside the figures of paper F.

How: the workload is generated first and frozen out of the garbage collector's sight; the collector
is off while an index is built and while it is timed. The answer is checked before it is timed. A
repeat takes as many of the events as it can in a few seconds, so slow matchers see fewer of them.
Single events are dictionaries of Python, and what it costs to read them is part of the figure.
Batches are Arrow, matched on one core. Building starts from predicates in normal form, not from
text. Rules that Python packages evaluate one by one are timed on some and scaled up linearly.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import io
import json
import lzma
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.json

from benchmarks import rules
from benchmarks.measure import Measurement, measure, options
from tidings import Predicate, parse
from tidings.matching.contract import Id, Matcher
from tidings.matching.counting import Counting
from tidings.matching.matchers import MATCHERS
from tidings.matching.table import Table
from tidings.matching.workload import WORKLOADS, ForwardingWorkload, Record

STOCKS: Final = Path(__file__).parents[2] / "shared" / "data" / "padres-stockquotes"
REPEAT_S: Final = 2.0  # what one repeat may take
RULES: Final = 1_000  # rules that are evaluated one by one, at most
CHECKED: Final = 2_000  # subscriptions that an answer is checked against, at most
SAMPLE: Final = 16  # events whose answers are checked
SLOW_LIMIT: Final = 100_000  # subscriptions of the matchers in plain Python, unless one is named
SLOW: Final = frozenset({"scan", "search-tree"})
GROWTH: Final = (1_000, 10_000, 100_000, 1_000_000)
UPDATES_PER_S: Final = 10_000  # adds and removes, as many of the ones as of the others
UPDATES_FOR_S: Final = 4.0
BUNCH: Final = 20  # updates at a time, at most
# Paper F: section 5.2 (Figs. 8 to 10), a table of 5 million constraints, a 950 MHz computer.
PAPER_ONE_EACH_MS: Final = 330.0
PAPER_TWENTY_MS: Final = 3.0
PAPER_BYTES: Final = 48.0
PAPER_INTERFACES: Final = 20
PAPER_ROUNDS: Final = (0, 1, 5, 10, 20, 50, 100)  # Fig. 11

Pairs = list[tuple[int, Predicate]]
Line = dict[str, Any]  # one measurement, as it is printed


class Load(NamedTuple):
    """A workload made: subscriptions, events one by one, and a batch that begins with the same."""

    name: str
    pairs: Pairs
    events: list[Record]
    batch: pa.Table

    def first(self, count: int) -> Load:
        """The same with the first so many subscriptions only."""
        return self._replace(pairs=self.pairs[:count])


class Wish(NamedTuple):
    """What was asked for on the command line."""

    subscriptions: int
    events: int
    batch: int
    rounds: int
    seed: int
    repeats: int


# Input


def generate(name: str, wish: Wish) -> Load:
    """Make a workload, and let the garbage collector forget it."""
    if name == "stock-quotes":
        load = stock_quotes(wish)
    else:
        workload = WORKLOADS[name](seed=wish.seed)
        load = Load(
            name,
            list(workload.subscriptions(0, wish.subscriptions)),
            workload.events(0, wish.events),
            workload.event_table(0, wish.batch),
        )
    gc.collect()
    gc.freeze()
    return load


def stock_quotes(wish: Wish) -> Load:
    """Real quotes and the subscriptions of PADRES: 10,000 at most."""
    operators = {"eq": "=", ">": ">", "<": "<"}
    predicates = []
    with gzip.open(STOCKS / "subscriptions_10000.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            tests = json.loads(line)["predicates"]
            text = " and ".join(f"{name} {operators[op]} {value!r}" for name, op, value in tests)
            predicates.append(parse(text))
    raw = lzma.decompress((STOCKS / "stockquotes.jsonl.xz").read_bytes())
    quotes = pa.json.read_json(io.BytesIO(raw))
    quotes = quotes.select([name for name in quotes.column_names if name != "date"])
    step = max(1, quotes.num_rows // max(wish.batch, wish.events))
    quotes = quotes.take(list(range(0, quotes.num_rows, step)))
    events = quotes.slice(0, wish.events).to_pylist()
    for predicate in predicates:
        _ = predicate.filters
    pairs = list(enumerate(predicates))[: wish.subscriptions]
    return Load("stock-quotes", pairs, events, quotes.slice(0, wish.batch).combine_chunks())


# One matcher


def build(name: str, pairs: Pairs, rounds: int) -> Matcher:
    """A matcher that is ready to match."""
    matcher = Counting(pairs, rounds) if name == "counting" else MATCHERS[name](pairs)
    matcher.match({})  # some build their index only now
    return matcher


def warm_up(name: str, load: Load, rounds: int) -> None:
    """Have everything loaded and compiled that building and matching need."""
    small = build(name, load.pairs[:200], rounds)
    small.match(load.events[0])
    in_one_thread(small, load.batch.slice(0, 2))


def in_one_thread(matcher: Matcher, batch: pa.Table) -> pa.Table:
    """Match a batch on one core."""
    if isinstance(matcher, Table):
        return matcher.match_batch(batch, threads=1)
    return matcher.match_batch(batch)


def check(matcher: Matcher, load: Load) -> None:
    """Assert that a matcher's answers are right, on a sample.

    Of the subscriptions checked exactly those are found that the predicates themselves accept; all
    others found are accepted by theirs; a batch finds what its events find. Each predicate asked is
    made anew, because one that was asked keeps what it compiled for that.
    """
    predicates = dict(load.pairs)
    checked = list(predicates)[:: max(1, len(predicates) // CHECKED)]
    asked: dict[Id, Predicate] = {}

    def accepts(id: Any, event: Record) -> bool:
        if id not in asked:
            asked[id] = Predicate(predicates[id].expression)
        return asked[id].matches(event)

    found_first: list[tuple[int, Id]] = []
    for row, event in enumerate(load.events[:SAMPLE]):
        found = matcher.match(event)
        assert len(found) == len(set(found)), (load.name, matcher, event)
        expected = {id for id in checked if accepts(id, event)}
        assert expected == set(found).intersection(checked), (load.name, matcher, event)
        assert all(accepts(id, event) for id in found[:CHECKED]), (load.name, matcher, event)
        found_first += [(row, id) for id in found]
    batch = in_one_thread(matcher, load.batch.slice(0, SAMPLE))
    pairs = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    in_both = min(SAMPLE, len(load.events), load.batch.num_rows)
    expected_pairs = sorted(pair for pair in found_first if pair[0] < in_both)
    assert sorted(pair for pair in pairs if pair[0] < in_both) == expected_pairs, load.name


def timed(
    case: str, run: Callable[[int], object], most: int, repeats: int, least: int = 1
) -> Measurement:
    """Time a function of so many operations, of as many as fit into a repeat."""
    count, seconds = min(least, most), 0.0
    while True:
        start = time.perf_counter()
        run(count)
        seconds = time.perf_counter() - start
        if count >= most or seconds > REPEAT_S / 20:
            break
        count = min(most, count * 4)
    count = max(1, min(most, int(count * REPEAT_S / max(seconds, 1e-9))))
    gc.disable()
    try:
        return measure(case, count, lambda: run(count), repeats)
    finally:
        gc.enable()


def timed_building(name: str, pairs: Pairs, wish: Wish) -> tuple[Matcher, list[float]]:
    """Build an index, several times if that is quick."""
    seconds: list[float] = []
    while True:
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        matcher = build(name, pairs, wish.rounds)
        seconds.append(time.perf_counter() - start)
        gc.enable()
        if len(seconds) >= wish.repeats or sum(seconds) > REPEAT_S:
            return matcher, seconds
        del matcher


def match_events(matcher: Matcher, events: list[Record]) -> Callable[[int], object]:
    """Match the first so many events, one by one."""

    def run(count: int) -> None:
        match = matcher.match
        for event in events[:count]:
            match(event)

    return run


def measured(name: str, load: Load, wish: Wish, command: str) -> Line:
    """One matcher under one workload."""
    warm_up(name, load, wish.rounds)
    matcher, building = timed_building(name, load.pairs, wish)
    check(matcher, load)
    gc.collect()
    gc.freeze()
    single = timed("single", match_events(matcher, load.events), len(load.events), wish.repeats)
    events = load.events[: single.operations]
    matches = sum(len(matcher.match(event)) for event in events) / len(events)
    rows = load.batch.num_rows
    # A small batch costs more a row than a large one; slow matchers do not get far beyond it.
    least = min(rows, 4_096 if isinstance(matcher, Table) else 4)
    batch = load.batch
    joined = timed(
        "batch", lambda n: in_one_thread(matcher, batch.slice(0, n)), rows, wish.repeats, least
    )
    stats = matcher.stats()
    line: Line = {
        "matcher": name,
        "workload": load.name,
        "subscriptions": stats.subscriptions,
        "constraints": stats.constraints,
        "events": single.operations,
        "us_per_event": round(single.best_us, 3),
        "us_per_event_mean": round(single.mean_us, 3),
        "us_per_event_spread": round(single.spread_us, 3),
        "batch": joined.operations,
        "us_per_event_batch": round(joined.best_us, 3),
        "us_per_event_batch_mean": round(joined.mean_us, 3),
        "us_per_event_batch_spread": round(joined.spread_us, 3),
        "matches_per_event": round(matches, 3),
        "build_s": round(min(building), 4),
        "build_s_mean": round(statistics.mean(building), 4),
        "builds": len(building),
        "subscriptions_per_s": round(stats.subscriptions / min(building)),
        "bytes_per_constraint": round(stats.bytes_per_constraint, 1),
        "bytes_per_subscription": round(stats.bytes / max(stats.subscriptions, 1), 1),
        "repeats": wish.repeats,
        "seed": wish.seed,
        "command": command,
    }
    if name == "counting":
        line["rounds"] = wish.rounds
    if isinstance(matcher, Table) and joined.operations == rows:
        table = matcher
        two = timed(
            "two", lambda n: table.match_batch(batch.slice(0, n), threads=2), rows, wish.repeats, rows
        )
        line["us_per_event_batch_2_threads"] = round(two.best_us, 3)
    return line


def one_by_one(load: Load, wish: Wish) -> Iterator[Line]:
    """What Python packages take for the same, from some rules and scaled up."""
    pairs = load.pairs[:RULES]
    predicates = [predicate for _, predicate in pairs]
    if not rules.can_say(predicates):
        return
    scan = MATCHERS["scan"](pairs)
    events = [rules.renamed(event) for event in load.events]
    for name, make in rules.WAYS.items():
        start = time.perf_counter()
        run = make(predicates)
        building = time.perf_counter() - start
        for event, own in list(zip(load.events, events, strict=True))[:SAMPLE]:
            assert run(own) == sorted(scan.match(event)), (name, load.name, event)  # type: ignore[type-var]

        def ask(count: int, run: rules.Rules = run) -> None:
            for event in events[:count]:
                run(event)

        found = timed(name, ask, len(events), wish.repeats)
        scale = len(load.pairs) / len(pairs)
        yield {
            "matcher": name,
            "workload": load.name,
            "subscriptions": len(load.pairs),
            "measured_on": len(pairs),
            "events": found.operations,
            "us_per_event": round(found.best_us * scale, 3),
            "us_per_event_mean": round(found.mean_us * scale, 3),
            "us_per_event_spread": round(found.spread_us * scale, 3),
            "subscriptions_per_s": round(len(pairs) / building),
        }


# Updates


def under_updates(load: Load, wish: Wish, command: str) -> Line:
    """Matching while another thread adds and removes, beside matching alone."""
    count = int(UPDATES_PER_S * UPDATES_FOR_S)
    held = len(load.pairs) - min(len(load.pairs) // 2, count)
    coming = load.pairs[held:]
    warm_up("table", load, 0)
    table = Table(load.pairs[:held])
    check(table, load.first(held))
    alone = timed("alone", match_events(table, load.events), len(load.events), wish.repeats)
    stop = threading.Event()
    done = [0]

    def update() -> None:
        """As many updates as are due; each subscription that comes is removed later, and so on."""
        adding, removing = 0, 0
        start = time.perf_counter()
        while not stop.is_set():
            due = int((time.perf_counter() - start) * UPDATES_PER_S)
            for _ in range(min(due - done[0], BUNCH)):
                if adding - removing < len(coming) // 2 and (adding == removing or done[0] % 2):
                    table.add(*_again(coming, adding, held))
                    adding += 1
                else:
                    table.remove(_again(coming, removing, held)[0])
                    removing += 1
                done[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=update)
    latencies: list[float] = []
    gc.disable()
    start = time.perf_counter()
    thread.start()
    while time.perf_counter() - start < UPDATES_FOR_S:
        for event in load.events:
            before = time.perf_counter()
            table.match(event)
            latencies.append(time.perf_counter() - before)
    seconds = time.perf_counter() - start
    stop.set()
    thread.join()
    gc.enable()
    table.wait()
    for event in load.events[:SAMPLE]:
        found = [id for id in table.match(event) if isinstance(id, int) and id < held]
        again = Table(load.pairs[:held]).match(event) if event is load.events[0] else None
        assert again is None or sorted(found) == sorted(again)  # type: ignore[type-var]
    latencies.sort()
    mean = sum(latencies) / len(latencies) * 1e6
    return {
        "matcher": "table",
        "workload": load.name,
        "subscriptions": held,
        "case": "updates",
        "updates_per_s": round(done[0] / seconds),
        "us_per_event_alone": round(alone.mean_us, 3),
        "us_per_event": round(mean, 3),
        "us_per_event_median": round(latencies[len(latencies) // 2] * 1e6, 3),
        "us_per_event_99": round(latencies[len(latencies) * 99 // 100] * 1e6, 3),
        "us_longest": round(latencies[-1] * 1e6, 1),
        "ratio": round(mean / alone.mean_us, 3),
        "events": len(latencies),
        "command": command,
    }


def _again(coming: Pairs, number: int, held: int) -> tuple[int, Predicate]:
    """A subscription to come, under an id that no other has; they come round again."""
    return held + number, coming[number % len(coming)][1]
