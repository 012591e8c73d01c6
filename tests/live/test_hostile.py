"""Whatever strangers send, the router goes on, and well-behaved clients notice nothing."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.live.test_router import at, chain, run, take
from tidings.live.limits import Limits
from tidings.live.router import Router
from tidings.live.settings import Settings
from tidings.live.stream import Stream
from tidings.routing import packets as p
from tidings.wire import messages as m
from tidings.wire.errors import CODES
from tidings.wire.frames import Frames, frame

GREETING = frame(m.encode(m.Open(m.VERSION, "", "", 0, 0, 0, "block", 10)))
JOINING = frame(m.encode(m.Join(m.VERSION, "z", 5, "", 1, 3, 0, 0)))

texts = st.text(max_size=12)
numbers = st.integers(0, 2**63 - 1) | st.integers(0, 3)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | texts
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
events = st.dictionaries(texts, values, max_size=3)
names = st.sampled_from(["a", "z", "y"]) | texts
few = st.integers(0, 3)
packets = st.one_of(
    st.builds(p.Hello, st.just(5) | numbers, numbers, numbers),
    st.builds(p.Publication, names, few, few, events),
    st.builds(p.Advertisement, names, few, few, numbers, texts | st.just("x > 1")),
    st.builds(p.Receipt, names, few),
    st.builds(p.Request, names, few, few, numbers),
    st.builds(p.Reply, names, few, texts | st.just("x > 1")),
    st.builds(p.Summary, st.lists(st.tuples(names, few, few), max_size=2).map(tuple)),
    st.builds(
        p.Records,
        st.lists(
            st.builds(
                p.Record,
                names,
                few,
                few,
                few,
                st.lists(st.tuples(names, st.integers(1, 9)), max_size=2).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
    ),
)
well_formed = st.one_of(
    st.builds(m.Publish, numbers, st.integers(0, 2), st.lists(events, max_size=3)),
    st.builds(m.Subscribe, numbers, numbers, texts | st.just("x > 1")),
    st.builds(m.Unsubscribe, numbers, numbers),
    st.builds(m.Advertise, numbers, numbers, texts | st.just("x > 1")),
    st.builds(m.Feedback, numbers, texts, numbers, numbers, numbers, events),
    st.builds(m.Ask, numbers, st.sampled_from(["trace", "why", "status", "?"]), events, texts),
    st.builds(m.Take, numbers, numbers),
    st.builds(
        m.Carry, st.integers(1, 3), st.lists(packets, max_size=3), st.lists(numbers, max_size=2)
    ),
    st.builds(
        m.Taken,
        numbers,
        st.lists(st.tuples(names, few, numbers), max_size=2),
        st.none() | st.lists(st.tuples(names, few, numbers), max_size=2),
    ),
    st.builds(m.Confirmed, st.lists(numbers, max_size=2), st.lists(numbers, max_size=2)),
    st.builds(m.Probe, texts, st.sampled_from(["trace", "why"]), texts, events, texts, st.just(1)),
    st.builds(m.Found, texts, st.lists(events, max_size=2)),
    st.just(m.Close()),
)
arrays = st.builds(
    lambda tag, rest: m.encode([tag, *rest]), st.integers(0, 60), st.lists(values, max_size=7)
)
noise = st.one_of(
    st.binary(max_size=60),
    well_formed.map(lambda message: frame(m.encode(message))),
    arrays.map(frame),
    st.just(GREETING),
    st.just(JOINING),
)


class Wire:
    """A transport that keeps what is written to it."""

    def __init__(self, peer: str = "10.0.0.1:5000") -> None:
        self.peer = peer
        self.written = b""
        self.closed = False
        self.stream: Stream | None = None

    def schedule(self) -> None:
        asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        if self.stream is not None:
            self.stream.flush()

    def write(self, data: bytes) -> None:
        self.written += data

    def waiting(self) -> int:
        return 0

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def accepted(router: Router, peer: str = "10.0.0.1:5000") -> Wire:
    """A stranger that has connected."""
    wire = Wire(peer)
    wire.stream = router.core.accepted(wire)
    return wire


async def throw(router: Router, chunks: list[bytes], one_by_one: bool) -> Wire:
    """Feed bytes to a new connection until it ends."""
    wire = accepted(router)
    assert wire.stream is not None
    for chunk in chunks:
        pieces = [chunk[i : i + 1] for i in range(len(chunk))] if one_by_one else [chunk]
        for piece in pieces:
            if not wire.closed:
                wire.stream.received(piece)
        await asyncio.sleep(0)
    wire.stream.lost(None)
    return wire


def failures(wire: Wire) -> list[str]:
    """The error codes that a stranger received."""
    frames = Frames(1 << 24)
    frames.feed(wire.written)
    rows = [msgspec.msgpack.decode(body) for body in frames]
    return [row[1] for row in rows if row[0] == 4]


@given(
    st.lists(st.lists(noise, max_size=5), min_size=1, max_size=4),
    st.sampled_from([b"", GREETING, JOINING]),
    st.booleans(),
)
def test_no_bytes_bring_a_router_down(
    strangers: list[list[bytes]], first: bytes, one_by_one: bool
) -> None:
    async def scenario() -> None:
        problems: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: problems.append(context)
        )
        async with Router(Settings("a", linger_s=0.0, grace_s=0.0)) as a, at(a) as net:
            subscription = await net.subscribe("calm = true")
            for chunks in strangers:
                wire = await throw(a, [first, *chunks], one_by_one)
                assert set(failures(wire)) <= CODES.keys() - {"bug"}
                assert len(failures(wire)) <= 1
            await net.publish({"calm": True})
            assert await take(subscription, 1) == [{"calm": True}]
        assert not problems, problems

    run(scenario())


def test_malformed_frames_under_load_do_not_disturb_other_clients(seed: int) -> None:
    async def scenario() -> None:
        chance = Random(f"malformed {seed}")
        async with chain(2) as (a, b), at(a) as ada, at(b) as ben:
            subscription = await ben.subscribe("n >= 0")
            taking = asyncio.ensure_future(take(subscription, 10_000))
            for start in range(0, 10_000, 200):
                going = asyncio.ensure_future(
                    ada.publish_all({"n": n} for n in range(start, start + 200))
                )
                for _ in range(4):
                    reader, writer = await asyncio.open_connection("127.0.0.1", b.port)
                    first = (b"", GREETING, JOINING[:-1] + b"\x05", GREETING * 2)
                    writer.write(chance.choice(first))
                    writer.write(chance.randbytes(chance.randrange(1, 200)))
                    writer.write_eof()
                    await reader.read()
                    writer.close()
                await going
            assert [event["n"] for event in await taking] == list(range(10_000))
            assert b.core.counts.malformed > 50

    run(scenario())


def test_silent_strangers_do_not_keep_others_out() -> None:
    async def scenario() -> None:
        async with Router(Settings("a"), limits=Limits(ungreeted=20)) as a:
            good = accepted(a, "10.0.0.2:1")
            wires = [accepted(a, f"10.0.0.1:{n}") for n in range(50)]
            assert [failures(wire) for wire in wires[:31]] == [["full"]] * 31  # the oldest go
            assert not any(map(failures, wires[31:]))
            assert not good.closed
            assert a.status()["counts"]["evicted"] == 31
            async with at(a) as net:
                await net.publish({"x": 1})

    run(scenario())


def test_before_its_greeting_a_stranger_can_send_little() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a:
            wire = await throw(a, [(5_000).to_bytes(4, "big") + bytes(4), bytes(5_000)], False)
            assert failures(wire) == ["too-long"]
            wire = await throw(a, [frame(m.encode(m.Take(1, 0)))], False)
            assert failures(wire) == ["malformed"]
            other = m.Open(m.VERSION + 1, "", "", 0, 0, 0, "block", 10)
            wire = await throw(a, [frame(m.encode(other))], False)
            assert failures(wire) == ["version"]

    run(scenario())
