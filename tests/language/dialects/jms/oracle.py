"""The slow twin of the `jms` dialect, from the specification of Jakarta Messaging 3.1 alone.

Selectors are drawn as trees of tuples, spelled as text for the dialect, and evaluated here without
its parser or translation. `TRUE`, `FALSE` and None (unknown) are the three values of section
3.8.1.2; `FOREIGN` is what arithmetic on a text gives, which is like no other value.

    condition = ("and", c, ...) ("or", c, ...) ("not", c) ("bool", name) ("const", true or false)
                ("cmp", operator, v, v) ("between", negated, v, v, v) ("null", negated, name)
                ("in", negated, name, texts) ("like", negated, name, pattern)
    value     = ("lit", scalar) ("name", name) ("neg", v) ("math", operator, v, v) ("cond", c)

A pattern is one of ours, with backslash escapes.
"""

import math
from collections.abc import Mapping
from typing import Any

from tests.language.oracle import like

Tree = tuple[Any, ...]
FOREIGN = object()


# Spelling


def spelled(tree: Tree) -> str:
    """The selector of a tree, with parentheses wherever they may stand."""
    match tree:
        case ("and" | "or", *parts):
            return f" {tree[0]} ".join(f"({spelled(part)})" for part in parts)
        case ("not", part):
            return f"NOT ({spelled(part)})"
        case ("bool", name):
            return str(name)
        case ("const", value) | ("lit", value):
            return literal(value)
        case ("name", name):
            return str(name)
        case ("cmp", operator, left, right):
            return f"{operand(left)} {operator} {operand(right)}"
        case ("between", negated, value, low, high):
            word = "NOT BETWEEN" if negated else "between"
            return f"{operand(value)} {word} {operand(low)} AND {operand(high)}"
        case ("in", negated, name, texts):
            return f"{name} {'not ' if negated else ''}IN ({','.join(map(literal, texts))})"
        case ("like", negated, name, pattern):
            return f"{name} {'not ' if negated else ''}Like {literal(pattern)} escape '\\'"
        case ("null", negated, name):
            return f"{name} is {'NOT ' if negated else ''}null"
        case ("neg", part):
            return f"-{operand(part)}"
        case ("math", operator, left, right):
            return f"{operand(left)} {operator} {operand(right)}"
        case _:
            raise AssertionError(tree)


def operand(tree: Tree) -> str:
    match tree:
        case ("lit" | "name", _):
            return f"{spelled(tree)}" if tree[0] == "name" else f"({spelled(tree)})"
        case ("cond", condition):
            return f"({spelled(condition)})"
        case _:
            return f"({spelled(tree)})"


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
    read = sorted(names(tree))
    values = {name: elements(event.get(name)) for name in read}
    if len(read) == 1:
        answers = [on_values(tree, {read[0]: value}) for value in values[read[0]] or [None]]
        return True if True in answers else False if False in answers else None
    return on_values(
        tree, {n: found[0] if len(found) == 1 else None for n, found in values.items()}
    )


def names(tree: Any) -> set[str]:
    match tree:
        case ("name" | "bool", name):
            return {name}
        case ("in" | "like" | "null", _, name, *_):
            return {name}
        case tuple():
            return set().union(*map(names, tree))
        case _:
            return set()


def elements(value: Any) -> list[Any]:
    return [v for v in (value if isinstance(value, list) else [value]) if v is not None]


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
        case ("const", value):
            return bool(value)
        case ("bool", name):
            return None if values[name] is None else values[name] is True
        case ("null", negated, name):
            return (values[name] is None) is not negated
        case ("cmp", operator, left, right):
            return compared(operator, valued(left, values), valued(right, values))
        case ("between", False, value, low, high):
            return conjunction([on_values(("cmp", ">=", value, low), values),
                                on_values(("cmp", "<=", value, high), values)])  # fmt: skip
        case ("between", True, value, low, high):
            return disjunction([on_values(("cmp", "<", value, low), values),
                                on_values(("cmp", ">", value, high), values)])  # fmt: skip
        case ("in", False, name, texts):
            return disjunction(
                [on_values(("cmp", "=", ("name", name), ("lit", text)), values) for text in texts]
            )
        case ("like", False, name, pattern):
            value = values[name]
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
            return values[name]
        case ("cond", condition):
            return on_values(condition, values)
        case ("neg", part):
            return calculated("*", valued(part, values), -1)
        case ("math", operator, left, right):
            return calculated(operator, valued(left, values), valued(right, values))
        case _:
            raise AssertionError(tree)


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
        exact = abs(left) // abs(right) * (1 if left * right >= 0 else -1)
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
    match operator:
        case "=":
            return bool(left == right)
        case "<>":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case ">=":
            return bool(left >= right)
        case _:
            raise AssertionError(operator)
