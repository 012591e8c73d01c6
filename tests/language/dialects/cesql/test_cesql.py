"""The `cesql` dialect means what CloudEvents SQL 1.0 says, alone and through the tables."""

import json
import math
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import strategies
from tests.language.dialects.cesql import oracle as cesql_oracle
from tests.language.dialects.cesql.oracle import Tree, passes, spelled
from tidings import Event, Predicate, PredicateError, Table, parse
from tidings.language.dialects import cesql
from tidings.language.dialects.cesql.evaluation import formula
from tidings.language.dialects.cesql.syntax import kind, read_expression, write_expression
from tidings.language.dialects.cesql.values import EvaluationError
from tidings.language.errors import TranslationError
from tidings.language.expression import Expression

# Expressions by chance

NAMES = ["x", "y", "type"]
name = st.sampled_from(NAMES)
TEXTS = ["", "a", "ab", "5", "05", "+5", "-0", "0", "-1", "2147483648", "-2147483648", "1.5", "2.0"]
TEXTS += [
    "inf",
    "nan",
    "-inf",
    "true",
    "TRUE",
    "tRue",
    "false",
    "FALSE",
    "fal\u017fe",
    " a ",
    "\x1f",
]
TEXTS += ["1e+300", "9007199254740993", "\u0665", "it's"]
texts = st.one_of(st.sampled_from(TEXTS), strategies.small_texts)
integers = st.one_of(st.integers(-3, 6), st.sampled_from([-(2**31), 2**31 - 1, 100]))
literal = st.tuples(st.just("lit"), st.one_of(texts, integers, st.booleans()))
named = st.tuples(st.just("name"), name)
patterns = st.lists(
    st.sampled_from(["%", "%", "_", "\\%", "\\_", "a", "b", "1", "5", "t", "e", ".", "-", "i"]),
    max_size=4,
).map("".join)
comparison = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])
negated = st.booleans()


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
        conditions(inner),
    )


def conditions(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.just("cmp"), comparison, inner, inner),
        st.tuples(st.just("like"), negated, inner, patterns),
        st.builds(
            lambda no, left, members: ("in", no, left, *members),
            negated,
            inner,
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.tuples(st.just("exists"), name),
    )


values = st.recursive(st.one_of(literal, named), nested, max_leaves=4)
plain = st.one_of(
    st.tuples(st.just("cmp"), comparison, named, literal),
    st.tuples(st.just("cmp"), comparison, literal, named),
    st.tuples(st.just("like"), negated, named, patterns),
    st.builds(
        lambda no, left, members: ("in", no, left, *members),
        negated,
        named,
        st.lists(literal, min_size=1, max_size=3),
    ),
    st.tuples(st.just("exists"), name),
)


