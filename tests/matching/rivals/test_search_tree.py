"""The shape of the search tree: what is shared, in which order, and what is left after removal."""

import gc
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.language import strategies
from tidings import Predicate, parse
from tidings.language.expression import Expression
from tidings.language.filter import by_name
from tidings.matching.rivals.search_tree import Node, SearchTree

PAPER = {
    "S1": "symbol = 'EDP' and price < 4 and volume > 10000",
    "S2": "price < 2 and volume > 1000000",
    "S3": "symbol = 'PT' and price = 10.4",
}
many_expressions = st.lists(strategies.expressions(), max_size=8)


def grown(texts: dict[str, str]) -> SearchTree:
    return SearchTree((id, parse(text)) for id, text in texts.items())


def order(tree: SearchTree) -> list[str]:
    return sorted(tree.attributes, key=lambda name: tree.attributes[name].rank)


def test_the_most_constrained_attribute_is_asked_first() -> None:
    tree = grown(PAPER)
    assert order(tree) == ["price", "symbol", "volume"]
    assert str(tree).splitlines() == [
        "price = 10.4",
        "  symbol = 'PT': 'S3'",
        "price < 4",
        "  symbol = 'EDP'",
        "    volume > 10000: 'S1'",
        "price < 2",
        "  volume > 1000000: 'S2'",
    ]


def test_an_attribute_that_comes_later_goes_to_the_end_and_none_stays_without_use() -> None:
    tree = grown(PAPER)
    tree.add("S4", parse("age > 3 and price < 4 and city = 'Oslo'"))
    assert order(tree) == ["price", "symbol", "volume", "city", "age"]
    tree.remove("S3")
    tree.remove("S1")
    gc.collect()
    assert order(tree) == ["price", "volume", "city", "age"]


def test_what_filters_ask_alike_is_shared() -> None:
    tree = grown({f"{i}": f"a = 1 and b = 2 and c > {i}" for i in range(10)})
    assert sum(1 for _ in tree.nodes()) == 1 + 1 + 1 + 10
    other = grown({"p": "a = 1", "q": "a = 1.0", "r": "int a = 1", "s": "a in (1, 2)"})
    assert sum(1 for _ in other.nodes()) == 1 + 3
    assert repr(other) == "SearchTree(4 subscriptions, 4 nodes, 1 attributes, 0 beside the tree)"


@given(many_expressions)
def test_a_path_has_a_node_for_each_attribute_constrained(expressions: list[Expression]) -> None:
    tree = SearchTree(enumerate(map(Predicate, expressions)))
    for id, expression in enumerate(expressions):
        for filter in Predicate(expression).filters:
            path = tree.path(filter)
            assert id in path[-1].leaves
            assert len(path) == 1 + len(by_name(filter))
            for above, below in pairwise(path):
                assert any(child is below for child in above.children())


@given(many_expressions)
def test_nodes_come_after_those_below_them(expressions: list[Expression]) -> None:
    tree = SearchTree(enumerate(map(Predicate, expressions)))
    seen: set[Node] = set()
    for node in tree.nodes():
        assert seen.issuperset(node.children())
        assert node not in seen
        seen.add(node)
    assert node is tree.root


@given(many_expressions, st.randoms(use_true_random=False))
def test_removal_leaves_the_tree_that_was_never_larger(
    expressions: list[Expression], random: Random
) -> None:
    tree = SearchTree(enumerate(map(Predicate, expressions)))
    ids = list(range(len(expressions)))
    random.shuffle(ids)
    for left, id in enumerate(ids, 1):
        tree.remove(id)
        assert all(node.leaves or node.edges for node in tree.nodes() if node is not tree.root)
        filters = {f for i in ids[left:] for f in Predicate(expressions[i]).filters}
        labels = {tuple(same) for filter in filters for same in by_name(filter).values()}
        assert set(tree.attributes) == {label[0].name for label in labels}
        assert set(tree.labels.keys()) <= labels
    assert not tree.root.edges
    assert not tree.root.leaves
    assert not tree.labels
