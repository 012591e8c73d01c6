"""A client at its router: its publications, its subscriptions, and its pending deliveries.

A session outlives its connections for a while. Its client can come back and say which delivery it
received last; both go on from there, so nothing is lost and nothing comes twice. The router sends
at most `window` deliveries ahead of the client; the rest waits here, within a bound. If a client
lets it fill up, its policy decides. `block`: publishers wait for a while, then the router
disconnects the client. `drop`: the router drops the oldest deliveries and tells the client how
many. `disconnect`: the router disconnects the client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from tidings.language.errors import PredicateError
from tidings.language.predicate import parse
from tidings.live.access import MAX_EVENT_BYTES, Principal, check_event
from tidings.live.connection import Connection
from tidings.live.flow import Gate
from tidings.live.pending import Pending
from tidings.live.store import Mailbox
from tidings.routing.packets import Publication
from tidings.wire import messages as m
from tidings.wire.errors import WireError

if TYPE_CHECKING:
    from tidings.live.router import Router

MAX_QUEUED: Final = 16_384  # deliveries that wait
MAX_QUEUED_BYTES: Final = 16 * 1024 * 1024
MAX_OPEN_BYTES: Final = 1024 * 1024  # of events sent and not yet taken
MAX_IDS: Final = 65_536  # of subscriptions in one delivery
ID_BYTES: Final = 9  # of an id in a message, at most
MAX_NOTICES: Final = 400_000  # that the client has not acknowledged
MAX_SUBSCRIPTIONS: Final = 200_000  # of a session
BLOCK_S: Final = 10.0  # for which publishers wait at most
BATCH: Final = 256  # deliveries in a frame
BATCH_BYTES: Final = 512 * 1024  # of events in a frame that holds several


class Session:
    """One client, connected or expected back."""

    def __init__(
        self,
        router: Router,
        key: str,
        number: int,
        principal: Principal,
        mailbox: Mailbox,
        greeting: m.Open,
    ) -> None:
        self.router = router
        self.key = key  # the client shows it to resume; a secret
        self.number = number
        self.principal = principal
        self.mailbox = mailbox
        self.policy = greeting.policy
        self.window = greeting.window
        self.connection: Connection | None = None
        self.subscriptions: dict[int, int] = {}  # the client's ids: the router's numbers
        self.advertised: Any = None
        self.gate = Gate()
        self.gate_deadline: asyncio.TimerHandle | None = None
        self.expiry: asyncio.TimerHandle | None = None
        self.delivered = 0
        self.dropped = 0
        self._dropped_said = 0
        self._sent = 0  # the newest delivery sent
        self._open: deque[tuple[int, int]] = deque()  # number and size of those sent, not taken
        self._open_bytes = 0
        self._followed: dict[int, Pending] = {}  # deliveries to report when taken
        self._reached: tuple[list[int], list[int]] = ([], [])
        self._requested = 0  # the newest request carried out
        self._notices: deque[Any] = deque()  # that the client has not acknowledged
        self._noticed = 0  # how many it has acknowledged
        self._published_said = mailbox.published

    # Connections

    def attach(self, connection: Connection, heard: int, noticed: int) -> None:
        """The client has connected; it has deliveries up to `heard`, and `noticed` notices."""
        self.connection = connection
        self._take(heard, noticed)
        for notice in self._notices:
            connection.send(notice)
        self._published_said = 0
        self._sent = heard
        self._open.clear()
        self._open_bytes = 0
        connection.gather = self._gather
        connection.schedule()

    def detach(self) -> None:
        """The client has disconnected, perhaps to come back."""
        if self.connection is not None:
            self.connection.gather = None
            self.connection = None

    def end(self) -> None:
        """End the session: discard everything that it keeps."""
        for pending in self._followed.values():
            pending.end(False)
        self._followed.clear()
        for timer in (self.expiry, self.gate_deadline):
            if timer is not None:
                timer.cancel()
        self.gate.clear()

    # Deliveries

    def deliver(
        self, ids: list[int], publication: Publication, event: bytes, pending: Pending | None
    ) -> None:
        """Deliver an event to the client, now or when it has room.

        An event for very many subscriptions of one client goes in several deliveries, because the
        ids of each must fit into a frame.
        """
        mailbox = self.mailbox
        for first in range(0, len(ids), MAX_IDS):
            some = ids[first : first + MAX_IDS]
            delivery = m.Delivery(
                some, publication.source, publication.life, publication.number, Raw(event)
            )
            number = mailbox.append(delivery, len(event) + ID_BYTES * len(some))
            self.delivered += 1
            if pending is not None:
                pending.begin()
                self._followed[number] = pending
        if self.connection is not None:
            self.connection.schedule()
        if self._is_overfull():
            self._overfull()

    def _is_overfull(self) -> bool:
        return len(self.mailbox) > MAX_QUEUED or self.mailbox.size > MAX_QUEUED_BYTES

    def _overfull(self) -> None:
        if self.policy == "block":
            self.gate.full = True
            if self.gate_deadline is None:
                loop = asyncio.get_running_loop()
                self.gate_deadline = loop.call_later(BLOCK_S, self._give_up)
        elif self.policy == "drop":
            while self._is_overfull():
                dropped = self.mailbox.drop_oldest(self._sent)
                if dropped is None:
                    break
                self.dropped += 1
                pending = self._followed.pop(dropped.number, None)
                if pending is not None:
                    pending.end(False)
        else:
            self._give_up()

    def _give_up(self) -> None:
        """The client is too slow: end its session, so that others can go on."""
        self.gate_deadline = None
        if self.connection is not None:
            self.connection.fail(WireError("slow"))
        self.router.end_session(self, "slow")

    def _gather(self) -> None:
        """Send everything that waits; the connection calls this just before it writes."""
        connection = self.connection
        if connection is None:
            return
        if self._published_said < self.mailbox.published:
            self._published_said = self.mailbox.published
            connection.send(m.Published(self._published_said))
        if any(self._reached):
            self.say(m.Reached(*self._reached))
            self._reached = ([], [])
        if self._dropped_said < self.dropped:
            self._dropped_said = self.dropped
            connection.send(m.Dropped(self.dropped))
        while not connection.choked:
            room = min(BATCH, self.window - len(self._open))
            if room <= 0 or self._open_bytes >= MAX_OPEN_BYTES or self._sent >= self.mailbox.newest:
                return
            kept = self.mailbox.after(self._sent, room)
            if not kept:
                return
            size = 0
            items: list[m.Delivery] = []
            first = kept[0].number
            for one in kept:
                size += one.size
                # The numbers in a frame have no gaps.
                if items and (size > BATCH_BYTES or one.number != first + len(items)):
                    break
                items.append(one.delivery)
                self._open.append((one.number, one.size))
                self._open_bytes += one.size
            self._sent = first + len(items) - 1
            connection.send(m.Deliveries(first, items))

    def _take(self, number: int, noticed: int) -> None:
        """The client has taken deliveries up to `number` and received `noticed` notices."""
        if number > self.mailbox.newest:
            raise WireError("out-of-turn", f"{number} taken, {self.mailbox.newest} sent")
        if noticed > self._noticed + len(self._notices):
            raise WireError("out-of-turn", f"{noticed} notices heard, fewer were sent")
        while self._noticed < noticed:
            self._notices.popleft()
            self._noticed += 1
        opened = self._open
        while opened and opened[0][0] <= number:
            self._open_bytes -= opened.popleft()[1]
        self.mailbox.take(number)
        if self._followed:
            for taken in [n for n in self._followed if n <= number]:
                self._followed.pop(taken).end()
        roomy = len(self.mailbox) < MAX_QUEUED // 2 and self.mailbox.size < MAX_QUEUED_BYTES // 2
        if self.gate.full and roomy:
            if self.gate_deadline is not None:
                self.gate_deadline.cancel()
                self.gate_deadline = None
            self.gate.clear()
        if self.connection is not None:
            self.connection.schedule()

    # Messages of the client

    def take(self, connection: Connection, message: Any) -> None:
        """Handle a message of the client."""
        kind = type(message)
        if kind is m.Publish:
            self._publish(connection, message)
        elif kind is m.Take:
            self._take(message.number, message.noticed)
        elif kind is m.Close:
            self.router.end_session(self, "closed")
            connection.close()
        elif kind is not m.Ping:
            self._request(kind, message)

    def _request(self, kind: type[Any], message: Any) -> None:
        if message.request <= self._requested:
            return  # sent again, and carried out before
        self._requested = message.request
        if kind is m.Subscribe:
            self._subscribe(message)
        elif kind is m.Unsubscribe:
            number = self.subscriptions.pop(message.id, None)
            if number is not None:
                self.router.unsubscribe(number)
            self._done(
                message.request,
                "" if number is not None else "there is no subscription with this id",
            )
        elif kind is m.Advertise:
            self._advertise(message)
        elif kind is m.Feedback:
            error = check_event(message.reply)
            if error is None:
                self.router.feedback(message)
            self._done(message.request, error or "")
        elif kind is m.Ask:
            self.router.ask(self, message)
        else:
            raise WireError("out-of-turn", f"a {kind.__name__} from a client")

    def _done(self, request: int, error: str, id: str = "") -> None:
        self.say(m.Done(request, error, id))

    def say(self, notice: Any) -> None:
        """Send the client a notice, now or when it is back."""
        self._notices.append(notice)
        if self.connection is not None:
            self.connection.send(notice)
        if len(self._notices) > MAX_NOTICES:
            self._give_up()

    def _publish(self, connection: Connection, message: m.Publish) -> None:
        mailbox = self.mailbox
        large = connection.size > MAX_EVENT_BYTES
        for number, event in enumerate(message.events, message.first):
            if number <= mailbox.published:
                continue  # sent again, and received before
            if number != mailbox.published + 1:
                raise WireError("out-of-turn", f"publication {number} after {mailbox.published}")
            mailbox.published = number
            reason = self._refusal(event, large)
            if reason is not None:
                self.router.counts.refused += 1
                self.say(m.Refused(number, reason))
                continue
            pending = None
            if message.level:
                pending = self._follow(number)
            gate = self.router.publish(self, number, event, message.level, pending)
            if pending is not None:
                pending.end()
            if gate is not None:
                connection.hold()  # the gate releases it once for each hold
                gate.wait(connection.release)
        connection.schedule()

    def _refusal(self, event: dict[str, Any], large: bool) -> str | None:
        reason = check_event(event)
        if reason is not None:
            return reason
        if large and len(m.encode(event)) > MAX_EVENT_BYTES:
            return f"the event is larger than {MAX_EVENT_BYTES} bytes"
        # The refusal gives no detail, so that it reveals nothing of what others may do.
        if not self.principal.may_publish(event):
            return "this token may not publish this event"
        if self.advertised is not None and not self.advertised.matches(event):
            return "the event does not match the advertised predicate"
        return None

    def _follow(self, number: int) -> Pending:
        def tell(well: bool) -> None:
            self._reached[0 if well else 1].append(number)
            if self.connection is not None:
                self.connection.schedule()

        return Pending(tell)

    def _subscribe(self, message: m.Subscribe) -> None:
        try:
            predicate = self.principal.restrict(parse(message.predicate))
        except PredicateError as error:
            self._done(message.request, str(error))
            return
        number = self.subscriptions.get(message.id)
        if number is None and len(self.subscriptions) >= MAX_SUBSCRIPTIONS:
            self._done(
                message.request, f"a session holds at most {MAX_SUBSCRIPTIONS} subscriptions"
            )
            return
        number, established = self.router.subscribe(self, message.id, number, predicate)
        self.subscriptions[message.id] = number
        self._done(message.request, "", f"{self.router.node}/{number}")
        if established:
            self.say(m.Established([message.id], self.router.epoch))

    def _advertise(self, message: m.Advertise) -> None:
        try:
            self.advertised = parse(message.predicate)
        except PredicateError as error:
            self._done(message.request, str(error))
            return
        self._done(message.request, "")
