"""A router and its clients, in one process: what each verb promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tidings.live.client import Client
from tidings.live.connect import Connector, connect
from tidings.live.errors import NetworkError, RefusedError
from tidings.live.inbox import Tiding
from tidings.live.router import Router
from tidings.live.settings import LIVE, Dial, Settings
from tidings.live.subscription import Subscription
from tidings.routing.protocol import MILLISECOND

PATIENCE_S = 30.0


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a scenario; one that hangs fails."""
    asyncio.run(asyncio.wait_for(work, 2 * PATIENCE_S))


def at(router: Router, **options: Any) -> Connector:
    return connect(f"tidings://127.0.0.1:{router.port}", **options)


async def take(subscription: Subscription, count: int) -> list[Tiding]:
    async def some() -> list[Tiding]:
        return [await subscription.__anext__() for _ in range(count)]

    return await asyncio.wait_for(some(), PATIENCE_S)


def cut(net: Client) -> None:
    """Break the connection of a client, if it has one."""
    stream = net._core._stream
    if stream is not None:
        stream.abort()


async def until(condition: Callable[[], bool]) -> None:
    async def watch() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(watch(), PATIENCE_S)


@asynccontextmanager
async def chain(count: int, **options: Any) -> AsyncIterator[list[Router]]:
    """Routers a, b, … in a row, settled."""
    routers: list[Router] = []
    try:
        for index in range(count):
            links = (Dial("127.0.0.1", routers[-1].port),) if routers else ()
            router = Router(Settings(chr(ord("a") + index), links=links, **options))
            await router.start()
            routers.append(router)
        await until(lambda: all(len(r.status()["reaches"]) == count - 1 for r in routers))
        await until(lambda: all(r.status()["settled"] for r in routers))
        yield routers
    finally:
        for router in routers:
            await router.stop()


def test_an_event_goes_to_those_who_asked_for_it() -> None:
    async def scenario() -> None:
        async with chain(3) as (a, _, c), at(a) as ada, at(c) as ben, at(c) as cleo:
            loud = await ben.subscribe("severity > 2")
            web = await cleo.subscribe("host prefix 'web-'")
            await ada.publish({"severity": 3, "host": "db-1"})
            await ada.publish({"severity": 1, "host": "web-1"})
            await ada.publish({"severity": 9, "host": "web-2"})
            assert await take(loud, 2) == [
                {"severity": 3, "host": "db-1"},
                {"severity": 9, "host": "web-2"},
            ]
            assert [event["host"] for event in await take(web, 2)] == ["web-1", "web-2"]

    run(scenario())


def test_an_event_for_two_subscriptions_of_a_client_comes_to_both() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as net:
            one, other = await net.subscribe("x > 0"), await net.subscribe("x > 1")
            await net.publish_all([{"x": 1}, {"x": 2}])
            assert await take(one, 2) == [{"x": 1}, {"x": 2}]
            assert await take(other, 1) == [{"x": 2}]

    run(scenario())


@pytest.mark.parametrize("level", ["received", "routed", "delivered"])
def test_a_publication_is_acknowledged_at_each_level(level: str) -> None:
    async def scenario() -> None:
        async with chain(3) as (a, _, c), at(a) as ada, at(c) as ben:
            subscription = await ben.subscribe("x = 1")
            await ada.publish({"x": 2}, level)  # for nobody
            publishing = asyncio.ensure_future(ada.publish({"x": 1}, level))
            if level == "delivered":
                await until(lambda: subscription.waiting > 0)
                await asyncio.sleep(0.05)
                assert not publishing.done()  # it has arrived, and is not taken yet
            assert await take(subscription, 1) == [{"x": 1}]
            await publishing

    run(scenario())


def test_delivered_is_not_acknowledged_if_a_client_left() -> None:
    async def scenario() -> None:
        async with chain(2) as (a, b), at(a) as ada:
            async with at(b) as ben:
                await ben.subscribe("x = 1")
                publishing = asyncio.ensure_future(ada.publish({"x": 1}, "delivered"))
                await until(lambda: b.core.counts.delivered == 1)
            with pytest.raises(NetworkError):
                await publishing

    run(scenario())


