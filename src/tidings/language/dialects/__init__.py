"""The dialects: filter languages of other systems, and ours among them, one row each.

A dialect is a package in this folder with the functions that `Dialect` names; our own is a module
of the room. `read` translates to an expression of ours, which is indexed, compared and matched like
any other. What our constraints cannot say (arithmetic, functions, null versus absent, arrays of
records) stays in the expression as a *residual*: an opaque constraint about the whole event,
written `jms('price * quantity > 100')` and answered by the dialect's `test`, after the index has
pruned. A translator puts beside it what the event needs at least, in ordinary constraints.

The files are loaded when a dialect is first asked for: `import tidings` needs none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidings.language.constraint import Check
    from tidings.language.expression import Expression

TESTS_KEPT: Final = 1 << 16  # compiled residuals, the most lately asked for


@dataclass(frozen=True, slots=True)
class Dialect:
    """A row: what the dialect is, and the module with its functions.

    `read(given)` is there always; `write(expression)` where the dialect can be a target of
    translation; `test(text)` and `names(text)` where it has residuals.
    """

    about: str
    module: str

    def read(self, given: str | Mapping[str, Any]) -> Expression:
        """The expression that means the same; `PredicateError` says where there is none."""
        return import_module(self.module).read(given)  # type: ignore[no-any-return]

    @property
    def writes(self) -> bool:
        """Whether the dialect can be a target of translation."""
        return hasattr(import_module(self.module), "write")

    def write(self, expression: Expression) -> str:
        """The text that means the same; `TranslationError` says why the dialect has none."""
        return import_module(self.module).write(expression)  # type: ignore[no-any-return]

    @property
    def tests(self) -> bool:
        """Whether the dialect has residuals."""
        return hasattr(import_module(self.module), "test")

    def test(self, text: str) -> Check:
        """A residual as a function from the event as it came, nested, to true or false."""
        return _compiled(self.module, text)

    def names(self, text: str) -> frozenset[str] | None:
        """The attributes that a residual looks at, in a row of columns; None where it may be any.

        A name stands for all that lies below it. Rows of columns have no nulls, so what looks for
        null only looks at nothing.
        """
        return import_module(self.module).names(text)  # type: ignore[no-any-return]


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
    """The row of a dialect; `ValueError` names those there are."""
    found = DIALECTS.get(name)
    if found is None:
        raise ValueError(f"expected a dialect ({', '.join(DIALECTS)}), found {name!r:.60}")
    return found
