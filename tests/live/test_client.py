"""A client against mistakes of its program, routers that stall, and its own sizes."""

from __future__ import annotations

import asyncio
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

import tidings
from tests.live.networks import free_ports
from tests.live.test_router import PATIENCE_S, at, chain, cut, run, take, until
from tidings import parse
from tidings.live.client import Client
from tidings.live.client_core import Address
from tidings.live.connect import connect
from tidings.live.errors import RefusedError, TimedOutError
from tidings.live.limits import LIMITS, Limits
from tidings.live.router import Router
from tidings.live.settings import Dial, Settings
from tidings.routing.protocol import MILLISECOND
from tidings.wire.messages import MAX_PREDICATE

MAX_EVENT_BYTES = LIMITS.event_bytes


@pytest.mark.parametrize(
    "event",
    [
        {1: 2},
        [1],
        "text",
        {"x": "a" * (MAX_EVENT_BYTES + 1)},
        {"x": "a" * 1_100_000},
        {"x": object()},
        {"x": 2**64},
        {"x": Decimal(2**64)},
        {"x": "\ud800"},
        {"x": [{1: 2}]},
        {"x": timedelta(1)},
    ],
    ids=lambda event: f"{event!r:.12}",
)
def test_an_event_that_cannot_be_sent_is_refused_and_the_session_goes_on(event: Any) -> None:
    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as net:
            some = await net.subscribe("x = 1")
            for send in (net.publish, lambda e: net.ask("trace", e)):
                with pytest.raises(RefusedError, match="the event"):
                    await send(event)
            await net.publish({"x": 1})
            assert await take(some, 1) == [{"x": 1}]
            assert net.reconnections == 0

    run(scenario())


def test_events_arrive_as_the_values_that_they_stand_for() -> None:
    """The network compares what the library compares, and delivers what it has compared."""
    record: dict[str, Any] = {
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 12, 0, 0, 500_000, timezone(timedelta(hours=2))),
        "local": datetime(2024, 2, 29, 10),
        "clock": time(9, 30),
        "price": Decimal("1.50"),
        "count": Decimal(7),
        "id": UUID(int=1),
        "raw": b"\xff",
        "tags": {"a"},
        "array": np.array([1.5, 2.5]),
        "load": float("inf"),
        "none": pd.NaT,
        "host": {"up": (date(2024, 1, 1), None), "level": np.int64(3)},
    }
    sent = {
        "day": "2024-02-29",
        "at": "2024-02-29T10:00:00.5+00:00",
        "local": "2024-02-29T10:00:00",
        "clock": "09:30:00",
        "price": 1.5,
        "count": 7,
        "id": "00000000-0000-0000-0000-000000000001",
        "raw": b"\xff",
        "tags": ["a"],
        "array": [1.5, 2.5],
        "load": float("inf"),
        "none": None,
        "host": {"up": ["2024-01-01", None], "level": 3},
    }
    tests = (
        "at < '2024-02-29T10:00:01' and price = 1.5 and int count = 7 and raw is null "
        "and host.up prefix '2024' and array > 2 and tags = 'a' and none is null"
    )

    async def scenario() -> None:
        assert parse(tests).matches(record)
        assert parse(tests).matches(sent)
        async with chain(2) as (a, b), at(a) as net, at(b) as far:
            some, none = await far.subscribe(tests), await far.subscribe("exists raw")
            await some.established()
            await net.publish(record)
            assert await take(some, 1) == [sent]
            await net.publish({"raw": "x"})
            assert await take(none, 1) == [{"raw": "x"}]

    run(scenario())


@pytest.mark.parametrize("token", ["x" * 129, "x" * 5_000, "\ud800", 7, b"x"])
def test_a_token_that_no_router_can_know_is_an_error_at_once(token: Any) -> None:
    async def scenario() -> None:
        with pytest.raises(ValueError, match="token: expected a text of at most 128 characters"):
            Client((Address("127.0.0.1", 1),), token=token)

    run(scenario())


def test_a_predicate_that_is_too_long_is_refused_and_the_session_goes_on() -> None:
    async def scenario() -> None:
        long = f"x = '{'a' * MAX_PREDICATE}'"
        async with chain(1) as (a,), at(a) as net:
            some = await net.subscribe("x = 1")
            for send in (net.subscribe, net.advertise, some.replace):
                with pytest.raises(RefusedError, match="the predicate is longer than"):
                    await send(long)
            await net.publish({"x": 1})
            assert await take(some, 1) == [{"x": 1}]

    run(scenario())


