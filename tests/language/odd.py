"""A dialect made for the tests of the frame: it has residuals and nothing else.

Its text is a name: the test holds where that attribute of the event, as it came, has an odd number
of values, nulls not counted. The empty text asks it of the whole event. `read` takes texts of `or`:
`x or y`.
"""

from collections.abc import Mapping
from typing import Any

from tidings.language.constraint import Check, Constraint
from tidings.language.dialects import DIALECTS, Dialect
from tidings.language.errors import PredicateError
from tidings.language.expression import Expression, disjoin


def read(given: str | Mapping[str, Any]) -> Expression:
    """The disjunction of residuals for names."""
    assert isinstance(given, str)
    position = given.find("?")
    if position >= 0:
        raise PredicateError(given, position, "a name")
    return disjoin(residual(name) for name in given.split(" or "))


def residual(name: str) -> Constraint:
    """The leaf for one name."""
    return Constraint("", "holds", "any", False, ("odd", name))


def test(text: str) -> Check:
    """Whether there is an odd number of values."""
    if "?" in text:
        raise PredicateError(text, text.index("?"), "a name")
    return lambda event: odd(text, event)


test.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's


def names(text: str) -> frozenset[str] | None:
    """The one attribute, or all."""
    return frozenset({text}) if text else None


def odd(text: str, event: Mapping[str, Any]) -> bool:
    """The same without the frame."""
    return count(event.get(text) if text else event) % 2 == 1


def count(value: Any) -> int:
    """How many scalars there are within a value."""
    if isinstance(value, Mapping):
        return sum(map(count, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(count, value))
    return value is not None


DIALECTS["odd"] = Dialect("for tests: an odd number of values", __name__)
