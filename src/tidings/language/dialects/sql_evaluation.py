"""What the dialects that look like SQL share when they evaluate: truth on an event, and integers.

A test is true, false or None. None stands for unknown in `jms` and for an error in `cesql`. Neither
language knows lists, so the rule for them is ours: `on_event` states it for both dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import ge, gt, le, lt
from typing import Any, Final

from tidings.language.event import Scalar, lookup

Truth = bool | None
Values = Mapping[str, Scalar | None]  # None for an attribute with several values
Condition = Callable[[Mapping[str, Any]], Truth]  # of an event

ORDERINGS: Final[dict[str, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def on_event(test: Callable[[Values], Truth], names: tuple[str, ...]) -> Condition:
    """A test of single values as a test of an event, whose attributes may have several values.

    A test that reads one attribute is true if it is true for any value, else false if it is false
    for any, else None. For a test that reads several attributes, one with two or more values has
    the value None. The values leave out absent attributes.
    """

    def single(event: Mapping[str, Any]) -> Truth:
        found = lookup(event, names[0])
        return _of_any(test({names[0]: value}) for value in found) if found else test({})

    def several(event: Mapping[str, Any]) -> Truth:
        found = ((name, lookup(event, name)) for name in names)
        return test({n: given[0] if len(given) == 1 else None for n, given in found if given})

    return single if len(names) == 1 else several


def _of_any(truths: Iterable[Truth]) -> Truth:
    result: Truth = None
    for answer in truths:
        if answer is True:
            return True
        if answer is False:
            result = False
    return result


def negation(answer: Truth) -> Truth:
    """NOT: None stays None."""
    return None if answer is None else not answer


def exact(operator: str, left: int, right: int) -> int | None:
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
