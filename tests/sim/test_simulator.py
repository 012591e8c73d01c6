"""The simulator: one seed decides all, the oracle sees what is wrong, and protocols hold."""

import os
import subprocess
import sys
from itertools import islice, pairwise
from random import Random

import pytest

from tests.effort import SOAK
from tests.places import ROOT
from tidings.language.predicate import parse
from tidings.routing.layers.delivery import DELIVERY
from tidings.routing.layers.matching import MATCHING
from tidings.routing.packets import Answer, Publication
from tidings.routing.protocol import MILLISECOND, SECOND, Answered, Deliver, Established
from tidings.routing.protocols import PROTOCOLS
from tidings.sim.faults import FAULTS
from tidings.sim.layer_plants import FOLLOWING, KEYED
from tidings.sim.ledger import Ledger
from tidings.sim.load import Test as Condition
from tidings.sim.load import Want, draw_event, draw_want
from tidings.sim.network import Network, Node
from tidings.sim.oracle import Oracle, truth_of
from tidings.sim.plants import PLANTS, catch
from tidings.sim.swarm import SwarmError, check_protocol, fault_kinds, swarm
from tidings.sim.trial import ALL_FAULTS, POLL, Trial, Verdict, draw_options, run_trial

TRACES = """
from tidings.sim.trial import ALL_FAULTS, draw_options, run_trial
for protocol in ("cbcb", "subscriptions", "flood", "regions-list"):
    for seed in (1, 2):
        print(run_trial(draw_options(seed, "small", protocol, ALL_FAULTS)).trace)
"""

REVERSE_PATH = ("subscriptions", "covering", "advertisements", "merging", "rooted")
CYCLES = ("path-cost", "path-entries", "cbcb:covering=bridges", "cbcb:covering=paths")
OVERLAYS = (
    "chord-trees",
    "chord-trees:substrate=pastry,leaves=2",
    "scribe:type=kind,groups=5",
    "scribe:type=kind,groups=5,substrate=pastry,leaves=2",
    "scribe:substrate=pastry",
    "hermes",
    "hermes:type=kind,trees=7",
)
LAYERED = "regions-list:rendezvous=hash:kind,hops=2,replicas=2"


