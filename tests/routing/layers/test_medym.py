"""MEDYM in both readings (S4): its packets, its lists and what they cost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.overlay.graphs import graphs
from tests.routing.delivering import outcome, publish
from tests.routing.networks import events, interested, networks, packets
from tidings.overlay.topologies import topology
from tidings.routing.layers import medym, medym_mesh
from tidings.routing.memory import id_bits
from tidings.routing.network import Event, Matched, Network, members, nodes_of
from tidings.routing.schemes import scheme


@given(networks(), events, st.integers(0, 8))
def test_the_surveys_reading_sends_the_packets_of_drp_and_psf(
    network: Network, event: Event, source: int
) -> None:
    source %= network.graph.nodes
    found = [publish(name, network, source, event) for name in ("medym", "drp", "psf")]
    assert packets(found[0]) == packets(found[1]) == packets(found[2])
    assert len(found[0].receivers) == len(found[1].receivers)


@given(networks(), events, st.integers(0, 8))
def test_lists_of_neighbours_are_disjoint_and_together_the_list_without_the_node(
    network: Network, event: Event, source: int
) -> None:
    for file in (medym, medym_mesh):
        states = file.build(network)
        source %= network.graph.nodes
        matched = Matched(network.interested(event))
        waiting = [(source, part) for part in file.init(states[source], matched)]
        for node, part in waiting:  # grows while it is read
            sent = file.send(states[node], part, matched)
            reach = nodes_of(n for n, d in enumerate(network.trees[node].distance) if d > 0)
            lists = [onward.receivers for _, onward in sent]
            assert sum(lists) == part.receivers & reach  # bits that stood twice would carry
            assert all(onward.receivers >> link & 1 or file is medym for link, onward in sent)
            waiting += sent


@given(networks(), events, st.integers(0, 8))
@settings(max_examples=examples(60))
def test_over_the_destinations_nobody_relays_and_everyone_gets_it_once(
    network: Network, event: Event, source: int
) -> None:
    source %= network.graph.nodes
    found = outcome("medym-mesh", network, source, event)
    assert found.correct
    assert found.relayed == found.spam == found.duplicates == 0
    assert found.packets == found.expected
    assert all(stretch >= 1 for stretch in found.stretches)


@given(networks(graphs(max_nodes=6)), events, st.integers(0, 8))
def test_the_spanning_tree_is_the_cheapest(network: Network, event: Event, source: int) -> None:
    """Against Kruskal's algorithm, written down anew."""
    source %= network.graph.nodes
    distances = tuple(tree.distance for tree in network.trees)
    wanted = {n for n in interested(network, event) if distances[source][n] > 0}
    parents = medym_mesh.spanning_tree(distances, source, nodes_of(wanted))
    assert parents.keys() == wanted
    nodes = sorted({source, *wanted})
    group = {n: {n} for n in nodes}
    cost = 0
    for weight, a, b in sorted((distances[a][b], a, b) for a in nodes for b in nodes if a < b):
        if group[a] is not group[b]:
            cost += weight
            group[a] |= group[b]
            for n in group[b]:
                group[n] = group[a]
    assert sum(distances[child][parent] for child, parent in parents.items()) == cost


def test_a_list_is_written_in_the_shortest_form() -> None:
    bits = id_bits(60)
    assert bits == 6
    sizes = [medym.header_bits(medym.Part((1 << n) - 1, 60), bits) for n in (0, 3, 10, 11, 30, 58)]
    assert sizes == [2, 20, 62, 62, 62, 14]


def test_who_does_not_publish_holds_no_interests_and_may_still_send_to_all() -> None:
    network = Network(topology("line:4"), ["a = 1", "", "a = 1", "a = 2"])
    few = scheme("medym:publishers=1")
    states = few.build(network)
    assert [len(few.size(state).predicates) for state in states] == [3, 0, 0, 0]
    event = Matched(network.interested({"a": 1}))
    assert list(members(few.init(states[0], event)[0].receivers)) == [0, 2]
    assert list(members(few.init(states[3], event)[0].receivers)) == [0, 1, 2, 3]


def test_the_two_readings_compared_on_a_real_size() -> None:
    """The mesh sends fewer packets of its own, on longer paths; headers are of the same order."""
    graph = topology("waxman:40", 3)
    network = Network(graph, ["a = 1" if n % 4 == 0 else "a = 2" for n in range(40)])
    survey = outcome("medym", network, 1, {"a": 1})
    mesh = outcome("medym-mesh", network, 1, {"a": 1})
    assert survey.latency_minimal
    assert not mesh.latency_minimal
    assert mesh.packets == mesh.expected < survey.packets
    assert max(mesh.stretches) > 1
    assert survey.header_bits > mesh.header_bits
