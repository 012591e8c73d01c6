"""The covering order, held to its slow twin: all pairs compared."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.effort import examples
from tidings.language.filter import by_name
from tidings.language.poset import (
    Downwards,
    Known,
    Upwards,
    above_by_definition,
    stands_above,
)
from tidings.language.predicate import parse
from tidings.language.spans import LARGEST, cell_of, cells_around, span_of

# Wide and narrow, equal in other words, lists, negation, patterns, and `true`.
TEXTS = [
    *("true", "a = 1", "a = 2", "a > 1", "a >= 1", "a in (1, 2)", "a in (1, 2, 3)", "exists a"),
    *("a between 1 and 2", "a >= 1 and a <= 2", "not a = 1", "not a in (1, 2)", "a != 1"),
    *("b = 'x'", "b prefix 'x'", "b like 'x%'", "b like '%x%'", "b contains 'x'", "b suffix 'x'"),
    *("a = 1 and b = 'x'", "a > 0 and b prefix 'x'", "a = 1 and a = 2", "a > 1 and not a = 5"),
    *("b matches 'x+'", "b matches 'x+' and a = 1", "b i= 'X'", "b = 'x' and not a = 1"),
    *("a >= 1 and not a > 1", "int a = 1", "number a = 1", "a = 1 and exists b"),
]
# Bounds that contain each other, cross, are equal, whole, real, far away, or hardly differ.
SPANS = [
    *(
        "a > 1",
        "a < 9",
        "a > 1 and a < 9",
        "a >= 1 and a < 9",
        "a >= 2 and a < 5",
        "a between 2 and 4",
    ),
    *(
        "a >= 4 and a <= 4.5",
        "a = 4",
        "a in (3, 4)",
        "a in (3, 'x')",
        "a between 4 and 4",
        "int a > 3",
    ),
    *("int a > 3 and int a < 5", "a > 9 and a < 1", "a > 5 and a < 4", "a > 100 and a < 0.5"),
    *("real a > 2 and a < 4.5", "a > -5 and a < 5", "a >= -0.1 and a <= 0.1", "a between -1 and 1"),
    *("a > 9007199254740993 and a < 9007199254740999", "a >= 9007199254740994 and a < 9e15"),
    *("a > 1e300 and a < 2e300", "a >= 0 and a < 1e-300", "a = 0", "a > 1 and a < 9 and not a = 4"),
    *("a > 2 and a < 4 and b > 2 and b < 4", "b >= 1 and b < 5", "a >= 2 and a < 4 and b > 1"),
    *("b = 'x'", "b prefix 'x'", "b prefix 'xy'", "b = 'xyz'", "b prefix ''", "b in ('xa', 'xb')"),
    *(
        "b prefix 'x\U0010ffff'",
        "b = 'x\U0010ffffy'",
        "b prefix 'x' and a > 1",
        "b >= 'x' and b < 'y'",
    ),
    *("bool a = true", "a >= 1 and a <= 1", "exists a", "true"),
]
FILTERS = {text: parse(text).filters[0] for text in (*TEXTS, *SPANS)}


class Order(RuleBasedStateMachine):
    """Adds and removes filters, and compares both searches with the definition."""

    texts = TEXTS

    def __init__(self) -> None:
        super().__init__()
        self.up = Upwards()
        self.down = Downwards()
        self.known: dict[str, Known] = {}

    @rule(place=st.integers(0, 99))
    def change(self, place: int) -> None:
        text = self.texts[place % len(self.texts)]
        if text in self.known:
            known = self.known.pop(text)
            self.up.remove(known)
            self.down.remove(known)
        else:
            known = self.known[text] = Known(FILTERS[text], text)
            self.up.add(known)
            self.down.add(known)

    @invariant()
    def both_searches_find_what_the_definition_says(self) -> None:
        everyone = list(self.known.values())
        for one in everyone:
            expected = {other.text for other in above_by_definition(everyone, one)}
            assert {other.text for other in self.up.above(one)} == expected
            below = {
                other.text for other in everyone if one is not other if stands_above(one, other)
            }
            assert {other.text for other in self.down.below(one)} == below

    @invariant()
    def whoever_is_hidden_is_below_one_who_is_not(self) -> None:
        """No ring of filters in which each hides the next."""
        everyone = list(self.known.values())
        above = {one.text: above_by_definition(everyone, one) for one in everyone}
        top = [one for one in everyone if not above[one.text]]
        for one in everyone:
            if above[one.text]:
                assert any(other.filter.covers(one.filter) for other in top)


class SpanOrder(Order):
    """The same with filters that are searched by their spans."""

    texts = SPANS


TestSpanOrder = SpanOrder.TestCase
TestSpanOrder.settings = settings(max_examples=examples(15), stateful_step_count=30, deadline=None)
TestOrder = Order.TestCase
TestOrder.settings = settings(max_examples=examples(15), stateful_step_count=25, deadline=None)


def test_equal_meanings_do_not_hide_each_other() -> None:
    pair = [Known(FILTERS[text], text) for text in ("a between 1 and 2", "a in (1, 2)")]
    same = [Known(parse("int a = 1").filters[0], text) for text in ("one", "other")]
    assert not stands_above(*pair[::-1])  # 1.5 is between
    assert [stands_above(*same), stands_above(*same[::-1])] == [True, False]


def test_what_is_covered_lies_within_the_span_and_in_a_cell_around_it() -> None:
    for one in FILTERS.values():
        for other in FILTERS.values():
            if one.covers(other):
                names, others = by_name(one), by_name(other)
                spans = {name: span_of(same) for name, same in names.items()}
                for name, span in spans.items():
                    inner = span_of(others[name])
                    if span is not None and inner is not None:
                        assert span[0] <= inner[0] <= inner[1] <= span[1]
                        cell = cell_of(span)
                        assert cell is None or cell in cells_around(inner, [cell[0]])


NUMBERS = st.one_of(st.integers(-40, 40), st.floats(-1e3, 1e3), st.floats(-LARGEST, LARGEST))


@settings(max_examples=examples(200))
@given(st.lists(NUMBERS, min_size=4, max_size=4))
def test_a_span_that_contains_another_is_in_a_cell_around_it(numbers: list[float]) -> None:
    low, inner_low, inner_high, high = sorted(numbers)
    cell = cell_of((low, high))
    assert cell is None or cell in cells_around((inner_low, inner_high), [cell[0]])


def test_spans_as_long_as_another_are_looked_for_in_few_cells() -> None:
    around = list(cells_around((500_000, 501_000), [10]))
    assert len(around) <= 2


def test_a_search_by_spans_compares_few() -> None:
    """Of a thousand ranges of which none covers another."""
    down = Downwards()
    for low in range(1_000):
        text = f"a >= {low} and a < {low + 10}"
        down.add(Known(parse(text).filters[0], text))
    for text, most in (
        ("a >= 500 and a < 520", 12),
        ("a between 500 and 520", 12),
        ("a > 980", 22),
    ):
        assert len(down._candidates(Known(parse(text).filters[0], text))) <= most
