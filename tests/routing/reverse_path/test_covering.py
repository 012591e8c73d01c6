"""What covering hides, held to its slow twin while filters come and go at several links."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.effort import examples
from tests.language.test_poset import TEXTS
from tidings.routing.reverse_path.covering import Covers
from tidings.routing.reverse_path.filters import HERE, Held

WHO = (HERE, "b", "c", "d")


class Node(RuleBasedStateMachine):
    """A node that keeps for each link what to tell it, by what `update` says has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.held = Held()
        self.covers = Covers(self.held)
        self.told: dict[str, set[str]] = {name: set() for name in WHO[1:]}

    @rule(pairs=st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(WHO)), max_size=4))
    def change(self, pairs: list[tuple[str, str]]) -> None:
        dirty: dict[str, None] = {}
        for text, who in pairs:
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


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=examples(20), stateful_step_count=20, deadline=None)
