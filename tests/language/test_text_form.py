"""One text form: what the algebra makes is read back from its text, equal and as able."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.language import strategies
from tidings import Event, NormalFormError, Predicate, PredicateError, parse, union
from tidings.language import text as tx
from tidings.language.coarseness import coarser
from tidings.language.expression import MAX_DEPTH, depth
from tidings.routing.planes.interests import join, predicate_of


def predicates() -> st.SearchStrategy[Predicate]:
    """Predicates by any operation of the algebra on others."""
    parsed = strategies.expressions(size=4).map(Predicate)
    small_bound = strategies.expressions(size=4).map(lambda e: Predicate(e, max_filters=2))

    def combined(parts: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        several = st.lists(parts, max_size=4)
        return st.one_of(
            st.builds(lambda p, q: p & q, parts, parts),
            st.builds(lambda p, q: p | q, parts, parts),
            parts.map(lambda p: ~p),
            several.map(union),
            several.map(lambda ps: predicate_of(join(map(str, ps)))),
            st.builds(_reduced, parts, st.booleans(), st.booleans()),
            st.builds(coarser, parts, st.integers(4, 80), st.integers(0, 9), st.integers(1, 9)),
        )

    return st.recursive(st.one_of(parsed, small_bound), combined, max_leaves=6)


def _reduced(predicate: Predicate, merge: bool, lists: bool) -> Predicate:
    try:
        return predicate.reduce(merge, lists)
    except NormalFormError:
        return predicate


def same(one: Predicate, other: Predicate) -> bool:
    """Whether two predicates are equal and have the same text, hash and normal form."""
    return (
        one == other
        and str(one) == str(other)
        and hash(one) == hash(other)
        and (one.max_filters != other.max_filters or filters(one) == filters(other))
    )


def filters(predicate: Predicate) -> Any:
    try:
        return predicate.filters
    except NormalFormError:
        return None


@settings(max_examples=examples(100))
@given(predicates(), predicates())
def test_what_the_algebra_makes_is_read_back(one: Predicate, other: Predicate) -> None:
    for predicate in (one, other, one & other, one | other, ~one, union([one, other, one])):
        again = parse(str(predicate))
        assert same(again, predicate)
        assert again.expression == predicate.expression
        assert same(pickle.loads(pickle.dumps(predicate)), predicate)
        assert same(parse(str(again), max_characters=None), predicate)


def deep(levels: int) -> Predicate:
    predicate = parse("a = 1 or b = 1")
    for level in range(levels):
        predicate = ~(predicate & parse(f"b{level} = 1"))
    return predicate


def test_the_algebra_nests_as_deep_as_a_text_may() -> None:
    predicate = deep(MAX_DEPTH - 1)
    assert depth(predicate.expression) == MAX_DEPTH
    assert same(parse(str(predicate)), predicate)
    assert same(pickle.loads(pickle.dumps(predicate)), predicate)
    with pytest.raises(PredicateError, match=f"at most {MAX_DEPTH} levels of parentheses"):
        deep(MAX_DEPTH)
    with pytest.raises(PredicateError, match="levels of parentheses"):
        parse(f"x = 1 or {predicate}") & parse("y = 1")


def test_a_union_of_any_size_is_read_back_and_compares_as_it_did() -> None:
    parts = [f"user = 'u{i:06d}' and price > {i * 7919 % 5000 / 100}" for i in range(5_000)]
    all_of_them = union(map(parse, parts))
    again = parse(str(all_of_them))
    assert len(all_of_them.filters) == 5_000
    assert same(again, all_of_them)
    for text in parts[::2500]:
        assert all_of_them.covers(parse(text))
        assert again.covers(parse(text))
    assert not again.covers(parse("user = 'u000001'"))


def test_bounds_on_submitted_texts_do_not_bound_what_was_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tx, "MAX_CONSTANTS", 50)
    monkeypatch.setattr(tx, "MAX_PROGRAMS", 50)
    several = union(parse(f"a{i} = {i} and b matches 'x{i}'") for i in range(40))
    for bounded in (50, 1_000_000):
        with pytest.raises(PredicateError, match=r"at most 50 c|at most 50 instructions"):
            parse(str(several), max_characters=bounded)
    assert same(parse(str(several), max_characters=None), several)
    assert same(pickle.loads(pickle.dumps(several)), several)
    assert same(predicate_of(str(several)), several)


def test_equality_does_not_depend_on_the_bound() -> None:
    text = " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(4))
    bounds = [parse(text, max_filters=count) for count in (1, 4, 16, 10_000)]
    assert len(set(bounds)) == 1
    assert filters(bounds[0]) is None
    assert len(bounds[2].filters) == 16


# A text is a sequence of Unicode characters; Python also has texts with lone surrogates.
LONE = "a\ud800b"


@pytest.mark.parametrize(
    "text", ["x prefix 'a'", "x like 'a_b'", "x imatches 'a'", "x i= 'é'", "x > 1", "not x = 'b'"]
)
@pytest.mark.parametrize(
    "given", [LONE, [LONE], ["b", LONE]], ids=["alone", "in a list", "in a longer list"]
)
def test_a_lone_surrogate_stands_for_nothing(text: str, given: Any) -> None:
    predicate, nested = parse(text), parse(text.replace("x", "h.x", 1))
    without = {"x": [value for value in given if value != LONE] if given != LONE else []}
    expected = predicate.matches(without)
    assert predicate.matches({"x": given}) is expected
    assert predicate.explain({"x": given}).matches is expected
    assert nested.matches({"h": {"x": given}}) is expected
    assert predicate.matches(Event({"x": given})) is expected
    assert nested.matches(Event({"h": [{"x": given}]})) is expected
    assert Event({LONE: 1, "x": 1}) == {"x": 1}


@pytest.mark.parametrize("dialect", ["tidings", "jms", "cesql"])
def test_a_lone_surrogate_is_in_no_predicate(dialect: str) -> None:
    with pytest.raises(PredicateError, match="a lone surrogate"):
        parse(f"x = '{LONE}'", dialect=dialect)
    with pytest.raises(PredicateError):
        parse(f'"{LONE}" = 1', dialect=dialect)
