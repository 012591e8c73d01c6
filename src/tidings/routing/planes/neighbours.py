"""Who is at the other end of a link, and can we hear each other?

Both ends send hellos again and again, and say in them which life of the other they hear. A node
uses a link once it knows that the other end hears it, so nobody uses a link that carries packets in
one direction only. A link is down when no hello has come for a while, when the other end no longer
hears us, or when it has begun a new life.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.routing.packets import Hello
from tidings.routing.protocol import Action, Send, Timing


class Neighbour:
    """The other end of a link."""

    __slots__ = ("cost", "doubts", "heard_at", "life", "up")

    def __init__(self, cost: int) -> None:
        self.cost = cost
        self.life = 0  # the life that we hear, 0 for none
        self.heard_at = 0
        self.up = False  # whether both hear each other
        self.doubts = 0  # hellos in a row whose digest differed from ours


class Neighbours:
    """The links of a node, up or not."""

    def __init__(self, life: int, timing: Timing) -> None:
        self.life = life
        self.timing = timing
        self.known: dict[str, Neighbour] = {}
        self.version = 0  # grows when a link comes, goes, or is up or down otherwise than before

    def add(self, name: str, cost: int, digest: int, out: list[Action]) -> None:
        """There is a link; send a hello."""
        self.known[name] = Neighbour(cost)
        self.version += 1
        out.append(Send(name, Hello(self.life, 0, digest)))

    def remove(self, name: str) -> bool:
        """The link is gone; returns whether it was up."""
        gone = self.known.pop(name, None)
        self.version += 1
        return gone is not None and gone.up

    def up(self) -> list[str]:
        """The neighbours whose link is up."""
        return [name for name, neighbour in self.known.items() if neighbour.up]

    def is_up(self, name: str) -> bool:
        """Whether the link to this neighbour is up."""
        neighbour = self.known.get(name)
        return neighbour is not None and neighbour.up

    def heard(
        self, name: str, hello: Hello, now: int, digest: int, out: list[Action]
    ) -> tuple[bool, bool]:
        """Take a hello; returns whether the link went down by it, and whether it came up.

        A hello that was overtaken counts for nothing.
        """
        neighbour = self.known.get(name)
        if neighbour is None:
            return False, False
        was_up = neighbour.up
        new = neighbour.life != hello.life
        if was_up and not new and not self.hears_us(hello) and self.is_late(neighbour, now):
            return False, False
        lost = was_up and (new or not self.hears_us(hello))
        neighbour.life = hello.life
        neighbour.heard_at = now
        neighbour.up = self.hears_us(hello)
        self.version += new or neighbour.up is not was_up
        if new:  # tell them at once that we hear them
            out.append(Send(name, Hello(self.life, hello.life, digest)))
        return lost, neighbour.up and (lost or not was_up)

    def hears_us(self, hello: Hello) -> bool:
        """Whether the sender of a hello hears us, in this life."""
        return hello.heard == self.life

    def is_late(self, neighbour: Neighbour, now: int) -> bool:
        """Whether a hello comes so soon after the last that it must have been sent before it.

        The first hello of a neighbour does not hear us yet, and the next one may overtake it.
        """
        return now - neighbour.heard_at < self.timing.hello // 2

    def doubt(self, name: str, differs: bool) -> bool:
        """Note whether a hello's digest differs from ours; True at every second time in a row.

        Once is no reason: the news that would make the digests equal may be on its way.
        """
        neighbour = self.known[name]
        neighbour.doubts = neighbour.doubts + 1 if differs else 0
        if neighbour.doubts < 2:
            return False
        neighbour.doubts = 0
        return True

    def expire(self, now: int) -> list[str]:
        """Give up on neighbours not heard for too long; returns those whose link went down."""
        lost = []
        for name, neighbour in self.known.items():
            if neighbour.life and now - neighbour.heard_at > self.timing.dead:
                neighbour.life = 0
                self.version += 1
                if neighbour.up:
                    neighbour.up = False
                    lost.append(name)
        return lost

    def greet(self, digest: Callable[[str], int], out: list[Action]) -> None:
        """Send a hello to every neighbour, with the digest for it."""
        life = self.life
        for name, neighbour in self.known.items():
            out.append(Send(name, Hello(life, neighbour.life, digest(name))))

    def snapshot(self) -> dict[str, bool]:
        """Whether each link is up."""
        return {name: self.known[name].up for name in sorted(self.known)}