def traces(code: str, hash_seed: str) -> list[str]:
    """What a program prints, in a process that hashes as this seed says."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()


@pytest.mark.swarm
def test_a_seed_gives_the_same_trace_in_processes_that_hash_differently() -> None:
    first = traces(TRACES, "1")
    assert len(set(first)) == 8
    assert first == traces(TRACES, "2")


def failures(verdicts: list[Verdict]) -> str:
    return "\n".join(
        f"seed {v.options.seed} {v.options}: {v.violations}" for v in verdicts if v.violations
    )


def total(verdicts: list[Verdict]) -> Ledger:
    ledger = Ledger()
    for verdict in verdicts:
        ledger.add(verdict.ledger)
    return ledger


def test_a_few_seeds_find_nothing_wrong(seed: int) -> None:
    for protocol, row in PROTOCOLS.items():
        chosen = [1, seed] if row.effort == 1 else [seed] if row.proven else [1]
        assert not failures(list(swarm("small", protocol, ALL_FAULTS, chosen)))


# What `make soak` does for hours.
@pytest.mark.swarm
@pytest.mark.parametrize(
    ("protocol", "seeds"),
    [
        ("cbcb", 10),
        ("flood", 6),
        (LAYERED, 4),
        (FOLLOWING, 2),
        *((name, 2) for name in (*REVERSE_PATH, *CYCLES)),
    ],
)
def test_a_swarm_finds_nothing_wrong(protocol: str, seeds: int, seed: int) -> None:
    seeds *= 50 if SOAK else 1
    chosen = [*range(seeds // 2), *range(seed, seed + seeds // 2)]
    verdicts = list(swarm("small", protocol, ALL_FAULTS, chosen))
    assert not failures(verdicts)
    ledger = total(verdicts)
    assert ledger.delivered > 100 * seeds
    assert ledger.lost_when_stable == ledger.duplicated == ledger.unexpected == 0
    assert ledger.expected + ledger.surplus == ledger.delivered + ledger.lost + ledger.withdrawn
    assert sum(ledger.faults.values()) > seeds


@pytest.mark.soak
@pytest.mark.parametrize("name", [*REVERSE_PATH, *CYCLES])
def test_every_row_of_the_reverse_path_bears_all_faults(name: str) -> None:
    assert not failures(list(swarm("small", name, ALL_FAULTS, range(300))))
    assert not failures(list(swarm("ba:40", name, ALL_FAULTS, range(40))))


@pytest.mark.soak
@pytest.mark.parametrize("name", OVERLAYS)
def test_every_row_on_a_structured_overlay_bears_all_faults(name: str) -> None:
    assert not failures(list(swarm("small", name, ALL_FAULTS, range(300))))
    assert not failures(list(swarm("ba:40", name, ALL_FAULTS, range(40))))


@pytest.mark.soak
@pytest.mark.parametrize("how", DELIVERY)
@pytest.mark.parametrize("who", MATCHING)
def test_every_pair_of_layers_bears_all_faults(who: str, how: str) -> None:
    assert not failures(list(swarm("small", f"{who}-{how}", ALL_FAULTS, range(300))))
    assert not failures(list(swarm("ba:40", f"{who}-{how}", ALL_FAULTS, range(40))))


@pytest.mark.soak
def test_places_that_follow_load_bear_all_faults() -> None:
    assert not failures(list(swarm("small", FOLLOWING, ALL_FAULTS, range(300))))
    assert not failures(list(swarm("ba:40", FOLLOWING, ALL_FAULTS, range(40))))


@pytest.mark.swarm
def test_settings_are_not_owed_to_nodes_that_are_cut_off() -> None:
    """In this seed a node leaves for good, and the tree falls apart before settings change."""
    verdict = run_trial(draw_options(70, "small", KEYED, ALL_FAULTS))
    assert not failures([verdict])
    assert verdict.options.resets
    assert verdict.ledger.faults["leave"]


@pytest.mark.swarm
def test_replies_may_go_over_to_another_path_that_is_as_short() -> None:
    """In this seed a network is right by one path, and then a link of another is up again."""
    verdict = run_trial(draw_options(187, "small", KEYED, ALL_FAULTS))
    assert not failures([verdict])
    assert verdict.ledger.faults["one-way"]
    assert verdict.ledger.answered


@pytest.mark.swarm
def test_nothing_is_owed_while_a_link_carries_what_a_storm_has_held_up() -> None:
    """In this seed a link that was slow has nine seconds to carry when the storm is over."""
    protocol = "hermes:type=kind,trees=7"
    verdict = run_trial(draw_options(3_010_028, "small", protocol, ALL_FAULTS))
    assert not failures([verdict])
    assert verdict.ledger.faults["slow"]
    assert verdict.ledger.answered


@pytest.mark.swarm
def test_settings_that_change_while_nodes_crash_lose_nothing_afterwards(seed: int) -> None:
    """Nothing that is published when the network is stable; settings change in all of these."""
    seeds = 100 if SOAK else 1
    for first in (0, seed):
        options = (
            draw_options(s, "small", LAYERED, ("crash", "leave")) for s in range(first, 2**63)
        )
        verdicts = [run_trial(o) for o in islice((o for o in options if o.resets), seeds)]
        assert not failures(verdicts)
        assert total(verdicts).faults


@pytest.mark.swarm
def test_a_planted_bug_is_caught(seed: int) -> None:
    """Some of the plants, others in each run; `make soak` tries all."""
    for name in Random(f"plants {seed}").sample(sorted(PLANTS), 4):
        assert catch(name) is not None, f"{name}: a broken protocol went unnoticed"


@pytest.mark.soak
@pytest.mark.parametrize("first", [None, 1_000, 2_000, 3_000])
@pytest.mark.parametrize("name", PLANTS)
def test_every_planted_bug_is_caught(name: str, first: int | None) -> None:
    assert catch(name, first=first) is not None


@pytest.mark.parametrize("kind", FAULTS)
def test_every_kind_of_fault_strikes_and_is_survived(kind: str) -> None:
    verdict = run_trial(draw_options(0, "ring:6", "cbcb", (kind,)))
    assert not failures([verdict])
    assert verdict.ledger.faults[kind]


@pytest.mark.parametrize("name", ["subscriptions", "advertisements", "merging"])
def test_link_tables_that_are_corrupted_are_mended(name: str) -> None:
    verdict = run_trial(draw_options(3, "ring:6", name, ("corrupt",)))
    assert not failures([verdict])
    assert verdict.ledger.faults["corrupt"]


def test_nodes_of_different_policies_work_together_in_storms() -> None:
    """A seed in which each node draws its own policy; `simulate` tries many."""
    drawn = (draw_options(seed, "ring:6", "covering", ALL_FAULTS) for seed in range(100))
    mixed = next(options for options in drawn if options.mixed)
    assert not failures([run_trial(mixed)])


def test_without_faults_nothing_is_lost_at_all() -> None:
    verdicts = list(swarm("grid:3x3", "cbcb", (), range(3)))
    assert not failures(verdicts)
    assert total(verdicts).lost_when_stable == 0


# The oracle


class Place:
    """Two nodes and an oracle, told by hand what happens."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.oracle = Oracle(self.ledger)
        self.network = Network(lambda name, life: None, self.oracle, Random(1))  # type: ignore[arg-type, return-value]
        self.a, self.b = self.network.add_node("a"), self.network.add_node("b")
        self.network.add_link("a", "b", 1, MILLISECOND)
        self.a.running = self.b.running = True
        truth = truth_of(self.network)
        self.oracle.found_right(self.oracle.situation(self.network, truth, tuple, exact=False))
        self.oracle.subscribe("s", "b", Want(((Condition("kind", "=", 1),),)))

    def publish(self, number: int = 1, kind: int = 1, stable: bool = True) -> Publication:
        event = {"number": number, "kind": kind}
        self.oracle.publish(event, "a", stable, truth_of(self.network))
        return Publication("a", 1, number, event)

    def deliver(self, publication: Publication, node: Node, *ids: str) -> None:
        self.oracle.delivered(0, node, Deliver(ids, publication))

    def complaints(self) -> list[str]:
        return [violation.split()[2] for violation in self.oracle.violations]


