"""A policy for each link, chosen by measurement: what it costs at most; nothing gets lost."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.routing.reverse_path.test_router import line, wait
from tests.routing.running import Log, network_of, router_of
from tidings.routing.packets import Change
from tidings.routing.protocol import MILLISECOND, Publish, Subscribe, Unsubscribe
from tidings.routing.reverse_path.adapting import LONGEST, SHARE, SLACK, Ladder
from tidings.routing.reverse_path.knobs import Covering, Knobs
from tidings.routing.reverse_path.router import ReversePathRouter
from tidings.sim.network import Network

NEVER = 10**12  # bytes after which a link would try something: it stays on its lowest rung
STEP = 20 * MILLISECOND


def network_with(options: Knobs, count: int = 3) -> tuple[Network, Log]:
    return network_of(line(count), "covering", partial(ReversePathRouter, options=options))


def filters_told(log: Log) -> int:
    return sum(
        len(packet.added) + len(packet.removed)
        for _, _, packet in log.sends
        if isinstance(packet, Change)
    )


TEXTS = ["true", "x > 0", "x > 5", "x > 7", "x = 8", "y = 1", "y = 1 and x = 8", "not x = 1"]
toggles = st.lists(st.tuples(st.sampled_from("02"), st.sampled_from(TEXTS)), max_size=30)


@settings(max_examples=examples(20))
@given(toggles)
def test_the_lowest_rung_never_tells_more_than_exact_or_covering(
    acts: list[tuple[str, str]],
) -> None:
    spent: list[int] = []
    for options in (Covering(policy="adaptive", trial=NEVER), Knobs(), Covering()):
        network, log = network_with(options)
        log.sends.clear()
        held: set[str] = set()
        for node, text in acts:
            id = f"{node} {text}"
            held ^= {id}
            network.tell(node, Subscribe(id, text) if id in held else Unsubscribe(id))
            wait(network, STEP)
        spent.append(filters_told(log))
    assert spent[0] <= min(spent[1:])


def test_a_filter_that_becomes_covered_stays_told_while_someone_wants_it() -> None:
    network, log = network_with(Covering(policy="adaptive", trial=NEVER))
    told = router_of(network, "0").tables.links["1"].told
    network.tell("0", Subscribe("narrow", "x > 5"))
    network.tell("0", Subscribe("wide", "x > 0"))
    network.tell("0", Subscribe("late", "x > 7"))
    assert list(told) == ["x > 5", "x > 0"]
    log.sends.clear()
    network.tell("0", Unsubscribe("wide"))  # nothing is uncovered that is not told already
    assert list(told) == ["x > 5"]
    network.tell("0", Unsubscribe("narrow"))
    assert list(told) == ["x > 7"]


acts = st.lists(st.tuples(st.booleans(), st.integers(1, 300)), max_size=600)


@settings(max_examples=examples(40))
@given(acts, st.integers(16, 2_000))
def test_what_a_link_loses_by_trials_is_a_small_part_of_what_it_spends(
    acts: list[tuple[bool, int]], first: int
) -> None:
    """Whatever comes; a trial may be beyond its allowance by one change or event."""
    ladder = Ladder(first)
    precise = 0
    for is_change, size in acts:
        if is_change:
            precise += size
            ladder.told(size if ladder.policy == "covering" else 0, size)
        else:
            ladder.came(size if ladder.policy == "everything" else size // 2)
        assert ladder.step() or not ladder.is_due
    failed = (ladder.steps + 1) // 2
    share = precise // (SHARE // 2) + first * LONGEST // SHARE
    assert ladder.spent <= precise + share + (SLACK + 300) * failed


def loaded(changes: int, events: int, acts: int = 400) -> tuple[Network, Log]:
    """Node 0 changes what it wants, and node 2 publishes what nobody does."""
    network, log = network_with(Covering(policy="adaptive", trial=1_024))
    for number in range(20):
        network.tell("0", Subscribe(f"s{number}", f"x = {number} and site = 'Oslo'"))
    go_on(network, changes, events, acts)
    return network, log


def go_on(network: Network, changes: int, events: int, acts: int) -> None:
    chance = Random(1)
    for act in range(acts):
        if chance.randrange(changes + events) < changes:
            network.tell("0", Subscribe(f"s{act % 20}", f"x = {act} and site = 'Oslo'"))
        else:
            network.tell("2", Publish({"x": -act, "site": "Oslo"}))
        wait(network, STEP)


def policies(network: Network) -> tuple[str, str]:
    """Of the links by which 0 and 1 hear of what 2 publishes."""
    return router_of(network, "0").policy_of("1"), router_of(network, "1").policy_of("2")


def test_a_link_with_many_changes_asks_for_everything_and_one_with_many_events_does_not() -> None:
    network, _ = loaded(changes=20, events=1)
    assert policies(network)[0] == "everything"
    held = router_of(network, "1").wanted.by("0")
    assert "true" in held
    go_on(network, changes=1, events=20, acts=200)  # the load changes
    assert policies(network)[0] != "everything"
    assert "true" not in held
    network, _ = loaded(changes=1, events=20)
    assert policies(network)[0] != "everything"


def test_steps_become_rare_where_they_do_not_pay() -> None:
    network, _ = loaded(changes=1, events=1, acts=400)
    early = router_of(network, "0").figures()["steps"]
    go_on(network, changes=1, events=1, acts=400)
    late = router_of(network, "0").figures()["steps"]
    assert late - early <= max(2, early)


@pytest.mark.parametrize("changes", [1, 10])
def test_nothing_is_missed_while_links_change_their_policies(changes: int) -> None:
    network, log = network_with(Covering(policy="adaptive", trial=64, most_filters=2), 4)
    network.tell("0", Subscribe("all", "site = 'Bergen' and n >= 0"))
    chance = Random(changes)
    wait(network)
    for number in range(300):
        network.tell("3", Publish({"site": "Bergen", "n": number}))
        busy = number // 50 % 2  # half of the time much is published that nobody wants
        for _ in range(changes * (1 - busy)):
            some = chance.randrange(8)
            text = f"site = 'Bergen' and n > {-chance.randrange(3)} and x = {chance.randrange(99)}"
            network.tell("0", Subscribe(f"s{some}", text))
        for _ in range(3 * busy):
            network.tell("3", Publish({"site": "Oslo", "x": number}))
        wait(network, STEP // 4)
    wait(network)
    assert sorted(p.event["n"] for _, ids, p in log.deliveries if "all" in ids) == list(range(300))
    assert router_of(network, "0").figures()["steps"] >= 4


def test_what_everything_makes_superfluous_is_taken_back_when_that_is_cheap() -> None:
    network, _ = loaded(changes=1, events=0, acts=700)
    told = router_of(network, "0").tables.links["1"].told
    assert list(told) == ["true"]
    for number in range(20):
        network.tell("0", Unsubscribe(f"s{number}"))
    assert list(told) == []
