"""A link to a neighbour: numbers packets, and resends unacknowledged ones after a break.

A link outlives its connections. It numbers packets from the moment both ends know each other's life
(incarnation), and each end keeps what the other has not acknowledged. If a connection breaks and a
new one is made within the grace period, both ends say which number they received last and send the
rest again; the protocol notices nothing. If it takes longer, or the other end has lost its memory,
the link is down: it discards what it kept, and the protocol finds other routes.

A link acknowledges packets when they arrive, and reports, source by source, how many events the
router has processed. While the router cannot pass on the events of a source, they wait here, and
their sender waits too (`flow`). Control packets, and events of other sources, are never held up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Raw

from tidings.live.connection import Connection
from tidings.live.flow import Gate, Outflow
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

MAX_KEPT_BYTES: Final = 256 * 1024 * 1024  # of unacknowledged packets; beyond that the link fails
BATCH: Final = 512  # packets in a frame
BATCH_BYTES: Final = 512 * 1024  # in a frame that holds several packets


class Sent(NamedTuple):
    """A packet that the other end has not acknowledged."""

    number: int
    data: bytes
    confirm: bool


_last: tuple[Packet | None, bytes] = (None, b"")


def encoded(packet: Packet) -> bytes:
    """A packet as MessagePack; encoded once if several links in a row send the same packet."""
    global _last
    if _last[0] is not packet:
        _last = packet, encode(packet)
    return _last[1]


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
        self.flow = Outflow()
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
        self._heard = 0  # the newest number received
        self._said = 0  # the newest number acknowledged
        self._worked: dict[str, int] = {}  # events processed, by source
        self._unsaid: set[str] = set()  # sources of which the other end does not know that yet
        # Events of sources that wait for room; a source that waits has an entry, perhaps empty.
        self._inbox: dict[str, deque[tuple[int, Publication, bool]]] = {}
        self._until_taken.clear()
        self._until_confirmed.clear()
        self._confirmations: tuple[list[int], list[int]] = ([], [])
        self.flow.reset()
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
        self._unsaid.update(self._worked)  # the last report may have been lost
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
        data = encoded(packet)
        self._kept.append(Sent(self._number, data, until_done is not None))
        self._kept_bytes += len(data)
        self._unsent += 1
        if self._kept_bytes > MAX_KEPT_BYTES and self.connection is not None:
            self.connection.fail(WireError("slow"))
        if type(packet) is Publication:
            self.events_out += 1
            self.flow.sent(packet.source)
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
        if self._said < self._heard or self._unsaid:
            self._said = self._heard
            worked = {source: self._worked[source] for source in sorted(self._unsaid)}
            self._unsaid.clear()
            connection.send(Taken(self._heard, worked))
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
            life = self.life
            for source, number in message.worked.items():
                if life == self.life:  # or those who went on have reset the link
                    self.flow.worked(source, number)
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
            waiting = self._inbox.get(packet.source)
            if waiting is None:
                self._process(number, packet, confirm)
            else:
                waiting.append((number, packet, confirm))
        else:
            self.control_in += 1
            self._on_packet(self, packet, None)

    def _process(self, number: int, event: Publication, confirm: bool) -> None:
        """Let the router have an event; if it finds no room, the next of its source wait."""
        life, source = self.life, event.source
        pending = self._follow(number) if confirm else None
        gate = self._on_packet(self, event, pending)
        if pending is not None:
            pending.end()
        if life != self.life:
            return  # the link was reset meanwhile
        self._worked[source] = self._worked.get(source, 0) + 1
        self._unsaid.add(source)
        if gate is not None:
            self._inbox[source] = deque()
            gate.wait(partial(self._go_on, source, life))

    def _go_on(self, source: str, life: int) -> None:
        """There is room for a source again: process its events, until one finds none."""
        if life != self.life:
            return
        waiting = self._inbox.pop(source)
        while waiting:
            self._process(*waiting.popleft())
            if life != self.life:
                return
            if source in self._inbox:
                self._inbox[source] = waiting
                break
        if self.connection is not None:
            self.connection.schedule()

    def _follow(self, number: int) -> Pending:
        life = self.life
        return Pending(lambda well: self.confirm(number, well, life))

    def _taken(self, number: int) -> None:
        """The other end has acknowledged packets up to a number."""
        if number > self._number:
            raise WireError("out-of-turn", f"{number} acknowledged, {self._number} sent")
        kept = self._kept
        while kept and kept[0].number <= number:
            self._kept_bytes -= len(kept.popleft().data)
        self._unsent = min(self._unsent, len(kept))
        waiting = self._until_taken
        while waiting and waiting[0][0] <= number:
            waiting.popleft()[1].end()

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
            "unprocessed": self.flow.open,
            "resent": self.resent,
        }
