"""The oracle: it knows the true state of the network, and judges everything that happens.

It always checks that nothing is delivered twice, nothing that does not match, nothing that nobody
published, and that no node sends an event over a link twice. While the network is stable, it checks
that every event arrives which was published after a subscription was established, and matches it.
Each protocol says in its row what its nodes must agree with, and which scheme from above tells the
links that an event takes at rest. `load` decides whether an event matches, not the language.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tidings.routing.packets import (
    Answer,
    Climb,
    Listed,
    Packet,
    Parcel,
    Publication,
    Spread,
    publication_of,
)
from tidings.routing.protocol import (
    SECOND,
    Answered,
    Deliver,
    Drop,
    Established,
    InForce,
    Refused,
    Unanswered,
)
from tidings.routing.truth import Hops, Sample, Situation, Truth
from tidings.sim.ledger import Ledger
from tidings.sim.load import AnyWant, Event
from tidings.sim.network import Network, Node, UserAction

TRANSIT = 2 * SECOND  # after it an event that has not arrived counts as lost
MOST_VIOLATIONS = 20

Links = list[tuple[str, str]]


class Enough(Exception):
    """A violation has been found, and the caller wants no more than one."""


class Held:
    """A subscription that a node holds."""

    __slots__ = ("established", "newest", "node", "reach", "text", "want")

    def __init__(self, node: str, want: AnyWant) -> None:
        self.node = node
        self.want = want
        self.text = str(want)
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
        # Links taken: from, its life, to; and what tells copies apart that may take a link again.
        self.edges: dict[tuple[str, int, str, tuple[str | int, ...]], None] = {}
        self.needed: int | None = None  # links that it needs, if the network was stable

    def owed_to(self, id: str) -> bool:
        """Whether it was due to a subscription, or hoped for; from now on it is not."""
        owed = id in self.due or id in self.hoped
        self.due.pop(id, None)
        self.hoped.pop(id, None)
        return owed


def truth_of(network: Network) -> Truth:
    """The nodes that run, and the links that work in both directions."""
    costs: dict[str, dict[str, int]] = {
        node.name: {} for node in network.nodes.values() if node.running
    }
    for (one, other), link in network.links.items():
        carries = not link.cut and not network.links[other, one].cut
        if carries and one in costs and other in costs:
            costs[one][other] = max(network.costs[one, other], network.costs[other, one])
    return Truth(costs)


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


class Sent:
    """Feedback to the publisher of an event."""

    __slots__ = ("answered", "due", "event", "gone", "node", "path", "taken", "told")

    def __init__(
        self, node: str, event: Publication, due: bool, gone: bool, path: Links | None
    ) -> None:
        self.node = node
        self.event = event
        self.due = due  # whether the publisher must get it
        self.gone = gone  # whether there is no publisher any more, and the replier must be told
        self.path = path  # if the network stays as it is, or one as short; None: as the event took
        self.taken: Links = []
        self.answered = 0
        self.told = 0  # that it did not arrive


class Oracle:
    """Watches everything, and notes what is wrong."""

    def __init__(self, ledger: Ledger, first_only: bool = False) -> None:
        self.ledger = ledger
        self.first_only = first_only  # end at the first violation
        self.held: dict[str, Held] = {}
        self.violations: list[str] = []
        self.on_delivered: Callable[[str, Publication], None] | None = None
        self.on_in_force: Callable[[str, str], None] | None = None
        self.in_order = False  # whether links keep packets in order, so that events stay in order
        self.hops: Hops = {}  # the paths when the network was last found right
        self.right: Truth | None = None  # the network at that time
        self._fates: dict[int, Fate] = {}
        self._open: dict[int, Fate] = {}
        self._advertised: dict[tuple[str, str], bool] = {}  # by node and id: whether in force
        self._replies: dict[int, Sent] = {}

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
        if stable and self.right is not None and self.right.costs == truth.costs:
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

    def advertise(self, node: str, id: str) -> None:
        """Someone is about to advertise."""
        self._advertised[node, id] = False
        self.ledger.advertised += 1

    def must_be_in_force(self, node: str, id: str, now: int) -> None:
        """Enough time has passed that an advertisement must be in force."""
        if not self._advertised.get((node, id), True):
            self.violated(now, f"stuck: the advertisement {id} of {node} is not in force")

    def unadvertise(self, node: str, id: str) -> None:
        """Someone withdraws an advertisement, or the node loses its memory."""
        self._advertised.pop((node, id), None)

    def reply(
        self, id: int, node: str, event: Publication, due: bool, gone: bool, path: Links | None
    ) -> None:
        """Someone is about to reply to the publisher of an event."""
        self._replies[id] = Sent(node, event, due, gone, path)
        self.ledger.replied += 1

    def close_reply(self, id: int, now: int, stable: bool) -> None:
        """The time of a reply is up."""
        sent = self._replies[id]
        what = f"reply {id} from {sent.node} to {sent.event.source}"
        if stable and sent.due and not sent.answered:
            self.violated(now, f"unanswered: {what}")
        if stable and sent.gone and not sent.told:
            self.violated(now, f"untold: {what}, who has gone")
        if stable and sent.due and sent.path is not None and self._is_detour(sent):
            self.violated(now, f"detour: {what} took {_shown(sent.taken)}, not {_shown(sent.path)}")

    def _is_detour(self, sent: Sent) -> bool:
        """Whether a reply took links that cost more, or less, than the path found right.

        Costs are compared, not links: paths as short as each other may differ in their links. A
        network is found right as soon as nodes have shortest paths. When they hear later of a link
        that is up again, they may go over to other paths, as short as those, which they prefer.
        """
        if self.right is None or sent.path is None:
            return False
        taken = self.right.cost_of(sent.taken)
        return taken is None or taken != self.right.cost_of(sent.path)

    def event(self, number: int) -> Event:
        """An event that was published."""
        return self._fates[number].event

    def links(self, number: int) -> Counter[tuple[str, str]]:
        """The links that an event has taken, and how often."""
        return Counter((str(edge[0]), str(edge[2])) for edge in self._fates[number].edges)

    # What the network does

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        """A node has put a packet on a link."""
        ledger = self.ledger
        publication = publication_of(packet)
        if type(packet) is Answer and packet.id in self._replies:
            self._replies[packet.id].taken.append((node.name, target))
        if publication is None:
            ledger.control_packets += 1
            ledger.control_bytes += size
            return
        ledger.event_packets += 1
        fate = self._fates.get(publication.event.get("number", -1))
        if fate is None:
            self.violated(now, f"invented: {node.name} sends what nobody published")
            return
        # Parcels of one event go to several targets, and back and forth while routes change.
        which: tuple[str | int, ...] = ("", 0)
        if type(packet) is Parcel:
            which = (packet.target, packet.hops, packet.source, packet.number)
        if type(packet) is Listed:  # it may be sent again, if it is not answered
            which = (" ".join(packet.targets), ledger.event_packets)
        elif type(packet) is Spread:
            which = (packet.source, packet.number)
        elif type(packet) is Climb:  # it may come down by the same link
            which = ("", 1)
        edge = (node.name, node.life, target, which)
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
        if self.on_delivered is not None:
            self.on_delivered(node.name, action.publication)
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
        hops = None if node.router is None else node.router.hops
        known = self.known_to(node.name) if hops is None else set(hops)
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
        held.reach = self.known_to(held.node)

    def known_to(self, name: str) -> set[str]:
        """The nodes in reach of one when the network was last found right."""
        if self.right is None or name not in self.right.costs:
            return set()
        return set(self.right.reaches(name))

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        """A node has dropped a packet."""
        self.ledger.drops[action.reason] += 1

    def told(self, now: int, node: Node, action: UserAction) -> None:
        """A node tells its users about advertisements, feedback, or a subscription refused."""
        match action:
            case InForce(ids):
                for id in ids:
                    if (node.name, id) not in self._advertised:
                        self.violated(now, f"unexpected: {node.name} says that {id} is in force")
                    self._advertised[node.name, id] = True
                    if self.on_in_force is not None:
                        self.on_in_force(node.name, id)
            case Answered(number, message):
                self.ledger.answered += 1
                sent = self._replies.get(message["reply"])
                whose = (node.name, node.life, number)
                event = None if sent is None else sent.event
                if event is None or (event.source, event.life, event.number) != whose:
                    self.violated(now, f"unexpected: {node.name} gets {message} for {number}")
                elif sent is not None:
                    sent.answered += 1
                    self._once(now, message["reply"], sent)
            case Unanswered(id):
                self.ledger.unanswered += 1
                sent = self._replies.get(id)
                if sent is None or sent.node != node.name:
                    self.violated(now, f"unexpected: {node.name} is told of reply {id}")
                else:
                    sent.told += 1
                    self._once(now, id, sent)
            case Refused(subscriptions):
                for id in subscriptions:
                    if self.held.pop(id, None) is None:
                        self.violated(now, f"unexpected: {node.name} refuses {id}, not held")

    def _once(self, now: int, id: int, sent: Sent) -> None:
        if sent.answered + sent.told > 1:
            counts = f"{sent.answered} answered, {sent.told} told"
            self.violated(now, f"twice: reply {id} from {sent.node}: {counts}")

    # What the network is like

    def found_right(self, situation: Situation) -> None:
        """The nodes agree with the truth: from now on they must send each other all they want."""
        self.right = situation.truth
        self.hops = situation.hops
        for held in self.held.values():
            held.reach = self.known_to(held.node)

    def wanting(self, event: Event) -> set[str]:
        """The nodes that want an event."""
        return {held.node for held in self.held.values() if held.want.wants(event)}

    def situation(
        self,
        network: Network,
        truth: Truth,
        samples: Callable[[], Sequence[Event]],
        exact: bool,
    ) -> Situation:
        """What is true now, and events to try on the nodes, drawn when they are needed."""
        subscriptions: dict[str, dict[str, str]] = {}
        for id, held in self.held.items():
            subscriptions.setdefault(held.node, {})[id] = held.text

        def sample() -> Sequence[Sample]:
            return [(event, self.wanting(event)) for event in samples()]

        hops = hops_of(network, truth)
        return Situation(truth, hops, subscriptions, {}, sample, exact)


def _shown(links: Links) -> str:
    return ", ".join(f"{one}-{other}" for one, other in links) or "no link"


def hops_of(network: Network, truth: Truth) -> Hops:
    """The next hops as the nodes have them, or shortest paths where they know of none."""
    known: Hops = {}
    for name in truth.running:
        router = network.nodes[name].router
        hops = None if router is None else router.hops
        if hops is None:
            return truth.some_hops
        known[name] = dict(hops)
    return known
