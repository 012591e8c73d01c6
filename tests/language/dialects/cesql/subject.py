"""`cesql` for the laws: expressions and events by chance."""

import pyarrow as pa
from hypothesis import strategies as st

from tests.language import strategies
from tests.language.dialects.cesql import cases
from tests.language.dialects.cesql.oracle import passes, spelled
from tests.language.dialects.harness import Subject, events_of_x, storable, worlds_of
from tests.language.dialects.sql_oracle import Tree

name = st.sampled_from(["x", "y", "type"])
texts = st.one_of(st.sampled_from(cases.TEXTS), strategies.small_texts)
integers = st.one_of(st.integers(-3, 6), st.sampled_from([-(2**31), 2**31 - 1, 100]))
literal = st.tuples(st.just("lit"), st.one_of(texts, integers, st.booleans()))
named = st.tuples(st.just("name"), name)
patterns = st.lists(
    st.sampled_from(["%", "%", "_", "\\%", "\\_", "a", "b", "1", "5", "t", "e", ".", "-", "i"]),
    max_size=4,
).map("".join)
comparison = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])
negated = st.booleans()


def compared(
    left: st.SearchStrategy[Tree], right: st.SearchStrategy[Tree]
) -> st.SearchStrategy[Tree]:
    return st.tuples(st.just("cmp"), comparison, left, right)


def conditions(
    left: st.SearchStrategy[Tree], right: st.SearchStrategy[Tree]
) -> st.SearchStrategy[Tree]:
    return st.one_of(
        compared(left, right),
        st.tuples(st.just("like"), negated, left, patterns),
        st.builds(
            lambda no, subject, members: ("in", no, subject, *members),
            negated,
            left,
            st.lists(right, min_size=1, max_size=3),
        ),
        st.tuples(st.just("exists"), name),
    )


def nested(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    unary = st.sampled_from(["LENGTH", "LOWER", "UPPER", "TRIM", "ABS", "INT", "STRING", "BOOL"])
    asking = st.sampled_from(["IS_INT", "IS_BOOL"])
    call = st.just("call")
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(call, unary | asking, inner),
        st.tuples(call, st.sampled_from(["LEFT", "RIGHT", "SUBSTRING"]), inner, inner),
        st.tuples(call, st.just("SUBSTRING"), inner, inner, inner),
        several.map(lambda parts: ("call", "CONCAT", *parts)),
        several.map(lambda parts: ("call", "CONCAT_WS", *parts)),
        st.tuples(st.just("math"), st.sampled_from("+-*/%"), inner, inner),
        st.tuples(st.just("neg"), inner),
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or", "xor"]), inner, inner),
        conditions(inner, inner),
    )


values = st.recursive(st.one_of(literal, named), nested, max_leaves=4)
plain = st.one_of(conditions(named, literal), compared(literal, named))


def joined(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    operand = st.one_of(inner, inner, inner, values)
    return st.one_of(
        st.tuples(st.sampled_from(["and", "or", "xor"]), operand, operand),
        st.tuples(st.just("not"), operand),
    )


trees = st.recursive(
    st.one_of(plain, plain, conditions(values, values), named), joined, max_leaves=5
)
odd_scalars = st.one_of(texts, integers, st.sampled_from([2**31, -(2**31) - 1, 5.0, -0.0, True]))
odd_values = st.one_of(
    odd_scalars, strategies.values, st.lists(odd_scalars | st.none(), max_size=3)
)
events = st.dictionaries(name, odd_values, max_size=3)

# What is written is exact on events whose attributes have the types that they are compared with.
typed_constraints = strategies.constraints(
    names=["x"], numbers=integers, texts=strategies.small_texts, regular=False
).filter(lambda c: c.type in ("number", "int")) | strategies.constraints(
    names=["y"], numbers=integers, regular=False
).filter(lambda c: c.type == "string")
typed_events = st.fixed_dictionaries({}, optional={"x": integers, "y": strategies.texts})

CESQL = Subject(
    name="cesql",
    cases=cases,
    spell=spelled,
    matches=passes,
    negate=lambda tree: ("not", tree),
    trees=trees,
    worlds=worlds_of(trees, events),
    plain_events=events_of_x(cases.VALUES, ["5", "a", True, 1.5]),
    storable=storable,
    columns={"x": pa.int64(), "y": pa.string(), "type": pa.bool_()},
    rows=st.fixed_dictionaries(
        {
            "x": st.integers(-3, 6) | st.none(),
            "y": texts | st.none(),
            "type": st.booleans() | st.none(),
        }
    ),
    expressions=strategies.expressions(typed_constraints),
    written_events=typed_events,
)
