"""The algebra on predicates as texts, held to what events match."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.networks import EVENTS, TEXTS
from tidings.language.predicate import parse
from tidings.language.work import STEPS
from tidings.routing.planes.interests import (
    EVERYTHING,
    NOTHING,
    Bounds,
    Effort,
    beyond,
    join,
    readable,
)


@given(st.sampled_from(TEXTS[2:]), st.sampled_from(TEXTS[2:]), st.sampled_from(EVENTS))
def test_what_a_predicate_adds_is_what_the_other_lacks(
    text: str, known: str, event: dict[str, Any]
) -> None:
    rest = beyond(text, known)
    both = parse(known).matches(event) or parse(rest).matches(event)
    assert both == (parse(known).matches(event) or parse(text).matches(event))
    assert parse(text).covers(parse(rest))
    assert (rest == NOTHING) == parse(known).covers(parse(text))
    assert parse(join((text, known))).matches(event) == both


@given(
    st.lists(st.sampled_from(TEXTS[2:]), max_size=6),
    st.sampled_from([Bounds(8, 1, 1), Bounds(30, 3, 2), Bounds(80, 6, 4)]),
    st.sampled_from(EVENTS),
)
def test_past_the_bounds_a_join_is_coarser_and_never_less(
    texts: list[str], bounds: Bounds, event: dict[str, Any]
) -> None:
    joined = join(texts, bounds)
    assert len(joined) <= bounds.characters
    if any(parse(text).matches(event) for text in texts):
        assert parse(joined).matches(event)


def test_what_is_known_is_never_taken_for_more_than_it_is() -> None:
    """Too much to join exactly: the join covers what none of the parts does."""
    lists = [", ".join(f"'{k}-{n}'" for n in range(3_000)) for k in range(9)]
    known = [f"a in ({constants})" for constants in lists]
    assert parse(join(known)).covers(parse("a = '3-none'"))
    assert Effort().beyond_all("a = '3-none'", known) == "a = '3-none'"
    assert Effort().beyond_all("a = '3-7'", known) == NOTHING
    assert Effort().beyond_all("b = 1 or " + known[0], known) != NOTHING


def test_a_text_that_cannot_be_read_stands_for_everything() -> None:
    assert readable("price >> 5") == readable("(" * 70 + "x = 1" + ")" * 70) == EVERYTHING
    assert readable("price > 5") == "price > 5"


@given(
    st.lists(st.sampled_from(TEXTS[2:]), max_size=4),
    st.sampled_from(TEXTS[2:]),
    st.sampled_from(EVENTS),
    st.sampled_from((0, 5, 100)),
)
def test_without_steps_a_join_is_longer_and_never_less(
    texts: list[str], known: str, event: dict[str, Any], left: int
) -> None:
    effort = Effort()
    effort.left = left
    joined = effort.join(texts)
    rest = effort.beyond_all(joined, [known])
    if any(parse(text).matches(event) for text in texts):
        assert parse(joined).matches(event)
        assert parse(rest).matches(event) or parse(known).matches(event)
    effort.left = 0
    if len(effort.join(texts)) > 100:
        effort.bounds = Bounds(characters=100)
        assert effort.join(texts) == EVERYTHING


def test_all_filters_of_a_predicate_are_compared_within_the_steps_of_one_operation() -> None:
    text, known = hostile("like", "abxy"), hostile("ilike", "a")
    effort = Effort()
    assert effort.beyond(text, known) == text
    assert STEPS // 2 < Effort().left - effort.left < 2 * STEPS


def test_what_is_kept_costs_what_it_took_to_find() -> None:
    texts = [hostile("like", "abxy"), hostile("ilike", "a")]
    first, second = Effort(), Effort()
    for effort in (first, second):
        effort.join(texts)
        effort.beyond(*texts)
        effort.beyond_all(texts[0], texts[1:])
    assert first.left == second.left < Effort().left
    first.begin()
    assert first.left == Effort().left


def hostile(operator: str, ends: str) -> str:
    """Patterns of which every one has to be compared with every other."""
    return " or ".join(
        f"a {operator} '*{c}*{d}*{e}*' and not a {operator} '*{d}*{c}*'"
        for c in "abcdijkl"
        for d in "efgh"
        for e in ends
    )
