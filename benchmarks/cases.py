"""The cases of the matching benchmark: one matcher, one workload; rules one by one; updates.

What a measurement is and how it is taken, `benchmarks.matching` says. A case gives a line: a
dictionary that is printed as JSON or in a table.
"""

from __future__ import annotations

import gc
import gzip
import io
import json
import lzma
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.json

from benchmarks import rules
from benchmarks.measure import Measurement, measure
from tidings import Predicate, parse
from tidings.matching.contract import Id, Matcher
from tidings.matching.matchers import MATCHERS
from tidings.matching.rivals.counting import Counting
from tidings.matching.table import Table
from tidings.matching.workload import WORKLOADS, Record

STOCKS: Final = Path(__file__).parents[2] / "shared" / "data" / "padres-stockquotes"
REPEAT_S: Final = 0.5  # what one repeat may take
BATCH_S: Final = 8.0  # and one batch
SOME_ROWS: Final = 1_024  # by which that is estimated
ANSWER: Final = 2**22  # pairs of a batch, about: more measure how fast the kernel clears memory
DIFFERENT: Final = 8_192  # single events none of which comes again, at most
BUILDING_S: Final = 8.0  # after which an index is not built once more
RULES: Final = 1_000  # rules that are evaluated one by one, at most
CHECKED: Final = 2_000  # subscriptions that an answer is checked against, at most
FEW_RULES: Final = (10, 100, 1_000, 2_000, 2_049, 10_000)
SAMPLE: Final = 16  # events whose answers are checked
UPDATES_PER_S: Final = 10_000  # adds and removes together, as many of the ones as of the others
BUNCH: Final = 500  # updates at a time, at most

Pairs = list[tuple[int, Predicate]]
Line = dict[str, Any]  # one measurement, as it is printed


class Load(NamedTuple):
    """A workload made: subscriptions, events one by one, and a batch that begins with the same."""

    name: str
    pairs: Pairs
    events: list[Record]
    batch: pa.Table
    different: list[Record]  # more of the events, each of which is in the batch too

    def first(self, count: int) -> Load:
        """The same load with only its first subscriptions, as many as asked for."""
        return self._replace(pairs=self.pairs[:count])


class Options(NamedTuple):
    """What was asked for on the command line."""

    subscriptions: int
    events: int
    batch: int
    rounds: int
    seed: int
    repeats: int
    seconds: float


# Input


def generate(name: str, options: Options) -> Load:
    """Make a workload, and let the garbage collector forget it."""
    if name == "stock-quotes":
        load = stock_quotes(options)
    else:
        workload = WORKLOADS[name](seed=options.seed)
        load = Load(
            name,
            list(workload.subscriptions(0, options.subscriptions)),
            workload.events(0, options.events),
            workload.event_table(0, options.batch),
            workload.events(0, min(options.batch, DIFFERENT)),
        )
    gc.collect()
    gc.freeze()
    return load


