"""The slow twin of the `jms` dialect, from the specification of Jakarta Messaging 3.1 alone.

Selectors are drawn as trees of tuples, spelled as text for the dialect, and evaluated here without
its parser or translation. `TRUE`, `FALSE` and None (unknown) are the three values of section
3.8.1.2; `FOREIGN` is what arithmetic on a text gives, which is like no other value.

    condition = ("and", c, ...) ("or", c, ...) ("not", c) name ("lit", true or false)
                ("cmp", operator, v, v) ("between", negated, v, v, v) ("null", negated, name)
                ("in", negated, name, literal, ...) ("like", negated, name, pattern)
    value     = name literal ("neg", v) ("math", operator, v, v) condition
    name      = ("name", name)
    literal   = ("lit", scalar)

A pattern is one of ours, with backslash escapes.
"""

import math
from collections.abc import Mapping
from typing import Any

from tests.language.dialects.sql_oracle import COMPARE, MANY, Tree, quotient, readings
from tests.language.oracle import like

FOREIGN = object()


# Spelling


def spelled(tree: Tree) -> str:
    """The selector of a tree, with parentheses wherever they may stand."""
    match tree:
        case ("and" | "or", *parts):
            return f" {tree[0]} ".join(f"({spelled(part)})" for part in parts)
        case ("not", part):
            return f"NOT ({spelled(part)})"
        case ("lit", value):
            return literal(value)
        case ("name", name):
            return str(name)
        case ("cmp" | "math", operator, left, right):
            return f"{operand(left)} {operator} {operand(right)}"
        case ("between", negated, value, low, high):
            word = "NOT BETWEEN" if negated else "between"
            return f"{operand(value)} {word} {operand(low)} AND {operand(high)}"
        case ("in", negated, name, *members):
            texts = ",".join(map(spelled, members))
            return f"{spelled(name)} {'not ' if negated else ''}IN ({texts})"
        case ("like", negated, name, pattern):
            word = "not Like" if negated else "Like"
            return f"{spelled(name)} {word} {literal(pattern)} escape '\\'"
        case ("null", negated, name):
            return f"{spelled(name)} is {'NOT ' if negated else ''}null"
        case ("neg", part):
            return f"-{operand(part)}"
        case _:
            raise AssertionError(tree)


def operand(tree: Tree) -> str:
    return spelled(tree) if tree[0] == "name" else f"({spelled(tree)})"


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "False"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


# Meaning


def selects(tree: Tree, event: Mapping[str, Any]) -> bool:
    """Whether an event is selected: the selector is true on it."""
    return truth(tree, event) is True


def truth(tree: Tree, event: Mapping[str, Any]) -> bool | None:
    """A condition on an event whose attributes may be lists."""
    match tree:
        case ("and", *parts):
            return conjunction([truth(part, event) for part in parts])
        case ("or", *parts):
            return disjunction([truth(part, event) for part in parts])
        case ("not", part):
            return negation(truth(part, event))
        case ("in" | "like", True, *rest):  # the NOT of the other, also on lists
            return negation(truth((tree[0], False, *rest), event))
    answers = [on_values(tree, values) for values in readings(tree, event)]
    return True if True in answers else False if False in answers else None


def conjunction(truths: list[bool | None]) -> bool | None:
    return False if False in truths else None if None in truths else True


def disjunction(truths: list[bool | None]) -> bool | None:
    return True if True in truths else None if None in truths else False


def negation(value: bool | None) -> bool | None:
    return None if value is None else not value


def on_values(tree: Tree, values: Mapping[str, Any]) -> bool | None:
    """A condition on single values."""
    match tree:
        case ("and", *parts):
            return conjunction([on_values(part, values) for part in parts])
        case ("or", *parts):
            return disjunction([on_values(part, values) for part in parts])
        case ("not", part):
            return negation(on_values(part, values))
        case ("lit", value):
            return bool(value)
        case ("name", _):
            value = valued(tree, values)
            return None if value is None else value is True
        case ("null", negated, name):
            return (valued(name, values) is None) is not negated
        case ("cmp", operator, left, right):
            return compared(operator, valued(left, values), valued(right, values))
        case ("between", False, value, low, high):
            return conjunction([on_values(("cmp", ">=", value, low), values),
                                on_values(("cmp", "<=", value, high), values)])  # fmt: skip
        case ("between", True, value, low, high):
            return disjunction([on_values(("cmp", "<", value, low), values),
                                on_values(("cmp", ">", value, high), values)])  # fmt: skip
        case ("in", False, name, *members):
            return disjunction([on_values(("cmp", "=", name, m), values) for m in members])
        case ("like", False, name, pattern):
            value = valued(name, values)
            return None if value is None else isinstance(value, str) and like(pattern, value)
        case ("in" | "like", True, *rest):
            return negation(on_values((tree[0], False, *rest), values))
        case _:
            raise AssertionError(tree)


def valued(tree: Tree, values: Mapping[str, Any]) -> Any:
    """A value: a scalar, None for NULL, or FOREIGN."""
    match tree:
        case ("lit", value):
            return value
        case ("name", name):
            value = values.get(name)
            return None if value is MANY else value
        case ("neg", part):
            return calculated("*", valued(part, values), -1)
        case ("math", operator, left, right):
            return calculated(operator, valued(left, values), valued(right, values))
        case _:
            return on_values(tree, values)


def number(value: Any) -> bool:
    return type(value) in (int, float)


def double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def calculated(operator: str, left: Any, right: Any) -> Any:
    """Java's arithmetic: longs wrap around, doubles do not fail."""
    if left is None or right is None:
        return None
    if not (number(left) and number(right)):
        return FOREIGN
    if float in (type(left), type(right)):
        x, y = double(left), double(right)
        if operator == "/":
            if y == 0:
                if x == 0 or math.isnan(x):
                    return math.nan
                return math.inf if math.copysign(1, x) == math.copysign(1, y) else -math.inf
            return x / y
        return {"+": x + y, "-": x - y, "*": x * y}[operator]
    if operator == "/":
        if right == 0:
            return None
        exact = quotient(left, right)
    else:
        exact = {"+": left + right, "-": left - right, "*": left * right}[operator]
    bits = exact & (2**64 - 1)
    return bits - 2**64 if bits >= 2**63 else bits


def compared(operator: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if number(left) and number(right):
        if type(left) is not type(right):
            left, right = double(left), double(right)
        if left != left or right != right:
            return False
    elif type(left) is not type(right) or left is FOREIGN or operator not in ("=", "<>"):
        return False
    return COMPARE[operator](left, right)
