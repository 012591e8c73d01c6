"""The verbs of the survey's Table I (S28) over sockets: every protocol passes the same suite.

`tests/routing/test_api.py` does the same in the simulator.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.live.test_router import PATIENCE_S, at, run, take, until
from tidings.language.predicate import parse
from tidings.live.connect import connect
from tidings.live.errors import RefusedError
from tidings.live.limits import Limits
from tidings.live.router import Router
from tidings.live.settings import LIVE, Dial, Settings
from tidings.routing.flooding.router import FloodRouter
from tidings.routing.packets import Answer
from tidings.routing.protocol import MILLISECOND, SECOND, Action, Cause, Refused, Subscribe
from tidings.routing.protocols import PROTOCOLS, SIMULATED

LIVE_ROWS = [name for name, row in PROTOCOLS.items() if not row.needs & SIMULATED]
every_protocol = pytest.mark.parametrize("name", LIVE_ROWS)
QUICK = Limits(presumed=SECOND)


@asynccontextmanager
async def row_of(name: str, count: int = 3, **options: Any) -> AsyncIterator[list[Router]]:
    """Routers a, b, … in a row that run a protocol, at rest."""
    routers: list[Router] = []
    timing = LIVE._replace(hello=50 * MILLISECOND)
    try:
        for index in range(count):
            links = (Dial("127.0.0.1", routers[-1].port),) if routers else ()
            settings = Settings(
                chr(ord("a") + index), links=links, protocol=name, timing=timing, **options
            )
            routers.append(Router(settings, limits=QUICK))
            await routers[-1].start()

        def at_rest() -> bool:
            protocols = [router.core.protocol for router in routers]
            linked = sum(sum(p.snapshot()["links"].values()) for p in protocols)
            known = all(p.hops is None or len(p.hops) == count - 1 for p in protocols)
            return linked == 2 * (count - 1) and known and all(p.is_settled() for p in protocols)

        await until(at_rest)
        yield routers
    finally:
        for router in routers:
            await router.stop()


async def soon(queue: asyncio.Queue[Any]) -> Any:
    return await asyncio.wait_for(queue.get(), PATIENCE_S)


@every_protocol
def test_published_subscribed_and_unsubscribed_by_handle_and_by_value(name: str) -> None:
    async def scenario() -> None:
        async with row_of(name) as (a, _, c), at(a) as ada, at(c) as ben:
            one, other, third = await asyncio.gather(
                ben.subscribe("price > 5 and site = 'oslo'"),
                ben.subscribe("site = 'oslo' and price > 5"),
                ben.subscribe("true"),
            )
            await ada.publish({"price": 6, "site": "oslo"})
            for subscription in (one, other, third):
                assert await take(subscription, 1) == [{"price": 6, "site": "oslo"}]
            await ben.unsubscribe("price > 5 and site = 'oslo'")  # the oldest of two
            await ada.publish({"price": 7, "site": "oslo"})
            assert [event["price"] for event in await take(other, 1)] == [7]
            await other.unsubscribe()
            with pytest.raises(RefusedError, match=r"there is no subscription .price > 5"):
                await ben.unsubscribe(parse("price > 5 and site = 'oslo'"))
            await ada.publish({"price": 8, "site": "oslo"})
            assert [event["price"] for event in await take(third, 2)] == [7, 8]
            assert (one.waiting, other.waiting) == (0, 0)

    run(scenario())


@every_protocol
def test_an_advertisement_comes_into_force_and_anything_else_is_refused(name: str) -> None:
    async def scenario() -> None:
        async with row_of(name) as (a, _, c), at(a) as ada, at(c) as ben:
            alerts = await ben.subscribe("class = 'alert'")
            number = await ada.advertise("class = 'alert'")  # returns when it is in force
            await ada.publish({"class": "alert"})
            assert await take(alerts, 1) == [{"class": "alert"}]
            with pytest.raises(RefusedError, match="does not match what this client has adv"):
                await ada.publish({"class": "metric"})
            await ada.advertise(parse("class = 'metric'"))
            await ada.publish({"class": "metric"})
            await ada.unadvertise("class = 'metric'")
            with pytest.raises(RefusedError, match="does not match"):
                await ada.publish({"class": "metric"})
            await ada.unadvertise(number)
            await ada.publish({"class": "metric"})  # who advertises nothing may publish all
            with pytest.raises(RefusedError, match="there is no advertisement 1"):
                await ada.unadvertise(number)
            with pytest.raises(RefusedError, match="expected"):
                await ada.advertise("class >> 1")
            await ada.publish({"class": "metric"})  # a bad one counts for nothing

    run(scenario())


@every_protocol
def test_feedback_goes_to_the_publisher_once_and_takes_the_links_of_the_path(name: str) -> None:
    async def scenario() -> None:
        async with (
            row_of(name, 4) as (a, b, c, d),
            at(b) as ada,
            at(b) as other,
            at(d) as ben,
        ):
            everything = await other.subscribe("true")
            wanted = await ben.subscribe("x = 1")
            await other.publish({"x": 0})
            assert await ada.publish({"x": 1}) == 1
            (event,) = await take(wanted, 1)
            await take(everything, 2)
            sent: list[str] = []
            for router in (a, b, c, d):
                send, node = router.core._send, router.node

                def count(to: str, packet: Any, send: Any = send, node: str = node) -> None:
                    if isinstance(packet, Answer):
                        sent.append(f"{node}{to}")
                    send(to, packet)

                router.core.__dict__["_send"] = count
            await ben.feedback(event, {"seen": "by ben"})
            assert await soon(ada.replies) == (1, {"seen": "by ben"})
            await ben.feedback(event, {"seen": "again"})
            assert await soon(ada.replies) == (1, {"seen": "again"})
            assert sent == ["dc", "cb"] * 2
            assert (other.replies.empty(), ada.replies.empty()) == (True, True)
            assert ben.unanswered.empty()

    run(scenario())


@every_protocol
def test_who_replies_to_a_publisher_that_has_gone_is_told(name: str) -> None:
    async def scenario() -> None:
        async with row_of(name) as (a, b, c), at(c) as ben:
            wanted = await ben.subscribe("exists x")
            async with at(a) as ada:
                await ada.publish({"x": 1})
                (event,) = await take(wanted, 1)
            await until(lambda: not a.core.sessions)
            number = await ben.feedback(event, {"to": "ada"})
            assert await soon(ben.unanswered) == (number, "the publisher has gone")
            await a.stop()  # and now its router
            await until(lambda: not b.core.links["a"].up if "a" in b.core.links else True)
            await until(lambda: c.core.protocol.hops is None or "a" not in c.core.protocol.hops)
            number = await ben.feedback(event, {"to": "ada"})
            told = await soon(ben.unanswered)
            assert told == (number, "there is no path to the publisher")

    run(scenario())


@every_protocol
def test_who_replies_to_a_router_that_was_reborn_is_told(name: str) -> None:
    async def scenario() -> None:
        async with row_of(name, 2) as (a, b), at(b) as ben:
            wanted = await ben.subscribe("exists x")
            async with at(a) as ada:
                await ada.publish({"x": 1})
                (event,) = await take(wanted, 1)
            await a.stop()
            again = Router(
                Settings("a", port=a.port, protocol=name, timing=a.settings.timing), limits=QUICK
            )
            await again.start()
            try:
                links = again.core.protocol.snapshot
                await until(lambda: links()["links"] == {"b": True})
                hops = b.core.protocol
                await until(lambda: hops.hops is None or "a" in hops.hops)
                async with at(again) as ada:
                    number = await ben.feedback(event, {"to": "ada"})
                    told, reason = await soon(ben.unanswered)
                    reasons = ("lost its memory", "no path")  # without routes, its trail is lost
                    known = hops.hops is not None
                    assert (told, reasons[0 if known else 1] in reason) == (number, True)
                    assert ada.replies.empty()
            finally:
                await again.stop()

    run(scenario())


def test_blocking_programs_have_the_same_verbs() -> None:
    """A thread for the router, the test's own for the program."""

    async def scenario() -> None:
        async with Router(Settings("a")) as a:
            await asyncio.to_thread(program, f"tidings://127.0.0.1:{a.port}")

    def program(url: str) -> None:
        with connect(url) as ada, connect(url) as ben:
            wanted = ben.subscribe("x > 0")
            number = ada.advertise("exists x")
            ada.publish({"x": 1})
            event = next(iter(wanted))
            ben.feedback(event, {"ok": True})
            assert ada.reply(PATIENCE_S) == (1, {"ok": True})
            assert ben.unanswered(0.05) is None
            ada.unadvertise(number)
            ben.unsubscribe("x > 0")
            with pytest.raises(RefusedError):
                ben.unsubscribe("x > 0")

    run(scenario())


