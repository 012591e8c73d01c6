"""The simulator's own predicates: they mean what the language says, and events hit them."""

from random import Random

import pytest

from tests.effort import examples
from tidings.language.predicate import parse
from tidings.sim.predicates import draw_event, draw_predicate


@pytest.mark.parametrize(("size", "count"), [("usual", 400), ("long", 25), ("hostile", 12)])
def test_a_drawn_predicate_means_what_the_language_reads(size: str, count: int, seed: int) -> None:
    matches = drawn = 0
    for number in range(examples(count)):
        chance = Random(f"{size} {seed} {number}")
        predicate = draw_predicate(chance, size)
        parsed = parse(str(predicate))
        for _ in range(10):
            event = draw_event(chance, [predicate], huge=True)
            wanted = predicate.holds(event)
            assert parsed.matches(event) == wanted, (number, str(predicate), event)
            drawn += 1
            matches += wanted
    assert 0.15 < matches / drawn < 0.75


def test_reduction_keeps_the_meaning_of_a_drawn_predicate(seed: int) -> None:
    for number in range(examples(150)):
        chance = Random(f"reduced {seed} {number}")
        predicate = draw_predicate(chance)
        reduced = parse(str(parse(str(predicate)).reduce()))
        for _ in range(8):
            event = draw_event(chance, [predicate])
            assert reduced.matches(event) == predicate.holds(event), (number, str(predicate), event)


def test_a_seed_draws_the_same_predicates_and_events() -> None:
    def drawn() -> list[str]:
        chance = Random(7)
        predicates = [draw_predicate(chance, size) for size in ("usual", "long", "hostile")]
        events = [draw_event(chance, predicates) for _ in range(20)]
        return [*map(str, predicates), repr(events)]

    assert drawn() == drawn()
