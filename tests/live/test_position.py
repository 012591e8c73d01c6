"""A subscriber that stores events before it takes them goes on in another process, exactly."""

from __future__ import annotations

import random

import msgspec
import pytest

from tests.live.networks import PATIENCE_S
from tests.live.test_router import at, chain, run
from tidings.live.client import Client
from tidings.live.client_core import Address, Position
from tidings.live.router import Router
from tidings.live.subscription import Subscription


async def begin(router: Router, position: Position | None) -> tuple[Client, Subscription]:
    """A client that goes on from a position, or begins."""
    client = Client((Address("127.0.0.1", router.port),), position=position)
    await client.start()
    subscription = client.resumed
    if subscription is None:
        subscription = await client.subscribe("n >= 0")
    await subscription.established()
    return client, subscription


def test_nothing_is_lost_or_doubled_wherever_the_process_dies(seed: int) -> None:
    """It stores some of what has arrived, takes some of that, and dies without a word."""
    draw = random.Random(seed)

    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as publisher:
            stored: list[int] = []
            data: bytes | None = None  # the position, as it was stored with the events
            published = 0
            for _ in range(12):
                position = None if data is None else msgspec.json.decode(data, type=Position)
                client, subscription = await begin(a, position)
                assert client.interruptions == 0
                await publisher.publish_all({"n": n} for n in range(published, published + 40))
                published += 40
                while not subscription.waiting:
                    await subscription.arrival()
                for _ in range(draw.randrange(3)):
                    batch = subscription.peek(draw.randrange(1, 30))
                    if batch:
                        stored += [event["n"] for event, _ in batch]
                        data = msgspec.json.encode(client.position(subscription, batch[-1][1]))
                        subscription.take(draw.choice((0, len(batch) // 2, len(batch))))
                        break  # what is stored is not peeked at again
                if data is None:
                    data = msgspec.json.encode(client.position(subscription, 0))
                await client.leave()
            position = msgspec.json.decode(data or b"", type=Position)
            client, subscription = await begin(a, position)
            left = published - len(stored)
            while left:
                await subscription.arrival()
                batch = subscription.peek(1_000)
                stored += [event["n"] for event, _ in batch]
                subscription.take(len(batch))
                left -= len(batch)
            await client.close()
            assert stored == list(range(published))

    run(scenario())


def test_a_session_that_the_router_lost_counts_as_interrupted() -> None:
    async def scenario() -> None:
        async with chain(1) as (a,):
            client, subscription = await begin(a, None)
            position = client.position(subscription, 0)
            await client.close()  # ends the session
            client, subscription = await begin(a, position)
            assert (client.interruptions, subscription.interruptions) == (1, 1)
            async with at(a) as publisher:
                await publisher.publish({"n": 1})
            assert await anext(subscription) == {"n": 1}
            await client.close()

    run(scenario())


def test_a_resumed_subscription_can_get_another_predicate() -> None:
    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as publisher:
            client, subscription = await begin(a, None)
            position = client.position(subscription, 0)
            await client.leave()
            client, subscription = await begin(a, position)
            await subscription.replace("n = 2")
            await publisher.publish_all([{"n": 1}, {"n": 2}])
            assert await anext(subscription) == {"n": 2}
            assert not subscription.peek(9)
            await client.close()

    run(scenario())


def test_requests_of_the_predecessor_after_its_position_do_not_hide_those_of_its_heir() -> None:
    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as publisher:
            client, subscription = await begin(a, None)
            position = client.position(subscription, 0)
            await subscription.replace("n = 1")  # and then it dies
            await client.leave()
            client, subscription = await begin(a, position)
            await subscription.replace("n = 2", PATIENCE_S)
            await publisher.publish_all([{"n": 1}, {"n": 2}])
            assert await anext(subscription) == {"n": 2}
            assert subscription.predicate == "n = 2"
            await client.close()

    run(scenario())


def test_the_heir_has_the_predicate_of_its_position_whatever_was_asked_since() -> None:
    async def scenario() -> None:
        async with chain(1) as (a,), at(a) as publisher:
            client, subscription = await begin(a, None)
            position = client.position(subscription, 0)
            await subscription.replace("n = 1")
            await client.leave()
            client, subscription = await begin(a, position)
            assert subscription.predicate == "n >= 0"
            await publisher.publish({"n": 7})
            assert await anext(subscription) == {"n": 7}
            await client.close()

    run(scenario())


def test_the_predecessor_is_told_that_it_was_replaced() -> None:
    async def scenario() -> None:
        async with chain(1) as (a,):
            client, subscription = await begin(a, None)
            other, _ = await begin(a, client.position(subscription, 0))
            with pytest.raises(Exception, match="replaced"):
                await anext(subscription)
            await client.close()
            await other.close()

    run(scenario())
