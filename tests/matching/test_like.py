"""Patterns with wildcards: the kernel's test against RE2's, and tables of nothing else."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings import Predicate, parse
from tidings.language import wildcard
from tidings.language.constraint import Constraint
from tidings.language.expression import Expression, conjoin, disjoin
from tidings.matching import kernels as k
from tidings.matching import segment as segment_module
from tidings.matching.constants import like_bytes
from tidings.matching.segment import Segment
from tidings.matching.statistics import statistics_of
from tidings.matching.table import Table

CHARACTERS = "abß€😀%_\\"
texts = st.text(CHARACTERS, max_size=12)
patterns = st.lists(
    st.sampled_from([*"ab%_", "%", "%", "ß", "€", "😀", r"\%", r"\_", r"\\"]), max_size=90
).map("".join)
short_patterns = patterns.map(wildcard.tokens).map(lambda parts: wildcard.pattern_of(parts[:6]))


def fits(pattern: bytes, data: bytes, around: bytes = b"") -> bool:
    """The kernel's answer, with other bytes before and behind both."""
    held, text = (np.frombuffer(around + part + around, np.uint8) for part in (pattern, data))
    first = len(around)
    return bool(k.fits(held, first, first + len(pattern), text, first, first + len(data)))


@given(patterns, texts)
@example("", "")
@example("", "a")
@example("%", "")
@example("_", "😀")
@example("__", "ß")
@example("%_", "")
@example("a%a", "a")
@example("%ab%ab%", "aab")
@example("%_b%", "ßß€b")
def test_the_kernel_agrees_with_re2(pattern: str, text: str) -> None:
    expected = wildcard.matcher(pattern, ignore_case=False)(text)
    assert fits(like_bytes(pattern), text.encode()) == expected
    assert fits(like_bytes(pattern), text.encode(), around="a€".encode()) == expected


@given(short_patterns, st.data())
def test_a_text_made_from_a_pattern_fits_it(pattern: str, data: st.DataObject) -> None:
    parts: list[str] = []
    for part in wildcard.tokens(pattern):
        size = {wildcard.ONE: 1, wildcard.MANY: 3}.get(part) if isinstance(part, int) else None
        least = 1 if part == wildcard.ONE else 0
        drawn = st.text(CHARACTERS, min_size=least, max_size=size or 0)
        parts.append(part if isinstance(part, str) else data.draw(drawn))
    assert fits(like_bytes(pattern), "".join(parts).encode())


@given(st.binary(max_size=10), st.lists(st.sampled_from([b"a", b"\x80", b"\xfe", b"\xff"])))
def test_bytes_that_are_not_text_stay_within_bounds(data: bytes, pattern: list[bytes]) -> None:
    held = b"".join(pattern)
    assert fits(held, data, around=b"\x80\x80\x80") == fits(held, data, around=b"aaa")


