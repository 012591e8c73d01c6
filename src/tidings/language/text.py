"""Reads and writes the text form of predicates, which looks like a SQL WHERE clause.

The parser is a hand-written recursive descent over the text itself, without a list of tokens. One
regular expression takes a whole constraint of the usual shape (`name operator literal`), so it
reads a million subscriptions in seconds. Everything else takes the slow path, which also finds the
place and the words for errors. `write` is the inverse: `read(write(e))` means and prints the same
as `e`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from sys import intern
from typing import Final, NoReturn

from tidings.language import wildcard
from tidings.language.constraint import (
    INT_MAX,
    INT_MIN,
    MINDING_CASE,
    ORDERED,
    TEXT_ONLY,
    Constraint,
    Operand,
    residual,
)
from tidings.language.dialects import DIALECTS
from tidings.language.errors import PredicateError
from tidings.language.expression import (
    ALWAYS,
    MAX_DEPTH,
    NEVER,
    And,
    Expression,
    Not,
    Or,
    conjoin,
    disjoin,
    negate,
)
from tidings.language.habits import OPERATORS_ELSEWHERE, hint_at, with_hint
from tidings.language.values import Scalar

MAX_TEXT: Final = 1024 * 1024  # characters
MAX_CONSTANTS: Final = 65_536  # in one predicate
MAX_NAME: Final = 1_024  # characters
MAX_PROGRAMS: Final = 50_000  # instructions of all regular expressions of one predicate

TYPES: Final = {
    "int": "int",
    "integer": "int",
    "real": "real",
    "float": "real",
    "double": "real",
    "number": "number",
    "string": "string",
    "bool": "bool",
    "boolean": "bool",
}
_WORD_OPERATORS: Final = frozenset(
    {"between", "in", "prefix", "suffix", "contains", "like", "matches"}
    | {"iin", "iprefix", "isuffix", "icontains", "ilike", "imatches"}
)
KEYWORDS: Final = _WORD_OPERATORS | {
    "and", "or", "not", "exists", "is", "null", "true", "false", "escape"
}  # fmt: skip

_NAME: Final = r"[^\W\d]\w*(?:[.-]\w+)*"
_NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])"
_SYMBOLS: Final = r"<=|>=|<>|!=|=|<|>"

# The usual constraint: name, operator, text or number, and an optional `and`. Keywords ignore the
# case of ASCII letters only (`(?ai:…)`): `ſ` is no s.
_USUAL: Final = re.compile(
    rf"\s*({_NAME})\s*({_SYMBOLS}|\b(?ai:prefix|suffix|contains)\b)\s*"
    rf"(?:'([^']*)'(?!')|({_NUMBER}))\s*((?ai:and)\b)?"
)
# The other usual one, up to its operand: name and an operator that is a word. A word that goes on
# with a dot or a hyphen is a name (`in.bytes`).
_WORDED: Final = re.compile(
    rf"\s*({_NAME})\s+((?ai:not)\s+)?((?ai:{'|'.join(sorted(_WORD_OPERATORS, reverse=True))}))\b"
    r"(?![.-]\w)"
)
_TEXTS: Final = re.compile(r"\s*\(\s*'[^']*'(?:\s*,\s*'[^']*')*\s*\)")
_INTEGERS: Final = re.compile(r"\s*\(\s*[+-]?[0-9]{1,18}(?:\s*,\s*[+-]?[0-9]{1,18})*\s*\)")
_BOUNDS: Final = re.compile(rf"\s*({_NUMBER})\s*(?ai:and)\b\s*({_NUMBER})")
_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"\s*([^\W\d]\w*)?")
_GOES_ON: Final = re.compile(r"[.-]\w")  # a word before this is the beginning of a name
_PLAIN_NAME: Final = re.compile(_NAME)
_QUOTED_NAME: Final = re.compile(r'"([^"]*(?:""[^"]*)*)"')
_OPERATOR: Final = re.compile(rf"[iI]?(?:{_SYMBOLS})")
_TEXT: Final = re.compile(r"'([^']*(?:''[^']*)*)'")
_NUMERAL: Final = re.compile(_NUMBER)
_RESIDUAL: Final = re.compile(r"\s*([^\W\d]\w*)\s*\(")

_OPERATORS_EXPECTED: Final = (
    "an operator (= != < <= > >= between in prefix suffix contains like matches is)"
)


def read(text: str, max_characters: int | None = MAX_TEXT) -> Expression:
    """Parse a text to an expression; `PredicateError` says where a mistake is.

    Without a bound on the characters there is none on constants and regular expressions either.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected the text of a predicate, found {type(text).__name__}")
    if max_characters is not None and len(text) > max_characters:
        raise PredicateError(text[:200], 0, f"at most {max_characters} characters", str(len(text)))
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise PredicateError(text, error.start, "a character", "a lone surrogate") from None
    return _Reader(text, bounded=max_characters is not None).whole()


