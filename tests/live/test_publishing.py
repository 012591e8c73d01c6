"""Publications that are handled together end as if each were handled by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.live.test_hostile import events as strange_events
from tidings.language.predicate import parse
from tidings.live.access import ANYONE, Principal, are_plain, check_event
from tidings.live.client_core import Address, ClientCore, Options
from tidings.live.errors import RefusedError, UnknownOutcomeError
from tidings.live.limits import LIMITS, Limits
from tidings.live.router_core import RouterCore
from tidings.live.settings import Settings
from tidings.live.stream import Stream
from tidings.live.timers import Timers
from tidings.routing.protocol import Publish, Unwanted
from tidings.wire import messages as m
from tidings.wire.frames import MAX_CLIENT, Frames, frame

Event = dict[str, Any]

plain_events = st.fixed_dictionaries(
    {}, optional={"x": st.integers(0, 5), "y": st.sampled_from(["a", "b", "ä"])}
)
odd_events = strange_events | st.fixed_dictionaries(
    {"x": st.lists(st.integers(0, 3), max_size=2), "tidings:to": st.just("a")}
)


class Wire:
    """A transport in memory."""

    peer = "somewhere:1"

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.conversation = "greeting"
        self._frames = Frames(MAX_CLIENT)

    def write(self, data: bytes) -> None:
        self._frames.feed(data)
        for body in self._frames:
            self.sent.append(m.decode(body, self.conversation))
            if type(self.sent[-1]) is m.Opened:
                self.conversation = "to client"

    def schedule(self) -> None:
        pass

    def waiting(self) -> int:
        return 0

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


class Host:
    """Makes no connections."""

    def dial(self, dial: Any) -> None:
        pass

    def work(self, function: Any, then: Any) -> None:
        then(function())

    def connect(self, address: Address) -> None:
        pass


class OneByOne(RouterCore):
    """The slow twin: it looks at each event by itself."""

    def look_ahead(self, events: Sequence[Event]) -> Sequence[int]:
        return range(len(events))


class Peer:
    """A client of a router in memory, without anything of its own."""

    def __init__(self, router: RouterCore) -> None:
        self.wire = Wire()
        self.stream: Stream = router.accepted(self.wire)
        self.say(m.Open(m.VERSION, "", "", 0, 0, 0, "block", 100))

    def say(self, message: Any) -> None:
        self.stream.received(frame(m.encode(message)))


def heard(router_of: type[RouterCore], case: Case) -> Any:
    """What a publisher and a subscriber hear; the subscriber takes all it got after each batch."""
    router = router_of(Settings("a"), Host(), Timers(), Random(1).getrandbits, case.limits)
    router.start()
    publisher, subscriber = Peer(router), Peer(router)
    for session in router.sessions.values():
        session.change_principal(case.principal)
    if case.advertised:
        publisher.say(m.Advertise(1, 1, case.advertised))
    number = 1
    for turn, (level, events) in enumerate(case.batches):
        if turn < len(case.wanted):
            subscriber.say(m.Subscribe(turn + 1, turn + 1, case.wanted[turn]))
        publisher.say(m.Publish(number, level, events))
        number += len(events)
        for _ in range(2):
            for peer in (publisher, subscriber):
                peer.stream.flush()
            sent = [one for one in subscriber.wire.sent if type(one) is m.Deliveries]
            subscriber.say(m.Take(sum(len(one.items) for one in sent), 0))
    said = [(m.encode(one.wire.sent), str(one.stream.error)) for one in (publisher, subscriber)]
    return said, router.counts


class Case(NamedTuple):
    """What clients of a router do, and what binds them."""

    batches: list[tuple[int, list[Event]]]
    wanted: list[str]
    limits: Limits
    principal: Principal
    advertised: str


cases = st.builds(
    Case,
    st.lists(
        st.tuples(
            st.sampled_from([m.RECEIVED, m.ROUTED, m.DELIVERED]),
            st.lists(plain_events | plain_events | odd_events, min_size=1, max_size=12),
        ),
        max_size=6,
    ),
    st.lists(st.sampled_from(["x > 2", "not exists x", "x = 1 or y = 'a'", "true", "x > 1e9"])),
    st.builds(
        lambda *sizes: Limits(stretch=sizes[0], queued=sizes[1], event_bytes=sizes[2]),
        st.sampled_from([1, 3, 64]),
        st.sampled_from([2, 5, 10_000]),
        st.sampled_from([20, 10_000]),
    ),
    st.sampled_from([ANYONE, Principal("some", publish=parse("x > 1 or exists y"))]),
    st.sampled_from(["", "not (x = 3)"]),
)


@settings(max_examples=examples(100))
@given(cases)
def test_a_router_that_looks_ahead_does_what_it_does_one_by_one(case: Case) -> None:
    assert heard(RouterCore, case) == heard(OneByOne, case)


@given(st.lists(plain_events | odd_events, max_size=5))
def test_events_that_are_plain_together_are_refused_by_no_check(events: list[Event]) -> None:
    if are_plain(events):
        assert not any(map(check_event, events))


def test_publications_that_nobody_wants_take_one_step() -> None:
    router = RouterCore(Settings("a"), Host(), Timers(), Random(1).getrandbits)
    causes: list[Any] = []
    handle = router.protocol.handle

    def noting(cause: Any, now: int) -> Any:
        causes.append(cause)
        return handle(cause, now)

    router.protocol.handle = noting  # type: ignore[method-assign]
    peer = Peer(router)
    peer.say(m.Subscribe(1, 1, "x = 40"))
    causes.clear()
    peer.say(m.Publish(1, m.RECEIVED, [{"x": n} for n in range(64)]))
    assert causes == [Unwanted(40), Publish({"x": 40}), Unwanted(23)]


def test_a_publication_that_finds_no_room_holds_up_those_behind_it_wanted_or_not() -> None:
    limits = Limits(queued=2)
    router = RouterCore(Settings("a"), Host(), Timers(), Random(1).getrandbits, limits)
    publisher, subscriber = Peer(router), Peer(router)
    subscriber.say(m.Subscribe(1, 1, "x = 1"))
    publisher.say(m.Publish(1, m.RECEIVED, [{"x": n % 2} for n in range(10)]))
    publisher.stream.flush()
    assert publisher.wire.sent[-1] == m.Published(6)  # three are wanted, of which two have room
    subscriber.stream.flush()
    subscriber.say(m.Take(3, 0))
    publisher.stream.flush()
    assert publisher.wire.sent[-1] == m.Published(10)


# The client


class Network:
    """A client, and a router of few words that acknowledges what it is told to."""

    stream: Stream

    def __init__(self, limits: Limits, credit: tuple[int, int]) -> None:
        self.core = ClientCore(Options((Address("a", 1),)), Host(), Timers(), limits)
        self.credit = credit
        self.wire = Wire()
        self.received: list[int] = []  # of this session: what the events hold
        self.acknowledged = 0
        self.before = 0  # how many were received in former sessions
        self.published: list[int] = []
        self.open = {"received": 0, "delivered": 0}  # publications whose outcome is open
        self.connect(resumed=False)

    def connect(self, resumed: bool, share: float = 1.0) -> None:
        """Break the connection, if there is one, and make another.

        The router then wants again what it has received, but for a share of it.
        """
        if self.core.is_open:
            self.stream.lost(None)
        if not resumed:
            self.before += len(self.received)
            self.received, self.acknowledged = [], 0
        self.wire = Wire()
        self.stream = self.core.connected(self.wire)
        self.stream.flush()
        self.wire.conversation = "from client"
        self.newest = self.acknowledged + round((len(self.received) - self.acknowledged) * share)
        opened = m.Opened("a", "key", resumed, self.newest, *self.credit)
        self.stream.received(frame(m.encode(opened)))
        self.wire.sent.clear()

    def publish(self, level: str, count: int) -> None:
        some = [len(self.published) + n for n in range(count)]
        self.published += some
        self.open[level] += count
        settled = partial(self._settled, level)
        assert self.core.publish_some(({"n": n} for n in some), level, settled) == count

    def _settled(self, level: str, count: int, error: Exception | None) -> None:
        assert 0 < count <= self.open[level]
        assert error is None or isinstance(error, UnknownOutcomeError)
        self.open[level] -= count

    def flush(self, share: float = 1.0) -> None:
        """Let the client send, and take what it sends, or a share of it."""
        self.stream.flush()
        limits = self.core.limits
        for message in self.wire.sent[: round(len(self.wire.sent) * share)]:
            if type(message) is m.Publish:
                assert message.first == self.newest + 1
                assert len(message.events) <= limits.publish_batch
                size = sum(len(m.encode(event)) for event in message.events)
                assert len(message.events) == 1 or size <= limits.publish_batch_bytes
                some = [event["n"] for event in message.events]
                again = self.received[self.newest :][: len(some)]
                assert some[: len(again)] == again
                self.received += some[len(again) :]
                self.newest += len(some)
        self.wire.sent.clear()
        assert self.newest - self.acknowledged <= max(1, self.credit[0])

    def acknowledge(self, share: float) -> None:
        """Acknowledge some of what has been received and was not acknowledged."""
        before = self.acknowledged
        self.acknowledged += round((self.newest - before) * share)
        delivered = self.open["delivered"]
        self.stream.received(frame(m.encode(m.Published(self.acknowledged))))
        assert self.open["delivered"] == delivered
        left = len(self.published) - self.before - self.acknowledged
        assert self.core.unreceived == left
        reached = list(range(before + 1, self.acknowledged + 1))
        self.stream.received(frame(m.encode(m.Reached(reached, []))))


actions = st.lists(
    st.tuples(
        st.sampled_from(["publish", "publish", "flush", "acknowledge", "break", "lose"]),
        st.sampled_from(["received", "delivered"]),
        st.integers(1, 9),
        st.floats(0, 1),
    ),
    max_size=30,
)


@settings(max_examples=examples(100))
@given(actions, st.sampled_from([1, 3, 512]), st.sampled_from([12, 10_000]), st.integers(1, 20))
def test_a_client_sends_each_publication_once_within_its_bounds_and_tells_each_outcome(
    steps: list[tuple[str, str, int, float]], batch: int, size: int, credit: int
) -> None:
    limits = replace(LIMITS, publish_batch=batch, publish_batch_bytes=size)
    network = Network(limits, (credit, 1_000))
    got: list[int] = []
    for action, level, count, share in steps:
        if action == "publish":
            network.publish(level, count)
        elif action == "flush":
            network.flush()
        elif action == "acknowledge":
            network.acknowledge(share)
        elif action == "break":
            network.flush(share)
            network.connect(True, share)
        elif action == "lose":
            network.flush()
            got += network.received
            network.connect(resumed=False)
    while any(network.open.values()):
        network.flush()
        network.acknowledge(1.0)
    got += network.received
    assert got == network.published
    assert network.core.unreceived == 0


def test_events_before_one_that_cannot_be_sent_are_published() -> None:
    network = Network(LIMITS, (100, 1_000))
    told: list[int] = []

    def some() -> Iterator[Any]:
        yield {"n": 0}
        yield {"n": 1}
        yield {1: 2}

    with pytest.raises(RefusedError, match="names"):
        network.core.publish_some(some(), "received", lambda count, error: told.append(count))
    network.flush()
    assert network.received == [0, 1]
    network.stream.received(frame(m.encode(m.Published(2))))
    assert told == [2]


def test_an_event_is_sent_as_it_was_when_it_was_drawn() -> None:
    network = Network(LIMITS, (100, 1_000))

    def one_object() -> Iterator[Event]:
        event: Event = {}
        for n in range(5):
            event["n"] = n
            yield event

    network.core.publish_some(one_object(), "received", lambda count, error: None)
    network.flush()
    assert network.received == list(range(5))
