"""Reading and writing message selectors: the syntax of Jakarta Messaging 3.1, section 3.8.1.1.

Keywords may be in any case; identifiers are case-sensitive. The reader refuses what the
specification forbids, and shows the place: orderings of texts and booleans, arithmetic on texts,
header fields that a selector must not use, identifiers that are not Java's. This module does not
know what a selector means.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Final
from unicodedata import category

from tidings.language import wildcard
from tidings.language.constraint import INT_MAX
from tidings.language.dialects.sql_syntax import Cursor, Node, Token, write_node
from tidings.language.errors import PredicateError

KEYWORDS: Final = frozenset(
    {"null", "true", "false", "not", "and", "or", "between", "like", "in", "is", "escape"}
)
HEADERS: Final = frozenset(
    {"JMSDeliveryMode", "JMSPriority", "JMSMessageID", "JMSTimestamp", "JMSCorrelationID"}
    | {"JMSType"}
)
COMPARISONS: Final = ("=", "<>", "<=", ">=", "<", ">")
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "negative"})

_SPACE: Final = re.compile(r"[ \t\f\r\n]*")
_TEXT: Final = re.compile(r"'((?:[^']|'')*)'")
_SYMBOL: Final = re.compile(r"<>|<=|>=|[=<>+\-*/(),]")
_DIGITS: Final = r"[0-9](?:[0-9_]*[0-9])?"
_EXPONENT: Final = rf"[eE][+-]?{_DIGITS}"
# Java's literals: hexadecimal, binary, reals, octal and decimal integers.
_NUMBER: Final = re.compile(
    r"(?P<hex>0[xX][0-9a-fA-F](?:[0-9a-fA-F_]*[0-9a-fA-F])?)[lL]?"
    r"|(?P<binary>0[bB][01](?:[01_]*[01])?)[lL]?"
    rf"|(?P<real>{_DIGITS}\.(?:{_DIGITS})?(?:{_EXPONENT})?|\.{_DIGITS}(?:{_EXPONENT})?"
    rf"|{_DIGITS}{_EXPONENT}|{_DIGITS}(?=[fFdD]))(?P<single>[fFdD])?"
    r"|(?P<octal>0[0-7](?:[0-7_]*[0-7])?(?![0-9]))[lL]?"
    r"|(?P<decimal>0|[1-9](?:[0-9_]*[0-9])?)[lL]?"
)
_GLUED: Final = frozenset(".0123456789")  # what must not follow a number


def identifier_end(text: str, start: int) -> int:
    """The end of the Java identifier that begins at `start`; `start` if none begins there."""
    position = start
    while position < len(text):
        kind = category(text[position])
        if not (kind[0] == "L" or kind in _STARTS or (position > start and kind in _PARTS)):
            break
        position += 1
    return position


def may_be_used(name: str) -> bool:
    """Whether a selector may use an identifier: a header field among `HEADERS`, or a property."""
    return not name.startswith("JMS") or name.startswith(("JMSX", "JMS_")) or name in HEADERS


_STARTS: Final = frozenset({"Nl", "Sc", "Pc"})
_PARTS: Final = frozenset({"Nd", "Mn", "Mc", "Cf"})


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a selector."""
    position = 0
    while True:
        space = _SPACE.match(text, position)
        assert space is not None
        position = space.end()
        if position == len(text):
            return
        token = _token(text, position)
        yield token
        position = token.end


def _token(text: str, start: int) -> Token:
    if match := _TEXT.match(text, start):
        return Token("text", match[1].replace("''", "'"), start, match.end())
    if text[start] == "'":
        raise PredicateError(text, start, "a closing quote", "the end of the text")
    if match := _NUMBER.match(text, start):
        end = match.end()
        if identifier_end(text, end) > end or text[end : end + 1] in _GLUED:
            raise PredicateError(text, start, "a number as Java writes it, or an identifier")
        return Token("number", _number(text, match), start, end)
    if match := _SYMBOL.match(text, start):
        return Token("symbol", match[0], start, match.end())
    end = identifier_end(text, start)
    if end == start:
        if text[start] == "!":
            raise PredicateError(text, start, "= or <> (there is no !=)")
        raise PredicateError(text, start, "an identifier, a literal or an operator")
    return Token("word", text[start:end], start, end)


def _number(text: str, match: re.Match[str]) -> int | float:
    kind = match.lastgroup
    if match["real"] is not None:
        value = float(match["real"].replace("_", ""))
        if (match["single"] or "").lower() == "f":
            try:
                value = float(struct.unpack("f", struct.pack("f", value))[0])
            except OverflowError:
                value = float("inf")
        if abs(value) == float("inf"):
            raise PredicateError(text, match.start(), "a real that fits a double")
        return value
    assert kind is not None
    radix = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}[kind]
    digits = match[kind].replace("_", "")[2 if radix in (16, 2) else 0 :]
    if len(digits) > 80 or (number := int(digits, radix)) > INT_MAX + 1:
        raise PredicateError(text, match.start(), "an integer in the range of Java's long")
    return number


