"""Whole routers and clients on streams: seeds find nothing wrong, and planted bugs are found."""

from random import Random

import pytest

from tests.effort import SOAK, examples
from tests.sim.test_simulator import traces
from tidings.routing.planes import interests
from tidings.routing.protocol import MILLISECOND, SECOND
from tidings.sim.cluster_plants import CLUSTER_PLANTS, catch_in_cluster, draw_for
from tidings.sim.cluster_swarm import Tally, cluster_fault_kinds, cluster_swarm
from tidings.sim.cluster_trial import (
    CONVERGED,
    ClusterTrial,
    draw,
    draw_cross,
    draw_limits,
    draw_stall,
    run,
)
from tidings.sim.judge import Account, Judge
from tidings.sim.predicates import Always, Condition, Negation, permits
from tidings.sim.stalls import STALLS, Paths
from tidings.sim.storms import BENIGN, HARMFUL
from tidings.sim.swarm import SwarmError

TRACES = """
from tidings.sim.cluster_trial import draw, run
print(*(run(draw(seed)).trace for seed in (1, 2, 7)))
"""


def failures(text: str, faults: str, seeds: range, cross: int = 0) -> tuple[str, Tally]:
    tally = Tally()
    found = []
    for result in cluster_swarm(text, faults, seeds, cross):
        tally.add(result)
        if result.violations:
            found.append(f"seed {result.drawn.seed} {result.drawn}: {result.violations[:5]}")
    return "\n".join(found), tally


# What `make soak` does for hours.
@pytest.mark.parametrize("part", range(4))
def test_seeds_find_nothing_wrong(part: int, seed: int) -> None:
    count = examples(4) * (50 if SOAK else 1)
    begins = [1_000_000 + part * 100_000]
    if SOAK:  # seeds that nobody has tried
        begins.append(10_000_000 + seed % 1_000_000 * 10 + part * 1_000)
    for first in begins:
        wrong, tally = failures("small", "all", range(first, first + count))
        assert not wrong
        counts = tally.as_dict()
        assert counts["delivered"] > count
        assert counts["lost_when_stable"] == counts["duplicated"] == counts["unexpected"] == 0


def test_routers_without_steps_for_the_algebra_lose_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interests, "STEPS", 0)
    wrong, tally = failures("ring:4", "all", range(40, 43))
    assert not wrong
    assert tally.as_dict()["delivered"] > 3


SEEDS = {
    9_000_157: "a subscription is refused, and its replacement is accepted",
    9_002_229: "lines are slow and predicates long, so that routers settle late",
    9_100_932: "a subscription is refused, and so is its replacement",
    9_620_011: "lines are so slow that routers ask again before any answer can come",
}


@pytest.mark.parametrize("number", SEEDS)
def test_a_seed_that_once_found_something_finds_nothing_more(number: int) -> None:
    wrong, _ = failures("small", "all", range(number, number + 1))
    assert not wrong, SEEDS[number]


@pytest.mark.parametrize("topology", ["ring:3", "ring:5", "ring:12", "grid:3x3"])
def test_saturating_traffic_across_cycles_comes_to_its_end(topology: str, seed: int) -> None:
    wrong, tally = failures(topology, "none", range(seed, seed + 1), cross=12)
    assert not wrong
    counts = tally.as_dict()
    assert counts["delivered"] == counts["expected"] == counts["published"] >= 3 * 12


@pytest.mark.soak
@pytest.mark.parametrize("topology", ["ring:24", "ring:40", "grid:6x6", "ba:40", "waxman:30"])
def test_saturating_traffic_in_larger_networks_comes_to_its_end(topology: str, seed: int) -> None:
    wrong, _ = failures(topology, "none", range(seed, seed + 3), cross=100)
    assert not wrong


@pytest.mark.parametrize("kind", [*BENIGN, *HARMFUL])
def test_every_kind_of_fault_strikes_and_is_survived(kind: str) -> None:
    benign, harmful = cluster_fault_kinds(kind) or ((), ())
    drawn = draw(3, "ring:4", benign, harmful)
    result = run(drawn._replace(faults=4))
    assert not result.violations
    assert result.counts[f"fault {kind}"]


