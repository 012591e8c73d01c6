"""Many applications on the same nodes (L4), and other settings while they run."""

from collections import Counter
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest

from tests.routing.running import Log, network_of, router_of
from tidings.overlay.topologies import topology
from tidings.routing.layers.application import ApplicationError
from tidings.routing.layers.router import LayeredRouter
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import Consignment, Listed, Put, Report, Walk
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Action,
    Cause,
    Configure,
    Host,
    LinkUp,
    Publish,
    Received,
    Subscribe,
    Unhost,
    Within,
)
from tidings.sim.network import Network

THREE = {
    "quotes": Layering(matching="regions", replicas=3, hops=2, rendezvous="hash:symbol"),
    "alerts": Layering(matching="everywhere", delivery="unicast"),
    "games": Layering(
        matching="regions", delivery="tree", replicas=2, hops=3, rendezvous="range:x:10,20,30"
    ),
}


def shared(text: str = "waxman:10", **applications: Layering) -> tuple[Network, Log]:
    made = partial(LayeredRouter, applications=applications or THREE)
    return network_of(topology(text, 2), make=made)


def delivered(log: Log) -> Counter[tuple[str, int]]:
    found = Counter((id, p.event["n"]) for _, ids, p in log.deliveries for id in ids)
    log.deliveries.clear()
    return found


def test_each_application_has_its_own_subscribers_regions_and_deliveries() -> None:
    network, log = shared()
    names = list(network.nodes)
    for node in names:
        network.tell(node, Within("quotes", Subscribe(f"q{node}", f"symbol = 'S{int(node) % 3}'")))
        network.tell(node, Within("alerts", Subscribe(f"a{node}", "symbol = 'S1'")))
        network.tell(node, Within("games", Subscribe(f"g{node}", f"x < {5 * int(node)}")))
        network.tell(node, Subscribe(f"s{node}", "symbol = 'S1'"))
    network.run(network.now + 3 * SECOND)
    assert len({id for _, _, ids in log.settled for id in ids}) == 4 * len(names)
    network.tell("3", Within("quotes", Publish({"n": 1, "symbol": "S1"})))
    network.tell("4", Within("games", Publish({"n": 2, "x": [17, 60], "symbol": "S1"})))
    network.tell("5", Publish({"n": 3, "symbol": "S1"}))
    network.run(network.now + 2 * SECOND)
    expected = {(f"q{n}", 1) for n in names if int(n) % 3 == 1}
    expected |= {(f"g{n}", 2) for n in names if 5 * int(n) > 17}
    expected |= {(f"s{n}", 3) for n in names}
    assert delivered(log) == Counter(expected)
    # They do not load the same nodes first: their regions begin at different places.
    held = {
        name: [len(router_of(network, n).applications[name].matching.store) for n in names]
        for name in THREE
    }
    assert held["quotes"] != held["games"]
    assert set(router_of(network, "0").snapshot()["applications"]) == set(THREE)


CHANGES: list[dict[str, Any]] = [
    {"replicas": 1, "hops": 4},
    {"replicas": 5, "hops": 1, "delivery": "tree"},
    {"matching": "everywhere", "delivery": "list"},
    {"matching": "regions", "rendezvous": "range:k:2", "scatter": True, "regions": 3},
    {"matching": "nowhere", "delivery": "unicast"},
]


def test_reconfiguring_loses_nothing_and_doubles_nothing() -> None:
    """Under continuous publishing and subscribing, from any settings to any others."""
    first = Layering(matching="regions", replicas=2, hops=2, rendezvous="hash:k")
    network, log = shared("waxman:9", quotes=first)
    chance = Random(5)
    names = list(network.nodes)
    for node in names:
        network.tell(node, Within("quotes", Subscribe(f"s{node}", f"k <= {int(node) % 4}")))
    network.run(network.now + 3 * SECOND)
    expected: Counter[tuple[str, int]] = Counter()
    number = 0
    for change in CHANGES:
        network.tell(chance.choice(names), Configure("quotes", change))
        for _ in range(60):  # while the change spreads, and when it is done
            number += 1
            event = {"n": number, "k": chance.randrange(4)}
            network.tell(chance.choice(names), Within("quotes", Publish(event)))
            expected.update((f"s{n}", number) for n in names if event["k"] <= int(n) % 4)
            network.run(network.now + 40 * MILLISECOND)
        network.run(network.now + 5 * SECOND)
        assert delivered(log) == expected, change
        expected.clear()
        for node in names:
            matching = router_of(network, node).applications["quotes"].matching
            assert {name: getattr(matching.settings, name) for name in change} == change
            assert matching.is_settled()
            assert len(matching.epochs.kept) == 1


def test_when_two_nodes_change_settings_at_once_all_follow_the_same_one() -> None:
    network, _ = shared("ring:6", quotes=THREE["quotes"])
    network.tell("4", Configure("quotes", {"hops": 5}))
    network.tell("1", Configure("quotes", {"hops": 3}))
    network.run(network.now + 4 * SECOND)
    found = [router_of(network, n).applications["quotes"].matching for n in network.nodes]
    assert {matching.settings.hops for matching in found} == {3}
    assert all(matching.is_settled() for matching in found)


