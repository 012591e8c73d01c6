"""What event patterns mean, evaluated directly on one event as it came: for residuals.

`values_of` follows a field's dotted name through records and lists, and finds its values, each with
the array elements that it lies in. Two fields satisfy a branch together only if they do not lie in
different elements of one array (event-ruler calls this array consistency). Fields go in the order
of their names. `exists: false` holds if the field is absent from the elements that the fields
before it have chosen.

Arrays nest, so at any time the elements that still matter belong to one chain of arrays. The search
(`_consistent`) forgets the elements of arrays that no later field lies in, which keeps the work
near the size of the event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tidings.language import wildcard
from tidings.language.constraint import Check
from tidings.language.dialects.eventbridge.syntax import Branch, Choice, Range, comparable
from tidings.language.values import MAX_EVENT_DEPTH, SCALARS, Scalar, elements_of, scalar

ValueTest = Callable[[Scalar | None], bool]
Path = tuple[str | int, ...]  # keys of records and indices of elements, from the event inwards
Elements = dict[Path, int]  # the index of an element, by the path of its array
NOWHERE: Final[Elements] = {}


class CompiledField(NamedTuple):
    """A field of a branch, compiled."""

    name: str
    holds: ValueTest
    absent: bool  # whether the field may also be absent


def compile_branches(branches: list[Branch]) -> Check:
    """A function that says whether an event satisfies any of the branches."""
    compiled = [_compile(branch) for branch in branches]
    if len(compiled) == 1:
        return compiled[0]
    return lambda event: any(holds(event) for holds in compiled)


def _compile(branch: Branch) -> Check:
    fields = [_field(name, choices) for name, choices in sorted(branch.items())]
    if len(fields) == 1:
        ((name, holds, absent),) = fields

        def only(event: Mapping[str, Any]) -> bool:
            values = values_of(event, name)
            return any(holds(value) for value, _ in values) or (absent and not values)

        return only

    def together(event: Mapping[str, Any]) -> bool:
        found: list[Found] = []
        plain = True  # no field so far lies in an array, so the values found are consistent
        for name, holds, absent in fields:
            values = values_of(event, name)
            kept = [elements for value, elements in values if holds(value)]
            if not kept and not absent:
                return False
            plain = plain and not any(elements for _, elements in values)
            if plain and not kept and values:
                return False
            found.append(Found(kept, [elements for _, elements in values] if absent else None))
        return plain or _consistent(found)

    return together


def _field(name: str, choices: tuple[Choice, ...]) -> CompiledField:
    tests = [value_test(c) for c in choices if c.kind != "exists" or c.operand]
    absent = any(c.kind == "exists" and not c.operand for c in choices)
    if len(tests) == 1:
        return CompiledField(name, tests[0], absent)
    return CompiledField(name, lambda value: any(test(value) for test in tests), absent)


# Values


def values_of(event: Mapping[str, Any], name: str) -> list[tuple[Scalar | None, Elements]]:
    """The values of a field, including nulls, each with the array elements that it lies in."""
    found: list[tuple[Scalar | None, Elements]] = []
    _follow(event, name, (), NOWHERE, found)
    return found


def _follow(
    record: Mapping[str, Any],
    rest: str,
    path: Path,
    within: Elements,
    found: list[tuple[Scalar | None, Elements]],
    around: tuple[int, ...] = (),
) -> None:
    """Collect the values under `rest`, a suffix of the field's name.

    `around` are the identities of the records and lists that the record lies in.
    """
    if id(record) in around or len(around) > MAX_EVENT_DEPTH:
        return
    around = (*around, id(record))
    dot = rest.find(".")
    while dot >= 0:
        inner = record.get(rest[:dot])
        if inner is not None and type(inner) not in SCALARS:
            _open(inner, rest[dot + 1 :], (*path, rest[:dot]), within, found, around)
        dot = rest.find(".", dot + 1)
    if rest in record:
        value = record[rest]
        if value is None or (type(value) in SCALARS and type(value) is not str):
            found.append((value, within))
        else:
            _open(value, None, (*path, rest), within, found, around)


def _open(
    value: Any,
    rest: str | None,
    path: Path,
    within: Elements,
    found: list[tuple[Scalar | None, Elements]],
    around: tuple[int, ...],
) -> None:
    """Follow the rest of a name into a record or a list; if `rest` is None, collect the values."""
    if isinstance(value, dict):
        if rest is not None:
            _follow(value, rest, path, within, found, around)
        return
    listed = None if value is None else elements_of(value)
    if listed is None:
        held = None if value is None else scalar(value)
        if rest is None and (value is None or held is not None):
            found.append((held, within))
    elif id(value) not in around and len(around) <= MAX_EVENT_DEPTH:
        for index, element in enumerate(listed):
            # Only elements that hold others can be inconsistent with each other.
            apart = isinstance(element, Mapping | list | tuple | set | frozenset)
            inside = {**within, path: index} if apart else within
            _open(element, rest, (*path, index), inside, found, (*around, id(value)))


# Fields together


class Found(NamedTuple):
    """The elements in which a field satisfies its tests, and in which it is present at all."""

    kept: list[Elements]
    present: list[Elements] | None  # None unless the field may also be absent


def _consistent(found: list[Found]) -> bool:
    """Whether there is a choice of one value a field, no two in different elements of one array.

    A state holds the elements chosen so far of the arrays that later fields lie in.
    """
    later: list[set[Path]] = [set()]  # the arrays of the last field, of the last two, …
    for kept, present in reversed(found):
        later.append(later[-1].union(*kept, *(present or ())))
    states: dict[frozenset[tuple[Path, int]], Elements] = {frozenset(): {}}
    for (kept, present), matters in zip(found, later[-2::-1], strict=True):
        holding = _Places(kept)
        anywhere = None if present is None else _Places(present)
        following: dict[frozenset[tuple[Path, int]], Elements] = {}
        for state in states.values():
            reached = [{**state, **elements} for elements in holding.beside(state)]
            if anywhere is not None and next(anywhere.beside(state), None) is None:
                reached.append(state)
            for elements in reached:
                left = {array: at for array, at in elements.items() if array in matters}
                following.setdefault(frozenset(left.items()), left)
        states = following
        if not states:
            return False
    return True


class _Places:
    """The places of a field, indexed by array element."""

    def __init__(self, places: list[Elements]) -> None:
        distinct = {frozenset(elements.items()): elements for elements in places}
        self.places = list(distinct.values())
        self.filed: dict[tuple[Path, int], list[Elements]] = {}
        for elements in self.places:
            for entry in elements.items():
                self.filed.setdefault(entry, []).append(elements)
        self.inside = Counter(array for elements in self.places for array in elements)
        self.outside: dict[Path, list[Elements]] = {}  # by array: the places outside it

    def beside(self, state: Elements) -> Iterator[Elements]:
        """The places consistent with a state: in no other element of an array that it is in."""
        few = self.places
        count = len(few)
        best: tuple[Path, int] | None = None
        for entry in state.items():
            inside = self.inside[entry[0]]
            if inside:
                size = len(self.filed.get(entry, ())) + len(self.places) - inside
                if size < count:
                    count, best = size, entry
        if best is not None:
            few = self.filed.get(best, []) + self._without(best[0])
        for elements in few:
            if all(state.get(array, at) == at for array, at in elements.items()):
                yield elements

    def _without(self, array: Path) -> list[Elements]:
        if self.inside[array] == len(self.places):
            return []
        if array not in self.outside:
            self.outside[array] = [e for e in self.places if array not in e]
        return self.outside[array]


# One value


def value_test(choice: Choice) -> ValueTest:
    """Whether a value, or null, satisfies one of the tests of a field."""
    operand = choice.operand
    match choice.kind:
        case "text" | "word":
            kind = type(operand)
            return lambda value: type(value) is kind and value == operand
        case "number":
            return _equals(*operand)
        case "prefix":
            return lambda value: type(value) is str and value.startswith(operand)
        case "suffix":
            return lambda value: type(value) is str and value.endswith(operand)
        case "like":
            fits = wildcard.matcher(operand, ignore_case=False)
            return lambda value: type(value) is str and fits(value)
        case "iequals" | "iprefix" | "isuffix":
            found = _caseless(operand, choice.kind)
            return lambda value: type(value) is str and found(value)
        case "address":
            return lambda value: type(value) is str and operand.holds(value)
        case "range":
            return _within(operand)
        case "exists":
            return lambda _: True
        case "but":
            tests = [value_test(test) for test in operand]
            return lambda value: not any(test(value) for test in tests)
        case kind:
            raise AssertionError(f"{kind!r} is not a kind of test")


def _equals(wanted: int | float, compared: bool) -> ValueTest:
    if not compared:  # event-ruler compares such a number by its digits
        return lambda value: type(value) in (int, float) and value == wanted
    near = float(wanted)
    return lambda value: (
        (type(value) is int or type(value) is float) and comparable(value) and float(value) == near
    )


def _within(bounds: Range) -> ValueTest:
    low, above, high, below = bounds

    def holds(value: Any) -> bool:
        if (type(value) is not int and type(value) is not float) or not comparable(value):
            return False
        near = float(value)
        if low is not None and (near < low or (above and near == low)):
            return False
        return high is None or near < high or (not below and near == high)

    return holds


def _caseless(text: str, kind: str) -> Callable[[str], bool]:
    """A character matches its lower and its upper case, which may be several characters."""
    alternatives = []
    for character in text:
        if ord(character) > 0xFFFF:  # for Java two characters, which have no case
            alternatives.append(_quoted(character))
        else:
            both = sorted({character.lower(), character.upper()})
            alternatives.append(f"(?:{'|'.join(map(_quoted, both))})")
    start = "" if kind == "isuffix" else "\\A"
    end = "" if kind == "iprefix" else "\\z"
    return wildcard.regex(f"(?s){start}{''.join(alternatives)}{end}", ignore_case=False)


def _quoted(text: str) -> str:
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)