class _SelectorReader:
    """Reads one selector, by recursive descent."""

    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text, tokens)

    def whole(self) -> Node:
        node = self.condition(self.disjunction())
        self.cursor.finish("an operator")
        return node

    def disjunction(self) -> Node:
        return self.chain("or", self.conjunction)

    def conjunction(self) -> Node:
        return self.chain("and", self.negation)

    def chain(self, operator: str, part: Callable[[], Node]) -> Node:
        start = self.cursor.ahead.position
        parts = [part()]
        while self.cursor.takes(operator):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        return self.cursor.node(operator, tuple(map(self.condition, parts)), position=start)

    def negation(self) -> Node:
        start = self.cursor.ahead.position
        count = 0
        while self.cursor.takes("not"):
            count += 1
        node = self.predicate()
        if count == 0:
            return node
        node = self.cursor.node("not", (self.condition(node),), position=start)
        return node if count % 2 else self.cursor.node("not", (node,), position=start)

    def predicate(self) -> Node:
        cursor = self.cursor
        start = cursor.ahead.position
        left = self.sum()
        operator = cursor.takes(*COMPARISONS)
        if operator is not None:
            return self.comparison(left, operator, start)
        if cursor.takes("is"):
            self.identifier(left, "IS")
            negated = cursor.takes("not") is not None
            cursor.wants("null")
            node = cursor.node("is null", (left,), position=start)
            return cursor.node("not", (node,), position=start) if negated else node
        negated = cursor.takes("not") is not None
        if cursor.takes("between"):
            return self.between(left, negated, start)
        if cursor.takes("in"):
            node = self.members(left, start)
        elif cursor.takes("like"):
            node = self.like(left)
        elif negated:
            cursor.fail("BETWEEN, IN or LIKE")
        else:
            return left
        return cursor.node("not", (node,), position=start) if negated else node

    def comparison(self, left: Node, operator: str, start: int) -> Node:
        right = self.sum()
        ordered = operator not in ("=", "<>")
        for side in (left, right):
            if ordered and kind(side) not in ("number", "any"):
                self.cursor.fail(
                    f"a number beside {operator} (texts and booleans only have = and <>)",
                    f"a {kind(side)}",
                    at=side.position,
                )
        if {kind(left), kind(right)} - {"any"} not in ({"number"}, {"text"}, {"boolean"}, set()):
            self.cursor.fail(
                f"a {kind(left)} to compare with a {kind(left)}",
                f"a {kind(right)}",
                at=right.position,
            )
        return self.cursor.node(operator, (left, right), position=start)

    def between(self, left: Node, negated: bool, start: int) -> Node:
        low = self.sum()
        self.cursor.wants("and")
        parts = (left, low, self.sum())
        operator = "not between" if negated else "between"
        return self.cursor.node(operator, tuple(map(self.number, parts)), position=start)

    def members(self, left: Node, start: int) -> Node:
        self.identifier(left, "IN")
        self.cursor.wants("(")
        members = [self.text("IN")]
        while self.cursor.takes(","):
            members.append(self.text("IN"))
        if self.cursor.takes(")") is None:
            self.cursor.fail(", or )")
        return self.cursor.node("in", (left, *members), position=start)

    def like(self, left: Node) -> Node:
        self.identifier(left, "LIKE")
        token = self.text("LIKE")
        literal = str(token.value)
        if not self.cursor.takes("escape"):
            return self.cursor.like(left, literal.replace("\\", "\\\\"), token.position)
        given = self.text("ESCAPE")
        escape = str(given.value)
        if len(escape) != 1:
            self.cursor.fail("one character after ESCAPE", at=given.position)
        read = wildcard.read_escape(literal, escape)
        if read is None:
            self.cursor.fail(
                f"{escape!r} to stand only before %, _ or itself in the pattern",
                "it before another character",
                at=given.position,
            )
        return self.cursor.like(left, read, token.position)

    def sum(self) -> Node:
        return self.arithmetic(("+", "-"), self.product)

    def product(self) -> Node:
        return self.arithmetic(("*", "/"), self.signed)

    def arithmetic(self, operators: tuple[str, ...], part: Callable[[], Node]) -> Node:
        start = self.cursor.ahead.position
        node = part()
        while operator := self.cursor.takes(*operators):
            parts = (self.number(node), self.number(part()))
            node = self.cursor.node(operator, parts, position=start)
        return node

    def signed(self) -> Node:
        start = self.cursor.ahead.position
        signs = []
        while sign := self.cursor.takes("+", "-"):
            signs.append(sign)
        if not signs:
            return self.primary()
        if self.cursor.ahead.kind == "number":
            node = self.numeral(negative=signs.pop() == "-", start=start)
            times = signs.count("-") % 2
        else:
            node = self.number(self.primary())
            times = 1 if signs.count("-") % 2 else 2
        for _ in range(times):
            node = self.cursor.node("negative", (node,), position=start)
        return node

    def primary(self) -> Node:
        cursor = self.cursor
        start = cursor.ahead.position
        if cursor.takes("("):
            return cursor.enclosed(self.disjunction)
        if cursor.ahead.kind == "number":
            return self.numeral(negative=False, start=start)
        if cursor.ahead.kind == "text":
            return cursor.node("literal", value=cursor.take().value, position=start)
        if cursor.ahead.kind == "word":
            return self.word()
        return cursor.fail("an identifier, a literal or (")

    def numeral(self, negative: bool, start: int) -> Node:
        number = self.cursor.ahead.value
        if number == INT_MAX + 1 and type(number) is int and not negative:
            self.cursor.fail("an integer in the range of Java's long")
        self.cursor.take()
        return self.cursor.node("literal", value=-number if negative else number, position=start)

    def word(self) -> Node:
        cursor = self.cursor
        word = cursor.ahead.value
        lower = word.lower()
        if lower in KEYWORDS and lower not in ("true", "false"):
            cursor.fail(f"an identifier ({lower.upper()} is a keyword), a literal or (")
        start = cursor.take().position
        if lower in KEYWORDS:
            return cursor.node("literal", value=lower == "true", position=start)
        if not may_be_used(word):
            cursor.fail(
                f"a header field that selectors may use ({', '.join(sorted(HEADERS))}), "
                "a name that begins with JMSX or JMS_, or one that does not begin with JMS",
                at=start,
            )
        return cursor.name(word, start)

    def text(self, keyword: str) -> Node:
        if self.cursor.ahead.kind != "text":
            self.cursor.fail(f"a text in single quotes after {keyword}")
        token = self.cursor.take()
        return self.cursor.node("literal", value=token.value, position=token.position)

    # Checks of what may stand where

    def identifier(self, node: Node, keyword: str) -> None:
        if node.operator != "name":
            self.cursor.fail(f"an identifier before {keyword}", f"a {kind(node)}", at=node.position)

    def number(self, node: Node) -> Node:
        if kind(node) not in ("number", "any"):
            self.cursor.fail("a number or an identifier", f"a {kind(node)}", at=node.position)
        return node

    def condition(self, node: Node) -> Node:
        if kind(node) not in ("boolean", "any"):
            self.cursor.fail("a condition", f"a {kind(node)}", at=node.position)
        return node


