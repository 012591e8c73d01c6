"""Places that follow load (L7), in the protocol: nothing is lost or doubled while they do."""

from collections import Counter
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.routing.layers.network import layered, subscribed
from tests.routing.running import router_of
from tidings.overlay.topologies import topology
from tidings.routing.layers.epochs import Epoch, Epochs
from tidings.routing.layers.following import Decision, Need, decided
from tidings.routing.layers.placement import Regions, Width
from tidings.routing.layers.router import LayeredRouter
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import Adapted, Listed, Loads
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Configure,
    LinkUp,
    Publish,
    Received,
    Subscribe,
)

FOLLOWING = Layering(
    matching="regions",
    rendezvous="hash:k",
    replicas=2,
    hops=4,
    adapt_ms=500,
    room=6,
    rate=10,
)
WIDTHS = st.dictionaries(
    st.integers(0, 41), st.builds(Width, st.integers(1, 9), st.integers(1, 9)), max_size=20
)


@given(
    st.builds(Regions, st.integers(1, 40), st.integers(1, 9), WIDTHS),
    st.integers(0, 41),
    st.integers(0, 2**20),
    st.integers(0, 2**20),
)
def test_an_event_meets_a_subscription_of_its_key_exactly_once_whatever_the_widths(
    shape: Regions, key: int, draw: int, other: int
) -> None:
    visits = shape.visits(key, draw)
    assert 1 <= len(visits) == len(set(visits)) <= min(shape.hops, shape.regions)
    homes = shape.homes(key, other)
    assert len(homes) == len(set(homes))
    assert len(set(visits) & set(homes)) == 1


class Network:
    """A network whose places follow load, with one subscription or more for each key."""

    def __init__(self, settings: Layering = FOLLOWING, nodes: int = 12, wanting: int = 20) -> None:
        self.network, self.log = layered(topology(f"ba:{nodes}", 3), settings)
        self.names = sorted(self.network.nodes)
        self.chance = Random("following")
        self.wants: dict[str, int] = {}  # by id: the value of `k`
        wants: dict[str, list[str]] = {name: [] for name in self.names}
        for number in range(wanting):
            k = 0 if number % 2 else number % 8  # half of them want the same
            node = self.names[number % nodes]
            self.wants[f"{node}/{len(wants[node])}"] = k
            wants[node].append(f"k = {k}")
        subscribed(self.network, wants)
        self.numbers = count(1)
        self.expected: Counter[tuple[str, int]] = Counter()

    def play(self, keys: list[int], gap: int) -> None:
        """Publish events with these values of `k`, one after the other."""
        running = [name for name in self.names if self.network.nodes[name].running]
        for k in keys:
            number = next(self.numbers)
            self.network.tell(self.chance.choice(running), Publish({"n": number, "k": k}))
            self.expected.update((id, number) for id, wanted in self.wants.items() if wanted == k)
            self.network.run(self.network.now + gap)

    def check(self) -> None:
        """Every subscription got what it wants, each event once."""
        self.network.run(self.network.now + SECOND)
        found = Counter((id, p.event["n"]) for _, ids, p in self.log.deliveries for id in ids)
        assert found == self.expected
        self.log.deliveries.clear()
        self.expected.clear()

    def matching(self, name: str = "0") -> Any:
        return router_of(self.network, name).layers.matching

    def key(self, k: int) -> int:
        """The key of the events with a value."""
        used = self.matching().epochs.used
        (key,) = used.settings.function().event({"k": k}, used.placement.shape.regions)
        return int(key)

    def spread(self, k: int) -> int:
        """How many regions hold the same, for events with a value."""
        return len(self.matching().epochs.used.placement.shape.runs(self.key(k))[0])

    def serving(self) -> int:
        return sum(map(len, self.matching().epochs.used.placement.nodes_of))

    def visits(self) -> int:
        return sum(self.matching(name).counts["visits"] for name in self.names)


EVEN = [k for _ in range(20) for k in range(4)]


def test_an_event_visits_as_many_nodes_as_its_key_needs_and_at_most_h() -> None:
    network = Network(replace(FOLLOWING, rate=0, places=16))
    assert network.matching().adapted.number <= 2  # before there was any subscription, and after
    number = network.matching().adapted.number
    network.play(EVEN, 50 * MILLISECOND)
    network.check()
    assert network.matching().adapted.number == number  # constant need ends all change
    shape = network.matching().epochs.used.placement.shape
    steps = {k: len(shape.runs(network.key(k))) for k in range(4)}
    crowded = steps.pop(0)
    assert 1 < crowded <= 4
    assert min(steps.values()) == 1
    assert network.visits() == sum(crowded if k == 0 else steps[k] for k in EVEN)
    assert network.visits() < 2 * len(EVEN)  # where H is 4


def test_a_crowd_gets_more_regions_and_more_nodes_and_loses_them_again() -> None:
    network = Network(replace(FOLLOWING, hops=2, room=0))
    network.play([k % 4 for k in range(60)], 200 * MILLISECOND)  # 5 events a second
    network.check()
    assert network.serving() == 2  # of 12
    assert network.spread(6) == 1
    network.play([6] * 300, 12 * MILLISECOND)  # a crowd: more than 80 a second
    network.check()
    assert network.spread(6) > 1
    assert network.serving() >= 8
    network.play([2] * 400, 12 * MILLISECOND)  # the hot key moves
    network.check()
    assert network.spread(2) > 1
    network.play([k % 4 for k in range(80)], 200 * MILLISECOND)
    network.check()
    assert network.serving() <= 4  # fewer go only when half of them would do
    assert network.spread(2) == network.spread(6) == 1
    number = network.matching().adapted.number
    network.play([k % 4 for k in range(40)], 200 * MILLISECOND)
    network.check()
    assert network.matching().adapted.number == number  # constant load ends all change


