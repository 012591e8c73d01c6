"""A filter that the network takes over holds for exactly the rows for which Spark would hold it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as d
from pyspark.sql import types as T

from tests.effort import examples
from tidings.language.predicate import parse
from tidings.spark import pushdown
from tidings.spark.pushdown import pushed, said_of
from tidings.spark.rows import Rows

KINDS: dict[str, T.DataType] = {
    "s": T.StringType(),
    "i": T.LongType(),
    "d": T.DoubleType(),
    "b": T.BooleanType(),
    'odd "name"': T.StringType(),
}
SCHEMA = T.StructType([T.StructField(name, kind) for name, kind in KINDS.items()])
ROWS = Rows(SCHEMA)

TEXTS = ["", "a", "ab", "b", "it's", "é", "%", "_", "\\", "😀", "a\nb", '"']
texts = st.sampled_from(TEXTS)
integers = st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1])
reals = st.sampled_from(
    [0.0, -0.0, 1.0, 0.1, 1e300, -2.5, 5e-324, float(2**53), math.inf, -math.inf, math.nan]
)
VALUES = {"s": texts, "i": integers, "d": reals, "b": st.booleans(), 'odd "name"': texts}
mixed = st.one_of(texts, integers, reals, st.booleans(), st.none(), st.just([]), st.just({"a": 1}))
attributes = {
    name: st.one_of(values, mixed, values.map(lambda value: [value]))
    for name, values in VALUES.items()
}
events = st.fixed_dictionaries({}, optional=attributes | {"n": mixed})


@st.composite
def cases(draw: st.DrawFn) -> tuple[d.Filter, dict[str, Any]]:
    """A filter, and an event that mostly has a value for it."""
    name = draw(st.sampled_from(sorted(KINDS)))
    value: Any = draw(VALUES[name])
    path = (name,)
    simple: list[d.Filter] = [
        d.IsNull(path),
        d.IsNotNull(path),
        d.EqualTo(path, value),
        d.EqualNullSafe(path, value),
        d.EqualNullSafe(path, None),
        d.In(path, tuple(draw(st.lists(st.one_of(VALUES[name], st.none()), max_size=4)))),
    ]
    if name != "b":
        simple += [
            ordered(path, value)
            for ordered in (d.GreaterThan, d.GreaterThanOrEqual, d.LessThan, d.LessThanOrEqual)
        ]
    if isinstance(KINDS[name], T.StringType):
        simple += [
            on_text(path, value)
            for on_text in (d.StringStartsWith, d.StringEndsWith, d.StringContains)
        ]
    one = draw(st.sampled_from(simple))
    event = draw(events) | {name: draw(attributes[name])}
    if draw(st.integers(0, 3)) == 0:
        del event[name]
    return d.Not(one) if draw(st.booleans()) else one, event


def holds(one: d.Filter, row: dict[str, Any]) -> bool | None:
    """What SQL says of a row: true, false, or neither."""
    if isinstance(one, d.Not):
        inner = holds(one.child, row)
        return None if inner is None else not inner
    value = row[one.attribute[0]]  # type: ignore[attr-defined]
    if isinstance(one, d.IsNull):
        return value is None
    if isinstance(one, d.IsNotNull):
        return value is not None
    if isinstance(one, d.EqualNullSafe):
        if value is None or one.value is None:
            return value is None and one.value is None
        return bool(_order(value) == _order(one.value))
    if value is None:
        return None
    if isinstance(one, d.In):
        if any(v is not None and _order(v) == _order(value) for v in one.value):
            return True
        return None if None in one.value else False
    other = one.value  # type: ignore[attr-defined]
    compare: dict[type, Callable[[], bool]] = {
        d.EqualTo: lambda: _order(value) == _order(other),
        d.GreaterThan: lambda: _order(value) > _order(other),
        d.GreaterThanOrEqual: lambda: _order(value) >= _order(other),
        d.LessThan: lambda: _order(value) < _order(other),
        d.LessThanOrEqual: lambda: _order(value) <= _order(other),
        d.StringStartsWith: lambda: value.startswith(other),
        d.StringEndsWith: lambda: value.endswith(other),
        d.StringContains: lambda: other in value,
    }
    return compare[type(one)]()


def _order(value: Any) -> Any:
    """Spark's order: NaN is equal to itself and above all numbers; texts go by their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


