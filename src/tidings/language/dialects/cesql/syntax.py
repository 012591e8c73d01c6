"""Reading and writing CloudEvents SQL 1.0: the syntax of sections 2 and 3.6.

Keywords and functions may be in any case. Attribute names stay as they are written: CloudEvents
have them in lower case only, other events have any. NOT and the minus sign bind closest, then LIKE
and IN, then arithmetic and comparisons. AND, OR and XOR have one precedence and group from the
left. The reader turns `!=`, `<>`, NOT LIKE and NOT IN into the NOT of their opposites. It refuses a
call of an unknown function, so that no event can meet one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from tidings.language import wildcard
from tidings.language.dialects.cesql.values import (
    FUNCTIONS,
    INTEGER_MAX,
    INTEGER_MIN,
    function_for,
    kind_of,
)
from tidings.language.dialects.sql_syntax import Cursor, Node, Token, write_node
from tidings.language.errors import PredicateError

KEYWORDS: Final = frozenset({"and", "or", "xor", "not", "like", "exists", "in", "true", "false"})
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%", "negative"})

_TOKEN: Final = re.compile(
    r"[ \t\r\n]*(?:(?P<number>[0-9]+)(?![A-Za-z0-9_])|(?P<word>[A-Za-z0-9_]+)"
    r"""|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"|(?P<symbol><>|<=|>=|!=|[=<>+\-*/%(),])|(?P<end>\Z))",
    re.DOTALL,
)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NAME: Final = re.compile(r"[A-Za-z0-9]+")
_FUNCTION: Final = re.compile(r"[A-Za-z][A-Za-z_]*")


def tokens(text: str) -> Iterator[Token]:
    """The tokens of an expression."""
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            space = _SPACE.match(text, position)
            assert space is not None
            place = space.end()
            if text[place] in "'\"":
                raise PredicateError(text, place, "a closing quote", "the end of the text")
            raise PredicateError(text, place, "a name, a literal or an operator")
        kind = match.lastgroup
        assert kind is not None
        if kind == "end":
            return
        value = match[kind]
        if kind == "text":
            value = value[1:-1].replace("\\" + value[0], value[0])
        yield Token(kind, value, match.start(kind), match.end())
        position = match.end()


class _ExpressionReader:
    """Reads one expression, by recursive descent."""

    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text, tokens)

    def whole(self) -> Node:
        node = self.logic()
        self.cursor.finish("an operator")
        if kind(node) not in ("boolean", "any"):
            self.cursor.fail("a boolean expression", f"one of type {kind(node)}", at=0)
        return node

    def logic(self) -> Node:
        node = self.comparison()
        while operator := self.cursor.takes("and", "or", "xor"):
            right = self.comparison()
            joins = node.operator == operator and operator != "xor"
            parts = (*node.parts, right) if joins else (node, right)
            node = self.cursor.node(operator, parts, position=node.position)
        return node

    def comparison(self) -> Node:
        node = self.sum()
        while operator := self.cursor.takes("=", "!=", "<>", "<", "<=", ">", ">="):
            plain = "=" if operator in ("!=", "<>") else operator
            start = node.position
            node = self.cursor.node(plain, (node, self.sum()), position=start)
            if plain != operator:
                node = self.cursor.node("not", (node,), position=start)
        return node

    def sum(self) -> Node:
        node = self.product()
        while operator := self.cursor.takes("+", "-"):
            node = self.cursor.node(operator, (node, self.product()), position=node.position)
        return node

    def product(self) -> Node:
        node = self.membership()
        while operator := self.cursor.takes("*", "/", "%"):
            node = self.cursor.node(operator, (node, self.membership()), position=node.position)
        return node

    def membership(self) -> Node:
        cursor = self.cursor
        node = self.unary()
        while True:
            negated = cursor.takes("not") is not None
            if cursor.takes("like"):
                node = self.like(node)
            elif cursor.takes("in"):
                node = self.members(node)
            elif negated:
                cursor.fail("LIKE or IN")
            else:
                return node
            if negated:
                node = cursor.node("not", (node,), position=node.position)

    def like(self, left: Node) -> Node:
        if self.cursor.ahead.kind != "text":
            self.cursor.fail("a text in quotes after LIKE")
        token = self.cursor.take()
        return self.cursor.like(left, our_pattern(token.value), token.position)

    def members(self, left: Node) -> Node:
        self.cursor.wants("(")
        return self.cursor.node("in", (left, *self.listed()), position=left.position)

    def listed(self) -> list[Node]:
        """Read expressions between commas in parentheses, after the opening one."""
        parts: list[Node] = []

        def inner() -> Node:
            parts.append(self.logic())
            while self.cursor.takes(","):
                parts.append(self.logic())
            return parts[0]

        self.cursor.enclosed(inner)
        return parts

    def unary(self) -> Node:
        cursor = self.cursor
        start = cursor.ahead.position
        operators = []
        while True:
            token = cursor.ahead
            signed = cursor.after.kind == "number" and cursor.after.position == token.end
            if token.kind == "symbol" and token.value in "+-" and signed:
                cursor.take()
                node = self.integer(token.value, token.position)
                break
            operator = cursor.takes("not", "-")
            if operator is None:
                node = self.primary()
                break
            operators.append("not" if operator == "not" else "negative")
        for operator in reversed(operators):
            node = cursor.node(operator, (node,), position=start)
        return node

    def primary(self) -> Node:
        cursor = self.cursor
        token = cursor.ahead
        if cursor.takes("("):
            return cursor.enclosed(self.logic)
        if token.kind == "number":
            return self.integer("", token.position)
        if token.kind == "text":
            return cursor.node("literal", value=cursor.take().value, position=token.position)
        if word := cursor.takes("true", "false"):
            return cursor.node("literal", value=word == "true", position=token.position)
        if cursor.takes("exists"):
            name = self.name()
            return cursor.node("exists", value=name.value, position=token.position)
        if token.kind == "word" and cursor.after.value == "(" and cursor.after.kind == "symbol":
            return self.call()
        return self.name()

    def integer(self, sign: str, start: int) -> Node:
        digits = self.cursor.ahead.value.lstrip("0") or "0"
        number = int(sign + digits) if len(digits) <= 10 else INTEGER_MAX + 1
        if not INTEGER_MIN <= number <= INTEGER_MAX:
            self.cursor.fail("a 32-bit integer", at=start)
        self.cursor.take()
        return self.cursor.node("literal", value=number, position=start)

    def name(self) -> Node:
        token = self.cursor.ahead
        if token.kind != "word":
            self.cursor.fail("a name, a literal, a function, NOT, EXISTS, - or (")
        if token.value.lower() in KEYWORDS:
            self.cursor.fail(f"a name ({token.value.upper()} is a keyword)")
        if _NAME.fullmatch(token.value) is None:
            self.cursor.fail("an attribute name (letters and digits)")
        self.cursor.take()
        return self.cursor.name(token.value, token.position)

    def call(self) -> Node:
        cursor = self.cursor
        token = cursor.ahead
        name = token.value.upper()
        if name.lower() in KEYWORDS:
            cursor.fail(f"a name, a literal or a function ({name} is a keyword)")
        if _FUNCTION.fullmatch(name) is None:
            cursor.fail("the name of a function (letters and _)")
        cursor.take()
        cursor.take()
        arguments = [] if cursor.takes(")") else self.listed()
        if name not in FUNCTIONS:
            cursor.fail(
                f"one of the functions {', '.join(FUNCTIONS)}", repr(name), at=token.position
            )
        if function_for(name, len(arguments)) is None:
            cursor.fail(
                f"the number of arguments that {name} takes",
                str(len(arguments)),
                at=token.position,
            )
        return cursor.node("call", tuple(arguments), name, token.position)


