"""Paper F's headline figures (F9), by its algorithm and by ours, on the computer at hand."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator
from typing import Final

from benchmarks.cases import (
    SAMPLE,
    Line,
    Load,
    Options,
    build,
    check,
    generate,
    match_events,
    measured,
    timed,
)
from benchmarks.measure import Measurement
from benchmarks.tables import number, show
from tidings.matching.forwarding import ForwardingTable
from tidings.matching.rivals.counting import Counting
from tidings.matching.workload import ForwardingWorkload

# As the paper has them: a table of 5 million constraints, a computer of 950 MHz.
PAPER_ONE_EACH_MS: Final = 330.0
PAPER_TWENTY_MS: Final = 3.0
PAPER_BYTES: Final = 48.0
PAPER_INTERFACES: Final = 20
CHECKED_EACH: Final = 7  # which interface is checked: predicates of 50,000 filters take seconds
PAPER_ROUNDS: Final = (0, 1, 5, 10, 20, 50, 100)  # Fig. 11


def beside_paper(options: Options, command: str) -> Iterator[Line]:
    """The headline figures of paper F (F9), by its algorithm and by ours on this computer."""
    load = generate("forwarding", options)
    for name in ("counting", "table"):
        line = measured(name, load, options._replace(rounds=0), command)
        yield line | {"case": "one filter an interface"}
    yield from by_rounds(load, options, command)
    gc.unfreeze()
    yield from twenty_interfaces(options, command)


def by_rounds(load: Load, options: Options, command: str) -> Iterator[Line]:
    """Fig. 11: what the rounds of the selectivity table exclude, and gain."""
    most = Counting(load.pairs, max(PAPER_ROUNDS))
    for rounds in PAPER_ROUNDS:
        counting = most.variant(rounds)
        excluded = statistics.mean(counting.excluded(event) for event in load.events[:100])
        check(counting, load)
        found = timed(
            "rounds", match_events(counting, load.events), len(load.events), options.repeats
        )
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


def twenty_interfaces(options: Options, command: str) -> Iterator[Line]:
    """The same filters behind 20 interfaces: who is matched once is not asked again."""
    each = max(1, options.subscriptions // PAPER_INTERFACES)
    workload = ForwardingWorkload(
        interfaces=PAPER_INTERFACES, filters=(each, each + 1), seed=options.seed
    )
    pairs = list(workload.subscriptions())
    events = workload.events(0, options.events)
    gc.collect()
    gc.freeze()
    line: Line = {
        "workload": "forwarding",
        "case": f"{PAPER_INTERFACES} interfaces",
        "subscriptions": each * PAPER_INTERFACES,
        "command": command,
    }
    counting = build("counting", pairs, options.rounds)
    answers = [sorted(counting.match(event), key=str) for event in events[:SAMPLE]]
    checked = dict(pairs[::CHECKED_EACH])
    for event, found in zip(events, answers, strict=False):
        accepted = {id for id, predicate in checked.items() if predicate.matches(event)}
        assert set(found).intersection(checked) == accepted
    single = timed("counting", match_events(counting, events), len(events), options.repeats)
    yield line | _times("counting", single)
    start = time.perf_counter()
    table = ForwardingTable(pairs)
    line["build_s"] = round(time.perf_counter() - start, 4)
    for event, found in zip(events, answers, strict=False):
        assert sorted(table.forward(event), key=str) == found
    batch = workload.event_table(0, options.batch)
    first = table.forward_batch(batch.slice(0, SAMPLE)).column("event").to_pylist()
    counts = [len(found) for found in answers[: batch.num_rows]]
    assert [first.count(row) for row in range(len(counts))] == counts

    def forward(count: int) -> None:
        for event in events[:count]:
            table.forward(event)

    single = timed("ours", forward, len(events), options.repeats)
    rows = batch.num_rows
    joined = timed(
        "batch", lambda n: table.forward_batch(batch.slice(0, n)), rows, options.repeats, rows
    )
    stats = table.stats()
    line["constraints"] = stats.constraints
    line["bytes_per_constraint"] = round(stats.bytes_per_constraint, 1)
    line["batch"] = joined.operations
    line["us_per_event_batch"] = round(joined.best_us, 3)
    line["us_per_event_batch_mean"] = round(joined.mean_us, 3)
    line["us_per_event_batch_spread"] = round(joined.spread_us, 3)
    yield line | _times("forwarding table", single)


def _times(name: str, found: Measurement) -> Line:
    return {
        "matcher": name,
        "events": found.operations,
        "us_per_event": round(found.best_us, 3),
        "us_per_event_mean": round(found.mean_us, 3),
        "us_per_event_spread": round(found.spread_us, 3),
    }


def show_interfaces(lines: list[Line]) -> None:
    """Times with 20 interfaces, one by one and in a batch."""
    print(f"{lines[0]['subscriptions']:,} filters of {lines[0]['case']}")
    show(
        ["", "µs event", "mean", "spread", "in a batch"],
        [
            [
                line["matcher"],
                number(line["us_per_event"]),
                number(line["us_per_event_mean"]),
                number(line["us_per_event_spread"]),
                number(line.get("us_per_event_batch")),
            ]
            for line in lines
        ],
    )


def show_paper(lines: list[Line]) -> None:
    """Paper F's headline figures beside ours."""
    found = {(line["case"], line["matcher"]): line for line in lines}
    one, many = "one filter an interface", f"{PAPER_INTERFACES} interfaces"

    def ms(case: str, matcher: str, field: str = "us_per_event") -> str:
        line = found.get((case, matcher), {})
        return number(line[field] / 1e3 if field in line else None)

    counting, table = found[one, "counting"], found[one, "table"]
    print(
        f"Paper F (5 M constraints, 950 MHz) beside {counting['subscriptions']:,} filters and "
        f"{counting['constraints']:,} constraints here"
    )
    batch = "us_per_event_batch"
    rows = [
        [
            f"{case}, ms a message",
            number(paper),
            ms(case, "counting"),
            ms(case, ours),
            ms(case, ours, batch),
        ]
        for case, paper, ours in (
            (one, PAPER_ONE_EACH_MS, "table"),
            (many, PAPER_TWENTY_MS, "forwarding table"),
        )
    ]
    sizes = [counting["bytes_per_constraint"], table["bytes_per_constraint"]]
    rows.append(["bytes a constraint", number(PAPER_BYTES), *map(number, sizes), ""])
    show(["", "paper F", "counting", "ours", "ours, in a batch"], rows)
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