def test_nodes_crash_and_return_while_places_follow_load() -> None:
    """What is published while all is well again reaches everyone once, whoever is the leader."""
    network = Network()
    for turn, name in enumerate(("0", "5", "0")):  # the first is the leader
        network.play([turn] * 100, 15 * MILLISECOND)
        network.check()
        network.network.stop(name, forget=True)
        network.network.run(network.network.now + 6 * SECOND)
        network.network.start(name)
        network.network.run(network.network.now + 6 * SECOND)
        for id, wanted in network.wants.items():  # a node that crashes forgets its users
            if id.partition("/")[0] == name:
                network.network.tell(name, Subscribe(id, f"k = {wanted}"))
        network.network.run(network.network.now + 3 * SECOND)
        assert len({network.matching(n).epochs.used.digest for n in network.names}) == 1
    network.play([3] * 200, 12 * MILLISECOND)
    network.check()


def test_users_change_settings_while_places_follow_load() -> None:
    network = Network()
    for change in ({"hops": 2}, {"replicas": 3, "rate": 20}, {"adapt_ms": 0}, {"adapt_ms": 300}):
        network.network.tell(network.chance.choice(network.names), Configure("", change))
        network.play([k % 3 for k in range(150)], 12 * MILLISECOND)
        network.network.run(network.network.now + 5 * SECOND)
        network.check()
        for name in network.names:
            settings = network.matching(name).settings
            assert {field: getattr(settings, field) for field in change} == change
            assert network.matching(name).is_settled()
            assert (network.matching(name).epochs.used.adapted is None) == (
                change.get("adapt_ms") == 0
            )


def test_nodes_are_visited_by_what_they_can_do() -> None:
    strong = (("3", 8.0), ("7", 8.0))
    settings = Layering(
        matching="regions", rendezvous="hash:k", replicas=6, hops=1, capacities=strong
    )
    network = Network(settings)
    network.play(EVEN * 3, 5 * MILLISECOND)
    network.check()
    visits = {name: network.matching(name).counts["visits"] for name in network.names}
    others = [count for name, count in visits.items() if name not in dict(strong)]
    assert min(visits["3"], visits["7"]) > 2 * max(others)
    placement = network.matching().epochs.used.placement
    sums = [sum(dict(strong).get(name, 1.0) for name in nodes) for nodes in placement.nodes_of]
    assert max(sums) < 2 * min(sums)  # regions are of like capacity


def need(**rates: float) -> Need:
    return Need({int(name[1:]): rate for name, rate in rates.items()}, {})


def test_all_that_may_serve_do_where_even_they_are_too_few() -> None:
    epoch = Epoch.of("quotes", FOLLOWING, dict.fromkeys("abcdefgh", 1))
    assert decided("quotes", epoch, need(k1=1e6), Decision(2, {})).serving == 8
    assert decided("quotes", epoch, need(k1=1e6), Decision(0, {})).serving == 0
    assert decided("quotes", epoch, need(), Decision(0, {})).serving == 2
    few = need(k1=11.0)  # too much for two nodes of half of that, enough for four
    assert decided("quotes", epoch, few, Decision(4, {})).serving == 4
    capable = replace(FOLLOWING, capacities=tuple((n, 50.0) for n in "abcdefgh"))
    epoch = Epoch.of("quotes", capable, dict.fromkeys("abcdefgh", 1))
    assert decided("quotes", epoch, need(k1=100.0), Decision(0, {})).serving == 2


def test_only_epochs_that_nobody_has_used_for_a_while_are_forgotten() -> None:
    """Those that were given up in the meantime may still have events on their walk."""
    first, second, third = (
        Epoch.of("", replace(FOLLOWING, hops=hops), {"a": 1}) for hops in (1, 2, 3)
    )
    epochs = Epochs("a", first)
    epochs.adopt(second)
    assert epochs.advance(all_placed=True)
    unneeded = epochs.unneeded()
    assert unneeded == {first.digest}
    epochs.adopt(third)
    assert epochs.advance(all_placed=True)
    assert epochs.prune(unneeded)
    assert epochs.kept == [second, third]
    assert not epochs.prune(unneeded)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"seal": "application"}, "adapt_ms: expected 0 with seal 'application'"),
        ({"capacities": (("a", 2.0),), "division": "width"}, "capacities: expected the division"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        replace(FOLLOWING, **changes)


def test_what_a_strange_node_tells_changes_nothing() -> None:
    node = LayeredRouter("a", options=FOLLOWING)
    node.handle(LinkUp("b", 1), 0)
    before = node.layers.matching.epochs.used
    many = tuple((key, 1) for key in range(100))
    told: list[Loads | Adapted] = [
        Loads("", "a", 1, before.digest, 1, many, ()),
        Loads("", "a", 1, before.digest, 0, (), ()),
        Adapted("", 1, "b", 0, 1, ((0, 0, 1),)),
        Adapted("", 1, "b", -1, 1, ()),
    ]
    for packet in told:
        actions = node.handle(Received("b", Listed(("a",), 0, 0, packet)), 1)
        assert [getattr(action, "reason", "") for action in actions] in (
            ["more keys than there are"],
            ["widths that cannot be"],
        )
    node.handle(Received("b", Listed(("a",), 0, 0, Loads("", "x", 1, 5, 1, (), ()))), 1)
    assert node.layers.matching.epochs.used is before
