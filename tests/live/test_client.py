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

from tests.live.networks import free_ports
from tests.live.test_router import PATIENCE_S, at, chain, run, take, until
from tidings import parse
from tidings.live import client as client_module
from tidings.live import probes, session
from tidings.live.access import MAX_EVENT_BYTES
from tidings.live.connect import connect
from tidings.live.router import Router
from tidings.live.settings import Settings
from tidings.live.subscription import RefusedError
from tidings.wire.messages import MAX_PREDICATE


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


def test_a_client_comes_back_after_a_router_that_accepts_and_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "GREETING_S", 0.2)

    async def scenario() -> None:
        (port,) = free_ports(1)
        router = Router(Settings("a", port=port))
        await router.start()
        async with connect(f"tidings://127.0.0.1:{port}") as net:
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
            await until(lambda: some.interruptions == 1 and some._established.is_set())
            await asyncio.wait_for(net.publish({"x": 1}), PATIENCE_S)
            assert await take(some, 1) == [{"x": 1}]
            await again.stop()

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
            await until(lambda: kept.interruptions == 1 and kept._established.is_set())
            assert again.status()["subscriptions"] == 1
            await again.stop()

    run(scenario())


def test_a_burst_for_a_client_with_very_many_matching_subscriptions_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "MAX_IDS", 400)  # so that a delivery is split

    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as net, at(a) as other:
            several = [await net.subscribe("x > 0", wait=False) for _ in range(1_500)]
            await several[-1].established()
            await other.publish_all({"x": 1} for _ in range(400))
            found = await asyncio.gather(*(take(one, 400) for one in several))
            assert {len(events) for events in found} == {400}
            assert net.reconnections == 0

    run(scenario())


def test_dropping_keeps_the_bound_whatever_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_QUEUED_BYTES", 100_000)

    async def scenario() -> None:
        async with chain(1) as (a,), at(a, policy="drop", window=1) as slow, at(a) as net:
            await slow.subscribe("x > 0")
            await net.publish_all({"x": 1} for _ in range(2_000))
            await net.publish_all({"x": 1, "data": "a" * 20_000} for _ in range(50))
            (held,) = [one for one in a.sessions.values() if one.policy == "drop"]
            assert held.mailbox.size <= 100_000
            assert held.dropped > 1_900

    run(scenario())


def test_a_router_bounds_the_queries_of_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "MAX_OPEN", 0)

    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as net:
            with pytest.raises(RefusedError, match="too many open queries"):
                await net.ask("status")

    run(scenario())