@pytest.mark.swarm
def test_a_planted_bug_of_a_router_or_a_client_is_caught(seed: int) -> None:
    """Some of the plants, others in each run; `make soak` tries all."""
    for name in Random(f"plants {seed}").sample(sorted(CLUSTER_PLANTS), 6):
        assert catch_in_cluster(name) is not None, f"{name}: went unnoticed"


@pytest.mark.soak
@pytest.mark.parametrize("name", CLUSTER_PLANTS)
def test_every_planted_bug_of_a_router_or_a_client_is_caught(name: str) -> None:
    caught = catch_in_cluster(name)
    assert caught is not None, "a broken router or client went unnoticed: the judge is broken"
    # Without the bug the same seed is fine, unless the bug is a bound that does not fit the others.
    plant = CLUSTER_PLANTS[name]
    if plant.changes:
        assert not run(draw_for(plant, caught.drawn.seed)).violations


@pytest.mark.swarm
def test_a_seed_gives_the_same_bytes_in_processes_that_hash_differently() -> None:
    first = traces(TRACES, "1")
    assert len(set(first)) == 3
    assert first == traces(TRACES, "2")


# What befalls a network, and what is left of it


def test_links_that_are_taken_away_one_after_the_other_all_come_back() -> None:
    trial = ClusterTrial(draw(1, "star:4"))
    before = {address: set(one.links) for address, one in trial.settings.items()}
    undo = [HARMFUL["remove link"](trial.weather) for _ in range(sum(map(len, before.values())))]
    assert not any(one.links for one in trial.settings.values())
    for one in undo:
        assert one is not None
        one()
    assert {address: set(one.links) for address, one in trial.settings.items()} == before


def test_short_delays_of_the_same_machines_do_not_add_up_to_a_long_one() -> None:
    trial = ClusterTrial(draw(1, "line:2")._replace(programs=1))
    for kind in ("hold link", "cut link", "pause router", "hold client"):
        trial.weather.strike(kind)
        trial.weather.end()
    assert trial.weather.counts == {"hold link": 1, "hold client": 1}
    trial.go(2 * SECOND)
    trial.weather.strike("pause router")
    assert trial.weather.counts["pause router"] == 1
    trial.weather.strike("stall router")  # which may be as long as it likes
    assert trial.weather.counts["stall router"] == 1


def test_a_stranger_passes_for_a_router_only_where_that_does_no_harm() -> None:
    """A router that floods would send it events, and miss it when it falls silent."""
    for protocol, passes in (("cbcb", True), ("flood", False)):
        drawn = draw(1, "line:1", ("stranger",), ())
        trial = ClusterTrial(drawn._replace(protocol=protocol, programs=0))
        for _ in range(40):
            trial.weather.strike("stranger")
        trial.go(500 * MILLISECOND)
        assert bool(trial.cluster.routers["0"].core.links) == passes


def test_a_network_is_not_stable_before_its_routers_are_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = ClusterTrial(draw(1, "line:1", (), ())._replace(programs=0))
    protocol = trial.cluster.routers["0"].core.protocol
    settled_at = CONVERGED + SECOND
    monkeypatch.setattr(protocol, "is_settled", lambda: trial.agenda.now >= settled_at)
    trial.converge()
    assert trial.agenda.now == settled_at
    assert not trial.judge.violations
    monkeypatch.setattr(protocol, "is_settled", lambda: False)
    trial.converge()
    assert [one.split(": ", 1)[1] for one in trial.judge.violations] == ["stuck: 0 not settled"]


def test_what_was_given_up_a_moment_ago_is_no_ghost() -> None:
    trial = ClusterTrial(draw(1, "line:1", (), ())._replace(programs=1))
    trial.go(CONVERGED)
    program = trial.programs[0]
    program.subscribe(WANT)
    trial.go(CONVERGED)
    held = list(program.held.values())[-1]
    assert held.inbox is not None
    assert held.known_established
    program.core.give_up(held.inbox)
    assert held.over
    trial.settle()
    trial.drain()
    assert not trial.judge.violations