def test_a_client_comes_back_after_a_router_that_accepts_and_does_not_answer() -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        router = Router(Settings("a", port=port))
        await router.start()
        limits = Limits(greeting=200 * MILLISECOND)
        net = Client((Address("127.0.0.1", port),), limits=limits)
        await net.start()
        try:
            some = await net.subscribe("x = 1")
            await router.stop()
            accepted: list[asyncio.StreamWriter] = []
            silent = await asyncio.start_server(
                lambda reader, writer: accepted.append(writer), "127.0.0.1", port
            )
            await until(lambda: len(accepted) > 1)
            silent.close()
            for writer in accepted:
                writer.close()
            await silent.wait_closed()
            again = Router(Settings("a", port=port))
            await again.start()
            await until(lambda: some.interruptions == 1)
            await some.established(PATIENCE_S)
            await net.publish({"x": 1}, timeout_s=PATIENCE_S)
            assert await take(some, 1) == [{"x": 1}]
            await again.stop()
        finally:
            await net.close()

    run(scenario())


def test_several_tasks_may_read_one_subscription() -> None:
    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as net:
            some = await net.subscribe("x > 0")
            tasks = [asyncio.ensure_future(take(some, 2)) for _ in range(3)]
            await asyncio.sleep(0.05)
            await net.publish_all({"x": number} for number in range(1, 7))
            found = [event["x"] for events in await asyncio.gather(*tasks) for event in events]
            assert sorted(found) == [1, 2, 3, 4, 5, 6]

    run(scenario())


def test_a_cancelled_subscribe_leaves_no_subscription() -> None:
    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as net:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(net.subscribe("x > 0"), 0)
            kept = asyncio.ensure_future(net.subscribe("x > 0"))
            await asyncio.sleep(0)
            kept.cancel()
            some = await net.subscribe("x > 0")
            await until(lambda: a.status()["subscriptions"] == 1)
            await net.publish_all({"x": number} for number in range(1, 3_001))
            assert len(await take(some, 3_000)) == 3_000

    run(scenario())


def test_who_unsubscribes_while_the_router_is_down_stays_unsubscribed() -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        router = Router(Settings("a", port=port))
        await router.start()
        async with connect(f"tidings://127.0.0.1:{port}") as net:
            left, kept = await net.subscribe("x = 1"), await net.subscribe("x = 2")
            await router.stop()
            leaving = asyncio.ensure_future(left.unsubscribe())
            await asyncio.sleep(0.05)
            again = Router(Settings("a", port=port))
            await again.start()
            await asyncio.wait_for(leaving, PATIENCE_S)
            await until(lambda: kept.interruptions == 1)
            await kept.established(PATIENCE_S)
            assert again.status()["subscriptions"] == 1
            await again.stop()

    run(scenario())


def test_a_burst_for_a_client_with_very_many_matching_subscriptions_arrives() -> None:
    async def scenario() -> None:
        limits = Limits(client_frame=4_000, delivery_ids=100, delivery_batch_bytes=2_000)
        async with Router(Settings("a"), limits=limits) as a, at(a) as other:
            net = Client((Address("127.0.0.1", a.port),), limits=limits)
            await net.start()
            several = [await net.subscribe("x > 0", wait=False) for _ in range(300)]
            await several[-1].established()
            await other.publish_all({"x": 1} for _ in range(200))
            found = await asyncio.gather(*(take(one, 200) for one in several))
            assert {len(events) for events in found} == {200}
            assert net.reconnections == 0
            await net.close()

    run(scenario())


def test_dropping_keeps_the_bound_whatever_the_sizes() -> None:
    async def scenario() -> None:
        async with (
            Router(Settings("a"), limits=Limits(queued_bytes=100_000)) as a,
            at(a, policy="drop", window=1) as slow,
            at(a) as net,
        ):
            await slow.subscribe("x > 0")
            await net.publish_all({"x": 1} for _ in range(2_000))
            await net.publish_all({"x": 1, "data": "a" * 20_000} for _ in range(50))
            (held,) = [one for one in a.core.sessions.values() if one.policy == "drop"]
            assert held.mailbox.size <= 100_000
            assert held.dropped > 1_900

    run(scenario())


def test_a_router_bounds_the_queries_of_its_clients() -> None:
    async def scenario() -> None:
        async with Router(Settings("a"), limits=Limits(queries=0)) as a, at(a) as net:
            with pytest.raises(RefusedError, match="too many open queries"):
                await net.ask("status")

    run(scenario())


def test_verbs_that_wait_have_timeouts() -> None:
    async def scenario() -> None:
        limits = Limits(queued=1)
        async with (
            Router(Settings("a"), limits=limits) as a,
            at(a, window=1) as slow,
            at(a) as net,
        ):
            some = await slow.subscribe("x > 0")
            with pytest.raises(TimedOutError, match=r"no answer in 0\.05 s"):
                await net.publish_all(({"x": 1} for _ in range(50)), timeout_s=0.05)
            with pytest.raises(TimedOutError):
                await net.publish({"x": 1}, "delivered", timeout_s=0.05)
            with pytest.raises(TimedOutError):
                await net.flush(timeout_s=0.05)
            assert len(await take(some, 51)) == 51  # they are published all the same
            await net.flush(timeout_s=PATIENCE_S)

    run(scenario())


