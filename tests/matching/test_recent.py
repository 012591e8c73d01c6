"""Recent subscriptions are found like compiled ones, in the whole language, through all changes."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.language import oracle, strategies
from tidings import Event, Predicate, parse
from tidings.language.constraint import Constraint
from tidings.language.expression import Expression, conjoin
from tidings.matching import recent as recent_module
from tidings.matching import recent_kernels as rk
from tidings.matching import table as table_module
from tidings.matching.contract import Id
from tidings.matching.recent import RecentIndex
from tidings.matching.scan import Scan
from tidings.matching.segment import Segment
from tidings.matching.table import Table
from tidings.matching.workload import WORKLOADS

many_expressions = st.lists(strategies.expressions(size=4), max_size=12)
many_events = st.lists(strategies.flat_events, min_size=1, max_size=4)
bounds = st.sampled_from([4096, 4096, 2])  # the last leaves many without a normal form


def expected(expressions: list[Expression], event: dict[str, Any]) -> list[int]:
    """The places of the expressions that an event satisfies, by the slow twin."""
    flat = {n: [*v] if isinstance(v, tuple) else [v] for n, v in Event(event).items()}
    return [n for n, e in enumerate(expressions) if oracle.holds(e, flat, event)]


def filled(predicates: list[Predicate]) -> Table:
    """A table in which all subscriptions are recent."""
    table = Table()
    for id, predicate in enumerate(predicates):
        table.add(id, predicate)
    assert not table._parts.segments
    return table


@given(many_expressions, many_events, bounds)
def test_recent_subscriptions_are_found_like_compiled_ones(
    expressions: list[Expression], events: list[dict[str, Any]], bound: int
) -> None:
    table = filled([Predicate(e, bound) for e in expressions])
    found = [sorted(table.match(event)) for event in events]
    assert found == [expected(expressions, event) for event in events]
    table._parts = table._parts._replace(recent=table._parts.recent.without(()))  # other cells
    assert [sorted(table.match(event)) for event in events] == found
    table.compact()
    assert [sorted(table.match(event)) for event in events] == found


values = st.one_of(st.integers(-3, 33), st.floats(0, 30), st.text("ab", max_size=3))
ranges = st.one_of(
    st.builds(
        lambda name, operator, a, b: Constraint(
            name,
            operator,
            "number",
            False,
            (min(a, b), max(a, b)) if operator == "between" else a,
        ),
        st.sampled_from("xyz"),
        st.sampled_from(["<", ">", "<=", ">=", "between", "!="]),
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    st.builds(
        Constraint,
        st.sampled_from("xyz"),
        st.sampled_from(["<", ">=", "prefix", "suffix", "contains"]),
        st.just("string"),
        st.booleans(),
        st.text("ab", min_size=1, max_size=10),
    ),
)


@settings(max_examples=examples(50))
@given(
    st.lists(ranges, min_size=1, max_size=30),
    st.lists(
        st.dictionaries(
            st.sampled_from("xyz"), st.one_of(values, st.lists(values, max_size=3)), max_size=3
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_many_ranges_fill_blocks_and_stay_exact(
    constraints: list[Constraint], events: list[dict[str, Any]]
) -> None:
    expressions = [conjoin((a, b)) for a in constraints for b in constraints]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_module, "LEAST", 16)  # so that it grows, and cells are cut
        table = filled([Predicate(e) for e in expressions])
    for event in events:
        assert sorted(table.match(event)) == expected(expressions, event)


HUGE = [2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, 2**70 + 1, -(2**70), 10**400]
ODD: list[Any] = [*HUGE, 0, -0.0, 0.5, float("nan"), float("inf"), float("-inf"), True, "ß", "\0"]


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("kind", ["number", "int", "real"])
def test_numbers_are_compared_exactly(operator: str, kind: str) -> None:
    constants: list[Any] = [2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 0, 0.5, 1e300]
    expressions: list[Expression] = [
        Constraint("x", operator, kind, negated, constant)
        for constant in constants
        for negated in (False, True)
    ]
    table = filled([Predicate(e) for e in expressions])
    for event in [{"x": value} for value in ODD] + [{"x": ODD[:3]}, {"x": []}, {}]:
        assert sorted(table.match(event)) == expected(expressions, event), event


class Churn:
    """A table and a scan, changed alike."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.table = Table()
        self.scan = Scan()
        self.held: list[int] = []
        self.next = 0

    def text(self) -> str:
        a, b, c = (int(n) for n in self.random.integers(0, 30, 3))
        return [
            f"x = {a} and y > {b}",
            f"x > {a} and y < {b} and z between {min(b, c)} and {max(b, c) + 1}",
            f"name i= 'N{a % 5}' or y = {b}",
            f"name like 'n%{a % 3}_' and not x = {c}",
            f"x in ({a}, {b}, {c})",
            f"flag = true and z > {c}",
            f"not name prefix 'n{a % 7}'",
        ][int(self.random.integers(0, 7))]

    def change(self) -> None:
        what = self.random.integers(0, 10)
        if what < 5 or not self.held:
            predicate = parse(self.text())
            self.table.add(self.next, predicate)
            self.scan.add(self.next, predicate)
            self.held.append(self.next)
            self.next += 1
            return
        place = int(self.random.integers(0, len(self.held)))
        id = self.held[place]
        self.scan.remove(id)
        if what < 8:
            self.table.remove(id)
            self.held.pop(place)
        else:
            predicate = parse(self.text())
            self.table.replace(id, predicate)
            self.scan.add(id, predicate)

    def event(self) -> dict[str, Any]:
        a, b, c = (int(n) for n in self.random.integers(0, 30, 3))
        return {"x": a, "y": [b, c] if c % 3 == 0 else b, "name": f"n{a % 7}1-", "z": c / 2}


