"""Seven routers as processes, in cycles, while links are cut and routers killed.

The tests compare every delivery with an oracle that knows nothing of the language: subscriptions
and events are drawn as numbers, and whether they match is arithmetic. While the network is stable,
nothing is lost, nothing arrives twice and nothing unexpected; while it is not, nothing arrives
twice, nothing unexpected, and each publisher's order is kept.

A storm lasts seconds and has every kind of fault at least once; with TIDINGS_SOAK=1 it lasts
minutes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.effort import SOAK
from tests.live.networks import PATIENCE_S, RouterNetwork, environment_note
from tidings.live.client import Client
from tidings.live.edge import Growing
from tidings.live.errors import UnknownOutcomeError
from tidings.live.subscription import Subscription
from tidings.routing.protocols import ALWAYS, protocol

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 0), (0, 3), (2, 5)]
CLIENTS = 3  # on each router
DEVICES = 150
# How long to wait after a stable phase for events that must not arrive; `check_always` sees later
# ones.
QUIET_S = 0.1


class Length(NamedTuple):
    """How long a storm is."""

    subscriptions: int
    events: int  # of each stable phase
    rounds: int  # of faults


LENGTH = Length(2_000, 5_000, 25) if SOAK else Length(500, 1_500, 1)
SHORT = Length(400, 1_000, 3) if SOAK else Length(60, 200, 1)
# The rows that learn by the reverse path, with one tree and on cycles, or stand on structured
# overlays; `cbcb` is the usual one.
ROWS = (
    "subscriptions",
    "covering",
    "covering:policy=adaptive,trial=64",
    "advertisements",
    "merging:most_filters=4",
    "rooted",
    "rooted:direction=down",
    "path-cost",
    "path-entries",
    "cbcb:covering=bridges",
    "cbcb:covering=paths",
    "chord-trees",
    "hermes:type=device,trees=16",
    "hermes:type=device,trees=16,substrate=pastry,leaves=2",
    "scribe:type=device,groups=16",
)

pytestmark = pytest.mark.storm


class Want(NamedTuple):
    """The predicate of a subscription, as numbers."""

    device: int
    above: int

    def text(self) -> str:
        return f"device = 'd{self.device}' and severity > {self.above}"

    def wants(self, device: int, severity: int) -> bool:
        return device == self.device and severity > self.above


class Listener:
    """A subscription, and all events that it received."""

    def __init__(self, client: int, want: Want, subscription: Subscription) -> None:
        self.client = client
        self.want = want
        self.subscription = subscription
        self.got: list[tuple[int, int]] = []  # publisher and its number
        self.task = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        async for event in self.subscription:
            assert self.want.wants(int(event["device"][1:]), event["severity"])
            self.got.append((event["publisher"], event["n"]))


class Storm:
    """A network, its clients, and the ledger."""

    def __init__(
        self, network: RouterNetwork, chance: Random, length: Length = LENGTH, ordered: bool = True
    ) -> None:
        self.network = network
        self.chance = chance
        self.length = length
        self.ordered = ordered  # whether events stay in order while the network changes
        self.clients: list[tuple[str, Client]] = []
        self.listeners: list[Listener] = []
        self.published: dict[tuple[int, int], tuple[int, int]] = {}  # by name: device, severity
        self.numbers: list[int] = []

    async def begin(self, stack: AsyncExitStack) -> None:
        for name in self.network.names:
            for _ in range(CLIENTS):
                connector = self.network.connect(name, window=4_096)
                self.clients.append((name, await stack.enter_async_context(connector)))
        self.numbers = [0] * len(self.clients)
        wants = [
            (
                row % len(self.clients),
                Want(self.chance.randrange(DEVICES), self.chance.randrange(8)),
            )
            for row in range(self.length.subscriptions)
        ]
        made = await asyncio.gather(
            *(self.clients[c][1].subscribe(want.text(), wait=False) for c, want in wants)
        )
        for (client, want), subscription in zip(wants, made, strict=True):
            self.listeners.append(Listener(client, want, subscription))
        await self.established()
        await self.network.settled(self.clients[0][1])

    async def established(self) -> None:
        alive = [one for one in self.listeners if self.is_alive(one.client)]
        waiting = (one.subscription.established() for one in alive)
        await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)

    def is_alive(self, client: int) -> bool:
        return self.clients[client][0] in self.network.processes

    async def publish(self, count: int) -> list[tuple[int, int]]:
        """Publish events at the clients of running routers, and return their names."""
        alive = [c for c in range(len(self.clients)) if self.is_alive(c)]
        names: dict[int, list[tuple[int, int]]] = {c: [] for c in alive}
        for _ in range(count):
            publisher = self.chance.choice(alive)
            self.numbers[publisher] += 1
            name = publisher, self.numbers[publisher]
            self.published[name] = self.chance.randrange(DEVICES), self.chance.randrange(10)
            names[publisher].append(name)
        await asyncio.gather(*(self._publish(c, mine) for c, mine in names.items()))
        return [name for mine in names.values() for name in mine]

    async def _publish(self, publisher: int, names: list[tuple[int, int]]) -> None:
        net = self.clients[publisher][1]
        await net.publish_all(self._event(name) for name in names)

    def _event(self, name: tuple[int, int]) -> dict[str, Any]:
        device, severity = self.published[name]
        return {"device": f"d{device}", "severity": severity, "publisher": name[0], "n": name[1]}

    async def stable_phase(self) -> int:
        """Publish in a network at rest: everything must arrive, once, and nothing else."""
        alive = [one for one in self.listeners if self.is_alive(one.client)]
        before = [len(one.got) for one in alive]
        names = await self.publish(self.length.events)
        by_device: dict[int, list[tuple[int, int]]] = {}
        for name in names:
            by_device.setdefault(self.published[name][0], []).append(name)
        expected = [
            {n for n in by_device.get(one.want.device, ()) if one.want.wants(*self.published[n])}
            for one in alive
        ]
        due = sum(map(len, expected))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while loop.time() < deadline:
            came = sum(len(one.got) - start for one, start in zip(alive, before, strict=True))
            if came >= due:
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(QUIET_S)
        lost = Counter(
            (self.clients[name[0]][0], self.clients[one.client][0])
            for one, start, wanted in zip(alive, before, expected, strict=True)
            for name in wanted - set(one.got[start:])
        )
        assert not lost, f"lost, from and to: {dict(lost)}; {await self.network.story(self.any())}"
        for one, start, wanted in zip(alive, before, expected, strict=True):
            got = one.got[start:]
            note = f"{one.want} at {self.clients[one.client][0]}; {environment_note()}"
            assert set(got) <= wanted, f"unexpected: {set(got) - wanted}: {note}"
            assert len(got) == len(wanted), f"twice: {note}"
            assert self.in_order(got), f"out of order: {note}"
        return due

    def check_always(self) -> None:
        """Check what holds even in a storm."""
        for one in self.listeners:
            assert not one.task.done() or one.task.exception() is None
            assert len(set(one.got)) == len(one.got), f"twice: {one.want}"
            assert not self.ordered or self.in_order(one.got), f"out of order: {one.want}"
            for name in one.got:
                assert one.want.wants(*self.published[name]), f"unexpected: {name}"

    def in_order(self, got: list[tuple[int, int]]) -> bool:
        newest: dict[int, int] = {}
        for publisher, number in got:
            if number <= newest.get(publisher, 0):
                return False
            newest[publisher] = number
        return True

    async def change(self) -> None:
        """After a change, wait for the network to be stable again."""
        for name, net in self.clients:  # those of a restarted router connect and subscribe again
            while name in self.network.processes and not is_connected(net):
                await asyncio.sleep(0.05)
        await self.network.settled(self.any())
        await self.established()

    def any(self) -> Client:
        """A client of a running router."""
        return next(net for name, net in self.clients if name in self.network.processes)


def is_connected(net: Client) -> bool:
    """Whether a client has a connection, and the greeting is over."""
    return net._core.is_open


@pytest.fixture
def storm_seed(seed: int) -> Random:
    Growing.prepare()  # once here, so that seven routers need not compile the same at once
    return Random(f"storm {seed}")


def test_nothing_is_lost_in_stable_phases_between_faults(storm_seed: Random) -> None:
    async def scenario() -> None:
        network = RouterNetwork(7, RING)
        async with network, AsyncExitStack() as stack:
            storm = Storm(network, storm_seed)
            await storm.begin(stack)
            assert await storm.stable_phase()
            for _ in range(LENGTH.rounds):
                first, second, victim = survivable_faults(network, storm_seed)
                network.links[first].set_cut(True)
                network.links[second].set_cut(True)
                await storm.change()
                await storm.stable_phase()
                network.links[first].set_cut(False)
                await network.kill(victim)
                await storm.change()
                await storm.stable_phase()
                await network.start(victim)
                network.links[second].set_cut(False)
                await storm.change()
                await storm.stable_phase()
            storm.check_always()

    asyncio.run(scenario())


async def short_storm(name: str, chance: Random) -> None:
    """A link is cut, then a router is killed and comes back, under any protocol."""
    row = protocol(name).row
    network = RouterNetwork(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], protocol=name)
    async with network, AsyncExitStack() as stack:
        storm = Storm(network, chance, SHORT, row.ordered == ALWAYS)
        await storm.begin(stack)
        assert await storm.stable_phase()
        for _ in range(SHORT.rounds):
            first, _, victim = survivable_faults(network, chance)
            network.links[first].set_cut(True)
            await storm.change()
            await storm.stable_phase()
            network.links[first].set_cut(False)
            await network.kill(victim)
            await storm.publish(SHORT.events)
            await network.start(victim)
            await storm.change()
            await storm.stable_phase()
        storm.check_always()


def test_other_protocols_lose_nothing_in_stable_phases_either(
    seed: int, storm_seed: Random
) -> None:
    """One of them, drawn; `make soak` tries all."""
    asyncio.run(short_storm(Random(f"row {seed}").choice(ROWS), storm_seed))


@pytest.mark.soak
@pytest.mark.parametrize("name", ROWS)
def test_every_protocol_loses_nothing_in_stable_phases(name: str, storm_seed: Random) -> None:
    asyncio.run(short_storm(name, storm_seed))


def survivable_faults(
    network: RouterNetwork, chance: Random
) -> tuple[tuple[str, str], tuple[str, str], str]:
    """Two links and a router, chosen so that the faults of a round do not split the network."""
    while True:
        first, second = chance.sample(sorted(network.links), 2)
        victim = chance.choice(network.names)
        whole = network.is_connected({first, second}, set())
        if whole and network.is_connected({second}, {victim}):
            return first, second, victim


def test_under_load_nothing_comes_twice_and_all_heals(storm_seed: Random) -> None:
    async def scenario() -> None:
        network = RouterNetwork(7, RING)
        async with network, AsyncExitStack() as stack:
            storm = Storm(network, storm_seed)
            await storm.begin(stack)
            going = True

            async def load() -> None:
                while going:
                    with suppress(UnknownOutcomeError):
                        await storm.publish(200)
                    await asyncio.sleep(0.02)

            loading = asyncio.ensure_future(load())
            links = list(network.links.values())
            for _ in range(LENGTH.rounds):
                # Cuts within and beyond the grace period of a link, which is a second.
                for shortest, longest in ((0.3, 0.8), (1.2, 1.5)):
                    broken = storm_seed.sample(links, 2)
                    broken[0].break_now()  # a connection that comes back at once
                    broken[1].set_cut(True)
                    await asyncio.sleep(storm_seed.uniform(shortest, longest))
                    broken[1].set_cut(False)
                    victim = storm_seed.choice(sorted(network.processes))
                    await network.kill(victim)
                    await asyncio.sleep(storm_seed.uniform(0.2, 1.0))
                    await network.start(victim)
            going = False
            await asyncio.wait_for(loading, PATIENCE_S)
            await storm.change()
            storm.check_always()
            await storm.stable_phase()
            storm.check_always()

    asyncio.run(scenario())
