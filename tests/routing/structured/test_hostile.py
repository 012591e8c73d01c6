"""Packets of structured overlays that no honest node sends: nothing breaks, and nothing grows."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.routing.running import network_of, router_of
from tidings.overlay.keys import Circle
from tidings.overlay.topologies import topology
from tidings.routing.packets import (
    Arc,
    Branch,
    Cast,
    Claim,
    Find,
    Found,
    Graft,
    Grafted,
    Grouped,
    Leaves,
    Notify,
    Parcel,
    Parting,
    Publication,
    RingQuery,
    RingReply,
    Typed,
)
from tidings.routing.protocol import SECOND, Publish, Received, Subscribe
from tidings.routing.protocols import protocol
from tidings.routing.structured.arcs import DIGEST, MOST_ARCS, MOST_NODES, Group
from tidings.sim.network import Network

numbers = st.sampled_from([-(2**63), -1, 0, 1, 2, 7, 2**63 - 1, 2**64 - 1])
names = st.sampled_from(["", "0", "1", "2", "nobody", "é" * 300])
lists = st.lists(names, max_size=6).map(tuple)
predicates = st.lists(st.sampled_from(["x > 1", "x >> 1", "", "true"]), max_size=3).map(tuple)
publications = st.builds(
    Publication, names, numbers, numbers, st.dictionaries(names, numbers, max_size=2)
)
packets = st.one_of(
    st.builds(RingQuery),
    st.builds(RingReply, names, lists),
    st.builds(Notify),
    st.builds(Find, numbers, names, numbers, numbers),
    st.builds(Found, numbers, names, numbers),
    st.builds(Parting, names, lists),
    st.builds(Leaves, lists, lists),
    st.builds(Claim, numbers, st.booleans(), *[numbers] * 5),
    st.builds(Arc, numbers, numbers, predicates, numbers, numbers),
    st.builds(Cast, numbers, publications),
    st.builds(
        Branch,
        numbers,
        numbers,
        st.booleans(),
        st.booleans(),
        numbers,
        predicates,
        st.booleans(),
        st.booleans(),
        numbers,
        numbers,
        st.booleans(),
    ),
    st.builds(Typed, numbers, publications),
    st.builds(Graft, numbers, numbers, st.booleans()),
    st.builds(Grafted, numbers, numbers, st.booleans()),
    st.builds(Grouped, numbers, st.booleans(), numbers, publications),
)
ROWS = [
    "chord-trees",
    "chord-trees:substrate=pastry",
    "hermes",
    "hermes:substrate=pastry",
    "scribe",
]


def throw(network: Network, packet: Any, number: int) -> None:
    """Node 0 sends a packet to node 1, its neighbour, as no honest node would."""
    life = router_of(network, "0").life
    parcel = Parcel("0", life, 1_000_000 + number, "1", 0, packet)
    network.tell("1", Received("0", parcel))


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=examples(12))
@given(st.lists(packets, max_size=25))
@example([Typed(-1, Publication("1", 2, 1, {}))])  # the next event that node 1 itself publishes
def test_lies_break_nothing_and_end_with_the_life_of_the_liar(name: str, thrown: list[Any]) -> None:
    """The simulator writes every packet as it would on a wire; what cannot be written raises."""
    chosen = protocol(name)
    make = chosen.row.configured(chosen.options)
    network, log = network_of(topology("line:3", 1), chosen.name, make)
    network.tell("2", Subscribe("s", "x = 1"))
    network.run(network.now + 2 * SECOND)
    for number, packet in enumerate(thrown):
        throw(network, packet, number)
    network.run(network.now + 4 * SECOND)
    network.stop("0", forget=True)
    network.run(network.now + 3 * SECOND)
    network.start("0")
    network.run(network.now + 12 * SECOND)
    log.deliveries.clear()
    network.tell("1", Publish({"x": 1}))
    network.run(network.now + SECOND)
    assert [node for node, *_ in log.deliveries] == ["2"]


def test_counts_that_another_makes_up_can_still_be_written() -> None:
    network, _ = network_of(topology("line:3", 1), "chord-trees")
    whole = Circle().key("1")  # an arc of its own, to whose publishers it adds itself
    for number in range(3):
        throw(network, Claim(whole, True, 10_000 + number, 0, 2**63, 2**64 - 1, -1), number)
        network.run(network.now + SECOND)
    told = router_of(network, "1").service.arcs.root.claimants["0"].trees
    assert told == Group(MOST_NODES, DIGEST)


def test_arcs_that_another_claims_are_bounded() -> None:
    network, _ = network_of(topology("line:3", 1), "chord-trees")
    network.run(network.now + 2 * SECOND)
    for end in range(MOST_ARCS + 50):
        router_of(network, "1").service.arcs.claimed(
            "0", Claim(end, True, end, 0, 0, 1, 0), network.now, []
        )
    assert len(router_of(network, "1").service.arcs.arcs) == MOST_ARCS
