"""Rendezvous functions (L3): who matches is met."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.strategies import NAMES, expressions, flat_events
from tidings.language.predicate import Predicate, parse
from tidings.routing.layers.rendezvous import (
    ByHash,
    ByRange,
    Keys,
    Rendezvous,
    RendezvousError,
    absent,
    cuts_of,
    keys_of,
    placed,
    rendezvous_of,
    wide,
)

NAME = NAMES[0]
numbers = st.lists(st.integers(-5, 5) | st.floats(-3, 3), min_size=1, max_size=6)
texts = st.lists(st.text("abA", max_size=2), min_size=1, max_size=6)
functions: st.SearchStrategy[Rendezvous] = st.one_of(
    st.just(ByHash(NAME)),
    st.one_of(numbers, texts).map(lambda cuts: ByRange(NAME, sorted(set(cuts)))),
)


def met(function: Rendezvous, predicate: Predicate, event: Any, regions: int, most: int) -> bool:
    found = placed(function, predicate, regions, most)
    return bool((keys_of(function, event, regions) | {wide(regions)}) & found)


@given(functions, expressions(), flat_events, st.integers(1, 12), st.integers(1, 20))
def test_who_matches_is_met(
    function: Rendezvous, expression: Any, event: dict[str, Any], regions: int, most: int
) -> None:
    predicate = Predicate(expression)
    if predicate.matches(event):
        assert met(function, predicate, event, regions, most)


@given(functions, flat_events, st.integers(1, 9))
def test_an_event_has_a_key_and_no_key_is_out_of_range(
    function: Rendezvous, event: dict[str, Any], regions: int
) -> None:
    found = keys_of(function, event, regions)
    assert found
    assert found <= set(range(regions + 1))


BOTH = [ByHash("x"), ByRange("x", (1, 4)), ByRange("x", ("b", "d"))]


@pytest.mark.parametrize("function", BOTH, ids=["hash", "numbers", "texts"])
@pytest.mark.parametrize(
    ("predicate", "event"),
    [
        ("x > 3 and x < 1", {"x": [0, 5]}),  # two values, each in a place of its own
        ("x = 'a' and x = 'e'", {"x": ["e", "c", "a"]}),
        ("not x = 5", {}),
        ("not x = 5", {"x": [1, "a", True]}),
        ("y = 1", {"y": 1, "x": 9}),
        ("y = 1", {"y": 1}),
        ("x = 3", {"x": 3.0}),
        ("x = 3.0", {"x": 3}),
        ("x = true", {"x": True}),
        ("x = 0.0", {"x": -0.0}),
        ("exists x", {"x": math.nan}),
        ("exists x", {"x": [math.nan, 2]}),
        ("not x > 3", {"x": math.nan}),
        ("x i= 'A'", {"x": "a"}),
        ("x >= 'e\u0301'", {"x": "\u00e9"}),
        ("x = 'e\u0301'", {"x": "e\u0301"}),
        ("x = 9007199254740993", {"x": 9007199254740993}),
        ("x = 1e300", {"x": 1e300}),
        ("x != 3", {"x": [3, 4]}),
    ],
)
def test_values_of_every_kind_are_met(
    function: Rendezvous, predicate: str, event: dict[str, Any]
) -> None:
    assert parse(predicate).matches(event)
    for regions in (1, 2, 3, 7, 64):
        for most in (1, 8, 100):
            assert met(function, parse(predicate), event, regions, most)


def test_a_key_test_needs_one_place_and_others_are_wide() -> None:
    by_topic = rendezvous_of("hash:topic")
    assert len(placed(by_topic, parse("topic = 'a' and x > 3"), 64, 8)) == 1
    assert len(placed(by_topic, parse("topic in ('a', 'b') and topic > 'a'"), 64, 8)) == 2
    for text in ("x > 3", "not topic = 'a'", "topic prefix 'a'", "topic = 'a' or x = 1"):
        assert placed(by_topic, parse(text), 64, 8) == {wide(64)}
    assert placed(by_topic, parse("x > 3"), 4, 8) == {0, 1, 2, 3, absent(4)}
    assert placed(by_topic, parse("false"), 4, 8) == frozenset()


def test_ranges_touch_the_cuts_that_they_can_meet() -> None:
    by_price = rendezvous_of("range:price:10,20,30")
    assert placed(by_price, parse("price < 10"), 4, 8) == {0}
    assert placed(by_price, parse("price <= 10"), 4, 8) == {0, 1}
    assert placed(by_price, parse("price between 12 and 35"), 4, 8) == {1, 2, 3}
    assert placed(by_price, parse("price = 'cheap'"), 4, 8) == {absent(4)}
    assert placed(by_price, parse("price > 25 and price < 5"), 4, 8) in ({0}, {2, 3})
    by_name = rendezvous_of("range:name:g,n,t")
    assert placed(by_name, parse("name prefix 'ab'"), 4, 8) == {0}
    assert placed(by_name, parse("name like 'h%'"), 4, 8) == {1}


def test_cuts_of_a_sample_divide_it_evenly() -> None:
    sample = [n * n for n in range(1000)]
    function = ByRange("x", cuts_of(sample, 15))
    counts = [0] * 16
    for value in sample:
        counts[min(function.event({"x": value}, 16))] += 1
    assert max(counts) <= 1.1 * len(sample) / 16
    assert cuts_of([]) == ()
    assert cuts_of(["b", "a", 1], 1) == ("b",)


class Lying:
    """A function of a user: it forgets that events may lack the topic, and counts from 1."""

    def event(self, event: Mapping[str, Any], regions: int) -> Keys:
        return frozenset((len(event.get("topic", "")) + 1,))

    def places(self, predicate: Predicate, regions: int) -> Keys | None:
        return frozenset((0,))


def test_functions_of_users_are_found_by_name_and_checked() -> None:
    mine = rendezvous_of(f"call:{__name__}:Lying")
    assert keys_of(mine, {"topic": "abc"}, 8) == {4}
    assert keys_of(mine, {"topic": "abc"}, 2) == {0, 1, 2}  # 4 is no key: it is asked everywhere


class Failing:
    """Functions of a user that do not work."""

    def event(self, event: Mapping[str, Any], regions: int, /) -> Any:
        return {"empty": frozenset(), "text": "abc", "none": None}.get(event["topic"], {1 / 0})

    def places(self, predicate: Predicate, regions: int, /) -> Any:
        raise KeyError("topic")


def test_functions_of_users_that_fail_lose_nothing_and_are_counted() -> None:
    mine = rendezvous_of(f"call:{__name__}:Failing")
    for number, topic in enumerate(("empty", "text", "none", "zero"), 1):
        assert keys_of(mine, {"topic": topic}, 3) == {0, 1, 2, 3}
        assert mine.failures == number  # type: ignore[attr-defined]
    assert keys_of(mine, {}, 3) == {0, 1, 2, 3}
    assert placed(mine, parse("topic = 'a'"), 3, 8) == {0, 1, 2, 3}
    assert placed(mine, parse("topic = 'a'"), 30, 8) == {wide(30)}
    assert mine.failures == 7  # type: ignore[attr-defined]


class Nowhere:
    """Functions of a user that put a subscription nowhere."""

    def event(self, event: Mapping[str, Any], regions: int, /) -> Any:
        return [0]

    def places(self, predicate: Predicate, regions: int, /) -> Any:
        return "" if predicate == parse("x = 1") else frozenset()


def test_what_a_function_of_a_user_puts_nowhere_is_found_and_counted() -> None:
    mine = rendezvous_of(f"call:{__name__}:Nowhere")
    for number, text in enumerate(("x = 1", "x = 2", "not x = 1"), 1):
        assert placed(mine, parse(text), 3, 8) == {0, 1, 2, 3}
        assert mine.failures == number  # type: ignore[attr-defined]
    assert placed(mine, parse("false"), 3, 8) == frozenset()  # nothing matches it
    assert mine.failures == 3  # type: ignore[attr-defined]


def test_integers_that_no_real_can_hold_are_values_and_no_cuts() -> None:
    huge = 10**400
    assert cuts_of([1, 2, 3, huge, -huge, math.inf, math.nan, True], 2) == (2, 3)
    for function in (ByHash("size"), ByRange("size", (1, 2**70))):
        for event in ({"size": huge}, {"size": 1e308}, {"size": [math.inf, -huge]}):
            assert met(function, parse("size > 5"), event, 4, 8)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("hash", "expected the name of an attribute"),
        ("sum:x", "expected one of one, hash, range, type, call, found 'sum'"),
        ("one:x", "expected nothing behind it"),
        ("range:x", "expected an attribute and cuts"),
        ("range:x:3,2", "expected cuts that grow"),
        ("range:x:1,a", "all numbers or all texts"),
        ("range:x:1,inf", "expected finite cuts"),
        (f"range:x:1,{10**400}", "expected finite cuts"),
        ("call:x", "expected module:object"),
        ("call:no.such.module:x", "No module named"),
        ("call:math:pi", "expected a function event"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_was_expected(text: str, error: str) -> None:
    with pytest.raises(RendezvousError, match=error):
        rendezvous_of(text)


# Toys that must not pass


class FirstValueOnly(ByHash):
    """Takes one value for the key, though attributes are sets."""

    def event(self, event: Mapping[str, Any], regions: int, /) -> Keys:
        return frozenset((min(super().event(event, regions)),))


class Intersecting(ByRange):
    """Takes the keys that all constraints of a filter share: two values may meet them."""

    def places(self, predicate: Predicate, regions: int, /) -> Keys | None:
        found: set[int] = set()
        for filter in predicate.filters:
            keys = [self._of(c, regions) for c in filter if c.name == self.name and not c.negated]
            if not keys:
                return None
            found |= frozenset.intersection(*[k for k in keys if k is not None])
        return frozenset(found)


class AbsentForgotten(ByHash):
    """Lets what tests the attribute only negated lie at the keys of values."""

    def places(self, predicate: Predicate, regions: int, /) -> Keys | None:
        found = super().places(predicate, regions)
        return frozenset(range(regions)) if found is None else found


@pytest.mark.parametrize(
    ("toy", "predicate", "event"),
    [
        (FirstValueOnly("x"), "x = 'b'", {"x": ["a", "b", "c", "d"]}),
        (Intersecting("x", (2,)), "x > 3 and x < 1", {"x": [0, 5]}),
        (AbsentForgotten("x"), "not x = 1", {}),
    ],
)
def test_functions_that_are_easily_got_wrong_break_the_law(
    toy: Rendezvous, predicate: str, event: dict[str, Any]
) -> None:
    assert parse(predicate).matches(event)
    assert not met(toy, parse(predicate), event, 16, 100)
