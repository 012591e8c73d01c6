"""Explanations tell the truth, and in words that a person can use."""

import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import Event, parse
from tidings.language import explanation as ex
from tidings.language.explanation import Explanation, Finding, explain

NAMES = ["a", "b", "a.b"]
CONSTRAINTS = [
    "{} = 1",
    "{} != 1",
    "{} < 2.5",
    "{} >= 0",
    "{} between 1 and 3",
    "{} between 3 and 1",
    "{} in (1, 'x', true)",
    "{} prefix 'x'",
    "{} isuffix 'Y'",
    "{} like 'x%y_'",
    "{} matches '^x'",
    "{} i!= 'x'",
    "exists {}",
    "exists int {}",
    "{} is null",
    "not {} = 'x'",
]
SCALARS = st.sampled_from([0, 1, 2, 1.0, 2.5, float("nan"), "x", "xyz", "X", "", True, False])
VALUES = SCALARS | st.none() | st.lists(SCALARS | st.none(), max_size=3)
EVENTS = st.dictionaries(
    st.sampled_from(NAMES), VALUES | st.dictionaries(st.sampled_from(["b", "c"]), VALUES)
)
PREDICATES = st.recursive(
    st.builds(str.format, st.sampled_from(CONSTRAINTS), st.sampled_from(NAMES))
    | st.sampled_from(["true", "false"]),
    lambda inner: (
        st.builds("({} and {})".format, inner, inner)
        | st.builds("({} or {})".format, inner, inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=6,
)


@given(PREDICATES, EVENTS)
def test_verdict_is_that_of_matching(text: str, event: dict[str, Any]) -> None:
    predicate = parse(text)
    explanation = explain(predicate, event)
    assert explanation.matches == predicate.matches(event) == explanation.tree.holds
    assert explanation.filters is not None
    assert any(finding.holds for finding in explanation.filters) == explanation.matches
    for finding in explanation.findings:
        assert finding.why
        assert finding.holds == parse(finding.as_dict()["text"]).matches(event)
    assert all(finding.holds is False for finding in explanation.missing)
    assert bool(explanation.missing) == (not explanation.matches and bool(explanation.filters))
    json.dumps(explanation.as_dict())
    assert str(explanation).isprintable() or "\n" in str(explanation)


def why(predicate: str, event: dict[str, Any]) -> str:
    """The words for a predicate of one constraint."""
    (finding,) = explain(parse(predicate), event).findings
    return finding.why


@pytest.mark.parametrize(
    ("predicate", "event", "words"),
    [
        ("severity > 2", {"severity": 1}, "severity is 1, not above 2"),
        ("severity > 2", {"severity": 3}, "severity is 3, above 2"),
        ("not severity > 2", {"severity": 3}, "severity is 3, above 2"),
        (
            "severity > 2",
            {"severity": "7"},
            'severity is the text "7", the constraint asks for a number',
        ),
        (
            "exists int x",
            {"x": 2.0},
            "x is the real 2.0, the constraint asks for an integer",
        ),
        ("x = true", {"x": 1}, "x is the integer 1, the constraint asks for a boolean"),
        ("x = 'a'", {"x": True}, "x is the boolean true, the constraint asks for a text"),
        ("x != 1", {"x": 1}, "x is 1, equal to 1"),
        ("x < 2", {"x": float("nan")}, "x is NaN, which satisfies no comparison"),
        ("exists x", {"x": float("nan")}, "x is NaN"),
        ("x between 1 and 3", {"x": 4}, "x is 4, not between 1 and 3"),
        ("x in ('a', 'b')", {"x": "c"}, "x is \"c\", not one of ('a', 'b')"),
        (
            "x ilike 'A%'",
            {"x": "b"},
            "x is \"b\", which does not fit the pattern 'A%' (case ignored)",
        ),
        ("x matches 'a+'", {"x": "b"}, "x is \"b\", in which the expression 'a+' is not found"),
        ("x = 'b'", {"x": ["a", "b", "c"]}, 'value 2 of 3 of x is "b"'),
        (
            "x > 5",
            {"x": [1, 2, "q"]},
            'x has 3 values, none of them is above 5 (1 not a number): 1, 2, "q"',
        ),
        ("x > 5", {"x": ["p", "q"]}, 'x has 2 values, none of them is a number: "p", "q"'),
        (
            "x > 9",
            {"x": list(range(8))},
            "x has 8 values, none of them is above 9: 0, 1, 2, 3, 4, …",
        ),
        ("x = 1", {"x": None}, "x is null, which is the same as absent"),
        ("x = 1", {"x": []}, "x is an empty list, which is the same as absent"),
        ("x = 1", {"x": [None]}, "x is a list of nulls, which is the same as absent"),
        ("h.x = 1", {"h": {"x": None}}, "h.x is null, which is the same as absent"),
        ("x = 1", {}, "the event has no x"),
        ("not x = 1", {}, "the event has no x, so the negation holds"),
        ("x is null", {}, "the event has no x, so the negation holds"),
        ("severty = 1", {"severity": 1, "site": 2}, "the event has no severty (it has severity)"),
        ("severity = 1", {"Severity": 1}, "the event has no severity (it has Severity)"),
        ("name = 'a'", {"host": {"name": "a"}}, "the event has no name (it has host.name)"),
        ("sites = 1", {"site": None}, "the event has no sites"),
        (
            "host = 'a'",
            {"host": {"name": "a", "rack": 1}},
            "host is a record, not a value; its attributes are host.name, host.rack",
        ),
    ],
)
def test_words_say_why(predicate: str, event: dict[str, Any], words: str) -> None:
    assert why(predicate, event) == words


def test_every_operator_has_its_words() -> None:
    from tidings.language.constraint import MINDING_CASE, TESTS

    assert {MINDING_CASE.get(operator, operator) for operator in TESTS} == set(ex._PHRASES)


def test_nearest_filter_lacks_the_fewest_constraints() -> None:
    predicate = parse("a = 1 and b = 2 and c = 3 or d = 4 and e = 5 and f = 6")
    explanation = explain(predicate, {"a": 1, "d": 4, "e": 5})
    assert explanation.nearest is not None
    assert explanation.filters is not None
    assert [f.failing for f in explanation.filters] == [2, 1]
    assert explanation.nearest == 1
    assert [finding.constraint.name for finding in explanation.missing] == ["f"]
    assert explain(predicate, {"a": 1, "b": 2, "c": 3}).nearest is None


@pytest.mark.slow
def test_normal_form_past_its_bound_is_said_and_the_rest_explained() -> None:
    text = " and ".join(f"(a{number} = 1 or b{number} = 1)" for number in range(20))
    explanation = explain(parse(text), {"a1": 1})
    assert explanation.filters is None
    assert explanation.as_dict()["normal_form"]["past_bound"] is True
    assert len(list(explanation.findings)) == 40
    assert "would pass the bound of 4096 filters" in str(explanation)


def test_what_is_no_value_is_named_with_its_type() -> None:
    event = {"a": 1, "b": b"raw", "c": ["\ud800"], "d": datetime.date(2024, 1, 1)}
    explanation = explain(parse("a = 1 or b = 2 or c = 'x' or d = 5"), event)
    assert explanation.matches
    assert [finding.why for finding in explanation.findings] == [
        "a is 1",
        "b is of type bytes, not a value, which is the same as absent",
        "c is a text with a lone surrogate, not a value, which is the same as absent",
        'd is the text "2024-01-01", the constraint asks for a number',
    ]
    assert explain(parse("b = 2"), Event(event)).findings == explain(parse("b = 2"), event).findings


def test_json_and_predicates_own_method_explain_alike() -> None:
    predicate = parse("x > 2")
    assert predicate.explain(b'{"x": 3}') == explain(predicate, {"x": 3})


def test_explanation_is_a_value() -> None:
    explanation = explain(parse("x = 1"), {"x": 1})
    assert isinstance(explanation, Explanation)
    assert isinstance(explanation.tree, Finding)
    with pytest.raises(AttributeError):
        explanation.matches = False  # type: ignore[misc]


def test_dict_has_the_documented_fields() -> None:
    found = explain(parse("not (x = 1 and y = 2)"), {"x": 1, "y": 2}).as_dict()
    assert found == {
        "predicate": "not (x = 1 and y = 2)",
        "matches": False,
        "tree": {
            "kind": "not",
            "holds": False,
            "parts": [
                {
                    "kind": "and",
                    "holds": True,
                    "parts": [
                        {
                            "kind": "constraint",
                            "text": f"{name} = {number}",
                            "name": name,
                            "holds": True,
                            "why": f"{name} is {number}",
                        }
                        for name, number in (("x", 1), ("y", 2))
                    ],
                }
            ],
        },
        "normal_form": {
            "max_filters": 4096,
            "past_bound": False,
            "filters": [
                {"text": "not x = 1", "holds": False, "failing": 1, "constraints": 1},
                {"text": "not y = 2", "holds": False, "failing": 1, "constraints": 1},
            ],
            "nearest": 0,
            "missing": [
                {
                    "kind": "constraint",
                    "text": "not x = 1",
                    "name": "x",
                    "holds": False,
                    "why": "x is 1",
                }
            ],
        },
    }


@pytest.mark.slow
def test_text_of_huge_things_is_bounded() -> None:
    names = [f"n{number}" for number in range(3000)]
    predicate = parse(" or ".join(f"{name} = '{'v' * 250}'" for name in names))
    text = str(explain(predicate, {name + "x": "w" * 100_000 for name in names}))
    lines = text.splitlines()
    assert len(lines) < ex.MAX_LINES_SHOWN + ex.MAX_FILTERS_SHOWN + ex.MAX_MISSING_SHOWN + 20
    assert max(map(len, lines)) < 1000
    assert "more lines" in text
    assert "more filters" in text
    assert "2^3321…" in why("x > 1", {"x": -(10**1000)})


def test_text_cannot_steer_a_terminal() -> None:
    event = {"x": "\x1b[31m\x9b\u202e", "\x1b]0;t\x07": 1}
    text = str(explain(parse("x = 'a\x1b[2J' or \"\x1b]0;t\x07x\" = 1"), event))
    assert all(line.isprintable() for line in text.splitlines())
