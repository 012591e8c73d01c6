"""Paper F's headline figures (F9): time per message, memory, and excluded filters."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import Claim, Experiment, Parameters, Row, Rows, Setting, select
from tidings.lab.routers import COUNTING, OURS, ROUNDS, router, timed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILTERS: Final = {"full": 1_000_000, "quick": 50_000, "tiny": 1_000}
PREDICATES: Final = {"full": 200_000, "quick": 20_000, "tiny": 1_000}
INTERFACES: Final = 20
PAPER_MS: Final = {"one": 330.0, "twenty": 3.0}
PAPER_BYTES: Final = 48.0
PAPER_EXCLUDED: Final = 131_000 / 200_000
NEAR: Final = 0.05
TITLES: Final = {
    "one": "one filter an interface",
    "twenty": f"{INTERFACES} interfaces",
}


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"kind": "one", "filters": FILTERS[setting], "seed": 1},
        {"kind": "twenty", "filters": FILTERS[setting], "seed": 1},
        {"kind": "excluded", "filters": PREDICATES[setting], "seed": 1},
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    kind, filters = parameters["kind"], parameters["filters"]
    made = router(filters, INTERFACES if kind == "twenty" else filters, parameters["seed"])
    counting = made.counting.variant(ROUNDS)
    if kind == "excluded":
        excluded = statistics.mean(counting.excluded(message) for message in made.messages)
        yield {"matcher": COUNTING, "constraints": made.constraints, "excluded": excluded}
        return
    for matcher, match, stats in (
        (COUNTING, counting.match, counting.stats()),
        (OURS, made.table.forward, made.table.stats()),
    ):
        yield {
            "matcher": matcher,
            "constraints": made.constraints,
            "us": timed(match, made.messages).us,
            "bytes_per_constraint": stats.bytes / made.constraints,
            "matched": statistics.mean(map(len, made.found)),
        }


COLUMNS: Final = {
    "matcher": str,
    "constraints": int,
    "us": float,
    "bytes_per_constraint": float,
    "matched": float,
    "excluded": float,
}


def claims(rows: Rows) -> list[Claim]:
    found = []
    for kind, statement in (
        ("one", "about 330 ms per message for a million filters, five million constraints"),
        ("twenty", "3 ms per message for 20 interfaces, five million constraints"),
    ):
        counting, ours = (select(rows, kind=kind, matcher=m)[0] for m in (COUNTING, OURS))
        large = counting["constraints"] > 4_000_000
        found.append(
            Claim(
                "1 and 5.2",
                statement,
                f"counting {counting['us'] / 1e3:.3g} ms, ours {ours['us'] / 1e3:.3g} ms with "
                f"{counting['constraints']:,} constraints",
                counting["us"] / 1e3 <= PAPER_MS[kind] if large else None,
                "The paper's computer had 950 MHz, so no slower counts as agreement."
                if large
                else "Only the full setting has tables this large.",
            )
        )
    found.append(_bytes(rows))
    (row,) = select(rows, kind="excluded")
    share = row["excluded"] / row["filters"]
    found.append(
        Claim(
            "4",
            "with 1,000 names, the first 10 of the 1,000 entries of the selectivity table exclude "
            "131,000 of 200,000 predicates",
            f"{row['excluded']:,.0f} of {row['filters']:,} ({share:.1%}), on average over messages",
            abs(share - PAPER_EXCLUDED) <= NEAR,
            f"The paper's share is {PAPER_EXCLUDED:.1%}. A filter is excluded if it constrains "
            "one of the ten commonest names and the message lacks that name. So the share follows "
            "from the distribution of names and from the number of attributes of messages.",
        )
    )
    return found


def _bytes(rows: Rows) -> Claim:
    sizes = {
        (kind, matcher): select(rows, kind=kind, matcher=matcher)[0]["bytes_per_constraint"]
        for kind in TITLES
        for matcher in (COUNTING, OURS)
    }
    return Claim(
        "1",
        "the table takes 48 bytes per constraint",
        "; ".join(
            f"{title}: counting {sizes[kind, COUNTING]:.0f}, ours {sizes[kind, OURS]:.0f} bytes"
            for kind, title in TITLES.items()
        ),
        max(sizes["twenty", COUNTING], sizes["twenty", OURS]) <= PAPER_BYTES
        if max(row["constraints"] for row in rows) > 4_000_000
        else None,
        "This counts the table that matching needs, not the predicates that it was compiled from. "
        "With few interfaces ours leaves out filters that a single constraint of the same "
        "interface covers.",
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, panels

    figure, (times, sizes) = panels(2)
    kinds = [kind for kind in TITLES if select(rows, kind=kind)]
    bars = (("paper F, 950 MHz", None), ("counting here", COUNTING), ("ours here", OURS))
    for number, (label, matcher) in enumerate(bars):
        places = [place + 0.27 * (number - 1) for place in range(len(kinds))]
        style: dict[str, Any] = {"width": 0.24, "color": COLOURS[(6, 0, 2)[number]], "label": label}
        if matcher is None:
            times.bar(places, [PAPER_MS[kind] for kind in kinds], **style)
            sizes.bar(places[-1:], [PAPER_BYTES], **style)
            continue
        found = [select(rows, kind=kind, matcher=matcher)[0] for kind in kinds]
        times.bar(places, [row["us"] / 1e3 for row in found], **style)
        sizes.bar(places, [row["bytes_per_constraint"] for row in found], **style)
    times.set_yscale("log")
    times.set_ylabel("time per message, ms")
    sizes.set_ylabel("bytes per constraint")
    for axes in (times, sizes):
        axes.set_xticks(range(len(kinds)), [TITLES[kind] for kind in kinds])
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="f9-headline",
    parts=("F9",),
    title="The headline figures of paper F",
    question="What do the paper's best-known figures come to today?",
    paper="Time per message of a centralized router and of one with 20 interfaces, memory, and how "
    "much the selectivity table excludes.",
    here="The same, with the paper's algorithm (ten rounds) and with ours. For 20 interfaces the "
    "paper's introduction speaks of 250,000 filters of 20 constraints, its evaluation of five "
    "constraints a filter; here it is five.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
    timed=True,
)
