"""Who is at the other end of a link, and can we hear each other?

Both ends say hello again and again, and which life of the other they hear. A link is used once each
end knows that it is heard, so one that carries packets one way only is not used. It is down when no
hello has come for a while, when the other no longer hears us, or when the other has begun a new
life.
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
        self.life = 0  # which we hear, 0 for none
        self.heard_at = 0
        self.up = False  # whether both hear each other
        self.doubts = 0  # hellos in a row whose digest was not ours


class Neighbours:
    """The links of a node, up or not."""

    def __init__(self, life: int, timing: Timing) -> None:
        self.life = life
        self.timing = timing
        self.known: dict[str, Neighbour] = {}

    def add(self, name: str, cost: int, digest: int, out: list[Action]) -> None:
        """There is a link; greet whoever is there."""
        self.known[name] = Neighbour(cost)
        out.append(Send(name, Hello(self.life, 0, digest)))

    def remove(self, name: str) -> bool:
        """There is no such link any more; whether it was up."""
        gone = self.known.pop(name, None)
        return gone is not None and gone.up

    def up(self) -> list[str]:
        """The neighbours to whom the link is up."""
        return [name for name, neighbour in self.known.items() if neighbour.up]

    def is_up(self, name: str) -> bool:
        """Whether the link to this neighbour is up."""
        neighbour = self.known.get(name)
        return neighbour is not None and neighbour.up

    def heard(
        self, name: str, hello: Hello, now: int, digest: int, out: list[Action]
    ) -> tuple[bool, bool]:
        """Take a hello; whether the link was lost by it, and whether it came up."""
        neighbour = self.known.get(name)
        if neighbour is None:
            return False, False
        was_up = neighbour.up
        new = neighbour.life != hello.life
        lost = was_up and (new or not self.hears_us(hello))
        neighbour.life = hello.life
        neighbour.heard_at = now
        neighbour.up = self.hears_us(hello)
        if new:  # let them know at once that they are heard
            out.append(Send(name, Hello(self.life, hello.life, digest)))
        return lost, neighbour.up and (lost or not was_up)

    def hears_us(self, hello: Hello) -> bool:
        """Whether the sender of a hello hears us, and us in this life."""
        return hello.heard == self.life

    def doubt(self, name: str, differs: bool) -> bool:
        """Note whether a hello's digest differs from ours; True at every second time in a row.

        Once is no reason: the news that would make them equal may be under way.
        """
        neighbour = self.known[name]
        neighbour.doubts = neighbour.doubts + 1 if differs else 0
        if neighbour.doubts < 2:
            return False
        neighbour.doubts = 0
        return True

    def expire(self, now: int) -> list[str]:
        """Forget those not heard for too long; the names of links that went down by it."""
        lost = []
        for name, neighbour in self.known.items():
            if neighbour.life and now - neighbour.heard_at > self.timing.dead:
                neighbour.life = 0
                if neighbour.up:
                    neighbour.up = False
                    lost.append(name)
        return lost

    def greet(self, digest: Callable[[str], int], out: list[Action]) -> None:
        """Say hello to everyone, with the digest that is for them."""
        life = self.life
        for name, neighbour in self.known.items():
            out.append(Send(name, Hello(life, neighbour.life, digest(name))))

    def snapshot(self) -> dict[str, bool]:
        """Whether each link is up."""
        return {name: self.known[name].up for name in sorted(self.known)}
