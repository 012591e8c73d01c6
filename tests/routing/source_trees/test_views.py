"""Links and nodes that are added lose nothing; what nodes tell each other is bounded by size."""

from random import Random
from typing import Any

import pytest

from tests.routing.running import Log, network_of, router_of
from tidings.matching.scan import Scan
from tidings.overlay.graph import Graph
from tidings.routing.packets import Advertisement, Publication, Reply, Switch, Switched
from tidings.routing.planes import interests
from tidings.routing.planes.board import Board
from tidings.routing.planes.interests import EVERYTHING, Bounds, beyond, join
from tidings.routing.planes.topology import Routes, Topologies, Topology
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Deliver,
    LinkUp,
    Publish,
    Received,
    Send,
    Subscribe,
    Woken,
)
from tidings.routing.source_trees.content import LONGEST_SWITCH, ContentOptions, ContentRouter
from tidings.routing.source_trees.views import MOST, Views
from tidings.sim.network import Network


def linked(network: Network, one: str, other: str, cost: int, delay_ms: int) -> None:
    """Add a link to a network that runs."""
    network.add_link(one, other, cost, delay_ms * MILLISECOND)
    for end, far in ((one, other), (other, one)):
        if network.nodes[end].running:
            network.tell(end, LinkUp(far, cost))


def of_links(make: Any, *links: tuple[str, str, int, int]) -> tuple[Network, Log]:
    """A network of links with their costs and delays, once it is at rest."""
    log = Log()
    topologies = Topologies()
    network = Network(lambda n, life: make(n, life, topologies=topologies), log, Random(1))
    for name in sorted({name for link in links for name in link[:2]}):
        network.add_node(name)
    for one, other, cost, delay_ms in links:
        network.add_link(one, other, cost, delay_ms * MILLISECOND)
    for name in network.nodes:
        network.start(name)
    network.run(3 * SECOND)
    return network, log


@pytest.mark.parametrize("delay_ms", [1, 7, 40])
def test_a_link_added_to_a_network_in_use_loses_and_reorders_nothing(delay_ms: int) -> None:
    ring = Graph(6, [(n, (n + 1) % 6, 2) for n in range(6)])
    network, log = network_of(ring)
    network.tell("3", Subscribe("s", "price > 0"))
    network.run(network.now + SECOND)
    for number in range(300):
        network.tell("0", Publish({"price": 1, "number": number}))
        if number == 20:
            linked(network, "0", "3", 1, delay_ms)
        network.run(network.now + 5 * MILLISECOND)
        while router_of(network, "0").is_switching:
            network.run(network.now + MILLISECOND)
    network.run(network.now + SECOND)
    assert [p.event["number"] for _, _, p in log.deliveries] == list(range(300))
    assert ("0", "3") in log.links_taken()


class NothingLearnt(ContentRouter):
    """Learns nothing from the replies that it passes on."""

    def learn(self, neighbour: str, predicate: str) -> None:
        pass


@pytest.mark.parametrize(("make", "lost"), [(ContentRouter, False), (NothingLearnt, True)])
def test_a_new_node_on_the_path_knows_what_is_wanted_before_events_come(
    make: Any, lost: bool
) -> None:
    """n comes between s and y. The answer of w takes its time to n, but not to s."""
    network, log = of_links(
        make, ("s", "x", 10, 1), ("x", "y", 10, 1), ("y", "w", 12, 150), ("s", "w", 20, 1)
    )
    network.tell("y", Subscribe("s1", "price > 0"))
    network.run(network.now + 5 * SECOND)
    network.add_node("n")
    linked(network, "s", "n", 5, 1)
    linked(network, "n", "y", 5, 1)
    network.start("n")
    for number in range(300):
        if not router_of(network, "s").is_switching:
            network.tell("s", Publish({"price": 1, "number": number}))
        network.run(network.now + 4 * MILLISECOND)
    network.run(network.now + SECOND)
    published = router_of(network, "s").local._published
    assert (len(log.deliveries) < published) == lost


