"""A network in one thread: nodes, links between them, and a queue of what happens when.

Time is whole nanoseconds. All chance comes from one generator, in the order in which things happen.
So a seed decides a whole run, packet by packet; the trace is a hash over all of it. Nodes have
clocks of their own. Links delay packets, and on demand lose, repeat, reorder, misdirect, hold back
or swallow them, in one direction or both.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, Protocol

import msgspec

from tidings.overlay.paths import tree_of
from tidings.routing.packets import Advertisement, Packet, Parcel, Publication, Request
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Action,
    Answered,
    Broadcast,
    Cause,
    Deliver,
    Drop,
    Established,
    InForce,
    LinkDown,
    LinkUp,
    Received,
    Refused,
    Send,
    Unanswered,
    Woken,
)
from tidings.routing.protocol import Protocol as Router
from tidings.routing.protocols import AIR, ANYONE, NEIGHBOURS, UNICAST
from tidings.sim.service import Service

ARRIVAL, WAKE, CALL, SERVED = 0, 1, 2, 3
PER_MILLE: Final = 1_000  # clock rates are thousandths
UserAction = InForce | Refused | Answered | Unanswered
# Packets that need more than neighbours; whoever may speak to anyone needs nothing else.
NEEDED: Final[dict[type, str]] = {Parcel: UNICAST}
STRAYS: Final = (Publication, Advertisement, Request)  # what a neighbour may send by mistake
LATE: Final = 60 * MILLISECOND  # by how much a packet may be late, at most


class Undeclared(Exception):
    """A node sends what its protocol has not declared to need."""


class Endless(Exception):
    """There are more packets than a working network would ever send."""


class Watcher(Protocol):
    """An observer that sees everything that happens."""

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        """A node has put a packet on a link."""

    def delivered(self, now: int, node: Node, action: Deliver) -> None:
        """A node has handed an event to subscriptions."""

    def established(self, now: int, node: Node, action: Established) -> None:
        """A node says that subscriptions are established."""

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        """A node has dropped a packet."""

    def told(self, now: int, node: Node, action: UserAction) -> None:
        """A node tells its users about advertisements, feedback, or a subscription refused."""


class Link:
    """One direction of a link."""

    __slots__ = (
        "_calm",
        "cut",
        "delay",
        "duplicate",
        "free_at",
        "held_until",
        "label",
        "last",
        "loss",
        "ns_per_byte",
        "plain",
        "reorder",
        "source",
        "stray",
        "target",
    )

    def __init__(
        self,
        source: str,
        target: str,
        delay: int,
        ns_per_byte: int,
        gentle: tuple[float, float, float],
    ) -> None:
        self.source = source
        self.target = target
        self.label = f"{source} {target} ".encode()
        self.delay = delay
        self.free_at = 0  # when the earlier packets are through
        self.last = 0  # when the last one arrives: without `reorder` none overtakes another
        self.cut = 0  # how many faults cut it
        self._calm = (ns_per_byte, *gentle)
        self.calm()

    def calm(self) -> None:
        """Return to calm weather: lose nothing; repeat, reorder and misdirect only gently."""
        self.held_until = 0
        self.loss = 0.0
        self.ns_per_byte, self.duplicate, self.reorder, self.stray = self._calm
        self.disturbed()

    def disturbed(self) -> None:
        """Take note that the shares of lost, repeated, late or misdirected packets were set."""
        self.plain = not (self.loss or self.duplicate or self.reorder or self.stray)


class Node:
    """A place in the network: the router that runs there, if it runs, and its clock."""

    __slots__ = (
        "life",
        "links",
        "missed",
        "name",
        "offset",
        "rate",
        "router",
        "running",
        "wake_at",
    )

    def __init__(self, name: str, offset: int, rate: int) -> None:
        self.name = name
        self.offset = offset
        self.rate = rate
        self.life = 0
        self.router: Router | None = None  # None while it has no memory
        self.running = False
        self.wake_at: int | None = None
        self.links: dict[str, Link] = {}
        self.missed: list[Cause] = []  # changes of its links while it was stopped

    def clock(self, now: int) -> int:
        """What its clock shows at a moment."""
        if self.rate == PER_MILLE:
            return self.offset + now
        return self.offset + now * self.rate // PER_MILLE

    def moment(self, time: int) -> int:
        """The first moment at which its clock shows at least this."""
        if self.rate == PER_MILLE:
            return time - self.offset
        return -((self.offset - time) * PER_MILLE // self.rate)


class Network:
    """Nodes and links, and what is going to happen."""

    def __init__(
        self,
        make: Callable[[str, int], Router],
        watcher: Watcher,
        chance: Random,
        needs: frozenset[str] = frozenset({NEIGHBOURS}),
    ) -> None:
        self.make = make
        self.watcher = watcher
        self.chance = chance
        self.needs = needs  # what the protocol has declared: it may send nothing else
        self.now = 0
        self.nodes: dict[str, Node] = {}
        self.links: dict[tuple[str, str], Link] = {}
        self.costs: dict[tuple[str, str], int] = {}
        # Whether a packet of a node may go astray to this neighbour.
        self.may_stray: Callable[[str, str, Any], bool] = lambda source, target, packet: True
        self.service: Service | None = None  # None: nodes take no time
        self.most_packets: int | None = None  # after which the run counts as endless
        self._paths: tuple[Any, dict[str, dict[str, list[Link]]]] = (None, {})
        self._last: dict[tuple[str, str], int] = {}  # when the last packet between two arrives
        self._queue: list[tuple[int, int, int, Any, Any, Any]] = []
        self._order = 0
        self._lives = 0
        self._trace = blake2b(digest_size=16)
        self._encode = msgspec.msgpack.Encoder().encode
        self._packet: Packet | None = None  # the last one encoded, and its bytes
        self._data = b""
        self._packets = 0

    # What there is

    def add_node(self, name: str, offset: int = 0, rate: int = PER_MILLE) -> Node:
        """A place for a node; `start` makes it run."""
        node = self.nodes[name] = Node(name, offset, rate)
        return node

    def add_link(
        self,
        one: str,
        other: str,
        cost: int,
        delay: int,
        ns_per_byte: int = 0,
        gentle: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> None:
        """A link between two places; nodes hear of it when they start.

        `gentle` are the shares of packets that it repeats, delays, or also sends to another node.
        """
        for source, target in ((one, other), (other, one)):
            link = Link(source, target, delay, ns_per_byte, gentle)
            self.links[source, target] = self.nodes[source].links[target] = link
            self.costs[source, target] = cost

    @property
    def trace(self) -> str:
        """A hash over all that has happened."""
        return self._trace.copy().hexdigest()

    # What can be done to it

    def start(self, name: str) -> None:
        """Start a node: anew, or with the memory that it stopped with."""
        node = self.nodes[name]
        node.running = True
        node.wake_at = None
        missed, node.missed = node.missed, []
        if node.router is None:
            self._lives += 1
            node.life = self._lives
            node.router = self.make(name, node.life)
            for neighbour in node.links:
                self.tell(name, LinkUp(neighbour, self.costs[name, neighbour]))
        else:
            for cause in missed:
                self.tell(name, cause)
        self._arm(node)

    def stop(self, name: str, forget: bool) -> None:
        """Stop a node, which perhaps loses its memory."""
        node = self.nodes[name]
        node.running = False
        if forget:
            node.router = None
            if self.service is not None:
                self.service.forget(name)

    def unlink(self, one: str, other: str) -> None:
        """Take a link away, and tell both ends."""
        for source, target in ((one, other), (other, one)):
            self.links[source, target].cut += 1
            self.tell(source, LinkDown(target))

    def relink(self, one: str, other: str) -> None:
        """Bring a link back, and tell both ends."""
        for source, target in ((one, other), (other, one)):
            self.links[source, target].cut -= 1
            self.tell(source, LinkUp(target, self.costs[source, target]))

    def tell(self, name: str, cause: Cause) -> None:
        """Give a node a cause now; a stopped node hears later of changes of its links only."""
        node = self.nodes[name]
        if node.running and node.router is not None:
            self._mark(f"{self.now} {name} {cause!r}".encode())
            self._act(node, node.router.handle(cause, node.clock(self.now)))
        elif isinstance(cause, LinkUp | LinkDown):
            node.missed.append(cause)

    def call(self, time: int, function: Callable[[], None]) -> None:
        """Call a function at a time."""
        self._push(time, CALL, function, None, None)

    # Time goes by

    def run(self, until: int) -> None:
        """Run everything that happens up to and at a time."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, kind, one, other, packet = heappop(queue)
            if kind == ARRIVAL:
                node: Node = other
                if self.service is not None and self._serve(self.service, one, node, packet):
                    continue
                if node.running and node.router is not None:
                    cause = Received(one, packet)
                    self._act(node, node.router.handle(cause, node.clock(self.now)))
            elif kind == WAKE:
                node = one
                if node.wake_at == self.now and node.running and node.router is not None:
                    node.wake_at = None
                    self._act(node, node.router.handle(Woken(), node.clock(self.now)))
            elif kind == SERVED:
                node, life = other
                if node.life == life and node.running and node.router is not None:
                    cause = Received(one, packet)
                    self._act(node, node.router.handle(cause, node.clock(self.now)))
            else:
                one()
        self.now = until

    def _serve(self, service: Service, source: str, node: Node, packet: Packet) -> bool:
        """Let a packet wait for its node, if it takes time and the node runs."""
        if not node.running or node.router is None:
            return False
        done = service.packet(self.now, node.name, node.router, packet)
        if done > self.now:
            self._push(done, SERVED, source, (node, node.life), packet)
        return done > self.now

    def _push(self, time: int, kind: int, one: Any, other: Any, packet: Any) -> None:
        self._order += 1
        heappush(self._queue, (time, self._order, kind, one, other, packet))

    def _arm(self, node: Node) -> None:
        """Wake a node when it wants to be woken."""
        assert node.router is not None
        timer = node.router.timer()
        if timer is not None:
            moment = node.moment(timer)
            if moment <= self.now:
                moment = self.now + 1
            if moment != node.wake_at:
                node.wake_at = moment
                self._push(moment, WAKE, node, None, None)

    def _act(self, node: Node, actions: list[Action]) -> None:
        watcher = self.watcher
        for action in actions:
            if type(action) is Send:
                self._send(node, action.neighbour, action.packet)
            elif type(action) is Deliver:
                where = f"{self.now} {node.name} {action.publication.number}"
                self._mark(f"{where} {action.subscriptions}".encode())
                watcher.delivered(self.now, node, action)
            elif type(action) is Drop:
                watcher.dropped(self.now, node, action)
            elif type(action) is Established:
                watcher.established(self.now, node, action)
            elif type(action) is Broadcast:
                self._declared(AIR, node, action.packet)
                for target in node.links:
                    self._send(node, target, action.packet)
            elif isinstance(action, UserAction):
                self._mark(f"{self.now} {node.name} {action!r}".encode())
                watcher.told(self.now, node, action)
            else:
                raise TypeError(f"no action: {action!r}")
        self._arm(node)

    def _mark(self, what: bytes) -> None:
        self._trace.update(what)

    # Links

    def _send(self, node: Node, target: str, packet: Packet) -> None:
        need = NEEDED.get(type(packet))
        if need is not None and ANYONE not in self.needs:
            self._declared(need, node, packet)
        link = node.links.get(target)
        if link is None:
            self._declared(ANYONE, node, packet)
            self._send_far(node, target, packet)
            return
        if self._packet is not packet:
            self._packet, self._data = packet, self._encode(packet)
        self._packets += 1
        if self._packets == self.most_packets:
            raise Endless(f"{self._packets} packets after {self.now / SECOND:.3f} s")
        data = self._data
        size = len(data)
        now = self.now
        self.watcher.sent(now, node, target, packet, size)
        self._trace.update(b"%d %b %b" % (now, link.label, data))
        if link.cut:
            return
        begin = now
        if link.free_at > begin:
            begin = link.free_at
        if link.held_until > begin:
            begin = link.held_until
        link.free_at = begin + size * link.ns_per_byte
        arrival = link.free_at + link.delay
        if not link.plain:
            chance = self.chance.random
            if chance() < link.loss:
                return
            if chance() < link.duplicate:
                self._arrive(arrival + int(chance() * LATE), node, target, packet)
            if chance() < link.stray and type(packet) in STRAYS:
                others = [name for name in node.links if name != target]
                if others:
                    other = others[int(chance() * len(others))]
                    if not node.links[other].cut and self.may_stray(node.name, other, packet):
                        self._arrive(arrival, node, other, packet)
            if chance() < link.reorder:
                self._arrive(arrival + int(chance() * LATE), node, target, packet)
                return
        if arrival < link.last:
            arrival = link.last
        link.last = arrival
        self._arrive(arrival, node, target, packet)

    def _declared(self, need: str, node: Node, packet: Packet) -> None:
        if need not in self.needs:
            what = type(packet).__name__
            raise Undeclared(f"{node.name} sends a {what}: the protocol has not declared {need}")

    def _send_far(self, node: Node, target: str, packet: Packet) -> None:
        """A node speaks to one that is no neighbour: the packet takes the shortest path below.

        Nodes on the path do not see it, but its links delay, lose, repeat and reorder it.
        """
        data = self._encode(packet)
        self._packets += 1
        self.watcher.sent(self.now, node, target, packet, len(data))
        self._trace.update(b"%d %b %b %b" % (self.now, node.name.encode(), target.encode(), data))
        path = self._path(node.name, target)
        if path is None:
            return
        chance = self.chance.random
        arrival, late = self.now, False
        for link in path:
            arrival += len(data) * link.ns_per_byte + link.delay
            if not link.plain:
                if chance() < link.loss:
                    return
                if chance() < link.duplicate:
                    self._arrive(arrival + int(chance() * LATE), node, target, packet)
                if chance() < link.reorder:
                    arrival += int(chance() * LATE)
                    late = True
        if not late:
            arrival = self._last[node.name, target] = max(
                arrival, self._last.get((node.name, target), 0)
            )
        self._arrive(arrival, node, target, packet)

    def _path(self, source: str, target: str) -> list[Link] | None:
        """The links on the path below with the least delay; None if there is none."""
        cuts = tuple(link.cut > 0 for link in self.links.values())
        if self._paths[0] != cuts:
            self._paths = cuts, {}
        known = self._paths[1]
        if source not in known:
            delays: dict[str, dict[str, int]] = {name: {} for name in self.nodes}
            for (one, other), link in self.links.items():
                if not link.cut:
                    delays[one][other] = max(1, link.delay)
            paths: dict[str, list[Link]] = {source: []}
            for node, parent in tree_of(delays, source).parent.items():
                paths[node] = [*paths[parent], self.links[parent, node]]
            known[source] = paths
        return known[source].get(target)

    def _arrive(self, time: int, source: Node, target: str, packet: Packet) -> None:
        self._order += 1
        heappush(self._queue, (time, self._order, ARRIVAL, source.name, self.nodes[target], packet))
