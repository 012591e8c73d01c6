"""Hulls cover what they stand for, also where attributes hold lists."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.language.test_poset import FILTERS, TEXTS
from tidings.language.hull import MOST_LISTED, hull
from tidings.language.predicate import Predicate, parse

VALUES = [0, 1, 2, 1.5, 5, "x", "xy", "y", True, [1, 5], [0, 9], ["x", 1], []]
WORLD = [
    {name: value for name, value in (("a", a), ("b", b)) if value is not None}
    for a, b in product([None, *VALUES], repeat=2)
]
MORE = ["a > 2 and a < 5", "a > 3 and a < 9", "a < 0", "b > 'a' and b < 'z'", "a = true", "a = 1.5"]
EVERY = {**FILTERS, **{text: parse(text).filters[0] for text in MORE}}


@settings(max_examples=examples(200))
@given(st.sampled_from([*TEXTS, *MORE]), st.sampled_from([*TEXTS, *MORE]))
def test_a_hull_matches_whatever_one_of_the_two_matches(one: str, other: str) -> None:
    both = EVERY[one], EVERY[other]
    joined = hull(*both)
    assert all(joined.covers(filter) for filter in both)
    assert hull(joined, both[0]).covers(joined)
    checks = [Predicate.of((filter,)) for filter in both]
    whole = Predicate.of((joined,))
    for event in WORLD:
        if any(check.matches(event) for check in checks):
            assert whole.matches(event)


def text_of(one: str, other: str) -> str:
    return str(hull(parse(one).filters[0], parse(other).filters[0]))


def test_the_survey_s_example_is_merged_precisely() -> None:
    assert text_of("a1 = 'v1' and a2 = 'v2'", "a1 = 'v1' and a2 = 'v3'") == (
        "a1 = 'v1' and a2 in ('v2', 'v3')"
    )


def test_bounds_of_one_attribute_are_not_made_one_range() -> None:
    """Two values of a list may meet two bounds."""
    assert text_of("a > 2 and a < 5", "a > 4 and a < 9") == "a < 9 and a > 2"


def test_long_lists_become_ranges_and_prefixes() -> None:
    numbers = f"a in ({', '.join(map(str, range(MOST_LISTED)))})"
    assert text_of(numbers, "a = 99") == "a between 0 and 99"
    texts = ", ".join(f"'web-{letter}'" for letter in "abcdefghijklmnop")
    assert text_of(f"host in ({texts})", "host = 'web-z'") == "host prefix 'web-'"
