"""What stands still for long while everything else is well: one row of `STALLS` each.

A router that stands still, a line on which nothing moves, or a program that reads nothing holds
back the sources that send events to it or over it, and nobody else
(`docs/decisions/0008-flow-control-by-source.md`). Where a source sends an event is computed here
once more, from the settings alone: down the tree of shortest paths, over each link behind which
someone wants it. As routers keep one predicate for each interface, it may go a link further than
to those who want it. Where several paths are as short, each may be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tidings.sim.judge import Account

if TYPE_CHECKING:
    from tidings.sim.cluster_trial import ClusterTrial

FAR: Final = 1 << 40  # longer than any path


class Stall(NamedTuple):
    """Something stands still."""

    name: str
    # Whether an event from a router needs it, if these subscriptions want the event.
    needs: Callable[[str, list[Account]], bool]
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

    def taken(self, source: str, wanting: Iterable[Account]) -> set[tuple[str, str]]:
        """The links, from one router to the next, that an event of a router may take.

        A router sends it on to a child in the source's tree if the path from the router itself to
        someone who wants it begins there.
        """
        far, found, reached = self._far, set[tuple[str, str]](), [source]
        ends = {account.router for account in wanting}
        for near in reached:
            for link, cost in self.costs.items():
                beyond = link[1]
                if (
                    link[0] == near
                    and far[source, near] + cost == far[source, beyond]
                    and any(cost + far[beyond, end] == far[near, end] for end in ends)
                ):
                    found.add(link)
                    reached += [beyond] * (beyond not in reached)
        return found


def still_router(trial: ClusterTrial, paths: Paths, chance: Random) -> Stall | None:
    """A router stands still."""
    address = chance.choice(sorted(trial.settings))
    machine = trial.cluster.routers[address]
    machine.pause()
    return Stall(
        f"router {address}",
        lambda source, wanting: (
            source == address or any(address in link for link in paths.taken(source, wanting))
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
        lambda source, wanting: bool({link, link[::-1]} & paths.taken(source, wanting)),
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
        lambda source, wanting: blocks and any(one.user == program.name for one in wanting),
        end,
        program.name,
    )


STALLS: Final[dict[str, Callable[[ClusterTrial, Paths, Random], Stall | None]]] = {
    "still router": still_router,
    "still line": still_line,
    "still reader": still_reader,
}
