"""Work by budget: whatever the shape of a predicate, the algebra does a bounded amount with it."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

from benchmarks.hostile import EVENT, HOSTILE, OPERATIONS, another
from tests.effort import SOAK
from tidings import NormalFormError, Predicate, PredicateError, parse, union
from tidings.language import strings, work
from tidings.language import text as tx
from tidings.language.coarseness import coarser
from tidings.language.expression import And, disjoin
from tidings.language.reduction import absorb, reduce_filters
from tidings.language.work import OutOfSteps, Work

MAX_CALLS = 400_000  # of Python functions in one operation, about a tenth of a second


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail as soon as Python functions have been called more often, so nothing runs for long."""
    left = calls

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event == "call":
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise AssertionError(f"more than {calls} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


ALWAYS = (
    "search: the same and 60 values refused",
    "search: strangers refused",
    "search: one long run of a character",
    "or: x icontains 'a{}b'",
    "or: x ilike '%a{}%b%'",
    "or: a > {0} and b < {0}",
    "and: 12 factors",
    "and: 5 factors, 200 times",
    "and: 2 lists of 60 substrings",
    "and: x != 'a{}'",
)


@pytest.mark.parametrize("shape", HOSTILE if SOAK else ALWAYS)
def test_no_shape_costs_more_than_its_size_allows(shape: str) -> None:
    text = HOSTILE[shape]
    if not SOAK and shape.startswith("or:"):  # enough to be slow where all pairs are compared
        text = " or ".join(text.split(" or ")[:500])
    with at_most(MAX_CALLS):
        p = parse(text)
    q = parse(another(text))
    for predicate in (p, q):
        with at_most(MAX_CALLS), suppress(NormalFormError):
            _ = predicate.filters
    for operation in OPERATIONS.values():
        with at_most(2 * MAX_CALLS), suppress(NormalFormError):  # two predicates of that size
            operation(p, q)
    coarse = coarser(p, 4_096, 512, 64)
    assert coarse.matches(EVENT) >= p.matches(EVENT)
    assert len(str(coarse)) <= 4_096


def spent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts, from now on, the steps of all operations."""
    total = [0]
    spend = Work.spend

    def counted(self: Work, steps: int) -> None:
        total[0] += steps
        spend(self, steps)

    monkeypatch.setattr(Work, "spend", counted)
    return total


@pytest.mark.parametrize(
    "constraint",
    ["x icontains '{}'", "x isuffix '{}'", "x i= '{}'", "x prefix '{}'", "x contains '{}'"],
)
def test_alternatives_with_texts_take_steps_in_proportion(
    constraint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(3)
    texts = ["".join(random_.choices("abcdefgh", k=32)) for _ in range(800)]
    steps = []
    for number in (200, 800):
        predicate = parse(" or ".join(map(constraint.format, texts[:number])))
        total = spent(monkeypatch)
        assert len(predicate.filters) == number
        steps.append(total[0])
        monkeypatch.undo()
    assert steps[1] <= 5 * steps[0]
    assert steps[1] <= 24 * 800


def test_the_steps_are_the_same_in_every_run() -> None:
    """Whether answers are remembered or not."""
    text = " or ".join(f"x like '%{i}_{i}%' and y > {i} and z < {i}" for i in range(100))
    steps = []
    for _ in range(2):
        counted = Work(10**9)
        reduce_filters(parse(text).filters, work=counted)
        steps.append(10**9 - counted.left)
    assert steps[0] == steps[1] > 0


def test_past_its_steps_every_operation_gives_the_safe_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    p = parse("x > 1 and y < 5 or x > 2 and y < 6 or x > 3 and y < 2 or z contains 'abc'")
    q = parse("x > 4 and y < 1 or z contains 'abcd'")
    apart = parse("w > 1 and not exists w"), parse("v > 1 and not exists v")
    assert p.covers(q)
    assert len(p.filters) == 3
    assert not apart[0].intersects(apart[1])
    monkeypatch.setattr(work, "STEPS", 1)
    monkeypatch.setattr(work, "STEPS_PER_CONSTRAINT", 0)
    fresh = parse(str(p))
    assert not fresh.covers(q)
    assert fresh.intersects(q)
    assert len(fresh.filters) == 4  # as written, sorted
    joined = union([fresh, q])
    assert len(joined.filters) == 6
    for predicate in (fresh, joined, fresh.reduce()):
        assert parse(str(predicate)) == predicate
        assert parse(str(predicate)).filters == predicate.filters
        assert predicate.matches({"x": 5, "y": 0})
        assert not predicate.matches({"x": 0, "y": 0})
    assert coarser(joined, characters=10) == parse("true")
    assert coarser(joined, characters=60).matches({"z": "abcd"})


def test_reduction_stops_where_its_steps_end() -> None:
    wide = [f"a > {i} and b < {1000 + i}" for i in range(60)]  # none covers another
    narrow = [f"a > {i} and b < {900 + i} and c = {i}" for i in range(60)]  # each is covered
    filters = [f for text in wide + narrow for f in parse(text).filters]
    before = disjoin(And(tuple(f)) for f in filters)
    counted = Work(10**9)
    assert len(absorb(filters, work=counted)) == 60
    needed = int(10**9 - counted.left)
    for steps in (0, needed // 4, needed // 2, needed - 1):
        with pytest.raises(OutOfSteps) as caught:
            absorb(filters, work=Work(steps))
        if caught.value.reached is not None:
            after = Predicate(disjoin(And(tuple(f)) for f in caught.value.reached))
            assert 60 <= len(caught.value.reached) <= 120
            for event in ({"a": 70, "b": -1}, {"a": 5, "b": 901, "c": 4}, {"a": 0, "b": 0}):
                assert after.matches(event) == Predicate(before).matches(event)


def test_a_search_has_a_bound_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    covering, covered = "x like '%a%b%c%'", "x like '%a_b%' and x like '%b%c%' and x suffix 'cc'"
    p, q = parse(covering), parse(covered)
    exact = p.covers(q, lists=False)
    monkeypatch.setattr(strings, "MAX_SEARCH", 20)
    assert not p.covers(q, lists=False)
    assert p.intersects(q, lists=False)
    monkeypatch.undo()
    assert p.covers(q, lists=False) is exact


def test_regular_expressions_are_bounded_together() -> None:
    one = r"x matches 'a\pL{{30}}{}'"
    assert parse(" or ".join([one.format(1)] * 300)).matches({"x": "b"}) is False
    with pytest.raises(PredicateError, match="at most 50000 instructions in one predicate"):
        parse(" or ".join(map(one.format, range(300))))
    assert tx.MAX_PROGRAMS == 50_000


def test_a_name_with_many_dots_is_followed_by_the_keys_that_exist() -> None:
    path = ".".join("a" * 512)
    records: dict[str, Any] = {"a": [{} for _ in range(2_000)]}
    with at_most(100_000):
        assert not parse(f"{path} = 1").matches(records)
    assert parse("a.b.c.d.e = 1").matches({"a": {"b.c": [{}, {"d": {"e": 1}}]}})
    assert parse("a.b.c.d.e = 1").matches({"a.b": {"c": {"d.e": [2, 1]}, "c.d": {"e": 3}}})
