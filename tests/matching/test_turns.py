"""Turns: matching lets go of the GIL while something is compiled, but not with every event."""

import threading

import pytest

from tidings import Table
from tidings.matching import turns
from tidings.matching.turns import PAUSE, TURN, Turn


def test_a_pause_is_made_once_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(turns, "perf_counter", lambda: now[0])
    pauses: list[float] = []

    class Never:
        def acquire(self, timeout: float) -> None:
            pauses.append(timeout)

    turn = Turn()
    turn._never = Never()  # type: ignore[assignment]
    for step in range(20):
        now[0] = 100.0 + step * TURN / 5
        turn.take()
    assert pauses == [PAUSE] * 4


def test_only_while_something_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(Turn, "take", lambda _: taken.append(1))
    table = Table({1: "x = 1"})
    assert table.match({"x": 1}) == [1]
    assert not taken
    table._compiling = threading.Thread()
    assert table.match({"x": 1}) == [1]
    assert taken
