"""The claims of paper U about PIF (U4), on graphs and interests of every shape."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.overlay.graphs import graphs
from tests.routing.delivering import publish
from tests.routing.networks import events, networks, packets, pif_by_definition
from tidings.overlay.graph import Graph
from tidings.routing.delivery import judge
from tidings.routing.network import Event, Network, nodes_of
from tidings.routing.source_trees import pif


@given(networks(), events, st.integers(0, 8))
@settings(max_examples=examples(50))
def test_pif_sends_what_the_paper_defines(network: Network, event: Event, source: int) -> None:
    source %= network.graph.nodes
    expected = pif_by_definition(network, source, event)
    assert packets(publish("pif", network, source, event)) == expected


@given(networks(), events, st.integers(0, 8))
def test_what_psf_sends_pif_sends_as_well(network: Network, event: Event, source: int) -> None:
    source %= network.graph.nodes
    one, other = (publish(name, network, source, event) for name in ("psf", "pif"))
    assert packets(one) <= packets(other)


def test_pif_is_not_ideal_on_the_graph_of_figure_3() -> None:
    # 1 to 4 of the figure are 0 to 3. From 4 the path to 2 leads through 3; from 1 it does not. The
    # weights are ours: the paper's text tells the paths, not the numbers beside the links.
    graph = Graph(4, [(0, 1, 3), (0, 3, 2), (3, 2, 1), (2, 1, 1)])
    network = Network(graph, ["", "a = 1", "a = 2", "a = 1"])
    delivery = publish("pif", network, 0, {"a": 1})
    assert packets(delivery) == {(0, 1), (0, 3), (3, 2)}
    found = judge(network, delivery, nodes_of({1, 3}))
    assert (found.correct, found.latency_minimal, found.ideal) == (True, True, False)
    assert (found.spam, found.duplicates) == (1, 0)
    assert dict(pif.build(network)[3].links)[2] == nodes_of({1, 2})
    assert packets(publish("psf", network, 0, {"a": 1})) == {(0, 1), (0, 3)}


@given(networks(graphs()))
def test_every_receiver_is_behind_one_link_of_pif(network: Network) -> None:
    for state in pif.build(network):
        reached = [nodes for _, nodes in state.links]
        assert sum(nodes.bit_count() for nodes in reached) == network.graph.nodes - 1