def test_what_is_drawn_to_go_into_a_frame_fits() -> None:
    for number in range(200):
        limits = draw_limits(Random(number))
        parts = limits.event_bytes, limits.delivery_batch_bytes, limits.publish_batch_bytes
        assert max(parts) <= limits.client_frame // 2


# The judge

WANT = Condition("kind", "", "=", False, 1)
OTHER = Condition("kind", "", "=", False, 2)


class Court:
    """A judge with one subscription at router `b`, told by hand what happens."""

    def __init__(self) -> None:
        self.judge = Judge()
        self.judge.stable = True
        self.judge.subscribe(7, "ben", "b", WANT, None)
        self.judge.establish(7, 0)

    def publish(
        self, number: int, kind: int = 1, router: str = "a", level: str = "received"
    ) -> None:
        event = {"n": number, "kind": kind}
        self.judge.publish(number, event, "ada", router, level, True, number)

    def take(self, number: int, kind: int = 1) -> None:
        self.judge.take(7, {"n": number, "kind": kind}, 100)

    def complaints(self) -> list[str]:
        self.judge.close(SECOND, {})
        return [violation.split()[2] for violation in self.judge.violations]


def test_the_judge_sees_what_is_delivered_wrongly() -> None:
    court = Court()
    for number in (1, 2):
        court.publish(number)
        court.judge.settle(number, "ok", 50)
    court.publish(3, kind=2)
    court.judge.settle(3, "ok", 50)
    court.take(2)
    court.take(1)
    court.take(1)
    court.take(3, kind=2)
    court.take(9)
    court.take(2, kind=5)
    assert court.complaints() == [
        *("out", "twice:", "out", "unexpected:", "invented:", "changed:", "twice:", "out")
    ]


def test_the_judge_sees_what_is_lost_and_what_has_no_outcome() -> None:
    court = Court()
    court.publish(1)
    court.publish(2)
    court.judge.settle(1, "ok", 50)
    assert sorted(court.complaints()) == ["lost:", "lost:", "stuck:"]


def test_faults_excuse_losses_between_routers_and_none_within_one() -> None:
    court = Court()
    court.judge.unstable()
    court.publish(1, router="a")
    court.publish(2, router="b")
    for number in (1, 2):
        court.judge.settle(number, "ok", 50)
    assert court.complaints() == ["lost:"]
    assert court.judge.counts["lost"] == 1


def test_nothing_is_owed_after_a_replacement_that_does_not_match() -> None:
    court = Court()
    court.publish(1)
    court.judge.settle(1, "ok", 50)
    court.judge.replace(7, OTHER)
    assert court.complaints() == []


def test_a_replacement_that_was_refused_is_not_what_is_established_later() -> None:
    court = Court()
    court.judge.replace(7, OTHER)
    court.judge.refuse_replace(7, OTHER, 10)
    court.judge.establish(7, 20)
    court.publish(30)
    court.publish(31, kind=2)
    for number in (30, 31):
        court.judge.settle(number, "ok", 50)
    court.take(30)
    assert court.complaints() == []


def test_delivered_means_taken() -> None:
    court = Court()
    court.publish(1, level="delivered")
    court.judge.settle(1, "ok", 50)
    court.take(1)
    assert court.complaints() == ["event"]


def test_an_interruption_needs_a_cause() -> None:
    court = Court()
    court.judge.interrupt("ben", [7], 10)
    court.judge.cause("ben")
    court.judge.interrupt("ben", [7], 20)
    assert court.complaints() == ["ben"]


def test_dropped_deliveries_excuse_as_many_and_no_more() -> None:
    for dropped, wrong in ((2, 0), (1, 2)):
        court = Court()
        for number in (1, 2):
            court.publish(number)
            court.judge.settle(number, "ok", 50)
        court.judge.close(SECOND, {"ben": dropped})
        assert len(court.judge.violations) == wrong


