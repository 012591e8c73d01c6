"""What only `cesql` has: values and errors, expression by expression, and bounds."""

from typing import Any

import pytest

from tests.language.dialects.cesql import cases
from tests.language.dialects.cesql.oracle import known, spelled
from tests.language.dialects.harness import Record
from tidings import PredicateError, parse
from tidings.language.dialects import DIALECTS
from tidings.language.dialects.cesql.evaluation import formula
from tidings.language.dialects.cesql.syntax import kind, read_expression
from tidings.language.dialects.cesql.values import EvaluationError

ROWS = [
    pytest.param(*case, *(None, {})[len(case) - 2 :], id=f"{section}: {case[0]}")
    for section, rows in cases.CONFORMANCE.items()
    for case in rows
]


@pytest.mark.parametrize(("text", "expected", "error", "event"), ROWS)
def test_conformance(text: str, expected: Any, error: str | None, event: Record) -> None:
    if expected == "parse":
        with pytest.raises(PredicateError):
            read_expression(f"({text}) = 0")
        return
    node = read_expression(f"({text}) = 0").parts[0]
    passing = expected is True and error is None
    if error is not None:
        with pytest.raises(EvaluationError) as raised:
            formula(node)(single(event))
        assert raised.value.kind == error
    else:
        value = formula(node)(single(event))
        assert (value, type(value)) == (expected, type(expected))
    if kind(node) in ("boolean", "any"):
        assert parse(text, dialect="cesql").matches(event) is passing
        refused = expected is False and error is None
        assert (
            parse(f"NOT ({text})", dialect="cesql").matches(event) is refused or kind(node) == "any"
        )
    else:
        with pytest.raises(PredicateError, match="a boolean expression"):
            parse(text, dialect="cesql")
        asked = parse(f"({text}) = {spelled(('lit', expected))}", dialect="cesql")
        assert asked.matches(event) is (error is None)


def single(event: Record) -> Record:
    return {name: known(value) for name, value in event.items() if value is not None}


def test_long_filters_keep_a_normal_form() -> None:
    many = " AND ".join(f"a{i} = {i}" for i in range(40))
    assert len(parse(many, dialect="cesql").filters) <= 4096
    event = {f"a{i}": i for i in range(40)}
    assert parse(many, dialect="cesql").matches(event)
    assert not parse(many, dialect="cesql").matches(event | {"a39": 1})
    either = " OR ".join(f"a{i} = {i}" for i in range(200))
    assert parse(either, dialect="cesql").matches({f"a{i}": -1 for i in range(199)} | {"a199": 199})
    wordy = " OR ".join(f"LENGTH(CONCAT(a{i}, '{'b' * 500}')) = {i}" for i in range(100))
    assert len(str(parse(wordy, dialect="cesql"))) < 1_000_000
    members = ", ".join(f"'{i}a'" for i in range(3_000))
    listed = parse(f"x IN ({members}) XOR y IN ({members})", dialect="cesql")
    assert parse(str(listed)).matches({"x": "2999a", "y": "3000a"})
    tangled = "x = 1" + " XOR y = 2" * 30
    assert parse(tangled, dialect="cesql").matches({"x": 1, "y": 2})


def test_concatenation_is_bounded() -> None:
    parts = ", ".join(["x"] * 3_000)
    predicate = parse(f"EXISTS x AND LENGTH(CONCAT({parts})) > 0", dialect="cesql")
    assert predicate.matches({"x": "a" * 1_000})
    assert not predicate.matches({"x": "a" * 10_000})


@pytest.mark.parametrize(
    "text", ["x != 'a'", "x != 5", "x between 1 and 3", "not x != 'a'", "not x between 1 and 3"]
)
@pytest.mark.parametrize(
    "value", [["a", "b"], ["a", "a"], ["b"], [0, 4], [0, 2], [5, 6], [5], [1, 3], []], ids=str
)
def test_what_is_written_means_the_same_on_lists_too(text: str, value: list[Any]) -> None:
    predicate = parse(text)
    compared = str if "'" in text else int
    if all(type(element) is compared for element in value):
        written = parse(DIALECTS["cesql"].write(predicate.expression), dialect="cesql")
        assert written.matches({"x": value}) == predicate.matches({"x": value})


def test_names_are_as_they_are_written() -> None:
    same = parse("LOWER(ParentImage) = LOWER(Image)", dialect="cesql")
    assert same.matches({"ParentImage": "A", "Image": "a"})
    assert not same.matches({"parentimage": "A", "image": "a"})
