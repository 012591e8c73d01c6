"""The broadcast plane on clocks that show any time."""

import pytest

from tidings.routing.packets import Record, Records
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import SECOND, USUAL, Action


@pytest.mark.parametrize("begin", [0, 7 * SECOND, -(10**6) * SECOND])
def test_old_records_are_forgotten_whatever_the_clock_shows_at_first(begin: int) -> None:
    plane = LinkState("a", 1, USUAL, Topologies())
    out: list[Action] = []
    plane.link_up("b", 1, begin, out)
    plane.news("b", Records((Record("gone", 1, 1, 0, ()),)), begin, out)
    for second in range(1, 40):
        plane.wake(begin + second * SECOND, out)
        assert ("gone" in plane.records) == (second * SECOND < USUAL.age)
