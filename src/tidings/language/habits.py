"""Habits from other languages: which spelling works here for what people write.

The parser asks this file only when it has found a mistake, to add a hint to the error.
"""

from __future__ import annotations

import re
from typing import Final

# Words that other languages have for an operator, and ours.
OPERATORS_ELSEWHERE: Final = {
    **dict.fromkeys(("startswith", "starts_with", "starts", "beginswith", "begins"), "prefix"),
    **dict.fromkeys(("endswith", "ends_with", "ends"), "suffix"),
    **dict.fromkeys(("includes", "has", "contain"), "contains"),
    **dict.fromkeys(("regex", "regexp", "rlike", "similar", "match"), "matches"),
    **dict.fromkeys(("glob", "wildcard"), "like"),
    **dict.fromkeys(("eq", "equals"), "="),
    **dict.fromkeys(("ne", "neq"), "!="),
    **dict.fromkeys(("anyof", "any_of", "one", "oneof"), "in"),
    **dict.fromkeys(("nin", "notin", "not_in"), "not in"),
    **dict.fromkeys(("isnull", "missing"), "is null"),
    **dict.fromkeys(("notnull", "exists", "exist"), "is not null"),
    "gt": ">",
    "gte": ">=",
    "ge": ">=",
    "lt": "<",
    "lte": "<=",
    "le": "<=",
    "cidr": """eventbridge('{"ip": [{"cidr": "10.0.0.0/8"}]}')""",
}
_A_DATE: Final = "a date is a text: '2024-01-31'"
_A_LIST: Final = "a list stands in parentheses: (1, 2)"
_A_REGEX: Final = "for a regular expression, write matches"
_ARITHMETIC: Final = "for arithmetic and functions, write a test of cesql: cesql('LENGTH(x) > 3')"
_NAME_FIRST: Final = "the name stands before the operator: x > 2"
# What people write from habit where something else is expected, and what to write. The first
# pattern that matches at the place of the mistake counts; it may look back at what stands before.
_HINTS: Final = [
    (re.compile(habit), text)
    for habit, text in (
        (r"\A\s*\Z", "for all events, write true"),
        (r"(?<=\bselect )\*|(?<=\bwhere )|(?<=\bWHERE )|(?<=\bif )", "write only the condition"),
        (r"--|/\*|//|#(?:\s|\Z)", "there are no comments"),
        (r";", "leave out the ;"),
        # Operators
        (r"(?<==)=", "write = once"),
        (r"(?<==)>|≥", "write >="),
        (r"(?<==)<|≤", "write <="),
        (r"(?<=>)<|≠", "write !="),
        (r"!~", "write not matches"),
        (r"~\s*\(", "write not"),
        (r"~", _A_REGEX),
        (r"&|,\s*[A-Za-z_\"]", "write and"),
        (r"\|", "write or"),
        (r"!", "write not"),
        (r":\s*['0-9]", "write = instead of :"),
        (r":[<>=]", "leave out the :"),
        (r"(?ai:xor)\b", "there is no xor; write a = 1 and not b = 1 or not a = 1 and b = 1"),
        (r"(?<=between )[(\[]", "write between 1 and 3"),
        # Functions
        (r"(?ai:starts_?with|begins_?with)\s*\(", "write x prefix 'a'"),
        (r"(?ai:ends_?with)\s*\(", "write x suffix 'a'"),
        (r"(?ai:contains|includes)\s*\(", "write x contains 'a'"),
        (r"(?ai:regexp?_?\w*|match(?:es)?|rlike)\s*\(", "write x matches 'a'"),
        (r"(?ai:lower|upper|lcase|ucase)\s*\(", "to ignore case, write x i= 'a'"),
        (r"(?ai:is_?null|has|exist|defined|isset)\s*\(", "write x is null or exists x"),
        (
            r"(?ai:any|some)\b",
            "a test holds if any value of a list satisfies it; write or between tests",
        ),
        (r"(?ai:now|today|current_\w+|getdate)\b\s*\(?", f"there is no clock; {_A_DATE}"),
        (r"(?ai:(?:date|timestamp|datetime)\s*['(])", _A_DATE),
        (r"(?<!\w )[A-Za-z_]\w*\s*\(", _ARITHMETIC),
        (r"(?<=\w)\(", "write the operator between the name and the value: x prefix 'a'"),
        # Values
        (r"(?<=\w)\[", "write a.b; a test of a list holds if it holds for any element"),
        (r"`|\[[A-Za-z_]\w*\]", "names stand in double quotes or without quotes"),
        (r"[\[{]|(?<=\bin )[^(\s]", _A_LIST),
        (r"(?ai:true|false)\b", "to test a boolean, write = true or = false"),
        (r"(?ai:none|nil)\b|(?<=\bis )(?ai:missing|undefined|absent|empty)\b", "write is null"),
        (r"(?<=\bis )['0-9+-]", "to compare, write ="),
        (r"(?<=\\')", "within a text the quote is doubled: 'it''s'"),
        (r"[‘’“”„«»]", "texts stand in straight single quotes: 'a'"),
        (r"'[^']*'\s*(?ai:in)\b", "write tags = 'a'"),
        (r"'[^']*'\s*[<>=!]", _NAME_FIRST),
        (r"[0-9.+-]+\s*(?:[<>=!])", _NAME_FIRST),
        (r"(?<=[0-9])-[0-9]{2}\b", _A_DATE),
        (r"(?<=[0-9]),[0-9]{3}\b", "write the digits without ,"),
        (r"[+-]?[0-9][0-9_]*_", "write the digits without _"),
        (r"0[xXoObB]", "write the number in decimal"),
        (
            r"[0-9.]+[A-Za-z%]|(?<=[0-9])%|(?<=[0-9] )(?!to\b)[A-Za-z]{1,3}\b",
            "numbers have no units",
        ),
        (r"(?ai:nan|inf|infinity)\b", "there is no constant for NaN or infinity"),
        (r"(?<!\w)/", f"{_A_REGEX} 'a'"),
        (r"[@$#:/]", "a name with this character stands in double quotes"),
        (r"(?<=[<>=] )(?!null\b)[A-Za-z_]", "to compare two attributes, write jms('a > b')"),
        (r"(?<!=)[*+%^]", _ARITHMETIC),
    )
]


def hint_at(text: str, position: int) -> str | None:
    """What to write for what stands at a position, if it is a known habit.

    >>> hint_at("a = 1 && b = 2", 6)
    'write and'
    """
    return next((hint for habit, hint in _HINTS if habit.match(text, position)), None)


def with_hint(expected: str, hint: str) -> str:
    """What was expected, with a hint in parentheses behind it, or within those that end it."""
    has_remark = expected.endswith(")") and "(" in expected  # and not the bracket itself
    return f"{expected[:-1]}; {hint})" if has_remark else f"{expected} ({hint})"
