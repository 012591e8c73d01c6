"""Filling and spreading: an event meets everything of its key, in as few regions as it takes."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.effort import examples
from tidings.routing.layers.adapting import Adapting

KEYS = st.integers(0, 6)
# What users do: put a key, remove one of those put, or let spreads follow loads.
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS),
        st.tuples(st.just("remove"), st.integers(0, 50)),
        st.tuples(st.just("spread"), st.dictionaries(KEYS, st.floats(0, 100))),
    ),
    max_size=40,
)


class SlowTwin:
    """Every subscription with the regions that store it; an event looks everywhere."""

    def __init__(self) -> None:
        self.held: list[tuple[int, int]] = []  # key and step

    def regions(self, placement: Adapting) -> dict[int, Counter[int]]:
        """By key, how many of its subscriptions each region stores."""
        found: dict[int, Counter[int]] = {}
        for key, step in self.held:
            for region in placement.run(key, step):
                found.setdefault(key, Counter())[region % placement.regions] += 1
        return found


def played(
    changes: list[tuple[str, Any]], regions: int, hops: int, room: int | None
) -> tuple[Adapting, SlowTwin]:
    placement, twin = Adapting(regions, hops, room), SlowTwin()
    for kind, what in changes:
        match kind:
            case "put":
                twin.held.append((what, placement.put(what)))
            case "remove":
                if twin.held:
                    placement.remove(*twin.held.pop(what % len(twin.held)))
            case "spread":
                placement.respread(what, share=4.0)
            case _:
                raise ValueError(kind)
    return placement, twin


@hypothesis_settings(max_examples=examples(300))
@given(
    changes=CHANGES,
    regions=st.integers(1, 12),
    hops=st.integers(1, 5),
    room=st.none() | st.integers(1, 4),
    draw=st.integers(0, 20),
)
def test_an_event_meets_every_subscription_of_its_key_exactly_once(
    changes: list[tuple[str, Any]], regions: int, hops: int, room: int | None, draw: int
) -> None:
    placement, twin = played(changes, regions, hops, room)
    for key in range(7):
        visits = placement.visits(key, draw)
        assert 1 <= len(visits) <= min(hops, regions)
        assert len(set(visits)) == len(visits)
        met: Counter[int] = Counter()
        for step, region in enumerate(visits):
            assert region in {c % regions for c in placement.run(key, step)}
            met[step] += placement.held[key, step]
        assert met.total() == sum(k == key for k, _ in twin.held)
        last = [step for k, step in twin.held if k == key]
        assert len(visits) == 1 + max(last, default=0), "not a step more than it takes"


@hypothesis_settings(max_examples=examples(200))
@given(
    changes=CHANGES,
    regions=st.integers(1, 12),
    hops=st.integers(1, 5),
    room=st.none() | st.integers(1, 4),
)
def test_counts_are_those_of_the_slow_twin(
    changes: list[tuple[str, Any]], regions: int, hops: int, room: int | None
) -> None:
    placement, twin = played(changes, regions, hops, room)
    stored = Counter[int]()
    for by_region in twin.regions(placement).values():
        stored.update(by_region)
    assert +placement.stored == +stored
    assert placement.copies == stored.total()
    for key in range(7):
        for step in range(placement.hops):
            beyond = sum(k == key and s > step for k, s in twin.held)
            assert placement.past[key, step] == beyond


def test_a_region_is_not_filled_past_its_room_while_another_has_some() -> None:
    placement = Adapting(regions=6, hops=3, room=4)
    for _ in range(12):
        placement.put(2)
    assert dict(+placement.stored) == {2: 4, 3: 4, 4: 4}
    placement.put(2)  # nowhere: H is a promise, room is not
    assert placement.copies == 13
    assert placement.put(3) == 2  # region 5


def test_a_step_left_out_at_removal_would_lose_events() -> None:
    """A subscription pushed past a region is met even after those before it are removed."""
    placement = Adapting(regions=6, hops=2, room=1)
    assert (placement.put(0), placement.put(0)) == (0, 1)
    placement.remove(0, 0)
    assert placement.visits(0) == (0, 1)
    placement.remove(0, 1)
    assert placement.visits(0) == (0,)


@given(
    loads=st.lists(st.dictionaries(KEYS, st.floats(0, 1e4), min_size=1), min_size=1, max_size=6),
    puts=st.lists(KEYS, max_size=20),
)
def test_constant_load_ends_all_change(loads: list[dict[int, float]], puts: list[int]) -> None:
    placement = Adapting(regions=32, hops=2)
    for key in puts:
        placement.put(key)
    for load in loads:
        placement.respread(load, share=10.0)
    before = dict(placement.spread)
    assert placement.respread(loads[-1], share=10.0) == 0
    assert placement.spread == before
    assert all(spread & (spread - 1) == 0 for spread in before.values())


def test_a_hot_key_is_spread_and_gathered_again() -> None:
    placement = Adapting(regions=16, hops=1)
    for _ in range(5):
        placement.put(3)
    assert placement.respread({3: 35.0}, share=10.0) == 5 * 3  # three more regions
    assert placement.spread == {3: 4}
    assert {placement.visits(3, draw) for draw in range(8)} == {(3,), (4,), (5,), (6,)}
    assert placement.respread({3: 25.0}, share=10.0) == 0  # hysteresis
    assert placement.respread({3: 1.0}, share=10.0) == 0  # what leaves costs nothing
    assert placement.spread == {}
    assert placement.copies == 5


@pytest.mark.parametrize("wrong", [(0, 1, None), (4, 0, None), (4, 1, 0)])
def test_sizes_that_mean_nothing_are_refused(wrong: tuple[int, int, int | None]) -> None:
    with pytest.raises(ValueError, match="expected a region, a hop and room"):
        Adapting(*wrong)


def test_removing_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a subscription of key 1 at step 0, found none"):
        Adapting(4, 2).remove(1, 0)
