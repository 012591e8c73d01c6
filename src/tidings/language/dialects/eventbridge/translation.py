"""Event patterns of Amazon EventBridge translated to expressions of ours.

`syntax` reads a pattern into branches of fields with tests, which become constraints here. Most
tests become one constraint. What our constraints cannot say becomes a residual, which is an event
pattern again, with dotted names; `evaluation` evaluates it. Residuals are for:

- null, which for us is absence. `exists` and `anything-but` hold on it too.
- fields that may lie in one array. These are the fields whose names share the first step, and they
  must all hold in one element. Beside the residual stands what each field needs.
- rare cases, in a filter of their own: integers past 2^53, which event-ruler compares only if a
  double writes them with the same digits; letters whose case Unicode folds further than Java; other
  spellings of an Internet address; lists for `anything-but`, any element of which may satisfy it.

A test has two translations (`Meaning`): `needed` holds wherever the test holds, and `exact` means
the same as the test of a field that stands alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidings.language.constraint import Check, Constraint, Operand, next_double
from tidings.language.dialects import Field
from tidings.language.dialects.eventbridge.addresses import Block
from tidings.language.dialects.eventbridge.evaluation import compile_branches
from tidings.language.dialects.eventbridge.syntax import (
    EXACT,
    Branch,
    Choice,
    Numeral,
    Range,
    read_event_pattern,
)
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

MAX_PRODUCT: Final = 64  # filters of a branch; past it, fields become residuals
MANY: Final = 8  # operands of anything-but that become constraints of their own


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
    return disjoin(_translate(branch) for branch in read_event_pattern(given))


def test(text: str) -> Check:
    """Whether an event, as it came, satisfies a pattern."""
    return compile_branches(_branches(text))


def names(text: str) -> frozenset[str]:
    """The attributes that a pattern reads from columns, which have no nulls to test for."""
    return frozenset(
        name
        for branch in _branches(text)
        for name, choices in branch.items()
        if any(choice.kind != "word" or choice.operand is not None for choice in choices)
    )


def tested_for_null(text: str) -> str | None:
    """The field that a pattern tests for null and for nothing else."""
    match _branches(text):
        case [branch] if len(branch) == 1:
            ((name, choices),) = branch.items()
            if [(c.kind, c.operand) for c in choices] == [("word", None)]:
                return name if 0 < len(name) <= MAX_NAME else None
    return None


def fields(text: str) -> list[Field] | None:
    """What a pattern of one branch asks of each of its fields, in the order in which they go."""
    branches = _branches(text)
    if len(branches) > 1:
        return None
    found = [_of_one_value(name, choices) for name, choices in sorted(branches[0].items())]
    known = [field for field in found if field is not None]
    return known if len(known) == len(found) else None


@lru_cache(maxsize=1 << 12)
def _branches(text: str) -> list[Branch]:
    return read_event_pattern(text)


# Branches


def _translate(branch: Branch) -> Expression:
    """A branch: fields that stand alone exactly, fields that may share an array by a residual."""
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
    """What fields need, as far as the product of their filters stays within the bound."""
    total = 1
    for part in sorted(parts, key=_filters):
        total *= _filters(part)
        if total > MAX_PRODUCT:
            return
        yield part


def _filters(expression: Expression) -> int:
    """An upper bound of the filters in an expression's normal form."""
    match expression:
        case And(parts):
            return math.prod(map(_filters, parts))
        case Or(parts):
            return sum(map(_filters, parts))
    return 1


def _residual(branch: Mapping[str, tuple[Choice, ...]]) -> Constraint:
    """The residual that fields satisfy their tests together."""
    fields = (
        f"{json.dumps(name, ensure_ascii=False)}:[{','.join(choice.json for choice in choices)}]"
        for name, choices in sorted(branch.items())
    )
    return Constraint("", "holds", "any", False, ("eventbridge", f"{{{','.join(fields)}}}"))


def _null(name: str) -> Constraint:
    return _residual({name: (Choice("word", None, "null"),)})


# Fields


class Meaning(NamedTuple):
    """What holds wherever a test holds, and what means exactly the same as the test."""

    needed: Expression
    exact: Expression


def _field(name: str, branch: Branch) -> Meaning:
    if not 0 < len(name) <= MAX_NAME:  # our constraints cannot have this name
        return Meaning(ALWAYS, _residual({name: branch[name]}))
    meanings = [_meaning(name, choice) for choice in branch[name]]
    needed = [meaning.needed for meaning in meanings]
    exact = _listed(meaning.exact for meaning in meanings)
    return Meaning(ALWAYS if ALWAYS in needed else _listed(needed), exact)


