"""Covering, overlap and reduction against brute force: try every event of a small world.

A world is made for each question: the values that the constraints can tell apart, then every
attribute with up to as many of them as a counter-example can need.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.language import oracle, strategies
from tidings import NormalFormError, Predicate, parse, union
from tidings.language.constraint import Constraint
from tidings.language.event import lookup
from tidings.language.expression import And, Expression, Or, constraints
from tidings.language.filter import Filter, implied, normalise
from tidings.language.literals import Literals
from tidings.language.reduction import absorb, reduce_filters
from tidings.language.sets import subset, surely_empty
from tidings.language.work import THOROUGH

WORLD_TEXTS = ["".join(t) for n in range(5) for t in itertools.product("abA", repeat=n)]


def world(given: Sequence[Constraint]) -> list[Any]:
    """One value of each kind that the constraints tell apart, and more."""
    found: list[Any] = [True, False, math.nan, math.inf, -math.inf, 2**70, -(2**70)]
    if any(c.type in ("string", "any") for c in given):
        found += WORLD_TEXTS
    for constraint in given:
        operand = constraint.operand
        for value in operand if isinstance(operand, tuple) else (operand,):
            if isinstance(value, bool) or value is None:
                continue
            if isinstance(value, int | float):
                near = float(value)
                found += [near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)]
                found += [math.floor(value) + step for step in (-1, 0, 1, 2)]
            else:
                found += [value, value + "\0", "\0" + value, value + "\U0010ffff", value[:-1]]
                found += [value.upper(), value.lower(), "c" + value + "c"]
    return list({(type(v), repr(v)): v for v in found}.values())


small = strategies.constraints(["x"], strategies.small_texts, strategies.small_numbers, False)
hostile = strategies.simplified(strategies.constraints(["x"], regular=False))


@given(st.lists(small, min_size=1, max_size=3), st.lists(small, max_size=3))
def test_surely_empty_is_exact_on_small_values(
    accepted: list[Constraint], refused: list[Constraint]
) -> None:
    found = any(
        all(oracle.satisfies(c, v) for c in accepted)
        and not any(oracle.satisfies(c, v) for c in refused)
        for v in world([*accepted, *refused])
    )
    # What the world does not show may still exist (a text longer than any in it), so: empty means
    # nothing is found, and something found means not empty.
    empty = surely_empty(accepted, refused)
    assert not (empty and found)
    if not found and not empty:
        # Then there must be a text of another length or alphabet; the search has found one.
        assert any(c.type in ("string", "any") for c in accepted)


@given(hostile, hostile)
def test_subset_agrees_with_the_world(part: Constraint, whole: Constraint) -> None:
    counter = [
        v
        for v in world([part, whole])
        if oracle.satisfies(part, v) and not oracle.satisfies(whole, v)
    ]
    assert not (subset(part, whole) and counter)
    assert subset(part, whole) == surely_empty((part,), (whole,))


numeric_only = strategies.constraints(
    ["x"], strategies.small_texts, strategies.numbers, False
).filter(lambda c: c.type != "string")


@given(
    st.lists(numeric_only, max_size=3),
    st.lists(numeric_only, max_size=3),
    st.sampled_from(["number", "int", "real", "bool"]),
)
def test_surely_empty_is_exact_on_numbers_and_booleans(
    accepted: list[Constraint], refused: list[Constraint], kind: str
) -> None:
    accepted = [*accepted, Constraint("x", "exists", kind, False, None)]
    found = any(
        all(oracle.satisfies(c, v) for c in accepted)
        and not any(oracle.satisfies(c, v) for c in refused)
        for v in world([*accepted, *refused])
    )
    assert surely_empty(accepted, refused) is not found


def implied_by_trying(constraint: Constraint, given: list[Constraint], lists: bool) -> bool:
    """Whether no attribute of the world satisfies the given and not the constraint."""
    values = _told_apart(world([constraint, *given]), [constraint, *given])
    # With lists, one value for each that accepts, and one that a negation could be broken by.
    most = sum(not c.negated for c in given) + 1 if lists else 1
    return not any(
        all(_holds(c, attribute) for c in given) and not _holds(constraint, attribute)
        for attribute in oracle.attributes(values, most)
    )


def _holds(constraint: Constraint, attribute: list[Any]) -> bool:
    return any(oracle.satisfies(constraint, v) for v in attribute) is not constraint.negated


def _told_apart(values: list[Any], given: list[Constraint]) -> list[Any]:
    """One value for each combination of answers: others would not change anything."""
    return list({tuple(oracle.satisfies(c, v) for c in given): v for v in values}.values())


exact_leaves = strategies.constraints(
    ["x"], st.sampled_from(["a", "b", "ab"]), strategies.small_numbers, False
)


@pytest.mark.parametrize("lists", [True, False])
@given(data=st.data())
def test_implication_on_one_attribute_is_exact(lists: bool, data: st.DataObject) -> None:
    """Also where several constraints bear on the attribute, negated or not."""
    leaves = strategies.simplified(exact_leaves.filter(_ordered))
    given = data.draw(st.lists(leaves, min_size=1, max_size=3))
    constraint = data.draw(leaves)
    assume(normalise(given, lists, THOROUGH) is not None)
    assert implied(constraint, given, lists) is implied_by_trying(constraint, given, lists)


def _ordered(constraint: Constraint) -> bool:
    """Texts by comparison only: then the world holds every counter-example."""
    ordered = ("=", "!=", "<", "<=", ">", ">=", "between", "in", "prefix", "exists")
    return constraint.type != "string" or constraint.operator in ordered


def covers_by_trying(p: Sequence[Filter], q: Sequence[Filter], lists: bool) -> bool:
    """Whether no event of the world matches q and not p."""
    return not any(_any_holds(q, e) and not _any_holds(p, e) for e in events([*p, *q], lists))


def _any_holds(filters: Sequence[Filter], event: dict[str, list[Any]]) -> bool:
    return any(oracle.holds(And(tuple(f)), event) for f in filters)


def events(filters: Sequence[Filter], lists: bool) -> Iterator[dict[str, list[Any]]]:
    """Every event over the names of the filters that their constraints can tell apart."""
    every = [c for f in filters for c in f]
    names = sorted({c.name for c in every} - {""})  # the tests of another dialect have none
    choices = []
    for name in names:
        here = [c for c in every if c.name == name]
        kept = _told_apart(world(here), here)
        choices.append(list(oracle.attributes(kept, 2 if lists else 1)))
    for combination in itertools.product(*choices):
        yield dict(zip(names, combination, strict=True))


two_names = st.one_of(
    strategies.constraints(["x", "y"], strategies.small_texts, strategies.small_numbers, False),
    strategies.residuals(["x", "y"]),
)


@pytest.mark.parametrize("lists", [True, False])
@given(data=st.data())
def test_covers_is_never_wrong(lists: bool, data: st.DataObject) -> None:
    p = Predicate(data.draw(strategies.expressions(two_names, size=3)))
    q = Predicate(data.draw(strategies.expressions(two_names, size=3)))
    assume(len(p.filters) * len(q.filters) <= 9)
    if p.covers(q, lists):
        assert covers_by_trying(p.filters, q.filters, lists)
    assert p.covers(p, lists)
    assert (p | q).covers(p, lists)


@pytest.mark.parametrize("lists", [True, False])
@given(data=st.data())
def test_intersects_never_misses(lists: bool, data: st.DataObject) -> None:
    p = Predicate(data.draw(strategies.expressions(two_names, size=3)))
    q = Predicate(data.draw(strategies.expressions(two_names, size=3)))
    assume(len(p.filters) * len(q.filters) <= 9)
    if not p.intersects(q, lists):
        both = (
            e
            for e in events([*p.filters, *q.filters], lists)
            if _any_holds(p.filters, e) and _any_holds(q.filters, e)
        )
        assert next(both, None) is None
    assert p.intersects(q, lists) == q.intersects(p, lists)


@given(
    st.lists(st.lists(two_names, max_size=3), max_size=8),
    st.booleans(),
    st.booleans(),
    st.lists(strategies.flat_events, max_size=5),
)
def test_reduction_keeps_the_meaning(
    conjunctions: list[list[Constraint]],
    merge: bool,
    lists: bool,
    more_events: list[dict[str, Any]],
) -> None:
    filters = [Filter(c) for c in conjunctions]
    reduced = reduce_filters(_simplified(filters), merge, lists)
    assert sum(map(len, reduced)) <= sum(map(len, filters))
    before = Or(tuple(And(tuple(f)) for f in filters))
    after = Or(tuple(And(tuple(f)) for f in reduced))
    tried: Iterator[dict[str, list[Any]]] = itertools.islice(events(filters, lists), 3000)
    for event in tried:
        assert oracle.holds(before, event) is oracle.holds(after, event)
    for event in more_events:
        laid: dict[str, list[Any]] = {name: lookup(event, name) for name in event}
        if lists or all(len(vs) < 2 for vs in laid.values()):
            assert oracle.holds(before, laid) is oracle.holds(after, laid)


def _simplified(filters: list[Filter]) -> list[Filter]:
    return list(Predicate(Or(tuple(And(tuple(f)) for f in filters))).filters)


@given(st.lists(st.lists(two_names, max_size=3), max_size=8))
def test_nothing_redundant_is_left(conjunctions: list[list[Constraint]]) -> None:
    reduced = reduce_filters(_simplified([Filter(c) for c in conjunctions]))
    for f, g in itertools.permutations(reduced, 2):
        assert not f.covers(g)
    for filter in reduced:
        for constraint in filter:
            others = [c for c in filter if c.name == constraint.name and c is not constraint]
            assert not (others and implied(constraint, others))
    assert reduce_filters(reduced) == reduced


@given(st.lists(st.lists(two_names, max_size=3), max_size=12))
def test_absorbing_by_index_equals_comparing_all_pairs(
    conjunctions: list[list[Constraint]],
) -> None:
    filters = _simplified([Filter(c) for c in conjunctions])
    kept = absorb(filters)
    for filter in filters:
        assert any(f.covers(filter) for f in kept)


# The examples that the documents and papers give.


@pytest.mark.parametrize(
    ("p", "q", "with_lists", "single"),
    [
        ("x > 3 and x < 7", "x = 5", True, True),
        ("name >= 'ab' and name < 'ac'", "name prefix 'ab'", True, True),
        # A list may hold one value above 'ab' and another below 'ac'.
        ("name prefix 'ab'", "name >= 'ab' and name < 'ac'", False, True),
        ("x between 2 and 8", "x > 3 and x < 7", False, True),
        ("y > 0", "x > 10 and y = 100", True, True),
        ("severity > 2", "severity > 3", True, True),
        ("severity > 3", "severity > 2", False, False),
        ("x in (1, 2, 3)", "x in (1, 3)", True, True),
        ("x in (1, 2, 3)", "x = 2.0", True, True),
        ("x != 5", "x = 6", True, True),
        ("not x = 5", "x = 6", False, True),
        ("x != 5", "not x = 5", False, False),
        ("not x = 5", "not exists x", True, True),
        ("not x = 5", "not x in (4, 5)", True, True),
        ("exists x", "x like '%'", True, True),
        ("x like 'a%c'", "x = 'abbbc'", True, True),
        ("x like 'a%b%'", "x like 'a_b%'", True, True),
        ("x like '%b%'", "x suffix 'ab'", True, True),
        ("x contains 'b'", "x like '%a%b%c%'", True, True),
        ("x iprefix 'AB'", "x prefix 'aB'", True, True),
        ("x prefix 'ab'", "x iprefix 'ab'", False, False),
        ("x i= 'k'", "x = '\u212a'", True, True),
        ("x < 9007199254740993", "x <= 9007199254740992", True, True),
        ("x <= 9007199254740992", "real x < 9007199254740993", True, True),
        ("x <= 9007199254740992", "x < 9007199254740993", True, True),
        ("int x > 3", "int x >= 4", True, True),
        ("x > 3", "x >= 4", True, True),
        ("x >= 4", "x > 3", False, False),
        ("int x > 3.5", "int x > 3", True, True),
        ("x > 3", "int x > 3", True, True),
        ("int x > 3", "x > 3", False, False),
        ("y = 1", "real x = 9007199254740993", True, True),
        ("y = 1", "not x != '' and x = 0 and x like '_'", True, True),
        ("x matches 'a+'", "x matches 'a+'", True, True),
        ("x matches '^a+$'", "x = 'aaa'", True, True),
        ("true", "x = 1", True, True),
        ("x = 1", "false", True, True),
        ("false", "x i= '' and not x iin ('', 'A')", True, True),
        ("x = 1 or x = 2", "x = 2", True, True),
    ],
)
def test_covering_by_example(p: str, q: str, with_lists: bool, single: bool) -> None:
    assert parse(p).covers(parse(q)) is with_lists
    assert parse(p).covers(parse(q), lists=False) is single


@pytest.mark.parametrize(
    ("p", "q", "with_lists", "single"),
    [
        ("x < 3", "x > 5", True, False),
        ("x = 1", "x = 'a'", True, False),
        ("exists x", "not exists x", False, False),
        ("x = 5", "not x > 3", False, False),
        ("x = 5 and y = 1", "not y = 1", False, False),
        ("x prefix 'a'", "x suffix 'a'", True, True),
        ("x prefix 'ab'", "not x contains 'b'", False, False),
        ("x like 'a_'", "not x like '_%'", False, False),
    ],
)
def test_overlap_by_example(p: str, q: str, with_lists: bool, single: bool) -> None:
    assert parse(p).intersects(parse(q)) is with_lists
    assert parse(p).intersects(parse(q), lists=False) is single


@pytest.mark.parametrize(
    ("text", "reduced"),
    [
        ("x > 10 and y = 100 or y > 0", "y > 0"),
        ("severity > 2 or severity > 3", "severity > 2"),
        ("x = 1 or x = 2 or x in (2, 3)", "x in (1, 2, 3)"),
        ("x between 1 and 3 or x between 3 and 5", "x between 1 and 5"),
        ("x between 1 and 3 or x between 4 and 5", "x between 1 and 3 or x between 4 and 5"),
        ("int x between 1 and 3 or int x between 4 and 5", "int x between 1 and 5"),
        ("x < 3 or x = 3", "x <= 3"),
        ("x > 3 and x < 7 or x >= 7 and x < 9", "x < 9 and x > 3"),
        ("a = 1 and x = 1 or a = 1 and x = 2", "a = 1 and x in (1, 2)"),
        ("not x = 1 and not x = 2", "not x in (1, 2)"),
        ("x like 'ab%' or x = 'abc'", "x prefix 'ab'"),
        ("x between 5 and 1", "false"),
        ("exists x and not exists x", "false"),
        ("not x between 5 and 1", "true"),
        ("x = 1 and x = 2", "x = 1 and x = 2"),
    ],
)
def test_reduction_by_example(text: str, reduced: str) -> None:
    assert str(parse(text).reduce()) == reduced


def test_merges_are_left_out_when_asked() -> None:
    assert parse("x = 1 or x = 2").reduce(merge=False).constraints == 2


def test_one_value_allows_more() -> None:
    assert str(parse("x > 5 and x < 3").reduce(lists=False)) == "false"


@pytest.mark.slow
def test_large_disjunctions_reduce_to_what_all_pairs_would(seed: int) -> None:
    """Ten thousand filters of paper U's distribution; a sample is compared with every pair."""
    import random

    random_ = random.Random(seed)
    filters = []
    for _ in range(10_000):
        asked = []
        for _ in range(random_.choices([1, 2, 3, 4, 5, 6], [10, 40, 30, 10, 5, 5])[0]):
            name = random_.randrange(200)
            if name % 2:
                operator = random_.choices(["=", "<", ">", "!="], [40, 25, 25, 10])[0]
                asked.append(
                    Constraint(f"n{name}", operator, "number", False, random_.randint(-100, 100))
                )
            else:
                operator = random_.choices(
                    ["=", "prefix", "suffix", "contains", "!=", "<", ">"], [40] + [10] * 6
                )[0]
                word = "".join(random_.choices("abcde", k=random_.randint(1, 4)))
                asked.append(Constraint(f"n{name}", operator, "string", False, word))
        filter = normalise(asked)
        if filter is not None:
            filters.append(filter)
    kept = reduce_filters(filters, merge=False)
    assert len(kept) < len(filters)
    standing = set(kept)
    for filter in random_.sample(filters, 40):
        assert (filter in standing) or any(f.covers(filter) for f in kept)
    for filter in random_.sample(kept, 40):
        assert not any(f.covers(filter) for f in kept if f is not filter)


