"""How the matching benchmark prints: lines of measurements as tables that a person can read."""

from __future__ import annotations

from benchmarks.cases import RULES, Line, Load


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
    print("  x table: the time as a multiple of table's; for a batch, against the better of the")
    print("  other's two figures\n")


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


def show_updates(lines: list[Line]) -> None:
    """Matching under updates beside matching alone."""
    print("table: µs an event alone, and while another thread adds and removes")
    columns = ["subscriptions", "updates_per_s", "us_per_event_alone", "us_per_event", "ratio"]
    columns += ["us_processor_alone", "us_processor", "ratio_processor"]
    columns += ["us_median", "us_99_percent", "us_longest_alone", "us_longest"]
    show(
        ["workload", *(column.removeprefix("us_").replace("_", " ") for column in columns)],
        [[line["workload"], *(number(line[column]) for column in columns)] for line in lines],
    )


def show_rules(lines: list[Line]) -> None:
    """What an event takes with few rules."""
    show(
        ["rules", "attributes", "µs event", "mean", "spread"],
        [
            [
                f"{line['rules']:,}",
                str(line["attributes"]),
                number(line["us_per_event"]),
                number(line["us_per_event_mean"]),
                number(line["us_per_event_spread"]),
            ]
            for line in lines
        ],
    )
