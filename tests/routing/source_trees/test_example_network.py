"""The example network of paper U, figures 1 and 2: what the text says of it (U2, U3, U4).

The drawing is not in the text, so the links and their weights are ours, chosen so that the text is
true of them. Processors 1 to 12 of the figures are nodes 0 to 11.
"""

from tests.routing.delivering import publish
from tests.routing.networks import packets
from tidings.overlay.graph import Graph
from tidings.routing.network import Network, nodes_of
from tidings.routing.source_trees import ips, pif, psf

LINKS = {
    (1, 5): 3, (1, 6): 4, (5, 9): 2, (6, 9): 2, (9, 10): 2, (6, 2): 2, (2, 3): 2, (6, 7): 2,
    (7, 10): 5, (7, 4): 2, (7, 8): 2, (7, 11): 2, (11, 12): 2, (1, 2): 9, (5, 10): 9,
}  # fmt: skip
NETWORK = Network(
    Graph(12, [(a - 1, b - 1, weight) for (a, b), weight in LINKS.items()]),
    [f"p = {number}" for number in range(1, 13)],
)


def below(source: int, node: int, neighbour: int) -> set[int]:
    """T_source/(node, neighbour), with the paper's numbers."""
    return {n + 1 for n in NETWORK.trees[source - 1].descendants(node - 1, neighbour - 1)}


def test_the_descendants_that_the_paper_names() -> None:
    assert below(1, 6, 7) == {4, 7, 8, 11, 12}
    assert below(1, 6, 9) == set()
    assert set().union(*(below(source, 6, 9) for source in range(1, 13))) == {5, 9, 10}


def test_psf_at_6_has_a_predicate_for_each_child() -> None:
    row = dict(psf.build(NETWORK)[5].rows[0])
    assert row == {
        6: nodes_of({n - 1 for n in (4, 7, 8, 11, 12)}),
        1: nodes_of({n - 1 for n in (2, 3)}),
    }


def test_sources_1_5_and_9_are_one_from_6_on() -> None:
    for neighbour in (1, 2, 7, 9):
        assert below(1, 6, neighbour) == below(5, 6, neighbour) == below(9, 6, neighbour)
    states = ips.build(NETWORK)
    at_6 = states[5]
    # 9 rewrites the header of what 5 sends, so 6 hears of 1 and 9 only.
    heard = {*at_6.rows, *at_6.representatives} & {n - 1 for n in (1, 5, 9)}
    assert heard == {n - 1 for n in (1, 9)}
    (one,) = {at_6.representatives.get(head, head) for head in heard}
    assert one in at_6.rewrites
    for node in (2, 3, 4, 7, 8, 11, 12):
        # The header is rewritten at 6, so those beyond never hear of 1, 5 and 9.
        known = {*states[node - 1].rows, *states[node - 1].representatives}
        assert not known & {n - 1 for n in (1, 5, 9)}


def test_pif_at_6_sends_to_9_what_5_9_and_10_want() -> None:
    wanted = dict(pif.build(NETWORK)[5].links)[9 - 1]
    assert wanted == nodes_of({n - 1 for n in (5, 9, 10)})


def test_what_7_and_10_want_does_not_go_round_in_circles() -> None:
    network = Network(NETWORK.graph, ["p = 1" if n + 1 in (7, 10) else "" for n in range(12)])
    sent = packets(publish("pif", network, 5, {"p": 1}))
    assert {(a + 1, b + 1) for a, b in sent} == {(6, 7), (6, 9), (9, 10)}