REALS = [0.0, -0.0, 1.0, 0.1, -2.5, math.inf, -math.inf, math.nan]
PAIRS = [("s", TEXTS), ("d", REALS), ("i", [0, 1, 2**53 + 1, -(2**63)]), ("b", [True, False])]


@pytest.mark.parametrize(("name", "values"), PAIRS)
def test_all_comparisons_of_some_values(name: str, values: list[Any]) -> None:
    """Every filter, plain and negated, with every value and every operand."""
    batch, _ = ROWS.batch([{name: value} for value in values] + [{}])
    rows = batch.to_pylist()
    on_text = [d.StringStartsWith, d.StringEndsWith, d.StringContains]
    ordered = [d.GreaterThan, d.GreaterThanOrEqual, d.LessThan, d.LessThanOrEqual]
    kinds: list[Any] = [d.EqualTo, d.EqualNullSafe]
    kinds += ordered if name != "b" else []
    kinds += on_text if name == "s" else []
    said = 0
    for kind, operand, negate in product(kinds, values, (False, True)):
        plain = kind((name,), operand)
        one = d.Not(plain) if negate else plain
        text = said_of(one, KINDS)
        if text is not None:
            predicate = parse(text)
            said += 1
            for row in rows:
                event = {} if row[name] is None else {name: row[name]}
                assert predicate.matches(event) == (holds(one, row) is True), (text, event)
    assert said >= len(kinds) * len(values)


@settings(max_examples=examples(150))
@given(cases())
def test_what_is_pushed_is_what_spark_would_have_kept(
    case: tuple[d.Filter, dict[str, Any]],
) -> None:
    one, event = case
    text = said_of(one, KINDS)
    batch, unfit = ROWS.batch([event])
    if text is None or unfit:
        return  # Spark keeps the filter; or the event is no row
    (row,) = batch.to_pylist()
    assert parse(text).matches(event) == (holds(one, row) is True), text


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (d.GreaterThan(("i",), 2), '"i" > 2'),
        (d.GreaterThan(("d",), 2.0), 'exists "d" and not "d" <= 2.0'),
        (d.Not(d.EqualTo(("i",), 1)), 'exists "i" and not ("i" = 1)'),
        (d.EqualTo(("s",), "it's"), "\"s\" = 'it''s'"),
        (d.StringStartsWith(("s",), "100%"), "\"s\" prefix '100%'"),
        (d.In(("i",), (1, None)), '"i" in (1)'),
        (d.Not(d.In(("i",), (1, None))), None),
        (d.In(("i",), (None,)), None),
        (d.EqualTo(("d",), math.nan), None),
        (d.GreaterThan(("d",), math.inf), None),
        (d.EqualTo(("st", "a"), 1), None),
        (d.EqualTo(("a.b",), "x"), None),
        (d.EqualTo(("when",), "2024-01-01"), None),
        (d.EqualTo(("nobody",), 1), None),
        (d.EqualTo(("folded",), "A"), None),
    ],
    ids=str,
)
def test_what_is_said_of_a_filter(one: d.Filter, text: str | None) -> None:
    others = {
        "a.b": T.StringType(),
        "when": T.DateType(),
        "st": T.StructType().add("a", "long"),
        "folded": T.StringType("UTF8_LCASE"),
    }
    assert said_of(one, KINDS | others) == text


def test_the_rest_stays_with_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [d.GreaterThan(("i",), 2), d.EqualTo(("d",), math.nan), d.EqualTo(("s",), "a")]
    said, rest = pushed(some, SCHEMA)
    assert (str(said), rest) == ("i > 2 and s = 'a'", [some[1]])
    assert pushed([some[1]], SCHEMA) == (None, [some[1]])
    monkeypatch.setattr(pushdown, "MAX_TEXT", 10)  # more than a router takes
    said, rest = pushed(some, SCHEMA)
    assert (str(said), rest) == ("i > 2", some[1:])