def joined(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    operand = st.one_of(inner, inner, inner, values)
    return st.one_of(
        st.tuples(st.sampled_from(["and", "or", "xor"]), operand, operand),
        st.tuples(st.just("not"), operand),
    )


trees = st.recursive(st.one_of(plain, plain, conditions(values), named), joined, max_leaves=5)
odd_scalars = st.one_of(texts, integers, st.sampled_from([2**31, -(2**31) - 1, 5.0, -0.0, True]))
odd_values = st.one_of(
    odd_scalars, strategies.values, st.lists(odd_scalars | st.none(), max_size=3)
)
events = st.dictionaries(name, odd_values, max_size=3)


@given(trees, st.lists(events, min_size=1, max_size=4))
def test_a_filter_lets_pass_what_the_specification_says(
    tree: Tree, events: list[dict[str, Any]]
) -> None:
    text = spelled(tree)
    predicate = parse(text, dialect="cesql")
    again = parse(str(predicate))
    for event in events:
        expected = passes(tree, event)
        assert predicate.matches(event) is expected
        assert predicate.matches(Event(event)) is expected
        assert again.matches(event) is expected
        assert cesql.test(text)(event) is expected


@given(trees)
def test_what_is_written_for_residuals_reads_as_the_same(tree: Tree) -> None:
    node = read_expression(spelled(tree))
    assert repr(bare(read_expression(write_expression(node)))) == repr(bare(node))


def bare(node: Any) -> Any:
    """A tree without places, in which true and 1 differ."""
    return (node.operator, type(node.value), node.value, *map(bare, node.parts))


@given(st.lists(trees, max_size=6), st.lists(events, min_size=1, max_size=4))
def test_a_table_finds_what_the_specification_says(
    trees: list[Tree], events: list[dict[str, Any]]
) -> None:
    table = Table()
    for id, tree in enumerate(trees):
        table.add(id, parse(spelled(tree), dialect="cesql"))
    for event in events:
        expected = [id for id, tree in enumerate(trees) if passes(tree, event)]
        assert sorted(table.match(event)) == expected
    known = [event for event in events if all(map(storable, event.values()))]
    batch = pa.table({"event": pa.array(map(json.dumps, known), pa.string())})
    found = table.match_batch(batch, json="event")
    pairs = zip(*(column.to_pylist() for column in found.columns), strict=True)
    assert sorted(pairs) == [
        (row, id)
        for row, event in enumerate(known)
        for id, tree in enumerate(trees)
        if passes(tree, event)
    ]


def storable(value: Any) -> bool:
    """Whether JSON carries a value as it is."""
    if isinstance(value, list):
        return all(map(storable, value))
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return not isinstance(value, float) or math.isfinite(value)


@given(
    st.lists(trees, max_size=6),
    st.lists(st.integers(-3, 6) | st.none(), min_size=3, max_size=3),
    st.lists(texts | st.none(), min_size=3, max_size=3),
    st.lists(st.booleans() | st.none(), min_size=3, max_size=3),
)
def test_typed_columns_find_what_the_specification_says(
    trees: list[Tree], xs: list[Any], ys: list[Any], types: list[Any]
) -> None:
    table = Table()
    for id, tree in enumerate(trees):
        table.add(id, parse(spelled(tree), dialect="cesql"))
    columns = {
        "x": pa.array(xs, pa.int64()),
        "y": pa.array(ys, pa.string()),
        "type": pa.array(types, pa.bool_()),
    }
    found = table.match_batch(pa.table(columns))
    pairs = zip(*(column.to_pylist() for column in found.columns), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(xs, ys, types, strict=True)]
    assert sorted(pairs) == [
        (row, id)
        for row, event in enumerate(rows)
        for id, tree in enumerate(trees)
        if passes(tree, event)
    ]


CONSTANTS = [*TEXTS, 0, 1, 5, -1, 2**31 - 1, -(2**31), True, False]
VALUES = [*TEXTS, 0, 1, 5, 6, -1, -6, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63, 2**80, 1.5]
VALUES += [2.0, 0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, True, False]
PATTERNS = ["", "%", "_", "a%", "%a", "%e%", "t%", "f%", "5", "%5", "-%", "%.%", "i_f", "n%", "1e%"]
PLAIN: list[Tree] = [
    *(("cmp", sign, ("name", "x"), ("lit", c)) for sign in ("=", "<", ">=") for c in CONSTANTS),
    *(("cmp", sign, ("lit", c), ("name", "x")) for sign in ("=", "<") for c in CONSTANTS),
    *(("like", False, ("name", "x"), pattern) for pattern in PATTERNS),
    *(("in", False, ("name", "x"), ("lit", c), ("lit", 5)) for c in CONSTANTS),
    *(("in", False, ("name", "x"), ("lit", c), ("lit", "a")) for c in CONSTANTS),
    *(("cmp", "=", ("call", f, ("name", "x")), ("lit", c)) for f in ("INT", "STRING", "BOOL")
      for c in (5, "5", True, "true")),
    ("and", ("name", "x"), ("lit", True)),
    ("call", "BOOL", ("name", "x")),
    ("exists", "x"),
]  # fmt: skip


@pytest.mark.parametrize("tree", PLAIN, ids=spelled)
def test_plain_tests_on_every_kind_of_value(tree: Tree) -> None:
    lists = [[a, b] for a in ("5", "a", True, 1.5) for b in VALUES]
    events = [{}, *({"x": value} for value in [*VALUES, *lists])]
    for asked in (tree, ("not", tree)):
        predicate = parse(spelled(asked), dialect="cesql")
        for event in events:
            assert predicate.matches(event) is passes(asked, event), event


# Conformance, section by section: an expression, its value, its error, the event

CONFORMANCE: dict[str, list[tuple[Any, ...]]] = {
    "2. keywords in any case": [
        ("int(hop) < int(ttl) and int(hop) < 1000", True, None, {"hop": "5", "ttl": "10"}),
        ("INT(hop) < INT(ttl) AND INT(hop) < 1000", True, None, {"hop": "5", "ttl": "10"}),
        ("TrUe aNd nOt FaLsE", True),
        ("'a' lIkE 'a' xOr 1 iN (2)", True),
        ("eXiStS subject", True, None, {"subject": "s"}),
    ],
    "2.1 expressions": [
        ("(TRUE)", True),
        ("((1 + 2))", 3),
        ("4 * (2 + 3)", 20),
        ("(2 + 3) * 4", 20),
        ("((1)", "parse"),
        ("1)", "parse"),
        ("", "parse"),
        ("1 2", "parse"),
        ("ABS(", "parse"),
    ],
    "2.2 identifiers and literals": [
        ("TRUE", True),
        ("FALSE", False),
        ("0", 0),
        ("00012", 12),
        ("+7", 7),
        ("-7", -7),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("2147483648", "parse"),
        ("-2147483649", "parse"),
        ("99999999999999999999", "parse"),
        ("'abc'", "abc"),
        ('"abc"', "abc"),
        ("'aBc'", "aBc"),
        ("''", ""),
        (r"""'a"b\'c'""", "a\"b'c"),
        (r'''"a'b\"c"''', "a'b\"c"),
        (r"'a\nb\\'", r"a\nb\\"),
        ("'a''b'", "parse"),
        ("'abc", "parse"),
        (r"'abc\'", "parse"),
        ("a1b2", "v", None, {"a1b2": "v"}),
        ("1st", "v", None, {"1st": "v"}),
        ("missingAttribute = ''", False, "missing attribute"),
        ("my_name = 1", "parse"),
        ("a.b = 1", "parse"),
        ("größe = 1", "parse"),
        ("a-b = 1", False, "missing attribute"),
    ],
    "2.3 operators": [
        ("1 != 2", True),
        ("1 <> 2", True),
        ("1 == 2", "parse"),
        ("+ 1", "parse"),
        ("+x", "parse"),
        ("NOT", "parse"),
        ("EXISTS", "parse"),
        ("EXISTS 'a'", "parse"),
        ("EXISTS (subject)", "parse"),
        ("1 IN ()", "parse"),
        ("1 IN 1", "parse"),
        ("1 NOT = 1", "parse"),
        ("1 AND", "parse"),
    ],
    "2.4 function invocations": [
        ("CONCAT()", ""),
        ("concat('a', 'b')", "ab"),
        ("Concat_Ws('-', 'a', 'b')", "a-b"),
        ("ABS(1,)", "parse"),
        ("LENGTH 'a'", "parse"),
    ],
    "3.1 types": [
        ("'a' = 'A'", False),
        ("time = '2018-04-26T14:48:09+02:00'", True, None, {"time": "2018-04-26T14:48:09+02:00"}),
        ("source LIKE 'http://%'", True, None, {"source": "http://localhost/source"}),
    ],
    "3.2 attributes": [
        ("id", "myId", None, {"id": "myId"}),
        ("mybool", True, None, {"mybool": True}),
        ("myint", 10, None, {"myint": 10}),
        ("subject", False, "missing attribute"),
        ("true AND (missing = '')", False, "missing attribute"),
        ("missing * 5", 0, "missing attribute"),
        ("1 / missing", 0, "missing attribute"),
        ("missing / 0", 0, "missing attribute"),
        ("missing % 0", 0, "missing attribute"),
        ("LENGTH(missing)", 0, "missing attribute"),
        ("CONCAT('a', missing)", "", "missing attribute"),
        ("missing LIKE 'a%'", False, "missing attribute"),
        ("missing NOT LIKE 'a%'", False, "missing attribute"),
        ("missing NOT IN (1)", False, "missing attribute"),
        ("missing != 5", False, "missing attribute"),
        ("x = 5", False, "missing attribute", {"x": None}),
        ("x LIKE '1.5'", True, None, {"x": 1.5}),
        ("x = '4294967296'", True, None, {"x": 2**32}),
        ("x > 5", False, "cast", {"x": 2**32}),
        ("x > 5", False, "cast", {"x": 7.5}),
    ],
    "3.3 errors": [
        ("1 / 0", 0, "math"),
        ("INT('a')", 0, "cast"),
        ("LEFT('abc', -1)", "abc", "function evaluation"),
        ("(1 / 0) = 0", False, "math"),
    ],
    "3.4.1 unary operators": [
        ("NOT TRUE", False),
        ("NOT FALSE", True),
        ("NOT 'TRUE'", False),
        ("NOT 'FALSE'", True),
        ("NOT 10", False),
        ("NOT 0", True),
        ("NOT 'abc'", False, "cast"),
        ("NOT missing", False, "missing attribute"),
        ("-10", -10),
        ("--10", 10),
        ("- 10", -10),
        ("-'10'", -10),
        ("--'10'", 10),
        ("-TRUE", -1),
        ("-'a'", 0, "cast"),
        ("-missing", 0, "missing attribute"),
        ("-(-2147483648)", 0, "math"),
    ],
    "3.4.2 comparisons": [
        ("TRUE = FALSE", False),
        ("FALSE = FALSE", True),
        ("1 = 2", False),
        ("2 = 2", True),
        ("'abc' = '123'", False),
        ("'abc' = 'abc'", True),
        ("TRUE != FALSE", True),
        ("2 <> 2", False),
        ("'abc' <> '123'", True),
        ("2 <= 2", True),
        ("3 <= 2", False),
        ("1 < 2", True),
        ("2 < 2", False),
        ("2 >= 3", False),
        ("2 > 1", True),
        ("'10' > '9'", True),
        ("'b' > 'a'", False, "cast"),
        ("TRUE > FALSE", True),
        ("'TRUE' = true", True),
        ("true = 'TRUE'", False),
        ("'5' = 5", True),
        ("5 = '05'", False),
        ("'05' = 5", True),
        ("'a' = 5", False, "cast"),
        ("'a' != 5", False, "cast"),
        ("5 = TRUE", True),
        ("TRUE = 1", True),
        ("TRUE = 2", False),
        ("sequence = 5", True, None, {"sequence": "5"}),
        ("sequence = 5", False, None, {"sequence": "6"}),
        ("5 = sequence", True, None, {"sequence": "5"}),
    ],
    "3.4.2 arithmetic": [
        ("4 * 2 + 4 / 2", 10),
        ("4 * (2 + 4) / 2", 12),
        ("5 / 3", 1),
        ("-5 / 3", -1),
        ("5 / -3", -1),
        ("5 % 2", 1),
        ("-5 % 3", -2),
        ("5 % -3", 2),
        ("5 / 0", 0, "math"),
        ("5 % 0", 0, "math"),
        ("4 + 1", 5),
        ("-4 + 1", -3),
        ("-4 + -1", -5),
        ("4 + -1", 3),
        ("4 - 1", 3),
        ("4 -1", 3),
        ("4-1", 3),
        ("-4 - 1", -5),
        ("'5' + 3", 8),
        ("5 + '3'", 8),
        ("'5' + '3'", 8),
        ("5 + TRUE", 6),
        ("2147483647 + 1", 0, "math"),
        ("-2147483648 - 1", 0, "math"),
        ("65536 * 65536", 0, "math"),
        ("-2147483648 / -1", 0, "math"),
        ("-2147483648 % -1", 0),
    ],
    "3.4.2 logic": [
        ("FALSE AND TRUE", False),
        ("TRUE AND TRUE", True),
        ("FALSE OR TRUE", True),
        ("FALSE OR FALSE", False),
        ("FALSE XOR TRUE", True),
        ("TRUE XOR TRUE", False),
        ("'true' AND 1", True),
        ("'a' AND TRUE", False, "cast"),
        ("false AND (1 != 1 / 0)", False),
        ("true AND (1 != 1 / 0)", False, "math"),
        ("true OR (1 != 1 / 0)", True),
        ("false OR (1 != 1 / 0)", False, "math"),
        ("(1 != 1 / 0) OR true", True, "math"),
        ("true XOR (1 != 1 / 0)", True, "math"),
        ("missing = 1 OR type = 't'", True, "missing attribute", {"type": "t"}),
        ("type = 't' OR missing = 1", True, None, {"type": "t"}),
        ("type = 'u' AND missing = 1", False, None, {"type": "t"}),
        ("(type = 'u' AND missing = 1) = FALSE", True, None, {"type": "t"}),
        ("(type = 't' OR missing = 1) LIKE 't%'", True, None, {"type": "t"}),
        ("(EXISTS missing) = FALSE", True),
    ],
    "3.4.3 LIKE": [
        ("'abc' LIKE 'abc'", True),
        (r"'ab\c' LIKE 'ab\c'", True),
        ("'abc' NOT LIKE 'abc'", False),
        ("'abc' LIKE 'a%b%c'", True),
        ("'azzzbzzzc' LIKE 'a%b%c'", True),
        ("'ac' LIKE 'abc'", False),
        ("'' LIKE 'abc'", False),
        ("'' LIKE '%'", True),
        ("'.ab.cde.' LIKE '.%.%.'", True),
        ("'ab.cde' LIKE '.%.%.'", False),
        ("'abc' LIKE 'a_b_c'", False),
        ("'azbzc' LIKE 'a_b_c'", True),
        ("'abcd.' LIKE '._._.'", False),
        (r"'a_b_c' LIKE 'a\_b\_c'", True),
        (r"'azbzc' LIKE 'a\_b\_c'", False),
        (r"'a%b%c' LIKE 'a\%b\%c'", True),
        (r"'abc' LIKE 'a\%b\%c'", False),
        (r"myext LIKE 'abc%123\%456\_d_f'", True, None, {"myext": "abc123123%456_dzf"}),
        (r"'abc%' LIKE 'abc\%'", True),
        (r"'abcd' LIKE 'abc\%'", False),
        ("'aBc' LIKE '_b%'", False),
        ("'a\nb' LIKE 'a%b'", True),
        ("234 LIKE '23_'", True),
        ("2344 LIKE '23_'", False),
        ("TRUE LIKE 'tr%'", True),
        ("FALSE LIKE 'tr%'", False),
        ("'abc' LIKE 123", "parse"),
        ("'abc' LIKE CONCAT('a')", "parse"),
        ("'abc' LIKE x", "parse"),
    ],
    "3.4.4 EXISTS": [
        ("EXISTS subject", True, None, {"subject": "s"}),
        ("EXISTS subject", False),
        ("EXISTS id AND EXISTS source AND EXISTS type AND EXISTS specversion", True),
        ("NOT EXISTS subject", True),
    ],
    "3.4.5 IN": [
        ("123 IN (1, 2, 3, 12, 13, 23, 123)", True),
        ("123 NOT IN (1, 2, 3, 12, 13, 23, 123)", False),
        ("'abc' IN ('abc', \"bcd\")", True),
        ("'aaa' IN ('abc', 'bcd')", False),
        ("TRUE IN (FALSE)", False),
        ("'true' IN (TRUE, 'false')", True),
        ("'true' IN ('TRUE', 'false')", False),
        ("TRUE IN ('true', 'false')", True),
        ("'TRUE' IN (TRUE, 'false')", False),
        ("1 IN ('1', '2')", True),
        ("'1' IN (1, 2)", True),
        ("1 IN ('a', 2)", False, "cast"),
        ("x IN (FALSE, '7')", True, None, {"x": 0}),
        ("x IN (FALSE, 7)", True, None, {"x": "7"}),
        ("source IN (myext, 'abc')", True, None, {"source": "s", "myext": "s"}),
        ("source IN (id, 'xyz')", False, None, {"source": "s", "id": "i"}),
    ],
    "3.5 dispatch": [
        ("FOO(1)", "parse"),
        ("CONCAT_WS()", "parse"),
        ("ABS()", "parse"),
        ("ABS(1, 2)", "parse"),
        ("SUBSTRING('a', 1, 1, 1)", "parse"),
    ],
    "3.5.1 functions on texts": [
        ("LENGTH('abc')", 3),
        ("LENGTH('')", 0),
        ("LENGTH('2')", 1),
        ("LENGTH(TRUE)", 4),
        ("LENGTH('\U0001f600')", 1),
        ("CONCAT('a', 'b', 'c')", "abc"),
        ("CONCAT('a', 1, TRUE)", "a1true"),
        ("CONCAT_WS(',', 'a', 'b', 'c')", "a,b,c"),
        ("CONCAT_WS(',')", ""),
        ("CONCAT_WS(',', 'a')", "a"),
        ("LOWER('AbC')", "abc"),
        ("UPPER('AbC')", "ABC"),
        ("TRIM('   a b c   ')", "a b c"),
        ("TRIM('\u3000\t a \u2003')", "a"),
        ("TRIM('\x1f a')", "\x1f a"),
        ("LEFT('abc', 2)", "ab"),
        ("LEFT('abc', 10)", "abc"),
        ("LEFT('', 0)", ""),
        ("LEFT('abc', -2)", "abc", "function evaluation"),
        ("RIGHT('abc', 2)", "bc"),
        ("RIGHT('abc', 0)", ""),
        ("RIGHT('abc', 10)", "abc"),
        ("RIGHT('abc', -2)", "abc", "function evaluation"),
        ("SUBSTRING('abcdef', 1)", "abcdef"),
        ("SUBSTRING('abcdef', 2)", "bcdef"),
        ("SUBSTRING('Sakila', -3)", "ila"),
        ("SUBSTRING('abcdef', 2, 4)", "bcde"),
        ("SUBSTRING('Sakila', -5, 3)", "aki"),
        ("SUBSTRING('abc', 2, 10)", "bc"),
        ("SUBSTRING('abc', 0)", ""),
        ("SUBSTRING('abc', 0, 1)", ""),
        ("SUBSTRING('abcdef', 10)", "", "function evaluation"),
        ("SUBSTRING('abcdef', -10)", "", "function evaluation"),
        ("SUBSTRING('abcdef', -10, 10)", "", "function evaluation"),
        ("SUBSTRING('abcdef', 1, -1)", "", "function evaluation"),
    ],
    "3.5.2 functions on integers": [
        ("ABS(10)", 10),
        ("ABS(-10)", 10),
        ("ABS('-3')", 3),
        ("ABS(-2147483648)", 2147483647, "math"),
    ],
    "3.6 precedence": [
        ("NOT FALSE = FALSE", False),  # (NOT FALSE) = FALSE
        ("NOT 'a' = 'a'", False, "cast"),
        ("-2 * 3", -6),
        ("2 + 3 * 4", 14),
        ("10 - 4 - 3", 3),
        ("100 / 10 / 2", 5),
        ("1 + 1 = 2 AND 2 * 2 = 4", True),
        ("'1' + 1 LIKE '1'", 2),  # '1' + (1 LIKE '1')
        ("1 IN (1) = TRUE", True),
        ("3 > 2 = TRUE", True),
        ("TRUE OR TRUE AND FALSE", False),  # from the left
        ("FALSE AND FALSE OR TRUE", True),
        ("TRUE OR FALSE XOR TRUE", False),
    ],
    "3.7 casts": [
        ("INT('1')", 1),
        ("INT('-1')", -1),
        ("INT('+1')", 1),
        ("INT('007')", 7),
        ("INT(TRUE)", 1),
        ("INT('ABC')", 0, "cast"),
        ("INT('')", 0, "cast"),
        ("INT(' 1')", 0, "cast"),
        ("INT('1.0')", 0, "cast"),
        ("INT('2147483648')", 0, "cast"),
        ("INT('\u0661')", 0, "cast"),
        ("BOOL('TRUE')", True),
        ('BOOL("false")', False),
        ("BOOL('ABC')", False, "cast"),
        ("BOOL(0)", False),
        ("BOOL(-50)", True),
        ("STRING(TRUE)", "true"),
        ("STRING(-1)", "-1"),
        ("STRING(007)", "7"),
        ("TRUE = 'true' AND FALSE = 'false'", True),
        ("TRUE = 'TRUE' OR FALSE = 'FALSE'", False),
        ("IS_INT('5')", True),
        ("IS_INT('a')", False),
        ("IS_BOOL('True')", True),
        ("IS_BOOL('yes')", False),
    ],
    "5. examples": [
        ("firstname = 'Francesco' OR subject = 'Francesco'", True, None,
         {"firstname": "Doug", "subject": "Francesco"}),
        ("(firstname = 'Francesco' AND lastname = 'Guardiani') OR subject = 'Francesco Guardiani'",
         True, None, {"subject": "Doug", "firstname": "Francesco", "lastname": "Guardiani"}),
        ("hop < ttl", True, None, {"hop": "5", "ttl": "10"}),
        ("sequence = 10", True, None, {"sequence": 10}),
    ],
}  # fmt: skip
ROWS = [
    pytest.param(*case, *(None, {})[len(case) - 2 :], id=f"{section}: {case[0]}")
    for section, cases in CONFORMANCE.items()
    for case in cases
]


@pytest.mark.parametrize(("text", "expected", "error", "event"), ROWS)
def test_conformance(text: str, expected: Any, error: str | None, event: dict[str, Any]) -> None:
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


def single(event: dict[str, Any]) -> dict[str, Any]:
    return {name: cesql_oracle.known(value) for name, value in event.items() if value is not None}


FORBIDDEN = [
    ("1 + 1", 1, "a boolean expression"),
    ("'abc' LIKE 5", 12, "a text in quotes after LIKE"),
    ("x = 2147483648", 5, "an integer of 32 bit"),
    ("x = 'abc", 5, "a closing quote"),
    ("x = FOO(1)", 5, "a function that there is"),
    ("x = ABS(1, 2)", 5, "ABS with the number of arguments"),
    ("and = 1", 1, "AND is a keyword"),
    ("my_name = 1", 1, "letters and digits"),
    ("x = # 1", 5, "a name, a literal or an operator"),
    ("x = 1 y", 7, "the end of the text"),
    ("x NOT y", 7, "LIKE or IN"),
    ("(x", 3, r"\)"),
    ("(" * 60 + "x" + ")" * 60, 33, "at most 32 levels"),
    ("NOT " * 200 + "x", 1, "at most 96 operators"),
    ("x = 1" + " AND x = 1 OR x = 2" * 100, 1, "at most 96 operators"),
    ("x" * 70_000, 1, "at most 65536 characters"),
    (f"x LIKE '{'a_' * 30_000}%b'", 8, "a pattern that can be matched"),
    ("x" * 2_000 + " = 1", 1, "a name of at most 1024"),
    ("x = '\ud800'", 6, "a character"),
]


@pytest.mark.parametrize(("text", "column", "expected"), FORBIDDEN)
def test_what_the_specification_forbids_is_refused_with_its_place(
    text: str, column: int, expected: str
) -> None:
    with pytest.raises(PredicateError, match=expected) as raised:
        parse(text, dialect="cesql")
    assert raised.value.column == column


@pytest.mark.parametrize(
    ("filter", "ours"),
    [
        ("type = 'a'", "type = 'a'"),
        ("type = 'a' OR type = 'b'", "type = 'a' or type = 'b'"),
        ("type <> 'a'", "exists type and not type = 'a'"),
        ("source LIKE 'https://%'", "source like 'https://%'"),
        ("type IN ('a', 'b')", "type in ('a', 'b')"),
        ("EXISTS subject AND NOT EXISTS myext", "exists subject and not exists myext"),
        ("subject = 'a' OR type = 'b'", "subject = 'a' or exists subject and type = 'b'"),
        ("size > 5",
         "int size between 6 and 2147483647 or exists string size and cesql('size > 5')"),
        ("LENGTH(subject) > 5", "exists subject and cesql('LENGTH(subject) > 5')"),
    ],
)  # fmt: skip
def test_what_our_constraints_can_say_is_no_residual(filter: str, ours: str) -> None:
    assert str(parse(filter, dialect="cesql")) == ours


@given(trees, trees, st.lists(events, min_size=1, max_size=6))
def test_covering_and_overlap_are_sound(
    one: Tree, other: Tree, events: list[dict[str, Any]]
) -> None:
    left, right = (parse(spelled(tree), dialect="cesql") for tree in (one, other))
    covers, overlaps, both = left.covers(right), left.intersects(right), left & right
    for event in events:
        first, second = passes(one, event), passes(other, event)
        assert first or not (second and covers)
        assert overlaps or not (first and second)
        assert both.matches(event) is (first and second)
        assert (left | right).matches(event) is (first or second)


def test_covering_works_on_what_is_translated() -> None:
    wide = parse("source LIKE 'https://%'", dialect="cesql")
    narrow = parse("source LIKE 'https://example.com/%' AND LENGTH(subject) > 5", dialect="cesql")
    assert wide.covers(narrow)
    assert not narrow.covers(wide)


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


SOUP = ["x", "y", "type", "=", "!=", "<>", "<", ">=", "+", "-", "*", "/", "%", "(", ")", ",", "1"]
SOUP += ["2147483648", "'a'", '"%"', "TRUE", "AND", "OR", "XOR", "NOT", "IN", "LIKE", "EXISTS"]
SOUP += ["ABS", "CONCAT", "SUBSTRING", "FOO", "'", "!", "\\", "é", "\x00", "\ud800"]


@given(st.lists(st.sampled_from(SOUP), max_size=12), st.sampled_from(["", " "]))
def test_any_text_is_read_or_refused(words: list[str], between: str) -> None:
    try:
        predicate = parse(between.join(words), dialect="cesql")
    except PredicateError:
        return
    assert parse(str(predicate)) == predicate


def test_deep_nesting_survives_the_way_to_another_process() -> None:
    text = "a + 1 = 2"
    for i in range(31):
        text = f"({text}) {'AND' if i % 2 else 'OR'} NOT (b{i} > 5)"
    predicate = parse(text, dialect="cesql")
    again = pickle.loads(pickle.dumps(predicate))
    for value in (3, 7):
        event = {"a": 1} | {f"b{i}": value for i in range(31)}
        assert again.matches(event) is predicate.matches(event) is (value == 3)


def test_concatenation_is_bounded() -> None:
    parts = ", ".join(["x"] * 3_000)
    predicate = parse(f"EXISTS x AND LENGTH(CONCAT({parts})) > 0", dialect="cesql")
    assert predicate.matches({"x": "a" * 1_000})
    assert not predicate.matches({"x": "a" * 10_000})


def test_like_takes_linear_time_on_hostile_patterns() -> None:
    pattern = "%1" * 200 + "2"
    predicate = parse(f"x LIKE '{pattern}' OR CONCAT(x, x) LIKE '{pattern}'", dialect="cesql")
    assert not predicate.matches({"x": "1" * 50_000})


# Writing: exact on events whose attributes have the types that they are compared with

typed_constraints = strategies.constraints(
    names=["x"], numbers=integers, texts=strategies.small_texts, regular=False
).filter(lambda c: c.type in ("number", "int")) | strategies.constraints(
    names=["y"], numbers=integers, regular=False
).filter(lambda c: c.type == "string")
typed_events = st.fixed_dictionaries({}, optional={"x": integers, "y": strategies.texts})


@given(strategies.expressions(typed_constraints), st.lists(typed_events, min_size=1, max_size=4))
def test_what_is_written_means_the_same(
    expression: Expression, events: list[dict[str, Any]]
) -> None:
    try:
        text = cesql.write(expression)
    except TranslationError:
        return
    back = parse(text, dialect="cesql")
    for event in events:
        assert back.matches(event) is Predicate(expression).matches(event)


@pytest.mark.parametrize(
    ("ours", "filter"),
    [
        ("price > 5", "EXISTS price AND price > 5"),
        ("price > 5 and name prefix 'web_'",
         "(EXISTS price AND price > 5) AND (EXISTS name AND name LIKE 'web\\_%')"),
        ("not price > 5", "NOT (EXISTS price AND price > 5)"),
        ("a in (1, 2) or exists b", "(EXISTS a AND a IN (1, 2)) OR (EXISTS b)"),
        ("not (a = 1 or b = 'it''s')",
         "NOT ((EXISTS a AND a = 1) OR (EXISTS b AND b = 'it\\'s'))"),
        ("x between 1 and 3", "EXISTS x AND x >= 1 AND x <= 3"),
        ("true", "TRUE"),
        ("cesql('LENGTH(a) = 4') and a = 'abcd'", "(LENGTH(a) = 4) AND (EXISTS a AND a = 'abcd')"),
    ],
)  # fmt: skip
def test_writing(ours: str, filter: str) -> None:
    assert cesql.write(parse(ours).expression) == filter


@pytest.mark.parametrize(
    ("ours", "reason"),
    [
        ("exists number a", "cannot ask for types"),
        ("a > 1.5", "no integer of 32 bit"),
        ("a = 4294967296", "no integer of 32 bit"),
        ("real a > 1", "no reals"),
        ("name > 'a'", "does not order texts"),
        ("name matches 'a+'", "no operator like matches"),
        ("host.name = 'a'", "no name of an attribute"),
        ("userId = 'a'", "no name of an attribute"),
        ("name = 'a\\'", "backslash"),
        ("cesql('LENGTH(a) = 4') or b = 1", "an error in it"),
        ("not cesql('LENGTH(a) = 4')", "an error in it"),
        ("jms('a * 2 = 4')", "a test of jms"),
    ],
)
def test_what_cloudevents_sql_cannot_say_is_refused_with_the_reason(ours: str, reason: str) -> None:
    with pytest.raises(TranslationError, match=reason):
        cesql.write(parse(ours).expression)
