"""Explanations: why an event does or does not match a predicate, in words.

The verdict on every constraint comes from `constraint.check`, the same function that matching uses;
this file only finds the words for it. A phrase states a fact about the event (`severity is 1, not
above 2`) and leaves out what follows from it, so a constraint and its negation share their phrases.

An `Explanation` keeps everything, however large; only its text (`str`) is cut to the bounds below.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from unicodedata import category

from tidings.language.constraint import (
    ACCEPTS,
    MINDING_CASE,
    Constraint,
    check,
    residual,
    value_test,
)
from tidings.language.errors import NormalFormError
from tidings.language.event import Event, lookup, read
from tidings.language.expression import And, Expression, Not, Or
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.language.text import write_constraint, write_value
from tidings.language.values import Scalar, elements_of, opened, scalar

MAX_VALUE_SHOWN: Final = 60  # characters of one value
MAX_VALUES_SHOWN: Final = 5  # values of one list
MAX_TEXT_SHOWN: Final = 200  # characters of a predicate, filter or constraint
MAX_LINES_SHOWN: Final = 200  # of the tree
MAX_FILTERS_SHOWN: Final = 20
MAX_MISSING_SHOWN: Final = 20  # constraints that the nearest filter lacks
MAX_NAMES_COMPARED: Final = 2_000  # attributes of the event looked at for one spelled alike
MAX_COMPARISONS: Final = 100  # absent attributes for which that is done


@dataclass(frozen=True, slots=True)
class Finding:
    """One constraint and the event: whether it holds, and why."""

    constraint: Constraint
    holds: bool
    why: str

    def as_dict(self) -> dict[str, Any]:
        """`kind` ("constraint"), `text`, `name`, `holds`, `why`."""
        return {
            "kind": "constraint",
            "text": write_constraint(self.constraint),
            "name": self.constraint.name,
            "holds": self.holds,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Parts under `and`, `or` or `not`, in the order written; `not` has one part."""

    kind: str  # "and", "or", "not"
    holds: bool
    parts: tuple[Group | Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """`kind` ("and", "or", "not"), `holds`, `parts`; with no part `and` is true, `or` false."""
        return {
            "kind": self.kind,
            "holds": self.holds,
            "parts": [part.as_dict() for part in self.parts],
        }


@dataclass(frozen=True, slots=True)
class FilterFinding:
    """One filter of the normal form and the event: how many of its constraints do not hold."""

    filter: Filter
    failing: int

    @property
    def holds(self) -> bool:
        """Whether every constraint of the filter holds."""
        return self.failing == 0

    def as_dict(self) -> dict[str, Any]:
        """`text`, `holds`, `failing` (of `constraints`)."""
        return {
            "text": str(self.filter),
            "holds": self.holds,
            "failing": self.failing,
            "constraints": len(self.filter),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an event matches a predicate or does not.

    `tree` is the expression as written. `filters` are those of the normal form, or None if that
    would pass the bound `max_filters`. If the event does not match, `nearest` is the number, from
    0, of the filter with the fewest constraints that do not hold, and `missing` are these
    constraints.
    """

    predicate: str
    matches: bool
    tree: Group | Finding
    max_filters: int
    filters: tuple[FilterFinding, ...] | None
    nearest: int | None
    missing: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every constraint of the expression, in the order written."""
        return tuple(_findings(self.tree))

    def as_dict(self) -> dict[str, Any]:
        """The explanation as plain values, ready for JSON. The names of the fields are stable.

        - `predicate`: the canonical text; `matches`: true or false
        - `tree`: the expression. A group has `kind` ("and", "or", "not"), `holds` and `parts`; a
          constraint has `kind` ("constraint"), `text`, `name`, `holds` and `why`. `holds` is null
          if the event has a value of an unsupported type.
        - `normal_form`: `max_filters` (the bound), `past_bound`, `filters` (null past the bound;
          each with `text`, `holds`, `failing`, `constraints`), `nearest` (number of a filter from
          0, or null), `missing` (its constraints that do not hold, as in the tree)
        """
        filters = self.filters
        return {
            "predicate": self.predicate,
            "matches": self.matches,
            "tree": self.tree.as_dict(),
            "normal_form": {
                "max_filters": self.max_filters,
                "past_bound": filters is None,
                "filters": None if filters is None else [f.as_dict() for f in filters],
                "nearest": self.nearest,
                "missing": [finding.as_dict() for finding in self.missing],
            },
        }

    def __str__(self) -> str:
        """The explanation for a person: verdict, tree and normal form, cut to the bounds."""
        lines = [
            f"{_mark(self.matches)} {'matches' if self.matches else 'does not match'}",
            f"predicate: {_shorten(self.predicate)}",
            "",
        ]
        tree = list(_tree_lines(self.tree, ""))
        lines += tree[:MAX_LINES_SHOWN] + _more(len(tree) - MAX_LINES_SHOWN, "lines")
        return "\n".join([*lines, "", *_normal_form_lines(self)])


def explain(
    predicate: Predicate, event: Mapping[str, Any] | bytes | bytearray | memoryview | str
) -> Explanation:
    """Why the event matches the predicate or does not.

    Law: `explain(p, e).matches == p.matches(e)`, and one raises `EventError` if the other does.

    >>> from tidings.language.predicate import parse
    >>> found = explain(parse("severity > 2 and site = 'Oslo'"), {"severity": 1, "sites": ["Oslo"]})
    >>> for finding in found.findings:
    ...     print(finding.holds, finding.why)
    False severity is 1, not above 2
    False the event has no site (it has sites)
    """
    mapping = read(event)
    matches = predicate.matches(mapping)
    examiner = _Examiner(mapping)
    tree = examiner.tree(predicate.expression)
    filters: tuple[FilterFinding, ...] | None = None
    nearest: int | None = None
    missing: tuple[Finding, ...] = ()
    with suppress(NormalFormError):
        filters = tuple(
            FilterFinding(f, sum(not examiner.holds(c) for c in f)) for f in predicate.filters
        )
    if filters and not matches:
        nearest = min(range(len(filters)), key=lambda number: filters[number].failing)
        missing = tuple(
            examiner.finding(c) for c in filters[nearest].filter if not examiner.holds(c)
        )
    return Explanation(
        str(predicate), matches, tree, predicate.max_filters, filters, nearest, missing
    )


class _Examiner:
    """Examines one event; it tests each constraint once and looks up each name once."""

    def __init__(self, event: Mapping[str, Any]) -> None:
        self.event = event
        self.verdicts: dict[Constraint, bool] = {}
        self.names: dict[str, str] | None = None
        self.absences: dict[str, str] = {}

    def tree(self, expression: Expression) -> Group | Finding:
        match expression:
            case Constraint():
                return self.finding(expression)
            case Not(part):
                inner = self.tree(part)
                return Group("not", not inner.holds, (inner,))
            case And(parts) | Or(parts):
                decisive = isinstance(expression, Or)
                examined = tuple(map(self.tree, parts))
                holds = decisive is any(part.holds is decisive for part in examined)
                return Group("or" if decisive else "and", holds, examined)

    def finding(self, constraint: Constraint) -> Finding:
        holds = self.holds(constraint)
        if constraint.operator == "holds":
            return Finding(constraint, holds, _whole_words(constraint, holds))
        values = lookup(self.event, constraint.name)
        if values:
            return Finding(constraint, holds, _words(constraint, values))
        absence = self.absences.get(constraint.name)
        if absence is None:
            absence = self.absences[constraint.name] = self.absence(constraint.name)
        return Finding(constraint, holds, absence + _NEGATED * constraint.negated)

    def holds(self, constraint: Constraint) -> bool:
        """The verdict of matching itself."""
        if constraint not in self.verdicts:
            self.verdicts[constraint] = check(constraint)(self.event)
        return self.verdicts[constraint]

    def absence(self, name: str) -> str:
        """How an attribute is absent, and which attribute may have been meant instead."""
        if self.names is None:
            self.names = {}
            given = self.event.source if type(self.event) is Event else self.event
            _collect(given, "", self.names, ())
        shown = _shown_name(name)
        state = self.names.get(name, "")
        if state and state != _PRESENT:
            return f"{shown} is {state}, which is the same as absent"
        if len(self.absences) >= MAX_COMPARISONS:
            return f"the event has no {shown}"
        fields = [n for n in self.names if n.startswith(name + ".")]
        if fields:
            listed = ", ".join(map(_shown_name, fields[:MAX_VALUES_SHOWN]))
            more = ", …" if len(fields) > MAX_VALUES_SHOWN else ""
            return f"{shown} is a record, not a value; its attributes are {listed}{more}"
        alike = _alike(name, [n for n, s in self.names.items() if s == _PRESENT])
        return f"the event has no {shown}" + (f" (it has {_shown_name(alike)})" if alike else "")


_PRESENT: Final = "present"
_NEGATED: Final = ", so the negation holds"


def _collect(
    record: Mapping[str, Any], prefix: str, names: dict[str, str], within: tuple[int, ...]
) -> None:
    """Collect the dotted names of an event, each with whether it is present or how it is absent.

    Unlike `Event`, this stops at a bound: it only serves to find words.
    """
    if id(record) in within:
        return
    inside = (*within, id(record))
    for key, value in record.items():
        if len(names) >= MAX_NAMES_COMPARED:
            return
        name = f"{prefix}{key}"
        elements = list(opened(value, inside))
        records = [element for element in elements if isinstance(element, dict)]
        for inner in records:
            _collect(inner, name + ".", names, inside)
        others = [element for element in elements if not isinstance(element, dict)]
        if any(scalar(other) is not None for other in others):
            names[name] = _PRESENT
        elif others:
            kind = type(others[0])
            what = "a text with a lone surrogate" if kind is str else f"of type {kind.__name__}"
            names.setdefault(name, f"{what}, not a value")
        elif not records:
            listed = () if value is None else elements_of(value) or ()
            absent = "null" if value is None else "a list of nulls" if listed else "an empty list"
            names.setdefault(name, absent)


def _alike(name: str, names: list[str]) -> str | None:
    """The attribute that may have been meant: in other case, in a record, or spelled alike."""
    folded = name.casefold()
    for other in names:
        if other.casefold() == folded:
            return other
    for other in names:
        if other.endswith("." + name) or name.endswith("." + other):
            return other
    short = [other for other in names if len(other) <= MAX_TEXT_SHOWN]
    return next(iter(difflib.get_close_matches(name, short, 1, cutoff=0.7)), None)


# Words

# For each operator the phrases for one value that satisfies it, for one that does not, and for
# several values that all do not.
_PHRASES: Final[dict[str, tuple[str, str, str]]] = {
    "=": ("", ", not {x}", "none of them is {x}"),
    "!=": (", not {x}", ", equal to {x}", "none of them differs from {x}"),
    "<": (", below {x}", ", not below {x}", "none of them is below {x}"),
    "<=": (", at most {x}", ", above {x}", "none of them is at most {x}"),
    ">": (", above {x}", ", not above {x}", "none of them is above {x}"),
    ">=": (", at least {x}", ", below {x}", "none of them is at least {x}"),
    "between": (", between {x}", ", not between {x}", "none of them is between {x}"),
    "in": (", one of {x}", ", not one of {x}", "none of them is one of {x}"),
    "prefix": (
        ", which begins with {x}",
        ", which does not begin with {x}",
        "none of them begins with {x}",
    ),
    "suffix": (", which ends in {x}", ", which does not end in {x}", "none of them ends in {x}"),
    "contains": (
        ", which contains {x}",
        ", which does not contain {x}",
        "none of them contains {x}",
    ),
    "like": (
        ", which fits the pattern {x}",
        ", which does not fit the pattern {x}",
        "none of them fits the pattern {x}",
    ),
    "matches": (
        ", in which the expression {x} is found",
        ", in which the expression {x} is not found",
        "the expression {x} is found in none of them",
    ),
    "exists": ("", "", ""),
}
_TYPES: Final = {
    "number": "a number",
    "int": "an integer",
    "real": "a real",
    "string": "a text",
    "bool": "a boolean",
}
_KINDS: Final[dict[type, str]] = {
    str: "the text",
    int: "the integer",
    float: "the real",
    bool: "the boolean",
}


def _whole_words(constraint: Constraint, holds: bool) -> str:
    """The phrase for a test of another dialect."""
    dialect, _ = residual(constraint)
    return (
        f"the test of {dialect} {'holds' if holds is not constraint.negated else 'does not hold'}"
    )


def _words(constraint: Constraint, values: list[Scalar]) -> str:
    """The phrase for a constraint and the values of its attribute; it ignores negation."""
    name = _shown_name(constraint.name)
    accepts = ACCEPTS[constraint.type]
    test = value_test(constraint)
    satisfying = next((number for number, value in enumerate(values) if test(value)), None)
    one_holds, one_fails, none_holds = _phrases(constraint)
    if satisfying is not None:
        value = _shown(values[satisfying])
        if len(values) == 1:
            return f"{name} is {value}{one_holds}"
        return f"value {satisfying + 1} of {len(values)} of {name} is {value}{one_holds}"
    comparable = sum(type(value) in accepts for value in values)
    if len(values) == 1:
        (only,) = values
        if not comparable:
            wanted = _TYPES[constraint.type]
            return (
                f"{name} is {_KINDS[type(only)]} {_shown(only)}, the constraint asks for {wanted}"
            )
        if only != only:
            return f"{name} is NaN, which satisfies no comparison"
        return f"{name} is {_shown(only)}{one_fails}"
    listed = ", ".join(map(_shown, values[:MAX_VALUES_SHOWN]))
    more = ", …" if len(values) > MAX_VALUES_SHOWN else ""
    said = none_holds if comparable else f"none of them is {_TYPES[constraint.type]}"
    others = len(values) - comparable
    note = f" ({others} not {_TYPES[constraint.type]})" if comparable and others else ""
    return f"{name} has {len(values)} values, {said}{note}: {listed}{more}"


def _phrases(constraint: Constraint) -> tuple[str, str, str]:
    operator = MINDING_CASE.get(constraint.operator, constraint.operator)
    operand = constraint.operand
    if isinstance(operand, tuple) and operator == "between":
        shown = " and ".join(map(_shown_constant, operand))
    elif isinstance(operand, tuple):
        listed = ", ".join(map(_shown_constant, operand[:MAX_VALUES_SHOWN]))
        rest = len(operand) - MAX_VALUES_SHOWN
        shown = f"({listed}{f', … {rest} more' if rest > 0 else ''})"
    else:
        shown = "" if operand is None else _shown_constant(operand)
    if operator != constraint.operator:
        shown += " (case ignored)"
    one_holds, one_fails, none_holds = _PHRASES[operator]
    return (
        one_holds.replace("{x}", shown),
        one_fails.replace("{x}", shown),
        none_holds.replace("{x}", shown),
    )


def _shown(value: Scalar) -> str:
    """A value of an event as JSON would write it, cut."""
    if isinstance(value, str):
        quoted = json.dumps(value[: MAX_VALUE_SHOWN + 1], ensure_ascii=False)
        cut = quoted[:-1][:MAX_VALUE_SHOWN] + '…"' if len(value) > MAX_VALUE_SHOWN else quoted
        return printable(cut)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value != value:
        return "NaN"
    return _shorten(_numeral(value), MAX_VALUE_SHOWN)


def _numeral(number: int | float) -> str:
    # Python refuses to write integers of more than a few thousand digits.
    if isinstance(number, int) and number.bit_length() > 1_000:
        return f"{'-' if number < 0 else ''}2^{number.bit_length() - 1}…"
    return repr(number)


def _shown_constant(value: Scalar) -> str:
    """A constant of a predicate as the predicate writes it, cut."""
    text = write_value(value[: MAX_VALUE_SHOWN + 1] if isinstance(value, str) else value)
    if len(text) > MAX_VALUE_SHOWN + 2:
        text = text[:MAX_VALUE_SHOWN] + "…'"
    return printable(text)


def _shown_name(name: str) -> str:
    return _shorten(name, MAX_VALUE_SHOWN) if name.strip() == name != "" else _shorten(repr(name))


def _shorten(text: str, length: int = MAX_TEXT_SHOWN) -> str:
    return printable(text if len(text) <= length else text[: length - 1] + "…")


def printable(text: str) -> str:
    """A text with escapes instead of characters that could control a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or category(c) == "Zs" else c.encode("unicode_escape").decode()
        for c in text
    )


# Text


def _mark(holds: bool) -> str:
    return "✓" if holds else "✗"


def _more(count: int, what: str) -> list[str]:
    return [f"  … {count} more {what}"] if count > 0 else []


def _findings(part: Group | Finding) -> Iterator[Finding]:
    if isinstance(part, Finding):
        yield part
    else:
        for inner in part.parts:
            yield from _findings(inner)


_HEADINGS: Final = {"and": "all of", "or": "any of", "not": "not"}


def _tree_lines(part: Group | Finding, indent: str) -> Iterator[str]:
    mark = _mark(part.holds)
    if isinstance(part, Finding):
        yield f"{indent}{mark} {_shorten(write_constraint(part.constraint))}: {part.why}"
    elif not part.parts:
        yield f"{indent}{mark} {'true' if part.kind == 'and' else 'false'}"
    else:
        yield f"{indent}{mark} {_HEADINGS[part.kind]}"
        for inner in part.parts:
            yield from _tree_lines(inner, indent + "  ")


def _normal_form_lines(explanation: Explanation) -> Iterator[str]:
    filters = explanation.filters
    if filters is None:
        bound = explanation.max_filters
        yield f"normal form: would pass the bound of {bound} filters, so there is none"
        return
    if not filters:
        yield "normal form: false (no event can match)"
        return
    holding = sum(finding.holds for finding in filters)
    count = "1 filter" if len(filters) == 1 else f"{len(filters)} filters"
    ranked = sorted(range(len(filters)), key=lambda number: filters[number].failing)
    order = " (nearest first)" if len(filters) > 1 else ""
    yield f"normal form: {count}, {holding or 'none'} {'hold' if holding > 1 else 'holds'}{order}"
    for number in ranked[:MAX_FILTERS_SHOWN]:
        finding = filters[number]
        yield f"  {_mark(finding.holds)} {number + 1}: {_shorten(str(finding.filter))}"
    yield from _more(len(filters) - MAX_FILTERS_SHOWN, "filters")
    if explanation.nearest is not None:
        nearest = filters[explanation.nearest]
        yield (
            f"nearest: filter {explanation.nearest + 1}, {nearest.failing} of "
            f"{len(nearest.filter)} constraints {'fails' if nearest.failing == 1 else 'fail'}"
        )
        for missing in explanation.missing[:MAX_MISSING_SHOWN]:
            yield from _tree_lines(missing, "  ")
        yield from _more(len(explanation.missing) - MAX_MISSING_SHOWN, "constraints")