def test_a_node_that_comes_later_can_change_settings_that_are_as_in_its_file() -> None:
    """They have been changed and changed back: the next change must have a higher number."""
    network, _ = shared("ring:5", quotes=THREE["quotes"])
    before = THREE["quotes"].hops
    for hops in (before + 1, before + 2, before):
        network.tell("2", Configure("quotes", {"hops": hops}))
        network.run(network.now + 3 * SECOND)
    network.add_node("new")
    network.add_link("new", "0", 1, 5 * MILLISECOND)
    network.start("new")
    network.tell("0", LinkUp("new", 1))
    network.run(network.now + 6 * SECOND)
    network.tell("new", Configure("quotes", {"hops": before + 3}))
    network.run(network.now + 4 * SECOND)
    found = [router_of(network, n).applications["quotes"].matching for n in network.nodes]
    assert {matching.settings.hops for matching in found} == {before + 3}


def test_a_node_that_comes_later_learns_the_settings() -> None:
    network, log = shared("ring:5", quotes=THREE["quotes"])
    network.tell("2", Configure("quotes", {"hops": 4, "replicas": 1}))
    network.tell("2", Within("quotes", Subscribe("s", "symbol = 'A'")))
    network.run(network.now + 3 * SECOND)
    network.add_node("new")
    network.add_link("new", "0", 1, 5 * MILLISECOND)
    network.start("new")
    network.tell("0", LinkUp("new", 1))
    network.run(network.now + 6 * SECOND)
    matching = router_of(network, "new").applications["quotes"].matching
    assert (matching.settings.hops, matching.settings.replicas) == (4, 1)
    assert matching.is_settled()
    network.tell("new", Within("quotes", Publish({"n": 1, "symbol": "A"})))
    network.run(network.now + SECOND)
    assert delivered(log) == Counter({("s", 1): 1})


def test_a_flood_of_one_application_takes_nothing_from_the_others() -> None:
    network, log = shared()
    for name in ("quotes", "alerts"):
        network.tell("7", Within(name, Subscribe(name, "symbol = 'A'")))
    network.run(network.now + 3 * SECOND)
    for number in range(400):
        network.tell("1", Within("quotes", Publish({"n": number, "symbol": "A"})))
        if number % 40 == 0:
            network.tell("2", Within("alerts", Publish({"n": -number - 1, "symbol": "A"})))
    network.run(network.now + 3 * SECOND)
    found = delivered(log)
    assert found.total() == 410
    assert sum(id == "alerts" for id, _ in found) == 10


