"""Habits from other languages: which spelling works here for what people write.

The parser asks this file only when it has found a mistake, to add a hint to the error.
"""

from __future__ import annotations

import re
from typing import Final

# Words that other languages have for an operator, and ours.
OPERATORS_ELSEWHERE: Final = {
    **dict.fromkeys(("startswith", "starts_with", "beginswith", "begins"), "prefix"),
    **dict.fromkeys(("endswith", "ends_with", "ends"), "suffix"),
    **dict.fromkeys(("includes", "has", "contain"), "contains"),
    **dict.fromkeys(("regex", "regexp", "rlike", "similar", "match"), "matches"),
    **dict.fromkeys(("eq", "equals"), "="),
    **dict.fromkeys(("ne", "neq"), "!="),
    "gt": ">",
    "gte": ">=",
    "ge": ">=",
    "lt": "<",
    "lte": "<=",
    "le": "<=",
}
# What people write from habit where something else is expected, and what to write.
_HINTS: Final = [
    (re.compile(habit), text)
    for habit, text in (
        (r"--|/\*", "there are no comments"),
        (r"(?<==)=", "write = once"),
        (r"~", "for a regular expression, write matches"),
        (r"&", "write and"),
        (r"\|", "write or"),
        (r"!", "write not"),
        (r"\[", "a list stands in parentheses: (1, 2)"),
        (r"(?ai:true|false)\b", "to test a boolean, write = true or = false"),
        (r"[@$#:/]", "a name with this character stands in double quotes"),
        (r"[0-9.+-]+\s*(?:[<>=!])", "the name stands before the operator: x > 2"),
        (r"[+-]?[0-9][0-9_]*_", "write the digits without _"),
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
    return f"{expected[:-1]}; {hint})" if expected.endswith(")") else f"{expected} ({hint})"
