"""The oracle: it knows the true state of the network, and judges everything that happens.

It always checks that nothing is delivered twice, nothing that does not match, nothing that nobody
published, and that no node sends an event over a link twice. While the network is stable, it checks
that every event arrives which was published after a subscription was established, and matches it.
At rest it checks that tables are exact, that there are records of exactly the nodes that run, and
that an event takes the very links that paper U's scheme PIF gives it. `load` decides whether an
event matches, not the language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidings.routing.packets import Packet, Publication
from tidings.routing.protocol import SECOND, Deliver, Drop, Established
from tidings.sim.ledger import Ledger
from tidings.sim.load import AnyWant, Event
from tidings.sim.network import Network, Node

TRANSIT = 2 * SECOND  # after it an event that has not arrived counts as lost
MOST_VIOLATIONS = 20


class Enough(Exception):
    """A violation has been found, and the caller wants no more than one."""


class Held:
    """A subscription that a node holds."""

    __slots__ = ("established", "newest", "node", "reach", "want")

    def __init__(self, node: str, want: AnyWant) -> None:
        self.node = node
        self.want = want
        self.established = False
        self.reach: set[str] = set()  # the nodes that must send it what it matches
        self.newest: dict[str, int] = {}  # by source: the number of the last event that was due


class Fate:
    """An event, and what became of it."""

    __slots__ = ("closed", "due", "edges", "event", "got", "hoped", "needed", "source")

    def __init__(self, event: Event, source: str) -> None:
        self.event = event
        self.source = source
        self.due: dict[str, None] = {}  # subscriptions that must get it
        self.hoped: dict[str, None] = {}  # those that may get it or miss it
        self.got: set[str] = set()
        self.closed = False  # whether its time is up
        self.edges: dict[tuple[str, int, str], None] = {}  # links taken: from, its life, to
        self.needed: int | None = None  # links that it needs, if the network was stable

    def owed_to(self, id: str) -> bool:
        """Whether it was due to a subscription, or hoped for; from now on it is not."""
        owed = id in self.due or id in self.hoped
        self.due.pop(id, None)
        self.hoped.pop(id, None)
        return owed


Hops = dict[str, dict[str, str]]  # by node and destination: the neighbour that comes next


class Truth:
    """The true network at a moment: nodes that run, and links that work in both directions.

    Distances are found here anew, and how the nodes break ties is theirs: any shortest paths will
    do, if they are the same in both directions.
    """

    def __init__(self, network: Network) -> None:
        self.running = [node.name for node in network.nodes.values() if node.running]
        self.costs: dict[str, dict[str, int]] = {name: {} for name in self.running}
        for (one, other), link in network.links.items():
            carries = not link.cut and not network.links[other, one].cut
            if carries and one in self.costs and other in self.costs:
                cost = max(network.costs[one, other], network.costs[other, one])
                self.costs[one][other] = cost
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

    def hops_across(self, source: str) -> int:
        """The links on the longest of the shortest paths from a node."""
        hops = {source: 0}
        reach = self.reaches(source)
        for node in sorted(reach, key=reach.__getitem__):  # the nearest come first
            for other, more in self.costs[node].items():
                if reach[other] == reach[node] + more:
                    hops[other] = max(hops.get(other, 0), hops[node] + 1)
        return max(hops.values())

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


def links_needed(hops: Hops, source: str, wanting: set[str]) -> int:
    """The number of links that an event needs from a source to the nodes that want it."""
    links: set[tuple[str, str]] = set()
    for target in wanting:
        while target != source and source in hops[target]:
            above = hops[target][source]
            if (above, target) in links:
                break
            links.add((above, target))
            target = above
    return len(links)


def pif(hops: Hops, source: str, wanting: set[str]) -> set[tuple[str, str]]:
    """The links that an event takes under PIF (U4): those in the source's tree behind which some
    node wants it."""
    links: set[tuple[str, str]] = set()
    here = [source]
    for node in here:  # grows while it is read
        behind = {hops[node][name] for name in wanting if name in hops[node]}
        for child in sorted(behind):
            if hops[child].get(source) == node:
                links.add((node, child))
                here.append(child)
    return links


class Oracle:
    """Watches everything, and notes what is wrong."""

    def __init__(self, ledger: Ledger, first_only: bool = False) -> None:
        self.ledger = ledger
        self.first_only = first_only  # end at the first violation
        self.held: dict[str, Held] = {}
        self.violations: list[str] = []
        self.in_order = False  # whether links keep packets in order, so that events stay in order
        self.hops: Hops = {}  # the paths when the network was last found right
        self._right: Truth | None = None  # the network at that time
        self._fates: dict[int, Fate] = {}
        self._open: dict[int, Fate] = {}

    def violated(self, now: int, what: str) -> None:
        """Note a violation."""
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(f"{now / SECOND:.6f} s: {what}")
        if self.first_only:
            raise Enough

    # What the users do

    def subscribe(self, id: str, node: str, want: AnyWant) -> None:
        """Someone is about to subscribe."""
        self.held[id] = Held(node, want)

    def unsubscribe(self, id: str) -> None:
        """Someone unsubscribes, or the node loses its memory: nothing is owed any more."""
        del self.held[id]
        for fate in self._open.values():
            if fate.owed_to(id):
                self.ledger.withdrawn += 1

    def publish(self, event: Event, source: str, stable: bool, truth: Truth) -> None:
        """Someone is about to publish an event.

        In a stable network it is due to the established subscriptions of which its source must
        know: those that it could reach when the network was last found right, and those that have
        been established since, at a node that knew of the source.
        """
        fate = Fate(event, source)
        reach = truth.reaches(source)
        wanting = set()
        for id, held in self.held.items():
            if held.want.wants(event) and held.node in reach:
                wanting.add(held.node)
                known = held.node == source or source in held.reach
                owed = fate.due if stable and held.established and known else fate.hoped
                owed[id] = None
        if stable and self._right is not None and self._right.costs == truth.costs:
            fate.needed = links_needed(self.hops, source, wanting)
        self._fates[event["number"]] = self._open[event["number"]] = fate
        self.ledger.published += 1
        self.ledger.expected += len(fate.due) + len(fate.hoped)

    def close(self, number: int, now: int) -> None:
        """The time of an event is up."""
        fate = self._open.pop(number)
        fate.closed = True
        for id in fate.due:
            self.ledger.lost_when_stable += 1
            self.violated(
                now, f"lost: event {fate.event} from {fate.source} for {id}: {self.held[id].want}"
            )
        fate.due.clear()
        self.ledger.lost += len(fate.hoped)
        if fate.needed is not None:
            self.ledger.spam_packets += max(0, len(fate.edges) - fate.needed)

    def event(self, number: int) -> Event:
        """An event that was published."""
        return self._fates[number].event

    def edges(self, number: int) -> set[tuple[str, str]]:
        """The links that an event has taken."""
        return {(one, other) for one, _, other in self._fates[number].edges}

    # What the network does

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        """A node has put a packet on a link."""
        ledger = self.ledger
        if type(packet) is not Publication:
            ledger.control_packets += 1
            ledger.control_bytes += size
            return
        ledger.event_packets += 1
        fate = self._fates.get(packet.event.get("number", -1))
        if fate is None:
            self.violated(now, f"invented: {node.name} sends what nobody published")
            return
        edge = (node.name, node.life, target)
        if edge in fate.edges:
            self.violated(now, f"loop: {node.name} sends event {fate.event} to {target} again")
        fate.edges[edge] = None

    def delivered(self, now: int, node: Node, action: Deliver) -> None:
        """A node has handed an event to subscriptions."""
        event = action.publication.event
        fate = self._fates.get(event.get("number", -1))
        if fate is None or fate.event != event:
            self.ledger.unexpected += 1
            self.violated(now, f"invented: {node.name} delivers {event}")
            return
        for id in action.subscriptions:
            held = self.held.get(id)
            if held is None or held.node != node.name or not held.want.wants(event):
                self.ledger.unexpected += 1
                self.violated(now, f"unexpected: {node.name} delivers {event} to {id}")
            elif id in fate.got:
                self.ledger.duplicated += 1
                self.violated(now, f"twice: {node.name} delivers {event} to {id}")
            else:
                self.ledger.delivered += 1
                if self.in_order and id in fate.due:
                    self._in_order(now, held, fate)
                if not fate.owed_to(id):
                    self.ledger.surplus += 1
                elif fate.closed:  # it comes late, and has been counted as lost
                    self.ledger.lost -= 1
                fate.got.add(id)

    def _in_order(self, now: int, held: Held, fate: Fate) -> None:
        number = fate.event["number"]
        if number < held.newest.get(fate.source, 0):
            self.violated(now, f"overtaken: event {fate.event} from {fate.source} at {held.node}")
        held.newest[fate.source] = number

    def established(self, now: int, node: Node, action: Established) -> None:
        """A node says that subscriptions are established, at all nodes that it knows of."""
        plane = getattr(node.router, "plane", None)
        known = self._known_to(node.name) if plane is None else set(plane.routes.hop)
        for id in action.subscriptions:
            held = self.held.get(id)
            if held is None or held.node != node.name:
                self.violated(now, f"unexpected: {node.name} establishes {id}, which is not held")
            else:
                held.established = True
                held.reach = held.reach | known

    def presume(self, id: str) -> None:
        """Enough time has passed that a subscription must be established."""
        held = self.held[id]
        held.established = True
        held.reach = self._known_to(held.node)

    def _known_to(self, name: str) -> set[str]:
        """The nodes in reach of one when the network was last found right."""
        if self._right is None or name not in self._right.costs:
            return set()
        return set(self._right.reaches(name))

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        """A node has dropped a packet."""
        self.ledger.drops[action.reason] += 1

    # What the network is like

    def found_right(self, network: Network, truth: Truth) -> None:
        """The nodes agree with the truth: from now on they must send each other all they want."""
        self._right = truth
        self.hops = hops_of(network, truth) or truth.some_hops()
        for held in self.held.values():
            held.reach = self._known_to(held.node)

    def wants_by_node(self) -> dict[str, list[AnyWant]]:
        """What each node wants."""
        found: dict[str, list[AnyWant]] = {}
        for held in self.held.values():
            found.setdefault(held.node, []).append(held.want)
        return found

    def disagreements(
        self, network: Network, truth: Truth, samples: Sequence[Event], exact: bool
    ) -> Iterator[str]:
        """Where the nodes of a content-based network disagree with the truth.

        Routes must be shortest paths in the true network, the same in both directions. A node must
        let through whatever any node behind an interface wants. If `exact`, it must let through
        nothing else, and there must be records of exactly the nodes that run.
        """
        hops = hops_of(network, truth)
        wrong = next(truth.wrong_paths(hops), None)
        if wrong is not None:
            yield wrong
            return
        routers: dict[str, Any] = {name: network.nodes[name].router for name in truth.running}
        unsettled = [name for name in truth.running if not routers[name].is_settled()]
        if unsettled:
            yield f"{unsettled[0]} is not settled"
            return
        wants = self.wants_by_node()
        wanting = [
            {name for name, wanted in wants.items() if any(w.wants(event) for w in wanted)}
            for event in samples
        ]
        for name, router in routers.items():
            if exact and sorted(router.plane.records) != sorted(truth.reaches(name)):
                yield f"{name} has records of {sorted(router.plane.records)}"
            hop = hops[name]
            for interface in sorted(set(hop.values())):
                for event, who in zip(samples, wanting, strict=True):
                    wanted = any(hop.get(other) == interface for other in who)
                    sent = router.is_wanted(interface, event, router.views.newest)
                    if wanted and not sent:
                        yield f"{name} hides a receiver of {event} behind {interface}"
                    elif exact and not wanted and sent:
                        yield f"{name} sends {event} to {interface}, where nobody wants it"


def hops_of(network: Network, truth: Truth) -> Hops:
    """The next hops as the nodes have them, where they are nodes of a content-based network."""
    routers: dict[str, Any] = {name: network.nodes[name].router for name in truth.running}
    return {n: dict(r.plane.routes.hop) for n, r in routers.items() if hasattr(r, "plane")}
