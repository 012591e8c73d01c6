"""Cases of `jms`: the examples of Jakarta Messaging 3.1, and where its implementations go wrong."""

import math
from typing import Any

from tests.language.dialects import sql_cases
from tests.language.dialects.harness import Covering, Example, Excuse, Refusal, Translation
from tests.language.dialects.sql_oracle import Tree

# Tests of one attribute against constants

CONSTANTS: list[Any] = [0, 5, -5, 1.5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), float(2**53), 1e300]
CONSTANTS += ["a", True]
VALUES: list[Any] = [0, -0.0, 5, -5, 1.5, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, float(2**63)]
VALUES += [2**64, 2**80, -(2**63), 1e300, math.nan, math.inf, -math.inf, "", "a", "5", True, False]
PLAIN: list[Tree] = [
    *(("cmp", sign, ("name", "x"), ("lit", c)) for sign in ("=", "<>") for c in CONSTANTS),
    *(("cmp", sign, ("lit", c), ("name", "x")) for sign in ("<", ">=") for c in CONSTANTS[:-2]),
    *(("between", no, ("name", "x"), ("lit", low), ("lit", high))
      for no in (False, True) for low in CONSTANTS[:-2:3] for high in CONSTANTS[:-2:2]),
    *(("like", no, ("name", "x"), pattern)
      for no in (False, True) for pattern in ("%", "a", "_", "5%")),
    *(("in", no, ("name", "x"), ("lit", "a"), ("lit", "5")) for no in (False, True)),
    *(("null", no, ("name", "x")) for no in (False, True)),
    ("name", "x"),
]  # fmt: skip

# A selector, an event, and whether it is selected

