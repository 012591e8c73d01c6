"""Statistics tell how many events satisfy a constraint: exactly for few values, else nearly."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import strategies
from tidings.language.constraint import Constraint, check
from tidings.matching.statistics import FREQUENT, OTHERS, Statistics, statistics_of
from tidings.matching.workload import WORKLOADS

SCALARS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.0, 1.0, 1e300, math.inf, -math.inf, math.nan, 2.0**53]),
    st.sampled_from(["", "a", "ab", "A", "ß"]),
    st.booleans(),
    st.none(),
)

# All but tests of other dialects, of which nothing can be known.
CONSTRAINTS = strategies.constraints(names=["x"]).filter(lambda c: c.operator != "holds")


def counted(events: list[dict[str, Any]], constraint: Constraint) -> float:
    """The share of events that satisfy a constraint, by asking it about each."""
    holds = check(constraint)
    return sum(map(holds, events)) / len(events)


@given(
    values=st.lists(SCALARS, min_size=1, max_size=30),
    constraint=CONSTRAINTS,
)
def test_share_is_exact_for_few_values(values: list[Any], constraint: Constraint) -> None:
    events = [{"x": value} for value in values]
    found = statistics_of(events).share(constraint)
    assert found == pytest.approx(counted(events, constraint))


@given(
    lists=st.lists(st.lists(SCALARS, max_size=4), min_size=1, max_size=20),
    constraint=CONSTRAINTS,
)
def test_share_of_lists_is_a_share_and_none_where_nothing_fits(
    lists: list[list[Any]], constraint: Constraint
) -> None:
    events = [{"x": values} for values in lists]
    found = statistics_of(events)
    share = found.share(constraint)
    assert 0 <= share <= 1
    assert found.share(constraint.negate()) == pytest.approx(1 - share)
    if counted(events, constraint._replace(negated=False)) == 0:
        assert found.share(constraint._replace(negated=False)) == pytest.approx(0)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_share_is_near_on_every_workload(name: str, seed: int) -> None:
    workload = WORKLOADS[name](seed=seed)
    events = workload.events(0, 2_000)
    found = statistics_of(events)
    asked = {
        constraint
        for _, predicate in workload.subscriptions(0, 200)
        for filter in predicate.filters
        for constraint in filter
    }
    off = [abs(found.share(c) - counted(events, c)) for c in sorted(asked, key=repr)[:200]]
    assert max(off) < 0.15
    assert sum(off) / len(off) < 0.02


def test_rare_values_are_told_by_their_order_and_number() -> None:
    events = [{"n": number, "word": f"w{number:04}"} for number in range(1_000)]
    found = statistics_of(events)
    for low, high in [(0, 99), (250, 749), (900, 5_000)]:
        constraint = Constraint("n", "between", "number", False, (low, high))
        assert found.share(constraint) == pytest.approx(counted(events, constraint), abs=0.02)
    prefix = Constraint("word", "prefix", "string", False, "w05")
    assert found.share(prefix) == pytest.approx(0.1, abs=0.04)
    values = found.attributes["n"].kinds["int"]
    assert (len(values.frequent), len(values.others)) == (FREQUENT, OTHERS)
    assert values.distinct > 1_000  # every one was seen once: there must be more
    assert 0 < found.share(Constraint("n", "=", "number", False, 123_456)) < 0.001
    assert found.share(Constraint("n", "=", "number", False, 0.5)) == 0


def test_presence_types_and_what_is_unknown() -> None:
    events = [{"x": 1}, {"x": 1.5, "y": [1, 2, 3]}, {"x": "a"}, {"x": math.nan}, {"x": None}]
    found = statistics_of([*events, b"no event", '{"z": {"deep": true}}'])
    assert (found.events, set(found.attributes)) == (6, {"x", "y", "z.deep"})
    assert found.attributes["x"].present == pytest.approx(4 / 6)
    kinds = {kind: v.share for kind, v in found.attributes["x"].kinds.items()}
    assert kinds == {"int": 0.25, "real": 0.25, "string": 0.25, "nan": 0.25}
    assert found.attributes["y"].length == 3
    assert found.share(Constraint("nowhere", "exists", "any", False, None)) == 0
    assert found.share(Constraint("nowhere", "exists", "any", True, None)) == 1
    assert found.share(Constraint("", "holds", "any", False, ("jms", "a * b > 1"))) == 0.5


def test_columns_and_rows_give_the_same() -> None:
    workload = WORKLOADS["mixed"](seed=3)
    columns = workload.event_table(0, 300)
    texts = pa.table({"text": ['{"a": 1}', "no event", None, '{"a": 2}']})
    assert statistics_of(columns) == statistics_of(workload.events(0, 300))
    assert statistics_of(texts, json="text") == statistics_of([{"a": 1}, {"a": 2}])
    dates = pa.table({"day": pa.array([1, 2], pa.date32()), "n": [1, 2], "raw": [b"", b""]})
    assert set(statistics_of(dates).attributes) == {"day", "n"}


def test_a_table_is_sampled_by_the_seed() -> None:
    table = pa.table({"n": range(10_000)})
    first = statistics_of(table, max_events=500, seed=1)
    assert first.events == 500
    assert first == statistics_of(table, max_events=500, seed=1)
    assert first != statistics_of(table, max_events=500, seed=2)
    below = Constraint("n", "<", "number", False, 5_000)
    assert first.share(below) == pytest.approx(0.5, abs=0.1)


@given(values=st.lists(SCALARS, max_size=20))
def test_saved_statistics_are_the_same(
    values: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("statistics") / "s.json"
    found = statistics_of([{"x": value, "y": [value, 1]} for value in values])
    found.save(path)
    loaded = Statistics.load(path)
    assert loaded == found
    assert repr(loaded.attributes) == repr(
        found.attributes
    )  # 1 and 1.0 are equal, and not the same


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"events": 1, "attributes": {"x": 1}}']
    + [
        '{"events": 1, "attributes": {"x": {"present": 1, "length": 1, "kinds": {"int": '
        f'{{"share": 1, "distinct": 1, "frequent": [[{value}, 1]], "others": []}}}}}}}}}}'
        for value in ('"a"', "1.5", "true", "null")
    ],
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ValueError, match="expected statistics as JSON"):
        Statistics.load(tmp_path / "s.json")
