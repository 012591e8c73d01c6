"""Nodes that take time: packets wait their turn, and take what their node needs for them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.routing.running import network_of
from tidings.overlay.topologies import topology
from tidings.routing.packets import Publication
from tidings.routing.protocol import MILLISECOND, SECOND, Publish, Subscribe
from tidings.sim.service import MatchTime, Service

EVENT_NS = 10 * MILLISECOND


def cost(router: Any, packet: Any) -> int:
    return EVENT_NS if isinstance(packet, Publication) else 0


def arrivals(service: Service | None, events: int = 3) -> list[int]:
    """When events, published at one end of a line at once, have reached the subscriber there."""
    network, log = network_of(topology("line:3"), "flood")
    network.service = service
    network.tell("2", Subscribe("s", "true"))
    times: list[int] = []
    log.delivered = lambda now, node, action: times.append(now)  # type: ignore[method-assign]
    begun = network.now
    for number in range(events):
        network.tell("0", Publish({"n": number}))
    network.run(network.now + 5 * SECOND)
    return [(time - begun) // MILLISECOND for time in times]


def test_without_a_service_nodes_take_no_time() -> None:
    assert arrivals(None) == [2, 2, 2]


def test_packets_wait_for_their_node_and_are_served_in_order() -> None:
    """Two links of 1 ms, two nodes of 10 ms: a pipeline."""
    assert arrivals(Service(cost)) == [22, 32, 42]
    service = Service(cost)
    arrivals(service)
    assert service.busy_ns["2"] == 3 * EVENT_NS
    assert service.waited_ns["1"] == (10 + 20) * MILLISECOND
    assert service.waited_ns["2"] == 0  # the node before it is as slow


def test_a_node_of_twice_the_capacity_takes_half_the_time() -> None:
    assert arrivals(Service(cost, capacity={"1": 2.0})) == [17, 27, 37]
    assert arrivals(Service(cost, capacity={"2": 0.5})) == [32, 52, 72]


def test_what_waits_at_a_node_that_crashes_is_lost() -> None:
    network, log = network_of(topology("line:2"), "flood")
    network.service = Service(cost)
    network.tell("1", Subscribe("s", "true"))
    network.tell("0", Publish({}))
    network.tell("0", Publish({}))
    network.run(network.now + 12 * MILLISECOND)  # one has been served, one waits
    network.stop("1", forget=True)
    network.start("1")
    network.tell("1", Subscribe("s", "true"))
    network.run(network.now + 2 * SECOND)
    assert len(log.deliveries) == 1
    network.tell("0", Publish({}))
    network.run(network.now + 2 * SECOND)
    assert len(log.deliveries) == 2


@given(
    fixed=st.floats(0, 1e6),
    growth=st.floats(0, 1e3),
    exponent=st.floats(0, 1),
    memory=st.integers(0, 10_000),
    cliff=st.floats(1, 50),
    sizes=st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)),
)
def test_more_subscriptions_never_take_less_time(
    fixed: float, growth: float, exponent: float, memory: int, cliff: float, sizes: tuple[int, int]
) -> None:
    few, many = sorted(sizes)
    bounded = MatchTime(fixed, growth, exponent, memory, cliff)
    free = MatchTime(fixed, growth, exponent)
    assert bounded(few) <= bounded(many)
    assert bounded(many) >= free(many)
    assert many > memory or bounded(many) == free(many)


@pytest.mark.parametrize(
    "wrong", [{"fixed_ns": -1.0}, {"exponent": -0.5}, {"cliff": 0.5}, {"memory": -1}]
)
def test_times_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        MatchTime(**({"fixed_ns": 1.0, "growth_ns": 1.0, "exponent": 1.0} | wrong))
