"""The judge of deliveries: what it counts adds up, and it sees what is wrong."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.routing.delivering import outcome
from tests.routing.networks import events, networks
from tidings.overlay.topologies import topology
from tidings.routing.delivery import EndlessDelivery
from tidings.routing.network import Content, Event, Network, members
from tidings.routing.scheme import Scheme, same_header
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


def broken(forward: Callable[[Any, Any, Content], list[int]]) -> Scheme:
    send = same_header(forward, lambda node, header: header)
    return SCHEMES["psf"]._replace(name="broken", send=send)


def test_a_scheme_that_misses_a_receiver_is_not_correct() -> None:
    network = Network(topology("line:3"), ["", "", "a = 1"])
    deaf = broken(lambda node, header, event: [1] if node.node == 0 else [])
    found = outcome(deaf, network, 0, {"a": 1})
    assert (found.correct, found.expected, found.delivered, found.spam) == (False, 1, 0, 1)


def test_a_scheme_that_takes_a_longer_path_is_not_latency_minimal() -> None:
    network = Network(topology("ring:5"), ["", "a = 1", "", "", ""])
    around = broken(lambda node, header, event: [(node.node - 1) % 5] if node.node != 1 else [])
    found = outcome(around, network, 0, {"a": 1})
    assert (found.correct, found.latency_minimal, found.stretches) == (True, False, [4.0])


def test_a_scheme_that_sends_in_circles_is_stopped() -> None:
    network = Network(topology("ring:3"), ["a = 1"] * 3)
    dizzy = broken(lambda node, header, event: [(node.node + 1) % 3])
    with pytest.raises(EndlessDelivery, match=r"broken: .* from 0"):
        outcome(dizzy, network, 0, {"a": 1})


def test_packets_of_one_event_have_headers_of_their_own_and_relays_are_no_receivers() -> None:
    """A packet for each receiver, as unicast would: the header is the receiver."""
    network = Network(topology("line:4"), ["", "a = 1", "", "a = 1"])
    singly = SCHEMES["psf"]._replace(
        init=lambda node, event: list(members(event.receivers(0b1111))),
        send=lambda node, header, event: [(node.node + 1, header)] if node.node < header else [],
        accepts=lambda node, header, event: bool(node.node == header),
    )
    found = outcome(singly, network, 0, {"a": 1})
    assert (found.correct, found.latency_minimal) == (True, True)
    assert (found.packets, found.relayed, found.spam, found.duplicates) == (4, 2, 0, 0)
    deaf = singly._replace(accepts=lambda node, header, event: False)
    assert outcome(deaf, network, 0, {"a": 1}).delivered == 0


def test_a_scheme_with_logical_neighbours_is_measured_on_the_network_below() -> None:
    network = Network(topology("line:4"), ["", "a = 1", "", "a = 1"])
    around = SCHEMES["psf"]._replace(
        init=lambda node, event: [3],
        send=lambda node, header, event: {0: [(3, 1)], 3: [(1, 1)], 1: []}[node.node],
        graph=lambda network: network.overlay([(0, 3), (3, 1)]),
    )
    found = outcome(around, network, 0, {"a": 1})
    assert (found.correct, sorted(found.stretches), found.packets) == (True, [1.0, 5.0], 2)


def test_a_copy_is_suppressed_in_its_own_stream_only() -> None:
    network = Network(topology("ring:3"), ["", "a = 1", "a = 1"])
    twice = SCHEMES["flooding"]._replace(
        init=lambda node, event: SCHEMES["flooding"].init(node, event) * 2
    )
    once = outcome("flooding", network, 0, {"a": 1})
    assert outcome(twice, network, 0, {"a": 1}).packets == 2 * once.packets
