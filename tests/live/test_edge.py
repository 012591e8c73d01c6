"""A router announces at least what its clients' subscriptions match, and matches exactly."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.language.predicate import parse
from tidings.live import edge as module
from tidings.live.edge import LONGEST, MAX_CHARACTERS, Edge, Growing, coarse

TEXTS = [
    *("topic = 'ab'", "topic = 'ac' and x > 1", "topic = 'b' and x = 0", "topic = 'abc' or x = 2"),
    *("x > 1", "not exists topic", "true", "false", "topic prefix 'a' and not x = 1"),
    *("topic in ('ab', 'b')", "topic = '' and x > 0", "(x = 1 or x = 2) and topic = 'b'"),
]
EVENTS: list[dict[str, Any]] = [
    {**({} if x is None else {"x": x}), **({} if topic is None else {"topic": topic})}
    for x, topic in product([None, 0, 1, 2], [None, "", "a", "ab", "abc", "ac", "b"])
]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 6), st.sampled_from(TEXTS)),
        st.tuples(st.just("remove"), st.integers(1, 6), st.just("")),
        st.tuples(st.just("establish"), st.integers(0, 5), st.just("")),
    ),
    max_size=30,
)


@given(steps, st.integers(1, 4))
def test_every_wanted_event_is_announced_and_matched_exactly(
    actions: list[tuple[str, int, str]], most: int
) -> None:
    told: dict[str, str] = {}

    def tell(id: str, text: str | None) -> None:
        if text is None:
            del told[id]
        else:
            assert id not in told
            told[id] = text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_ANNOUNCEMENTS", most)
        edge = Edge(tell, Growing())
        held: dict[int, str] = {}
        established: dict[int, str] = {}  # the predicate in force, until another is established
        for action, number, text in actions:
            if action == "put":
                held[number] = text
                if edge.put(number, parse(text)):
                    established[number] = text
            elif action == "remove":
                edge.remove(number)
                held.pop(number, None)
                established.pop(number, None)
            elif told:
                id = sorted(told)[number % len(told)]
                for found in edge.established([id]):
                    established[found] = held[found]
            assert len(told) == edge.announcements <= 3 * most + 1
            for event in EVENTS:
                wanting = {n for n, text in held.items() if parse(text).matches(event)}
                assert set(edge.match(event)) == wanting
                in_force = any(parse(text).matches(event) for text in established.values())
                if wanting or in_force:
                    assert any(parse(text).matches(event) for text in told.values())
        for number in list(held):
            edge.remove(number)
        assert not told


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("exactly", [True, False])
def test_a_coarse_predicate_covers_what_it_stands_for(text: str, exactly: bool) -> None:
    wide = parse(coarse(parse(text), exactly))
    assert wide.covers(parse(text))
    assert all(wide.matches(event) for event in EVENTS if parse(text).matches(event))


def test_announcements_are_bounded_by_size_one_by_one_and_together() -> None:
    told: dict[str, str | None] = {}
    edge = Edge(lambda id, text: told.__setitem__(id, text), Growing())
    for number in range(60):
        constants = ", ".join(f"'{number:04d}{n:04d}'" for n in range(900))
        edge.put(number, parse(f"dev in ({constants}) and k{number} > 0"))
    texts = [text for text in told.values() if text is not None]
    assert max(map(len, texts)) <= LONGEST.characters
    assert sum(map(len, texts)) <= 3 * MAX_CHARACTERS
    for number in (0, 42, 59):
        event = {"dev": f"{number:04d}0500", f"k{number}": 1}
        assert edge.match(event) == [number]
        assert any(parse(text).matches(event) for text in texts)
