"""Rings and meshes of routers on sockets, with traffic that crosses and fills every queue."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.live.test_router import at, run, take, until
from tidings.live.client import Client
from tidings.live.limits import Limits
from tidings.live.router import Router
from tidings.live.settings import Dial, Settings

SMALL = Limits(lane=2, lane_most=8, link=16, queued=16, credit=16)
EVENTS = 150  # of each publisher


def ring(size: int) -> list[tuple[int, int]]:
    """Each router is linked with the next one."""
    return [(n, (n + 1) % size) for n in range(size)]


def mesh(size: int) -> list[tuple[int, int]]:
    """A ring, and chords between routers three apart."""
    return sorted({*ring(size), *((n, (n + 3) % size) for n in range(0, size, 2))})


@pytest.mark.parametrize(
    ("shape", "size", "protocol"),
    [
        (ring, 3, "cbcb"),
        (ring, 5, "cbcb"),
        (mesh, 6, "cbcb"),
        (mesh, 6, "flood"),
        (ring, 12, "cbcb"),
        (mesh, 12, "flood"),
        (ring, 40, "cbcb"),
        (mesh, 40, "cbcb"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_everyone_publishes_two_hops_on_and_everything_arrives_in_order(
    shape: object, size: int, protocol: str
) -> None:
    links = ring(size) if shape is ring else mesh(size)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            routers: list[Router] = []
            for index in range(size):
                dials = [
                    Dial("127.0.0.1", routers[min(pair)].port)
                    for pair in links
                    if max(pair) == index
                ]
                settings = Settings(f"r{index}", links=tuple(dials), protocol=protocol)
                routers.append(await stack.enter_async_context(Router(settings, limits=SMALL)))
            if protocol == "cbcb":
                await until(lambda: all(len(r.status()["reaches"]) == size - 1 for r in routers))
                await until(lambda: all(r.status()["settled"] for r in routers))
            else:
                wanted = {r.node: sum(n in pair for pair in links) for n, r in enumerate(routers)}
                await until(lambda: all(len(r.core.links) == wanted[r.node] for r in routers))
                await until(lambda: all(k.up for r in routers for k in r.core.links.values()))
            clients = [await stack.enter_async_context(at(r, window=4)) for r in routers]
            readers = [await net.subscribe(f"to = {n}") for n, net in enumerate(clients)]
            taking = [asyncio.ensure_future(take(one, EVENTS)) for one in readers]
            sent = [[{"to": (n + 2) % size, "n": k} for k in range(EVENTS)] for n in range(size)]
            await asyncio.gather(*map(Client.publish_all, clients, sent))
            for got in await asyncio.gather(*taking):
                assert [event["n"] for event in got] == list(range(EVENTS))

    run(scenario())


def test_a_flow_stalls_only_if_it_needs_what_is_stalled() -> None:
    async def scenario() -> None:
        size = 5
        async with AsyncExitStack() as stack:
            routers: list[Router] = []
            for index in range(size):
                dials = [routers[index - 1].port] if index else []
                dials += [routers[0].port] if index == size - 1 else []
                links = tuple(Dial("127.0.0.1", port) for port in dials)
                router = Router(Settings(f"r{index}", links=links), limits=SMALL)
                routers.append(await stack.enter_async_context(router))
            await until(lambda: all(len(r.status()["reaches"]) == size - 1 for r in routers))
            clients = [await stack.enter_async_context(at(r, window=4)) for r in routers]
            idle = await stack.enter_async_context(at(routers[2], window=4))
            unread = await idle.subscribe("for = 'idle'")
            readers = [await net.subscribe(f"to = {n}") for n, net in enumerate(clients)]
            # The flow from r1 to the idle client at r2 stalls; others pass through both.
            unwanted = [{"for": "idle"}] * EVENTS
            stalled = asyncio.ensure_future(clients[1].publish_all(unwanted))
            await until(lambda: any(s.is_held for s in routers[1].core.sessions.values()))
            for source, target in ((0, 2), (3, 1), (4, 0)):
                taking = asyncio.ensure_future(take(readers[target], EVENTS))
                sent = [{"to": target, "n": n} for n in range(EVENTS)]
                await clients[source].publish_all(sent)
                assert [event["n"] for event in await taking] == list(range(EVENTS))
            assert not stalled.done()
            assert len(await take(unread, EVENTS)) == EVENTS
            await stalled

    run(scenario())