def test_replace_neither_loses_nor_repeats_what_matches_both() -> None:
    async def scenario() -> None:
        async with chain(2) as (a, b), at(a) as ada, at(b) as ben:
            subscription = await ben.subscribe("x >= 0 and x < 1000")
            going = asyncio.ensure_future(ada.publish_all({"x": 500, "n": n} for n in range(3_000)))
            for low in range(1, 20):
                await subscription.replace(f"x > {low} and x < {600 + low}")
            await going
            assert [event["n"] for event in await take(subscription, 3_000)] == list(range(3_000))
            await subscription.replace("x = 7")
            await ada.publish_all([{"x": 500}, {"x": 7}])
            assert await take(subscription, 1) == [{"x": 7}]
            assert b.core.edge.announcements == 1  # the old announcements are withdrawn

    run(scenario())


def test_after_unsubscribing_nothing_arrives_and_interests_shrink() -> None:
    async def scenario() -> None:
        quick = LIVE._replace(pull=300 * MILLISECOND)
        async with chain(2, timing=quick) as (a, b), at(a) as ada, at(b) as ben:
            subscription = await ben.subscribe("x > 0")
            assert "x > 0" in a.core.protocol.snapshot()["table"]["b"]
            await subscription.unsubscribe()
            await ada.publish({"x": 1}, "delivered")
            with pytest.raises(StopAsyncIteration):
                await subscription.__anext__()
            assert b.core.counts.delivered == 0
            await until(lambda: "x > 0" not in a.core.protocol.snapshot()["table"]["b"])

    run(scenario())


def test_unread_events_of_an_ended_subscription_hold_up_nothing() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as ada, at(a, window=16) as ben:
            unread, read = await ben.subscribe("x = 1"), await ben.subscribe("x = 2")
            await ada.publish_all({"x": 1 + n % 2} for n in range(100))
            await until(lambda: unread.waiting == 8)
            await unread.unsubscribe()
            assert len(await take(read, 50)) == 50
            assert len([event async for event in unread]) >= 8

    run(scenario())


def test_a_session_goes_on_after_its_connection_broke() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as ada, at(a) as ben:
            subscription = await ben.subscribe("n >= 0")
            publishing = asyncio.ensure_future(ada.publish_all({"n": n} for n in range(20_000)))
            taking = asyncio.ensure_future(take(subscription, 20_000))
            for _ in range(5):
                await asyncio.sleep(0.05)
                for net in (ada, ben):
                    cut(net)
            await publishing
            assert [event["n"] for event in await taking] == list(range(20_000))
            assert a.core.counts.sessions == 2
            await until(lambda: a.core.counts.sessions_resumed >= 2)
            assert subscription.interruptions == 0

    run(scenario())


def test_a_link_goes_on_after_its_connection_broke() -> None:
    async def scenario() -> None:
        async with chain(2) as (a, b), at(a) as ada, at(b) as ben:
            subscription = await ben.subscribe("n >= 0")
            publishing = asyncio.ensure_future(ada.publish_all({"n": n} for n in range(10_000)))
            taking = asyncio.ensure_future(take(subscription, 10_000))
            for _ in range(5):
                await asyncio.sleep(0.1)
                connection = a.core.links["b"].stream
                if connection is not None:
                    connection.abort()
            await publishing
            assert [event["n"] for event in await taking] == list(range(10_000))
            assert a.core.counts.links_lost == b.core.counts.links_lost == 0

    run(scenario())


def test_a_client_subscribes_again_when_the_router_lost_its_memory() -> None:
    async def scenario() -> None:
        first = Router(Settings("a"))
        await first.start()
        async with at(first) as ada, at(first) as ben:
            subscription = await ben.subscribe("x > 0")
            await first.stop()
            second = Router(Settings("a", port=first.port))
            await second.start()
            await until(lambda: subscription.interruptions == 1)
            await asyncio.wait_for(subscription.established(), PATIENCE_S)
            await ada.publish({"x": 1})
            assert await take(subscription, 1) == [{"x": 1}]
            assert subscription.name == "a/1"
        await second.stop()

    run(scenario())


