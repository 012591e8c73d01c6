"""Ranks recent subscriptions from the records of the recent index, mostly without the GIL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tidings.matching import recent_kernels as rk
from tidings.matching import recent_ranking_kernels as rrk
from tidings.matching.constants import Constants, Patterns, fixed
from tidings.matching.merging import Coordinates, merge, narrow
from tidings.matching.ranking import FOLDED, FOLDED_REVERSED, PLAIN, REVERSED, Slots

if TYPE_CHECKING:
    from tidings.language.predicate import Predicate
    from tidings.matching.recent import RecentIndex
    from tidings.matching.statistics import Statistics

Array = np.ndarray[Any, Any]


def rank_recent(
    recent: RecentIndex,
    numbers: Sequence[int],
    predicates: Sequence[Predicate],
    slots: Slots,
    statistics: Statistics | None = None,
) -> Coordinates:
    """The filters of recent subscriptions; the owner of each is a place in `numbers`.

    These subscriptions are already filed, and others may come and go meanwhile. Subscriptions with
    residuals are ranked from their predicates, and with `statistics` all of them are.
    """
    owners = np.array(numbers, np.int64)
    special = np.full(owners.size, statistics is not None)
    count = int(recent.used[rk.USED_SLOTS])
    straight, backwards = np.zeros(count, bool), np.zeros(count, bool)
    sizes = rrk.look_through(recent.context, owners, special, straight, backwards)
    plainly = owners
    others = np.flatnonzero(special)
    if others.size:
        plainly = owners[~special]
    coordinates = _ranked(recent, plainly, straight, backwards, slots, sizes)
    if not others.size:
        return coordinates
    places = np.flatnonzero(~special)
    coordinates = coordinates.owned_by(places)
    asked = [predicates[place] for place in others.tolist()]
    more = Coordinates.of_predicates(asked, slots, statistics).owned_by(others)
    return merge(coordinates, np.zeros(owners.size, bool), more).coordinates


def _ranked(
    recent: RecentIndex,
    owners: Array,
    straight: Array,
    backwards: Array,
    slots: Slots,
    sizes: Array,
) -> Coordinates:
    """The filters of the subscriptions that the kernels can rank."""
    # Read at once, because others may add to it meanwhile.
    folded = {derived: name for name, derived in list(recent.folded.items())}
    slot_of = np.full((2, straight.size), -1, np.int64)
    for slot in np.flatnonzero(straight | backwards).tolist():
        name = recent.name_of(slot)
        transforms = (FOLDED, FOLDED_REVERSED) if name in folded else (PLAIN, REVERSED)
        for path, needed in enumerate((straight, backwards)):
            if needed[slot]:
                slot_of[path, slot] = slots.of(folded.get(name, name), transforms[path])
    packed, numbers, equal, bounds, contained, data = rrk.rank_held(
        recent.context, owners, slot_of[0], slot_of[1], len(slots), sizes
    )
    patterns = Patterns()
    if len(contained):
        held = data.tobytes()
        texts = [held[begin:end] for begin, end in contained[:, :2].tolist()]
        fits = contained[:, 3].tolist()
        parts = [text for text, whole in zip(texts, fits, strict=True) if not whole]
        wholes = [text for text, whole in zip(texts, fits, strict=True) if whole]
        tests, is_whole = contained[:, 2], contained[:, 3] > 0
        packed.low[tests[~is_whole]] = patterns.contained(parts)
        packed.low[tests[is_whole]] = patterns.fitted(wholes)
    none = np.zeros(0, np.int64)
    return Coordinates(
        packed._replace(slot=narrow(packed.slot, slots)),
        slots,
        Constants(*map(fixed, (numbers, equal, bounds))),
        patterns,
        {},
        none,
        none,
        None,
    )
