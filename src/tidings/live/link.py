"""A link to a neighbour: packets numbered, kept until acknowledged, sent again after a break.

A link outlives its connections. Packets are numbered from the moment both ends know each other's
life; each end keeps what the other has not acknowledged. When a connection breaks and another is
made within the grace, both say up to which number they have heard, the rest is sent again, and the
protocol has noticed nothing. If it takes longer, or the other end has lost its memory, the link is
down: what was kept is given up, and the protocol finds other ways.

Events are acknowledged when they have been worked on. While the router cannot hand on what it has,
they wait here, and the sender, which lets only so many be open, waits too; packets of control are
never held up.
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

WINDOW: Final = 4_096  # events sent and not acknowledged, from which on sources are held back
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024  # of packets not acknowledged; then the link is given up
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
    """A packet as MessagePack; of several links that send the same one, only the first encodes."""
    global _last
    if _last[0] is not packet:
        _last = packet, encode(packet)
    return _last[1]


class Gate:
    """Something that can be full, and those who wait until it is not."""

    __slots__ = ("_waiting", "full")

    def __init__(self) -> None:
        self.full = False
        self._waiting: list[Callable[[], None]] = []

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call this when there is room again."""
        self._waiting.append(go_on)

    def clear(self) -> None:
        """There is room."""
        self.full = False
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()


class Link:
    """One neighbour, whether it can be reached at the moment or not."""

    def __init__(
        self,
        neighbour: str,
        on_packet: Callable[[Link, Packet, Pending | None], Gate | None],
        on_probe: Callable[[Link, Probe], None],
        on_found: Callable[[Link, Found], None],
    ) -> None:
        self.neighbour = neighbour
        self.life = 0  # of the neighbour's, of which numbers are held; 0: none
        self.cost = 1
        self.up = False  # whether the protocol knows it as a link
        self.leaving = False  # the neighbour has said that it stops
        self.dialled = False  # whether the connection was made from here
        self.connection: Connection | None = None
        self.gate = Gate()
        self.events_in = self.events_out = self.control_in = self.control_out = 0
        self.resent = 0
        self._bytes_before = [0, 0]  # of former connections, in and out
        self._on_packet = on_packet
        self._on_probe = on_probe
        self._on_found = on_found
        self._until_taken: deque[tuple[int, Pending]] = deque()  # by number, who is to be told
        self._until_confirmed: dict[int, Pending] = {}
        self.reset(0)

    # The life of a link

    def reset(self, life: int) -> None:
        """Begin anew with this life of the neighbour's: nothing that was kept counts any more."""
        followed = [pending for _, pending in self._until_taken]
        followed += self._until_confirmed.values()
        self.life = life
        self._number = 0
        self._kept: deque[Sent] = deque()
        self._kept_bytes = 0
        self._unsent = 0  # the last so many of those kept
        self._open_events = 0
        self._heard = 0  # the newest that has come
        self._worked = 0  # the newest acknowledged
        self._said = 0
        self._inbox: deque[tuple[int, Packet, bool]] = deque()
        self._blocked = False
        self._until_taken.clear()
        self._until_confirmed.clear()
        self._confirmations: tuple[list[int], list[int]] = ([], [])
        self.gate.clear()
        for pending in followed:
            pending.end(False)

    def greeting(self, version: int, node: str, life: int, token: str, cost: int) -> Join:
        """What to say to the neighbour first."""
        return Join(version, node, life, token, cost, self.life, self._heard)

    def resumes(self, join: Join, life: int) -> bool:
        """Whether both ends hold the numbers of each other's present life."""
        return self.life != 0 and self.life == join.life and join.known == life

    def attach(self, connection: Connection, heard: int, again: bool) -> None:
        """There is a connection; with `again`, the other end goes on after the number heard."""
        self.connection = connection
        self.leaving = False
        connection.gather = self._gather
        if again:
            self._taken(heard)
            self.resent += len(self._kept)
            # Whether what it has heard was delivered may have been said into the broken connection.
            for number in [n for n in self._until_confirmed if n <= heard]:
                self._until_confirmed.pop(number).end(False)
        self._unsent = len(self._kept)
        connection.schedule()

    def detach(self) -> None:
        """The connection is gone; the link waits for another."""
        if self.connection is not None:
            self._bytes_before[0] += self.connection.bytes_in
            self._bytes_before[1] += self.connection.bytes_out
            self.connection.gather = None
            self.connection = None

    # Packets out

    def send(self, packet: Packet, until_taken: Pending | None, until_done: Pending | None) -> None:
        """Send a packet; those who follow it are told when the neighbour has it, or all below."""
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
        """What came with this number has been delivered to everyone below, or it is not known."""
        if life == self.life:
            self._confirmations[0 if well else 1].append(number)
            if self.connection is not None:
                self.connection.schedule()

    def _gather(self) -> None:
        """Everything that is to be sent, into the connection; asked just before it writes."""
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
        """A message of the neighbour's."""
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
            return  # sent again, and heard before
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
        """Work on the events that have come, until one finds no room to go on."""
        self._blocked = False
        life = self.life
        while self._inbox:
            number, packet, confirm = self._inbox.popleft()
            pending = self._follow(number) if confirm else None
            gate = self._on_packet(self, packet, pending)
            if pending is not None:
                pending.end()
            if life != self.life:
                return  # it was reset meanwhile
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
        """The other end has packets up to a number."""
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

    # What it shows

    @property
    def bytes_in(self) -> int:
        """Bytes that have come over it."""
        return self._bytes_before[0] + (self.connection.bytes_in if self.connection else 0)

    @property
    def bytes_out(self) -> int:
        """Bytes that have gone over it."""
        return self._bytes_before[1] + (self.connection.bytes_out if self.connection else 0)

    def status(self) -> dict[str, Any]:
        """The link for people."""
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
