"""Reading event patterns of Amazon EventBridge, as event-ruler reads them.

A pattern is a JSON object in the shape of the events that it matches. The reader turns it into
*branches*, and an event matches if it satisfies any branch. A branch maps dotted names to tests;
each field must satisfy one of its tests. `$or` makes a branch of each of its objects. A name that a
branch repeats replaces its earlier tests; event-ruler does the same, so it is no mistake.

The reader refuses what event-ruler refuses, and shows the place. Like event-ruler it takes `$or` as
the name of a field unless an array of two or more objects follows.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn

from tidings.language import wildcard
from tidings.language.dialects.eventbridge.addresses import read_address, read_block, single
from tidings.language.dialects.eventbridge.json_tree import (
    Array,
    JsonValue,
    Number,
    Object,
    String,
    Word,
    read_json,
)
from tidings.language.errors import PredicateError
from tidings.language.text import MAX_CONSTANTS

MAX_BRANCHES: Final = 4_096
MAX_COMPILED: Final = 4_096  # characters of a wildcard, or of a text that ignores case
EXACT: Final = 2**53  # up to here every integer is a double

OR: Final = "$or"
# If one of these names follows `$or`, event-ruler takes `$or` as the name of a field.
RESERVED: Final = frozenset({
    "exactly", "equals-ignore-case", "prefix", "suffix", "anything-but", "exists", "wildcard",
    "numeric", "cidr", "html", "=", "<", "<=", ">", ">=", "regex", "not-wildcard",
    "not-equals-ignore-case", "date-after", "date-on-or-after", "date-before",
    "date-on-or-before", "in-date-range", "ip-address-in-range", "ip-address-not-in-range"
})  # fmt: skip


class Choice(NamedTuple):
    """One of the tests of a field; the field must satisfy at least one of them.

    The operand depends on the kind: for `text`, `prefix`, `suffix`, `iequals`, `iprefix` and
    `isuffix` it is a text; for `like` a pattern of ours; for `number` a `Numeral`; for `word` true,
    false or None; for `address` a `Block`; for `range` a `Range`; for `exists` a boolean; for `but`
    a tuple of tests, none of which may hold.
    """

    kind: str
    operand: Any
    json: str  # as it stands in the pattern


class Numeral(NamedTuple):
    """A number in a pattern; it is comparable if a double writes it with the same digits."""

    value: int | float
    comparable: bool


class Range(NamedTuple):
    """The numbers between two bounds; None stands for no bound."""

    low: int | float | None
    above: bool  # whether the lower bound itself is excluded
    high: int | float | None
    below: bool  # whether the upper bound itself is excluded


Branch = dict[str, tuple[Choice, ...]]


def read_event_pattern(text: str) -> list[Branch]:
    """The branches of a pattern; `PredicateError` shows the place of a mistake."""
    tree = read_json(text)
    if not isinstance(tree, Object):
        raise PredicateError(text, tree.position, "an object as the pattern", tree.kind)
    try:
        return _PatternReader(text, alternatives=True).branches(tree)
    except PredicateError as error:
        if OR not in text:
            raise
        try:
            return _PatternReader(text, alternatives=False).branches(tree)
        except PredicateError:
            raise error from None


def comparable(number: int | float) -> bool:
    """Whether event-ruler compares a number: a double must write it with the same digits.

    >>> comparable(2**53 + 1), comparable(2**53 + 2), comparable(0.1)
    (False, True, True)
    """
    if type(number) is float:
        return math.isfinite(number)
    if -EXACT <= number <= EXACT:
        return True
    try:
        return Decimal(repr(float(number))) == number
    except OverflowError:
        return False


class _PatternReader:
    """Reads one pattern; without `alternatives` it takes every `$or` as the name of a field."""

    def __init__(self, text: str, alternatives: bool) -> None:
        self.text = text
        self.alternatives = alternatives
        self.constants = 0

    def branches(self, tree: Object) -> list[Branch]:
        branches: list[Branch] = []
        self.object(tree, "", branches, inside=False)
        return branches

    # Structure

    def object(self, node: Object, path: str, branches: list[Branch], inside: bool) -> None:
        if not node.members:
            self.fail(node, "at least one field in an object", "none")
        for name, at, value in node.members:
            if name == OR and self.alternatives:
                self.objects(value, path, branches)
                continue
            if inside and name in RESERVED:
                self.fail(at, f"a name that is not reserved in an object of {OR}", repr(name))
            if isinstance(value, Object):
                self.object(value, f"{path}{name}.", branches, inside)
            elif isinstance(value, Array):
                tests = self.tests(value)
                branches[:] = branches or [{}]
                for branch in branches:
                    branch[path + name] = tests
            else:
                self.fail(value, "an object or an array of values", value.kind)

    def objects(self, node: JsonValue, path: str, branches: list[Branch]) -> None:
        """The objects of an `$or`: each continues every branch that there was before."""
        if not isinstance(node, Array):
            self.fail(node, f"an array of objects after {OR}", node.kind)
        before = [dict(branch) for branch in branches] or [{}]
        branches.clear()
        for element in node.elements:
            if not isinstance(element, Object):
                self.fail(element, f"an object in the array of {OR}", element.kind)
            more = [dict(branch) for branch in before]
            self.object(element, path, more, inside=True)
            branches += more
            if len(branches) > MAX_BRANCHES:
                self.fail(element, f"at most {MAX_BRANCHES} branches by {OR}", "more")
        if len(node.elements) < 2:
            self.fail(node, f"two objects or more in the array of {OR}", "fewer")

    def tests(self, node: Array) -> tuple[Choice, ...]:
        """The tests of a field."""
        if not node.elements:
            self.fail(node, "at least one value in an array", "none")
        return tuple(map(self.test, node.elements))

    # Tests

    def test(self, node: JsonValue) -> Choice:
        self.count(node)
        match node:
            case String(_, value):
                address = read_address(value)
                if address is not None:  # event-ruler compares addresses, whatever their spelling
                    return Choice("address", single(address), _json(value))
                return Choice("text", value, _json(value))
            case Number(_, written):
                return Choice("number", numeral(written), written)
            case Word(_, value):
                return Choice("word", value, json.dumps(value))
            case Object():
                return self.expression(node)
        self.fail(node, "a string, a number, true, false, null or a match expression", node.kind)

    def expression(self, node: Object) -> Choice:
        """A match expression: an object with one name."""
        name, at, value = self.only(node, "a match expression")
        match name:
            case "exactly":
                text = self.string(value, name)
                return Choice("text", text, f'{{"exactly":{_json(text)}}}')
            case "prefix" | "suffix" if isinstance(value, Object):
                inner, place, operand = self.only(value, f"a {name} expression")
                if inner != "equals-ignore-case":
                    self.fail(place, f"equals-ignore-case inside {name}", repr(inner))
                text = self.string(operand, inner)
                return Choice("i" + name, text, f'{{"{name}":{{"{inner}":{_json(text)}}}}}')
            case "prefix" | "suffix":
                text = self.string(value, name)
                return Choice(name, text, f'{{"{name}":{_json(text)}}}')
            case "equals-ignore-case":
                text = self.string(value, name)
                return Choice("iequals", text, f'{{"{name}":{_json(text)}}}')
            case "wildcard":
                text = self.string(value, name)
                return Choice("like", self.pattern(text, value), f'{{"{name}":{_json(text)}}}')
            case "numeric":
                return self.numeric(value)
            case "exists":
                if not isinstance(value, Word) or value.value is None:
                    self.fail(value, "true or false after exists", value.kind)
                return Choice("exists", value.value, f'{{"exists":{json.dumps(value.value)}}}')
            case "cidr":
                text = self.string(value, name)
                block = read_block(text)
                if isinstance(block, str):
                    self.fail(value, block, repr(text[:60]))
                return Choice("address", block, f'{{"cidr":{_json(text)}}}')
            case "anything-but":
                return self.anything_but(value)
        self.fail(
            at,
            "exactly, prefix, suffix, equals-ignore-case, wildcard, numeric, exists, cidr or "
            "anything-but",
            repr(name[:60]),
        )

    def anything_but(self, node: JsonValue) -> Choice:
        if isinstance(node, Object):
            name, at, value = self.only(node, "an anything-but expression")
            kind = _BUT.get(name)
            if kind is None:
                self.fail(at, f"one of {', '.join(_BUT)} inside anything-but", repr(name[:60]))
            members = value.elements if isinstance(value, Array) else (value,)
            tests = tuple(self.member(member, name, kind) for member in members)
            head, tail = f'{{"anything-but":{{"{name}":', "}}"
        else:
            members = node.elements if isinstance(node, Array) else (node,)
            tests = tuple(map(self.plain_member, members))
            head, tail = '{"anything-but":', "}"
            if len({test.kind for test in tests}) > 1:
                self.fail(node, "only strings or only numbers after anything-but", "both")
        if not tests:
            self.fail(node, "at least one value after anything-but", "none")
        return Choice("but", tests, f"{head}[{','.join(test.json for test in tests)}]{tail}")

    def member(self, node: JsonValue, name: str, kind: str) -> Choice:
        """One of the operands of an expression inside anything-but."""
        self.count(node)
        text = self.string(node, name)
        if not text and kind in ("prefix", "suffix"):
            self.fail(node, f"a {name} that is not empty inside anything-but", "an empty one")
        return Choice(kind, self.pattern(text, node) if kind == "like" else text, _json(text))

    def plain_member(self, node: JsonValue) -> Choice:
        """One of the values after anything-but."""
        self.count(node)
        match node:
            case String(_, value):
                return Choice("text", value, _json(value))
            case Number():
                return Choice("number", Numeral(self.number(node), True), node.text)
        self.fail(node, "strings or numbers after anything-but", node.kind)

    def numeric(self, node: JsonValue) -> Choice:
        """A number after `=`, or a range: a lower bound, an upper bound, or both."""
        if not isinstance(node, Array):
            self.fail(node, "an array after numeric", node.kind)
        parts = list(node.elements)
        bounds: list[tuple[str, int | float, JsonValue]] = []
        while parts:
            operator = parts.pop(0)
            if not isinstance(operator, String):
                self.fail(operator, "an operator (= < <= > >=)", operator.kind)
            allowed = ("<", "<=") if bounds else ("=", "<", "<=", ">", ">=")
            if operator.value not in allowed:
                shown = repr(operator.value[:60])
                self.fail(operator, f"an operator ({' '.join(allowed)})", shown)
            if not parts:
                self.fail(node.end - 1, f"a number after {operator.value}")
            value = parts.pop(0)
            bounds.append((operator.value, self.number(value), operator))
            if parts and (len(bounds) == 2 or operator.value not in (">", ">=")):
                self.fail(parts[0], "the end of the range", parts[0].kind)
        if not bounds:
            self.fail(node, "an operator and a number in numeric", "none")
        written = ",".join(f'"{operator}",{value!r}' for operator, value, _ in bounds)
        text = f'{{"numeric":[{written}]}}'
        if bounds[0][0] == "=":
            return Choice("number", Numeral(bounds[0][1], True), text)
        found = Range(None, False, None, False)
        for operator_text, bound, _ in bounds:
            if operator_text[0] == ">":
                found = found._replace(low=bound, above=operator_text == ">")
            else:
                found = found._replace(high=bound, below=operator_text == "<")
        if found.low is not None and found.high is not None and found.low >= found.high:
            self.fail(bounds[1][2], "an upper bound above the lower one", repr(found.high))
        return Choice("range", found, text)

    # Values

    def only(self, node: Object, what: str) -> tuple[str, int, JsonValue]:
        """The only member of an object."""
        if not node.members:
            self.fail(node, f"a name in {what}", "none")
        if len(node.members) > 1:
            self.fail(node.members[1][1], f"one name in {what}", "a second")
        return node.members[0]

    def string(self, node: JsonValue, name: str) -> str:
        if not isinstance(node, String):
            self.fail(node, f"a string after {name}", node.kind)
        if len(node.value) > MAX_COMPILED and name in ("wildcard", "equals-ignore-case"):
            self.fail(node, f"at most {MAX_COMPILED} characters after {name}", "more")
        return node.value

    def number(self, node: JsonValue) -> int | float:
        """The value of a number, if event-ruler can compare it."""
        if not isinstance(node, Number):
            self.fail(node, "a number", node.kind)
        found = numeral(node.text)
        if not found.comparable:
            self.fail(node, "a number that a double writes with the same digits", node.text[:60])
        return found.value

    def pattern(self, text: str, node: JsonValue) -> str:
        """A pattern of ours from a wildcard, in which a backslash escapes `*` and itself."""
        result = []
        characters = iter(text)
        previous = ""
        for character in characters:
            if character == "*":
                if previous == "*":
                    self.fail(node, "no two * side by side in a wildcard", repr(text[:60]))
                result.append("%")
            elif character == "\\":
                following = next(characters, "")
                if following not in ("*", "\\"):
                    self.fail(node, "* or a backslash after a backslash", repr(text[:60]))
                result.append(wildcard.escape(following))
            else:
                result.append(wildcard.escape(character))
            previous = character
        return "".join(result)

    def count(self, node: JsonValue) -> None:
        self.constants += 1
        if self.constants > MAX_CONSTANTS:
            self.fail(node, f"at most {MAX_CONSTANTS} values in one pattern", "one more")

    def fail(self, place: JsonValue | int, expected: str, found: str | None = None) -> NoReturn:
        position = place if isinstance(place, int) else place.position
        raise PredicateError(self.text, position, expected, found)


_BUT: Final = {
    "prefix": "prefix",
    "suffix": "suffix",
    "equals-ignore-case": "iequals",
    "wildcard": "like",
}


MAX_DIGITS: Final = 4_300  # of an integer that Python reads by default


def numeral(written: str) -> Numeral:
    """The value of a written number, and whether event-ruler can compare it.

    An integer stays one if it is within 2^53 or not comparable; any other number is a double.
    """
    exact = Decimal(written)
    near = float(written)
    fits = math.isfinite(near) and Decimal(repr(near)) == exact
    whole = written.lstrip("-").isdigit() and len(written) <= MAX_DIGITS
    if whole and (not fits or abs(near) <= EXACT):
        return Numeral(int(written), fits)
    return Numeral(near, fits)


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
