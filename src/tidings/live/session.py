"""A client at its router: its publications, its subscriptions, and its pending deliveries.

A session outlives its connections for a while. Its client can come back and say which deliveries it
has received and which its program has taken; both go on from there, so nothing is lost and nothing
comes twice. The router sends at most `window` deliveries ahead of the client; the rest waits here,
within a bound. If a client lets it fill up, its policy decides. `block`: publishers wait, and the
router ends the session if the client takes nothing for a while. `drop`: the router drops the oldest
deliveries and tells the client how many. `disconnect`: the router ends the session.

The connection is read all the time. Publications that find no room on their path wait here, within
the credit that the router gave the client. The router looks at a stretch of them at once, and
routes those that somebody wants one by one. Requests are carried out one after the other.
"""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from tidings.language.errors import NormalFormError, PredicateError
from tidings.language.predicate import Predicate, parse
from tidings.live.access import Principal, are_plain, check_event
from tidings.live.edge import bounded
from tidings.live.flow import Gate
from tidings.live.journal import journal
from tidings.live.pending import Pending
from tidings.live.store import Mailbox
from tidings.live.stream import Stream
from tidings.live.timers import Timer
from tidings.routing.packets import Publication
from tidings.wire import messages as m
from tidings.wire.errors import WireError
from tidings.wire.frames import frame

if TYPE_CHECKING:
    from tidings.live.router_core import RouterCore

ID_BYTES: Final = 9  # of an id in a message, at most
REACHED: Final = 10_000  # publications in one notice
VERB_OF: Final[dict[type, str]] = {  # that a protocol may lack
    m.Advertise: "advertise",
    m.Unadvertise: "advertise",
    m.Feedback: "feedback",
}


class Batch:
    """Publications that arrived in one frame and have not been routed yet."""

    __slots__ = ("done", "events", "first", "level", "size")

    def __init__(self, first: int, level: int, events: list[dict[str, Any]], size: int) -> None:
        self.first = first  # the number of the first
        self.level = level
        self.events = events
        self.done = 0  # how many of them are routed
        self.size = size  # of the frame


