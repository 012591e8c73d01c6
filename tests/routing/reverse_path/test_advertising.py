"""Advertisements (S11): the survey's race, the three that it does not name, and what they save."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from tests.routing.reverse_path.test_router import held, line, wait
from tests.routing.running import Log, network_of, router_of
from tidings.routing.packets import Change, Standing
from tidings.routing.planes.link_table import Link, LinkTables
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Advertise,
    InForce,
    Publish,
    Subscribe,
    Unadvertise,
)
from tidings.routing.reverse_path.knobs import Advertising
from tidings.routing.reverse_path.router import ReversePathRouter
from tidings.sim.network import Network

STRICT = Advertising(values="single", unadvertised="refuse")


def network_with(options: Advertising, count: int = 4) -> tuple[Network, Log]:
    return network_of(line(count), "advertisements", partial(ReversePathRouter, options=options))


def deliveries(log: Log) -> list[Any]:
    return [publication.event["n"] for _, _, publication in log.deliveries]


def test_what_nobody_advertises_is_remembered_and_told_later() -> None:
    """The survey's race: the subscription comes first, and must not be forgotten."""
    network, log = network_with(STRICT)
    network.tell("3", Subscribe("s", "kind = 1"))
    wait(network)
    assert [held(network, str(n), str(n + 1)) for n in range(3)] == [[], [], []]
    network.tell("0", Advertise("v", "kind = 1 and price > 5"))
    wait(network)
    assert [held(network, str(n), str(n + 1)) for n in range(3)] == [["kind = 1"]] * 3
    network.tell("0", Publish({"n": 1, "kind": 1, "price": 6}))
    wait(network)
    assert deliveries(log) == [1]


def test_an_advertisement_is_in_force_when_the_subscriptions_are_back() -> None:
    network, log = network_with(STRICT, 6)
    network.tell("5", Subscribe("s", "kind = 1"))
    wait(network)
    network.tell("0", Advertise("v", "kind = 1"))
    while not log.notices:
        network.run(network.now + MILLISECOND)
    assert log.notices == [("0", InForce(("v",)))]
    assert held(network, "0", "1") == ["kind = 1"]  # in the very moment
    network.tell("0", Publish({"n": 1, "kind": 1}))
    wait(network)
    assert deliveries(log) == [1]


class ImpatientTables(LinkTables):
    def in_turn(self, link: Link, packet: Standing) -> bool:
        return True


class SettledOvertakes(ReversePathRouter):
    """A planted bug: an acknowledgement counts before what was told before it has come."""

    tables_of = ImpatientTables


def in_force_too_early(router: type[ReversePathRouter]) -> bool:
    """Whether an advertisement is ever in force before the subscription has come back."""
    for seed in range(30):
        make = partial(router, options=STRICT)
        network, log = network_of(line(3), "advertisements", make)
        network.chance = Random(seed)
        for link in network.links.values():
            link.reorder = 0.5
            link.disturbed()
        network.tell("2", Subscribe("s", "kind = 1"))
        wait(network)
        network.tell("0", Advertise("v", "kind = 1"))
        while not log.notices:
            network.run(network.now + MILLISECOND)
        if held(network, "0", "1") != ["kind = 1"]:
            return True
    return False


def test_an_acknowledgement_does_not_overtake_the_subscriptions_drawn() -> None:
    assert not in_force_too_early(ReversePathRouter)
    assert in_force_too_early(SettledOvertakes)


def test_a_subscription_and_an_advertisement_may_cross() -> None:
    network, log = network_with(STRICT, 6)
    network.tell("5", Subscribe("s", "kind = 1"))
    network.tell("0", Advertise("v", "kind = 1"))
    wait(network)
    assert [ids for _, _, ids in log.settled] == [("s",)]
    network.tell("0", Publish({"n": 1, "kind": 1}))
    wait(network)
    assert deliveries(log) == [1]


