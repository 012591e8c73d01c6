"""What holds for every scheme of paper U; the claims about each are in its folder."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.overlay.graphs import graphs
from tests.routing.delivering import every_scheme, outcome
from tests.routing.networks import events, interested, networks
from tidings.routing.delivery import deliver
from tidings.routing.network import Event, Matched, Network, Unmatched, members
from tidings.routing.scheme import Scheme


@every_scheme
@given(networks(), events, st.integers(0, 8))
@settings(max_examples=examples(60))
def test_whoever_is_interested_gets_it_by_a_shortest_path(
    scheme: Scheme, network: Network, event: Event, source: int
) -> None:
    found = outcome(scheme, network, source % network.graph.nodes, event)
    assert found.correct
    logical = scheme.graph(network) is not network.graph  # then paths lead past other nodes
    assert found.latency_minimal or logical or scheme.detours


@every_scheme
@given(networks(graphs(connected=False)), events, st.integers(0, 8))
@settings(max_examples=examples(30))
def test_nodes_out_of_reach_are_not_expected(
    scheme: Scheme, network: Network, event: Event, source: int
) -> None:
    found = outcome(scheme, network, source % network.graph.nodes, event)
    assert found.correct


@every_scheme
@given(networks(graphs(max_nodes=6)), st.lists(events, min_size=1, max_size=3))
@settings(max_examples=examples(15))
def test_matching_once_tells_what_every_node_would_find(
    scheme: Scheme, network: Network, some: list[Event]
) -> None:
    states = scheme.build(network)
    graph = scheme.graph(network)
    for event in some:
        assert set(members(network.interested(event))) == interested(network, event)
        for source in range(network.graph.nodes):
            quick = Matched(network.interested(event))
            slow = Unmatched(network, event)
            assert deliver(scheme, states, graph, source, quick) == deliver(
                scheme, states, graph, source, slow
            )
