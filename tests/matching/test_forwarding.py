"""Forwarding: the interfaces of a broadcast whose predicate holds, whatever the short cuts."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import oracle, strategies
from tests.matching.test_table import laid_out
from tidings import Predicate
from tidings.language.expression import Expression, disjoin
from tidings.matching.forwarding import ForwardingTable
from tidings.matching.workload import WORKLOADS

leaves = strategies.constraints(["x", "y"], strategies.small_texts, strategies.small_numbers)
interfaces = st.lists(
    st.lists(strategies.expressions(leaves, size=3), min_size=1, max_size=6).map(disjoin),
    min_size=1,
    max_size=5,
)


@given(interfaces, st.lists(strategies.flat_events, min_size=1, max_size=4), st.data())
def test_forwarding_equals_the_slow_twin(
    expressions: list[Expression], events: list[dict[str, Any]], data: st.DataObject
) -> None:
    table = ForwardingTable((n, Predicate(e)) for n, e in enumerate(expressions))
    for event in events:
        expected = {n for n, e in enumerate(expressions) if oracle.holds(e, laid_out(event))}
        found = table.forward(event)
        assert sorted(found) == sorted(expected)
        broadcast = data.draw(st.sets(st.integers(0, len(expressions) - 1)))
        found = table.forward(event, broadcast)
        assert sorted(found) == sorted(expected & broadcast)


def test_many_filters_of_few_interfaces() -> None:
    workload = WORKLOADS["forwarding"](interfaces=5, filters=(200, 201), seed=3)
    pairs = list(workload.subscriptions(0, 5))
    table = ForwardingTable(pairs)
    for event in workload.events(0, 60):
        expected = sorted(id for id, predicate in pairs if predicate.matches(event))
        assert sorted(table.forward(event)) == expected
    batch = workload.event_table(0, 60)
    found = table.forward_batch(batch).to_pylist()
    for row, event in enumerate(workload.events(0, 60)):
        here = sorted(pair["interface"] for pair in found if pair["event"] == row)
        assert here == sorted(id for id, predicate in pairs if predicate.matches(event))


def test_an_interface_is_named_once() -> None:
    with pytest.raises(KeyError, match="in the table already"):
        ForwardingTable([("a", "x = 1"), ("a", "x = 2")])


def test_a_search_ends_when_all_interfaces_have_matched() -> None:
    wide = [f"y between {n} and {n + 500} and z between 0 and {n}" for n in range(200)]
    table = ForwardingTable({name: " or ".join(["x > 0", *wide]) for name in ("north", "south")})
    assert sorted(table.forward({"x": 1, "y": 300, "z": 5})) == ["north", "south"]
    rows = pa.table({"x": [1, 1], "y": [300, 301], "z": [5, 6]})
    assert table.forward_batch(rows).num_rows == 4
    assert table._index.counters()[:2] == (0, 0)  # records tested, blocks looked at