@pytest.mark.slow
def test_the_bound_is_named_and_matching_goes_on() -> None:
    text = " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(13))  # 8,192 filters
    predicate = parse(text)
    assert predicate.matches({f"a{i}": 1 for i in range(13)})
    assert not predicate.matches({f"a{i}": 1 for i in range(12)})
    for operation in (
        lambda: predicate.filters,
        lambda: predicate.constraints,
        lambda: predicate.reduce(),
        lambda: predicate.covers(parse("x = 1")),
        lambda: parse("x = 1").covers(predicate),
        lambda: predicate.intersects(predicate),
    ):
        with pytest.raises(NormalFormError, match="4096 filters"):
            operation()
    assert len(parse(text, max_filters=60_000).filters) == 8_192
    assert str(parse(str(predicate))) == str(predicate)
    assert parse(str(predicate)) == predicate
    either = predicate | parse("c = 1")
    assert either.matches({"c": 1})


def test_absorption_counts_before_the_bound_does() -> None:
    text = " and ".join("(a = 1 or b = 1)" for _ in range(40))
    assert len(parse(text).filters) == 2
    text = " and ".join(f"(a = 1 or b = {i})" for i in range(3))
    assert len(parse(text).filters) == 2


@pytest.mark.slow
def test_unions_of_many_are_not_bounded() -> None:
    many = union(parse(f"x{i} = {i} and y = 1") for i in range(5_000))
    assert len(many.filters) == 5_000
    assert union([]) == parse("false")
    assert not union([]).matches({"x": 1})


