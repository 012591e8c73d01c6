"""Cases of `eventbridge`: values that collide, patterns that are wrong, and what is written."""

import json
from typing import Any

from tests.language.dialects.harness import Covering, Example, Excuse, Refusal, Translation

STRINGS = ["", "a", "ab", "Ab", "b", "s", "S", "ſ", "ſt", "st", "k", "K", "ß", "SS", "ı", "I", "*",
           "a*", "\\", "%", "a_", "10.0.0.1", "010.0.0.1", "10.0.1.7", "10.0.0.1.", "::1", "0:0::1",
           "::ffff:a00:1", "::FFFF:0a00:1", "2001:db8::1", "2001:DB8:0::1", "12:30", "σ", "ς", "Σ",
           "\U00010400", "\U00010428"]  # fmt: skip
NUMBERS = [0, 1, 1.0, 1.5, -1, 2, 5, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 10**23, 1e23, 2**64,
           10**400, 0.1, 1e300, -1e300]  # fmt: skip
VALUES = [*STRINGS, *NUMBERS, True, False, None]
BLOCKS = [
    "10.0.0.0/24",
    "10.0.0.9/31",
    "0.0.0.0/0",
    "::/0",
    "2001:db8::/32",
    "::1/127",
    "::1/128",
    "10.0.0.1/32",
    "10.0.0.1/7",
]

# Tests of one field

TESTS: list[Any] = [
    *("", "a", "10.0.0.1", "::1", "12:30", 0, 1, 1.5, 2**53 + 1, 10**23, 2**64, 10**400),
    *(True, False, None, {"exists": True}, {"exists": False}),
    *({operator: text} for operator in ("exactly", "prefix", "suffix", "equals-ignore-case")
      for text in ("", "a", "ſ", "ß", "10.0.0.1")),
    *({end: {"equals-ignore-case": text}} for end in ("prefix", "suffix")
      for text in ("", "S", "st", "ı")),
    *({"wildcard": text} for text in ("", "*", "a*", "*b", "\\*", "10.*.1", "a*\\\\")),
    *({"numeric": bounds} for bounds in (["=", 1], ["<", 1.5], ["<=", 2**53], [">", 0],
      [">=", -(2**53)], [">", 1e300], [">", 0, "<=", 2], [">=", 1, "<", 2**53 + 2])),
    *({"cidr": block} for block in BLOCKS),
    *({"anything-but": values} for values in ("a", ["a", "s"], 1, [0, 1.5], "10.0.0.1")),
    *({"anything-but": {operator: ["a", "S"]}}
      for operator in ("prefix", "suffix", "equals-ignore-case", "wildcard")),
]  # fmt: skip
PLAIN: list[Any] = [{"x": [test]} for test in TESTS]

# A pattern, an event, and whether it matches

EXAMPLES: list[Example] = [
    ('{"$or": ["a", "b"]}', {"$or": "b"}, True),
    ('{"$or": {"x": [1]}}', {"$or": {"x": 1}}, True),
    ('{"$or": [{"prefix": "a"}, {"suffix": "b"}]}', {"$or": "ab"}, True),
    ('{"$or": [{"numeric": [">", 5]}, {"numeric": ["<", 0]}]}', {"$or": 7}, True),
]

HARD = "*".join("a" * 1_000) + "*b"
HOSTILE: list[Example] = [
    (json.dumps({"x": [{"wildcard": HARD}]}), {"x": "a" * 50_000}, False),
    (json.dumps({"x": [{"anything-but": {"wildcard": HARD}}]}), {"x": "a" * 50_000}, True),
    (
        json.dumps({"x": [{"suffix": {"equals-ignore-case": "ſ" * 1_000 + "b"}}]}),
        {"x": "s" * 50_000},
        False,
    ),
]


def nested(levels: int) -> dict[str, Any]:
    """A pattern of alternatives within alternatives, the innermost a dotted name."""
    pattern: dict[str, Any] = {"a": [1]}
    for i in range(levels):
        pattern = {"$or": [pattern, {f"b{i}": [2]}]} if i % 2 else {"c": pattern}
    return pattern


def within(levels: int, event: Any) -> Any:
    """An event in records within records, each of the name `c`."""
    for _ in range(levels):
        event = {"c": event}
    return event


DEEP: list[Example] = [
    (json.dumps(nested(40)), within(20, {"a": value}), value == 1) for value in (1, 7)
]

# A pattern, the line and column of its mistake, and what is wrong