def test_a_subscription_is_not_established_before_all_nodes_send_it_events() -> None:
    network, log = network_of(Graph(3, [(0, 1, 1), (1, 2, 1)]))
    network.add_node("n")
    linked(network, "n", "2", 1, 30)
    network.start("n")
    while len(router_of(network, "n").plane.routes.hop) < 3:
        network.run(network.now + MILLISECOND)
    network.tell("n", Subscribe("s", "price > 0"))
    while not log.settled:
        network.run(network.now + MILLISECOND)
    for source in ("0", "1", "2"):
        network.tell(source, Publish({"price": 1}))
    network.run(network.now + SECOND)
    assert len(log.deliveries) == 3


def test_a_node_without_the_view_answers_a_switch_at_once() -> None:
    actions = ContentRouter("a").handle(Received("b", Switch("s", 1, 7, 12_345)), 0)
    assert actions == [Send("b", Switched("s", 7))]


def test_a_node_stops_waiting_for_nodes_that_do_not_answer() -> None:
    network, _ = network_of(Graph(3, [(0, 1, 1), (1, 2, 1)]))
    network.add_link("0", "2", 1, MILLISECOND)
    for end, far in (("0", "2"), ("2", "0")):
        network.tell(end, LinkUp(far, 1))
    lost = ("Reply", "Switched")
    send = network._send

    def silent(node: Any, target: str, packet: Any) -> None:
        if type(packet).__name__ not in lost:
            send(node, target, packet)

    network._send = silent  # type: ignore[method-assign]
    router = router_of(network, "0")
    network.run(network.now + 5 * SECOND)
    assert router.views.is_behind()
    assert not router.is_switching  # nobody has answered its pull
    network.run(network.now + LONGEST_SWITCH)
    assert not router.views.is_behind()


def test_a_lost_link_is_reason_to_switch_at_once() -> None:
    network, _ = network_of(Graph(4, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 0, 1)]))
    router = router_of(network, "0")
    before = router.views.used
    network.unlink("0", "3")
    while router.views.newest is before:
        network.run(network.now + MILLISECOND)
    assert router.views.used is router.views.newest


def test_few_views_are_kept() -> None:
    network, _ = network_of(Graph(2, [(0, 1, 1)]))
    for number in range(MOST + 8):
        network.add_node(f"n{number}")
        linked(network, "0", f"n{number}", 1, 1)
        network.start(f"n{number}")
        network.run(network.now + 300 * MILLISECOND)
    router = router_of(network, "0")
    assert len(router.views.former()) < MOST
    assert router.views.find(router.plane.routes.digest) is router.views.newest


# Restarts


def test_a_node_that_is_back_before_others_miss_it_gets_what_it_wants_now() -> None:
    network, log = network_of(Graph(2, [(0, 1, 1)]))
    network.run(network.now + 4 * SECOND)
    network.stop("1", forget=True)
    network.start("1")
    network.tell("1", Subscribe("now", "n = 1"))  # before it knows of anyone
    network.run(network.now + SECOND)
    for number in ("0", "1"):
        assert router_of(network, number).is_settled()
    network.tell("0", Publish({"n": 1}))
    network.run(network.now + SECOND)
    assert [ids for _, ids, _ in log.deliveries] == [("now",)]


# Sizes


def longest(number: int) -> str:
    """A predicate of 5,900 constants, within the bounds of the language."""
    constants = ", ".join(f"'{number:04d}{n:04d}'" for n in range(5_900))
    return f"dev in ({constants}) and k{number} > 0"


def test_what_a_neighbour_wants_survives_its_restart_however_large_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interests, "written", str)  # each node reads what others have written
    network, log = network_of(Graph(2, [(0, 1, 1)]))
    network.tell("1", Subscribe("z", "z = 1"))
    for number in range(12):
        network.tell("1", Subscribe(f"s{number}", longest(number)))
    network.run(network.now + 2 * SECOND)
    network.stop("0", forget=True)
    network.run(network.now + 2 * SECOND)
    network.start("0")
    network.run(network.now + 4 * SECOND)
    assert router_of(network, "0").is_settled()
    assert len(router_of(network, "0").table["1"]) <= Bounds().characters
    log.deliveries.clear()
    for event in ({"z": 1}, {"dev": "00070042", "k7": 1}):
        network.tell("0", Publish(event))
    network.run(network.now + SECOND)
    assert [ids for _, ids, _ in log.deliveries] == [("z",), ("s7",)]
    assert "a bad predicate" not in log.drops


