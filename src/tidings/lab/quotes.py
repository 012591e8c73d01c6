"""Stock quotes for experiments: those of PADRES, or drawn ones of the same shape without them.

The quotes of PADRES, and 10,000 subscriptions to them, are not part of this repository: the lab
looks for them in `../shared/data/padres-stockquotes` beside the clone. Where they are absent,
`matching/workloads/quotes.py` draws some. The sweep of an experiment names the source (`source`),
so a result always says which quotes it is from; a task that has not got them fails.

With *locality* p a subscriber asks, with probability p, for a symbol that is popular at its own
node; else for any. Subscriptions that name no symbol (one in six or so) are the same everywhere.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from tidings.matching.workloads.profile import PADDING
from tidings.matching.workloads.quotes import QuotesWorkload

FOLDER: Final = Path(__file__).parents[4] / "shared" / "data" / "padres-stockquotes"
OPERATORS: Final = {"eq": "=", ">": ">", "<": "<"}
EVERY: Final = 49  # of the 245,190 quotes, one in so many is used
SYMBOLS: Final = 100  # as many as PADRES has
POPULAR: Final = 4  # symbols at one node
DRAWN: Final = 5_000  # quotes, and subscriptions
ANY: Final = ""  # the symbol of a subscription that names none

Event = dict[str, Any]
Source = Literal["padres", "drawn"]


def source() -> Source:
    """Where quotes come from on this machine."""
    return "padres" if FOLDER.is_dir() else "drawn"


class Quotes:
    """Quotes, and what is asked for, by symbol."""

    def __init__(self, origin: str, asked: Iterable[tuple[str, str]], events: list[Event]) -> None:
        self.origin = origin
        self.asked: dict[str, list[str]] = {}
        for symbol, text in asked:
            self.asked.setdefault(symbol, []).append(text)
        self.quoted: dict[str, list[Event]] = {}
        for event in events:
            self.quoted.setdefault(event["symbol"], []).append(event)
        # What is asked for and quoted; the others would be subscriptions that nobody serves.
        self.symbols = sorted(self.asked.keys() & self.quoted.keys())
        kept = (ANY, *self.symbols)
        self._all = [(one, text) for one in kept for text in self.asked.get(one, ())]

    def draw_filter(self, chance: Random, node: int, locality: float) -> str:
        """What someone at a node asks for."""
        symbol, text = chance.choice(self._all)
        if symbol != ANY and chance.random() < locality:
            mine = self.symbols[(node * POPULAR + chance.randrange(POPULAR)) % len(self.symbols)]
            return chance.choice(self.asked[mine])
        return text

    def draw_quote(self, chance: Random, symbol: str | None = None) -> Event:
        """A quote of a symbol; of any, if none is named."""
        return chance.choice(self.quoted[symbol or chance.choice(self.symbols)])


@lru_cache(maxsize=2)
def quotes(source: Source) -> Quotes:
    """The quotes of a source."""
    if source == "drawn":
        work = QuotesWorkload(symbols=SYMBOLS, exponent=0.0, event_bytes=125, seed=1)
        events = work.events(0, DRAWN)
        for event in events:
            del event[PADDING]
        asked = [
            (next((str(c.operand) for c in one.filters[0] if c.name == "symbol"), ANY), str(one))
            for _, one in work.subscriptions(0, DRAWN)
        ]
        return Quotes("Drawn quotes: those of PADRES are not beside this clone.", asked, events)
    with gzip.open(FOLDER / "subscriptions_10000.jsonl.gz", "rt") as file:
        rows = [json.loads(line)["predicates"] for line in file]
    asked = [
        (
            next((value for name, _, value in row if name == "symbol"), ANY),
            " and ".join(
                f"{name} {OPERATORS[operator]} {value!r}" for name, operator, value in row
            ),
        )
        for row in rows
    ]
    with lzma.open(FOLDER / "stockquotes.jsonl.xz", "rt") as file:
        events = [json.loads(line) for number, line in enumerate(file) if number % EVERY == 0]
    return Quotes(
        f"{len(events):,} quotes and {len(asked):,} subscriptions of PADRES.", asked, events
    )
