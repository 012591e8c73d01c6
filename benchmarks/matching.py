"""Matching: how fast the matchers find the subscriptions of an event, beside each other.

`python -m benchmarks.matching [--workload W] [--matcher M] [--subscriptions N] [--json]` measures;
`--growth` from a thousand subscriptions on, `--updates` while subscriptions come and go, `--paper`
beside the figures of paper F, `--interfaces` only the figure with 20 interfaces of these, `--rules`
few rules of three ranges.

How: the workload is generated first and frozen out of the garbage collector's sight; the collector
is off while an index is built and while it is timed. The answer is checked before it is timed. A
repeat takes as many of the events as it can in a few seconds, so slow matchers see fewer of them,
and a batch has fewer rows where it would take long. Times are processor time; with two
threads waiting counts, and under updates both are printed.
Single events are dictionaries of Python, and what it costs to read them is part of the figure.
Batches are Arrow, matched on one core. Building starts from predicates in normal form, not from
text. Rules that Python packages evaluate one by one are timed on some and scaled up linearly.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
from collections.abc import Callable
from typing import Final

from benchmarks.cases import (
    STOCKS,
    Line,
    Options,
    few_rules,
    generate,
    kept_back,
    measured,
    one_by_one,
    under_updates,
)
from benchmarks.measure import command_line
from benchmarks.paper import beside_paper, show_interfaces, show_paper, twenty_interfaces
from benchmarks.tables import show_growth, show_matchers, show_rules, show_updates
from tidings.matching.matchers import MATCHERS
from tidings.matching.workload import WORKLOADS

SLOW_LIMIT: Final = 100_000  # subscriptions of the matchers in plain Python, unless one is named
SLOW: Final = frozenset({"scan", "search-tree"})
GROWTH: Final = (1_000, 10_000, 100_000, 1_000_000)
LESS: Final = {"mixed": 100_000}  # of which an event finds a fifth


def arguments_of(module: str) -> tuple[argparse.Namespace, str]:
    """What was asked for, and the command that asks for it again."""
    parser, command = command_line(module, str(__doc__).splitlines()[0])
    known = [*WORKLOADS, "stock-quotes"]
    parser.add_argument("--workload", choices=known, help="one workload; without, all")
    parser.add_argument("--matcher", choices=[*MATCHERS], help="one matcher; without, all")
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=1_000, help="single events, at most")
    parser.add_argument("--batch", type=int, default=65_536, help="events of a batch, at most")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of `counting`")
    parser.add_argument("--growth", action="store_true", help="from 1,000 on, by table")
    parser.add_argument("--updates", action="store_true", help="match while others add and remove")
    parser.add_argument("--seconds", type=float, default=4.0, help="of updates")
    parser.add_argument("--paper", action="store_true", help="beside paper F; wants a million")
    parser.add_argument("--interfaces", action="store_true", help="filters of 20 interfaces")
    parser.add_argument("--rules", action="store_true", help="10 to 10,000 of three ranges")
    return parser.parse_args(), command


def main() -> None:
    """Measure what was asked for, and print it."""
    arguments, command = arguments_of("benchmarks.matching")
    options = Options(*(getattr(arguments, field) for field in Options._fields))
    as_json: bool = arguments.json

    def said(line: Line) -> Line:
        if as_json:
            print(json.dumps(line), flush=True)
        return line

    names = names_of(arguments.workload)
    if arguments.paper:
        lines = [said(line) for line in beside_paper(options, command)]
        if not as_json:
            show_paper(lines)
    elif arguments.interfaces:
        lines = [said(line) for line in twenty_interfaces(options, command)]
        if not as_json:
            show_interfaces(lines)
    elif arguments.rules:
        lines = [said(line) for line in few_rules(options, command)]
        if not as_json:
            show_rules(lines)
    elif arguments.growth:
        growth = {name: measure_growth(name, options, command, said) for name in names}
        if not as_json:
            show_growth(growth)
    elif arguments.updates:
        more = options._replace(
            subscriptions=options.subscriptions
            + kept_back(2 * options.subscriptions, options.seconds)
        )
        lines = []
        for name in names:
            lines.append(said(under_updates(generate(name, more), options, command)))
            gc.unfreeze()
        if not as_json:
            show_updates(lines)
    else:
        measure_all(arguments, options, command, said)
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
    arguments: argparse.Namespace, options: Options, command: str, said: Callable[[Line], Line]
) -> None:
    """Matchers under workloads: one, some or all."""
    matchers = [arguments.matcher] if arguments.matcher else [*MATCHERS]
    for name in names_of(arguments.workload):
        load = generate(name, options)
        lines = []
        for matcher in matchers:
            limited = matcher in SLOW and arguments.matcher is None
            part = load.first(SLOW_LIMIT) if limited else load
            lines.append(said(measured(matcher, part, options, command)))
        if arguments.matcher is None:
            lines += [said(line | {"command": command}) for line in one_by_one(load, options)]
        if not arguments.json:
            show_matchers(load, lines)
        del load
        gc.unfreeze()


def measure_growth(
    name: str, options: Options, command: str, said: Callable[[Line], Line]
) -> list[Line]:
    """The table with more and more subscriptions."""
    most = min(options.subscriptions, LESS.get(name, options.subscriptions))
    load = generate(name, options._replace(subscriptions=most))
    sizes = [*(size for size in GROWTH if size < len(load.pairs)), len(load.pairs)]
    lines = [said(measured("table", load.first(size), options, command)) for size in sizes]
    del load
    gc.unfreeze()
    return lines


if __name__ == "__main__":
    main()
