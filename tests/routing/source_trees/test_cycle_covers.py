"""Covering on networks with cycles (S17): which advertisements need not be passed on."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.overlay.graphs import graphs
from tests.routing.running import Log, network_of, router_of
from tidings.overlay.graph import Graph
from tidings.overlay.topologies import topology
from tidings.routing.packets import Advertisement
from tidings.routing.planes.topology import Routes, Topology, weight_of
from tidings.routing.protocol import MILLISECOND, SECOND, Publish, Subscribe, Unsubscribe
from tidings.routing.source_trees.content import ContentOptions, ContentRouter
from tidings.routing.source_trees.cycle_covers import Below, Where
from tidings.sim.cycle_plants import (
    ConditionReversed,
    CoverOnAnyPath,
    CoverUnconfirmed,
    StaleCover,
)
from tidings.sim.network import Network

# Two triangles, joined by the bridge 2-3; and a square in which paths part.
BARBELL = Graph(6, [(0, 1, 1), (0, 2, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (3, 5, 1), (4, 5, 1)])


def running(
    graph: Graph, covering: Where, router: type[ContentRouter] = ContentRouter
) -> tuple[Network, Log]:
    options = ContentOptions(covering=covering)
    network, log = network_of(graph, make=partial(router, options=options))
    network.run(network.now + 12 * SECOND)  # after a pull of every node, all publish by this view
    log.sends.clear()
    return network, log


def wait(network: Network, time: int = SECOND) -> None:
    network.run(network.now + time)


def advertised(log: Log) -> list[tuple[str, str]]:
    """The links that advertisements have taken since the last time of asking."""
    found = [(one, other) for one, other, p in log.sends if isinstance(p, Advertisement)]
    log.sends.clear()
    return found


def wanted(network: Network, log: Log, source: str, event: dict[str, Any]) -> list[str]:
    log.deliveries.clear()
    network.tell(source, Publish(event))
    wait(network)
    return sorted(id for _, ids, _ in log.deliveries for id in ids)


def topology_of(graph: Graph) -> Topology:
    adjacency: dict[str, dict[str, int]] = {name: {} for name in graph.names}
    for one, other, cost in graph.links:
        low, high = sorted((graph.names[one], graph.names[other]))
        adjacency[low][high] = adjacency[high][low] = weight_of(low, high, cost)
    return Topology(1, adjacency)


@settings(max_examples=examples(60))
@given(graphs(connected=False))
def test_what_is_below_a_link_is_what_every_walk_says(graph: Graph) -> None:
    whole = topology_of(graph)
    routes = {name: Routes(name, whole) for name in graph.names}
    hops = {name: found.hop for name, found in routes.items()}
    bridges = {frozenset((graph.names[a], graph.names[b])) for a, b, _ in graph.bridges()}
    for name, mine in routes.items():
        below = Below(mine)
        for issuer in (name, *mine.hop):
            for child in mine.children(issuer):
                assert below.of(issuer, child) == Below.by_definition(hops, issuer, child, name)
                assert below.is_bridge(child) == (frozenset((name, child)) in bridges)


def test_across_a_bridge_a_wider_filter_covers_another_issuer() -> None:
    network, log = running(BARBELL, "bridges")
    network.tell("0", Subscribe("wide", "price > 5"))
    wait(network)
    assert ("2", "3") in advertised(log)
    network.tell("1", Subscribe("narrow", "price > 9"))
    wait(network)
    took = advertised(log)
    assert ("1", "2") in took
    assert ("2", "3") not in took
    assert {ids for _, _, ids in log.settled} == {("wide",), ("narrow",)}
    assert router_of(network, "2").covers.saved == 1
    assert wanted(network, log, "5", {"price": 10}) == ["narrow", "wide"]
    why = router_of(network, "2").explain_links("0", {"price": 10})["3"][1]
    assert why.endswith("price > 9 was not told there: covered by price > 5")


def test_without_the_option_every_advertisement_crosses() -> None:
    network, log = running(BARBELL, "none")
    for name, text in (("0", "price > 5"), ("1", "price > 9")):
        network.tell(name, Subscribe(name, text))
        wait(network)
    assert advertised(log).count(("2", "3")) == 2


def test_a_cover_that_was_given_up_covers_no_longer() -> None:
    """A node behind the bridge pulls, and forgets what nobody wants: then the next one crosses."""
    network, log = running(BARBELL, "bridges")
    network.tell("0", Subscribe("wide", "price > 5"))
    wait(network)
    network.tell("0", Unsubscribe("wide"))
    wait(network, 11 * SECOND)  # every node pulls
    advertised(log)
    network.tell("1", Subscribe("narrow", "price > 9"))
    wait(network)
    assert ("2", "3") in advertised(log)
    assert wanted(network, log, "5", {"price": 10}) == ["narrow"]


def test_what_was_hidden_is_told_by_pulls_when_its_cover_goes() -> None:
    network, log = running(BARBELL, "bridges")
    for name, text in (("0", "price > 5"), ("1", "price > 9")):
        network.tell(name, Subscribe(name, text))
        wait(network)
    network.tell("0", Unsubscribe("0"))
    for _ in range(11):
        assert wanted(network, log, "5", {"price": 10}) == ["1"]
    assert not router_of(network, "5").is_wanted(
        "3", {"price": 6}, router_of(network, "5").views.newest
    )


def test_where_paths_part_nothing_is_covered() -> None:
    """A ring: for some node below each link, the path to the other issuer begins elsewhere."""
    network, log = running(topology("ring:6"), "paths")
    network.tell("1", Subscribe("wide", "price > 5"))
    wait(network)
    network.tell("5", Subscribe("narrow", "price > 9"))
    wait(network)
    for source in map(str, range(6)):
        assert wanted(network, log, source, {"price": 10}) == ["narrow", "wide"]
    covers = router_of(network, "0").covers
    assert covers.usable("1", "5") == ["price > 5"]
    assert not covers.serves("1", "5", "1")
    assert not covers.saved


def test_on_all_paths_a_cover_needs_no_bridge() -> None:
    """Two leaves of one node in a ring: whoever's path to one comes by a link, so does the other's.

    Across bridges only, nothing is covered here: the links of a ring are none.
    """
    ring = [(2, 3, 1), (3, 4, 1), (4, 5, 1), (5, 2, 1)]
    for where, crossed in (("paths", set()), ("bridges", {("2", "3"), ("2", "5")})):
        network, log = running(Graph(6, [(0, 2, 1), (1, 2, 1), *ring]), where)  # type: ignore[arg-type]
        network.tell("0", Subscribe("wide", "price > 5"))
        wait(network)
        advertised(log)
        network.tell("1", Subscribe("narrow", "price > 9"))
        wait(network)
        took = set(advertised(log))
        assert ("1", "2") in took
        assert ("2", "0") in took
        assert took & {("2", "3"), ("2", "5")} == crossed
        assert wanted(network, log, "4", {"price": 10}) == ["narrow", "wide"]


def lost_where_paths_part(router: type[ContentRouter]) -> bool:
    """In a ring of 7, node 3 reaches node 6 by 4 and node 0 by 2: node 6 cannot cover for 0."""
    network, log = running(topology("ring:7"), "paths", router)
    network.tell("6", Subscribe("wide", "price > 5"))
    wait(network)
    network.tell("0", Subscribe("narrow", "price > 9"))
    wait(network)
    return wanted(network, log, "3", {"price": 10}) != ["narrow", "wide"]


def lost_before_the_cover_is_confirmed(router: type[ContentRouter]) -> bool:
    """The advertisement of the cover gets lost on the bridge, and has yet to be repeated."""
    network, log = running(BARBELL, "bridges", router)
    link = network.links["2", "3"]
    link.loss = 1.0
    link.disturbed()
    network.tell("0", Subscribe("wide", "price > 5"))
    wait(network, 20 * MILLISECOND)
    link.calm()
    network.tell("1", Subscribe("narrow", "price > 9"))
    wait(network, 100 * MILLISECOND)
    log.deliveries.clear()
    network.tell("5", Publish({"price": 10}))
    wait(network, 100 * MILLISECOND)
    established = [ids for _, _, ids in log.settled]
    return established == [("narrow",)] and not log.deliveries


def lost_after_the_cover_was_given_up(router: type[ContentRouter]) -> bool:
    network, log = running(BARBELL, "bridges", router)
    network.tell("0", Subscribe("wide", "price > 5"))
    wait(network)
    network.tell("0", Unsubscribe("wide"))
    wait(network, 11 * SECOND)
    network.tell("1", Subscribe("narrow", "price > 9"))
    wait(network)
    return wanted(network, log, "5", {"price": 10}) != ["narrow"]


@pytest.mark.parametrize(
    ("loses", "broken"),
    [
        (lost_where_paths_part, ConditionReversed),
        (lost_where_paths_part, CoverOnAnyPath),
        (lost_before_the_cover_is_confirmed, CoverUnconfirmed),
        (lost_after_the_cover_was_given_up, StaleCover),
    ],
)
def test_a_bug_planted_in_covering_loses_an_event_that_the_router_delivers(
    loses: Callable[[type[ContentRouter]], bool], broken: type[ContentRouter]
) -> None:
    assert not loses(ContentRouter)
    assert loses(broken)


@settings(max_examples=examples(6))
@given(graphs(max_nodes=7), st.data())
def test_whatever_is_covered_everyone_gets_everything(graph: Graph, data: st.DataObject) -> None:
    where: Where = data.draw(st.sampled_from(("bridges", "paths")))
    network, log = running(graph, where)
    held: dict[str, int] = {}
    for number in range(data.draw(st.integers(2, 8))):
        node = data.draw(st.sampled_from(graph.names))
        least = data.draw(st.integers(0, 3))
        if data.draw(st.booleans()) and held:
            gone = data.draw(st.sampled_from(sorted(held)))
            del held[gone]
            network.tell(gone.split()[0], Unsubscribe(gone))
        held[f"{node} {number}"] = least
        network.tell(node, Subscribe(f"{node} {number}", f"price > {least}"))
        wait(network, data.draw(st.sampled_from((SECOND, 4 * SECOND))))
        source = data.draw(st.sampled_from(graph.names))
        price = data.draw(st.integers(1, 4))
        expected = sorted(id for id, least in held.items() if price > least)
        assert wanted(network, log, source, {"price": price}) == expected
