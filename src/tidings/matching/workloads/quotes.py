"""The workload of stock quotes (paper L, Table 1; L6), asked for as PADRES asks.

The table is at odds with itself: 100 Mbit/s at 1,000 events a second are 12.5 kB an event, which is
more than a quote; and it has 1,000 subscribers where section 3.1 speaks of subscriptions "on the
order of millions". Both can be had: an event is a quote with its order book, or with
`event_bytes=125` a hundred times as many plain ones; subscribers have a thousand subscriptions
each, or one (`quotes-table`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.language.constraint import Constraint
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.matching.workloads.crowds import Numbers, uniform
from tidings.matching.workloads.draws import (
    BLOCK,
    Record,
    Subscription,
    blocks,
    describe,
    generator,
)
from tidings.matching.workloads.profile import PADDING, Profile, irregular, padded
from tidings.matching.workloads.vocabulary import Names, vocabulary

# What a subscription asks for and its share, as PADRES's generator draws it.
TEMPLATES: Final = (
    (("symbol", "high"), 0.10),
    (("symbol", "low"), 0.10),
    (("symbol", "volume"), 0.20),
    (("symbol",), 0.39),
    (("volume",), 0.20),
    ((), 0.01),
)
OPERATORS: Final = {"high": ">", "low": "<", "volume": ">"}
BITS_PER_SECOND: Final = 100e6  # of all publishers
TABLE_1: Final = Profile(
    publishers=10,
    events_per_second=100.0,  # 1,000/s of all
    event_bytes=12_500,
    latency_s=0.01,
    subscribers=1_000,
    subscriptions=1_000,
    renewal_s=3_600.0,
    clustering="power law",
    key="symbol",
)


@dataclass(frozen=True)
class QuotesWorkload:
    """Quotes of symbols; the popularity of a symbol and its trade follow Zipf's law.

    Every subscription says `class = 'STOCK'`; a fifth of them asks for large volumes of any symbol.
    """

    scale: int = 1
    symbols: int = 500
    exponent: float = 1.0  # of what subscriptions ask for
    activity: float = 0.5  # the exponent of what is traded
    subscriptions_each: int = 1_000
    event_bytes: int = 12_500
    seed: int = 0

    @property
    def profile(self) -> Profile:
        """The application at this scale; the bandwidth of the table is kept."""
        rate = BITS_PER_SECOND / (8 * self.event_bytes * TABLE_1.publishers)
        return replace(
            TABLE_1,
            event_bytes=self.event_bytes,
            events_per_second=rate,
            subscriptions=self.subscriptions_each,
        ).scaled(self.scale)

    def times(self, start: int, stop: int) -> NDArray[np.float64]:
        """When the events of these rows are published, in seconds."""
        return irregular(self.seed, "quotes", start, stop, self.profile.rate)

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        bounds = np.cumsum([share for _, share in TEMPLATES])[:-1]
        asked = Names(self.symbols, self.exponent)
        symbols = self._symbols()
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "quotes subscriptions", block)
            kinds = np.searchsorted(bounds, source.random(BLOCK), side="right").tolist()
            chosen = asked.draw(source, BLOCK)
            prices = self._prices(chosen) * np.exp(0.05 * source.standard_normal(BLOCK))
            volumes = self._volumes(source)
            limits = {
                "high": np.round(prices, 2).tolist(),
                "low": np.round(prices, 2).tolist(),
                "volume": volumes.tolist(),
            }
            names = chosen.tolist()
            for row in range(first, last):
                constraints = [Constraint("class", "=", "string", False, "STOCK")]
                for name in TEMPLATES[kinds[row]][0]:
                    if name == "symbol":
                        operator, operand = "=", symbols[names[row]]
                        constraints.append(Constraint(name, operator, "string", False, operand))
                    else:
                        limit = limits[name][row]
                        constraints.append(
                            Constraint(name, OPERATORS[name], "number", False, limit)
                        )
                yield block * BLOCK + row, Predicate.of((Filter(sorted(constraints)),))

    def events(self, start: int, stop: int) -> list[Record]:
        traded = Names(self.symbols, self.activity)
        symbols = self._symbols()
        found: list[Record] = []
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "quotes events", block)
            chosen = traded.draw(source, BLOCK)
            steps = np.exp(0.05 * source.standard_normal((BLOCK, 4)))
            prices = np.round(self._prices(chosen)[:, None] * steps, 2)
            volumes = self._volumes(source).tolist()
            names, opened, closed = chosen.tolist(), prices[:, 0].tolist(), prices[:, 1].tolist()
            low, high = prices.min(axis=1).tolist(), prices.max(axis=1).tolist()
            for row in range(first, last):
                event = {
                    "class": "STOCK",
                    "symbol": symbols[names[row]],
                    "open": opened[row],
                    "high": high[row],
                    "low": low[row],
                    "close": closed[row],
                    "volume": volumes[row],
                }
                found.append(padded(event, self.event_bytes))
        return found

    def event_table(self, start: int, stop: int) -> pa.Table:
        return pa.Table.from_pylist(self.events(start, stop), schema=_SCHEMA)

    def describe(self) -> str:
        return describe(self)

    def _symbols(self) -> list[str]:
        return [word.upper() for word in vocabulary("symbols", self.symbols)]

    def _prices(self, chosen: Numbers) -> NDArray[np.float64]:
        """The price around which a symbol is traded."""
        return np.asarray(np.exp(1.5 + 3 * uniform(self.seed, "quotes price", chosen)))

    def _volumes(self, source: np.random.Generator) -> NDArray[np.int64]:
        return np.exp(source.normal(12.0, 1.5, BLOCK)).astype(np.int64)


_SCHEMA: Final = pa.schema(
    {
        "class": pa.string(),
        "symbol": pa.string(),
        **dict.fromkeys(("open", "high", "low", "close"), pa.float64()),
        "volume": pa.int64(),
        PADDING: pa.string(),
    }
)
