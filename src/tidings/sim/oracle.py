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
from tidings.routing.planes.interests import NOTHING, predicate_of
from tidings.routing.planes.topology import Routes, Topology, weight_of
from tidings.routing.protocol import SECOND, Deliver, Drop, Established
from tidings.sim.ledger import Ledger
from tidings.sim.load import Event, Want
from tidings.sim.network import Network, Node

TRANSIT = 2 * SECOND  # after it an event that has not arrived counts as lost
MOST_VIOLATIONS = 20


class Enough(Exception):
    """A violation has been found, and the caller wants no more than one."""


class Held:
    """A subscription that a node holds."""

    __slots__ = ("established", "node", "want")

    def __init__(self, node: str, want: Want) -> None:
        self.node = node
        self.want = want
        self.established = False


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


class Truth:
    """The true network at a moment: nodes that run, and links that work in both directions."""

    def __init__(self, network: Network) -> None:
        self.running = [node.name for node in network.nodes.values() if node.running]
        adjacency: dict[str, dict[str, int]] = {name: {} for name in self.running}
        for (one, other), link in network.links.items():
            carries = not link.cut and not network.links[other, one].cut
            if carries and one in adjacency and other in adjacency:
                cost = max(network.costs[one, other], network.costs[other, one])
                adjacency[one][other] = weight_of(min(one, other), max(one, other), cost)
        self._topology = Topology(0, adjacency)
        self._routes: dict[str, Routes] = {}

    def routes(self, name: str) -> Routes:
        """A node's place in the network."""
        found = self._routes.get(name)
        if found is None:
            found = self._routes[name] = Routes(name, self._topology)
        return found

    def reaches(self, source: str) -> dict[str, int]:
        """The nodes in reach of one, and itself."""
        return self._topology.distances(source)

    def links_needed(self, source: str, wanting: set[str]) -> int:
        """The number of links that an event needs from a source to the nodes that want it."""
        links: set[tuple[str, str]] = set()
        for target in wanting:
            while target != source and target in self.routes(source).hop:
                above = self.routes(target).hop[source]
                if (above, target) in links:
                    break
                links.add((above, target))
                target = above
        return len(links)

    def pif(self, source: str, wanting: set[str]) -> set[tuple[str, str]]:
        """The links that an event takes under PIF (U4): those in the source's tree behind which
        some node wants it."""
        links: set[tuple[str, str]] = set()
        here = [source]
        for node in here:  # grows while it is read
            hop = self.routes(node).hop
            behind = {hop[name] for name in wanting if name in hop}
            for child in self.routes(node).children(source):
                if child in behind:
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
        self._fates: dict[int, Fate] = {}
        self._open: dict[int, Fate] = {}

    def violated(self, now: int, what: str) -> None:
        """Note a violation."""
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(f"{now / SECOND:.6f} s: {what}")
        if self.first_only:
            raise Enough

    # What the users do

    def subscribe(self, id: str, node: str, want: Want) -> None:
        """Someone is about to subscribe."""
        self.held[id] = Held(node, want)

    def unsubscribe(self, id: str) -> None:
        """Someone unsubscribes, or the node loses its memory: nothing is owed any more."""
        del self.held[id]
        for fate in self._open.values():
            if fate.owed_to(id):
                self.ledger.withdrawn += 1

    def publish(self, event: Event, source: str, stable: bool, truth: Truth) -> None:
        """Someone is about to publish an event."""
        fate = Fate(event, source)
        reach = truth.reaches(source)
        wanting = set()
        for id, held in self.held.items():
            if held.want.wants(event) and held.node in reach:
                wanting.add(held.node)
                owed = fate.due if stable and held.established else fate.hoped
                owed[id] = None
        if stable:
            fate.needed = truth.links_needed(source, wanting)
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
                if not fate.owed_to(id):
                    self.ledger.surplus += 1
                elif fate.closed:  # it comes late, and has been counted as lost
                    self.ledger.lost -= 1
                fate.got.add(id)

    def established(self, now: int, node: Node, action: Established) -> None:
        """A node says that subscriptions are established."""
        for id in action.subscriptions:
            held = self.held.get(id)
            if held is None or held.node != node.name:
                self.violated(now, f"unexpected: {node.name} establishes {id}, which is not held")
            else:
                held.established = True

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        """A node has dropped a packet."""
        self.ledger.drops[action.reason] += 1

    # What the network is like

    def wants_by_node(self) -> dict[str, list[Want]]:
        """What each node wants."""
        found: dict[str, list[Want]] = {}
        for held in self.held.values():
            found.setdefault(held.node, []).append(held.want)
        return found

    def disagreements(
        self, network: Network, truth: Truth, samples: Sequence[Event], exact: bool
    ) -> Iterator[str]:
        """Where the nodes of a content-based network disagree with the truth.

        Routes must be those of the true network. A table must let through whatever any node behind
        an interface wants. If `exact`, it must let through nothing else, and there must be records
        of exactly the nodes that run.
        """
        wants = self.wants_by_node()
        wanting = [
            {name for name, wanted in wants.items() if any(w.wants(event) for w in wanted)}
            for event in samples
        ]
        for name in truth.running:
            router: Any = network.nodes[name].router
            hop = truth.routes(name).hop
            if router.plane.routes.hop != hop:
                yield f"{name} has wrong routes"
                continue
            if not router.is_settled():
                yield f"{name} is not settled"
                continue
            if exact and sorted(router.plane.records) != sorted(truth.reaches(name)):
                yield f"{name} has records of {sorted(router.plane.records)}"
            for interface in truth.routes(name).children(name):
                check = predicate_of(router.table.get(interface, NOTHING)).matches
                for event, who in zip(samples, wanting, strict=True):
                    wanted = any(hop.get(other) == interface for other in who)
                    if wanted and not check(event):
                        yield f"{name} hides a receiver of {event} behind {interface}"
                    elif exact and not wanted and check(event):
                        yield f"{name} sends {event} to {interface}, where nobody wants it"