def test_hostile_patterns_end_and_are_right() -> None:
    text = "a" * 20_000
    for pattern, expected in (
        ("%a" * (k.LONGEST_LIKE // 2 - 1) + "%b", False),
        ("%a" * (k.LONGEST_LIKE // 2 - 1) + "%", True),
        ("%" + "a" * (k.LONGEST_LIKE - 4) + "b%b", False),
        ("%" + "a" * (k.LONGEST_LIKE - 3) + "b%", False),
        ("%" + "_a" * (k.LONGEST_LIKE // 2 - 2) + "b%", False),
        ("%" + "_" * (k.LONGEST_LIKE - 2) + "%", True),
    ):
        assert len(like_bytes(pattern)) <= k.LONGEST_LIKE
        assert fits(like_bytes(pattern), text.encode()) == expected
        assert wildcard.matcher(pattern, ignore_case=False)(text) == expected
        table = Table({1: Predicate(like("x", pattern))})
        assert table.match({"x": text}) == [1] * expected


def like(name: str, pattern: str, negated: bool = False) -> Constraint:
    """A constraint by `like`."""
    return Constraint(name, "like", "string", negated, pattern)


def pairs_of(
    table: Table, events: list[dict[str, Any]], kind: pa.DataType
) -> list[tuple[Any, Any]]:
    """The pairs that a batch of events finds, in their order."""
    schema = pa.schema(dict.fromkeys("xy", kind))
    found = table.match_batch(pa.Table.from_pylist(events, schema))
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


likes = st.builds(like, st.sampled_from("xy"), short_patterns, st.booleans())
some_of_likes = st.lists(
    st.lists(likes, min_size=1, max_size=3).map(conjoin), min_size=1, max_size=3
)
values = st.one_of(st.none(), texts, st.lists(texts, max_size=3))
events_of_texts = st.lists(
    st.fixed_dictionaries({"x": values, "y": values}), min_size=1, max_size=5
)


@given(st.lists(some_of_likes.map(disjoin), min_size=1, max_size=8), events_of_texts)
def test_tables_of_patterns_leave_no_residuals_and_are_exact(
    expressions: list[Expression], events: list[dict[str, Any]]
) -> None:
    predicates = [Predicate(expression) for expression in expressions]
    table = Table(enumerate(predicates))
    assert [segment.plan.residuals for segment in table._parts.segments] == [[]]
    expected = [[n for n, p in enumerate(predicates) if p.matches(event)] for event in events]
    assert [sorted(table.match(event)) for event in events] == expected
    lists = [
        {name: [value] if isinstance(value, str) else value for name, value in event.items()}
        for event in events
    ]
    found = pairs_of(table, lists, pa.list_(pa.string()))
    assert sorted(found) == [(row, id) for row, ids in enumerate(expected) for id in ids]
    scalars = [event for event in events if not any(isinstance(v, list) for v in event.values())]
    found = pairs_of(table, scalars, pa.string())
    assert sorted(found) == [
        (row, n) for row, e in enumerate(scalars) for n, p in enumerate(predicates) if p.matches(e)
    ]


def test_values_of_every_type_and_none_at_all() -> None:
    subscriptions = {
        "inner": "x like 'a%z'",
        "not": "not (x like 'a%z')",
        "not begin": "not (x like 'a%')",
        "characters": "x like '__'",
        "not characters": "not (x like '__')",
        "with number": "x like 'a_%z' and y > 3",
        "not either": "not (x like 'a%z' or x like '%1_')",
        "escaped": r"x like 'a!%%z' escape '!'",
    }
    table = Table(subscriptions)
    predicates = {id: parse(text) for id, text in subscriptions.items()}
    assert table._parts.segments[0].plan.residuals == []
    events: list[dict[str, Any]] = [
        {}, {"x": None}, {"x": 12}, {"x": 1.5}, {"x": True}, {"x": ""}, {"x": "az"}, {"x": "€😀"},
        {"x": "a1z", "y": 4}, {"x": "a%z", "y": 3}, {"x": ["b", "a", "z"]}, {"x": [7, "a--z"]},
        {"x": ["ab", 3, False], "y": [2, 5]}, {"x": []}, {"y": "az"}, {"x": {"x": "az"}},
    ]  # fmt: skip
    for event in events:
        expected = {id for id, predicate in predicates.items() if predicate.matches(event)}
        assert set(table.match(event)) == expected
    assert set(table.match({})) == {"not", "not begin", "not characters", "not either"}
    for column in (["az", "a1z", None, ""], [1, 2, None, 12], [1.0, 2.5, None, 0.0]):
        batch = pa.table({"x": column, "y": [4, 4, 4, None]})
        found = sorted(map(tuple, (pair.values() for pair in table.match_batch(batch).to_pylist())))
        assert found == sorted(
            (row, id)
            for row, event in enumerate(batch.to_pylist())
            for id, predicate in predicates.items()
            if predicate.matches(event)
        )


@pytest.mark.parametrize("longer", [0, 1])
def test_only_patterns_past_the_bound_leave_residuals(longer: int) -> None:
    pattern = "ab%" + "é" * ((k.LONGEST_LIKE - 6) // 2) + "_%" + "z" * (1 + longer)
    assert len(like_bytes(pattern)) == k.LONGEST_LIKE + longer
    constraints = [like("x", pattern), like("x", pattern, negated=True)]
    constraints.append(like("x", "%" + pattern))
    table = Table((n, Predicate(constraint)) for n, constraint in enumerate(constraints))
    assert len(table._parts.segments[0].plan.residuals) == (3 if longer else 1)
    text = pattern.replace("%", "-").replace("_", "😀")
    events: list[dict[str, Any]] = [{"x": text}, {"x": text + "a"}, {"x": "-" + text}, {"x": None}]
    assert [sorted(table.match(event)) for event in events] == [[0, 2], [1], [1, 2], [1]]
    found = pairs_of(table, events, pa.string())
    assert sorted(found) == [(0, 0), (0, 2), (1, 1), (2, 1), (2, 2), (3, 1)]


def test_statistics_file_patterns_under_their_literals() -> None:
    events = [{"x": f"{n % 10}-word-{n}", "y": n} for n in range(50)]
    subscriptions = {n: f"x like '{n % 10}-%{n}_' and y != {n}" for n in range(20)}
    table = Table(subscriptions, statistics=statistics_of(events))
    whole = table._parts.segments[0].plan.whole
    assert (k.section(whole, k.SLOT_PRESENT) < 0).all()


def asked_segment() -> tuple[Segment, list[int]]:
    """A segment of subscriptions with residuals, and a list of those that were evaluated."""
    segment = Segment.of(
        {
            "either": parse("y = 'b' or x matches '^a'"),
            "both": parse("x matches 'a$' or x matches '^a'"),
            "same": parse("x matches 'a$'"),
            "plain": parse("y = 'b'"),
        }
    )
    asked: list[int] = []
    check = segment.residuals.check

    def noted(residual: int) -> Any:
        asked.append(residual)
        return check(residual)

    segment.residuals.check = noted  # type: ignore[method-assign]
    return segment, asked


def test_each_residual_is_evaluated_once_and_only_if_its_subscription_is_not_found() -> None:
    segment, asked = asked_segment()
    assert sorted(segment.match({"x": "aa", "y": "c"})) == ["both", "either", "same"]
    assert len(asked) == len(set(asked)) == 2
    only, asked = Segment.of({1: parse("y = 'b' or x matches '^a'")}), []
    only.residuals.check = asked.append  # type: ignore[method-assign,assignment]
    assert only.match({"x": "aa", "y": "b"}) == [1]
    assert asked == []


@pytest.mark.parametrize("flags", [1, 9, segment_module.FLAGS])
def test_a_batch_evaluates_as_few_residuals_and_keeps_the_order_of_rows(
    monkeypatch: pytest.MonkeyPatch, flags: int
) -> None:
    monkeypatch.setattr(segment_module, "FLAGS", flags)
    segment, asked = asked_segment()
    rows = [("aa", "b"), ("ba", "b"), (None, "b"), ("ab", None), ("bb", "b"), ("aa", "c"), ("", "")]
    batch = pa.table({"x": [x for x, _ in rows], "y": [y for _, y in rows]})
    parts = list(segment.match_batch(batch))
    found = [(int(row), segment.ids[n]) for part in parts for row, n in zip(*part, strict=True)]
    assert [row for row, _ in found] == sorted(row for row, _ in found)
    assert sorted(found) == [
        (0, "both"), (0, "either"), (0, "plain"), (0, "same"),
        (1, "both"), (1, "either"), (1, "plain"), (1, "same"),
        (2, "either"), (2, "plain"), (3, "both"), (3, "either"),
        (4, "either"), (4, "plain"), (5, "both"), (5, "either"), (5, "same"),
    ]  # fmt: skip
    assert len(asked) <= 2 * 6  # no residual of a row twice, and none where there is no text
