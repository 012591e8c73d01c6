"""Bits of state: counted quickly as by really reducing, and beside the paper's formulas."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.language import strategies
from tests.overlay.graphs import graphs
from tests.routing.delivering import every_scheme
from tests.routing.networks import networks
from tidings.language.expression import Expression
from tidings.language.predicate import Predicate, parse, union
from tidings.language.reduction import absorb
from tidings.overlay.topologies import topology
from tidings.routing.memory import Scale, id_bits, predicate_bits, shape_of
from tidings.routing.network import Network, Nodes, members
from tidings.routing.scheme import Scheme
from tidings.routing.schemes import SCHEMES


def reduced_bits(network: Network, nodes: Nodes) -> int:
    """What a disjunction weighs, by really dropping its covered filters."""
    filters = [filter for node in members(nodes) for filter in network.interests[node].filters]
    return predicate_bits(Predicate.of(absorb(filters)))


@given(networks(), st.integers(0))
def test_counting_finds_what_reducing_finds(network: Network, drawn: int) -> None:
    nodes = drawn % (1 << network.graph.nodes)
    assert Scale(network).reduced(nodes) == reduced_bits(network, nodes)


@given(st.lists(strategies.expressions(), min_size=4, max_size=4), st.integers(0, 15))
@example([parse(text).expression for text in ("x = 0", "x = 0", "x = 0", "x = 0.0")], 8)
@settings(max_examples=examples(50))
def test_counting_finds_what_reducing_finds_for_all_that_can_be_said(
    interests: list[Expression], nodes: Nodes
) -> None:
    network = Network(topology("ring:4"), [union([Predicate(one)]) for one in interests])
    assert Scale(network).reduced(nodes) == reduced_bits(network, nodes)


@given(networks(), st.integers(0))
def test_a_disjunction_is_never_heavier_than_its_parts(network: Network, drawn: int) -> None:
    nodes = drawn % (1 << network.graph.nodes)
    scale = Scale(network)
    assert scale.reduced(nodes) <= scale.unreduced(nodes)
    assert scale.unreduced(nodes) == sum(
        predicate_bits(network.interests[node]) for node in members(nodes)
    )


def test_interests_without_a_normal_form_are_weighed_as_written() -> None:
    many = " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(5))
    network = Network(topology("line:2"), [parse(many, max_filters=8), "a0 = 1"])
    scale = Scale(network)
    assert scale.reduced(0b11) == scale.unreduced(0b11) == 8 * (len(many) + 1) + 8 * 7


@every_scheme
@given(network=networks())
@settings(max_examples=examples(40))
def test_reduction_only_takes_away(scheme: Scheme, network: Network) -> None:
    footprint = Scale(network).weigh(map(scheme.size, scheme.build(network)))
    assert footprint.by_node is not None
    assert footprint.advantage is not None
    assert 0 <= footprint.advantage <= 1
    pairs = zip(footprint.by_node, footprint.by_node_unreduced, strict=True)
    assert all(reduced <= unreduced for reduced, unreduced in pairs)


@given(networks())
def test_psf_holds_every_interest_once_a_link_on_the_way_to_it(network: Network) -> None:
    shape, scale = shape_of(network), Scale(network)
    scheme = SCHEMES["psf"]
    sizes = [scheme.size(state) for state in scheme.build(network)]
    predicates = sum(scale.unreduced(nodes) for size in sizes for nodes in size.predicates)
    hops = [(node, len(tree.path(node)) - 1) for tree in network.trees for node in tree.order]
    assert predicates == sum(scale.interest_bits[node] * count for node, count in hops)
    assert shape.total_hops == sum(c for node, c in hops if network.receivers >> node & 1)


@given(graphs())
def test_formulas_bound_what_is_measured_where_interests_weigh_the_same(graph) -> None:  # type: ignore[no-untyped-def]
    network = Network(graph, [f"a = {node}" for node in range(graph.nodes)])
    shape, scale = shape_of(network), Scale(network)
    for name in ("pif", "drp", "psf"):
        scheme = SCHEMES[name]
        sizes = [scheme.size(state) for state in scheme.build(network)]
        measured = sum(scale.weigh(sizes).by_node_unreduced)
        formula = scheme.formula(shape, 1.0)
        assert formula is not None
        if name == "psf":  # the formula leaves out which link and which source a predicate is of
            ids = sum(size.ids for size in sizes) - shape.senders
            assert measured == formula + ids * shape.id_bits
        elif name == "pif":  # nor does it count the source, the neighbour and the node itself
            most = 2 * len(graph.links) + shape.nodes * (1 + shape.senders)
            assert measured <= formula + most * shape.id_bits
        else:
            assert measured <= formula


@given(st.integers(0, 10**6), st.integers(2, 30))
@settings(max_examples=examples(30))
def test_ips_keeps_to_its_formula_on_trees(seed: int, nodes: int) -> None:
    network = Network(topology(f"tree:{nodes}", seed), [f"a = {n % 7}" for n in range(nodes)])
    shape, scale, scheme = shape_of(network), Scale(network), SCHEMES["ips"]
    sizes = [scheme.size(state) for state in scheme.build(network)]
    predicates = sum(scale.unreduced(held) for size in sizes for held in size.predicates)
    formula = scheme.formula(shape, 1.0)
    assert formula is not None
    assert predicates <= formula
    assert SCHEMES["ips"].formula(shape_of(Network(topology("ring:3"), [""] * 3)), 1.0) is None


@pytest.mark.parametrize(("nodes", "bits"), [(1, 1), (2, 1), (3, 2), (256, 8), (257, 9)])
def test_ids_take_the_logarithm(nodes: int, bits: int) -> None:
    assert id_bits(nodes) == bits


def test_with_too_many_filters_nothing_is_reduced() -> None:
    network = Network(topology("line:3"), ["a = 1", "a = 2", "a = 3"])
    found = {
        name: Scale(network, max_filters=2).weigh(map(scheme.size, scheme.build(network)))
        for name, scheme in SCHEMES.items()
    }
    assert found["psf"].by_node is None
    assert found["psf"].advantage is None
    assert sum(found["psf"].by_node_unreduced) > 0
    # These combine no predicates, so there is nothing to reduce.
    for name in ("flooding", "drp"):
        assert found[name].by_node == found[name].by_node_unreduced
        assert found[name].advantage == 1
