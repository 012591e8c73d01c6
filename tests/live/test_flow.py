"""Flow control: rings of links under load move on, with windows so small that each one is met.

The links are the real ones, on streams in memory that one seed moves and breaks. No clock and no
socket takes part, so a ring that stops has deadlocked.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tidings.live.flow import Gate, Gates, Outflow
from tidings.live.limits import Limits
from tidings.live.link import Link
from tidings.live.pending import Pending
from tidings.routing.packets import (
    Advertisement,
    Lane,
    Packet,
    Publication,
    Receipt,
    Records,
    Reply,
    lane_of,
)
from tidings.wire.errors import WireError
from tidings.wire.messages import decode, encode

LIFE = 1
EVENTS = 60  # of each source
SMALL = Limits(lane=1, lane_most=3, link=4)


def lane(publication: Publication) -> Lane:
    found = lane_of(publication)
    assert found is not None
    return found


class Stream:
    """The connection of one end, as far as a link uses it: messages go into a queue."""

    def __init__(self) -> None:
        self.messages: deque[Any] = deque()
        self.choked = False
        self.gather: Any = None
        self.bytes_in = self.bytes_out = 0

    def send(self, message: Any) -> None:
        self.messages.append(decode(encode(message), "between"))

    def schedule(self) -> None:
        """The ring asks every end in turn."""

    def fail(self, error: Exception) -> None:
        raise error


class Ring:
    """Routers in a ring; the events of every source go clockwise, as far as their event says.

    With `one_lane` all events count as those of one source: what flow control must not do.
    """

    def __init__(self, size: int, chance: Random, one_lane: bool = False) -> None:
        self.size = size
        self.chance = chance
        self.one_lane = one_lane
        self.got: list[list[tuple[str, int]]] = [[] for _ in range(size)]
        self.left = [EVENTS] * size
        self.ends: dict[tuple[int, int], Link] = {}
        for node in range(size):
            for other in ((node + 1) % size, (node - 1) % size):
                self.ends[node, other] = self.link(node, other)
        for (node, other), end in self.ends.items():
            if node < other:
                self.join(end, self.ends[other, node])

    def link(self, node: int, other: int) -> Link:
        def arrived(link: Link, packet: Packet, pending: Pending | None) -> Gate | None:
            assert isinstance(packet, Publication)
            return self.forward(node, packet)

        end = Link(str(other), arrived, lambda *_: None, lambda *_: None, SMALL)
        end.reset(LIFE)
        return end

    def join(self, one: Link, other: Link) -> None:
        """Connect two ends, again if they were before."""
        heard = [one._heard, other._heard]
        for end, theirs in ((one, heard[1]), (other, heard[0])):
            end.detach()
            end.attach(Stream(), theirs, again=True)  # type: ignore[arg-type]

    def forward(self, node: int, publication: Publication) -> Gate | None:
        if publication.event["to"] == node:
            self.got[node].append((publication.source, publication.number))
            return None
        end = self.ends[node, (node + 1) % self.size]
        end.send(publication, None, None)
        return end.flow.gate(lane(publication))

    def publish(self, node: int) -> None:
        """A publisher goes on until it has to wait."""
        while self.left[node]:
            number = EVENTS - self.left[node] + 1
            self.left[node] -= 1
            to = (node + 1 + number % (self.size - 1)) % self.size
            source = "all" if self.one_lane else str(node)
            gate = self.forward(node, Publication(source, LIFE, number, {"to": to}))
            if gate is not None:
                gate.wait(lambda: self.publish(node))
                return

    def step(self) -> bool:
        """Let one end write, and the other read some of it; whether anything moved."""
        moved = False
        for key in self.chance.sample(sorted(self.ends), len(self.ends)):
            end = self.ends[key]
            stream: Any = end.stream
            end._gather()
            back = self.ends[key[1], key[0]]
            for _ in range(self.chance.randint(0, len(stream.messages))):
                back.take(stream, stream.messages.popleft())
                moved = True
            if stream.messages:
                moved = True
        return moved


@pytest.mark.parametrize("size", [3, 4, 5, 8, 12])
@pytest.mark.parametrize("breaks", [0.0, 0.2], ids=["unbroken", "breaking"])
def test_a_ring_under_load_delivers_everything_in_order(
    size: int, breaks: float, seed: int
) -> None:
    for turn in range(examples(20)):
        chance = Random(f"{seed} {turn}")
        ring = Ring(size, chance)
        for node in range(size):
            ring.publish(node)
        while ring.step():
            if chance.random() < breaks:
                one, other = chance.choice(sorted(ring.ends))
                ring.join(ring.ends[one, other], ring.ends[other, one])
        found = [event for got in ring.got for event in got]
        assert len(found) == len(set(found)) == size * EVENTS, f"seed {seed}, turn {turn}"
        for got in ring.got:
            for source in range(size):
                numbers = [number for name, number in got if name == str(source)]
                assert numbers == sorted(numbers)
        assert all(end.flow.open == 0 for end in ring.ends.values())


def test_a_ring_stops_if_sources_wait_for_each_other(seed: int) -> None:
    stopped = 0
    for turn in range(20):
        ring = Ring(5, Random(f"{seed} {turn}"), one_lane=True)
        for node in range(5):
            ring.publish(node)
        while ring.step():
            pass
        stopped += sum(map(len, ring.got)) < 5 * EVENTS
    assert stopped, "the rings of these tests cannot deadlock, so they show nothing"


class Mesh(Ring):
    """A ring in which every event takes every link, as under flooding."""

    skips = True

    def __init__(self, size: int, chance: Random) -> None:
        self.newest: dict[tuple[int, str], int] = {}
        super().__init__(size, chance)

    def forward(self, node: int, publication: Publication) -> Gate | None:
        source, number = publication.source, publication.number
        if number <= self.newest.get((node, source), 0):
            return None
        assert number == self.newest.get((node, source), 0) + 1, "out of order"
        self.newest[node, source] = number
        self.got[node].append((source, number))
        found = None
        for other in ((node + 1) % self.size, (node - 1) % self.size):
            end = self.ends[node, other]
            end.send(publication, None, None)
            found = end.flow.gate(lane(publication)) or found
        if self.skips:
            for other in ((node + 1) % self.size, (node - 1) % self.size):
                self.ends[node, other].skip(lane(publication), LIFE, number)
        return found


def flooded(mesh: Mesh) -> bool:
    """Whether everyone gets everything."""
    for node in range(mesh.size):
        mesh.publish(node)
    while mesh.step():
        pass
    return all(len(got) == mesh.size * EVENTS for got in mesh.got)


@pytest.mark.parametrize("size", [3, 5, 8])
def test_flooding_a_ring_reaches_everyone_in_order(size: int, seed: int) -> None:
    for turn in range(examples(20)):
        assert flooded(Mesh(size, Random(f"{seed} {turn}"))), f"seed {seed}, turn {turn}"


sources = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(sources, st.booleans(), st.integers(1, 40)), max_size=200))
def test_every_lane_has_room_of_its_own_and_none_more_than_the_most(
    steps: list[tuple[str, bool, int]],
) -> None:
    limits = Limits(lane=2, lane_bytes=50, lane_most=5, lane_most_bytes=100, link=7, link_bytes=150)
    flow = Outflow(limits)
    lanes: dict[str, list[tuple[int, int]]] = {name: [] for name in "abc"}
    for number, (source, is_event, size) in enumerate(steps):
        lane, opened = (source, 0), lanes[source]
        if not is_event:
            if opened:
                flow.worked(lane, opened.pop(0)[0])
        elif flow.gate(lane) is None:
            flow.sent(lane, number, size)
            opened.append((number, size))
        for name, unprocessed in lanes.items():
            count, held = len(unprocessed), sum(size for _, size in unprocessed)
            assert flow.unprocessed((name, 0)) == count <= 5
            assert held < 100 + 40
            if not count:
                assert flow.gate((name, 0)) is None
        assert flow.open == sum(map(len, lanes.values())) <= 7 + 2 * 3
        assert flow.open_bytes == sum(size for opened in lanes.values() for _, size in opened)
        assert flow.open_bytes <= 150 + 3 * (50 + 40)


def test_what_was_never_sent_cannot_be_processed() -> None:
    flow = Outflow()
    flow.sent(("a", 0), 1, 10)
    for lane, number in ((("a", 0), 2), (("b", 0), 1)):
        with pytest.raises(WireError, match="processed that were not sent"):
            flow.worked(lane, number)


def test_a_link_that_begins_anew_lets_everyone_go_on() -> None:
    flow = Outflow(Limits(lane=1, lane_most=1, link=1))
    flow.sent(("a", 0), 1, 10)
    gate = flow.gate(("a", 0))
    assert gate is not None
    went_on: list[int] = []
    gate.wait(lambda: went_on.append(1))
    flow.reset()
    assert went_on == [1]
    assert flow.gate(("a", 0)) is None


def test_who_meets_several_full_queues_waits_for_all_of_them() -> None:
    one, other = Gate(), Gate()
    one.full = other.full = True
    went: list[str] = []
    Gates([one, other]).wait(lambda: went.append("on"))
    one.clear()
    assert not went
    one.full = True
    other.clear()
    assert not went
    one.clear()
    assert went == ["on"]


def test_a_copy_that_is_discarded_while_it_waits_is_confirmed() -> None:
    """Else its publisher would wait for ever to hear that it is delivered."""
    full = Gate()
    full.full = True
    nobody: Any = lambda *_: None  # noqa: E731
    here = Link("b", nobody, nobody, nobody, SMALL)
    there = Link("a", lambda *_: full, nobody, nobody, SMALL)
    told: list[bool] = []
    streams = Stream(), Stream()
    for end, stream in zip((here, there), streams, strict=True):
        end.reset(LIFE)
        end.attach(stream, 0, again=False)  # type: ignore[arg-type]
    for number in (1, 2):
        pending = Pending(told.append)
        here.send(Publication("a", LIFE, number, {}), None, pending)
        pending.end()
    here._gather()
    for message in streams[0].messages:
        there.take(streams[1], message)  # type: ignore[arg-type]
    there.skip(("a", 0), LIFE, 2)
    there._gather()
    for message in streams[1].messages:
        here.take(streams[0], message)  # type: ignore[arg-type]
    assert told == [True, True]


def test_what_is_said_anew_while_it_waits_for_a_slow_line_is_sent_once() -> None:
    """Else routers that repeat what is not answered in time fill a slow line for ever."""
    got: list[Any] = []
    nobody: Any = lambda *_: None  # noqa: E731
    here = Link("b", nobody, nobody, nobody, SMALL)
    there = Link("a", lambda _, packet, __: got.append(packet), nobody, nobody, SMALL)
    streams = Stream(), Stream()
    for end, stream in zip((here, there), streams, strict=True):
        end.reset(LIFE)
        end.attach(stream, 0, again=False)  # type: ignore[arg-type]

    def arrive() -> None:
        here._gather()
        while streams[0].messages:
            there.take(streams[1], streams[0].messages.popleft())  # type: ignore[arg-type]

    def say(*packets: Any) -> None:
        for packet in packets:
            here.send(packet, None, None)

    streams[0].choked = True
    say(Reply("x", 1, "a > 1"), Receipt("x", 1), Reply("y", 1, "b > 1"), Reply("x", 2, "a > 22"))
    say(Advertisement("x", LIFE, 1, 0, "c > 1"), Advertisement("x", LIFE, 2, 0, "c > 1"))
    arrive()
    assert not got
    kept = here.status()["kept_bytes"]
    for number in range(3, 100):
        say(Reply("x", number, "a > 22"), Advertisement("x", LIFE, number, 0, "c > 1"))
    assert here.status()["kept_bytes"] == kept
    streams[0].choked = False
    arrive()
    last = Advertisement("x", LIFE, 99, 0, "c > 1")
    assert got == [Reply("x", 99, "a > 22"), Receipt("x", 1), Reply("y", 1, "b > 1"), last]

    # News of links may have to come before an advertisement by them, so both stay where they are.
    got.clear()
    streams[0].choked = True
    before, news = Advertisement("x", LIFE, 1, 0, "c > 1"), Records(())
    after = Advertisement("x", LIFE, 2, 7, "c > 1")
    say(before, news, after)
    streams[0].choked = False
    arrive()
    assert got == [before, news, after]

    # What has been sent on any connection stays as it is: the other end may have it already.
    got.clear()
    say(Reply("x", 100, "a > 1"))
    here._gather()
    here.detach()
    say(Reply("x", 101, "a > 2"), Reply("x", 102, "a > 3"))
    streams[0].messages.clear()
    here.attach(streams[0], there.heard, again=True)  # type: ignore[arg-type]
    arrive()
    assert got == [Reply("x", 100, "a > 1"), Reply("x", 102, "a > 3")]
