"""The language: how fast predicates are read, asked, compared and reduced.

`python -m benchmarks.language [--json]`. One core, pure Python. Every case checks its answer first.
`--worst` prints the processor time of predicates made to be slow instead.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

from benchmarks import hostile
from benchmarks.measure import Measurement, command_line, measure, report
from tidings import Event, Predicate, parse, union
from tidings.language.constraint import Constraint
from tidings.language.filter import Filter, normalise
from tidings.language.reduction import reduce_filters

WORDS = [
    f"{start}{middle}{end}"
    for start in ("st", "c", "p", "gr", "m", "r", "tr", "b", "f", "l")
    for middle in ("a", "o", "ea", "i")
    for end in ("n", "st", "rk", "ll", "de")
]  # 200 made-up terms that share beginnings and ends, as words do


def predicates_of_three(count: int, random_: random.Random) -> list[str]:
    """Typical subscriptions: an equality, a comparison and a third constraint."""
    third = ["device prefix 'web-{n}'", "site.floor between {n} and 40", "tags in ('a', 'b{n}')"]
    return [
        f"class = '{random_.choice(WORDS)}' and severity > {random_.randint(0, 9)} and "
        + third[i % 3].format(n=random_.randint(0, 30))
        for i in range(count)
    ]


def paper_filters(count: int, names: int, zipf: bool, random_: random.Random) -> list[Filter]:
    """Conjunctions with the distributions of paper U, section 4.2 (U8)."""
    weights = [1 / (rank + 1) if zipf else 1.0 for rank in range(names)]
    filters: list[Filter] = []
    while len(filters) < count:
        size = random_.choices([1, 2, 3, 4, 5, 6], [10, 40, 30, 10, 5, 5])[0]
        asked = []
        for name in random_.choices(range(names), weights, k=size):
            if name % 2:
                operator = random_.choices(["=", "<", ">", "!="], [40, 25, 25, 10])[0]
                value = random_.randint(-100, 100)
                asked.append(Constraint(f"a{name}", operator, "number", False, value))
            else:
                operators = ["=", "prefix", "suffix", "contains", "!=", "<", ">"]
                operator = random_.choices(operators, [40] + [10] * 6)[0]
                word = random_.choice(WORDS)
                asked.append(Constraint(f"a{name}", operator, "string", False, word))
        filter = normalise(asked)
        if filter is not None:
            filters.append(filter)
    return filters


def reading(random_: random.Random, repeats: int) -> list[Measurement]:
    """Text to expression, and to normal form."""
    texts = predicates_of_three(10_000, random_)
    for text in texts[:100]:
        assert parse(str(parse(text))) == parse(text)
        assert len(parse(text).filters) == 1
        assert parse(text).constraints == 3
    long = " or ".join(f"({text})" for text in texts[:100])
    assert parse(long).matches({"class": "?"}) is False

    def normalised() -> None:
        for text in texts:
            _ = parse(text).filters

    return [
        measure("parse", len(texts), lambda: [parse(text) for text in texts], repeats),
        measure("parse and normalise", len(texts), normalised, repeats),
        measure("parse and normalise, 100 filters", 1, lambda: parse(long).filters, repeats),
    ]


def asking(repeats: int) -> list[Measurement]:
    """One predicate, one event; beside it the lambda one would write by hand."""
    predicate = parse("class = 'alert' and severity > 2 and device prefix 'web-'")
    by_hand: Callable[[dict[str, Any]], bool] = lambda event: (  # noqa: E731
        event["class"] == "alert" and event["severity"] > 2 and event["device"].startswith("web-")
    )
    yes = {"class": "alert", "severity": 5, "device": "web-1", "host": "h", "load": 0.5}
    no = {"class": "alert", "severity": 1, "device": "web-1", "host": "h", "load": 0.5}
    nested = {"host": {"name": "web-1", "tags": ["a", "b"]}, "load": 0.5}
    dotted = parse("host.name prefix 'web-' and host.tags = 'b'")
    assert predicate.matches(yes)
    assert not predicate.matches(no)
    assert by_hand(yes)
    assert not by_hand(no)
    assert dotted.matches(nested)
    assert dotted.matches(Event(nested))
    events = list(islice(cycle([yes, no]), 20_000))
    flat = [Event(nested)] * 20_000

    def ask(predicate: Predicate, events: list[Any]) -> Callable[[], None]:
        def run() -> None:
            matches = predicate.matches
            for event in events:
                matches(event)

        return run

    def ask_by_hand() -> None:
        for event in events:
            by_hand(event)

    ours = measure("match, three constraints", len(events), ask(predicate, events), repeats)
    hand = measure("the same by hand (a lambda)", len(events), ask_by_hand, repeats)
    ours.facts["times the lambda"] = round(ours.best_us / hand.best_us, 1)
    return [
        ours,
        hand,
        measure("match, dotted names", 20_000, ask(dotted, [nested] * 20_000), repeats),
        measure("match, dotted names, flat event", 20_000, ask(dotted, flat), repeats),
    ]


def comparing(random_: random.Random, repeats: int) -> list[Measurement]:
    """Covering and overlap between filters, and a search over patterns."""
    texts = predicates_of_three(1_000, random_)
    predicates = [parse(text) for text in texts]
    wider = [parse(" and ".join(text.split(" and ")[:2])) for text in texts]
    pairs = list(zip(wider, predicates, strict=True))
    for p, q in pairs:
        assert p.covers(q)
        assert not q.covers(p)
        assert p.intersects(q)
    shuffled = list(zip(wider, random_.sample(predicates, len(predicates)), strict=True))
    p, q = parse("x like '%a%b_c%'"), parse("x contains 'abbc' and x suffix 'd'")
    assert p.covers(q)
    hard = p.filters[0], q.filters[0]
    return [
        measure("covers, yes", len(pairs), lambda: [p.covers(q) for p, q in pairs], repeats),
        measure("covers, mostly no", 1_000, lambda: [p.covers(q) for p, q in shuffled], repeats),
        measure("intersects", len(pairs), lambda: [p.intersects(q) for p, q in pairs], repeats),
        measure("covers by search over patterns", 1, lambda: _uncached(*hard), repeats),
    ]


def _uncached(p: Filter, q: Filter) -> bool:
    from tidings.language import sets

    sets._decide_once.cache_clear()
    return p.covers(q)


def reducing(random_: random.Random, repeats: int) -> list[Measurement]:
    """Disjunctions of paper U's distribution; facts: constraints left, and so the ratio."""
    results = []
    for label, names, zipf in (("Zipf", 500, True), ("uniform", 500, False)):
        small = paper_filters(300, names, zipf, random_)
        kept = reduce_filters(small, merge=False)
        assert all(any(k.covers(f) for k in kept) for f in small)
        assert not any(f.covers(g) for f in kept for g in kept if f is not g)
        for count in (1_000, 10_000):
            filters = paper_filters(count, names, zipf, random_)
            reduced = reduce_filters(filters, merge=False)
            before, after = sum(map(len, filters)), sum(map(len, reduced))
            results.append(
                measure(
                    f"reduce {count} filters, {names} {label} names",
                    count,
                    lambda filters=filters: reduce_filters(filters, merge=False),  # type: ignore[misc]
                    min(repeats, 3),
                    seconds=None,
                    left=f"{after} of {before} ({after / before:.3f})",
                )
            )
            results[-1].facts["seconds"] = round(min(results[-1].seconds), 3)
    interest = [parse(text) for text in predicates_of_three(10_000, random_)]
    assert union(interest).covers(interest[0])
    results.append(
        measure("union of 10,000 predicates", 10_000, lambda: union(interest), min(repeats, 3))
    )
    return results


def main() -> None:
    """Run all cases and print them."""
    parser, command = command_line("benchmarks.language", str(__doc__).splitlines()[0])
    parser.add_argument("--worst", action="store_true", help="predicates made to be slow")
    arguments = parser.parse_args()
    if arguments.worst:
        hostile.print_worst()
        return
    random_ = random.Random(arguments.seed)
    measurements = [
        *reading(random_, arguments.repeats),
        *asking(arguments.repeats),
        *comparing(random_, arguments.repeats),
        *reducing(random_, arguments.repeats),
    ]
    report(measurements, command, arguments.json)


if __name__ == "__main__":
    main()