def test_rights_that_change_withdraw_what_they_forbid_and_owe_what_they_add_only_at_rest() -> None:
    court = Court()
    court.publish(1)
    court.judge.settle(1, "ok", 50)
    court.judge.restrict("ben", OTHER, 60)
    court.publish(2)  # its new rights forbid it
    court.judge.settle(2, "ok", 90)
    assert not court.judge.open
    court.take(1)  # it was published before
    assert court.complaints() == []
    court.publish(70)
    court.judge.settle(70, "ok", 80)
    court.take(70)
    assert court.complaints() == ["unexpected:"]


def test_what_is_published_while_rights_change_may_be_refused_or_not() -> None:
    for outcome in ("ok", "refused"):
        court = Court()
        court.publish(1)
        court.judge.reconsider("ada", lambda event: False)
        court.judge.settle(1, outcome, 50)
        if outcome == "ok":
            court.take(1)
        assert court.complaints() == []


def test_only_sources_with_events_for_what_stands_still_are_held_back() -> None:
    judge = Judge()
    judge.stable = True
    for id, (user, router, want) in enumerate((("ben", "b", WANT), ("cat", "c", OTHER)), 1):
        judge.subscribe(id, user, router, want, None)
        judge.establish(id, 0)
    judge.publish(10, {"n": 10, "kind": 1}, "ada", "a", "received", True, 5)
    judge.publish(11, {"n": 11, "kind": 2}, "dan", "d", "received", True, 5)
    held_back = judge.held_back(1, lambda source, wanting: wanting[0].user == "ben")
    assert held_back == {"a"}
    assert judge.waiting(1, held_back, {"ben"}) == ["event 11 of dan at d"]
    assert judge.waiting(1, set(), {"ben"}) == ["event 10 of ada at a", "event 11 of dan at d"]
    for number in (10, 11):
        judge.settle(number, "ok", 20)
    assert judge.waiting(1, set(), {"ben"}) == ["event 11 of dan at d"]


def test_an_event_goes_a_link_too_far_where_one_predicate_stands_for_an_interface() -> None:
    paths = Paths(ClusterTrial(draw(1, "ring:5", (), ())._replace(programs=0)))
    wanting = [Account(1, "ben", "2", None, [(WANT, None)])]
    assert paths.taken("3", wanting) == {("3", "2")}
    # From 0, 2 lies behind 1; and the path from 4 to 1 passes through 0.
    assert paths.taken("4", wanting) == {("4", "3"), ("3", "2")}
    wanting.append(Account(2, "cat", "0", None, [(WANT, None)]))
    assert paths.taken("4", wanting) == {("4", "3"), ("3", "2"), ("4", "0"), ("0", "1")}


@pytest.mark.parametrize("kind", STALLS)
def test_a_flow_stalls_only_if_it_needs_what_stands_still(kind: str, seed: int) -> None:
    result = run(draw_stall(seed, "ring:7", kind)._replace(cross=12))
    assert not result.violations
    assert result.counts[f"fault {kind}"] == 1
    assert result.counts["held back"] < 7  # events take two links, in either direction


def test_a_right_holds_for_every_element_of_a_list() -> None:
    assert permits(WANT, {"kind": 1})
    assert permits(WANT, {"kind": [1, 1.0], "tags": ["a", "b"]})
    assert not permits(WANT, {"kind": [1, 2]})
    assert permits(Negation(OTHER), {"kind": [1, {"kind": 2}]})
    assert permits(Always(True), {"host": [{"name": ["a", "b"]}]})


# The command's words, and what a seed draws


def test_faults_are_named_or_refused() -> None:
    assert cluster_fault_kinds("all") is None
    assert cluster_fault_kinds("none") == ((), ())
    assert cluster_fault_kinds("twin, stranger") == (("stranger",), ("twin",))
    with pytest.raises(SwarmError, match="found 'rain'"):
        cluster_fault_kinds("twin,rain")


def test_a_seed_is_drawn_the_same_again_and_differs_from_others() -> None:
    assert draw(5) == draw(5)
    assert draw(5) != draw(6)
    crossing = draw_cross(5, "ring:5", 20)
    assert (crossing.cross, crossing.benign, crossing.harmful) == (20, (), ())
    assert crossing.calm_ns == 300 * MILLISECOND
