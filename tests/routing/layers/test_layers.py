"""Two layers (L1): every pair delivers what the scan finds, and in as many packets as it should."""

import json
from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import SOAK, examples
from tests.overlay.graphs import graphs
from tests.places import DATA
from tests.routing.layers.network import layered, published, subscribed
from tests.routing.networks import EVENTS, TEXTS
from tests.routing.running import router_of
from tidings.language.predicate import parse
from tidings.overlay.graph import Graph
from tidings.overlay.topologies import topology
from tidings.routing.layers.delivery import DELIVERY
from tidings.routing.layers.judging import links_of_event
from tidings.routing.layers.matching import MATCHING
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import publication_of
from tidings.routing.schemes import scheme
from tidings.routing.truth import Situation, Truth
from tidings.routing.twin import Twin
from tidings.sim.network import Network

PAIRS = [(who, how) for who in MATCHING for how in DELIVERY]
every_pair = pytest.mark.parametrize(("who", "how"), PAIRS, ids=lambda word: word)
ZOO = DATA / "topology-zoo"
WANTED = [text for text in TEXTS if text]


def options(who: str, how: str, **more: Any) -> Layering:
    return Layering(matching=who, delivery=how, rendezvous="hash:a", **more)  # type: ignore[arg-type]


def wants_of(graph: Graph, chance: Random) -> dict[str, list[str]]:
    return {name: chance.choices(WANTED, k=chance.randrange(3)) for name in graph.names}


def scan(wants: dict[str, list[str]], event: Any) -> list[str]:
    return sorted(
        f"{node}/{number}"
        for node, texts in wants.items()
        for number, text in enumerate(texts)
        if parse(text).matches(event)
    )


def situation_of(network: Network, wants: dict[str, list[str]]) -> Situation:
    """What is true of a network in which nothing fails."""
    costs = {name: dict[str, int]() for name in network.nodes}
    for (one, other), cost in network.costs.items():
        costs[one][other] = cost
    hops = {name: dict(router_of(network, name).hops) for name in network.nodes}
    held = {n: {f"{n}/{k}": text for k, text in enumerate(texts)} for n, texts in wants.items()}
    return Situation(Truth(costs), hops, held, {}, lambda: (), exact=True)


