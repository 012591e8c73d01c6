"""Deduplication: an event is new once, whatever order its copies come in."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.routing.packets import Publication
from tidings.routing.planes.once import LIVES, NUMBERS, Once


@given(st.lists(st.tuples(st.integers(0, LIVES - 1), st.integers(0, 3 * NUMBERS)), max_size=60))
def test_nothing_is_the_first_of_its_kind_twice(seen: list[tuple[int, int]]) -> None:
    once, before = Once(), set[tuple[int, int]]()
    newest: dict[int, int] = {}
    for life, number in seen:
        first = once.first(Publication("a", life, number, {}))
        too_old = newest.get(life, number) - number >= NUMBERS
        assert first == ((life, number) not in before and not too_old)
        before.add((life, number))
        newest[life] = max(newest.get(life, number), number)
