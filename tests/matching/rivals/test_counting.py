"""The counting algorithm of paper F: the ids that every predicate gives, by the paper's steps."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.strategies import HOSTILE_NUMBERS, expressions, flat_events
from tidings import parse
from tidings.language.constraint import Constraint
from tidings.language.predicate import Predicate
from tidings.matching.rivals import counting_kernels as ck
from tidings.matching.rivals.counting import KINDS, Counters, Counting, split
from tidings.matching.workload import ForwardingWorkload

# Figure 2 of the paper. The first constraint's constant is not legible in our copy.
FORWARDING_TABLE = {
    "I1": "dest = 'Madison' and price < 500 or stock = 'DYS' and quantity > 1000 and price < 500",
    "I2": "airline = 'UA' and orig = 'Chicago' and dest = 'Atlanta'"
    " or dest = 'New York' and price < 200 or orig = 'Chicago'"
    " or airline = 'UA' and upgradeable = true",
    "I3": "stock = 'MSFT' and price < 200",
}
# The index holds these; nothing is left to ask in Python.
TEXT_OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "contains"]
NUMBER_OPERATORS = TEXT_OPERATORS[:6]

every_kind_of_counters = pytest.mark.parametrize("counters", KINDS)
words = st.text(alphabet="abé\U0001f600", max_size=5)


def table(texts: dict[str, str], rounds: int = 0, counters: Counters = "array") -> Counting:
    return Counting(((id, parse(text)) for id, text in texts.items()), rounds, counters)


def asked(subscriptions: dict[Any, Predicate], event: dict[str, Any]) -> list[Any]:
    return sorted(id for id, p in subscriptions.items() if p.matches(event))


@pytest.mark.parametrize("rounds", [0, 3])
@given(
    st.lists(expressions(), max_size=8),
    st.lists(flat_events, min_size=1, max_size=4),
    st.sampled_from([1, 4, 4096]),
)
def test_gives_the_ids_that_asking_every_predicate_gives(
    rounds: int, wanted: list[Any], events: list[dict[str, Any]], max_filters: int
) -> None:
    subscriptions = {i: Predicate(e, max_filters) for i, e in enumerate(wanted)}
    counting = Counting(subscriptions.items(), rounds)
    for event in events * 2:  # again: the first round left nothing behind
        assert sorted(counting.match(event)) == asked(subscriptions, event)


@every_kind_of_counters
@given(st.data())
def test_selectivity_cbf_is_the_broadcast_among_matching_interfaces(
    counters: Counters, data: st.DataObject
) -> None:
    """Figure 7 with a message, B and T, for any number of rounds."""

    def constraint(draw: st.DrawFn) -> str:
        name = draw(st.sampled_from("xyz"))
        if draw(st.booleans()):
            operator = draw(st.sampled_from(TEXT_OPERATORS))
            return f"{name} {operator} '{draw(words)}'"
        return f"{name} {draw(st.sampled_from(NUMBER_OPERATORS))} {draw(st.integers(-2, 2))}"

    constraints = st.composite(constraint)()
    filters = st.lists(constraints, min_size=1, max_size=3).map(" and ".join)
    predicates = st.lists(filters, min_size=1, max_size=3).map(" or ".join)
    texts = data.draw(st.lists(predicates, min_size=1, max_size=12))
    subscriptions = {i: parse(text) for i, text in enumerate(texts)}
    counting = Counting(subscriptions.items(), data.draw(st.sampled_from([0, 3])), counters)
    scalar = st.one_of(words, st.integers(-3, 3), st.sampled_from([-0.5, 0.0, 2.0]))
    value = st.one_of(scalar, st.lists(scalar, max_size=3))
    for event in data.draw(st.lists(st.dictionaries(st.sampled_from("xyz"), value), max_size=5)):
        expected = asked(subscriptions, event)
        assert sorted(counting.match(event)) == expected
        broadcast = data.draw(st.sets(st.integers(0, len(texts))))
        found = counting.match(event, broadcast)
        assert sorted(found) == [id for id in expected if id in broadcast]


def test_the_forwarding_table_of_figure_2() -> None:
    counting = table(FORWARDING_TABLE)
    assert sorted(counting.match({"dest": "Madison", "price": 300})) == ["I1"]
    assert sorted(counting.match({"dest": "New York", "price": 150})) == ["I2"]
    assert sorted(counting.match({"stock": "MSFT", "price": 150, "orig": "Chicago"})) == [
        "I2",
        "I3",
    ]
    assert counting.match({"stock": "DYS", "quantity": 1000, "price": 10}) == []
    assert counting.match({"stock": "DYS", "quantity": 1001, "price": 10}) == ["I1"]
    assert counting.match({"airline": "UA", "upgradeable": True}) == ["I2"]
    assert counting.match({"airline": "UA", "upgradeable": False}) == []
    assert counting.match({"airline": "UA", "upgradeable": 1}) == []
    everything = {"stock": "MSFT", "price": 1, "orig": "Chicago", "dest": "Madison"}
    assert sorted(counting.match(everything)) == ["I1", "I2", "I3"]


def test_equal_constraints_are_one() -> None:
    right = table(FORWARDING_TABLE).table.right
    # `orig = 'Chicago'` covers a filter of three, which leaves 12 of 15 constraints; `price < 500`
    # and `price < 200` are there twice each.
    assert right.filters.size == 12
    assert right.begin.size - 1 == 10


def test_determinants_of_figure_2() -> None:
    """As the paper says: price for I1 and I3, stock for I3, no other for any."""
    counting = table(FORWARDING_TABLE, rounds=9)
    names = {number: name for name, number in counting.table.names.items()}
    selectivity = counting.table.selectivity
    assert [names[a] for a in selectivity.attributes] == ["price", "stock"]
    assert selectivity.excludes[:, 0].tolist() == [0b101, 0b100]


def test_rounds_exclude_and_are_counted() -> None:
    event = {"orig": "Chicago"}
    assert [table(FORWARDING_TABLE, r).excluded(event) for r in range(4)] == [0, 2, 2, 2]
    no_stock = {"price": 100, "dest": "New York"}
    assert [table(FORWARDING_TABLE, r).excluded(no_stock) for r in range(4)] == [0, 0, 1, 1]
    assert table(FORWARDING_TABLE, 3).match(event) == ["I2"]


def test_what_holds_on_absence_determines_nothing() -> None:
    counting = table({"a": "not x = 1", "b": "x = 1 or not exists x", "c": "x = 1"}, rounds=3)
    assert counting.excluded({}) == 1
    assert sorted(counting.match({})) == ["a", "b"]


def test_all_excluded_or_all_matched_ends_the_work() -> None:
    excluded = table({"a": "x = 1 and y = 1", "b": "x = 2"}, rounds=1)
    assert excluded.match({"y": 1}) == []
    assert excluded.table.state.progress[ck.FOUND] == 0
    matched = table({"a": "x = 1", "b": "x < 2 or y = 1"})
    assert sorted(matched.match({"x": 1, "y": 1})) == ["a", "b"]
    assert matched.table.state.progress[ck.FOUND] == 2  # y was not looked up


def test_interfaces_outside_the_broadcast_are_ignored_from_the_start() -> None:
    counting = table({"a": "x = 1", "b": "x < 2", "c": "y = 1", "d": "true"}, rounds=1)
    assert counting.match({"x": 1, "y": 1}, ["b", "d", "unknown"]) == ["b", "d"]
    assert counting.match({"x": 1, "y": 1}, ["d"]) == ["d"]
    assert counting.table.state.progress[ck.FOUND] == 0  # all are ignored, so nothing is looked up
    assert counting.match({"x": 1, "y": 1}, []) == []
    assert counting.excluded({"y": 1}) == 2  # those outside a broadcast are not counted
    assert sorted(counting.match({"x": 1, "y": 1})) == ["a", "b", "c", "d"]


@every_kind_of_counters
def test_every_kind_of_counters_counts_many_filters(counters: Counters) -> None:
    """Maps that grow by thousands of counters, and begin empty for the next event."""
    workload = ForwardingWorkload(seed=5, type_by="draw")
    subscriptions = list(workload.subscriptions(0, 4_000))
    flat = Counting(subscriptions, 10)
    for rounds in (0, 10):
        other = flat.variant(rounds, counters)
        for event in workload.events(0, 30):
            assert sorted(map(int, other.match(event))) == sorted(map(int, flat.match(event)))
    with pytest.raises(ValueError, match="at most the 10 rounds built, found 11"):
        flat.variant(11, counters)


@given(st.lists(st.integers(0, 4), min_size=40, max_size=40))
def test_joined_interfaces_are_the_disjunctions_of_their_subscriptions(owners: list[int]) -> None:
    workload = ForwardingWorkload(seed=7, type_by="draw", constraints=(1, 4))
    counting = Counting(workload.subscriptions(0, 40))
    ports = {f"port {n}": [i for i, o in enumerate(owners) if o == n] for n in set(owners)}
    joined = counting.join(ports, rounds=9)
    built = Counting(joined.subscriptions.items(), rounds=9)
    for event in workload.events(0, 20):
        found = set(counting.match(event))
        expected = sorted(port for port, ids in ports.items() if found.intersection(ids))
        assert sorted(joined.match(event)) == sorted(built.match(event)) == expected
        assert joined.excluded(event) == built.excluded(event)


def test_joining_takes_every_subscription_once() -> None:
    counting = table({"a": "x = 1", "b": "x = 2"})
    for wrong in ({"port": ["a"]}, {"port": ["a", "b"], "other": ["a"]}):
        with pytest.raises(ValueError, match="every subscription behind one interface"):
            counting.join(wrong)
    with pytest.raises(ValueError, match="have filters with constraints"):
        table({"a": "true"}).join({"port": ["a"]})


def test_the_filters_of_a_matched_subscription_are_skipped() -> None:
    counting = table({"a": "x = 1 or y = 1 and z = 1", "b": "w = 1"})
    assert counting.match({"x": 1, "y": 1, "z": 1}) == ["a"]
    assert np.array_equal(counting.table.state.counters, counting.table.right.sizes)
    assert not counting.table.state.ignored.any()


@pytest.mark.parametrize(
    "constants",
    [
        [""],
        ["", "a", "ab", "abc"],
        ["b", "a", "c", "ba", "bb"],
        ["é", "e\u0301", "\u0080", "\u07ff", "\u0800"],
        ["\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "a\U0001f600"],
        ["aaaa", "aa", "a"],
        ["\0", "a\0", "\0a"],
    ],
)
def test_texts_in_the_trie(constants: list[str]) -> None:
    subscriptions = {
        f"{operator} {constant!r}": Predicate(Constraint("x", operator, "string", False, constant))
        for constant in constants
        for operator in TEXT_OPERATORS
    }
    counting = Counting(subscriptions.items())
    probes = {"", "a", "zz", *constants}
    probes |= {a + b for a in constants for b in constants}
    probes |= {text[:-1] for text in probes} | {text[1:] for text in probes}
    for probe in probes:
        for event in ({"x": probe}, {"x": [probe, constants[0]]}):
            assert sorted(counting.match(event)) == asked(subscriptions, event)


def test_numbers_compare_without_rounding() -> None:
    constants = [*HOSTILE_NUMBERS, 2**53 - 1, -(2**53) - 1, 2**62 + 1, float(2**62), 2**63 - 513]
    subscriptions = {
        f"{type_} {operator} {constant!r}": Predicate(
            Constraint("x", operator, type_, False, constant)
        )
        for constant in constants
        for operator in NUMBER_OPERATORS
        for type_ in ("number", "int", "real")
    }
    counting = Counting(subscriptions.items())
    probes = [*constants, 2**63, 2**63 + 1, 2**64, -(2**63) - 1, 10**400, -(10**400)]
    probes += [float("inf"), float("-inf"), float("nan"), int(1.7976931348623157e308) + 1]
    for probe in probes:
        assert sorted(counting.match({"x": probe})) == asked(subscriptions, {"x": probe})


@given(st.integers(-(2**70), 2**70) | st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1))
def test_split_numbers_compare_as_the_numbers_do(value: int | float, constant: int) -> None:
    for other in (constant, float(constant)):
        assert (split(value) < split(other)) == (value < other)
        assert (split(value) == split(other)) == (value == other)


def test_a_constraint_counts_once_however_often_it_is_met() -> None:
    counting = table({"a": "x contains 'a' and y = 1", "b": "x > 1 and z = 1"})
    assert counting.match({"x": "banana"}) == []
    assert counting.match({"x": [2, 3, 4, "a", "aa"]}) == []
    assert counting.match({"x": ["a", 3], "y": 1}) == ["a"]


def test_changes_are_seen_at_the_next_match() -> None:
    counting = table({"a": "x = 1"})
    assert counting.match({"x": 1}) == ["a"]
    counting.add("b", parse("x < 2"))
    assert sorted(counting.match({"x": 1})) == ["a", "b"]
    counting.remove("a")
    assert counting.match({"x": 1}) == ["b"]
    counting.remove("b")
    assert counting.match({"x": 1}) == []
    with pytest.raises(KeyError, match="not in the table"):
        counting.remove("b")
    counting.add("b", parse("true"))
    with pytest.raises(KeyError, match="already"):
        counting.add("b", parse("true"))
    assert counting.match({}) == ["b"]


def test_records_lists_and_json_are_events() -> None:
    counting = table({"a": "host.name = 'web-1'", "b": "tags = 'x' and not tags = 'y'"})
    assert counting.match({"host": {"name": ["db-1", "web-1"]}}) == ["a"]
    assert counting.match(b'{"host.name": "web-1", "tags": ["x", null]}') == ["a", "b"]
    batch = pa.table({"tags": [["x"], None, ["x", "y"]], "host": [{"name": "web-1"}, None, None]})
    assert counting.match_batch(batch).to_pylist() == [
        {"event": 0, "subscription": "a"},
        {"event": 0, "subscription": "b"},
    ]


@pytest.mark.slow
def test_many_filters_and_long_ones() -> None:
    long = " and ".join(f"a{i} = {i}" for i in range(300))
    texts = {f"s{i}": f"x = {i % 7} and y > {i}" for i in range(1000)}
    counting = table({"long": long, **texts})
    event = {f"a{i}": i for i in range(300)} | {"x": 3, "y": 500}
    assert sorted(counting.match(event)) == sorted(
        ["long", *(f"s{i}" for i in range(500) if i % 7 == 3)]
    )
    assert counting.match({"a0": 0, "x": 0, "y": 0}) == []
    stats = counting.stats()
    assert (stats.subscriptions, stats.filters, stats.constraints) == (1001, 1001, 2300)
    assert stats.bytes > 2300 * 8


def test_an_empty_table_matches_nothing() -> None:
    for rounds in (0, 3):
        counting = Counting(rounds=rounds)
        assert counting.match({"x": 1}) == []
        assert counting.stats()[:3] == (0, 0, 0)
    with pytest.raises(ValueError, match="0 or more rounds"):
        Counting(rounds=-1)
    with pytest.raises(ValueError, match="expected counters array, map, hash, found 'list'"):
        Counting(counters="list")  # type: ignore[arg-type]