REFUSED: list[Refusal] = [
    ('{"a": [}', 1, 8, "expected a JSON value, found '}'"),
    ('{"a": "x"}', 1, 7, "expected an object or an array of values, found a string"),
    ('{"a": []}', 1, 7, "expected at least one value in an array, found none"),
    ('{"a": {}}', 1, 7, "expected at least one field in an object, found none"),
    ('{"a": [[1]]}', 1, 8, "a match expression, found an array"),
    ('{"a": [{"prefix": 3}]}', 1, 19, "expected a string after prefix, found a number"),
    ('{"a": [{"prefix": "x", "b": 1}]}', 1, 24, "expected one name in a match expression"),
    ('{"a": [{"like": "x"}]}', 1, 9, "found 'like'"),
    ('{"a": [{"wildcard": "x**"}]}', 1, 21, "no two * side by side"),
    ('{"a": [{"wildcard": "x\\\\y"}]}', 1, 21, "* or a backslash after a backslash"),
    ('{"a": [{"cidr": "10.0.0.0/33"}]}', 1, 17, "from 0 to 32 bits"),
    ('{"a": [{"cidr": "10.0.0/8"}]}', 1, 17, "an IPv4 or IPv6 address before the /"),
    ('{"a": [{"numeric": [">", 3, "<", 3]}]}', 1, 29, "an upper bound above the lower one"),
    ('{"a": [{"numeric": ["<", 3, ">", 1]}]}', 1, 29, "the end of the range"),
    ('{"a": [{"numeric": [">"]}]}', 1, 24, "a number after >"),
    ('{"a": [{"numeric": ["=", 9007199254740993]}]}', 1, 26, "a double writes with the same"),
    ('{"a": [{"anything-but": [1, "x"]}]}', 1, 25, "only strings or only numbers"),
    ('{"a": [{"anything-but": {"cidr": "x"}}]}', 1, 26, "inside anything-but, found 'cidr'"),
    ('{"$or": [{"a": [1]}]}', 1, 9, "two objects or more in the array of $or"),
    ('{"a": [1]} x', 1, 12, "expected the end of the text"),
    ('{"a": ["\\ud800"]}', 1, 8, "a lone surrogate"),
    ("[1]", 1, 1, "expected an object as the pattern, found an array"),
    ('{"a":\n [}', 2, 3, "expected a JSON value, found '}'"),
    (
        json.dumps({f"a{n}": {"$or": [{"x": [1]}, {"y": [1]}]} for n in range(13)}),
        1,
        524,
        "at most 4096 branches",
    ),
    ('{"a":' * 70 + "[1]" + "}" * 70, 1, 326, "at most 64 levels of nesting"),
    (
        json.dumps({"a": [{"wildcard": "a" * 5_000}]}),
        1,
        21,
        "at most 4096 characters after wildcard",
    ),
]

# A pattern, and what it becomes

TRANSLATED: list[Translation] = [
    ('{"x": ["a", "b"], "y": [1]}', "x in ('a', 'b') and y = 1"),
    ('{"x": [true, {"prefix": "a"}]}', "x = true or x prefix 'a'"),
    ('{"x": [{"wildcard": "a*b"}]}', "x like 'a%b'"),
    ('{"x": [{"numeric": [">=", 1, "<=", 5]}]}', "x between 1 and 5"),
    ('{"$or": [{"x": [1]}, {"y": [2]}]}', "x = 1 or y = 2"),
    ('{"x": [null]}', """eventbridge('{"x":[null]}')"""),
    ('{"a": {"x": [1], "y": [2]}}',
     """a.x = 1 and a.y = 2 and eventbridge('{"a.x":[1],"a.y":[2]}')"""),
]  # fmt: skip

# Two patterns, and whether the first covers the second

COVERING: list[Covering] = [
    ('{"x": [{"prefix": "a"}]}', '{"x": [{"prefix": "ab"}], "y": [1]}', True),
    ('{"x": [{"prefix": "ab"}]}', '{"x": [{"prefix": "a"}]}', False),
    ('{"a.x": [{"numeric": [">", 0]}]}', '{"a": {"x": [5], "y": [2]}}', True),
]

# Our predicate, and the pattern that it becomes

WRITTEN: list[Translation] = [
    (
        "class = 'alert' and severity > 2",
        '{"class": ["alert"], "severity": [{"numeric": [">", 2]}]}',
    ),
    ("a.b in ('x', 'y') or c = true", '{"$or": [{"a.b": ["x", "y"]}, {"c": [true]}]}'),
    ("x like 'a%b*'", '{"x": [{"wildcard": "a*b\\\\*"}]}'),
    ("x contains 'a'", '{"x": [{"wildcard": "*a*"}]}'),
    ("x iprefix 'Ab'", '{"x": [{"prefix": {"equals-ignore-case": "ab"}}]}'),
    ("x between 1 and 2.5", '{"x": [{"numeric": [">=", 1, "<=", 2.5]}]}'),
    ("x = '10.0.0.1'", '{"x": [{"exactly": "10.0.0.1"}]}'),
    ("exists string x", '{"x": [{"prefix": ""}]}'),
]

# Our predicate, and why no pattern says it

UNSAYABLE: list[Excuse] = [
    ("not x = 1", "not x = 1: it also holds where the attribute is absent"),
    ("x > 1 and x < 5", "two values of a list may satisfy the two constraints"),
    ("x < 'b'", "no operator < on texts"),
    ("int x = 1", "do not tell integers from reals"),
    ("x like 'a_b'", "no wildcard for a single character"),
    ("x matches 'a'", "no operator matches on texts"),
    ("true", "every event matches it"),
    ("false", "no event can match it"),
    ("x > 9007199254740993", "past 2^53"),
    ('"$or" = 1 or x = 1', "$or cannot be the name of a field"),
    ('"prefix" = 1 or y = 2', "cannot be the name of a field within $or"),
]

WORDS = ["{", "}", "[", "]", ":", ",", '"x"', '"$or"', '"a*"', '"prefix"', '"numeric"', '"exists"']
WORDS += ['{"x": [1]}', '{"x": ', "[{", "}]}", '">"', "1", "-2.5e3", "true", "null", '"', "\\"]
WORDS += ["é", "\x00", "\ud800"]
