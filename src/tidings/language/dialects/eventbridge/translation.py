"""The dialect `eventbridge`: JSON event patterns of Amazon EventBridge, as event-ruler has them.

`eventbridge_rules` reads a pattern to branches of fields with tests; here these become constraints
of ours. Most tests are one constraint. What our constraints cannot say is asked of the event itself
(`eventbridge_match`) by a residual, an event pattern again, with dotted names:

- null, which for us is absence. `exists` and `anything-but` hold on it as well.
- fields that may lie in the same array, which are those with the same first step in their names:
  all must then hold in one element of it. Beside the residual stands what each field needs.
- what is rare and costs a filter apart: integers past 2^53, which event-ruler compares only if a
  double writes them with the same digits; letters whose case Unicode folds further than Java; other
  spellings of an Internet address; lists for `anything-but`, of which any element will do.

Every test is translated twice: to what it `needs` at least, and, for a field on its own, `exactly`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidings.language.constraint import Check, Constraint, Operand, next_double
from tidings.language.dialects.eventbridge.addresses import Block
from tidings.language.dialects.eventbridge.evaluation import compile_branches
from tidings.language.dialects.eventbridge.syntax import Branch, Choice, Numeral, Range, read_rule
from tidings.language.errors import PredicateError
from tidings.language.expression import (
    ALWAYS,
    NEVER,
    And,
    Expression,
    Or,
    conjoin,
    disjoin,
)
from tidings.language.folding import fold, orbit
from tidings.language.sets import TOP, after_prefix
from tidings.language.text import MAX_NAME, MAX_TEXT

NAME: Final = "eventbridge"
EXACT: Final = 2**53  # up to here integers and doubles are the same
MAX_PRODUCT: Final = 64  # filters of a branch, before fields are left to their residual
MANY: Final = 8  # operands of anything-but that are constraints of their own


def read(given: str | Mapping[str, Any]) -> Expression:
    """The expression that means the same as an event pattern, given as JSON or as a mapping."""
    if isinstance(given, Mapping):
        try:
            given = json.dumps(given, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise PredicateError("", 0, "a pattern that JSON can write", str(error)[:200]) from None
    if not isinstance(given, str):
        raise TypeError(f"expected an event pattern or its JSON, found {type(given).__name__}")
    if len(given) > MAX_TEXT:
        raise PredicateError(given[:200], 0, f"at most {MAX_TEXT} characters", str(len(given)))
    return disjoin(_translate(branch) for branch in read_rule(given))


def test(text: str) -> Check:
    """Whether an event, as it came, satisfies a pattern."""
    return compile_branches(_rule(text))


def names(text: str) -> frozenset[str]:
    """The attributes that a pattern looks at; null is looked for nowhere, as columns have none."""
    return frozenset(
        name
        for branch in _rule(text)
        for name, choices in branch.items()
        if any(choice.kind != "word" or choice.operand is not None for choice in choices)
    )


@lru_cache(maxsize=1 << 12)
def _rule(text: str) -> list[Branch]:
    return read_rule(text)


# Branches


def _translate(branch: Branch) -> Expression:
    """A branch: fields on their own exactly, those that may share an array with a residual."""
    groups: dict[str, list[str]] = {}
    for name in branch:
        groups.setdefault(name.partition(".")[0], []).append(name)
    parts: list[Expression] = []
    alone: list[tuple[int, str, Expression]] = []
    for together in groups.values():
        if len(together) == 1 and 0 < len(together[0]) <= MAX_NAME:
            exact = _field(together[0], branch).exact
            alone.append((_filters(exact), together[0], exact))
        else:
            parts += _needed(_field(name, branch).needed for name in together)
            parts.append(_residual({name: branch[name] for name in together}))
    total = 1
    for count, name, exact in sorted(alone, key=lambda one: one[:2]):
        total *= max(count, 1)
        if total <= MAX_PRODUCT:
            parts.append(exact)
        else:
            parts += (_field(name, branch).needed, _residual({name: branch[name]}))
    return conjoin(part for part in parts if part != ALWAYS)


def _needed(parts: Iterable[Expression]) -> Iterable[Expression]:
    """What fields need, as far as it does not multiply to many filters."""
    total = 1
    for part in sorted(parts, key=_filters):
        total *= _filters(part)
        if total > MAX_PRODUCT:
            return
        yield part


def _filters(expression: Expression) -> int:
    """How many filters an expression has at most."""
    match expression:
        case And(parts):
            return math.prod(map(_filters, parts))
        case Or(parts):
            return sum(map(_filters, parts))
    return 1


def _residual(branch: Mapping[str, tuple[Choice, ...]]) -> Constraint:
    """The constraint that fields, together, satisfy a pattern."""
    fields = (
        f"{json.dumps(name, ensure_ascii=False)}:[{','.join(choice.json for choice in choices)}]"
        for name, choices in sorted(branch.items())
    )
    return Constraint("", "holds", "any", False, (NAME, f"{{{','.join(fields)}}}"))


def _null(name: str) -> Constraint:
    return _residual({name: (Choice("word", None, "null"),)})


# Fields


class Meaning(NamedTuple):
    """What a test needs at least, and what it means exactly."""

    needed: Expression
    exact: Expression


def _field(name: str, branch: Branch) -> Meaning:
    if not 0 < len(name) <= MAX_NAME:  # no name of ours
        return Meaning(ALWAYS, _residual({name: branch[name]}))
    meanings = [_meaning(name, choice) for choice in branch[name]]
    needed = [meaning.needed for meaning in meanings]
    exact = _listed(meaning.exact for meaning in meanings)
    return Meaning(ALWAYS if ALWAYS in needed else _listed(needed), exact)


def _listed(parts: Iterable[Expression]) -> Expression:
    """A disjunction in which equal values of one type become one list."""
    values: dict[str, set[Any]] = {}
    others: list[Expression] = []
    name = ""
    for part in parts:
        if (
            isinstance(part, Constraint)
            and part.operator == "="
            and part.type in ("string", "number")
        ):
            name = part.name
            values.setdefault(part.type, set()).add(part.operand)
        else:
            others.append(part)
    lists = [_among(name, kind, tuple(sorted(found))) for kind, found in values.items()]
    return disjoin([*lists, *others])


def _among(name: str, kind: str, values: tuple[Any, ...]) -> Constraint:
    if len(values) == 1:
        return Constraint(name, "=", kind, False, values[0])
    return Constraint(name, "in", kind, False, values)


def _meaning(name: str, choice: Choice) -> Meaning:
    """One test of a field."""
    operand = choice.operand
    asked = _residual({name: (choice,)})
    match choice.kind:
        case "text":
            return _same(_text(name, "=", operand))
        case "prefix" | "suffix" | "like":
            return _same(_text(name, choice.kind, operand))
        case "iequals" | "iprefix" | "isuffix":
            return _caseless(name, choice, asked)
        case "number":
            return _number(name, operand, asked)
        case "range":
            return _range(name, operand, asked)
        case "address":
            return _address(name, operand, asked)
        case "word" if operand is not None:
            return _same(Constraint(name, "=", "bool", False, operand))
        case "word":
            return Meaning(ALWAYS, asked)
        case "exists" if operand:
            return Meaning(ALWAYS, disjoin((_exists(name), _null(name))))
        case "exists":
            # In an array other elements may have the field, so nothing is needed of the event.
            return Meaning(ALWAYS, conjoin((_exists(name).negate(), _null(name).negate())))
        case "but":
            return Meaning(ALWAYS, disjoin((*_anything_but(name, operand, asked), _null(name))))
        case kind:
            raise AssertionError(f"{kind!r} is no test")


def _same(expression: Expression) -> Meaning:
    return Meaning(expression, expression)


def _text(name: str, operator: str, operand: Operand) -> Constraint:
    return Constraint(name, operator, "string", False, operand)


def _exists(name: str, kind: str = "any") -> Constraint:
    return Constraint(name, "exists", kind, False, None)


def _caseless(name: str, choice: Choice, asked: Constraint) -> Meaning:
    """Java knows a lower and an upper case of each character; folding may know more."""
    operator = {"iequals": "i=", "iprefix": "iprefix", "isuffix": "isuffix"}[choice.kind]
    others = _folded_further(choice.operand)
    if others is None:
        string = _exists(name, "string")
        return Meaning(string, conjoin((string, asked)))
    wanted = _text(name, operator, choice.operand)
    strange = [_text(name, "contains", character) for character in others]
    plain = conjoin((wanted, *(c.negate() for c in strange)))
    return Meaning(wanted, disjoin((plain, *(conjoin((wanted, c, asked)) for c in strange))))


def _folded_further(text: str) -> list[str] | None:
    """Characters that fold to those of a text and are no case of them; None where a case is not."""
    others: set[str] = set()
    for character in set(text):
        wide = ord(character) > 0xFFFF  # two of Java's characters, without case
        cases = {character} if wide else {character.lower(), character.upper()}
        folded = set(orbit(fold(character)))
        if not cases <= folded:  # ß is SS, and ı is I
            return None
        others |= folded - cases
    return sorted(others)


# Numbers


def _number(name: str, operand: Numeral, asked: Constraint) -> Meaning:
    value = operand.value
    if -EXACT <= value <= EXACT or not (operand.comparable or isinstance(value, int)):
        if not math.isfinite(value):
            return _same(NEVER)
        return _same(Constraint(name, "=", "number", False, value))
    bound = Constraint(name, ">=", "number", False, EXACT)
    if value < 0:
        bound = Constraint(name, "<=", "number", False, -EXACT)
    return Meaning(bound, conjoin((bound, asked)))


def _range(name: str, operand: Range, asked: Constraint) -> Meaning:
    """One value between two bounds, each included: the next double for one that is not."""
    low, above, high, below = operand
    if any(bound is not None and not -EXACT <= bound <= EXACT for bound in (low, high)):
        number = _exists(name, "number")
        return Meaning(number, conjoin((number, asked)))
    first = -EXACT if low is None else _next(low, math.inf) if above else low
    last = EXACT if high is None else _next(high, -math.inf) if below else high
    within = Constraint(name, "between", "number", False, (first, last))
    beyond: list[Constraint] = []
    if low is None:
        beyond.append(Constraint(name, "<", "number", False, -EXACT))
    if high is None:
        beyond.append(Constraint(name, ">", "number", False, EXACT))
    needed = within
    if low is None:
        needed = Constraint(name, "<" if below else "<=", "number", False, high)
    elif high is None:
        needed = Constraint(name, ">" if above else ">=", "number", False, low)
    return Meaning(needed, disjoin((within, *(conjoin((far, asked)) for far in beyond))))


def _next(bound: int | float, towards: float) -> float:
    return math.nextafter(next_double(bound, above=towards < 0), towards)


# Internet addresses


def _address(name: str, block: Block, asked: Constraint) -> Meaning:
    """An address or a block of them: what every spelling of one has in common."""
    if block.size == 16:
        needed = _version_6(name, block)
        return Meaning(needed, conjoin((needed, asked)))
    octets = [str(octet) for octet in block.first.to_bytes(4, "big")]
    mapped = _text(name, "icontains", "ffff:")  # version 4 within version 6
    if block.first == block.last:
        plain = _text(name, "=", ".".join(octets))
        padded = _text(name, "like", "%" + ".%".join(octets))
        return Meaning(
            disjoin((padded, mapped)),
            disjoin((plain, conjoin((padded, asked)), conjoin((mapped, asked)))),
        )
    fixed = octets[: block.bits // 8]
    if not fixed:
        needed = _exists(name, "string")
        return Meaning(needed, conjoin((needed, asked)))
    # The fixed numbers, of which one may be written with zeros before it.
    starts = {"".join(f"{octet}." for octet in fixed)}
    starts |= {"".join(f"{octet}." for octet in fixed[:n]) + "0" for n in range(len(fixed))}
    alternatives: list[Expression] = [_text(name, "prefix", start) for start in sorted(starts)]
    alternatives.append(mapped)
    return Meaning(
        disjoin(alternatives),
        disjoin(conjoin((alternative, asked)) for alternative in alternatives),
    )


def _version_6(name: str, block: Block) -> Expression:
    """The last group of an address, or the first of a block, where it is not zero."""
    if block.first == block.last:
        last = block.first & 0xFFFF
        if last:
            return _text(name, "isuffix", f"{last:x}")
    elif block.bits >= 16 and block.first >> 112:
        start = _text(name, "iprefix", f"{block.first >> 112:x}:")
        return disjoin((start, _text(name, "prefix", "0")))
    return _text(name, "contains", ":")


# Anything but


def _anything_but(name: str, tests: tuple[Choice, ...], asked: Constraint) -> list[Expression]:
    """Some value, of whatever type, that no test holds on; null is not looked at here.

    There is one where something is there and no test holds on anything. What is left are lists, of
    which some value satisfies a test and perhaps another does not.
    """
    kinds = {test.kind for test in tests}
    if kinds == {"prefix"} and len(tests) == 1:
        return _without_prefix(name, tests[0].operand)
    sets: list[Constraint] = []
    strange: set[str] = set()
    if kinds == {"text"}:
        sets.append(_among(name, "string", tuple(sorted({test.operand for test in tests}))))
    elif kinds == {"iequals"} and None not in (
        further := [_folded_further(test.operand) for test in tests]
    ):
        sets.append(_text(name, "iin", tuple(sorted({fold(test.operand) for test in tests}))))
        strange.update(character for others in further for character in others or ())
    elif kinds == {"number"} and all(-EXACT <= test.operand.value <= EXACT for test in tests):
        sets.append(_among(name, "number", tuple(sorted({test.operand.value for test in tests}))))
    else:
        for test in tests:
            needed = _meaning(name, test).needed
            assert isinstance(needed, Constraint)
            sets.append(needed)
    none = conjoin((_exists(name), *(c.negate() for c in dict.fromkeys(sets))))
    if len(sets) > MANY:
        kind = "number" if kinds == {"number"} else "string"
        return [none, conjoin((_exists(name, kind), asked))]
    lists = [alternative for refused in sets for alternative in _mixed(name, refused, asked)]
    lists += (
        conjoin((*sets, _text(name, "contains", character), asked)) for character in sorted(strange)
    )
    return [none, *lists]


def _mixed(name: str, refused: Constraint, asked: Constraint) -> list[Expression]:
    """Lists with a value that is refused and, by a sign that costs nothing, another."""
    operand = refused.operand
    values = operand if isinstance(operand, tuple) else (operand,)
    differs = {"=": "!=", "in": "!=", "iin": "i!="}.get(refused.operator)
    if differs is None or len(values) > MANY:
        return [conjoin((refused, asked))]
    other = "number" if refused.type == "string" else "string"
    differing = [Constraint(name, differs, refused.type, False, value) for value in values]
    return [
        conjoin((refused, *differing, asked)),
        conjoin((refused, _exists(name, other))),
        conjoin((refused, _exists(name, "bool"))),
    ]


def _without_prefix(name: str, prefix: str) -> list[Expression]:
    after = after_prefix(prefix)
    alternatives: list[Expression] = [_text(name, "<", prefix)]
    if after is not TOP:
        alternatives.append(_text(name, ">=", after))
    return [*alternatives, _exists(name, "number"), _exists(name, "bool")]
