"""Patterns with wildcards: the engine's test against RE2's, and tables of nothing else."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings import Predicate, parse
from tidings.language import wildcard
from tidings.language.constraint import Constraint
from tidings.language.expression import Expression, compile_check, conjoin, disjoin
from tidings.matching import residuals
from tidings.matching.native.engine import LONGEST_LIKE, Index
from tidings.matching.statistics import statistics_of
from tidings.matching.table import Table

CHARACTERS = "abß€😀%_\\"
texts = st.text(CHARACTERS, max_size=12)
patterns = st.lists(
    st.sampled_from([*"ab%_", "%", "%", "ß", "€", "😀", r"\%", r"\_", r"\\"]), max_size=90
).map("".join)
short_patterns = patterns.map(wildcard.tokens).map(lambda parts: wildcard.pattern_of(parts[:6]))


def like(name: str, pattern: str, negated: bool = False) -> Constraint:
    """A constraint by `like`."""
    return Constraint(name, "like", "string", negated, pattern)


def size_of(pattern: str) -> int:
    """The bytes of a pattern in the engine, where a wildcard takes one."""
    return sum(
        len(part.encode()) if isinstance(part, str) else 1 for part in wildcard.tokens(pattern)
    )


def fits(pattern: str, text: str) -> bool:
    """The engine's answer, by its own test of the pattern as it is."""
    index = Index()
    index.add(1, [[like("x", pattern)]])
    if size_of(pattern) <= LONGEST_LIKE:
        assert not index.residuals
    found = index.match({"x": text}) == [1]
    index.compact()
    assert (index.match({"x": text}) == [1]) is found
    return found


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
def test_the_engine_agrees_with_re2(pattern: str, text: str) -> None:
    expected = wildcard.matcher(pattern, ignore_case=False)(text)
    assert fits(pattern, text) == expected


@given(short_patterns, st.data())
def test_a_text_made_from_a_pattern_fits_it(pattern: str, data: st.DataObject) -> None:
    parts: list[str] = []
    for part in wildcard.tokens(pattern):
        size = {wildcard.ONE: 1, wildcard.MANY: 3}.get(part) if isinstance(part, int) else None
        least = 1 if part == wildcard.ONE else 0
        drawn = st.text(CHARACTERS, min_size=least, max_size=size or 0)
        parts.append(part if isinstance(part, str) else data.draw(drawn))
    assert fits(pattern, "".join(parts))


def test_hostile_patterns_end_and_are_right() -> None:
    text = "a" * 20_000
    for pattern, expected in (
        ("%a" * (LONGEST_LIKE // 2 - 1) + "%b", False),
        ("%a" * (LONGEST_LIKE // 2 - 1) + "%", True),
        ("%" + "a" * (LONGEST_LIKE - 4) + "b%b", False),
        ("%" + "a" * (LONGEST_LIKE - 3) + "b%", False),
        ("%" + "_a" * (LONGEST_LIKE // 2 - 2) + "b%", False),
        ("%" + "_" * (LONGEST_LIKE - 2) + "%", True),
    ):
        assert size_of(pattern) <= LONGEST_LIKE
        assert fits(pattern, text) == expected
        assert wildcard.matcher(pattern, ignore_case=False)(text) == expected
        table = Table({1: Predicate(like("x", pattern))})
        assert table.match({"x": text}) == [1] * expected


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
    assert not table._index.residuals
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
    assert not table._index.residuals
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
    pattern = "ab%" + "é" * ((LONGEST_LIKE - 6) // 2) + "_%" + "z" * (1 + longer)
    assert size_of(pattern) == LONGEST_LIKE + longer
    constraints = [like("x", pattern), like("x", pattern, negated=True)]
    constraints.append(like("x", "%" + pattern))
    table = Table((n, Predicate(constraint)) for n, constraint in enumerate(constraints))
    assert len(table._index.residuals) == (3 if longer else 1)
    text = pattern.replace("%", "-").replace("_", "😀")
    events: list[dict[str, Any]] = [{"x": text}, {"x": text + "a"}, {"x": "-" + text}, {"x": None}]
    assert [sorted(table.match(event)) for event in events] == [[0, 2], [1], [1, 2], [1]]
    found = pairs_of(table, events, pa.string())
    assert sorted(found) == [(0, 0), (0, 2), (1, 1), (2, 1), (2, 2), (3, 1)]


def test_patterns_are_found_by_their_longest_piece() -> None:
    events = [{"x": f"{n % 10}-word-{n}", "y": n} for n in range(50)]
    subscriptions = {n: f"x like '{n % 10}-%{n}_' and y != {n}" for n in range(20)}
    table = Table(subscriptions, statistics=statistics_of(events))
    (segment,) = table._index.plan()
    (keys,) = (a["keys"] for a in segment["attributes"] if a["name"] == "x")
    assert "presence" not in keys


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Expression]:
    """The residuals that are evaluated from now on."""
    noted: list[Expression] = []

    def compiled(asked: Expression) -> Any:
        check = compile_check(asked)

        def evaluate(event: Any) -> bool:
            noted.append(asked)
            return check(event)

        return evaluate

    monkeypatch.setattr(residuals, "compile_check", compiled)
    monkeypatch.setattr(residuals, "_CHECKS", type(residuals._CHECKS)())
    return noted


SOME = {
    "either": "y = 'b' or x matches '^a'",
    "both": "x matches 'a$' or x matches '^a'",
    "same": "x matches 'a$'",
    "plain": "y = 'b'",
}


def test_each_residual_is_evaluated_once_and_only_if_its_subscription_is_not_found(
    asked: list[Expression],
) -> None:
    assert sorted(Table(SOME).match({"x": "aa", "y": "c"})) == ["both", "either", "same"]
    assert len(asked) == len(set(asked)) == 2
    asked.clear()
    assert Table({1: SOME["either"]}).match({"x": "aa", "y": "b"}) == [1]
    assert asked == []


def test_a_batch_evaluates_as_few_residuals_and_keeps_the_order_of_rows(
    asked: list[Expression],
) -> None:
    rows = [("aa", "b"), ("ba", "b"), (None, "b"), ("ab", None), ("bb", "b"), ("aa", "c"), ("", "")]
    batch = pa.table({"x": [x for x, _ in rows], "y": [y for _, y in rows]})
    pairs = Table(SOME).match_batch(batch).to_pydict()
    assert pairs["event"] == sorted(pairs["event"])
    assert sorted(zip(pairs["event"], pairs["subscription"], strict=True)) == [
        (0, "both"), (0, "either"), (0, "plain"), (0, "same"),
        (1, "both"), (1, "either"), (1, "plain"), (1, "same"),
        (2, "either"), (2, "plain"), (3, "both"), (3, "either"),
        (4, "either"), (4, "plain"), (5, "both"), (5, "either"), (5, "same"),
    ]  # fmt: skip
    assert len(asked) <= 2 * 6  # no residual of a row twice, and none where there is no text
