"""The claims of paper U about DRP (U5), on graphs and interests of every shape."""

from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.graphs import graphs_without_ties
from tests.routing.delivering import outcome, publish
from tests.routing.networks import events, networks, packets
from tidings.overlay.graph import Graph
from tidings.overlay.paths import unique_paths
from tidings.routing.delivery import deliver, judge
from tidings.routing.network import Event, Matched, Network, nodes_of
from tidings.routing.schemes import SCHEMES
from tidings.routing.source_trees import drp


@given(networks(graphs_without_ties()), events, st.integers(0, 8))
def test_drp_is_ideal_where_shortest_paths_are_unique(
    network: Network, event: Event, source: int
) -> None:
    assert outcome("drp", network, source % network.graph.nodes, event).ideal


@given(networks(), events, st.integers(0, 8))
def test_drp_by_our_tie_rule_sends_what_psf_sends_on_every_graph(
    network: Network, event: Event, source: int
) -> None:
    source %= network.graph.nodes
    one, other = (publish(name, network, source, event) for name in ("psf", "drp"))
    assert packets(one) == packets(other)
    assert len(one.receivers) == len(other.receivers)


def test_drp_is_not_ideal_where_unicast_takes_two_ways_through_one_node() -> None:
    # The case discussed under figure 4: 5, 1, 9, 7, 8 and 11 are here 0 to 5. The path from 0 to 4
    # leads through 2, that to 5 through 1, and both through 3.
    graph = Graph(6, [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1), (3, 4, 1), (3, 5, 1)])
    assert not unique_paths(graph)
    network = Network(graph, ["", "", "", *["a = 1"] * 3])
    unicast = [network.row(node, node) for node in range(graph.nodes)]
    unicast[0] = ((1, nodes_of({1, 3, 5})), (2, nodes_of({2, 4})))
    delivery = deliver(
        SCHEMES["drp"], drp.build(network, unicast), graph, 0, Matched(nodes_of({3, 4, 5}))
    )
    assert delivery.receivers.count(3) == 2
    found = judge(network, delivery, nodes_of({3, 4, 5}))
    assert (found.correct, found.latency_minimal, found.ideal) == (True, True, False)
    assert (found.duplicates, found.spam) == (1, 0)