def _of_one_value(name: str, choices: Iterable[Choice]) -> Field | None:
    """What a field asks of one of its values; None if constraints cannot say it."""
    if not 0 < len(name) <= MAX_NAME:
        return None
    accepted: list[Expression] = []
    groups: list[tuple[Constraint, ...]] = []
    null = absent = False
    for choice in choices:
        tests = choice.operand if choice.kind == "but" else (choice,)
        plain = [_plain(name, test) for test in tests if test.kind not in ("exists", "but")]
        if None in plain:
            return None
        match choice.kind:
            case "exists":
                null, absent = null or choice.operand, absent or not choice.operand
                groups += [(_exists(name),)] if choice.operand else []
            case "word" if choice.operand is None:
                null = True
            case "but":
                null = True
                refused = _alternatives(_listed(test for test in plain if test is not None))
                groups.append((_exists(name), *(test.negate() for test in refused)))
            case _:
                accepted += (test for test in plain if test is not None)
    groups += ((test,) for test in _alternatives(_listed(accepted)))
    return Field(name, tuple(groups), null, absent)


def _plain(name: str, test: Choice) -> Expression | None:
    """A test of one value, for values that are not left to the residual (`Dialect.fields`)."""
    meaning = _meaning(name, test)
    match test.kind:
        case "range":
            return _between(name, test.operand)
        case "iequals" | "iprefix" | "isuffix":
            others = _folded_further(test.operand)
            return None if others is None or any(map(str.isascii, others)) else meaning.needed
        case "word" if test.operand is None:
            return NEVER
    return meaning.exact if meaning.needed == meaning.exact else None


def _alternatives(expression: Expression) -> list[Constraint]:
    parts = expression.parts if isinstance(expression, Or) else (expression,)
    return [part for part in parts if isinstance(part, Constraint)]


def _listed(parts: Iterable[Expression]) -> Expression:
    """A disjunction in which the equalities with values of one type become one list."""
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
    residual = _residual({name: (choice,)})
    match choice.kind:
        case "text":
            return _same(_text(name, "=", operand))
        case "prefix" | "suffix" | "like":
            return _same(_text(name, choice.kind, operand))
        case "iequals" | "iprefix" | "isuffix":
            return _caseless(name, choice, residual)
        case "number":
            return _number(name, operand, residual)
        case "range":
            return _range(name, operand, residual)
        case "address":
            return _address(name, operand, residual)
        case "word" if operand is not None:
            return _same(Constraint(name, "=", "bool", False, operand))
        case "word":
            return Meaning(ALWAYS, residual)
        case "exists" if operand:
            return Meaning(ALWAYS, disjoin((_exists(name), _null(name))))
        case "exists":
            # Other elements of an array may have the field, so the event as a whole needs nothing.
            return Meaning(ALWAYS, conjoin((_exists(name).negate(), _null(name).negate())))
        case "but":
            return Meaning(ALWAYS, disjoin((*_anything_but(name, operand, residual), _null(name))))
        case kind:
            raise AssertionError(f"{kind!r} is not a kind of test")


def _same(expression: Expression) -> Meaning:
    return Meaning(expression, expression)


def _text(name: str, operator: str, operand: Operand) -> Constraint:
    return Constraint(name, operator, "string", False, operand)


def _exists(name: str, kind: str = "any") -> Constraint:
    return Constraint(name, "exists", kind, False, None)


def _caseless(name: str, choice: Choice, residual: Constraint) -> Meaning:
    """Java knows one lower and one upper case of a character; Unicode folding may know more."""
    operator = {"iequals": "i=", "iprefix": "iprefix", "isuffix": "isuffix"}[choice.kind]
    others = _folded_further(choice.operand)
    if others is None:
        string = _exists(name, "string")
        return Meaning(string, conjoin((string, residual)))
    wanted = _text(name, operator, choice.operand)
    strange = [_text(name, "contains", character) for character in others]
    plain = conjoin((wanted, *(c.negate() for c in strange)))
    return Meaning(wanted, disjoin((plain, *(conjoin((wanted, c, residual)) for c in strange))))


def _folded_further(text: str) -> list[str] | None:
    """Characters that fold like one in a text and are not its lower or upper case, as Java sees it.

    None if a lower or upper case folds to something else.
    """
    others: set[str] = set()
    for character in set(text):
        wide = ord(character) > 0xFFFF  # for Java two characters, without case
        cases = {character} if wide else {character.lower(), character.upper()}
        folded = set(orbit(fold(character)))
        if not cases <= folded:  # the upper case of ß is SS, of ı it is I
            return None
        others |= folded - cases
    return sorted(others)


# Numbers


def _number(name: str, operand: Numeral, residual: Constraint) -> Meaning:
    value = operand.value
    if -EXACT <= value <= EXACT or not (operand.comparable or isinstance(value, int)):
        if not math.isfinite(value):
            return _same(NEVER)
        return _same(Constraint(name, "=", "number", False, value))
    bound = Constraint(name, ">=", "number", False, EXACT)
    if value < 0:
        bound = Constraint(name, "<=", "number", False, -EXACT)
    return Meaning(bound, conjoin((bound, residual)))


