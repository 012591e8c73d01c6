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
            "two",
            lambda n: table.match_batch(batch.slice(0, n), threads=2),
            rows,
            wish.repeats,
            rows,
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
            assert run(own) == sorted(scan.match(event)), (name, load.name, event)

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
    """Matching while another thread adds the next and removes the oldest, beside matching alone."""
    coming = load.pairs[-_coming(len(load.pairs)) :]
    held = load.pairs[: -len(coming)]
    ids: list[Id] = [id for id, _ in held]
    predicates = [predicate for _, predicate in held]
    warm_up("table", load, 0)
    table = Table(held)
    check(table, load._replace(pairs=held))
    match_for(table, load.events, REPEAT_S / 4)
    alone = match_for(table, load.events, UPDATES_FOR_S)
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
    busy = match_for(table, load.events, UPDATES_FOR_S)
    stop.set()
    thread.join()
    left = list(zip(ids, predicates, strict=True))[done // 2 :]
    check(table, load._replace(pairs=left))  # type: ignore[arg-type]
    table.wait()
    check(table, load._replace(pairs=left))  # type: ignore[arg-type]
    return {
        "matcher": "table",
        "workload": load.name,
        "subscriptions": len(held),
        "case": "updates",
        "updates_per_s": round(done / UPDATES_FOR_S),
        "events": len(busy),
        "us_per_event_alone": round(statistics.mean(alone) * 1e6, 3),
        "us_per_event": round(statistics.mean(busy) * 1e6, 3),
        "ratio": round(statistics.mean(busy) / statistics.mean(alone), 3),
        "us_median_alone": round(alone[len(alone) // 2] * 1e6, 3),
        "us_median": round(busy[len(busy) // 2] * 1e6, 3),
        "us_99_percent_alone": round(alone[len(alone) * 99 // 100] * 1e6, 3),
        "us_99_percent": round(busy[len(busy) * 99 // 100] * 1e6, 3),
        "us_longest_alone": round(alone[-1] * 1e6, 1),
        "us_longest": round(busy[-1] * 1e6, 1),
        "seed": wish.seed,
        "command": command,
    }


def _coming(held: int) -> int:
    """How many of the subscriptions made are kept back to be added."""
    return min(int(UPDATES_PER_S * UPDATES_FOR_S / 2), held // 2)


def match_for(table: Table, events: list[Record], seconds: float) -> list[float]:
    """Match events for some time; how long each took, sorted."""
    taken: list[float] = []
    gc.collect()
    gc.disable()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for event in events:
            before = time.perf_counter()
            table.match(event)
            taken.append(time.perf_counter() - before)
            if taken[-1] > seconds / 100 and time.perf_counter() > end:
                break
    gc.enable()
    return sorted(taken)


# Paper F


def beside_paper(wish: Wish, command: str) -> Iterator[Line]:
    """The headline figures of paper F (F9), by its algorithm and by ours on this computer."""
    load = generate("forwarding", wish)
    for name in ("counting", "table"):
        line = measured(name, load, wish._replace(rounds=0), command)
        yield line | {"case": "one filter an interface"}
    yield from by_rounds(load, wish, command)
    gc.unfreeze()
    yield from twenty_interfaces(wish, command)


def by_rounds(load: Load, wish: Wish, command: str) -> Iterator[Line]:
    """Fig. 11: what the rounds of the selectivity table exclude, and gain."""
    for rounds in PAPER_ROUNDS:
        counting = Counting(load.pairs, rounds)
        excluded = statistics.mean(counting.excluded(event) for event in load.events[:100])
        check(counting, load)
        found = timed("rounds", match_events(counting, load.events), len(load.events), wish.repeats)
        yield {
            "matcher": "counting",
            "workload": "forwarding",
            "case": "rounds",
            "rounds": rounds,
            "subscriptions": len(load.pairs),
            "excluded": round(excluded, 1),
            "events": found.operations,
            "us_per_event": round(found.best_us, 3),
            "us_per_event_mean": round(found.mean_us, 3),
            "us_per_event_spread": round(found.spread_us, 3),
            "command": command,
        }


def twenty_interfaces(wish: Wish, command: str) -> Iterator[Line]:
    """The same filters behind 20 interfaces: who is matched once is not asked again."""
    each = max(1, wish.subscriptions // PAPER_INTERFACES)
    workload = ForwardingWorkload(
        interfaces=PAPER_INTERFACES, filters=(each, each + 1), seed=wish.seed
    )
    pairs = list(workload.subscriptions())
    events = workload.events(0, wish.events)
    gc.collect()
    gc.freeze()
    line: Line = {
        "workload": "forwarding",
        "case": f"{PAPER_INTERFACES} interfaces",
        "subscriptions": each * PAPER_INTERFACES,
        "command": command,
    }
    counting = build("counting", pairs, wish.rounds)
    answers = [sorted(counting.match(event), key=str) for event in events[:SAMPLE]]
    for event, found in zip(events, answers, strict=False):
        assert set(found) == {id for id, predicate in pairs if predicate.matches(event)}
    single = timed("counting", match_events(counting, events), len(events), wish.repeats)
    yield line | _times("counting", single)
    try:
        from tidings.matching.forwarding import ForwardingTable  # type: ignore[import-not-found]
    except ImportError as error:
        print(f"20 interfaces, ForwardingTable: left out, {error}")
        return
    table = ForwardingTable(dict(pairs))
    for event, found in zip(events, answers, strict=False):
        assert sorted(table.forward(event), key=str) == found

    def forward(count: int) -> None:
        for event in events[:count]:
            table.forward(event)

    yield line | _times("forwarding table", timed("ours", forward, len(events), wish.repeats))


def _times(name: str, found: Measurement) -> Line:
    return {
        "matcher": name,
        "events": found.operations,
        "us_per_event": round(found.best_us, 3),
        "us_per_event_mean": round(found.mean_us, 3),
        "us_per_event_spread": round(found.spread_us, 3),
    }


# Printing


def show(header: list[str], rows: list[list[str]]) -> None:
    """Print a table, the first column to the left and all others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in [header, *rows]:
        first, *others = (
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *others]).rstrip())
    print()


def number(value: float | None) -> str:
    """A figure with as many digits as it needs."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show_matchers(load: Load, lines: list[Line]) -> None:
    """The matchers under one workload, beside each other."""
    by_name = {line["matcher"]: line for line in lines}
    table = by_name.get("table")
    size = len(load.pairs)
    print(f"{load.name}: {size:,} subscriptions, {load.batch.num_rows:,} events a batch")
    rows = []
    for line in lines:
        scale = size / line["subscriptions"]
        scaled = "*" if scale != 1 or "measured_on" in line else ""
        single = line["us_per_event"] * (scale if line["matcher"] == "scan" else 1)
        batch = line.get("us_per_event_batch")
        rows.append(
            [
                line["matcher"] + scaled,
                number(single),
                number(line["us_per_event_mean"]),
                number(line["us_per_event_spread"]),
                number(batch),
                number(line.get("matches_per_event")),
                number(line.get("build_s")),
                number(line["subscriptions_per_s"]),
                number(line.get("bytes_per_constraint")),
                number(line.get("bytes_per_subscription")),
                number(single / table["us_per_event"] if table else None),
                number(
                    min(single, batch or single) / table["us_per_event_batch"] if table else None
                ),
            ]
        )
    header = ["matcher", "µs event", "mean", "spread", "µs batch", "matches", "build s", "subs/s"]
    header += ["B/constraint", "B/sub", "x table", "in a batch"]
    show(header, rows)
    for line in lines:
        if "measured_on" not in line and line["subscriptions"] != size:
            scaled = ", the time of an event scaled linearly" if line["matcher"] == "scan" else ""
            print(f"* {line['matcher']}: on {line['subscriptions']:,} subscriptions{scaled}")
    if any("measured_on" in line for line in lines):
        print(f"* rule by rule: timed on {min(size, RULES):,} rules and scaled linearly")
    if table and "us_per_event_batch_2_threads" in table:
        print(f"  table, batch, two threads: {number(table['us_per_event_batch_2_threads'])} µs")
    print("  x table: so many times what table takes, for one event and, in a batch, against the")
    print("  better of the other's two figures\n")


def show_growth(growth: dict[str, list[Line]]) -> None:
    """How the table's times grow with the subscriptions."""
    sizes = sorted({line["subscriptions"] for lines in growth.values() for line in lines})
    for field, what in (("us_per_event", "event"), ("us_per_event_batch", "event of a batch")):
        print(f"table: µs an {what}, by subscriptions")
        rows = []
        for name, lines in growth.items():
            by_size = {line["subscriptions"]: line[field] for line in lines}
            rows.append([name, *(number(by_size.get(size)) for size in sizes)])
        show(["workload", *(f"{size:,}" for size in sizes)], rows)


def show_paper(lines: list[Line]) -> None:
    """Paper F's headline figures beside ours."""
    found = {(line["case"], line["matcher"]): line for line in lines}
    one, many = "one filter an interface", f"{PAPER_INTERFACES} interfaces"

    def ms(case: str, matcher: str) -> str:
        line = found.get((case, matcher))
        return number(line["us_per_event"] / 1e3 if line else None)

    counting, table = found[one, "counting"], found[one, "table"]
    print(
        f"Paper F (5 M constraints, 950 MHz) beside {counting['subscriptions']:,} filters and "
        f"{counting['constraints']:,} constraints here"
    )
    show(
        ["", "paper F", "counting", "ours"],
        [
            [
                f"{one}, ms a message",
                number(PAPER_ONE_EACH_MS),
                ms(one, "counting"),
                ms(one, "table"),
            ],
            [
                f"{many}, ms a message",
                number(PAPER_TWENTY_MS),
                ms(many, "counting"),
                ms(many, "forwarding table"),
            ],
            [
                "bytes a constraint",
                number(PAPER_BYTES),
                number(counting["bytes_per_constraint"]),
                number(table["bytes_per_constraint"]),
            ],
        ],
    )
    rounds = [line for line in lines if line["case"] == "rounds"]
    print("counting by rounds of the selectivity table (Fig. 11)")
    show(
        ["rounds", "µs event", "mean", "spread", "excluded", "of all", "x no rounds"],
        [
            [
                str(line["rounds"]),
                number(line["us_per_event"]),
                number(line["us_per_event_mean"]),
                number(line["us_per_event_spread"]),
                number(line["excluded"]),
                f"{line['excluded'] / line['subscriptions']:.1%}",
                number(rounds[0]["us_per_event"] / line["us_per_event"]),
            ]
            for line in rounds
        ],
    )


def show_updates(lines: list[Line]) -> None:
    """Matching under updates beside matching alone."""
    print("table: µs an event alone, and while another thread adds and removes")
    columns = ["subscriptions", "updates_per_s", "us_per_event_alone", "us_per_event", "ratio"]
    columns += ["us_median", "us_99_percent", "us_longest_alone", "us_longest"]
    show(
        ["workload", *(column.removeprefix("us_").replace("_", " ") for column in columns)],
        [[line["workload"], *(number(line[column]) for column in columns)] for line in lines],
    )


# The command


def arguments_of(module: str) -> tuple[argparse.Namespace, str]:
    """What was asked for, and the command that asks for it again."""
    parser, command = options(module, str(__doc__).splitlines()[0])
    known = [*WORKLOADS, "stock-quotes"]
    parser.add_argument("--workload", choices=known, help="one workload; without, all")
    parser.add_argument("--matcher", choices=[*MATCHERS], help="one matcher; without, all")
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=1_000, help="single events, at most")
    parser.add_argument("--batch", type=int, default=65_536, help="events of a batch, at most")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of `counting`")
    parser.add_argument("--updates", action="store_true", help="match while others add and remove")
    parser.add_argument("--paper", action="store_true", help="beside paper F; wants a million")
    return parser.parse_args(), command


def main() -> None:
    """Measure what was asked for, and print it."""
    arguments, command = arguments_of("benchmarks.matching")
    wish = Wish(*(getattr(arguments, field) for field in Wish._fields))
    as_json: bool = arguments.json

    def said(line: Line) -> Line:
        if as_json:
            print(json.dumps(line), flush=True)
        return line

    if arguments.paper:
        lines = [said(line) for line in beside_paper(wish, command)]
        if not as_json:
            show_paper(lines)
    elif arguments.updates:
        kept_back = int(UPDATES_PER_S * UPDATES_FOR_S / 2)
        more = wish._replace(subscriptions=wish.subscriptions + min(wish.subscriptions, kept_back))
        lines = []
        for name in names_of(arguments.workload):
            lines.append(said(under_updates(generate(name, more), wish, command)))
            gc.unfreeze()
        if not as_json:
            show_updates(lines)
    else:
        measure_all(arguments, wish, command, said)
    if not as_json:
        print(f"Python {platform.python_version()}, {platform.machine()}; again with: {command}")


def names_of(asked: str | None) -> list[str]:
    """The workload asked for, or all that there are here."""
    if asked is None:
        return [*WORKLOADS, *(["stock-quotes"] if STOCKS.exists() else [])]
    if asked == "stock-quotes" and not STOCKS.exists():
        raise SystemExit(f"the stock quotes are not beside the repository: {STOCKS}")
    return [asked]


def measure_all(
    arguments: argparse.Namespace, wish: Wish, command: str, said: Callable[[Line], Line]
) -> None:
    """Matchers under workloads: one, some or all."""
    matchers = [arguments.matcher] if arguments.matcher else [*MATCHERS]
    growth: dict[str, list[Line]] = {}
    for name in names_of(arguments.workload):
        load = generate(name, wish)
        lines = []
        for matcher in matchers:
            limited = matcher in SLOW and arguments.matcher is None
            part = load.first(SLOW_LIMIT) if limited else load
            lines.append(said(measured(matcher, part, wish, command)))
        if arguments.matcher is None:
            lines += [said(line | {"command": command}) for line in one_by_one(load, wish)]
        if not arguments.json:
            show_matchers(load, lines)
        if arguments.workload is None and "table" in matchers:
            growth[name] = [
                said(measured("table", load.first(size), wish, command))
                for size in GROWTH
                if size < len(load.pairs)
            ]
            growth[name] += [line for line in lines if line["matcher"] == "table"]
        del load
        gc.unfreeze()
    if growth and not arguments.json:
        show_growth(growth)


if __name__ == "__main__":
    main()