def our_pattern(literal: str) -> str:
    r"""A pattern of LIKE as one of ours: there a backslash escapes only % and _."""
    escaped = re.sub(r"\\(?![%_])", r"\\\\", literal)
    return wildcard.pattern_of(wildcard.tokens(escaped))


def kind(node: Node) -> str:
    """The type of a node's value: boolean, integer or text; any if it depends on the event."""
    match node.operator:
        case "name":
            return "any"
        case "literal":
            assert isinstance(node.value, str | int)
            return kind_of(node.value)
        case "call":
            function = function_for(str(node.value), len(node.parts))
            assert function is not None
            return function.result
        case operator:
            return "integer" if operator in ARITHMETIC else "boolean"


def read_expression(text: str) -> Node:
    """The tree of an expression that can be a filter."""
    return _ExpressionReader(text).whole()


# Writing

_LEVELS: Final = {
    "and": 1, "or": 1, "xor": 1, "=": 2, "<": 2, "<=": 2, ">": 2, ">=": 2, "+": 3, "-": 3,
    "*": 4, "/": 4, "%": 4, "in": 5, "like": 5, "not": 6, "negative": 6,
}  # fmt: skip


def write_expression(node: Node) -> str:
    """The canonical text of a tree; reading it gives an equal tree."""
    return write_node(node, _LEVELS, _spell, 0)


def _spell(node: Node, write: Callable[[Node, int], str]) -> str:
    parts = node.parts
    match node.operator:
        case "literal":
            return _writable(write_literal(node.value))
        case "name":
            return str(node.value)
        case "exists":
            return f"EXISTS {node.value}"
        case "call":
            return f"{node.value}({', '.join(write(part, 0) for part in parts)})"
        case "and" | "or" | "xor":
            return f" {node.operator.upper()} ".join(write(part, 2) for part in parts)
        case "not":
            return f"NOT {write(parts[0], 6)}"
        case "negative":
            # The reader takes a sign before digits as part of the number.
            return f"-{write(parts[0], 100 if parts[0].operator == 'literal' else 6)}"
        case "in":
            return f"{write(parts[0], 5)} IN ({', '.join(write(part, 0) for part in parts[1:])})"
        case "like":
            return f"{write(parts[0], 5)} LIKE {_writable(write_pattern(str(node.value)))}"
        case operator:
            level = _LEVELS[operator]
            return f"{write(parts[0], level)} {operator} {write(parts[1], level + 1)}"


def _writable(written: str | None) -> str:
    """The text of a literal from a tree: the reader has read it, so it can be written."""
    assert written is not None
    return written


def write_literal(value: object) -> str | None:
    r"""A constant; None for a text that no quotes can hold, for example one that ends in a \."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if not isinstance(value, str):
        return repr(value)
    for quote in "'\"":
        # An odd number of backslashes would escape the quote after them.
        if re.search(rf"(?<!\\)(?:\\\\)*\\(?:{quote}|\Z)", value) is None:
            return quote + value.replace(quote, "\\" + quote) + quote
    return None


def write_pattern(pattern: str) -> str | None:
    r"""The pattern of LIKE; None if it has a literal backslash before a wildcard."""
    parts = wildcard.tokens(pattern)
    written = ""
    for part, following in pairwise([*parts, ""]):
        if part in (wildcard.ONE, wildcard.MANY):
            written += "_" if part == wildcard.ONE else "%"
        elif part == "\\" and following in (wildcard.ONE, wildcard.MANY):
            return None
        else:
            written += "\\" + str(part) if part in ("%", "_") else str(part)
    return write_literal(written)
