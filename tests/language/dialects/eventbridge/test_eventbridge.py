"""The dialect `eventbridge`: event-ruler's own cases, and its slow twin on whatever is drawn."""

import io
import json
from collections import Counter
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import strategies
from tests.language.dialects.eventbridge import oracle
from tests.places import DATA
from tidings import Event, Predicate, PredicateError, Table, TranslationError, parse
from tidings.language.dialects import DIALECTS
from tidings.language.dialects.eventbridge.addresses import read_address
from tidings.language.expression import Expression
from tidings.matching.matchers import MATCHERS


def lines(*names: str) -> list[Any]:
    """The rows of a file of cases."""
    file = DATA.joinpath(*names)
    if not file.exists():
        pytest.skip("the cases are not beside the repository (shared/data)")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def bridge(pattern: Any) -> Predicate:
    return parse(pattern, dialect="eventbridge")


# Cases from elsewhere


def test_the_cases_of_event_ruler() -> None:
    for case in lines("event-ruler-cases", "match_cases.jsonl"):
        predicates = [bridge(pattern) for _, pattern in case["rules"]]
        names = [name for name, _ in case["rules"]]
        table = Table(enumerate(predicates))
        event = case["event"]
        asked = {name for name, p in zip(names, predicates, strict=True) if p.matches(event)}
        assert asked == set(case["matches"]), case["id"]
        assert {names[int(id)] for id in table.match(event)} == asked, case["id"]
        batch = pa.table({"event": [json.dumps(event)]})
        found = table.match_batch(batch, json="event").column("subscription").to_pylist()
        assert {names[id] for id in found} == asked, case["id"]


def test_the_cases_of_moto() -> None:
    for case in lines("eventbridge-moto", "cases.jsonl"):
        predicate = bridge(case["pattern"])
        assert predicate.matches(case["event"]) is case["expected"], case["id"]
        table = Table({"it": predicate})
        assert table.match(case["event"]) == (["it"] if case["expected"] else []), case["id"]


def test_rules_are_good_where_event_ruler_takes_them() -> None:
    for case in lines("event-ruler-cases", "rule_validity.jsonl"):
        if case["valid"]:
            bridge(case["rule_text"])
        else:
            with pytest.raises(PredicateError):
                bridge(case["rule_text"])


@pytest.mark.parametrize("name", MATCHERS)
def test_the_rules_of_city_lots_find_what_event_ruler_finds(name: str) -> None:
    events = lines("citylots-bench", "citylots_sample.jsonl")
    rules = json.loads((DATA / "citylots-bench" / "sample_expected.json").read_text())["rules"]
    matcher = MATCHERS[name]()
    for id, rule in enumerate(rules):
        matcher.add(id, bridge(rule["pattern"]))
    counts = Counter(id for event in events for id in matcher.match(event))
    assert [counts[id] for id in range(len(rules))] == [r["matches_in_sample"] for r in rules]


def test_the_rules_of_city_lots_find_the_same_in_columns() -> None:
    lines("citylots-bench", "citylots_sample.jsonl")
    file = DATA / "citylots-bench" / "citylots_sample.jsonl"
    rules = json.loads((DATA / "citylots-bench" / "sample_expected.json").read_text())["rules"]
    events = [
        {k: v for k, v in event.items() if k != "geometry"}
        | {"geometry": {"type": event["geometry"]["type"]}}
        for event in map(json.loads, io.StringIO(file.read_text(encoding="utf-8")))
    ]
    table = Table((id, bridge(rule["pattern"])) for id, rule in enumerate(rules))
    found = table.match_batch(pa.Table.from_pylist(events))
    counts = Counter(found.column("subscription").to_pylist())
    present = [without_nulls(event) for event in events]
    for id, rule in enumerate(rules):
        assert counts[id] == sum(oracle.matches(rule["pattern"], event) for event in present)


# Against the slow twin

STRINGS = ["", "a", "ab", "Ab", "b", "s", "S", "ſ", "ſt", "st", "k", "K", "ß", "SS", "ı", "I", "*",
           "a*", "\\", "%", "a_", "10.0.0.1", "010.0.0.1", "10.0.1.7", "10.0.0.1.", "::1", "0:0::1",
           "::ffff:a00:1", "::FFFF:0a00:1", "2001:db8::1", "2001:DB8:0::1", "12:30", "σ", "ς", "Σ",
           "\U00010400", "\U00010428"]  # fmt: skip