def test_feedback_reaches_the_publisher_and_nobody_else() -> None:
    async def scenario() -> None:
        async with chain(3) as (a, _, c), at(a) as ada, at(a) as other, at(c) as ben:
            everything = await other.subscribe("true")
            subscription = await ben.subscribe("x = 1")
            await ada.publish({"x": 0})
            await ada.publish({"x": 1})
            (event,) = await take(subscription, 1)
            await ben.feedback(event, {"seen": "by ben"})
            assert await asyncio.wait_for(ada.replies.get(), PATIENCE_S) == (2, {"seen": "by ben"})
            assert await take(everything, 2) == [{"x": 0}, {"x": 1}]
            assert not everything.waiting
            assert other.replies.empty()

    run(scenario())


def test_feedback_from_the_same_router_keeps_publication_numbers_apart() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as ada, at(a) as ben:
            subscription = await ben.subscribe("true")
            for n in (1, 2, 3):
                await ada.publish({"n": n})
                (event,) = await take(subscription, 1)
                await ben.feedback(event, event)
                assert await asyncio.wait_for(ada.replies.get(), PATIENCE_S) == (n, {"n": n})

    run(scenario())


def test_no_request_is_forgotten_when_connections_break() -> None:
    """Every request and every publication is answered exactly once, whatever breaks."""

    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as net, at(a) as other:
            everything = await other.subscribe("exists x")
            breaking = True

            async def break_often() -> None:
                while breaking:
                    await asyncio.sleep(0.01)
                    cut(net)

            async def one(n: int) -> None:
                subscription = await net.subscribe(f"y = {n}")
                outcomes = await asyncio.gather(
                    net.publish({"x": n}, "delivered"),
                    net.publish({"x": object()}, "routed"),
                    net.publish({"y": n, "tidings:x": 1}),
                    net.publish({"y": n}),
                    return_exceptions=True,
                )
                kinds = [type(outcome) for outcome in outcomes]
                assert kinds == [int, RefusedError, RefusedError, int]
                assert await take(subscription, 1) == [{"y": n}]
                await subscription.unsubscribe()

            breaker = asyncio.ensure_future(break_often())
            taking = asyncio.ensure_future(take(everything, 50))
            await asyncio.gather(*map(one, range(50)))
            breaking = False
            await breaker
            assert sorted(event["x"] for event in await taking) == list(range(50))
            assert a.core.counts.sessions == 2

    run(scenario())


def test_events_that_are_not_advertised_are_refused() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as net:
            await net.advertise("class = 'alert'")
            await net.publish({"class": "alert"})
            with pytest.raises(RefusedError, match="advertised"):
                await net.publish({"class": "metric"})

    run(scenario())


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"tidings:to": "a"}, "are reserved"),
        ({"x": object()}, "expected text"),
        ({"x": "y" * 300_000}, "larger than"),
        ({"x": [[[{"y": object()}]]]}, "expected text"),
    ],
)
def test_an_invalid_event_is_refused_and_others_go_on(event: Any, reason: str) -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as net:
            subscription = await net.subscribe("true")
            good = [net.publish({"n": 1}), net.publish(event), net.publish({"n": 2})]
            outcomes = await asyncio.gather(*good, return_exceptions=True)
            assert [isinstance(outcome, int) for outcome in outcomes] == [True, False, True]
            assert isinstance(outcomes[1], RefusedError)
            assert reason in str(outcomes[1])
            assert await take(subscription, 2) == [{"n": 1}, {"n": 2}]

    run(scenario())


def test_a_bad_predicate_is_refused_with_its_column() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as net:
            with pytest.raises(RefusedError, match="column"):
                await net.subscribe("severity >")
            subscription = await net.subscribe("severity > 2")
            with pytest.raises(RefusedError):
                await subscription.replace("((")
            await net.publish({"severity": 3})
            assert await take(subscription, 1) == [{"severity": 3}]

    run(scenario())


