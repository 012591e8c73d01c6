"""Interests replicated: everywhere, or at those who advertise; in a swarm with all faults too."""

from random import Random
from typing import Any

import pytest

from tests.effort import SOAK
from tests.routing.planes.replicated import (
    REPLICATED,
    SINGLY,
    ReplicatedRouter,
    ScopedRouter,
)
from tests.routing.running import Log
from tidings.overlay.topologies import topology
from tidings.routing.packets import Entries, Kept, Parcel
from tidings.routing.planes.replica import Replica
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Action,
    Advertise,
    InForce,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from tidings.routing.protocols import PROTOCOLS
from tidings.routing.schemes import SCHEMES
from tidings.sim.network import Network
from tidings.sim.trial import ALL_FAULTS, draw_options, run_trial


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, "replicated", REPLICATED)
    monkeypatch.setitem(SCHEMES, "singly", SINGLY)


def test_a_swarm_finds_nothing_wrong_with_replicas_and_parcels(seed: int) -> None:
    for one in (*range(20 if SOAK else 3), seed):
        verdict = run_trial(draw_options(one, "small", "replicated", ALL_FAULTS))
        assert not verdict.violations, f"seed {one}: {verdict.violations}"


class Hasty(Replica):
    """Confirms what it holds before those below do."""

    def _all_said(self, *what: Any) -> bool:
        return True


class Gapped(Replica):
    """Takes a change for all there is."""

    def entries(self, neighbour: str, packet: Entries, now: int, out: list[Action]) -> None:
        held = self.held.get(packet.origin)
        if packet.before and held is not None:
            held.number = packet.before
        super().entries(neighbour, packet, now, out)


class Immortal(Replica):
    """Keeps what it holds of nodes that have gone."""

    def rerouted(self, now: int, out: list[Action]) -> None:
        held = dict(self.held)
        super().rerouted(now, out)
        self.held = {**held, **self.held}


@pytest.mark.parametrize("broken", [Hasty, Gapped, Immortal])
def test_a_planted_bug_in_the_replica_is_caught(broken: type[Replica]) -> None:
    class Broken(ReplicatedRouter):
        def _replica(self, life: int) -> Any:
            made = super()._replica(life)
            made.__class__ = broken
            return made

    for seed in range(40):
        options = draw_options(seed, "small", "replicated", ALL_FAULTS)
        if run_trial(options, Broken, first_only=True).violations:
            return
    pytest.fail("a broken replica went unnoticed")


def scoped(text: str) -> tuple[Network, Log]:
    graph, log, topologies = topology(text, 1), Log(), Topologies()
    network = Network(
        lambda name, life: ScopedRouter(name, life, topologies=topologies),
        log,
        Random(1),
        REPLICATED.needs,
    )
    for name in graph.names:
        network.add_node(name)
    for one, other, weight in graph.links:
        network.add_link(graph.names[one], graph.names[other], weight, weight * MILLISECOND)
    for name in graph.names:
        network.start(name)
    network.run(3 * SECOND)
    return network, log


def run_on(network: Network) -> None:
    network.run(network.now + 300 * MILLISECOND)


def in_force(log: Log) -> list[tuple[str, ...]]:
    found = [action.ids for _, action in log.notices if isinstance(action, InForce)]
    log.notices.clear()
    return found


@pytest.mark.parametrize("text", ["line:5", "ring:6", "ba:9"])
def test_only_those_who_advertise_hold_what_meets_their_advertisements(text: str) -> None:
    network, log = scoped(text)
    network.tell("1", Subscribe("s1", "price > 5"))
    network.tell("2", Subscribe("s2", "not exists price"))
    network.tell("3", Subscribe("s3", "not exists site and price > 1"))
    run_on(network)
    assert sorted(ids for _, _, ids in log.settled) == [("s1",), ("s2",), ("s3",)]
    assert not any(isinstance(packet, Entries) for _, _, packet in log.sends)
    network.tell("0", Advertise("a", "price > 4 and site = 'lima'"))
    run_on(network)
    assert in_force(log) == [("a",)]
    held = {name: node.router.replica.held for name, node in network.nodes.items()}  # type: ignore[union-attr]
    assert {name for name, found in held.items() if found} == {"0"}
    assert {origin: dict(held["0"][origin].texts) for origin in held["0"]} == {
        "1": {"s1": "price > 5"}
    }
    network.tell("0", Publish({"price": 6, "site": "lima"}))
    run_on(network)
    assert [(node, ids) for node, ids, _ in log.deliveries] == [("1", ("s1",))]
    network.tell("1", Unsubscribe("s1"))
    network.tell("0", Unadvertise("a"))
    network.tell("4", Subscribe("s4", "price > 9"))
    run_on(network)
    assert all(not found.texts for found in held["0"].values())


def test_an_advertisement_is_in_force_only_when_every_interest_has_come() -> None:
    """The parcel with an interest is lost: the advertisement waits until it is repeated."""
    network, log = scoped("line:4")
    network.tell("3", Subscribe("s", "price > 5"))
    run_on(network)
    link = network.links["1", "0"]
    network.tell("0", Advertise("a", "price > 0"))
    while not any(isinstance(p, Parcel) and isinstance(p.packet, Entries) for *_, p in log.sends):
        network.run(network.now + MILLISECOND)
    link.cut += 1
    network.run(network.now + 20 * MILLISECOND)
    link.cut -= 1
    run_on(network)
    assert in_force(log) == []
    network.run(network.now + 3 * SECOND)
    assert in_force(log) == [("a",)]
    network.tell("0", Publish({"price": 6}))
    run_on(network)
    assert [ids for _, ids, _ in log.deliveries] == [("s",)]


def test_a_subscription_made_after_an_advertisement_is_established_at_the_advertiser() -> None:
    network, log = scoped("ring:5")
    network.tell("0", Advertise("a", "price > 0"))
    run_on(network)
    assert in_force(log) == [("a",)]
    log.sends.clear()
    network.tell("2", Subscribe("s", "price > 5"))
    assert log.settled == []
    run_on(network)
    assert [ids for _, _, ids in log.settled] == [("s",)]
    carried = [p.packet for *_, p in log.sends if isinstance(p, Parcel)]
    assert [type(packet) for packet in carried] == [Entries, Entries, Kept, Kept]


def test_an_advertiser_that_was_reborn_is_told_everything_again() -> None:
    network, log = scoped("line:4")
    network.tell("3", Subscribe("s", "price > 5"))
    network.tell("0", Advertise("a", "price > 0"))
    run_on(network)
    network.stop("0", forget=True)
    network.start("0")
    network.run(network.now + 4 * SECOND)
    log.notices.clear()
    network.tell("0", Advertise("b", "price > 1"))
    run_on(network)
    assert in_force(log) == [("b",)]
    network.tell("0", Publish({"price": 6}))
    run_on(network)
    assert [ids for _, ids, _ in log.deliveries] == [("s",)]
