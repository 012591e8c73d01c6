"""A policy for each link, chosen by measurement: covering, merging, or everything (S12, S13).

What a node tells a link costs *control* bytes, and what comes by it in vain costs *waste*. A coarse
policy saves the one and pays the other. Each link stands on a rung of a ladder and compares, in
bytes, what it spends with what it would spend on the lowest rung.

The lowest rung is covering, with one difference: a filter that becomes covered is not withdrawn
while someone wants it (PADRES calls that lazy). So each time that a filter is wanted it is told at
most once, and taken back at most once. Those are never more filters than `exact` tells, nor than
`covering`, which tells one again whenever it is uncovered: so neither needs a rung. What the lowest
rung would tell is known on every rung.

What a coarser rung would waste is not known. For `everything` there is a forecast: neighbours say
how many events they have not sent. These are only the events that reach the neighbour. So a step up
is a *trial*. It begins when a link has spent enough since the last one, and the forecast is good.
It ends once it has lost a sixteenth of that, or a few events; more, if the rung has saved more
before (hysteresis). A trial that fails doubles what must be spent before the next one (backoff). So
trials cost a link a small part of what it spends.

Steps are taken after a *window*, counted in changes and events, never in time; only a trial that
loses too much ends at once. What a step makes superfluous is taken back later, when that is cheap
compared to what was saved or spent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

Rung = Literal["covering", "merging", "everything"]

RUNGS: Final[tuple[Rung, ...]] = ("covering", "merging", "everything")
COVERING, MERGING, EVERYTHING = range(3)
WINDOW: Final = 16  # changes and events, between two steps of a link
SHARE: Final = 16  # a trial may lose this part of what is spent between two trials
SLACK: Final = 256  # bytes, and this much in any case: two events or so
EARNED: Final = 4  # a rung that has saved something may lose this part of it again,
MOST_SLACK: Final = 1_024  # up to this
LONGEST: Final = 64  # times the first interval between two trials, at most
CHEAP: Final = 32  # times the bytes of taking back must have been spent, or saved, before
PACKET: Final = 60  # bytes of a change besides its filters, with its acknowledgements
TEXT: Final = 2  # bytes of a filter besides its characters


def size_of(added: Iterable[str], removed: Iterable[str]) -> int:
    """The bytes that it costs to tell a change; none if there is nothing to tell.

    >>> size_of(["x > 5"], []), size_of([], [])
    (67, 0)
    """
    texts = [len(text) + TEXT for side in (added, removed) for text in side]
    return sum(texts) + PACKET if texts else 0


class Ladder:
    """Where one link stands, and what it has spent."""

    def __init__(self, first: int) -> None:
        self.steps = 0
        self.spent = 0  # bytes, of changes and in vain
        self.precise: dict[str, None] = {}  # what the lowest rung would have told by now
        self.merges = False  # whether there are enough filters to merge some
        self._from = COVERING  # the rung to go back to
        self._passes = False  # whether to pass over `merging`, which has just failed
        self._longest = LONGEST * first
        self._interval = first
        self._due = first  # what must be spent before the next trial
        self._tidied = 0  # what had been spent when superfluous filters were last taken back
        self._unsent = 0  # events that the neighbour has not sent so far
        self._begin(COVERING)

    def _begin(self, rung: int) -> None:
        self._rung = rung
        self._count = 0  # changes and events since the step
        self._look = WINDOW  # the count at which a window ends
        self._paid = 0  # bytes spent on this rung, of which older ones count less
        self._forecast = 0  # bytes that `everything` would have wasted meanwhile, at least
        self._lost = 0  # by not being on the lowest rung, since the best moment on this one
        self._saved = 0  # by not being on it, since the step

    @property
    def policy(self) -> Rung:
        """The policy of the link."""
        return RUNGS[self._rung]

    def told(self, actual: int, precise: int, once: bool = False) -> None:
        """A change was told, or would have been on the lowest rung: bytes of both.

        What is told `once`, by a step or to tidy up, says nothing about the rung.
        """
        self.spent += actual
        if (actual or precise) and not once:
            self._count += 1
            self._paid += actual
            self._saved += precise - actual
            self._lost = max(0, self._lost + actual - precise)

    def came(self, wasted: int) -> None:
        """An event came by the link; the bytes of it that were wasted."""
        self._count += 1
        if self._rung:
            self.spent += wasted
            self._paid += wasted
            self._saved -= wasted
            self._lost += wasted

    def reported(self, unsent: int, size: int) -> None:
        """The neighbour says how many events it has not sent; one has about this size."""
        self._forecast += max(0, unsent - self._unsent) * size
        self._unsent = unsent

    @property
    def _fails(self) -> bool:
        earned = min(MOST_SLACK, max(SLACK, self._saved // EARNED))
        return self._rung > COVERING and self._lost > max(earned, self._interval // SHARE)

    @property
    def _next(self) -> int:
        """The rung to try; this one, if it is not time for a trial or none is worth one."""
        if self._count >= WINDOW and self.spent >= self._due and self._paid:
            if self._rung == COVERING and self.merges and not self._passes:
                return MERGING
            if self._rung < EVERYTHING and self._forecast < self._paid:
                return EVERYTHING
        return self._rung

    @property
    def is_due(self) -> bool:
        """Whether the link is about to take a step."""
        return self._fails or self._next != self._rung

    def step(self) -> bool:
        """Take a step if one is due; returns whether it was."""
        if self._fails:
            self._passes = self._rung == MERGING
            self._interval = min(2 * self._interval, self._longest)
            self._due = self.spent + self._interval
            self._begin(self._from)
            self._from = COVERING
        elif self._next != self._rung:
            up = self._next
            self._from = self._rung
            self._passes = False
            self._begin(up)
        else:
            return False
        self.steps += 1
        return True

    def looks(self) -> bool:
        """Whether a window has ended: then look for what is told and need not be."""
        if self._count < self._look:
            return False
        self._look = self._count + WINDOW
        self._paid //= 2
        self._forecast //= 2
        return True

    def tidies(self, superfluous: Iterable[str]) -> bool:
        """Whether it is cheap to take these back, which are told and need not be."""
        size = size_of((), superfluous)
        means = self._saved if self._rung else self.spent - self._tidied
        if not size or size * CHEAP > means:
            return False
        self._saved -= size
        self._tidied = self.spent
        return True
