"""Matching means what docs/language.md says: every predicate against the slow twin."""

import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidings
from tests.language import oracle, strategies
from tidings import Event, EventError, Predicate, parse
from tidings.language.event import lookup
from tidings.language.expression import Expression


def laid_out(event: dict[str, Any]) -> dict[str, list[Any]]:
    """An event without records as the twin wants it: a list for each attribute."""
    return {
        name: [v for v in (value if isinstance(value, list) else [value]) if v is not None]
        for name, value in event.items()
    }


@given(strategies.expressions(), strategies.flat_events)
def test_matches_equals_the_slow_twin(expression: Expression, event: dict[str, Any]) -> None:
    expected = oracle.holds(expression, laid_out(event))
    predicate = Predicate(expression)
    assert predicate.matches(event) is expected
    assert predicate.matches(Event(event)) is expected


@given(strategies.expressions(), st.lists(strategies.flat_events, min_size=1, max_size=4))
def test_the_normal_form_means_the_same(
    expression: Expression, events: list[dict[str, Any]]
) -> None:
    filters = Predicate(expression).filters
    for event in events:
        expected = oracle.holds(expression, laid_out(event))
        assert any(filter.check()(event) for filter in filters) is expected


@given(strategies.expressions(), strategies.flat_events)
def test_negation_is_exact(expression: Expression, event: dict[str, Any]) -> None:
    predicate = Predicate(expression)
    assert (~predicate).matches(event) is not predicate.matches(event)


@given(strategies.expressions(), strategies.expressions(), strategies.flat_events)
def test_and_and_or_are_pointwise(a: Expression, b: Expression, event: dict[str, Any]) -> None:
    p, q = Predicate(a), Predicate(b)
    assert (p & q).matches(event) is (p.matches(event) and q.matches(event))
    assert (p | q).matches(event) is (p.matches(event) or q.matches(event))


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "a.b", "b.a"]), inner, max_size=3),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "a.b", "b.a"]), json_values, max_size=3))
def test_looking_up_agrees_with_laying_flat(event: dict[str, Any]) -> None:
    flat = Event(event)
    for name in {*flat, "a", "a.b", "a.b.a", "b.a.b", "c"}:
        assert sorted(map(repr, lookup(event, name))) == sorted(map(repr, lookup(flat, name)))
    assert Event(json.dumps(event)) == flat


@pytest.mark.parametrize(
    ("event", "text", "expected"),
    [
        ({"a": {"b": {"c": 1}}}, "a.b.c = 1", True),
        ({"a": {"b.c": 1}}, "a.b.c = 1", True),
        ({"a.b": {"c": 1}}, "a.b.c = 1", True),
        ({"a": [{"b": 1}, {"b": 2}]}, "a.b = 2", True),
        ({"a": [{"b": 1}, 7]}, "a = 7", True),
        ({"a": [[1, [2]], 3]}, "a = 2", True),
        ({"a": {"b": 1}}, "exists a", False),
        ({"a": []}, "exists a", False),
        ({"a": [None]}, "exists a", False),
        ({"a": math.nan}, "exists a", True),
        ({"a": math.nan}, "a != 1", False),
        ({"a": math.nan}, "not a = 1", True),
        ({"a": [math.nan, 2]}, "a != 1", True),
        ({"a": True}, "a = 1", False),
        ({"a": 1}, "a = true", False),
        ({"a": 2**53 + 1}, "a = 9007199254740992.0", False),
        ({"a": float(2**53)}, "a < 9007199254740993", True),
        ({"a": "10"}, "a > 5", False),
        ({"a": 1.0}, "int a = 1", False),
        ({"a": 1}, "real a = 1", False),
        ({"a": 2**64 - 1}, "a > 9223372036854775807", True),
        ({"a": (1, 2)}, "a = 2", True),
        ({"a": {1, 2}}, "a = 2", True),
    ],
)
def test_corners_of_events(event: dict[str, Any], text: str, expected: bool) -> None:
    assert parse(text).matches(event) is expected
    assert parse(text).matches(Event(event)) is expected


def test_json_is_read() -> None:
    predicate = parse("host.name prefix 'web-' and load > 0.5")
    assert predicate.matches(b'{"host": {"name": "web-3"}, "load": 0.75}')
    assert predicate.matches('{"host": {"name": "web-3"}, "load": 0.75}')


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (b"[1]", "expected a JSON object"),
        (b'{"a": ', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a": NaN}', "not JSON"),
        (17, "expected a mapping"),
    ],
)
def test_what_is_no_event_is_said_to_be_none(event: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        Event(event)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ('{"ü": 1,}', "not JSON: trailing comma in object (line 1, column 9)", 8),
        ('{"ü": 1,\n "😀" ?}', "(line 2, column 6)", 14),
        ('{"ü": 1', "not JSON: the end of the text came too early (line 1, column 8)", 7),
        ('{"x": 1e999}', "not JSON: Number out of range", None),
        ("[1]", "expected a JSON object", None),
    ],
)
def test_malformed_json_is_placed_by_character(
    text: str, message: str, position: int | None
) -> None:
    raw = text.encode()
    for source in (text, raw, bytearray(raw), memoryview(raw)):
        with pytest.raises(EventError) as caught:
            Event(source)
        assert message in str(caught.value)
        assert caught.value.position == position
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (str(copy), copy.position) == (str(caught.value), position)


def test_nesting_is_bounded() -> None:
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    assert not parse("a = 1").matches({"a": deep})
    assert parse("b = 1").matches({"a": deep, "b": 1})
    for _ in range(10_000):
        deep = {"a": deep}
    assert Event({"a": deep, "b": 1}) == {"b": 1}


def test_numbers_of_numpy_like_libraries_are_taken() -> None:
    class Int64:
        dtype = "int64"

        def item(self) -> int:
            return 5

    assert parse("a = 5").matches({"a": Int64()})


def test_the_version_is_known() -> None:
    assert tidings.__version__
