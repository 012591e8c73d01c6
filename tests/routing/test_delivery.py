"""The judge of deliveries: what it counts adds up, and it sees what is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.routing.delivering import outcome
from tests.routing.networks import events, networks
from tidings.overlay.topologies import topology
from tidings.routing.delivery import EndlessDelivery
from tidings.routing.network import Event, Network
from tidings.routing.scheme import Scheme
from tidings.routing.schemes import SCHEMES


@given(networks(), events, st.integers(0, 8))
@settings(max_examples=examples(50))
def test_packets_are_wanted_relayed_spam_or_duplicates(
    network: Network, event: Event, source: int
) -> None:
    for scheme in SCHEMES:
        found = outcome(scheme, network, source % network.graph.nodes, event)
        wanted = found.packets - found.relayed - found.spam - found.duplicates
        assert wanted == found.delivered


def broken(**functions: object) -> Scheme:
    return SCHEMES["psf"]._replace(name="broken", **functions)  # type: ignore[arg-type]


def test_a_scheme_that_misses_a_receiver_is_not_correct() -> None:
    network = Network(topology("line:3"), ["", "", "a = 1"])
    deaf = broken(forward=lambda node, header, event: [1] if node.node == 0 else [])
    found = outcome(deaf, network, 0, {"a": 1})
    assert (found.correct, found.expected, found.delivered, found.spam) == (False, 1, 0, 1)


def test_a_scheme_that_takes_a_longer_path_is_not_latency_minimal() -> None:
    network = Network(topology("ring:5"), ["", "a = 1", "", "", ""])
    around = broken(
        forward=lambda node, header, event: [(node.node - 1) % 5] if node.node != 1 else []
    )
    found = outcome(around, network, 0, {"a": 1})
    assert (found.correct, found.latency_minimal, found.stretches) == (True, False, [4.0])


def test_a_scheme_that_sends_in_circles_is_stopped() -> None:
    network = Network(topology("ring:3"), ["a = 1"] * 3)
    dizzy = broken(forward=lambda node, header, event: [(node.node + 1) % 3])
    with pytest.raises(EndlessDelivery, match=r"broken: .* from 0"):
        outcome(dizzy, network, 0, {"a": 1})
