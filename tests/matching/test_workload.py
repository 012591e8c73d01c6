"""Workloads: rows that depend on their number alone, in normal form, drawn as they say."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidings.language.constraint import Constraint
from tidings.language.event import Event
from tidings.language.predicate import Predicate, parse
from tidings.matching.workload import (
    WORKLOADS,
    EqualitiesWorkload,
    ForwardingWorkload,
    MixedWorkload,
    Names,
    RangesWorkload,
    WildcardsWorkload,
    Workload,
)
from tidings.matching.workloads.draws import BLOCK
from tidings.matching.workloads.vocabulary import MAX_LETTERS, MIN_LETTERS, vocabulary

pytestmark = pytest.mark.slow

EDGE = (BLOCK - 6, BLOCK + 7)  # rows on both sides of a border between blocks
INTERFACES = ForwardingWorkload(interfaces=20, filters=(1, 50))
BY_DRAW = ForwardingWorkload(type_by="draw")

each_workload = pytest.mark.parametrize(
    "make",
    [*WORKLOADS.values(), partial(ForwardingWorkload, filters=(2, 9), type_by="draw")],
    ids=[*WORKLOADS, "interfaces"],
)


def shares(drawn: Iterable[Any]) -> dict[Any, float]:
    counts = Counter(drawn)
    return {key: count / counts.total() for key, count in counts.items()}


def assert_shares(drawn: Iterable[Any], expected: dict[Any, float], within: float = 0.01) -> None:
    found = shares(drawn)
    assert found.keys() <= expected.keys()
    for key, share in expected.items():
        assert found.get(key, 0.0) == pytest.approx(share, abs=within), key


def uniform(values: Iterable[Any]) -> dict[Any, float]:
    listed = list(values)
    return dict.fromkeys(listed, 1 / len(listed))


def single_constraints(count: int, **parameters: Any) -> list[Constraint]:
    """Constraints as they are drawn: of filters that have but one, where none can be redundant."""
    workload = ForwardingWorkload(constraints=(1, 2), **parameters)
    return [predicate.filters[0][0] for _, predicate in workload.subscriptions(0, count)]


def matches_per_event(workload: Workload, subscriptions: int, events: int) -> list[int]:
    predicates = [predicate for _, predicate in workload.subscriptions(0, subscriptions)]
    return [
        sum(predicate.matches(event) for predicate in predicates)
        for event in workload.events(0, events)
    ]


# Rows


@each_workload
def test_rows_do_not_depend_on_the_part_asked_for(make: Any) -> None:
    workload = make(seed=3)
    start, stop = EDGE
    subscriptions = list(workload.subscriptions(0, stop + 5))
    assert [row for row, _ in subscriptions] == list(range(stop + 5))
    assert list(workload.subscriptions(start, stop)) == subscriptions[start:stop]
    assert list(workload.subscriptions(10, 20)) == subscriptions[10:20]
    assert list(workload.subscriptions(7, 7)) == []
    events = workload.events(0, stop + 5)
    assert len(events) == stop + 5
    assert workload.events(start, stop) == events[start:stop]
    assert workload.events(10, 20) == events[10:20]
    assert workload.events(7, 7) == []


@each_workload
def test_rows_depend_on_the_seed(make: Any) -> None:
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    assert one == same
    assert one.events(0, 50) == same.events(0, 50) != other.events(0, 50)
    assert list(one.subscriptions(0, 50)) == list(same.subscriptions(0, 50))
    assert list(one.subscriptions(0, 50)) != list(other.subscriptions(0, 50))


# A change here means that every figure measured before is of other rows.
FIRST_ROWS = {
    "forwarding": (
        "caised = 'upkonger' and fosly < 39 and fosly = 92 and nog < 'jagsoo' and "
        "reckest = 68 and roment = 77 and searthear > 'priling'"
    ),
    "equalities": (
        "Abernathy.Farid = 'QzLYRkRpiXXbvDyGO3iP' and Barnard.Oliver = 'TrvfPp7wodKkR5n2yDxp'"
    ),
    "ranges": (
        "a0 between 0.14766991681858463 and 0.24766991681858463 and a1 between "
        "0.6000350172274781 and 0.7000350172274781 and a11 between 0.7691227416185731 "
        "and 0.8691227416185731 and a12 between 0.6190299656176632 and "
        "0.7190299656176632 and a2 between 0.495050093435177 and 0.595050093435177"
    ),
    "dense": (
        "a0 between 0.08203884267699146 and 0.5820388426769915 and a1 between "
        "0.3333527873485989 and 0.8333527873485989 and a11 between 0.42729041201031837 "
        "and 0.9272904120103184 and a12 between 0.3439055364542573 and "
        "0.8439055364542574 and a13 between 0.2750278296862094 and 0.7750278296862094 "
        "and a14 between 0.21366203958671903 and 0.713662039586719 and a15 between "
        "0.38874828666383243 and 0.8887482866638324 and a18 between 0.3758666148430035 "
        "and 0.8758666148430034 and a2 between 0.16559612362590942 and "
        "0.6655961236259094 and a6 between 0.06145826683030631 and 0.5614582668303063"
    ),
    "wildcards": (
        "bequoost contains 'lae' and shingflex suffix 'rintdrox' and touttex prefix 'praixpl'"
    ),
    "mixed": ("not origin.code <= 8.1"),
    "games": ("map = 'map1' and x between 169.54 and 229.54 and y between 854.47 and 914.47"),
    "feeds": ("title icontains 'koodcon' and title icontains 'trumive'"),
    "quotes": ("class = 'STOCK' and low < 61.65 and symbol = 'FLOSFO'"),
    "alerts": (
        "affects in ('bansom', 'bimflung', 'dextour', 'domcos', "
        "'mosest', 'plimnaind', 'prirt', "
        "'pronoont', 'quousur', 'ramed', 'reger', 'rekind', 'sheandive', 'slority', "
        "'stoock', 'stounment', 'weas')"
    ),
    "places": ("lat between 18.9243 and 18.9401 and lon between -128.9961 and -128.9108"),
    "quotes-table": ("class = 'STOCK' and low < 61.65 and symbol = 'FLOSFO'"),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_first_subscription_stays_the_same(name: str) -> None:
    [(row, predicate)] = WORKLOADS[name](seed=0).subscriptions(0, 1)
    assert row == 0
    assert str(predicate) == FIRST_ROWS[name]


@pytest.mark.parametrize("name", WORKLOADS)
def test_predicates_are_in_normal_form(name: str) -> None:
    for _, predicate in WORKLOADS[name](seed=4).subscriptions(0, 400):
        read = parse(str(predicate))
        assert read.filters == predicate.filters
        assert predicate.filters


@pytest.mark.parametrize("make", WORKLOADS.values(), ids=WORKLOADS)
def test_table_has_the_rows_of_events(make: Any) -> None:
    workload = make(seed=5)
    table = workload.event_table(*EDGE)
    events = workload.events(*EDGE)
    assert table.num_rows == len(events)
    for row, event in zip(table.to_pylist(), events, strict=True):
        # As text, so that 1, 1.0 and True differ.
        assert repr(sorted(Event(row).items())) == repr(sorted(Event(event).items()))
    assert workload.event_table(3, 3).schema == table.schema
    assert workload.event_table(3, 3).num_rows == 0
    assert not any(pa.types.is_null(field.type) for field in table.schema)


def test_attributes_of_two_types_make_no_columns() -> None:
    with pytest.raises(ValueError, match="several types"):
        BY_DRAW.event_table(0, 10)


@each_workload
def test_workload_describes_every_parameter(make: Any) -> None:
    text = make(seed=12).describe()
    assert "seed: 12" in text
    assert text.count("\n") == len(make(seed=12).__dataclass_fields__)


@each_workload
@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4)])
def test_rows_that_do_not_exist_are_refused(make: Any, start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="0 <= start <= stop"):
        make().events(start, stop)
    with pytest.raises(ValueError, match="0 <= start <= stop"):
        list(make().subscriptions(start, stop))


# Paper F


def test_forwarding_has_the_values_of_the_paper() -> None:
    workload = ForwardingWorkload()
    assert len(workload.events()) == 100
    assert len(list(INTERFACES.subscriptions())) == 20
    attributes = Counter(map(len, workload.events(0, 40_000)))
    assert_shares(attributes.elements(), uniform(range(1, 19)))
    # With so many names hardly any repeats, so that filters keep the lengths they were drawn with.
    many = ForwardingWorkload(constraint_names=Names(20_000, 0.0))
    lengths = [predicate.constraints for _, predicate in many.subscriptions(0, 20_000)]
    assert_shares(lengths, uniform(range(1, 10)))


def test_forwarding_names_follow_zipf_in_events_and_filters() -> None:
    names = vocabulary("names", 1_000)
    expected = dict(zip(names, Names().weights().tolist(), strict=True))
    assert expected[names[0]] == pytest.approx(0.1336, abs=0.0001)
    events = ForwardingWorkload().events(0, 40_000)
    assert_shares((next(iter(event)) for event in events), expected, within=0.005)
    assert_shares((c.name for c in single_constraints(40_000)), expected, within=0.005)


def test_forwarding_constraints_follow_the_distributions_of_the_paper() -> None:
    constraints = single_constraints(60_000)
    assert_shares((c.type for c in constraints), {"string": 0.5, "number": 0.5})
    strings = [c for c in constraints if c.type == "string"]
    numbers = [c for c in constraints if c.type == "number"]
    assert_shares(
        (c.operator for c in strings),
        {"=": 0.35, "prefix": 0.15, "suffix": 0.15, "contains": 0.15, "<": 0.1, ">": 0.1},
    )
    assert_shares((c.operator for c in numbers), {"=": 0.6, "<": 0.2, ">": 0.2})
    assert_shares((c.operand for c in strings), uniform(vocabulary("words", 1_000)), within=0.003)
    assert_shares((c.operand for c in numbers), uniform(range(100)), within=0.005)
    assert {type(c.operand) for c in numbers} == {int}


def test_forwarding_values_of_events_follow_the_distributions_of_the_paper() -> None:
    values = [value for event in ForwardingWorkload().events(0, 8_000) for value in event.values()]
    # Names of an event differ, so the frequent ones are drawn less than by chance alone.
    assert_shares(map(type, values), {str: 0.5, int: 0.5}, within=0.02)
    words = [value for value in values if type(value) is str]
    assert_shares(words, uniform(vocabulary("words", 1_000)), within=0.003)
    integers = [value for value in values if type(value) is int]
    assert_shares(integers, uniform(range(100)), within=0.005)


def test_forwarding_gives_a_name_one_type_unless_drawn() -> None:
    def types_by_name(workload: ForwardingWorkload) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for event in workload.events(0, 2_000):
            for name, value in event.items():
                found.setdefault(name, set()).add("string" if type(value) is str else "number")
        for _, predicate in workload.subscriptions(0, 2_000):
            for constraint in predicate.filters[0]:
                found.setdefault(constraint.name, set()).add(constraint.type)
        return found

    by_name = types_by_name(ForwardingWorkload())
    assert {len(types) for types in by_name.values()} == {1}
    first = vocabulary("names", 1)[0]
    assert types_by_name(BY_DRAW)[first] == {"string", "number"}
    drawn = single_constraints(20_000, type_by="draw", strings=0.25)
    assert_shares((c.type for c in drawn), {"string": 0.25, "number": 0.75})
    by_share = single_constraints(20_000, strings=0.25)
    assert_shares((c.type for c in by_share), {"string": 0.25, "number": 0.75})


def test_forwarding_interfaces_hold_many_filters() -> None:
    predicates = [predicate for _, predicate in INTERFACES.subscriptions(0, 3_000)]
    assert_shares((len(p.filters) for p in predicates), uniform(range(1, 50)))
    for predicate in predicates[:100]:
        assert list(predicate.filters) == sorted(predicate.filters)
        for filter in predicate.filters:
            assert parse(str(filter)).filters == (filter,)
    large = ForwardingWorkload(interfaces=2, filters=(6_000, 6_001))
    assert [len(predicate.filters) for _, predicate in large.subscriptions()] == [6_000, 6_000]


def test_forwarding_names_may_be_kept_apart() -> None:
    apart = ForwardingWorkload(constraint_names=Names(1_000, 1.0, first=1_000))
    asked = {c.name for _, p in apart.subscriptions(0, 500) for c in p.filters[0]}
    assert not asked & {name for event in apart.events(0, 500) for name in event}
    assert sum(matches_per_event(apart, 200, 100)) == 0


@pytest.mark.parametrize(
    "parameters",
    [
        {"constraints": (0, 3)},
        {"attributes": (5, 5)},
        {"attributes": (1, 1_200)},
        {"integers": (4, 4)},
        {"int_operators": (("=", 0.5),)},
        {"string_operators": (("like", 1.0),)},
        {"type_by": "row"},
    ],
)
def test_forwarding_refuses_parameters_that_mean_nothing(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        ForwardingWorkload(**parameters)


@pytest.mark.parametrize("names", [Names(200, 1.0), Names(20, 2.0)], ids=["again", "clocks"])
def test_distinct_names_are_drawn_one_after_the_other(names: Names) -> None:
    random = np.random.default_rng(8)
    drawn = names.draw_distinct(random, 20_000, 18)
    assert all(len(set(row)) == 18 for row in drawn.tolist())
    weights = names.weights()
    assert_shares(drawn[:, 0].tolist(), dict(enumerate(weights.tolist())))
    # The second name given that the first was the most frequent one.
    after_first = drawn[drawn[:, 0] == 0, 1].tolist()
    rest = {rank: weights[rank] / (1 - weights[0]) for rank in range(1, names.count)}
    assert_shares(after_first, rest, within=0.03)


# The others


def test_equalities_match_one_subscription_or_none() -> None:
    workload = EqualitiesWorkload(population=300)
    matches = matches_per_event(workload, 300, 600)
    assert_shares(matches, {1: 0.9, 0: 0.1}, within=0.03)
    names = [p.filters[0][0].name for _, p in EqualitiesWorkload().subscriptions(0, 20_000)]
    assert len(set(names)) == 10
    assert_shares(names, uniform(set(names)))
    operands = [c.operand for _, p in workload.subscriptions(0, 5_000) for c in p.filters[0]]
    assert len(set(operands)) == len(operands)
    assert {len(str(operand)) for operand in operands} == {20}
    letters = "".join(map(str, operands))
    assert_shares(letters, uniform(set(letters)), within=0.002)
    assert len(set(letters)) == 62
    for event in workload.events(0, 50):
        assert sorted(name.partition(".")[0] for name in event) == ["Abernathy", "Barnard"]


@pytest.mark.parametrize(("name", "ranges", "width"), [("ranges", 5, 0.1), ("dense", 10, 0.5)])
def test_ranges_have_their_number_and_width(name: str, ranges: int, width: float) -> None:
    workload = WORKLOADS[name](seed=2)
    chosen: Counter[str] = Counter()
    for _, predicate in workload.subscriptions(0, 4_000):
        [filter] = predicate.filters
        assert len({c.name for c in filter}) == len(filter) == ranges
        for constraint in filter:
            assert constraint.operator == "between"
            assert isinstance(constraint.operand, tuple)
            low, high = map(float, constraint.operand)
            assert 0 <= low < high <= 1
            assert high - low == pytest.approx(width)
            chosen[constraint.name] += 1
    names = [f"a{number}" for number in range(20)]
    assert_shares(chosen.elements(), uniform(names), within=0.005)
    table = workload.event_table(0, 10_000)
    assert table.column_names == names
    for column in table.columns:
        assert np.histogram(column, bins=10, range=(0, 1))[0] == pytest.approx(1_000, abs=150)


@pytest.mark.parametrize(
    "workload", [RangesWorkload(ranges=2, seed=1), RangesWorkload(ranges=10, width=0.5, seed=1)]
)
def test_ranges_match_with_the_chance_they_say(workload: RangesWorkload) -> None:
    matches = matches_per_event(workload, 1_000, 300)
    chance = workload.width**workload.ranges
    assert np.mean(matches) == pytest.approx(1_000 * chance, rel=0.25)


def test_wildcards_look_for_parts_of_words() -> None:
    workload = WildcardsWorkload(seed=6)
    constraints = [c for _, p in workload.subscriptions(0, 10_000) for c in p.filters[0]]
    expected = {"prefix": 0.35, "suffix": 0.25, "contains": 0.3, "like": 0.1}
    assert_shares((c.operator for c in constraints), expected)
    assert_shares((len(event) for event in workload.events(0, 20_000)), uniform(range(4, 9)))
    matches = matches_per_event(workload, 3_000, 100)
    assert 0.5 < np.mean(matches) < 10


def test_forwarding_matches_some_subscriptions() -> None:
    assert 2 < np.mean(matches_per_event(ForwardingWorkload(seed=1), 2_000, 200)) < 20


def test_mixed_has_all_there_is() -> None:
    workload = MixedWorkload(seed=9)
    predicates: list[Predicate] = [p for _, p in workload.subscriptions(0, 2_000)]
    assert {len(p.filters) for p in predicates} == {1, 2, 3}
    constraints = [c for p in predicates for filter in p.filters for c in filter]
    assert {c.operator for c in constraints} >= {
        *("=", "!=", "<", "<=", ">", ">=", "between", "in", "exists"),
        *("prefix", "suffix", "contains", "like", "matches"),
        *("i=", "i!=", "iin", "iprefix", "isuffix", "icontains", "ilike", "imatches"),
    }
    assert {c.type for c in constraints} == {"any", "number", "int", "real", "string", "bool"}
    assert {type(c.operand) for c in constraints if c.type == "number"} >= {int, float, tuple}
    assert 0.1 < np.mean([c.negated for c in constraints]) < 0.2
    events = workload.events(0, 500)
    values = [value for event in events for value in event.values()]
    assert {type(value) for value in values} == {type(None), str, int, float, bool, list, dict}
    codes = {type(event["origin.code"]) for event in map(Event, events) if "origin.code" in event}
    assert codes == {int, str, tuple}
    assert max(abs(event.get("serial") or 0) for event in events) > 2**53
    matches = matches_per_event(workload, 300, 100)
    assert 0.05 < np.mean(matches) / 300 < 0.4


def test_words_are_like_those_of_a_dictionary() -> None:
    words = vocabulary("words", 1_000)
    assert len(set(words)) == 1_000
    assert {len(word) for word in words} == set(range(MIN_LETTERS, MAX_LETTERS + 1))
    assert vocabulary("words", 50) == words[:50]
    assert set(vocabulary("names", 1_000)) != set(words)
    others = [(a, b) for a in words for b in words if a != b]
    assert sum(b.startswith(a) for a, b in others) > 200
    assert sum(b.endswith(a) for a, b in others) > 100
    assert sum(a in b for a, b in others) > 400