@pytest.mark.parametrize("bounds", [Bounds(40, 3, 2), Bounds(8, 1, 1)])
def test_many_interests_join_to_one_within_the_bounds_at_every_hop(bounds: Bounds) -> None:
    chain = Graph(4, [(0, 1, 1), (1, 2, 1), (2, 3, 1)])

    def make(node: str, life: int, topologies: Topologies) -> ContentRouter:
        return ContentRouter(node, life, topologies=topologies, options=ContentOptions(*bounds))

    network, log = network_of(chain, make=make)
    for number in range(30):
        name = str(1 + number % 3)
        network.tell(name, Subscribe(f"s{number}", f"kind = 'k{number}' and price > {number}"))
    network.run(network.now + 15 * SECOND)
    assert all(isinstance(p, Publication) or fits(p, bounds) for _, _, p in log.sends)
    for number in range(30):
        network.tell("0", Publish({"kind": f"k{number}", "price": 99}))
    network.run(network.now + SECOND)
    assert sorted(ids[0] for _, ids, _ in log.deliveries) == sorted(f"s{n}" for n in range(30))


def fits(packet: Any, bounds: Bounds) -> bool:
    if not isinstance(packet, Advertisement | Reply):
        return True
    return len(packet.predicate) <= bounds.characters


def test_what_cannot_be_read_stands_for_everything() -> None:
    network, log = network_of(Graph(2, [(0, 1, 1)]))
    router = router_of(network, "0")
    life = network.nodes["1"].life
    bad = Advertisement("1", life, 1, router.plane.routes.digest, "(" * 70 + "x = 1" + ")" * 70)
    network.tell("0", Received("1", bad))
    assert router.table["1"] == EVERYTHING
    assert not log.drops


# With a board


def test_with_a_board_every_event_is_handed_to_its_owner() -> None:
    board = Board(Scan())
    node = ContentRouter("a", board=board)
    node.handle(Subscribe("a1", "price > 5"), 0)
    out = node.handle(Publish({"price": 1}), 0)
    assert [action.subscriptions for action in out if isinstance(action, Deliver)] == [()]


def test_with_boards_events_take_the_same_links() -> None:
    graph = Graph(5, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (4, 0, 1)])

    def boarded(node: str, life: int, topologies: Topologies) -> ContentRouter:
        return ContentRouter(node, life, topologies=topologies, board=Board(Scan()))

    taken = []
    for make in (None, boarded):
        network, log = network_of(graph, make=make)
        for number in range(5):
            network.tell(str(number), Subscribe(f"s{number}", f"price > {number}"))
        network.run(network.now + SECOND)
        log.links_taken()
        for price in range(6):
            network.tell(str(price % 5), Publish({"price": price}))
        network.tell("0", Woken())
        network.run(network.now + SECOND)
        taken.append([(a, b, p.event) for a, b, p in log.sends if isinstance(p, Publication)])
    assert taken[0] == taken[1]
    assert taken[0]


def test_a_table_follows_the_first_hops_that_have_changed() -> None:
    """The mend of decision 4 for links that change: no receiver is hidden before the next pull."""
    before = Routes("a", Topology(1, {"a": {"b": 1}, "b": {"a": 1, "z": 1}, "z": {"b": 1}}))
    links = {"a": {"b": 9, "c": 1}, "b": {"a": 9, "z": 9}, "c": {"a": 1, "z": 1}, "z": {"c": 1}}
    after = Routes("a", Topology(2, links))
    assert (before.hop["z"], after.hop["z"]) == ("b", "c")
    views = Views(before, join, beyond)
    views.widen("z", "x > 1")
    views.adopt(after, now=1)
    assert views.newest.table == {"b": "x > 1", "c": "x > 1"}
