"""What a dialect tells the laws of `test_laws.py`, which every dialect must keep.

The laws draw predicates as trees, spell them in the dialect, and compare what Tidings answers with
what the dialect's oracle says about the tree. Each dialect's folder holds four files:

- `oracle.py`, the slow twin: what a tree means, from the specification alone
- `cases.py`, tables: texts, events and answers; refusals with their place; translations
- `subject.py`, how to draw trees and events; it ties all this together to a `Subject`
- `test_<dialect>.py`, tests of what only this dialect has
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from hypothesis import strategies as st

from tidings import Event, Predicate, parse
from tidings.language.dialects import DIALECTS, Dialect
from tidings.language.expression import Expression

Tree = Any  # a predicate as the oracle reads it: nested tuples, or the JSON of a pattern
Record = dict[str, Any]  # an event, or a row of columns
World = tuple[list[Tree], list[Record]]

Example = tuple[str, Record, bool]  # a text, an event, and whether it matches
Refusal = tuple[str, int, int, str]  # a text, the line and column of its mistake, what is expected
Translation = tuple[str, str]  # a text, and what it becomes
Excuse = tuple[str, str]  # a predicate of ours, and why the dialect cannot say it
Covering = tuple[str, str, bool]  # two texts, and whether the first covers the second


class Cases(Protocol):
    """The tables that the `cases.py` of every dialect holds."""

    PLAIN: list[Any]  # trees: tests of `x` against constants
    EXAMPLES: list[Example]
    HOSTILE: list[Example]  # that a careless matcher would take forever for
    DEEP: list[Example]  # nested nearly as deep as texts may be
    REFUSED: list[Refusal]
    TRANSLATED: list[Translation]  # to ours
    COVERING: list[Covering]
    WRITTEN: list[Translation]  # from ours
    UNSAYABLE: list[Excuse]
    WORDS: list[str]  # pieces of which texts are made that may be wrong


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A dialect, as the laws see it."""

    name: str
    cases: Cases

    # Predicates by chance, and their meaning
    spell: Callable[[Tree], str]
    matches: Callable[[Tree, Mapping[str, Any]], bool]  # what the oracle says
    negate: Callable[[Tree], Tree] | None  # None where the dialect has no negation
    trees: st.SearchStrategy[Tree]
    worlds: Callable[[int, int], st.SearchStrategy[World]]  # by the least and most trees in one
    plain_events: Sequence[Event]  # for the trees of `PLAIN`
    storable: Callable[[Any], bool]  # whether JSON carries a value as it is
    columns: Mapping[str, pa.DataType]
    rows: st.SearchStrategy[Record]  # of these columns

    # Predicates of ours, and the events on which what is written must mean the same
    expressions: st.SearchStrategy[Expression]
    written_events: st.SearchStrategy[Record]

    @property
    def dialect(self) -> Dialect:
        """The row of `DIALECTS`."""
        return DIALECTS[self.name]

    def parse(self, text: str) -> Predicate:
        """The predicate that a text of the dialect writes."""
        return parse(text, dialect=self.name)

    def predicates(self, trees: list[Tree]) -> list[Predicate]:
        """The predicates of trees."""
        return [self.parse(self.spell(tree)) for tree in trees]


def worlds_of(
    trees: st.SearchStrategy[Tree], events: st.SearchStrategy[Record]
) -> Callable[[int, int], st.SearchStrategy[World]]:
    """Worlds whose predicates and events are drawn apart."""

    def worlds(least: int, most: int) -> st.SearchStrategy[World]:
        return st.tuples(
            st.lists(trees, min_size=least, max_size=most),
            st.lists(events, min_size=1, max_size=6),
        )

    return worlds


def events_of_x(values: Sequence[Any], first: Sequence[Any]) -> list[Event]:
    """Events without `x`, with every value of it, and with lists of two that begin with `first`."""
    lists = [[a, b] for a in first for b in values]
    return [Event({}), *(Event({"x": value}) for value in [*values, *lists])]


def storable(value: Any) -> bool:
    """Whether JSON carries a value as it is."""
    if isinstance(value, list):
        return all(map(storable, value))
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return not isinstance(value, float) or math.isfinite(value)


def without_nulls(value: Any) -> Any:
    """A value as columns hold it: there a null is absence, for every dialect."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value if v is not None]
    return value


def seen_by(names: Collection[str], event: Record) -> Record:
    """The attributes of an event that names reach: those above, at and below them."""
    return {
        key: value
        for key, value in event.items()
        if any(f"{name}.".startswith(f"{key}.") or key.startswith(f"{name}.") for name in names)
    }


def pairs_of(found: pa.Table) -> list[tuple[int, int]]:
    """Rows and subscriptions that `match_batch` has found."""
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
