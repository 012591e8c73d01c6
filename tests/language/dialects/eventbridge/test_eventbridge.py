"""What only `eventbridge` has: event-ruler's own cases, and what patterns do that no SQL does."""

import io
import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from tests.language.dialects.eventbridge import oracle
from tests.language.dialects.harness import pairs_of, without_nulls
from tests.places import DATA
from tidings import Predicate, PredicateError, Table, TranslationError, parse
from tidings.language.dialects import DIALECTS
from tidings.language.dialects.eventbridge.addresses import read_address
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
    cases = lines("event-ruler-cases", "match_cases.jsonl")
    rules = [
        (case["id"], name, bridge(pattern)) for case in cases for name, pattern in case["rules"]
    ]
    table = Table(enumerate(predicate for _, _, predicate in rules))
    batch = pa.table({"event": [json.dumps(case["event"]) for case in cases]})
    in_batch: dict[int, list[int]] = {row: [] for row in range(len(cases))}
    for row, id in pairs_of(table.match_batch(batch, json="event")):
        in_batch[row].append(id)
    for row, case in enumerate(cases):
        own = [id for id, rule in enumerate(rules) if rule[0] == case["id"]]
        asked = [id for id in own if rules[id][2].matches(case["event"])]
        assert {rules[id][1] for id in asked} == set(case["matches"]), case["id"]
        # The table holds the rules of all cases, which must not disturb each other.
        for found in (table.match(case["event"]), in_batch[row]):
            assert sorted(set(found) & set(own)) == asked, case["id"]


def test_the_cases_of_moto() -> None:
    cases = lines("eventbridge-moto", "cases.jsonl")
    table = Table((case["id"], bridge(case["pattern"])) for case in cases)
    for case in cases:
        assert bridge(case["pattern"]).matches(case["event"]) is case["expected"], case["id"]
        assert (case["id"] in table.match(case["event"])) is case["expected"], case["id"]


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


@pytest.mark.slow
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


# By hand


@pytest.mark.parametrize("number", [10**39, 10**41 + 1, 10**308, 10**309, -(10**400)])
def test_integers_past_doubles_are_compared_by_their_digits(number: int) -> None:
    pattern = {"x": [number]}
    table = Table({1: bridge(pattern)})
    for value in (number, number + 1, number - 1):
        event = {"x": value}
        assert bridge(pattern).matches(event) == oracle.matches(pattern, event) == (value == number)
        assert table.match(event) == [1] * (value == number)


def test_mappings_are_taken_as_their_json() -> None:
    assert bridge({"a": ["x", 1]}) == bridge('{"a": ["x", 1]}')
    with pytest.raises(PredicateError, match="a pattern that JSON can write"):
        bridge({"a": [object()]})
    with pytest.raises(TypeError, match="an event pattern or its JSON, found int"):
        bridge(3)


def test_a_name_that_comes_again_replaces_what_it_said() -> None:
    twice = bridge('{"a": ["x"], "a": ["y"]}')
    assert twice == bridge('{"a": ["y"]}')
    assert bridge('{"a": {"b": [1]}, "a.b": [2]}') == bridge('{"a.b": [2]}')


def test_one_object_in_two_places_is_two_arrays() -> None:
    pattern = {"a": {"p": {"x": [1]}, "q": {"x": [2]}}}
    records = [{"x": 1}, {"x": 2}]
    event = {"a": {"p": records, "q": records}}
    assert oracle.matches(pattern, json.loads(json.dumps(event)))
    assert DIALECTS["eventbridge"].test(json.dumps(pattern))(event)
    for given in (event, json.dumps(event), json.loads(json.dumps(event))):
        assert Table({1: bridge(pattern)}).match(given) == [1]


@pytest.mark.slow
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


def test_addresses_are_read_as_java_reads_them() -> None:
    for text in ("256.0.0.1", "1.2.3", "12:30", ":", ":::", "1::2::3", "1:2:3:4:5:6:7:8:9", "g::",
                 "", "1:2:3:4:5:6:7:", "10.0.0.1/8", "000000000010.0.0.1"):  # fmt: skip
        assert read_address(text) is None, text
    for one, other in (("::", "0:0:0:0:0:0:0:0"), ("::FFFF:1:2", "0.1.0.2"), ("1::8", "1:0::0:8")):
        assert read_address(one) == read_address(other) is not None, one


@pytest.mark.parametrize(("block", "address"), [("10.0.0.7/32", "010.0.0.7"), ("::1/128", "0::1")])
def test_a_block_of_one_address_is_that_address(block: str, address: str) -> None:
    predicate = parse({"ip": [{"cidr": block}]}, dialect="eventbridge")
    assert predicate.matches({"ip": address})
    assert not predicate.matches({"ip": "10.0.0.8"})
    assert not predicate.matches({"ip": "::2"})


@pytest.mark.parametrize("text", ["x i= 'ſ'", "x i= 'Ask'", "x iprefix 'ks'", "x iin ('S', 'a')"])
def test_what_ignores_case_is_written_for_all_letters_that_fold(text: str) -> None:
    predicate = parse(text)
    written = parse(DIALECTS["eventbridge"].write(predicate.expression), dialect="eventbridge")
    for value in ("ſ", "s", "S", "ask", "aſ\u212a", "ASK", "\u212aſa", "KSx", "k", "a", "t", "ß"):
        assert written.matches({"x": value}) == predicate.matches({"x": value}), value


def test_a_text_with_too_many_letters_of_three_cases_is_not_written() -> None:
    with pytest.raises(TranslationError, match="Kelvin"):
        DIALECTS["eventbridge"].write(parse("x i= 'sskksss'").expression)
