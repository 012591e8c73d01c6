"""One application's flood takes nothing from the others: shares of links, and turns at a router."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.live.test_cores import World, taken
from tests.live.test_router import PATIENCE_S, run, take
from tidings.live import session as session_module
from tidings.live.connect import connect
from tidings.live.flow import Outflow, Shares
from tidings.live.inbox import Inbox
from tidings.live.limits import LIMITS, Limits
from tidings.live.router import Router
from tidings.live.settings import Dial, Settings
from tidings.live.sharing import Application
from tidings.live.timers import Timers
from tidings.live.turns import SOME, Turns
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import publication_of
from tidings.routing.protocol import MILLISECOND, SECOND
from tidings.sim.cluster import PORT

SMALL = replace(LIMITS, lane=2, lane_most=200, link=90, queued=50)
SHARED = {
    "flood": Application(Layering(delivery="tree")),
    "calm": Application(Layering(delivery="tree")),
}


def settings_of(name: str, *links: str) -> Settings:
    dials = tuple(Dial(one, PORT) for one in links)
    return Settings(name, protocol="everywhere-list", links=dials, applications=SHARED)


def events_of(world: World, name: str, count: int) -> None:
    """Let a client publish events, numbered from 0."""
    core = world.cluster.clients[name].core

    def publish() -> None:
        for number in range(count):
            core.publish({"n": number}, "received", lambda count, error: None)

    world.do(name, publish)


def drained(world: World, name: str, inbox: Inbox) -> list[int]:
    """The numbers of the events that have come to a client."""
    found: list[int] = []
    world.do(name, lambda: found.extend(one["n"] for one in taken(inbox)))
    return found


class Shared(World):
    """Three routers in a row, and clients of two applications."""

    def __init__(self) -> None:
        super().__init__()
        for name, links in (("a", ()), ("b", ("a",)), ("c", ("b",))):
            self.start(settings_of(name, *links))
        self.go(4 * SECOND)

    def start(self, settings: Settings) -> None:
        self.cluster.start_router(settings.node, settings, SMALL)

    def waits(self, name: str) -> int:
        return sum(
            machine.core.applications[name].use.held for machine in self.cluster.routers.values()
        )


def flooded() -> tuple[Shared, list[int], list[int]]:
    """A subscriber of one application takes nothing, its publishers do not stop; and the other
    application publishes a burst. What the subscriber of that one gets, then the slow one's."""
    world = Shared()
    world.client("slow", "c", application="flood", window=4)
    slow = world.subscribe("slow", "n >= 0")
    for number in range(6):
        world.client(f"p{number}", "a", application="flood")
    world.client("reader", "c", application="calm")
    inbox = world.subscribe("reader", "n >= 0")
    world.client("writer", "a", application="calm")
    for number in range(6):
        events_of(world, f"p{number}", 100)
    world.go(2 * SECOND)  # less than `block`, after which the slow one would be given up
    got: list[int] = []
    for _ in range(4):
        events_of(world, "writer", 20)
        world.go(200 * MILLISECOND)
        got += drained(world, "reader", inbox)
    late: list[int] = []
    for _ in range(400):
        late += drained(world, "slow", slow)
        world.go(20 * MILLISECOND)
    return world, got, late


def test_a_flood_holds_up_its_own_publishers_and_no_others() -> None:
    world, got, late = flooded()
    assert got == 4 * list(range(20))
    assert world.waits("flood") > 0
    assert world.waits("calm") == 0
    assert len(late) == 600  # and nothing of the flood is lost
    assert sorted(late) == sorted(6 * list(range(100)))


def test_without_shares_the_flood_would_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """All applications as one: what shares are for."""
    monkeypatch.setattr(Shares, "of", lambda self, application, whole: whole)
    sent = Outflow.sent

    def as_one(self: Outflow, lane: Any, number: int, size: int, application: str = "") -> None:
        sent(self, lane, number, size, "all")

    monkeypatch.setattr(Outflow, "sent", as_one)
    world, _, _ = flooded()
    assert world.waits("calm") > 0


def test_shares_follow_weights() -> None:
    limits = Limits(lane=1, lane_most=1_000, link=100)
    flow = Outflow(limits, Shares({"big": 3, "small": 1}))

    def room(application: str) -> int:
        number = 0
        while flow.gate((application, 0)) is None:
            number += 1
            flow.sent((application, 0), number, 1, application)
        return number

    assert [room(name) for name in ("big", "small", "unknown", "")] == [60, 20, 20, 20]


# No circle


TINY = replace(LIMITS, lane=1, lane_most=2, link=2)
WALKING = {
    "walks": Application(Layering(matching="regions", replicas=1, regions=4, hops=4)),
}


