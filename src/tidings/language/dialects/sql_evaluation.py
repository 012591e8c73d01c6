"""What the dialects that look like SQL share when they evaluate: truth on an event, and integers.

A test is true, false or None. None stands for unknown in `jms` and for an error in `cesql`. Neither
language knows lists, so the rule for them is ours: `on_event` states it for both dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import ge, gt, le, lt
from typing import Any, Final

from tidings.language.event import lookup
from tidings.language.values import Scalar

Truth = bool | None
Values = Mapping[str, Scalar | None]  # None for an attribute with several values
Condition = Callable[[Mapping[str, Any]], Truth]  # of an event

# Which answer decides first where several truths become one.
ANY_VALUE: Final = (True, False, None)  # of a list
OR: Final = (True, None, False)
AND: Final = (False, None, True)

ORDERINGS: Final[dict[str, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def on_event(test: Callable[[Values], Truth], names: tuple[str, ...]) -> Condition:
    """A test of single values as a test of an event, whose attributes may have several values.

    A test that reads one attribute is true if it is true for any value, else false if it is false
    for any, else None. For a test that reads several attributes, one with two or more values has
    the value None. The values leave out absent attributes.
    """

    def single(event: Mapping[str, Any]) -> Truth:
        found = lookup(event, names[0])
        if not found:
            return test({})
        return strongest(ANY_VALUE, (test({names[0]: value}) for value in found))

    def several(event: Mapping[str, Any]) -> Truth:
        found = ((name, lookup(event, name)) for name in names)
        return test({n: given[0] if len(given) == 1 else None for n, given in found if given})

    return single if len(names) == 1 else several


def strongest(order: tuple[Truth, Truth, Truth], truths: Iterable[Truth]) -> Truth:
    """The earliest answer in an order that any of the truths gives; the last if there are none."""
    best = 2
    for answer in truths:
        best = min(best, order.index(answer))
        if best == 0:
            break
    return order[best]


def negation(answer: Truth) -> Truth:
    """NOT: None stays None."""
    return None if answer is None else not answer


def calculate_exactly(operator: str, left: int, right: int) -> int | None:
    """Integer arithmetic without a bound; division truncates. None for a division by zero."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" | "%":
            if right == 0:
                return None
            quotient = abs(left) // abs(right)
            quotient = quotient if (left < 0) == (right < 0) else -quotient
            return quotient if operator == "/" else left - quotient * right
        case _:
            raise AssertionError(operator)
