"""A live run and the pure protocol agree, and only events that match behind a link cross it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.live.test_router import at, run, take, until
from tidings.live.recorder import read_recording, replay
from tidings.live.router import Router
from tidings.live.settings import Dial, Settings
from tidings.routing.protocol import Deliver, Publish, Send


def test_a_recorded_run_replayed_through_the_pure_protocol_acts_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Router(Settings("a", record=tmp_path / "a")) as a:
            link = (Dial("127.0.0.1", a.port),)
            async with Router(Settings("b", links=link, record=tmp_path / "b")) as b:
                async with Router(
                    Settings("c", links=(*link, Dial("127.0.0.1", b.port)), record=tmp_path / "c")
                ) as c:
                    await until(lambda: len(a.status()["reaches"]) == 2)
                    async with at(a) as ada, at(b) as ben, at(c) as cleo:
                        one = await ben.subscribe("n < 500")
                        two = await cleo.subscribe("n >= 250")
                        many = await asyncio.gather(
                            *(cleo.subscribe(f"m = {n} and n > {n}", wait=False) for n in range(60))
                        )
                        await asyncio.gather(*(s.established() for s in many))
                        await ada.publish_all({"n": n, "m": n % 60} for n in range(1_000))
                        assert len(await take(one, 500)) == 500
                        assert len(await take(two, 750)) == 750
                        connection = a.core.links["b"].stream
                        assert connection is not None
                        connection.abort()
                        await ada.publish_all({"other": n} for n in range(10))  # nobody wants them
                        await one.replace("n < 3")
                        await ada.publish_all({"n": n} for n in range(10))
                        assert len(await take(one, 3)) == 3
                await until(lambda: "c" not in a.status()["reaches"])

    run(scenario())
    for name in "abc":
        count, differences = replay(tmp_path / name)
        assert count > 100
        assert not differences, differences[0]
    recorded = list(read_recording(tmp_path / "a")[1])
    assert Send in {type(action) for entry in recorded for action in entry.actions}
    published = [entry.cause.event for entry in recorded if isinstance(entry.cause, Publish)]
    assert {"other": 9} in published  # also what nobody wanted
    _, entries = read_recording(tmp_path / "c")
    assert any(isinstance(action, Deliver) for entry in entries for action in entry.actions)


def test_an_incomplete_recording_is_read_up_to_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Router(Settings("a", record=tmp_path / "a")) as a, at(a) as net:
            await net.subscribe("x >= 0")
            await net.publish_all({"x": n} for n in range(50))

    run(scenario())
    data = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(data[: len(data) * 2 // 3])
    count, differences = replay(tmp_path / "a")
    assert 10 < count < 55
    assert not differences


@asynccontextmanager
async def pair(protocol: str) -> AsyncIterator[tuple[Router, Router]]:
    """Two routers, linked and settled."""
    async with Router(Settings("a", protocol=protocol)) as a:
        link = (Dial("127.0.0.1", a.port),)
        async with Router(Settings("b", protocol=protocol, links=link)) as b:
            await until(
                lambda: "b" in a.core.links and a.core.links["b"].up and b.core.links["a"].up
            )
            if protocol == "cbcb":
                await until(lambda: bool(a.status()["reaches"] and b.status()["reaches"]))
            yield a, b


async def crossing(protocol: str, events: int, useful: int) -> int:
    """The bytes from a to b when `useful` of the events match behind b."""
    async with pair(protocol) as (a, b), at(a) as ada, at(b) as ben:
        subscription = await ben.subscribe("region = 'eu'")
        before = a.core.links["b"].bytes_out
        step = events // useful
        await ada.publish_all(
            {"kind": "order", "region": "us" if n % step else "eu", "text": "x" * 150}
            for n in range(events)
        )
        assert len(await take(subscription, useful)) == useful
        await until(lambda: a.core.links["b"].status()["unacknowledged"] == 0)
        return a.core.links["b"].bytes_out - before


def test_only_events_that_match_behind_a_link_cross_it() -> None:
    async def scenario() -> None:
        pruned = await crossing("cbcb", 10_000, 100)
        flooded = await crossing("flood", 10_000, 100)
        assert flooded > 10_000 * 150
        assert pruned < flooded / 50

    run(scenario())
