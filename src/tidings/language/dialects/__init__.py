"""The dialects: filter languages of other systems, and our own among them, one row each.

A dialect is a package in this folder with the functions that `Dialect` names; our own is the module
`tidings.language.text`. `read` translates a text to an expression of ours, which Tidings indexes,
compares and matches like any other. What our constraints cannot say (arithmetic, functions, null
versus absent, arrays of records) stays in the expression as a *residual*: an opaque constraint
about the whole event, written `jms('price * quantity > 100')`. The dialect's `test` evaluates it
after the index has pruned. Beside it the translation puts ordinary constraints that every matching
event satisfies, so that the index can prune.

Python loads a dialect's files when it is first used: `import tidings` loads none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from tidings.language.constraint import Check, Constraint
    from tidings.language.expression import Expression

TESTS_KEPT: Final = 1 << 16  # compiled residuals, the most recently used


class Field(NamedTuple):
    """What a residual asks of one value of an attribute."""

    name: str
    choices: tuple[tuple[Constraint, ...], ...]  # the value satisfies all constraints of one
    null: bool  # a null will do as well
    absent: bool  # so does no value at all, in the elements that the fields before have chosen


@dataclass(frozen=True, slots=True)
class Dialect:
    """A row: what the dialect is, and the module with its functions.

    Every module has `read(given)`. It has `write(expression)` if the dialect can be a target of
    translation, and `test(text)` and `names(text)` if the dialect has residuals. It may have
    `tested_for_null(text)` and `fields(text)`, which spare an engine residuals.
    """

    about: str
    module: str

    def read(self, given: str | Mapping[str, Any]) -> Expression:
        """The expression that means the same; `PredicateError` shows the place of a mistake."""
        return import_module(self.module).read(given)  # type: ignore[no-any-return]

    @property
    def writes(self) -> bool:
        """Whether the dialect can be a target of translation."""
        return hasattr(import_module(self.module), "write")

    def write(self, expression: Expression) -> str:
        """The text that means the same; `TranslationError` says why the dialect cannot say it."""
        return import_module(self.module).write(expression)  # type: ignore[no-any-return]

    @property
    def tests(self) -> bool:
        """Whether the dialect has residuals."""
        return hasattr(import_module(self.module), "test")

    def test(self, text: str) -> Check:
        """A residual as a function from the event as it came, nested, to true or false."""
        return _compiled(self.module, text)

    def names(self, text: str) -> frozenset[str] | None:
        """The attributes that a residual reads from a row of columns; None if it may read any.

        A name includes everything below it. Rows of columns have no nulls, so a test for null alone
        reads nothing.
        """
        return import_module(self.module).names(text)  # type: ignore[no-any-return]

    def tested_for_null(self, text: str) -> str | None:
        """The attribute that a residual tests for null; None if it tests anything else."""
        module = import_module(self.module)
        return module.tested_for_null(text) if hasattr(module, "tested_for_null") else None

    def fields(self, text: str) -> Sequence[Field] | None:
        """What a residual asks of single values, in order; None if `Field`s cannot say it.

        It holds if one can choose a value for each field, no two of them in different elements of
        one list. Two sorts of values are left to `test`: numbers of 2^53 and beyond, and texts with
        other characters than ASCII where a constraint ignores case.
        """
        module = import_module(self.module)
        return module.fields(text) if hasattr(module, "fields") else None


@lru_cache(maxsize=TESTS_KEPT)
def _compiled(module: str, text: str) -> Check:
    return import_module(module).test(text)  # type: ignore[no-any-return]


DIALECTS: Final[dict[str, Dialect]] = {
    "tidings": Dialect("our own text form, like the WHERE of a query", "tidings.language.text"),
    "eventbridge": Dialect(
        "JSON event patterns of Amazon EventBridge, as event-ruler has them",
        "tidings.language.dialects.eventbridge",
    ),
    "jms": Dialect("SQL-92 message selectors of JMS", "tidings.language.dialects.jms"),
    "cesql": Dialect("CloudEvents SQL, version 1", "tidings.language.dialects.cesql"),
}


def dialect_named(name: str) -> Dialect:
    """The row of a dialect; `ValueError` lists the dialects if the name is not among them."""
    found = DIALECTS.get(name)
    if found is None:
        raise ValueError(f"expected a dialect ({', '.join(DIALECTS)}), found {name!r:.60}")
    return found
