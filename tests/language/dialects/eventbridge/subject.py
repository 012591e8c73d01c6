"""`eventbridge` for the laws: patterns by chance, and events that have what they ask for."""

import json
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.language import strategies
from tests.language.dialects.eventbridge import cases, oracle
from tests.language.dialects.harness import Record, Subject, World, events_of_x

# Patterns

strings = st.sampled_from(cases.STRINGS)
full = strings.filter(bool)
numbers = st.sampled_from(cases.NUMBERS)
compared = st.sampled_from([n for n in cases.NUMBERS if oracle.comparable(n) is not None])
wildcards = st.lists(
    st.sampled_from(["*", "a", "b", "\\*", "\\\\", "%", "_", "s"]), max_size=4
).map(
    lambda parts: "".join(p for i, p in enumerate(parts) if p != "*" or parts[i - 1 : i] != ["*"])
)
ranges = st.one_of(
    st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), compared).map(list),
    st.tuples(st.sampled_from([">", ">="]), compared, st.sampled_from(["<", "<="]), compared)
    .filter(lambda r: float(r[1]) < float(r[3]))
    .map(list),
)


def lists_of(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(one, st.lists(one, min_size=1, max_size=3))


def under(name: str, operand: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: operand})


ignoring_case = under("equals-ignore-case", strings)
expressions = st.one_of(
    under("prefix", strings),
    under("suffix", strings),
    under("exactly", strings),
    ignoring_case,
    under("prefix", ignoring_case),
    under("suffix", ignoring_case),
    under("wildcard", wildcards),
    under("numeric", ranges),
    under("exists", st.booleans()),
    under("cidr", st.sampled_from(cases.BLOCKS)),
    under("anything-but", lists_of(strings)),
    under("anything-but", lists_of(compared)),
    under("anything-but", under("prefix", lists_of(full))),
    under("anything-but", under("suffix", lists_of(full))),
    under("anything-but", under("equals-ignore-case", lists_of(strings))),
    under("anything-but", under("wildcard", lists_of(wildcards))),
)
values = st.one_of(strings, numbers, st.booleans(), st.none())
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

# Events

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


@st.composite
def worlds(draw: st.DrawFn, least: int, most: int) -> World:
    """Patterns, and events of which some have what the patterns ask for, perhaps within arrays."""
    rules = draw(st.lists(patterns, min_size=least, max_size=most))
    found = draw(st.lists(events, max_size=2))
    for rule in rules:
        event: Record = {}
        for name, tests in draw(st.sampled_from(oracle.rules(rule))).items():
            value = draw(st.one_of(st.sampled_from(constants(tests)), values))
            if draw(st.booleans()):
                value = [value, *draw(st.lists(values, max_size=2))]
            if draw(st.integers(0, 7)):
                put(draw, event, name, value)
        found.append(event)
    return rules, found


def constants(test: Any) -> list[Any]:
    """The constants of a test, which are values that it may well hold on."""
    if isinstance(test, dict):
        return [c for operand in test.values() for c in constants(operand)]
    return [c for one in test for c in constants(one)] if isinstance(test, list) else [test]


def put(draw: st.DrawFn, record: Record, name: str, value: Any) -> None:
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


# Rows

RECORD = pa.struct([("x", pa.string()), ("y", pa.int64())])
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

# Writing

small = st.one_of(strategies.small_texts, strategies.small_numbers, st.booleans(), st.none())

EVENTBRIDGE = Subject(
    name="eventbridge",
    cases=cases,
    spell=json.dumps,
    matches=oracle.matches,
    negate=None,
    trees=patterns,
    worlds=worlds,
    plain_events=events_of_x(cases.VALUES, ["a", 1, True]),
    storable=lambda _: True,
    columns={"x": pa.string(), "z": pa.float64(), "a": pa.list_(RECORD), "b": RECORD},
    rows=rows,
    expressions=strategies.expressions(
        strategies.constraints(
            ["x", "y"], strategies.small_texts, strategies.small_numbers, regular=False
        ),
        size=3,
    ),
    written_events=st.dictionaries(st.sampled_from(["x", "y"]), lists_of(small), max_size=2),
)
