"""What the dialects that look like SQL share: tokens, a cursor over them, and the syntax tree.

A dialect cuts its text into tokens, reads them into `Node`s, and writes nodes back by a table of
its operators' precedence. This module bounds the text, the nesting and the height of the tree, so
that no walk over a tree runs out of stack. It does not know what an operator means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

from tidings.language import wildcard
from tidings.language.errors import PredicateError
from tidings.language.text import MAX_NAME
from tidings.language.values import Scalar

MAX_TEXT: Final = 65_536  # characters
MAX_NESTING: Final = 32  # parentheses within parentheses
MAX_HEIGHT: Final = 96  # operators above operators

# Comparisons, and the ones that say the same with the sides exchanged.
FLIPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Node:
    """An operator over parts, a literal, or a name. Equality ignores the place in the text."""

    operator: str  # "literal", "name", "call", or an operator of the dialect
    parts: tuple[Node, ...] = ()
    value: Scalar | None = None  # of a literal, a name, a function; the pattern of a like
    position: int = field(default=0, compare=False)
    height: int = field(default=1, compare=False)


def names(node: Node) -> frozenset[str]:
    """The attributes that a tree names."""
    return frozenset(str(part.value) for part in walk(node) if part.operator in ("name", "exists"))


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for part in node.parts:
        yield from walk(part)


class Token(NamedTuple):
    """A word, number, text or symbol; `value` is the word, number, text or symbol itself."""

    kind: str  # "word", "number", "text", "symbol" or "end"
    value: Any
    position: int
    end: int


class Cursor:
    """A place in a list of tokens, which can say what is wrong there."""

    def __init__(self, text: str, tokens: Callable[[str], Iterator[Token]]) -> None:
        if not isinstance(text, str):
            raise TypeError(f"expected the text of a filter, found {type(text).__name__}")
        if len(text) > MAX_TEXT:
            raise PredicateError(text[:200], 0, f"at most {MAX_TEXT} characters", str(len(text)))
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise PredicateError(text, error.start, "a character", "a lone surrogate") from None
        self.text = text
        self.tokens = [*tokens(text), Token("end", "", len(text), len(text))]
        self.index = 0
        self.nesting = 0

    @property
    def ahead(self) -> Token:
        """The next token, without taking it."""
        return self.tokens[self.index]

    @property
    def after(self) -> Token:
        """The token after the next one."""
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Take the next token."""
        token = self.ahead
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def takes(self, *words: str) -> str | None:
        """Take the next token if it is one of these symbols or keywords (in lower case)."""
        token = self.ahead
        if token.kind not in ("word", "symbol"):
            return None
        found = token.value.lower()
        if found not in words:
            return None
        self.index += 1
        return str(found)

    def wants(self, *words: str) -> None:
        """Take one of these symbols or keywords, or fail."""
        if self.takes(*words) is None:
            self.fail(" or ".join(word.upper() for word in words))

    def node(
        self,
        operator: str,
        parts: tuple[Node, ...] = (),
        value: Scalar | None = None,
        position: int = 0,
    ) -> Node:
        """A node over parts; fails if the tree is too high."""
        height = 1 + max((part.height for part in parts), default=0)
        if height > MAX_HEIGHT:
            self.fail(f"at most {MAX_HEIGHT} operators above each other", "more", at=position)
        return Node(operator, parts, value, position, height)

    def like(self, left: Node, pattern: str, at: int) -> Node:
        """The node of a LIKE; fails if the pattern, one of ours, cannot be compiled."""
        try:
            wildcard.check(pattern, ignore_case=False)
        except wildcard.RegexError as error:
            self.fail("a pattern that can be matched", str(error), at=at)
        return self.node("like", (left,), pattern, left.position)

    def name(self, name: str, at: int) -> Node:
        """The node of an attribute's name; fails if the name is too long."""
        if len(name) > MAX_NAME:
            self.fail(f"a name of at most {MAX_NAME} characters", str(len(name)), at=at)
        return self.node("name", value=name, position=at)

    def enclosed(self, inner: Callable[[], Node]) -> Node:
        """Read what stands in parentheses, after the opening one."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self.index -= 1
            self.fail(f"at most {MAX_NESTING} levels of parentheses")
        node = inner()
        self.nesting -= 1
        self.wants(")")
        return node

    def finish(self, expected: str) -> None:
        """Fail if any token is left."""
        if self.ahead.kind != "end":
            self.fail(f"{expected} or the end of the text")

    def fail(self, expected: str, found: str | None = None, at: int | None = None) -> NoReturn:
        """Raise `PredicateError`: what is expected at the next token, or at another place."""
        position = self.ahead.position if at is None else at
        raise PredicateError(self.text, position, expected, found)


def write_node(node: Node, levels: dict[str, int], spell: Callable[..., str], least: int) -> str:
    """The text of a tree, in parentheses if its precedence in `levels` is below `least`.

    `spell(node, write)` gives the text of one node; it writes a part with `write(part, least)`.
    """

    def write(part: Node, wanted: int) -> str:
        text = spell(part, write)
        return text if levels.get(part.operator, 99) >= wanted else f"({text})"

    return write(node, least)


def like_pattern(operator: str, operand: str) -> str:
    """The pattern with which LIKE says our `prefix`, `suffix`, `contains` or `like`.

    >>> like_pattern("contains", "web")
    '%web%'
    """
    if operator == "like":
        return operand
    start = "" if operator == "prefix" else "%"
    end = "" if operator == "suffix" else "%"
    return start + wildcard.escape(operand) + end
