"""What stands still for long while everything else is well: one row of `STALLS` each.

A router that stands still, a line on which nothing moves, or a program that reads nothing holds
back the sources that have events for it, and nobody else
(`docs/decisions/0008-flow-control-by-source.md`). Paths are computed here once more, from the
settings alone: whatever lies on a shortest path may be needed, also where several are as short.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tidings.sim.judge import Account

if TYPE_CHECKING:
    from tidings.sim.cluster_trial import ClusterTrial

FAR: Final = 1 << 40  # longer than any path


class Stall(NamedTuple):
    """Something stands still."""

    name: str
    needs: Callable[[str, Account], bool]  # whether events from a router to a subscription need it
    end: Callable[[], None]
    reader: str = ""  # the program that reads nothing


class Paths:
    """The shortest distances between routers, by the costs in their settings."""

    def __init__(self, trial: ClusterTrial) -> None:
        names = list(trial.settings)
        self.costs: dict[tuple[str, str], int] = {}
        for name, settings in trial.settings.items():
            for dial in settings.links:
                for ends in ((name, dial.host), (dial.host, name)):
                    self.costs[ends] = max(dial.cost, self.costs.get(ends, 0))
        far = {(one, other): FAR for one in names for other in names}
        self._far = far | self.costs | {(one, one): 0 for one in names}
        for middle in names:
            for one in names:
                for other in names:
                    through = self._far[one, middle] + self._far[middle, other]
                    self._far[one, other] = min(self._far[one, other], through)

    def may_pass(self, one: str, other: str, router: str) -> bool:
        """Whether a shortest path passes through a router, or ends there."""
        far = self._far
        return far[one, router] + far[router, other] == far[one, other]

    def may_take(self, one: str, other: str, link: tuple[str, str]) -> bool:
        """Whether a shortest path takes a link, in either direction."""
        far, cost = self._far, self.costs[link]
        return any(
            far[one, near] + cost + far[beyond, other] == far[one, other]
            for near, beyond in (link, link[::-1])
        )


def still_router(trial: ClusterTrial, paths: Paths, chance: Random) -> Stall | None:
    """A router stands still."""
    address = chance.choice(sorted(trial.settings))
    machine = trial.cluster.routers[address]
    machine.pause()
    return Stall(
        f"router {address}",
        lambda source, account: (
            source == address or paths.may_pass(source, account.router, address)
        ),
        machine.go_on,
    )


def still_line(trial: ClusterTrial, paths: Paths, chance: Random) -> Stall | None:
    """Nothing moves between two routers, or not in one direction."""
    if not paths.costs:
        return None
    link = chance.choice(sorted(paths.costs))
    directions = chance.choice(((True, True), (True, False), (False, True)))
    return Stall(
        f"the line between {link[0]} and {link[1]}",
        lambda source, account: paths.may_take(source, account.router, link),
        trial.cluster.hold(*link, *directions),
    )


def still_reader(trial: ClusterTrial, paths: Paths, chance: Random) -> Stall | None:
    """A program reads nothing; only with the policy `block` may others wait for it."""
    able = [program for program in trial.programs if program.present and not program.failed]
    if not able:
        return None
    program = chance.choice(able)
    blocks = program.habits.policy == "block"
    program.still = True

    def end() -> None:
        program.still = False

    return Stall(
        f"the reader {program.name}",
        lambda source, account: blocks and account.user == program.name,
        end,
        program.name,
    )


STALLS: Final[dict[str, Callable[[ClusterTrial, Paths, Random], Stall | None]]] = {
    "still router": still_router,
    "still line": still_line,
    "still reader": still_reader,
}