@pytest.mark.parametrize(
    ("application", "changes", "error"),
    [
        ("quotes", {"replicas": 0}, r"settings: Expected `int` >= 1 - at `\$.replicas`"),
        ("quotes", {"regions": 4_097}, r"settings: Expected `int` <= 4096 - at `\$.regions`"),
        ("quotes", {"speed": 3}, "settings: Object contains unknown field `speed`"),
        ("quotes", {"matching": "some"}, "settings: Invalid enum value 'some'"),
        ("quotes", {"rendezvous": "sum"}, "settings: rendezvous: expected one of one, hash"),
        ("quotes", {"seal": "application"}, "settings: seal: expected 'none', found 'application'"),
        ("chess", {}, "application: expected one of '', 'quotes', found 'chess'"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_change_nothing(
    application: str, changes: dict[str, Any], error: str
) -> None:
    node = LayeredRouter("a", applications={"quotes": THREE["quotes"]})
    with pytest.raises(ApplicationError, match=error):
        node.handle(Configure(application, changes), 0)
    assert node.applications["quotes"].matching.settings == THREE["quotes"]


def test_an_application_that_one_node_takes_away_and_adds_again_works_as_before() -> None:
    """Others have it all the while: they must not take its new packets for old ones."""
    network, log = shared("ring:5", quotes=THREE["quotes"])
    settings = msgspec.to_builtins(THREE["quotes"])

    def play(number: int) -> None:
        network.run(network.now + 6 * SECOND)
        for n, node in enumerate(network.nodes):
            network.tell(node, Within("quotes", Publish({"n": 10 * number + n, "symbol": "A"})))
        network.run(network.now + 2 * SECOND)
        subscribers = [f"s{node}" for node in network.nodes]
        expected = {(id, 10 * number + n) for id in subscribers for n in range(5)}
        assert delivered(log) == Counter(expected)

    for node in network.nodes:
        network.tell(node, Within("quotes", Subscribe(f"s{node}", "symbol = 'A'")))
    play(1)
    for turn in (2, 3):
        network.tell("2", Unhost("quotes"))
        network.run(network.now + SECOND)
        network.tell("2", Host("quotes", settings))
        network.tell("2", Within("quotes", Subscribe("s2", "symbol = 'A'")))
        play(turn)
        for node in network.nodes:
            assert router_of(network, node).applications["quotes"].matching.is_settled()


def test_an_application_comes_to_all_nodes_one_after_the_other() -> None:
    network, log = shared("ring:5", alerts=THREE["alerts"])
    for node in network.nodes:
        network.tell(node, Host("quotes", msgspec.to_builtins(THREE["quotes"])))
        network.tell(node, Within("quotes", Subscribe(f"s{node}", "symbol = 'A'")))
        network.run(network.now + SECOND)
        there = {id for _, _, ids in log.settled for id in ids}
        assert bool(there) == (node == "4")  # before, some nodes could not know of it
    network.tell("3", Within("quotes", Publish({"n": 1, "symbol": "A"})))
    network.run(network.now + SECOND)
    assert delivered(log) == Counter((f"s{node}", 1) for node in network.nodes)


SUM = {"matching": "regions", "rendezvous": "sum"}


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        (Host("quotes", {}), "application: 'quotes' is here already"),
        (Host("chess", {"hops": 0}), "settings: Expected `int` >= 1"),
        (Host("chess", SUM), "settings: rendezvous: expected one of one, hash"),
        (Unhost("chess"), "application: expected one of '', 'quotes', found 'chess'"),
        (Unhost(""), "application: expected one with a name"),
    ],
)
def test_applications_that_cannot_come_or_go_are_errors(cause: Cause, error: str) -> None:
    node = LayeredRouter("a", applications={"quotes": THREE["quotes"]})
    with pytest.raises(ApplicationError, match=error):
        node.handle(cause, 0)
    assert list(node.applications) == ["", "quotes"]


def test_packets_of_an_unknown_application_are_counted_drops() -> None:
    node = LayeredRouter("a")
    node.handle(LinkUp("b", 1), 0)
    for inner in (Put("x", "b", 1, 1, True, (), (), 0), Consignment("x", b"sealed")):
        actions = node.handle(Received("b", Listed(("a",), 0, 0, inner)), 1)
        assert [getattr(action, "reason", "") for action in actions] == ["no such application"]


def test_more_replicas_than_nodes_is_one_region_of_all() -> None:
    network, log = shared("line:3", quotes=Layering(matching="regions", replicas=50, hops=9))
    network.tell("0", Within("quotes", Subscribe("s", "n > 0")))
    network.run(network.now + 2 * SECOND)
    network.tell("2", Within("quotes", Publish({"n": 1})))
    network.run(network.now + SECOND)
    assert delivered(log) == Counter({("s", 1): 1})
    held = [len(router_of(network, n).applications["quotes"].matching.store) for n in "012"]
    assert held == [1, 1, 1]


class Holding(LayeredRouter):
    """A node before which events wait while they are on their walk, as behind a slow subscriber."""

    held: list[tuple[str, Cause]] | None = None  # by all nodes
    deaf = False  # whether reports are lost

    def handle(self, cause: Cause, now: int) -> list[Action]:
        inner = getattr(getattr(cause, "packet", None), "inner", None)
        if Holding.deaf and isinstance(inner, Report):
            return []
        if Holding.held is None or not isinstance(inner, Walk):
            return super().handle(cause, now)
        Holding.held.append((self.plane.node, cause))
        return []


@pytest.mark.parametrize("seconds", [1, 5, 20])
def test_events_that_wait_on_their_walk_while_settings_change_are_not_lost(
    seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Layering(matching="regions", replicas=1, hops=1, rendezvous="hash:k")
    network, log = network_of(topology("ring:6"), make=partial(Holding, options=settings))
    for node in network.nodes:
        network.tell(node, Subscribe(f"s{node}", "k > 0"))
        network.tell(node, Subscribe(f"t{node}", f"k = {node}"))
    network.run(network.now + 3 * SECOND)
    held: list[tuple[str, Cause]] = []
    monkeypatch.setattr(Holding, "held", held)
    for number in range(12):
        network.tell(str(number % 6), Publish({"n": number, "k": number // 2 + 1}))
    network.run(network.now + 100 * MILLISECOND)
    network.tell("2", Configure("", {"replicas": 2, "hops": 3}))
    network.run(network.now + seconds * SECOND)
    assert {router_of(network, n).layers.matching.epochs.used.settings.hops for n in "012345"} == {
        3
    }
    monkeypatch.setattr(Holding, "held", None)
    monkeypatch.setattr(Holding, "deaf", True)  # the first word that all have come is lost
    assert held
    for node, cause in held:
        network.tell(node, cause)
    network.run(network.now + 2 * SECOND)
    expected = {(f"s{node}", number) for node in network.nodes for number in range(12)}
    expected |= {(f"t{k}", number) for number in range(12) if (k := number // 2 + 1) < 6}
    assert delivered(log) == Counter(expected)
    monkeypatch.setattr(Holding, "deaf", False)
    network.run(network.now + 40 * SECOND)
    for node in network.nodes:
        epochs = router_of(network, node).layers.matching.epochs
        assert (len(epochs.kept), epochs.walking) == (1, 0)
