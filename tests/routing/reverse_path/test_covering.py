"""What covering hides, held to its slow twin while filters come and go at several links."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.effort import examples
from tests.language.test_poset import TEXTS
from tidings.language.poset import Known
from tidings.routing.reverse_path.covering import Covers
from tidings.routing.reverse_path.filters import HERE, Held, filter_of

WHO = (HERE, "b", "c", "d")
SURE = [
    *("true", "a = 1", "a > 1", "a >= 1", "a > 0", "a > 2", "a in (1, 2)", "exists a", "a = 2"),
    *("a between 1 and 2", "a >= 1 and a <= 2", "a > 1 and b > 1", "a > 0 and b > 1", "b > 1"),
    *("a > 1 and b > 0", "b > 0", "a = 1 and b > 1", "a = 1 and b > 0", "b prefix 'x'", "b = 'x'"),
    *("a = 1 and b = 'x'", "int a = 1", "not a = 1", "a > 1 and not a = 5", "exists b"),
]


class Node(RuleBasedStateMachine):
    """A node that keeps for each link what to tell it, by what `update` says has changed."""

    texts = TEXTS

    def __init__(self) -> None:
        super().__init__()
        self.held = Held()
        self.covers = Covers(self.held)
        self.told: dict[str, set[str]] = {name: set() for name in WHO[1:]}

    @rule(pairs=st.lists(st.tuples(st.integers(0, 99), st.sampled_from(WHO)), max_size=6))
    def change(self, pairs: list[tuple[int, str]]) -> None:
        dirty: dict[str, None] = {}
        for place, who in pairs:
            text = self.texts[place % len(self.texts)]
            self.held.take(text, who) or self.held.put(text, who)
            dirty[text] = None
        for text in self.covers.update(dirty):
            for name, told in self.told.items():
                shown = self.held.besides(text, name) and self.covers.cover(text, name) is None
                (told.add if shown else told.discard)(text)

    @invariant()
    def each_link_is_told_what_the_definition_says(self) -> None:
        for name, told in self.told.items():
            assert told == self.covers.by_definition(name)


class SureNode(Node):
    """The same with filters about which `covers` is never unsure: only shown ones are searched."""

    texts = SURE

    @invariant()
    def nothing_is_searched_but_what_is_told(self) -> None:
        told = set().union(*self.told.values())
        assert self.covers._shown.known.keys() == told


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=examples(20), stateful_step_count=20, deadline=None)
TestSureNode = SureNode.TestCase
TestSureNode.settings = settings(max_examples=examples(20), stateful_step_count=20, deadline=None)


def test_of_these_filters_nothing_is_unsure() -> None:
    for text in SURE:
        filter = filter_of(text)
        assert filter is not None
        assert not Known(filter, text).unsure
