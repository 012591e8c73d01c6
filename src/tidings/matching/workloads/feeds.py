"""The workload of RSS feeds (paper L, Table 1; L6): items, found by feed and by keyword."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.language.constraint import Constraint
from tidings.language.filter import normalise
from tidings.language.predicate import Predicate
from tidings.matching.workloads.draws import (
    BLOCK,
    Record,
    Shares,
    Subscription,
    blocks,
    bounds_of,
    check_shares,
    describe,
    generator,
)
from tidings.matching.workloads.profile import MONTH_S, PADDING, Profile, irregular, padded
from tidings.matching.workloads.vocabulary import Names, vocabulary

KEYWORDS: Final = 3  # at most, of a subscription
TITLE: Final = (4, 10)  # words, uniform
TABLE_1: Final = Profile(
    publishers=10_000,
    events_per_second=0.01,  # 100/s of all
    event_bytes=800,
    latency_s=10.0,
    subscribers=1_000_000,
    subscriptions=1,
    renewal_s=MONTH_S,
    clustering="power law",
    key="feed",
)


@dataclass(frozen=True)
class FeedsWorkload:
    """Items of feeds, whose popularity follows Zipf's law; some readers look for words instead.

    Feeds publish alike and at any time. The words of titles and of keywords follow Zipf's law too.
    """

    scale: int = 1
    exponent: float = 1.0  # of the popularity of feeds
    kinds: Shares = (("feed", 0.7), ("both", 0.2), ("words", 0.1))
    words: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_shares("kinds", self.kinds, frozenset({"feed", "both", "words"}))

    @property
    def profile(self) -> Profile:
        """The application at this scale."""
        return TABLE_1.scaled(self.scale)

    def times(self, start: int, stop: int) -> NDArray[np.float64]:
        """When the events of these rows are published, in seconds."""
        return irregular(self.seed, "feeds", start, stop, self.profile.rate)

    def subscriptions(self, start: int, stop: int) -> Iterator[Subscription]:
        feeds = Names(self.profile.publishers, self.exponent)
        spoken = Names(self.words)
        words = vocabulary("words", self.words)
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "feeds subscriptions", block)
            bounds = bounds_of(self.kinds)
            kinds = np.searchsorted(bounds, source.random(BLOCK), side="right").tolist()
            chosen = feeds.draw(source, BLOCK).tolist()
            counts = source.integers(1, KEYWORDS + 1, BLOCK).tolist()
            drawn = spoken.draw_distinct(source, BLOCK, KEYWORDS).tolist()
            for row in range(first, last):
                kind = self.kinds[kinds[row]][0]
                constraints = []
                if kind != "words":
                    feed = f"feed-{chosen[row]}"
                    constraints.append(Constraint("feed", "=", "string", False, feed))
                if kind != "feed":
                    # Who names a feed adds one word; who names none takes several.
                    for number in drawn[row][: 1 if kind == "both" else counts[row]]:
                        word = words[number]
                        constraints.append(Constraint("title", "icontains", "string", False, word))
                filter = normalise(constraints)
                assert filter is not None
                yield block * BLOCK + row, Predicate.of((filter,))

    def events(self, start: int, stop: int) -> list[Record]:
        profile = self.profile
        spoken = Names(self.words)
        words = vocabulary("words", self.words)
        published = self.times(start, stop).astype(int).tolist()
        found: list[Record] = []
        for block, first, last in blocks(start, stop):
            source = generator(self.seed, "feeds events", block)
            feeds = source.integers(0, profile.publishers, BLOCK).tolist()
            lengths = source.integers(*TITLE, BLOCK).tolist()
            titles = spoken.draw(source, (BLOCK, TITLE[1] - 1)).tolist()
            for row in range(first, last):
                title = " ".join(words[number] for number in titles[row][: lengths[row]])
                event = {
                    "feed": f"feed-{feeds[row]}",
                    "title": title.capitalize(),
                    "published": published[len(found)],
                }
                found.append(padded(event, profile.event_bytes))
        return found

    def event_table(self, start: int, stop: int) -> pa.Table:
        return pa.Table.from_pylist(self.events(start, stop), schema=_SCHEMA)

    def describe(self) -> str:
        return describe(self)


_SCHEMA: Final = pa.schema(
    {"feed": pa.string(), "title": pa.string(), "published": pa.int64(), PADDING: pa.string()}
)
