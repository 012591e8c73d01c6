"""Work: the steps that one operation of the algebra may take.

A short text can be made to cost any amount of time, so no operation runs until it is done: each
has a number of steps and counts down. Where none is left it gives the answer that is safe and needs
no more: `covers` says no, `intersects` says yes, a reduction stops where it is. Steps are counted,
not timed, so every run gives the same answer. A step takes about a microsecond, so nothing that a
client may send to a router takes more than a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import Any, Final

STEPS: Final = 40_000  # of one operation
STEPS_PER_CONSTRAINT: Final = 5  # where these are more


class OutOfSteps(Exception):
    """An operation has used up its steps; `reached` is how far a reduction has come."""

    def __init__(self, reached: Sequence[Any] | None = None) -> None:
        self.reached = reached
        super().__init__()


class Work:
    """The steps that are left. Without `thorough`, patterns are compared but not searched.

    The work `within` an operation has a bound of its own, and the operation pays for it, too.
    """

    __slots__ = ("begun", "left", "thorough", "within")

    def __init__(self, steps: float, thorough: bool = True, within: bool = False) -> None:
        self.begun = self.left = steps
        self.thorough = thorough
        self.within = within
        if not within:
            watched: list[Work] | None = getattr(_thread, "works", None)
            if watched is not None:
                watched.append(self)

    @classmethod
    def on(cls, constraints: int, thorough: bool = True) -> Work:
        """The work that is allowed on so many constraints."""
        return cls(max(STEPS, STEPS_PER_CONSTRAINT * constraints), thorough)

    def spend(self, steps: int) -> None:
        """Use up some steps; raises `OutOfSteps` if there are not so many."""
        self.left -= steps
        if self.left < 0:
            raise OutOfSteps


@contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """Gives a function that tells the steps of all operations that this thread has begun since."""
    works: list[Work] = []
    before = getattr(_thread, "works", None)
    _thread.works = works
    try:
        # What an operation asked for in vain, it did not take.
        yield lambda: int(sum(work.begun - max(work.left, 0) for work in works))
    finally:
        _thread.works = before


_thread: Final = local()
THOROUGH: Final = Work(float("inf"))  # without a bound
CHEAP: Final = Work(float("inf"), thorough=False)