def test_a_verb_that_a_protocol_lacks_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    mute = PROTOCOLS["flood"]._replace(lacks=frozenset({"advertise", "feedback"}))
    monkeypatch.setitem(PROTOCOLS, "mute", mute)

    async def scenario() -> None:
        async with row_of("mute", 1) as (a,), at(a) as net:
            some = await net.subscribe("true")
            await net.publish({"x": 1})
            (event,) = await take(some, 1)
            with pytest.raises(RefusedError, match="the protocol mute does not have advertise"):
                await net.advertise("exists x")
            with pytest.raises(RefusedError, match="the protocol mute does not have feedback"):
                await net.feedback(event, {"ok": True})
            await net.publish({"y": 1})
            assert await take(some, 1) == [{"y": 1}]

    run(scenario())


class Choosy(FloodRouter):
    """A protocol that cannot serve every predicate."""

    def handle(self, cause: Cause, now: int) -> list[Action]:
        if isinstance(cause, Subscribe) and "prefix" in cause.predicate:
            return [Refused((cause.id,), "this network has no place for prefixes")]
        return super().handle(cause, now)


def test_a_subscription_that_the_protocol_refuses_ends_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PROTOCOLS, "choosy", PROTOCOLS["flood"]._replace(make=Choosy))

    async def scenario() -> None:
        async with row_of("choosy", 1) as (a,), at(a) as net:
            good = await net.subscribe("x = 1")
            with pytest.raises(RefusedError, match="no place for prefixes"):
                await net.subscribe("x prefix 'a'", timeout_s=PATIENCE_S)
            await net.publish({"x": 1})
            assert await take(good, 1) == [{"x": 1}]
            assert len(a.core.edge) == 1

    run(scenario())