def kind(node: Node) -> str:
    """The type of a node's value: number, text or boolean; any if it depends on the event."""
    if node.operator == "name":
        return "any"
    if node.operator in ARITHMETIC:
        return "number"
    if node.operator != "literal":
        return "boolean"
    if isinstance(node.value, bool):
        return "boolean"
    return "text" if isinstance(node.value, str) else "number"


def read_selector(text: str) -> Node | None:
    """The tree of a selector; None for the empty one, which selects everything."""
    reader = _SelectorReader(text)
    return None if reader.cursor.ahead.kind == "end" else reader.whole()


# Writing

_LEVELS: Final = {
    "or": 1, "and": 2, "not": 3, "=": 4, "<>": 4, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "between": 4, "not between": 4, "in": 4, "like": 4, "is null": 4,
    "+": 5, "-": 5, "*": 6, "/": 6, "negative": 7,
}  # fmt: skip


def write_selector(node: Node) -> str:
    """The canonical text of a tree; reading it gives an equal tree."""
    return write_node(node, _LEVELS, _spell, 0)


def _spell(node: Node, write: Callable[[Node, int], str]) -> str:
    parts = node.parts
    match node.operator:
        case "literal":
            return write_literal(node.value)
        case "name":
            return str(node.value)
        case "and" | "or":
            above = _LEVELS[node.operator] + 1
            return f" {node.operator.upper()} ".join(write(part, above) for part in parts)
        case "not":
            return f"NOT {write(parts[0], 4)}"
        case "negative":
            # The reader takes a sign before a number as part of it.
            return f"-{write(parts[0], 100 if parts[0].operator == 'literal' else 99)}"
        case "is null":
            return f"{write(parts[0], 99)} IS NULL"
        case "in":
            return f"{write(parts[0], 99)} IN ({', '.join(write(part, 0) for part in parts[1:])})"
        case "like":
            return f"{write(parts[0], 99)} LIKE {write_pattern(str(node.value))}"
        case "between" | "not between":
            head, low, high = (write(part, 5) for part in parts)
            return f"{head} {node.operator.upper()} {low} AND {high}"
        case _:
            level = _LEVELS[node.operator]
            left = write(parts[0], max(level, 5))
            return f"{left} {node.operator} {write(parts[1], level + 1)}"


def write_literal(value: object) -> str:
    """A constant as a selector writes it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def write_pattern(pattern: str) -> str:
    """The pattern of LIKE, with an escape character where it needs one."""
    plain = pattern.replace("\\\\", "")
    if "\\" in plain:
        return f"{write_literal(pattern)} ESCAPE '\\'"
    return write_literal(pattern.replace("\\\\", "\\"))
