"""Our expressions written as CloudEvents SQL.

CloudEvents SQL casts values and cannot test their types. So a written filter means the same on
events whose attributes have the types that it compares them with: texts, booleans and 32-bit
integers, which are the types of CloudEvents. EXISTS guards every test, because a missing attribute
is an error there, and an error would reject the event whatever the other tests say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from tidings.language import text as tx
from tidings.language.constraint import Constraint
from tidings.language.dialects.cesql.syntax import KEYWORDS, write_literal, write_pattern
from tidings.language.dialects.cesql.values import INTEGER_MAX, INTEGER_MIN
from tidings.language.dialects.sql_syntax import like_pattern
from tidings.language.errors import TranslationError
from tidings.language.expression import And, Expression, Not, Or

_NAME: Final = re.compile(r"[a-z0-9]*[a-z][a-z0-9]*")


def write(expression: Expression) -> str:
    """The filter that the events pass for which an expression holds."""
    if isinstance(expression, And) and expression.parts:
        return " AND ".join(_part(part, alone=True) for part in expression.parts)
    return _written(expression, alone=True)


def _written(expression: Expression, alone: bool = False) -> str:
    match expression:
        case Constraint(operator="holds"):
            return _residual(expression, alone)
        case Constraint(negated=True):
            return f"NOT ({_constraint(expression)})"
        case Constraint():
            return _constraint(expression)
        case Not(part):
            return f"NOT ({_written(part)})"
        case And(parts):
            return " AND ".join(map(_part, parts)) if parts else "TRUE"
        case Or(parts):
            return " OR ".join(map(_part, parts)) if parts else "FALSE"


def _part(expression: Expression, alone: bool = False) -> str:
    """A part of a conjunction or disjunction. AND and OR have one precedence, hence parentheses."""
    text = _written(expression, alone)
    is_negated = isinstance(expression, Constraint) and expression.negated
    plain = isinstance(expression, Not) or is_negated or " " not in text
    return text if plain else f"({text})"


def _residual(constraint: Constraint, alone: bool) -> str:
    """A test of this dialect; refused where an error in it would reject an event that matches."""
    assert isinstance(constraint.operand, tuple)
    dialect, text = constraint.operand
    if dialect != "cesql":
        raise _unsaid(constraint, f"it is a test of {dialect}")
    if constraint.negated or not alone:
        raise _unsaid(constraint, "an error in it would reject the event, whatever the rest says")
    return str(text)


def _constraint(constraint: Constraint) -> str:
    """A constraint, its negation aside."""
    name = constraint.name
    if _NAME.fullmatch(name) is None or name in KEYWORDS:
        raise _unsaid(constraint, f"{name!r} is not an attribute name of CloudEvents")
    if constraint.operator == "exists":
        if constraint.type != "any":
            raise _unsaid(constraint, "CloudEvents SQL casts values and cannot test their types")
        return f"EXISTS {name}"
    return f"EXISTS {name} AND {_test(constraint, name)}"


def _test(constraint: Constraint, name: str) -> str:
    operator = constraint.operator
    operand: Any = constraint.operand
    if constraint.type == "real":
        raise _unsaid(constraint, "CloudEvents have no reals")
    if constraint.type == "string" and operator in ("<", "<=", ">", ">=", "between"):
        raise _unsaid(constraint, "CloudEvents SQL does not order texts")
    values = _literals(constraint, operand if isinstance(operand, tuple) else (operand,))
    match operator:
        case "=" | "<" | "<=" | ">" | ">=":
            return f"{name} {operator} {values[0]}"
        case "!=":  # not <>, which means NOT =: on a list, that no value is equal
            return f"({name} = {values[0]}) = FALSE"
        case "between":  # on a list, one value must be within both bounds
            return f"({name} >= {values[0]} AND {name} <= {values[1]}) = TRUE"
        case "in":
            return f"{name} IN ({', '.join(values)})"
        case "prefix" | "suffix" | "contains" | "like":
            pattern = write_pattern(like_pattern(operator, operand))
            if pattern is None:
                raise _unsaid(constraint, "its patterns cannot hold a backslash there")
            return f"{name} LIKE {pattern}"
        case _:
            raise _unsaid(constraint, f"CloudEvents SQL has no operator {operator}")


def _literals(constraint: Constraint, values: Sequence[Any]) -> list[str]:
    written = []
    for value in values:
        if isinstance(value, float) or (
            isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX
        ):
            raise _unsaid(constraint, f"{value!r} is not a 32-bit integer")
        literal = write_literal(value)
        if literal is None and constraint.operator in ("=", "!=", "in"):
            raise _unsaid(constraint, "its texts cannot hold a backslash there")
        written.append(literal or "")
    return written


def _unsaid(constraint: Constraint, reason: str) -> TranslationError:
    return TranslationError("cesql", tx.write_constraint(constraint), reason)
