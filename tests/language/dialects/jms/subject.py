"""`jms` for the laws: selectors and events by chance."""

import pyarrow as pa
from hypothesis import strategies as st

from tests.language import strategies
from tests.language.dialects.harness import Subject, events_of_x, storable, worlds_of
from tests.language.dialects.jms import cases
from tests.language.dialects.jms.oracle import selects, spelled
from tests.language.dialects.sql_oracle import Tree

name = st.sampled_from(["x", "y", "JMSType"])
named = st.tuples(st.just("name"), name)
numeral = st.tuples(st.just("lit"), strategies.numbers)
text = st.tuples(st.just("lit"), strategies.texts)
truth = st.tuples(st.just("lit"), st.booleans())
numeric: st.SearchStrategy[Tree] = st.recursive(
    st.one_of(numeral, named),
    lambda inner: st.one_of(
        st.tuples(st.just("neg"), inner),
        st.tuples(st.just("math"), st.sampled_from("+-*/"), inner, inner),
    ),
    max_leaves=3,
)
equality = st.sampled_from(["=", "<>"])
comparison = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
negated = st.booleans()


def compared(
    operator: st.SearchStrategy[str], left: st.SearchStrategy[Tree], right: st.SearchStrategy[Tree]
) -> st.SearchStrategy[Tree]:
    return st.tuples(st.just("cmp"), operator, left, right)


leaves: st.SearchStrategy[Tree] = st.one_of(
    compared(comparison, named, numeral),
    compared(comparison, numeral, named),
    compared(comparison, numeric, numeric),
    compared(equality, named, text),
    compared(equality, text, named),
    compared(equality, named, truth),
    compared(equality, named, named),
    compared(equality, text, text),
    st.tuples(st.just("between"), negated, named, numeral, numeral),
    st.tuples(st.just("between"), negated, numeric, numeric, numeric),
    st.builds(
        lambda no, left, members: ("in", no, left, *members),
        negated,
        named,
        st.lists(text, min_size=1, max_size=3),
    ),
    st.tuples(st.just("like"), negated, named, strategies.patterns),
    st.tuples(st.just("null"), negated, named),
    named,
    truth,
)


def joined(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    some = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        some.map(lambda parts: ("and", *parts)),
        some.map(lambda parts: ("or", *parts)),
        st.tuples(st.just("not"), inner),
        compared(equality, inner, st.one_of(truth, named, inner)),
    )


trees = st.recursive(leaves, joined, max_leaves=5)
events = st.dictionaries(name, strategies.values, max_size=3)
reals = st.lists(st.sampled_from([0.5, 1.0, 2.5]), max_size=2)

JMS = Subject(
    name="jms",
    cases=cases,
    spell=spelled,
    matches=selects,
    negate=lambda tree: ("not", tree),
    trees=trees,
    worlds=worlds_of(trees, events),
    plain_events=events_of_x(cases.VALUES, [5, "a", True]),
    storable=storable,
    columns={"x": pa.int64(), "y": pa.string(), "JMSType": pa.list_(pa.float64())},
    rows=st.fixed_dictionaries(
        {
            "x": st.integers(-3, 3) | st.none(),
            "y": strategies.small_texts | st.none(),
            "JMSType": reals | st.none(),
        }
    ),
    expressions=strategies.expressions(),
    written_events=strategies.flat_events,
)
