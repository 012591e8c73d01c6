"""The claims of paper U about iPS (U3), on graphs and interests of every shape."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.routing.delivering import publish
from tests.routing.networks import EVENTS, networks
from tidings.overlay.graph import Graph
from tidings.overlay.topologies import topology
from tidings.routing.network import Network
from tidings.routing.source_trees import ips, psf


@given(networks(), st.integers(0, 8))
def test_ips_delivers_the_same_trees_as_psf(network: Network, source: int) -> None:
    source %= network.graph.nodes
    for event in EVENTS:
        one, other = (publish(name, network, source, event) for name in ("psf", "ips"))
        assert one._replace(header_bits=[]) == other._replace(header_bits=[])


@given(networks())
def test_ips_keeps_no_more_than_psf(network: Network) -> None:
    for one, other in zip(psf.build(network), ips.build(network), strict=True):
        assert len(other.rows) <= len(one.rows)
        assert len(ips.size(other).predicates) <= len(psf.size(one).predicates)
        # A source has a row, or another stands for it.
        assert len(other.rows) + len(other.representatives) <= len(one.rows)


@given(networks())
def test_ips_takes_sources_as_one_exactly_when_they_are_indistinguishable(network: Network) -> None:
    for node, state in enumerate(ips.build(network)):
        heads = [*state.rows, *state.representatives]
        for one in heads:
            for other in heads:
                first, second = network.trees[one], network.trees[other]
                same = first.children(node) == second.children(node) and all(
                    first.below(child) == second.below(child) for child in first.children(node)
                )
                standing = [state.representatives.get(head, head) for head in (one, other)]
                assert same == (standing[0] == standing[1])


@given(networks(), st.integers(0, 8))
def test_ips_rewrites_only_what_nobody_further_on_can_tell(network: Network, source: int) -> None:
    source %= network.graph.nodes
    states = ips.build(network)
    headers = {source: source}
    for node in network.trees[source].order:
        row = network.row(source, node)
        header = headers[node]
        assert row == states[node].rows.get(states[node].representatives.get(header, header), ())
        sent = ips.header(states[node], header)
        headers |= {child: sent for child, _ in row}


@given(st.integers(0, 10**6), st.integers(2, 25))
@settings(max_examples=examples(30))
def test_ips_keeps_one_entry_a_neighbour_on_a_tree(seed: int, nodes: int) -> None:
    network = Network(topology(f"tree:{nodes}", seed), ["a = 1"] * nodes)
    for state in ips.build(network):
        neighbours = network.graph.neighbours(state.node)
        assert len(ips.size(state).predicates) == len(neighbours)
        # Headers are always rewritten, so nobody hears of any but neighbours and itself.
        assert set(state.rows) <= {*neighbours, state.node}
        assert state.representatives == {}
        assert state.rewrites == set(state.rows)


def test_sources_beyond_a_bridge_are_one() -> None:
    # Two rings of three, and a link between 2 and 3.
    links = [(0, 1, 1), (1, 2, 1), (0, 2, 1), (2, 3, 1), (3, 4, 1), (4, 5, 1), (3, 5, 1)]
    network = Network(Graph(6, links), ["a = 1"] * 6)
    for node, state in enumerate(ips.build(network)):
        beyond = {3, 4, 5} if node < 3 else {0, 1, 2}
        assert len(beyond & set(state.rows)) <= 1
        assert not beyond & set(state.representatives)