def _range(name: str, operand: Range, residual: Constraint) -> Meaning:
    """A value between two bounds; the next double replaces a bound that is excluded."""
    low, above, high, below = operand
    within = _between(name, operand)
    if within is None:
        number = _exists(name, "number")
        return Meaning(number, conjoin((number, residual)))
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
    return Meaning(needed, disjoin((within, *(conjoin((far, residual)) for far in beyond))))


def _between(name: str, operand: Range) -> Constraint | None:
    """A range as far as 2^53; None if it has a bound beyond."""
    low, above, high, below = operand
    if any(bound is not None and not -EXACT <= bound <= EXACT for bound in (low, high)):
        return None
    first = -EXACT if low is None else _next(low, math.inf) if above else low
    last = EXACT if high is None else _next(high, -math.inf) if below else high
    return Constraint(name, "between", "number", False, (first, last))


def _next(bound: int | float, towards: float) -> float:
    return math.nextafter(next_double(bound, above=towards < 0), towards)


# Internet addresses


def _address(name: str, block: Block, residual: Constraint) -> Meaning:
    """An address or a block: what all spellings of its addresses have in common."""
    if block.size == 16:
        needed = _version_6(name, block)
        return Meaning(needed, conjoin((needed, residual)))
    octets = [str(octet) for octet in block.first.to_bytes(4, "big")]
    mapped = _text(name, "icontains", "ffff:")  # IPv4 within IPv6
    if block.first == block.last:
        plain = _text(name, "=", ".".join(octets))
        padded = _text(name, "like", "%" + ".%".join(octets))
        return Meaning(
            disjoin((padded, mapped)),
            disjoin((plain, conjoin((padded, residual)), conjoin((mapped, residual)))),
        )
    fixed = octets[: block.bits // 8]
    if not fixed:
        needed = _exists(name, "string")
        return Meaning(needed, conjoin((needed, residual)))
    # The fixed octets, and how the text begins if one of them has leading zeros.
    starts = {"".join(f"{octet}." for octet in fixed)}
    starts |= {"".join(f"{octet}." for octet in fixed[:n]) + "0" for n in range(len(fixed))}
    alternatives: list[Expression] = [_text(name, "prefix", start) for start in sorted(starts)]
    alternatives.append(mapped)
    return Meaning(
        disjoin(alternatives),
        disjoin(conjoin((alternative, residual)) for alternative in alternatives),
    )


def _version_6(name: str, block: Block) -> Expression:
    """What an IPv6 text needs: the last group of an address, the first of a block, unless zero."""
    if block.first == block.last:
        last = block.first & 0xFFFF
        if last:
            return _text(name, "isuffix", f"{last:x}")
    elif block.bits >= 16 and block.first >> 112:
        start = _text(name, "iprefix", f"{block.first >> 112:x}:")
        return disjoin((start, _text(name, "prefix", "0")))
    return _text(name, "contains", ":")


# Anything but


def _anything_but(name: str, tests: tuple[Choice, ...], residual: Constraint) -> list[Expression]:
    """Some value of any type satisfies none of the tests; the caller deals with null.

    That is so if the attribute is present and no value satisfies any test. Otherwise it can only be
    so for a list: one value satisfies a test, and another may satisfy none.
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
        return [none, conjoin((_exists(name, kind), residual))]
    lists = [alternative for refused in sets for alternative in _mixed(name, refused, residual)]
    lists += (
        conjoin((*sets, _text(name, "contains", character), residual))
        for character in sorted(strange)
    )
    return [none, *lists]


def _mixed(name: str, refused: Constraint, residual: Constraint) -> list[Expression]:
    """Lists with a refused value and another value; cheap constraints tell most of them."""
    operand = refused.operand
    values = operand if isinstance(operand, tuple) else (operand,)
    differs = {"=": "!=", "in": "!=", "iin": "i!="}.get(refused.operator)
    if differs is None or len(values) > MANY:
        return [conjoin((refused, residual))]
    other = "number" if refused.type == "string" else "string"
    differing = [Constraint(name, differs, refused.type, False, value) for value in values]
    return [
        conjoin((refused, *differing, residual)),
        conjoin((refused, _exists(name, other))),
        conjoin((refused, _exists(name, "bool"))),
    ]


def _without_prefix(name: str, prefix: str) -> list[Expression]:
    after = after_prefix(prefix)
    alternatives: list[Expression] = [_text(name, "<", prefix)]
    if after is not TOP:
        alternatives.append(_text(name, ">=", after))
    return [*alternatives, _exists(name, "number"), _exists(name, "bool")]
