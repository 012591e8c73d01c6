"""A link to a neighbour: numbers packets, and resends unacknowledged ones after a break.

A link outlives its connections. It numbers packets from the moment both ends know each other's life
(incarnation), and each end keeps what the other has not acknowledged. If a connection breaks and a
new one is made within the grace period, both ends say which number they received last and send the
rest again; the protocol notices nothing. If it takes longer, or the other end has lost its memory,
the link is down: it discards what it kept, and the protocol finds other routes.

A link acknowledges packets when they arrive, and reports, lane by lane, which events the router has
processed. While the router cannot pass on the events of a lane, they wait here, and their sender
waits too (`flow`). Control packets, and events of other lanes, are never held up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from msgspec import Raw

from tidings.live.flow import WHOLE, Gate, Lane, Outflow, Shares
from tidings.live.limits import LIMITS, Limits
from tidings.live.pending import Pending
from tidings.live.stream import Stream
from tidings.routing.packets import (
    Packet,
    Renewal,
    Switch,
    application_of,
    lane_of,
    publication_of,
    renewal_of,
)
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
        limits: Limits = LIMITS,
        shares: Shares = WHOLE,
    ) -> None:
        self.neighbour = neighbour
        self.life = 0  # the neighbour's life (incarnation); 0: not known
        self.began = self.known = 0  # name the numbers of this end and of the other; 0: none
        self.cost = 1
        self.up = False  # whether the protocol counts it as a link
        self.leaving = False  # whether the neighbour has said that it stops, or may not link
        self.broken_at = 0  # when its last connection ended
        self.dialled = False  # whether this end made the connection
        self.overfull = False  # whether it keeps more than it may, so that it must be given up
        self.stream: Stream | None = None
        self.flow = Outflow(limits, shares)
        self.sent_of: dict[str, int] = {}  # bytes of packets, by application
        self.events_in = self.events_out = self.control_in = self.control_out = 0
        self.resent = 0
        self._limits = limits
        self._bytes_before = [0, 0]  # of former streams, in and out
        self._on_packet = on_packet
        self._on_probe = on_probe
        self._on_found = on_found
        self._until_taken: deque[tuple[int, Pending]] = deque()  # number, who waits for `Taken`
        self._until_confirmed: dict[int, Pending] = {}
        self._resets = 0
        self.reset(0)

    # Begin, attach, detach

    def reset(self, life: int, began: int = 0, known: int = 0) -> None:
        """Begin anew with this life of the neighbour, and discard everything that was kept.

        `began` and `known` name the numbers of this end and of the other. Lives cannot: one end may
        begin anew while the other, of the same life, still holds the former numbers.
        """
        followed = [pending for _, pending in self._until_taken]
        followed += self._until_confirmed.values()
        self.life, self.began, self.known = life, began, known
        self._resets += 1
        self._number = 0
        self._kept: deque[Sent] = deque()
        self._kept_bytes = 0
        self._unsent = 0  # how many of those kept, from the end, are not sent yet
        self._written = 0  # the newest number sent on any connection
        self._renewed: dict[Renewal, int] = {}  # by what a packet says anew: its number
        self._heard = 0  # the newest number received
        self._said = 0  # the newest number acknowledged
        self._unsaid: dict[Lane, int] = {}  # the newest packet processed, not reported yet
        self._report_all = False  # whether the other end may have missed a report
        # Events of lanes that wait for room; a lane that waits has an entry, perhaps empty.
        self._inbox: dict[Lane, deque[tuple[int, Packet, Lane, bool]]] = {}
        self.overfull = False
        self._until_taken.clear()
        self._until_confirmed.clear()
        self._confirmations: tuple[list[int], list[int]] = ([], [])
        self.flow.reset()
        for pending in followed:
            pending.end(False)

    def holds(self, join: Join) -> bool:
        """Whether both ends hold the numbers of each other, so that they can go on."""
        return self.known != 0 and (self.began, self.known) == (join.known, join.began)

    def attach(self, stream: Stream, heard: int, again: bool) -> None:
        """Use this stream; with `again`, go on after the number that the other end received."""
        self.stream = stream
        self.leaving = False
        stream.gather = self._gather
        if again:
            self._taken(heard)
            self.resent += len(self._kept)
            # Confirmations of what it received may have been lost with the old connection.
            for number in [n for n in self._until_confirmed if n <= heard]:
                self._until_confirmed.pop(number).end(False)
        self._unsent = len(self._kept)
        self._report_all = again
        stream.schedule()

    def detach(self) -> None:
        """The connection has ended; the link waits for another."""
        if self.stream is not None:
            self._bytes_before[0] += self.stream.bytes_in
            self._bytes_before[1] += self.stream.bytes_out
            self.stream.gather = None
            self.stream = None

    # Packets out

    def send(self, packet: Packet, until_taken: Pending | None, until_done: Pending | None) -> None:
        """Send a packet; report when the neighbour has it, or when everyone downstream has."""
        data = encoded(packet)
        if self._renew(packet, data):
            return
        self._number += 1
        self._kept.append(Sent(self._number, data, until_done is not None))
        self._kept_bytes += len(data)
        self._unsent += 1
        self.overfull = self._kept_bytes > self._limits.kept_bytes
        lane, application = lane_of(packet), application_of(packet)
        if lane is not None:
            self.flow.sent(lane, self._number, len(data), application)
        if application:
            self.sent_of[application] = self.sent_of.get(application, 0) + len(data)
        if lane is not None and type(packet) is not Switch:
            self.events_out += 1
        else:
            self.control_out += 1
        if until_taken is not None:
            until_taken.begin()
            self._until_taken.append((self._number, until_taken))
        if until_done is not None:
            until_done.begin()
            self._until_confirmed[self._number] = until_done
        if self.stream is not None:
            self.stream.schedule()

    def _renew(self, packet: Packet, data: bytes) -> bool:
        """Let a packet take the place of one that it makes needless, if that was never sent."""
        renewal = renewal_of(packet)
        if renewal is None:
            return False
        number = self._renewed.get(renewal, 0)
        if number <= self._written:
            self._renewed[renewal] = self._number + 1
            return False
        place = number - self._kept[0].number
        self._kept_bytes += len(data) - len(self._kept[place].data)
        self._kept[place] = Sent(number, data, False)
        self.overfull = self._kept_bytes > self._limits.kept_bytes
        return True

    def is_busy(self, divisor: int) -> bool:
        """Whether it keeps more than this part of what it may."""
        return self._kept_bytes > self._limits.kept_bytes // divisor

    def confirm(self, number: int, well: bool, resets: int) -> None:
        """Report whether the event with this number has been delivered to everyone downstream."""
        if resets == self._resets:
            self._confirmations[0 if well else 1].append(number)
            if self.stream is not None:
                self.stream.schedule()

    def _gather(self) -> None:
        """Send everything that waits; the connection calls this just before it writes."""
        stream = self.stream
        if stream is None:
            return
        if self._report_all:
            waiting = [(*lane, inbox[0][0]) for lane, inbox in self._inbox.items() if inbox]
            stream.send(Taken(self._heard, [], waiting))
            self._report_all = False
            self._said = self._heard
            self._unsaid.clear()
        elif self._said < self._heard or self._unsaid:
            self._said = self._heard
            worked = [(*lane, number) for lane, number in self._unsaid.items()]
            self._unsaid.clear()
            stream.send(Taken(self._heard, worked, None))
        if any(self._confirmations):
            stream.send(Confirmed(*self._confirmations))
            self._confirmations = ([], [])
        limits = self._limits
        while self._unsent and not stream.choked:
            packets: list[Any] = []
            confirm: list[int] = []
            size = 0
            first = self._kept[-self._unsent].number
            while self._unsent and len(packets) < limits.packet_batch:
                sent = self._kept[-self._unsent]
                size += len(sent.data)
                if packets and size > limits.packet_batch_bytes:
                    break
                if sent.confirm:
                    confirm.append(len(packets))
                packets.append(Raw(sent.data))
                self._unsent -= 1
            self._written = max(self._written, first + len(packets) - 1)
            stream.send(Carry(first, packets, confirm))
        if not self._unsent:
            self._renewed.clear()

    # Messages in

    def take(self, stream: Stream, message: Any) -> None:
        """Handle a message of the neighbour."""
        kind = type(message)
        if kind is Carry:
            confirm = set(message.confirm)
            for index, packet in enumerate(message.packets):
                self._carried(message.first + index, packet, index in confirm)
            stream.schedule()
        elif kind is Taken:
            self._taken(message.number)
            if message.waiting is not None:
                waiting = {(source, tree): first for source, tree, first in message.waiting}
                self.flow.resumed(message.number, waiting)
            resets = self._resets
            for source, tree, number in message.worked:
                if resets == self._resets:  # or those who went on have reset the link
                    self.flow.worked((source, tree), number)
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
            self.leaving = message.code in ("stopping", "name")
            if message.code == "name":
                stream.error = WireError("name", message.detail)
            stream.abort()
        elif kind is not Ping:
            raise WireError("out-of-turn", f"a {kind.__name__} on a link")

    def _carried(self, number: int, packet: Packet, confirm: bool) -> None:
        if number <= self._heard:  # sent again, and received before
            if confirm:  # the confirmation may have been lost with the connection that it took
                self._confirmations[1].append(number)
            return
        if number != self._heard + 1:
            raise WireError("out-of-turn", f"number {number} after {self._heard}")
        self._heard = number
        lane = lane_of(packet)
        if lane is not None and type(packet) is not Switch:
            self.events_in += 1
        else:
            self.control_in += 1
        if lane is not None:
            waiting = self._inbox.get(lane)
            if waiting is None:
                self._process(number, packet, lane, confirm)
            else:
                waiting.append((number, packet, lane, confirm))
        else:
            self._on_packet(self, packet, None)

    def _process(self, number: int, packet: Packet, lane: Lane, confirm: bool) -> None:
        """Let the router have an event; if it finds no room, the next of its lane wait."""
        resets = self._resets
        pending = self._follow(number) if confirm else None
        gate = self._on_packet(self, packet, pending)
        if pending is not None:
            pending.end()
        if resets != self._resets:
            return  # the link was reset meanwhile
        self._unsaid[lane] = number
        if gate is not None:
            self._inbox[lane] = deque()
            gate.wait(partial(self._go_on, lane, resets))

    def _go_on(self, lane: Lane, resets: int) -> None:
        """There is room for a lane again: process its events, until one finds none."""
        if resets != self._resets:
            return
        waiting = self._inbox.pop(lane)
        while waiting:
            self._process(*waiting.popleft())
            if resets != self._resets:
                return
            if lane in self._inbox:
                self._inbox[lane] = waiting
                break
        if self.stream is not None:
            self.stream.schedule()

    def skip(self, lane: Lane, life: int, newest: int) -> None:
        """The router has processed the events of a lane up to this one, which came by other links:
        discard those that wait here (`docs/decisions/0008-flow-control-by-source.md`)."""
        waiting = self._inbox.get(lane)
        while waiting and _is_known(waiting[0][1], life, newest):
            number, _, _, confirm = waiting.popleft()
            self._unsaid[lane] = number
            if confirm:
                self.confirm(number, True, self._resets)
            if self.stream is not None:
                self.stream.schedule()

    def _follow(self, number: int) -> Pending:
        resets = self._resets
        return Pending(lambda well: self.confirm(number, well, resets))

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
    def heard(self) -> int:
        """The newest number received."""
        return self._heard

    @property
    def bytes_in(self) -> int:
        """The bytes received over all its connections."""
        return self._bytes_before[0] + (self.stream.bytes_in if self.stream else 0)

    @property
    def bytes_out(self) -> int:
        """The bytes sent over all its connections."""
        return self._bytes_before[1] + (self.stream.bytes_out if self.stream else 0)

    def status(self) -> dict[str, Any]:
        """The state and the counters of the link, as JSON."""
        return {
            "up": self.up,
            "connected": self.stream is not None,
            "cost": self.cost,
            "events_in": self.events_in,
            "events_out": self.events_out,
            "control_in": self.control_in,
            "control_out": self.control_out,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "unacknowledged": len(self._kept),
            "unprocessed": self.flow.open,
            "kept_bytes": self._kept_bytes,
            "resent": self.resent,
        }


def _is_known(packet: Packet, life: int, newest: int) -> bool:
    """Whether a packet bears an event of a life up to a number."""
    event = publication_of(packet)
    return event is not None and event.life == life and event.number <= newest
