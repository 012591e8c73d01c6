"""A link to a neighbour: numbers packets, and resends unacknowledged ones after a break.

A link outlives its connections. It numbers packets from the moment both ends know each other's life
(incarnation), and each end keeps what the other has not acknowledged. If a connection breaks and a
new one is made within the grace period, both ends say which number they received last and send the
rest again; the protocol notices nothing. If it takes longer, or the other end has lost its memory,
the link is down: it discards what it kept, and the protocol finds other routes.

A link acknowledges an event when the router has processed it. While the router cannot pass events
on, they wait here, and the sender waits too, because it allows only `WINDOW` unacknowledged events.
Control packets are never held up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec import Raw

from tidings.live.connection import Connection
from tidings.live.pending import Pending
from tidings.routing.packets import Packet, Publication
from tidings.wire.errors import WireError
from tidings.wire.messages import (
    Carry,
    Confirmed,
    Failed,
    Found,
    Join,
    Ping,
    Probe,
    Taken,
    encode,
)

WINDOW: Final = 4_096  # unacknowledged events; beyond that the router holds back their sources
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024  # of unacknowledged packets; beyond that the link fails
BATCH: Final = 512  # packets in a frame
BATCH_BYTES: Final = 512 * 1024  # in a frame that holds several packets


class Sent(NamedTuple):
    """A packet that the other end has not acknowledged."""

    number: int
    data: bytes
    event: bool
    confirm: bool


_last: tuple[Packet | None, bytes] = (None, b"")


def encoded(packet: Packet) -> bytes:
    """A packet as MessagePack; encoded once if several links in a row send the same packet."""
    global _last
    if _last[0] is not packet:
        _last = packet, encode(packet)
    return _last[1]


class Gate:
    """A queue that can be full, and the senders that wait until it has room."""

    __slots__ = ("_waiting", "full")

    def __init__(self) -> None:
        self.full = False
        self._waiting: list[Callable[[], None]] = []

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when there is room again."""
        self._waiting.append(go_on)

    def clear(self) -> None:
        """There is room again: let everyone who waits go on."""
        self.full = False
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()


