"""Imprecise merging (S13): sound, measured where waste arrives, and within a budget."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.routing.reverse_path.test_router import line, wait
from tests.routing.running import Log, network_of, router_of
from tidings.language.filter import Filter
from tidings.overlay.topologies import topology
from tidings.routing.packets import Publication, Standing
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Publish,
    Received,
    Subscribe,
    Unsubscribe,
    Woken,
)
from tidings.routing.reverse_path.filters import filter_of
from tidings.routing.reverse_path.knobs import Merging
from tidings.routing.reverse_path.merging import Mergers
from tidings.routing.reverse_path.router import ReversePathRouter
from tidings.sim.network import Network


def network_with(options: Merging, text: str = "line:3") -> tuple[Network, Log]:
    make = partial(ReversePathRouter, options=options)
    return network_of(topology(text), "merging", make)


def told(network: Network, node: str, link: str) -> list[str]:
    return sorted(router_of(network, node).tables.links[link].told)


def test_without_pressure_nothing_is_merged_and_without_budget_neither() -> None:
    for options in (Merging(most_filters=50), Merging(most_filters=1, waste=0)):
        network, _ = network_with(options)
        for number in range(20):
            network.tell("0", Subscribe(f"s{number}", f"x = {number} and y > {number}"))
        wait(network, 5 * SECOND)
        assert len(told(network, "0", "1")) == 20


def test_filters_are_merged_until_few_are_left_and_nothing_is_missed() -> None:
    network, log = network_with(Merging(most_filters=4, waste=10**9))
    for number in range(40):
        network.tell("0", Subscribe(f"s{number}", f"x = {number} and y > {number}"))
    wait(network, 30 * SECOND)
    assert len(told(network, "0", "1")) <= 4
    assert len(told(network, "1", "2")) <= 4
    for number in range(40):
        network.tell("2", Publish({"x": number, "y": number + 1}))
    wait(network)
    assert sorted(ids[0] for _, ids, _ in log.deliveries) == sorted(f"s{n}" for n in range(40))


def test_the_waste_that_nodes_charge_is_what_reaches_dead_ends() -> None:
    network, log = network_with(Merging(most_filters=2, waste=10**9), "star:5")
    for node in range(1, 5):
        for number in range(20):
            text = f"x = {100 * node + 3 * number}"
            network.tell(str(node), Subscribe(f"s{node}.{number}", text))
    wait(network, 40 * SECOND)
    log.sends.clear()
    for number in range(100, 500, 5):
        network.tell("1", Publish({"x": number}))
    wait(network)
    arrived: dict[tuple[int, str], int] = {}
    for one, other, packet in log.sends:
        if isinstance(packet, Publication):
            arrived[packet.number, other] = 1
            arrived.setdefault((packet.number, one), 0)
    sent_on = {(p.number, one) for one, _, p in log.sends if isinstance(p, Publication)}
    taken = {(p.number, node) for node, _, p in log.deliveries}
    dead = [key for key, came in arrived.items() if came and key not in sent_on | taken]
    charged = sum(router_of(network, str(node)).dead_ends for node in range(5))
    assert charged == len(dead) > 0


def test_waste_beyond_the_budget_takes_mergers_apart_also_when_the_load_changes() -> None:
    network, _ = network_with(Merging(most_filters=2, waste=1_000))
    for number in range(0, 60, 3):
        network.tell("0", Subscribe(f"s{number}", f"x = {number}"))
    wait(network, 15 * SECOND)
    few = len(told(network, "0", "1"))
    assert few <= 4
    router = router_of(network, "0")
    rates = []
    for _ in range(40):  # now everyone publishes what only the mergers match
        for number in range(100):
            network.tell("2", Publish({"x": 3 * (number % 20) + 1, "text": "a" * 20}))
        wait(network, SECOND)
        rates.append(router.merged["1"].rate)
    assert max(rates[:5]) > 1_000  # a step: it overshoots,
    assert max(rates[-10:]) <= 1_000  # and stays within the budget afterwards
    assert len(told(network, "0", "1")) > few


def test_a_merger_outlives_a_member_and_becomes_tight_again() -> None:
    network, log = network_with(Merging(most_filters=1, waste=10**9))
    for number in (1, 2, 90):
        network.tell("0", Subscribe(f"s{number}", f"x between {number} and {number + 1}"))
    wait(network, 5 * SECOND)
    assert told(network, "0", "1") == ["x between 1 and 91"]
    network.tell("0", Unsubscribe("s90"))
    wait(network, 100 * MILLISECOND)
    network.tell("2", Publish({"x": 1}))
    wait(network, 100 * MILLISECOND)
    assert len(log.deliveries) == 1
    wait(network, 3 * SECOND)
    assert told(network, "0", "1") == ["x between 1 and 3"]


TEXTS = [
    "x = 1",
    "x = 2",
    "x = 3 and y = 1",
    "x > 5",
    "x > 7",
    "y < 2",
    "y prefix 'a'",
    "not x = 1",
]
acts = st.lists(
    st.tuples(st.sampled_from(TEXTS), st.sampled_from(["toggle", "tune", "waste"])), max_size=40
)


@settings(max_examples=examples(60))
@given(acts, st.integers(1, 4), st.sampled_from([0, 50, 10**6]))
def test_what_is_told_always_covers_what_is_wanted(
    acts: list[tuple[str, str]], most: int, budget: int
) -> None:
    mergers = Mergers(most)
    wanted: dict[str, None] = {}
    seen: deque[dict[str, Any]] = deque([{"x": 4}, {"y": 1}])
    for text, act in acts:
        if act == "toggle" and text in wanted:
            del wanted[text]
            mergers.remove(text)
        elif act == "toggle":
            wanted[text] = None
            mergers.add(text)
        elif act == "waste":
            mergers.note({"x": 4, "y": 1}, 100, True)
        else:
            mergers.tune(budget, seen)
        filters = [filter_of(one) or Filter() for one in mergers.told()]
        for one in wanted:
            assert any(filter.covers(filter_of(one) or Filter()) for filter in filters)
        if not wanted:
            assert not filters
        members = [one for merger in mergers.mergers.values() for one in merger.members]
        assert sorted([*members, *mergers.alone]) == sorted(wanted)


def test_waste_is_reported_once_a_window_also_past_nodes_that_merge_nothing() -> None:
    network, log = network_of(line(4), "covering")
    router = router_of(network, "1")
    life, session = router.tables.life, router.tables.links["0"].session
    theirs = router_of(network, "0").tables.links["1"].session
    packet = Standing(life, session, 1, 1, theirs, 1, 700)
    log.sends.clear()
    network.tell("1", Received("0", packet))
    wait(network, 3 * SECOND)
    told = [(a, b, p.waste) for a, b, p in log.sends if isinstance(p, Standing) and p.waste]
    assert told == [("1", "2", 700), ("2", "3", 700)]


def test_reports_that_travel_round_a_cycle_stay_small() -> None:
    """Three nodes that believe for a while that all their links are of the tree."""
    network, log = network_with(Merging(), "ring:3")
    router = router_of(network, "0")
    for link in router.tables.links.values():
        link.waste = 1 << 39
    router._tune_at = network.now
    network.tell("0", Woken())
    wait(network, 3 * SECOND)
    sent = [p.waste for _, _, p in log.sends if isinstance(p, Standing)]
    assert max(sent) <= 1 << 40
    assert len(sent) < 100
