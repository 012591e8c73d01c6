"""The claims of paper U, scheme by scheme, on graphs and interests of every shape."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.overlay.graphs import graphs, graphs_without_ties
from tests.routing.networks import (
    EVENTS,
    events,
    interested,
    networks,
    packets,
    pif_by_definition,
    psf_by_definition,
    smallest_delivery,
)
from tidings.overlay.graph import Graph
from tidings.overlay.paths import unique_paths
from tidings.overlay.topologies import topology
from tidings.routing.delivery import Delivery, EndlessDelivery, Outcome, deliver, judge
from tidings.routing.network import Event, Matched, Network, Unmatched, members, nodes_of
from tidings.routing.scheme import Scheme
from tidings.routing.schemes import SCHEMES
from tidings.routing.source_trees import drp, ips, pif, psf

every_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: scheme.name)


def publish(scheme: Scheme | str, network: Network, source: int, event: Event) -> Delivery:
    scheme = SCHEMES[scheme] if isinstance(scheme, str) else scheme
    matched = Matched(network.interested(event))
    return deliver(scheme, scheme.build(network), network.graph, source, matched)


def outcome(scheme: Scheme | str, network: Network, source: int, event: Event) -> Outcome:
    delivery = publish(scheme, network, source, event)
    return judge(network, delivery, nodes_of(interested(network, event)))


# Every scheme


@every_scheme
@given(networks(), events, st.integers(0, 8))
@settings(max_examples=60)
def test_whoever_is_interested_gets_it_by_a_shortest_path(
    scheme: Scheme, network: Network, event: Event, source: int
) -> None:
    found = outcome(scheme, network, source % network.graph.nodes, event)
    assert found.correct
    assert found.latency_minimal


@every_scheme
@given(networks(graphs(connected=False)), events, st.integers(0, 8))
@settings(max_examples=30)
def test_nodes_out_of_reach_are_not_expected(
    scheme: Scheme, network: Network, event: Event, source: int
) -> None:
    found = outcome(scheme, network, source % network.graph.nodes, event)
    assert found.latency_minimal


@every_scheme
@given(networks(graphs(max_nodes=6)), st.lists(events, min_size=1, max_size=3))
@settings(max_examples=15)
def test_matching_once_tells_what_every_node_would_find(
    scheme: Scheme, network: Network, some: list[Event]
) -> None:
    states = scheme.build(network)
    for event in some:
        assert set(members(network.interested(event))) == interested(network, event)
        for source in range(network.graph.nodes):
            quick = Matched(network.interested(event))
            slow = Unmatched(network, event)
            assert deliver(scheme, states, network.graph, source, quick) == deliver(
                scheme, states, network.graph, source, slow
            )


# PSF


@given(networks(), events, st.integers(0, 8))
def test_psf_is_ideal_on_every_graph(network: Network, event: Event, source: int) -> None:
    assert outcome("psf", network, source % network.graph.nodes, event).ideal


@given(networks(graphs_without_ties(max_nodes=7)), events, st.integers(0, 6))
def test_an_ideal_delivery_is_the_smallest_where_shortest_paths_are_unique(
    network: Network, event: Event, source: int
) -> None:
    source %= network.graph.nodes
    receivers = interested(network, event) - {source}
    expected = smallest_delivery(network.graph, source, receivers)
    assert outcome("psf", network, source, event).packets == expected
    flooded = outcome("flooding", network, source, event)
    assert not flooded.ideal or flooded.packets == expected


def test_psf_is_not_the_smallest_where_another_shortest_path_is_shared() -> None:
    # Both 3 and 4 could be served through 2; the tree of 0 has 3 below 1.
    graph = Graph(5, [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1), (2, 4, 1)])
    network = Network(graph, ["", "", "", "a = 1", "a = 1"])
    found = outcome("psf", network, 0, {"a": 1})
    assert found.ideal
    assert (found.packets, smallest_delivery(graph, 0, {3, 4})) == (4, 3)


@given(networks(), events, st.integers(0, 8))
def test_psf_sends_what_the_paper_defines(network: Network, event: Event, source: int) -> None:
    source %= network.graph.nodes
    expected = psf_by_definition(network, source, event)
    assert packets(publish("psf", network, source, event)) == expected


# iPS


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
def test_ips_takes_sources_as_one_exactly_when_they_are_indistinguishable(
    network: Network,
) -> None:
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
        sent = header if node == source else ips.header(states[node], header)
        headers |= {child: sent for child, _ in row}


@given(st.integers(0, 10**6), st.integers(2, 25))
@settings(max_examples=30)
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


# PIF


@given(networks(), events, st.integers(0, 8))
@settings(max_examples=50)
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
    # 1 to 4 of the figure are 0 to 3. From 4 the way to 2 leads through 3; from 1 it does not.
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


# DRP


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
    # The case discussed under figure 4: 5, 1, 9, 7, 8 and 11 are here 0 to 5. The way from 0 to 4
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


# Flooding, and the judge


@given(networks(), events, st.integers(0, 8))
@settings(max_examples=50)
def test_flooding_goes_both_ways_over_links_but_where_it_came_from(
    network: Network, event: Event, source: int
) -> None:
    graph = network.graph
    delivery = publish("flooding", network, source % graph.nodes, event)
    assert len(delivery.receivers) == 2 * len(graph.links) - (graph.nodes - 1)
    found = judge(network, delivery, 0)
    assert found.spam == graph.nodes - 1
    assert found.spam + found.duplicates == found.packets


@given(networks(), events, st.integers(0, 8))
@settings(max_examples=50)
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


def test_a_scheme_that_takes_a_longer_way_is_not_latency_minimal() -> None:
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


def test_a_network_has_an_interest_for_each_node() -> None:
    with pytest.raises(ValueError, match="expected 3 interests, found 2"):
        Network(topology("line:3"), ["a = 1", ""])
