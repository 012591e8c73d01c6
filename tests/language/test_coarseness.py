"""A coarser predicate covers the exact one and is within the bounds, at any size."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import strategies
from tidings import Predicate, parse, union
from tidings.language.coarseness import coarser, size
from tidings.language.expression import Expression

leaves = st.one_of(
    strategies.constraints(),
    strategies.constraints(texts=st.text("abA%_", max_size=300), numbers=st.integers(0, 300)),
)
bounds = st.tuples(st.integers(4, 400), st.integers(0, 20), st.integers(1, 8))


@given(
    strategies.expressions(leaves, size=12), bounds, st.lists(strategies.flat_events, max_size=20)
)
def test_what_matches_matches_the_coarser_one(
    expression: Expression, bounds: tuple[int, int, int], events: list[dict[str, Any]]
) -> None:
    exact = Predicate(expression)
    coarse = coarser(exact, *bounds)
    for found, bound in zip(size(coarse), bounds, strict=True):
        assert found is not None
        assert found <= bound
    for event in events:
        assert coarse.matches(event) or not exact.matches(event)


@given(leaves, st.integers(4, 60), st.lists(st.text("abA%_", max_size=300), min_size=1))
def test_a_coarser_constraint_accepts_the_same_values(
    constraint: Any, characters: int, texts: list[str]
) -> None:
    coarse = coarser(Predicate(constraint), characters)
    for text in [*texts, *_texts(constraint.operand)]:
        for event in ({constraint.name: text}, {constraint.name: text * 2}, {}):
            assert coarse.matches(event) or not Predicate(constraint).matches(event)


def _texts(operand: Any) -> list[str]:
    values = operand if isinstance(operand, tuple) else (operand,)
    return [value for value in values if isinstance(value, str)]


MANY = " or ".join(f"user = 'u{i:05d}' and price > {i * 7919 % 2000}" for i in range(2_000))
FACTORS = " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(40))


@pytest.mark.parametrize(
    ("text", "bounds", "coarse"),
    [
        ("a = 1 or b = 2", (100, 2, 2), "a = 1 or b = 2"),
        ("a = 1 or a = 2 or a = 3", (100, 3, 1), "a in (1, 2, 3)"),
        ("x = 'abcdefghijklmnopq'", (20, 1, 1), "x prefix 'abcdefgh'"),
        ("x icontains 'ABCDEFGHI'", (22, 1, 1), "x icontains 'abcdefgh'"),
        ("x suffix 'abcdefghijklmnopq'", (20, 1, 1), "x suffix 'jklmnopq'"),
        ("x like '%abcdefghi_jkl%'", (21, 2, 1), "x contains 'abcdefgh'"),
        ("x matches '(a|b)+cccccccccc'", (20, 1, 1), "exists string x"),
        ("x in (1, 2, 3, 50)", (100, 2, 1), "x between 1 and 50"),
        ("x in ('ada', 'bob', 'eve')", (100, 1, 1), "exists x"),
        ("x > 1", (4, 0, 1), "true"),
        ("false", (5, 0, 1), "false"),
        (FACTORS, (30, 2, 2), "a0 = 1 or b0 = 1"),
    ],
)
def test_by_example(text: str, bounds: tuple[int, int, int], coarse: str) -> None:
    found = coarser(parse(text), *bounds)
    assert str(found) == coarse


def test_many_filters_keep_what_selects_best() -> None:
    exact = union(map(parse, MANY.split(" or ")))
    assert len(exact.filters) == 2_000
    listed = coarser(exact, filters=512)
    assert size(listed)[1:] == (2_000, 1)
    shorter = coarser(exact, characters=500, filters=512)
    assert len(str(shorter)) <= 500
    assert all(shorter.covers(Predicate.of((f,))) for f in exact.filters[::100])
    assert not shorter.matches({"user": "v00001", "price": 9_999})


def test_without_a_normal_form_the_smallest_factors_stay() -> None:
    exact = parse(FACTORS)
    coarse = coarser(exact, filters=64)
    assert len(coarse.filters) == 64
    assert not coarse.matches({"a1": 1})
    negated = coarser(~parse(FACTORS.replace(" and ", " AND ").replace(" or ", " and ")), filters=9)
    assert len(negated.filters) <= 9
