"""Where subscriptions lie and which nodes an event visits (L2): the arithmetic, and nothing else.

The ring of nodes is cut into X regions of about R nodes each. A subscription with the key t lies at
all nodes of one region, its *home*: t + r, where r is one of H offsets. An event with the key t
visits one node of each of the H regions t + r. So they meet exactly once.

Paper L draws r from [-H/2, H/2] and lets the event begin at t - H/2. For even H that is one offset
more than the event makes steps: read literally, one subscription in H + 1 is never met. Here both
take the offsets of `window`. Three more things that the paper leaves open:

- with H > X the event would come to the same region twice, so it makes min(H, X) steps;
- N = X * R hardly ever divides, and if X followed N closely, one node more could move nearly every
  subscription. Unless an application says otherwise, X is a power of two, and a region has between
  R / sqrt(2) and R * sqrt(2) nodes on average. X follows from N alone, so nodes that know the same
  nodes agree on it. When it doubles, each region becomes two, and half of the subscriptions stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tidings.overlay.ring import DIVISIONS, Division, identifier
from tidings.overlay.weights import by_capacity

MOST_REGIONS: Final = 1 << 20


class Width(NamedTuple):
    """How wide the window of one key is, where that follows its load (L7)."""

    steps: int  # of an event, at most H
    spread: int  # regions that hold the same, for each step: an event visits one of them


class Regions(NamedTuple):
    """The regions of an application: how many, and how many of them an event visits.

    >>> shape = Regions(regions=5, hops=2)
    >>> shape.window()
    range(-1, 1)
    >>> shape.visits(0), [shape.homes(0, draw) for draw in range(4)]
    ((4, 0), [(4,), (0,), (4,), (0,)])

    A key may have a window of its own: of fewer steps, or with several regions for each step.

    >>> shape = Regions(regions=5, hops=2, widths={3: Width(steps=1, spread=2)})
    >>> shape.homes(3, 7), shape.visits(3, 0), shape.visits(3, 1)
    ((3, 4), (3,), (4,))
    """

    regions: int  # X
    hops: int  # H
    widths: Mapping[int, Width] = MappingProxyType(
        {}
    )  # of keys that have others than H steps and one region each

    def window(self, steps: int = 0) -> range:
        """The offsets from its key at which a subscription may lie; an event visits them all."""
        steps = min(steps or self.hops, self.hops, self.regions)
        return range(-(steps // 2), steps - steps // 2)

    def runs(self, key: int) -> tuple[tuple[int, ...], ...]:
        """By step of the key's window, the regions that hold the same; no region is in two."""
        width = self.widths.get(key)
        window = self.window(width.steps if width else 0)
        spread = max(1, min(width.spread, self.regions // len(window))) if width else 1
        return tuple(
            tuple((key + offset * spread + turn) % self.regions for turn in range(spread))
            for offset in window
        )

    def visits(self, key: int, draw: int = 0) -> tuple[int, ...]:
        """The regions that an event with this key visits, in order, each once.

        Where several hold the same, `draw` chooses.
        """
        return tuple(run[draw % len(run)] for run in self.runs(key))

    def homes(self, key: int, draw: int) -> tuple[int, ...]:
        """The regions of a subscription with this key; `draw` stands for the paper's chance."""
        runs = self.runs(key)
        return runs[draw % len(runs)]


def regions_for(nodes: int, replicas: int) -> int:
    """X for so many nodes and R replicas: the power of two nearest to N / R, as a ratio.

    >>> [regions_for(nodes, replicas=3) for nodes in (1, 4, 5, 12, 16, 17, 100)]
    [1, 1, 2, 4, 4, 8, 32]
    """
    regions = 1
    while nodes**2 > 2 * (regions * replicas) ** 2 and 2 * regions <= min(nodes, MOST_REGIONS):
        regions *= 2
    return regions


class Placement(NamedTuple):
    """An application's regions on given nodes.

    >>> placement = Placement.of("quotes", "abcdef", Regions(3, 2))
    >>> placement.members(0), placement.stops(0)
    (('d', 'a'), ((('f', 'c'), (2,)), (('d', 'a'), (0,))))
    """

    shape: Regions
    nodes_of: Division

    @classmethod
    def of(
        cls,
        application: str,
        nodes: Iterable[str],
        shape: Regions,
        division: str = "rank",
        capacities: Mapping[str, float] | None = None,
    ) -> Placement:
        """Cut the ring for an application; each begins elsewhere, so none loads the same first.

        With capacities regions are of nearly equal capacity, not of nearly equally many nodes.
        """
        offset = identifier(f"application {application}")
        if capacities:
            return cls(shape, by_capacity(nodes, shape.regions, capacities, offset))
        return cls(shape, DIVISIONS[division](nodes, shape.regions, offset))

    def server_of(self, region: int) -> int:
        """The region that serves another: itself, or if it is empty the next that is not."""
        for step in range(self.shape.regions):
            candidate = (region + step) % self.shape.regions
            if self.nodes_of[candidate]:
                return candidate
        raise ValueError("expected a node, found none")

    def members(self, region: int) -> tuple[str, ...]:
        """The nodes that hold the subscriptions whose home is a region: its replicas."""
        return self.nodes_of[self.server_of(region)]

    def stops(self, key: int) -> tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]:
        """What an event with this key visits: nodes to choose one from, and the homes to ask there.

        Regions that the same nodes serve are one stop, so no node is visited twice.
        """
        found: dict[int, list[int]] = {}
        for home in self.shape.visits(key):
            found.setdefault(self.server_of(home), []).append(home)
        return tuple((self.nodes_of[server], tuple(homes)) for server, homes in found.items())
