"""Threads that match while others change the table find it whole at every moment."""

from tests.effort import SOAK
from tests.matching.racing import race


def test_every_moment_is_whole() -> None:
    assert race(60.0 if SOAK else 1.0)