EXAMPLES: list[Example] = [
    ("JMSType = 'car' AND color = 'blue' AND weight > 2500",
     {"JMSType": "car", "color": "blue", "weight": 2501}, True),
    ("NumberOfOrders > 1", {"NumberOfOrders": "2"}, False),
    ("NOT NumberOfOrders > 1", {"NumberOfOrders": "2"}, True),
    ("age BETWEEN 15 AND 19", {"age": 19}, True),
    ("age NOT BETWEEN 15 AND 19", {"age": 19}, False),
    ("age NOT BETWEEN 15 AND 19", {"age": 20.5}, True),
    ("age NOT BETWEEN 15 AND 19", {"age": "20"}, False),
    ("age NOT BETWEEN 15 AND 19", {}, False),
    ("Country IN ('UK', 'US', 'France')", {"Country": "UK"}, True),
    ("Country IN ('UK', 'US', 'France')", {"Country": "Peru"}, False),
    ("Country NOT IN ('UK', 'US', 'France')", {"Country": "Peru"}, True),
    ("Country NOT IN ('UK', 'US', 'France')", {"Country": None}, False),
    ("phone LIKE '12%3'", {"phone": "12993"}, True),
    ("phone LIKE '12%3'", {"phone": "1234"}, False),
    ("word LIKE 'l_se'", {"word": "loose"}, False),
    (r"underscored LIKE '\_%' ESCAPE '\'", {"underscored": "_foo"}, True),
    (r"underscored LIKE '\_%' ESCAPE '\'", {"underscored": "bar"}, False),
    ("phone NOT LIKE '12%3'", {"phone": "1234"}, True),
    ("phone NOT LIKE '12%3'", {}, False),
    ("prop_name IS NULL", {}, True),
    ("prop_name IS NOT NULL", {"prop_name": 0}, True),
    # Three values
    ("NOT (x = 1)", {}, False),
    ("x = 1 OR y = 1", {"y": 1}, True),
    ("x = 1 AND y = 1", {"y": 1}, False),
    ("NOT (x = 1 AND y = 1)", {"y": 2}, True),
    ("NOT (x = 1 OR y = 1)", {"y": 2}, False),
    # Unlike types compare as false, whatever the sign
    ("x <> 'a'", {"x": 5}, False),
    ("NOT x <> 'a'", {"x": 5}, True),
    ("x = TRUE", {"x": 1}, False),
    ("x", {"x": True}, True),
    ("NOT x", {"x": 5}, True),
    # Arithmetic as Java does it
    ("x / 2 = 3", {"x": 7}, True),
    ("x / 2 = -3", {"x": -7}, True),
    ("x / 2. = 3.5", {"x": 7}, True),
    ("x / 0 = 1 OR NOT x / 0 = 1", {"x": 7}, False),
    ("x + 1 < x", {"x": 2**63 - 1}, True),
    ("-x + 2 * 3 - 4 = 1", {"x": 1}, True),
    ("x - 1 - 1 = 1", {"x": 3}, True),
    ("x + 1 = 2", {"x": "1"}, False),
    # Java's numeric promotion: a long beside a double becomes one
    ("n = 9007199254740993", {"n": 9007199254740992.0}, True),
    ("n = 9007199254740993", {"n": 9007199254740992}, False),
    ("n = 9007199254740992.0", {"n": 9007199254740993}, True),
    # Literals
    ("x = 0x1F AND y = 017 AND z = 5L", {"x": 31, "y": 15, "z": 5}, True),
    ("x = 7. AND y = 7E3 AND z = .5", {"x": 7, "y": 7000, "z": 0.5}, True),
    ("x = 1_000 AND y = 0b101 AND z = 2d", {"x": 1000, "y": 5, "z": 2}, True),
    ("x = 1.1f", {"x": 1.1}, False),
    ("x = -9223372036854775808", {"x": -(2**63)}, True),
    ("x = +62", {"x": 62}, True),
    ("x = 'literal''s'", {"x": "literal's"}, True),
    # Case: of keywords never, of identifiers always
    ("a = 1 aNd B = 2 Or c iS nUlL", {"a": 1, "B": 2, "c": 1}, True),
    ("a = 1", {"A": 1}, False),
    # Precedence
    ("NOT a = 1 AND b = 1", {"a": 2, "b": 1}, True),
    ("a = 1 OR b = 1 AND c = 1", {"a": 1}, True),
    # The empty selector is none
    ("", {}, True),
    (" \n", {"x": 1}, True),
    # Lists
    ("x = 'a'", {"x": ["a", "b"]}, True),
    ("NOT x = 'a'", {"x": ["a", "b"]}, False),
    ("x > y", {"x": [5, 6], "y": 1}, False),
    ("x * 2 = 12", {"x": [5, 6]}, True),
    ("$price_ > 1 AND größe = 2 AND _a IS NULL", {"$price_": 2, "größe": 2}, True),
]  # fmt: skip

PATTERN = "%a" * 200 + "b"
HOSTILE: list[Example] = [
    (f"x LIKE '{PATTERN}' AND y + 1 = 2", {"x": "a" * 50_000, "y": 1}, False),
]

DEEP = sql_cases.DEEP

# A selector, the line and column of its mistake, and what is expected there