NUMBERS = [0, 1, 1.0, 1.5, -1, 2, 5, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 10**23, 1e23, 2**64,
           10**400, 0.1, 1e300, -1e300]  # fmt: skip
COMPARED = [n for n in NUMBERS if oracle._comparable(n) is not None]
strings = st.sampled_from(STRINGS)
some = st.sampled_from(["a", "b", "s", "1"])


def lists_of(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(one, st.lists(one, min_size=1, max_size=3))


full = strings.filter(bool)
wildcards = st.lists(
    st.sampled_from(["*", "a", "b", "\\*", "\\\\", "%", "_", "s"]), max_size=4
).map(
    lambda parts: "".join(p for i, p in enumerate(parts) if p != "*" or parts[i - 1 : i] != ["*"])
)
compared = st.sampled_from(COMPARED)
ranges = st.one_of(
    st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), compared).map(list),
    st.tuples(st.sampled_from([">", ">="]), compared, st.sampled_from(["<", "<="]), compared)
    .filter(lambda r: float(r[1]) < float(r[3]))
    .map(list),
)
expressions = st.one_of(
    st.builds(lambda v: {"prefix": v}, strings),
    st.builds(lambda v: {"suffix": v}, strings),
    st.builds(lambda v: {"exactly": v}, strings),
    st.builds(lambda v: {"equals-ignore-case": v}, strings),
    st.builds(lambda v: {"prefix": {"equals-ignore-case": v}}, strings),
    st.builds(lambda v: {"suffix": {"equals-ignore-case": v}}, strings),
    st.builds(lambda v: {"wildcard": v}, wildcards),
    st.builds(lambda v: {"numeric": v}, ranges),
    st.builds(lambda v: {"exists": v}, st.booleans()),
    st.sampled_from(
        [{"cidr": c} for c in ("10.0.0.0/24", "10.0.0.9/31", "0.0.0.0/0", "::/0", "2001:db8::/32",
                               "::1/127", "10.0.0.1/7")]
    ),
    st.builds(lambda v: {"anything-but": v}, lists_of(strings)),
    st.builds(lambda v: {"anything-but": v}, lists_of(compared)),
    st.builds(lambda v: {"anything-but": {"prefix": v}}, lists_of(full)),
    st.builds(lambda v: {"anything-but": {"suffix": v}}, lists_of(full)),
    st.builds(lambda v: {"anything-but": {"equals-ignore-case": v}}, lists_of(strings)),
    st.builds(lambda v: {"anything-but": {"wildcard": v}}, lists_of(wildcards)),
)  # fmt: skip
values = st.one_of(strings, st.sampled_from(NUMBERS), st.booleans(), st.none())
choices = st.lists(st.one_of(values, expressions, expressions), min_size=1, max_size=2)
fields = st.dictionaries(st.sampled_from(["x", "y", "z", "x.y"]), choices, min_size=1, max_size=3)
patterns: st.SearchStrategy[dict[str, Any]] = st.recursive(
    fields,
    lambda inner: st.one_of(
        st.dictionaries(
            st.sampled_from(["x", "a", "a.b"]), st.one_of(inner, choices), min_size=1, max_size=2
        ),
        st.builds(
            lambda rest, ways, first: {"$or": ways, **rest} if first else {**rest, "$or": ways},
            inner, st.lists(inner, min_size=2, max_size=2), st.booleans(),
        ),
    ),
    max_leaves=3,
)  # fmt: skip
event_values = st.recursive(
    values,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["x", "y", "z", "a", "b"]), inner, max_size=3),
    ),
    max_leaves=8,
)
events = st.dictionaries(
    st.sampled_from(["x", "y", "z", "a", "b", "a.b", "x.y"]), event_values, max_size=4
)