def test_the_oracle_sees_what_is_delivered_twice_or_to_the_wrong_one_or_invented() -> None:
    place = Place()
    wanted, other = place.publish(1), place.publish(2, kind=2)
    place.deliver(wanted, place.b, "s")
    place.deliver(wanted, place.b, "s")
    place.deliver(other, place.b, "s")
    place.deliver(wanted, place.a, "s")
    place.deliver(Publication("a", 1, 9, {"number": 9, "kind": 1}), place.b, "s")
    place.deliver(Publication("a", 1, 1, {"number": 1, "kind": 1, "more": 1}), place.b, "s")
    assert place.complaints() == [
        *("twice:", "unexpected:", "unexpected:", "invented:", "invented:")
    ]
    assert (place.ledger.delivered, place.ledger.duplicated, place.ledger.unexpected) == (1, 1, 4)


def test_the_oracle_sees_what_is_lost_after_it_was_established() -> None:
    place = Place()
    place.publish(1)  # before: may get lost
    place.oracle.established(0, place.b, Established(("s",)))
    place.publish(2)
    place.publish(3, stable=False)
    for number in (1, 2, 3):
        place.oracle.close(number, 5 * SECOND)
    assert place.complaints() == ["lost:"]
    assert (place.ledger.lost, place.ledger.lost_when_stable) == (2, 1)