REFUSED: list[Refusal] = [
    *sql_cases.REFUSED,
    ("color = 'red", 1, 9, "a closing quote"),
    ("3", 1, 1, "a condition"),
    ("x = 1\n AND\n  5", 3, 3, "a condition"),
    ("'red'", 1, 1, "a condition"),
    ("x + 1", 1, 1, "a condition"),
    ("x > 'a'", 1, 5, "a number beside >"),
    ("x >= TRUE", 1, 6, "a number beside >="),
    ("x = 1 AND 5", 1, 11, "a condition"),
    ("1 = 'a'", 1, 5, "a number to compare"),
    ("x + 'a' = 1", 1, 5, "a number or an identifier"),
    ("x BETWEEN 'a' AND 'b'", 1, 11, "a number or an identifier"),
    ("x IN (1, 2)", 1, 7, "a text in single quotes after IN"),
    ("x IN ()", 1, 7, "a text in single quotes after IN"),
    ("1 IN ('a')", 1, 1, "an identifier before IN, found a number"),
    ("'a' LIKE 'b'", 1, 1, "an identifier before LIKE"),
    ("x LIKE 5", 1, 8, "a text in single quotes after LIKE"),
    ("x LIKE 'a' ESCAPE '!!'", 1, 19, "one character"),
    ("x LIKE 'a!b' ESCAPE '!'", 1, 21, "to stand only before"),
    ("x + 1 IS NULL", 1, 1, "an identifier before IS"),
    ("x = NULL", 1, 5, "NULL is a keyword"),
    ("between = 1", 1, 1, "BETWEEN is a keyword"),
    ("JMSReplyTo = 'a'", 1, 1, "a header field that selectors may use"),
    ("JMSFoo = 'a'", 1, 1, "a header field that selectors may use"),
    ("x == 1", 1, 4, "an identifier"),
    ("x != 1", 1, 3, "= or <>"),
    ("x = 1 /* comment */", 1, 8, "an identifier"),
    ("x = 08", 1, 5, "a number as Java writes it"),
    ("x = 9223372036854775808", 1, 5, "Java's long"),
    ("x = 1e999", 1, 5, "fits a double"),
    ('"x" = 1', 1, 1, "an identifier"),
    ("a.b = 1", 1, 2, "an identifier"),
    ("x = (1", 1, 7, ")"),
    ("NOT", 1, 4, "an identifier"),
    ("x NOT 1", 1, 7, "BETWEEN, IN or LIKE"),
    ("x = " + "+".join("y" * 200), 1, 5, "at most 96 operators"),
]

# A selector, and what it becomes

TRANSLATED: list[Translation] = [
    ("price > 5", "price > 5"),
    ("NOT price > 5", "exists price and not price > 5"),
    ("name LIKE 'a%'", "name like 'a%'"),
    ("a IS NULL", "not exists a"),
    ("x IN ('a', 'b')", "x in ('a', 'b')"),
    ("price * quantity > 100",
     "exists number price and exists number quantity and jms('price * quantity > 100')"),
]  # fmt: skip

# Two selectors, and whether the first covers the second

COVERING: list[Covering] = [
    ("x > 5", "x > 6 AND y * 2 = z", True),
    ("x IS NOT NULL", "NOT x = 'a'", True),
    ("x <> 'a'", "NOT x = 'a'", False),
]

# Our predicate, and the selector that it becomes

WRITTEN: list[Translation] = [
    ("price > 5 and name prefix 'web_'", "price > 5 AND name LIKE 'web\\_%' ESCAPE '\\'"),
    ("name suffix 'a'", "name LIKE '%a'"),
    ("name contains '%'", "name LIKE '%\\%%' ESCAPE '\\'"),
    ("not price > 5", "price IS NULL OR NOT (price > 5)"),
    ("a in (1, 'x') and exists b", "(a = 1 OR a IN ('x')) AND b IS NOT NULL"),
    ("not (a = 1 or exists b)", "(a IS NULL OR NOT (a = 1)) AND b IS NULL"),
    ("exists bool a", "a = TRUE OR a = FALSE"),
    ("true", "TRUE"),
    ("jms('a * 2 = 4') and a >= 0", "(a * 2 = 4) AND a >= 0"),
    ("exists number a and exists b and jms('a * 2 = b')", "(a * 2 = b)"),
]

# Our predicate, and why no selector says it

UNSAYABLE: list[Excuse] = [
    ("exists number a", "of type number"),
    ("exists number a and jms('a = 1 OR b = 1')", "of type number"),
    ("int a = 1", "of type int"),
    ("name > 'a'", "do not order texts"),
    ("name matches 'a+'", "no operator matches"),
    ("name i= 'a'", "no operator i="),
    ("host.name = 'a'", "not an identifier"),
    ("JMSReplyTo = 'a'", "header field"),
    ("n = 9007199254740993", "round"),
    ("not jms('a * 2 = 4')", "false or unknown"),
    ("cesql('a * 2 = 4')", "a test of cesql"),
]

WORDS = [*sql_cases.WORDS, "JMSType", "JMSFoo", "2.5", "0x1F", "'%'", "NULL", "BETWEEN", "ESCAPE"]
WORDS += ["IS"]
