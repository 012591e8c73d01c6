r"""Patterns of `like`: `%` stands for any text, `_` for any one character.

A pattern is held as text in which a backslash makes the next `%`, `_` or backslash a plain
character; the parser rewrites `literal ESCAPE c` of the text form to that. Matching is linear in
the text for every pattern: a pattern that is not a plain prefix, suffix or substring test runs on
RE2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from tidings.language.folding import fold

ONE: Final = 1
MANY: Final = 2
Token = str | int  # a character, ONE or MANY


def tokens(pattern: str) -> list[Token]:
    """The pattern as characters, ONE and MANY, with runs of wildcards in one order.

    >>> tokens("a%_%b")
    ['a', 1, 2, 'b']
    """
    result: list[Token] = []
    many = False
    characters = iter(pattern)
    for character in characters:
        if character == "%":
            many = True
        elif character == "_":
            result.append(ONE)  # before the MANY of its run: the order does not matter
        else:
            if many:
                result.append(MANY)
                many = False
            result.append(next(characters, "\\") if character == "\\" else character)
    if many:
        result.append(MANY)
    return result


def pieces(pattern: str) -> list[str]:
    """The plain texts of a pattern; the first is empty if it begins with a wildcard, and so on.

    >>> pieces("ab%c_")
    ['ab', 'c', '']
    """
    found: list[list[str]] = [[]]
    for part in tokens(pattern):
        if isinstance(part, str):
            found[-1].append(part)
        else:
            found.append([])
    return list(map("".join, found))


def pattern_of(parts: list[Token]) -> str:
    """The text of a pattern from its tokens; the inverse of `tokens`."""
    return "".join(
        "%" if part == MANY else "_" if part == ONE else escape(str(part)) for part in parts
    )


def escape(literal: str) -> str:
    """The pattern that only this text matches."""
    return literal.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def read_escape(pattern: str, escape_character: str) -> str | None:
    """Rewrite a pattern that has its own escape character; None if that is misplaced."""
    result = []
    characters = iter(pattern)
    for character in characters:
        if character == escape_character:
            following = next(characters, None)
            if following not in ("%", "_", escape_character):
                return None
            result.append(escape(following))
        elif character == "\\":
            result.append("\\\\")
        else:
            result.append(character)
    return "".join(result)


def check(pattern: str, ignore_case: bool) -> None:
    """Raise `RegexError` if a pattern is too large for RE2, as very long ones are."""
    if len(pattern) > SURELY_MATCHED:
        matcher(pattern, ignore_case)


def matcher(pattern: str, ignore_case: bool) -> Callable[[str], bool]:
    """A function that tells whether a whole text fits the pattern."""
    parts = tokens(fold(pattern) if ignore_case else pattern)
    expression = "".join(
        ".*" if part == MANY else "." if part == ONE else _quote(str(part)) for part in parts
    )
    search = regex(f"(?s)\\A{expression}\\z", ignore_case=False)
    if ignore_case:
        return lambda text: search(fold(text))
    return search


def regex(expression: str, ignore_case: bool) -> Callable[[str], bool]:
    """A function that tells whether a regular expression (RE2) is found in a text.

    A call of RE2 costs microseconds, and the texts of events repeat, so answers are remembered.
    """
    search = _compiled(expression, ignore_case).search
    return lambda text: (
        _is_found(search, text) if len(text) <= REMEMBERED else search(text) is not None
    )


@lru_cache(1 << 15)
def _is_found(search: Callable[[str], Any], text: str) -> bool:
    return search(text) is not None


def program_size(expression: str, ignore_case: bool) -> int:
    """How many instructions a regular expression has: what compiling it costs."""
    return int(_compiled(expression, ignore_case).programsize)


@lru_cache(256)  # the parser and the first event need the same ones
def _compiled(expression: str, ignore_case: bool) -> Any:
    import re2  # here, so that `import tidings` stays light

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.never_capture = True
    options.max_mem = MAX_REGEX_MEMORY
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise RegexError(text) from None


REMEMBERED: Final = 256  # characters of a text whose answers are remembered
SURELY_MATCHED: Final = 256  # a pattern of up to this many characters is never too large
MAX_REGEX_MEMORY: Final = 1024 * 1024  # bytes RE2 may use for one expression, program and cache


class RegexError(ValueError):
    """RE2 does not accept the expression; the message is its own."""


def _quote(character: str) -> str:
    """One character as a regular expression."""
    if character.isalnum() or character == "_" or ord(character) > 127:
        return character
    return f"\\x{ord(character):02x}"
