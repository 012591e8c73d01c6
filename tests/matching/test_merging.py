"""Merging: a segment that has grown finds the same as one that is compiled anew."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.language import oracle, strategies
from tidings import Event, Predicate, parse
from tidings.language.expression import Expression
from tidings.matching.contract import Id
from tidings.matching.recent import RecentIndex
from tidings.matching.recent_ranking import rank_recent
from tidings.matching.segment import Segment
from tidings.matching.statistics import statistics_of
from tidings.matching.workload import WORKLOADS

bounds = st.sampled_from([4096, 4096, 2])  # the last leaves many without a normal form
# For each round the numbers to remove, if they exist, and the expressions to add.
rounds = st.lists(
    st.tuples(
        st.sets(st.integers(0, 12)), st.lists(strategies.expressions(size=4), max_size=6), bounds
    ),
    min_size=2,
    max_size=4,
)
many_events = st.lists(strategies.flat_events, min_size=1, max_size=4)


def satisfied(held: dict[Id, Predicate], event: dict[str, Any]) -> list[Id]:
    """The ids whose predicate an event satisfies, by the slow twin."""
    flat = {n: [*v] if isinstance(v, tuple) else [v] for n, v in Event(event).items()}
    return sorted(id for id, p in held.items() if oracle.holds(p.expression, flat, event))


def grow(
    segment: Segment, removed: set[int], more: dict[Id, Predicate], recent: bool = False
) -> Segment:
    """The segment without these numbers and with more, given as predicates or as recent ones."""
    flags = segment.removed.copy()
    flags[[number for number in removed if number < flags.size]] = True
    if not recent:
        return segment.grown(flags, more)
    assert segment.coordinates is not None
    held = RecentIndex()
    for id, predicate in more.items():
        while not held.add(id, predicate):
            held = held.larger(predicate)
    while not held.file():
        held = held.larger()
    numbers = [held.numbers[id] for id in more]
    slots = segment.coordinates.slots.copy()
    return segment.joined(flags, list(more), rank_recent(held, numbers, list(more.values()), slots))


@pytest.mark.parametrize("recent", [False, True])
@given(rounds, many_events)
def test_a_segment_that_has_grown_finds_what_a_compiled_one_finds(
    recent: bool,
    changes: list[tuple[set[int], list[Expression], int]],
    events: list[dict[str, Any]],
) -> None:
    segment = Segment.growing({})
    held: dict[Id, Predicate] = {}
    for turn, (removed, coming, bound) in enumerate(changes):
        more: dict[Id, Predicate] = {
            1_000 * turn + n: Predicate(e, bound) for n, e in enumerate(coming)
        }
        for number in removed:
            if number < len(segment.ids) and not segment.removed[number]:
                del held[segment.ids[number]]
        segment = grow(segment, removed, more, recent)
        held |= more
        assert sorted(segment.held()) == sorted(held)
        assert len(segment) == len(held)
        assert all(segment.ids[segment.number_of(id)] == id for id in held)  # type: ignore[index]
        found = [sorted(segment.match(Event(event))) for event in events]
        assert found == [satisfied(held, event) for event in events]


@pytest.mark.slow
@pytest.mark.parametrize("recent", [False, True])
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_growing_table_of_a_workload_is_as_large_as_one_compiled_anew(
    name: str, recent: bool
) -> None:
    """And what it keeps to grow is the same too, though most of it has been replaced."""
    workload = WORKLOADS[name](seed=3)
    pairs = list(workload.subscriptions(0, 6_000))
    events = workload.events(0, 40)
    segment = Segment.growing(dict(pairs[:4_000]))
    for begin in range(0, 2_000, 500):
        removed = set(range(begin, begin + 500))
        segment = grow(segment, removed, dict(pairs[4_000 + begin : 4_500 + begin]), recent)
    new = Segment.growing(dict(pairs[2_000:]))
    assert [sorted(segment.match(e)) for e in events] == [sorted(new.match(e)) for e in events]
    assert len(segment) == len(new) == 4_000
    assert segment.plan.filters == new.plan.filters
    assert segment.plan.constraints == new.plan.constraints
    assert segment.plan.bytes == pytest.approx(new.plan.bytes, rel=0.1)
    assert segment.coordinates is not None
    assert new.coordinates is not None
    assert segment.coordinates.bytes == pytest.approx(new.coordinates.bytes, rel=0.1)
    batch = workload.event_table(0, 300)
    pairs_found = [sorted(_pairs(table, batch)) for table in (segment, new)]
    assert pairs_found[0] == pairs_found[1]


def _pairs(segment: Segment, batch: pa.RecordBatch) -> list[tuple[int, Id]]:
    found = segment.match_batch(batch)
    return [
        (row, segment.ids[number])
        for rows, numbers in found
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)
    ]


RANKS = [
    "x < {0}", "x <= {0}", "x > {0}", "x >= {0}", "x = {0}", "x != {0}", "not x < {0}",
    "x between {0} and {1}", "x in ({0}, {1})", "not x in ({0}, {1})", "not x > {1}",
]  # fmt: skip


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.sampled_from(RANKS), st.integers(0, 9)), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_ranges_stay_the_same_whatever_constants_come_between(
    tests: list[tuple[str, int]], textual: bool, recent: bool
) -> None:
    def written(value: int) -> str:
        return f"'{value}'" if textual else str(value)

    segment = Segment.growing({})
    held: dict[Id, Predicate] = {}
    for id, (test, low) in enumerate(tests):
        held[id] = parse(test.format(written(low), written(low + 1)))
        segment = grow(segment, set(), {id: held[id]}, recent)
    events: list[dict[str, Any]] = [
        {"x": str(value) if textual else value} for value in range(-1, 12)
    ]
    for event in events:
        assert sorted(segment.match(event)) == satisfied(held, event)


def test_statistics_still_choose_the_constraint_after_merging() -> None:
    events = [{"a": n % 2, "b": n} for n in range(100)]
    statistics = statistics_of(events)
    held: dict[Id, Predicate] = {n: parse(f"a = 1 and b = {n}") for n in range(20)}
    segment = Segment.growing(held, statistics)
    more: dict[Id, Predicate] = {n: parse(f"a = 1 and b = {n}") for n in range(20, 40)}
    grown = segment.grown(np.arange(20) < 10, more, statistics)
    assert grown.coordinates is not None
    assert grown.coordinates.shares is not None
    assert grown.coordinates.shares.size == 60
    assert grown.match({"a": 1, "b": 5}) == []
    assert grown.match({"a": 1, "b": 15}) == [15]
    assert grown.match({"a": 1, "b": 25}) == [25]


def test_what_no_filter_mentions_any_more_is_not_kept_for_ever() -> None:
    """Constants are dropped at once; attributes, patterns and residuals when they are too many."""
    segment = Segment.growing({})
    for turn in range(6):
        more: dict[Id, Predicate] = {
            f"{turn} {n}": parse(f"a{turn}x{n} = 1 and t contains 'needle {turn} {n}'")
            for n in range(500)
        }
        segment = segment.grown(np.ones(len(segment.ids), bool), more)
        assert len(segment.match({f"a{turn}x7": 1, "t": f"a needle {turn} 7"})) == 1
        assert len(segment.ids) == 500
        if segment.coordinates is None:  # so next time everything is compiled anew
            return
    pytest.fail("everything is kept")


def test_an_id_may_come_back_in_another_place() -> None:
    segment = Segment.growing({"a": parse("x = 1"), "b": parse("x = 2"), "c": parse("x = 3")})
    segment.remove("b")
    before = segment
    segment = segment.grown(segment.removed.copy(), {"d": parse("x = 4"), "b": parse("x = 5")})
    assert [segment.number_of(id) for id in "abcd"] == [0, 3, 2, 1]
    assert [before.number_of(id) for id in "abcd"] == [0, None, 2, None]
    assert segment.match({"x": 2}) == []
    assert segment.match({"x": 5}) == ["b"]
    assert segment.remove("b")
    assert segment.match({"x": 5}) == []
    smaller = segment.grown(segment.removed.copy(), {})
    assert len(smaller) == 3
    assert smaller.number_of("b") is None
    assert smaller.match({"x": 4}) == ["d"]


LARGE = 2**53
EDGES = [
    "x > {0}", "x >= {0}", "x < {0}", "x <= {0}", "x = {0}", "x != {0}", "x in ({0}, 1.5)",
    "x between {0} and {0}", "not x > {0}", "real x >= {0}",
]  # fmt: skip


@pytest.mark.parametrize("test", EDGES)
def test_numbers_between_doubles_are_ranked_as_they_are(test: str) -> None:
    constants = [
        LARGE - 1,
        LARGE,
        LARGE + 1,
        LARGE + 2,
        -LARGE - 1,
        2**63 - 1,
        -(2**63),
        0,
        -0.0,
        0.5,
    ]
    held: dict[Id, Predicate] = {n: parse(test.format(c)) for n, c in enumerate(constants)}
    segment = grow(Segment.growing({99: parse("x > 7")}), {0}, held, recent=True)
    for value in [*constants, float(LARGE), 2**63, 2**64, 1.5, float("inf")]:
        event = {"x": value}
        found = [id for id in segment.match(event) if id != 99]
        assert sorted(found) == satisfied(held, event)


PREFIXES = ["", "a", "a\x7f", "a\u07ff", "\ud7ff", "\uffff", "b\U0010ffff", "\U0010ffff", "é€😀"]


@pytest.mark.parametrize("test", ["t prefix '{0}'", "t suffix '{0}'", "t iprefix '{0}'"])
def test_what_follows_a_prefix_is_the_next_character(test: str) -> None:
    held: dict[Id, Predicate] = {n: parse(test.format(p)) for n, p in enumerate(PREFIXES)}
    segment = grow(Segment.growing({}), set(), held, recent=True)
    for text in PREFIXES:
        for character in ("", "\0", "z", "\ue000", "\U0010ffff"):
            for value in (text + character, character + text):
                event = {"t": value}
                assert sorted(segment.match(event)) == satisfied(held, event)


PATTERNS = [
    "a%b",
    "%abc%",
    "_x%",
    "abc%de_",
    "%",
    "_",
    "%_%",
    "é%€",
    r"a\%b%c",
    "%%tail",
    "x_y%zz%",
]


@pytest.mark.parametrize("test", ["t like '{0}'", "not t like '{0}'", "t like '{0}' and x > 1"])
def test_patterns_are_filed_under_a_literal_in_them(test: str) -> None:
    held: dict[Id, Predicate] = {n: parse(test.format(p)) for n, p in enumerate(PATTERNS)}
    segment = grow(Segment.growing({}), set(), held, recent=True)
    for pattern in PATTERNS:
        for part in ("", "b", "é", "zz", "abc"):
            text = pattern.replace("\\%", "%").replace("%", part).replace("_", "x")
            for event in ({"t": text, "x": 2}, {"t": text + "b", "x": 2}, {"t": text}, {"x": 2}):
                assert sorted(segment.match(event)) == satisfied(held, event)
