"""JSON text as a tree that knows the place of every value and keeps repeated names.

The tree is for predicates in JSON: an error can show the place of a mistake, and a name that an
object repeats is not lost. Events, which are many, go through msgspec instead.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, NoReturn

from tidings.language.errors import PredicateError
from tidings.language.expression import MAX_DEPTH

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_STRING: Final = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.+-])")
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_WORD: Final = re.compile(r"true\b|false\b|null\b")


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON value, and the place where it begins."""

    position: int

    @property
    def kind(self) -> str:
        """Its type, in words."""
        return _KINDS[type(self)]


@dataclass(frozen=True, slots=True)
class Object(JsonValue):
    """An object: its members as written, each with the place of its name."""

    members: tuple[tuple[str, int, JsonValue], ...]
    end: int


@dataclass(frozen=True, slots=True)
class Array(JsonValue):
    """An array."""

    elements: tuple[JsonValue, ...]
    end: int


@dataclass(frozen=True, slots=True)
class String(JsonValue):
    """A string, unescaped."""

    value: str


@dataclass(frozen=True, slots=True)
class Number(JsonValue):
    """A number as it is written: it may have more digits than any type of Python holds."""

    text: str


@dataclass(frozen=True, slots=True)
class Word(JsonValue):
    """`true`, `false` or `null`."""

    value: bool | None


_KINDS: Final[dict[type, str]] = {
    Object: "an object",
    Array: "an array",
    String: "a string",
    Number: "a number",
    Word: "a boolean or null",
}


def read_json(text: str) -> JsonValue:
    """The value that a JSON text writes; `PredicateError` shows the place of a mistake."""
    reader = _JsonReader(text)
    value = reader.value(0)
    if reader.space() < len(text):
        reader.fail("the end of the text")
    return value


class _JsonReader:
    """Reads one text, by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def value(self, depth: int) -> JsonValue:
        start = self.space()
        if depth > MAX_DEPTH:
            self.fail(f"at most {MAX_DEPTH} levels of nesting", "more")
        match self.text[start : start + 1]:
            case "{":
                return self.object(start, depth)
            case "[":
                return self.array(start, depth)
            case '"':
                return String(start, self.string())
        number = _NUMBER.match(self.text, start)
        if number is not None:
            self.position = number.end()
            return Number(start, number[0])
        word = _WORD.match(self.text, start)
        if word is None:
            self.fail("a JSON value")
        self.position = word.end()
        return Word(start, _WORDS[word[0]])

    def object(self, start: int, depth: int) -> Object:
        self.position += 1
        members: list[tuple[str, int, JsonValue]] = []
        while not self.takes("}"):
            if members and not self.takes(","):
                self.fail(", or }")
            at = self.space()
            if self.text[at : at + 1] != '"':
                self.fail("a name in double quotes" + ("" if members else " or }"))
            name = self.string()
            if not self.takes(":"):
                self.fail(":")
            members.append((name, at, self.value(depth + 1)))
        return Object(start, tuple(members), self.position)

    def array(self, start: int, depth: int) -> Array:
        self.position += 1
        elements: list[JsonValue] = []
        while not self.takes("]"):
            if elements and not self.takes(","):
                self.fail(", or ]")
            elements.append(self.value(depth + 1))
        return Array(start, tuple(elements), self.position)

    def string(self) -> str:
        written = _STRING.match(self.text, self.position)
        if written is None:
            self.fail("a closed string with JSON's escapes only", "another string")
        value = written[1]
        if "\\" in value:
            value = json.loads(written[0])
        try:
            value.encode()
        except UnicodeEncodeError:
            self.fail("characters", "a lone surrogate")
        self.position = written.end()
        return value

    def takes(self, mark: str) -> bool:
        """Take a punctuation mark if it comes next."""
        if not self.text.startswith(mark, self.space()):
            return False
        self.position += 1
        return True

    def space(self) -> int:
        """Skip white space, and return the position after it."""
        match = _SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return self.position

    def fail(self, expected: str, found: str | None = None) -> NoReturn:
        raise PredicateError(self.text, self.position, expected, found)
