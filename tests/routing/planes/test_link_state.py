"""The broadcast plane: clocks that show any time, and nodes that begin another life."""

import pytest

from tidings.routing.packets import Hello, Record, Records
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import MILLISECOND, SECOND, USUAL, Action


@pytest.mark.parametrize("begin", [0, 7 * SECOND, -(10**6) * SECOND])
def test_old_records_are_forgotten_whatever_the_clock_shows_at_first(begin: int) -> None:
    plane = LinkState("a", 1, USUAL, Topologies())
    out: list[Action] = []
    plane.link_up("b", 1, begin, out)
    plane.news("b", Records((Record("gone", 1, 1, 0, ()),)), begin, out)
    for second in range(1, 40):
        plane.wake(begin + second * SECOND, out)
        assert ("gone" in plane.records) == (second * SECOND < USUAL.age)


@pytest.mark.parametrize(("life", "is_news"), [(1, False), (2, True)])
def test_another_life_of_a_node_is_news_although_its_links_are_the_same(
    life: int, is_news: bool
) -> None:
    """It may have restarted before anyone missed it, and has forgotten what it held."""
    plane = LinkState("a", 1, USUAL, Topologies())
    out: list[Action] = []
    plane.link_up("b", 1, 0, out)
    plane.news("b", Records((Record("b", 1, 1, 0, (("a", 1),)),)), 0, out)
    while not plane.is_settled():
        due = plane.timer()
        assert due is not None
        plane.wake(due, out)
    now = 5 * SECOND
    plane.news("b", Records((Record("b", life, 2, 0, (("a", 1),)),)), now, out)
    assert plane.is_settled() is not is_news


def test_a_first_hello_that_the_second_has_overtaken_does_not_take_the_link_down() -> None:
    plane = LinkState("a", 1, USUAL, Topologies())
    out: list[Action] = []
    plane.link_up("b", 1, 0, out)
    plane.hello("b", Hello(7, 1, 0), 10 * MILLISECOND, out)
    plane.hello("b", Hello(7, 0, 0), 60 * MILLISECOND, out)  # it was sent before
    assert plane.neighbours.is_up("b")
    plane.hello("b", Hello(7, 0, 0), 260 * MILLISECOND, out)  # b does not hear us any more
    assert not plane.neighbours.is_up("b")