class _Reader:
    """One text being read, with the position, the depth and the constants so far."""

    __slots__ = (
        "bounded",
        "constants",
        "depth",
        "instructions",
        "max_constants",
        "position",
        "programs",
        "text",
    )

    def __init__(self, text: str, bounded: bool) -> None:
        self.text = text
        self.bounded = bounded
        self.max_constants = MAX_CONSTANTS if bounded else sys.maxsize
        self.programs: set[tuple[str, str]] = set()  # the regular expressions so far
        self.instructions = 0  # of these, together
        self.position = 0
        self.depth = 0
        self.constants = 0

    # Structure

    def whole(self) -> Expression:
        expression = self.disjunction()
        self.space()
        if self.position < len(self.text):
            self.fail("and, or, or the end of the text")
        return expression

    def disjunction(self) -> Expression:
        parts = [self.conjunction()]
        while self.takes("or"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else disjoin(parts)

    def conjunction(self) -> Expression:
        parts: list[Expression] = []
        while True:
            usual = _USUAL.match(self.text, self.position)
            constraint = None if usual is None else self.usual(*usual.group(1, 2, 3, 4))
            if usual is None or constraint is None:
                parts.append(self.usual_worded() or self.negation())
                if not self.takes("and"):
                    break
            else:
                parts.append(constraint)
                self.position = usual.end()
                if usual[5] is None:
                    break
        return parts[0] if len(parts) == 1 else conjoin(parts)

    def negation(self) -> Expression:
        negated = False
        while self.takes_alone("not"):
            negated = not negated
        primary = self.primary()
        return negate(primary) if negated else primary

    def primary(self) -> Expression:
        if self.takes_symbol("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.position -= 1
                self.fail(f"at most {MAX_DEPTH} levels of parentheses")
            expression = self.disjunction()
            if not self.takes_symbol(")"):
                self.fail("and, or, or )")
            self.depth -= 1
            return expression
        if self.takes_alone("true"):
            return ALWAYS
        if self.takes_alone("false"):
            return NEVER
        if self.takes_alone("exists"):
            return self.presence()
        test = _RESIDUAL.match(self.text, self.position)
        if test is not None and not is_keyword(test[1]):
            return self.residual(test[1], test.end())
        return self.comparison()

    # Constraints

    def usual(self, name: str, operator: str, text: str | None, numeral: str) -> Constraint | None:
        """The constraint that the regular expression matched, or None to take the slow path."""
        if is_keyword(name) or len(name) > MAX_NAME or self.constants == self.max_constants:
            return None
        operand: Scalar
        if text is not None:
            operand, kind = text, "string"
        elif operator[0] not in "<=>!" or len(numeral) > 18:
            return None  # a text operator on a number; a number that may pass 64 bits
        else:
            kind = "number"
            try:
                operand = int(numeral)
            except ValueError:
                operand = float(numeral)
                if abs(operand) == float("inf"):
                    return None
        self.constants += 1
        operator = "!=" if operator == "<>" else operator.lower()
        return Constraint(intern(name), operator, kind, False, operand)

    def usual_worded(self) -> Expression | None:
        """A constraint whose operator is a word, or None to take the slow path."""
        head = _WORDED.match(self.text, self.position)
        if head is None or is_keyword(head[1]) or len(head[1]) > MAX_NAME:
            return None
        self.position = head.end()
        expression = self.worded(None, intern(head[1]), head[3].lower())
        return expression if head[2] is None else negate(expression)

    def residual(self, dialect: str, after: int) -> Expression:
        """A test of another dialect, after its name and a parenthesis."""
        self.space()
        row = DIALECTS.get(dialect)
        if row is None or not row.tests:
            known = ", ".join(name for name, row in DIALECTS.items() if row.tests)
            self.fail(f"{_OPERATORS_EXPECTED} or a dialect with tests ({known})", f"{dialect!r} (")
        self.position = after
        start = self.space()
        text, _ = self.literal("string", "holds")
        assert isinstance(text, str)
        try:
            row.test(text)
        except PredicateError as error:
            self.position = start
            self.fail(f"a test of {dialect}", f"an error in it ({error.summary})")
        if not self.takes_symbol(")"):
            self.fail(")")
        return Constraint("", "holds", "any", False, (dialect, text))

    def presence(self) -> Expression:
        parenthesis = self.takes_symbol("(")
        declared, name = self.typed_name()
        if parenthesis and not self.takes_symbol(")"):
            self.fail(")")
        return Constraint(name, "exists", declared or "any", False, None)

    def comparison(self) -> Expression:
        declared, name = self.typed_name()
        self.space()
        symbol = _OPERATOR.match(self.text, self.position)
        if symbol is not None:
            operator = symbol[0].lower().replace("<>", "!=")
            if operator[0] == "i" and operator not in TEXT_ONLY:
                self.fail(f"an operator that can ignore case ({' '.join(MINDING_CASE)})")
            self.position = symbol.end()
            operand, found = self.literal(declared, operator)
            return Constraint(name, operator, found, False, operand)
        if self.takes("is"):
            negated = not self.takes("not")
            if not self.takes("null"):
                self.fail("null" if not negated else "null or not null")
            return Constraint(name, "exists", declared or "any", negated, None)
        negated = self.takes("not")
        operator = lowered(self.word())
        if operator not in _WORD_OPERATORS:
            self.fail_operator(name, negated)
        self.position += len(operator)
        expression = self.worded(declared, name, operator)
        return negate(expression) if negated else expression

    def worded(self, declared: str | None, name: str, operator: str) -> Expression:
        """A constraint whose operator is a word, from its operand on."""
        if operator in ("in", "iin"):
            return self.members(declared, name, operator)
        if operator == "between":
            usual = _BOUNDS.match(self.text, self.position) if declared is None else None
            if usual is not None and self.constants + 2 <= self.max_constants:
                self.constants += 2
                bounds = self.number_at(usual, 1), self.number_at(usual, 2)
                return Constraint(name, operator, "number", False, bounds)
            low, found = self.literal(declared, operator)
            if not self.takes("and"):
                self.fail("and")
            high, _ = self.literal(declared or found, operator)
            return Constraint(name, operator, found, False, (low, high))
        start = self.space()
        operand, found = self.literal(declared, operator)
        assert isinstance(operand, str)
        if operator in ("like", "ilike"):
            operand = self.pattern(operand)
            try:
                wildcard.check(operand, ignore_case=operator == "ilike")
            except wildcard.RegexError as error:
                self.position = start
                self.fail("a pattern that can be matched", str(error))
        elif operator in ("matches", "imatches"):
            try:
                size = wildcard.program_size(operand, operator == "imatches")
            except wildcard.RegexError as error:
                self.position = start
                self.fail("a regular expression in RE2 syntax", str(error))
            if (operator, operand) not in self.programs:
                self.programs.add((operator, operand))
                self.instructions += size
            if self.bounded and self.instructions > MAX_PROGRAMS:
                self.position = start
                self.fail(
                    f"regular expressions of at most {MAX_PROGRAMS} instructions in one predicate",
                    f"{self.instructions} up to here",
                )
        return Constraint(name, operator, found, False, operand)

    def members(self, declared: str | None, name: str, operator: str) -> Expression:
        """The list of `in`. If it mixes types, it becomes one list for each type, joined by or."""
        if declared is None:
            simple = self.simple_members(name, operator)
            if simple is not None:
                return simple
        if not self.takes_symbol("("):
            self.fail("( and a list of values")
        values: dict[str, set[Scalar]] = {}
        while True:
            value, found = self.literal(declared, operator)
            values.setdefault(found, set()).add(value)
            if self.takes_symbol(")"):
                break
            if not self.takes_symbol(","):
                self.fail(", or )")
        return disjoin(
            Constraint(name, operator, found, False, tuple(sorted(members)))
            for found, members in values.items()
        )

    def simple_members(self, name: str, operator: str) -> Constraint | None:
        """A list of only plain texts or only small integers: the usual one, and often long."""
        values: Iterable[Scalar]
        listed = _TEXTS.match(self.text, self.position)
        kind = "string"
        if listed is not None:
            values = listed[0].split("'")[1::2]
        else:
            listed = _INTEGERS.match(self.text, self.position) if operator == "in" else None
            if listed is None:
                return None
            kind = "number"
            values = map(int, listed[0].strip()[1:-1].split(","))
        members = sorted(set(values))
        self.constants += listed[0].count(",") + 1
        if self.constants > self.max_constants:
            self.fail(f"at most {self.max_constants} constants in one predicate", "more")
        self.position = listed.end()
        return Constraint(name, operator, kind, False, tuple(members))

    def pattern(self, literal: str) -> str:
        """The pattern of `like`, with its escape clause where there is one."""
        if not self.takes("escape"):
            return literal.replace("\\", "\\\\")
        start = self.space()
        character, _ = self.literal("string", "escape")
        assert isinstance(character, str)
        if len(character) != 1:
            self.position = start
            self.fail("one character")
        pattern = wildcard.read_escape(literal, character)
        if pattern is None:
            self.position = start
            self.fail(
                f"{character!r} only before %, _ or itself in the pattern",
                "it before another character",
            )
        return pattern

    # Words

    def typed_name(self) -> tuple[str | None, str]:
        """An attribute's name, and the type before it if there is one."""
        word = self.word()
        declared = TYPES.get(lowered(word))
        if declared is not None:
            start = self.position
            self.position += len(word)
            following = _PLAIN_NAME.match(self.text, self.space())
            if self.text[self.position : self.position + 1] == '"' or (
                following and not is_keyword(following[0]) and not self.at_symbol_operator()
            ):
                return declared, self.name()
            self.position = start
        return None, self.name()

    def name(self) -> str:
        """A name: dotted words, or quoted, or a mixture: `a.b`, `"a b"`, `detail."device-type"`."""
        start = self.space()
        parts = []
        while True:
            quoted = _QUOTED_NAME.match(self.text, self.position)
            if quoted is not None:
                parts.append(quoted[1].replace('""', '"'))
                self.position = quoted.end()
            else:
                plain = _PLAIN_NAME.match(self.text, self.position)
                if plain is None or (not parts and is_keyword(plain[0])):
                    self.fail_name(plain[0] if plain is not None else "")
                parts.append(plain[0])
                self.position = plain.end()
            if self.text[self.position : self.position + 1] != ".":
                break
            self.position += 1
        name = ".".join(parts)
        if not name or len(name) > MAX_NAME:
            self.position = start
            self.fail(f"a name of 1 to {MAX_NAME} characters", f"one of {len(name)}")
        return intern(name)

    def literal(self, declared: str | None, operator: str) -> tuple[Scalar, str]:
        """A constant and the type of its constraint."""
        self.constants += 1
        start = self.space()
        if self.constants > self.max_constants:
            self.fail(f"at most {self.max_constants} constants in one predicate", "more")
        text = _TEXT.match(self.text, start)
        if text is not None:
            self.position = text.end()
            return self.typed(text[1].replace("''", "'"), "string", declared, operator, start)
        numeral = _NUMERAL.match(self.text, start)
        if numeral is not None:
            self.position = numeral.end()
            return self.typed(self.number(numeral[0]), "number", declared, operator, start)
        word = lowered(self.word())
        if word in ("true", "false"):
            self.position += len(word)
            return self.typed(word == "true", "bool", declared, operator, start)
        if self.text[start : start + 1] == "'":
            self.fail("a closing quote", "the end of the text")
        self.fail(
            f"{_wanted(declared, operator)} (texts stand in single quotes"
            + ("; to test for null, write is null)" if word == "null" else ")")
        )

    def typed(
        self, value: Scalar, kind: str, declared: str | None, operator: str, start: int
    ) -> tuple[Scalar, str]:
        """Check a constant against the type declared and the operator."""
        numeric = declared in ("int", "real", "number")
        fits = declared is None or declared == kind or (numeric and kind == "number")
        if (operator in TEXT_ONLY and kind != "string") or (operator in ORDERED and kind == "bool"):
            fits = False
        if not fits:
            self.position = start
            self.fail(
                _wanted(declared, operator), f"{_KINDS[kind]} {self.text[start : start + 20]!r}"
            )
        return value, kind if declared is None or not numeric else declared

    def number_at(self, match: re.Match[str], group: int) -> int | float:
        """The number that a group of a regular expression has matched."""
        self.position = match.end(group)
        return self.number(match[group])

    def number(self, numeral: str) -> int | float:
        if numeral.lstrip("+-").isdigit():
            if len(numeral) <= 40 and INT_MIN <= (integer := int(numeral)) <= INT_MAX:
                return integer
            wanted = "an integer that fits 64 bits (write a larger one as a real: 1e30)"
        else:
            real = float(numeral)
            if abs(real) != float("inf"):
                return real
            wanted = "a real that fits a double"
        self.position -= len(numeral)
        self.fail(wanted, numeral if len(numeral) <= 40 else numeral[:39] + "…")

    def word(self) -> str:
        """The next word, which is not taken yet; empty if there is none."""
        match = _WORD.match(self.text, self.position)
        assert match is not None
        word = match[1]
        if word is None:
            self.position = match.end()
            return ""
        self.position = match.start(1)
        return word

    def takes(self, keyword: str) -> bool:
        """Take a keyword if it is next."""
        if lowered(self.word()) != keyword:
            return False
        self.position += len(keyword)
        return True

    def takes_alone(self, keyword: str) -> bool:
        """Take a keyword if it is next and does not begin a name, as it does in `not-before`."""
        if not self.takes(keyword):
            return False
        if _GOES_ON.match(self.text, self.position):
            self.position -= len(keyword)
            return False
        return True

    def takes_symbol(self, symbol: str) -> bool:
        """Take a punctuation mark if it is next."""
        if not self.text.startswith(symbol, self.space()):
            return False
        self.position += len(symbol)
        return True

    def at_symbol_operator(self) -> bool:
        """Whether the next is an operator of symbols (`i=` begins like a name)."""
        return _OPERATOR.match(self.text, self.position) is not None

    def space(self) -> int:
        """Skip white space; the position after it."""
        match = _SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return self.position

    def fail_name(self, found: str) -> NoReturn:
        if found:
            self.fail(
                f'a name ({lowered(found)} is a keyword; to use it as a name, write "{found}")'
            )
        if self.text[self.position : self.position + 1] == "'":
            self.fail("a name (names stand in double quotes or without quotes)")
        if self.text[self.position : self.position + 1] == '"':
            self.fail("a closing double quote", "the end of the text")
        self.fail("a name, not, exists or (")

    def fail_operator(self, name: str, negated: bool) -> NoReturn:
        expected = "in, between, like or another word operator" if negated else _OPERATORS_EXPECTED
        word = lowered(self.word())
        if word in OPERATORS_ELSEWHERE:
            instead = OPERATORS_ELSEWHERE[word]
            self.fail(with_hint(expected, f"write {instead} instead of {word}"))
        at_end = self.space() == len(self.text) or self.text[self.position] == ")"
        if at_end or word in ("and", "or"):
            self.fail(with_hint(expected, f"to test a boolean, write {write_name(name)} = true"))
        self.fail(expected)

    def fail(self, expected: str, found: str | None = None) -> NoReturn:
        start = self.space()
        hint = hint_at(self.text, start)
        if hint is not None:
            expected = with_hint(expected, hint)
        raise PredicateError(self.text, start, expected, found)


def lowered(word: str) -> str:
    """A word with its ASCII letters in lower case: keywords are ASCII, so `ſ` is no s."""
    return word.lower() if word.isascii() else word


def is_keyword(word: str) -> bool:
    """Whether a word is a keyword, in whatever case."""
    return lowered(word) in KEYWORDS


_KINDS: Final = {"string": "the text", "number": "the number", "bool": "the boolean"}


def _wanted(declared: str | None, operator: str) -> str:
    """The kind of constant that an operator and a declared type need."""
    if operator in TEXT_ONLY or declared == "string":
        return "a text"
    if declared == "bool":
        return "a number or a text" if operator in ORDERED else "true or false"
    if declared is not None:
        return "a number"
    return "a number or a text" if operator in ORDERED else "a value"


# Writing


def write(expression: Expression) -> str:
    """The canonical text of an expression."""
    match expression:
        case Constraint():
            return write_constraint(expression)
        case Not(part):
            return f"not ({write(part)})"
        case And(parts):
            if not parts:
                return "true"
            return " and ".join(
                f"({write(part)})" if isinstance(part, Or) and part.parts else write(part)
                for part in parts
            )
        case Or(parts):
            return " or ".join(map(write, parts)) if parts else "false"


def write_constraint(constraint: Constraint) -> str:
    """The canonical text of one constraint."""
    name, operator, kind, negated, operand = constraint
    head = "not " if negated else ""
    if operator == "holds":
        dialect, text = residual(constraint)
        return f"{head}{dialect}({write_value(text)})"
    if operator == "exists":
        return f"{head}exists {'' if kind == 'any' else kind + ' '}{write_name(name)}"
    if kind in ("int", "real"):
        head += kind + " "
    return f"{head}{write_name(name)} {operator} {_write_operand(operator, operand)}"


def _write_operand(operator: str, operand: Operand) -> str:
    if operator in ("like", "ilike"):
        return _write_pattern(str(operand))
    if operator == "between":
        assert isinstance(operand, tuple)
        low, high = operand
        return f"{write_value(low)} and {write_value(high)}"
    if isinstance(operand, tuple):
        return f"({', '.join(map(write_value, operand))})"
    assert operand is not None
    return write_value(operand)


def _write_pattern(pattern: str) -> str:
    if "\\%" in pattern.replace("\\\\", "") or "\\_" in pattern.replace("\\\\", ""):
        return f"{write_value(pattern)} escape '\\'"
    return write_value(pattern.replace("\\\\", "\\"))


def write_value(value: Scalar) -> str:
    """A constant as it is written in a predicate."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def write_name(name: str) -> str:
    """A name, in double quotes where it needs them."""
    plain = _PLAIN_NAME.fullmatch(name)
    if plain is not None and not is_keyword(name):
        return name
    return '"' + name.replace('"', '""') + '"'
