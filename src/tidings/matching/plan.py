"""Compiles filters to a plan: the flat arrays that the kernels read.

Every filter is filed under its most selective constraint; its other constraints are stored beside
it as tests. Two kernels do that work on the ranked filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.matching import plan_kernels as pk
from tidings.matching.constants import Texts, fixed, read_only
from tidings.matching.filing_kernels import file_filters
from tidings.matching.ranking import Ranked, absorbed, rank

if TYPE_CHECKING:
    from tidings.language.constraint import Constraint
    from tidings.language.expression import Expression
    from tidings.matching.statistics import Statistics

Array = np.ndarray[Any, Any]
Whole = np.int32
MANY_RANGES: Final = 2_048  # from this many unselective filters on, they are held in cells


class Plan(NamedTuple):
    """A compiled table: `whole`, `highs` and `texts` for the kernels, the rest for Python."""

    whole: Array
    highs: Array
    texts: Array
    folded: dict[str, str]  # attribute: the name under which its folded values go
    names: dict[str, int]  # the slot of each name, derived ones too
    residuals: list[Expression]
    filters: int
    constraints: int
    room: int  # how much one event may find at most, residuals included
    cells: int  # places of filters held in cells
    scratch: int  # the size of a thread's work array, without the entries of its event

    @property
    def bytes(self) -> int:
        """The size of the arrays."""
        return int(self.whole.nbytes + self.highs.nbytes + self.texts.nbytes)


def compile_plan(
    filters: Sequence[Sequence[Constraint]],
    owners: Array,
    whole_residuals: dict[int, Expression],
    subscriptions: int,
    absorb: bool = False,
    statistics: Statistics | None = None,
) -> Plan:
    """Compile filters; `owners` gives the number of each filter's subscription.

    `whole_residuals` gives the residual of each filter that is only a necessary condition. With
    `absorb`, a filter is dropped if another filter of one constraint of the same subscription
    covers it. `statistics` of events tell which constraints are selective; without them, this is
    estimated from the filters.
    """
    owners = np.asarray(owners, np.int64)
    ranked = rank(filters, whole_residuals, statistics)
    if not absorb:
        return lay_out(ranked, owners, subscriptions)
    all_filters, all_constraints = ranked.filters, int((~ranked.tests.added).sum())
    kept = np.flatnonzero(~absorbed(ranked, owners))
    number = {filter: at for at, filter in enumerate(kept.tolist()) if filter in whole_residuals}
    whole_residuals = {at: whole_residuals[filter] for filter, at in number.items()}
    ranked = rank([filters[filter] for filter in kept.tolist()], whole_residuals, statistics)
    plan = lay_out(ranked, owners[kept], subscriptions)
    return plan._replace(filters=all_filters, constraints=all_constraints)


def lay_out(ranked: Ranked, owners: Array, subscriptions: int) -> Plan:
    """The plan of ranked filters; `owners` gives the number of each filter's subscription."""
    slots = ranked.slots
    names = pa.array(list(slots.numbers), pa.large_string())
    reversed_slots = np.full(len(slots), -1, Whole)
    reversed_slots[list(slots.reversed)] = list(slots.reversed.values())
    numbers, equal, bounds = (fixed(part) for part in ranked.constants)
    lists = file_filters(
        ranked.tests, ranked.filters, len(slots), numbers, equal, bounds,
        np.array([*ranked.patterns.grams, 0]), ranked.members, ranked.shares is not None,
        np.zeros(0) if ranked.shares is None else ranked.shares, MANY_RANGES,
    )  # fmt: skip
    laid = pk.lay_out(
        ranked.tests, lists, owners, subscriptions, fixed(Texts.of(names, np.zeros(len(slots)), 1)),
        reversed_slots, numbers, equal, bounds, fixed(ranked.patterns.texts()), ranked.members,
        ranked.asking, ranked.asked,
    )  # fmt: skip
    if not laid.whole.size:
        raise MemoryError("the plan would pass 2^31 whole numbers; split the subscriptions")
    # Copied, because NumPy asks for large pages and a kernel does not; they speed up matching.
    return Plan(
        read_only(laid.whole.copy()),
        read_only(numbers.highs.copy()),
        read_only(laid.texts.copy()),
        slots.folded,
        slots.numbers,
        list(ranked.residuals),
        ranked.filters,
        laid.constraints,
        subscriptions + 2 * ranked.asking.size + 2,
        laid.cells,
        1 + 3 * len(slots) + laid.lists + 2 + subscriptions,
    )