def everyone_publishes() -> tuple[int, int]:
    """Routers in a ring, each with a publisher whose events walk past all: got, and expected."""
    world = World()
    names = ("a", "b", "c", "d")
    for number, name in enumerate(names):
        links = (names[number - 1], *(("a",) if name == "d" else ())) if number else ()
        dials = tuple(Dial(one, PORT) for one in links)
        settings = Settings(name, protocol="everywhere-list", links=dials, applications=WALKING)
        world.cluster.start_router(name, settings, TINY)
    world.go(4 * SECOND)
    inboxes = {}
    for name in names:
        world.client(f"r{name}", name, application="walks")
        inboxes[name] = world.subscribe(f"r{name}", "n >= 0")
        world.client(f"p{name}", name, application="walks")
    for name in names:
        events_of(world, f"p{name}", 60)
    got = 0
    for _ in range(60):
        world.go(200 * MILLISECOND)
        got += sum(len(drained(world, f"r{name}", inboxes[name])) for name in names)
    return got, 4 * 4 * 60


def test_walks_and_deliveries_never_wait_for_each_other_in_a_circle() -> None:
    got, expected = everyone_publishes()
    assert got == expected


def test_with_one_lane_for_all_legs_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lanes of events that do not walk: all legs of a source's events in one."""

    def by_source(packet: Any) -> Any:
        event = publication_of(packet)
        return None if event is None else (event.source, 0)

    for module in ("link", "router_core"):
        monkeypatch.setattr(f"tidings.live.{module}.lane_of", by_source)
    got, expected = everyone_publishes()
    assert got < expected


# Turns


class Publisher:
    """Someone who publishes, and a log of who was routed."""

    def __init__(self, name: str, count: int, log: list[str]) -> None:
        self.name = name
        self.left = count
        self.log = log

    def route(self, most: int) -> int:
        some = min(most, self.left)
        self.left -= some
        self.log += [self.name] * some
        return some

    @property
    def is_waiting(self) -> bool:
        return self.left > 0


def turned(weights: Mapping[str, int], **publishers: tuple[str, int]) -> list[str]:
    timers, log = Timers(), list[str]()
    turns = Turns(timers, lambda: weights)
    for name, (application, count) in publishers.items():
        turns.add(application, Publisher(name, count, log))
    for now in range(1, 1_000):
        timers.advance(now)
    assert len(log) == sum(count for _, count in publishers.values())
    return log


def test_an_application_with_one_publisher_waits_for_one_round() -> None:
    crowd = {f"a{number}": ("a", 1_000) for number in range(20)}
    log = turned({}, **crowd, b=("b", 3))
    assert log.index("b") == SOME
    assert log[SOME : SOME + 3] == ["b"] * 3


def test_turns_follow_weights_and_clients_of_an_application_take_turns() -> None:
    log = turned({"a": 2}, one=("a", 640), two=("a", 640), three=("b", 640))
    first = log[: 6 * SOME]
    assert first.count("three") == 2 * SOME
    assert first.count("one") == first.count("two") == 2 * SOME


def test_live_a_flood_of_many_clients_lets_others_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """On sockets: how many events of the flood a router routes between two of the other."""
    order: list[str] = []
    publish_one = session_module.Session._publish_one

    def noted(self: Any, number: int, event: dict[str, Any], batch: Any) -> None:
        order.append(self.hosted.name)
        publish_one(self, number, event, batch)

    monkeypatch.setattr(session_module.Session, "_publish_one", noted)

    async def scenario() -> None:
        async with Router(settings_of("a")) as router:
            url = f"tidings://127.0.0.1:{router.port}"
            async with (
                connect(url, application="calm") as calm,
                connect(url, application="flood") as one,
                connect(url, application="flood") as two,
                connect(url, application="flood") as three,
            ):
                subscription = await calm.subscribe("n >= 0")
                flood = [{"n": number} for number in range(4_000)]
                flooding = [asyncio.ensure_future(net.publish_all(flood)) for net in (one, two)]
                flooding.append(asyncio.ensure_future(three.publish_all(flood)))
                while "flood" not in order:
                    await asyncio.sleep(0)
                await calm.publish_all({"n": number} for number in range(1_000))
                got = await take(subscription, 1_000)
                await asyncio.wait_for(asyncio.gather(*flooding), PATIENCE_S)
                assert [event["n"] for event in got] == list(range(1_000))

    run(scenario())
    both = order[order.index("calm") : len(order) - order[::-1].index("calm")]
    assert both.count("calm") == 1_000
    assert order.count("flood") == 12_000
    # Once its events are there, they are routed one for one; three clients are no more than one.
    assert both.count("flood") <= 3 * SOME + 1_000 + 8 * SOME
