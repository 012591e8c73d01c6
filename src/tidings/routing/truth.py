"""The true network, as only a judge knows it, and what a protocol must make of it.

Every protocol is held to the same three things (`Row` in `protocols`): how soon it converges, where
the states of its nodes disagree with the truth, and which links an event takes at rest (`twin`).

Distances are found here anew, and how the nodes break ties is theirs: any shortest paths will do,
if they are the same in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

Sample = tuple[dict[str, Any], set[str]]
Hops = dict[str, dict[str, str]]  # by node and destination: the neighbour that comes next


class Truth:
    """The network at a moment: nodes that run, and the costs of links that work both ways."""

    def __init__(self, costs: dict[str, dict[str, int]]) -> None:
        self.running = list(costs)
        self.costs = costs
        self._distances: dict[str, dict[str, int]] = {}

    def reaches(self, source: str) -> dict[str, int]:
        """The nodes in reach of one, itself included, and what it costs to get there."""
        found = self._distances.get(source)
        if found is None:
            found = self._distances[source] = {source: 0}
            around = {0: [source]}  # nodes by the cost at which they may have been reached
            while around:
                cost = min(around)
                for node in around.pop(cost):
                    if found[node] != cost:
                        continue
                    for other, more in self.costs[node].items():
                        if cost + more < found.get(other, cost + more + 1):
                            found[other] = cost + more
                            around.setdefault(cost + more, []).append(other)
        return found

    def cost_of(self, links: Iterable[tuple[str, str]]) -> int | None:
        """What links cost together; None if one of them does not work.

        >>> Truth({"a": {"b": 2}, "b": {"a": 2}}).cost_of([("a", "b"), ("b", "a")])
        4
        """
        total = 0
        for one, other in links:
            cost = self.costs.get(one, {}).get(other)
            if cost is None:
                return None
            total += cost
        return total

    def hops_across(self, source: str) -> int:
        """The links on the longest of the shortest paths from a node."""
        hops = {source: 0}
        reach = self.reaches(source)
        for node in sorted(reach, key=reach.__getitem__):  # the nearest come first
            for other, more in self.costs[node].items():
                if reach[other] == reach[node] + more:
                    hops[other] = max(hops.get(other, 0), hops[node] + 1)
        return max(hops.values())

    @cached_property
    def some_hops(self) -> Hops:
        """Shortest paths, for nodes that know of none themselves."""
        return {
            name: {
                other: min(
                    hop
                    for hop, more in self.costs[name].items()
                    if more + self.reaches(hop)[other] == cost
                )
                for other, cost in self.reaches(name).items()
                if other != name
            }
            for name in self.running
        }

    def wrong_paths(self, hops: Hops) -> Iterator[str]:
        """Where the next hops of nodes are not shortest paths, the same in both directions."""
        before: Hops = {}  # by source and destination: the last node on the path between them
        for name in self.running:
            reach = self.reaches(name)
            mine = hops[name]
            if mine.keys() != reach.keys() - {name}:
                yield f"{name} has routes to {sorted(mine)}, not to {sorted(reach)}"
                return
            for other, hop in mine.items():
                cost = self.costs[name].get(hop)
                if cost is None or cost + self.reaches(hop)[other] != reach[other]:
                    yield f"{name} has no shortest path to {other}: by {hop}"
                    return
        for target in self.running:
            for name in sorted(self.reaches(target), key=self.reaches(target).__getitem__):
                if name != target:  # the nearest come first, so the next hop is done already
                    hop = hops[name][target]
                    last = name if hop == target else before[hop][target]
                    before.setdefault(name, {})[target] = last
        for name, lasts in before.items():
            for other, last in lasts.items():
                if hops[other][name] != last:
                    yield f"the path from {name} to {other} is not the one back"
                    return


class Situation:
    """What is true at a moment, and what users want."""

    def __init__(
        self,
        truth: Truth,
        hops: Hops,
        subscriptions: Mapping[str, Mapping[str, str]],
        advertisements: Mapping[str, Mapping[str, str]],
        sample: Callable[[], Sequence[Sample]],
        exact: bool,
    ) -> None:
        self.truth = truth
        self.hops = hops  # of the nodes themselves, or shortest ones where they know of none
        self.subscriptions = subscriptions  # by node: predicate by id
        self.advertisements = advertisements
        self.exact = exact  # whether nodes must send nothing in vain either
        self.twins: dict[str, Any] = {}  # that objections have made of it, by scheme
        self._sample = sample

    @cached_property
    def samples(self) -> Sequence[Sample]:
        """Events, and the nodes that want each."""
        return self._sample()


# Where the nodes, by name, disagree with a situation.
Disagreements = Callable[[Mapping[str, Any], Situation], Iterator[str]]


def wrong_interfaces(
    situation: Situation, sends: Callable[[str, str, dict[str, Any]], bool]
) -> Iterator[str]:
    """Where a node hides a receiver: it does not send by an interface what is wanted behind it.

    `sends` tells whether a node would send an event by an interface. If the situation is exact, a
    node must not send what nobody behind the interface wants.
    """
    for name in situation.truth.running:
        hop = situation.hops[name]
        for interface in sorted(set(hop.values())):
            for event, who in situation.samples:
                wanted = any(hop.get(other) == interface for other in who)
                sent = sends(name, interface, event)
                if wanted and not sent:
                    yield f"{name} hides a receiver of {event} behind {interface}"
                elif situation.exact and not wanted and sent:
                    yield f"{name} sends {event} to {interface}, where nobody wants it"


def wrong_subscriptions(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """Where a node holds other subscriptions than its users have."""
    for name in situation.truth.running:
        held = nodes[name].snapshot()["subscriptions"]
        wanted = situation.subscriptions.get(name, {})
        if held != wanted:
            yield f"{name} holds the subscriptions {sorted(held)}, not {sorted(wanted)}"
