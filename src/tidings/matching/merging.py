"""Merges recent subscriptions into a compiled segment without reading its predicates.

A segment can keep the coordinates of its filters beside the plan, fourteen bytes a constraint.
Adding and dropping filters then means to merge the constants of two tables, to move each test to
the new places of its constants, and to lay out a plan. That is a fraction of the work of ranking
millions of constraints anew, and little of it holds the GIL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tidings.matching import merging_kernels as mk
from tidings.matching.constants import Constants, Patterns, fixed
from tidings.matching.merging_kernels import Packed
from tidings.matching.ranking import FlatFilters, Ranked, Slots, rank

if TYPE_CHECKING:
    from tidings.language.expression import Expression
    from tidings.language.predicate import Predicate
    from tidings.matching.statistics import Statistics

Array = np.ndarray[Any, Any]

SPARE: Final = 1_000  # unused attributes, patterns and residuals that are tolerated


class Coordinates(NamedTuple):
    """Ranked filters, packed, with the constants, patterns and residuals they refer to."""

    filters: Packed
    slots: Slots
    constants: Constants
    patterns: Patterns
    residuals: dict[Expression, int]
    asking: Array  # the filters that have a residual,
    asked: Array  # and which
    shares: Array | None  # of events that satisfy each test, if known

    @property
    def bytes(self) -> int:
        """The size of the arrays."""
        numbers, equal, bounds = self.constants
        arrays = [*self.filters, self.asking, self.asked, *numbers, *equal, *bounds]
        return sum(array.nbytes for array in arrays)

    @classmethod
    def of_predicates(
        cls, predicates: list[Predicate], slots: Slots, statistics: Statistics | None = None
    ) -> Coordinates:
        """The filters of predicates, each owned by its place; adds new slots to `slots`."""
        flat = FlatFilters.of(predicates)
        return cls.of(rank(flat.filters, flat.residuals, statistics, slots), flat.owners)

    @classmethod
    def of(cls, ranked: Ranked, owners: Array) -> Coordinates:
        """Pack ranked filters."""
        packed = mk.pack(ranked.tests, ranked.filters, owners, ranked.members)
        return cls(
            packed._replace(slot=narrow(packed.slot, ranked.slots)),
            ranked.slots,
            Constants(*map(fixed, ranked.constants)),
            ranked.patterns,
            ranked.residuals,
            ranked.asking,
            ranked.asked,
            ranked.shares,
        )

    def owned_by(self, owners: Array) -> Coordinates:
        """The same filters with new owners, looked up by the old ones."""
        mapped = owners[self.filters.owners].astype(np.int32)
        return self._replace(filters=self.filters._replace(owners=mapped))


def narrow(slot: Array, slots: Slots) -> Array:
    """Slots in as few bytes as they need."""
    return slot.astype(np.uint16) if len(slots) <= 1 << 16 else slot


class Merged(NamedTuple):
    """Two tables as one."""

    ranked: Ranked
    coordinates: Coordinates
    owners: Array
    wasteful: bool  # it holds much that no filter mentions any more


def merge(old: Coordinates, removed: Array, new: Coordinates) -> Merged:
    """The filters of `old` without those whose owners are removed, and the filters of `new`.

    The slots of `new` continue those of `old`, and subscriptions have the same numbers in both.
    """
    patterns, pattern_number = old.patterns.joined(new.patterns)
    joined = mk.join(
        old.filters, *old.constants, removed, new.filters, *new.constants,
        pattern_number, len(old.patterns.numbers), len(new.slots),
    )  # fmt: skip
    constants = Constants(*map(fixed, (joined.numbers, joined.equal, joined.bounds)))
    residuals, asking, asked = _residuals(old, joined.kept, new)
    shares = None
    if old.shares is not None and new.shares is not None:
        kept = np.repeat(joined.kept, old.filters.sizes)
        shares = np.concatenate((old.shares[kept], new.shares))
    coordinates = Coordinates(
        joined.packed, new.slots, constants, patterns, residuals, asking, asked, shares
    )
    ranked = Ranked(
        joined.tests, joined.owners.size, new.slots, constants, patterns, joined.packed.members,
        residuals, asking, asked, shares,
    )  # fmt: skip
    mentioned = (
        (len(new.slots), joined.slots),
        (len(patterns.numbers), joined.patterns),
        (len(residuals), np.unique(asked).size),
    )
    wasteful = any(there > SPARE + 2 * used for there, used in mentioned)
    return Merged(ranked, coordinates, joined.owners, wasteful)


def _residuals(
    old: Coordinates, kept: Array, new: Coordinates
) -> tuple[dict[Expression, int], Array, Array]:
    """The residuals of both, and which filters have which."""
    if not old.residuals and not new.residuals:
        return {}, old.asking, old.asked
    residuals = dict(old.residuals)
    number_of = [residuals.setdefault(asked, len(residuals)) for asked in new.residuals]
    asks = kept[old.asking]
    number = np.cumsum(kept) - 1
    count = np.count_nonzero(kept)
    asking = np.concatenate((number[old.asking[asks]], count + new.asking))
    asked = np.concatenate((old.asked[asks], np.array(number_of, np.int64)[new.asked]))
    return residuals, asking, asked