async def _slow_client(a: Router, policy: str) -> tuple[Client, Subscription]:
    """A client with a small window, and its subscription, which nobody reads yet."""
    ben = await at(a, policy=policy, window=16).__aenter__()
    subscription = await ben.subscribe("slow = true")
    return ben, subscription


def test_a_slow_client_with_policy_drop_learns_how_many_it_lost() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as ada, at(a) as quick:
            ben, slow = await _slow_client(a, "drop")
            ok = await quick.subscribe("slow = true")
            taking = asyncio.ensure_future(take(ok, 30_000))
            await ada.publish_all({"slow": True, "n": n} for n in range(30_000))
            assert [event["n"] for event in await taking] == list(range(30_000))
            first = await take(slow, 1)
            await until(lambda: ben.dropped > 0)
            rest = await take(slow, 30_000 - ben.dropped - 1)
            numbers = [event["n"] for event in [*first, *rest]]
            assert numbers == sorted(set(numbers))
            assert numbers[-1] == 29_999
            await ben.close()

    run(scenario())


def test_a_slow_client_with_policy_disconnect_ends_and_others_go_on() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, at(a) as ada, at(a) as quick:
            ben, slow = await _slow_client(a, "disconnect")
            ok = await quick.subscribe("slow = true")
            taking = asyncio.ensure_future(take(ok, 30_000))
            await ada.publish_all({"slow": True, "n": n} for n in range(30_000))
            assert len(await taking) == 30_000
            with pytest.raises(Exception, match="slow"):
                await take(slow, 30_000)
            await ben.close()

    run(scenario())


def test_publishers_wait_for_a_slow_client_with_policy_block() -> None:
    async def scenario() -> None:
        async with chain(2) as (a, b), at(a) as ada:
            ben, slow = await _slow_client(b, "block")
            publishing = asyncio.ensure_future(
                ada.publish_all({"slow": True, "n": n} for n in range(60_000))
            )
            session = next(
                s for s in b.core.sessions.values() if s.policy == "block" and s.window == 16
            )
            await until(lambda: session.gate.full)
            await asyncio.sleep(0.5)
            assert not publishing.done()
            assert len(session.mailbox) < 2 * 16_384 + 4_096
            assert [e["n"] for e in await take(slow, 60_000)] == list(range(60_000))
            await publishing
            assert a.core.counts.links_lost == 0
            await ben.close()

    run(scenario())


def test_very_many_subscriptions_become_few_announcements() -> None:
    async def scenario() -> None:
        async with chain(2) as (a, b), at(a) as ada, at(b) as ben:
            made = await asyncio.gather(
                *(ben.subscribe(f"topic = 't{n}' and x > 1", wait=False) for n in range(1_500))
            )
            await asyncio.gather(*(one.established() for one in made))
            assert b.core.edge.announcements <= 520
            for n in (0, 700, 1_499):
                await ada.publish({"topic": f"t{n}", "x": 1})
                await ada.publish({"topic": f"t{n}", "x": 2})
                assert await take(made[n], 1) == [{"topic": f"t{n}", "x": 2}]
            assert b.core.counts.delivered == 3

    run(scenario())


def test_the_blocking_client_has_the_same_verbs() -> None:

    def use(port: int) -> None:
        with connect(f"tidings://127.0.0.1:{port}") as net:
            net.advertise("exists x")
            subscription = net.subscribe("x > 1")
            net.publish({"x": 1})
            net.publish_all([{"x": 2}, {"x": 3}], "routed")
            assert next(subscription) == {"x": 2}
            event = subscription.get(PATIENCE_S)
            assert event == {"x": 3}
            net.feedback(event, {"ok": True})
            assert net.reply(PATIENCE_S) == (3, {"ok": True})
            subscription.replace("x = 9")
            net.publish({"x": 9})
            assert subscription.get(PATIENCE_S) == {"x": 9}
            assert subscription.get(0.05) is None
            assert net.ask("trace", {"x": 9})[0]["subscriptions"] == [subscription.name]
            subscription.unsubscribe()
            assert list(subscription) == []

    async def scenario() -> None:
        async with Router(Settings("a")) as a:
            await asyncio.to_thread(use, a.port)

    run(scenario())
