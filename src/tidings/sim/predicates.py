"""Predicates over the whole language and events that hit them, drawn from a seed.

A predicate is a small tree of its own. It writes its text, and decides by itself whether an event
matches, as `docs/language.md` says. This file shares no code with the language room, so whoever
judges by it finds mistakes of the parser, of the normal form and of every matcher. Predicates are
broad and narrow, contradictory, long, and some have the shapes that are dear to normal forms.
Many events are drawn towards a predicate, so that about four in ten match it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, Final

Event = dict[str, Any]
Scalar = str | int | float | bool

NAMES: Final = ("kind", "price", "name", "site", "tags", "flag", "host.name", "a.b", "not-before")
ODD_NAMES: Final = ("and", "é", "in", 'say "hi"', "@at", "exists")  # they stand in quotes
LETTERS: Final = "abcAB"
ODD_LETTERS: Final = "kKſßσςΣé%_'-😀"
NUMBERS: Final = (0, 1, 2, 3, 5, 10, -1, 0.5, 2.5, 3.0, -0.0, 1e-05)
ODD_NUMBERS: Final = (2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 1e300, 2.0**63)
TYPES: Final = {
    "int": (int,),
    "real": (float,),
    "number": (int, float),
    "string": (str,),
    "bool": (bool,),
}
ORDERINGS: Final = ("<", "<=", ">", ">=")
OF_TEXT: Final = ("prefix", "suffix", "contains", "like", "matches")
IGNORE_CASE: Final = ("=", "!=", "in", *OF_TEXT)
AIMED: Final = 0.4  # the share of events that are drawn towards a predicate
ODD: Final = 0.05  # the share of odd names, letters and numbers


class Pattern:
    """A pattern as pieces: each a set of characters (None: any) and how often it may come."""

    def __init__(self, pieces: Sequence[tuple[str | None, str]], ends: tuple[bool, bool]) -> None:
        self.pieces = tuple(pieces)  # characters, and one of "", "?", "*", "+"
        self.ends = ends  # whether it is held to the beginning, to the end

    def found(self, text: str, ignore_case: bool) -> bool:
        """Whether it is found in a text."""
        if ignore_case:
            text = folded(text)
        starts = range(1 if self.ends[0] else len(text) + 1)
        return any(self._fits(text, start, 0, ignore_case) for start in starts)

    def _fits(self, text: str, place: int, piece: int, ignore_case: bool) -> bool:
        if piece == len(self.pieces):
            return place == len(text) or not self.ends[1]
        letters, often = self.pieces[piece]
        if ignore_case and letters is not None:
            letters = folded(letters)
        if often in ("?", "*") and self._fits(text, place, piece + 1, ignore_case):
            return True
        while place < len(text) and (letters is None or text[place] in letters):
            place += 1
            if self._fits(text, place, piece + 1, ignore_case):
                return True
            if often in ("", "?"):
                return False
        return False

    def filled(self, chance: Random) -> str:
        """A text in which it is found."""
        found = "" if self.ends[0] else draw_text(chance)
        for letters, often in self.pieces:
            least, most = {"": (1, 1), "?": (0, 1), "*": (0, 2), "+": (1, 2)}[often]
            for _ in range(chance.randint(least, most)):
                found += chance.choice(letters or LETTERS)
        return found if self.ends[1] else found + draw_text(chance)


class Like(Pattern):
    """A pattern of `like`: its wildcards are an any-piece, once or any number of times."""

    def __init__(self, pieces: Sequence[tuple[str | None, str]]) -> None:
        super().__init__(pieces, (True, True))

    def __str__(self) -> str:
        wild = any(letters in ("%", "_", "!") for letters, _ in self.pieces)
        text = ""
        for letters, often in self.pieces:
            if letters is None:
                text += "%" if often else "_"
            else:
                text += f"!{letters}" if wild and letters in "%_!" else letters
        return quoted(text) + (" escape '!'" if wild else "")


class Expression(Pattern):
    """A regular expression."""

    def __str__(self) -> str:
        text = "^" if self.ends[0] else ""
        for letters, often in self.pieces:
            if letters is None:
                text += "."
            else:
                text += letters if len(letters) == 1 else f"[{letters}]"
            text += often
        return quoted(text + ("$" if self.ends[1] else ""))


Operand = Scalar | tuple[Scalar, ...] | Pattern | None


@dataclass(frozen=True)
class Condition:
    """One test on one attribute."""

    name: str
    type: str  # one of TYPES, or empty
    operator: str
    ignore_case: bool
    operand: Operand

    def holds(self, event: Event) -> bool:
        """Whether some value of the attribute meets it."""
        found = values(event, self.name)
        return bool(found) and any(map(self._meets, found))

    def _meets(self, value: Scalar) -> bool:
        if self.type and type(value) not in TYPES[self.type]:
            return False
        operand, operator = self.operand, self.operator
        if operator == "exists":
            return True
        if operator == "in":
            assert isinstance(operand, tuple)
            return any(self._equals(value, one) for one in operand)
        if operator == "between":
            assert isinstance(operand, tuple)
            low, high = operand
            return _compares(value, low, ">=") and _compares(value, high, "<=")
        if operator == "=":
            return self._equals(value, operand)
        if operator == "!=":
            alike = _class(value) == _class(operand) and value == value
            return alike and not self._equals(value, operand)
        if operator in ORDERINGS:
            return _compares(value, operand, operator)
        if type(value) is not str:
            return False
        if isinstance(operand, Pattern):
            return operand.found(value, self.ignore_case)
        assert isinstance(operand, str)
        if self.ignore_case:
            value, operand = folded(value), folded(operand)
        if operator == "prefix":
            return value[: len(operand)] == operand
        if operator == "suffix":
            return value[len(value) - len(operand) :] == operand and len(operand) <= len(value)
        if operator == "contains":
            return operand in value
        raise ValueError(f"no operator: {operator}")

    def _equals(self, value: Scalar, operand: Operand) -> bool:
        if _class(value) != _class(operand):
            return False
        if self.ignore_case:
            return folded(str(value)) == folded(str(operand))
        return value == operand

    def text(self, negated: bool = False) -> str:
        """Its text, or that of its negation."""
        name = _name_text(self.name)
        typed = f"{self.type} {name}" if self.type else name
        operator = "i" + self.operator if self.ignore_case else self.operator
        if self.operator == "exists":
            if negated:
                return f"{typed} is null"
            return f"exists {typed}" if len(name) % 2 else f"{typed} is not null"
        if operator.strip("i") in ("=", "!=", *ORDERINGS):
            found = f"{typed} {operator} {literal(self.operand)}"
            return f"not {found}" if negated else found
        word = f"not {operator}" if negated else operator
        if self.operator == "between":
            assert isinstance(self.operand, tuple)
            return f"{typed} {word} {literal(self.operand[0])} and {literal(self.operand[1])}"
        if self.operator == "in":
            assert isinstance(self.operand, tuple)
            return f"{typed} {word} ({', '.join(map(literal, self.operand))})"
        return f"{typed} {word} {literal(self.operand)}"

    def __str__(self) -> str:
        return self.text()

    def value(self, chance: Random) -> Scalar:
        """A value that meets it, or nearly."""
        operand = self.operand
        if self.operator in ("in", "between"):
            assert isinstance(operand, tuple)
            operand = chance.choice(operand)
        found: Scalar
        if isinstance(operand, Pattern):
            found = operand.filled(chance)
        elif operand is None:
            return _value_of_type(chance, self.type)
        elif isinstance(operand, bool):
            found = operand if self.operator != "!=" else not operand
        elif isinstance(operand, str):
            found = _near_text(chance, self.operator, operand)
        else:
            assert not isinstance(operand, tuple)
            found = _near_number(chance, self.operator, operand)
            if type(found) is int and not -(2**63) <= found < 2**63:
                found = operand
        if self.ignore_case and isinstance(found, str):
            found = "".join(_other_case(c) if chance.random() < 0.5 else c for c in found)
        if self.type == "int" and isinstance(found, float) and abs(found) < 2**62:
            found = int(found)
        elif self.type == "real" and type(found) is int:
            found = float(found)
        return found


@dataclass(frozen=True)
class Negation:
    """Holds where its part does not."""

    part: Predicate

    def holds(self, event: Event) -> bool:
        """Whether an event matches."""
        return not self.part.holds(event)

    def __str__(self) -> str:
        if isinstance(self.part, Condition):
            return self.part.text(negated=True)
        return f"not {_nested(self.part)}"


@dataclass(frozen=True)
class Together:
    """Parts joined by `and` or by `or`."""

    word: str
    parts: tuple[Predicate, ...]

    def holds(self, event: Event) -> bool:
        """Whether an event matches."""
        decisive = self.word == "or"
        for part in self.parts:
            if part.holds(event) is decisive:
                return decisive
        return not decisive

    def __str__(self) -> str:
        return f" {self.word} ".join(
            _nested(part) if self.word == "and" or isinstance(part, Together) else str(part)
            for part in self.parts
        )


@dataclass(frozen=True)
class Always:
    """`true` or `false`."""

    value: bool

    def holds(self, event: Event) -> bool:
        """Whether an event matches."""
        return self.value

    def __str__(self) -> str:
        return "true" if self.value else "false"


Predicate = Condition | Negation | Together | Always


# Events


def values(event: Any, name: str) -> list[Scalar]:
    """The values of an attribute, on every path that leads to it."""
    if isinstance(event, dict):
        value = event.get(name)
        found = [] if value is None else _scalars(value)
        for key, value in event.items() if "." in name else ():
            if name.startswith(f"{key}."):
                found += values(value, name[len(key) + 1 :])
        return found
    if isinstance(event, list | tuple):
        return [value for item in event for value in values(item, name)]
    return []


def _scalars(value: Any) -> list[Scalar]:
    if isinstance(value, list | tuple):
        return [scalar for item in value for scalar in _scalars(item)]
    return [] if value is None or isinstance(value, dict) else [value]


def attributes(event: Any, prefix: str = "") -> dict[str, list[Scalar]]:
    """All attributes of an event that are present, with their values."""
    found: dict[str, list[Scalar]] = {}
    for record in event if isinstance(event, list) else [event]:
        if isinstance(record, list):
            inner = attributes(record, prefix)
            for name, some in inner.items():
                found.setdefault(name, []).extend(some)
        elif isinstance(record, dict):
            for key, value in record.items():
                own = _scalars(value)
                if own:
                    found.setdefault(prefix + key, []).extend(own)
                for name, some in attributes(value, f"{prefix}{key}.").items():
                    found.setdefault(name, []).extend(some)
    return found


def permits(predicate: Predicate, event: Event) -> bool:
    """Whether an event matches whichever one value of each attribute is kept."""
    present = attributes(event)
    if not predicate.holds(event):
        return False
    choices = product(*present.values())
    return all(predicate.holds(dict(zip(present, one, strict=True))) for one in choices)


def draw_event(chance: Random, aims: Sequence[Predicate], huge: bool = False) -> Event:
    """An event, often drawn towards one of some predicates; `huge` allows integers over 64 bits."""
    event: Event = {}
    if aims and chance.random() < AIMED:
        _aim(chance, chance.choice(aims), True, event)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        _put(chance, event, draw_name(chance), _anything(chance, huge))
    if event and chance.random() < 0.15:
        event.pop(chance.choice(sorted(event)))
    return event


def _aim(chance: Random, predicate: Predicate, wanted: bool, event: Event) -> None:
    """Add to an event what makes it match, or not match."""
    if isinstance(predicate, Condition):
        if wanted:
            _put(chance, event, predicate.name, predicate.value(chance))
        elif chance.random() < 0.5:
            _put(chance, event, predicate.name, _anything(chance, False))
    elif isinstance(predicate, Negation):
        _aim(chance, predicate.part, not wanted, event)
    elif isinstance(predicate, Together):
        parts = predicate.parts
        if (predicate.word == "and") != wanted:
            parts = (chance.choice(parts),)
        for part in parts:
            _aim(chance, part, wanted, event)


def _put(chance: Random, event: Event, name: str, value: Any) -> None:
    """Give an attribute one more value, on one of the paths that lead to it."""
    first, dot, rest = name.partition(".")
    if dot and chance.random() < 0.7:
        record = event.get(first)
        if isinstance(record, dict):
            _put(chance, record, rest, value)
            return
        if record is None:
            shapes = ({rest: value}, [{rest: value}], [{rest: None}, {rest: value}])
            event[first] = chance.choice(shapes)
            return
    former = event.get(name)
    if former is None or chance.random() < 0.3:
        event[name] = value
    elif isinstance(former, list):
        former.append(value)
    else:
        event[name] = [former, value]


def _anything(chance: Random, huge: bool) -> Any:
    kind = chance.random()
    if kind < 0.08:
        return chance.choice((None, [], [None], {}, float("nan"), float("inf")))
    if huge and kind < 0.1:
        return chance.choice((2**63, -(2**70)))
    if kind < 0.2:
        return [_value_of_type(chance, "") for _ in range(chance.randint(1, 3))]
    return _value_of_type(chance, "")


# Drawing predicates


def draw_predicate(chance: Random, size: str = "usual") -> Predicate:
    """A predicate: `usual` ones are short, `long` ones have many constants.

    `hostile` ones have normal forms that are far longer than their text.
    """
    if size == "usual":
        return _draw(chance, chance.choice((0, 1, 1, 2, 2, 3)))
    if size == "long":
        return _draw_long(chance)
    if size == "hostile":
        return _draw_hostile(chance)
    raise ValueError(f"size: expected usual, long or hostile, found {size!r}")


def _draw(chance: Random, depth: int) -> Predicate:
    kind = chance.random()
    if depth == 0 or kind < 0.25:
        if kind < 0.01:
            return Always(chance.random() < 0.7)
        return draw_condition(chance)
    if kind < 0.4:
        return Negation(_draw(chance, depth - 1))
    parts = tuple(_draw(chance, depth - 1) for _ in range(chance.randint(2, 3)))
    return Together("and" if kind < 0.7 else "or", parts)


def _draw_long(chance: Random) -> Predicate:
    count = chance.choice((10, 20, 60))
    name = draw_name(chance)
    if chance.random() < 0.5:
        operands: tuple[Scalar, ...] = tuple(range(0, 3 * count, 3))
        if chance.random() < 0.5:
            operands = tuple(f"{draw_text(chance)}{n}" for n in range(count))
        found: Predicate = Condition(name, "", "in", False, operands)
    else:
        found = Together("or", tuple(draw_condition(chance) for _ in range(count // 4)))
    if chance.random() < 0.5:
        return Together("and", (found, draw_condition(chance)))
    return Negation(found) if chance.random() < 0.2 else found


def _draw_hostile(chance: Random) -> Predicate:
    count = chance.randint(3, 6)
    shape = chance.randrange(4)
    if shape == 0:  # two to the power of `count` filters
        count *= chance.choice((1, 3))
        return Together(
            "and",
            tuple(
                Together(
                    "or",
                    (
                        Condition(f"a{n}", "", "=", False, 1),
                        Condition(f"b{n}", "", ">", False, 0),
                    ),
                )
                for n in range(count)
            ),
        )
    if shape == 1:  # every filter is compared with every other
        return Together(
            "or",
            tuple(
                Together(
                    "and",
                    (
                        Condition("kind", "", ">", False, n),
                        Condition("price", "", "<", False, 3 * count - n),
                    ),
                )
                for n in range(3 * count)
            ),
        )
    if shape == 2:  # patterns that overlap
        pieces = [
            ((None, "*"), (c, ""), (None, "*"), (d, ""), (None, "*"))
            for c in "abcAB"
            for d in "abAB"
        ]
        return Together(
            "or",
            tuple(
                Condition("name", "", "like", True, Like(chance.choice(pieces)))
                for _ in range(2 * count)
            ),
        )
    found: Predicate = draw_condition(chance)  # nested as deep as is allowed
    for _ in range(9 * count):
        found = Negation(Together("and", (found, Always(True))))
    return found


def draw_name(chance: Random) -> str:
    """The name of an attribute."""
    return chance.choice(ODD_NAMES if chance.random() < ODD else NAMES)


def draw_text(chance: Random) -> str:
    """A short text."""
    letters = ODD_LETTERS if chance.random() < ODD else LETTERS
    return "".join(chance.choice(letters) for _ in range(chance.choice((0, 1, 1, 2, 2, 3))))


def _draw_number(chance: Random) -> int | float:
    return chance.choice(ODD_NUMBERS if chance.random() < ODD else NUMBERS)


def _value_of_type(chance: Random, type: str) -> Scalar:
    if not type:
        type = chance.choice(("int", "int", "real", "string", "string", "bool"))
    if type == "bool":
        return chance.random() < 0.5
    if type == "string":
        return draw_text(chance)
    number = _draw_number(chance)
    if type == "real":
        return float(number)
    return int(number) if type == "int" and abs(number) < 2**63 else number


def draw_condition(chance: Random) -> Condition:
    """One test on one attribute."""
    name = draw_name(chance)
    kind = chance.random()
    if kind < 0.1:
        return Condition(name, chance.choice(("", "", *TYPES)), "exists", False, None)
    if kind < 0.2:
        operands = tuple(_value_of_type(chance, "") for _ in range(chance.randint(1, 4)))
        if all(isinstance(one, str) for one in operands):
            return Condition(name, "", "in", chance.random() < 0.5, operands)
        return Condition(name, "", "in", False, operands)
    if kind < 0.6:
        return _draw_of_text(chance, name)
    if kind < 0.65:
        return Condition(name, "", chance.choice(("=", "!=")), False, chance.random() < 0.5)
    type = chance.choice(("", "", "", "int", "real", "number"))
    if chance.random() < 0.2:
        bounds = _draw_number(chance), _draw_number(chance)
        return Condition(name, type, "between", False, bounds)
    operator = chance.choice(("=", "!=", *ORDERINGS))
    return Condition(name, type, operator, False, _draw_number(chance))


def _draw_of_text(chance: Random, name: str) -> Condition:
    operator = chance.choice(("=", "!=", "between", *ORDERINGS, *OF_TEXT, *OF_TEXT))
    ignore_case = operator in IGNORE_CASE and chance.random() < 0.3
    type = "string" if chance.random() < 0.1 else ""
    operand: Operand
    if operator == "between":
        operand = draw_text(chance), draw_text(chance)
    elif operator == "like":
        wild: list[tuple[str | None, str]] = [(None, "*"), (None, "")]
        plain: list[tuple[str | None, str]] = [(letter, "") for letter in draw_text(chance)]
        pieces = [chance.choice(wild + plain) for _ in range(chance.randint(0, 4))]
        operand = Like(pieces)
    elif operator == "matches":
        sets = (*LETTERS, None, "ab", "Ac")
        drawn = [
            (chance.choice(sets), chance.choice(("", "", "?", "*", "+")))
            for _ in range(chance.randint(1, 4))
        ]
        operand = Expression(drawn, (chance.random() < 0.5, chance.random() < 0.5))
    else:
        operand = draw_text(chance)
    return Condition(name, type, operator, ignore_case, operand)


# Texts and values


def folded(text: str) -> str:
    """A text without its case, character by character (simple case folding)."""
    return "".join(_folded_letter(letter) for letter in text)


def _folded_letter(letter: str) -> str:
    for form in (letter.casefold(), letter.lower()):
        if len(form) == 1:
            return form
    return letter


def _other_case(letter: str) -> str:
    other = letter.swapcase()
    return other if _folded_letter(letter) == folded(other) and len(other) == 1 else letter


def _class(value: object) -> str:
    """What a value may be compared with."""
    if isinstance(value, bool):
        return "bool"
    return "text" if isinstance(value, str) else "number"


def _compares(value: Any, operand: Any, operator: str) -> bool:
    if _class(value) != _class(operand) or isinstance(value, bool):
        return False
    if operator == "<":
        return bool(value < operand)
    if operator == "<=":
        return bool(value <= operand)
    if operator == ">":
        return bool(value > operand)
    return bool(value >= operand)


def _near_number(chance: Random, operator: str, operand: int | float) -> int | float:
    step = chance.choice((1, 0.5, 2))
    if operator in ("<", "!="):
        return operand - step
    if operator == ">":
        return operand + step
    return chance.choice((operand, operand, operand - step if operator == "<=" else operand))


def _near_text(chance: Random, operator: str, operand: str) -> str:
    more = draw_text(chance)
    match operator:
        case "prefix" | ">" | ">=" | "!=":
            return operand + more
        case "suffix":
            return more + operand
        case "contains":
            return more + operand + draw_text(chance)
        case "<" | "<=":
            return operand[:-1]
        case _:
            return operand


def quoted(text: str) -> str:
    """A text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def literal(value: object) -> str:
    """A constant as the language writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else str(value)


def _name_text(name: str) -> str:
    if name in ODD_NAMES:
        return '"' + name.replace('"', '""') + '"'
    return name


def _nested(part: Predicate) -> str:
    return f"({part})" if isinstance(part, Together) else str(part)
