"""Our expressions written as selectors, which select exactly the events that match."""

from __future__ import annotations

from typing import Any

from tidings.language import text as tx
from tidings.language.constraint import Constraint
from tidings.language.dialects.jms.evaluation import exactly_compared, needs
from tidings.language.dialects.jms.syntax import (
    KEYWORDS,
    identifier_end,
    may_be_used,
    read_selector,
    write_literal,
    write_pattern,
)
from tidings.language.dialects.sql_syntax import like_pattern
from tidings.language.errors import TranslationError
from tidings.language.expression import And, Expression, Not, Or


def write(expression: Expression) -> str:
    """The selector that is true exactly where an expression holds."""
    return _written(expression, negated=False, least=0)


def _written(expression: Expression, negated: bool, least: int) -> str:
    match expression:
        case Constraint():
            return _constraint(expression, expression.negated is not negated, least)
        case Not(part):
            return _written(part, not negated, least)
        case And(parts) | Or(parts):
            conjunction = isinstance(expression, And) is not negated
            if not parts:
                return "TRUE" if conjunction else "FALSE"
            if conjunction and not negated:
                parts = _without_needs(parts)
            level = 2 if conjunction else 1
            word = " AND " if conjunction else " OR "
            text = word.join(_written(part, negated, level) for part in parts)
            return text if level >= least else f"({text})"


def _without_needs(parts: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """A conjunction without the constraints that its residuals imply.

    A translation has put these beside the residuals, for the index.
    """
    implied: set[Expression] = set()
    for part in parts:
        if isinstance(part, Constraint) and part.operator == "holds" and not part.negated:
            assert isinstance(part.operand, tuple)
            dialect, text = part.operand
            node = read_selector(str(text)) if dialect == "jms" else None
            numbers, present = (set(), set()) if node is None else needs(node)
            for kind, names in (("number", numbers), ("any", present)):
                implied |= {Constraint(name, "exists", kind, False, None) for name in names}
    return tuple(part for part in parts if part not in implied)


def _constraint(constraint: Constraint, negated: bool, least: int) -> str:
    """A constraint. Negated it also holds where the attribute is absent; the selector says so."""
    if constraint.operator == "holds":
        return _residual(constraint, negated)
    name = _identifier(constraint)
    if constraint.operator == "exists" and constraint.type == "any":
        return f"{name} IS {'' if negated else 'NOT '}NULL"
    tests = _tests(constraint, name)
    if negated:
        tests = [f"{name} IS NULL", f"NOT ({' OR '.join(tests)})"]
    text = " OR ".join(tests)
    return f"({text})" if len(tests) > 1 and least > 1 else text


def _residual(constraint: Constraint, negated: bool) -> str:
    assert isinstance(constraint.operand, tuple)
    dialect, text = constraint.operand
    if dialect != "jms":
        raise _unsaid(constraint, f"it is a test of {dialect}")
    if negated:
        raise _unsaid(constraint, "a selector cannot select where a test is false or unknown")
    return f"({text})"


def _identifier(constraint: Constraint) -> str:
    name = constraint.name
    if not name or identifier_end(name, 0) != len(name) or name.lower() in KEYWORDS:
        raise _unsaid(constraint, f"{name!r} is not an identifier of selectors")
    if not may_be_used(name):
        raise _unsaid(constraint, f"selectors may not use the header field {name}")
    return name


def _tests(constraint: Constraint, name: str) -> list[str]:
    """Comparisons whose disjunction means the same as a constraint, negation aside."""
    operator, kind = constraint.operator, constraint.type
    operand: Any = constraint.operand
    if kind in ("int", "real") or (operator == "exists" and kind == "number"):
        raise _unsaid(constraint, f"selectors cannot test whether a value is of type {kind}")
    if operator == "exists":
        if kind == "bool":
            return [f"{name} = TRUE", f"{name} = FALSE"]
        return [f"{name} LIKE '%'"]
    values = operand if isinstance(operand, tuple) else (operand,)
    if kind == "number" and not all(exactly_compared(value) for value in values):
        raise _unsaid(constraint, "selectors round integers past 2^53 to doubles")
    match operator:
        case "=" | "!=" | "<" | "<=" | ">" | ">=" if kind != "string" or operator in ("=", "!="):
            return [f"{name} {'<>' if operator == '!=' else operator} {write_literal(operand)}"]
        case "between" if kind == "number":
            return [f"{name} BETWEEN {write_literal(values[0])} AND {write_literal(values[1])}"]
        case "in" if kind == "string":
            return [f"{name} IN ({', '.join(map(write_literal, values))})"]
        case "in":
            return [f"{name} = {write_literal(value)}" for value in values]
        case "prefix" | "suffix" | "contains" | "like":
            return [f"{name} LIKE {write_pattern(like_pattern(operator, operand))}"]
        case "<" | "<=" | ">" | ">=" | "between":
            raise _unsaid(constraint, "selectors do not order texts")
        case _:
            raise _unsaid(constraint, f"selectors have no operator {operator}")


def _unsaid(constraint: Constraint, reason: str) -> TranslationError:
    return TranslationError("jms", tx.write_constraint(constraint), reason)