def constants(test: Any) -> list[Any]:
    """The constants of a test, which are values that it may well hold on."""
    if isinstance(test, dict):
        return [c for operand in test.values() for c in constants(operand)]
    return [c for one in test for c in constants(one)] if isinstance(test, list) else [test]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Patterns, and events of which some have what the patterns ask for, perhaps within arrays."""
    rules = draw(st.lists(patterns, min_size=1, max_size=4))
    found = draw(st.lists(events, max_size=2))
    for rule in rules:
        event: dict[str, Any] = {}
        for name, tests in draw(st.sampled_from(oracle.rules(rule))).items():
            value = draw(st.one_of(st.sampled_from(constants(tests)), values))
            if draw(st.booleans()):
                value = [value, *draw(st.lists(values, max_size=2))]
            if draw(st.integers(0, 7)):
                put(draw, event, name, value)
        found.append(event)
    return rules, found


def put(draw: st.DrawFn, record: dict[str, Any], name: str, value: Any) -> None:
    """Put a value under a dotted name, through records, new elements of arrays, or neither."""
    head, dot, rest = name.partition(".")
    if not dot or draw(st.integers(0, 9)) == 0:
        record[name] = value
        return
    inner = record.get(head)
    if isinstance(inner, list) and draw(st.booleans()):
        inner = next((one for one in inner if isinstance(one, dict)), None)
    elif isinstance(inner, list):
        inner.append({})
        inner = inner[-1]
    if not isinstance(inner, dict):
        inner = {}
        record[head] = [inner] if draw(st.booleans()) else inner
    put(draw, inner, rest, value)


@pytest.mark.parametrize("number", [10**39, 10**41 + 1, 10**308, 10**309, -(10**400)])
def test_integers_past_doubles_are_compared_by_their_digits(number: int) -> None:
    pattern = {"x": [number]}
    table = Table({1: bridge(pattern)})
    for value in (number, number + 1, number - 1):
        event = {"x": value}
        assert bridge(pattern).matches(event) == oracle.matches(pattern, event) == (value == number)
        assert table.match(event) == [1] * (value == number)


@given(worlds())
def test_translated_patterns_mean_what_the_slow_twin_says(
    world: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    rules, given_events = world
    predicates = [bridge(rule) for rule in rules]
    table = Table(enumerate(predicates))
    expected = [
        [id for id, rule in enumerate(rules) if oracle.matches(rule, event)]
        for event in given_events
    ]
    for event, ids in zip(given_events, expected, strict=True):
        assert [id for id, p in enumerate(predicates) if p.matches(event)] == ids
        assert sorted(table.match(event)) == ids
        assert sorted(table.match(Event(event))) == ids
    batch = pa.table({"event": [json.dumps(event) for event in given_events]})
    assert pairs_of(table.match_batch(batch, json="event")) == [
        (row, id) for row, ids in enumerate(expected) for id in ids
    ]
    for predicate in predicates:
        again = parse(str(predicate))
        assert again == predicate
        assert str(again) == str(predicate)


@given(worlds())
def test_covering_is_never_wrong_about_patterns(
    world: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    rules, given_events = world
    predicates = [bridge(rule) for rule in rules]
    for one, other in permutations(range(len(rules)), 2):
        few = len(predicates[one].filters) * len(predicates[other].filters) <= 16
        if few and predicates[one].covers(predicates[other]):
            for event in given_events:
                assert oracle.matches(rules[one], event) or not oracle.matches(rules[other], event)


def pairs_of(found: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


# Rows of columns: there a null is absence, for every dialect.

RECORD = pa.struct([("x", pa.string()), ("y", pa.int64())])
COLUMNS = {
    "x": pa.string(),
    "z": pa.float64(),
    "a": pa.list_(RECORD),
    "b": RECORD,
}
maybe_texts = st.one_of(st.none(), strings)
maybe_integers = st.one_of(st.none(), st.sampled_from([0, 1, 2, 5, 2**53 + 1]))
maybe_records = st.one_of(st.none(), st.fixed_dictionaries({"x": maybe_texts, "y": maybe_integers}))
rows = st.fixed_dictionaries(
    {
        "x": maybe_texts,
        "z": st.one_of(st.none(), st.sampled_from([0.0, 1.5, 1e300])),
        "a": st.one_of(st.none(), st.lists(maybe_records, max_size=3)),
        "b": maybe_records,
    }
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value if v is not None]
    return value


@given(st.lists(patterns, min_size=1, max_size=4), st.lists(rows, min_size=1, max_size=5))
def test_rows_of_columns_mean_what_the_slow_twin_says_of_them_without_nulls(
    rules: list[dict[str, Any]], given_rows: list[dict[str, Any]]
) -> None:
    table = Table((id, bridge(rule)) for id, rule in enumerate(rules))
    batch = pa.table(
        {name: pa.array([row[name] for row in given_rows], kind) for name, kind in COLUMNS.items()}
    )
    expected = [
        (number, id)
        for number, row in enumerate(given_rows)
        for id, rule in enumerate(rules)
        if oracle.matches(rule, without_nulls(row))
    ]
    assert pairs_of(table.match_batch(batch)) == expected


# Mistakes


@pytest.mark.parametrize(
    ("pattern", "place", "reason"),
    [
        ('{"a": [}', 7, "expected a JSON value, found '}'"),
        ('{"a": "x"}', 6, "expected an object or an array of values, found a string"),
        ('{"a": []}', 6, "expected at least one value in an array, found none"),
        ('{"a": {}}', 6, "expected at least one field in an object, found none"),
        ('{"a": [[1]]}', 7, "a match expression, found an array"),
        ('{"a": [{"prefix": 3}]}', 18, "expected a string after prefix, found a number"),
        ('{"a": [{"prefix": "x", "b": 1}]}', 23, "expected one name in a match expression"),
        ('{"a": [{"like": "x"}]}', 8, "found 'like'"),
        ('{"a": [{"wildcard": "x**"}]}', 20, "no two * side by side"),
        ('{"a": [{"wildcard": "x\\\\y"}]}', 20, "* or a backslash after a backslash"),
        ('{"a": [{"cidr": "10.0.0.0/32"}]}', 16, "from 0 to 31 bits"),
        ('{"a": [{"cidr": "10.0.0/8"}]}', 16, "an address of IPv4 or IPv6"),
        ('{"a": [{"numeric": [">", 3, "<", 3]}]}', 28, "an upper bound above the lower one"),
        ('{"a": [{"numeric": ["<", 3, ">", 1]}]}', 28, "the end of the range"),
        ('{"a": [{"numeric": [">"]}]}', 23, "a number after >"),
        ('{"a": [{"numeric": ["=", 9007199254740993]}]}', 25, "a double writes with the same"),
        ('{"a": [{"anything-but": [1, "x"]}]}', 24, "only strings or only numbers"),
        ('{"a": [{"anything-but": {"cidr": "x"}}]}', 25, "inside anything-but, found 'cidr'"),
        ('{"$or": [{"a": [1]}]}', 8, "two objects or more in the array of $or"),
        ('{"a": [1]} x', 11, "expected the end of the text"),
        ('{"a": ["\\ud800"]}', 7, "a lone surrogate"),
        ("[1]", 0, "expected an object as the pattern, found an array"),
    ],
)
def test_a_mistake_is_shown_at_its_place(pattern: str, place: int, reason: str) -> None:
    with pytest.raises(PredicateError) as caught:
        bridge(pattern)
    assert caught.value.position == place
    assert reason in caught.value.summary


def test_mappings_are_taken_as_their_json() -> None:
    assert bridge({"a": ["x", 1]}) == bridge('{"a": ["x", 1]}')
    with pytest.raises(PredicateError, match="a pattern that JSON can write"):
        bridge({"a": [object()]})
    with pytest.raises(TypeError, match="an event pattern or its JSON, found int"):
        bridge(3)


def test_sizes_are_bounded() -> None:
    either = [{"x": [1]}, {"y": [1]}]
    many = json.dumps({f"a{n}": {"$or": either} for n in range(13)})
    with pytest.raises(PredicateError, match="at most 4096 branches"):
        bridge(many)
    with pytest.raises(PredicateError, match="at most 64 levels of nesting"):
        bridge('{"a":' * 70 + "[1]" + "}" * 70)
    with pytest.raises(PredicateError, match="at most 4096 characters after wildcard"):
        bridge({"a": [{"wildcard": "a" * 5_000}]})


def test_or_is_a_plain_name_where_no_objects_follow() -> None:
    assert bridge({"$or": ["a", "b"]}).matches({"$or": "b"})
    assert bridge({"$or": {"x": [1]}}).matches({"$or": {"x": 1}})
    assert bridge({"$or": [{"prefix": "a"}, {"suffix": "b"}]}).matches({"$or": "ab"})


def test_a_name_that_comes_again_replaces_what_it_said() -> None:
    twice = bridge('{"a": ["x"], "a": ["y"]}')
    assert twice == bridge('{"a": ["y"]}')
    assert bridge('{"a": {"b": [1]}, "a.b": [2]}') == bridge('{"a.b": [2]}')


def test_large_arrays_are_matched_in_a_time_near_their_size() -> None:
    rule = {"a": {"x": [1], "y": [2], "z": [{"exists": False}], "b": {"x": [1], "y": [2]}}}
    size = 20_000
    lot: dict[str, Any] = {
        "a": [{"x": n % 2, "y": n % 2 + 1, "b": [{"x": 1, "y": 3}]} for n in range(size)]
    }
    test = DIALECTS["eventbridge"].test(json.dumps(rule))
    assert not test(lot)
    lot["a"][size - 1]["b"].append({"x": 1, "y": 2})
    assert test(lot)


def test_wildcards_and_cases_take_linear_time_on_hostile_texts() -> None:
    text = "a" * 50_000
    pattern = "*".join("a" * 1_000) + "*b"
    for rule in ({"x": [{"wildcard": pattern}]}, {"x": [{"anything-but": {"wildcard": pattern}}]}):
        assert bridge(rule).matches({"x": text}) is ("anything-but" in str(rule))
    ignoring = {"x": [{"suffix": {"equals-ignore-case": "ſ" * 1_000 + "b"}}]}
    assert not bridge(ignoring).matches({"x": "s" * 50_000})


def test_addresses_are_read_as_java_reads_them() -> None:
    for text in ("256.0.0.1", "1.2.3", "12:30", ":", ":::", "1::2::3", "1:2:3:4:5:6:7:8:9", "g::",
                 "", "1:2:3:4:5:6:7:", "10.0.0.1/8", "000000000010.0.0.1"):  # fmt: skip
        assert read_address(text) is None, text
    for one, other in (("::", "0:0:0:0:0:0:0:0"), ("::FFFF:1:2", "0.1.0.2"), ("1::8", "1:0::0:8")):
        assert read_address(one) == read_address(other) is not None, one


# Writing


@given(
    strategies.expressions(
        strategies.constraints(
            ["x", "y"], strategies.small_texts, strategies.small_numbers, regular=False
        ),
        size=3,
    ),
    st.lists(
        st.dictionaries(
            st.sampled_from(["x", "y"]),
            lists_of(
                st.one_of(
                    strategies.small_texts, strategies.small_numbers, st.booleans(), st.none()
                )
            ),
            max_size=2,
        ),
        max_size=5,
    ),
)
def test_what_is_written_means_the_same(
    expression: Expression, given: list[dict[str, Any]]
) -> None:
    predicate = Predicate(expression)
    try:
        pattern = DIALECTS["eventbridge"].write(expression)
    except TranslationError:
        return
    for event in given:
        assert bridge(pattern).matches(event) is predicate.matches(event)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (
            "class = 'alert' and severity > 2",
            '{"class": ["alert"], "severity": [{"numeric": [">", 2]}]}',
        ),
        ("a.b in ('x', 'y') or c = true", '{"$or": [{"a.b": ["x", "y"]}, {"c": [true]}]}'),
        ("x like 'a%b*'", '{"x": [{"wildcard": "a*b\\\\*"}]}'),
        ("x contains 'a'", '{"x": [{"wildcard": "*a*"}]}'),
        ("x iprefix 'Ab'", '{"x": [{"prefix": {"equals-ignore-case": "ab"}}]}'),
        ("x between 1 and 2.5", '{"x": [{"numeric": [">=", 1, "<=", 2.5]}]}'),
        ("x = '10.0.0.1'", '{"x": [{"exactly": "10.0.0.1"}]}'),
        ("exists string x", '{"x": [{"prefix": ""}]}'),
    ],
)
def test_predicates_are_written_as_patterns(text: str, pattern: str) -> None:
    assert DIALECTS["eventbridge"].write(parse(text).expression) == pattern


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not x = 1", "not x = 1: it also holds where the attribute is absent"),
        ("x > 1 and x < 5", "a list may satisfy two constraints"),
        ("x < 'b'", "no operator like < on texts"),
        ("int x = 1", "there all numbers are of one type"),
        ("x like 'a_b'", "no brother for a single character"),
        ("x matches 'a'", "no operator like matches"),
        ("true", "every pattern has fields"),
        ("false", "no event can match it"),
        ("x > 9007199254740993", "past 2^53"),
        ('"$or" = 1 or x = 1', "no name of a field"),
        ('"prefix" = 1 or y = 2', "cannot be the name of a field within $or"),
    ],
)
def test_what_cannot_be_said_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(TranslationError) as caught:
        DIALECTS["eventbridge"].write(parse(text).expression)
    assert reason in str(caught.value)