@pytest.mark.parametrize("seed", range(3))
def test_growing_compiling_and_changing_change_no_answer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "RECENT", 100 if seed else 1_000_000)
    churn = Churn(seed)
    for step in range(1500):
        churn.change()
        if step % 5 == 0:
            event = churn.event()
            assert sorted(churn.table.match(event)) == sorted(churn.scan.match(event))
    churn.table.wait()
    for _ in range(100):
        event = churn.event()
        assert sorted(churn.table.match(event)) == sorted(churn.scan.match(event))


def test_a_segment_removes_many_subscriptions_at_once() -> None:
    predicates: dict[Id, Predicate] = {
        n: parse(f"x > {n}" if n % 3 else f"x > {n} and y = 1") for n in range(300)
    }
    segment = Segment.of(predicates)
    assert sorted(segment.match({"x": 250, "y": 1})) == list(range(250))
    segment.remove_all(np.arange(300) % 2 == 0)
    assert len(segment) == 150
    assert sorted(segment.match({"x": 250, "y": 1})) == list(range(1, 250, 2))
    assert segment.remove(7)
    assert not segment.remove(8)
    assert sorted(segment.match({"x": 9, "y": 1})) == [1, 3, 5]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*WORKLOADS])
def test_many_recent_and_removed_subscriptions_match_as_if_compiled(name: str) -> None:
    workload = WORKLOADS[name](seed=5)
    pairs = list(workload.subscriptions(0, 4_000))
    table = Table(pairs[:1_000])
    for id, predicate in pairs[1_000:]:
        table.add(id, predicate)
        if id % 3 == 0:
            table.remove(id // 3)
    left = [pair for pair in pairs if not 334 <= pair[0] <= 1_333]
    compiled = Table(left)
    assert len(table) == len(compiled)
    assert len(table._parts.recent) > 1_000
    for event in workload.events(0, 60):
        assert sorted(table.match(event)) == sorted(compiled.match(event))


def test_more_residuals_than_subscriptions_are_evaluated() -> None:
    table = Table({"compiled": "name = 'never'"})
    many = parse(" or ".join(f"(x > {n} and name matches '^{n}$')" for n in range(150)))
    for id in range(3):
        table.add(id, many)
    assert sorted(table.match({"x": 200, "name": "130"})) == [0, 1, 2]
    assert table.match({"x": 120, "name": "130"}) == []
    table.remove(1)
    assert sorted(table.match({"x": 200, "name": "0"})) == [0, 2]


def test_residuals_of_removed_subscriptions_are_forgotten() -> None:
    table = Table()
    for n in range(3_000):
        table.add(n, f"name matches '^{n}$'")
        if n >= 10:
            table.remove(n - 10)
    assert len(table._parts.recent.residuals) < 1_000
    assert table.match({"name": "2995"}) == [2995]
    assert table.match({"name": "7"}) == []


def test_ready_lists_of_ids_follow_removals() -> None:
    random = np.random.default_rng(3)
    table = Table({f"s{n}": f"x {'<' if n % 2 else '>'} {n}" for n in range(600)})
    held = set(range(600))
    for turn, n in enumerate(random.permutation(600).tolist()):
        x = int(random.integers(0, 600))
        expected = sorted(f"s{n}" for n in held if (x < n if n % 2 else x > n))
        assert sorted(table.match({"x": x})) == expected
        if turn % 7 == 6:
            table.replace(f"s{n}", "x = -1")
        else:
            table.remove(f"s{n}")
        held.remove(n)
    assert table.match({"x": 300}) == []


@pytest.fixture
def hurry() -> Iterator[None]:
    """Threads take turns far more often than usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(3e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize(
    "kept",
    ["x = {third} and y > 0", "y > -{n}", "x = {third} and z matches '[ab]'"],
    ids=["with a test left", "ready lists", "with a residual"],
)
def test_a_replaced_subscription_is_found_once_at_every_moment(
    kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make before break: from segment to recent, to recent again, and to a segment."""
    monkeypatch.setattr(table_module, "RECENT", 64)
    table = Table({n: kept.format(n=n, third=n % 3) for n in range(200)})
    stop = threading.Event()
    wrong: list[Any] = []
    expected = list(range(1, 200, 3)) if "x" in kept else list(range(200))

    def ask() -> None:
        while not stop.is_set():
            found = table.match({"x": 1, "y": 5, "z": "a"})
            if sorted(found) != expected:
                wrong.append(found)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(4):
        for n in range(200):
            extra = "" if turn % 2 else " and z i= 'A'"
            table.replace(n, f"{kept.format(n=n, third=n % 3)} and y > {turn}{extra}")
            table.add(1_000 + 200 * turn + n, "y > 9")  # which is queued
        if turn == 2:
            table.compact()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_event_is_matched_again_if_a_subscription_is_replaced_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table({n: f"y > -{n}" for n in range(100)})
    table.add("recent", "z = 1")
    (segment,) = table._parts.segments
    found, calls = segment.found, 0

    def replacing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:  # the kernel has seen the old one, and the list no longer has it
            table.replace(5, "y > 0")
        return found(*arguments)

    monkeypatch.setattr(segment, "found", replacing)
    assert sorted(table.match({"y": 5}), key=int) == list(range(100))
    assert calls == 2


def test_removing_leaves_room_and_no_trace() -> None:
    """Arrays do not grow for ever if as many subscriptions go as come."""
    table = Table()
    sizes = set()
    for n in range(20_000):
        table.add(n, f"a{n % 1000} > {n} and b prefix 'p{n}'")
        if n >= 10:
            table.remove(n - 10)
        sizes.add(table._parts.recent.context[rk.HELD_RECORDS + 1])
    assert len(table) == len(table._parts.recent) == 10
    assert max(sizes) < 400_000
    assert sorted(table.match({f"a{n}": 1e9 for n in range(1000)} | {"b": "p19995"})) == [19_995]


def test_an_index_without_room_files_nothing_and_the_larger_one_does() -> None:
    recent = RecentIndex()
    wide = parse(" or ".join(f"(a{n} > {n} and b{n} prefix 'x{n}')" for n in range(2_000)))
    recent.add("narrow", parse("a = 1"))
    recent.add("wide", wide)
    recent.add("folded", parse("a iprefix 'B'"))
    assert not recent.file()
    assert len(recent.waiting) == 2
    assert not recent.add("wide", wide)  # which would have to be filed first
    larger = recent.larger()
    assert larger.file()
    assert not larger.waiting
    assert larger.held().keys() == {"narrow", "wide", "folded"}
    assert larger.larger(wide).add("wide", wide)
    table = Table()
    table.add("wide", wide)
    assert table.match({"a7": 8, "b7": "x7-"}) == ["wide"]
    assert table.match({"a7": 7, "b7": "x7-"}) == []
    assert table.match({f"a{n}": 9999 for n in range(2_000)} | {"b3": "x3"}) == ["wide"]


def test_a_subscription_removed_before_it_is_filed_is_not_found() -> None:
    table = Table({"a": "x = 1"})
    for n in range(10):
        table.add(n, "x = 1" if n % 2 else "x imatches 'a.'")
    for n in range(0, 10, 3):
        table.remove(n)
    table.add(3, "x = 'AB'")
    table.replace(5, "x = 'Ab'")
    assert set(table.match({"x": 1})) == {"a", 1, 7}
    assert set(table.match({"x": "Ab"})) == {2, 4, 5, 8}


@pytest.mark.parametrize("ids", [int, str, lambda n: n << 60, lambda n: n if n % 2 else str(n)])
def test_ids_of_any_kind_come_back(ids: Callable[[int], Id]) -> None:
    table = Table({ids(n): f"x > {n}" for n in range(20)})
    for n in range(20, 40):
        table.add(ids(n), f"x > {n}")
    table.remove(ids(3))
    found = table.match({"x": 30})
    assert found != []
    assert {(type(id), id) for id in found} == {(type(ids(n)), ids(n)) for n in range(30) if n != 3}
    for n in range(20):  # ids of one kind only
        table.remove(ids(2 * n)) if ids(2 * n) in table else None
    table.compact()
    table.add(ids(41), "x > 1")
    assert set(table.match({"x": 8})) == {ids(n) for n in (1, 5, 7, 41)}


SINGLE = [
    f"x {operator} {value}"
    for operator in ("<", "<=", ">", ">=")
    for value in (-1.5, 0, 1, 2**53, 2**53 + 1, 2**63 - 1, "'a'", "'abcdefgh'", "'abcdefghi'", "''")
] + ["x between 0 and 1", "x between 'a' and 'abcdefgh'", "x between 'abcdefgh' and 'abcdefghz'"]
VALUES: list[Any] = [
    -2, -1.5, -0.0, 0, 0.5, 1, True, 2**53, 2**53 + 1, 2**53 + 2, 2**63, 1e300, float("inf"),
    "", "a", "a\0", "ab", "abcdefg", "abcdefgh", "abcdefgh\0", "abcdefghi", "é", None,
]  # fmt: skip


def test_single_comparisons_mean_the_same() -> None:
    """A single comparison is found by a key of the value, and tested if the key does not decide."""
    table = Table()
    predicates = dict(enumerate(SINGLE))
    for id, text in predicates.items():
        table.add(id, text)
    for value in [*VALUES, [1, "a"], ["abcdefgh", 2**53 + 1, 0], [True, "b"], []]:
        for event in ({"x": value}, {"x": value, "y": 1}):
            expected = [id for id, text in predicates.items() if parse(text).matches(event)]
            assert sorted(table.match(event)) == expected, value
        if value == 0.5:  # the others go on as before
            for id in range(0, len(SINGLE), 4):
                table.remove(id)
                del predicates[id]


def test_attributes_that_share_a_chain_find_each_subscription_once() -> None:
    table = Table()
    for n in range(400):
        table.add(n, f"a{n} = {'true' if n % 2 else n}")
    event = {f"a{n}": True if n % 2 else n for n in range(400)}
    assert sorted(table.match(event)) == list(range(400))