def test_nothing_is_owed_to_who_has_unsubscribed() -> None:
    place = Place()
    place.oracle.established(0, place.b, Established(("s",)))
    place.publish(1)
    place.oracle.unsubscribe("s")
    place.oracle.close(1, 5 * SECOND)
    assert place.complaints() == []
    assert place.ledger.withdrawn == 1


def test_the_oracle_sees_an_event_that_takes_a_link_twice() -> None:
    place = Place()
    publication = place.publish(1)
    for _ in range(2):
        place.oracle.sent(0, place.a, "b", publication, 10)
    assert place.complaints() == ["loop:"]


def test_the_oracle_sees_that_what_is_not_held_is_said_to_be_established() -> None:
    place = Place()
    place.oracle.established(0, place.a, Established(("s", "nobody")))
    assert place.complaints() == ["unexpected:", "unexpected:"]


@pytest.mark.parametrize(
    ("path", "complaints"),
    [
        ("ba", []),
        ("bca", []),  # another path, as short
        ("bcba", ["detour:"]),
        ("bc", ["detour:"]),
        ("bda", ["detour:"]),  # by a link that was not there
    ],
)
def test_the_oracle_sees_a_reply_that_takes_no_shortest_path(
    path: str, complaints: list[str]
) -> None:
    place = Place()
    place.network.costs["a", "b"] = place.network.costs["b", "a"] = 2
    place.network.add_node("c").running = True
    for end in ("a", "b"):
        place.network.add_link("c", end, 1, MILLISECOND)
    place.network.add_node("d")
    truth = truth_of(place.network)
    place.oracle.found_right(place.oracle.situation(place.network, truth, tuple, exact=False))
    place.oracle.reply(7, "b", place.publish(), due=True, gone=False, path=[("b", "a")])
    for node, target in pairwise(path):
        answer = Answer("a", 1, 1, "b", 1, 7, {"reply": 7})
        place.oracle.sent(0, place.network.nodes[node], target, answer, 10)
    place.a.life = 1
    place.oracle.told(0, place.a, Answered(1, {"reply": 7}, "b", 1, 7))
    place.oracle.close_reply(7, 5 * SECOND, stable=True)
    assert place.complaints() == complaints


def test_what_the_load_asks_for_is_what_the_language_reads(seed: int) -> None:
    chance = Random(seed)
    for number in range(300):
        want, event = draw_want(chance), draw_event(chance, number)
        assert parse(str(want)).matches(event) == want.wants(event), (want, event)


# Clocks and links


def test_clocks_that_differ_are_read_and_set_consistently(seed: int) -> None:
    chance = Random(seed)
    for _ in range(500):
        node = Node("a", chance.randrange(10**12), chance.randint(900, 1_100))
        time = node.offset + chance.randrange(10**12)
        moment = node.moment(time)
        assert node.clock(moment) >= time
        assert node.clock(moment - 1) < time


def test_a_storm_is_over_when_links_have_carried_what_it_has_held_up() -> None:
    trial = Trial(draw_options(0, "ring:6", "cbcb", ("slow",)), None)
    link = trial.network.links["0", "1"]
    link.free_at = 60 * SECOND
    trial.blow()
    assert link.free_at <= trial.network.now + POLL


# The command's words


def test_faults_and_protocols_are_named_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault_kinds("all") == tuple(FAULTS)
    assert fault_kinds("none") == ()
    with pytest.raises(SwarmError, match="found 'rain'"):
        fault_kinds("cut,rain")
    with pytest.raises(SwarmError, match="expected one of cbcb"):
        check_protocol("bgp", True)
    acyclic = PROTOCOLS["subscriptions"]._replace(any_graph=False)
    monkeypatch.setitem(PROTOCOLS, "acyclic", acyclic)
    with pytest.raises(SwarmError, match="without cycles"):
        check_protocol("acyclic", False)
    assert {"cbcb", "subscriptions", "flood"} < set(PROTOCOLS)