def stock_quotes(options: Options) -> Load:
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
    step = max(1, quotes.num_rows // max(options.batch, options.events))
    quotes = quotes.take(list(range(0, quotes.num_rows, step)))
    events = quotes.slice(0, options.events).to_pylist()
    for predicate in predicates:
        _ = predicate.filters
    pairs = list(enumerate(predicates))[: options.subscriptions]
    batch = quotes.slice(0, options.batch).combine_chunks()
    return Load("stock-quotes", pairs, events, batch, batch.slice(0, DIFFERENT).to_pylist())


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
    case: str,
    run: Callable[[int], object],
    most: int,
    repeats: int,
    least: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> Measurement:
    """Time a function; each repeat runs as many operations as fit into it."""
    count, seconds = min(least, most), 0.0
    fewest = count
    while True:
        start = clock()
        run(count)
        seconds = clock() - start
        if count >= most or seconds > REPEAT_S / 20:
            break
        count = min(most, count * 4)
    count = max(fewest, min(most, int(count * REPEAT_S / max(seconds, 1e-9))))
    gc.disable()
    try:
        return measure(case, count, lambda: run(count), repeats, clock)
    finally:
        gc.enable()


def timed_building(name: str, pairs: Pairs, options: Options) -> tuple[Matcher, list[float]]:
    """Build an index, several times unless that takes long."""
    seconds: list[float] = []
    while True:
        gc.collect()
        gc.disable()
        start = time.process_time()
        matcher = build(name, pairs, options.rounds)
        seconds.append(time.process_time() - start)
        gc.enable()
        if len(seconds) >= options.repeats or sum(seconds) > BUILDING_S:
            return matcher, seconds
        del matcher


def match_events(matcher: Matcher, events: list[Record]) -> Callable[[int], object]:
    """Match the first events one by one, as many as asked for."""

    def run(count: int) -> None:
        match = matcher.match
        for event in events[:count]:
            match(event)

    return run


def rows_in_time(table: Table, batch: pa.Table) -> int:
    """How many rows of a batch a table matches in some seconds, with an answer that is not large.

    Mostly these are all rows.
    """
    some = batch.slice(0, SOME_ROWS)
    start = time.perf_counter()
    pairs = in_one_thread(table, some).num_rows
    per_row_s = (time.perf_counter() - start) / some.num_rows
    rows = min(BATCH_S / per_row_s, ANSWER * some.num_rows / max(pairs, 1), batch.num_rows)
    return max(int(some.num_rows), int(rows))


def measured(name: str, load: Load, options: Options, command: str) -> Line:
    """One matcher under one workload."""
    warm_up(name, load, options.rounds)
    matcher, building = timed_building(name, load.pairs, options)
    check(matcher, load)
    gc.collect()
    gc.freeze()
    single = timed("single", match_events(matcher, load.events), len(load.events), options.repeats)
    different = timed(
        "different", match_events(matcher, load.different), len(load.different), options.repeats
    )
    events = load.events[: single.operations]
    matches = sum(len(matcher.match(event)) for event in events) / len(events)
    # A small batch costs more a row than a large one; slow matchers do not get far beyond it.
    rows = load.batch.num_rows
    if isinstance(matcher, Table):
        rows = least = rows_in_time(matcher, load.batch)
    else:
        least = min(rows, 4)
    batch = load.batch.slice(0, rows)
    joined = timed(
        "batch", lambda n: in_one_thread(matcher, batch.slice(0, n)), rows, options.repeats, least
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
        "different": different.operations,
        "us_per_event_different": round(different.best_us, 3),
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
        "repeats": options.repeats,
        "seed": options.seed,
        "command": command,
    }
    if name == "counting":
        line["rounds"] = options.rounds
    if isinstance(matcher, Table) and joined.operations == rows:
        table = matcher
        two = timed(
            "two",
            lambda n: table.match_batch(batch.slice(0, n), threads=2),
            rows,
            options.repeats,
            rows,
            time.perf_counter,
        )
        line["us_per_event_batch_2_threads"] = round(two.best_us, 3)
    return line


def one_by_one(load: Load, options: Options) -> Iterator[Line]:
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
            assert run(own) == sorted(scan.match(event)), (name, load.name, event)

        def ask(count: int, run: rules.Rules = run) -> None:
            for event in events[:count]:
                run(event)

        found = timed(name, ask, len(events), options.repeats)
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


# Few rules


def few_rules(options: Options, command: str) -> Iterator[Line]:
    """Rules of three ranges, each a tenth wide, on three attributes in all or on three of ten."""
    chance = Random(options.seed)
    for attributes in (3, 10):
        names = [f"a{i}" for i in range(attributes)]
        events: list[Record] = [
            {name: chance.random() for name in names} for _ in range(options.events)
        ]
        for count in FEW_RULES:
            pairs = []
            for id in range(count):
                lows = {name: 0.9 * chance.random() for name in chance.sample(names, 3)}
                text = " and ".join(f"{name} between {v} and {v + 0.1}" for name, v in lows.items())
                pairs.append((id, parse(text)))
            table = Table(pairs)
            for event in events[:SAMPLE]:
                accepted = [id for id, predicate in pairs if predicate.matches(event)]
                assert sorted(table.match(event), key=int) == accepted, event
            found = timed("rules", match_events(table, events), len(events), options.repeats)
            yield {
                "case": "rules",
                "rules": count,
                "attributes": attributes,
                "us_per_event": round(found.best_us, 3),
                "us_per_event_mean": round(found.mean_us, 3),
                "us_per_event_spread": round(found.spread_us, 3),
                "command": command,
            }


# Updates


def under_updates(load: Load, options: Options, command: str) -> Line:
    """Matching while another thread adds the next and removes the oldest, beside matching alone.

    That is measured before and after, since a machine may change its pace meanwhile.
    """
    coming = load.pairs[-kept_back(len(load.pairs), options.seconds) :]
    held = load.pairs[: -len(coming)]
    ids: list[Id] = [id for id, _ in held]
    predicates = [predicate for _, predicate in held]
    warm_up("table", load, 0)
    still, table = Table(held), Table(held)
    check(table, load._replace(pairs=held))
    match_for(still, load.events, REPEAT_S / 4)
    before, before_s = match_for(still, load.events, options.seconds / 2)
    match_for(table, load.events, REPEAT_S / 4)
    stop = threading.Event()
    done = 0

    def update() -> None:
        """As many updates as are due by now: adds and removes in turn."""
        nonlocal done
        start = time.perf_counter()
        while not stop.is_set():
            due = int((time.perf_counter() - start) * UPDATES_PER_S)
            for _ in range(min(due - done, BUNCH)):
                if done % 2:
                    table.remove(ids[done // 2])
                else:
                    ids.append(len(load.pairs) + done)
                    predicates.append(coming[done // 2 % len(coming)][1])
                    table.add(ids[-1], predicates[-1])
                done += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=update)
    thread.start()
    busy, busy_s = match_for(table, load.events, options.seconds)
    stop.set()
    thread.join()
    left = list(zip(ids, predicates, strict=True))[done // 2 :]
    check(table, load._replace(pairs=left))  # type: ignore[arg-type]
    table.wait()
    check(table, load._replace(pairs=left))  # type: ignore[arg-type]
    after, after_s = match_for(still, load.events, options.seconds / 2)
    alone, alone_s = sorted(before + after), (before_s + after_s) / 2
    return {
        "matcher": "table",
        "workload": load.name,
        "subscriptions": len(held),
        "case": "updates",
        "seconds": options.seconds,
        "updates_per_s": round(done / options.seconds),
        "events": len(busy),
        "us_per_event_alone": round(statistics.mean(alone) * 1e6, 3),
        "us_per_event": round(statistics.mean(busy) * 1e6, 3),
        "ratio": round(statistics.mean(busy) / statistics.mean(alone), 3),
        "us_processor_alone": round(alone_s * 1e6, 3),
        "us_processor": round(busy_s * 1e6, 3),
        "ratio_processor": round(busy_s / alone_s, 3),
        "us_median_alone": round(alone[len(alone) // 2] * 1e6, 3),
        "us_median": round(busy[len(busy) // 2] * 1e6, 3),
        "us_99_percent_alone": round(alone[len(alone) * 99 // 100] * 1e6, 3),
        "us_99_percent": round(busy[len(busy) * 99 // 100] * 1e6, 3),
        "us_longest_alone": round(alone[-1] * 1e6, 1),
        "us_longest": round(busy[-1] * 1e6, 1),
        "seed": options.seed,
        "command": command,
    }


def kept_back(held: int, seconds: float) -> int:
    """How many of the subscriptions made are kept back to be added."""
    return min(int(UPDATES_PER_S * seconds / 2), held // 2)


def match_for(table: Table, events: list[Record], seconds: float) -> tuple[list[float], float]:
    """Match events for some time; how long each took, sorted, and its processor time on average."""
    taken: list[float] = []
    gc.collect()
    gc.disable()
    end = time.perf_counter() + seconds
    processor = time.thread_time()
    while time.perf_counter() < end:
        for event in events:
            before = time.perf_counter()
            table.match(event)
            taken.append(time.perf_counter() - before)
            if taken[-1] > seconds / 100 and time.perf_counter() > end:
                break
    processor = time.thread_time() - processor
    gc.enable()
    return sorted(taken), processor / len(taken)
