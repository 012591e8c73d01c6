"""Five routers on real sockets: who receives which events across a country, and what pruning saves.

Run it alone, or as the end of `make demo`. Links connect five towns in a ring with a short cut.
Five people subscribe in the towns where they live; two of the towns publish a thousand events. Each
person receives exactly the events that match, and a link carries only events that somebody behind
it wants. Then the same runs once more with every event sent everywhere.
"""

import asyncio
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import tidings
from tidings.live.client import Client
from tidings.live.router import Router
from tidings.live.settings import Dial, Settings
from tidings.live.subscription import Subscription

LINKS = {
    "oslo": (),
    "bergen": ("oslo",),
    "trondheim": ("oslo", "bergen"),
    "bodo": ("trondheim",),
    "tromso": ("bodo", "bergen"),
}
PEOPLE = {
    "ada": ("bergen", "kind = 'alert' and severity > 5"),
    "ben": ("bodo", "device prefix 'pump-' and temperature > 75"),
    "cleo": ("tromso", "town = 'oslo' and kind in ('alert', 'notice')"),
    "dan": ("tromso", "town = 'oslo' and severity = 7"),
    "eve": ("oslo", "town = 'tromso' and device = 'lift-2'"),
}
EVENTS = 1_000


def main() -> None:
    """Tell the story."""
    print("\n== Five routers on real sockets, and who is where")
    for town, others in LINKS.items():
        here = [f"{who}: {text}" for who, (home, text) in PEOPLE.items() if home == town]
        to = ", ".join(others) or "nobody: the others connect to it"
        print(f"   {town:9} links to {to}")
        for line in here:
            print(f"             {line}")
    got, crossed, trace = asyncio.run(story("cbcb"))
    _, flooded, _ = asyncio.run(story("flood"))

    print(f"\n== {EVENTS:,} events from Oslo and Tromsø, and what each received")
    for who, events in got.items():
        first = events[0]
        note = f"{first['kind']} of {first['device']} in {first['town']}"
        print(f"   {who:5} {len(events):3} events, the first: {note}")

    print("\n== Which links would an alert from Oslo take?")
    for line in trace:
        print(f"   {line}")

    print("\n== What pruning saved")
    print(f"   {crossed:6,} times an event crossed a link")
    print(f"   {flooded:6,} times if every event goes everywhere")
    print(f"   {1 - crossed / flooded:6.0%} less")


async def story(protocol: str) -> tuple[dict[str, list[dict[str, Any]]], int, list[str]]:
    """The events that each person got, how often events crossed links, and an alert's trace."""
    async with AsyncExitStack() as stack:
        routers: dict[str, Router] = {}
        for town, others in LINKS.items():
            dials = tuple(Dial("127.0.0.1", routers[other].port) for other in others)
            router = Router(Settings(town, links=dials, protocol=protocol))
            routers[town] = await stack.enter_async_context(router)
        await settled(routers, protocol)

        async def client(town: str) -> Client:
            connector = tidings.connect(f"tidings://127.0.0.1:{routers[town].port}")
            return await stack.enter_async_context(connector)

        people: dict[str, Subscription] = {}
        for who, (town, text) in PEOPLE.items():
            people[who] = await (await client(town)).subscribe(text)
        events = day()
        expected = {
            who: sum(tidings.parse(text).matches(event) for event in events)
            for who, (_, text) in PEOPLE.items()
        }
        before = crossings(routers)
        sources = {town: await client(town) for town in ("oslo", "tromso")}
        for event in events:
            await sources[event["town"]].publish(event)
        got = {
            who: [dict(await anext(subscription)) for _ in range(expected[who])]
            for who, subscription in people.items()
        }
        while any(
            link.status()["unacknowledged"]
            for r in routers.values()
            for link in r.core.links.values()
        ):
            await asyncio.sleep(0.01)
        crossed = crossings(routers) - before
        alert = {"town": "oslo", "kind": "alert", "severity": 7, "device": "door-1"}
        findings = await sources["oslo"].ask("trace", alert)
        return got, crossed, [row for found in ordered(findings) for row in lines(found)]


async def settled(routers: dict[str, Router], protocol: str) -> None:
    """Wait until every router knows the whole network."""
    while True:
        states = [router.status() for router in routers.values()]
        linked = sum(link["up"] for state in states for link in state["links"].values())
        known = all(len(state["reaches"]) == len(routers) - 1 for state in states)
        whole = linked == 2 * sum(map(len, LINKS.values())) and (known or protocol == "flood")
        if whole and all(state["settled"] for state in states):
            return
        await asyncio.sleep(0.05)


def crossings(routers: dict[str, Router]) -> int:
    """How often an event has crossed a link."""
    return sum(
        link.events_out for router in routers.values() for link in router.core.links.values()
    )


def day() -> list[dict[str, Any]]:
    """The events, always the same."""
    chance = Random("five towns")
    return [
        {
            "town": chance.choice(("oslo", "tromso")),
            "kind": chance.choice(("alert", "notice", *["reading"] * 6)),
            "severity": chance.randrange(8),
            "device": f"{chance.choice(('pump', 'lift', 'door'))}-{chance.randrange(9)}",
            "temperature": round(chance.uniform(20, 90), 1),
        }
        for _ in range(EVENTS)
    ]


def ordered(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings of the routers, in the order of hops."""
    return sorted(findings, key=lambda found: (found["hops"], found["node"]))


def lines(found: dict[str, Any]) -> list[str]:
    """The finding of one router, in words."""
    taken = [name for name, link in sorted(found["links"].items()) if link["taken"]]
    on = f"on to {' and '.join(taken)}" if taken else "no further"
    return [f"{found['node']}: {found['matches']} of its clients want it, {on}"]


if __name__ == "__main__":
    main()
