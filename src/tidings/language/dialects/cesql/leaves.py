"""The leaves of a translation from CloudEvents SQL: where a test is true, and where it is false.

CloudEvents SQL casts each type in its own way. So the translation splits a test of one attribute
against constants by the types that a value may have. Our constraints can say which numbers and
booleans satisfy the test, and which texts, unless it casts texts to integers; then a residual
decides about the texts. Any other test becomes a residual as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import Final, NamedTuple

from tidings.language import wildcard
from tidings.language.dialects.cesql.evaluation import REQUIRED, formula
from tidings.language.dialects.cesql.parts import (
    ALWAYS_PART,
    NEVER_PART,
    Part,
    all_of,
    any_of,
    as_boolean,
    constrained,
    exists,
    holds,
    negated,
    residual,
)
from tidings.language.dialects.cesql.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    EvaluationError,
    Value,
    boolean,
    integer,
    kind_of,
    text,
)
from tidings.language.dialects.sql_evaluation import ORDERINGS
from tidings.language.dialects.sql_syntax import FLIPPED, Node, names


class Leaf(NamedTuple):
    """Where a test is true, where it is false, and where it is either, if that is simple to say."""

    true: Part
    false: Part
    unfailing: Part | None = None


class _Values(NamedTuple):
    """Which values of one type satisfy a test.

    `true` and `false` are constraints on the values for which the test is true or false; `false` is
    None if the test is false for all values for which it is not true. If `residual` is set, only
    evaluation can tell, and every value for which the test is true satisfies `hint`; None if there
    is no such value.
    """

    true: tuple[Part, ...] = ()
    false: tuple[Part, ...] | None = None
    residual: bool = False
    hint: Part | None = None


class _Shape(NamedTuple):
    """A test of one attribute against constants."""

    name: str
    texts: _Values
    numbers: _Values


def leaf_of(node: Node) -> Leaf:
    """Where a test is true, and where it is false."""
    if not names(node):
        try:
            answer = boolean(formula(node)({}))
        except EvaluationError:
            return Leaf(NEVER_PART, NEVER_PART, NEVER_PART)
        return (
            Leaf(ALWAYS_PART, NEVER_PART, ALWAYS_PART)
            if answer
            else Leaf(NEVER_PART, ALWAYS_PART, ALWAYS_PART)
        )
    if node.operator == "exists":
        if node.value in REQUIRED:
            return Leaf(ALWAYS_PART, NEVER_PART, ALWAYS_PART)
        present = exists(str(node.value))
        return Leaf(present, negated(present), ALWAYS_PART)
    shape = _shape(node)
    if shape is None:
        return Leaf(residual(node, True), residual(node, False))
    return _of_shape(node, shape)


def _of_shape(node: Node, shape: _Shape) -> Leaf:
    name, texts, numbers = shape
    booleans = _booleans(node, name)
    of_types = (("string", texts), ("number", numbers), ("bool", booleans))
    unsure = [(kind, values) for kind, values in of_types if values.residual]
    sure = [(kind, values) for kind, values in of_types if not values.residual]
    plainly = [part for _, values in sure for part in values.true]
    true = any_of(
        [
            *plainly,
            *(all_of((v.hint, holds(as_boolean(node)))) for _, v in unsure if v.hint is not None),
        ]
    )
    refused = [*map(negated, plainly)]
    if not unsure and all(values.false is None for _, values in sure):
        present = exists(name)
        return Leaf(true, all_of([present, *refused]), present)
    others = any_of(
        part
        for kind, values in sure
        for part in ((exists(name, kind),) if values.false is None else values.false)
    )
    false = [all_of([others, *refused, *(negated(exists(name, kind)) for kind, _ in unsure)])]
    if unsure:
        present = any_of(exists(name, kind) for kind, _ in unsure)
        false.append(all_of((present, holds(Node("not", (as_boolean(node),))))))
    return Leaf(true, any_of(false))


def _booleans(node: Node, name: str) -> _Values:
    """Which booleans satisfy a test, found by trying both."""
    test = formula(node)
    answers: dict[bool, list[Part]] = {True: [], False: []}
    for value in (True, False):
        try:
            answer = boolean(test({name: value}))
        except EvaluationError:
            continue
        answers[answer].append(constrained(name, "=", "bool", value))
    known = sum(map(len, answers.values()))
    return _Values((*answers[True],), None if known == 2 else (*answers[False],))


def _shape(node: Node) -> _Shape | None:
    """A test as one of an attribute against constants; None if it is of another kind."""
    match node.operator:
        case "name" | "call":
            name = _subject(node, "boolean")
            return None if name is None else _truth_of(name, True)
        case "like":
            name = _subject(node.parts[0], "text")
            return None if name is None else _like(name, str(node.value))
        case "in":
            return _membership(node)
        case "=":
            return _equality(node)
        case operator if operator in ORDERINGS:
            return _ordering(node)
        case _:
            return None


def _subject(node: Node, kind: str) -> str | None:
    """The attribute that a node names, alone or within a cast to this type; else None."""
    if node.operator == "call" and node.value == _CASTS[kind]:
        node = node.parts[0]
    return str(node.value) if node.operator == "name" else None


_CASTS: Final = {"boolean": "BOOL", "integer": "INT", "text": "STRING"}


def _constant(node: Node) -> Value | None:
    """The value of a node without names; None if it has names or is an error."""
    if names(node):
        return None
    try:
        return formula(node)({})
    except EvaluationError:
        return None


def _truth_of(name: str, wanted: bool) -> _Shape:
    """The attribute, cast to a boolean, is as wanted."""
    answers = {
        answer: (
            constrained(name, "in", "string", _spellings(str(answer).lower())),
            *(_integers(name, low, high) for low, high in ranges if low <= high),
        )
        for answer, ranges in _TRUTHS.items()
    }
    texts = {answer: parts[:1] for answer, parts in answers.items()}
    numbers = {answer: parts[1:] for answer, parts in answers.items()}
    return _Shape(
        name,
        _Values(texts[wanted], texts[not wanted]),
        _Values(numbers[wanted], numbers[not wanted]),
    )


_TRUTHS: Final = {True: ((INTEGER_MIN, -1), (1, INTEGER_MAX)), False: ((0, 0),)}


def _spellings(word: str) -> tuple[str, ...]:
    """A word in every mixture of cases: few enough to list, and the index finds them."""
    return tuple(sorted(map("".join, product(*((c, c.upper()) for c in word)))))


def _integers(name: str, low: int, high: int) -> Part:
    if low == high:
        return constrained(name, "=", "int", low)
    return constrained(name, "between", "int", (low, high))


def _equality(node: Node) -> _Shape | None:
    constant = _constant(node.parts[1])
    if constant is None:
        return None
    name = _subject(node.parts[0], kind_of(constant))
    if name is None:
        return None
    if isinstance(constant, bool):
        return _truth_of(name, constant)
    if isinstance(constant, str):
        equal = constrained(name, "=", "string", constant)
        integers = [int(constant)] if _is_integer(constant) else []
        return _Shape(name, _Values((equal,)), _numbers(name, integers, [constant]))
    around = ((INTEGER_MIN, constant - 1), (constant + 1, INTEGER_MAX))
    others = (_integers(name, low, high) for low, high in around if low <= high)
    ending = constrained(name, "suffix", "string", str(abs(constant)))
    return _Shape(
        name,
        _Values(residual=True, hint=ending),
        _Values((_integers(name, constant, constant),), tuple(others)),
    )


def _ordering(node: Node) -> _Shape | None:
    operator = node.operator
    left, right = node.parts
    if names(right):
        left, right = right, left
        operator = FLIPPED[operator]
    name = _subject(left, "integer")
    constant = _constant(right)
    if name is None or constant is None:
        return None
    try:
        bound = integer(constant)
    except EvaluationError:
        return None
    last = bound if operator in ("<=", ">") else bound - 1  # of the lower range
    ranges = [(INTEGER_MIN, last), (last + 1, INTEGER_MAX)]
    sides = [(_integers(name, *r),) if r[0] <= r[1] else () for r in ranges]
    if operator in (">", ">="):
        sides.reverse()
    return _Shape(
        name, _Values(residual=True, hint=exists(name, "string")), _Values(sides[0], sides[1])
    )


def _like(name: str, pattern: str) -> _Shape:
    fits = constrained(name, "like", "string", pattern)
    if not _fits_numerals(pattern):
        return _Shape(name, _Values((fits,)), _Values())
    numbers = _Values(residual=True, hint=exists(name, "number"))
    return _Shape(name, _Values((fits,)), numbers)


def _fits_numerals(pattern: str) -> bool:
    """Whether the text of a number, such as -17, 2.5, 1e+300, inf or nan, may fit a pattern."""
    parts = wildcard.tokens(pattern)
    literal = "".join(part for part in parts if isinstance(part, str))
    if (
        parts
        and (parts[0] in _BEGINS or not isinstance(parts[0], str))
        and _DIGITS.issuperset(literal)
    ):
        return True
    if not _WORDS.issuperset(literal):
        return False
    fits = wildcard.matcher(pattern, ignore_case=False)
    return any(map(fits, ("inf", "-inf", "nan")))


_BEGINS: Final = frozenset("-0123456789")
_DIGITS: Final = frozenset("0123456789+-.e")
_WORDS: Final = frozenset("-infa")


def _membership(node: Node) -> _Shape | None:
    members = [_constant(part) for part in node.parts[1:]]
    if node.parts[0].operator != "name" or None in members:
        return None
    name = str(node.parts[0].value)
    constants = [member for member in members if member is not None]
    texts = sorted({text(constant) for constant in constants})
    among = constrained(name, "in", "string", tuple(texts))
    try:
        integers = [integer(constant) for constant in constants]
    except EvaluationError:  # an error for every integer, but not for numbers that are texts
        hint = exists(name, "number") if any(map(_numeral, texts)) else None
        return _Shape(name, _Values((among,)), _Values(residual=True, hint=hint))
    return _Shape(name, _Values((among,)), _numbers(name, integers, texts))


def _numbers(name: str, integers: Iterable[int], texts: list[str]) -> _Values:
    """The integers among `integers`, and the other numbers, which are texts, among `texts`."""
    if any(_numeral(given) and not _is_integer(given) for given in texts):
        return _Values(residual=True, hint=exists(name, "number"))
    members = tuple(sorted(set(integers)))
    return _Values((constrained(name, "in", "int", members),) if members else ())


def _is_integer(given: str) -> bool:
    """Whether a text is what the cast of a 32-bit integer to a text gives."""
    if _INTEGER.fullmatch(given) is None:
        return False
    return INTEGER_MIN <= int(given) <= INTEGER_MAX and str(int(given)) == given


_INTEGER: Final = re.compile(r"-?[0-9]{1,10}")


def _numeral(given: str) -> bool:
    """Whether a text may be the text of a number."""
    try:
        float(given)
    except ValueError:
        return False
    return True
