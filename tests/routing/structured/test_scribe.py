"""Scribe: trees of groups over Chord and over Pastry, their repair, and who gets an event."""

from functools import partial
from typing import Any

import pytest

from tests.routing.running import Log, network_of, router_of
from tidings.overlay.topologies import topology
from tidings.routing.packets import Graft, Grafted, Grouped, Parcel, Publication
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Drop,
    Leave,
    Publish,
    Subscribe,
    Unsubscribe,
)
from tidings.routing.structured.scribe import ScribeOptions, ScribeRouter
from tidings.routing.structured.types import placed_in
from tidings.sim.network import Network

OVER = {
    "chord": ScribeOptions(),
    "pastry": ScribeOptions(substrate="pastry"),
    "pastry with one leaf": ScribeOptions(substrate="pastry", leaves=1),
}
over_each = pytest.mark.parametrize("options", OVER.values(), ids=OVER)
ALERTS = "class = 'alert'"


def at_rest(options: ScribeOptions, text: str = "ba:12") -> tuple[Network, Log]:
    network, log = network_of(topology(text, 4), "scribe", partial(ScribeRouter, options=options))
    network.run(network.now + 3 * SECOND)
    log.sends.clear()
    return network, log


def later(network: Network, seconds: float = 1) -> None:
    network.run(network.now + int(seconds * 1_000) * MILLISECOND)


def group_of(text: str, options: ScribeOptions) -> int:
    (number,) = placed_in(options.types(), text)
    return number


def parents(network: Network, number: int) -> dict[str, str | None]:
    """The nodes in the tree of a group, each with its parent."""
    return {
        name: router_of(network, name).service.groups[number].parent
        for name, node in network.nodes.items()
        if node.running and number in router_of(network, name).service.groups
    }


def grouped(log: Log) -> list[tuple[str, str, bool]]:
    """Who has sent an event to whom in some group, and whether down."""
    return [
        (packet.source, packet.target, packet.packet.down)
        for _, _, packet in log.sends
        if isinstance(packet, Parcel) and isinstance(packet.packet, Grouped) and packet.hops == 0
    ]


@over_each
def test_the_tree_is_the_reverse_of_the_paths_to_the_owner_of_the_key(
    options: ScribeOptions,
) -> None:
    network, log = at_rest(options)
    members = ["1", "4", "7", "9"]
    for name in members:
        network.tell(name, Subscribe(f"s{name}", ALERTS))
    later(network)
    assert len(log.settled) == len(members)
    number = group_of(ALERTS, options)
    substrate = router_of(network, "0").substrate
    ideal = substrate.ideal(network.nodes)
    key = substrate.circle.key(f"group {number}")
    expected: dict[str, str | None] = {}
    for name in members:
        at: str | None = name
        while at is not None:
            expected[at] = ideal.hop(at, key)
            at = expected[at]
    assert parents(network, number) == expected
    assert ideal.owner(key) in expected


@over_each
def test_an_event_climbs_to_the_root_and_takes_every_link_of_the_tree_once(
    options: ScribeOptions,
) -> None:
    network, log = at_rest(options)
    members = ["1", "4", "7", "9"]
    for name in members:
        network.tell(name, Subscribe(f"s{name}", f"{ALERTS} and severity > 2"))
    later(network)
    log.sends.clear()
    network.tell("2", Publish({"class": "alert", "severity": 3}))
    later(network)
    assert sorted(node for node, *_ in log.deliveries) == members
    tree = parents(network, group_of(ALERTS, options))
    down = sorted((one, other) for one, other, is_down in grouped(log) if is_down)
    assert down == sorted((above, below) for below, above in tree.items() if above is not None)
    network.tell("2", Publish({"class": "alert", "severity": 1}))
    later(network)
    assert len(log.deliveries) == len(members)  # members find out what they want


@over_each
def test_nothing_is_left_of_a_group_that_all_have_left(options: ScribeOptions) -> None:
    network, log = at_rest(options)
    for name in ("1", "4", "7"):
        network.tell(name, Subscribe(f"s{name}", ALERTS))
    later(network)
    for name in ("1", "4", "7"):
        network.tell(name, Unsubscribe(f"s{name}"))
    later(network)
    assert parents(network, group_of(ALERTS, options)) == {}
    log.sends.clear()
    network.tell("2", Publish({"class": "alert"}))
    later(network)
    assert [one for one in grouped(log) if one[2]] == []