def links_taken(sends: list[tuple[str, str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((a, b) for a, b, packet in sends if publication_of(packet) is not None)


@every_pair
@settings(max_examples=examples(4))
@given(drawn=graphs(7), seed=st.integers(0, 99), hops=st.integers(1, 3), replicas=st.integers(1, 3))
def test_every_pair_delivers_what_the_scan_finds(
    who: str, how: str, drawn: Graph, seed: int, hops: int, replicas: int
) -> None:
    chance = Random(seed)
    division = chance.choice(("rank", "width"))
    more = {"scatter": chance.random() < 0.3, "gather": chance.random() < 0.3}
    chosen = options(who, how, hops=hops, replicas=replicas, division=division, **more)
    network, log = layered(drawn, chosen)
    wants = wants_of(drawn, chance)
    subscribed(network, wants)
    reach = {
        name: {n for part in drawn.components if drawn.names.index(name) in part for n in part}
        for name in drawn.names
    }
    for event in chance.sample(EVENTS, 4):
        source = chance.choice(drawn.names)
        near = {n: w for n, w in wants.items() if drawn.names.index(n) in reach[source]}
        assert published(network, log, source, dict(event)) == scan(near, event)


@cache
def zoo() -> list[str]:
    """The topologies of the zoo with at most 60 nodes; some of them, unless it soaks.

    15 of the 238 are not connected: whoever is out of reach gets nothing.
    """
    rows = json.loads((ZOO / "index.json").read_text())
    names = sorted(r["file"] for r in rows if r["nodes"] <= (60 if SOAK else 15))
    return names if SOAK else [*names[::20], "JanetExternal.graphml"]


def check_real_network(file: str, who: str, how: str) -> None:
    """Some users subscribe; what each event reaches is what the scan finds, by the right packets.

    Those of the twin; DRP's for lists from everywhere.
    """
    graph = topology(f"file:{ZOO / 'graphml.tar.xz'}#{file.removesuffix('.graphml')}")
    chance = Random(file)
    network, log = layered(graph, options(who, how, hops=2, replicas=3))
    chosen = chance.sample(graph.names, min(12, graph.nodes))
    wants = {n: chance.choices(WANTED, k=2) if n in chosen else [] for n in graph.names}
    subscribed(network, wants)
    situation = situation_of(network, wants)
    for event in chance.sample(EVENTS, 3):
        source = chance.choice(graph.names)
        near = {node: wants[node] for node in situation.truth.reaches(source)}
        assert published(network, log, source, dict(event)) == scan(near, event), file
        taken = links_taken(log.sends)
        used = router_of(network, source).layers.matching.epochs.used
        possible = list(links_of_event(used, situation, situation.hops, source, dict(event)))
        assert taken in possible, (file, event)
        if (who, how) == ("everywhere", "list"):
            wanting = {id.rpartition("/")[0] for id in scan(near, event)}
            drp = Twin(scheme("drp"), situation, situation.hops)
            assert taken == drp.links(source, wanting), file
        if (who, how) == ("nowhere", "tree"):
            others = any(texts for node, texts in near.items() if node != source)
            assert taken.total() == (len(near) - 1 if others else 0), file


@pytest.mark.skipif(not ZOO.exists(), reason="../shared is absent")
@every_pair
def test_every_pair_delivers_what_the_scan_finds_in_real_networks(who: str, how: str) -> None:
    for file in zoo():
        check_real_network(file, who, how)


def test_one_region_of_all_nodes_finds_what_everywhere_finds_with_a_hop_more() -> None:
    graph = topology("waxman:12", 5)
    wants = wants_of(graph, Random(1))
    results = []
    for chosen in (
        options("everywhere", "list"),
        options("regions", "list", replicas=12, hops=1, nodes=tuple(graph.names[:5])),
    ):
        network, log = layered(graph, chosen)
        subscribed(network, wants)
        results.append([published(network, log, graph.names[9], dict(e)) for e in EVENTS])
    assert results[0] == results[1] == [scan(wants, event) for event in EVENTS]


def test_a_tour_of_all_nodes_needs_no_replicas() -> None:
    graph = topology("ring:6")
    wants = wants_of(graph, Random(2))
    chosen = options("regions", "unicast", replicas=1, regions=6, hops=6)
    network, log = layered(graph, chosen)
    subscribed(network, wants)
    for event in EVENTS[::2]:
        assert published(network, log, "0", dict(event)) == scan(wants, event)
    held = [len(router_of(network, name).layers.matching.store) for name in graph.names]
    slots = [router_of(network, name).layers.matching._slots.values() for name in graph.names]
    assert sum(held) == sum(len(one) for of_node in slots for one in of_node)


@settings(max_examples=examples(5))
@given(seed=st.integers(0, 999), hops=st.integers(1, 5), replicas=st.integers(1, 4))
def test_each_match_is_found_exactly_once(seed: int, hops: int, replicas: int) -> None:
    """Before delivery: what an event matches is found at one stop, by one key."""
    graph = topology("waxman:9", 3)
    chance = Random(seed)
    network, log = layered(
        graph, options("regions", "list", hops=hops, replicas=replicas, places=1)
    )
    wants = {name: [f"a = {chance.randrange(3)}", "b prefix 'x'"] for name in graph.names}
    subscribed(network, wants)
    stores = {name: router_of(network, name).layers.matching.store for name in graph.names}
    for event in ({"a": 0, "b": "x"}, {"a": 1}, {"b": "xy"}, {"a": [0, 1], "b": "y"}):
        source = chance.choice(graph.names)
        found: Counter[str] = Counter()
        published(network, log, source, event)
        matching = router_of(network, source).layers.matching
        epoch = matching.epochs.used
        for choice in matching.walks.choices(epoch, matching.asking.keys(epoch, event)):
            regions = epoch.placement.shape.regions
            for home, key in choice.asked:
                by_key = stores[choice.members[0]]._indices.get((regions, home), {}).get(key)
                found.update(map(str, by_key.match(event) if by_key else ()))
        keys = matching.asking.keys(epoch, event)
        assert len(matching.walks.choices(epoch, keys)) <= hops * len(keys)
        assert found.total() == len(scan(wants, event))