def test_the_last_events_before_an_advertisement_is_withdrawn_arrive() -> None:
    """Control must not overtake them: tables are emptied a while later."""
    network, log = network_with(STRICT)
    network.tell("0", Advertise("v", "kind = 1"))
    network.tell("3", Subscribe("s", "kind = 1"))
    wait(network)
    for link in network.links.values():
        link.reorder = 0.5
        link.disturbed()
    for number in range(20):
        network.tell("0", Publish({"n": number, "kind": 1}))
    network.tell("0", Unadvertise("v"))
    network.tell("0", Publish({"n": 99, "kind": 1}))  # refused at once
    wait(network, 200 * MILLISECOND)
    assert sorted(deliveries(log)) == list(range(20))
    assert "not advertised" in log.drops
    assert held(network, "0", "1") == ["kind = 1"]
    wait(network, 3 * SECOND)
    assert [held(network, str(n), str(n + 1)) for n in range(3)] == [[], [], []]


def test_filters_go_only_where_something_meets_them() -> None:
    """0 publishes, 3 and 4 want: nothing is told beyond, and nothing of what nobody publishes."""
    network, _ = network_with(STRICT, 5)
    network.tell("0", Advertise("v", "kind = 1"))
    for node, kind in (("3", 1), ("4", 2)):
        network.tell(node, Subscribe(f"s{node}", f"kind = {kind}"))
    wait(network)
    told = [sorted(router_of(network, str(n)).tables.links[str(n - 1)].told) for n in range(1, 5)]
    assert told == [["kind = 1"], ["kind = 1"], ["kind = 1"], []]
    assert held(network, "4", "3") == []  # nobody behind 4 publishes


def test_with_lists_an_advertisement_meets_nearly_everything() -> None:
    network, _ = network_with(Advertising(unadvertised="refuse"))
    network.tell("0", Advertise("v", "kind = 1"))
    network.tell("3", Subscribe("s", "kind = 2"))
    wait(network)
    assert held(network, "0", "1") == ["kind = 2"]  # kind may be (1, 2)


def test_what_is_published_without_an_advertisement_waits_for_an_implicit_one() -> None:
    """In order, and nothing gets lost; and the implicit one goes when it is not needed."""
    network, log = network_with(Advertising(values="single"))
    network.tell("0", Advertise("v", "kind = 1"))
    wait(network, 5 * SECOND)
    network.tell("3", Subscribe("s", "kind = 2"))
    wait(network)
    assert held(network, "0", "1") == []
    network.tell("0", Publish({"n": 1, "kind": 2}))
    network.tell("0", Publish({"n": 2, "kind": 1}))
    network.tell("0", Publish({"n": 3, "kind": [2, 5]}))
    assert log.deliveries == []
    wait(network)
    assert deliveries(log) == [1, 3]
    assert held(network, "0", "1") == ["kind = 2"]
    wait(network, 6 * SECOND)
    assert held(network, "0", "1") == []


def test_a_replaced_advertisement_stays_in_force_until_the_new_one_is() -> None:
    network, log = network_with(STRICT)
    network.tell("3", Subscribe("s", "kind = 1"))
    network.tell("0", Advertise("v", "kind = 1"))
    wait(network)
    log.sends.clear()
    network.tell("0", Advertise("v", "kind = 1 and price > 0"))
    network.tell("0", Publish({"n": 1, "kind": 1, "price": 0}))  # the former one allows it
    wait(network, 3 * SECOND)
    network.tell("0", Publish({"n": 2, "kind": 1, "price": 0}))
    network.tell("0", Publish({"n": 3, "kind": 1, "price": 1}))
    wait(network)
    assert deliveries(log) == [1, 3]
    assert any(isinstance(packet, Change) and packet.withdrawn for *_, packet in log.sends)


def test_a_lost_link_takes_its_advertisements_along() -> None:
    network, _ = network_with(STRICT)
    network.tell("0", Advertise("v", "kind = 1"))
    network.tell("3", Subscribe("s", "kind = 1"))
    wait(network)
    network.unlink("0", "1")
    wait(network, 3 * SECOND)
    assert held(network, "1", "2") == []
    assert router_of(network, "2").wanted.by("3") == {}
    assert router_of(network, "3").wanted.who == {"kind = 1": {"": None}}