@over_each
@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("victim", ["root", "parent"])
def test_a_tree_is_repaired_when_a_node_above_goes(
    options: ScribeOptions, leaves: bool, victim: str
) -> None:
    network, log = at_rest(options, "ba:14")
    number = group_of(ALERTS, options)
    key = router_of(network, "0").service.key_of(number)
    ideal = router_of(network, "0").substrate.ideal(network.nodes)
    root = ideal.owner(key)
    deep = next(
        (n for n in ideal.nodes if ideal.hop(n, key) not in (None, root)), ideal.predecessor(root)
    )
    gone = root if victim == "root" else ideal.hop(deep, key)
    network.tell(deep, Subscribe("s", ALERTS))
    later(network)
    if leaves:
        network.tell(gone, Leave())
    network.stop(gone, forget=True)
    later(network, 8)
    publisher = next(name for name in network.nodes if name not in (gone, deep))
    network.tell(publisher, Publish({"class": "alert"}))
    later(network)
    assert [node for node, *_ in log.deliveries] == [deep]
    new = router_of(network, deep).substrate.ideal(n for n in network.nodes if n != gone)
    roots = [name for name, above in parents(network, number).items() if above is None]
    assert roots == [new.owner(key)]


def test_a_root_is_handed_over_to_a_node_that_comes() -> None:
    options = ScribeOptions(substrate="pastry")
    network, log = at_rest(options, "ba:10")
    number = group_of(ALERTS, options)
    key = router_of(network, "0").service.key_of(number)
    ideal = router_of(network, "0").substrate.ideal(network.nodes)
    root = ideal.owner(key)
    member = next(name for name in network.nodes if name != root)
    network.stop(root, forget=True)
    later(network, 8)
    network.tell(member, Subscribe("s", ALERTS))
    later(network)
    before = [name for name, above in parents(network, number).items() if above is None]
    assert before != [root]
    network.start(root)
    later(network, 8)
    after = [name for name, above in parents(network, number).items() if above is None]
    assert after == [root]
    network.tell(before[0], Publish({"class": "alert"}))
    later(network)
    assert [node for node, *_ in log.deliveries] == [member]


def alone() -> Any:
    return ScribeRouter("a").service


def test_a_late_graft_of_a_former_child_is_taken_back() -> None:
    scribe = alone()
    scribe.router.carrier.send = lambda target, packet, out: out.append((target, packet))
    out: list[Any] = []
    scribe.received("b", Grafted(3, 1, True), 0, out)
    assert out == [("b", Graft(3, 1, False))]


def test_an_older_word_of_a_child_changes_nothing() -> None:
    scribe = alone()
    scribe.received("b", Graft(3, 7, True), 0, [])
    scribe.received("b", Graft(3, 6, False), 0, [])
    assert list(scribe.groups[3].children) == ["b"]
    scribe.received("b", Graft(3, 8, False), 0, [])
    assert not scribe.groups[3].children


@pytest.mark.parametrize("number", [-2, 1_025])
def test_what_is_of_no_group_is_dropped(number: int) -> None:
    publication = Publication("b", 1, 1, {"x": 1}, 0)
    for packet in (
        Graft(number, 1, True),
        Grafted(number, 1, True),
        Grouped(number, True, 0, publication),
    ):
        scribe = alone()
        out: list[Any] = []
        scribe.received("b", packet, 0, out)
        assert out == [Drop("of no group", packet)]
        assert not scribe.groups


def test_figures_count_groups_and_copies() -> None:
    network, _ = at_rest(ScribeOptions(), "line:3")
    for name in network.nodes:
        network.tell(name, Subscribe(f"s{name}", ALERTS))
    later(network)
    network.tell("0", Publish({"class": "alert"}))
    later(network)
    found = [router_of(network, name).figures() for name in network.nodes]
    assert sum(one["copies"] for one in found) == sum(one["children"] for one in found) == 2
    assert all(one["overlay_neighbours"] == 2 and one["overlay_settled"] for one in found)