def test_without_a_router_connecting_times_out_and_says_where() -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        with pytest.raises(TimedOutError, match=f"cannot connect to 127.0.0.1:{port}: "):
            async with connect(f"tidings://127.0.0.1:{port}", timeout_s=0.2):
                pass

    run(scenario())


def test_a_client_waits_for_a_router_that_starts_later() -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        net = Client((Address("127.0.0.1", port),), timeout_s=PATIENCE_S)
        starting = asyncio.ensure_future(net.start())
        await asyncio.sleep(0.1)
        async with Router(Settings("a", port=port)):
            await starting
            await net.publish({"x": 1})
            await net.close()

    run(scenario())


def test_a_client_goes_on_at_the_next_address_and_tells_so() -> None:
    async def scenario() -> None:
        changes: list[str] = []
        async with Router(Settings("b")) as b:
            a = Router(Settings("a"))
            await a.start()
            urls = [f"tidings://127.0.0.1:{router.port}" for router in (a, b)]
            async with connect(urls, on_change=lambda one: changes.append(one.kind)) as net:
                some = await net.subscribe("x = 1")
                assert net.node == "a"
                await a.stop()
                await until(lambda: net.node == "b")
                await some.established(PATIENCE_S)
                await net.publish({"x": 1})
                assert await take(some, 1) == [{"x": 1}]
                assert some.interruptions == net.interruptions == 1
                cut(net)
                await until(lambda: net.reconnections == 2)
            await asyncio.sleep(0)
        assert changes == [
            "connected",
            "disconnected",
            "interrupted",
            "disconnected",
            "reconnected",
        ]

    run(scenario())


def test_a_block_unsubscribes_at_its_end() -> None:
    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as net:
            async with await net.subscribe("x > 0") as some:
                await net.publish({"x": 1})
                assert await anext(some) == {"x": 1}
            await until(lambda: a.status()["subscriptions"] == 0)
            assert [event async for event in some] == []

    run(scenario())


def test_blocking_clients_have_the_same_verbs() -> None:
    async def scenario() -> None:
        async with chain(1) as (a,):
            await asyncio.to_thread(blocking, a.port)

    def blocking(port: int) -> None:
        with connect(f"tidings://127.0.0.1:{port}") as net:
            with net.subscribe("x > 0") as some:
                number = net.publish({"x": 1}, timeout_s=PATIENCE_S)
                event = some.get(PATIENCE_S)
                assert event == {"x": 1}
                net.feedback(event, {"ok": True})
                assert net.reply(PATIENCE_S) == (number, {"ok": True})
                net.flush()
                assert (net.node, net.dropped, net.reconnections, net.interruptions) == (
                    "a",
                    0,
                    0,
                    0,
                )
                assert some.interruptions == 0
            assert some.get(PATIENCE_S) is None

    run(scenario())


def test_the_errors_of_the_network_are_one_family() -> None:
    for error in (
        tidings.RefusedError,
        tidings.UnknownOutcomeError,
        tidings.TimedOutError,
        tidings.DisconnectedError,
    ):
        assert issubclass(error, tidings.NetworkError)
    assert issubclass(tidings.TimedOutError, TimeoutError)


@pytest.mark.parametrize("policy", ["block", "drop", "disconnect"])
def test_a_client_that_takes_what_it_publishes_is_not_slow(policy: str) -> None:
    async def scenario() -> None:
        limits = Limits(queued=40, queued_bytes=2_000, credit=8)
        async with (
            Router(Settings("a"), limits=limits) as a,
            at(a, policy="block", window=4) as net,
            at(a, policy=policy) as other,
        ):
            mine = await net.subscribe("x >= 0")
            theirs = await other.subscribe("x = 299")
            taking = asyncio.ensure_future(take(mine, 300))
            await net.publish_all({"x": n} for n in range(300))
            assert [event["x"] for event in await taking] == list(range(300))
            assert await take(theirs, 1) == [{"x": 299}]

    run(scenario())


def test_an_address_that_no_host_can_have_is_tried_again_like_any_other() -> None:
    """A router and a client go on: to the next address, or until somebody changes it."""

    async def scenario() -> None:
        odd = "a..b"
        async with Router(Settings("a", links=(Dial(odd, 7_471),))) as a:
            tried: list[str] = []
            a.core.undialled = lambda dial, why: tried.append(why)  # type: ignore[method-assign]
            addresses = (Address(odd, 7_471), Address("127.0.0.1", a.port))
            client = Client(addresses)
            await client.start()
            assert client.node == "a"
            await client.close()
            await until(lambda: bool(tried))
        with pytest.raises(TimedOutError, match=r"a\.\.b:7471: encod"):
            await Client(addresses[:1], timeout_s=0.3).start()

    run(scenario())
