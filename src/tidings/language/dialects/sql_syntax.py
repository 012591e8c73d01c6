"""What the dialects that look like SQL share: tokens, a cursor over them, and the syntax tree.

A dialect cuts its text into tokens, reads them into `Node`s, and writes nodes back by a table of
how closely its operators bind. Text, nesting and height of the tree are bounded here, so that
nothing that walks a tree runs out of stack. What an operator means is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

from tidings.language import wildcard
from tidings.language.errors import PredicateError
from tidings.language.event import Scalar
from tidings.language.text import MAX_NAME

MAX_TEXT: Final = 65_536  # characters
MAX_NESTING: Final = 32  # parentheses within parentheses
MAX_HEIGHT: Final = 96  # operators above operators


@dataclass(frozen=True, slots=True)
class Node:
    """An operator over parts, a literal, or a name. Where it stood in the text does not count."""

    operator: str  # "literal", "name", "call", or what the dialect calls its operators
    parts: tuple[Node, ...] = ()
    value: Scalar | None = None  # of a literal, a name, a function; the pattern of a like
    position: int = field(default=0, compare=False)
    height: int = field(default=1, compare=False)


def names(node: Node) -> frozenset[str]:
    """The attributes that are named in a tree."""
    return frozenset(str(part.value) for part in walk(node) if part.operator in ("name", "exists"))


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for part in node.parts:
        yield from walk(part)


class Token(NamedTuple):
    """A word, number, text or symbol; `value` is what it stands for."""

    kind: str  # "word", "number", "text", "symbol" or "end"
    value: Any
    position: int
    end: int


class Cursor:
    """A place in a list of tokens, with the words for what is wrong there."""

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
        """The next token, not yet taken."""
        return self.tokens[self.index]

    @property
    def after(self) -> Token:
        """The token behind the next one."""
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The next token, taken."""
        token = self.ahead
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def takes(self, *words: str) -> str | None:
        """Take one of these keywords, in lower case, or symbols, if it is next."""
        token = self.ahead
        if token.kind not in ("word", "symbol"):
            return None
        found = token.value.lower()
        if found not in words:
            return None
        self.index += 1
        return str(found)

    def wants(self, *words: str) -> None:
        """Take one of these, or fail."""
        if self.takes(*words) is None:
            self.fail(" or ".join(word.upper() for word in words))

    def node(
        self,
        operator: str,
        parts: tuple[Node, ...] = (),
        value: Scalar | None = None,
        position: int = 0,
    ) -> Node:
        """A node over parts, if it is not too high."""
        height = 1 + max((part.height for part in parts), default=0)
        if height > MAX_HEIGHT:
            self.fail(f"at most {MAX_HEIGHT} operators above each other", "more", at=position)
        return Node(operator, parts, value, position, height)

    def like(self, left: Node, pattern: str, at: int) -> Node:
        """The node of a LIKE, whose pattern is one of ours, if it can be matched."""
        try:
            wildcard.check(pattern, ignore_case=False)
        except wildcard.RegexError as error:
            self.fail("a pattern that can be matched", str(error), at=at)
        return self.node("like", (left,), pattern, left.position)

    def name(self, name: str, at: int) -> Node:
        """The node of an attribute's name, if it is not too long."""
        if len(name) > MAX_NAME:
            self.fail(f"a name of at most {MAX_NAME} characters", str(len(name)), at=at)
        return self.node("name", value=name, position=at)

    def enclosed(self, inner: Callable[[], Node]) -> Node:
        """What stands in the parentheses of which the first is taken."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self.index -= 1
            self.fail(f"at most {MAX_NESTING} levels of parentheses")
        node = inner()
        self.nesting -= 1
        self.wants(")")
        return node

    def finish(self, expected: str) -> None:
        """Nothing must be left."""
        if self.ahead.kind != "end":
            self.fail(f"{expected} or the end of the text")

    def fail(self, expected: str, found: str | None = None, at: int | None = None) -> NoReturn:
        """Say what should have stood at the next token, or at another place."""
        position = self.ahead.position if at is None else at
        raise PredicateError(self.text, position, expected, found)


def write_node(node: Node, levels: dict[str, int], spell: Callable[..., str], least: int) -> str:
    """The text of a tree, in parentheses where it binds less closely than is asked for.

    `spell(node, write)` gives the text of one node from the `write(part, least)` of its parts.
    """

    def write(part: Node, wanted: int) -> str:
        text = spell(part, write)
        return text if levels.get(part.operator, 99) >= wanted else f"({text})"

    return write(node, least)