class Link:
    """The link to one neighbour, connected or not."""

    def __init__(
        self,
        neighbour: str,
        on_packet: Callable[[Link, Packet, Pending | None], Gate | None],
        on_probe: Callable[[Link, Probe], None],
        on_found: Callable[[Link, Found], None],
    ) -> None:
        self.neighbour = neighbour
        self.life = 0  # the neighbour's life whose numbers this link holds; 0: none
        self.cost = 1
        self.up = False  # whether the protocol counts it as a link
        self.leaving = False  # whether the neighbour has said that it stops
        self.dialled = False  # whether this end made the connection
        self.connection: Connection | None = None
        self.gate = Gate()
        self.events_in = self.events_out = self.control_in = self.control_out = 0
        self.resent = 0
        self._bytes_before = [0, 0]  # of former connections, in and out
        self._on_packet = on_packet
        self._on_probe = on_probe
        self._on_found = on_found
        self._until_taken: deque[tuple[int, Pending]] = deque()  # number, who waits for `Taken`
        self._until_confirmed: dict[int, Pending] = {}
        self.reset(0)

    # Begin, attach, detach

    def reset(self, life: int) -> None:
        """Start again with this life of the neighbour, and discard everything that was kept."""
        followed = [pending for _, pending in self._until_taken]
        followed += self._until_confirmed.values()
        self.life = life
        self._number = 0
        self._kept: deque[Sent] = deque()
        self._kept_bytes = 0
        self._unsent = 0  # how many of those kept, from the end, are not sent yet
        self._open_events = 0
        self._heard = 0  # the newest number received
        self._worked = 0  # the newest number processed
        self._said = 0  # the newest number acknowledged
        self._inbox: deque[tuple[int, Packet, bool]] = deque()
        self._blocked = False
        self._until_taken.clear()
        self._until_confirmed.clear()
        self._confirmations: tuple[list[int], list[int]] = ([], [])
        self.gate.clear()
        for pending in followed:
            pending.end(False)

    def greeting(self, version: int, node: str, life: int, token: str, cost: int) -> Join:
        """The first message to the neighbour."""
        return Join(version, node, life, token, cost, self.life, self._heard)

    def resumes(self, join: Join, life: int) -> bool:
        """Whether each end holds the numbers of the other's present life."""
        return self.life != 0 and self.life == join.life and join.known == life

    def attach(self, connection: Connection, heard: int, again: bool) -> None:
        """Use this connection; with `again`, go on after the number that the other end received."""
        self.connection = connection
        self.leaving = False
        connection.gather = self._gather
        if again:
            self._taken(heard)
            self.resent += len(self._kept)
            # Confirmations of what it received may have been lost with the old connection.
            for number in [n for n in self._until_confirmed if n <= heard]:
                self._until_confirmed.pop(number).end(False)
        self._unsent = len(self._kept)
        connection.schedule()

    def detach(self) -> None:
        """The connection has ended; the link waits for another."""
        if self.connection is not None:
            self._bytes_before[0] += self.connection.bytes_in
            self._bytes_before[1] += self.connection.bytes_out
            self.connection.gather = None
            self.connection = None

    # Packets out

    def send(self, packet: Packet, until_taken: Pending | None, until_done: Pending | None) -> None:
        """Send a packet; report when the neighbour has it, or when everyone downstream has."""
        self._number += 1
        event = type(packet) is Publication
        data = encoded(packet)
        self._kept.append(Sent(self._number, data, event, until_done is not None))
        self._kept_bytes += len(data)
        self._unsent += 1
        if self._kept_bytes > MAX_KEPT_BYTES and self.connection is not None:
            self.connection.fail(WireError("slow"))
        if event:
            self.events_out += 1
            self._open_events += 1
            if self._open_events >= WINDOW:
                self.gate.full = True
        else:
            self.control_out += 1
        if until_taken is not None:
            until_taken.begin()
            self._until_taken.append((self._number, until_taken))
        if until_done is not None:
            until_done.begin()
            self._until_confirmed[self._number] = until_done
        if self.connection is not None:
            self.connection.schedule()

    def confirm(self, number: int, well: bool, life: int) -> None:
        """Report whether the event with this number has been delivered to everyone downstream."""
        if life == self.life:
            self._confirmations[0 if well else 1].append(number)
            if self.connection is not None:
                self.connection.schedule()

    def _gather(self) -> None:
        """Send everything that waits; the connection calls this just before it writes."""
        connection = self.connection
        if connection is None:
            return
        if self._said < self._worked:
            self._said = self._worked
            connection.send(Taken(self._worked))
        if any(self._confirmations):
            connection.send(Confirmed(*self._confirmations))
            self._confirmations = ([], [])
        while self._unsent and not connection.choked:
            packets: list[Any] = []
            confirm: list[int] = []
            size = 0
            first = self._kept[-self._unsent].number
            while self._unsent and len(packets) < BATCH:
                sent = self._kept[-self._unsent]
                size += len(sent.data)
                if packets and size > BATCH_BYTES:
                    break
                if sent.confirm:
                    confirm.append(len(packets))
                packets.append(Raw(sent.data))
                self._unsent -= 1
            connection.send(Carry(first, packets, confirm))

    # Messages in

    def take(self, connection: Connection, message: Any) -> None:
        """Handle a message of the neighbour."""
        kind = type(message)
        if kind is Carry:
            confirm = set(message.confirm)
            for index, packet in enumerate(message.packets):
                self._carried(message.first + index, packet, index in confirm)
            connection.schedule()
        elif kind is Taken:
            self._taken(message.number)
        elif kind is Confirmed:
            for numbers, well in ((message.numbers, True), (message.lost, False)):
                for number in numbers:
                    pending = self._until_confirmed.pop(number, None)
                    if pending is not None:
                        pending.end(well)
        elif kind is Probe:
            self._on_probe(self, message)
        elif kind is Found:
            self._on_found(self, message)
        elif kind is Failed:
            self.leaving = message.code == "stopping"
            connection.abort()
        elif kind is not Ping:
            raise WireError("out-of-turn", f"a {kind.__name__} on a link")

    def _carried(self, number: int, packet: Packet, confirm: bool) -> None:
        if number <= self._heard:
            return  # sent again, and received before
        if number != self._heard + 1:
            raise WireError("out-of-turn", f"number {number} after {self._heard}")
        self._heard = number
        if type(packet) is Publication:
            self.events_in += 1
            self._inbox.append((number, packet, confirm))
            if not self._blocked:
                self._work()
        else:
            self.control_in += 1
            self._on_packet(self, packet, None)
            if not self._inbox:
                self._worked = self._heard

    def _work(self) -> None:
        """Process the events that have arrived, until one finds no room."""
        self._blocked = False
        life = self.life
        while self._inbox:
            number, packet, confirm = self._inbox.popleft()
            pending = self._follow(number) if confirm else None
            gate = self._on_packet(self, packet, pending)
            if pending is not None:
                pending.end()
            if life != self.life:
                return  # the link was reset meanwhile
            self._worked = self._inbox[0][0] - 1 if self._inbox else self._heard
            if gate is not None:
                self._blocked = True
                gate.wait(self._go_on)
                break
        if self.connection is not None:
            self.connection.schedule()

    def _go_on(self) -> None:
        if self._blocked:
            self._work()

    def _follow(self, number: int) -> Pending:
        life = self.life
        return Pending(lambda well: self.confirm(number, well, life))

    def _taken(self, number: int) -> None:
        """The other end has acknowledged packets up to a number."""
        if number > self._number:
            raise WireError("out-of-turn", f"{number} acknowledged, {self._number} sent")
        kept = self._kept
        while kept and kept[0].number <= number:
            sent = kept.popleft()
            self._kept_bytes -= len(sent.data)
            if sent.event:
                self._open_events -= 1
        self._unsent = min(self._unsent, len(kept))
        waiting = self._until_taken
        while waiting and waiting[0][0] <= number:
            waiting.popleft()[1].end()
        if self.gate.full and self._open_events < WINDOW // 2:
            self.gate.clear()

    # Figures for people

    @property
    def bytes_in(self) -> int:
        """The bytes received over all its connections."""
        return self._bytes_before[0] + (self.connection.bytes_in if self.connection else 0)

    @property
    def bytes_out(self) -> int:
        """The bytes sent over all its connections."""
        return self._bytes_before[1] + (self.connection.bytes_out if self.connection else 0)

    def status(self) -> dict[str, Any]:
        """The state and the counters of the link, as JSON."""
        return {
            "up": self.up,
            "connected": self.connection is not None,
            "cost": self.cost,
            "events_in": self.events_in,
            "events_out": self.events_out,
            "control_in": self.control_in,
            "control_out": self.control_out,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "unacknowledged": len(self._kept),
            "resent": self.resent,
        }
