"""The covering order, held to its slow twin: all pairs compared."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.effort import examples
from tidings.language.poset import (
    Downwards,
    Known,
    Upwards,
    above_by_definition,
    stands_above,
)
from tidings.language.predicate import parse

# Wide and narrow, equal in other words, lists, negation, patterns, and `true`.
TEXTS = [
    *("true", "a = 1", "a = 2", "a > 1", "a >= 1", "a in (1, 2)", "a in (1, 2, 3)", "exists a"),
    *("a between 1 and 2", "a >= 1 and a <= 2", "not a = 1", "not a in (1, 2)", "a != 1"),
    *("b = 'x'", "b prefix 'x'", "b like 'x%'", "b like '%x%'", "b contains 'x'", "b suffix 'x'"),
    *("a = 1 and b = 'x'", "a > 0 and b prefix 'x'", "a = 1 and a = 2", "a > 1 and not a = 5"),
    *("b matches 'x+'", "b matches 'x+' and a = 1", "b i= 'X'", "b = 'x' and not a = 1"),
    *("a >= 1 and not a > 1", "int a = 1", "number a = 1", "a = 1 and exists b"),
]
FILTERS = {text: parse(text).filters[0] for text in TEXTS}


class Order(RuleBasedStateMachine):
    """Adds and removes filters, and compares both searches with the definition."""

    def __init__(self) -> None:
        super().__init__()
        self.up = Upwards()
        self.down = Downwards()
        self.known: dict[str, Known] = {}

    @rule(text=st.sampled_from(TEXTS))
    def change(self, text: str) -> None:
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


TestOrder = Order.TestCase
TestOrder.settings = settings(max_examples=examples(15), stateful_step_count=25, deadline=None)


def test_equal_meanings_do_not_hide_each_other() -> None:
    pair = [Known(FILTERS[text], text) for text in ("a between 1 and 2", "a in (1, 2)")]
    same = [Known(parse("int a = 1").filters[0], text) for text in ("one", "other")]
    assert not stands_above(*pair[::-1])  # 1.5 is between
    assert [stands_above(*same), stands_above(*same[::-1])] == [True, False]
