"""Generators of predicates and events: dense enough to collide, hostile enough to hurt."""

from typing import Any

from hypothesis import strategies as st

from tests.language import odd
from tidings.language import wildcard
from tidings.language.constraint import Constraint, simplify
from tidings.language.expression import Expression, conjoin, disjoin, negate

HOSTILE_NUMBERS: list[int | float] = [
    0, -0.0, 1, 1.5, 2, 2.0, 3, -1, 2**53, 2**53 + 1, float(2**53), 2**53 + 2,
    2**63 - 1, -(2**63), float(2**63), 1e-320, 5e-324, 1e300, -1e300, 0.1,
]  # fmt: skip
HOSTILE_TEXTS = [
    "", "a", "b", "ab", "ba", "aa", "abc", "A", "aB", "ß", "ẞ", "k", "\u212a", "σ", "ς", "Σ",
    "\0", "a\0", "\U0001f600", "a\U0001f600", "\U0010ffff", "\ud7ff", "\ue000",
    "%", "_", "a%", "\\", "'",
]  # fmt: skip
NAMES = ["x", "y", "z"]

small_texts = st.text(alphabet="abA", max_size=3)
texts = st.one_of(small_texts, st.sampled_from(HOSTILE_TEXTS))
small_numbers: st.SearchStrategy[int | float] = st.one_of(
    st.integers(-1, 4), st.sampled_from([0.5, 1.5, 2.0, 2.5])
)
numbers: st.SearchStrategy[int | float] = st.one_of(
    small_numbers,
    st.sampled_from(HOSTILE_NUMBERS),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
patterns = st.lists(
    st.one_of(st.just("%"), st.just("_"), st.sampled_from("abA").map(wildcard.escape)), max_size=5
).map("".join)
# What Python's expressions and RE2's agree on.
regexes = st.sampled_from(["a", "^a", "b$", "a.b", "^(a|b)*$", "[ab]{2}", "a+b?", "^$"])


def _listed(values: st.SearchStrategy[Any], size: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, min_size=1, max_size=size).map(lambda vs: tuple(sorted(set(vs))))


def constraints(
    names: list[str] = NAMES,
    texts: st.SearchStrategy[str] = texts,
    numbers: st.SearchStrategy[int | float] = numbers,
    regular: bool = True,
) -> st.SearchStrategy[Constraint]:
    """Any constraint over the names, with or without those that are opaque to the algebra.

    That is regular expressions, and tests of another dialect.
    """
    name = st.sampled_from(names)
    negated = st.booleans()
    numeric = st.sampled_from(["number", "number", "int", "real"])
    comparison = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    pair_of_numbers = st.tuples(numbers, numbers)
    pair_of_texts = st.tuples(texts, texts)
    literal = st.sampled_from(
        ["prefix", "suffix", "contains", "iprefix", "isuffix", "icontains", "i=", "i!="]
    )
    kinds = st.sampled_from(["any", "number", "int", "real", "string", "bool"])
    choices: list[st.SearchStrategy[Constraint]] = [
        st.builds(Constraint, name, comparison, numeric, negated, numbers),
        st.builds(Constraint, name, st.just("between"), numeric, negated, pair_of_numbers),
        st.builds(Constraint, name, st.just("in"), numeric, negated, _listed(numbers)),
        st.builds(Constraint, name, comparison, st.just("string"), negated, texts),
        st.builds(Constraint, name, st.just("between"), st.just("string"), negated, pair_of_texts),
        st.builds(
            Constraint,
            name,
            st.sampled_from(["in", "iin"]),
            st.just("string"),
            negated,
            _listed(texts),
        ),
        st.builds(Constraint, name, literal, st.just("string"), negated, texts),
        st.builds(
            Constraint,
            name,
            st.sampled_from(["like", "ilike"]),
            st.just("string"),
            negated,
            patterns,
        ),
        st.builds(
            Constraint,
            name,
            st.sampled_from(["=", "!="]),
            st.just("bool"),
            negated,
            st.booleans(),
        ),
        st.builds(Constraint, name, st.just("exists"), kinds, negated, st.none()),
    ]
    if regular:
        choices.append(
            st.builds(
                Constraint,
                name,
                st.sampled_from(["matches", "imatches"]),
                st.just("string"),
                negated,
                regexes,
            )
        )
        choices.append(residuals(names))
    return st.one_of(choices)


def residuals(names: list[str] = NAMES) -> st.SearchStrategy[Constraint]:
    """Tests of another dialect, on one attribute or on the whole event, negated or not."""
    leaves = st.sampled_from(["", *names]).map(odd.residual)
    return st.builds(lambda leaf, no: leaf.negate() if no else leaf, leaves, st.booleans())


def simplified(leaves: st.SearchStrategy[Constraint]) -> st.SearchStrategy[Constraint]:
    """The constraints as the algebra has them; those with an empty set left out."""

    def keep(constraint: Constraint) -> Constraint:
        simple = simplify(constraint)
        return constraint if simple is None else simple

    return leaves.filter(lambda c: simplify(c) is not None).map(keep)


def expressions(
    leaves: st.SearchStrategy[Constraint] | None = None, size: int = 8
) -> st.SearchStrategy[Expression]:
    """Any expression over the constraints."""
    return st.recursive(
        leaves if leaves is not None else constraints(),
        lambda parts: st.one_of(
            st.lists(parts, min_size=0, max_size=3).map(conjoin),
            st.lists(parts, min_size=0, max_size=3).map(disjoin),
            parts.map(negate),
        ),
        max_leaves=size,
    )


scalars: st.SearchStrategy[Any] = st.one_of(
    numbers,
    texts,
    st.booleans(),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), 2**64, -(2**70)]),
)
values = st.one_of(scalars, st.none(), st.lists(st.one_of(scalars, st.none()), max_size=4))
flat_events = st.dictionaries(st.sampled_from(NAMES), values, max_size=3)
