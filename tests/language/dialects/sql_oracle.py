"""What the oracles of `jms` and `cesql` share: their trees, and how a test reads lists.

A tree is a tuple of an operator and its parts. `("name", name)` is an attribute, `("lit", value)` a
constant. Neither dialect knows lists, so the reading of them is ours, and it is one: a test that
reads one attribute is tried on each of its values; for one that reads several, an attribute with
several values is `MANY`.
"""

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

Tree = tuple[Any, ...]
MANY = object()

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def names(tree: Any) -> set[str]:
    """The attributes that a tree reads."""
    match tree:
        case ("name" | "exists", name):
            return {name}
        case tuple():
            return set().union(*map(names, tree))
        case _:
            return set()


def elements(value: Any) -> list[Any]:
    """The values of an attribute."""
    return [v for v in (value if isinstance(value, list) else [value]) if v is not None]


def readings(tree: Tree, event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The values by name on which a test is tried; absent attributes are not among them."""
    found = {name: elements(event.get(name)) for name in sorted(names(tree))}
    present = {name: values for name, values in found.items() if values}
    if len(found) == 1 and present:
        return [{name: value} for name, values in present.items() for value in values]
    return [
        {name: values[0] if len(values) == 1 else MANY for name, values in present.items()},
    ]


def quotient(left: int, right: int) -> int:
    """The quotient of two integers, cut towards zero."""
    return math.trunc(Fraction(left, right))