@given(strategies.expressions())
def test_the_parts_of_an_expression_are_all_listed(expression: Expression) -> None:
    assert all(isinstance(c, Constraint) for c in constraints(expression))


def test_what_is_impossible_by_itself_overlaps_with_nothing() -> None:
    impossible = parse("x = 1 and x = 2")
    assert not impossible.intersects(parse("y = 1"), lists=False)
    assert not parse("y = 1").intersects(impossible, lists=False)
    assert impossible.intersects(parse("y = 1"))  # by a list
    assert not parse("x i= 'a' and not x i!= 'b'").intersects(parse("y = 1"))


def test_a_product_without_any_event_is_false() -> None:
    impossible = "(x = 1 or x = 2) and (not exists x or not exists number x) and (y = 1 or y = 2)"
    assert parse(impossible) == parse("false")
    assert ~parse(f"not ({impossible})") == parse("false")


def test_single_doubles_and_lists_of_integers_are_written_one_way() -> None:
    others = " or ".join(f"z{i} = 1" for i in range(8))
    value = parse(f"real x = 9007199254740994 or {others}")
    between = parse(f"real x between 9007199254740993 and 9007199254740995 or {others}")
    assert value == between
    assert value.covers(between)
    assert parse("int x in (0.5, 1, 9e30)") == parse("int x in (1, 9e30)")
    assert parse("int x in (0.5, 9e30)") == parse("int x = 9e30")


on_x = strategies.simplified(strategies.constraints(["x"])).filter(lambda c: c.name == "x")


@given(st.lists(on_x, max_size=30), on_x.filter(lambda c: not c.negated))
def test_looking_up_by_texts_misses_nothing(filed: list[Constraint], given: Constraint) -> None:
    candidates = Literals(filed).candidates(given, THOROUGH)
    for constraint in filed:
        if not constraint.negated and subset(given, constraint):
            assert constraint in candidates
