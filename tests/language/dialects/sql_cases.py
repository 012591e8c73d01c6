"""Cases that `jms` and `cesql` share: the bounds of their syntax, and the words that both have."""

from tests.language.dialects.harness import Example, Refusal


def nested(levels: int) -> str:
    """A condition in nested parentheses, over a, b0, b1, …

    With a = 1 it is true if none of the others is above 5, and false if all are.
    """
    text = "a + 1 = 2"
    for i in range(levels):
        text = f"({text}) {'AND' if i % 2 else 'OR'} NOT (b{i} > 5)"
    return text


DEEP: list[Example] = [
    (nested(31), {"a": 1} | {f"b{i}": value for i in range(31)}, value == 3) for value in (3, 7)
]

REFUSED: list[Refusal] = [
    ("x = 1 y", 1, 7, "the end of the text"),
    ("(" * 60 + "x" + ")" * 60, 1, 33, "at most 32 levels"),
    ("x" * 70_000, 1, 1, "at most 65536 characters"),
    (f"x LIKE '{'a_' * 30_000}%b'", 1, 8, "a pattern that can be matched"),
    ("x" * 2_000 + " = 1", 1, 1, "a name of at most 1024"),
    ("x = '\ud800'", 1, 6, "a character"),
]

WORDS = ["x", "y", "=", "<>", "<", ">=", "+", "-", "*", "/", "(", ")", ",", "1", "'a'", "TRUE"]
WORDS += ["AND", "OR", "NOT", "IN", "LIKE", "'", "!", "é", "\x00", "\ud800"]