class Session:
    """One client, connected or expected back."""

    def __init__(
        self,
        router: RouterCore,
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
        self.hosted = router.applications[greeting.application]
        self.policy = greeting.policy
        self.window = greeting.window
        self.stream: Stream | None = None
        self.subscriptions: dict[int, int] = {}  # the client's ids: the router's numbers
        self.asked: dict[int, Predicate] = {}  # as the client wrote them, before rights
        self.advertised: dict[int, tuple[str, Predicate]] = {}  # by id: the router's id
        self.gate = Gate()
        self.expiry: Timer | None = None
        self.over = False
        self.delivered = 0
        self.dropped = 0
        self.notice_bytes = 0
        self._waiting_bytes = 0  # of deliveries, as the application counts them
        self._limits = router.limits
        self._timers = router.timers
        self._dropped_said = 0
        self._sent = 0  # the newest delivery sent
        self._open: deque[tuple[int, int]] = deque()  # number and size of those sent, not taken
        self._open_bytes = 0
        self._progress_at = 0  # when the client last took something
        self._deadline: Timer | None = None  # for its next progress, while publishers wait
        self._followed: dict[int, Pending] = {}  # deliveries to report when taken
        self._reached: tuple[list[int], list[int]] = ([], [])
        self.received = mailbox.published  # the newest publication that has arrived
        self._batches: deque[Batch] = deque()
        self._batch_bytes = 0
        self._held = False  # whether its publications wait for a gate
        self.requested = 0  # the newest request that has arrived
        self._requests: deque[Any] = deque()
        self._busy = False  # with a request
        self._notices: deque[bytes] = deque()  # that the client has not acknowledged, as frames
        self._noticed = 0  # how many it has acknowledged
        self._published_said = mailbox.published

    @property
    def is_held(self) -> bool:
        """Whether its publications wait for room."""
        return self._held

    # Connections

    def check_resumable(self, heard: int, taken: int, noticed: int) -> None:
        """Raise `WireError` if no client can have received and taken what this one says."""
        if not taken <= heard <= self.mailbox.newest:
            raise WireError("out-of-turn", f"{taken} taken and {heard} heard of other deliveries")
        self._check_noticed(noticed)

    def attach(self, stream: Stream, heard: int, taken: int, noticed: int) -> None:
        """The client has connected: it has deliveries up to `heard`, its program those up to
        `taken`, and it has counted `noticed` notices."""
        self._take(taken, noticed)  # those who go on may say more: it goes with the other notices
        if self.over:
            stream.fail(WireError("slow"))
            return
        self.stream = stream
        for notice in self._notices:
            stream.send_frame(notice)
        self._published_said = self._dropped_said = 0  # they may have been lost with the old one
        self._sent = heard
        ahead = [one for one in self.mailbox.after(taken, heard - taken) if one.number <= heard]
        self._open = deque((one.number, one.size) for one in ahead)
        self._open_bytes = sum(one.size for one in ahead)
        stream.gather = self._gather
        stream.schedule()

    def detach(self) -> None:
        """The client has disconnected, perhaps to come back."""
        if self.stream is not None:
            self.stream.gather = None
            self.stream = None

    def end(self) -> None:
        """End the session: discard everything that it keeps."""
        self.over = True
        for pending in self._followed.values():
            pending.end(False)
        self._followed.clear()
        self._batches.clear()
        self._requests.clear()
        self._notices.clear()
        self.mailbox.take(self.mailbox.newest)
        self._count_waiting()
        for timer in (self.expiry, self._deadline):
            if timer is not None:
                timer.cancel()
        self.gate.clear()

    # Deliveries

    def deliver(
        self,
        ids: list[int],
        publication: Publication,
        ticket: int,
        event: bytes,
        pending: Pending | None,
    ) -> None:
        """Deliver an event to the client, now or when it has room.

        An event for very many subscriptions of one client goes in several deliveries, because the
        ids of each must fit into a frame.
        """
        mailbox = self.mailbox
        source, life, origin = publication.source, publication.life, publication.number
        most = self._limits.delivery_ids
        for first in range(0, len(ids), most):
            some = ids[first : first + most] if len(ids) > most else ids
            delivery = m.Delivery(some, source, life, origin, ticket, Raw(event))
            number = mailbox.append(delivery, len(event) + ID_BYTES * len(some))
            self.delivered += 1
            if pending is not None:
                pending.begin()
                self._followed[number] = pending
        if self.stream is not None:
            self.stream.schedule()
        if self._is_overfull():
            self._overfull()

    def _is_overfull(self) -> bool:
        limits = self._limits
        self._count_waiting()
        return (
            len(self.mailbox) > limits.queued
            or self.mailbox.size > limits.queued_bytes
            or self._takes_too_much(self.router.shares.of(self.hosted.name, limits.waiting_bytes))
        )

    def _takes_too_much(self, share: int) -> bool:
        """Whether the application's sessions keep more than its share, and this one its part."""
        hosted = self.hosted
        return hosted.waiting_bytes > share and self.mailbox.size * hosted.sessions > share

    def _count_waiting(self) -> None:
        """Bring the application's count of what waits up to date."""
        self.hosted.waiting_bytes += self.mailbox.size - self._waiting_bytes
        self._waiting_bytes = self.mailbox.size

    def _overfull(self) -> None:
        if self.policy == "block":
            self.gate.full = True
            if self._deadline is None:
                self._progress_at = self._timers.now
                self._deadline = self._timers.after(self._limits.block, self._check_progress)
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

    def _check_progress(self) -> None:
        """Publishers wait for this client: give it up if it has taken nothing for a while."""
        idle = self._timers.now - self._progress_at
        if idle >= self._limits.block:
            self._give_up()
        else:
            self._deadline = self._timers.after(self._limits.block - idle, self._check_progress)

    def _give_up(self) -> None:
        """The client is too slow: end its session, so that others can go on."""
        if self.stream is not None:
            self.stream.fail(WireError("slow"))
        self.router.end_session(self, "slow")

    def _gather(self) -> None:
        """Send everything that waits; the stream calls this just before it writes."""
        stream, limits = self.stream, self._limits
        if stream is None:
            return
        if self._published_said < self.mailbox.published:
            self._published_said = self.mailbox.published
            stream.send(m.Published(self._published_said))
        while any(self._reached):
            well, lost = self._reached
            self.say(m.Reached(well[:REACHED], lost[:REACHED]))
            self._reached = well[REACHED:], lost[REACHED:]
        if self._dropped_said < self.dropped:
            self._dropped_said = self.dropped
            stream.send(m.Dropped(self.dropped))
        while not stream.choked and stream.open:
            room = min(limits.delivery_batch, self.window - len(self._open))
            is_ahead = self._open_bytes >= limits.open_bytes
            if room <= 0 or is_ahead or self._sent >= self.mailbox.newest:
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
                is_enough = size > limits.delivery_batch_bytes or one.number != first + len(items)
                if items and is_enough:
                    break
                items.append(one.delivery)
                self._open.append((one.number, one.size))
                self._open_bytes += one.size
            self._sent = first + len(items) - 1
            stream.send(m.Deliveries(first, items))

    def _take(self, number: int, noticed: int) -> None:
        """The client has taken deliveries up to `number` and received `noticed` notices."""
        if number > max(self._sent, self.mailbox.newest):
            raise WireError("out-of-turn", f"{number} taken, {self.mailbox.newest} sent")
        self._check_noticed(noticed)
        while self._noticed < noticed:
            self.notice_bytes -= len(self._notices.popleft())
            self._noticed += 1
        opened = self._open
        if opened and opened[0][0] <= number:
            self._progress_at = self._timers.now
        while opened and opened[0][0] <= number:
            self._open_bytes -= opened.popleft()[1]
        self.mailbox.take(number)
        self._count_waiting()
        if self._followed:
            for taken in [n for n in self._followed if n <= number]:
                self._followed.pop(taken).end()
        if self.gate.full and self._is_roomy():
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
            self.gate.clear()
        if self.stream is not None:
            self.stream.schedule()

    def _check_noticed(self, noticed: int) -> None:
        if noticed > self._noticed + len(self._notices):
            raise WireError("out-of-turn", f"{noticed} notices heard, fewer were sent")

    def _is_roomy(self) -> bool:
        limits = self._limits
        share = self.router.shares.of(self.hosted.name, limits.waiting_bytes)
        return (
            len(self.mailbox) <= limits.queued // 2
            and self.mailbox.size <= limits.queued_bytes // 2
            and not self._takes_too_much(share // 2)
        )

    # Messages of the client

    def take(self, stream: Stream, message: Any) -> None:
        """Handle a message of the client."""
        kind = type(message)
        if kind is m.Publish:
            self._publish(stream, message)
        elif kind is m.Take:
            self._take(message.number, message.noticed)
        elif kind is m.Close:
            self.router.end_session(self, "closed")
            stream.close()
        elif kind is m.Failed:  # we broke the protocol, says the client
            journal("client failed", session=self.number, why=message.code)
            stream.abort()
        elif kind is not m.Ping:
            self._request(message)

    def say(self, notice: Any) -> None:
        """Send the client a notice, now or when it is back."""
        data = frame(m.encode(notice))
        # A stranger's doing: it must not end the session.
        is_reply = type(notice) in (m.Reply, m.Unanswered)
        room = self._limits.notice_bytes // (2 if is_reply else 1)
        if self.notice_bytes + len(data) > room:
            if is_reply:
                self.router.counts.replies_dropped += 1
                return
            if not self.over:
                self._give_up()
            return
        self.notice_bytes += len(data)
        self._notices.append(data)
        if self.stream is not None:
            self.stream.send_frame(data)

    # Publications

    def _publish(self, stream: Stream, message: m.Publish) -> None:
        last = message.first + len(message.events) - 1
        known = self.received + 1 - message.first  # sent again, and received before
        if known < 0:
            raise WireError("out-of-turn", f"publication {message.first} after {self.received}")
        if last <= self.received:
            return
        self.received = last
        events = message.events[known:] if known else message.events
        self._batches.append(Batch(message.first + known, message.level, events, stream.size))
        self._batch_bytes += stream.size
        if not self._held:
            self._go_on()
        limits = self._limits
        unrouted = self.received - self.mailbox.published
        most = limits.credit_bytes + limits.client_frame  # bytes may be counted a frame early
        if unrouted > limits.credit or self._batch_bytes > most:
            raise WireError("out-of-turn", f"{unrouted} publications, more than the credit")

    def _go_on(self) -> None:
        """Route the publications that wait, now or in the application's turn."""
        if self.router.turns is None:
            self.route()
        else:
            self.router.turns.add(self.hosted.name, self)

    @property
    def is_waiting(self) -> bool:
        """Whether it has publications that could be routed."""
        return bool(self._batches) and not self._held and not self.over

    def route(self, most: int = sys.maxsize) -> int:
        """Route about so many publications, until one finds no room on its path."""
        routed = 0
        while self._batches and not self._held and routed < most:
            batch = self._batches[0]
            gate = self.router.switching()
            if gate is not None:
                self._wait(gate)
                break
            while routed < most and batch.done < len(batch.events) and not self._held:
                before = batch.done
                self._route(batch)
                routed += batch.done - before
            if batch.done == len(batch.events) and not self.over:
                self._batches.popleft()
                self._batch_bytes -= batch.size
        if self.stream is not None:
            self.stream.schedule()
        return routed

    def _route(self, batch: Batch) -> None:
        """Route a stretch of publications, until one finds no room on its path.

        The router publishes those that somebody may want, in order. It passes over all others
        together, as long as nobody new can want one of them.
        """
        start = batch.done
        events = batch.events[start : start + self._limits.stretch]
        refusals = self._refusals(events, batch.size)
        if refusals:
            events = [{} if place in refusals else one for place, one in enumerate(events)]
        board = self.hosted.edge.board
        places = self.router.look_ahead(events)
        changes = board.changes
        for place in sorted({*places, *refusals}) if refusals else places:
            self._pass_over(batch, start + place)
            done = batch.done = start + place + 1
            if place in refusals:
                self._refuse(batch.first + start + place, refusals[place])
            else:
                self._publish_one(batch.first + start + place, events[place], batch)
            if self._held or batch.done != done or board.changes != changes:
                return  # what was found ahead may not be true any more
        self._pass_over(batch, start + len(events))

    def _pass_over(self, batch: Batch, until: int) -> None:
        """Nobody wants the publications of a batch up to a place."""
        count = until - batch.done
        if count:
            first = batch.first + batch.done
            if batch.level:
                self._reached[0].extend(range(first, first + count))
            batch.done = until
            self.mailbox.published = first + count - 1
            self.router.pass_over(self.hosted, count)

    def _refuse(self, number: int, reason: str) -> None:
        self.router.counts.refused += 1
        self.say(m.Refused(number, reason))  # before `Published` can acknowledge it
        self.mailbox.published = number

    def _publish_one(self, number: int, event: dict[str, Any], batch: Batch) -> None:
        self.mailbox.published = number
        pending = self._follow(number) if batch.level else None
        gate = self.router.publish(self, number, event, batch.level, pending)
        if pending is not None:
            pending.end()
        if gate is not None:
            self._wait(gate)

    def _wait(self, gate: Gate) -> None:
        self._held = True
        self.hosted.use.held += 1
        gate.wait(self._released)

    def _released(self) -> None:
        self._held = False
        if not self.over:
            self._go_on()

    def _refusals(self, events: list[dict[str, Any]], frame_size: int) -> dict[int, str]:
        """Why the router refuses some of these events, by their places."""
        anything = self.principal.publish is None and not self.advertised
        if anything and frame_size <= self._limits.event_bytes and are_plain(events):
            return {}
        reasons = enumerate(self._refusal(event, frame_size) for event in events)
        return {place: reason for place, reason in reasons if reason is not None}

    def _refusal(self, event: dict[str, Any], frame_size: int) -> str | None:
        reason = check_event(event)
        if reason is not None:
            return reason
        most = self._limits.event_bytes
        if frame_size > most and len(m.encode(event)) > most:
            return f"the event is larger than {most} bytes"
        # The refusal gives no detail, so that it reveals nothing of what others may do.
        if not self.principal.may_publish(event):
            return "this token may not publish this event"
        if self.advertised and not any(one.matches(event) for _, one in self.advertised.values()):
            return "the event does not match what this client has advertised"
        return None

    def _follow(self, number: int) -> Pending:
        def tell(well: bool) -> None:
            self._reached[0 if well else 1].append(number)
            if self.stream is not None:
                self.stream.schedule()

        return Pending(tell)

    # Requests

    def _request(self, message: Any) -> None:
        if message.request <= self.requested:
            return  # sent again, and received before
        self.requested = message.request
        self._requests.append(message)
        if len(self._requests) > self._limits.requests:
            raise WireError("out-of-turn", f"more than {self._limits.requests} open requests")
        self._carry_out()

    def _carry_out(self) -> None:
        """Carry out the requests that wait, one after the other."""
        while self._requests and not self._busy:
            self._carry_out_one(self._requests.popleft())

    def _carry_out_one(self, message: Any) -> None:
        kind = type(message)
        verb = VERB_OF.get(kind)
        if verb in self.router.row.lacks:
            name = self.router.settings.chosen.name
            self._done(message.request, f"the protocol {name} does not have {verb}")
        elif kind is m.Subscribe or kind is m.Advertise:
            receive = self.principal if kind is m.Subscribe else None
            if len(message.predicate) <= self._limits.short_predicate:
                self._read(message, read_predicate(message.predicate, receive))
            else:
                self._busy = True
                self.router.host.work(
                    partial(read_predicate, message.predicate, receive),
                    partial(self._resume, message, self.principal),
                )
        elif kind is m.Unsubscribe:
            number = self.subscriptions.pop(message.id, None)
            self.asked.pop(message.id, None)
            if number is not None:
                self.router.unsubscribe(number)
            why = "" if number is not None else "there is no subscription with this id"
            self._done(message.request, why)
        elif kind is m.Unadvertise:
            advertised = self.advertised.pop(message.id, None)
            if advertised is not None:
                self.router.unadvertise(advertised[0])
            why = "" if advertised is not None else "there is no advertisement with this id"
            self._done(message.request, why)
        elif kind is m.Feedback:
            self._feedback(message)
        elif kind is m.Ask:
            self.router.ask(self, message)
        else:
            raise WireError("out-of-turn", f"a {kind.__name__} from a client")

    def _resume(
        self, message: Any, principal: Principal, read: tuple[Predicate, Predicate] | Exception
    ) -> None:
        self._busy = False
        if self.over:
            return
        if principal is self.principal:
            self._read(message, read)
        else:  # the token allows something else by now
            self._carry_out_one(message)
        self._carry_out()

    def _read(self, message: Any, read: tuple[Predicate, Predicate] | Exception) -> None:
        """The predicate of a request has been read."""
        if isinstance(read, Exception):
            self._done(message.request, str(read))
        elif type(message) is m.Advertise:
            self._advertise(message, read[0])
        else:
            self._subscribe(message, *read)

    def _subscribe(self, message: m.Subscribe, asked: Predicate, allowed: Predicate) -> None:
        number = self.subscriptions.get(message.id)
        most = self._limits.subscriptions
        if number is None and len(self.subscriptions) >= most:
            self._done(message.request, f"a session holds at most {most} subscriptions")
            return
        size = len(message.predicate)
        refusal = self.hosted.refusal(number, size, self._limits, self.router.shares)
        if refusal:
            self._done(message.request, refusal)
            return
        number, established = self.router.subscribe(self, message.id, number, allowed)
        self.hosted.hold(number, size)
        self.subscriptions[message.id] = number
        self.asked[message.id] = asked
        self._done(message.request, "", f"{self.router.node}/{number}")
        if established:
            self.say(m.Established([message.id], self.router.epoch))

    def _advertise(self, message: m.Advertise, predicate: Predicate) -> None:
        """Advertise; the request is done when the advertisement is in force."""
        most = self._limits.advertisements
        known = self.advertised.get(message.id)
        if known is None and len(self.advertised) >= most:
            self._done(message.request, f"a session holds at most {most} advertisements")
            return
        id = known[0] if known is not None else self.router.new_advertisement()
        self.advertised[message.id] = id, predicate
        self.router.advertise(self, message.request, id, predicate)

    def in_force(self, request: int) -> None:
        """An advertisement has come into force."""
        self._done(request, "")

    def reject(self, ids: list[int], reason: str) -> None:
        """The network cannot serve some subscriptions: end them."""
        for id in ids:
            number = self.subscriptions.pop(id, None)
            self.asked.pop(id, None)
            if number is not None:
                self.router.unsubscribe(number)
        self.say(m.Rejected(ids, reason))

    def _feedback(self, message: m.Feedback) -> None:
        error = check_event(message.reply) or ""
        most = self._limits.event_bytes
        if not error and len(m.encode(message.reply)) > most:
            error = f"the reply is larger than {most} bytes"
        elif self.hosted.name and self.router.is_sealed(self.hosted.name):
            error = f"the application {self.hosted.name} is sealed: replies would be readable"
        elif self._ticket_of(message) != message.ticket:
            error = "the event was not delivered to this client"
        self._done(message.request, error)
        if not error:
            self.router.feedback(self, message)

    def _ticket_of(self, message: m.Feedback) -> int:
        whose = message.source, message.life, message.number
        return self.router.ticket(*whose, self.hosted.name)

    def _done(self, request: int, error: str, id: str = "") -> None:
        self.say(m.Done(request, error, id))

    # Rights

    def change_principal(self, principal: Principal) -> None:
        """The holder of the token may do something else from now on."""
        former, self.principal = self.principal, principal
        if former.receive == principal.receive:
            return
        for id, number in self.subscriptions.items():
            allowed = principal.restrict(self.asked[id])
            if self.router.subscribe(self, id, number, allowed)[1]:
                self.say(m.Established([id], self.router.epoch))


def read_predicate(
    text: str, principal: Principal | None
) -> tuple[Predicate, Predicate] | PredicateError:
    """A predicate as written, and the part of it that a principal may receive.

    It computes what a router will need of it, because it may run in a thread.
    """
    try:
        asked = parse(text)
        allowed = principal.restrict(asked) if principal is not None else asked
    except PredicateError as error:
        return error
    with suppress(NormalFormError):
        allowed.filters  # noqa: B018  # kept by the predicate
    bounded(allowed)  # kept until it is announced
    return asked, allowed
